//! The meaning of a seed: the shape of the broker, its clients and the faults of one run.
//!
//! Each run has its own subset of fault kinds (a quarter has none), because faults of all kinds at once hide what two of them do
//! together.

mod cluster;
mod habits;

use std::ops::Range;
use std::time::Duration;

use env::sim::{Chance, Faults, HostId};

use super::script::Step as ScriptStep;
use crate::client::admin::Topic;
use crate::client::aging::{BORN_OLD_MS, Keep};
use crate::client::council::Agenda;
use crate::client::member::GroupProtocol;
use crate::client::producer::Habits;
use crate::client::transactor::TxnHabits;
use crate::client::{keeper, ledger};

pub(super) use self::cluster::{LED_PATIENCE, suffix};
use self::habits::{habits, txn_habits};

/// A kind of fault that may strike again and again.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Strike {
    /// The machine loses power: what was not synced may be gone.
    PowerCut,
    /// The power goes in the middle of the disk operations of a few moments later.
    PowerCutAtOperation,
    /// The process is killed; the page cache stays.
    Kill,
    /// The broker is asked to stop and is started again.
    Restart,
    /// One of the next syncs fails.
    FailSync,
    /// One of the next writes fails.
    FailWrite,
    /// The disk has no room for a while.
    FullDisk,
    /// The wall clock jumps by up to an hour.
    JumpClock,
    /// The wall clock stops for a while.
    StickClock,
    /// Some connections break.
    Reset,
    /// Some connections carry nothing for a while.
    Stall,
    /// Syncs take a hundred times as long for a while.
    SlowDisk,
    /// The wall clock runs at half to twice its rate for a while.
    SkewClock,
    /// The process stands still for a while.
    Pause,
    /// A link of the machine is cut for a while, in one direction or both.
    CutLink,
    /// Bytes of a closed segment change, of which other machines have a good copy.
    Rot,
    /// A log directory is replaced by an empty one, once no other node lacks anything.
    Wipe,
}

impl Strike {
    /// Those that a broker alone can meet.
    pub const ALL: [Strike; 13] = [
        Strike::PowerCut,
        Strike::PowerCutAtOperation,
        Strike::Kill,
        Strike::Restart,
        Strike::FailSync,
        Strike::FailWrite,
        Strike::FullDisk,
        Strike::JumpClock,
        Strike::StickClock,
        Strike::Reset,
        Strike::Stall,
        Strike::SlowDisk,
        Strike::SkewClock,
    ];
}

/// The main work of the clients of a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Load {
    /// A bit of everything, as the seed draws it.
    All,
    Transactions,
    /// Transactions of which parts arrive when they are over.
    Strays,
    /// One consumer group.
    Group,
    /// One with static members, and members that change their protocol.
    Instances,
    /// A compacted table.
    Table,
    /// Transactions in a compacted topic.
    Ledger,
    /// Producers that send again before they could have an answer.
    Retries,
    /// Topics whose old records go.
    Aging,
    /// So many partitions that checkpoints sync the volume and not each file.
    Wide,
    /// Peers that take memory and bring nothing, to a broker that has little.
    Crowd,
    /// Several clients at the same few topics.
    Council,
    /// Two or three brokers beside each other, whose links are cut.
    Nodes,
    /// Three brokers that are one cluster.
    Cluster,
    /// The same, and groups whose coordinators are at different brokers.
    Coordinators,
    /// The same, and transactions whose coordinators and partitions are at different brokers.
    Markers,
    /// The same, of three replicas each.
    Replicas,
    ReplicatedGroups,
    ReplicatedTransactions,
    /// Replicas whose files rot.
    Rot,
    /// The same, and partitions move to other brokers, and disks are replaced.
    Moves,
    /// Partitions that nobody writes to move to other brokers.
    QuietMoves,
    /// Three replicas of each partition, and producers that fill each bound on requests, while nothing fails.
    Pipelined,
    /// Groups and transactions of three replicas, and nodes that start now as an older build and now as this one.
    Upgrade,
}

