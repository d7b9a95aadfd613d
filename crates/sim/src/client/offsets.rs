//! Offsets committed within transactions: each transaction of a group commits its own number.
//!
//! Transactions of one transactional id follow each other, so the number that is found when none is open speaks for every one of
//! them: those above it did not take effect, the one it names did. That settles what nobody was told, and the records of these
//! transactions are then held against it.

use crate::checker::{Op, Outcome};

struct Numbered {
    /// `None` while it is open.
    outcome: Option<Outcome>,
    /// Its place in the history, if it sent anything.
    op: Option<usize>,
}

/// The transactions of one group by number.
#[derive(Default)]
pub(crate) struct Numbers {
    txns: Vec<Numbered>,
}

impl Numbers {
    pub(crate) fn begin(&mut self) -> i64 {
        self.txns.push(Numbered {
            outcome: None,
            op: None,
        });
        self.txns.len() as i64 - 1
    }

    pub(crate) fn end(&mut self, number: i64, outcome: Outcome, op: Option<usize>) {
        if let Some(txn) = usize::try_from(number)
            .ok()
            .and_then(|at| self.txns.get_mut(at))
        {
            (txn.outcome, txn.op) = (Some(outcome), op);
        }
    }

    /// Judges a committed offset, -1 for none, and decides with it what was unknown, which it adds to `decided`; none of the
    /// transactions may be open.
    pub(crate) fn judge_committed(
        &mut self,
        found: i64,
        ops: &mut [Op],
        decided: &mut Vec<usize>,
    ) -> Result<(), String> {
        if found >= self.txns.len() as i64 {
            return Err(format!("offset {found} was never committed"));
        }
        for (number, txn) in (0..).zip(&mut self.txns) {
            let outcome = match txn.outcome {
                Some(Outcome::Info) if number > found => Outcome::Fail,
                Some(Outcome::Info) if number == found => Outcome::Ok,
                Some(Outcome::Ok) if number > found => {
                    return Err(format!(
                        "transaction {number} was committed, and its offset is {found}"
                    ));
                }
                Some(Outcome::Fail) | None if number == found => {
                    return Err(format!(
                        "offset {found} is that of a transaction whose commit nobody asked for"
                    ));
                }
                _ => continue,
            };
            txn.outcome = Some(outcome);
            if let Some(at) = txn.op
                && let Some(op) = ops.get_mut(at)
            {
                op.outcome = outcome;
                decided.push(at);
            }
        }
        Ok(())
    }
}

impl Numbers {
    /// Judges an offset that was found after a crash: `is_done` says of an operation whether it had been answered before.
    pub(crate) fn judge(&self, found: i64, is_done: impl Fn(usize) -> bool) -> Result<(), String> {
        let is_told = |txn: &Numbered| txn.op.is_some_and(&is_done);
        for (number, txn) in (0..).zip(&self.txns) {
            match txn.outcome {
                Some(Outcome::Ok) if number > found && is_told(txn) => {
                    return Err(format!(
                        "transaction {number} was committed, and its offset is {found}"
                    ));
                }
                Some(Outcome::Fail) if number == found => {
                    return Err(format!(
                        "offset {found} is that of a transaction whose commit nobody asked for"
                    ));
                }
                _ => {}
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::checker::Kind;

    fn numbers(outcomes: &[Outcome]) -> (Numbers, Vec<Op>) {
        let mut numbers = Numbers::default();
        let mut ops = Vec::new();
        for outcome in outcomes {
            let number = numbers.begin();
            let mut op = Op::new(1, Kind::Txn, 0);
            op.outcome = *outcome;
            numbers.end(number, *outcome, Some(ops.len()));
            ops.push(op);
        }
        (numbers, ops)
    }

    #[test]
    fn an_offset_decides_what_nobody_was_told() {
        use Outcome::{Fail, Info, Ok as Done};
        let (mut numbers, mut ops) = numbers(&[Done, Info, Fail, Info, Info]);
        numbers
            .judge_committed(3, &mut ops, &mut Vec::new())
            .unwrap();
        let outcomes: Vec<Outcome> = ops.iter().map(|op| op.outcome).collect();
        assert_eq!(outcomes, [Done, Info, Fail, Done, Fail]);
        assert!(
            numbers
                .judge_committed(4, &mut ops, &mut Vec::new())
                .is_err(),
            "decided otherwise"
        );
    }

    #[test]
    fn after_a_crash_only_what_was_answered_before_counts() {
        use Outcome::{Fail, Ok as Done};
        let (numbers, _) = numbers(&[Done, Fail, Done]);
        assert!(numbers.judge(2, |_| true).is_ok());
        assert!(numbers.judge(0, |_| true).is_err());
        assert!(numbers.judge(0, |op| op < 2).is_ok());
        assert!(numbers.judge(1, |op| op < 2).is_err());
    }

    #[test]
    fn an_offset_that_contradicts_what_was_told_is_refused() {
        use Outcome::{Fail, Ok as Done};
        let refused = |outcomes: &[Outcome], found: i64| {
            let (mut numbers, mut ops) = numbers(outcomes);
            numbers
                .judge_committed(found, &mut ops, &mut Vec::new())
                .is_err()
        };
        assert!(refused(&[Done, Done], 0));
        assert!(refused(&[Done], -1));
        assert!(refused(&[Done, Fail], 1));
        assert!(refused(&[Done], 7));
        assert!(!refused(&[Fail], -1));
        assert!(!refused(&[Done, Done, Fail], 1));
    }
}
