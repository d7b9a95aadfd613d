//! Sequences, epochs and transactions of producers as Kafka 4.3 judges them.

use model::{Offset, ProducerEpoch, ProducerId, Sequence, Timestamp};
use wire::records::{Batch, BatchBuilder, EndTxn, end_txn_batch};

use super::*;

const ID: ProducerId = ProducerId(7);

fn batch(epoch: i16, sequence: i32, count: i32) -> Batch {
    let mut builder = BatchBuilder::new().producer(ID, ProducerEpoch(epoch), Sequence(sequence));
    for _ in 0..count {
        builder.push(Timestamp(1000), None, Some(b"v"), &[]);
    }
    builder.build()
}

fn in_txn(epoch: i16, sequence: i32, id: i64) -> Batch {
    let mut builder = BatchBuilder::new()
        .producer(ProducerId(id), ProducerEpoch(epoch), Sequence(sequence))
        .transactional();
    builder.push(Timestamp(1000), None, Some(b"v"), &[]);
    builder.build()
}

/// Checks and applies as a leader does.
fn append(states: &mut ProducerStates, mut batch: Batch) -> Result<Verdict, ProducerError> {
    let verdict = states.check(&batch, Origin::Client)?;
    if verdict == Verdict::New {
        batch.set_base_offset(states.end());
        states.apply(&batch, None);
    }
    Ok(verdict)
}

fn end_txn(
    states: &mut ProducerStates,
    id: i64,
    epoch: i16,
    committed: bool,
) -> Option<CompletedTxn> {
    let end = EndTxn {
        committed,
        coordinator_epoch: 3,
    };
    let mut marker = end_txn_batch(ProducerId(id), ProducerEpoch(epoch), end, Timestamp(2000));
    marker.set_base_offset(states.end());
    states.apply(&marker, Some(end))
}

#[test]
fn a_repeated_batch_gets_the_first_answer_while_it_is_among_the_last_five() {
    let mut states = ProducerStates::new(Offset(100));
    for i in 0..6 {
        assert_eq!(append(&mut states, batch(0, i * 10, 10)), Ok(Verdict::New));
    }
    for i in 1..6 {
        let Ok(Verdict::Duplicate(first)) = append(&mut states, batch(0, i * 10, 10)) else {
            panic!("batch {i} is remembered")
        };
        assert_eq!(first.base_offset(), Offset(100 + i64::from(i) * 10));
        assert_eq!(first.last_offset, Offset(109 + i64::from(i) * 10));
    }
    let forgotten = append(&mut states, batch(0, 0, 10));
    assert_eq!(
        forgotten,
        Err(ProducerError::OutOfOrderSequence {
            id: ID,
            got: Sequence(0),
            want: Sequence(60)
        })
    );
    assert_eq!(states.end(), Offset(160), "duplicates take no offsets");
}

#[test]
fn a_gap_and_a_part_of_a_batch_are_out_of_order() {
    let mut states = ProducerStates::default();
    append(&mut states, batch(0, 0, 3)).unwrap();
    let gap = |got| {
        Err(ProducerError::OutOfOrderSequence {
            id: ID,
            got: Sequence(got),
            want: Sequence(3),
        })
    };
    assert_eq!(append(&mut states, batch(0, 4, 1)), gap(4));
    assert_eq!(append(&mut states, batch(0, 0, 2)), gap(0));
    assert_eq!(append(&mut states, batch(0, 1, 2)), gap(1));
    assert_eq!(append(&mut states, batch(0, 3, 1)), Ok(Verdict::New));
}

#[test]
fn sequences_wrap_after_the_largest() {
    let mut states = ProducerStates::default();
    assert_eq!(
        append(&mut states, batch(0, i32::MAX - 1, 4)),
        Ok(Verdict::New),
        "unknown: any sequence begins"
    );
    assert_eq!(
        states.get(ID).unwrap().last().unwrap().last_sequence,
        Sequence(1)
    );
    assert!(matches!(
        append(&mut states, batch(0, i32::MAX - 1, 4)),
        Ok(Verdict::Duplicate(_))
    ));
    assert_eq!(append(&mut states, batch(0, 2, 1)), Ok(Verdict::New));
}

