//! One run of a seed: the real broker under load and faults, then healed, read to the end and judged.
//!
//! Three phases: create the topics; load under faults; heal, restart, and demand that every partition takes a record within
//! 15 seconds and that everything is read from start to end at both isolation levels. The same seed gives the same run.

mod clients;
mod cluster;
mod council;
mod damage;
mod demands;
mod equality;
mod every;
mod faults;
mod host;
mod images;
mod injury;
mod memory;
mod plan;
mod replicas;
mod rot;
mod script;
mod survey;
mod table_damage;
mod timeouts;
mod txn_damage;
mod txn_images;
mod unity;

use std::time::Duration;

use env::sim::{Chance, Counts, Faults, HostId, Step};
use model::Instant;

use crate::checker::{Fault, Guard, Isolation, Kind, Report, check};
use crate::client::keep::Client;
use crate::client::ledger::Ledger;
use crate::client::line::PORT;
pub use crate::client::member::GroupProtocol;
use crate::client::notes::Notes;
use crate::client::producer::Producer;
use crate::client::reader::Reader;
use crate::client::transactor::{Transactor, TxnHabits};
use clients::Clients;
use cluster::Cluster;
pub use damage::{Damages, damages};
pub use every::{Everywhere, FaultSite, everywhere};
use faults::Striker;
use host::End;
pub use images::{Tally, images};
pub use injury::{injuries, txn_injuries};
use memory::Memory;
pub use memory::Peaks;
pub use plan::{Load, Plan, SLOW_SYNC_NANOS, Strike};
use replicas::Copies;
use script::Script;
pub use script::{Deed, Step as ScriptStep};
pub use txn_damage::txn_damages;
pub use txn_images::txn_images;
use unity::Unity;

/// Topic and number of partitions.
type Topics = Vec<(String, i32)>;

/// Limits in virtual time.
const SETUP_MAX: Duration = Duration::from_secs(60);
const LIVE_MAX: Duration = Duration::from_secs(15);
const DRAIN_MAX: Duration = Duration::from_secs(200);
/// Less than the time after which a leader gives up a follower that it does not hear.
const SILENCE_MAX: Duration = Duration::from_secs(1);

const GROUP: &str = "group";

/// The findings of a run.
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
    /// Changes that clients made to the same topics, and heard of.
    pub acts: usize,
    /// Of a cluster: epochs with an active controller, metadata logs that were trimmed, and those that began anew at a snapshot of
    /// another node.
    pub leaderships: u64,
    pub trimmed: u64,
    pub fetched: u64,
    /// Leaders that partitions had, one for each epoch, and replicas in sync that were held against what was committed.
    pub leaders: u64,
    pub compared: u64,
    /// Reassignments that were granted, and disks that were replaced.
    pub reassigned: u64,
    pub wiped: u64,
    /// The most that the broker held.
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

/// Runs a seed as its plan says. Of several nodes the verdict is of one that failed, if one did.
#[must_use]
pub fn run(seed: u64, plan: &Plan, verbose: bool) -> Verdict {
    let mut verdicts = run_nodes(seed, plan, verbose);
    let failed = verdicts.iter().position(|verdict| !verdict.is_clean());
    verdicts.swap_remove(failed.unwrap_or(0))
}

/// Runs a seed on as many nodes as its plan has, each with the same kinds of clients, and judges each node.
#[must_use]
pub fn run_nodes(seed: u64, plan: &Plan, verbose: bool) -> Vec<Verdict> {
    let mut run = Run::new(seed, plan);
    run.cluster.machines.set_verbose(verbose);
    run.set_up();
    run.strike(plan);
    let mut verdicts = Vec::new();
    loop {
        run.heal();
        if plan.is_united {
            run.remember_topics();
            if run.others.is_empty() {
                run.demand_unity();
            }
        }
        verdicts.push(run.judge(seed, plan));
        let Some(next) = run.others.pop() else {
            return verdicts;
        };
        run.cluster.move_home(next.node);
        (run.clients, run.memory) = (next, Memory::default());
    }
}

/// Messages that were held back came after an end, in runs that had many of them and whose connections lived long enough.
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

