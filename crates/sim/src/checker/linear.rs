//! metadata-linearizable (I15): what several clients were told of one topic that they all create, delete, alter and read is what one
//! after the other would have been told, in an order in which nothing comes before what was over when it began.
//!
//! The search of Wing and Gong with Lowe's memory: states that were reached before by the same acts are not tried again. Exponential in
//! what is under way together, so histories are of one name and short. An act that nobody was answered may have been done at any
//! time since, or never.

use std::collections::HashSet;

/// Values are used once.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verb {
    Create(u64),
    Delete,
    Alter(u64),
    Read,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Told {
    Done,
    /// It is there already.
    Exists,
    Missing,
    Value(u64),
    /// Nothing, or that it is not known.
    Unknown,
}

#[derive(Clone, Copy, Debug)]
pub struct Act {
    pub verb: Verb,
    pub told: Told,
    pub invoked: u64,
    /// The largest number for what was never answered.
    pub returned: u64,
}

impl Act {
    #[must_use]
    pub fn begun(verb: Verb, invoked: u64) -> Act {
        Act {
            verb,
            told: Told::Unknown,
            invoked,
            returned: u64::MAX,
        }
    }

    fn is_known(&self) -> bool {
        self.told != Told::Unknown
    }

    /// The value that is there afterwards, if this may be told where `value` is.
    fn apply(&self, value: Option<u64>) -> Option<Option<u64>> {
        let after = match self.verb {
            Verb::Create(new) => value.or(Some(new)),
            Verb::Delete => None,
            Verb::Alter(new) => value.map(|_| new),
            Verb::Read => value,
        };
        let fits = match (self.verb, self.told) {
            (_, Told::Unknown) => true,
            (Verb::Create(_), Told::Done) => value.is_none(),
            (Verb::Create(_), Told::Exists) => value.is_some(),
            (Verb::Delete | Verb::Alter(_), Told::Done) => value.is_some(),
            (Verb::Delete | Verb::Alter(_) | Verb::Read, Told::Missing) => value.is_none(),
            (Verb::Read, Told::Value(told)) => value == Some(told),
            _ => false,
        };
        fits.then_some(after)
    }
}

/// Which acts are done, and what is there then.
type Reached = (Vec<bool>, Option<u64>);

/// True if there is such an order for a name that is not there at first; else the answer that fits in none.
pub fn linearize(acts: &[Act]) -> Result<(), Vec<Act>> {
    let mut acts = acts.to_vec();
    // A client that only asked and heard nothing says nothing.
    acts.retain(|act| act.is_known() || act.verb != Verb::Read);
    acts.sort_by_key(|act| (act.invoked, act.returned));
    let mut seen: HashSet<Reached> = HashSet::new();
    let mut open: Vec<Reached> = vec![(vec![false; acts.len()], None)];
    let mut furthest = (0, 0);
    while let Some((done, value)) = open.pop() {
        let left = || (0..acts.len()).filter(|at| !done[*at]);
        let known = left().filter(|at| acts[*at].is_known());
        let Some(end) = known.map(|at| acts[at].returned).min() else {
            return Ok(());
        };
        furthest = furthest.max((acts.len() - left().count(), end));
        for at in left().filter(|at| acts[*at].invoked <= end) {
            if let Some(after) = acts[at].apply(value) {
                let mut done = done.clone();
                done[at] = true;
                let reached = (done, after);
                if seen.insert(reached.clone()) {
                    open.push(reached);
                }
            }
        }
    }
    // Operations shown around the first that has no place in an order.
    const SHOWN_MAX: usize = 8;
    let (_, end) = furthest;
    let before = acts.partition_point(|act| act.invoked <= end);
    Err(acts[before.saturating_sub(SHOWN_MAX)..before].to_vec())
}

#[cfg(test)]
mod tests {
    use super::Told::*;
    use super::Verb::*;
    use super::*;

    fn act(verb: Verb, told: Told, invoked: u64, returned: u64) -> Act {
        Act {
            verb,
            told,
            invoked,
            returned,
        }
    }

    #[track_caller]
    fn check(is_fine: bool, acts: &[Act]) {
        assert_eq!(linearize(acts).is_ok(), is_fine);
    }

    #[test]
    fn one_after_the_other_is_what_it_says() {
        let mut acts = vec![
            act(Read, Missing, 0, 1),
            act(Create(1), Done, 2, 3),
            act(Create(2), Exists, 4, 5),
            act(Read, Value(1), 6, 7),
            act(Alter(3), Done, 8, 9),
            act(Read, Value(3), 10, 11),
            act(Delete, Done, 12, 13),
            act(Delete, Missing, 14, 15),
            act(Alter(4), Missing, 16, 17),
        ];
        check(true, &acts);
        for at in [1, 4, 6] {
            let without: Vec<Act> = [&acts[..at], &acts[at + 1..]].concat();
            check(false, &without);
        }
        acts.swap(1, 6);
        check(true, &acts);
    }

    #[test]
    fn what_is_under_way_together_may_be_in_any_order() {
        check(
            true,
            &[act(Read, Value(1), 0, 9), act(Create(1), Done, 1, 8)],
        );
        let both = [act(Create(1), Done, 0, 9), act(Create(2), Done, 1, 8)];
        check(false, &both);
        check(true, &[&both[..], &[act(Delete, Done, 2, 7)]].concat());
    }

    #[test]
    fn a_read_goes_not_back() {
        let stale = [
            act(Create(1), Done, 0, 1),
            act(Alter(2), Done, 2, 10),
            act(Read, Value(2), 3, 4),
            act(Read, Value(1), 5, 6),
        ];
        check(false, &stale);
        check(true, &stale[..3]);
    }

    #[test]
    fn what_nobody_was_told_may_have_been_done_later_or_never() {
        let asked = [Act::begun(Create(1), 5)];
        for told in [Missing, Value(1)] {
            check(true, &[&asked[..], &[act(Read, told, 6, 7)]].concat());
        }
        check(false, &[act(Read, Value(1), 0, 4), asked[0]]);
        let seen_and_gone = [act(Read, Value(1), 6, 7), act(Read, Missing, 8, 9)];
        check(false, &[&asked[..], &seen_and_gone].concat());
        let deleted = [Act::begun(Delete, 0)];
        check(true, &[&asked[..], &deleted, &seen_and_gone].concat());
    }
}
