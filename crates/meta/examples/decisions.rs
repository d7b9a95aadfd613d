//! Random decisions of an active controller, one a line, and below each its answer and its records.
//!
//!     cargo run -p meta --example decisions -- 400
//!
//! Feeds `tests/interop/controller`, where Apache Kafka has to decide the same. What is decided otherwise on purpose is kept out:
//! a last known leader is never elected by itself here, a broker that is unregistered is no longer eligible anywhere, one that
//! shuts down still does after it amends its registration, where two things happen at once each change is written once, the only replica of a
//! partition stays eligible after an unclean stop, nobody is eligible who is no replica any more, and no replica joins an ISR whose directory
//! is offline.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::io::{self, BufWriter, Write as _};
use std::time::Duration;

use meta::decide::alter_partition::{AlterPartitionError, Member, Proposal, alter_partitions};
use meta::decide::assign_dirs::{AssignDirError, Assignment, assign_dirs};
use meta::decide::elect_leaders::{ElectError, Election, elect_leaders};
use meta::decide::heartbeat::{fence, heartbeat, leads_any, unregister};
use meta::decide::registration::{Before, Registering, register};
use meta::decide::{TopicRules, TopicSettings};
use meta::sessions::{Heartbeat, Sessions, State};
use meta::{Endpoint, Image, Levels, NO_LEADER, Partition, Record, Resource, Topic, Trouble};
use model::{BrokerId, Instant, LeaderEpoch, Offset, PartitionIndex};
use wire::Uuid;
use wire::metadata::{
    ConfigRecord, FeatureLevelRecord, PartitionChangeRecord, PartitionRecord, TopicRecord,
};

const BROKERS: i32 = 5;
const STEPS: usize = 60;
const NOW: Instant = Instant(1_000_000_000);
const ELR_VERSION: &str = "eligible.leader.replicas.version";

fn main() -> io::Result<()> {
    let seeds = std::env::args().nth(1);
    let seeds = seeds.and_then(|seeds| seeds.parse().ok()).unwrap_or(400);
    let mut out = BufWriter::new(io::stdout().lock());
    for seed in 0..seeds {
        let mut run = Run::new(seed);
        run.begin(seed);
        (0..STEPS).for_each(|_| run.step());
        out.write_all(run.out.as_bytes())?;
    }
    out.flush()
}

/// Settings are those in the image alone.
struct InImage;

impl TopicSettings for InImage {
    fn of(&self, image: &Image, topic: &str) -> TopicRules {
        let own = image.overrides(&Resource::topic(topic));
        let shared = image.overrides(&Resource::cluster());
        let min_isr = own.get("min.insync.replicas");
        let min_isr = min_isr.or_else(|| shared.get("min.insync.replicas"));
        TopicRules {
            min_isr: min_isr.and_then(|min| min.parse().ok()).unwrap_or(1),
            may_be_unclean: own.contains_key("unclean.leader.election.enable"),
        }
    }
}

/// Vigna's xorshift64*.
struct Chance(u64);

impl Chance {
    fn below(&mut self, bound: usize) -> usize {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        let high = self.0.wrapping_mul(0x2545_f491_4f6c_dd1d) >> 33;
        usize::try_from(high).unwrap_or(0) % bound
    }

    /// True once in `of` times.
    fn once_in(&mut self, of: usize) -> bool {
        self.below(of) == 0
    }

    fn broker(&mut self) -> BrokerId {
        BrokerId(1 + i32::try_from(self.below(5)).unwrap_or(0))
    }

    fn of<'a, T>(&mut self, list: &'a [T]) -> Option<&'a T> {
        let bound = list.len().max(1);
        list.get(self.below(bound))
    }
}

struct Run {
    chance: Chance,
    image: Image,
    sessions: Sessions,
    lives: BTreeMap<BrokerId, u8>,
    /// Where a record fenced a broker that has not registered since.
    fenced_at: BTreeMap<BrokerId, i64>,
    out: String,
}

/// One decision: the line for Kafka, the answer, the records.
struct Decided {
    line: String,
    answer: String,
    records: Vec<Record>,
}

