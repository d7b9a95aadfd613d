//! The model cluster: time, messages, disks, and the driver that performs what the machines want.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet, BinaryHeap, HashMap};

use bytes::Bytes;
use env::sim::Chance;
use model::{Offset, Timestamp};
use raft::control::{self, Control};
use raft::{
    CallId, Caller, Effect, Event, Failure, Quorum, Replica, Request, Response, RoleName,
    SnapshotFacts, SnapshotId,
};
use wire::messages::api_versions_response::SupportedFeatureKey;
use wire::messages::{
    ApiVersionsResponse, KRaftVersionRecord, SnapshotFooterRecord, SnapshotHeaderRecord,
};
use wire::records::{Batch, BatchBuilder};

use super::disk::Disk;
use super::node::{Before, CLUSTER, Node, VERSIONS, first_voters};
use super::oracle::Oracle;
use super::plan::{MS, Plan};

/// An item of the queue of events, each with its time.
#[derive(Clone, Debug)]
pub(super) enum Item {
    Arrive {
        to: u32,
        boot: Option<u32>,
        parcel: Parcel,
    },
    Tick {
        node: u32,
        boot: u32,
    },
    Synced {
        node: u32,
        boot: u32,
    },
    VoteSynced {
        node: u32,
        boot: u32,
    },
    Verify {
        node: u32,
        boot: u32,
        id: SnapshotId,
    },
    Start {
        node: u32,
    },
    Strike,
    VoterDies {
        node: u32,
    },
    Append,
    Change,
    Snapshot,
    Reconnect {
        pair: (u32, u32),
    },
}

/// A message under way.
#[derive(Clone, Debug)]
pub(super) enum Parcel {
    Request {
        from: u32,
        boot: u32,
        call: CallId,
        request: Request,
    },
    Response {
        call: CallId,
        response: Response,
    },
    Failed {
        call: CallId,
        failure: Failure,
    },
}

/// An answer's way back: nobody's if an operator asked.
#[derive(Clone, Debug)]
pub(super) struct Way {
    pub(super) back: Option<(u32, u32, CallId)>,
    pub(super) asked: Request,
}

/// Counts of the events of a run.
#[derive(Clone, Copy, Debug, Default)]
pub struct Counts {
    pub events: u64,
    pub elections: u64,
    pub batches: u64,
    pub cuts: u64,
    pub restarts: u64,
    pub snapshots: u64,
    pub changes: u64,
    pub kills: u64,
    pub power_cuts: u64,
    pub votes_lost: u64,
    pub wipes: u64,
    /// Starts of voters with settings that name no other.
    pub refused: u64,
}

impl Counts {
    pub fn add(&mut self, other: &Counts) {
        self.events += other.events;
        self.elections += other.elections;
        self.batches += other.batches;
        self.cuts += other.cuts;
        self.restarts += other.restarts;
        self.snapshots += other.snapshots;
        self.changes += other.changes;
        self.kills += other.kills;
        self.power_cuts += other.power_cuts;
        self.votes_lost += other.votes_lost;
        self.wipes += other.wipes;
        self.refused += other.refused;
    }
}

struct Due {
    time: u64,
    number: u64,
    item: Item,
}

impl PartialEq for Due {
    fn eq(&self, other: &Due) -> bool {
        (self.time, self.number) == (other.time, other.number)
    }
}
impl Eq for Due {}
impl PartialOrd for Due {
    fn partial_cmp(&self, other: &Due) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}
impl Ord for Due {
    fn cmp(&self, other: &Due) -> std::cmp::Ordering {
        (self.time, self.number).cmp(&(other.time, other.number))
    }
}

pub(super) struct World {
    pub(super) plan: Plan,
    pub(super) chance: Chance,
    pub(super) now: u64,
    pub(super) nodes: BTreeMap<u32, Node>,
    /// Disks of replicas that are gone for good: what they had, they had.
    pub(super) buried: Vec<(Replica, Disk)>,
    pub(super) is_healed: bool,
    /// Until then an operator's request to add a voter may be under way.
    pub(super) joins_until: u64,
    pub(super) counts: Counts,
    pub(super) oracle: Oracle,
    /// Ordered pairs that do not hear each other, and how many faults say so.
    pub(super) deaf: BTreeMap<(u32, u32), u32>,
    queue: BinaryHeap<Reverse<Due>>,
    scheduled: u64,
    pub(super) ways: HashMap<Caller, Way>,
    callers: u64,
    pub(super) values: u64,
    /// Ends of batches that were accepted after the healing.
    pub(super) probe: Option<Offset>,
    is_verbose: bool,
    trace: u64,
}