/// A run whose logs had no room so often must have refused something, where a coordinator was asked meanwhile: of a cluster none may be
/// known, for as long as the squeeze lasts.
fn squeezes(notes: &Notes) -> Option<Fault> {
    const SQUEEZES_MIN: u64 = 3;
    (notes.squeezes_met > SQUEEZES_MIN).then_some(Fault {
        name: "log that refuses its coordinator",
        bit: notes.too_large + notes.forgotten,
    })
}

struct Run {
    cluster: Cluster,
    chance: Chance,
    /// Those of the home node.
    clients: Clients,
    /// Those of other nodes, which go on meanwhile.
    others: Vec<Clients>,
    memory: Memory,
    unity: Unity,
    copies: Copies,
    /// While recording: how many disk operations had begun when each operation of the history was done.
    done_at: Option<Vec<usize>>,
    /// The same for acknowledged commits.
    committed_at: Vec<usize>,
    plan: Plan,
    bites: Vec<Fault>,
    counts_struck: Counts,
    /// Runs that found transactions open after healing, which only time could end.
    left_open: u64,
    wiped: u64,
}

impl Run {
    fn new(seed: u64, plan: &Plan) -> Run {
        let mut chance = Chance::new(seed ^ 0x0072_756e);
        let cluster = Cluster::new(seed, plan);
        let mut clients = cluster.nodes().map(|node| {
            let address = cluster.machines.address(node, PORT);
            Clients::new((node, address), plan, &mut chance)
        });
        let mut home = clients.next().expect("a run has one node at least");
        let others = if plan.is_led {
            Vec::new()
        } else {
            clients.collect()
        };
        if plan.is_led {
            let doors = cluster
                .nodes()
                .map(|node| cluster.machines.address(node, PORT));
            home.lead(doors.collect(), chance.split());
        }
        Run {
            clients: home,
            others,
            cluster,
            chance,
            memory: Memory::default(),
            unity: Unity::default(),
            copies: Copies::of(plan.rots),
            done_at: None,
            committed_at: Vec::new(),
            plan: plan.clone(),
            bites: Vec::new(),
            counts_struck: Counts::default(),
            left_open: 0,
            wiped: 0,
        }
    }

    /// One step of the world and of every client whose moment it is; time stops at `limit`.
    fn step(&mut self, limit: Instant) {
        let Run {
            cluster,
            chance,
            clients,
            others,
            ..
        } = self;
        cluster.tend(chance, &mut clients.notes);
        let now = cluster.now();
        let mut next = limit;
        for clients in std::iter::once(&mut *clients).chain(others) {
            clients.notes.wall_max = cluster.node(clients.node).machine.wall_told_max();
            next = next.min(clients.act(&cluster.world));
        }
        let notes = &mut clients.notes;
        let decided = std::mem::take(&mut notes.decided);
        if let Some(done_at) = &mut self.done_at {
            let recorded = cluster.home().machine.recorded();
            done_at.resize(notes.history.ops.len(), recorded);
            // A crash before somebody could know leaves it open.
            decided.iter().for_each(|op| done_at[*op] = recorded);
            self.committed_at
                .resize(notes.acked_commits.len(), recorded);
        }
        if let Some(at) = cluster.start_at() {
            next = next.min(at);
        }
        // A client that wants to act at once gets its turn after the machine's.
        let step = cluster.machines.step_until(next);
        for what in self.memory.watch(cluster.home()) {
            notes.violation(what);
        }
        if self.plan.is_united
            && let Some(what) = self.unity.watch(cluster)
        {
            notes.violation(what);
        }
        if self.plan.is_led
            && let Some(what) = self.copies.watch(cluster)
        {
            notes.violation(what);
        }
        if step == Step::Idle && cluster.now() < limit && next > now {
            notes.violation(format!(
                "the machine is stuck: {}",
                cluster.home().machine.describe_workers()
            ));
        }
    }

    /// The clients of a node, as long as they are there, or those of all nodes.
    fn clients_of(&self, node: HostId) -> Option<&Clients> {
        if self.plan.is_led {
            return Some(&self.clients);
        }
        let mut all = std::iter::once(&self.clients).chain(&self.others);
        all.find(|clients| clients.node == node)
    }

