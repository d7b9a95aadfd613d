//! A partition directory written through the log, then damaged in the ways that disks know.

use std::io::IoSlice;
use std::sync::atomic::{AtomicU32, Ordering};

use env::disk::Open;
use log::checkpoint::{Checkpoint, Row};
use log::heads::{self, Whose};
use log::index::{self, OffsetEntry, TimeEntry};
use log::{Syncing, metadata};
use model::{LeaderEpoch, Offset, PartitionIndex, Position, Timestamp};
use wire::Uuid;
use wire::records::{Batch, BatchBuilder, Source};

use super::*;

const SEGMENT: &str = "00000000000000000100.log";

/// A log directory with one partition.
struct Dir {
    env: Env,
    root: PathBuf,
    path: PathBuf,
}

impl Drop for Dir {
    fn drop(&mut self) {
        let _ = self.env.disk.remove_dir_all(&self.root);
    }
}

/// Three batches of two records from offset 100 on, with their indexes.
fn dir() -> Dir {
    static NEXT: AtomicU32 = AtomicU32::new(0);
    let env = Env::real();
    let number = NEXT.fetch_add(1, Ordering::Relaxed);
    let root = std::env::temp_dir().join(format!("esker-inspect-{}-{number}", std::process::id()));
    let path = root.join("t-0");
    env.disk.create_dir_all(&path).unwrap();
    let (mut bytes, mut offsets, mut times) = (Vec::new(), Vec::new(), Vec::new());
    for i in 0..3 {
        let mut builder = BatchBuilder::new()
            .base_offset(Offset(100 + 2 * i))
            .leader_epoch(LeaderEpoch(0));
        for value in ["a", "b"] {
            builder.push(Timestamp(1000 + i), None, Some(value.as_bytes()), &[]);
        }
        let position = bytes.len() as i32;
        builder.build().write_to(&mut bytes);
        if i > 0 {
            offsets.push(OffsetEntry {
                relative: 2 * i as i32 + 1,
                position,
            });
            times.push(TimeEntry {
                timestamp: 1000 + i,
                relative: 2 * i as i32 + 1,
            });
        }
    }
    let dir = Dir { env, root, path };
    dir.write(SEGMENT, &bytes);
    index::store(
        &*dir.env.disk,
        &dir.path.join("00000000000000000100.index"),
        &offsets,
    )
    .unwrap();
    index::store(
        &*dir.env.disk,
        &dir.path.join("00000000000000000100.timeindex"),
        &times,
    )
    .unwrap();
    dir.write(log::epochs::FILE_NAME, b"0\n1\n0 100\n");
    dir.write("partition.metadata", b"not inspected");
    dir
}

impl Dir {
    fn write(&self, name: &str, bytes: &[u8]) {
        let file = self
            .env
            .disk
            .open(&self.path.join(name), Open::Truncate)
            .unwrap();
        file.write_at(&[IoSlice::new(bytes)], 0).unwrap();
    }

    fn read(&self, name: &str) -> Vec<u8> {
        let file = self
            .env
            .disk
            .open(&self.path.join(name), Open::Read)
            .unwrap();
        let mut bytes = vec![0; file.len().unwrap() as usize];
        file.read_exact_at(&mut bytes, 0).unwrap();
        bytes
    }

    fn reports(&self) -> Vec<(String, Report)> {
        let mut files = Vec::new();
        collect(&*self.env.disk, &self.root, &mut files).unwrap();
        let name = |file: &Path| file.file_name().unwrap().to_string_lossy().into_owned();
        files
            .iter()
            .map(|file| (name(file), examine(&*self.env.disk, file).unwrap()))
            .collect()
    }

    fn damage(&self, name: &str) -> Option<String> {
        self.reports()
            .into_iter()
            .find(|(found, _)| found == name)
            .unwrap()
            .1
            .damage
    }
}

#[test]
fn whole_files_are_counted_and_found_sound() {
    let dir = dir();
    let reports = dir.reports();
    let kinds: Vec<(&str, u64, Option<i64>, Option<i64>)> = reports
        .iter()
        .map(|(_, r)| (r.kind, r.entries, r.first, r.last))
        .collect();
    let want = [
        ("offset index", 2, Some(103), Some(105)),
        ("segment", 6, Some(100), Some(105)),
        ("time index", 2, Some(103), Some(105)),
        ("leader epochs", 1, Some(100), Some(100)),
    ];
    assert_eq!(kinds, want);
    assert!(
        reports.iter().all(|(_, report)| report.damage.is_none()),
        "{reports:?}"
    );
}