pub(super) type Broken = Result<(), String>;

impl World {
    pub(super) fn new(seed: u64, plan: Plan, is_verbose: bool) -> World {
        let mut chance = Chance::new(seed);
        let count = plan.voters + plan.observers;
        let nodes = (1..=count).map(|number| {
            let from = chance.between(0, 1_000_000) * MS;
            let ppm = 1_000_000 - plan.drift_ppm / 2 + chance.between(0, plan.drift_ppm);
            (number, Node::new(number, from, ppm))
        });
        let nodes = nodes.collect();
        let mut world = World {
            plan,
            chance: chance.clone(),
            now: 0,
            nodes,
            buried: Vec::new(),
            is_healed: false,
            joins_until: 0,
            counts: Counts::default(),
            oracle: Oracle::default(),
            deaf: BTreeMap::new(),
            queue: BinaryHeap::new(),
            scheduled: 0,
            ways: HashMap::new(),
            callers: 0,
            values: 0,
            probe: None,
            is_verbose,
            trace: seed,
        };
        let numbers: Vec<u32> = world.nodes.keys().copied().collect();
        for number in numbers {
            world.format(number);
            let at = world.chance.below(500 * MS);
            world.at(at, Item::Start { node: number });
        }
        world
    }

    /// A formatted directory of a dynamic quorum names the first voters in its bootstrap snapshot.
    pub(super) fn format(&mut self, number: u32) {
        if !self.plan.is_dynamic {
            return;
        }
        let facts = SnapshotFacts {
            voters: Some(first_voters(&self.plan)),
            version: Some(1),
            cluster: None,
        };
        let bytes = snapshot(&facts, 0);
        let Some(node) = self.nodes.get_mut(&number) else {
            return;
        };
        node.disk.snapshots.insert(SnapshotId::BOOTSTRAP, bytes);
        node.facts.insert(SnapshotId::BOOTSTRAP, facts);
        // A formatted directory has an id, and one that joins asks for it.
        node.disk.cluster = Some(CLUSTER.to_owned());
    }

    pub(super) fn trace(&self) -> u64 {
        self.trace
    }

    pub(super) fn say(&mut self, what: impl FnOnce() -> String) {
        if self.is_verbose {
            println!("{:>10.3} ms  {}", self.now as f64 / MS as f64, what());
        }
    }

    pub(super) fn at(&mut self, time: u64, item: Item) {
        self.scheduled += 1;
        let due = Due {
            time: time.max(self.now),
            number: self.scheduled,
            item,
        };
        self.queue.push(Reverse(due));
    }

    pub(super) fn after(&mut self, wait: u64, item: Item) {
        self.at(self.now + wait, item);
    }

    /// Plays until `end`.
    pub(super) fn play(&mut self, end: u64) -> Broken {
        while let Some(Reverse(due)) = self.queue.pop() {
            if due.time > end {
                self.queue.push(Reverse(due));
                break;
            }
            self.now = due.time;
            self.counts.events += 1;
            self.handle(due.item)?;
        }
        self.now = end;
        Ok(())
    }

    fn handle(&mut self, item: Item) -> Broken {
        match item {
            Item::Strike => self.strike(),
            Item::VoterDies { node } => {
                self.voter_dies(node);
                Ok(())
            }
            Item::Append => self.append(),
            Item::Change => self.change(),
            Item::Snapshot => self.take_snapshot(),
            Item::Start { node } => self.start(node),
            Item::Reconnect { pair } => {
                self.reconnect(pair);
                Ok(())
            }
            Item::Arrive { to, .. }
            | Item::Tick { node: to, .. }
            | Item::Synced { node: to, .. }
            | Item::VoteSynced { node: to, .. }
            | Item::Verify { node: to, .. } => {
                let paused = self.nodes.get(&to).map_or(0, |node| node.paused_until);
                if paused > self.now {
                    self.at(paused, item);
                    return Ok(());
                }
                self.of_node(item)
            }
        }
    }

