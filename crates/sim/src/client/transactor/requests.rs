//! The requests of a transactional producer, in versions that change from one request to the next.

use std::collections::BTreeMap;
use std::ops::Range;
use std::time::Duration;

use env::sim::Chance;
use model::Instant;
use wire::messages::add_partitions_to_txn_request::AddPartitionsToTxnTopic;
use wire::messages::offset_fetch_request::OffsetFetchRequestTopic;
use wire::messages::txn_offset_commit_request::{
    TxnOffsetCommitRequestPartition, TxnOffsetCommitRequestTopic,
};
use wire::messages::{
    AddOffsetsToTxnRequest, AddPartitionsToTxnRequest, EndTxnRequest, InitProducerIdRequest,
    OffsetFetchRequest, TxnOffsetCommitRequest,
};

use super::{Batch, OFFSET_OF, Transactor, TransactorState, TxnPartition};
use crate::checker::Sent;
use crate::client::keep::Link;
use crate::client::notes::Notes;
use crate::client::producer::{Identity, build};
use crate::client::requests::{GROUP, TRANSACTION, able_to_bring, find_coordinator, produce};

/// How long the answer to something that is held back is waited for.
const PATIENCE_MS: Range<u64> = 50..1_000;
const STRAY_PATIENCE_MS: Range<u64> = 20..200;

impl Transactor {
    pub(super) fn find_coordinator(&mut self, now: Instant) {
        let of_group = self.habits.group.as_ref();
        let request = match of_group.filter(|_| self.state == TransactorState::LostGroup) {
            Some(group) => find_coordinator(group, GROUP),
            None => find_coordinator(&self.habits.id, TRANSACTION),
        };
        self.link.ask(&request, 3, now);
    }

    pub(super) fn init(&mut self, now: Instant) {
        let (id, epoch) = self.producer.filter(|_| self.recovers).unwrap_or((-1, -1));
        let request = InitProducerIdRequest {
            transactional_id: Some(self.habits.id.clone()),
            transaction_timeout_ms: self.habits.timeout.as_millis() as i32,
            producer_id: id,
            producer_epoch: epoch,
            ..Default::default()
        };
        let lowest = if self.habits.is_old && id < 0 { 0 } else { 3 };
        let version = self.chance.between(lowest, 5) as i16;
        self.link.ask(&request, version, now);
    }

    /// All partitions of the transaction at once.
    pub(super) fn add(&mut self, now: Instant) {
        let (Some(txn), Some((id, epoch))) = (&self.txn, self.producer) else {
            return;
        };
        let mut topics: BTreeMap<&str, Vec<i32>> = BTreeMap::new();
        for (topic, partition) in &txn.places {
            topics.entry(topic).or_default().push(*partition);
        }
        let topics = topics.into_iter().map(|(name, partitions)| {
            let name = name.to_owned();
            AddPartitionsToTxnTopic { name, partitions }
        });
        let request = AddPartitionsToTxnRequest {
            v3_and_below_transactional_id: self.habits.id.clone(),
            v3_and_below_producer_id: id,
            v3_and_below_producer_epoch: epoch,
            v3_and_below_topics: topics.collect(),
            ..Default::default()
        };
        let additions = self.habits.strays.div_ceil(4);
        let delay = Delay::draw(&mut self.chance, additions, STRAY_PATIENCE_MS);
        if let Some(delay) = &delay {
            self.patience = delay.patience;
        }
        Delay::hold(delay, &self.link);
        let version = self.chance.between(0, 3) as i16;
        self.link.ask(&request, version, now);
    }

    pub(super) fn send_new(&mut self, now: Instant, notes: &mut Notes) {
        let (Some(txn), Some((id, epoch))) = (&mut self.txn, self.producer) else {
            return;
        };
        // Each partition once, then any.
        let next = txn.batches.len();
        let place = match txn.places.get(next) {
            Some(place) => place.clone(),
            None => self.chance.pick(&txn.places).clone(),
        };
        let key = notes.key(&place.0, place.1);
        let from = txn.op.sends.len();
        let values: Vec<u64> = (0..self.chance.between(1, 4))
            .map(|_| notes.value())
            .collect();
        txn.op.sends.extend(values.iter().map(|value| Sent {
            key,
            offset: None,
            value: *value,
        }));
        let sequence = self.sequences.entry(place.clone()).or_default();
        let identity = Identity {
            id,
            epoch,
            sequence: *sequence,
            is_transactional: true,
        };
        *sequence += values.len() as i32;
        let records = build(&values, Some(identity), now, &mut self.chance);
        txn.batches.push(Batch {
            place,
            records,
            sends: from..txn.op.sends.len(),
            correlation: None,
            is_acked: false,
        });
        txn.left -= 1;
        self.send(next, now);
    }

    /// Everything that is not acknowledged, again, in the old order.
    pub(super) fn send_again(&mut self, now: Instant, notes: &mut Notes) {
        let Some(txn) = &self.txn else { return };
        let open = |at: &usize| !txn.batches[*at].is_acked;
        let open: Vec<usize> = (0..txn.batches.len()).filter(open).collect();
        for at in open {
            notes.resent += 1;
            self.send(at, now);
        }
    }

