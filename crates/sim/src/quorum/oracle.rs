//! The promises of Raft, seen from above: they hold at every step, whatever happened.

use std::collections::{BTreeMap, HashMap};
use std::hash::{DefaultHasher, Hash, Hasher};

use model::{LeaderEpoch, Offset};
use raft::control::{self, Control};
use raft::{Effect, Replica, Request, Response};
use wire::records::Batch;

use super::disk::LogImage;

/// A batch by what makes it that batch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Known {
    next: Offset,
    crc: u32,
    /// Epoch of the batch before it: with the place and the epoch, that is a proof for all before it.
    before: LeaderEpoch,
}

#[derive(Clone, Copy, Debug)]
struct Committed {
    base: Offset,
    next: Offset,
    epoch: LeaderEpoch,
    /// The epoch in which it was committed, by a batch of that one behind it.
    by: LeaderEpoch,
    crc: u32,
    /// Of this batch and all before it.
    digest: u64,
}

#[derive(Debug, Default)]
pub(super) struct Oracle {
    leaders: BTreeMap<LeaderEpoch, Replica>,
    batches: HashMap<(Offset, LeaderEpoch), Known>,
    committed: Vec<Committed>,
    /// The id that the committed log names.
    cluster: Option<String>,
    votes: HashMap<(LeaderEpoch, Replica), Replica>,
}

type Broken = Result<(), String>;

impl Oracle {
    pub(super) fn committed_end(&self) -> Offset {
        self.committed.last().map_or(Offset::ZERO, |last| last.next)
    }

    pub(super) fn elections(&self) -> usize {
        self.leaders.len()
    }

    /// Of everything committed below `end`.
    pub(super) fn digest(&self, end: Offset) -> Option<u64> {
        if end == Offset::ZERO {
            return Some(0);
        }
        let at = self.committed.partition_point(|batch| batch.next < end);
        let found = self.committed.get(at).filter(|batch| batch.next == end);
        found.map(|batch| batch.digest)
    }

    /// A replica takes a batch into its log, behind a batch of epoch `before`.
    pub(super) fn on_append(&mut self, batch: &Batch, before: LeaderEpoch) -> Broken {
        let known = Known {
            next: batch.next_offset(),
            crc: batch.crc(),
            before,
        };
        let place = (batch.base_offset(), batch.leader_epoch());
        let old = *self.batches.entry(place).or_insert(known);
        if old == known {
            Ok(())
        } else {
            let (at, epoch) = place;
            Err(format!(
                "logs do not match: two batches at {at} in epoch {epoch}: {old:?} and {known:?}"
            ))
        }
    }

    pub(super) fn on_leader(
        &mut self,
        epoch: LeaderEpoch,
        leader: Replica,
        log: &LogImage,
    ) -> Broken {
        if let Some(old) = self.leaders.get(&epoch) {
            return if *old == leader {
                Ok(())
            } else {
                Err(format!("two leaders in epoch {epoch}: {old} and {leader}"))
            };
        }
        self.leaders.insert(epoch, leader);
        // A candidate of an older epoch, whose last vote was long on its way, knows nothing of later ones and commits nothing.
        let before = self.committed.partition_point(|batch| batch.by < epoch);
        let Some(last) = before.checked_sub(1).and_then(|at| self.committed.get(at)) else {
            return Ok(());
        };
        let has_it = log.start() >= last.next
            || log
                .batch_at(last.base)
                .is_some_and(|batch| batch.leader_epoch() == last.epoch && batch.crc() == last.crc);
        if has_it {
            Ok(())
        } else {
            Err(format!(
                "leader {leader} of epoch {epoch} lacks {}..{} of epoch {}, which is committed",
                last.base, last.next, last.epoch
            ))
        }
    }

