//! Records that a replica lost while others have them: its log is cut in front of the loss, what is behind is kept, and all is fetched
//! again.

use env::sim::Rot;
use partition::{CutError, FollowError, Isolation, Restart};

use super::*;

const EPOCH: i32 = 5;
const COUNT: i64 = 8;
const LOST: i64 = 3;

fn open_follower(machine: &Machine, has_others: bool) -> Rig {
    let env = machine.env();
    let fresh = || Identity {
        cluster_id: Some("cluster".to_owned()),
        node_id: 1,
    };
    let (recovery, _) = Recovery::begin(&env, Path::new(DIR), settings(), &fresh).unwrap();
    let lookup = |id: Uuid, _| {
        let at = usize::from(id.0[0]).checked_sub(1)?;
        let is_known = at < 2;
        is_known.then(|| Found {
            has_others,
            ..found(at, &small_segments())
        })
    };
    let restored = recovery.restore(lookup, told(TOPICS)).unwrap();
    let opened = restored.finish(env.threads.bell()).unwrap();
    let configs = [small_segments(), small_segments()];
    let rig = rig_with(opened, &configs, |_| true, BTreeMap::new());
    set_role(&rig.partitions[0], EPOCH, Role::NotLeading);
    rig
}

fn led(offset: i64) -> Batch {
    let mut batch = batch_of(&[value("v", offset as usize)]);
    batch.set_base_offset(Offset(offset));
    batch.set_leader_epoch(LeaderEpoch(3));
    batch
}

fn follow(rig: &mut Rig, offset: i64) -> Result<(), FollowError> {
    let moment = Moment {
        now: model::Instant(0),
        wall: Timestamp(1_700_000_000_000),
        stamp: &mut rig.stamp,
    };
    let partition = Arc::clone(&rig.partitions[0]);
    let followed = super::take(
        &partition,
        &led(offset).to_bytes(),
        LeaderEpoch(EPOCH),
        moment,
    );
    followed.map(drop)
}

fn commit(rig: &Rig) {
    let mut news = Vec::new();
    while rig.dir.commit(&mut news) == Commit::Done && rig.dir.has_queued() {}
}

fn tell_committed(rig: &Rig, up_to: i64) {
    let log_start = rig.partitions[0].bounds().log_start;
    let (epoch, up_to) = (LeaderEpoch(EPOCH), Offset(up_to));
    rig.partitions[0].on_leader_at(epoch, up_to, log_start, &mut Vec::new());
}

fn fill(rig: &mut Rig, offsets: std::ops::Range<i64>) {
    for offset in offsets {
        follow(rig, offset).unwrap();
        commit(rig);
    }
    tell_committed(rig, COUNT);
}

/// A replica that lost the record at [`LOST`] and has those behind it, as a start finds it.
fn with_a_hole(machine: &Machine) -> Rig {
    let mut rig = open_follower(machine, true);
    fill(&mut rig, 0..COUNT);
    drop(rig);
    machine.kill();
    // The first piece has room for two rounds; each has a page of its own, behind one that names the piece.
    let piece = Path::new(DIR).join("journal/00000001.journal");
    let page = (LOST as u64 - 1) * 4096;
    machine.rot(&piece, page..page + 4096, Rot::Zero).unwrap();
    let rig = open_follower(machine, true);
    assert!(rig.partitions[0].has_holes());
    assert_eq!(rig.partitions[0].bounds().log_end, Offset(COUNT));
    rig
}

fn offsets(rig: &Rig) -> Vec<i64> {
    let mut all = Vec::new();
    let end = rig.partitions[0].bounds().log_end;
    while all.len() < end.0 as usize {
        let request = ReadRequest {
            scope: Scope::of_any(Isolation::Log),
            ..read_from(Offset(all.len() as i64))
        };
        let batches = match rig.partitions[0].read(request).unwrap().records {
            Records::AtEnd => Vec::new(),
            Records::Memory(batches) => batches,
            Records::File(slice) => Batch::cut(&slice.read().unwrap(), Source::Log)
                .map_while(Result::ok)
                .collect(),
        };
        assert!(!batches.is_empty());
        all.extend(batches.iter().map(|batch| batch.base_offset().0));
    }
    all
}

/// Directories beside the partition's, with the bytes of segments in each.
fn aside(machine: &Machine) -> Vec<(String, u64)> {
    let disk = machine.env().disk;
    let entries = disk.read_dir(Path::new(DIR)).unwrap();
    let strays = entries.into_iter().filter(|of| of.name.ends_with("-stray"));
    let sized = strays.map(|of| {
        let files = disk.read_dir(&Path::new(DIR).join(&of.name)).unwrap();
        let logs = files.iter().filter(|file| file.name.ends_with(".log"));
        (of.name.clone(), logs.map(|file| file.len).sum())
    });
    sized.collect()
}

fn cut_lost(rig: &Rig) -> Result<Option<i64>, CutError> {
    let to = rig.partitions[0].cut_lost(LeaderEpoch(EPOCH))?;
    Ok(to.map(|to| to.0))
}

