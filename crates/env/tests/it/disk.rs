//! The promises of files and directories while the power stays on.

use std::io::{ErrorKind, IoSlice};

use env::disk::Open;

use crate::{TestDir, on_every_machine};

fn write(place: &TestDir, name: &str, how: Open, position: u64, bytes: &[u8]) {
    let file = place.env.disk.open(&place.dir.join(name), how).unwrap();
    file.write_at(&[IoSlice::new(bytes)], position).unwrap();
}

fn content(place: &TestDir, name: &str) -> Vec<u8> {
    let file = place
        .env
        .disk
        .open(&place.dir.join(name), Open::Read)
        .unwrap();
    let mut bytes = vec![0; usize::try_from(file.len().unwrap()).unwrap()];
    file.read_exact_at(&mut bytes, 0).unwrap();
    bytes
}

#[test]
fn what_was_written_is_read_by_every_handle() {
    on_every_machine("read-back", |place| {
        write(place, "a", Open::CreateNew, 0, b"hello world");
        write(place, "a", Open::Write, 6, b"there");
        assert_eq!(content(place, "a"), b"hello there");
        let file = place
            .env
            .disk
            .open(&place.dir.join("a"), Open::Read)
            .unwrap();
        let mut short = [0; 16];
        assert_eq!(file.read_at(&mut short, 6).unwrap(), 5);
        assert_eq!(file.read_at(&mut short, 11).unwrap(), 0, "end of file");
        assert_eq!(file.read_at(&mut short, 400).unwrap(), 0, "beyond the end");
        assert_eq!(
            file.read_exact_at(&mut short, 0).unwrap_err().kind(),
            ErrorKind::UnexpectedEof
        );
    });
}

#[test]
fn a_gap_reads_as_zeros() {
    on_every_machine("gap", |place| {
        write(place, "a", Open::Create, 10_000, b"end");
        let bytes = content(place, "a");
        assert_eq!(bytes.len(), 10_003);
        assert!(bytes[..10_000].iter().all(|byte| *byte == 0));
    });
}

#[test]
fn large_writes_of_many_slices_arrive_whole_and_in_order() {
    on_every_machine("large", |place| {
        // Sizes around the largest call and the largest slice count, with empty slices between.
        for (count, size) in [
            (1, 1_000_000),
            (3, 131_072),
            (2000, 100),
            (700, 1031),
            (5, 0),
        ] {
            let parts: Vec<Vec<u8>> = (0..count)
                .map(|part| (0..size).map(|at| (part * 7 + at * 13) as u8).collect())
                .collect();
            let mut bufs = Vec::new();
            for part in &parts {
                bufs.push(IoSlice::new(&[]));
                bufs.push(IoSlice::new(part));
            }
            let file = place
                .env
                .disk
                .open(&place.dir.join("a"), Open::Truncate)
                .unwrap();
            file.write_at(&bufs, 3).unwrap();
            let want = parts.concat();
            let mut got = vec![0; want.len()];
            file.read_exact_at(&mut got, 3).unwrap();
            assert!(got == want, "{count} slices of {size} bytes");
        }
    });
}

#[test]
fn pages_are_written_like_all_else_whatever_the_cache_holds_of_them() {
    const PAGE: usize = 4096;
    on_every_machine("pages", |place| {
        let open = |how| place.env.disk.open(&place.dir.join("a"), how).unwrap();
        let (file, other) = (open(Open::Truncate), open(Open::Write));
        let mut want = vec![0; 8 << 20];
        file.write_at(&[IoSlice::new(&want)], 0).unwrap();
        // Sizes around the largest call, in slices that end anywhere; the place before was just read.
        let sizes = [PAGE, (1 << 20) - PAGE, 1 << 20, (1 << 20) + PAGE, 3 << 20];
        for (round, bytes) in sizes.into_iter().enumerate() {
            let position = (round + 1) * PAGE;
            let sent: Vec<u8> = (0..bytes).map(|at| (at * 13 + round) as u8).collect();
            let bufs: Vec<_> = sent.chunks(1000 + round).map(IoSlice::new).collect();
            file.write_pages(&bufs, position as u64).unwrap();
            want[position..position + bytes].copy_from_slice(&sent);
            other
                .write_at(&[IoSlice::new(b"in the cache")], position as u64 + 100)
                .unwrap();
            want[position + 100..position + 112].copy_from_slice(b"in the cache");
            other.sync_data().unwrap();
            assert!(content(place, "a") == want, "{bytes} bytes");
        }
        let end = want.len() as u64;
        file.write_pages(&[IoSlice::new(&[7; 2 * PAGE])], end)
            .unwrap();
        want.extend([7; 2 * PAGE]);
        assert!(content(place, "a") == want, "behind the end");
    });
}

