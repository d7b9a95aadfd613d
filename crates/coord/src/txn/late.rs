//! Transactions that were open for too long are aborted, some of them at each check.
//!
//! Owns how far the round came and how many are tried together. The log takes what one check decides whole or not at all, and
//! nobody says which: what was tried and is open as before was refused. Invariant: a transaction that is refused whatever goes
//! with it (its record is too large, say) keeps no other open. It is found by trying fewer, passed over, and tried again in the
//! next round.

use std::collections::BTreeSet;
use std::time::Duration;

use model::Timestamp;

use super::ask::Producer;
use super::state::{Txn, TxnState, is_exhausted};
use super::{Decision, Fresh, STEP_BYTES_MAX, Transactions, fence};
use crate::{Moment, Step};

/// Late transactions that one check aborts; the others follow soon.
pub(super) const ABORTED_PER_CHECK_MAX: usize = 100;

#[derive(Debug)]
pub(super) struct Late {
    /// Aborted by one check: a single one after a refusal, twice as many after each success.
    together_max: usize,
    /// The last one that was refused alone; the round goes on behind it.
    behind: Option<String>,
    tried: Option<Tried>,
    /// Those that are open and were told to be too large for the log.
    too_large: BTreeSet<String>,
}

/// The transactions that the last check wanted to abort.
#[derive(Debug)]
struct Tried {
    first: String,
    /// Of the first, before it was to be fenced.
    producer: Producer,
    count: usize,
}

impl Default for Late {
    fn default() -> Self {
        Late {
            together_max: ABORTED_PER_CHECK_MAX,
            behind: None,
            tried: None,
            too_large: BTreeSet::new(),
        }
    }
}

impl Late {
    fn on_refused(&mut self, tried: Tried) {
        self.together_max = 1;
        if tried.count == 1 {
            self.behind = Some(tried.first);
        }
    }

    fn on_aborted(&mut self) {
        self.together_max = (2 * self.together_max).min(ABORTED_PER_CHECK_MAX);
    }

    fn has_passed(&self, id: &str) -> bool {
        self.behind.as_deref().is_some_and(|behind| id <= behind)
    }
}

impl Transactions {
    /// Aborts late transactions of the present round; nothing when it is over, and the next check begins another one.
    pub(super) fn abort_late(&mut self, at: Moment, fresh: Fresh<'_>) -> Decision {
        self.judge_last_try();
        let mut step = Step::default();
        let mut recovered = Vec::new();
        let mut bytes = 0;
        for (id, txn) in &mut self.txns {
            if !is_late(txn, at) || self.late.has_passed(id) {
                continue;
            }
            bytes += txn.size(id);
            let is_full = step.records.len() == self.late.together_max || STEP_BYTES_MAX < bytes;
            if is_full && !step.records.is_empty() {
                break;
            }
            let fresh = if is_exhausted(txn.producer.epoch) {
                fresh()
            } else {
                None
            };
            let fenced = fence(txn, fresh, self.level, at.wall);
            recovered.push((fenced.producer, fenced.last_epoch));
            step.records.push(fenced.record(id));
            step.effects.push(fenced.markers(id));
            let tried = self.late.tried.get_or_insert_with(|| Tried {
                first: id.clone(),
                producer: txn.producer,
                count: 0,
            });
            tried.count += 1;
        }
        if step.records.is_empty() {
            self.late.behind = None
        } else {
            self.recovered = recovered;
            self.check_again_soon(at);
        }
        step
    }

    /// The last check was refused because the log takes no record so large. The transaction that this is about, if it was tried
    /// alone and was not told before.
    pub fn take_too_large(&mut self) -> Option<String> {
        let txns = &self.txns;
        let is_open = |id: &String| {
            txns.get(id)
                .is_some_and(|txn| txn.state == TxnState::Ongoing)
        };
        self.late.too_large.retain(is_open);
        let tried = self.late.tried.as_ref().filter(|tried| tried.count == 1)?;
        let is_new = self.late.too_large.insert(tried.first.clone());
        is_new.then(|| tried.first.clone())
    }

    fn judge_last_try(&mut self) {
        let Some(tried) = self.late.tried.take() else {
            return;
        };
        let first = self.txns.get(&tried.first);
        let is_as_before =
            |txn: &Txn| txn.state == TxnState::Ongoing && txn.producer == tried.producer;
        if first.is_some_and(is_as_before) {
            self.late.on_refused(tried)
        } else {
            self.late.on_aborted()
        }
    }
}

fn is_late(txn: &mut Txn, at: Moment) -> bool {
    let timeout = Duration::from_millis(u64::try_from(txn.timeout_ms).unwrap_or(0));
    let open_since = *txn.seen_open.get_or_insert(at.now);
    let Timestamp(start) = txn.start;
    // A wall clock that was set back must not keep a transaction open for longer.
    let is_late = start.saturating_add(i64::from(txn.timeout_ms)) < at.wall.0
        || at.now.since(open_since) > timeout;
    txn.state == TxnState::Ongoing && is_late
}
