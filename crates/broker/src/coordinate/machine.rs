//! The needs of a driver from a machine, whichever topic it looks after.

use std::convert::Infallible;
use std::sync::Arc;

use bytes::Bytes;
use coord::{Moment, Step, Topics, group, txn};
use model::{Instant, ProducerEpoch, ProducerId, Ticket};
use wire::group::GroupRecord;
use wire::records::Codec;
use wire::transaction::TransactionRecord;
use wire::{DecodeError, EncodeError};

use crate::mail::question::Said;
use crate::settings::{Settings, txn_settings};

/// Work for the driver of a machine, once what the machine decided is committed.
pub(crate) enum Effect {
    Mark(txn::Markers),
}

impl From<txn::Markers> for Effect {
    fn from(markers: txn::Markers) -> Effect {
        Effect::Mark(markers)
    }
}

impl From<Infallible> for Effect {
    fn from(none: Infallible) -> Effect {
        match none {}
    }
}

pub(crate) trait Machine {
    type Record;
    type Ask;
    type Answer: Into<Said>;
    type Effect: Into<Effect>;

    /// The internal topic whose partitions have such a machine each.
    const TOPIC: &'static str;
    /// True if the decisions of one turn of the shard become one batch.
    const WRITES_TOGETHER: bool;

    fn new(settings: &Settings) -> Self;
    /// The codec of its batches.
    fn codec(settings: &Settings) -> Codec;
    /// Settings that may change while the broker runs have changed.
    fn set_settings(&mut self, settings: &Settings);
    fn decode(key: Bytes, value: Option<Bytes>) -> Result<Self::Record, DecodeError>;
    fn encode(&self, record: &Self::Record) -> Result<(Bytes, Option<Bytes>), EncodeError>;
    fn replay(&mut self, record: &Self::Record, producer: Option<(ProducerId, ProducerEpoch)>);
    fn replay_marker(&mut self, producer: ProducerId, committed: bool);
    /// Every record is in. Returns what is to be done now, as the last driver of this log may not have done it.
    fn on_loaded(&mut self, at: Moment) -> Vec<Self::Effect>;
    fn ask(
        &mut self,
        ticket: Ticket,
        ask: Self::Ask,
        at: Moment,
        topics: &dyn Topics,
    ) -> Step<Self::Record, Self::Answer, Self::Effect>;
    /// Steps that are written one by one; what is refused of one is no matter of the others. A batch may have `batch_bytes_max`.
    fn tick(
        &mut self,
        at: Moment,
        topics: &dyn Topics,
        fresh: txn::Fresh<'_>,
        batch_bytes_max: usize,
    ) -> Vec<Step<Self::Record, Self::Answer, Self::Effect>>;
    fn next_deadline(&self) -> Option<Instant>;
    /// The decision of the last tick does not fit a batch. Returns a line for the operator, once for each matter.
    fn on_too_large(&mut self) -> Option<String> {
        None
    }
    /// Gives itself up: whoever waits for an answer will not have it from this machine.
    fn abandon(&mut self) -> Vec<Ticket>;
    /// Topics were deleted while the log is read.
    fn on_topics_gone_early(&mut self, gone: &[String], at: Moment);
    /// Deleted topics of which something is still remembered, for the machine that takes the place of this one.
    fn take_gone_topics(&mut self) -> Vec<String>;
    /// Topics were deleted; nothing is remembered of them.
    fn on_topics_gone(
        &mut self,
        gone: &[String],
        at: Moment,
        topics: &dyn Topics,
        batch_bytes_max: usize,
    ) -> Step<Self::Record, Self::Answer, Self::Effect>;
}

impl Machine for group::Groups {
    type Record = GroupRecord;
    type Ask = group::Ask;
    type Answer = group::Answer;
    type Effect = Infallible;

    const TOPIC: &'static str = meta::name::OFFSETS;
    const WRITES_TOGETHER: bool = true;

    fn new(settings: &Settings) -> Self {
        group::Groups::new(Arc::clone(&settings.groups))
    }

    fn codec(settings: &Settings) -> Codec {
        let number = settings.broker.number("offsets.topic.compression.codec");
        number
            .and_then(|number| Codec::from_id(u8::try_from(number).ok()?))
            .unwrap_or(Codec::None)
    }

    fn set_settings(&mut self, settings: &Settings) {
        self.set_settings(Arc::clone(&settings.groups));
    }

    fn decode(key: Bytes, value: Option<Bytes>) -> Result<GroupRecord, DecodeError> {
        GroupRecord::decode(key, value)
    }

    fn encode(&self, record: &GroupRecord) -> Result<(Bytes, Option<Bytes>), EncodeError> {
        record.encode(group::record_version(record))
    }

    fn replay(&mut self, record: &GroupRecord, producer: Option<(ProducerId, ProducerEpoch)>) {
        self.replay(record, producer);
    }

    fn replay_marker(&mut self, producer: ProducerId, committed: bool) {
        self.replay_marker(producer, committed);
    }

