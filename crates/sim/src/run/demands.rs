//! The work that must go on again when everything healed, and how soon.
//!
//! Each of these lets time pass until it has what it asks for; what does not come within the limit is a violation that says who waits.

use std::collections::BTreeSet;
use std::time::Duration;

use super::plan::LED_PATIENCE;
use super::{DRAIN_MAX, LIVE_MAX, Run};
use crate::client::keep::ANSWER_MAX;
use crate::client::member::Member;
use crate::client::producer::{Habits, Producer};
use crate::client::transactor::{Transactor, TxnHabits};

/// Sessions and a rebalance or two, with members that sleep and leave meanwhile.
const GROUP_MAX: Duration = Duration::from_secs(60);
/// Of transactions after healing, which nothing holds up.
const TXN_TIMEOUT: Duration = Duration::from_secs(60);

impl Run {
    /// The logs of the coordinators take batches again. While the directory of the metadata was offline nothing could be changed.
    pub(super) fn demand_room(&mut self) {
        if !self.until(DRAIN_MAX, |run| {
            !run.clients.admin.may_be_tight(run.cluster.now())
        }) && self.clients.notes.violations.is_empty()
        {
            let what = "the topics of the coordinators do not get their settings back".to_owned();
            self.clients.notes.violation(what);
        }
    }

    /// Every replica is in sync again: until then the loss of one more node may be one too many. A disk that was slow again and again
    /// is kept out for up to 160 seconds.
    pub(super) fn demand_whole(&mut self) {
        if self.plan.replicas < 2 || !self.clients.notes.violations.is_empty() {
            return;
        }
        if !self.until(DRAIN_MAX, |run| run.copies.are_whole())
            && self.clients.notes.violations.is_empty()
        {
            let what = "not every replica is in sync after everything healed".to_owned();
            self.clients.notes.violation(what);
            self.describe_replicas();
        }
    }

    /// A client that commits without a group's members commits, and reads what is committed.
    pub(super) fn demand_looks(&mut self) {
        let count = |run: &Run| -> Vec<(u64, u64)> {
            let loners = run.clients.loners.iter();
            loners.map(|loner| (loner.commits, loner.looks)).collect()
        };
        let before = count(self);
        let is_done = |run: &Run| {
            let mut both = before.iter().zip(count(run));
            both.all(|(before, now)| before.0 < now.0 && before.1 < now.1)
        };
        if !self.until(LIVE_MAX, is_done) && self.clients.notes.violations.is_empty() {
            let what = format!("of {before:?} commits and looks no more come after healing");
            self.clients.notes.violation(what);
        }
    }

    /// Partitions on their way to another directory get there, also over the restart.
    pub(super) fn demand_moves(&mut self) {
        if self.plan.moves == 0 {
            return;
        }
        self.clients.admin.moving = None;
        let is_done = |run: &Run| run.clients.admin.moving == Some(0);
        if !self.until(DRAIN_MAX, is_done) && self.clients.notes.violations.is_empty() {
            let moving = self.clients.admin.moving;
            self.clients.notes.violation(format!(
                "moves do not end after everything healed: {moving:?} partitions"
            ));
        }
    }

