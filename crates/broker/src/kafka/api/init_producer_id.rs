//! InitProducerId: an identity for a producer (KIP-98), and the next incarnation of one with a transactional id (KIP-360).

use bytes::Bytes;
use coord::txn::{Answer, Ask};
use wire::messages::{InitProducerIdRequest, InitProducerIdResponse};
use wire::{ApiKey, ErrorCode};

use super::txn::{fenced, producer, unexpected};
use crate::coordinate::txn_settings;
use crate::kafka::Attempt;
use crate::shard::{Address, Outcome, Shard};

/// First version whose clients know PRODUCER_FENCED.
const FENCED_VERSION: i16 = 4;
/// While the next block of producer ids is not durable. Nothing was done: the client asks again.
pub(super) const NO_PRODUCER_ID: ErrorCode = ErrorCode::CoordinatorLoadInProgress;

impl Shard {
    pub(crate) fn on_init_producer_id(
        &mut self,
        address: &Address,
        request: InitProducerIdRequest,
        frame: Bytes,
        attempt: Attempt,
    ) -> Outcome {
        // Both or none: who he was, and in which incarnation.
        if (request.producer_id == -1) != (request.producer_epoch == -1) {
            return self.refuse_producer_id(address, ErrorCode::InvalidRequest);
        }
        if let Some(id) = &request.transactional_id {
            let settings = txn_settings(&self.shared.config().broker);
            if let Err(code) = settings.check_init(id, request.transaction_timeout_ms) {
                return self.refuse_producer_id(address, code);
            }
        }
        let Some(id) = self.shared.take_producer_id() else {
            return match attempt {
                Attempt::Overdue => self.refuse_producer_id(address, NO_PRODUCER_ID),
                Attempt::First | Attempt::Second => self.allocate_producer_ids(address, frame),
            };
        };
        let Some(transactional_id) = request.transactional_id else {
            let response = InitProducerIdResponse {
                producer_id: id.0,
                producer_epoch: 0,
                ..Default::default()
            };
            return self.reply(address, ApiKey::InitProducerId, &response);
        };
        let is_known = request.producer_id != -1;
        let ask = Ask::Init {
            transactional_id,
            timeout_ms: request.transaction_timeout_ms,
            expected: is_known.then(|| producer(request.producer_id, request.producer_epoch)),
            fresh: Some(id),
        };
        self.ask_txn(address, ask, |shard, address, told| {
            let begun = match told {
                Ok(Answer::Init(begun)) => begun,
                other => Err(unexpected(other)),
            };
            match begun {
                Ok(producer) => {
                    let response = InitProducerIdResponse {
                        producer_id: producer.id.0,
                        producer_epoch: producer.epoch.0,
                        ..Default::default()
                    };
                    shard.reply(address, ApiKey::InitProducerId, &response)
                }
                Err(code) => {
                    let code = fenced(code, address.version >= FENCED_VERSION);
                    shard.refuse_producer_id(address, code)
                }
            }
        })
    }

    /// Gets the broker another block of producer ids, and handles the request again.
    pub(crate) fn allocate_producer_ids(&mut self, address: &Address, frame: Bytes) -> Outcome {
        self.change_first(address, frame, |image, shared| {
            let node = shared.config().broker.node_id;
            meta::decide::producer_ids::allocate_producer_ids(image, node)
                .map(|(record, _)| record)
                .into_iter()
                .collect()
        })
    }

    fn refuse_producer_id(&mut self, address: &Address, code: ErrorCode) -> Outcome {
        let response = InitProducerIdResponse {
            error_code: code.code(),
            producer_id: -1,
            producer_epoch: -1,
            ..Default::default()
        };
        self.reply(address, ApiKey::InitProducerId, &response)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::shard::bench::{Bench, encoded};

    /// The first id there is has to be made durable; who gets none does not wait for it.
    #[test]
    fn a_request_that_is_refused_takes_no_producer_id() {
        let mut bench = Bench::new();
        for (id, transaction_timeout_ms, code) in [
            ("", 1_000, ErrorCode::InvalidRequest),
            ("t", 0, ErrorCode::InvalidTransactionTimeout),
            ("t", i32::MAX, ErrorCode::InvalidTransactionTimeout),
        ] {
            let request = InitProducerIdRequest {
                transactional_id: Some(id.to_owned()),
                transaction_timeout_ms,
                producer_id: -1,
                producer_epoch: -1,
                ..Default::default()
            };
            bench.put(&encoded(&request, 4));
            let told = bench.answer::<InitProducerIdRequest>(4);
            assert_eq!(told.expect("told at once").error_code, code.code());
        }
    }
}
