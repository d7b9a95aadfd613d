//! Segment files: every batch's checksum, offsets that rise, epochs that the log had there, records that can be read.

use std::io;
use std::path::{Path, PathBuf};

use env::disk::Open;
use env::{Disk, File};
use log::behind::next_offset_behind;
use log::checkpoint::{Checkpoint, LoadError};
use log::heads::{self, Heads, Whose};
use log::scan::{Damage, scan_batches};
use log::{Epochs, metadata};
use model::Offset;
use serde_json::{Value, json};
use wire::records::{Batch, Caps, RecordIter};

use super::report::{Report, number, partition_of};
use crate::moment;
use crate::table::Table;

pub(super) fn examine(disk: &dyn Disk, path: &Path, base: i64) -> io::Result<Report> {
    let file = disk.open(path, Open::Read)?;
    let bytes = file.len()?;
    let (mut records, mut first, mut last, mut unreadable) = (0u64, None, None, None);
    let mut heads = HeadCheck::beside(disk, path, Offset(base))?;
    let mut sound_end = Offset(base);
    let (_, stopped) = scan_batches(&*file, 0, bytes, Offset(base), |position, batch| {
        first = first.or(Some(batch.base_offset().0));
        last = Some(batch.last_offset().0);
        heads.note(position, &batch);
        // An offset that is not under a checksum may be any number.
        if heads.first.is_none() {
            sound_end = Offset(batch.last_offset().0 + 1);
        }
        match count(&batch) {
            Ok(count) => records += count,
            Err(fault) => {
                unreadable.get_or_insert(format!("position {position}: {fault}"));
            }
        }
    })?;
    let damage = match stopped {
        Some(damage) => Some(with_range(&*file, damage, bytes, sound_end)?),
        None => heads.found(disk, path)?.map(|damage| damage.to_string()),
    };
    let damage = damage.or(unreadable);
    Ok(Report {
        kind: "segment",
        entries: records,
        first,
        last,
        bytes,
        damage,
    })
}

/// Damage with the offsets that it takes: from the first that no good batch before it has to the next good batch.
fn with_range(file: &dyn File, damage: Damage, end: u64, from: Offset) -> io::Result<String> {
    Ok(
        match next_offset_behind(file, damage.position, end, from..Offset(i64::MAX))? {
            Some(next) => format!("{damage}; offsets {from} up to {next} cannot be read"),
            None => format!("{damage}; nothing from offset {from} on can be read"),
        },
    )
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

/// Adds a row per batch; returns what stopped the walk, with the offsets that it takes.
pub(super) fn batches(
    disk: &dyn Disk,
    path: &Path,
    base: i64,
    table: &mut Table,
) -> io::Result<Option<String>> {
    let file = disk.open(path, Open::Read)?;
    let bytes = file.len()?;
    let name = path.display().to_string();
    let mut heads = HeadCheck::beside(disk, path, Offset(base))?;
    let mut sound_end = Offset(base);
    let (_, stopped) = scan_batches(&*file, 0, bytes, Offset(base), |position, batch| {
        heads.note(position, &batch);
        if heads.first.is_none() {
            sound_end = Offset(batch.last_offset().0 + 1);
        }
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
    match stopped {
        Some(damage) => with_range(&*file, damage, bytes, sound_end).map(Some),
        None => Ok(heads.found(disk, path)?.map(|damage| damage.to_string())),
    }
}

/// Holds the heads of a segment's batches, whose offsets and leader epochs are not under their own checksum, against what lies beside
/// it: the checksums of heads and the file of epochs.
struct HeadCheck {
    heads: Heads,
    epochs: Epochs,
    /// The first batch that does not fit, and its last offset.
    first: Option<(Damage, Offset)>,
}

impl HeadCheck {
    fn beside(disk: &dyn Disk, segment: &Path, base: Offset) -> io::Result<HeadCheck> {
        let epochs = match Epochs::read(disk, &dir_of(segment)) {
            // The file's own report says it.
            Err(error) if error.kind() == io::ErrorKind::InvalidData => Epochs::default(),
            read => read?,
        };
        Ok(HeadCheck {
            heads: heads_of(disk, segment, base)?,
            epochs,
            first: None,
        })
    }

    fn note(&mut self, position: u64, batch: &Batch) {
        let last = batch.last_offset();
        if self.first.is_some() {
            return;
        }
        let epoch = self.epochs.check(batch.leader_epoch(), last);
        let checked = epoch.map_err(|why| Damage { position, why });
        let checked = checked.and_then(|()| self.heads.check(position, batch));
        self.first = checked.err().map(|damage| (damage, last));
    }

    /// Batches written since the last checkpoint may be of an epoch that the file does not have yet, and in the place of what a
    /// power cut took, whose checksums it left.
    fn found(self, disk: &dyn Disk, segment: &Path) -> io::Result<Option<Damage>> {
        let Some((damage, last)) = self.first else {
            return Ok(None);
        };
        let is_vouched_for = last < vouched_end(disk, &dir_of(segment))?;
        Ok(is_vouched_for.then_some(damage))
    }
}

fn heads_of(disk: &dyn Disk, segment: &Path, base: Offset) -> io::Result<Heads> {
    let dir = dir_of(segment);
    let topic = match metadata::read(disk, &dir) {
        Err(error) if error.kind() == io::ErrorKind::InvalidData => None,
        read => read?,
    };
    let path = segment.with_extension(heads::EXTENSION);
    let (Some(topic), Some(partition), true) = (topic, partition_of(&dir), disk.exists(&path)?)
    else {
        return Ok(Heads::default());
    };
    let whose = Whose {
        topic,
        partition,
        base,
    };
    let file = disk.open(&path, Open::Read)?;
    Ok(Heads::new(heads::read(&*file, whose, 0..u64::MAX)?))
}

fn dir_of(segment: &Path) -> PathBuf {
    segment.parent().unwrap_or(Path::new("")).to_path_buf()
}

/// Up to where the log directory's checkpoint vouches for the files of a partition; all of them where there is none, as in a
/// directory of Kafka.
fn vouched_end(disk: &dyn Disk, dir: &Path) -> io::Result<Offset> {
    let checkpoint = match Checkpoint::load(disk, &dir.join("..")) {
        Ok(Some(checkpoint)) => checkpoint,
        Ok(None) | Err(LoadError::Damaged | LoadError::Newer) => return Ok(Offset(i64::MAX)),
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
