//! Waiting for a commit or for more to read, and duplicates of idempotent producers.

use log::producer::ProducerError;
use model::{ProducerEpoch, ProducerId, Sequence};
use partition::Begun;

use super::*;

fn idempotent(sequence: i32) -> Batch {
    let mut builder =
        BatchBuilder::new().producer(ProducerId(5), ProducerEpoch(0), Sequence(sequence));
    builder.push(Timestamp(1_700_000_000_000), None, Some(b"value"), &[]);
    builder.build()
}

fn append(rig: &mut Rig, batch: Batch, index: u32) -> Result<partition::Appended, AppendError> {
    let moment = Moment {
        now: model::Instant(0),
        wall: Timestamp(1_700_000_000_000),
        stamp: &mut rig.stamp,
    };
    rig.partitions[0].append(batch, Acks::All(Some(ticket(index))), moment)
}

fn committed(rig: &Rig) -> Vec<u32> {
    let mut news = Vec::new();
    rig.dir.commit(&mut news);
    let index = |item: &News| match item {
        News::Reached(ticket) => ticket.part,
        other => panic!("{other:?}"),
    };
    news.iter().map(index).collect()
}

#[test]
fn a_duplicate_gets_the_first_answer_and_not_before_the_original_is_durable() {
    let machine = machine(1);
    let mut rig = open(&machine, &[small_segments()]).unwrap();
    let first = append(&mut rig, idempotent(0), 1).unwrap();
    let again = append(&mut rig, idempotent(0), 2).unwrap();
    append(&mut rig, idempotent(1), 3).unwrap();
    let late = append(&mut rig, idempotent(0), 4).unwrap();
    assert_eq!(
        (first.base_offset, again.base_offset, late.base_offset),
        (Offset(0), Offset(0), Offset(0))
    );
    assert!(again.waits && late.waits);
    assert_eq!(committed(&rig), [1, 2, 4, 3], "each with what it rests on");
    let after = append(&mut rig, idempotent(1), 5).unwrap();
    assert!(!after.waits);
    assert_eq!(after.base_offset, Offset(1));
    assert_eq!(
        committed(&rig),
        [0u32; 0],
        "what is durable is answered at once"
    );
}

#[test]
fn only_what_is_not_durable_is_looked_through_for_who_waits_no_more() {
    let machine = machine(1);
    let mut rig = open(&machine, &[small_segments(), small_segments()]).unwrap();
    append(&mut rig, idempotent(0), 1).unwrap();
    append(&mut rig, idempotent(0), 2).unwrap();
    let in_doubt = |rig: &Rig| -> Vec<_> {
        let partitions = rig.residents.uncommitted().into_iter();
        partitions.map(|partition| partition.topic_id).collect()
    };
    assert_eq!(in_doubt(&rig), [topic(0)]);
    let mut news = Vec::new();
    let Begun::Written(flight) = rig.dir.begin_commit(&mut news) else {
        panic!("a round is written")
    };
    assert_eq!(in_doubt(&rig), [topic(0)], "until its sync returned");
    for partition in rig.residents.uncommitted() {
        partition.forget_waiters(InboxId(0), |_| false);
    }
    let synced = flight.sync();
    rig.dir.finish(&flight, synced, &mut news);
    assert_eq!(news, [], "nobody waits");
    assert_eq!(in_doubt(&rig), []);
}

#[test]
fn duplicates_are_known_after_every_kind_of_restart() {
    for written in [false, true] {
        let machine = machine(1);
        let mut rig = open(&machine, &[small_segments()]).unwrap();
        for sequence in 0..40 {
            append(&mut rig, idempotent(sequence), 1).unwrap();
            committed(&rig);
        }
        if written {
            rig.stop();
        }
        for _ in 0..2 {
            drop(rig);
            machine.power_cut();
            rig = open(&machine, &[small_segments()]).unwrap();
            let again = append(&mut rig, idempotent(39), 2).unwrap();
            assert_eq!((again.base_offset, again.waits), (Offset(39), false));
            assert!(matches!(
                append(&mut rig, idempotent(41), 3),
                Err(AppendError::Producer(
                    ProducerError::OutOfOrderSequence { .. }
                ))
            ));
        }
    }
}