    fn of_node(&mut self, item: Item) -> Broken {
        let now = self.now;
        match item {
            Item::Arrive { to, boot, parcel } => self.arrive(to, boot, parcel),
            Item::Tick { node, boot } => {
                let Some(at) = self.running(node, boot) else {
                    return Ok(());
                };
                // One that an earlier wake-up has replaced is nothing.
                if at.tick_at.is_none_or(|due| due > now) {
                    return Ok(());
                }
                at.tick_at = None;
                self.step(node, Event::Tick)
            }
            Item::Synced { node, boot } => {
                let Some(at) = self.running(node, boot) else {
                    return Ok(());
                };
                let Some((up_to, life)) = at.disk.sync() else {
                    return Ok(());
                };
                self.step(node, Event::Synced { up_to, life })
            }
            Item::VoteSynced { node, boot } => {
                let Some(at) = self.running(node, boot) else {
                    return Ok(());
                };
                let Some(number) = at.disk.sync_vote() else {
                    return Ok(());
                };
                self.step(node, Event::VoteStored { number })
            }
            Item::Verify { node, boot, id } => self.verify(node, boot, id),
            _ => Ok(()),
        }
    }

    /// The node, if this start of it still runs.
    pub(super) fn running(&mut self, number: u32, boot: u32) -> Option<&mut Node> {
        let node = self.nodes.get_mut(&number)?;
        (node.boot == boot && node.quorum.is_some()).then_some(node)
    }

    fn start(&mut self, number: u32) -> Broken {
        let seed = self.chance.next_u64();
        let (now, plan, nodes) = (self.now, self.plan.clone(), self.nodes.len() as u32);
        let Some(node) = self.nodes.get_mut(&number) else {
            return Ok(());
        };
        if node.quorum.is_some() {
            return Ok(());
        }
        let before = node.before();
        let Some(effects) = node.start(now, &plan, nodes, seed) else {
            self.counts.refused += 1;
            self.say(|| format!("n{number} is refused: others vote"));
            // The operator reads the line.
            self.after(500 * MS, Item::Start { node: number });
            return Ok(());
        };
        self.say(|| format!("n{number} starts"));
        self.perform(number, before, effects)
    }

    fn arrive(&mut self, to: u32, boot: Option<u32>, parcel: Parcel) -> Broken {
        let node = self.nodes.get(&to);
        let runs = node
            .is_some_and(|node| node.quorum.is_some() && boot.is_none_or(|boot| boot == node.boot));
        if !runs {
            // Nobody listens: the connection is refused, if the way back is open.
            if let Parcel::Request {
                from, boot, call, ..
            } = parcel
            {
                let failure = Failure::Disconnected;
                self.send(to, from, Some(boot), Parcel::Failed { call, failure });
            }
            return Ok(());
        }
        match parcel {
            Parcel::Request {
                from,
                boot,
                call,
                request,
            } => {
                if matches!(request, Request::ApiVersions(_)) {
                    let response = Response::ApiVersions(ApiVersionsResponse {
                        supported_features: vec![SupportedFeatureKey {
                            name: "kraft.version".to_owned(),
                            min_version: VERSIONS.min,
                            max_version: VERSIONS.max,
                        }],
                        ..Default::default()
                    });
                    self.send(to, from, Some(boot), Parcel::Response { call, response });
                    return Ok(());
                }
                let caller = self.caller(Some((from, boot, call)), request.clone());
                self.step(to, Event::Request { caller, request })
            }
            Parcel::Response { call, response } => self.step(to, Event::Answer { call, response }),
            Parcel::Failed { call, failure } => self.step(to, Event::Failed { call, failure }),
        }
    }

    pub(super) fn caller(&mut self, back: Option<(u32, u32, CallId)>, asked: Request) -> Caller {
        self.callers += 1;
        let caller = Caller(self.callers);
        self.ways.insert(caller, Way { back, asked });
        caller
    }

    /// An operator asks a node for something.
    pub(super) fn ask(&mut self, to: u32, request: Request) -> Broken {
        let caller = self.caller(None, request.clone());
        self.step(to, Event::Request { caller, request })
    }