impl Run {
    fn new(seed: u64) -> Run {
        let image = Image::default();
        Run {
            chance: Chance(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1),
            sessions: Sessions::new(&image, Duration::from_secs(9), NOW),
            image,
            lives: BTreeMap::new(),
            fenced_at: BTreeMap::new(),
            out: String::new(),
        }
    }

    fn begin(&mut self, seed: u64) {
        let _ = writeln!(self.out, "cluster {seed}");
        let has_eligible = !self.chance.once_in(3);
        for (name, level) in [
            ("metadata.version", 30),
            (ELR_VERSION, i16::from(has_eligible)),
        ] {
            let name = name.to_owned();
            let level = FeatureLevelRecord {
                name,
                feature_level: level,
            };
            self.base(level.into());
        }
        let min = 1 + self.chance.below(3);
        self.base(setting(4, "", "min.insync.replicas", &min.to_string()));
        for id in 1..=BROKERS {
            self.register(BrokerId(id), true);
            self.beat_of(BrokerId(id), None);
        }
        for (name, number) in [("clean", 1), ("unclean", 2)] {
            let topic_id = Uuid([number; 16]);
            let name = name.to_owned();
            self.base(TopicRecord { name, topic_id }.into());
            for at in 0..4 {
                self.partition(topic_id, at);
            }
        }
        self.base(setting(
            2,
            "unclean",
            "unclean.leader.election.enable",
            "true",
        ));
    }

    fn partition(&mut self, topic_id: Uuid, partition_id: i32) {
        let mut replicas: Vec<i32> = (1..=BROKERS).collect();
        while 1 + self.chance.below(4) < replicas.len() {
            let at = self.chance.below(replicas.len());
            replicas.remove(at);
        }
        let first = self.chance.below(replicas.len());
        replicas.rotate_left(first);
        let record = PartitionRecord {
            partition_id,
            topic_id,
            isr: replicas.clone(),
            leader: replicas[0],
            leader_epoch: 0,
            partition_epoch: 0,
            directories: replicas.iter().map(|id| dir(BrokerId(*id), 1)).collect(),
            replicas,
            ..PartitionRecord::default()
        };
        self.base(record.into());
    }

    /// A record that nobody decides here.
    fn base(&mut self, record: Record) {
        let values = self.write(&[record]).expect("it fits");
        let _ = writeln!(self.out, "base {}", values[0]);
    }

    /// Replays what was decided. `None`: what it leads to is decided otherwise on purpose, so nothing was written.
    fn write(&mut self, records: &[Record]) -> Option<Vec<String>> {
        let written = meta::write(&self.image, self.image.next_place(), records);
        let written = written.expect("decided records fit");
        let is_lost = |one: &Partition| {
            one.leader == NO_LEADER && one.isr.is_empty() && one.eligible_leaders.is_empty()
        };
        if partitions(&written.image).any(|(_, _, one)| is_lost(one)) {
            return None;
        }
        self.image = written.image;
        let hex = |value: &bytes::Bytes| {
            value.iter().fold(String::new(), |mut hex, byte| {
                let _ = write!(hex, "{byte:02x}");
                hex
            })
        };
        Some(written.values.iter().map(hex).collect())
    }

    fn put(&mut self, decided: &Decided) -> bool {
        let Some(values) = self.write(&decided.records) else {
            return false;
        };
        let Decided { line, answer, .. } = decided;
        let _ = writeln!(self.out, "{line}\n=> {answer} {}", values.join(" "));
        true
    }

    fn step(&mut self) {
        let broker = self.chance.broker();
        match self.chance.below(12) {
            0 => self.fence(broker),
            1 => {
                let is_new = !self.chance.once_in(4);
                self.register(broker, is_new);
            }
            2 | 3 => self.beat(broker),
            4 => {
                self.refresh(broker);
                self.beat_of(broker, None);
            }
            5 => self.assign(broker),
            6 => self.elect(),
            7 => self.reassign(),
            8 => self.unregister(broker),
            _ => self.alter(),
        }
    }

