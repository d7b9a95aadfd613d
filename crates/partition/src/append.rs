//! The write walk: a produced batch gets its place in the log, and its ticket waits for what was asked for.
//!
//! Costs that depend on the records (recompression, record checks) are paid before the lock is taken. The records of a compressed batch are
//! looked at only where its header claims what cannot be, or a topic's settings ask for it. A duplicate of an idempotent producer is
//! answered with the first answer, and not before the original is durable.

use std::sync::Arc;
use std::time::Duration;

use log::AbortedTxn;
use log::config::{Durability, LogConfig, TopicCompression};
use log::journal::{Entry, What};
use log::producer::{Origin, ProducerError, Verdict};
use model::{Instant, LeaderEpoch, Offset, ProducerEpoch, ProducerId, Sequence, Ticket, Timestamp};
use wire::records::{
    BREACHES_MAX, Batch, BatchError, Breach, Caps, Codec, CodecError, EndTxn, RecordFault, Rule,
    Rules, TimestampType, end_txn_batch, recompress, validate_records,
};

use crate::dir::linger::Stamp;
use crate::dir::queue::Push;
use crate::news::News;
use crate::partition::{Partition, PartitionState, PendingTrim};
use crate::progress::{TooFew, Wanted};
use crate::verification::Warrant;

/// Facts of the moment of an append.
pub struct Moment<'a> {
    pub now: Instant,
    pub wall: Timestamp,
    /// Stamp of the connection that appends.
    pub stamp: &'a mut Stamp,
}

/// Time after a change of leaders for which the first batch of a producer may come behind later ones.
const NEW_LEADERSHIP: Duration = Duration::from_secs(3);

/// Time after a refusal for which batches may come that the client sent before it read that refusal.
const SENT_BEFORE: Duration = Duration::from_secs(10);

/// When an append is answered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Acks {
    /// Without an answer, and with as few replicas as there are: `acks=0`.
    None,
    /// When the append is durable on this broker: `acks=1`.
    Leader(Ticket),
    /// When the append is committed: `acks=all`, which needs the minimum of replicas in sync. Without a ticket the caller waits for the end
    /// of the log later.
    All(Option<Ticket>),
}

impl Acks {
    fn ticket(self) -> Option<(Ticket, Wanted)> {
        match self {
            Acks::None | Acks::All(None) => None,
            Acks::Leader(ticket) => Some((ticket, Wanted::Durable)),
            Acks::All(Some(ticket)) => Some((ticket, Wanted::CommittedSoon)),
        }
    }
}

/// The place that a batch got in the log.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Appended {
    pub base_offset: Offset,
    /// Set when the topic stamps records itself.
    pub append_time: Timestamp,
    pub log_start: Offset,
    /// True if news of the ticket will come; false without a ticket, or if what it would wait for is there already.
    pub waits: bool,
    /// True if the records were appended before; then this batch is kept nowhere.
    pub is_duplicate: bool,
    /// True if the records stay in the memory that they came in.
    pub is_as_received: bool,
}

