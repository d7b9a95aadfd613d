//! Transactions in one partition: what may begin one, how far committed readers see, which aborted ones they are told of.

use log::producer::{Origin, ProducerError, marker_of};
use model::{LeaderEpoch, ProducerEpoch, ProducerId, Sequence};
use partition::{Appended, Bounds, Guard, Marker, Replicas, Warrant};
use wire::records::EndTxn;

use super::*;

const WALL: Timestamp = Timestamp(1_700_000_000_000);

pub(super) fn records(id: i64, sequence: i32, count: usize, in_txn: bool) -> Batch {
    let mut builder =
        BatchBuilder::new().producer(ProducerId(id), ProducerEpoch(0), Sequence(sequence));
    if in_txn {
        builder = builder.transactional();
    }
    for number in 0..count {
        builder.push(WALL, None, Some(&value("txn", number)), &[]);
    }
    builder.build()
}

pub(super) fn append(
    rig: &mut Rig,
    batch: Batch,
    warrant: Warrant,
) -> Result<Appended, AppendError> {
    let moment = Moment {
        now: model::Instant(0),
        wall: WALL,
        stamp: &mut rig.stamp,
    };
    rig.partitions[0].append_as(batch, Origin::Client, warrant, Acks::All(None), moment)
}

fn begin(rig: &mut Rig, id: i64, sequence: i32) {
    append(rig, records(id, sequence, 2, true), Warrant::Waived).unwrap();
}

pub(super) fn end(rig: &mut Rig, id: i64, committed: bool) -> Result<Appended, AppendError> {
    let marker = Marker {
        producer_id: ProducerId(id),
        producer_epoch: ProducerEpoch(0),
        end: EndTxn {
            committed,
            coordinator_epoch: 1,
        },
        transaction_version: 1,
    };
    end_by(rig, marker)
}

fn end_by(rig: &mut Rig, marker: Marker) -> Result<Appended, AppendError> {
    let moment = Moment {
        now: model::Instant(0),
        wall: WALL,
        stamp: &mut rig.stamp,
    };
    rig.partitions[0].append_marker(LeaderEpoch::NONE, marker, Acks::All(None), moment)
}

fn readable(rig: &Rig) -> Vec<u32> {
    let mut news = Vec::new();
    while rig.dir.commit(&mut news) == Commit::Done && rig.dir.has_queued() {}
    let index = |item: &News| match item {
        News::Readable(ticket) => Some(ticket.part),
        _ => None,
    };
    news.iter().filter_map(index).collect()
}

fn bounds(rig: &Rig) -> Bounds {
    rig.partitions[0].bounds()
}

/// The result for a reader of committed data from `from` on: batches, and aborted transactions as producer and first offset.
pub(super) fn committed(rig: &Rig, from: i64) -> (Vec<Batch>, Vec<(i64, i64)>) {
    let request = ReadRequest {
        scope: Scope::of_leader(Isolation::Committed),
        ..read_from(Offset(from))
    };
    let read = rig.partitions[0].read(request).unwrap();
    let batches = match read.records {
        Records::AtEnd => Vec::new(),
        Records::Memory(batches) => batches,
        Records::File(slice) => Batch::cut(&slice.read().unwrap(), Source::Log)
            .map_while(Result::ok)
            .collect(),
    };
    let aborted = read.aborted.iter();
    let aborted = aborted.map(|txn| (txn.producer_id.0, txn.first_offset.0));
    (batches, aborted.collect())
}

#[test]
fn a_committed_reader_stops_at_the_first_open_transaction() {
    let machine = machine(1);
    let mut rig = open(&machine, &[small_segments()]).unwrap();
    append(&mut rig, records(1, 0, 3, false), Warrant::None).unwrap();
    begin(&mut rig, 2, 0);
    append(&mut rig, records(1, 3, 1, false), Warrant::None).unwrap();
    readable(&rig);
    let now = bounds(&rig);
    assert_eq!(
        (now.high_watermark, now.last_stable),
        (Offset(6), Offset(3))
    );
    assert_eq!(committed(&rig, 0).0.len(), 1);
    assert_eq!(committed(&rig, 3).0.len(), 0, "behind it nothing is stable");
    assert_eq!(rig.read(0).len(), 6, "others see all");

    let partition = Arc::clone(&rig.partitions[0]);
    assert!(partition.watch(ticket(7), Offset(3), Scope::of_leader(Isolation::Committed)));
    assert!(partition.watch(
        ticket(8),
        Offset(6),
        Scope::of_leader(Isolation::Uncommitted)
    ));
    append(&mut rig, records(1, 4, 1, false), Warrant::None).unwrap();
    assert_eq!(readable(&rig), [8], "only the high watermark moved");
    end(&mut rig, 2, true).unwrap();
    assert_eq!(
        bounds(&rig).last_stable,
        Offset(3),
        "the marker is not committed"
    );
    assert_eq!(readable(&rig), [7]);
    assert_eq!(bounds(&rig).last_stable, Offset(8));
    assert!(!partition.watch(ticket(7), Offset(3), Scope::of_leader(Isolation::Committed)));
    assert_eq!(committed(&rig, 3).1, [], "it was not aborted");
}