#[test]
fn a_new_epoch_starts_at_zero_and_fences_the_old() {
    let mut states = ProducerStates::default();
    append(&mut states, batch(1, 0, 3)).unwrap();
    let error = append(&mut states, batch(2, 3, 1));
    assert_eq!(
        error,
        Err(ProducerError::OutOfOrderSequence {
            id: ID,
            got: Sequence(3),
            want: Sequence(0)
        })
    );
    assert_eq!(append(&mut states, batch(2, 0, 1)), Ok(Verdict::New));
    let fenced = append(&mut states, batch(1, 3, 1));
    let (got, current) = (ProducerEpoch(1), ProducerEpoch(2));
    assert_eq!(
        fenced,
        Err(ProducerError::InvalidEpoch {
            id: ID,
            got,
            current
        })
    );
    assert_eq!(
        states.get(ID).unwrap().written().len(),
        1,
        "batches of the old epoch are gone"
    );
}

#[test]
fn batches_without_producer_and_from_the_leader_pass() {
    let mut states = ProducerStates::default();
    append(&mut states, batch(5, 0, 3)).unwrap();
    let mut plain = BatchBuilder::new();
    plain.push(Timestamp(1), None, None, &[]);
    assert_eq!(append(&mut states, plain.build()), Ok(Verdict::New));
    assert_eq!(
        states.check(&batch(0, 77, 1), Origin::Replica),
        Ok(Verdict::New)
    );
    assert_eq!(states.end(), Offset(4));
}

#[test]
fn an_open_transaction_holds_the_stable_offset_until_its_marker_is_replicated() {
    let mut states = ProducerStates::new(Offset(10));
    append(&mut states, in_txn(0, 0, 1)).unwrap();
    append(&mut states, in_txn(0, 0, 2)).unwrap();
    append(&mut states, in_txn(0, 1, 1)).unwrap();
    assert!(states.has_open_txn(ProducerId(1), ProducerEpoch(0)));
    assert_eq!(states.first_unstable(), Some(Offset(10)));
    let completed = end_txn(&mut states, 1, 0, false).unwrap();
    assert_eq!(
        (completed.first_offset, completed.last_offset),
        (Offset(10), Offset(13))
    );
    assert!(completed.aborted);
    assert_eq!(
        completed.last_stable_offset,
        Offset(11),
        "the other one is open"
    );
    assert_eq!(
        states.first_unstable(),
        Some(Offset(10)),
        "the marker is not replicated"
    );
    states.on_high_watermark(Offset(13));
    assert_eq!(
        states.first_unstable(),
        Some(Offset(10)),
        "the watermark must pass the marker"
    );
    states.on_high_watermark(Offset(14));
    assert_eq!(states.first_unstable(), Some(Offset(11)));
    let completed = end_txn(&mut states, 2, 0, true).unwrap();
    assert!(!completed.aborted);
    assert_eq!(completed.last_stable_offset, Offset(15));
    states.on_high_watermark(Offset(15));
    assert_eq!(states.first_unstable(), None);
    assert_eq!(end_txn(&mut states, 2, 0, true), None, "nothing open");
}

#[test]
fn a_plain_batch_inside_a_transaction_is_refused() {
    let mut states = ProducerStates::default();
    append(&mut states, in_txn(0, 0, ID.0)).unwrap();
    assert_eq!(
        append(&mut states, batch(0, 1, 1)),
        Err(ProducerError::InvalidTxnState { id: ID })
    );
}

