//! Memory for requests that are not whole yet, of all connections of all shards together.
//!
//! The [`Budget`] is the broker's; an [`Account`] is what one shard has drawn of it, in steps, so that a buffer that grows rarely
//! touches a shared counter and an append into a buffer never does. Invariant: the accounts together stay within the limit, but
//! for one request of each shard, which may be finished beyond it. Without that licence, requests that are half received would
//! wait for each other for ever. Memory that comes free is for those that wait, in the order in which they began to.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use env::ConnId;

/// Drawn at a time, and left on an account that gives back: 1 MiB, or less where the limit is small.
const STEP_BYTES_MAX: usize = 1 << 20;

pub(crate) struct Budget {
    limit: usize,
    step: usize,
    drawn: AtomicUsize,
    /// Connections that are not read for want of memory.
    denied: AtomicUsize,
}

impl Budget {
    pub(crate) fn new(limit: usize, shards: usize) -> Budget {
        Budget {
            limit,
            // Bytes that rest on accounts unused are at most a quarter of the limit.
            step: (limit / (8 * shards.max(1))).clamp(1, STEP_BYTES_MAX),
            drawn: AtomicUsize::new(0),
            denied: AtomicUsize::new(0),
        }
    }

    /// Somebody waits for memory: who has more than he needs gives it back, who keeps others waiting is cut off.
    pub(crate) fn is_short(&self) -> bool {
        0 < self.denied.load(Ordering::Relaxed)
    }

    /// A request that lacks so much holds no other one up: it would wait until nearly all memory is free.
    fn is_large(&self, missing: usize) -> bool {
        self.limit / 2 < missing
    }

    fn draw(&self, bytes: usize) -> bool {
        let add = |drawn: usize| drawn.checked_add(bytes).filter(|sum| *sum <= self.limit);
        self.drawn
            .fetch_update(Ordering::Relaxed, Ordering::Relaxed, add)
            .is_ok()
    }
}

pub(crate) struct Account {
    budget: Arc<Budget>,
    drawn: usize,
    used: usize,
    /// May finish its request whatever that takes.
    licence: Option<ConnId>,
    /// Connections that wait for memory, and how many bytes their requests lack.
    denied: BTreeMap<ConnId, usize>,
    /// Connections that waited for memory, each with its place in the order until its request is whole.
    turns: BTreeMap<ConnId, u64>,
    next_turn: u64,
}

impl Account {
    pub(crate) fn new(budget: Arc<Budget>) -> Account {
        Account {
            budget,
            drawn: 0,
            used: 0,
            licence: None,
            denied: BTreeMap::new(),
            turns: BTreeMap::new(),
            next_turn: 0,
        }
    }

    /// Bytes that the shard's connections use.
    pub(crate) fn used(&self) -> usize {
        self.used
    }

    pub(crate) fn is_short(&self) -> bool {
        self.budget.is_short()
    }

    /// Changes what `owner` uses from `from` to `to` bytes; false, and no change, when there is no memory for that.
    pub(crate) fn resize(&mut self, owner: ConnId, from: usize, to: usize) -> bool {
        if to == from {
            return true;
        }
        if to < from {
            self.give(from - to);
            return true;
        }
        if self.is_short() && self.licence != Some(owner) && self.is_behind(owner) {
            return false;
        }
        let used = self.used + (to - from);
        let missing = used.saturating_sub(self.drawn);
        if 0 < missing && !self.draw(missing) {
            if self.licence != Some(owner) {
                return false;
            }
            self.budget.drawn.fetch_add(missing, Ordering::Relaxed);
            self.drawn += missing;
        }
        self.used = used;
        true
    }

    /// True if others wait that come before it. One that has not waited yet comes after all of them, those of other shards too.
    fn is_behind(&self, owner: ConnId) -> bool {
        let Some(turn) = self.turns.get(&owner) else {
            return true;
        };
        let mut small = self
            .denied
            .iter()
            .filter(|(_, missing)| !self.budget.is_large(**missing));
        small.any(|(other, _)| self.turns.get(other).is_some_and(|other| other < turn))
    }

    fn draw(&mut self, missing: usize) -> bool {
        let step = missing.max(self.budget.step);
        let drawn = [step, missing]
            .into_iter()
            .find(|bytes| self.budget.draw(*bytes));
        self.drawn += drawn.unwrap_or(0);
        drawn.is_some()
    }

    fn give(&mut self, bytes: usize) {
        self.used -= bytes;
        let rest = self.drawn - self.used;
        // Where somebody waits nothing is kept in reserve.
        let keep = if self.is_short() { 0 } else { self.budget.step };
        if rest > 2 * keep {
            self.drawn -= rest - keep;
            self.budget.drawn.fetch_sub(rest - keep, Ordering::Relaxed);
        }
    }

    /// `owner` waits; its request lacks `missing` bytes.
    pub(crate) fn deny(&mut self, owner: ConnId, missing: usize) {
        if self.denied.insert(owner, missing).is_none() {
            self.budget.denied.fetch_add(1, Ordering::Relaxed);
        }
        if !self.turns.contains_key(&owner) {
            self.turns.insert(owner, self.next_turn);
            self.next_turn += 1;
        }
    }

    /// True if connections of this shard wait.
    pub(crate) fn is_any_denied(&self) -> bool {
        !self.denied.is_empty()
    }

    /// `owner` was given memory, or is gone.
    pub(crate) fn end_denial(&mut self, owner: ConnId) {
        if !self.denied.is_empty() && self.denied.remove(&owner).is_some() {
            self.budget.denied.fetch_sub(1, Ordering::Relaxed);
        }
    }

    pub(crate) fn has_licence(&self, owner: ConnId) -> bool {
        self.licence == Some(owner)
    }

