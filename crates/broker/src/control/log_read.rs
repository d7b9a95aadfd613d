//! Reads of the metadata log for replicas that fetch it.

use std::sync::Arc;

use bytes::Bytes;
use model::{LeaderEpoch, Offset};
use partition::{Isolation, Partition, ReadRequest, Records, Scope};
use raft::Fill;
use wire::records::{Batch, Source};

/// Whole batches for an answer, none of them at or behind the end that the machine named. None where they cannot be read: the replica
/// asks again.
pub(crate) fn records(log: &Arc<Partition>, fill: Fill) -> Bytes {
    let Fill::Records {
        from,
        to,
        bytes_max,
    } = fill
    else {
        return Bytes::new();
    };
    let request = ReadRequest {
        from,
        bytes_max: bytes_max as usize,
        memory_bytes_max: usize::MAX,
        at_least_one: true,
        current_epoch: LeaderEpoch::NONE,
        scope: Scope::of_any(Isolation::Log),
    };
    match log.read(request).map(|read| read.records) {
        Ok(Records::Memory(batches)) => {
            let mut bytes = Vec::new();
            for batch in batches.iter().take_while(|batch| batch.next_offset() <= to) {
                bytes.extend_from_slice(batch.head());
                bytes.extend_from_slice(batch.body());
            }
            bytes.into()
        }
        Ok(Records::File(verified)) => up_to(verified.read().unwrap_or_default(), to),
        Ok(Records::AtEnd) => Bytes::new(),
        Err(error) => {
            tracing::error!(target: env::logs::METADATA, "cannot read the metadata log at {from} for another node: {error}");
            Bytes::new()
        }
    }
}

fn up_to(bytes: Bytes, to: Offset) -> Bytes {
    let mut end = 0;
    for batch in Batch::cut(&bytes, Source::Log).map_while(Result::ok) {
        if to < batch.next_offset() {
            break;
        }
        end += batch.size();
    }
    bytes.slice(..end)
}
