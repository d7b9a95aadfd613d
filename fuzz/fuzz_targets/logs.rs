//! Records read back from a log: which log, length of the key, key, value.

#![no_main]

use bytes::Bytes;
use libfuzzer_sys::fuzz_target;
use wire::group::GroupRecord;
use wire::metadata::MetadataRecord;
use wire::share::ShareRecord;
use wire::storage::RemoteLogRecord;
use wire::transaction::TransactionRecord;

fuzz_target!(|data: &[u8]| {
    let [log, key_length, rest @ ..] = data else {
        return;
    };
    let (key, value) = rest.split_at(usize::from(*key_length).min(rest.len()));
    let key = Bytes::copy_from_slice(key);
    // An empty value stands for none, as a removal has it.
    let value = (!value.is_empty()).then(|| Bytes::copy_from_slice(value));
    match log % 5 {
        0 => {
            if let Ok((record, version)) = MetadataRecord::decode(value.unwrap_or_default()) {
                let bytes = record.encode(version).expect("decoded records encode");
                assert!(MetadataRecord::decode(bytes).is_ok());
            }
        }
        1 => {
            if let Ok((record, version)) = RemoteLogRecord::decode(value.unwrap_or_default()) {
                let bytes = record.encode(version).expect("decoded records encode");
                assert_eq!(RemoteLogRecord::decode(bytes), Ok((record, version)));
            }
        }
        2 => {
            let version = value_version(value.as_ref());
            if let Ok(record) = GroupRecord::decode(key, value) {
                let (key, value) = record.encode(version).expect("decoded records encode");
                assert_eq!(GroupRecord::decode(key, value), Ok(record));
            }
        }
        3 => {
            let version = value_version(value.as_ref());
            if let Ok(record) = TransactionRecord::decode(key, value) {
                let (key, value) = record.encode(version).expect("decoded records encode");
                assert_eq!(TransactionRecord::decode(key, value), Ok(record));
            }
        }
        _ => {
            let version = value_version(value.as_ref());
            if let Ok(record) = ShareRecord::decode(key, value) {
                let (key, value) = record.encode(version).expect("decoded records encode");
                assert_eq!(ShareRecord::decode(key, value), Ok(record));
            }
        }
    }
});

fn value_version(value: Option<&Bytes>) -> i16 {
    value
        .and_then(|value| value.first_chunk())
        .map_or(0, |number| i16::from_be_bytes(*number))
}