    /// The same for what waits for the leader of one place.
    pub(super) fn send_to(&mut self, place: &TxnPartition, now: Instant, notes: &mut Notes) {
        let Some(txn) = &self.txn else { return };
        let waits = |at: &usize| {
            let batch = &txn.batches[*at];
            batch.place == *place && !batch.is_acked && batch.correlation.is_none()
        };
        let waiting: Vec<usize> = (0..txn.batches.len()).filter(waits).collect();
        for at in waiting {
            notes.resent += 1;
            self.send(at, now);
        }
    }

    pub(super) fn send(&mut self, at: usize, now: Instant) {
        let drawn = if self.habits.is_old {
            self.chance.between(3, 11)
        } else {
            12
        };
        let Some(batch) = self.txn.as_ref().and_then(|txn| txn.batches.get(at)) else {
            return;
        };
        let place = batch.place.clone();
        let sent = [(place.1, batch.records.clone())];
        let version = able_to_bring(&[&batch.records], drawn);
        let request = produce(Some(&self.habits.id), -1, &place.0, sent);
        if self.leader_link(&place).line.is_none() {
            return;
        }
        let delay = Delay::draw(&mut self.chance, self.habits.strays, STRAY_PATIENCE_MS);
        if let Some(delay) = &delay {
            self.patience = self.patience.min(delay.patience);
        }
        let link = self.leader_link(&place);
        Delay::hold(delay, link);
        let correlation = link.ask(&request, version, now);
        if let Some(txn) = &mut self.txn {
            txn.batches[at].correlation = correlation;
        }
    }

    pub(super) fn group_topic(&self) -> (String, String, i32) {
        let group = self.habits.group.clone().unwrap_or_default();
        let (topic, partition) = OFFSET_OF;
        (group, topic.to_owned(), partition)
    }

    pub(super) fn look(&mut self, now: Instant) {
        let (group_id, name, partition) = self.group_topic();
        let request = OffsetFetchRequest {
            group_id,
            topics: Some(vec![OffsetFetchRequestTopic {
                name,
                partition_indexes: vec![partition],
            }]),
            require_stable: true,
            ..Default::default()
        };
        self.group_link().ask(&request, 7, now);
    }

    pub(super) fn add_group(&mut self, now: Instant) {
        let (group_id, ..) = self.group_topic();
        let Some((producer_id, producer_epoch)) = self.producer else {
            return;
        };
        let request = AddOffsetsToTxnRequest {
            transactional_id: self.habits.id.clone(),
            producer_id,
            producer_epoch,
            group_id,
        };
        let version = self.chance.between(0, 3) as i16;
        self.link.ask(&request, version, now);
    }

    pub(super) fn commit_offset(&mut self, now: Instant) {
        let (group_id, name, partition) = self.group_topic();
        let (Some(txn), Some((producer_id, producer_epoch))) = (&self.txn, self.producer) else {
            return;
        };
        let request = TxnOffsetCommitRequest {
            transactional_id: self.habits.id.clone(),
            group_id,
            producer_id,
            producer_epoch,
            generation_id_or_member_epoch: -1,
            topics: vec![TxnOffsetCommitRequestTopic {
                name,
                partitions: vec![TxnOffsetCommitRequestPartition {
                    partition_index: partition,
                    committed_offset: txn.number,
                    committed_leader_epoch: -1,
                    committed_metadata: None,
                }],
                ..Default::default()
            }],
            ..Default::default()
        };
        let version = if self.habits.is_old {
            self.chance.between(0, 4) as i16
        } else {
            5
        };
        let delay = Delay::draw(&mut self.chance, self.habits.delays, PATIENCE_MS);
        if let Some(delay) = &delay {
            self.patience = delay.patience;
        }
        let link = self.group_link();
        Delay::hold(delay, link);
        link.ask(&request, version, now);
    }

    pub(super) fn end(&mut self, committed: bool, now: Instant) {
        if self.link.line.is_none() {
            // The step before needed another connection: this one is opened first.
            self.state = TransactorState::Ending { committed };
            return;
        }
        let Some((id, epoch)) = self.producer else {
            return;
        };
        let request = EndTxnRequest {
            transactional_id: self.habits.id.clone(),
            producer_id: id,
            producer_epoch: epoch,
            committed,
        };
        let version = if self.habits.is_old {
            self.chance.between(0, 4) as i16
        } else {
            5
        };
        let delay = Delay::draw(&mut self.chance, self.habits.delays, PATIENCE_MS);
        if let Some(delay) = &delay {
            self.patience = delay.patience;
        }
        Delay::hold(delay, &self.link);
        self.link.ask(&request, version, now);
        self.state = TransactorState::Ending { committed };
    }
}

/// Of a request that arrives late, after it was given up and asked again.
struct Delay {
    time: Duration,
    /// How long its answer is waited for.
    patience: Duration,
}

impl Delay {
    /// One in `delays` requests has one.
    fn draw(chance: &mut Chance, delays: u64, patience_ms: Range<u64>) -> Option<Delay> {
        chance.one_in(delays).then(|| Delay {
            time: Duration::from_millis(chance.between(100, 5_000)),
            patience: Duration::from_millis(chance.between(patience_ms.start, patience_ms.end)),
        })
    }

    fn hold(delay: Option<Delay>, link: &Link) {
        if let (Some(delay), Some(line)) = (delay, &link.line) {
            line.conn().stall_requests(delay.time);
        }
    }
}
