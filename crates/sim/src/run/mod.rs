//! One run of a seed: the real broker under load and faults, then healed, read to the end and judged.
//!
//! Three phases: create the topics; load under faults; heal, restart, and demand that every partition takes a record within
//! 15 seconds and that everything is read from start to end at both isolation levels. The same seed gives the same run.

mod council;
mod damage;
mod demands;
mod every;
mod faults;
mod host;
mod images;
mod injury;
mod memory;
mod plan;
mod survey;
mod table_damage;
mod timeouts;
mod txn_damage;
mod txn_images;

use std::time::Duration;

use env::sim::{Chance, Counts, Faults, Step};
use model::Instant;

use crate::checker::{Fault, Guard, Isolation, Kind, Report, check};
use crate::client::admin::Admin;
use crate::client::council::Councillor;
use crate::client::crowd::Crowd;
use crate::client::keep::Client;
use crate::client::keeper::{self, Keeper};
use crate::client::ledger::Ledger;
use crate::client::line::Line;
use crate::client::loner::Loner;
pub use crate::client::member::GroupProtocol;
use crate::client::member::Member;
use crate::client::notes::Notes;
use crate::client::producer::Producer;
use crate::client::reader::Reader;
use crate::client::transactor::{Transactor, TxnHabits};
pub use damage::{Damages, damages};
pub use every::{Everywhere, Place, everywhere};
use faults::Striker;
use host::{End, Host};
pub use images::{Tally, images};
pub use injury::{injuries, txn_injuries};
use memory::Memory;
pub use memory::Peaks;
pub use plan::{Load, Plan, SLOW_SYNC_NANOS, Strike};
pub use txn_damage::txn_damages;
pub use txn_images::txn_images;

/// Topic and number of partitions.
type Topics = Vec<(String, i32)>;

/// Limits in virtual time.
const SETUP_MAX: Duration = Duration::from_secs(60);
const LIVE_MAX: Duration = Duration::from_secs(15);
const DRAIN_MAX: Duration = Duration::from_secs(200);

const GROUP: &str = "group";

/// What a run found.
#[derive(Debug)]
pub struct Verdict {
    pub seed: u64,
    pub report: Report,
    /// Broken promises that needed no history.
    pub violations: Vec<String>,
    /// Why the run proves nothing, if it does not.
    pub complaints: Vec<String>,
    pub trace: u64,
    pub events: u64,
    pub counts: Counts,
    /// Where the counts stood when healing began; faults set beyond that do not strike.
    pub counts_struck: Counts,
    pub acked: usize,
    pub polled: usize,
    pub starts: u64,
    /// Sends again, errors, silences, changes of topics, deletions: what the clients lived through.
    pub resent: u64,
    pub refused: u64,
    pub unanswered: u64,
    pub topics_changed: u64,
    pub records_deleted: u64,
    /// Partitions that were found in another log directory than before.
    pub moves: u64,
    /// Commits that the group's members were acknowledged.
    pub commits: u64,
    /// Static members that came back to what they had, static ones that were fenced, and members that changed their protocol.
    pub resumed: u64,
    pub shut_out: u64,
    pub switched: u64,
    /// Readings of the table that found it compacted.
    pub compacted: u64,
    /// Aborted records of the ledger that compaction took, and readings that met it before an open transaction.
    pub cleaned: (u64, u64),
    /// Transactions that certainly were committed, certainly were not, and those of which nobody knows.
    pub txns_committed: u64,
    pub txns_aborted: u64,
    pub txns_undecided: u64,
    /// Transactional producers that another incarnation or a timeout took the id from.
    pub fenced: u64,
    /// Batches, and additions of partitions, that arrived when their transaction was over.
    pub late_batches: u64,
    pub late_additions: u64,
    /// Offsets of transactions that were looked up and held against what was told.
    pub settled: u64,
    /// Acknowledged records that retention took.
    pub expired: u64,
    /// The run ended with transactions open that only time could end.
    pub left_open: u64,
    /// Changes that left the coordinators' logs no room, commits that were too large for them, and commits that were taken and
    /// forgotten again, for the clients to hear of.
    pub squeezes: u64,
    pub too_large: u64,
    pub forgotten: u64,
    /// What clients did to the same topics, and heard of.
    pub acts: usize,
    /// What the broker held at most.
    pub peaks: Peaks,
}

impl Verdict {
    #[must_use]
    pub fn is_clean(&self) -> bool {
        self.report.is_clean() && self.violations.is_empty() && self.complaints.is_empty()
    }