#[test]
fn opening_keeps_creates_empties_or_refuses_as_asked() {
    on_every_machine("open", |place| {
        let open = |name: &str, how| {
            place
                .env
                .disk
                .open(&place.dir.join(name), how)
                .map(|file| file.len().unwrap())
        };
        assert_eq!(
            open("a", Open::Read).unwrap_err().kind(),
            ErrorKind::NotFound
        );
        assert_eq!(
            open("a", Open::Write).unwrap_err().kind(),
            ErrorKind::NotFound
        );
        assert_eq!(
            open("none/a", Open::Create).unwrap_err().kind(),
            ErrorKind::NotFound
        );
        write(place, "a", Open::Create, 0, b"abc");
        assert_eq!(open("a", Open::Create).unwrap(), 3);
        assert_eq!(
            open("a", Open::CreateNew).unwrap_err().kind(),
            ErrorKind::AlreadyExists
        );
        assert_eq!(open("a", Open::Truncate).unwrap(), 0);
        let file = place
            .env
            .disk
            .open(&place.dir.join("a"), Open::Read)
            .unwrap();
        assert!(
            file.write_at(&[IoSlice::new(b"x")], 0).is_err(),
            "opened for reads only"
        );
    });
}

#[test]
fn length_is_set_both_ways_and_reserving_does_not_change_it() {
    on_every_machine("len", |place| {
        let file = place
            .env
            .disk
            .open(&place.dir.join("a"), Open::Create)
            .unwrap();
        file.write_at(&[IoSlice::new(b"0123456789")], 0).unwrap();
        file.set_len(4).unwrap();
        assert_eq!(content(place, "a"), b"0123");
        file.set_len(6).unwrap();
        assert_eq!(
            content(place, "a"),
            b"0123\0\0",
            "what was cut does not come back"
        );
        file.allocate(0, 1 << 20).unwrap();
        file.allocate(1 << 20, 1 << 20).unwrap();
        assert_eq!(file.len().unwrap(), 6);
        file.start_writeback(0, 6);
        file.sync_data().unwrap();
        file.drop_cache(0, 6);
        file.bring_in(0, 6);
        assert_eq!(content(place, "a"), b"0123\0\0");
    });
}

#[test]
fn what_was_brought_in_is_resident_and_nothing_else_has_changed() {
    on_every_machine("cold", |place| {
        let len = 5_000_000;
        let bytes: Vec<u8> = (0..len).map(|at: u32| (at / 1000) as u8).collect();
        write(place, "a", Open::CreateNew, 0, &bytes);
        let file = place
            .env
            .disk
            .open(&place.dir.join("a"), Open::Read)
            .unwrap();
        let len = u64::from(len);
        // Whole blocks, parts of them, single pages, and what lies behind the end.
        for (position, len) in [
            (0, len),
            (4095, 2),
            (1 << 20, 1 << 20),
            (3_000_001, 1 << 40),
            (len, 7),
        ] {
            file.sync_data().unwrap();
            file.drop_cache(0, 0);
            file.bring_in(position, len);
            assert!(
                file.is_resident(position, len.min(5_000_000 - position)),
                "{position}"
            );
        }
        assert!(content(place, "a") == bytes);
    });
}

