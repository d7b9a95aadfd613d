//! InitProducerId: an identity for an idempotent producer (KIP-98). Transactional ids have no coordinator here yet.

use bytes::Bytes;
use wire::messages::{InitProducerIdRequest, InitProducerIdResponse};
use wire::{ApiKey, ErrorCode};

use crate::shard::{Address, Outcome, Shard};

impl Shard {
    pub(crate) fn on_init_producer_id(
        &mut self,
        address: &Address,
        request: InitProducerIdRequest,
        frame: Bytes,
    ) -> Outcome {
        if let Some(id) = &request.transactional_id {
            let code = if id.is_empty() {
                ErrorCode::InvalidRequest
            } else {
                ErrorCode::CoordinatorNotAvailable
            };
            return self.refuse_producer_id(address, code);
        }
        if let Some(id) = self.take_producer_id() {
            let response = InitProducerIdResponse {
                producer_id: id.0,
                producer_epoch: 0,
                ..Default::default()
            };
            return self.reply(address, ApiKey::InitProducerId, &response);
        }
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
