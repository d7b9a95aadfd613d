//! Segment files: every batch's checksum, offsets that rise, epochs that the log had there, records that can be read.

use std::io;
use std::path::{Path, PathBuf};

use env::Disk;
use env::disk::Open;
use log::checkpoint::{Checkpoint, LoadError};
use log::scan::{Damage, scan_batches};
use log::{Epochs, metadata};
use model::Offset;
use serde_json::{Value, json};
use wire::records::{Batch, Caps, RecordIter};

use super::{Report, number, partition_of};
use crate::moment;
use crate::table::Table;

pub(super) fn examine(disk: &dyn Disk, path: &Path, base: i64) -> io::Result<Report> {
    let file = disk.open(path, Open::Read)?;
    let bytes = file.len()?;
    let (mut records, mut first, mut last, mut unreadable) = (0u64, None, None, None);
    let mut epochs = EpochCheck::beside(disk, path)?;
    let (_, stopped) = scan_batches(&*file, 0, bytes, Offset(base), |position, batch| {
        first = first.or(Some(batch.base_offset().0));
        last = Some(batch.last_offset().0);
        epochs.note(position, &batch);
        match count(&batch) {
            Ok(count) => records += count,
            Err(fault) => {
                unreadable.get_or_insert(format!("position {position}: {fault}"));
            }
        }
    })?;
    let damage = stopped
        .or(epochs.found(disk, path)?)
        .map(|damage| damage.to_string())
        .or(unreadable);
    Ok(Report {
        kind: "segment",
        entries: records,
        first,
        last,
        bytes,
        damage,
    })
}

/// Reads every record; an intact checksum says only that the producer's bytes arrived.
fn count(batch: &Batch) -> Result<u64, String> {
    let plain = batch
        .plain(Caps::default())
        .map_err(|fault| fault.to_string())?;
    let mut count = 0;
    for record in RecordIter::new(&plain, batch.record_count()) {
        record.map_err(|fault| fault.to_string())?;
        count += 1;
    }
    Ok(count)
}

pub(super) const BATCH_COLUMNS: &[&str] = &[
    "file",
    "position",
    "bytes",
    "first",
    "last",
    "records",
    "leader_epoch",
    "codec",
    "time",
    "producer",
    "epoch",
    "sequence",
    "flags",
];

/// Adds a row per batch; returns what stopped the walk.
pub(super) fn batches(
    disk: &dyn Disk,
    path: &Path,
    base: i64,
    table: &mut Table,
) -> io::Result<Option<String>> {
    let file = disk.open(path, Open::Read)?;
    let name = path.display().to_string();
    let mut epochs = EpochCheck::beside(disk, path)?;
    let (_, stopped) = scan_batches(&*file, 0, file.len()?, Offset(base), |position, batch| {
        epochs.note(position, &batch);
        table.row([
            json!(name),
            json!(position),
            json!(batch.size()),
            json!(batch.base_offset().0),
            json!(batch.last_offset().0),
            json!(batch.record_count()),
            number(i64::from(batch.leader_epoch().0)),
            batch
                .attributes()
                .codec()
                .map_or(Value::Null, |codec| json!(codec.name())),
            json!(moment::format(batch.max_timestamp().0)),
            number(batch.producer_id().0),
            number(i64::from(batch.producer_epoch().0)),
            number(i64::from(batch.base_sequence().0)),
            json!(flags(&batch)),
        ]);
    })?;
    let damage = stopped.or(epochs.found(disk, path)?);
    Ok(damage.map(|damage| damage.to_string()))
}

/// Holds the leader epochs of a segment's batches, which no checksum covers, against the file of epochs beside it.
struct EpochCheck {
    epochs: Epochs,
    /// The first batch that does not fit, and its last offset.
    first: Option<(Damage, Offset)>,
}

impl EpochCheck {
    fn beside(disk: &dyn Disk, segment: &Path) -> io::Result<EpochCheck> {
        let epochs = match Epochs::read(disk, &dir_of(segment)) {
            // The file's own report tells.
            Err(error) if error.kind() == io::ErrorKind::InvalidData => Epochs::default(),
            read => read?,
        };
        let first = None;
        Ok(EpochCheck { epochs, first })
    }

    fn note(&mut self, position: u64, batch: &Batch) {
        let last = batch.last_offset();
        if self.first.is_none()
            && let Err(why) = self.epochs.check(batch.leader_epoch(), last)
        {
            self.first = Some((Damage { position, why }, last));
        }
    }

    /// What was written since the last checkpoint may be of an epoch that the file does not have yet.
    fn found(self, disk: &dyn Disk, segment: &Path) -> io::Result<Option<Damage>> {
        let Some((damage, last)) = self.first else {
            return Ok(None);
        };
        let is_vouched_for = last < vouched_end(disk, &dir_of(segment))?;
        Ok(is_vouched_for.then_some(damage))
    }
}

fn dir_of(segment: &Path) -> PathBuf {
    segment.parent().unwrap_or(Path::new("")).to_path_buf()
}

/// Up to where the log directory's checkpoint vouches for the files of a partition; all of them where there is none, as in a
/// directory of Kafka.
fn vouched_end(disk: &dyn Disk, dir: &Path) -> io::Result<Offset> {
    let checkpoint = match Checkpoint::load(disk, &dir.join("..")) {
        Ok(Some(checkpoint)) => checkpoint,
        Ok(None) | Err(LoadError::Damaged) => return Ok(Offset(i64::MAX)),
        Err(LoadError::Io(error)) => return Err(error),
    };
    let topic = match metadata::read(disk, dir) {
        Err(error) if error.kind() == io::ErrorKind::InvalidData => None,
        read => read?,
    };
    let index = partition_of(dir);
    let mut rows = checkpoint.rows.iter();
    let row = rows.find(|row| Some(row.topic) == topic && Some(row.partition) == index);
    Ok(row.map_or(Offset::ZERO, |row| row.log_end))
}

fn flags(batch: &Batch) -> Vec<&'static str> {
    let attributes = batch.attributes();
    let all = [
        (attributes.is_transactional(), "transactional"),
        (attributes.is_control(), "control"),
    ];
    all.into_iter()
        .filter(|(set, _)| *set)
        .map(|(_, name)| name)
        .collect()
}
