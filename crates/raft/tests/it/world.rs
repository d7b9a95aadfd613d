//! Replicas with perfect disks, their clocks and the network between them, which a script drives.

mod clock;
mod network;
mod script;

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use model::{BrokerId, Instant, LeaderEpoch, Offset, Timestamp};
use raft::{
    Alarm, Boot, CallId, Effect, Event, History, Left, Life, Listener, LogView, Me, Moment, Quorum,
    Replica, RoleName, Settings, SnapshotFacts, SnapshotId, VersionRange, VoteFile, VoteNumber,
    VoterSet,
};
use wire::Uuid;
use wire::records::Batch;

use crate::disk::{Directory, Kept, Write, apply};
use crate::nodes::{LISTENER, listeners, replica, voter};
use network::Parcel;

/// The cluster of nodes that were members before the script begins.
const CLUSTER: &str = "scripts";

/// A replica. Each has a clock of its own, as machines have.
#[derive(Default)]
struct Node {
    now: u64,
    quorum: Option<Quorum>,
    batches: Vec<Batch>,
    durable: Vec<Batch>,
    start: Option<SnapshotId>,
    snapshots: BTreeMap<SnapshotId, SnapshotFacts>,
    pending: VecDeque<(Write, Life)>,
    vote: Option<raft::Election>,
    pending_votes: VecDeque<(VoteNumber, Kept)>,
    holds: bool,
    /// The id of the cluster in its directory.
    cluster: Option<String>,
    /// Writes of that id do not come to an end.
    is_mute: bool,
    /// It was told that it is the active controller.
    is_active: bool,
    /// The nodes of other clusters that it named.
    strangers: Vec<i32>,
    lost_vote: bool,
    committed: Offset,
    /// The watermark that its next start finds.
    checkpoint: Offset,
    /// Alarms of a leader that lacks what is committed.
    shuns: usize,
    /// Its settings name no other voter.
    is_alone: bool,
    /// Names of its listeners; the first is the one that voters are dialled at. `None`: [`LISTENER`].
    names: Option<Vec<String>>,
    /// The nodes that its settings name to ask for the leader; `None`: all.
    seeds: Option<Vec<i32>>,
    alarms: usize,
    /// The reason of the end of the last leadership.
    left: Option<Left>,
    answers: Vec<i16>,
    /// It goes by the id of another node.
    alias: Option<i32>,
    /// Snapshots that it fetches come damaged, so many of them.
    spoilt: usize,
    downloads: usize,
}

impl Node {
    fn is_gone(&self) -> bool {
        self.quorum.is_none()
    }

    fn store(&mut self, kept: Kept) {
        match kept {
            Kept::Vote(election) => self.vote = Some(election),
            Kept::Cluster(cluster) => {
                assert_eq!(self.cluster, None, "a node has one cluster in its life");
                self.cluster = Some(cluster);
            }
        }
    }
}

#[derive(Default)]
pub(crate) struct World {
    nodes: BTreeMap<i32, Node>,
    voters: i32,
    dynamic: bool,
    queue: VecDeque<(i32, i32, Parcel)>,
    cut: BTreeSet<i32>,
    values: u8,
    /// Of each request: the node that asked, its call, and the node that was asked.
    ways: BTreeMap<u64, (i32, Option<CallId>, i32)>,
    callers: u64,
    knows_no_pre_votes: bool,
    /// Starts so far: each proposes a cluster of its own.
    starts: u32,
    kept: BTreeMap<i32, Directory>,
}

fn number(word: &str) -> i32 {
    word.parse().unwrap_or_else(|_| panic!("no number: {word}"))
}

impl World {
    fn node(&mut self, id: i32) -> &mut Node {
        self.nodes.get_mut(&id).expect("a node of this number")
    }

    fn quorum(&mut self, id: i32) -> &mut Quorum {
        self.node(id).quorum.as_mut().expect("it runs")
    }

    fn quorum_ref(&self, id: i32) -> &Quorum {
        self.nodes[&id].quorum.as_ref().expect("it runs")
    }

    fn moment(&self, id: i32) -> Moment {
        Moment {
            now: Instant(self.nodes[&id].now),
            wall: Timestamp(1),
        }
    }

