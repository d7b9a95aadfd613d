//! The files that a start reads: segments with their indexes, snapshots, checkpoints and the journal, made of any bytes. The first byte
//! chooses which, the second what is mended and known.

#![no_main]

use std::path::Path;
use std::sync::Arc;

use env::Disk;
use esker_fuzz::files::{
    BASES, machine, mend_batches, mend_checkpoint, mend_journal, mend_snapshot, name_of, padded,
    partition_dir, pieces, put,
};
use libfuzzer_sys::fuzz_target;
use log::checkpoint::Checkpoint;
use log::journal::{self, Step};
use log::{Epochs, FilePool, Known, LogConfig, ProducerStates, Read, Store};
use model::{Offset, Timestamp};
use wire::Uuid;
use wire::records::{Batch, BatchBuilder, Source};

fuzz_target!(|data: &[u8]| {
    let [which, how, rest @ ..] = data else {
        return;
    };
    match which % 4 {
        0 => segments(*how, rest),
        1 => checkpoint(*how, rest),
        2 => snapshot(*how, rest),
        _ => replayed(*how, rest),
    }
});

const MENDED: u8 = 1;
const KNOWN: u8 = 2;

fn segments(how: u8, input: &[u8]) {
    let machine = machine();
    let env = machine.env();
    let disk = &*env.disk;
    let dir = partition_dir();
    let [end, base, len_high, len_low, input @ ..] = input else {
        return;
    };
    for (what, bytes) in pieces(input) {
        let mut bytes = bytes.to_vec();
        let name = name_of(what);
        if how & MENDED != 0 && name.ends_with(".log") {
            mend_batches(&mut bytes);
        }
        if how & MENDED != 0 && name.ends_with(".snapshot") {
            mend_snapshot(&mut bytes);
        }
        put(disk, &dir.join(name), &bytes);
    }
    disk.create_dir_all(&dir).expect("a disk without faults");
    let known = Known {
        local_start: Offset(0),
        log_end: Offset(i64::from(*end)),
        active_base: Offset(BASES[usize::from(*base) % BASES.len()]),
        active_len: u64::from(u16::from_be_bytes([*len_high, *len_low])),
    };
    let known = (how & KNOWN != 0).then_some(known);
    let _ = Epochs::read(disk, &dir);
    let _ = log::metadata::read(disk, &dir);
    let open = |known| {
        let pool = FilePool::new(Arc::clone(&env.disk), 4);
        Store::open(&pool, &dir, Arc::new(LogConfig::default()), known)
    };
    let Ok((store, _)) = open(known) else { return };
    // As a directory does before anyone reads: what no checkpoint vouches for is cut.
    let Ok(end) = store.truncate_to(store.log_end()) else {
        return;
    };
    assert_eq!(store.log_end(), end);
    assert!(
        store.local_start() <= end,
        "{} to {end}",
        store.local_start()
    );
    walk(&store);
    // Files that one start has cut and mended are found so by the next, by a checkpoint of it if there was one.
    let left = known.map(|_| store.known());
    drop(store);
    let (store, found) = open(left).expect("it opened before");
    assert_eq!(store.log_end(), end, "{found:?}");
    walk(&store);
    if end.0 > 1 << 40 {
        return;
    }
    let mut builder = BatchBuilder::new().base_offset(end);
    builder.push(Timestamp(1_700_000_000_000), None, Some(b"new"), &[]);
    let Ok(_) = store.append(&[builder.build()], Timestamp(1_700_000_000_000)) else {
        return;
    };
    assert_eq!(store.log_end(), Offset(end.0 + 1));
    let seen = store.read(end, store.log_end(), 1 << 20);
    let Ok(Read::Slice(slice)) = seen else {
        panic!("the new batch is not there: {:?}", seen.err())
    };
    assert_eq!(slice.slice().base_offset, end);
    let left = known.map(|_| store.known());
    drop(store);
    let (store, found) = open(left).expect("it opened before");
    assert_eq!(store.log_end(), Offset(end.0 + 1), "{found:?}");
}

/// Reads to the end or to the first damage; offsets rise. Where it stopped.
fn walk(store: &Store) -> Offset {
    let mut next = store.local_start();
    while let Ok(Read::Slice(slice)) = store.read(next, store.log_end(), 1 << 20) {
        let bytes = slice.read().expect("a disk without faults");
        let mut last = None;
        for batch in Batch::cut(&bytes, Source::Log).map_while(Result::ok) {
            assert!(last.is_none_or(|last| last < batch.base_offset()));
            last = Some(batch.last_offset());
        }
        let Some(last) = last else {
            panic!("a verified slice holds a batch")
        };
        assert!(next <= last, "{next}: read up to {last}");
        next = Offset(last.0 + 1);
    }
    next
}

fn checkpoint(how: u8, input: &[u8]) {
    let machine = machine();
    let env = machine.env();
    let disk = &*env.disk;
    let dir = Path::new("/data");
    let mut bytes = input.to_vec();
    if how & MENDED != 0 {
        mend_checkpoint(&mut bytes);
    }
    put(disk, &dir.join(log::checkpoint::FILE_NAME), &bytes);
    let Ok(Some(read)) = Checkpoint::load(disk, dir) else {
        return;
    };
    read.store(disk, dir).expect("a disk without faults");
    let again = Checkpoint::load(disk, dir).expect("own bytes");
    assert_eq!(again, Some(read));
}

fn snapshot(how: u8, input: &[u8]) {
    let mut bytes = input.to_vec();
    if how & MENDED != 0 {
        mend_snapshot(&mut bytes);
    }
    let end = Offset(100);
    let Ok(states) = ProducerStates::decode(&bytes, end) else {
        return;
    };
    let again = ProducerStates::decode(&states.encode(), end).expect("own bytes");
    assert_eq!(again, states);
}

const DIR_ID: Uuid = Uuid([9; 16]);

/// Runs of pages, each of piece 0 or 1.
fn replayed(how: u8, input: &[u8]) {
    let machine = machine();
    let env = machine.env();
    let dir = Path::new("/data/journal");
    env.disk.create_dir_all(dir).expect("a disk without faults");
    let runs = pieces(input);
    for slot in [0u8, 1] {
        let of_piece = runs.iter().filter(|(what, _)| what & 1 == slot);
        let mut bytes = padded(&of_piece.map(|(_, run)| *run).collect::<Vec<_>>());
        if bytes.is_empty() {
            continue;
        }
        if how & MENDED != 0 {
            mend_journal(&mut bytes);
        }
        let path = journal::piece_path(dir, u32::from(slot));
        put(&*env.disk, &path, &bytes);
    }
    let first = delivered(&*env.disk, dir);
    assert_eq!(first, delivered(&*env.disk, dir), "twice gives the same");
}

fn delivered(disk: &dyn Disk, dir: &Path) -> Option<Vec<String>> {
    let mut steps = Vec::new();
    let from = journal::From::default();
    let replayed = journal::replay(disk, dir, DIR_ID, from, |step| {
        if let Step::Entry(entry) = &step
            && let journal::What::Batch(batch) = &entry.what
        {
            assert!(batch.is_intact());
        }
        steps.push(format!("{step:?}"));
        Ok(())
    });
    let replayed = replayed.ok()?;
    if let Some(unproven) = &replayed.unproven {
        unproven.harden().expect("a disk without faults");
    }
    steps.push(format!("{:?} {:?}", replayed.resume, replayed.damage));
    Some(steps)
}
