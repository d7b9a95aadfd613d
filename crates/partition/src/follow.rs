//! The append of a replica: batches of a leader go to the end of the log as they are.
//!
//! Offsets and epochs stay, and nothing is recompressed, stamped or judged: what the leader let in stands. Checked is what a peer may
//! get wrong: checksums, a base that is our end, epochs. A batch that was asked for in another epoch is refused, whatever it holds
//! (KAFKA-18723): between the request and its answer this replica may have led, or was cut.

use std::sync::Arc;

use bytes::Bytes;
use log::AbortedTxn;
use log::journal::{Entry, What};
use log::producer::marker_of;
use model::lineage::EpochEnd;
use model::{BrokerId, Instant, LeaderEpoch, Offset};
use wire::records::{Batch, BatchError, Source};

use crate::append::Moment;
use crate::buffer::ReceiveBuffer;
use crate::cut::Synced;
use crate::dir::linger::Stamp;
use crate::dir::queue::Push;
use crate::news::News;
use crate::partition::{Partition, PartitionState};
use crate::read::{ReadError, check_epoch};

/// A follower took some batches.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Followed {
    pub count: usize,
    /// Log end behind them. Nothing of it is durable yet.
    pub end: Offset,
}

#[derive(Debug, thiserror::Error)]
pub enum FollowError {
    #[error("partition was deleted")]
    Deleted,
    /// The log directory is offline or full; the follower asks again later.
    #[error("log directory is {}", if *full { "full" } else { "offline" })]
    Storage { full: bool },
    #[error("this broker leads the partition")]
    Leading,
    /// The answer is of another time: ask again.
    #[error("leader epoch is {current} now")]
    EpochChanged { current: LeaderEpoch },
    /// A cut is on its way to the files, and with it the states of producers: ask again when it is there.
    #[error("the log is being cut")]
    Cutting,
    /// Records are lost here that the leader has: the log is to be cut in front of them first.
    #[error("records at {from} are lost here")]
    Lost { from: Offset },
    /// The peer's batches do not continue this log.
    #[error("a batch at {got}, the log ends at {end}")]
    Gap { got: Offset, end: Offset },
    /// The peer sent a batch of an epoch that it cannot know.
    #[error("a batch of epoch {got}, asked for in {asked}")]
    Epoch {
        got: LeaderEpoch,
        asked: LeaderEpoch,
    },
    #[error(transparent)]
    Batch(#[from] BatchError),
}

/// A follower asked its leader for this.
#[derive(Clone, Copy, Debug)]
pub struct Asked {
    pub epoch: LeaderEpoch,
    /// Where the log ended then, if no answer to an earlier request can have come since.
    pub from: Option<Offset>,
}

impl From<LeaderEpoch> for Asked {
    fn from(epoch: LeaderEpoch) -> Asked {
        Asked { epoch, from: None }
    }
}

/// The point from which a replica continues its log.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FollowPoint {
    /// Newest leader epoch that the replica knows.
    pub epoch: LeaderEpoch,
    /// Epoch of the last record; in a log without records the first epoch that it knows, as after a restart; else none.
    pub last_epoch: LeaderEpoch,
    pub log_start: Offset,
    pub end: Offset,
    pub synced: Synced,
    /// Records are lost from here on: no leader may count on them, whatever was synced.
    pub lost_from: Option<Offset>,
}

impl Partition {
    /// The point from which this replica continues its log.
    pub fn follow_point(&self) -> FollowPoint {
        let state = self.state.lock();
        let points = state.progress.points();
        let entries = state.epochs.entries();
        // An epoch without a record, in which this broker led, is nothing that two logs could differ in.
        let has_records = |entry: &&log::epochs::EpochStart| entry.start < points.end;
        let last = (entries.iter().rev().find(has_records)).or(entries.first());
        FollowPoint {
            epoch: state.progress.epoch(),
            last_epoch: last.map_or(LeaderEpoch::NONE, |entry| entry.epoch),
            log_start: points.start,
            end: points.end,
            synced: state.synced(),
            lost_from: state.first_hole().map(|hole| hole.from),
        }
    }

    /// The leader's answer to a replica whose last record has `asked.epoch` and whose log ends at `asked.end`: `None` if this log continues
    /// there, else a place at or behind which the two part (KIP-595's `DivergingEpoch`).
    ///
    /// Only the leader in `epoch` may judge: by the log of another replica, or of one whose directory failed, the follower would cut off what
    /// is committed.
    pub fn judge(
        &self,
        asked: EpochEnd,
        epoch: LeaderEpoch,
    ) -> Result<Option<EpochEnd>, ReadError> {
        self.judge_in(&self.state.lock(), asked, epoch)
    }

