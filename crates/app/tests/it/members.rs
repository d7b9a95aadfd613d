//! Members of groups and producers of transactions. The client has neither, so tests make their requests here.

use std::time::Duration;

use client::{Client, Error, Options};
use env::Env;
use wire::messages::add_partitions_to_txn_request::AddPartitionsToTxnTopic;
use wire::messages::join_group_request::JoinGroupRequestProtocol;
use wire::messages::produce_request::{PartitionProduceData, TopicProduceData};
use wire::messages::sync_group_request::SyncGroupRequestAssignment;
use wire::messages::{
    AddPartitionsToTxnRequest, ConsumerGroupHeartbeatRequest, FindCoordinatorRequest,
    InitProducerIdRequest, JoinGroupRequest, ProduceRequest, SyncGroupRequest,
};
use wire::records::BatchBuilder;
use wire::{ErrorCode, Records, Request};

use crate::broker::Broker;

pub(crate) const TRANSACTION: i8 = 1;

/// A client that asks one broker, and asks again while a coordinator is on its way.
pub(crate) struct Peer {
    client: Client,
}

impl Peer {
    /// `key` has a coordinator when this returns.
    pub(crate) fn of(broker: &Broker, key: &str, kind: i8) -> Peer {
        let options = Options {
            client_id: "member".to_owned(),
            timeout: Duration::from_secs(30),
            ..Options::default()
        };
        let client = Client::connect(&Env::real(), &broker.address, options).unwrap();
        let mut peer = Peer { client };
        let request = FindCoordinatorRequest {
            key_type: kind,
            coordinator_keys: vec![key.to_owned()],
            ..FindCoordinatorRequest::default()
        };
        peer.ask(&request, |found| found.coordinators[0].error_code);
        peer
    }

    /// The answer once its code says neither `not yet` nor anything else.
    fn ask<R: Request>(&mut self, request: &R, code: impl Fn(&R::Response) -> i16) -> R::Response {
        let answer = self.client.retry("asking", |client| {
            let answer = client.call_any(request)?;
            refused(code(&answer))?;
            Ok(answer)
        });
        answer.unwrap()
    }

    fn ask_up_to<R: Request>(&mut self, request: &R, version: i16) -> R::Response {
        let address = self.client.brokers().values().next().unwrap().clone();
        let mut connection = self.client.open(&address).unwrap();
        connection.send_up_to(request, version).unwrap();
        connection.receive_as::<R>().unwrap()
    }

    /// A heartbeat of a KIP-848 member: 0 joins, -1 leaves. Its epoch afterwards.
    pub(crate) fn beat(&mut self, group: &str, member: &str, epoch: i32, topic: &str) -> i32 {
        let joins = epoch == 0;
        let request = ConsumerGroupHeartbeatRequest {
            group_id: group.to_owned(),
            member_id: member.to_owned(),
            member_epoch: epoch,
            rebalance_timeout_ms: if joins { 30_000 } else { -1 },
            subscribed_topic_names: joins.then(|| vec![topic.to_owned()]),
            topic_partitions: joins.then(Vec::new),
            ..ConsumerGroupHeartbeatRequest::default()
        };
        self.ask(&request, |answer| answer.error_code).member_epoch
    }

    /// The only member of a group of the classic protocol; its id.
    pub(crate) fn join(&mut self, group: &str) -> String {
        let mut request = JoinGroupRequest {
            group_id: group.to_owned(),
            session_timeout_ms: 30_000,
            rebalance_timeout_ms: 30_000,
            group_instance_id: Some("one".to_owned()),
            protocol_type: "test".to_owned(),
            protocols: vec![JoinGroupRequestProtocol {
                name: "only".to_owned(),
                ..JoinGroupRequestProtocol::default()
            }],
            ..JoinGroupRequest::default()
        };
        let joined = self.ask(&request, |answer| answer.error_code);
        request.member_id.clone_from(&joined.member_id);
        let sync = SyncGroupRequest {
            group_id: group.to_owned(),
            generation_id: joined.generation_id,
            member_id: joined.member_id.clone(),
            group_instance_id: Some("one".to_owned()),
            protocol_type: Some("test".to_owned()),
            protocol_name: Some("only".to_owned()),
            assignments: vec![SyncGroupRequestAssignment {
                member_id: joined.member_id.clone(),
                ..SyncGroupRequestAssignment::default()
            }],
        };
        self.ask(&sync, |answer| answer.error_code);
        joined.member_id
    }

    /// Producer id and epoch of a transactional id.
    pub(crate) fn begin(&mut self, id: &str) -> (i64, i16) {
        let request = InitProducerIdRequest {
            transactional_id: Some(id.to_owned()),
            transaction_timeout_ms: 60_000,
            ..InitProducerIdRequest::default()
        };
        let begun = self.ask(&request, |answer| answer.error_code);
        (begun.producer_id, begun.producer_epoch)
    }

    pub(crate) fn add_partition(&mut self, id: &str, producer: (i64, i16), topic: &str) {
        let request = AddPartitionsToTxnRequest {
            v3_and_below_transactional_id: id.to_owned(),
            v3_and_below_producer_id: producer.0,
            v3_and_below_producer_epoch: producer.1,
            v3_and_below_topics: vec![AddPartitionsToTxnTopic {
                name: topic.to_owned(),
                partitions: vec![0],
            }],
            ..AddPartitionsToTxnRequest::default()
        };
        // Later versions are for brokers.
        let answer = self.ask_up_to(&request, 3);
        let partitions = &answer.results_by_topic_v3_and_below[0].results_by_partition;
        assert_eq!(partitions[0].partition_error_code, 0);
    }

    /// A record of a transaction that is or is not known to its coordinator; its offset.
    pub(crate) fn produce(&mut self, id: &str, producer: (i64, i16), topic: &str) -> i64 {
        let number = model::ProducerId(producer.0);
        let epoch = model::ProducerEpoch(producer.1);
        let batch = BatchBuilder::new()
            .producer(number, epoch, model::Sequence(0))
            .transactional();
        self.send(Some(id), topic, batch, Env::real().clock.wall_ms())
    }

    /// A record with a time of its own.
    pub(crate) fn produce_at(&mut self, topic: &str, ms: i64) -> i64 {
        self.send(None, topic, BatchBuilder::new(), model::Timestamp(ms))
    }

    fn send(
        &mut self,
        id: Option<&str>,
        topic: &str,
        mut batch: BatchBuilder,
        time: model::Timestamp,
    ) -> i64 {
        batch.push(time, None, Some(b"value"), &[]);
        let found = self.client.topic(topic).unwrap();
        let request = ProduceRequest {
            transactional_id: id.map(str::to_owned),
            acks: -1,
            timeout_ms: 10_000,
            topic_data: vec![TopicProduceData {
                name: topic.to_owned(),
                topic_id: found.id,
                partition_data: vec![PartitionProduceData {
                    index: 0,
                    records: Some(Records::Bytes(batch.build().to_bytes())),
                }],
            }],
        };
        // Later versions begin the transaction by themselves, where its coordinator knows the producer.
        let answer = self.ask_up_to(&request, 11);
        let partition = &answer.responses[0].partition_responses[0];
        assert_eq!(partition.error_code, 0);
        partition.base_offset
    }
}

fn refused(code: i16) -> Result<(), Error> {
    match ErrorCode::try_from(code) {
        Ok(ErrorCode::None) => Ok(()),
        Ok(code) => Err(Error::Refused {
            what: "the request".to_owned(),
            code,
            message: None,
        }),
        Err(_) => Err(Error::UnknownCode {
            what: "the request".to_owned(),
            code,
        }),
    }
}
