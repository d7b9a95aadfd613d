//! Random members of random groups, with restarts and refused writes, against what must always hold:
//!
//! - every caller is answered once, and not twice;
//! - a generation has one assignment, and each part of it one owner; generations do not go back;
//! - a machine that reads the log, compacted or not, knows what the one that wrote it knows;
//! - offsets are those of a plain model.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use bytes::Bytes;
use coord::group::ask::{
    Commit, CommitPartition, CommitTopic, Delete, Describe, Described, FetchOffsets, Heartbeat,
    Join, Leave, Leaver, MemberAssignment, Protocol, Sync, TopicKey, TxnCommit,
};
use coord::group::{Answer, Ask, ClassicState, Groups, Settings};
use coord::txn::Producer;
use model::{LeaderEpoch, Offset, PartitionIndex, ProducerEpoch, ProducerId, Ticket};
use wire::ErrorCode;

use crate::world::{Entry, World, caller};

const GROUPS: [&str; 2] = ["g", "h"];

struct Rng(u64);

impl Rng {
    fn next(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0.wrapping_mul(0x2545_F491_4F6C_DD1D) >> 16
    }

    fn below(&mut self, count: usize) -> usize {
        usize::try_from(self.next()).expect("64 bits") % count
    }

    fn one_in(&mut self, count: usize) -> bool {
        self.below(count) == 0
    }
}

/// A client as far as it knows itself.
#[derive(Default)]
struct Player {
    group: &'static str,
    instance: Option<String>,
    id: String,
    generation: i32,
    /// The members, if it leads.
    leads: Vec<String>,
    wants: Want,
}

#[derive(Clone, Copy, Default)]
enum Want {
    #[default]
    Join,
    Sync,
    /// It has an assignment.
    Stay,
}

/// The question, to make sense of the answer.
enum Asked {
    Join {
        player: usize,
    },
    Sync {
        player: usize,
        id: String,
        generation: i32,
    },
    Commit {
        group: &'static str,
        offsets: Vec<(i32, i64)>,
    },
    Txn {
        group: &'static str,
        producer: i64,
        offsets: Vec<(i32, i64)>,
    },
    Delete {
        group: &'static str,
    },
    Beat {
        player: usize,
    },
    Other,
}

/// One group between two deletions.
#[derive(Default)]
struct Life {
    generation: i32,
    /// The assignment that members of a generation were given, and who holds each part.
    assignments: BTreeMap<i32, (String, BTreeMap<String, String>)>,
    /// Holders that were replaced.
    replaced: BTreeSet<(i32, String, String)>,
}

/// Offsets by partition, each with its place in the order of commits.
type Model = BTreeMap<i32, (u64, i64)>;

struct Play {
    seed: u64,
    rng: Rng,
    world: World,
    players: Vec<Player>,
    open: BTreeMap<Ticket, Asked>,
    lives: BTreeMap<&'static str, Life>,
    offsets: BTreeMap<&'static str, Model>,
    pending: BTreeMap<(i64, &'static str), Model>,
    order: u64,
    /// How often what is interesting happened, so that a test of nothing does not pass.
    seen: BTreeMap<&'static str, usize>,
}

#[test]
fn random_groups_keep_their_promises() {
    let mut seen: BTreeMap<&'static str, usize> = BTreeMap::new();
    for seed in 1..=80 {
        let mut play = Play::new(seed);
        for _ in 0..400 {
            play.step();
        }
        play.finish();
        for (what, count) in play.seen {
            *seen.entry(what).or_default() += count;
        }
    }
    for what in [
        "joined", "assigned", "replaced", "refused", "restart", "txn", "deleted", "lost",
    ] {
        let count = seen.get(what).copied().unwrap_or(0);
        assert!(count > 20, "{what} happened {count} times only: {seen:?}");
    }
}

impl Play {
    fn new(seed: u64) -> Self {
        let settings = Settings {
            initial_rebalance_delay_ms: 1_000,
            members_max: 5,
            ..Settings::default()
        };
        let instances = [None, None, None, Some("A"), Some("A"), Some("B")];
        let players = (0..12).map(|n| Player {
            group: GROUPS[n % 2],
            instance: instances[n / 2].map(str::to_owned),
            generation: -1,
            ..Player::default()
        });
        Play {
            seed,
            rng: Rng(seed.wrapping_mul(0x9E37_79B9_7F4A_7C15)),
            world: World::new(settings),
            players: players.collect(),
            open: BTreeMap::new(),
            lives: GROUPS.map(|group| (group, Life::default())).into(),
            offsets: GROUPS.map(|group| (group, Model::new())).into(),
            pending: BTreeMap::new(),
            order: 0,
            seen: BTreeMap::new(),
        }
    }