#[test]
fn aborted_transactions_are_told_from_memory_from_files_and_after_restarts() {
    for (written, power_cut) in [(false, false), (false, true), (true, false), (true, true)] {
        let machine = machine(1);
        let mut rig = open(&machine, &[small_segments()]).unwrap();
        for round in 0..20 {
            begin(&mut rig, 1, round * 2);
            begin(&mut rig, 2, round * 2);
            end(&mut rig, 1, round % 2 == 0).unwrap();
            end(&mut rig, 2, round % 3 == 0).unwrap();
            readable(&rig);
        }
        if written {
            rig.stop();
        }
        if power_cut {
            drop(rig);
            machine.power_cut();
            rig = open(&machine, &[small_segments()]).unwrap();
        }
        let (batches, told) = committed(&rig, 30);
        let upto = batches.last().unwrap().next_offset().0;
        let must: Vec<_> = aborted_by_rounds()
            .filter(|(_, first, last)| 30 <= *last && *first < upto)
            .map(|(id, first, _)| (id, first))
            .collect();
        assert!(!must.is_empty());
        assert!(
            must.iter().all(|txn| told.contains(txn)),
            "{must:?} {told:?}"
        );
        let all: Vec<_> = aborted_by_rounds()
            .map(|(id, first, _)| (id, first))
            .collect();
        assert!(told.iter().all(|txn| all.contains(txn)), "{told:?}");
        assert!(told.len() < all.len(), "only those about the slice");
    }
}

/// Rounds of six offsets: two batches of two records, two markers.
fn aborted_by_rounds() -> impl Iterator<Item = (i64, i64, i64)> {
    (0..20).flat_map(|round| {
        let first = (round % 2 != 0).then_some((1, round * 6, round * 6 + 4));
        let second = (round % 3 != 0).then_some((2, round * 6 + 2, round * 6 + 5));
        first.into_iter().chain(second)
    })
}

#[test]
fn a_transaction_begins_only_with_a_warrant_and_a_marker_takes_it_away() {
    let machine = machine(1);
    let mut rig = open(&machine, &[small_segments()]).unwrap();
    let refused = |result| matches!(result, Err(AppendError::NoTransaction));
    assert!(refused(append(
        &mut rig,
        records(5, 0, 1, true),
        Warrant::None
    )));

    let guard = |rig: &Rig| -> Option<Guard> {
        rig.partitions[0]
            .begin_verification(ProducerId(5), ProducerEpoch(0), None)
            .unwrap()
    };
    let first = guard(&rig).unwrap();
    assert_eq!(guard(&rig), Some(first), "one transaction, one guard");
    end(&mut rig, 5, false).unwrap();
    let late = append(&mut rig, records(5, 0, 1, true), Warrant::Verified(first));
    assert!(
        refused(late),
        "the transaction it was verified for has ended"
    );

    let second = guard(&rig).unwrap();
    assert_ne!(first, second);
    append(&mut rig, records(5, 0, 1, true), Warrant::Verified(second)).unwrap();
    assert_eq!(guard(&rig), None, "an open transaction asks nobody");
    append(&mut rig, records(5, 1, 1, true), Warrant::None).unwrap();
    let again = append(&mut rig, records(5, 1, 1, true), Warrant::None).unwrap();
    assert_eq!(
        again.base_offset,
        Offset(2),
        "a duplicate is answered as before"
    );
    let outside = append(&mut rig, records(5, 2, 1, false), Warrant::None);
    assert!(matches!(
        outside,
        Err(AppendError::Producer(ProducerError::InvalidTxnState { .. }))
    ));

    let released = guard(&rig);
    assert_eq!(released, None);
    end(&mut rig, 5, true).unwrap();
    let third = guard(&rig).unwrap();
    rig.partitions[0].end_verification(ProducerId(5), third);
    assert!(refused(append(
        &mut rig,
        records(5, 2, 1, true),
        Warrant::Verified(third)
    )));
}