#[test]
fn what_is_read_once_is_the_same_wherever_it_is() {
    on_every_machine("once", |place| {
        let len = 3_000_001_u32;
        let bytes: Vec<u8> = (0..len).map(|at| (at / 1000) as u8).collect();
        write(place, "a", Open::CreateNew, 0, &bytes);
        let open = |how| place.env.disk.open(&place.dir.join("a"), how).unwrap();
        let file = open(Open::Read);
        let read = |position: usize, len: usize, at_once: usize| {
            let mut got = vec![0; len];
            let mut filled = 0;
            while filled < len {
                match file.read_once(&mut got[filled..], (position + filled) as u64, at_once) {
                    Ok(0) => break,
                    Ok(more) => filled += more,
                    Err(error) if error.kind() == ErrorKind::Interrupted => {}
                    Err(error) => panic!("{error}"),
                }
            }
            got.truncate(filled);
            got
        };
        // Whole pages, parts of them, more than one call, and what lies behind the end.
        let spans = [
            (0, 4096),
            (1, 1),
            (4095, 2),
            (123_456, 1 << 20),
            (2_999_000, 5000),
            (3_000_001, 7),
            (3_100_000, 7),
        ];
        for (position, len) in spans {
            let upto = (position + len).min(bytes.len());
            let want = bytes.get(position..upto).unwrap_or_default();
            // In the cache and changed there, on the disk alone, and partly here and partly there.
            open(Open::Write)
                .write_at(&[IoSlice::new(&bytes[2 << 20..])], 2 << 20)
                .unwrap();
            for at_once in [usize::MAX, 128 << 10, 1000] {
                let context = format!("{len} at {position}, {at_once} at once");
                assert!(read(position, len, at_once) == want, "dirty, {context}");
                file.sync_data().unwrap();
                file.drop_cache(0, 0);
                assert!(read(position, len, at_once) == want, "cold, {context}");
                file.bring_in(position as u64, len as u64 / 2);
                assert!(read(position, len, at_once) == want, "half, {context}");
            }
        }
    });
}

#[test]
fn a_file_knows_when_it_was_written_last_or_what_it_was_told() {
    on_every_machine("modified", |place| {
        let (disk, path) = (&place.env.disk, place.dir.join("a"));
        // File systems count time in ticks of their own.
        let tick_ms = 50;
        let is_now = |modified: i64| {
            let now = place.env.clock.wall_ms().0;
            (now - 60_000..=now + tick_ms).contains(&modified)
        };
        write(place, "a", Open::CreateNew, 0, b"hello");
        assert!(is_now(disk.modified_ms(&path).unwrap()));
        let file = disk.open(&path, Open::Write).unwrap();
        for told in [86_400_000, 1_700_000_000_123, -5_000] {
            file.set_modified_ms(told).unwrap();
            file.sync_data().unwrap();
            assert_eq!(disk.modified_ms(&path).unwrap(), told);
            disk.rename(&path, &place.dir.join("b")).unwrap();
            disk.rename(&place.dir.join("b"), &path).unwrap();
            assert_eq!(disk.modified_ms(&path).unwrap(), told, "renamed");
            content(place, "a");
            assert_eq!(disk.modified_ms(&path).unwrap(), told, "read");
        }
        file.write_at(&[IoSlice::new(b"x")], 0).unwrap();
        assert!(is_now(disk.modified_ms(&path).unwrap()));
        file.set_modified_ms(0).unwrap();
        file.set_len(3).unwrap();
        assert!(is_now(disk.modified_ms(&path).unwrap()));
        let none = disk.modified_ms(&place.dir.join("none")).unwrap_err();
        assert_eq!(none.kind(), ErrorKind::NotFound);
    });
}

#[test]
fn what_was_reserved_takes_room_until_it_is_given_back() {
    on_every_machine("reserve", |place| {
        let path = place.dir.join("a");
        let file = place.env.disk.open(&path, Open::Create).unwrap();
        file.write_at(&[IoSlice::new(b"0123456789")], 0).unwrap();
        file.sync_data().unwrap();
        let before = taken(place, &path);
        file.allocate(0, 4 << 20).unwrap();
        file.write_at(&[IoSlice::new(b"abc")], 10).unwrap();
        // A file system without the call reserves nothing; ours of the tests have it.
        assert!(taken(place, &path) >= before + (3 << 20));
        file.trim().unwrap();
        file.sync_data().unwrap();
        assert!(taken(place, &path) <= before + (64 << 10));
        assert_eq!(content(place, "a"), b"0123456789abc");
        let read_only = place.env.disk.open(&path, Open::Read).unwrap();
        assert!(read_only.trim().is_err() && read_only.allocate(0, 1).is_err());
    });
}