    fn judge_in(
        &self,
        state: &PartitionState,
        asked: EpochEnd,
        epoch: LeaderEpoch,
    ) -> Result<Option<EpochEnd>, ReadError> {
        if self.is_offline_in(state) {
            return Err(ReadError::Offline);
        }
        check_epoch(epoch, state)?;
        if !state.serves_clients() {
            return Err(ReadError::NotLeader);
        }
        let end = state.progress.points().end;
        // A replica without a record differs in nothing.
        let known = state.epochs.end_of(asked.epoch, end);
        let known = known.filter(|_| asked.epoch != LeaderEpoch::NONE);
        Ok(known.and_then(|known| {
            let parts = known.epoch != asked.epoch || known.end < asked.end;
            parts.then_some(EpochEnd {
                epoch: known.epoch,
                end: known.end,
            })
        }))
    }

    /// The same for a follower, a broker with the epoch of its registration, which has to have said where it is: what it says before this
    /// leader knows it as a replica is not kept. Kafka's leaders refuse it with the same code
    /// (`Partition.followerReplicaOrThrow`).
    pub fn judge_follower(
        &self,
        asked: EpochEnd,
        epoch: LeaderEpoch,
        (broker, broker_epoch): (BrokerId, i64),
    ) -> Result<Option<EpochEnd>, ReadError> {
        let state = self.state.lock();
        let judged = self.judge_in(&state, asked, epoch)?;
        let points = state.progress.points();
        // A follower whose log ends outside this one has to truncate or restart its log first.
        let is_within = points.start <= asked.end && asked.end <= points.end;
        if judged.is_none() && is_within && !state.progress.has_heard(broker, broker_epoch) {
            let current = state.progress.epoch();
            return Err(ReadError::UnheardFollower { current });
        }
        Ok(judged)
    }

    /// The offset at which this replica cuts its log after a leader answered with `told`; see [`model::Lineage::cut_to`].
    pub fn cut_to(&self, told: EpochEnd) -> Offset {
        let state = self.state.lock();
        let end = state.progress.points().end;
        let own = state.epochs.end_of(told.epoch, end);
        own.map_or(end, |own| {
            let to = if own.epoch == told.epoch {
                own.end.min(told.end)
            } else {
                own.end
            };
            to.min(end)
        })
    }

    /// Appends what a leader answered to what was `asked`; it lies in `buffer`. A batch at the end that is cut off is left out.
    ///
    /// Between two batches of one answer there may be none, and in front of the first where it is certain that this log asked for no less:
    /// the leader's log is compacted, or was.
    pub fn follow(
        self: &Arc<Self>,
        (bytes, buffer): (&Bytes, &mut ReceiveBuffer),
        asked: impl Into<Asked>,
        moment: Moment<'_>,
    ) -> Result<Followed, FollowError> {
        let Asked { epoch: asked, from } = asked.into();
        let mut batches: Vec<Batch> = Batch::cut(bytes, Source::Log).collect::<Result<_, _>>()?;
        if let Some(later) = batches.iter().find(|batch| asked < batch.leader_epoch()) {
            let got = later.leader_epoch();
            return Err(FollowError::Epoch { got, asked });
        }
        let placed = buffer.place(self.dir().id, &mut batches);
        let mut state = self.state.lock();
        let current = state.progress.epoch();
        if current != asked {
            return Err(FollowError::EpochChanged { current });
        }
        let end = state.tail.end();
        let may_skip = state.config.cleanup_policy.compact || from == Some(end);
        let followed = self.take(
            &mut state,
            batches,
            |is_first| may_skip || !is_first,
            moment,
        )?;
        buffer.on_kept(placed, true);
        Ok(followed)
    }

    /// The leader of `epoch` says what is committed, and where its log starts. Shown is what of it is durable here.
    pub fn on_leader_at(
        self: &Arc<Self>,
        epoch: LeaderEpoch,
        committed: Offset,
        log_start: Offset,
        news: &mut Vec<News>,
    ) {
        let mut state = self.state.lock();
        if state.progress.epoch() != epoch || state.progress.is_leading() {
            return;
        }
        state.advance(news, |progress, _| progress.on_committed(committed));
        let points = state.progress.points();
        let pending = state.trims.back().map(|trim| trim.start);
        let known = pending.unwrap_or(points.start).max(points.start);
        drop(state);
        if known < log_start && log_start <= points.committed {
            self.advance_start(log_start);
        }
    }