#[test]
fn markers_of_old_epochs_and_coordinators_are_fenced() {
    let mut states = ProducerStates::default();
    append(&mut states, in_txn(4, 0, ID.0)).unwrap();
    let end = |coordinator_epoch| EndTxn {
        committed: true,
        coordinator_epoch,
    };
    let old = states.check_marker(ID, ProducerEpoch(3), end(1), 1);
    assert!(matches!(old, Err(ProducerError::InvalidEpoch { .. })));
    assert_eq!(states.check_marker(ID, ProducerEpoch(4), end(1), 1), Ok(()));
    let same = states.check_marker(ID, ProducerEpoch(4), end(1), 2);
    assert!(
        matches!(same, Err(ProducerError::InvalidEpoch { .. })),
        "version 2 bumps the epoch"
    );
    assert_eq!(states.check_marker(ID, ProducerEpoch(5), end(1), 2), Ok(()));
    end_txn(&mut states, ID.0, 5, true).unwrap();
    assert_eq!(
        states.check_marker(ID, ProducerEpoch(5), end(3), 2),
        Ok(()),
        "a repeated marker"
    );
    let fenced = states.check_marker(ID, ProducerEpoch(6), end(2), 2);
    assert_eq!(
        fenced,
        Err(ProducerError::CoordinatorFenced {
            id: ID,
            got: 2,
            current: 3
        })
    );
}

#[test]
fn silent_producers_expire_unless_their_transaction_is_open() {
    let mut states = ProducerStates::default();
    append(&mut states, batch(0, 0, 1)).unwrap();
    append(&mut states, in_txn(0, 0, 8)).unwrap();
    assert_eq!(states.expire(Timestamp(1099), 100), 0);
    assert_eq!(states.expire(Timestamp(1100), 100), 1);
    assert!(states.get(ProducerId(8)).is_some());
    assert_eq!(
        append(&mut states, batch(0, 50, 1)),
        Ok(Verdict::New),
        "forgotten means any sequence"
    );
}

#[test]
fn a_snapshot_keeps_all_five_batches_and_open_transactions() {
    let mut states = ProducerStates::new(Offset(5));
    for i in 0..7 {
        append(&mut states, batch(2, i, 1)).unwrap();
    }
    append(&mut states, in_txn(0, 0, 8)).unwrap();
    end_txn(&mut states, 9, 4, true);
    let bytes = states.encode();
    let read = ProducerStates::decode(&bytes, states.end()).unwrap();
    assert_eq!(read, states);
    for at in 0..bytes.len() {
        let mut bad = bytes.clone();
        bad[at] ^= 1;
        assert!(
            ProducerStates::decode(&bad, states.end()).is_err(),
            "byte {at}"
        );
        assert!(
            ProducerStates::decode(&bytes[..at], states.end()).is_err(),
            "cut at {at}"
        );
    }
}

/// Found by fuzzing: it was believed, and the next snapshot of the same states could not be read.
#[test]
fn a_snapshot_with_a_batch_that_none_can_be_does_not_verify() {
    let mut states = ProducerStates::new(Offset(0));
    append(&mut states, batch(0, 0, 3)).unwrap();
    let bytes = states.encode();
    let (offset, delta) = (bytes.len() - 20, bytes.len() - 12);
    for at in [offset, delta] {
        let mut bad = bytes.clone();
        bad[at] |= 0x80;
        let crc = crate::crc32c(&bad[6..]);
        bad[2..6].copy_from_slice(&crc.to_be_bytes());
        let read = ProducerStates::decode(&bad, states.end());
        assert!(matches!(read, Err(SnapshotError::Damaged)), "{at}");
    }
}

/// Found by fuzzing: a transaction that nobody could end was open then, and readers of committed records waited before it.
#[test]
fn a_snapshot_with_two_producers_of_one_id_or_transactions_at_one_offset_does_not_verify() {
    const ENTRY: usize = 46;
    let mut states = ProducerStates::new(Offset(0));
    append(&mut states, in_txn(0, 0, 1)).unwrap();
    append(&mut states, in_txn(1, 0, 2)).unwrap();
    let bytes = states.encode();
    assert!(ProducerStates::decode(&bytes, states.end()).is_ok());
    // Of two entries, their ids and the starts of their transactions.
    for field in [0..8, 38..46] {
        let from = 10 + field.start..10 + field.end;
        let mut bad = bytes.clone();
        bad.copy_within(from, 10 + ENTRY + field.start);
        let crc = crate::crc32c(&bad[6..]);
        bad[2..6].copy_from_slice(&crc.to_be_bytes());
        let read = ProducerStates::decode(&bad, states.end());
        assert!(matches!(read, Err(SnapshotError::Damaged)), "{field:?}");
    }
}
