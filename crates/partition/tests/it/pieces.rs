//! Journal pieces: made ahead of the commits that use them, by a loop of their own.

use super::*;

fn names(machine: &Machine) -> Vec<String> {
    let journal = Path::new(DIR).join("journal");
    let entries = machine.env().disk.read_dir(&journal).unwrap();
    entries.into_iter().map(|entry| entry.name).collect()
}

#[test]
fn a_commit_finds_a_piece_ready_and_makes_none() {
    let machine = machine(1);
    let mut known = vec![Known::default(); 1];
    let mut rig = open(&machine, &[small_segments()]).unwrap();
    let first = names(&machine);
    rig.make_pieces();
    assert!(names(&machine).len() > first.len(), "pieces are made ahead");
    for step in 0..300 {
        let before = names(&machine);
        rig.append(0, &[vec![7; 1000]], &mut known).unwrap();
        rig.commit(&mut known);
        // It may remove one that is not needed any more.
        let made = names(&machine).iter().any(|name| !before.contains(name));
        assert!(!made, "step {step}");
        rig.make_pieces();
        if step % 50 == 0 {
            // Checkpoints give pieces back, and then none is made any more.
            rig.work(&machine, SECOND, &mut known);
        }
    }
    let most = names(&machine).len();
    for _ in 0..300 {
        rig.append(0, &[vec![7; 1000]], &mut known).unwrap();
        rig.commit(&mut known);
        rig.work(&machine, SECOND / 3, &mut known);
    }
    assert!(names(&machine).len() <= most);
    assert_eq!(known[0].acked, 600);
}

#[test]
fn a_commit_without_a_ready_piece_makes_one() {
    let machine = machine(2);
    let mut known = vec![Known::default(); 1];
    let mut rig = open(&machine, &[small_segments()]).unwrap();
    let before = names(&machine).len();
    for _ in 0..100 {
        rig.append(0, &[vec![7; 1000]], &mut known).unwrap();
        rig.commit(&mut known);
    }
    assert!(names(&machine).len() > before);
    assert_eq!(known[0].acked, 100);
    drop(rig);
    machine.power_cut();
    let rig = open(&machine, &[small_segments()]).unwrap();
    check(&rig, &mut known, "pieces of both kinds");
}

#[test]
fn a_volume_with_room_for_one_more_piece_is_not_called_full_for_want_of_two() {
    let machine = machine(3);
    let mut known = vec![Known::default(); 1];
    let mut rig = open(&machine, &[small_segments()]).unwrap();
    let space = machine.env().disk.space(Path::new(DIR)).unwrap();
    let taken = space.total - space.available;
    machine.faults(|faults| faults.disk_bytes = taken + (40 << 10));
    rig.work(&machine, 5 * SECOND, &mut known);
    assert!(!rig.dir.is_full());
    rig.append(0, &[value("v", 1)], &mut known).unwrap();
    rig.commit(&mut known);
    assert_eq!(known[0].acked, 1);
}

#[test]
fn half_a_piece_goes_when_the_directory_stops() {
    let machine = machine(4);
    let settings = DirSettings {
        journal_piece_bytes: 3 << 20,
        ..settings()
    };
    let mut rig = open_at(&machine, Path::new(DIR), settings, &[small_segments()]).unwrap();
    let before = names(&machine);
    // Begins the piece, then one step of it.
    assert_eq!(rig.maker.turn(), Turn::Again);
    assert!(matches!(rig.maker.turn(), Turn::Sleep { until: Some(_) }));
    assert_eq!(names(&machine).len(), before.len() + 1);
    rig.dir.stop();
    assert_eq!(rig.maker.turn(), Turn::Done);
    assert_eq!(names(&machine), before);
}

#[test]
fn a_sync_that_fails_while_a_piece_is_made_takes_the_directory_offline() {
    let machine = machine(5);
    let mut rig = open(&machine, &[small_segments()]).unwrap();
    let next = machine.counts().syncs + 1;
    machine.faults(|faults| faults.sync_fails_at = Some(next));
    rig.make_pieces();
    assert!(rig.dir.is_failed());
}