    /// One event of one machine, what it causes, and a look at what became of it.
    pub(super) fn step(&mut self, number: u32, event: Event) -> Broken {
        let now = self.now;
        let Some(node) = self.nodes.get_mut(&number) else {
            return Ok(());
        };
        let before = node.before();
        let at = node.moment(now);
        let Some(quorum) = &mut node.quorum else {
            return Ok(());
        };
        let said = self.is_verbose.then(|| short(&format!("{event:?}")));
        let effects = quorum.step(at, event);
        if let Some(said) = said {
            let state = format!("{:?} {}", quorum.role(), quorum.epoch());
            self.say(|| format!("n{number} {state} <- {said}"));
        }
        self.perform(number, before, effects)
    }

    fn perform(&mut self, number: u32, before: Before, effects: Vec<Effect>) -> Broken {
        for effect in effects {
            if self.is_verbose {
                let said = short(&format!("{effect:?}"));
                self.say(|| format!("n{number}     -> {said}"));
            }
            self.effect(number, effect)?;
        }
        self.look(number, before)?;
        self.arrange_tick(number);
        Ok(())
    }

    fn arrange_tick(&mut self, number: u32) {
        let Some(node) = self.nodes.get_mut(&number) else {
            return;
        };
        let deadline = node.quorum.as_ref().and_then(raft::Quorum::next_deadline);
        let Some(deadline) = deadline.filter(|deadline| deadline.0 < u64::MAX / 4) else {
            return;
        };
        // A nanosecond at least, so that a deadline that is not met shows as a run that never ends.
        let time = node.world_time(deadline).max(self.now + 1);
        if node
            .tick_at
            .is_none_or(|known| known > time || known <= self.now)
        {
            node.tick_at = Some(time);
            let boot = node.boot;
            self.at(time, Item::Tick { node: number, boot });
        }
    }

    /// Looks at a node after an event.
    fn look(&mut self, number: u32, before: Before) -> Broken {
        let Some(node) = self.nodes.get(&number) else {
            return Ok(());
        };
        let Some(quorum) = &node.quorum else {
            return Ok(());
        };
        let (role, epoch) = (quorum.role(), quorum.epoch());
        let mixed = (self.trace ^ self.now ^ (u64::from(number) << 56)).rotate_left(7);
        self.trace =
            mixed.wrapping_mul(0x9e37_79b9_7f4a_7c15) ^ (epoch.0 as u64) ^ (role as u64) << 32;
        if role == RoleName::Leader {
            self.oracle.on_leader(epoch, node.replica, &node.disk.now)?;
        }
        let is_new = !quorum.remembers() && !node.has_lost_vote;
        if let Some(node) = self.nodes.get_mut(&number) {
            node.is_new = is_new;
        }
        self.look_at_voters(number, before)?;
        self.look_at_watermark(number, before)?;
        self.look_at_cluster(number)
    }

    /// Nothing but a committed record gives an id: two halves of the voters never take two.
    fn look_at_cluster(&self, number: u32) -> Broken {
        let node = self.nodes.get(&number);
        let quorum = node.and_then(|node| node.quorum.as_ref());
        let Some(cluster) = quorum.and_then(Quorum::cluster) else {
            return Ok(());
        };
        let committed = self.oracle.cluster();
        let is_formatted = committed.is_none() && self.plan.is_dynamic;
        if is_formatted || committed == Some(cluster) {
            return Ok(());
        }
        Err(format!(
            "n{number} takes the id {cluster}, and {committed:?} is committed"
        ))
    }