#[derive(Debug, thiserror::Error)]
pub enum AppendError {
    /// The topic was deleted; refresh metadata.
    #[error("partition was deleted")]
    Deleted,
    /// Client: refresh metadata, send it to the leader.
    #[error("another broker leads the partition, or none, in leader epoch {epoch}")]
    NotLeader { epoch: LeaderEpoch },
    /// Client: send again from the first batch that was not acknowledged.
    #[error(
        "the leader of epoch {epoch} is new: producer {id} begins with sequence 0, or sends sequence {got} again"
    )]
    NewLeader {
        epoch: LeaderEpoch,
        id: ProducerId,
        got: Sequence,
    },
    /// Client: retry until more replicas have caught up.
    #[error("{in_sync} replicas are in sync, acks=all needs {needed}")]
    TooFewReplicas { in_sync: usize, needed: usize },
    /// The log directory is offline or full; retry elsewhere or later.
    #[error("log directory is {}", if *full { "full" } else { "offline" })]
    Storage { full: bool },
    /// Client: retry until the batches are repaired.
    #[error("batches of producers rotted at or behind offset {at}, and are not repaired yet")]
    ProducersUnread { at: Offset },
    #[error("batch of {bytes} bytes is larger than max.message.bytes, {max}")]
    TooLarge { bytes: usize, max: u64 },
    #[error(transparent)]
    Batch(#[from] BatchError),
    #[error(transparent)]
    Record(#[from] RecordFault),
    #[error(transparent)]
    Codec(#[from] CodecError),
    #[error(transparent)]
    Producer(#[from] ProducerError),
    #[error("a produce request carries one batch per partition, this one {batches}")]
    Count { batches: usize },
    /// Client: the batch belongs to no transaction that the coordinator knows of.
    #[error("no transaction is open for this producer")]
    NoTransaction,
}

/// How the coordinator ends the transaction of a producer in this partition.
#[derive(Clone, Copy, Debug)]
pub struct Marker {
    pub producer_id: ProducerId,
    pub producer_epoch: ProducerEpoch,
    pub end: EndTxn,
    /// Version of the transaction protocol: since 2 each transaction has an epoch of its own, and the marker has the next one.
    pub transaction_version: i16,
}

impl Partition {
    /// Appends one batch. If `acks` have a ticket, news of it will come.
    pub fn append(
        self: &Arc<Self>,
        batch: Batch,
        acks: Acks,
        moment: Moment<'_>,
    ) -> Result<Appended, AppendError> {
        self.append_as(batch, Origin::Client, Warrant::None, acks, moment)
    }

    /// Appends a batch that may begin a transaction, as its `warrant` says. A coordinator's batch has no sequence to check.
    pub fn append_as(
        self: &Arc<Self>,
        batch: Batch,
        origin: Origin,
        warrant: Warrant,
        acks: Acks,
        moment: Moment<'_>,
    ) -> Result<Appended, AppendError> {
        self.append_in(LeaderEpoch::NONE, batch, (origin, warrant), acks, moment)
    }

    /// The same, but only in one leader epoch: a coordinator decides on what it read in that epoch, and in a later one the log may hold
    /// something else. Any epoch will do for a caller that names none.
    pub fn append_in(
        self: &Arc<Self>,
        epoch: LeaderEpoch,
        batch: Batch,
        (origin, warrant): (Origin, Warrant),
        acks: Acks,
        moment: Moment<'_>,
    ) -> Result<Appended, AppendError> {
        let config = self.config();
        let received = batch.body().as_ptr();
        let batch = prepare(batch, &config, moment.wall)?;
        let is_as_received = batch.body().as_ptr() == received;
        let mut guard = self.state.lock();
        let state = &mut *guard;
        state.check_writer(epoch)?;
        if let Err(refused) = self.check_open(state, &config, acks) {
            if origin == Origin::Client {
                state.await_again(&batch, moment.wall);
                state.note_refused(&refused, moment.now);
            }
            return Err(refused);
        }
        let verdict = state.producers.check(&batch, origin);
        if let Err(ProducerError::OutOfOrderSequence { .. }) = verdict {
            state.check_behind_refused(moment.now)?;
        }
        if let Err(fenced @ ProducerError::InvalidEpoch { .. }) = verdict {
            // Fencing comes first: the producer's transaction was ended for it, so there is none that the batch could be part of (KAFKA-19690).
            return Err(fenced.into());
        }
        if !matches!(verdict, Ok(Verdict::Duplicate(_))) {
            if let Some(at) = state.producers_lack
                && origin == Origin::Client
                && batch.has_producer_id()
            {
                // The producer's last batches may be among those that cannot be read.
                state.await_again(&batch, moment.wall);
                drop(guard);
                self.has_repaired(at);
                return Err(AppendError::ProducersUnread { at });
            }
            state.check_warrant(&batch, warrant)?;
            if origin == Origin::Client {
                state.check_beginning(&batch, warrant, &moment)?;
            }
        }
        if let Verdict::Duplicate(first) = verdict? {
            let until = first.last_offset.advance(1);
            let waits = (acks.ticket())
                .filter(|(_, wanted)| !state.progress.has_reached(until, *wanted))
                .map(|(ticket, wanted)| state.progress.wait(until, wanted, ticket))
                .is_some();
            let base_offset = first.base_offset();
            return Ok(Appended {
                base_offset,
                // The time that the original got: a retry does not move it.
                append_time: match append_time(&batch) {
                    Timestamp::NONE => Timestamp::NONE,
                    _ => first.timestamp,
                },
                log_start: state.progress.points().start,
                waits,
                is_duplicate: true,
                is_as_received: false,
            });
        }

        Ok(Appended {
            is_as_received,
            ..self.place(state, batch, None, acks, moment)
        })
    }

    /// Appends the marker that ends the transaction of a producer, in the leader epoch that is named, if one is. A repeated marker is
    /// appended again, and ends nothing.
    pub fn append_marker(
        self: &Arc<Self>,
        epoch: LeaderEpoch,
        marker: Marker,
        acks: Acks,
        moment: Moment<'_>,
    ) -> Result<Appended, AppendError> {
        let Marker {
            producer_id,
            producer_epoch,
            end,
            transaction_version,
        } = marker;
        let config = self.config();
        let mut batch = end_txn_batch(producer_id, producer_epoch, end, moment.wall);
        if config.message_timestamp_type == TimestampType::LogAppendTime {
            batch.set_append_time(moment.wall);
        }
        let mut guard = self.state.lock();
        let state = &mut *guard;
        state.check_writer(epoch)?;
        self.check_open(state, &config, acks)?;
        state
            .producers
            .check_marker(producer_id, producer_epoch, end, transaction_version)?;
        let guards = &mut state.guards;
        guards.on_marker(producer_id, producer_epoch, transaction_version);
        Ok(self.place(state, batch, Some(end), acks, moment))
    }

    /// Refuses a batch of a client while this broker does not act as leader. It may act as leader again before those batches come that the
    /// client has sent behind this one.
    pub fn refuse(&self, batch: &Batch, moment: &Moment<'_>) -> AppendError {
        let mut state = self.state.lock();
        state.await_again(batch, moment.wall);
        state.refused = Some((moment.now, None));
        let epoch = state.progress.epoch();
        AppendError::NotLeader { epoch }
    }

    /// `Ok` if the log takes records with `acks=all` now; a batch that was refused for its size or its producer says nothing of this.
    pub fn check_append(&self) -> Result<(), AppendError> {
        let state = self.state.lock();
        self.check_open(&state, &state.config, Acks::All(None))
    }

    fn check_open(
        &self,
        state: &PartitionState,
        config: &LogConfig,
        acks: Acks,
    ) -> Result<(), AppendError> {
        if state.is_deleted {
            return Err(AppendError::Deleted);
        }
        if !state.serves_clients() {
            let epoch = state.progress.epoch();
            return Err(AppendError::NotLeader { epoch });
        }
        if let Acks::All(_) = acks {
            state.progress.check_in_sync()?;
        }
        // Checked under the lock: a directory that fails later walks over all partitions and finds our ticket.
        if self.is_offline_in(state) {
            return Err(AppendError::Storage { full: false });
        }
        if state.home.dir.is_full() && !config.may_use_reserve {
            return Err(AppendError::Storage { full: true });
        }
        Ok(())
    }

    /// Gives a batch that was let in its offsets and puts it in the tail and in the queue of the directory.
    fn place(
        self: &Arc<Self>,
        state: &mut PartitionState,
        mut batch: Batch,
        marker: Option<EndTxn>,
        acks: Acks,
        moment: Moment<'_>,
    ) -> Appended {
        let base_offset = state.tail.end();
        batch.set_base_offset(base_offset);
        let epoch = state.progress.epoch();
        batch.set_leader_epoch(epoch);
        let end = batch.next_offset();
        let ended = state.producers.apply(&batch, marker);
        state
            .aborted
            .extend(ended.filter(|txn| txn.aborted).map(AbortedTxn::from));
        if marker.is_none() {
            state.guards.on_batch(batch.producer_id());
        }
        state.are_epochs_changed |= state.epochs.assign(epoch, base_offset);
        let sync = state.needs_sync(&batch, moment.now);
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
        let appended = Appended {
            base_offset,
            append_time: append_time(&batch),
            log_start: state.progress.points().start,
            waits: acks.ticket().is_some(),
            is_duplicate: false,
            is_as_received: true,
        };
        self.traffic.on_appended(batch.size());
        state.tail.push(batch);
        state.progress.on_appended(end);
        if let Some((ticket, wanted)) = acks.ticket() {
            state.progress.wait(end, wanted, ticket);
        }
        if !state.end_watchers.is_empty() {
            let woken = state.end_watchers.drain(..).map(News::Readable);
            state.home.dir.wake_later(woken);
        }
        self.enqueue(state, push, Some((moment.stamp, moment.now)));
        appended
    }

    /// Moves the log start to `to` (DeleteRecords); the ticket is redeemed when that is durable.
    pub fn trim(self: &Arc<Self>, to: Option<Offset>, ticket: Ticket) -> Result<Offset, TrimError> {
        self.move_start(to, Some(ticket))
    }

    /// Retention, a leader or a snapshot wants the log to start at `to`. The start moves once that is durable, like any trim, and not at
    /// all if `to` is above what is committed here.
    pub fn advance_start(self: &Arc<Self>, to: Offset) {
        // Deleted or offline meanwhile: then there is nothing to retain.
        let _ = self.move_start(Some(to), None);
    }

    fn move_start(
        self: &Arc<Self>,
        to: Option<Offset>,
        ticket: Option<Ticket>,
    ) -> Result<Offset, TrimError> {
        let mut guard = self.state.lock();
        let state = &mut *guard;
        if state.is_deleted {
            return Err(TrimError::Deleted);
        }
        if self.is_offline_in(state) {
            return Err(TrimError::Offline);
        }
        if ticket.is_some() && !state.progress.is_leading() {
            return Err(TrimError::NotLeader);
        }
        let points = state.progress.points();
        let to = to.unwrap_or(points.committed);
        if to < Offset::ZERO || to > points.committed {
            return Err(TrimError::OutOfRange {
                high_watermark: points.committed,
            });
        }
        // Trims become durable in their order: one that is still on its way is done before this one is answered.
        let pending = state.trims.back().map(|trim| trim.start);
        let start = to.max(points.start).max(pending.unwrap_or(to));
        state.trims.push_back(PendingTrim {
            start,
            tickets: ticket.into_iter().collect(),
        });
        let push = Push {
            bytes: 0,
            up_to: points.end,
            is_trim: true,
            sync: true,
            life: state.progress.life(),
            entry: Entry {
                topic: self.topic_id,
                partition: self.index,
                what: What::Trim { start },
            },
        };
        self.enqueue(state, push, None);
        Ok(start)
    }

    /// Puts an entry in the queue of the directory. While a move ends the entry waits for the directory that is going to have it.
    pub(crate) fn enqueue(
        self: &Arc<Self>,
        state: &mut PartitionState,
        push: Push,
        stamp: Option<(&mut Stamp, Instant)>,
    ) {
        let has_joined = match &mut state.pause {
            Some(pause) => pause.hold(&state.home.dir.backlog, push),
            None => state.home.dir.enqueue(self, &mut state.slot, push, stamp),
        };
        if has_joined {
            state.join_trims();
        }
    }

    /// Epoch and end of the log of the newest epoch not above `asked` (KIP-101); -1 and -1 where there is none.
    pub fn end_for_epoch(&self, asked: LeaderEpoch) -> (LeaderEpoch, Offset) {
        const UNKNOWN: (LeaderEpoch, Offset) = (LeaderEpoch::NONE, Offset(-1));
        // A follower that knows no epoch must not be read as older than all of ours, whose end is where our first begins.
        if asked == LeaderEpoch::NONE {
            return UNKNOWN;
        }
        let state = self.state.lock();
        let end = state.epochs.end_of(asked, state.progress.points().end);
        end.map_or(UNKNOWN, |end| (end.epoch, end.end))
    }

    /// Leader epoch of what is at an offset of the log, or is going to be at its end; none where nobody knows.
    pub fn epoch_at(&self, offset: Offset) -> LeaderEpoch {
        let epoch = self.state.lock().epochs.epoch_at(offset);
        epoch.unwrap_or(LeaderEpoch::NONE)
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum TrimError {
    #[error("partition was deleted")]
    Deleted,
    #[error("log directory is offline")]
    Offline,
    #[error("another broker leads the partition, or none")]
    NotLeader,
    #[error("offset is above the high watermark {high_watermark}")]
    OutOfRange { high_watermark: Offset },
}

impl From<TooFew> for AppendError {
    fn from(too_few: TooFew) -> AppendError {
        let TooFew { in_sync, needed } = too_few;
        AppendError::TooFewReplicas { in_sync, needed }
    }
}

/// Brings the batch into the form that the topic stores, and refuses what it does not take.
fn prepare(mut batch: Batch, config: &LogConfig, wall: Timestamp) -> Result<Batch, AppendError> {
    if batch.attributes().is_control() {
        return Err(BatchError::Control.into());
    }
    // Before anything is unpacked, and again when it has its form.
    check_size(&batch, config)?;
    let stamps = config.message_timestamp_type == TimestampType::LogAppendTime;
    let is_stamped = batch.attributes().timestamp_type() == TimestampType::LogAppendTime;
    if is_stamped && stamps {
        return Err(stamped_by_producer(&batch).into());
    }
    if is_stamped {
        batch.set_create_time();
    }
    let bounds = wall
        .0
        .saturating_sub(config.message_timestamp_before_max_ms)
        ..=wall.0.saturating_add(config.message_timestamp_after_max_ms);
    // The claim of the head cannot be true, or says nothing; the records that break a bound are then named one by one.
    let is_doubtful = !stamps && (batch.hides_time() || !bounds.contains(&batch.max_timestamp().0));
    // Walking records that are not compressed costs less than their checksum.
    let is_plain = batch.attributes().codec() == Some(Codec::None);
    let wanted = match config.compression {
        TopicCompression::As(wanted) if Some(wanted.codec) != batch.attributes().codec() => {
            Some(wanted)
        }
        _ => None,
    };
    let is_bounded_below = !stamps && config.message_timestamp_before_max_ms != i64::MAX;
    let key_required = config.cleanup_policy.compact;
    let caps = config.caps();
    let is_asked_for =
        key_required || is_bounded_below || config.verifies_compressed || caps.limit_records();
    if is_plain || is_asked_for || is_doubtful || is_stamped || wanted.is_some() {
        let rules = Rules {
            caps,
            key_required,
            timestamps: (!stamps).then_some(bounds),
            contiguous: true,
        };
        let summary = validate_records(&batch, &rules)?;
        if !stamps {
            batch.set_max_timestamp(summary.max_timestamp);
        }
    }
    if let Some(wanted) = wanted {
        batch = recompress(&batch, wanted, Caps::default())?;
    }
    if stamps {
        batch.set_append_time(wall);
    }
    check_size(&batch, config)?;
    debug_assert!(
        batch
            .attributes()
            .codec()
            .is_some_and(|codec| codec != Codec::None || !batch.body().is_empty())
    );
    Ok(batch)
}

fn check_size(batch: &Batch, config: &LogConfig) -> Result<(), AppendError> {
    let (bytes, max) = (batch.size(), config.max_message_bytes);
    if bytes as u64 > max {
        Err(AppendError::TooLarge { bytes, max })
    } else {
        Ok(())
    }
}

/// Every record is refused, as in Kafka, but only the first `BREACHES_MAX` are named.
fn stamped_by_producer(batch: &Batch) -> RecordFault {
    let count = batch.record_count().min(BREACHES_MAX as i32);
    let breach = |index| Breach {
        index,
        rule: Rule::AppendTime,
    };
    RecordFault::Rules((0..count).map(breach).collect())
}

fn append_time(batch: &Batch) -> Timestamp {
    match batch.attributes().timestamp_type() {
        TimestampType::LogAppendTime => batch.max_timestamp(),
        TimestampType::CreateTime => Timestamp::NONE,
    }
}

impl PartitionState {
    /// A writer that names a leader epoch writes in that epoch or not at all.
    pub(crate) fn check_writer(&self, named: LeaderEpoch) -> Result<(), AppendError> {
        let epoch = self.progress.epoch();
        if named == LeaderEpoch::NONE || named == epoch {
            Ok(())
        } else {
            Err(AppendError::NotLeader { epoch })
        }
    }

    /// A batch may join the transaction that its producer has open here; to begin one it needs a warrant.
    fn check_warrant(&self, batch: &Batch, warrant: Warrant) -> Result<(), AppendError> {
        let (id, epoch) = (batch.producer_id(), batch.producer_epoch());
        let is_warranted = match warrant {
            Warrant::None => false,
            Warrant::Waived => true,
            Warrant::Verified(guard) | Warrant::Added(guard) => self.guards.holds(id, guard),
        };
        let is_in = !batch.attributes().is_transactional()
            || is_warranted
            || self.producers.has_open_txn(id, epoch);
        if is_in {
            Ok(())
        } else {
            Err(AppendError::NoTransaction)
        }
    }

    /// The client sends the batch again soon, and none behind it may come first. The next sequence of a known producer is known anyhow.
    fn await_again(&mut self, batch: &Batch, wall: Timestamp) {
        let (id, epoch) = (batch.producer_id(), batch.producer_epoch());
        if batch.has_producer_id() && self.producers.get(id).is_none() {
            self.guards
                .on_refused((id, epoch), batch.base_sequence(), wall);
        }
    }

    /// For what a client sent before it reads of this.
    fn note_refused(&mut self, refused: &AppendError, now: Instant) {
        match *refused {
            AppendError::NotLeader { .. } => self.refused = Some((now, None)),
            AppendError::TooFewReplicas { in_sync, needed } => {
                self.refused = Some((now, Some(TooFew { in_sync, needed })));
            }
            _ => {}
        }
    }

    /// A batch that was sent behind a refused one is refused for the same reason, not for the gap before it. librdkafka begins a new producer
    /// epoch at a gap, and sends in it whatever else was refused: also what waited at this leader, was refused with the others and is stored.
    fn check_behind_refused(&self, now: Instant) -> Result<(), AppendError> {
        match self.refused {
            Some((at, why)) if now < at.plus(SENT_BEFORE) => Err(why.map_or_else(
                || AppendError::NotLeader {
                    epoch: self.progress.epoch(),
                },
                AppendError::from,
            )),
            _ => Ok(()),
        }
    }

    /// A producer of which nothing is known may begin with any sequence, but not behind a batch that was refused a moment ago, nor where it
    /// is known to begin (KAFKA-18202). For a while after a change of leaders it has to send its batches again once, if it does not begin
    /// with sequence 0: the leader before may have refused the first batch, when others were on their way here.
    fn check_beginning(
        &mut self,
        batch: &Batch,
        warrant: Warrant,
        moment: &Moment<'_>,
    ) -> Result<(), AppendError> {
        let (id, got) = (batch.producer_id(), batch.base_sequence());
        if !batch.has_producer_id() || self.producers.get(id).is_some() {
            return Ok(());
        }
        let want = match warrant {
            Warrant::Added(_) => Some(Sequence(0)).filter(|first| *first != got),
            _ => self.guards.awaits(id, batch.producer_epoch(), got),
        };
        if let Some(want) = want {
            self.check_behind_refused(moment.now)?;
            return Err(ProducerError::OutOfOrderSequence { id, got, want }.into());
        }
        // A client repeats a batch once none in front of it is under way: the repeated one is where the producer continues.
        let is_first_again = self.guards.has_refused(id, batch.producer_epoch(), got);
        if Sequence(0) < got
            && !is_first_again
            && self.progress.has_led_for_less(NEW_LEADERSHIP, moment.now)
        {
            self.await_again(batch, moment.wall);
            let epoch = self.progress.epoch();
            return Err(AppendError::NewLeader { epoch, id, got });
        }
        Ok(())
    }

    /// Relaxed topics are synced only when `flush.messages` or `flush.ms` says so, and for transactions: these are whole in all
    /// their partitions or in none, so what one of them wrote must be there before its coordinator decides, and its end after.
    pub(crate) fn needs_sync(&mut self, batch: &Batch, now: Instant) -> bool {
        if self.config.durability == Durability::Sync {
            return true;
        }
        let attributes = batch.attributes();
        let is_of_transaction = attributes.is_transactional() || attributes.is_control();
        let records = i64::from(batch.record_count());
        self.unflushed_records = self.unflushed_records.saturating_add(records);
        if is_of_transaction || self.unflushed_records >= self.config.flush_messages {
            self.unflushed_records = 0;
            self.flush_at = None;
            return true;
        }
        if let Ok(delay) = u64::try_from(self.config.flush_ms) {
            let at = now.plus(Duration::from_millis(delay));
            self.flush_at.get_or_insert(at);
        }
        false
    }
}

impl Partition {
    /// `flush.ms` has passed: a synced round makes durable what was only written. Its entry repeats the log start.
    pub(crate) fn flush(self: &Arc<Self>) {
        let log_start = {
            let mut state = self.state.lock();
            state.flush_at = None;
            state.unflushed_records = 0;
            state.progress.points().start
        };
        self.advance_start(log_start);
    }
}