    /// A replica says that its log is committed from `from` (which it said before) up to `to`. True if nobody said so before.
    pub(super) fn on_watermark(
        &mut self,
        replica: Replica,
        from: Offset,
        to: Offset,
        log: &LogImage,
    ) -> Result<bool, String> {
        let mut is_new = false;
        let first = log
            .batches
            .partition_point(|batch| batch.base_offset() < from);
        let last = log.batch_before(to).map(|batch| batch.leader_epoch());
        for batch in log.batches.range(first..) {
            if batch.next_offset() > to {
                break;
            }
            let by = last.unwrap_or(batch.leader_epoch());
            is_new |= self.on_committed(replica, batch, by)?;
        }
        if self.committed_end() < to {
            return Err(format!(
                "{replica} takes {to} for committed, which its log does not show"
            ));
        }
        Ok(is_new)
    }

    fn on_committed(
        &mut self,
        replica: Replica,
        batch: &Batch,
        by: LeaderEpoch,
    ) -> Result<bool, String> {
        let base = batch.base_offset();
        let end = self.committed_end();
        if base >= end {
            if base > end {
                return Err(format!("{replica} commits {base}, the others are at {end}"));
            }
            self.note_cluster(replica, batch)?;
            let mut hasher = DefaultHasher::new();
            let before = self.committed.last().map_or(0, |last| last.digest);
            (before, base.0, batch.leader_epoch().0, batch.crc()).hash(&mut hasher);
            self.committed.push(Committed {
                base,
                next: batch.next_offset(),
                epoch: batch.leader_epoch(),
                by,
                crc: batch.crc(),
                digest: hasher.finish(),
            });
            return Ok(true);
        }
        let at = self.committed.partition_point(|known| known.base < base);
        let known = self.committed.get(at);
        let is_same = known.is_some_and(|known| {
            known.base == base && known.epoch == batch.leader_epoch() && known.crc == batch.crc()
        });
        if is_same {
            Ok(false)
        } else {
            Err(format!(
                "{replica} takes a batch of epoch {} at {base} for committed, others have {known:?}",
                batch.leader_epoch()
            ))
        }
    }

    /// The committed log names one cluster.
    fn note_cluster(&mut self, replica: Replica, batch: &Batch) -> Broken {
        for (_, record) in control::read(batch).unwrap_or_default() {
            if let Control::LeaderChange(change) = record
                && let Some(cluster) = change.cluster_id
            {
                let known = self.cluster.get_or_insert_with(|| cluster.clone());
                if *known != cluster {
                    return Err(format!("{replica} commits {cluster} behind {known}"));
                }
            }
        }
        Ok(())
    }

    /// The id that the committed log names.
    pub(super) fn cluster(&self) -> Option<&str> {
        self.cluster.as_deref()
    }

    /// Looks at a message on its way out: no voter votes for two in one epoch, whatever it forgot in between. True if it is a vote.
    pub(super) fn on_message(
        &mut self,
        voter: Replica,
        effect: &Effect,
        asked: Option<&Request>,
    ) -> Result<bool, String> {
        let (epoch, candidate) = match (effect, asked) {
            (
                Effect::Send {
                    request: Request::Vote(request),
                    ..
                },
                _,
            ) => {
                let part = &request.topics[0].partitions[0];
                if part.pre_vote {
                    return Ok(false);
                }
                (part.replica_epoch, voter)
            }
            (
                Effect::Answer {
                    response: Response::Vote(response),
                    ..
                },
                Some(Request::Vote(request)),
            ) => {
                let part = &request.topics[0].partitions[0];
                let granted = response.topics.first().map(|topic| &topic.partitions[0]);
                if part.pre_vote || !granted.is_some_and(|granted| granted.vote_granted) {
                    return Ok(false);
                }
                let candidate = Replica {
                    id: model::BrokerId(part.replica_id),
                    directory: part.replica_directory_id,
                };
                (part.replica_epoch, candidate)
            }
            _ => return Ok(false),
        };
        let epoch = LeaderEpoch(epoch);
        let old = *self.votes.entry((epoch, voter)).or_insert(candidate);
        if old == candidate {
            Ok(true)
        } else {
            Err(format!(
                "{voter} votes for {old} and for {candidate} in epoch {epoch}"
            ))
        }
    }
}