const LOADS: [(&str, Load); 24] = [
    ("all", Load::All),
    ("transactions", Load::Transactions),
    ("strays", Load::Strays),
    ("group", Load::Group),
    ("instances", Load::Instances),
    ("table", Load::Table),
    ("ledger", Load::Ledger),
    ("retries", Load::Retries),
    ("aging", Load::Aging),
    ("wide", Load::Wide),
    ("crowd", Load::Crowd),
    ("council", Load::Council),
    ("nodes", Load::Nodes),
    ("cluster", Load::Cluster),
    ("coordinators", Load::Coordinators),
    ("markers", Load::Markers),
    ("replicas", Load::Replicas),
    ("replicated-groups", Load::ReplicatedGroups),
    ("replicated-transactions", Load::ReplicatedTransactions),
    ("rot", Load::Rot),
    ("moves", Load::Moves),
    ("quiet-moves", Load::QuietMoves),
    ("pipelined", Load::Pipelined),
    ("upgrade", Load::Upgrade),
];

impl Load {
    #[must_use]
    pub fn named(name: &str) -> Option<Load> {
        let row = LOADS.iter().find(|(known, _)| *known == name);
        row.map(|(_, load)| *load)
    }

    #[must_use]
    pub fn name(self) -> &'static str {
        let row = LOADS.iter().find(|(_, load)| *load == self);
        row.map_or("", |(name, _)| name)
    }
}

/// Syncs of a slow disk: whatever is told before one is done is told long before.
pub const SLOW_SYNC_NANOS: Range<u64> = 5_000_000..50_000_000;
/// Of a disk that nobody waits long for.
const QUICK_SYNC_NANOS: Range<u64> = 200_000..2_000_000;

/// Everything that a run depends on besides its seed.
#[derive(Clone, Debug)]
pub struct Plan {
    /// Brokers, each with clients of its own unless they are led.
    pub nodes: u8,
    pub strikes: Vec<Strike>,
    /// The faults by count, from the first operation of the machine on.
    pub faults: Faults,
    /// Virtual time under faults.
    pub time: Duration,
    /// Mean time between two strikes.
    pub strike_pause: Duration,
    pub network_threads: usize,
    pub log_dirs: usize,
    /// Each start names them in another order.
    pub turns_dirs: bool,
    /// Each start of a node speaks the versions of another build.
    pub turns_builds: bool,
    pub readers: usize,
    /// Percent of the administrator's turns that delete records or change topics.
    pub trims: u64,
    pub changes: u64,
    /// And those that move a partition to another log directory, or look where they are.
    pub moves: u64,
    /// And those that leave the coordinators' logs no room for a batch, for a moment.
    pub squeezes: u64,
    /// Clients that commit offsets without a group's members.
    pub loners: usize,
    pub(crate) topics: Vec<Topic>,
    pub(crate) producers: Vec<Habits>,
    /// Members of consumer groups, of how many, and how they share the partitions.
    pub members: usize,
    pub groups: usize,
    pub group_protocol: GroupProtocol,
    /// So many of them are static; the last two of those run for the same instance.
    pub statics: usize,
    /// A compacted topic with a table in it.
    pub(crate) table: Option<Topic>,
    /// Another one, whose records are written in transactions.
    pub(crate) ledger: Option<Topic>,
    pub(crate) transactors: Vec<TxnHabits>,
    /// Segment size of the topics that the broker keeps for itself.
    pub(crate) internal_segment_bytes: u64,
    /// Topics are relaxed unless they say otherwise (`esker.durability=os`), and power cuts take what nothing synced.
    pub(crate) is_relaxed: bool,
    /// Peers that take memory and bring nothing; the bounds of the broker are small then.
    pub crowd: usize,
    /// Clients that create, delete, alter and read the same topics.
    pub council: usize,
    /// The brokers are one cluster, instead of one each.
    pub is_united: bool,
    /// There are clients of the cluster, who are led to the brokers that they need, instead of clients of each node.
    pub is_led: bool,
    /// Replicas of each partition; with several, all but one have to be in sync.
    pub replicas: u8,
    /// Partitions are reassigned to other brokers all the time.
    pub reassigns: bool,
    /// A disk that takes the place of another is slow at first.
    pub slows_new_disks: bool,
    /// Bytes of requests that a broker may have, where they are not as many as it has by itself. Producers fill them, and none may hear
    /// nothing for long while nothing fails.
    pub request_bytes: Option<u64>,
    /// Of several nodes one stays away when the others are healed, which have to serve without it.
    pub leaves_one_away: bool,
    /// Files of replicas rot, and have to be repaired in the end.
    pub rots: bool,
    /// Deeds in an order that is written down.
    pub script: Vec<ScriptStep>,
    /// Bytes of the metadata log between two snapshots, where they are not as many as a broker has them.
    pub snapshot_bytes: Option<u64>,
}

