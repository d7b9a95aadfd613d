//! The file of a snapshot, in Kafka's format: `<end>-<epoch>.checkpoint`.
//!
//! Owns the container: batches from offset 0 in the epoch of the snapshot, first a control batch with the header (and the quorum's
//! version and voters), last one with the footer. A reader believes nothing until it has seen the footer and every checksum: a file
//! that was cut off looks like a smaller cluster. Does no IO; bytes go out and come in by pieces.

use bytes::Bytes;
use model::{LeaderEpoch, Offset, Timestamp};
use wire::messages::{
    KRaftVersionRecord, SnapshotFooterRecord, SnapshotHeaderRecord, VotersRecord,
};
use wire::records::{Batch, BatchBuilder, BatchError, Caps, CodecError, RecordIter, Source};
use wire::{DecodeError, EncodeError, Message, Reader as Fields, Writer as Out};

use crate::image::{Image, Place, ReplayError};
use crate::record::{self, Record, RecordError, RecordWriteError};
use crate::snapshot::{self, Loader};

/// A batch is closed at 1 MiB: less than the 8 MiB that Kafka reads at most, whatever the last record adds.
const BATCH_BYTES_MAX: usize = 1 << 20;

const HEADER: i16 = 3;
const FOOTER: i16 = 4;
const KRAFT_VERSION: i16 = 5;
const VOTERS: i16 = 6;

/// The snapshot stands for everything before offset `end`, the last of it of `epoch`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct SnapshotId {
    pub end: Offset,
    pub epoch: LeaderEpoch,
}

const SUFFIX: &str = ".checkpoint";

impl SnapshotId {
    #[must_use]
    pub fn file_name(&self) -> String {
        format!("{:020}-{:010}{SUFFIX}", self.end.0, self.epoch.0)
    }

    /// `None` for the name of any other file.
    #[must_use]
    pub fn of_file(name: &str) -> Option<SnapshotId> {
        let (end, epoch) = name.strip_suffix(SUFFIX)?.split_once('-')?;
        let id = SnapshotId {
            end: Offset(end.parse().ok()?),
            epoch: LeaderEpoch(epoch.parse().ok()?),
        };
        // Nothing but what `file_name` writes: no signs, no other width.
        (id.file_name() == name).then_some(id)
    }
}

/// The description of a snapshot beside the image.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Head {
    /// When the last batch was written that the snapshot stands for.
    pub time: Option<Timestamp>,
    /// The level of `kraft.version`, from 1 on.
    pub kraft_version: Option<i16>,
    /// The voters as of the snapshot's end, where the log has them.
    pub voters: Option<VotersRecord>,
    /// The cluster of the log that the snapshot stands for.
    pub cluster_id: Option<String>,
}

/// Makes the bytes of a snapshot.
pub struct Writer {
    id: SnapshotId,
    now: Timestamp,
    next: Offset,
    open: BatchBuilder,
    out: Vec<u8>,
}

impl Writer {
    /// Begins with the header; `now` is the time of its records.
    pub fn new(id: SnapshotId, head: &Head, now: Timestamp) -> Result<Writer, EncodeError> {
        let mut writer = Writer {
            id,
            now,
            next: Offset(0),
            open: BatchBuilder::new(),
            out: Vec::new(),
        };
        let header = SnapshotHeaderRecord {
            last_contained_log_timestamp: head.time.map_or(0, |time| time.0),
            cluster_id: head.cluster_id.clone(),
            ..SnapshotHeaderRecord::default()
        };
        let mut records = vec![(HEADER, encoded(&header)?)];
        if let Some(level) = head.kraft_version {
            let version = KRaftVersionRecord {
                k_raft_version: level,
                ..KRaftVersionRecord::default()
            };
            records.push((KRAFT_VERSION, encoded(&version)?));
        }
        if let Some(voters) = &head.voters {
            records.push((VOTERS, encoded(voters)?));
        }
        writer.control(&records);
        Ok(writer)
    }