/// Since transactions version 2 the marker that ends a transaction has the epoch of the next one.
#[test]
fn a_marker_leaves_the_guard_of_the_transaction_that_waits_for_it() {
    let machine = machine(1);
    let mut rig = open(&machine, &[small_segments()]).unwrap();
    let (id, next) = (ProducerId(5), ProducerEpoch(1));
    append(&mut rig, records(5, 0, 1, true), Warrant::Waived).unwrap();
    let marker = |epoch| Marker {
        producer_id: id,
        producer_epoch: ProducerEpoch(epoch),
        end: EndTxn {
            committed: true,
            coordinator_epoch: 1,
        },
        transaction_version: 2,
    };

    let guard = rig.partitions[0].begin_verification(id, next, Some(Sequence(0)));
    let guard = guard.unwrap().unwrap();
    end_by(&mut rig, marker(1)).unwrap();
    append(&mut rig, of_epoch(1), Warrant::Verified(guard)).unwrap();

    end_by(&mut rig, marker(2)).unwrap();
    let late = append(&mut rig, of_epoch(1), Warrant::Verified(guard));
    assert!(late.is_err(), "that transaction has ended: {late:?}");
}

/// A fenced producer goes on asking for a while, and hears so from the coordinator.
#[test]
fn an_older_epoch_does_not_take_the_guard_of_its_successor() {
    for asked in [[2, 1], [1, 2]] {
        let machine = machine(1);
        let mut rig = open(&machine, &[small_segments()]).unwrap();
        let id = ProducerId(5);
        let [first, second] = asked.map(|epoch| {
            let (epoch, sequence) = (ProducerEpoch(epoch), Some(Sequence(0)));
            let guard = rig.partitions[0].begin_verification(id, epoch, sequence);
            guard.unwrap().unwrap()
        });
        let (of_old, of_new) = match asked {
            [2, 1] => (second, first),
            _ => (first, second),
        };
        rig.partitions[0].end_verification(id, of_old);
        append(&mut rig, of_epoch(2), Warrant::Verified(of_new)).unwrap();
    }
}

/// Its transaction was aborted in the meantime, and the marker has the next epoch.
#[test]
fn who_is_fenced_is_told_so_and_not_that_no_transaction_is_open() {
    let is_fenced = |error: &ProducerError| {
        let current = ProducerEpoch(1);
        matches!(error, ProducerError::InvalidEpoch { current: seen, .. } if *seen == current)
    };
    let machine = machine(1);
    let mut rig = open(&machine, &[small_segments()]).unwrap();
    let guard = rig.partitions[0].begin_verification(ProducerId(5), ProducerEpoch(0), None);
    let guard = guard.unwrap().unwrap();
    append(&mut rig, of_epoch(0), Warrant::Verified(guard)).unwrap();
    let marker = Marker {
        producer_id: ProducerId(5),
        producer_epoch: ProducerEpoch(1),
        end: EndTxn {
            committed: false,
            coordinator_epoch: 1,
        },
        transaction_version: 2,
    };
    end_by(&mut rig, marker).unwrap();
    for warrant in [Warrant::None, Warrant::Waived, Warrant::Verified(guard)] {
        let late = append(&mut rig, records(5, 1, 1, true), warrant);
        assert!(
            matches!(&late, Err(AppendError::Producer(error)) if is_fenced(error)),
            "{warrant:?}: {late:?}"
        );
    }
    let asked = rig.partitions[0].begin_verification(ProducerId(5), ProducerEpoch(0), None);
    assert!(asked.is_err_and(|error| is_fenced(&error)));
}

/// The first batch of producer 5 in a transaction.
fn of_epoch(epoch: i16) -> Batch {
    let builder = BatchBuilder::new().producer(ProducerId(5), ProducerEpoch(epoch), Sequence(0));
    let mut builder = builder.transactional();
    builder.push(WALL, None, Some(&value("txn", 1)), &[]);
    builder.build()
}