/// As a broker has them, and so small that a run rolls and compacts them.
const INTERNAL_SEGMENT_BYTES: u64 = 100 << 20;
const INTERNAL_SEGMENT_BYTES_SMALL: u64 = 16 << 10;

/// More than the clients of a node use.
const VALUES_PER_NODE: u64 = 1 << 32;

/// The beginning of names of topics that clients of all nodes of a cluster change.
pub(super) const CONGRESS: &str = "congress";

/// Partitions of one transaction at most.
const PLACES_MAX: usize = 6;

impl Plan {
    #[must_use]
    pub fn of(seed: u64) -> Plan {
        let mut chance = Chance::new(seed ^ 0x706c_616e);
        let strikes = some_strikes(&mut chance);
        let mut plan = Plan::with(&mut chance, strikes);
        if plan.log_dirs > 1 && chance.one_in(2) {
            plan.moves = 20;
        }
        if chance.one_in(4) {
            plan.age(&mut chance);
        }
        plan.internal_segments(&mut chance);
        plan.squeeze_one_in(6, seed);
        plan
    }

    /// A run with these kinds of faults, of whose topics one loses its old records.
    #[must_use]
    pub fn aging(seed: u64, strikes: &[Strike]) -> Plan {
        let mut plan = Plan::striking(seed, strikes);
        plan.age(&mut Chance::new(seed ^ 0x0061_6765));
        plan
    }

    fn age(&mut self, chance: &mut Chance) {
        let segment_ms = chance.between(300, 1_000);
        let keep = if chance.one_in(2) {
            Keep::Millis(BORN_OLD_MS + chance.between(500, 4_000) as i64)
        } else {
            Keep::Bytes(chance.between(150_000, 400_000))
        };
        let at = chance.below(self.topics.len() as u64) as usize;
        self.topics[at].aging(keep, segment_ms);
        if matches!(keep, Keep::Bytes(_)) {
            // So that there is more than it keeps.
            self.topics[at].partitions = 1;
        }
        let topic = &self.topics[at];
        for habits in &mut self.producers {
            if matches!(keep, Keep::Bytes(_)) {
                habits.topic = topic.name.clone();
                habits.pause = Duration::from_millis(5);
            }
            if habits.topic == topic.name {
                habits.partitions = 0..topic.partitions;
            }
        }
        let last = topic.partitions - 1;
        for habits in &mut self.transactors {
            for (name, partition) in &mut habits.places {
                if *name == topic.name {
                    *partition = last.min(*partition);
                }
            }
            habits.places.sort();
            habits.places.dedup();
        }
    }

    fn internal_segments(&mut self, chance: &mut Chance) {
        if chance.one_in(2) {
            self.internal_segment_bytes = INTERNAL_SEGMENT_BYTES_SMALL;
        }
    }

    /// A run with these kinds of faults whose partitions move between three log directories.
    #[must_use]
    pub fn moving(seed: u64, strikes: &[Strike]) -> Plan {
        let mut plan = Plan::striking(seed, strikes);
        (plan.log_dirs, plan.moves, plan.changes) = (3, 50, 5);
        plan
    }

