//! Brute force: every pair of logs of up to six records and four epochs that a quorum could have written.

use super::*;

/// The epoch of each record, and whether the newest leader has begun an epoch without a record.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Log {
    records: Vec<i32>,
    begun: Option<i32>,
}

const RECORDS_MAX: usize = 6;
const EPOCHS: i32 = 4;

impl Log {
    fn epochs(&self) -> Vec<EpochStart> {
        let mut epochs: Vec<EpochStart> = Vec::new();
        let places = self.records.iter().copied().chain(self.begun).enumerate();
        for (at, epoch) in places {
            if epochs.last().is_none_or(|last| last.epoch.0 < epoch) {
                epochs.push(EpochStart {
                    epoch: LeaderEpoch(epoch),
                    start: Offset(at as i64),
                });
            }
        }
        epochs
    }

    fn end(&self) -> Offset {
        Offset(self.records.len() as i64)
    }

    fn judge(&self, asked: EpochEnd) -> Option<EpochEnd> {
        let epochs = self.epochs();
        let lineage = Lineage {
            epochs: &epochs,
            log_end: self.end(),
        };
        lineage.judge(asked)
    }

    fn cut(&mut self, told: EpochEnd) {
        let epochs = self.epochs();
        let lineage = Lineage {
            epochs: &epochs,
            log_end: self.end(),
        };
        let to = lineage.cut_to(told);
        self.records.truncate(to.0 as usize);
        self.begun = None;
    }

    fn shared_with(&self, other: &Log) -> usize {
        let pairs = self.records.iter().zip(&other.records);
        pairs.take_while(|(ours, theirs)| ours == theirs).count()
    }

    /// A record is known by its offset and epoch. Two logs of one quorum that share a record share all before it.
    fn is_of_one_quorum_with(&self, other: &Log) -> bool {
        let shared = self.shared_with(other);
        let behind = self.records.iter().zip(&other.records).skip(shared);
        // An epoch has one leader, whose log is one log: both got its records at the same offsets.
        let theirs = other.epochs();
        let starts_agree = self.epochs().iter().all(|ours| {
            let same = theirs.iter().find(|theirs| theirs.epoch == ours.epoch);
            same.is_none_or(|theirs| theirs.start == ours.start)
        });
        behind.into_iter().all(|(ours, theirs)| ours != theirs) && starts_agree
    }
}

fn logs() -> Vec<Log> {
    let mut records: Vec<Vec<i32>> = vec![Vec::new()];
    let mut from = 0;
    while let Some(log) = records.get(from).cloned() {
        from += 1;
        if log.len() < RECORDS_MAX {
            let least = log.last().copied().unwrap_or(0);
            records.extend((least..EPOCHS).map(|epoch| {
                let mut longer = log.clone();
                longer.push(epoch);
                longer
            }));
        }
    }
    let begun = |records: &Vec<i32>| {
        let least = records.last().map_or(0, |last| last + 1);
        std::iter::once(None).chain((least..EPOCHS).map(Some))
    };
    let all = records.iter().flat_map(|records| {
        begun(records).map(|begun| Log {
            records: records.clone(),
            begun,
        })
    });
    all.collect()
}

#[test]
fn follower_ends_with_exactly_what_both_logs_have() {
    let logs = logs();
    let (mut pairs, mut rounds_max) = (0, 0);
    for leader in &logs {
        for follower in &logs {
            // An epoch that both began without a record was begun by one leader only.
            if !leader.is_of_one_quorum_with(follower) || follower.begun.is_some() {
                continue;
            }
            pairs += 1;
            let shared = follower.shared_with(leader);
            let mut cut = follower.clone();
            let mut rounds = 0;
            loop {
                let asked = EpochEnd {
                    epoch: LeaderEpoch(cut.records.last().copied().unwrap_or(0)),
                    end: cut.end(),
                };
                let Some(told) = leader.judge(asked) else {
                    break;
                };
                // An empty log is never cut: both sides treat offset 0 as agreed.
                if cut.records.is_empty() {
                    break;
                }
                let before = cut.records.len();
                cut.cut(told);
                rounds += 1;
                assert!(
                    cut.records.len() < before,
                    "no progress: {follower:?} of {leader:?}"
                );
                assert!(
                    cut.records.len() >= shared,
                    "lost a shared record: {follower:?} of {leader:?}, told {told:?}"
                );
            }
            assert_eq!(cut.records.len(), shared, "{follower:?} of {leader:?}");
            rounds_max = rounds_max.max(rounds);
        }
    }
    assert!(pairs > 5_000, "{pairs} pairs are too few to mean anything");
    // Four epochs on each side: a round for each of the follower's epochs that the leader lacks.
    assert!(rounds_max <= EPOCHS, "{rounds_max} rounds");
}

#[test]
fn any_two_logs_come_to_an_end() {
    // Also logs that no quorum could have written: a peer's slip must not make us ask for ever.
    let logs = logs();
    for leader in &logs {
        for follower in &logs {
            let mut cut = follower.clone();
            for _ in 0..=RECORDS_MAX {
                let asked = EpochEnd {
                    epoch: LeaderEpoch(cut.records.last().copied().unwrap_or(0)),
                    end: cut.end(),
                };
                match leader.judge(asked) {
                    Some(told) if !cut.records.is_empty() => cut.cut(told),
                    Some(_) | None => break,
                }
            }
            let agreed = leader.judge(EpochEnd {
                epoch: LeaderEpoch(cut.records.last().copied().unwrap_or(0)),
                end: cut.end(),
            });
            assert!(
                agreed.is_none() || cut.records.is_empty(),
                "{follower:?} of {leader:?}"
            );
        }
    }
}

#[test]
fn log_is_cut_between_batches() {
    // Ours: one batch 0..3 of epoch 1, then epoch 3. The leader's: epoch 1 up to 1, epoch 2 up to 2. Its 2 lies inside our batch.
    let epochs = [(1, 0), (3, 3)].map(|(epoch, start)| EpochStart {
        epoch: LeaderEpoch(epoch),
        start: Offset(start),
    });
    let ours = Lineage {
        epochs: &epochs,
        log_end: Offset(5),
    };
    let told = EpochEnd {
        epoch: LeaderEpoch(2),
        end: Offset(2),
    };
    assert_eq!(ours.cut_to(told), Offset(3));
}