/// The first batch was refused, as its transaction before was not over; the second was sent behind it and is verified when it is.
#[test]
fn a_batch_that_was_sent_behind_a_refused_one_does_not_begin_in_its_place() {
    let machine = machine(1);
    let mut rig = open(&machine, &[small_segments()]).unwrap();
    let (id, epoch) = (ProducerId(5), ProducerEpoch(0));
    let guard = |rig: &Rig, first| {
        let first = Some(Sequence(first));
        let guard = rig.partitions[0].begin_verification(id, epoch, first);
        guard.unwrap().unwrap()
    };
    let refused = guard(&rig, 0);
    rig.partitions[0].end_verification(id, refused);

    let early = guard(&rig, 2);
    let result = append(&mut rig, records(5, 2, 1, true), Warrant::Verified(early));
    assert!(matches!(
        result,
        Err(AppendError::Producer(ProducerError::OutOfOrderSequence { want, .. })) if want == Sequence(0)
    ));
    rig.partitions[0].end_verification(id, early);

    let again = guard(&rig, 0);
    append(&mut rig, records(5, 0, 2, true), Warrant::Verified(again)).unwrap();
    rig.partitions[0].end_verification(id, again);
    append(&mut rig, records(5, 2, 1, true), Warrant::None).unwrap();
    end(&mut rig, 5, true).unwrap();

    // Known by now: a later batch begins the next transaction, and nothing of the first is remembered.
    let next = guard(&rig, 3);
    append(&mut rig, records(5, 3, 1, true), Warrant::Verified(next)).unwrap();
}

/// This broker was no leader when the first came, or had too few replicas in sync, and was well when the second did.
#[test]
fn a_batch_that_was_sent_behind_one_that_no_leader_took_does_not_begin_in_its_place() {
    let machine = machine(1);
    let mut rig = open(&machine, &[small_segments()]).unwrap();
    let leading = |others: &[i32]| {
        let all: Vec<BrokerId> = [1].iter().chain(others).copied().map(BrokerId).collect();
        Role::Leading(Replicas {
            me: BrokerId(1),
            in_sync: vec![BrokerId(1)],
            all,
            partition_epoch: 0,
        })
    };
    let few = LogConfig {
        in_sync_replicas_min: 2,
        ..small_segments()
    };
    type Trouble<'a> = (&'a dyn Fn(&mut Rig), &'a dyn Fn(&mut Rig));
    let troubles: [Trouble<'_>; 2] = [
        (
            &|rig| {
                set_role(&rig.partitions[0], 3, Role::NotLeading);
                append(rig, records(6, 0, 2, false), Warrant::None).unwrap_err();
            },
            &|rig| {
                set_role(&rig.partitions[0], 4, leading(&[]));
            },
        ),
        (
            &|rig| {
                set_role(&rig.partitions[0], 5, leading(&[2]));
                rig.partitions[0].set_config(Arc::new(few.clone()), &mut Vec::new());
                append(rig, records(7, 0, 2, false), Warrant::None).unwrap_err();
            },
            &|rig| {
                rig.partitions[0].set_config(Arc::new(small_segments()), &mut Vec::new());
            },
        ),
    ];
    for (id, (begin, end)) in (6..).zip(troubles) {
        begin(&mut rig);
        end(&mut rig);
        let behind = append(&mut rig, records(id, 2, 1, false), Warrant::None);
        assert!(
            matches!(
                (id, &behind),
                (6, Err(AppendError::NotLeader { .. }))
                    | (7, Err(AppendError::TooFewReplicas { .. }))
            ),
            "{behind:?}"
        );
        append(&mut rig, records(id, 0, 2, false), Warrant::None).unwrap();
        append(&mut rig, records(id, 2, 1, false), Warrant::None).unwrap();
    }
}

/// The leader before refused the first, and the second was sent to this one when the client had heard of it. A producer that was idle goes
/// on with the batch that it sends again, because nothing in front of that is under way.
#[test]
fn in_a_new_leadership_a_producer_begins_with_its_first_batch_or_with_one_that_comes_again() {
    let machine = machine(1);
    let mut rig = open(&machine, &[small_segments()]).unwrap();
    let role = Role::Leading(Replicas {
        me: BrokerId(1),
        all: vec![BrokerId(1), BrokerId(2)],
        in_sync: vec![BrokerId(1)],
        partition_epoch: 0,
    });
    set_role(&rig.partitions[0], 3, role);
    let begun = machine.now();
    let append = |rig: &mut Rig, batch, after| {
        let moment = Moment {
            now: begun.plus(after),
            wall: WALL,
            stamp: &mut rig.stamp,
        };
        rig.partitions[0].append(batch, Acks::None, moment)
    };
    for (id, sequence) in [(5, 2), (6, 1), (7, 3), (7, 2)] {
        let behind = append(&mut rig, records(id, sequence, 1, false), SECOND);
        assert!(matches!(behind, Err(AppendError::NewLeader { .. })));
    }
    append(&mut rig, records(5, 0, 2, false), SECOND).unwrap();
    append(&mut rig, records(5, 2, 1, false), SECOND).unwrap();
    append(&mut rig, records(6, 1, 1, false), SECOND).unwrap();
    // One behind the lowest that was refused is no beginning.
    let behind = append(&mut rig, records(7, 3, 1, false), SECOND);
    assert!(matches!(
        behind,
        Err(AppendError::Producer(ProducerError::OutOfOrderSequence { want, .. })) if want == Sequence(2)
    ));
    append(&mut rig, records(7, 2, 1, false), SECOND).unwrap();
    append(&mut rig, records(9, 2, 1, false), 4 * SECOND).unwrap();
}