    /// The run of a seed under one kind of load; half of them have slow disks, half have two. Of transactions a third has two producers
    /// of one transactional id.
    #[must_use]
    pub fn of_load(seed: u64, load: Load) -> Plan {
        let mut chance = Chance::new(seed ^ 0x6c6f_6164);
        let strikes = some_strikes(&mut chance);
        let mut plan = match load {
            Load::All => return Plan::of(seed),
            Load::Transactions => Plan::transactional(seed, &strikes, chance.one_in(2)),
            Load::Strays => Plan::straying(seed, &strikes, chance.one_in(2)),
            Load::Group => Plan::grouped(seed, &strikes),
            Load::Instances => Plan::of_instances(seed, &strikes),
            Load::Table => Plan::compacting(seed, &strikes),
            Load::Ledger => Plan::transacting_table(seed, &strikes),
            Load::Retries => Plan::impatient(seed, &strikes),
            Load::Aging => Plan::aging(seed, &strikes),
            Load::Wide => Plan::wide(seed, &strikes),
            Load::Crowd => Plan::crowded(seed, &strikes),
            Load::Council => Plan::governed(seed, &strikes),
            Load::Nodes => Plan::beside(seed, &strikes, chance.between(2, 3) as u8),
            Load::Cluster => Plan::united(seed, &strikes),
            Load::Coordinators => Plan::coordinating(seed, &strikes),
            Load::Markers => Plan::marking(seed, &strikes, chance.one_in(2)),
            Load::Replicas => Plan::led(seed, &strikes).replicated(seed),
            Load::Rot => Plan::led(seed, &strikes).replicated(seed).rotting(),
            Load::ReplicatedGroups => Plan::coordinating(seed, &strikes).replicated(seed),
            Load::Moves => Plan::led(seed, &strikes).replicated(seed).moved(seed),
            Load::QuietMoves => Plan::led(seed, &strikes).replicated(seed).resting(),
            Load::Pipelined => Plan::led(seed, &[]).replicated(seed).pipelined(seed),
            Load::Upgrade => Plan::marking(seed, &strikes, chance.one_in(2))
                .replicated(seed)
                .upgraded(),
            Load::ReplicatedTransactions => {
                Plan::marking(seed, &strikes, chance.one_in(2)).replicated(seed)
            }
        };
        if chance.one_in(2) {
            plan.faults.sync_nanos = SLOW_SYNC_NANOS;
        }
        if load == Load::Pipelined {
            // One sync in a hundred takes a hundred times as long: far less than a producer may wait for an answer.
            plan.faults.sync_nanos = QUICK_SYNC_NANOS;
        }
        plan.log_dirs = chance.between(1, 2) as usize;
        if load == Load::Moves {
            // One that is replaced, and the one with the metadata log.
            plan.log_dirs = 2;
        }
        plan.internal_segments(&mut chance);
        if let [first, second, ..] = &mut plan.transactors[..]
            && matches!(
                load,
                Load::Transactions | Load::Markers | Load::ReplicatedTransactions
            )
            && chance.one_in(3)
        {
            // Two that fence each other.
            second.id = first.id.clone();
            for habits in [first, second] {
                (habits.is_alone, habits.is_shared) = (false, true);
                habits.group = None;
            }
        }
        let keeps_nothing_else = matches!(
            load,
            Load::Transactions | Load::Strays | Load::Group | Load::Instances | Load::Ledger
        );
        if keeps_nothing_else && chance.one_in(2) {
            plan.relax();
        }
        if keeps_nothing_else || plan.is_led {
            plan.squeeze_one_in(3, seed);
        }
        plan
    }

    /// In one of so many runs the logs of the coordinators refuse what these decided, now and then.
    fn squeeze_one_in(&mut self, times: u64, seed: u64) {
        if Chance::new(seed ^ 0x7371_7565).one_in(times) {
            self.squeeze();
        }
    }

    /// Lets the logs of the coordinators refuse what these decided, now and then, and gives each of them somebody who commits.
    pub fn squeeze(&mut self) {
        (self.squeezes, self.loners) = (60, 6);
        self.faults.interrupts_one_in = 3;
    }

    /// Lets a broker keep transactions and groups whose topics are relaxed where nobody said more (P-15): what producers without
    /// transactions write is judged as ever, so their topics are synced; topics that only transactions write are not.
    fn relax(&mut self) {
        self.is_relaxed = true;
        for topic in &mut self.topics {
            if self
                .producers
                .iter()
                .any(|habits| habits.topic == topic.name)
            {
                topic.configs.push(("esker.durability", "sync".to_owned()));
            }
        }
        if let Some(topic) = &mut self.table {
            topic.configs.push(("esker.durability", "sync".to_owned()));
        }
    }

    /// A run with exactly these kinds of faults.
    #[must_use]
    pub fn striking(seed: u64, strikes: &[Strike]) -> Plan {
        Plan::with(&mut Chance::new(seed ^ 0x706c_616e), strikes.to_vec())
    }

    /// A short run of a few producers without strikes, for repeating it with a fault at every possible place.
    #[must_use]
    pub fn short(seed: u64, faults: Faults) -> Plan {
        let mut plan = Plan::striking(seed, &[]);
        plan.faults = faults;
        plan.time = Duration::from_millis(400);
        plan.topics.truncate(1);
        plan.topics[0].partitions = plan.topics[0].partitions.min(3);
        plan.readers = 1;
        plan.log_dirs = 1;
        plan.moves = 0;
        plan.members = 0;
        (plan.table, plan.ledger) = (None, None);
        plan.transactors.clear();
        (plan.trims, plan.changes) = (10, 10);
        plan.producers.truncate(2);
        for habits in &mut plan.producers {
            habits.topic = plan.topics[0].name.clone();
            habits.partitions = 0..plan.topics[0].partitions;
            habits.pause = Duration::from_millis(10);
        }
        plan
    }