#[test]
fn a_watcher_is_told_once_when_there_is_more_than_it_has_seen() {
    let machine = machine(1);
    let mut rig = open(&machine, &[small_segments()]).unwrap();
    assert!(rig.partitions[0].watch(
        ticket(9),
        Offset(0),
        Scope::of_leader(Isolation::Uncommitted)
    ));
    append(&mut rig, batch_of(&[value("v", 1)]), 1).unwrap();
    let mut news = Vec::new();
    rig.dir.commit(&mut news);
    assert_eq!(news, [News::Readable(ticket(9)), News::Reached(ticket(1))]);
    assert!(
        !rig.partitions[0].watch(
            ticket(9),
            Offset(0),
            Scope::of_leader(Isolation::Uncommitted)
        ),
        "there is more already"
    );
    append(&mut rig, batch_of(&[value("v", 1)]), 2).unwrap();
    assert_eq!(committed(&rig), [2]);
    assert!(rig.partitions[0].watch(
        ticket(9),
        Offset(2),
        Scope::of_leader(Isolation::Uncommitted)
    ));
    rig.partitions[0].unwatch(InboxId(0), WaiterKey(0));
    append(&mut rig, batch_of(&[value("v", 1)]), 3).unwrap();
    assert_eq!(committed(&rig), [3]);
}

#[test]
fn nothing_uncommitted_is_ever_in_a_plan() {
    let machine = machine(1);
    let mut rig = open(&machine, &[small_segments()]).unwrap();
    append(&mut rig, batch_of(&[value("v", 1)]), 1).unwrap();
    assert!(plan(&rig.partitions[0], Offset(0)).unwrap().is_empty());
    let at_end = plan(&rig.partitions[0], Offset(1)).unwrap();
    assert!(at_end.is_empty(), "it may be committed soon");
    assert!(matches!(
        plan(&rig.partitions[0], Offset(2)),
        Err(partition::ReadError::OutOfRange { .. })
    ));
    committed(&rig);
    assert_eq!(plan(&rig.partitions[0], Offset(0)).unwrap().len(), 1);
    assert_eq!(rig.partitions[0].await_end(ticket(7)), Ok(false));
}

/// DeleteRecords is no news to the producer of the records: a batch that is sent again is answered with its first offset, though it
/// cannot be read any more, and is never in the log a second time.
#[test]
fn a_duplicate_of_a_batch_that_was_trimmed_is_answered_and_not_written_again() {
    #[derive(Clone, Copy, Debug, PartialEq)]
    enum Restart {
        None,
        Kill,
        PowerCut,
        Stop,
    }
    let restarts = [
        Restart::None,
        Restart::Kill,
        Restart::PowerCut,
        Restart::Stop,
    ];
    for (restart, written) in restarts.map(|of| [(of, false), (of, true)]).concat() {
        let context = format!("{restart:?}, written {written}");
        let machine = machine(3);
        let mut rig = open(&machine, &[small_segments()]).unwrap();
        for sequence in 0..3 {
            append(&mut rig, idempotent(sequence), sequence as u32).unwrap();
            committed(&rig);
        }
        if written {
            rig.work(&machine, SECOND, &mut []);
        }
        rig.trim(0, 3, &mut [Known::default()]).unwrap();
        rig.commit(&mut [Known::default()]);
        if written {
            rig.work(&machine, SECOND, &mut []);
        }
        match restart {
            Restart::None => {}
            Restart::Kill => {
                drop(rig);
                machine.kill();
                rig = open(&machine, &[small_segments()]).unwrap();
            }
            Restart::PowerCut => {
                drop(rig);
                machine.power_cut();
                rig = open(&machine, &[small_segments()]).unwrap();
            }
            Restart::Stop => {
                rig.stop();
                drop(rig);
                machine.kill();
                rig = open(&machine, &[small_segments()]).unwrap();
            }
        }
        let bounds = rig.partitions[0].bounds();
        assert_eq!(
            (bounds.log_start, bounds.log_end),
            (Offset(3), Offset(3)),
            "{context}"
        );
        for sequence in 0..3 {
            let again = append(&mut rig, idempotent(sequence), 10).unwrap();
            assert_eq!(
                (again.base_offset, again.waits, again.log_start),
                (Offset(sequence.into()), false, Offset(3)),
                "{context}, {sequence}"
            );
        }
        assert_eq!(rig.partitions[0].bounds().log_end, Offset(3), "{context}");
        assert_eq!(committed(&rig), [0u32; 0]);
        let next = append(&mut rig, idempotent(3), 20).unwrap();
        assert_eq!(next.base_offset, Offset(3), "{context}");
        assert_eq!(committed(&rig), [20]);
        let seen: Vec<i64> = rig.read(0).into_keys().collect();
        assert_eq!(seen, [3], "{context}");
    }
}

/// Sequences of one producer that a disk takes or refuses.
struct Sent {
    machine: Machine,
    rig: Rig,
    known: Vec<Known>,
}

impl Sent {
    fn new(producer_expiration_ms: i64) -> Sent {
        let machine = machine(1);
        let settings = DirSettings {
            reserve_bytes: 1 << 20,
            producer_expiration_ms,
            producer_expiration_check: SECOND,
            ..settings()
        };
        let rig = open_at(&machine, Path::new(DIR), settings, &[small_segments()]).unwrap();
        let known = vec![Known::default(); 1];
        Sent {
            machine,
            rig,
            known,
        }
    }

