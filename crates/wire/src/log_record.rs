//! The frame in front of a message that is written to a log.
//!
//! The metadata log and the remote segment log put frame version, type and version into the record value. Coordinators put the
//! type into the record key, whose form never changes, and the version of the value in front of the value. Anything left over
//! after the message is an error.

use crate::{DecodeError, EncodeError, Reader, Record, Writer};
use bytes::Bytes;

/// The only frame version there is.
const FRAME_VERSION: u32 = 1;

/// Type and version of a framed record value.
pub(crate) fn decode_frame(r: &mut Reader) -> Result<(i16, i16), DecodeError> {
    let frame = r.uvarint()?;
    if frame != FRAME_VERSION {
        return Err(DecodeError::Version {
            version: narrow(frame).unwrap_or(i16::MAX),
        });
    }
    let key = narrow(r.uvarint()?).ok_or(DecodeError::ApiKey { key: -1 })?;
    let version = narrow(r.uvarint()?).ok_or(DecodeError::Version { version: -1 })?;
    Ok((key, version))
}

fn narrow(number: u32) -> Option<i16> {
    i16::try_from(number).ok()
}

pub(crate) fn encode_framed<T: Record>(record: &T, version: i16) -> Result<Bytes, EncodeError> {
    let mut w = Writer::new();
    w.uvarint(FRAME_VERSION);
    w.uvarint(T::API_KEY as u32);
    // A version below zero is refused by the record.
    w.uvarint(version.max(0) as u32);
    record.encode(&mut w, version)?;
    w.finish().into_bytes()
}

/// A record key whose type was read.
pub(crate) struct KeyReader(Reader);

pub(crate) fn decode_key(key: Bytes) -> Result<(i16, KeyReader), DecodeError> {
    let mut r = Reader::new(key);
    Ok((r.i16()?, KeyReader(r)))
}

impl KeyReader {
    pub(crate) fn key<T: Record>(&mut self) -> Result<T, DecodeError> {
        let key = T::decode(&mut self.0, 0)?;
        self.0.expect_end()?;
        Ok(key)
    }
}

pub(crate) fn decode_value<T: Record>(value: Option<Bytes>) -> Result<Option<T>, DecodeError> {
    let Some(value) = value else { return Ok(None) };
    let mut r = Reader::new(value);
    let version = r.i16()?;
    let value = T::decode(&mut r, version)?;
    r.expect_end()?;
    Ok(Some(value))
}

pub(crate) fn encode_key<T: Record>(key: &T) -> Result<Bytes, EncodeError> {
    numbered(key, T::API_KEY, 0)
}

pub(crate) fn encode_value<T: Record>(
    value: Option<&T>,
    version: i16,
) -> Result<Option<Bytes>, EncodeError> {
    value
        .map(|value| numbered(value, version, version))
        .transpose()
}

fn numbered<T: Record>(message: &T, number: i16, version: i16) -> Result<Bytes, EncodeError> {
    let mut w = Writer::new();
    w.i16(number);
    message.encode(&mut w, version)?;
    w.finish().into_bytes()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::group::{GroupRecord, OffsetCommitKey, OffsetCommitValue};
    use crate::metadata::{FeatureLevelRecord, MetadataRecord};

    #[test]
    fn metadata_values_name_their_type_and_version() {
        let record = MetadataRecord::from(FeatureLevelRecord {
            name: "a".into(),
            feature_level: 3,
        });
        let value = record.encode(0).expect("encodes");
        assert_eq!(value[..], [1, 12, 0, 2, b'a', 0, 3, 0]);
        assert_eq!(MetadataRecord::decode(value.clone()), Ok((record, 0)));
        for end in 0..value.len() {
            assert!(
                MetadataRecord::decode(value.slice(..end)).is_err(),
                "{end} bytes"
            );
        }
    }

    #[test]
    fn frames_that_are_not_ours_are_refused() {
        let decode = |bytes: &'static [u8]| MetadataRecord::decode(Bytes::from_static(bytes));
        assert_eq!(
            decode(&[0, 12, 0]),
            Err(DecodeError::Version { version: 0 })
        );
        assert_eq!(decode(&[1, 99, 0]), Err(DecodeError::ApiKey { key: 99 }));
        assert_eq!(
            decode(&[1, 12, 9]),
            Err(DecodeError::Version { version: 9 })
        );
        assert_eq!(
            decode(&[1, 20, 0, 0, 7]),
            Err(DecodeError::Trailing { at: 4, count: 1 })
        );
    }

    #[test]
    fn coordinator_records_have_the_type_in_the_key_and_the_version_in_the_value() {
        let key = OffsetCommitKey {
            group: "g".into(),
            topic: "t".into(),
            partition: 2,
        };
        let value = OffsetCommitValue {
            offset: 7,
            ..OffsetCommitValue::default()
        };
        let record = GroupRecord::OffsetCommit(key.clone(), Some(value));
        let (key_bytes, value_bytes) = record.encode(3).expect("encodes");
        assert_eq!(key_bytes[..], [0, 1, 0, 1, b'g', 0, 1, b't', 0, 0, 0, 2]);
        assert_eq!(
            value_bytes.as_ref().map(|value| value[..2].to_vec()),
            Some(vec![0, 3])
        );
        assert_eq!(
            GroupRecord::decode(key_bytes.clone(), value_bytes),
            Ok(record)
        );
        assert_eq!(
            GroupRecord::decode(key_bytes, None),
            Ok(GroupRecord::OffsetCommit(key, None))
        );
        assert_eq!(
            GroupRecord::decode(Bytes::from_static(&[0, 99]), None),
            Err(DecodeError::ApiKey { key: 99 })
        );
    }
}