    fn saw(&mut self, what: &'static str) {
        *self.seen.entry(what).or_default() += 1;
    }

    fn step(&mut self) {
        self.world.refuses = self.rng.one_in(20);
        let player = self.rng.below(self.players.len());
        match self.rng.below(40) {
            0..20 => match (self.players[player].wants, self.rng.below(20)) {
                (Want::Join, _) | (_, 0) => self.join(player),
                (Want::Stay, 2..6) if self.players[player].instance.is_some() => {
                    self.players[player].id.clear();
                    self.join(player);
                }
                (Want::Sync, _) | (_, 1) => self.sync(player),
                (Want::Stay, _) => self.beat(player),
            },
            20..24 => self.beat(player),
            24 => self.leave(player),
            25..28 => self.commit(player),
            28..30 => self.txn(player),
            30 => {
                let producer = i64::try_from(self.rng.below(2)).expect("small");
                let committed = !self.rng.one_in(3);
                self.marker(producer, committed);
            }
            31 => {
                let group = self.players[player].group;
                let ask = Ask::Delete(Delete {
                    group_id: group.to_owned(),
                });
                self.ask(ask, Asked::Delete { group });
            }
            32 if self.rng.one_in(4) => self.restart(),
            33 if self.rng.one_in(4) => self.pass(8_000),
            34..36 => self.pass(1_500),
            _ => self.pass(200),
        }
        self.world.refuses = false;
        self.hear();
        self.compare_with_model();
        if self.rng.one_in(8) {
            self.compare();
        }
    }

    /// In the end everyone is answered.
    fn finish(&mut self) {
        self.pass(700_000);
        self.hear();
        assert!(
            self.open.is_empty(),
            "seed {}: {} wait for ever",
            self.seed,
            self.open.len()
        );
        for group in GROUPS {
            let Answer::Describe(described) = self.read(describe(group)) else {
                panic!("no description");
            };
            let is_deserted = described.as_ref().is_ok_and(|it| it.members.is_empty());
            let is_gone = described.is_err();
            assert!(is_deserted || is_gone, "seed {}: {described:?}", self.seed);
        }
    }

    fn pass(&mut self, ms: u64) {
        self.world.pass(Duration::from_millis(ms));
    }

    fn ask(&mut self, ask: Ask, asked: Asked) {
        // The answer may already be there: it is heard after the step.
        let caller = self.world.ask(ask);
        self.open.insert(caller, asked);
    }

    fn restart(&mut self) {
        self.hear();
        self.saw("restart");
        self.open.clear();
        self.world.restart();
        for group in GROUPS {
            let written = self.written(group);
            let life = self.lives.get_mut(group).expect("a life");
            if written < life.generation {
                life.generation = written;
                *self.seen.entry("lost").or_default() += 1;
            }
        }
    }

    /// The generation that the log has for a group.
    fn written(&self, group: &str) -> i32 {
        let mut generation = 0;
        for entry in &self.world.log {
            let Entry::Record { key, value, .. } = entry else {
                continue;
            };
            let record = wire::group::GroupRecord::decode(key.clone(), value.clone());
            if let Ok(wire::group::GroupRecord::GroupMetadata(key, value)) = record
                && key.group == group
            {
                generation = value.map_or(0, |value| value.generation);
            }
        }
        generation
    }

    fn join(&mut self, player: usize) {
        let fresh = self.world.fresh();
        if self.rng.one_in(8) {
            // The process is a new one.
            self.players[player].id.clear();
        }
        let metadata = if self.rng.one_in(4) { "new" } else { "same" };
        let names: &[&str] = match self.rng.below(4) {
            0 => &["rr", "range"],
            1 => &["range"],
            _ => &["range", "rr"],
        };
        let Player {
            group,
            instance,
            id,
            ..
        } = &self.players[player];
        let ask = Ask::Join(Join {
            group_id: (*group).to_owned(),
            session_timeout_ms: 6_000,
            rebalance_timeout_ms: Some(9_000),
            member_id: id.clone(),
            instance_id: instance.clone(),
            protocol_type: "consumer".to_owned(),
            protocols: names
                .iter()
                .map(|name| Protocol {
                    name: (*name).to_owned(),
                    metadata: Bytes::from_static(metadata.as_bytes()),
                })
                .collect(),
            needs_member_id: true,
            may_skip_assignment: player.is_multiple_of(3),
            fresh,
            ..Join::default()
        });
        self.ask(ask, Asked::Join { player });
    }