    /// Adds the value of one record.
    pub fn push(&mut self, value: &[u8]) {
        self.open.push(self.now, None, Some(value), &[]);
        if BATCH_BYTES_MAX <= self.open.size_estimate() {
            self.close_batch();
        }
    }

    /// The bytes that are finished, to be written behind those before.
    #[must_use]
    pub fn take(&mut self) -> Bytes {
        std::mem::take(&mut self.out).into()
    }

    /// The last bytes, with the footer.
    pub fn finish(mut self) -> Result<Bytes, EncodeError> {
        self.close_batch();
        let footer = encoded(&SnapshotFooterRecord::default())?;
        self.control(&[(FOOTER, footer)]);
        Ok(self.take())
    }

    fn close_batch(&mut self) {
        if !self.open.is_empty() {
            let batch = std::mem::take(&mut self.open);
            self.write(batch);
        }
    }

    fn control(&mut self, records: &[(i16, Bytes)]) {
        let mut batch = BatchBuilder::new().quorum_control();
        for (kind, value) in records {
            let mut key = [0; 4];
            key[2..].copy_from_slice(&kind.to_be_bytes());
            batch.push(self.now, Some(&key), Some(value), &[]);
        }
        self.write(batch);
    }

    fn write(&mut self, batch: BatchBuilder) {
        let batch = batch.base_offset(self.next).leader_epoch(self.id.epoch);
        let batch = batch.build();
        self.next = batch.next_offset();
        batch.write_to(&mut self.out);
    }
}

fn encoded(message: &impl Message) -> Result<Bytes, EncodeError> {
    let mut out = Out::new();
    message.encode(&mut out, 0)?;
    out.finish().into_bytes()
}