    /// The short run of a seed whose files are damaged; every second pair of seeds has a table, which takes a while to be compacted.
    #[must_use]
    pub(super) fn to_damage(seed: u64, faults: Faults) -> Plan {
        let mut plan = Plan::short(seed, faults);
        if seed / 2 % 2 == 1 {
            plan.table = Some(keeper::topic(&mut Chance::new(seed)));
            plan.time = Duration::from_millis(1_500);
        }
        plan
    }

    /// A short run of transactional producers, one of which commits offsets with its records, and of a group.
    #[must_use]
    pub fn short_transactions(seed: u64) -> Plan {
        let mut plan = Plan::short(seed, Faults::default());
        let mut chance = Chance::new(seed);
        plan.producers.truncate(1);
        (plan.trims, plan.changes) = (0, 0);
        plan.members = 2;
        plan.transactors = (0..2)
            .map(|number| {
                let id = format!("txn-{number}");
                let group = (number == 0).then(|| format!("offsets-{id}"));
                TxnHabits {
                    group,
                    timeout: Duration::from_secs(1),
                    batches_max: 4,
                    pause: Duration::from_millis(2),
                    delays: 0,
                    ..txn_habits(id, &plan.topics, true, &mut chance)
                }
            })
            .collect();
        plan
    }

    /// A run with these kinds of faults and a table that is compacted meanwhile.
    #[must_use]
    pub fn compacting(seed: u64, strikes: &[Strike]) -> Plan {
        let mut plan = Plan::striking(seed, strikes);
        plan.table = Some(keeper::topic(&mut Chance::new(seed ^ 0x0074_6162)));
        plan
    }

    /// A run with those of these kinds of faults that leave the clock alone, and a compacted topic that is written in transactions.
    #[must_use]
    pub fn transacting_table(seed: u64, strikes: &[Strike]) -> Plan {
        let strikes = strikes.iter().copied();
        let strikes: Vec<Strike> = strikes.filter(|strike| !CLOCKS.contains(strike)).collect();
        let mut plan = Plan::striking(seed, &strikes);
        plan.ledger = Some(ledger::topic(&mut Chance::new(seed ^ 0x6c65_6467)));
        plan.time = Duration::from_secs(12);
        plan.producers.truncate(2);
        plan.transactors.truncate(1);
        (plan.members, plan.table) = (0, None);
        plan
    }

    /// A run with these kinds of faults and power cuts, whose producers wait less long for an answer than the disk takes: what they
    /// send again meets its original on the way there.
    #[must_use]
    pub fn impatient(seed: u64, strikes: &[Strike]) -> Plan {
        let mut strikes = strikes.to_vec();
        if !strikes.contains(&Strike::PowerCut) {
            strikes.push(Strike::PowerCut);
        }
        let mut plan = Plan::striking(seed, &strikes);
        let mut chance = Chance::new(seed ^ 0x0069_6d70);
        plan.faults.sync_nanos = SLOW_SYNC_NANOS;
        plan.transactors.clear();
        for habits in &mut plan.producers {
            (habits.idempotent, habits.acks) = (true, -1);
            habits.pause = Duration::from_millis(5);
            habits.patience = Duration::from_millis(chance.between(1, 10));
        }
        plan
    }

    /// A run with these kinds of faults and power cuts, of many partitions on a disk so slow that the power often goes while they
    /// are synced. Directories change their order.
    #[must_use]
    pub fn wide(seed: u64, strikes: &[Strike]) -> Plan {
        let mut strikes = strikes.to_vec();
        if !strikes.contains(&Strike::PowerCut) {
            strikes.push(Strike::PowerCut);
        }
        let mut plan = Plan::striking(seed, &strikes);
        let mut chance = Chance::new(seed ^ 0x7769_6465);
        plan.faults.sync_nanos = SLOW_SYNC_NANOS;
        // A start of so many partitions takes long here: with less time between two cuts, most of them meet its first moment.
        plan.strike_pause = Duration::from_millis(chance.between(600, 1_200));
        plan.time = Duration::from_secs(12);
        plan.turns_dirs = true;
        for topic in &mut plan.topics {
            topic.partitions = chance.between(20, 40) as i32;
        }
        for habits in &mut plan.producers {
            let topic = plan.topics.iter().find(|of| of.name == habits.topic);
            habits.partitions = 0..topic.map_or(1, |topic| topic.partitions);
            (habits.in_flight_max, habits.pause) = (5, Duration::from_millis(5));
        }
        plan
    }