    /// The broker of `node` has answered producers in its present life, and owes them more.
    fn is_at_work(&self, node: HostId) -> bool {
        let address = self.cluster.machines.address(node, PORT);
        let clients = self.clients_of(node);
        let are_served = clients.is_some_and(|clients| clients.are_served_by(address));
        are_served && self.cluster.node(node).is_running()
    }

    /// Adds the replicas as they are to what went wrong, while the nodes run that have them.
    fn describe_replicas(&mut self) {
        if self.plan.replicas > 1 && !self.clients.notes.violations.is_empty() {
            let replicas = replicas::describe(&self.cluster);
            self.clients.notes.violation(replicas);
        }
    }

    /// Steps until `done`; false when `time` has passed before.
    fn until(&mut self, time: Duration, mut done: impl FnMut(&Run) -> bool) -> bool {
        let limit = self.cluster.now().plus(time);
        while self.cluster.now() < limit {
            if done(self) {
                return true;
            }
            if !self.clients.notes.violations.is_empty() {
                return false;
            }
            self.step(limit);
        }
        done(self)
    }

    fn set_up(&mut self) {
        let is_ready = |run: &Run| {
            let mut all = std::iter::once(&run.clients).chain(&run.others);
            all.all(|clients| clients.admin.is_ready())
        };
        if !self.until(SETUP_MAX, is_ready) {
            self.clients
                .notes
                .violation("the topics were not created within a minute".to_owned());
        }
        let now = self.cluster.now();
        for clients in std::iter::once(&mut self.clients).chain(&mut self.others) {
            clients.gather(&self.plan, &mut self.chance, now);
        }
    }

    fn transact(&mut self, habits: TxnHabits) {
        let now = self.cluster.now();
        self.clients.transact(habits, self.chance.split(), now);
    }

    fn strike(&mut self, plan: &Plan) {
        let mut striker = Striker::new(plan, self.chance.split(), self.cluster.now());
        let mut script = Script::new(&plan.script, self.cluster.now());
        let end = self.cluster.now().plus(plan.time);
        while self.cluster.now() < end && self.clients.notes.violations.is_empty() {
            let limit = striker.next().min(script.next()).min(end);
            striker.act(self);
            script.act(self);
            self.step(limit);
            self.demand_answers();
        }
        script.end(&plan.script, self);
        self.describe_replicas();
        self.counts_struck = self.cluster.home().machine.counts();
        for clients in std::iter::once(&mut self.clients).chain(&mut self.others) {
            clients.turns = clients.producers.iter().map(|it| it.turns).sum();
        }
        striker.heal(self);
        self.bites = striker.bites(self);
    }

    /// Where nothing fails, no producer is left without an answer for long, whatever all of them have under way.
    fn demand_answers(&mut self) {
        if self.plan.request_bytes.is_none() {
            return;
        }
        let now = self.cluster.now();
        for producer in &self.clients.producers {
            let silence = producer.silent_for(now).unwrap_or_default();
            if SILENCE_MAX < silence {
                let what = format!("{} has heard nothing for {silence:?}", producer.name());
                return self.clients.notes.violation(what);
            }
        }
    }

    /// Ends all faults and begins the broker anew, so that what the last one kept in memory proves nothing.
    fn heal(&mut self) {
        if !self.clients.notes.violations.is_empty() {
            return;
        }
        self.clients.admin.is_quiet = true;
        (self.clients.reassigner.iter_mut()).for_each(|it| it.is_quiet = true);
        (self.clients.council.iter_mut()).for_each(|member| member.is_quiet = true);
        if self.plan.is_resting() {
            // The nodes that begin anew below say again what was lost.
            self.make_disks_fast();
            self.demand_whole();
        }
        if self.plan.leaves_one_away {
            self.make_disks_fast();
            self.demand_without_one();
        } else {
            self.drain();
            self.make_disks_fast();
        }
        self.begin_anew();
        self.demand_room();
        self.demand_ends();
        self.demand_moves();
        self.demand_progress();
        self.demand_commits();
        self.demand_looks();
        self.demand_table();
        self.demand_ledger();
        self.read_everything();
        self.demand_repairs();
        self.demand_equality();
    }

