//! The last epoch of a producer id, which takes 32,766 incarnations to come to: the check that aborts late transactions is handed
//! another id by the broker, or finds that its block has run out.

use std::borrow::Borrow;
use std::time::Duration;

use env::sim::{Faults, Machine};
use wire::messages::add_partitions_to_txn_request::AddPartitionsToTxnTopic;
use wire::messages::{
    AddPartitionsToTxnRequest, EndTxnRequest, FindCoordinatorRequest, InitProducerIdRequest,
};

use crate::client::{Client, NONE};
use crate::small_broker::start;

const ID: &str = "x";
/// Of an incarnation that may begin a transaction.
const LAST_EPOCH: i16 = i16::MAX - 1;
/// Ids that the broker takes from the metadata at a time.
const BLOCK: i64 = 1000;
const INVALID_PRODUCER_ID_MAPPING: i16 = 49;
const PRODUCER_FENCED: i16 = 90;

impl<M: Borrow<Machine>> Client<M> {
    /// Code, producer id and epoch.
    fn init(&self, transactional_id: Option<&str>) -> (i16, i64, i16) {
        let request = InitProducerIdRequest {
            transactional_id: transactional_id.map(str::to_owned),
            transaction_timeout_ms: 1000,
            producer_id: -1,
            producer_epoch: -1,
            ..Default::default()
        };
        let answer = self.ask(&request, 5);
        (answer.error_code, answer.producer_id, answer.producer_epoch)
    }

    /// Asks again while the coordinator is not ready.
    fn begin(&self) -> (i64, i16) {
        loop {
            if let (NONE, id, epoch) = self.init(Some(ID)) {
                return (id, epoch);
            }
            self.run(Duration::from_millis(10));
        }
    }
}

#[test]
fn a_late_transaction_of_the_last_epoch_is_followed_by_another_id_at_hand_or_not() {
    for is_at_hand in [true, false] {
        let machine = Machine::new(1, Faults::default());
        let often = "transaction.abort.timed.out.transaction.cleanup.interval.ms";
        let _broker = start(&machine, &[(often, "500")]);
        let client = Client::of(&machine);
        client.create("t", 1);
        let find = FindCoordinatorRequest {
            key: ID.to_owned(),
            key_type: 1,
            ..Default::default()
        };
        while client.ask(&find, 3).error_code != NONE {
            client.run(Duration::from_millis(10));
        }
        let (mut last, mut epoch) = client.begin();
        while epoch < LAST_EPOCH {
            (last, epoch) = client.begin();
        }
        let add = AddPartitionsToTxnRequest {
            v3_and_below_transactional_id: ID.to_owned(),
            v3_and_below_producer_id: last,
            v3_and_below_producer_epoch: epoch,
            v3_and_below_topics: vec![AddPartitionsToTxnTopic {
                name: "t".to_owned(),
                partitions: vec![0],
            }],
            ..Default::default()
        };
        let added = client.ask(&add, 3).results_by_topic_v3_and_below;
        assert_eq!(added[0].results_by_partition[0].partition_error_code, NONE);
        let mut given = last;
        while !is_at_hand && given % BLOCK != BLOCK - 1 {
            given = client.init(None).1;
        }
        client.run(Duration::from_secs(3));
        let end = EndTxnRequest {
            transactional_id: ID.to_owned(),
            producer_id: last,
            producer_epoch: epoch,
            committed: true,
        };
        // Either another id has taken over and the old one is unknown, or the old one has an epoch that nobody was given.
        let refusal = if is_at_hand {
            INVALID_PRODUCER_ID_MAPPING
        } else {
            PRODUCER_FENCED
        };
        assert_eq!(client.ask(&end, 4).error_code, refusal);
        let (next, epoch) = client.begin();
        assert!(given < next, "{next}");
        assert_eq!(epoch, i16::from(is_at_hand));
    }
}