    fn send(&mut self, epoch: i16, sequence: i32) -> Result<(), AppendError> {
        self.bring(epoch, sequence, |partition, batch, moment| {
            partition.append(batch, Acks::All(None), moment).map(drop)
        })
    }

    /// As a broker does that acts as no leader.
    fn refuse_silently(&mut self, sequence: i32) -> AppendError {
        let refused = self.bring(0, sequence, |partition, batch, moment| {
            Err(partition.refuse(&batch, &moment))
        });
        refused.unwrap_err()
    }

    fn bring(
        &mut self,
        epoch: i16,
        sequence: i32,
        to: impl FnOnce(&Arc<Partition>, Batch, Moment<'_>) -> Result<(), AppendError>,
    ) -> Result<(), AppendError> {
        let (id, epoch) = (ProducerId(5), ProducerEpoch(epoch));
        let wall = self.machine.env().clock.wall_ms();
        let mut builder = BatchBuilder::new().producer(id, epoch, Sequence(sequence));
        builder.push(wall, None, Some(b"value"), &[]);
        let moment = Moment {
            now: self.machine.now(),
            wall,
            stamp: &mut self.rig.stamp,
        };
        to(&self.rig.partitions[0], builder.build(), moment)
    }

    /// All of them while the disk is full; there is room again afterwards.
    fn refuse(&mut self, epoch: i16, sequences: &[i32]) {
        self.resize(1 << 20);
        assert!(self.rig.dir.is_full());
        for sequence in sequences {
            let sent = self.send(epoch, *sequence);
            assert!(
                matches!(sent, Err(AppendError::Storage { full: true })),
                "{sent:?}"
            );
        }
        self.resize(1 << 30);
        assert!(!self.rig.dir.is_full());
    }

    fn resize(&mut self, bytes: u64) {
        self.machine.faults(|faults| faults.disk_bytes = bytes);
        self.rig.work(&self.machine, 5 * SECOND, &mut self.known);
    }
}

#[test]
fn what_was_sent_behind_a_batch_that_found_no_room_does_not_overtake_it() {
    let mut sent = Sent::new(i64::MAX);
    sent.refuse(0, &[3, 4, 5]);
    for late in [4, 5] {
        let early = sent.send(0, late);
        assert!(
            matches!(
                early,
                Err(AppendError::Producer(ProducerError::OutOfOrderSequence { want, .. }))
                    if want == Sequence(3)
            ),
            "{early:?}"
        );
    }
    for sequence in [3, 4, 5] {
        sent.send(0, sequence).unwrap();
    }
}

/// librdkafka began a new epoch of its producer at the missing sequence, and sent again what waited at the leader and is stored.
#[test]
fn what_was_sent_behind_a_batch_that_a_silent_leader_refused_is_refused_alike() {
    for known in [true, false] {
        let mut sent = Sent::new(i64::MAX);
        let first = if known {
            sent.send(0, 0).unwrap();
            1
        } else {
            0
        };
        let refused = sent.refuse_silently(first);
        assert!(
            matches!(refused, AppendError::NotLeader { .. }),
            "{refused:?}"
        );
        for behind in [first + 1, first + 2] {
            let early = sent.send(0, behind);
            assert!(
                matches!(early, Err(AppendError::NotLeader { .. })),
                "{early:?}"
            );
        }
        for sequence in [first, first + 1, first + 2] {
            sent.send(0, sequence).unwrap();
        }
        // Whatever the client sent before it read the refusal has come by then: a gap is a gap again.
        sent.rig.work(&sent.machine, 11 * SECOND, &mut sent.known);
        let gap = sent.send(0, first + 4);
        assert!(
            matches!(
                gap,
                Err(AppendError::Producer(
                    ProducerError::OutOfOrderSequence { .. }
                ))
            ),
            "{gap:?}"
        );
    }
}

#[test]
fn a_producer_that_gave_up_what_found_no_room_begins_anew() {
    let mut sent = Sent::new(i64::MAX);
    sent.refuse(0, &[3, 4]);
    sent.send(1, 0).unwrap();

    let mut sent = Sent::new(i64::MAX);
    sent.refuse(0, &[3]);
    sent.send(0, 2).unwrap();
    sent.send(0, 3).unwrap();
    // Of one that is known nothing is noted: when it is forgotten, it may begin anywhere.
    sent.refuse(0, &[4]);
    sent.rig.residents.set_producer_expiration(1);
    sent.resize(1 << 30);
    sent.send(0, 5).unwrap();

    let mut sent = Sent::new(60_000);
    sent.refuse(0, &[3]);
    assert!(sent.send(0, 4).is_err());
    sent.rig.work(&sent.machine, 61 * SECOND, &mut sent.known);
    sent.send(0, 4).unwrap();
}