    /// Demands have a time limit, of which one sync of a slow disk may take five seconds, and a start that writes many files anew all. A
    /// machine stands still while it syncs here: one that cleans a log on a slow disk calls its directories slow for as long as it cleans.
    fn make_disks_fast(&self) {
        for node in self.served_nodes() {
            let fast = Faults::default().sync_nanos;
            let machine = &self.cluster.node(node).machine;
            machine.faults(|faults| faults.sync_nanos = fast);
        }
    }

    /// M-11: whichever node is away, the others serve.
    fn demand_without_one(&mut self) {
        // Settings that make every batch of the coordinators too large: the node that goes may be the one that was asked to end them.
        self.demand_room();
        // Where a replica is out of sync already, the node that goes may be the one that has everything.
        self.demand_whole();
        let nodes: Vec<HostId> = self.cluster.nodes().collect();
        let away = *self.chance.pick(&nodes);
        let end = if self.chance.one_in(2) {
            End::PowerCut
        } else {
            End::Kill
        };
        let host = self.cluster.node_mut(away);
        host.end(end);
        host.stay_away();
        self.drain();
        self.demand_progress();
        self.demand_commits();
        self.cluster.node_mut(away).come_back();
    }

    /// The nodes that serve the clients which are judged.
    fn served_nodes(&self) -> Vec<HostId> {
        if self.plan.is_led {
            self.cluster.nodes().collect()
        } else {
            vec![self.clients.node]
        }
    }

    /// Every broker that served them ends and comes again: one after the other, or all at once.
    fn begin_anew(&mut self) {
        let nodes = self.served_nodes();
        let are_together = 1 < nodes.len() && self.chance.one_in(3);
        for node in nodes {
            let ways = if are_together { 2 } else { 3 };
            match self.chance.below(ways) {
                0 => self.cluster.node_mut(node).end(End::PowerCut),
                1 => self.cluster.node_mut(node).end(End::Kill),
                _ => self.cluster.node_mut(node).stop(&mut self.clients.notes),
            }
            if self.plan.is_led && !are_together {
                self.until(LIVE_MAX, |run| run.cluster.node(node).is_running());
            }
        }
    }

    /// Lets the producers hear the end of what they have sent.
    fn drain(&mut self) {
        self.clients
            .producers
            .iter_mut()
            .for_each(|producer| producer.is_ending = true);
        if let Some(keeper) = &mut self.clients.keeper {
            keeper.is_ending = true;
        }
        if let Some(ledger) = &mut self.clients.ledger {
            ledger.is_ending = true;
        }
        for transactor in &mut self.clients.transactors {
            transactor.is_ending = true;
            if self.chance.one_in(3) {
                // Transactions that it left open are the coordinator's to end.
                transactor.crash(&self.cluster.world, &mut self.clients.notes);
            }
        }
        let drained = self.until(DRAIN_MAX, |run| {
            !run.clients.producers.iter().any(Producer::has_unanswered)
                && !run.clients.transactors.iter().any(Transactor::is_open)
        });
        if !drained && self.clients.notes.violations.is_empty() {
            let open = self.clients.transactors.iter();
            let open = open.filter(|transactor| transactor.is_open());
            let open: Vec<String> = open.map(Transactor::describe).collect();
            let waiting = self.clients.producers.iter();
            let waiting = waiting.filter(|producer| producer.has_unanswered()).count();
            self.clients.notes.violation(format!(
                "requests of {waiting} producers stay unanswered after everything healed, and transactions open: {}",
                open.join(", ")
            ));
        }
    }