/// Bytes of the volume that a file takes.
#[allow(clippy::disallowed_methods)] // blocks are no part of what a disk reports
fn taken(place: &TestDir, path: &std::path::Path) -> u64 {
    match &place.machine {
        None => std::os::unix::fs::MetadataExt::blocks(&path.symlink_metadata().unwrap()) * 512,
        Some(_) => {
            let space = place.env.disk.space(path).unwrap();
            space.total - space.available
        }
    }
}

#[test]
fn directories_list_their_entries_in_name_order() {
    on_every_machine("list", |place| {
        let disk = &place.env.disk;
        for name in ["b", "a", "10", "9"] {
            write(place, name, Open::Create, 0, name.as_bytes());
        }
        disk.create_dir_all(&place.dir.join("dir/inner")).unwrap();
        disk.create_dir_all(&place.dir.join("dir")).unwrap();
        write(place, "dir/x", Open::Create, 0, b"x");
        let list = disk.read_dir(&place.dir).unwrap();
        let list: Vec<(&str, bool, u64)> = list
            .iter()
            .map(|entry| (entry.name.as_str(), entry.is_dir, entry.len))
            .collect();
        assert_eq!(
            list,
            [
                ("10", false, 2),
                ("9", false, 1),
                ("a", false, 1),
                ("b", false, 1),
                ("dir", true, 0)
            ]
        );
        assert_eq!(
            disk.read_dir(&place.dir.join("none")).unwrap_err().kind(),
            ErrorKind::NotFound
        );
        disk.sync_dir(&place.dir).unwrap();
        disk.sync_volume(&place.dir).unwrap();
        disk.remove_dir_all(&place.dir.join("dir")).unwrap();
        assert!(!disk.exists(&place.dir.join("dir/x")).unwrap());
        assert!(!disk.exists(&place.dir.join("dir")).unwrap());
        assert!(disk.exists(&place.dir.join("a")).unwrap());
    });
}

#[test]
fn a_rename_replaces_and_a_removed_file_lives_on_in_its_handles() {
    on_every_machine("rename", |place| {
        let disk = &place.env.disk;
        write(place, "old", Open::Create, 0, b"old");
        write(place, "new", Open::Create, 0, b"new");
        let old = disk.open(&place.dir.join("old"), Open::Read).unwrap();
        disk.rename(&place.dir.join("new"), &place.dir.join("old"))
            .unwrap();
        assert_eq!(content(place, "old"), b"new");
        assert!(!disk.exists(&place.dir.join("new")).unwrap());
        let mut bytes = [0; 3];
        old.read_exact_at(&mut bytes, 0).unwrap();
        assert_eq!(&bytes, b"old");
        disk.remove_file(&place.dir.join("old")).unwrap();
        assert_eq!(
            disk.remove_file(&place.dir.join("old")).unwrap_err().kind(),
            ErrorKind::NotFound
        );
        let gone = disk.rename(&place.dir.join("old"), &place.dir.join("x"));
        assert_eq!(gone.unwrap_err().kind(), ErrorKind::NotFound);
    });
}

#[test]
fn a_directory_is_renamed_with_what_is_in_it() {
    on_every_machine("rename-dir", |place| {
        place
            .env
            .disk
            .create_dir_all(&place.dir.join("a/b"))
            .unwrap();
        write(place, "a/b/f", Open::Create, 0, b"f");
        place
            .env
            .disk
            .rename(&place.dir.join("a"), &place.dir.join("z"))
            .unwrap();
        assert_eq!(content(place, "z/b/f"), b"f");
        assert!(!place.env.disk.exists(&place.dir.join("a")).unwrap());
    });
}

#[test]
fn a_lock_excludes_others_until_dropped() {
    on_every_machine("lock", |place| {
        let path = place.dir.join(".lock");
        let held = place.env.disk.lock(&path).unwrap();
        assert_eq!(
            place.env.disk.lock(&path).err().unwrap().kind(),
            ErrorKind::WouldBlock
        );
        drop(held);
        place.env.disk.lock(&path).unwrap();
    });
}

#[test]
fn a_volume_tells_its_space() {
    on_every_machine("space", |place| {
        let space = place.env.disk.space(&place.dir).unwrap();
        assert!(0 < space.available && space.available <= space.total);
    });
}