    /// A run with these kinds of faults whose broker has little memory, and peers that take of it.
    #[must_use]
    pub fn crowded(seed: u64, strikes: &[Strike]) -> Plan {
        let mut plan = Plan::striking(seed, strikes);
        plan.crowd = 12;
        plan
    }

    /// A run with these kinds of faults whose clients agree on nothing: four of them create, delete and alter the same topics.
    #[must_use]
    pub fn governed(seed: u64, strikes: &[Strike]) -> Plan {
        let mut plan = Plan::striking(seed, strikes);
        plan.council = 4;
        plan.producers.truncate(2);
        (plan.members, plan.network_threads) = (0, 3);
        (plan.table, plan.ledger) = (None, None);
        plan
    }

    /// The names that each of the councillors of a node changes: in one cluster those of the node, or those of all nodes.
    pub(super) fn agendas(&self, node: HostId) -> impl Iterator<Item = Agenda> + use<> {
        let is_united = self.is_united;
        let agenda = move |number: usize| Agenda {
            names: match (is_united, number % 2) {
                (false, _) => "council".to_owned(),
                (true, 0) => format!("council{}", suffix(node)),
                (true, _) => CONGRESS.to_owned(),
            },
            values_from: u64::from(node.0) * VALUES_PER_NODE,
            is_shared: is_united && number % 2 == 1,
        };
        (0..self.council).map(agenda)
    }

    /// A run with these kinds of faults and a group whose members commit meanwhile.
    #[must_use]
    pub fn grouped(seed: u64, strikes: &[Strike]) -> Plan {
        let mut plan = Plan::striking(seed, strikes);
        plan.members = 5;
        plan.transactors.clear();
        plan.network_threads = 2;
        plan.time = Duration::from_secs(12);
        plan
    }

    /// The same, and some members are static; in two of three runs members change from one protocol to the other.
    #[must_use]
    pub fn of_instances(seed: u64, strikes: &[Strike]) -> Plan {
        let mut plan = Plan::grouped(seed, strikes);
        let mut chance = Chance::new(seed ^ 0x696e_7374);
        (plan.members, plan.statics) = (6, 4);
        if !chance.one_in(3) {
            plan.group_protocol = GroupProtocol::Mixed;
        }
        plan
    }

    fn with(chance: &mut Chance, strikes: Vec<Strike>) -> Plan {
        let topics: Vec<Topic> = (0..chance.between(1, 3))
            .map(|number| topic(number, chance))
            .collect();
        let mut producers: Vec<Habits> = (0..chance.between(2, 5))
            .map(|_| habits(&topics, chance))
            .collect();
        // One at least hears what becomes of its records.
        producers[0].acks = -1;
        let is_clock_true = is_clock_true(&strikes);
        let mut plan = Plan {
            nodes: 1,
            strikes,
            faults: Faults::default(),
            time: Duration::from_millis(chance.between(4_000, 12_000)),
            strike_pause: Duration::from_millis(chance.between(300, 3_000)),
            network_threads: chance.between(1, 3) as usize,
            log_dirs: if chance.one_in(3) { 2 } else { 1 },
            turns_dirs: false,
            turns_builds: false,
            readers: chance.between(1, 3) as usize,
            trims: *chance.pick(&[0, 0, 3, 10]),
            changes: *chance.pick(&[0, 5, 20]),
            moves: 0,
            squeezes: 0,
            loners: 0,
            topics,
            producers,
            members: *chance.pick(&[0, 0, 2, 3, 5]),
            groups: 1,
            statics: 0,
            group_protocol: *chance.pick(&[GroupProtocol::Classic, GroupProtocol::Consumer]),
            table: chance.one_in(3).then(|| keeper::topic(chance)),
            ledger: None,
            transactors: Vec::new(),
            internal_segment_bytes: INTERNAL_SEGMENT_BYTES,
            is_relaxed: false,
            crowd: 0,
            council: 0,
            is_united: false,
            is_led: false,
            replicas: 1,
            reassigns: false,
            slows_new_disks: false,
            request_bytes: None,
            script: Vec::new(),
            leaves_one_away: false,
            rots: false,
            snapshot_bytes: None,
        };
        for number in 0..*chance.pick(&[0, 0, 1, 2, 4]) {
            let before = plan.transactors.first();
            let shared = before
                .filter(|_| chance.one_in(4))
                .map(|before| before.id.clone());
            let id = shared.unwrap_or_else(|| format!("txn-{number}"));
            let habits = txn_habits(id, &plan.topics, is_clock_true, chance);
            plan.transactors.push(habits);
        }
        for at in 0..plan.transactors.len() {
            let id = &plan.transactors[at].id;
            let all = plan.transactors.iter();
            let is_alone = all.filter(|other| other.id == *id).count() == 1;
            plan.transactors[at].is_alone &= is_alone;
            plan.transactors[at].is_shared = !is_alone;
        }
        plan
    }