    fn read_everything(&mut self) {
        if !self.clients.notes.violations.is_empty() {
            return;
        }
        self.clients.readers.clear();
        for (topic, partitions) in self.clients.topics.clone() {
            for isolation in [Isolation::Committed, Isolation::Uncommitted] {
                let chance = self.chance.split();
                self.clients.read(&topic, partitions, isolation, chance);
                self.clients.readers.iter_mut().for_each(Reader::hurry);
            }
        }
        let looks = self.clients.admin.looks;
        let done = |run: &Run| {
            run.clients.readers.iter().all(Reader::is_done) && run.clients.admin.looks > looks
        };
        if self.until(DRAIN_MAX, done) {
            self.judge_sizes();
            self.judge_handles();
            self.judge_memory();
            self.clients.notes.history.read_to_the_end =
                vec![Isolation::Committed, Isolation::Uncommitted];
        } else if self.clients.notes.violations.is_empty() {
            let stuck: Vec<String> = self
                .clients
                .readers
                .iter()
                .filter(|reader| !reader.is_done())
                .map(Reader::describe)
                .collect();
            self.clients
                .notes
                .violation(format!("cannot be read to the end: {}", stuck.join("; ")));
        }
    }

    /// Logs that keep a size were just read from start to end.
    fn judge_sizes(&mut self) {
        for (topic, partitions) in &self.clients.topics {
            let mut readers = self.clients.readers.iter();
            let reader = readers.find(|reader| reader.is_of(topic, Isolation::Uncommitted));
            let Some(reader) = reader else { continue };
            for partition in 0..*partitions {
                let key = self.clients.notes.key(topic, partition);
                let bytes = reader.bytes.get(&partition).copied().unwrap_or(0);
                let judged = self.clients.notes.aging(key).map(|aging| aging.size(bytes));
                if let Some(Err(what)) = judged {
                    let place = format!("{topic}-{partition}");
                    self.clients.notes.violation(format!("{place}: {what}"));
                }
            }
        }
    }

    /// Judges the home node, and parts with its clients.
    fn judge(&mut self, seed: u64, plan: &Plan) -> Verdict {
        self.judge_council();
        let mut bites = std::mem::take(&mut self.bites);
        let (host, clients) = (self.cluster.home(), &mut self.clients);
        if host.remains > 0 {
            let remains = host.remains;
            clients.notes.violation(format!(
                "of {remains} brokers something stays in memory after their end"
            ));
        }
        let (notes, ledger) = (&clients.notes, &clients.ledger);
        let history = &notes.history;
        let report = check(history);
        let mut kinds = vec![Kind::Send, Kind::Poll, Kind::Admin];
        if plan.producers.is_empty() {
            kinds.clear();
        }
        if !plan.transactors.is_empty() {
            kinds.push(Kind::Txn);
        }
        bites.extend(strays(plan, notes, host.starts));
        bites.extend(squeezes(notes));
        let cleaned = ledger.as_ref().map_or((0, 0), Ledger::cleaned);
        if ledger.as_ref().is_some_and(Ledger::is_busy) {
            let (name, bit) = ("aborted records that are cleaned", cleaned.0);
            bites.push(Fault { name, bit });
        }
        let partitions = clients.topics.iter();
        let partitions = partitions.map(|(_, partitions)| *partitions as usize);
        // A node that is cut off from the controller leads nothing, and refuses whatever comes.
        let turns = if plan.is_united { 0 } else { clients.turns };
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
            violations: notes.violations.clone(),
            trace: self.cluster.machines.trace(),
            events: self.cluster.machines.events_count(),
            counts: host.machine.counts(),
            counts_struck: self.counts_struck,
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
            compacted: clients.keeper.as_ref().map_or(0, |it| it.compacted),
            cleaned,
            txns_committed: notes.committed,
            txns_aborted: notes.aborted,
            txns_undecided: notes.undecided,
            fenced: notes.fenced,
            late_batches: notes.late_batches,
            late_additions: notes.late_additions,
            settled: notes.settled,
            expired: notes.expired,
            left_open: self.left_open,
            squeezes: notes.squeezes,
            too_large: notes.too_large,
            forgotten: notes.forgotten,
            acts: notes.acts.values().map(Vec::len).sum(),
            leaderships: self.unity.leaderships(),
            trimmed: self.unity.trimmed,
            leaders: self.copies.moves,
            compared: self.copies.compared,
            fetched: self.unity.fetched,
            reassigned: clients.reassigner.as_ref().map_or(0, |it| it.granted),
            wiped: self.wiped,
            peaks: self.memory.peaks,
        }
    }
}