    fn start(&mut self, id: i32) {
        let (at, dynamic, first) = (self.moment(id), self.dynamic, self.voters);
        let count = self.nodes.len() as i32;
        self.starts += 1;
        let proposal = format!("start-{}", self.starts);
        let node = self.node(id);
        node.is_active = false;
        let named = (1..=first).filter(|other| *other == id || !node.is_alone);
        let set = VoterSet::of(named.map(|id| {
            let mut voter = voter(id);
            if !dynamic {
                voter.replica.directory = Uuid::ZERO;
            }
            voter
        }));
        let mut log = LogView::starting_at(node.start);
        let mut history = History::default();
        if dynamic {
            let facts = SnapshotFacts {
                voters: Some(set),
                version: Some(1),
                cluster: None,
            };
            node.snapshots.entry(SnapshotId::BOOTSTRAP).or_insert(facts);
            let at = node.start.unwrap_or(SnapshotId::BOOTSTRAP);
            history.restart(at, &node.snapshots[&at]);
        } else if node.seeds.is_none() {
            history = History::new(set);
        }
        for id in node.snapshots.keys() {
            log.add_snapshot(*id, 1);
        }
        for batch in &node.batches {
            log.note(batch).unwrap();
            history.note(batch).unwrap();
        }
        log.believe();
        let vote = match node.vote {
            _ if node.lost_vote => VoteFile::Lost,
            Some(election) => VoteFile::Known(election),
            None => VoteFile::Fresh,
        };
        let boot = Boot {
            log,
            history,
            vote,
            committed: node.checkpoint,
        };
        let names = node.names.clone();
        let names = names.unwrap_or_else(|| vec![LISTENER.to_owned()]);
        let seeds = node.seeds.clone();
        let seeds = seeds.unwrap_or_else(|| (1..=count).collect());
        let me = Me {
            replica: Replica {
                id: BrokerId(node.alias.unwrap_or(id)),
                ..replica(id)
            },
            cluster: node.cluster.clone(),
            proposal,
            listeners: names
                .iter()
                .map(|name| Listener {
                    name: name.clone(),
                    ..listeners(id).remove(0)
                })
                .collect(),
            listener: names.first().cloned().unwrap_or(LISTENER.to_owned()),
            seeds: if dynamic || node.seeds.is_some() {
                seeds
                    .into_iter()
                    .flat_map(listeners)
                    .map(|listener| listener.endpoint)
                    .collect()
            } else {
                Vec::new()
            },
            versions: VersionRange { min: 0, max: 1 },
        };
        let (quorum, effects) = Quorum::new(me, Settings::default(), boot, id as u64, at);
        node.quorum = Some(quorum);
        self.perform(id, effects);
    }

    fn restart(&mut self, id: i32, keeps_all: bool) {
        let node = self.node(id);
        node.quorum = None;
        let votes = std::mem::take(&mut node.pending_votes);
        if keeps_all {
            votes.into_iter().for_each(|(_, kept)| node.store(kept));
        } else {
            node.batches = node.durable.clone();
        }
        node.durable = node.batches.clone();
        node.pending.clear();
        node.holds = false;
        self.queue.retain(|(from, to, _)| *from != id && *to != id);
        self.start(id);
    }

    fn step(&mut self, id: i32, event: Event) {
        let at = self.moment(id);
        let Some(quorum) = &mut self.node(id).quorum else {
            return;
        };
        let effects = quorum.step(at, event);
        self.perform(id, effects);
    }

    fn perform(&mut self, id: i32, effects: Vec<Effect>) {
        for effect in effects {
            self.effect(id, effect);
        }
        self.report(id);
    }

    /// The disk says what it has done, unless it is held.
    fn report(&mut self, id: i32) {
        while !self.node(id).holds {
            let node = self.node(id);
            let waits = |(_, kept): &(VoteNumber, Kept)| matches!(kept, Kept::Cluster(_));
            if node.is_mute && node.pending_votes.front().is_some_and(waits) {
                return;
            }
            if let Some((number, kept)) = node.pending_votes.pop_front() {
                node.store(kept);
                self.step(id, Event::VoteStored { number });
            } else if let Some((write, life)) = node.pending.pop_front() {
                let up_to = apply(&mut node.durable, &write);
                self.step(id, Event::Synced { up_to, life });
            } else {
                return;
            }
        }
    }

