//! Control records of the metadata log and of snapshots: leader changes, voters, `kraft.version`, header and footer.
//!
//! Owns their form on disk and on the wire. A kind that is not known is passed over, as in Kafka; one that is known and cannot be
//! read makes the whole batch unacceptable.

use bytes::Bytes;
use model::Timestamp;
use wire::messages::{
    KRaftVersionRecord, LeaderChangeMessage, SnapshotFooterRecord, SnapshotHeaderRecord,
    VotersRecord,
};
use wire::records::{Batch, BatchBuilder, Caps, RecordIter};
use wire::{Message, Reader, Writer};

/// Versions in which all of them are written: what 4.3 writes.
const VERSION: i16 = 0;

#[derive(Clone, Debug, PartialEq)]
pub enum Control {
    LeaderChange(LeaderChangeMessage),
    SnapshotHeader(SnapshotHeaderRecord),
    SnapshotFooter(SnapshotFooterRecord),
    Version(KRaftVersionRecord),
    Voters(VotersRecord),
}

/// A control batch that cannot be read.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("control batch that cannot be read")]
pub struct Unreadable;

impl Control {
    fn kind(&self) -> i16 {
        match self {
            Control::LeaderChange(_) => 2,
            Control::SnapshotHeader(_) => 3,
            Control::SnapshotFooter(_) => 4,
            Control::Version(_) => 5,
            Control::Voters(_) => 6,
        }
    }

    fn value(&self) -> Bytes {
        let mut writer = Writer::new();
        let written = match self {
            Control::LeaderChange(message) => message.encode(&mut writer, VERSION),
            Control::SnapshotHeader(message) => message.encode(&mut writer, VERSION),
            Control::SnapshotFooter(message) => message.encode(&mut writer, VERSION),
            Control::Version(message) => message.encode(&mut writer, VERSION),
            Control::Voters(message) => message.encode(&mut writer, VERSION),
        };
        let bytes = written.and_then(|()| writer.finish().into_bytes());
        bytes.expect("a control record has no field that its version lacks")
    }

    fn read(kind: i16, value: Bytes) -> Result<Option<Control>, Unreadable> {
        let mut reader = Reader::new(value);
        let r = &mut reader;
        let read = match kind {
            2 => LeaderChangeMessage::decode(r, VERSION).map(Control::LeaderChange),
            3 => SnapshotHeaderRecord::decode(r, VERSION).map(Control::SnapshotHeader),
            4 => SnapshotFooterRecord::decode(r, VERSION).map(Control::SnapshotFooter),
            5 => KRaftVersionRecord::decode(r, VERSION).map(Control::Version),
            6 => VotersRecord::decode(r, VERSION).map(Control::Voters),
            _ => return Ok(None),
        };
        read.map(Some).map_err(|_| Unreadable)
    }
}

/// One batch of control records. Base offset and epoch are set by the log that takes it.
#[must_use]
pub fn batch(records: &[Control], time: Timestamp) -> Batch {
    let mut builder = BatchBuilder::new().quorum_control();
    for record in records {
        let mut key = [0_u8; 4];
        key[2..].copy_from_slice(&record.kind().to_be_bytes());
        builder.push(time, Some(&key), Some(&record.value()), &[]);
    }
    builder.build()
}

/// The control records of a batch, each with its offset delta; nothing for a data batch.
pub fn read(batch: &Batch) -> Result<Vec<(i32, Control)>, Unreadable> {
    if !batch.attributes().is_control() {
        return Ok(Vec::new());
    }
    let plain = batch.plain(Caps::default()).map_err(|_| Unreadable)?;
    let mut found = Vec::new();
    for record in RecordIter::new(&plain, batch.record_count()) {
        let record = record.map_err(|_| Unreadable)?;
        let kind = record.key.and_then(|key| key.get(2..4));
        let kind = kind.and_then(|kind| kind.first_chunk()).ok_or(Unreadable)?;
        let value = Bytes::copy_from_slice(record.value.unwrap_or_default());
        if let Some(control) = Control::read(i16::from_be_bytes(*kind), value)? {
            found.push((record.offset_delta, control));
        }
    }
    Ok(found)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn control_records_come_back_as_they_were_written() {
        let records = [
            Control::LeaderChange(LeaderChangeMessage {
                version: 0,
                leader_id: 3,
                ..Default::default()
            }),
            Control::Version(KRaftVersionRecord {
                version: 0,
                k_raft_version: 1,
            }),
            Control::Voters(VotersRecord::default()),
            Control::SnapshotHeader(SnapshotHeaderRecord::default()),
            Control::SnapshotFooter(SnapshotFooterRecord::default()),
        ];
        let batch = batch(&records, Timestamp(7));
        let read = read(&batch).unwrap();
        let deltas: Vec<i32> = read.iter().map(|(delta, _)| *delta).collect();
        assert_eq!(deltas, [0, 1, 2, 3, 4]);
        assert_eq!(
            read.into_iter()
                .map(|(_, record)| record)
                .collect::<Vec<_>>(),
            records
        );
        assert!(!batch.attributes().is_transactional());
        assert!(!batch.has_producer_id());
    }
}
