//! P-8: a transaction that nobody ends is ended by its coordinator, within its timeout and ten seconds, however often that begins anew.

use std::collections::BTreeMap;
use std::time::Duration;

use env::sim::HostId;
use wire::messages::ListTransactionsRequest;

use super::survey::{call, ends};
use super::{LIVE_MAX, Run};
use crate::checker::Isolation;

/// The time that a coordinator may take beyond the timeout, and in which the decision reaches all partitions.
const GRACE: Duration = Duration::from_secs(10);

/// States in which nothing is open.
const ENDED: [&str; 4] = ["Empty", "CompleteCommit", "CompleteAbort", "Dead"];

impl Run {
    /// Demands it of a broker that has just been started and is left alone by whoever was in the middle of a transaction. Timeouts
    /// count the time of the wall: where a clock was struck, nothing is known of them.
    pub(super) fn demand_ends(&mut self) {
        let longest = self.plan.transactors.iter().map(|habits| habits.timeout);
        let Some(longest) = longest.max().filter(|_| self.plan.is_clock_true()) else {
            return;
        };
        self.clients.transactors.clear();
        let is_up = self.until(LIVE_MAX, |run| {
            let mut nodes = run.served_nodes().into_iter();
            nodes.all(|node| run.cluster.node(node).is_running())
        });
        if !is_up || self.open_transactions().is_some_and(|open| open.is_empty()) {
            return;
        }
        self.left_open += 1;
        // A timeout counts from the start of its transaction, whichever coordinator began it: the last one has only half the grace.
        for wait in [longest / 2, longest / 2, GRACE / 2] {
            self.until(wait, |_| false);
            self.begin_anew();
        }
        self.until(GRACE / 2, |_| false);
        if !self.clients.notes.violations.is_empty() {
            return;
        }
        match self.open_transactions() {
            None => self
                .clients
                .notes
                .violation("nobody tells which transactions are open".to_owned()),
            Some(open) if !open.is_empty() => self.clients.notes.violation(format!(
                "still open {GRACE:?} after the longest timeout of {longest:?}: {}",
                open.join(", ")
            )),
            Some(_) => {}
        }
        let end = |level| -> BTreeMap<(String, i32), i64> {
            let nodes = self.served_nodes().into_iter();
            let machines = nodes.map(|node| &self.cluster.node(node).machine);
            machines
                .flat_map(|machine| ends(machine, &self.clients.topics, level))
                .collect()
        };
        let (stable, all) = (end(Isolation::Committed), end(Isolation::Uncommitted));
        if stable != all {
            self.clients.notes.violation(format!(
                "readers of committed data end at {stable:?}, others at {all:?}, and no transaction is younger than {longest:?} and {GRACE:?}"
            ));
        }
    }

    /// Transactions of the load's ids, with their states; `None` while a coordinator cannot say.
    fn open_transactions(&self) -> Option<Vec<String>> {
        let nodes = self.served_nodes().into_iter();
        let open: Option<Vec<_>> = nodes.map(|node| self.open_at(node)).collect();
        open.map(|open| open.concat())
    }

    /// Those that one node coordinates.
    fn open_at(&self, node: HostId) -> Option<Vec<String>> {
        let request = ListTransactionsRequest::default();
        let told = call(&self.cluster.node(node).machine, &request, 0)?;
        let states = told.transaction_states.into_iter();
        let is_ours = |id: &str| self.plan.transactors.iter().any(|habits| habits.id == id);
        let open = states.filter(|of| {
            is_ours(&of.transactional_id) && !ENDED.contains(&of.transaction_state.as_str())
        });
        let name = |of: wire::messages::list_transactions_response::TransactionState| {
            format!("{} {}", of.transactional_id, of.transaction_state)
        };
        (told.error_code == 0).then(|| open.map(name).collect())
    }
}