#[test]
fn a_follower_that_lost_records_takes_nothing_until_its_log_is_cut_there() {
    let machine = machine(61);
    let mut rig = with_a_hole(&machine);
    let refused = follow(&mut rig, COUNT).unwrap_err();
    assert!(
        matches!(refused, FollowError::Lost { from: Offset(LOST) }),
        "{refused}"
    );
    assert_eq!(cut_lost(&rig), Ok(Some(LOST)));
    let bounds = rig.partitions[0].bounds();
    assert_eq!(
        (bounds.log_end, bounds.high_watermark),
        (Offset(LOST), Offset(LOST).min(bounds.high_watermark))
    );
    // The records behind are copied first.
    assert!(matches!(follow(&mut rig, LOST), Err(FollowError::Cutting)));
    assert_eq!(
        rig.partitions[0].cut(Offset(LOST), LeaderEpoch(EPOCH)),
        Err(CutError::Writing)
    );
    assert!(rig.partitions[0].has_holes());
    let mut known = vec![Known::default()];
    commit(&rig);
    rig.work(&machine, Duration::from_millis(300), &mut known);
    assert!(!rig.partitions[0].has_holes());
    assert_eq!(cut_lost(&rig), Ok(None));
    let kept = aside(&machine);
    assert_eq!(kept.len(), 1, "{kept:?}");
    assert!(kept[0].0.starts_with("t0-0.") && 0 < kept[0].1, "{kept:?}");
    fill(&mut rig, LOST..COUNT + 2);
    assert_eq!(offsets(&rig), (0..COUNT + 2).collect::<Vec<_>>());
    rig.stop();
    drop(rig);
    machine.power_cut();
    let rig = open_follower(&machine, true);
    assert!(!rig.partitions[0].has_holes());
    assert_eq!(offsets(&rig), (0..COUNT + 2).collect::<Vec<_>>());
    assert_eq!(aside(&machine), kept, "it is never removed");
}

#[test]
fn a_crash_between_a_loss_and_its_cut_forgets_neither_the_loss_nor_what_is_behind() {
    for (seed, is_committed) in [(62, false), (63, true)] {
        let machine = machine(seed);
        let rig = with_a_hole(&machine);
        assert_eq!(cut_lost(&rig), Ok(Some(LOST)));
        if is_committed {
            commit(&rig);
        }
        drop(rig);
        machine.power_cut();
        let mut rig = open_follower(&machine, true);
        assert_eq!(rig.partitions[0].has_holes(), !is_committed);
        if !is_committed {
            assert_eq!(cut_lost(&rig), Ok(Some(LOST)));
            commit(&rig);
            rig.work(
                &machine,
                Duration::from_millis(300),
                &mut [Known::default()],
            );
        }
        let kept = aside(&machine);
        assert_eq!(kept.len(), 1, "{kept:?}");
        fill(&mut rig, LOST..COUNT);
        assert_eq!(offsets(&rig), (0..COUNT).collect::<Vec<_>>());
    }
}

#[test]
fn files_that_are_gone_or_cannot_be_read_are_fetched_again_where_others_have_them() {
    for (seed, is_gone) in [(64, true), (65, false)] {
        let machine = machine(seed);
        let mut rig = open_follower(&machine, true);
        fill(&mut rig, 0..COUNT);
        rig.stop();
        drop(rig);
        machine.kill();
        let files = Path::new(DIR).join("t0-0");
        let disk = machine.env().disk;
        if is_gone {
            disk.remove_dir_all(&files).unwrap();
            disk.sync_dir(Path::new(DIR)).unwrap();
        } else {
            for file in disk.read_dir(&files).unwrap() {
                machine
                    .fail_reads(&files.join(file.name), 0..u64::MAX)
                    .unwrap();
            }
        }
        for start in 0..2 {
            let rig = open_follower(&machine, true);
            assert!(
                rig.partitions[0].has_holes() && !rig.partitions[0].is_offline(),
                "start {start}"
            );
            drop(rig);
            machine.power_cut();
        }
        machine.mend_reads();
        let mut rig = open_follower(&machine, true);
        assert_eq!(cut_lost(&rig), Ok(Some(0)));
        commit(&rig);
        rig.work(
            &machine,
            Duration::from_millis(300),
            &mut [Known::default()],
        );
        fill(&mut rig, 0..COUNT);
        rig.stop();
        drop(rig);
        machine.power_cut();
        let rig = open_follower(&machine, true);
        assert_eq!(offsets(&rig), (0..COUNT).collect::<Vec<_>>());
        assert!(!rig.partitions[0].has_holes());
        assert_eq!(aside(&machine).len(), usize::from(!is_gone));
    }
}

/// A checkpoint may come between a cut and the round that makes it durable.
#[test]
fn a_loss_behind_a_cut_is_known_until_the_cut_is_durable() {
    for is_restart in [false, true] {
        let machine = machine(61);
        let mut rig = with_a_hole(&machine);
        let mut known = vec![Known::default(); 2];
        lead(&rig.partitions[1], 1);
        rig.work(&machine, SECOND, &mut known);
        rig.append(1, &[value("other", 1)], &mut known).unwrap();
        rig.commit(&mut known);
        if is_restart {
            let restart = Restart {
                log_start: Offset(50),
                at: Offset(50),
                epoch: LeaderEpoch(EPOCH),
            };
            rig.partitions[0].restart(restart).unwrap();
        } else {
            rig.partitions[0]
                .cut(Offset(1), LeaderEpoch(EPOCH))
                .unwrap();
        }
        rig.stop();
        drop(rig);
        machine.power_cut();
        let rig = open_follower(&machine, true);
        assert_eq!(rig.partitions[0].bounds().log_end, Offset(COUNT));
        assert!(rig.partitions[0].has_holes(), "restart: {is_restart}");
    }
}