    fn sync(&mut self, player: usize) {
        let Player {
            group,
            instance,
            id,
            generation,
            leads,
            ..
        } = &self.players[player];
        let token = self.world.now;
        let part = |member: &String| MemberAssignment {
            member_id: member.clone(),
            assignment: Bytes::from(format!("{token}.{player}/{member}")),
        };
        let sync = Sync {
            group_id: (*group).to_owned(),
            generation: *generation,
            member_id: id.clone(),
            instance_id: instance.clone(),
            assignments: leads.iter().map(part).collect(),
            ..Sync::default()
        };
        let asked = Asked::Sync {
            player,
            id: id.clone(),
            generation: *generation,
        };
        self.ask(Ask::Sync(sync), asked);
    }

    fn beat(&mut self, player: usize) {
        let Player {
            group,
            instance,
            id,
            generation,
            ..
        } = &self.players[player];
        let beat = Heartbeat {
            group_id: (*group).to_owned(),
            generation: *generation,
            member_id: id.clone(),
            instance_id: instance.clone(),
        };
        self.ask(Ask::Heartbeat(beat), Asked::Beat { player });
    }

    fn leave(&mut self, player: usize) {
        let Player {
            group,
            instance,
            id,
            ..
        } = &self.players[player];
        let leaver = Leaver {
            member_id: id.clone(),
            instance_id: instance.clone(),
            reason: None,
        };
        let ask = Ask::Leave(Leave {
            group_id: (*group).to_owned(),
            members: vec![leaver],
        });
        self.ask(ask, Asked::Other);
    }

    fn some_offsets(&mut self) -> Vec<(i32, i64)> {
        let partition = i32::try_from(self.rng.below(3)).expect("small");
        vec![(
            partition,
            i64::try_from(self.rng.below(1000)).expect("small"),
        )]
    }

    fn commit(&mut self, player: usize) {
        let offsets = self.some_offsets();
        let Player {
            group,
            id,
            generation,
            ..
        } = &self.players[player];
        let is_plain = self.seed.is_multiple_of(3);
        let ask = Ask::Commit(Commit {
            group_id: (*group).to_owned(),
            member_id: if is_plain { String::new() } else { id.clone() },
            instance_id: None,
            generation: if is_plain { -1 } else { *generation },
            knows_member_epochs: true,
            retention_ms: None,
            topics: commit_topics(&offsets),
        });
        let asked = Asked::Commit { group, offsets };
        self.ask(ask, asked);
    }

    fn txn(&mut self, player: usize) {
        let offsets = self.some_offsets();
        let producer = i64::try_from(self.rng.below(2)).expect("small");
        let Player { group, .. } = &self.players[player];
        let commit = TxnCommit {
            group_id: (*group).to_owned(),
            member_id: String::new(),
            instance_id: None,
            generation: -1,
            knows_member_epochs: false,
            producer: Producer {
                id: ProducerId(producer),
                epoch: ProducerEpoch(0),
            },
            topics: commit_topics(&offsets),
        };
        let asked = Asked::Txn {
            group,
            producer,
            offsets,
        };
        self.ask(Ask::TxnCommit(commit), asked);
    }

    fn marker(&mut self, producer: i64, committed: bool) {
        self.hear();
        self.world.marker(producer, committed);
        for group in GROUPS {
            let pending = self.pending.remove(&(producer, group)).unwrap_or_default();
            let offsets = self.offsets.get_mut(group).expect("a group");
            for (partition, new) in pending.into_iter().filter(|_| committed) {
                let old = offsets.entry(partition).or_insert(new);
                *old = new.max(*old);
            }
        }
    }

    fn hear(&mut self) {
        for (caller, told) in std::mem::take(&mut self.world.told) {
            let asked = self.open.remove(&caller);
            let asked = asked.unwrap_or_else(|| panic!("seed {}: answered twice", self.seed));
            match told {
                Ok(answer) => self.on_answer(asked, answer),
                Err(()) => self.saw("refused"),
            }
        }
    }