    fn effect(&mut self, id: i32, effect: Effect) {
        let node = self.node(id);
        match effect {
            Effect::StoreVote {
                number, election, ..
            } => node.pending_votes.push_back((number, Kept::Vote(election))),
            Effect::StoreCluster { number, cluster } => {
                node.pending_votes
                    .push_back((number, Kept::Cluster(cluster)));
            }
            Effect::Append { batches, life } => {
                for batch in batches {
                    node.batches.push(batch.clone());
                    node.pending.push_back((Write::Append(batch), life));
                }
            }
            Effect::Cut { to, life } => {
                apply(&mut node.batches, &Write::Cut(to));
                node.pending.push_back((Write::Cut(to), life));
            }
            Effect::Restart { at, life } => {
                apply(&mut node.batches, &Write::Restart(at));
                node.start = Some(at);
                node.pending.push_back((Write::Restart(at), life));
            }
            Effect::Send {
                call,
                peer,
                request,
            } => {
                let to = number(&peer.endpoint.host);
                let parcel = Parcel::Request(id, call, request);
                self.queue.push_back((id, to, parcel));
            }
            Effect::Answer {
                caller,
                response,
                fill,
            } => self.answer(id, caller, response, fill),
            Effect::Committed { up_to } => node.committed = up_to,
            Effect::FinishSnapshot { id: snapshot, .. } if node.spoilt > 0 => {
                node.spoilt -= 1;
                node.downloads += 1;
                self.step(id, Event::SnapshotDamaged { id: snapshot });
            }
            Effect::FinishSnapshot { id: snapshot, .. } => {
                node.downloads += 1;
                let facts = self.facts(snapshot);
                self.node(id).snapshots.insert(snapshot, facts.clone());
                let event = Event::SnapshotInstalled {
                    id: snapshot,
                    size: 1,
                    facts,
                };
                self.step(id, event);
            }
            Effect::Trim { to } => {
                let start = node.snapshots.keys().find(|known| known.end == to);
                node.start = start.copied();
                node.batches.retain(|batch| batch.base_offset() >= to);
                node.durable.retain(|batch| batch.base_offset() >= to);
            }
            Effect::DeleteSnapshot { id } => drop(node.snapshots.remove(&id)),
            Effect::Alarm(alarm) => {
                node.alarms += 1;
                node.shuns += usize::from(matches!(alarm, Alarm::BelowCommitted { .. }));
                if let Alarm::OtherCluster { node: other, .. } = alarm {
                    node.strangers.push(other.map_or(-1, |other| other.0));
                }
            }
            Effect::LeadershipEnded { why, .. } => node.left = Some(why),
            Effect::LeaderChanged { leader, .. } => node.is_active = leader == Some(BrokerId(id)),
            Effect::Accepted { .. }
            | Effect::Remembered
            | Effect::Refused { .. }
            | Effect::WriteSnapshot { .. }
            | Effect::DropSnapshot { .. } => {}
        }
    }

    /// The facts in some node's snapshot of this name.
    fn facts(&self, id: SnapshotId) -> SnapshotFacts {
        let mut nodes = self.nodes.values();
        let facts = nodes.find_map(|node| node.snapshots.get(&id));
        facts.expect("somebody has the snapshot").clone()
    }

    fn snapshot(&mut self, id: i32) {
        let end = self.node(id).committed;
        let quorum = self.quorum(id);
        let snapshot = quorum.snapshot_id(end).expect("it is committed");
        let facts = quorum.history().facts_at(end);
        self.node(id).snapshots.insert(snapshot, facts);
        self.step(
            id,
            Event::SnapshotWritten {
                id: snapshot,
                size: 1,
            },
        );
    }

    pub(crate) fn committed(&self, id: i32) -> Offset {
        self.quorum_ref(id).watermark().unwrap_or_default()
    }

    pub(crate) fn leads(&self, id: i32) -> bool {
        self.quorum_ref(id).role() == RoleName::Leader
    }

    /// The epoch of a node, for tests that are no scripts.
    #[must_use]
    pub(crate) fn epoch(&self, id: i32) -> LeaderEpoch {
        self.quorum_ref(id).epoch()
    }
}