    fn fence(&mut self, broker: BrokerId) {
        let known = self.image.broker(broker);
        let Some(epoch) = known
            .filter(|known| known.is_active())
            .map(|known| known.epoch)
        else {
            return;
        };
        let decided = Decided {
            line: format!("fence {broker}"),
            answer: "done".into(),
            records: fence(&self.image, &InImage, broker),
        };
        if self.put(&decided) {
            assert!(self.sessions.on_dead(broker, epoch, NOW));
            let over = self.sessions.over(NOW);
            assert_eq!(over.map(|over| over.broker), Some(broker));
            let end = self.image.end() - 1;
            self.fenced_at.insert(broker, end);
            self.sessions.on_fenced(broker, Offset(end));
        }
    }

    fn register(&mut self, id: BrokerId, is_new: bool) {
        let life = self.lives.get(&id).copied().unwrap_or(0) + u8::from(is_new);
        let stored = self.image.broker(id).map(|known| known.epoch);
        // Kafka forgets that a broker shuts down when it amends its registration; here it still waits for the others.
        let known = self.image.broker(id);
        let is_amendable = known.is_some_and(|known| !known.is_shutting_down);
        if life == 0 || (!is_new && !is_amendable) {
            return;
        }
        let is_only = |one: &Partition| one.replicas == [id];
        let has_alone = partitions(&self.image).any(|(_, _, one)| is_only(one));
        let previous_epoch = stored.filter(|_| !self.chance.once_in(3) || has_alone);
        let levels = |min, max| Levels { min, max };
        let registering = Registering {
            id,
            incarnation: Uuid([life; 16]),
            endpoints: Vec::<Endpoint>::new(),
            features: BTreeMap::from([
                ("metadata.version".to_owned(), levels(7, 30)),
                (ELR_VERSION.to_owned(), levels(0, 1)),
            ]),
            rack: self.chance.once_in(2).then(|| "r".to_owned()),
            log_dirs: vec![dir(id, 1), dir(id, 2)],
            before: Before {
                epoch: previous_epoch,
                incarnations: Vec::new(),
            },
            before_in: BTreeMap::new(),
        };
        let decided = register(&self.image, &InImage, &registering, false);
        let decided = decided.expect("it fits");
        let features = (registering.features.iter())
            .map(|(name, levels)| format!("{name}:{}:{}", levels.min, levels.max));
        let line = format!(
            "register {id} {} {} {} {} {}",
            hex(registering.incarnation),
            previous_epoch.unwrap_or(-1),
            registering.rack.as_deref().unwrap_or("-"),
            hexes(&registering.log_dirs),
            features.collect::<Vec<String>>().join(","),
        );
        let put = Decided {
            line,
            answer: decided.epoch.to_string(),
            records: decided.records,
        };
        if self.put(&put) {
            self.lives.insert(id, life);
            self.fenced_at.remove(&id);
            let at = Offset(self.image.end() - 1);
            (self.sessions).on_registered(id, decided.epoch, decided.is_fenced, at);
        }
    }

    fn beat(&mut self, broker: BrokerId) {
        let wants = (self.chance.once_in(4), self.chance.once_in(3));
        self.beat_of(broker, Some(wants));
    }

    /// A heartbeat of a broker that has applied all there is and wants nothing, or of one that says more.
    fn beat_of(&mut self, broker: BrokerId, wants: Option<(bool, bool)>) {
        if wants.is_some() {
            self.refresh(broker);
        }
        let Some(mut beat) = self.plain_beat(broker) else {
            return;
        };
        if let Some((wants_fence, wants_shut_down)) = wants {
            (beat.wants_fence, beat.wants_shut_down) = (wants_fence, wants_shut_down);
            let behind = i64::try_from(self.chance.below(20)).unwrap_or(0);
            // Ours wants what fenced a broker to be applied, Kafka its registration alone.
            let fenced_at = self.fenced_at.get(&broker).copied();
            let applied = beat.metadata_offset - behind;
            beat.metadata_offset = fenced_at.map_or(applied, |at| applied.max(at));
            beat.epoch -= i64::from(self.chance.once_in(10));
            if self.chance.once_in(6) {
                beat.failed_log_dirs = vec![dir(broker, 1), dir(broker, 9)];
            }
            if self.chance.once_in(3) {
                beat.cordoned_log_dirs = Some(vec![dir(broker, 2)]);
            }
        }
        if beat.failed_log_dirs.is_empty() || self.is_steady(&beat) {
            self.put_beat(&beat);
        }
    }