    /// Its disk fails, is replaced, or is full.
    #[must_use]
    pub fn hurts_disk(&self) -> bool {
        let faults = [
            Strike::FailSync,
            Strike::FailWrite,
            Strike::FullDisk,
            Strike::PowerCutAtOperation,
            Strike::Rot,
            Strike::Wipe,
        ];
        faults.iter().any(|fault| self.strikes.contains(fault))
    }

    pub(super) fn is_clock_true(&self) -> bool {
        is_clock_true(&self.strikes)
    }

    /// A run whose load is above all transactions, of producers that add their partitions themselves or leave that to the broker.
    #[must_use]
    pub fn transactional(seed: u64, strikes: &[Strike], is_old: bool) -> Plan {
        let mut plan = Plan::striking(seed, strikes);
        let mut chance = Chance::new(seed);
        plan.producers.truncate(1);
        plan.members = 0;
        plan.transactors = (0..3)
            .map(|number| {
                let id = format!("txn-{number}");
                let habits = txn_habits(id, &plan.topics, is_clock_true(strikes), &mut chance);
                let delays = if is_old { 0 } else { habits.delays };
                TxnHabits {
                    is_old,
                    delays,
                    ..habits
                }
            })
            .collect();
        plan
    }

    /// The same, and now and then a batch or an addition of partitions arrives when its transaction is over (M-05).
    #[must_use]
    pub fn straying(seed: u64, strikes: &[Strike], is_old: bool) -> Plan {
        let mut plan = Plan::transactional(seed, strikes, is_old);
        let mut chance = Chance::new(seed ^ 0x7374_7261);
        for habits in &mut plan.transactors {
            habits.strays = *chance.pick(&[10, 30]);
        }
        plan.time = Duration::from_secs(12);
        plan
    }

    /// Lets one in `delays` ends of a transaction arrive late.
    pub fn delay_ends(&mut self, delays: u64) {
        for habits in &mut self.transactors {
            habits.delays = delays;
        }
    }
}

/// A quarter of the runs has none.
fn some_strikes(chance: &mut Chance) -> Vec<Strike> {
    if chance.one_in(4) {
        return Vec::new();
    }
    let one_in = chance.between(2, 4);
    Strike::ALL
        .into_iter()
        .filter(|_| chance.one_in(one_in))
        .collect()
}

fn topic(number: u64, chance: &mut Chance) -> Topic {
    // Producers do not follow the jumps of the broker's clock.
    let mut configs = vec![
        ("segment.bytes", (1 << 20).to_string()),
        ("message.timestamp.after.max.ms", i64::MAX.to_string()),
    ];
    if chance.one_in(2) {
        // Segments roll by the producers' time.
        configs.push(("segment.ms", chance.between(500, 5_000).to_string()));
    }
    if chance.one_in(3) {
        configs.push(("index.interval.bytes", "200".to_owned()));
    }
    if chance.one_in(6) {
        configs.push(("compression.type", "lz4".to_owned()));
    }
    if chance.one_in(6) {
        configs.push(("message.timestamp.type", "LogAppendTime".to_owned()));
    }
    Topic {
        name: format!("load-{number}"),
        partitions: chance.between(1, 5) as i32,
        configs,
        node: None,
        replicas: 1,
    }
}

const CLOCKS: [Strike; 3] = [Strike::JumpClock, Strike::StickClock, Strike::SkewClock];

fn is_clock_true(strikes: &[Strike]) -> bool {
    !CLOCKS.iter().any(|clock| strikes.contains(clock))
}