    fn look_at_watermark(&mut self, number: u32, before: Before) -> Broken {
        let Some((node, quorum)) = self
            .nodes
            .get(&number)
            .and_then(|node| Some((node, node.quorum.as_ref()?)))
        else {
            return Ok(());
        };
        let (Some(to), from) = (quorum.watermark(), before.watermark) else {
            return Ok(());
        };
        if from.is_some_and(|from| to < from) {
            return Err(format!(
                "n{number} takes its watermark back from {from:?} to {to}"
            ));
        }
        if from == Some(to) {
            return Ok(());
        }
        let image = &node.disk.now;
        let from = from.unwrap_or_default().max(image.start());
        let is_new = self.oracle.on_watermark(node.replica, from, to, image)?;
        if quorum.role() != RoleName::Leader {
            return Ok(());
        }
        let last = image.batch_before(to);
        let last_epoch = last.map(|batch| batch.leader_epoch());
        if last_epoch != Some(quorum.epoch()) {
            return Err(format!(
                "leader n{number} of epoch {} commits up to {to}, a batch of epoch {last_epoch:?}",
                quorum.epoch()
            ));
        }
        let (Some(last), true) = (last, is_new) else {
            return Ok(());
        };
        let voters = quorum.history().voters();
        let keep = voters.iter().filter(|voter| {
            let here = self.nodes.values().map(|node| (node.replica, &node.disk));
            let gone = self.buried.iter().map(|(replica, disk)| (*replica, disk));
            here.chain(gone)
                .any(|(replica, disk)| voter.replica.accepts(replica) && has(disk, last))
        });
        let keep = keep.count();
        if keep <= voters.len() / 2 {
            return Err(format!(
                "leader n{number} commits up to {to}, which {keep} of {} voters keep",
                voters.len()
            ));
        }
        Ok(())
    }

    /// A leader writes voters one set at a time, and only when its epoch has a committed record.
    fn look_at_voters(&mut self, number: u32, before: Before) -> Broken {
        let Some(quorum) = self
            .nodes
            .get(&number)
            .and_then(|node| node.quorum.as_ref())
        else {
            return Ok(());
        };
        let at = quorum.history().voters_at();
        let is_leader = quorum.role() == RoleName::Leader && before.was_leader;
        if !is_leader || at == before.voters_at {
            return Ok(());
        }
        self.counts.changes += 1;
        let committed = before.watermark;
        let is_settled = before
            .voters_at
            .is_none_or(|at| committed.is_some_and(|end| at < end));
        if !is_settled {
            return Err(format!(
                "leader n{number} changes voters at {at:?}, those of {:?} are not committed",
                before.voters_at
            ));
        }
        Ok(())
    }

    pub(super) fn numbers(&self) -> BTreeSet<u32> {
        self.nodes.keys().copied().collect()
    }

    /// A batch that no other is like.
    pub(super) fn batch(&mut self) -> Batch {
        let count = self.chance.between(1, 3);
        let mut builder = BatchBuilder::new();
        for _ in 0..count {
            self.values += 1;
            let value = self.values.to_be_bytes();
            builder.push(Timestamp(1), None, Some(&value), &[]);
        }
        builder.build()
    }
}

/// True if the disk would have this batch after a power cut.
fn has(disk: &Disk, batch: &Batch) -> bool {
    disk.durable.start() >= batch.next_offset()
        || disk
            .durable
            .batch_at(batch.base_offset())
            .is_some_and(|kept| {
                kept.leader_epoch() == batch.leader_epoch() && kept.crc() == batch.crc()
            })
}

/// A snapshot with one data batch, the digest of what it stands for.
pub(super) fn snapshot(facts: &SnapshotFacts, digest: u64) -> Bytes {
    let time = Timestamp(1);
    let mut quorum = Vec::new();
    if let Some(version) = facts.version {
        quorum.push(Control::Version(KRaftVersionRecord {
            version: 0,
            k_raft_version: version,
        }));
    }
    if let Some(voters) = &facts.voters {
        quorum.push(Control::Voters(voters.to_record()));
    }
    let mut data = BatchBuilder::new();
    data.push(time, None, Some(&digest.to_be_bytes()), &[]);
    let header = Control::SnapshotHeader(SnapshotHeaderRecord {
        cluster_id: facts.cluster.clone(),
        ..SnapshotHeaderRecord::default()
    });
    let footer = Control::SnapshotFooter(SnapshotFooterRecord::default());
    let mut batches = vec![control::batch(&[header], time)];
    if !quorum.is_empty() {
        batches.push(control::batch(&quorum, time));
    }
    batches.extend([data.build(), control::batch(&[footer], time)]);
    let mut out = Vec::new();
    let mut next = Offset::ZERO;
    for mut batch in batches {
        batch.set_base_offset(next);
        next = batch.next_offset();
        out.extend_from_slice(&batch.to_bytes());
    }
    out.into()
}

fn short(text: &str) -> String {
    text.chars().take(400).collect()
}