    fn on_answer(&mut self, asked: Asked, answer: Answer) {
        match (asked, answer) {
            (Asked::Join { player }, Answer::Join(joined)) => {
                let player = &mut self.players[player];
                match joined {
                    Ok(joined) => {
                        let life = self.lives.get_mut(player.group).expect("a life");
                        assert!(
                            life.generation <= joined.generation,
                            "seed {}: generation {} after {}",
                            self.seed,
                            joined.generation,
                            life.generation
                        );
                        life.generation = joined.generation;
                        player.id = joined.member_id;
                        player.generation = joined.generation;
                        player.wants = Want::Sync;
                        player.leads = Vec::new();
                        if !joined.skip_assignment {
                            let members = joined.members.into_iter();
                            player.leads = members.map(|member| member.member_id).collect();
                        }
                        self.saw("joined");
                    }
                    Err(refusal) => {
                        player.id = match refusal.code {
                            ErrorCode::MemberIdRequired => refusal.member_id,
                            _ => String::new(),
                        };
                        player.wants = Want::Join;
                    }
                }
            }
            (Asked::Beat { player }, Answer::Heartbeat(beat)) => {
                if beat.is_err() {
                    self.players[player].wants = Want::Join;
                }
            }
            (
                Asked::Sync {
                    player,
                    id,
                    generation,
                },
                Answer::Sync(synced),
            ) => {
                let is_ok = synced.is_ok();
                self.players[player].wants = if is_ok { Want::Stay } else { Want::Join };
                if let Ok(synced) = synced
                    && !synced.assignment.is_empty()
                {
                    let group = self.players[player].group;
                    let text = String::from_utf8(synced.assignment.to_vec()).expect("own text");
                    self.on_assigned(group, generation, id, &text);
                }
            }
            (Asked::Commit { group, offsets }, Answer::Commit(committed)) => {
                self.order += 1;
                for (asked, told) in offsets.iter().zip(&committed) {
                    if told.is_ok() {
                        let model = self.offsets.get_mut(group).expect("a group");
                        model.insert(asked.0, (self.order, asked.1));
                    }
                }
            }
            (
                Asked::Txn {
                    group,
                    producer,
                    offsets,
                },
                Answer::TxnCommit(committed),
            ) => {
                self.order += 1;
                for (asked, told) in offsets.iter().zip(&committed) {
                    if told.is_ok() {
                        let model = self.pending.entry((producer, group)).or_default();
                        model.insert(asked.0, (self.order, asked.1));
                        *self.seen.entry("txn").or_default() += 1;
                    }
                }
            }
            (Asked::Delete { group }, Answer::Delete(deleted)) => {
                if deleted.is_ok() {
                    self.saw("deleted");
                    self.lives.insert(group, Life::default());
                    self.offsets.insert(group, Model::new());
                    self.pending.retain(|(_, of), _| *of != group);
                }
            }
            (Asked::Other, _) => {}
            (_, answer) => panic!("seed {}: not what was asked: {answer:?}", self.seed),
        }
    }

    fn on_assigned(&mut self, group: &str, generation: i32, id: String, text: &str) {
        let (token, part) = text.split_once('/').expect("token and part");
        let seed = self.seed;
        let life = self.lives.get_mut(group).expect("a life");
        let (known, holders) = life
            .assignments
            .entry(generation)
            .or_insert_with(|| (token.to_owned(), BTreeMap::new()));
        assert_eq!(
            known, token,
            "seed {seed}: two assignments of generation {generation}"
        );
        let before = holders.insert(part.to_owned(), id.clone());
        let mark = (generation, part.to_owned(), id.clone());
        assert!(
            !life.replaced.contains(&mark),
            "seed {seed}: {id} was replaced as owner"
        );
        let is_replaced = before.as_ref().is_some_and(|before| *before != id);
        if let Some(before) = before.filter(|before| *before != id) {
            life.replaced.insert((generation, part.to_owned(), before));
        }
        self.saw("assigned");
        if is_replaced {
            self.saw("replaced");
        }
    }

    fn read(&mut self, ask: Ask) -> Answer {
        read(&mut self.world.groups, &self.world.settings, ask)
    }

    /// The log says all that is to be known.
    fn compare(&mut self) {
        let whole = self.world.reloaded();
        let compacted = reload(&compact(&self.world.log), &self.world);
        for mut fresh in [whole, compacted] {
            for group in GROUPS {
                for require_stable in [false, true] {
                    let live = self.read(fetch(group, require_stable));
                    let read = read(
                        &mut fresh,
                        &self.world.settings,
                        fetch(group, require_stable),
                    );
                    assert_eq!(live, read, "seed {}", self.seed);
                }
                let live = durable(self.read(describe(group)));
                let is_settled = |described: &Described| {
                    matches!(described.state, ClassicState::Stable | ClassicState::Empty)
                };
                if live.as_ref().map_or(true, is_settled) {
                    let read = durable(read(&mut fresh, &self.world.settings, describe(group)));
                    let is_lost = self.is_empty_in_memory_only(&live, &read);
                    assert!(
                        live == read || is_lost,
                        "seed {}:\n{live:?}\n{read:?}",
                        self.seed
                    );
                }
            }
        }
    }

