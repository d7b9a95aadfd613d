//! Segment files: every batch's checksum, offsets that rise, records that can be read.

use std::io;
use std::path::Path;

use env::Disk;
use env::disk::Open;
use log::scan::scan_batches;
use model::Offset;
use serde_json::{Value, json};
use wire::records::{Batch, Caps, RecordIter};

use super::{Report, number};
use crate::moment;
use crate::table::Table;

pub(super) fn examine(disk: &dyn Disk, path: &Path, base: i64) -> io::Result<Report> {
    let file = disk.open(path, Open::Read)?;
    let bytes = file.len()?;
    let (mut records, mut first, mut last, mut unreadable) = (0u64, None, None, None);
    let (_, stopped) = scan_batches(&*file, 0, bytes, Offset(base), |position, batch| {
        first = first.or(Some(batch.base_offset().0));
        last = Some(batch.last_offset().0);
        match count(&batch) {
            Ok(count) => records += count,
            Err(fault) => {
                unreadable.get_or_insert(format!("position {position}: {fault}"));
            }
        }
    })?;
    let damage = stopped.map(|damage| damage.to_string()).or(unreadable);
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
    let (_, stopped) = scan_batches(&*file, 0, file.len()?, Offset(base), |position, batch| {
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
    Ok(stopped.map(|damage| damage.to_string()))
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