/// Earlier batches are lost, or are still to come; of an older client its records may have been deleted.
#[test]
fn where_each_transaction_has_an_epoch_the_first_batch_has_the_first_sequence() {
    let machine = machine(1);
    let mut rig = open(&machine, &[small_segments()]).unwrap();
    let guard = |rig: &Rig, id| {
        let asked = rig.partitions[0].begin_verification(ProducerId(id), ProducerEpoch(0), None);
        asked.unwrap().unwrap()
    };
    let added = Warrant::Added(guard(&rig, 5));
    let gap = append(&mut rig, records(5, 5, 1, true), added);
    assert!(matches!(
        gap,
        Err(AppendError::Producer(ProducerError::OutOfOrderSequence { got, want, .. }))
            if (got, want) == (Sequence(5), Sequence(0))
    ));
    append(&mut rig, records(5, 0, 1, true), added).unwrap();
    append(&mut rig, records(5, 1, 1, true), Warrant::None).unwrap();
    let verified = Warrant::Verified(guard(&rig, 6));
    append(&mut rig, records(6, 5, 1, true), verified).unwrap();
}

/// Random producers begin, write and end transactions while the segment writer works and the power fails: last stable offset,
/// open transactions and aborted ones are always those that a plain walk over the log finds.
#[test]
fn transactions_are_what_the_log_says_after_every_power_cut() {
    for seed in 0..40 {
        let machine = machine(seed);
        let env = machine.env();
        let mut rig = open(&machine, &[small_segments()]).unwrap();
        for step in 0..150 {
            let id = (env.rng.next_u64() % 4) as i64;
            let next = rig.partitions[0].producers(|all| {
                let producer = all.get(ProducerId(id));
                producer.and_then(|of| of.last().map(|last| last.last_sequence.0 + 1))
            });
            match env.rng.next_u64() % 12 {
                0..6 => {
                    let batch = records(id, next.unwrap_or(0), 1 + step % 3, true);
                    append(&mut rig, batch, Warrant::Waived).unwrap();
                }
                6..9 => {
                    end(&mut rig, id, env.rng.next_u64().is_multiple_of(2)).unwrap();
                }
                9 => {
                    readable(&rig);
                    check_against_log(&rig, seed);
                }
                10 => {
                    readable(&rig);
                    rig.work(&machine, SECOND, &mut []);
                }
                _ => {
                    if env.rng.next_u64().is_multiple_of(3) {
                        rig.stop();
                    }
                    drop(rig);
                    machine.power_cut();
                    rig = open(&machine, &[small_segments()]).unwrap();
                    check_against_log(&rig, seed);
                }
            }
        }
    }
}

fn check_against_log(rig: &Rig, seed: u64) {
    let now = bounds(rig);
    let mut open: BTreeMap<i64, i64> = BTreeMap::new();
    let mut aborted = Vec::new();
    let mut next = Offset::ZERO;
    while next < now.high_watermark {
        for batch in plan(&rig.partitions[0], next).unwrap() {
            let (id, at) = (batch.producer_id().0, batch.base_offset().0);
            match marker_of(&batch) {
                Some(end) => {
                    let first = open.remove(&id).filter(|_| !end.committed);
                    aborted.extend(first.map(|first| (id, first, at)));
                }
                None => {
                    open.entry(id).or_insert(at);
                }
            }
            next = batch.next_offset();
        }
    }
    let stable = open.values().min().copied();
    let stable = stable.unwrap_or(now.high_watermark.0);
    if now.log_end == now.high_watermark {
        assert_eq!(now.last_stable.0, stable, "seed {seed}");
    }
    let mut from = 0;
    while from < now.last_stable.0 {
        let (batches, told) = committed(rig, from);
        let upto = batches.last().unwrap().next_offset().0;
        assert!(upto <= now.last_stable.0);
        for (id, first, last) in &aborted {
            let touches = from <= *last && *first < upto;
            let is_told = told.contains(&(*id, *first));
            assert!(!touches || is_told, "seed {seed}: {id} {first} {last}");
        }
        let all = aborted.iter().map(|(id, first, _)| (*id, *first));
        let all: Vec<_> = all.collect();
        assert!(told.iter().all(|txn| all.contains(txn)), "seed {seed}");
        from = upto;
    }
}