    /// All others say how far they are: Kafka forgets it of a broker whose registration changes.
    fn refresh(&mut self, broker: BrokerId) {
        let is_up = |other: &BrokerId| {
            let beat = self.plain_beat(*other)?;
            let step = self.sessions.clone().on_heartbeat(&beat, || true, NOW);
            step.ok().filter(|step| step.from == State::Unfenced)
        };
        let others = (1..=BROKERS).map(BrokerId).filter(|other| *other != broker);
        let others: Vec<BrokerId> = others.filter(|other| is_up(other).is_some()).collect();
        for other in others {
            self.beat_of(other, None);
        }
    }

    fn plain_beat(&self, broker: BrokerId) -> Option<Heartbeat> {
        Some(Heartbeat {
            broker,
            epoch: self.image.broker(broker)?.epoch,
            metadata_offset: self.image.end(),
            ..Heartbeat::default()
        })
    }

    /// True if the state of the broker stays.
    fn is_steady(&self, beat: &Heartbeat) -> bool {
        let leads = || leads_any(&self.image, beat.broker);
        let step = self.sessions.clone().on_heartbeat(beat, leads, NOW);
        step.is_ok_and(|step| step.from == step.to)
    }

    fn put_beat(&mut self, beat: &Heartbeat) {
        let broker = beat.broker;
        let line = format!(
            "beat {broker} {} {} {} {} {} {}",
            beat.epoch,
            beat.metadata_offset,
            u8::from(beat.wants_fence),
            u8::from(beat.wants_shut_down),
            hexes(&beat.failed_log_dirs),
            (beat.cordoned_log_dirs.as_deref()).map_or("none".to_owned(), hexes),
        );
        let mut sessions = self.sessions.clone();
        let leads = || leads_any(&self.image, broker);
        let Ok(step) = sessions.on_heartbeat(beat, leads, NOW) else {
            self.put(&Decided {
                line,
                answer: "StaleBrokerEpochException".into(),
                records: Vec::new(),
            });
            return;
        };
        let is_fenced = matches!(step.to, State::Fenced | State::Down);
        let answer = [
            if step.is_caught_up {
                "caught-up"
            } else {
                "behind"
            },
            if is_fenced { "fenced" } else { "unfenced" },
            if step.to == State::Down {
                "goes"
            } else {
                "stays"
            },
        ];
        let decided = Decided {
            line,
            answer: answer.join(","),
            records: heartbeat(&self.image, &InImage, beat, step),
        };
        if self.put(&decided) {
            self.sessions = sessions;
            let end = self.image.end() - 1;
            if is_fenced && step.from != step.to {
                self.fenced_at.insert(broker, end);
            }
            self.sessions.on_step(broker, step.to, Offset(end));
        }
    }

    fn any_partition(&mut self) -> Option<(Topic, PartitionIndex, Partition)> {
        let all: Vec<(&Topic, PartitionIndex, &Partition)> = partitions(&self.image).collect();
        let (topic, index, partition) = self.chance.of(&all)?;
        Some(((*topic).clone(), *index, (*partition).clone()))
    }

    fn assign(&mut self, broker: BrokerId) {
        let Some((topic, index, _)) = self.any_partition() else {
            return;
        };
        let Some(epoch) = self.image.broker(broker).map(|known| known.epoch) else {
            return;
        };
        let number = [1, 2, 2, 9][self.chance.below(4)];
        let assignment = Assignment {
            dir: dir(broker, number),
            topic: topic.id,
            partition: index,
        };
        let decided = assign_dirs(&self.image, &InImage, broker, epoch, &[assignment]);
        let decided = decided.expect("the epoch is right");
        let known = self.image.broker(broker);
        let works = known.is_some_and(|known| known.log_dirs.contains(&assignment.dir));
        if !works && !Run::is_simple(&decided.records) {
            return;
        }
        let answer = match decided.answers[0] {
            Ok(()) => 0,
            Err(AssignDirError::UnknownTopic) => 100,
            Err(AssignDirError::UnknownPartition) => 3,
            Err(AssignDirError::NotReplica) => 6,
        };
        let (dir, topic) = (hex(assignment.dir), hex(topic.id));
        self.put(&Decided {
            line: format!("assign {broker} {epoch} {dir} {topic} {}", index.0),
            answer: answer.to_string(),
            records: decided.records,
        });
    }