    /// Appends batches whose place another machine decided, which also judged the leader that they are of: the quorum of the metadata
    /// log.
    pub fn append_decided(
        self: &Arc<Self>,
        batches: &[Batch],
        moment: Moment<'_>,
    ) -> Result<Followed, FollowError> {
        // The batches are copied, because they lie in the buffer of an answer, or of what this node has written for its followers, and are few.
        let batches = batches.iter().map(Batch::detached).collect();
        self.take(&mut self.state.lock(), batches, |_| false, moment)
    }

    fn take(
        self: &Arc<Self>,
        state: &mut PartitionState,
        batches: Vec<Batch>,
        may_skip: impl Fn(bool) -> bool,
        moment: Moment<'_>,
    ) -> Result<Followed, FollowError> {
        self.check_following(state)?;
        // All or nothing: the machine that counts on the order need not know how far we came.
        let mut end = state.tail.end();
        for (at, batch) in batches.iter().enumerate() {
            let got = batch.base_offset();
            let is_next = got == end || end < got && may_skip(at == 0);
            if !is_next {
                return Err(FollowError::Gap { got, end });
            }
            end = batch.next_offset();
        }
        let count = batches.len();
        let Moment { now, stamp, .. } = moment;
        for batch in batches {
            self.place_as_is(state, batch, (&mut *stamp, now));
        }
        Ok(Followed { count, end })
    }

    fn check_following(&self, state: &PartitionState) -> Result<(), FollowError> {
        if state.is_deleted || state.is_leaving {
            Err(FollowError::Deleted)
        } else if state.progress.is_leading() && !state.progress.is_elected() {
            Err(FollowError::Leading)
        } else if self.is_offline_in(state) {
            Err(FollowError::Storage { full: false })
        } else if state.home.dir.is_full() && !state.config.may_use_reserve {
            Err(FollowError::Storage { full: true })
        } else if state.cuts.awaits_producers() || state.cuts.keep_what_is_lost() {
            Err(FollowError::Cutting)
        } else if let Some(hole) = state.first_hole().filter(|_| !state.progress.is_elected()) {
            Err(FollowError::Lost { from: hole.from })
        } else {
            Ok(())
        }
    }

    /// Notes that the next batch is not at the end, so that a start takes what is between for nothing that was lost.
    fn skip(
        self: &Arc<Self>,
        state: &mut PartitionState,
        to: Offset,
        (stamp, now): (&mut Stamp, Instant),
    ) {
        let push = Push {
            bytes: 0,
            // Nothing new is durable with it.
            up_to: state.tail.end(),
            is_trim: false,
            sync: true,
            life: state.progress.life(),
            entry: Entry {
                topic: self.topic_id,
                partition: self.index,
                what: What::Gap { to },
            },
        };
        self.enqueue(state, push, Some((stamp, now)));
        state.gaps_end = to;
    }

    fn place_as_is(
        self: &Arc<Self>,
        state: &mut PartitionState,
        batch: Batch,
        (stamp, now): (&mut Stamp, Instant),
    ) {
        if state.tail.end() < batch.base_offset() {
            self.skip(state, batch.base_offset(), (&mut *stamp, now));
        }
        let end = batch.next_offset();
        let ended = state.producers.apply(&batch, marker_of(&batch));
        state.guards.on_batch(batch.producer_id());
        let aborted = ended.filter(|txn| txn.aborted).map(AbortedTxn::from);
        state.aborted.extend(aborted);
        let (epoch, base) = (batch.leader_epoch(), batch.base_offset());
        // An epoch in which this broker led and appended nothing, and which the leader's log knows nothing of.
        if state
            .epochs
            .latest()
            .is_some_and(|latest| epoch < latest.epoch)
        {
            state.epochs.truncate_from_end(base);
        }
        state.are_epochs_changed |= state.epochs.assign(epoch, base);
        let sync = state.needs_sync(&batch, now);
        let push = Push {
            bytes: batch.size(),
            up_to: end,
            is_trim: false,
            sync,
            life: state.progress.life(),
            entry: Entry {
                topic: self.topic_id,
                partition: self.index,
                what: What::Batch(batch.clone()),
            },
        };
        state.tail.push(batch);
        state.progress.on_appended(end);
        self.enqueue(state, push, Some((stamp, now)));
    }
}