#[test]
fn a_time_index_may_end_with_its_last_entry_twice() {
    let dir = dir();
    let name = "00000000000000000100.timeindex";
    let mut bytes = dir.read(name);
    bytes.extend_from_within(bytes.len() - 12..);
    dir.write(name, &bytes);
    assert_eq!(dir.damage(name), None);
    bytes.extend_from_within(bytes.len() - 12..);
    dir.write(name, &bytes);
    assert!(dir.damage(name).is_some());
}

#[test]
fn damage_is_shown_with_the_offsets_that_it_takes() {
    let dir = dir();
    let good = dir.read(SEGMENT);
    let size = good.len() / 3;
    for (batch, range) in [
        (0, "offsets 100 up to 102 cannot be read"),
        (1, "offsets 102 up to 104 cannot be read"),
        (2, "nothing from offset 104 on can be read"),
    ] {
        let mut bytes = good.clone();
        bytes[batch * size + 65] ^= 1;
        dir.write(SEGMENT, &bytes);
        let damage = dir.damage(SEGMENT).unwrap();
        assert!(damage.ends_with(range), "{damage}");
    }
}

/// A real disk whose directory `lost+found` is not for everyone.
struct Guarded(std::sync::Arc<dyn Disk>);

impl Disk for Guarded {
    fn read_dir(&self, path: &Path) -> std::io::Result<Vec<env::disk::Entry>> {
        if path.ends_with("lost+found") {
            return Err(std::io::ErrorKind::PermissionDenied.into());
        }
        self.0.read_dir(path)
    }

    fn open(&self, path: &Path, how: Open) -> std::io::Result<env::FileHandle> {
        self.0.open(path, how)
    }

    fn exists(&self, path: &Path) -> std::io::Result<bool> {
        self.0.exists(path)
    }

    fn is_private(&self, path: &Path) -> std::io::Result<bool> {
        self.0.is_private(path)
    }

    fn modified_ms(&self, path: &Path) -> std::io::Result<i64> {
        self.0.modified_ms(path)
    }

    fn space(&self, path: &Path) -> std::io::Result<env::disk::Space> {
        self.0.space(path)
    }

    // An inspection changes nothing.
    fn create_dir_all(&self, _: &Path) -> std::io::Result<()> {
        unreachable!()
    }

    fn rename(&self, _: &Path, _: &Path) -> std::io::Result<()> {
        unreachable!()
    }

    fn remove_file(&self, _: &Path) -> std::io::Result<()> {
        unreachable!()
    }

    fn remove_dir_all(&self, _: &Path) -> std::io::Result<()> {
        unreachable!()
    }

    fn open_dir(&self, _: &Path) -> std::io::Result<Box<dyn env::disk::Dir>> {
        unreachable!()
    }

    fn sync_dir(&self, _: &Path) -> std::io::Result<()> {
        unreachable!()
    }

    fn watch_volume(&self, _: &Path) -> std::io::Result<()> {
        unreachable!()
    }

    fn sync_volume(&self, _: &Path) -> std::io::Result<()> {
        unreachable!()
    }

    fn lock(&self, _: &Path) -> std::io::Result<Box<dyn env::disk::Lock>> {
        unreachable!()
    }
}

#[test]
fn a_directory_that_cannot_be_looked_into_costs_no_other() {
    let dir = dir();
    let closed = dir.root.join("lost+found");
    dir.env.disk.create_dir_all(&closed).unwrap();
    let disk = Guarded(std::sync::Arc::clone(&dir.env.disk));
    let mut files = Vec::new();
    assert!(collect(&disk, &dir.root, &mut files).unwrap());
    assert!(files.contains(&dir.path.join(SEGMENT)), "{files:?}");
    // Asked for by name, it is an error.
    assert!(collect(&disk, &closed, &mut files).is_err());
}

#[test]
fn every_flipped_byte_that_something_vouches_for_is_found() {
    let dir = dir();
    let good = dir.read(SEGMENT);
    let size = good.len() / 3;
    for at in 0..good.len() {
        // The base offset lies outside of the checksum, so that brokers can set it.
        if at % size < 8 {
            continue;
        }
        let mut bad = good.clone();
        bad[at] ^= 0x40;
        dir.write(SEGMENT, &bad);
        assert!(dir.damage(SEGMENT).is_some(), "byte {at}");
    }
}

