//! From what went wrong to the code that Kafka gives for it. Nowhere else is a code of the data path chosen.

use log::producer::ProducerError;
use log::store::ReadError as StoreError;
use model::Ticket;
use partition::{AppendError, News, ReadError, TrimError};
use wire::ErrorCode;
use wire::records::{CodecError, Fault, RecordFault, has_invalid_timestamp};

use crate::topics::Absent;

/// The outcome that news carry for the operation that waits; none where they only say that there is more to read.
pub(crate) fn outcome(news: News) -> Option<(Ticket, ErrorCode)> {
    match news {
        News::Reached(ticket) => Some((ticket, ErrorCode::None)),
        News::Failed(ticket) => Some((ticket, ErrorCode::KafkaStorageError)),
        News::NotLeader(ticket) => Some((ticket, ErrorCode::NotLeaderOrFollower)),
        News::TooFewReplicas(ticket) => Some((ticket, ErrorCode::NotEnoughReplicasAfterAppend)),
        News::Readable(_) => None,
    }
}

/// The code in an answer of another node.
pub(crate) fn of_code(code: i16) -> ErrorCode {
    ErrorCode::try_from(code).unwrap_or(ErrorCode::UnknownServerError)
}

pub(crate) fn absent(why: Absent) -> ErrorCode {
    match why {
        Absent::Unknown => ErrorCode::UnknownTopicOrPartition,
        Absent::Elsewhere => ErrorCode::NotLeaderOrFollower,
    }
}

pub(crate) fn append(error: &AppendError) -> ErrorCode {
    match error {
        AppendError::Deleted => ErrorCode::UnknownTopicOrPartition,
        AppendError::NotLeader { .. } | AppendError::NewLeader { .. } => {
            ErrorCode::NotLeaderOrFollower
        }
        AppendError::TooFewReplicas { .. } => ErrorCode::NotEnoughReplicas,
        AppendError::Storage { .. } | AppendError::ProducersUnread { .. } => {
            ErrorCode::KafkaStorageError
        }
        AppendError::TooLarge { .. } => ErrorCode::MessageTooLarge,
        AppendError::Batch(error) => match error.fault() {
            Fault::Corrupt => ErrorCode::CorruptMessage,
            // Kafka 4 calls message sets from before record batches invalid, not unsupported.
            Fault::Invalid | Fault::OldFormat => ErrorCode::InvalidRecord,
            Fault::UnknownCodec => ErrorCode::UnsupportedCompressionType,
        },
        AppendError::Record(RecordFault::Rules(breaches)) if has_invalid_timestamp(breaches) => {
            ErrorCode::InvalidTimestamp
        }
        AppendError::Record(RecordFault::Codec(CodecError::TooLarge { .. }))
        | AppendError::Codec(CodecError::TooLarge { .. }) => ErrorCode::MessageTooLarge,
        AppendError::Record(RecordFault::Codec(_)) | AppendError::Codec(_) => {
            ErrorCode::CorruptMessage
        }
        AppendError::Record(_) | AppendError::Count { .. } => ErrorCode::InvalidRecord,
        AppendError::Producer(error) => producer(error),
        AppendError::NoTransaction => ErrorCode::InvalidTxnState,
    }
}

pub(crate) fn producer(error: &ProducerError) -> ErrorCode {
    match error {
        ProducerError::OutOfOrderSequence { .. } => ErrorCode::OutOfOrderSequenceNumber,
        ProducerError::InvalidEpoch { .. } => ErrorCode::InvalidProducerEpoch,
        ProducerError::CoordinatorFenced { .. } => ErrorCode::TransactionCoordinatorFenced,
        ProducerError::InvalidTxnState { .. } => ErrorCode::InvalidTxnState,
    }
}

pub(crate) fn read(error: &ReadError) -> ErrorCode {
    match error {
        ReadError::Deleted => ErrorCode::UnknownTopicOrPartition,
        ReadError::Offline => ErrorCode::KafkaStorageError,
        ReadError::NotLeader => ErrorCode::NotLeaderOrFollower,
        ReadError::OutOfRange { .. } => ErrorCode::OffsetOutOfRange,
        ReadError::FencedEpoch { .. } => ErrorCode::FencedLeaderEpoch,
        ReadError::UnknownEpoch { .. } | ReadError::UnheardFollower { .. } => {
            ErrorCode::UnknownLeaderEpoch
        }
        ReadError::Damaged { .. } => ErrorCode::CorruptMessage,
        // Consumers ask again after this one, and fail after the other.
        ReadError::UnderRepair { .. } => ErrorCode::KafkaStorageError,
        ReadError::Store(error) => store(error),
    }
}

fn store(error: &StoreError) -> ErrorCode {
    match error {
        StoreError::Io { .. } => ErrorCode::KafkaStorageError,
        StoreError::Oversized { .. } => ErrorCode::InvalidRecord,
        StoreError::Damaged { damage, .. } if damage.is_unread() => ErrorCode::KafkaStorageError,
        _ => ErrorCode::CorruptMessage,
    }
}

pub(crate) fn trim(error: &TrimError) -> ErrorCode {
    match error {
        TrimError::Deleted => ErrorCode::UnknownTopicOrPartition,
        TrimError::Offline => ErrorCode::KafkaStorageError,
        TrimError::NotLeader => ErrorCode::NotLeaderOrFollower,
        TrimError::OutOfRange { .. } => ErrorCode::OffsetOutOfRange,
    }
}

#[cfg(test)]
mod tests {
    use log::scan::{Damage, DamageKind};
    use model::Offset;
    use wire::records::Codec;

    use super::*;

    /// A client tries again after the one and gives up after the other.
    #[test]
    fn what_a_disk_does_not_give_back_is_no_corruption() {
        let damaged = |why| {
            let damage = Damage { position: 0, why };
            read(&ReadError::Store(StoreError::Damaged {
                base: Offset::ZERO,
                damage,
            }))
        };
        let code = damaged(DamageKind::Unreadable);
        assert_eq!(code, ErrorCode::KafkaStorageError);
        assert_eq!(damaged(DamageKind::Zeros), ErrorCode::CorruptMessage);
    }

    #[test]
    fn a_batch_that_unpacks_to_too_much_is_not_sent_again() {
        let codec = Codec::Zstd;
        let too_large = CodecError::TooLarge { codec, limit: 1 };
        for (fault, code) in [
            (too_large, ErrorCode::MessageTooLarge),
            (CodecError::Damaged { codec }, ErrorCode::CorruptMessage),
        ] {
            let walked = RecordFault::Codec(fault);
            assert_eq!(append(&AppendError::Record(walked)), code);
            assert_eq!(append(&AppendError::Codec(fault)), code);
        }
        assert!(!ErrorCode::MessageTooLarge.is_retriable());
    }
}