    /// Everything that is wrong, for people.
    #[must_use]
    pub fn describe(&self) -> String {
        let mut text = String::new();
        for violation in &self.violations {
            text += &format!("violation: {violation}\n");
        }
        for complaint in &self.complaints {
            text += &format!("vacuous: {complaint}\n");
        }
        if !self.report.is_clean() {
            text += &self.report.to_string();
        }
        text
    }
}

/// Runs a seed as its plan says.
#[must_use]
pub fn run(seed: u64, plan: &Plan, verbose: bool) -> Verdict {
    let mut run = Run::new(seed, plan);
    run.host.machine.set_verbose(verbose);
    run.set_up();
    run.strike(plan);
    run.heal();
    run.judge(seed, plan)
}

/// What was held back came after an end, in runs that had many of them and whose connections lived long enough.
fn strays(plan: &Plan, notes: &Notes, starts: u64) -> Option<Fault> {
    const ENDS_MIN: u64 = 60;
    let has_strays = plan.transactors.iter().any(|habits| habits.strays > 0);
    let is_calm = starts <= 2 && !plan.strikes.contains(&Strike::Reset);
    let is_busy = is_calm && notes.committed + notes.aborted > ENDS_MIN;
    (has_strays && is_busy).then_some(Fault {
        name: "request after its transaction",
        bit: notes.late_batches + notes.late_additions,
    })
}

/// Whose logs had no room so often must have refused something.
fn squeezes(notes: &Notes) -> Option<Fault> {
    const SQUEEZES_MIN: u64 = 3;
    (notes.squeezes > SQUEEZES_MIN).then_some(Fault {
        name: "log that refuses its coordinator",
        bit: notes.too_large + notes.forgotten,
    })
}