    /// The request of `owner` is whole, or its connection is gone: another may have the licence. True when `owner` had it, and is to
    /// give back what it does not need: the next one will take as much.
    pub(crate) fn finish(&mut self, owner: ConnId) -> bool {
        if !self.turns.is_empty() {
            self.turns.remove(&owner);
        }
        self.return_licence(owner)
    }

    /// `owner` does not go on for now: another may have the licence. True when `owner` had it, as above.
    pub(crate) fn return_licence(&mut self, owner: ConnId) -> bool {
        let had_licence = self.licence == Some(owner);
        if had_licence {
            self.licence = None;
        }
        had_licence
    }

    /// Those who wait, to try again in this order. The one whose request lacks least gets the licence when nobody has it: it is soonest done.
    pub(crate) fn retry(&mut self) -> Vec<ConnId> {
        if self.licence.is_none() {
            let least = self.denied.iter().min_by_key(|(_, missing)| **missing);
            self.licence = least.map(|(conn, _)| *conn);
        }
        // Kept for steps to come; a request that waits needs it more.
        self.give(0);
        let mut waiting: Vec<ConnId> = self.denied.keys().copied().collect();
        waiting.sort_by_key(|conn| self.turns.get(conn));
        waiting
    }
}

impl Drop for Account {
    fn drop(&mut self) {
        self.budget.drawn.fetch_sub(self.drawn, Ordering::Relaxed);
        self.budget
            .denied
            .fetch_sub(self.denied.len(), Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const A: ConnId = ConnId(1);
    const B: ConnId = ConnId(2);
    const C: ConnId = ConnId(3);
    const D: ConnId = ConnId(4);
    const E: ConnId = ConnId(5);

    fn accounts(limit: usize) -> (Arc<Budget>, Account, Account) {
        let budget = Arc::new(Budget::new(limit, 2));
        let account = || Account::new(Arc::clone(&budget));
        let (one, other) = (account(), account());
        (budget, one, other)
    }

    #[test]
    fn accounts_share_one_limit() {
        let (budget, mut one, mut other) = accounts(1000);
        assert!(one.resize(A, 0, 700));
        assert!(!other.resize(B, 0, 400), "1100 of 1000");
        assert!(other.resize(B, 0, 200));
        assert!(one.resize(A, 700, 100) && other.resize(B, 200, 700));
        drop((one, other));
        assert_eq!(budget.drawn.load(Ordering::Relaxed), 0);
    }

    #[test]
    fn small_changes_touch_no_shared_counter() {
        let (budget, mut one, _other) = accounts(64 << 20);
        assert!(one.resize(A, 0, 600 << 10));
        let drawn = budget.drawn.load(Ordering::Relaxed);
        assert_eq!(drawn, STEP_BYTES_MAX);
        for _ in 0..100 {
            assert!(one.resize(A, 600 << 10, 900 << 10) && one.resize(A, 900 << 10, 32 << 10));
            assert!(one.resize(A, 32 << 10, 600 << 10));
        }
        assert_eq!(budget.drawn.load(Ordering::Relaxed), drawn);
    }

    #[test]
    fn who_lacks_least_may_finish_beyond_the_limit_and_only_one() {
        let (budget, mut one, _other) = accounts(1000);
        assert!(one.resize(A, 0, 500) && one.resize(B, 0, 500));
        for (conn, missing) in [(A, 4000), (B, 2000)] {
            assert!(!one.resize(conn, 500, 600));
            one.deny(conn, missing);
        }
        assert!(budget.is_short());
        assert_eq!(one.retry(), vec![A, B]);
        assert!(one.resize(B, 500, 2500) && !one.resize(A, 500, 600));
        one.end_denial(B);
        assert!(
            !one.resize(C, 0, 1),
            "what was overdrawn is missing elsewhere"
        );

        one.finish(B);
        assert!(one.resize(B, 2500, 0) && one.resize(A, 500, 900));
        one.end_denial(A);
        assert!(!budget.is_short());
    }

    #[test]
    fn who_waits_is_given_memory_before_others_and_in_turn() {
        let (_, mut one, mut other) = accounts(1000);
        assert!(one.resize(A, 0, 500) && one.resize(B, 0, 500));
        for conn in [C, D] {
            assert!(!one.resize(conn, 0, 200));
            one.deny(conn, 200);
        }
        one.finish(A);
        assert!(one.resize(A, 500, 0));
        assert!(!one.resize(A, 0, 100), "it has not waited");
        assert!(!other.resize(E, 0, 100), "nor has one of another shard");
        assert!(!one.resize(D, 0, 100), "it waits for less long than C");
        assert!(one.resize(C, 0, 100));
        one.end_denial(C);
        assert!(one.resize(C, 100, 200), "it keeps its turn");
        assert!(one.resize(D, 0, 200));
        one.end_denial(D);
        assert!(one.resize(A, 0, 100), "nobody waits");
    }

    #[test]
    fn a_request_larger_than_half_of_all_holds_no_other_one_up() {
        let (_, mut one, _other) = accounts(1000);
        assert!(one.resize(A, 0, 900));
        for (conn, missing) in [(B, 5000), (C, 200)] {
            assert!(!one.resize(conn, 0, 200));
            one.deny(conn, missing);
        }
        assert!(one.resize(A, 900, 0) && one.resize(C, 0, 200));
    }

    #[test]
    fn what_rests_unused_goes_to_who_waits() {
        let (_, mut one, mut other) = accounts(1600);
        assert!(
            one.resize(A, 0, 300) && one.resize(A, 300, 250),
            "300 drawn"
        );
        assert!(other.resize(B, 0, 1250));
        assert!(!other.resize(B, 1250, 1350));
        other.deny(B, 100);
        one.retry();
        assert!(other.resize(B, 1250, 1350));
    }
}
