//! Leader epochs across power cuts: readers of what no sync had promised see that it is gone (KIP-101, KIP-320).

use std::borrow::Borrow;

use env::sim::{Faults, Machine};
use wire::messages::create_topics_request::{CreatableTopic, CreatableTopicConfig};
use wire::messages::fetch_request::{FetchPartition, FetchTopic};
use wire::messages::offset_for_leader_epoch_request::{
    OffsetForLeaderPartition, OffsetForLeaderTopic,
};
use wire::messages::{
    CreateTopicsRequest, FetchRequest, MetadataRequest, OffsetForLeaderEpochRequest,
};

use crate::client::{Client, NONE};
use crate::small_broker::start;

const FENCED: i16 = 74;
const WRITTEN: i64 = 30;
const RECORD: &[u8] = &[7; 1000];

impl<M: Borrow<Machine>> Client<M> {
    fn create_with(&self, name: &str, durability: &str) {
        let request = CreateTopicsRequest {
            topics: vec![CreatableTopic {
                name: name.to_owned(),
                num_partitions: 1,
                replication_factor: 1,
                configs: vec![CreatableTopicConfig {
                    name: "esker.durability".to_owned(),
                    value: Some(durability.to_owned()),
                }],
                ..Default::default()
            }],
            timeout_ms: 1000,
            validate_only: false,
        };
        assert_eq!(self.ask(&request, 5).topics[0].error_code, 0);
    }

    fn leader_epoch(&self, topic: &str) -> i32 {
        let request = MetadataRequest {
            topics: None,
            ..Default::default()
        };
        let all = self.ask(&request, 9);
        let mut topics = all.topics.iter();
        let found = topics.find(|found| found.name.as_deref() == Some(topic));
        found.expect("it is kept").partitions[0].leader_epoch
    }

    /// Epoch and end of what was written in `leader_epoch` or before.
    fn end_of(&self, topic: &str, leader_epoch: i32) -> (i32, i64) {
        let request = OffsetForLeaderEpochRequest {
            topics: vec![OffsetForLeaderTopic {
                topic: topic.to_owned(),
                partitions: vec![OffsetForLeaderPartition {
                    leader_epoch,
                    ..Default::default()
                }],
            }],
            ..Default::default()
        };
        let answer = &self.ask(&request, 4).topics[0].partitions[0];
        assert_eq!(answer.error_code, 0);
        (answer.leader_epoch, answer.end_offset)
    }

    fn fetch_code(&self, topic: &str, current_leader_epoch: i32) -> i16 {
        let request = FetchRequest {
            max_bytes: 1 << 20,
            topics: vec![FetchTopic {
                topic: topic.to_owned(),
                partitions: vec![FetchPartition {
                    current_leader_epoch,
                    partition_max_bytes: 1 << 20,
                    ..Default::default()
                }],
                ..Default::default()
            }],
            session_epoch: -1,
            ..Default::default()
        };
        self.ask(&request, 11).responses[0].partitions[0].error_code
    }
}

#[test]
fn a_power_cut_begins_new_epochs_where_records_were_not_promised_and_only_there() {
    let mut lost = 0;
    for seed in 0..10 {
        let machine = Machine::new(seed, Faults::default());
        let broker = start(&machine, &[]);
        let client = Client::of(&machine);
        for durability in ["os", "sync"] {
            client.create_with(durability, durability);
            assert_eq!(client.leader_epoch(durability), 0);
            for offset in 0..WRITTEN {
                assert_eq!(client.produce(durability, RECORD), (NONE, offset));
            }
        }
        for _ in 0..WRITTEN {
            client.produce("os", RECORD);
        }
        drop(broker);
        machine.power_cut();

        let _broker = start(&machine, &[]);
        let client = Client::of(&machine);
        assert_eq!(
            (client.leader_epoch("os"), client.leader_epoch("sync")),
            (1, 0)
        );
        let first = client.produce("os", RECORD).1;
        lost += 2 * WRITTEN - first;
        for _ in 0..2 * WRITTEN {
            client.produce("os", RECORD);
        }
        assert_eq!(client.end_of("os", 0), (0, first), "where it forked");
        assert_eq!(client.end_of("os", 1), (1, first + 2 * WRITTEN + 1));
        assert_eq!(client.fetch_code("os", 0), FENCED);
        assert_eq!(client.fetch_code("os", 1), 0);
        assert_eq!(client.fetch_code("os", -2), 0, "as if it named none");
        assert_eq!(client.produce("sync", RECORD), (NONE, WRITTEN));
        assert_eq!(client.end_of("sync", 0), (0, WRITTEN + 1));
    }
    assert!(lost > 0, "no cut took anything");
}
