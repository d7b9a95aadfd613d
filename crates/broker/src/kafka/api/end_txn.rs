//! EndTxn: commit or abort. Answered when that is decided for good; markers follow.

use bytes::Bytes;
use coord::txn::{Answer, Ask};
use model::ProducerId;
use wire::ApiKey;
use wire::messages::{EndTxnRequest, EndTxnResponse};

use super::init_producer_id::NO_PRODUCER_ID;
use super::txn::{BROKER_ADDS, CLIENT_ADDS, fenced, producer, unexpected};
use crate::kafka::Attempt;
use crate::shard::{Address, Outcome, Shard};

/// First version whose clients know PRODUCER_FENCED.
const FENCED_VERSION: i16 = 2;
/// First version that goes on with the epoch of the answer (KIP-890).
const EPOCH_VERSION: i16 = 5;
/// The last transaction of a producer id: its successor is needed.
const LAST_EPOCH: i16 = i16::MAX - 1;

impl Shard {
    pub(crate) fn on_end_txn(
        &mut self,
        address: &Address,
        request: EndTxnRequest,
        frame: Bytes,
        attempt: Attempt,
    ) -> Outcome {
        let is_last = request.producer_epoch >= LAST_EPOCH && address.version >= EPOCH_VERSION;
        let fresh = match is_last {
            true => self.shared.take_producer_id(),
            false => None,
        };
        if is_last && fresh.is_none() {
            if attempt == Attempt::Overdue {
                let response = EndTxnResponse {
                    error_code: NO_PRODUCER_ID.code(),
                    producer_id: ProducerId::NONE.0,
                    producer_epoch: -1,
                    ..Default::default()
                };
                return self.reply(address, ApiKey::EndTxn, &response);
            }
            return self.allocate_producer_ids(address, frame);
        }
        let ask = Ask::End {
            transactional_id: request.transactional_id,
            producer: producer(request.producer_id, request.producer_epoch),
            committed: request.committed,
            version: match address.version >= EPOCH_VERSION {
                true => BROKER_ADDS,
                false => CLIENT_ADDS,
            },
            fresh,
        };
        self.ask_txn(address, ask, |shard, address, told| {
            let ended = match told {
                Ok(Answer::End(ended)) => ended,
                other => Err(unexpected(other)),
            };
            let mut response = EndTxnResponse {
                producer_id: ProducerId::NONE.0,
                producer_epoch: -1,
                ..Default::default()
            };
            match ended {
                Ok(producer) if address.version >= EPOCH_VERSION => {
                    response.producer_id = producer.id.0;
                    response.producer_epoch = producer.epoch.0;
                }
                Ok(_) => {}
                Err(code) => {
                    let knows_fenced = address.version >= FENCED_VERSION;
                    response.error_code = fenced(code, knows_fenced).code();
                }
            }
            shard.reply(address, ApiKey::EndTxn, &response)
        })
    }
}
