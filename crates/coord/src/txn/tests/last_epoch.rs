//! Producers that have used up the epochs of their id.

use super::*;

#[test]
fn used_up_epochs_bring_another_producer_id() {
    let mut rig = Rig::default();
    rig.init();
    let last = rig.wear_out();
    assert_eq!(last, epoch(1, i16::MAX - 1));
    rig.add(last, 0, 2).unwrap();
    let next = rig.end(last, true, 2).unwrap();
    assert_eq!(next, epoch(2, 0));
    assert_eq!(rig.markers[0].producer, epoch(1, i16::MAX));
    rig.mark_all();
    assert_eq!(
        rig.end(last, true, 2),
        Ok(next),
        "a repeat under the old id"
    );
    rig.add(next, 0, 2).unwrap();
    let unknown = Err(ErrorCode::InvalidProducerIdMapping);
    assert_eq!(rig.end(last, true, 2), unknown);
}

/// The next transaction has an id that takes over with the markers.
#[test]
fn who_goes_on_under_the_next_id_waits_for_it() {
    let mut rig = Rig::default();
    rig.init();
    let last = rig.wear_out();
    rig.add(last, 0, 2).unwrap();
    let next = rig.end(last, true, 2).unwrap();
    assert_eq!(next, epoch(2, 0));
    let wait = Err(ErrorCode::ConcurrentTransactions);
    assert_eq!(rig.end(next, false, 2), wait);
    assert_eq!(rig.init_as(Some(next)), wait);
    rig.mark_all();
    assert_eq!(rig.end(next, false, 2), Ok(epoch(2, 1)));
}

/// A machine whose producer has used up its epochs and lets its last transaction time out; and that producer.
fn late_at_the_end_of_its_epochs(version: i16) -> (Rig, Producer) {
    let mut rig = Rig::default();
    rig.machine.settings.abort_check = Duration::from_millis(1);
    rig.machine.set_level(EPOCH_PER_TXN);
    rig.init();
    let last = rig.wear_out();
    rig.add(last, 0, version).unwrap();
    rig.wall += 60_001;
    (rig, last)
}

#[test]
fn a_late_transaction_of_the_last_epoch_is_followed_by_another_id() {
    let (mut rig, last) = late_at_the_end_of_its_epochs(2);
    let step = rig.tick();
    rig.perform(step);
    assert_eq!(rig.markers[0].producer, epoch(1, i16::MAX));
    rig.mark_all();
    let next = epoch(2, 0);
    assert_eq!(rig.end(last, false, 2), Ok(next), "the abort comes late");
    assert_eq!(rig.add(next, 0, 2), Ok(()));
    assert_eq!(rig.end(next, true, 2), Ok(epoch(2, 1)));
}

/// Its epoch is the marker's, which nobody may write with: such a batch would be older than no marker.
#[test]
fn where_no_other_id_is_at_hand_the_last_epoch_is_given_to_nobody() {
    for version in [0, 2] {
        let (mut rig, last) = late_at_the_end_of_its_epochs(version);
        let at = rig.at();
        let step = rig.machine.tick(at, &|| None);
        rig.perform(step);
        rig.mark_all();
        let marker = epoch(1, i16::MAX);
        assert_eq!(rig.machine.txns["t"].producer, marker);
        for producer in [last, marker] {
            let fenced = Err(ErrorCode::ProducerFenced);
            assert_eq!(rig.end(producer, false, version), fenced);
            assert_eq!(rig.end(producer, true, version), fenced);
            assert_eq!(
                rig.add(producer, 0, version),
                Err(ErrorCode::ProducerFenced)
            );
        }
        assert_eq!(rig.state(), TxnState::CompleteAbort);
        let next = rig.init();
        assert_eq!((next.id > last.id, next.epoch), (true, ProducerEpoch(0)));
    }
}

/// An older build let producers go on with it, and what they began is in the log.
#[test]
fn a_transaction_of_the_markers_epoch_ends_with_a_marker_that_is_taken() {
    let held = || {
        let (mut rig, last) = late_at_the_end_of_its_epochs(2);
        let mut held = rig.machine.txns["t"].clone();
        held.producer = epoch(1, i16::MAX);
        (rig.wall, held.start) = (LATER, Timestamp(LATER));
        let record = held.record("t");
        rig.machine.replay(&record);
        assert_eq!(rig.end(last, false, 2), Err(ErrorCode::ProducerFenced));
        (rig, held)
    };
    let aborted = |rig: &mut Rig| {
        let markers = &rig.markers[0];
        assert_eq!(markers.producer, epoch(1, i16::MAX));
        assert_eq!((markers.version, markers.committed), (0, false));
        rig.mark_all();
        assert_eq!(rig.state(), TxnState::CompleteAbort);
    };
    let (mut rig, _) = held();
    rig.wall += 60_001;
    let step = rig.tick();
    rig.perform(step);
    aborted(&mut rig);

    let (mut rig, _) = held();
    assert_eq!(rig.init_as(None), Err(ErrorCode::ConcurrentTransactions));
    aborted(&mut rig);
    assert!(rig.init().id > ProducerId(1));

    // It was committed, and never became visible.
    let (mut rig, held) = held();
    let prepared = Txn {
        state: TxnState::PrepareCommit,
        ..held
    };
    rig.log.push(prepared.record("t"));
    rig.restart();
    assert_eq!(
        (rig.markers[0].version, rig.markers[0].committed),
        (0, true)
    );
}

#[test]
fn a_producer_id_that_was_used_up_is_forgotten_when_its_successor_goes_on() {
    let mut rig = Rig::default();
    rig.init();
    let last = rig.wear_out();
    rig.add(last, 0, 2).unwrap();
    let next = rig.end(last, true, 2).unwrap();
    rig.mark_all();
    rig.add(next, 0, 2).unwrap();
    let fenced = Err(ErrorCode::ProducerFenced);
    assert_eq!(rig.init_as(Some(last)), fenced, "it aborts nothing");
    assert_eq!(rig.state(), TxnState::Ongoing);
    assert_eq!(rig.machine.txns["t"].previous_id, ProducerId::NONE);
    rig.end(next, true, 2).unwrap();
    rig.mark_all();
    assert_eq!(rig.init_as(Some(last)), fenced);
    let unknown = Err(ErrorCode::InvalidProducerIdMapping);
    assert_eq!(rig.end(last, true, 2), unknown);
}

#[test]
fn who_recovers_in_the_last_epoch_goes_on_with_another_id() {
    let (mut rig, last) = late_at_the_end_of_its_epochs(2);
    let step = rig.tick();
    rig.perform(step);
    rig.mark_all();
    assert_eq!(rig.init_as(Some(last)), Ok(epoch(2, 0)));
    assert_eq!(
        rig.init_as(Some(last)),
        Ok(epoch(2, 0)),
        "the answer was lost"
    );

    // No other id was at hand.
    let (mut rig, last) = late_at_the_end_of_its_epochs(2);
    let at = rig.at();
    let step = rig.machine.tick(at, &|| None);
    rig.perform(step);
    rig.mark_all();
    let next = rig.init_as(Some(last)).unwrap();
    assert_eq!(next, epoch(2, 0));
    assert_eq!(rig.init_as(Some(last)), Ok(next), "the answer was lost");
}