    /// True if the first record says only where the replica is: what else it says Kafka says twice if the directory has failed.
    fn is_simple(records: &[Record]) -> bool {
        let [Record::PartitionChange(first), ..] = records else {
            return true;
        };
        let only = PartitionChangeRecord {
            topic_id: first.topic_id,
            partition_id: first.partition_id,
            directories: first.directories.clone(),
            ..PartitionChangeRecord::default()
        };
        *first == only
    }

    fn elect(&mut self) {
        let Some((topic, index, _)) = self.any_partition() else {
            return;
        };
        let (kind, election) = if self.chance.once_in(2) {
            (0, Election::Preferred)
        } else {
            (1, Election::Unclean)
        };
        let asked = [(topic.name.to_string(), vec![index.0])];
        let decided = elect_leaders(&self.image, &InImage, election, Some(&asked));
        let answer = match decided.answers[0].1[0].1 {
            Ok(()) => 0,
            Err(ElectError::NotNeeded) => 84,
            Err(ElectError::NoPreferred) => 80,
            Err(ElectError::NoEligible) => 83,
            Err(_) => 3,
        };
        self.put(&Decided {
            line: format!("elect {kind} {} {}", topic.name, index.0),
            answer: answer.to_string(),
            records: decided.records,
        });
    }

    /// A reassignment begins, as a record: nothing here decides one yet.
    fn reassign(&mut self) {
        let Some((topic, index, one)) = self.any_partition() else {
            return;
        };
        let broker = self.chance.broker();
        let is_under_way = !(one.adding.is_empty() && one.removing.is_empty());
        if is_under_way || one.replicas.contains(&broker) {
            return;
        }
        let leaves = one.replicas.last().filter(|_| self.chance.once_in(2));
        let replicas: Vec<i32> = std::iter::once(broker.0)
            .chain(one.replicas.iter().map(|id| id.0))
            .collect();
        let directories = std::iter::once(dir(broker, 1)).chain(one.directories.iter().copied());
        let change = PartitionChangeRecord {
            topic_id: topic.id,
            partition_id: index.0,
            replicas: Some(replicas),
            adding_replicas: Some(vec![broker.0]),
            removing_replicas: leaves.map(|id| vec![id.0]),
            directories: Some(directories.collect()),
            ..PartitionChangeRecord::default()
        };
        self.base(change.into());
    }

    fn unregister(&mut self, broker: BrokerId) {
        let is_needed = |one: &Partition| {
            one.replicas.contains(&broker) || one.eligible_leaders.contains(&broker)
        };
        if !self.chance.once_in(8) && partitions(&self.image).any(|(_, _, one)| is_needed(one)) {
            return;
        }
        let has_eligible = 1 <= self.image.feature(ELR_VERSION);
        let had =
            |one: &Partition| one.isr.contains(&broker) || one.eligible_leaders.contains(&broker);
        if has_eligible && partitions(&self.image).any(|(_, _, one)| had(one)) {
            return;
        }
        let Ok(records) = unregister(&self.image, &InImage, broker) else {
            return;
        };
        let decided = Decided {
            line: format!("unregister {broker}"),
            answer: "done".into(),
            records,
        };
        if self.put(&decided) {
            self.sessions.on_unregistered(broker);
        }
    }