#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum CheckpointError {
    #[error("snapshot: batch at byte {at}: {error}")]
    Batch { at: usize, error: BatchError },
    #[error("snapshot: the checksum of the batch at offset {0} does not match")]
    Checksum(Offset),
    #[error("snapshot: a batch of offset {got} and epoch {epoch}, where offset {want} comes next")]
    Place {
        want: Offset,
        got: Offset,
        epoch: LeaderEpoch,
    },
    #[error("snapshot: it does not begin with a header")]
    NoHeader,
    #[error("snapshot: it ends without a footer, so part of it may be missing")]
    NoFooter,
    #[error("snapshot: a batch comes after the footer")]
    AfterFooter,
    #[error("snapshot: a control record of type {0} where none may be")]
    Control(i16),
    #[error("snapshot: the records of the batch at offset {0} cannot be read")]
    Records(Offset),
    #[error("snapshot: batch at offset {at}: {error}")]
    Codec { at: Offset, error: CodecError },
    #[error("snapshot: control record: {0}")]
    Message(#[from] DecodeError),
    #[error("snapshot: {0}")]
    Record(#[from] RecordError),
    #[error("snapshot: {0}")]
    Replay(#[from] ReplayError),
}

/// Takes the batches of a snapshot one by one and checks each.
#[derive(Debug)]
pub struct Reader {
    id: SnapshotId,
    next: Offset,
    head: Option<Head>,
    is_complete: bool,
}

impl Reader {
    #[must_use]
    pub fn new(id: SnapshotId) -> Reader {
        Reader {
            id,
            next: Offset(0),
            head: None,
            is_complete: false,
        }
    }

    /// The metadata records of the next batch; none of a control batch.
    pub fn on_batch(&mut self, batch: &Batch) -> Result<Vec<Record>, CheckpointError> {
        let at = batch.base_offset();
        if self.is_complete {
            return Err(CheckpointError::AfterFooter);
        }
        if !batch.is_intact() {
            return Err(CheckpointError::Checksum(at));
        }
        if at != self.next || batch.leader_epoch() != self.id.epoch {
            return Err(CheckpointError::Place {
                want: self.next,
                got: at,
                epoch: batch.leader_epoch(),
            });
        }
        self.next = batch.next_offset();
        let plain = batch.plain(Caps::default());
        let plain = plain.map_err(|error| CheckpointError::Codec { at, error })?;
        let mut records = Vec::new();
        for record in RecordIter::new(&plain, batch.record_count()) {
            let record = record.map_err(|_| CheckpointError::Records(at))?;
            let value = record.value.ok_or(CheckpointError::Records(at))?;
            let value = plain.slice_ref(value);
            if batch.attributes().is_control() {
                let key = record.key.and_then(|key| key.get(2..4)?.first_chunk());
                let kind = key.ok_or(CheckpointError::Records(at))?;
                self.on_control(i16::from_be_bytes(*kind), value)?;
            } else if self.head.is_none() {
                return Err(CheckpointError::NoHeader);
            } else {
                records.push(record::decode(value)?);
            }
        }
        Ok(records)
    }

    fn on_control(&mut self, kind: i16, value: Bytes) -> Result<(), CheckpointError> {
        let mut fields = Fields::new(value);
        let Some(head) = &mut self.head else {
            if kind != HEADER {
                return Err(CheckpointError::NoHeader);
            }
            let header = SnapshotHeaderRecord::decode(&mut fields, 0)?;
            self.head = Some(Head {
                time: Some(Timestamp(header.last_contained_log_timestamp)),
                cluster_id: header.cluster_id,
                ..Head::default()
            });
            return Ok(());
        };
        match kind {
            _ if self.is_complete => return Err(CheckpointError::AfterFooter),
            KRAFT_VERSION => {
                let version = KRaftVersionRecord::decode(&mut fields, 0)?;
                head.kraft_version = Some(version.k_raft_version);
            }
            VOTERS => head.voters = Some(VotersRecord::decode(&mut fields, 0)?),
            FOOTER => {
                SnapshotFooterRecord::decode(&mut fields, 0)?;
                self.is_complete = true;
            }
            other => return Err(CheckpointError::Control(other)),
        }
        Ok(())
    }

    /// The description beside the snapshot's records, once all batches were there.
    pub fn finish(self) -> Result<Head, CheckpointError> {
        let head = self.head.ok_or(CheckpointError::NoHeader)?;
        if self.is_complete {
            Ok(head)
        } else {
            Err(CheckpointError::NoFooter)
        }
    }
}

/// The id that a snapshot of `image` has.
#[must_use]
pub fn id_of(image: &Image) -> SnapshotId {
    SnapshotId {
        end: Offset(image.end()),
        epoch: image.last_epoch(),
    }
}

/// The whole file of a snapshot of `image`, whose time stands in `head` if it is to be another than the image's.
pub fn write(image: &Image, head: &Head, now: Timestamp) -> Result<Bytes, RecordWriteError> {
    let head = Head {
        time: head.time.or(Some(image.last_time())),
        ..head.clone()
    };
    let mut writer = Writer::new(id_of(image), &head, now)?;
    let version = image.metadata_version();
    for record in snapshot::records(image) {
        writer.push(&record::encode(&record, version)?);
    }
    Ok(writer.finish()?)
}

/// The image of a whole file, and what else it says; every byte of it was checked.
pub fn read(bytes: &Bytes, id: SnapshotId) -> Result<(Image, Head), CheckpointError> {
    let mut reader = Reader::new(id);
    let mut loader = Loader::default();
    let mut at = 0;
    let mut batches = Batch::cut(bytes, Source::Log);
    for batch in &mut batches {
        let batch = batch.map_err(|error| CheckpointError::Batch { at, error })?;
        at += batch.size();
        loader.add(&reader.on_batch(&batch)?)?;
    }
    let head = reader.finish()?;
    // Trailing bytes after the footer.
    if !batches.rest().is_empty() {
        return Err(CheckpointError::AfterFooter);
    }
    let place = Place {
        base: id.end,
        epoch: id.epoch,
        time: head.time.unwrap_or(Timestamp::NONE),
    };
    Ok((loader.finish(place)?, head))
}
