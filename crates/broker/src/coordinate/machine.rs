//! What a driver needs of a machine, whichever topic it looks after.

use std::sync::Arc;

use bytes::Bytes;
use coord::{Caller, Moment, Step, Topics, group};
use model::{Instant, ProducerEpoch, ProducerId};
use wire::group::GroupRecord;
use wire::{DecodeError, EncodeError};

use crate::settings::Settings;

pub(crate) trait Machine {
    type Record;
    type Ask;
    type Answer;

    fn new(settings: &Settings) -> Self;
    fn decode(key: Bytes, value: Option<Bytes>) -> Result<Self::Record, DecodeError>;
    fn encode(record: &Self::Record) -> Result<(Bytes, Option<Bytes>), EncodeError>;
    fn replay(&mut self, record: &Self::Record, producer: Option<(ProducerId, ProducerEpoch)>);
    fn replay_marker(&mut self, producer: ProducerId, committed: bool);
    fn on_loaded(&mut self, at: Moment);
    fn ask(
        &mut self,
        caller: Caller,
        ask: Self::Ask,
        at: Moment,
        topics: &dyn Topics,
    ) -> Step<Self::Record, Self::Answer>;
    fn tick(&mut self, at: Moment, topics: &dyn Topics) -> Step<Self::Record, Self::Answer>;
    fn next_deadline(&self) -> Option<Instant>;
    /// Topics were deleted; nothing is remembered of them.
    fn on_topics_gone(
        &mut self,
        gone: &[String],
        at: Moment,
        topics: &dyn Topics,
    ) -> Step<Self::Record, Self::Answer>;
}

impl Machine for group::Groups {
    type Record = GroupRecord;
    type Ask = group::Ask;
    type Answer = group::Answer;

    fn new(settings: &Settings) -> Self {
        group::Groups::new(Arc::clone(&settings.groups))
    }

    fn decode(key: Bytes, value: Option<Bytes>) -> Result<GroupRecord, DecodeError> {
        GroupRecord::decode(key, value)
    }

    fn encode(record: &GroupRecord) -> Result<(Bytes, Option<Bytes>), EncodeError> {
        record.encode(group::record_version(record))
    }

    fn replay(&mut self, record: &GroupRecord, producer: Option<(ProducerId, ProducerEpoch)>) {
        self.replay(record, producer);
    }

    fn replay_marker(&mut self, producer: ProducerId, committed: bool) {
        self.replay_marker(producer, committed);
    }

    fn on_loaded(&mut self, at: Moment) {
        self.on_loaded(at);
    }

    fn ask(
        &mut self,
        caller: Caller,
        ask: group::Ask,
        at: Moment,
        topics: &dyn Topics,
    ) -> Step<GroupRecord, group::Answer> {
        self.ask(caller, ask, at, topics)
    }

    fn tick(&mut self, at: Moment, topics: &dyn Topics) -> Step<GroupRecord, group::Answer> {
        self.tick(at, topics)
    }

    fn next_deadline(&self) -> Option<Instant> {
        self.next_deadline()
    }

    fn on_topics_gone(
        &mut self,
        gone: &[String],
        at: Moment,
        topics: &dyn Topics,
    ) -> Step<GroupRecord, group::Answer> {
        self.on_topics_gone(gone, at, topics)
    }
}