    /// Every partition takes a record within 15 seconds, and every transactional id that is used again commits a transaction over
    /// all its partitions; one of them may stay unused.
    pub(super) fn demand_progress(&mut self) {
        self.clients.producers.clear();
        self.clients.transactors.clear();
        let mut ids = BTreeSet::new();
        for habits in self.plan.transactors.clone() {
            let is_new = ids.insert(habits.id.clone());
            if is_new && (ids.len() == 1 || !self.chance.one_in(3)) {
                self.transact(TxnHabits {
                    batches_max: 2,
                    pause: Duration::from_millis(20),
                    delays: 0,
                    strays: 0,
                    timeout: TXN_TIMEOUT,
                    is_calm: true,
                    ..habits
                });
            }
        }
        let now = self.cluster.now();
        for (topic, partitions) in self.clients.topics.clone() {
            let habits = Habits {
                topic,
                partitions: 0..partitions,
                acks: -1,
                idempotent: true,
                in_flight_max: 5,
                records_max: 2,
                pause: Duration::from_millis(20),
                patience: if self.plan.is_led {
                    LED_PATIENCE
                } else {
                    ANSWER_MAX
                },
            };
            self.clients.produce(habits, self.chance.split(), now);
        }
        let all = |run: &Run| {
            run.clients
                .producers
                .iter()
                .all(|producer| producer.acked.len() == producer.partitions().len())
                && run
                    .clients
                    .transactors
                    .iter()
                    .all(|transactor| transactor.commits > 0)
        };
        if !self.until(LIVE_MAX, all) && self.clients.notes.violations.is_empty() {
            let idle = self.clients.transactors.iter();
            let idle = idle.filter(|transactor| transactor.commits == 0);
            let idle: Vec<String> = idle.map(Transactor::describe).collect();
            let lacking: Vec<String> = self
                .clients
                .producers
                .iter()
                .map(|producer| {
                    format!(
                        "{}: {:?} of {:?}",
                        producer.topic(),
                        producer.acked,
                        producer.partitions()
                    )
                })
                .collect();
            self.clients.notes.violation(format!(
                "not every partition takes records after healing: {}; without a commit: {}",
                lacking.join(", "),
                idle.join(", ")
            ));
            self.describe_replicas();
        }
        self.clients
            .producers
            .iter_mut()
            .for_each(|producer| producer.is_ending = true);
        self.clients
            .transactors
            .iter_mut()
            .for_each(|transactor| transactor.is_ending = true);
        self.until(DRAIN_MAX, |run| {
            !run.clients.producers.iter().any(Producer::has_unanswered)
                && !run.clients.transactors.iter().any(Transactor::is_open)
        });
    }

    /// Every partition of each group has an owner that commits, soon after everything healed.
    pub(super) fn demand_commits(&mut self) {
        if self.clients.members.is_empty() || !self.clients.notes.violations.is_empty() {
            return;
        }
        let partitions = self.clients.topics[0].1;
        let members = self.clients.members.iter();
        let groups: BTreeSet<String> = members.map(|member| member.group().to_owned()).collect();
        let commits = |run: &mut Run| -> Vec<u64> {
            let of = |group| (0..partitions).map(move |partition| (group, partition));
            let all = groups.iter().flat_map(of);
            all.map(|(group, partition)| run.clients.notes.part(group, partition).commits)
                .collect()
        };
        let before = commits(self);
        let limit = self.cluster.now().plus(GROUP_MAX);
        while self.cluster.now() < limit && self.clients.notes.violations.is_empty() {
            let now = commits(self);
            if before.iter().zip(now).all(|(before, now)| *before < now) {
                return;
            }
            self.step(limit);
        }
        if !self.clients.notes.violations.is_empty() {
            return;
        }
        let members: Vec<String> = self.clients.members.iter().map(Member::describe).collect();
        self.clients.notes.violation(format!(
            "not every partition of each group is committed after healing: {}",
            members.join("; ")
        ));
        self.describe_replicas();
    }

    /// The table is what was written, before and after what compaction may still do.
    pub(super) fn demand_table(&mut self) {
        let Some(keeper) = &self.clients.keeper else {
            return;
        };
        // One that began before, and two that show the fate of what the first met on its way out. What could not be written
        // while a directory was offline is written now.
        let enough = keeper.readings + 3;
        let is_read = |run: &Run| {
            let keeper = run.clients.keeper.as_ref();
            keeper.is_none_or(|keeper| keeper.readings >= enough && !keeper.has_unanswered())
        };
        if !self.until(DRAIN_MAX, is_read)
            && self.clients.notes.violations.is_empty()
            && let Some(keeper) = &self.clients.keeper
        {
            let stuck = keeper.describe();
            self.clients
                .notes
                .violation(format!("the table cannot be read to its end: {stuck}"));
        }
    }

    /// The ledger is what was committed, and nothing hangs in it.
    pub(super) fn demand_ledger(&mut self) {
        let Some(ledger) = &self.clients.ledger else {
            return;
        };
        let enough = ledger.readings + 3;
        let is_read = |run: &Run| {
            let ledger = run.clients.ledger.as_ref();
            ledger.is_none_or(|ledger| {
                ledger.readings >= enough && ledger.is_stable && !ledger.is_open()
            })
        };
        if !self.until(DRAIN_MAX, is_read)
            && self.clients.notes.violations.is_empty()
            && let Some(ledger) = &self.clients.ledger
        {
            let stuck = ledger.describe();
            self.clients
                .notes
                .violation(format!("the ledger cannot be read to its end: {stuck}"));
        }
    }
}
