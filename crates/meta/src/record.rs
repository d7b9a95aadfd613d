//! Records of the metadata log: Kafka's schemas in Kafka's frame, so that Kafka's own tools read the log.
//!
//! Owns the frame (frame version, record type, record version, body) and which types exist here. A type or a version that is
//! not known is an error: skipping a record would make another image than its writer had.

use bytes::Bytes;
use wire::metadata::{
    BeginTransactionRecord, BrokerRegistrationChangeRecord, ConfigRecord, EndTransactionRecord,
    FeatureLevelRecord, NoOpRecord, PartitionChangeRecord, PartitionRecord, ProducerIdsRecord,
    RegisterBrokerRecord, RegisterControllerRecord, RemoveTopicRecord, TopicRecord,
};
use wire::{DecodeError, EncodeError, Message, Reader, Schema, Writer};

/// The only frame version there has been.
const FRAME_VERSION: u32 = 1;

#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum RecordError {
    #[error("metadata record: {0}")]
    Body(#[from] DecodeError),
    #[error("metadata record: frame version {0} is not known")]
    Frame(u32),
    #[error("metadata record: type {0} is not known")]
    Type(u32),
}

macro_rules! records {
    ($($variant:ident($body:ident),)*) => {
        #[derive(Clone, Debug, PartialEq)]
        pub enum Record {
            $($variant($body),)*
        }

        impl Record {
            fn head(&self) -> (i16, i16) {
                match self {
                    $(Record::$variant(_) => (<$body as wire::Record>::API_KEY, <$body as Schema>::MAX_VERSION),)*
                }
            }

            fn encode_body(&self, w: &mut Writer, version: i16) -> Result<(), EncodeError> {
                match self {
                    $(Record::$variant(body) => body.encode(w, version),)*
                }
            }

            fn decode_body(r: &mut Reader, kind: u32, version: i16) -> Result<Record, RecordError> {
                $(if u32::try_from(<$body as wire::Record>::API_KEY) == Ok(kind) {
                    return Ok(Record::$variant($body::decode(r, version)?));
                })*
                Err(RecordError::Type(kind))
            }
        }

        $(impl From<$body> for Record {
            fn from(body: $body) -> Record {
                Record::$variant(body)
            }
        })*
    };
}

records! {
    BeginTransaction(BeginTransactionRecord),
    BrokerRegistrationChange(BrokerRegistrationChangeRecord),
    Config(ConfigRecord),
    EndTransaction(EndTransactionRecord),
    FeatureLevel(FeatureLevelRecord),
    NoOp(NoOpRecord),
    Partition(PartitionRecord),
    PartitionChange(PartitionChangeRecord),
    ProducerIds(ProducerIdsRecord),
    RegisterBroker(RegisterBrokerRecord),
    RegisterController(RegisterControllerRecord),
    RemoveTopic(RemoveTopicRecord),
    Topic(TopicRecord),
}

impl Record {
    /// The value of the log record that carries this one.
    pub fn encode(&self) -> Result<Bytes, EncodeError> {
        let (kind, version) = self.head();
        let mut w = Writer::new();
        w.uvarint(FRAME_VERSION);
        w.uvarint(u32::from(kind.unsigned_abs()));
        w.uvarint(u32::from(version.unsigned_abs()));
        self.encode_body(&mut w, version)?;
        w.finish().into_bytes()
    }

    /// Reads the value of a log record.
    pub fn decode(value: Bytes) -> Result<Record, RecordError> {
        let mut r = Reader::new(value);
        match r.uvarint()? {
            FRAME_VERSION => {}
            other => return Err(RecordError::Frame(other)),
        }
        let kind = r.uvarint()?;
        let version = r.uvarint()?;
        let version =
            i16::try_from(version).map_err(|_| DecodeError::Version { version: i16::MAX })?;
        let record = Record::decode_body(&mut r, kind, version)?;
        r.expect_end()?;
        Ok(record)
    }
}
