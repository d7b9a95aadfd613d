//! Acknowledged bytes that rot: what is lost is told at every read and after every start, and nothing else is lost with it.

use env::sim::Rot;
use partition::ReadError;

use super::*;

fn is_damaged(rig: &Rig, offset: i64) -> bool {
    matches!(
        plan(&rig.partitions[0], Offset(offset)),
        Err(ReadError::Damaged { .. })
    )
}

#[test]
fn a_hole_is_told_after_every_restart() {
    let machine = machine(7);
    let configs = vec![small_segments()];
    let mut known = vec![Known::default(); 1];
    let mut rig = open(&machine, &configs).unwrap();
    for number in 0..4 {
        rig.append(0, &[value("v", number)], &mut known).unwrap();
        rig.commit(&mut known);
    }
    drop(rig);
    machine.kill();
    // Page 0 names the piece; each of the small rounds has a page of its own, so this is the record at offset 1.
    let piece = Path::new(DIR).join("journal/00000000.journal");
    let page = 2 * 4096..2 * 4096 + 40;
    machine.rot(&piece, page, Rot::Flip { bit: 3 }).unwrap();

    for start in 0..3 {
        let rig = open(&machine, &configs).unwrap();
        assert_eq!(
            rig.partitions[0].bounds().log_end,
            Offset(4),
            "start {start}"
        );
        let read = |offset| plan(&rig.partitions[0], Offset(offset)).unwrap();
        assert_eq!(
            read(0).last().unwrap().next_offset(),
            Offset(1),
            "start {start}"
        );
        assert!(is_damaged(&rig, 1), "start {start}");
        assert_eq!(read(2)[0].base_offset(), Offset(2), "start {start}");
        drop(rig);
        machine.kill();
    }

    // A checkpoint of a later life keeps it as well.
    let mut rig = open(&machine, &configs).unwrap();
    rig.append(0, &[value("later", 1)], &mut known).unwrap();
    rig.commit(&mut known);
    rig.stop();
    drop(rig);
    machine.kill();
    let rig = open(&machine, &configs).unwrap();
    assert!(is_damaged(&rig, 1));
}