    fn alter(&mut self) {
        let Some((topic, index, one)) = self.any_partition() else {
            return;
        };
        let Some(known) = self.image.broker(one.leader) else {
            return;
        };
        let (leader, epoch) = (one.leader, known.epoch);
        let mut ids: Vec<BrokerId> = one.replicas.clone();
        ids.retain(|id| *id == leader || !self.chance.once_in(3));
        let is_removed = |id: &BrokerId| one.removing.contains(id);
        let stay = ids.iter().filter(|id| !is_removed(id)).count();
        let min_isr = InImage.of(&self.image, &topic.name).min_isr;
        let mut complete = one.isr.iter().chain(&one.eligible_leaders).chain(&ids);
        if stay < min_isr && complete.any(is_removed) {
            return;
        }
        let member = |id: BrokerId| {
            let known = self.image.broker(id).map(|known| known.epoch);
            let epoch = known.unwrap_or(7) + i64::from(self.chance.once_in(20));
            Member {
                broker: id,
                epoch: Some(epoch).filter(|_| !self.chance.once_in(8)),
            }
        };
        let is_online = |id: &BrokerId| {
            let dirs = self.image.broker(*id).map(|known| &known.log_dirs);
            (one.directory(*id))
                .is_some_and(|dir| dirs.is_some_and(|dirs| meta::dir::is_online(dir, dirs)))
        };
        if !ids.iter().all(|id| one.isr.contains(id) || is_online(id)) {
            return;
        }
        let isr: Vec<Member> = ids.into_iter().map(member).collect();
        let slip = |chance: &mut Chance| match chance.below(24) {
            0 => 1,
            1 => -1,
            _ => 0,
        };
        let proposal = Proposal {
            topic: topic.id,
            partition: index,
            leader_epoch: LeaderEpoch(one.leader_epoch.0 + slip(&mut self.chance)),
            partition_epoch: one.epoch + slip(&mut self.chance),
            isr,
            is_recovering: if self.chance.once_in(4) {
                self.chance.once_in(2)
            } else {
                one.is_recovering
            },
        };
        let members = proposal.isr.iter();
        let members = members.map(|one| format!("{}:{}", one.broker, one.epoch.unwrap_or(-1)));
        let line = format!(
            "alter {leader} {epoch} {} {} {} {} {} {}",
            hex(topic.id),
            index.0,
            proposal.leader_epoch.0,
            proposal.partition_epoch,
            u8::from(proposal.is_recovering),
            members.collect::<Vec<String>>().join(","),
        );
        let decided = alter_partitions(
            &self.image,
            &InImage,
            &Trouble::default(),
            (leader, epoch),
            &[proposal],
        );
        let decided = decided.expect("the epoch is right");
        let answer = match &decided.answers[0].2 {
            Ok(_) => 0,
            Err(AlterPartitionError::UnknownTopic) => 100,
            Err(AlterPartitionError::UnknownPartition) => 3,
            Err(AlterPartitionError::NotController) => 41,
            Err(AlterPartitionError::FencedLeaderEpoch) => 74,
            Err(AlterPartitionError::InvalidRequest) => 42,
            Err(AlterPartitionError::InvalidUpdateVersion) => 95,
            Err(AlterPartitionError::IneligibleReplica) => 107,
            Err(AlterPartitionError::NewLeaderElected) => 108,
        };
        self.put(&Decided {
            line,
            answer: answer.to_string(),
            records: decided.records,
        });
    }
}

fn partitions(image: &Image) -> impl Iterator<Item = (&Topic, PartitionIndex, &Partition)> {
    image.topics().flat_map(|topic| {
        let all = topic.partitions.iter().zip(0..);
        all.map(|(partition, at)| (topic.as_ref(), PartitionIndex(at), partition))
    })
}

fn setting(kind: i8, resource: &str, name: &str, value: &str) -> Record {
    ConfigRecord {
        resource_type: kind,
        resource_name: resource.into(),
        name: name.into(),
        value: Some(value.into()),
    }
    .into()
}

fn dir(broker: BrokerId, number: u8) -> Uuid {
    let mut bytes = [7; 16];
    (bytes[0], bytes[1]) = (number, u8::try_from(broker.0).unwrap_or(0));
    Uuid(bytes)
}

fn hex(id: Uuid) -> String {
    format!("{:032x}", u128::from_be_bytes(id.0))
}

fn hexes(ids: &[Uuid]) -> String {
    if ids.is_empty() {
        return "-".into();
    }
    ids.iter()
        .map(|id| hex(*id))
        .collect::<Vec<String>>()
        .join(",")
}