    fn on_loaded(&mut self, at: Moment) -> Vec<Infallible> {
        self.on_loaded(at);
        Vec::new()
    }

    fn ask(
        &mut self,
        ticket: Ticket,
        ask: group::Ask,
        at: Moment,
        topics: &dyn Topics,
    ) -> Step<GroupRecord, group::Answer> {
        self.ask(ticket, ask, at, topics)
    }

    fn tick(
        &mut self,
        at: Moment,
        topics: &dyn Topics,
        _fresh: txn::Fresh<'_>,
        batch_bytes_max: usize,
    ) -> Vec<Step<GroupRecord, group::Answer>> {
        self.tick(at, topics, batch_bytes_max)
    }

    fn next_deadline(&self) -> Option<Instant> {
        self.next_deadline()
    }

    fn abandon(&mut self) -> Vec<Ticket> {
        self.abandon()
    }

    fn on_topics_gone_early(&mut self, gone: &[String], at: Moment) {
        self.on_topics_gone_early(gone, at);
    }

    fn take_gone_topics(&mut self) -> Vec<String> {
        self.take_gone_topics()
    }

    fn on_topics_gone(
        &mut self,
        gone: &[String],
        at: Moment,
        topics: &dyn Topics,
        batch_bytes_max: usize,
    ) -> Step<GroupRecord, group::Answer> {
        self.on_topics_gone(gone, at, topics, batch_bytes_max)
    }
}

impl Machine for txn::Transactions {
    type Record = TransactionRecord;
    type Ask = txn::Ask;
    type Answer = txn::Answer;
    type Effect = txn::Markers;

    const TOPIC: &'static str = meta::name::TRANSACTIONS;
    const WRITES_TOGETHER: bool = false;

    fn new(settings: &Settings) -> Self {
        let mut machine = txn::Transactions::new(txn_settings(&settings.broker));
        machine.set_level(settings.transaction_version);
        machine
    }

    fn codec(_settings: &Settings) -> Codec {
        Codec::None
    }

    /// All but the level are read at start.
    fn set_settings(&mut self, settings: &Settings) {
        self.set_level(settings.transaction_version);
    }

    fn decode(key: Bytes, value: Option<Bytes>) -> Result<TransactionRecord, DecodeError> {
        TransactionRecord::decode(key, value)
    }

    fn encode(&self, record: &TransactionRecord) -> Result<(Bytes, Option<Bytes>), EncodeError> {
        record.encode(self.record_version(record))
    }

    fn replay(
        &mut self,
        record: &TransactionRecord,
        _producer: Option<(ProducerId, ProducerEpoch)>,
    ) {
        self.replay(record);
    }

    /// No transaction ever has records in this log.
    fn replay_marker(&mut self, _producer: ProducerId, _committed: bool) {}

    fn on_loaded(&mut self, at: Moment) -> Vec<txn::Markers> {
        self.on_loaded(at)
    }

    fn ask(
        &mut self,
        ticket: Ticket,
        ask: txn::Ask,
        at: Moment,
        _topics: &dyn Topics,
    ) -> Step<TransactionRecord, txn::Answer, txn::Markers> {
        self.ask(ticket, ask, at)
    }

    fn tick(
        &mut self,
        at: Moment,
        _topics: &dyn Topics,
        fresh: txn::Fresh<'_>,
        _batch_bytes_max: usize,
    ) -> Vec<Step<TransactionRecord, txn::Answer, txn::Markers>> {
        vec![self.tick(at, fresh)]
    }

    fn on_too_large(&mut self) -> Option<String> {
        let id = self.take_too_large()?;
        Some(format!(
            "transaction {id} is open for longer than it may be and cannot be aborted: its record does not fit a batch; it is tried \
             again until `max.message.bytes` of the topic is large enough"
        ))
    }

    fn next_deadline(&self) -> Option<Instant> {
        self.next_deadline()
    }

    fn abandon(&mut self) -> Vec<Ticket> {
        self.abandon()
    }

    fn on_topics_gone_early(&mut self, _gone: &[String], _at: Moment) {}

    fn take_gone_topics(&mut self) -> Vec<String> {
        Vec::new()
    }

    /// Markers of a partition that is gone are not written; its transaction ends as decided.
    fn on_topics_gone(
        &mut self,
        _gone: &[String],
        _at: Moment,
        _topics: &dyn Topics,
        _batch_bytes_max: usize,
    ) -> Step<TransactionRecord, txn::Answer, txn::Markers> {
        Step::default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::settings::tests::settings;

    #[test]
    fn the_codec_of_the_offsets_topic_is_taken_by_its_number() {
        for (number, codec) in Codec::ALL.iter().enumerate() {
            let set = settings(&[("offsets.topic.compression.codec", &number.to_string())]);
            assert_eq!(group::Groups::codec(&set), *codec);
            assert_eq!(txn::Transactions::codec(&set), Codec::None);
        }
    }
}
