//! Ownership: a directory keeps no log alive, so that nothing has to be taken apart at the end. And logs that are no partitions.

use std::sync::Weak;

use log::journal::{Entry, What};
use partition::{
    Begun, Durable, Key, Life, Move, MoveStep, Moved, NeverDurable, Push, Reached, Slot,
};

use super::*;

type Fate = Result<Reached, NeverDurable>;

/// A log that keeps nothing but what it hears.
#[derive(Default)]
struct Plain(Mutex<Vec<Fate>>);

impl Durable for Plain {
    fn on_durable(self: Arc<Self>, reached: Fate, _: &mut Vec<News>) {
        self.0.lock().push(reached);
    }
}

impl Plain {
    fn heard(&self) -> Vec<Fate> {
        std::mem::take(&mut *self.0.lock())
    }
}

fn key(at: usize) -> Key {
    (topic(at), PartitionIndex(0))
}

/// Queues a batch with one record, at `offset`; returns its size.
fn enqueue(dir: &LogDir, at: usize, log: &Arc<Plain>, slot: &mut Slot, offset: i64) -> usize {
    let mut batch = batch_of(&[value("plain", offset as usize)]);
    batch.set_base_offset(Offset(offset));
    let (topic, partition) = key(at);
    let held = batch.held();
    let push = Push {
        bytes: batch.size(),
        up_to: batch.next_offset(),
        is_trim: false,
        sync: true,
        life: Life::default(),
        entry: Entry {
            topic,
            partition,
            what: What::Batch(batch),
        },
    };
    assert!(!dir.enqueue(log, slot, push, None), "no trim");
    held
}

#[test]
fn a_log_that_is_no_partition_hears_how_far_each_round_takes_it() {
    let machine = machine(1);
    let mut known = vec![Known::default(); 1];
    let mut rig = open(&machine, &[small_segments()]).unwrap();
    let plain = Arc::new(Plain::default());
    let mut slot = Slot::default();
    rig.dir.join(key(9), &plain);
    for round in 0..3 {
        let held = enqueue(&rig.dir, 9, &plain, &mut slot, round * 2)
            + enqueue(&rig.dir, 9, &plain, &mut slot, round * 2 + 1);
        // A partition shares the round.
        rig.append(0, &[value("v", round as usize)], &mut known)
            .unwrap();
        assert_eq!(plain.heard(), [], "not before it is durable");
        rig.commit(&mut known);
        let reached = Reached {
            up_to: Offset(round * 2 + 2),
            has_trim: false,
            held,
            life: Life::default(),
        };
        assert_eq!(plain.heard(), [Ok(reached)]);
        assert_eq!(known[0].acked, round + 1);
    }
    // One that is gone is in nobody's way.
    let gone = Arc::new(Plain::default());
    enqueue(&rig.dir, 8, &gone, &mut Slot::default(), 0);
    drop(gone);
    enqueue(&rig.dir, 9, &plain, &mut slot, 6);
    rig.commit(&mut known);
    assert_eq!(plain.heard().len(), 1);
    // Only what has joined is told of a failure.
    let stranger = Arc::new(Plain::default());
    let next = machine.counts().syncs + 1;
    machine.faults(|faults| faults.sync_fails_at = Some(next));
    enqueue(&rig.dir, 9, &plain, &mut slot, 7);
    rig.commit(&mut known);
    assert!(rig.dir.is_failed());
    assert_eq!(plain.heard(), [Err(NeverDurable)]);
    assert_eq!(stranger.heard(), []);
}