/// A checkpoint stores the epochs first, so the file may lack those of what came later, and of nothing else.
#[test]
fn an_epoch_that_began_behind_the_checkpoint_is_no_damage() {
    let dir = dir();
    let topic = Uuid([7; 16]);
    metadata::write(&*dir.env.disk, &dir.path, topic, Syncing::Now).unwrap();
    let row = Row {
        topic,
        partition: PartitionIndex(0),
        log_start: Offset(100),
        local_start: Offset(100),
        restart_point: Offset(0),
        committed: Offset(100),
        restarted_at: Offset(0),
        log_end: Offset(104),
        active_base: Offset(100),
        active_len: Position(0),
        has_files: true,
        has_producers: false,
    };
    let checkpoint = Checkpoint {
        rows: vec![row],
        ..Checkpoint::default()
    };
    checkpoint.store(&*dir.env.disk, &dir.root).unwrap();
    let good = dir.read(SEGMENT);
    let size = good.len() / 3;
    for (number, is_damage) in [(0, true), (1, true), (2, false)] {
        let mut later = good.clone();
        later[number * size + 15] = 1;
        dir.write(SEGMENT, &later);
        assert_eq!(dir.damage(SEGMENT).is_some(), is_damage, "batch {number}");
    }
}

#[test]
fn an_offset_that_only_the_checksums_of_heads_tell_is_damage() {
    let dir = dir();
    let whose = Whose {
        topic: Uuid([7; 16]),
        partition: PartitionIndex(0),
        base: Offset(100),
    };
    let disk = &*dir.env.disk;
    metadata::write(disk, &dir.path, whose.topic, Syncing::Now).unwrap();
    let good = dir.read(SEGMENT);
    let (mut position, mut blocks) = (0, Vec::new());
    for batch in Batch::cut(&good.clone().into(), Source::Log) {
        let batch = batch.unwrap();
        heads::note(&mut blocks, position, &batch);
        position += batch.size() as u64;
    }
    let path = dir.path.join(SEGMENT).with_extension(heads::EXTENSION);
    heads::create(disk, &path, whose, &blocks).unwrap();
    assert_eq!(dir.damage(SEGMENT), None);
    let mut later = good.clone();
    later[good.len() / 3 * 2 + 7] += 2;
    dir.write(SEGMENT, &later);
    let damage = dir.damage(SEGMENT).unwrap();
    assert!(damage.contains("offset 106 is not the one"), "{damage}");
}

#[test]
fn a_partition_that_has_no_directory_yet_is_told_apart_from_a_wrong_path() {
    let dir = dir();
    let hint = |name: &str| {
        let error = std::io::Error::from(std::io::ErrorKind::NotFound);
        format!(
            "{:?}",
            unreadable(&*dir.env.disk, &dir.root.join(name), &error)
        )
    };
    assert!(!hint("u-0").contains("try again"), "no broker's directory");
    let journal = dir.root.join(journal::DIR_NAME);
    dir.env.disk.create_dir_all(&journal).unwrap();
    assert!(hint("u-0").contains("try again"));
    assert!(!hint("journals").contains("try again"));
}

#[test]
fn a_cut_off_segment_names_the_position_where_it_breaks() {
    let dir = dir();
    let good = dir.read(SEGMENT);
    dir.write(SEGMENT, &good[..good.len() - 1]);
    let damage = dir.damage(SEGMENT).unwrap();
    assert!(
        damage.contains(&format!("position {}", good.len() / 3 * 2)),
        "{damage}"
    );
}

#[test]
fn an_index_that_points_between_batches_is_damage_and_preallocated_zeros_are_not() {
    let dir = dir();
    let name = "00000000000000000100.index";
    let mut bytes = dir.read(name);
    bytes.extend_from_slice(&[0; 64]);
    dir.write(name, &bytes);
    assert_eq!(dir.damage(name), None);
    bytes[7] ^= 1;
    dir.write(name, &bytes);
    assert!(dir.damage(name).unwrap().contains("not in a batch"));
}

#[test]
fn damaged_checkpoints_and_snapshots_are_found() {
    let dir = dir();
    dir.write(log::epochs::FILE_NAME, b"0\n2\n1 100\n0 50\n");
    assert!(dir.damage(log::epochs::FILE_NAME).is_some());
    dir.write(
        "00000000000000000106.snapshot",
        &[0, 1, 0, 0, 0, 0, 0, 0, 0, 9],
    );
    assert!(dir.damage("00000000000000000106.snapshot").is_some());
}
