//! Requests about metadata: from their handlers, which are functions of the image, to answers and changes.

use bytes::Bytes;
use wire::messages::MetadataRequest;
use wire::{ApiKey, Reader};

use crate::shard::{Address, Outcome, Shard};

pub(crate) fn is_served(key: ApiKey, version: i16) -> bool {
    (key.min_version()..=key.max_version()).contains(&version)
}

impl Shard {
    pub(crate) fn on_api_versions_unknown(&mut self, _address: &Address) -> Outcome {
        Outcome::Close
    }

    pub(crate) fn on_metadata(
        &mut self,
        _address: &Address,
        _request: MetadataRequest,
        _frame: Bytes,
        _is_second: bool,
    ) -> Outcome {
        Outcome::Close
    }

    pub(crate) fn dispatch_admin(
        &mut self,
        _key: ApiKey,
        _address: &Address,
        _reader: Reader,
    ) -> Outcome {
        Outcome::Close
    }
}