/// Everything that a directory and its partitions know each other by is in use, and then their owner goes.
fn owner_goes(is_guest: bool) {
    let machine = machine(3);
    let mut known = vec![Known::default(); 4];
    let configs = vec![small_segments(); 4];
    let mut rig = open(&machine, &configs).unwrap();
    let path = Path::new("/other");
    let mut other = open_where(&machine, path, settings(), &configs, |_| false).unwrap();
    for at in 0..4 {
        rig.append(at, &[value("old", at)], &mut known).unwrap();
    }
    rig.commit(&mut known);
    rig.work(&machine, SECOND, &mut known);

    // Partition 0 is about to arrive in the other directory, or is a guest there.
    let id = Uuid([9; 16]);
    let moved = Arc::new(Moved::default());
    let mut moving = Move::begin(&rig.partitions[0], &other.residents, id, moved);
    let mut step = MoveStep::On { bytes: 0 };
    for _ in 0..100 {
        step = moving.step(machine.now(), 1 << 20).unwrap();
        rig.work(&machine, Duration::from_millis(5), &mut known);
        if is_guest {
            other.work(&machine, Duration::from_millis(5), &mut known);
        }
    }
    assert_eq!(step == MoveStep::Placed, is_guest, "{step:?}");
    // Partition 1 was deleted, and its files are still there.
    rig.partitions[1].delete(&mut Vec::new());
    rig.partitions[1].discard();
    // Partition 2 has a round on its way, 3 one that is queued, and both are parted from their segment files by one more.
    for at in 2..4 {
        rig.append(at, &[value("new", at)], &mut known).unwrap();
    }
    rig.commit(&mut known);
    rig.append(2, &[value("on its way", 2)], &mut known)
        .unwrap();
    let begun = rig.dir.begin_commit(&mut Vec::new());
    assert!(matches!(begun, Begun::Written(_)));
    rig.append(3, &[value("queued", 3)], &mut known).unwrap();
    assert_eq!(rig.residents.uncommitted().len(), 2);

    let partitions: Vec<Weak<Partition>> = rig.partitions.iter().map(Arc::downgrade).collect();
    let dirs = [&rig, &other].map(|rig| Arc::downgrade(&rig.dir));
    let residents = [&rig, &other].map(|rig| Arc::downgrade(&rig.residents));
    drop((moving, begun, rig, other));
    assert!(partitions.iter().all(|of| of.upgrade().is_none()));
    assert!(dirs.iter().all(|of| of.upgrade().is_none()));
    assert!(residents.iter().all(|of| of.upgrade().is_none()));
}

#[test]
fn nothing_of_a_directory_is_left_when_its_owner_goes() {
    owner_goes(false);
    owner_goes(true);
}

/// The bound on unwritten bytes would close the sockets in the end if a deletion left some behind.
#[test]
fn a_deletion_leaves_no_bytes_to_be_written_whenever_its_rounds_end() {
    // Deleted before its round is written, while that is on its way, and after; the writer looks before that is told, or not.
    for (when, looks) in [(0, true), (1, true), (1, false), (2, true), (2, false)] {
        let context = format!("deleted at {when}, looked at {looks}");
        let machine = machine(4);
        let mut known = vec![Known::default(); 2];
        let mut rig = open(&machine, &[small_segments(), small_segments()]).unwrap();
        rig.append(0, &[value("first", 0)], &mut known).unwrap();
        rig.commit(&mut known);
        rig.append(0, &[value("second", 0)], &mut known).unwrap();
        let gone = Arc::downgrade(&rig.partitions[0]);
        let delete = |rig: &mut Rig, at: i32| {
            if at == when {
                let partition = Arc::clone(&rig.partitions[0]);
                partition.delete(&mut Vec::new());
                partition.discard();
                rig.partitions.clear();
                rig.waiting.clear();
            }
        };
        delete(&mut rig, 0);
        let Begun::Written(flight) = rig.dir.begin_commit(&mut Vec::new()) else {
            panic!("a round can be begun");
        };
        delete(&mut rig, 1);
        if looks {
            rig.work(&machine, SECOND, &mut known);
        }
        let synced = flight.sync();
        rig.dir.finish(&flight, synced, &mut Vec::new());
        delete(&mut rig, 2);
        rig.waiting.clear();
        rig.work(&machine, SECOND, &mut known);
        assert_eq!(rig.dir.unwritten_bytes(), 0, "{context}");
        assert!(gone.upgrade().is_none(), "{context}");
    }
}