fn each<'a, C: Client + 'a>(clients: &'a mut [C]) -> impl Iterator<Item = &'a mut dyn Client> {
    clients.iter_mut().map(|client| client as &mut dyn Client)
}

struct Run {
    host: Host,
    chance: Chance,
    notes: Notes,
    admin: Admin,
    producers: Vec<Producer>,
    readers: Vec<Reader>,
    members: Vec<Member>,
    loners: Vec<Loner>,
    keeper: Option<Keeper>,
    ledger: Option<Ledger>,
    transactors: Vec<Transactor>,
    crowd: Crowd,
    council: Vec<Councillor>,
    memory: Memory,
    topics: Topics,
    /// While recording: how many disk operations had begun when each operation of the history was done.
    done_at: Option<Vec<usize>>,
    /// The same for acknowledged commits.
    committed_at: Vec<usize>,
    plan: Plan,
    bites: Vec<Fault>,
    counts_struck: Counts,
    /// Of producers, while there were faults.
    turns: u64,
    /// Runs that found transactions open after healing, which only time could end.
    left_open: u64,
}

impl Run {
    fn new(seed: u64, plan: &Plan) -> Run {
        let mut chance = Chance::new(seed ^ 0x0072_756e);
        let mut notes = Notes::default();
        for topic in &plan.topics {
            for partition in 0..topic.partitions {
                let key = notes.key(&topic.name, partition);
                if let Some(keep) = topic.keeps() {
                    notes.ages(key, keep);
                }
            }
        }
        Run {
            host: Host::new(seed, plan),
            admin: Admin::new(
                plan.topics
                    .iter()
                    .chain(&plan.table)
                    .chain(&plan.ledger)
                    .cloned()
                    .collect(),
                chance.split(),
                &mut notes,
            ),
            chance,
            notes,
            producers: Vec::new(),
            readers: Vec::new(),
            members: Vec::new(),
            loners: Vec::new(),
            keeper: None,
            ledger: None,
            transactors: Vec::new(),
            crowd: Crowd::new(0, Vec::new(), Chance::new(seed)),
            council: Vec::new(),
            memory: Memory::default(),
            topics: plan
                .topics
                .iter()
                .map(|topic| (topic.name.clone(), topic.partitions))
                .collect(),
            done_at: None,
            committed_at: Vec::new(),
            plan: plan.clone(),
            bites: Vec::new(),
            counts_struck: Counts::default(),
            turns: 0,
            left_open: 0,
        }
    }

    /// One step of the machine and of everyone whose moment it is; time stops at `limit`.
    fn step(&mut self, limit: Instant) {
        self.host.tend(&mut self.chance, &mut self.notes);
        let now = self.host.machine.now();
        let mut next = limit;
        let (machine, notes) = (&self.host.machine, &mut self.notes);
        notes.wall_max = machine.wall_told_max();
        let clients = std::iter::once(&mut self.admin as &mut dyn Client)
            .chain(each(&mut self.producers))
            .chain(each(&mut self.readers))
            .chain(each(&mut self.members))
            .chain(each(&mut self.loners))
            .chain(each(self.keeper.as_mut_slice()))
            .chain(each(self.ledger.as_mut_slice()))
            .chain(each(&mut self.transactors))
            .chain(each(&mut self.council));
        for client in clients {
            next = next.min(client.act(machine, notes));
        }
        next = next.min(self.crowd.act(machine));
        let decided = std::mem::take(&mut notes.decided);
        if let Some(done_at) = &mut self.done_at {
            let recorded = machine.recorded();
            done_at.resize(notes.history.ops.len(), recorded);
            // A crash before somebody could know leaves it open.
            decided.iter().for_each(|op| done_at[*op] = recorded);
            self.committed_at
                .resize(notes.acked_commits.len(), recorded);
        }
        if let Some(at) = self.host.start_at() {
            next = next.min(at);
        }
        // A client that wants to act at once gets its turn after the machine's.
        let step = self.host.machine.step_until(next);
        for what in self.memory.watch(&self.host) {
            self.notes.violation(what);
        }
        if step == Step::Idle && self.host.machine.now() < limit && next > now {
            self.notes.violation(format!(
                "the machine is stuck: {}",
                self.host.machine.describe_workers()
            ));
        }
    }

    /// Connections of all clients.
    fn lines(&self) -> impl Iterator<Item = &Line> {
        let links = std::iter::once(self.admin.link())
            .chain(self.producers.iter().map(Client::link))
            .chain(self.readers.iter().map(Client::link))
            .chain(self.members.iter().map(Client::link))
            .chain(self.loners.iter().map(Client::link))
            .chain(self.keeper.iter().map(Client::link))
            .chain(self.ledger.iter().map(Client::link))
            .chain(self.transactors.iter().map(Client::link))
            .chain(self.council.iter().map(Client::link));
        links.filter_map(|link| link.line.as_ref())
    }

    /// The broker has answered producers in its present life, and owes them more.
    fn is_at_work(&self) -> bool {
        self.host.is_running() && self.producers.iter().any(Producer::is_served)
    }

    /// Steps until `done`; false when `time` has passed before.
    fn until(&mut self, time: Duration, mut done: impl FnMut(&Run) -> bool) -> bool {
        let limit = self.host.machine.now().plus(time);
        while self.host.machine.now() < limit {
            if done(self) {
                return true;
            }
            if !self.notes.violations.is_empty() {
                return false;
            }
            self.step(limit);
        }
        done(self)
    }

    fn set_up(&mut self) {
        if !self.until(SETUP_MAX, |run| run.admin.is_ready()) {
            self.notes
                .violation("the topics were not created within a minute".to_owned());
        }
        (self.admin.trims, self.admin.changes) = (self.plan.trims, self.plan.changes);
        (self.admin.moves, self.admin.squeezes) = (self.plan.moves, self.plan.squeezes);
        let now = self.host.machine.now();
        for habits in self.plan.producers.clone() {
            let producer = Producer::new(habits, self.chance.split(), now, &mut self.notes);
            self.producers.push(producer);
        }
        for number in 0..self.plan.readers {
            let (topic, partitions) = self.topics[number % self.topics.len()].clone();
            let isolation = if self.chance.one_in(2) {
                Isolation::Committed
            } else {
                Isolation::Uncommitted
            };
            self.read(&topic, partitions, isolation);
        }
        for number in 0..self.plan.members {
            let (topic, partitions) = self.topics[0].clone();
            let member = Member::new(
                self.plan.group_protocol,
                GROUP,
                &topic,
                partitions,
                self.chance.split(),
                &mut self.notes,
            );
            let is_delayed = self.plan.strikes.contains(&Strike::Stall);
            let mut member = member.delayed(is_delayed);
            if number < self.plan.statics {
                // The last two run for the same.
                let first = number.min(self.plan.statics.saturating_sub(2));
                let is_shared = first + 2 == self.plan.statics;
                member = member.of_instance(format!("instance-{first}"), is_shared);
            }
            self.members.push(member);
        }
        if let Some(table) = &self.plan.table {
            let retains = keeper::retains_deletions(table) && self.plan.is_clock_true();
            self.keeper = Some(Keeper::new(self.chance.split(), now, retains));
        }
        if let Some(topic) = &self.plan.ledger {
            let retains = keeper::retains_deletions(topic);
            self.ledger = Some(Ledger::new(self.chance.split(), now, retains));
        }
        for habits in self.plan.transactors.clone() {
            self.transact(habits);
        }
        if self.plan.crowd > 0 {
            let chance = self.chance.split();
            self.crowd = Crowd::new(self.plan.crowd, self.topics.clone(), chance);
        }
        self.convene();
        for number in 0..self.plan.loners {
            let (topic, is_disk_sound) = (self.topics[0].clone(), !self.plan.hurts_disk());
            let loner = Loner::new(number, topic, is_disk_sound, self.chance.split());
            self.loners.push(loner);
        }
    }

    fn transact(&mut self, habits: TxnHabits) {
        let (chance, now) = (self.chance.split(), self.host.machine.now());
        let transactor = Transactor::new(habits, chance, now, &mut self.notes);
        self.transactors.push(transactor);
    }

    fn read(&mut self, topic: &str, partitions: i32, isolation: Isolation) {
        let reader = Reader::new(
            topic,
            partitions,
            isolation,
            self.chance.split(),
            &mut self.notes,
        );
        self.readers.push(reader);
    }

    fn strike(&mut self, plan: &Plan) {
        let mut striker = Striker::new(plan, self.chance.split(), self.host.machine.now());
        let end = self.host.machine.now().plus(plan.time);
        while self.host.machine.now() < end && self.notes.violations.is_empty() {
            let limit = striker.next().min(end);
            striker.act(self);
            self.step(limit);
        }
        self.counts_struck = self.host.machine.counts();
        self.turns = self.producers.iter().map(|producer| producer.turns).sum();
        striker.heal(self);
        self.bites = striker.bites(self);
    }

    /// Ends all faults and begins the broker anew, so that what the last one kept in memory proves nothing.
    fn heal(&mut self) {
        if !self.notes.violations.is_empty() {
            return;
        }
        self.admin.is_quiet = true;
        (self.council.iter_mut()).for_each(|member| member.is_quiet = true);
        self.drain();
        self.begin_anew();
        // What is demanded from here on has a time limit, of which one sync of a slow disk may take five seconds.
        let fast = Faults::default().sync_nanos;
        self.host.machine.faults(|faults| faults.sync_nanos = fast);
        self.demand_room();
        self.demand_ends();
        self.demand_moves();
        self.demand_progress();
        self.demand_commits();
        self.demand_looks();
        self.demand_table();
        self.demand_ledger();
        self.read_everything();
    }

    fn begin_anew(&mut self) {
        match self.chance.below(3) {
            0 => self.host.end(End::PowerCut),
            1 => self.host.end(End::Kill),
            _ => self.host.stop(&mut self.notes),
        }
    }

    /// Lets the producers hear the end of what they have sent.
    fn drain(&mut self) {
        self.producers
            .iter_mut()
            .for_each(|producer| producer.is_ending = true);
        if let Some(keeper) = &mut self.keeper {
            keeper.is_ending = true;
        }
        if let Some(ledger) = &mut self.ledger {
            ledger.is_ending = true;
        }
        for transactor in &mut self.transactors {
            transactor.is_ending = true;
            if self.chance.one_in(3) {
                // What it left open is the coordinator's to end.
                transactor.crash(&self.host.machine, &mut self.notes);
            }
        }
        let drained = self.until(DRAIN_MAX, |run| {
            !run.producers.iter().any(Producer::has_unanswered)
                && !run.transactors.iter().any(Transactor::is_open)
        });
        if !drained && self.notes.violations.is_empty() {
            let open = self.transactors.iter();
            let open = open.filter(|transactor| transactor.is_open());
            let open: Vec<String> = open.map(Transactor::describe).collect();
            let waiting = self.producers.iter();
            let waiting = waiting.filter(|producer| producer.has_unanswered()).count();
            self.notes.violation(format!(
                "requests of {waiting} producers stay unanswered after everything healed, and transactions open: {}",
                open.join(", ")
            ));
        }
    }

    fn read_everything(&mut self) {
        if !self.notes.violations.is_empty() {
            return;
        }
        self.readers.clear();
        for (topic, partitions) in self.topics.clone() {
            for isolation in [Isolation::Committed, Isolation::Uncommitted] {
                self.read(&topic, partitions, isolation);
                self.readers.iter_mut().for_each(Reader::hurry);
            }
        }
        let looks = self.admin.looks;
        let done = |run: &Run| run.readers.iter().all(Reader::is_done) && run.admin.looks > looks;
        if self.until(DRAIN_MAX, done) {
            self.judge_sizes();
            self.judge_handles();
            self.judge_memory();
            self.notes.history.read_to_the_end = vec![Isolation::Committed, Isolation::Uncommitted];
        } else if self.notes.violations.is_empty() {
            let stuck: Vec<String> = self
                .readers
                .iter()
                .filter(|reader| !reader.is_done())
                .map(Reader::describe)
                .collect();
            self.notes
                .violation(format!("cannot be read to the end: {}", stuck.join("; ")));
        }
    }

    /// Logs that keep a size were just read from start to end.
    fn judge_sizes(&mut self) {
        for (topic, partitions) in &self.topics {
            let mut readers = self.readers.iter();
            let reader = readers.find(|reader| reader.is_of(topic, Isolation::Uncommitted));
            let Some(reader) = reader else { continue };
            for partition in 0..*partitions {
                let key = self.notes.key(topic, partition);
                let bytes = reader.bytes.get(&partition).copied().unwrap_or(0);
                let judged = self.notes.aging(key).map(|aging| aging.size(bytes));
                if let Some(Err(what)) = judged {
                    let place = format!("{topic}-{partition}");
                    self.notes.violation(format!("{place}: {what}"));
                }
            }
        }
    }

    fn judge(mut self, seed: u64, plan: &Plan) -> Verdict {
        self.judge_council();
        let Run {
            host,
            notes,
            mut bites,
            counts_struck,
            turns,
            topics,
            keeper,
            ledger,
            left_open,
            memory,
            ..
        } = self;
        let mut notes = notes;
        if host.remains > 0 {
            let remains = host.remains;
            notes.violation(format!(
                "of {remains} brokers something stays in memory after their end"
            ));
        }
        let history = &notes.history;
        let report = check(history);
        let mut kinds = vec![Kind::Send, Kind::Poll, Kind::Admin];
        if plan.producers.is_empty() {
            kinds.clear();
        }
        if !plan.transactors.is_empty() {
            kinds.push(Kind::Txn);
        }
        bites.extend(strays(plan, &notes, host.starts));
        bites.extend(squeezes(&notes));
        let cleaned = ledger.as_ref().map_or((0, 0), Ledger::cleaned);
        if ledger.is_some_and(|ledger| ledger.is_busy()) {
            let (name, bit) = ("aborted records that are cleaned", cleaned.0);
            bites.push(Fault { name, bit });
        }
        let partitions = topics.iter().map(|(_, partitions)| *partitions as usize);
        let guard = Guard {
            kinds,
            faults: bites,
            ..Guard::of(partitions.sum(), turns)
        };
        let ops = history
            .ops
            .iter()
            .filter(|op| op.outcome == crate::checker::Outcome::Ok);
        let (mut acked, mut polled) = (0, 0);
        for op in ops {
            acked += op.sends.len();
            polled += op
                .polls
                .iter()
                .map(|polled| polled.records.len())
                .sum::<usize>();
        }
        let commits = notes.commits();
        Verdict {
            seed,
            complaints: guard.complaints(history),
            report,
            violations: notes.violations,
            trace: host.machine.trace(),
            events: host.machine.events_count(),
            counts: host.machine.counts(),
            counts_struck,
            acked,
            polled,
            starts: host.starts,
            resent: notes.resent,
            refused: notes.refused,
            unanswered: notes.unanswered,
            topics_changed: notes.topics_changed,
            records_deleted: notes.records_deleted,
            moves: notes.moves,
            commits,
            resumed: notes.resumed,
            shut_out: notes.shut_out,
            switched: notes.switched,
            compacted: keeper.map_or(0, |keeper| keeper.compacted),
            cleaned,
            txns_committed: notes.committed,
            txns_aborted: notes.aborted,
            txns_undecided: notes.undecided,
            fenced: notes.fenced,
            late_batches: notes.late_batches,
            late_additions: notes.late_additions,
            settled: notes.settled,
            expired: notes.expired,
            left_open,
            squeezes: notes.squeezes,
            too_large: notes.too_large,
            forgotten: notes.forgotten,
            acts: notes.acts.values().map(Vec::len).sum(),
            peaks: memory.peaks,
        }
    }
}
