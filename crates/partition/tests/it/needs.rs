//! Reads that need the disk first: they are planned once, and the piece that comes of the need is right whatever happened to the
//! partition meanwhile.

use partition::{Need, Piece, Plan, Read, ReadError, SearchTime};

use super::damage::{COUNT, cold, rounds};
use super::*;

fn need(rig: &Rig, from: i64) -> Need {
    match rig.partitions[0].plan_read(read_from(Offset(from))) {
        Ok(Plan::Need(need)) => need,
        Ok(Plan::Ready(_)) => panic!("nobody has verified offset {from}"),
        Err(error) => panic!("{error}"),
    }
}

fn execute(need: Need) -> Result<Read, ReadError> {
    match need.execute() {
        Piece::Read(read) => read,
        Piece::Found(_) => panic!("nothing was searched"),
    }
}

fn batches(read: &Read) -> Vec<Batch> {
    let Records::File(slice) = &read.records else {
        panic!("it is in a file");
    };
    let bytes = slice.read().unwrap();
    let batches = Batch::cut(&bytes, Source::Log).map_while(Result::ok);
    batches.collect()
}

#[test]
fn a_plan_of_bytes_that_nobody_has_verified_reads_nothing_and_its_need_gives_them() {
    let machine = machine(11);
    let rig = cold(&machine);
    let reads = machine.counts().reads;
    let first = need(&rig, 3);
    assert_eq!(machine.counts().reads, reads, "not even of an index");
    let read = execute(first).unwrap();
    assert!(reads < machine.counts().reads);
    assert_eq!(batches(&read)[0].base_offset(), Offset(3));
    let Ok(Plan::Ready(again)) = rig.partitions[0].plan_read(read_from(Offset(3))) else {
        panic!("they are verified once and for all");
    };
    assert_eq!(batches(&again), batches(&read));

    // With the indexes at hand it is known how many bytes a need is about.
    let machine = self::machine(10);
    let rig = cold(&machine);
    let other = ReadRequest {
        bytes_max: 1,
        ..read_from(Offset(0))
    };
    rig.partitions[0].read(other).unwrap();
    let need = need(&rig, 3);
    let bytes = need.bytes();
    assert_eq!(execute(need).unwrap().records.len(), bytes);
}

#[test]
fn a_need_of_a_partition_that_is_deleted_meanwhile_gives_nothing() {
    let machine = machine(12);
    let rig = cold(&machine);
    let need = need(&rig, 3);
    rig.partitions[0].delete(&mut Vec::new());
    rig.partitions[0].discard();
    assert!(matches!(execute(need), Err(ReadError::Deleted)));
}

#[test]
fn a_need_below_a_log_start_that_moved_meanwhile_is_out_of_range() {
    for are_files_gone in [false, true] {
        let machine = machine(13);
        let mut known = vec![Known::default(); 1];
        let mut rig = cold(&machine);
        let below = need(&rig, 3);
        let above = need(&rig, 50);
        rig.trim(0, 40, &mut known).unwrap();
        rig.commit(&mut known);
        if are_files_gone {
            rig.work(&machine, Duration::from_secs(1), &mut known);
        }
        match execute(below) {
            Err(ReadError::OutOfRange { bounds }) => {
                assert_eq!(
                    (bounds.log_start, bounds.local_start),
                    (Offset(40), Offset(40))
                );
            }
            Err(error) => panic!("{error}"),
            Ok(_) => panic!("it is trimmed"),
        }
        assert_eq!(
            batches(&execute(above).unwrap())[0].base_offset(),
            Offset(50)
        );
    }
}

#[test]
fn a_need_sees_no_record_that_was_committed_after_its_plan() {
    let machine = machine(14);
    let mut known = vec![Known::default(); 1];
    let mut rig = cold(&machine);
    let need = need(&rig, COUNT as i64 - 1);
    rounds(&mut rig, &[0; 3], &mut known);
    rig.work(&machine, Duration::from_secs(1), &mut known);
    let read = execute(need).unwrap();
    assert_eq!(read.bounds.high_watermark, Offset(COUNT as i64));
    let last = batches(&read).pop().unwrap();
    assert_eq!(last.next_offset(), Offset(COUNT as i64));
}

#[test]
fn a_need_of_bytes_that_rotted_gives_the_damage() {
    let machine = machine(15);
    drop(cold(&machine));
    machine.kill();
    let file = Path::new(DIR).join("t0-0/00000000000000000000.log");
    machine
        .rot(&file, 66..67, env::sim::Rot::Flip { bit: 1 })
        .unwrap();
    let rig = open(&machine, &[small_segments()]).unwrap();
    assert!(matches!(execute(need(&rig, 0)), Err(ReadError::Store(_))));
    assert!(rig.partitions[0].read(read_from(Offset(0))).is_err());
}

#[test]
fn a_search_is_a_need_of_its_own() {
    let machine = machine(16);
    let rig = cold(&machine);
    let find = |time| match rig.partitions[0].plan_search(time).execute() {
        Piece::Found(found) => found.unwrap().map(|found| found.offset),
        Piece::Read(_) => panic!("nothing was read"),
    };
    let all = Timestamp(1_700_000_000_000);
    assert_eq!(find(SearchTime::From(all)), Some(Offset(0)));
    assert_eq!(find(SearchTime::Largest), Some(Offset(0)));
    assert_eq!(find(SearchTime::From(Timestamp(all.0 + 1))), None);
}