    /// A group without members has nothing to lose: if the record that says so was refused, the log still has the last
    /// generation, whose members fall silent after a restart. A group that only waits for a member is not written at all.
    fn is_empty_in_memory_only(&self, live: &Durable, read: &Durable) -> bool {
        let was_refused = self.seen.contains_key("refused") || self.world.has_refused;
        let is_empty = |live: &Described| live.state == ClassicState::Empty;
        live.as_ref().is_ok_and(is_empty) && (read.is_err() || was_refused)
    }

    fn compare_with_model(&mut self) {
        for group in GROUPS {
            let Answer::FetchOffsets(fetched) = self.read(fetch(group, false)) else {
                panic!("no offsets");
            };
            let topics = fetched.expect("tools may ask");
            let partitions = topics.iter().flat_map(|topic| &topic.partitions);
            let live: BTreeMap<i32, i64> = partitions
                .map(|partition| {
                    let found = partition.found.as_ref().expect("no error");
                    let offset = found.as_ref().expect("an offset").offset;
                    (partition.index.0, offset.0)
                })
                .collect();
            let model = self.offsets[group]
                .iter()
                .map(|(index, (_, offset))| (*index, *offset));
            assert_eq!(
                live,
                model.collect(),
                "seed {}: offsets of {group}",
                self.seed
            );
        }
    }
}

fn describe(group: &str) -> Ask {
    Ask::Describe(Describe {
        group_id: group.to_owned(),
    })
}

fn fetch(group: &str, require_stable: bool) -> Ask {
    Ask::FetchOffsets(FetchOffsets {
        group_id: group.to_owned(),
        member_id: None,
        member_epoch: -1,
        topics: None,
        require_stable,
    })
}

/// Asks that change nothing.
fn read(groups: &mut Groups, settings: &Settings, ask: Ask) -> Answer {
    let world = World::new(settings.clone());
    let step = groups.ask(caller(u64::MAX), ask, world.at(), &world.topics);
    assert!(step.records.is_empty());
    let mut answers = step.answers.into_iter();
    answers.next().expect("an answer").into_parts().1
}

fn reload(log: &[Entry], world: &World) -> Groups {
    let mut groups = Groups::new(std::sync::Arc::clone(&world.settings));
    for entry in log {
        entry.replay(&mut groups);
    }
    groups
}

/// The records that a cleaner leaves: below the first open transaction the last of each key, without those of aborted transactions.
fn compact(log: &[Entry]) -> Vec<Entry> {
    let end_of = |from: usize, producer| {
        log.iter().skip(from).find_map(|entry| match entry {
            Entry::Marker {
                producer: of,
                committed,
            } if *of == producer => Some(*committed),
            _ => None,
        })
    };
    let fates: Vec<Option<bool>> = (0..log.len())
        .map(|index| match &log[index] {
            Entry::Record {
                producer: Some((producer, _)),
                ..
            } => end_of(index, *producer),
            _ => Some(true),
        })
        .collect();
    let stable = fates.iter().position(Option::is_none).unwrap_or(log.len());
    let mut later = BTreeSet::new();
    let mut kept: Vec<Entry> = log[stable..].iter().rev().cloned().collect();
    for (entry, fate) in log[..stable].iter().zip(&fates).rev() {
        let is_kept = match entry {
            Entry::Record { key, .. } => *fate == Some(true) && later.insert(key.clone()),
            Entry::Marker { .. } => true,
        };
        if is_kept {
            kept.push(entry.clone());
        }
    }
    kept.reverse();
    kept
}

/// A description, or the code of its refusal.
type Durable = Result<Described, ErrorCode>;

/// Why a group rebalanced last is remembered by the process alone.
fn durable(answer: Answer) -> Durable {
    let Answer::Describe(described) = answer else {
        panic!("no description: {answer:?}");
    };
    let described = described.map_err(|refusal| refusal.code)?;
    Ok(Described {
        last_rebalance: None,
        ..described
    })
}

fn commit_topics(offsets: &[(i32, i64)]) -> Vec<CommitTopic> {
    let partition = |&(index, offset): &(i32, i64)| CommitPartition {
        index: PartitionIndex(index),
        offset: Offset(offset),
        leader_epoch: LeaderEpoch::NONE,
        metadata: String::new(),
    };
    vec![CommitTopic {
        topic: TopicKey::Name("t".to_owned()),
        partitions: offsets.iter().map(partition).collect(),
    }]
}
