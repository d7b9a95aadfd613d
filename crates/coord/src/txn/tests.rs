//! Transactions by script, and a random model with a restart after any step.

use std::cell::Cell;

use super::*;
use crate::ticket;

mod last_epoch;
mod late;

const LATER: i64 = 1_000_000;

/// A machine with its log: every step is written and replayed, as the driver does.
#[derive(Default)]
struct Rig {
    machine: Transactions,
    log: Vec<TransactionRecord>,
    markers: Vec<Markers>,
    ids: i64,
    wall: i64,
    /// How far the wall clock was set back; the other clock goes on.
    set_back: i64,
}

impl Rig {
    fn at(&self) -> Moment {
        Moment {
            now: Instant(self.wall as u64 * 1_000_000),
            wall: Timestamp(self.wall - self.set_back),
        }
    }

    fn perform(&mut self, step: Decision) -> Vec<Answer> {
        for record in step.records {
            let (key, value) = record.encode(self.machine.record_version(&record)).unwrap();
            let read = TransactionRecord::decode(key, value).unwrap();
            assert_eq!(read, record);
            self.machine.replay(&record);
            self.log.push(record);
        }
        self.markers.extend(step.effects);
        step.answers
            .into_iter()
            .map(|reply| reply.into_parts().1)
            .collect()
    }

    fn ask(&mut self, mut ask: Ask) -> Answer {
        if self.machine.needs_producer_id(&ask) {
            self.ids += 1;
            let id = Some(ProducerId(self.ids));
            match &mut ask {
                Ask::Init(Init { fresh, .. }) | Ask::End(End { fresh, .. }) => *fresh = id,
                _ => {}
            }
        }
        let step = self.machine.ask(ticket(1), ask, self.at());
        let mut told = self.perform(step);
        assert_eq!(told.len(), 1, "{told:?}");
        told.remove(0)
    }

    fn init_as(&mut self, expected: Option<Producer>) -> Result<Producer, ErrorCode> {
        let ask = Ask::Init(Init {
            transactional_id: "t".into(),
            timeout_ms: 60_000,
            expected,
            fresh: None,
        });
        match self.ask(ask) {
            Answer::Init(told) => told,
            other => panic!("{other:?}"),
        }
    }

    fn init(&mut self) -> Producer {
        self.init_as(None).unwrap()
    }

    fn tick(&mut self) -> Decision {
        let ids = Cell::new(self.ids);
        let fresh = || {
            ids.set(ids.get() + 1);
            Some(ProducerId(ids.get()))
        };
        let at = self.at();
        let step = self.machine.tick(at, &fresh);
        self.ids = ids.get();
        step
    }

    /// Begins anew until one epoch is left for transactions.
    fn wear_out(&mut self) -> Producer {
        let id = self.machine.txns["t"].producer.id;
        loop {
            let producer = self.init();
            assert_eq!(producer.id, id);
            if is_exhausted(producer.epoch) {
                return producer;
            }
        }
    }

    fn add(&mut self, producer: Producer, partition: i32, version: i16) -> Result<(), ErrorCode> {
        let ask = add(producer, partition, version, false);
        match self.ask(ask) {
            Answer::Add(told) => told,
            other => panic!("{other:?}"),
        }
    }

    fn end(
        &mut self,
        producer: Producer,
        committed: bool,
        version: i16,
    ) -> Result<Producer, ErrorCode> {
        let ask = Ask::End(End {
            transactional_id: "t".into(),
            producer,
            committed,
            version,
            fresh: None,
        });
        match self.ask(ask) {
            Answer::End(told) => told,
            other => panic!("{other:?}"),
        }
    }

    fn mark_all(&mut self) {
        self.mark_all_telling(0);
    }

    /// Reports all markers written, which lets so many go on who waited.
    fn mark_all_telling(&mut self, waited: usize) {
        for markers in std::mem::take(&mut self.markers) {
            let ask = Ask::Marked(Marked {
                transactional_id: markers.transactional_id,
                producer: markers.producer,
            });
            let step = self.machine.ask(ticket(1), ask, self.at());
            let told = self.perform(step);
            assert_eq!(told[0], Answer::Marked(()));
            assert_eq!(told[1..], vec![Answer::Add(Ok(())); waited]);
        }
    }

    fn state(&self) -> TxnState {
        self.machine.txns["t"].state
    }

    /// The machine that a restart makes of the log.
    fn restart(&mut self) {
        let mut machine = Transactions::default();
        for record in &self.log {
            machine.replay(record);
        }
        self.markers = machine.on_loaded(self.at());
        self.machine = machine;
    }
}

fn add(producer: Producer, partition: i32, version: i16, may_wait: bool) -> Ask {
    Ask::Add(Add {
        transactional_id: "t".into(),
        producer,
        places: vec![("topic".into(), partition)],
        version,
        may_wait,
    })
}

fn epoch(id: i64, epoch: i16) -> Producer {
    Producer {
        id: ProducerId(id),
        epoch: ProducerEpoch(epoch),
    }
}

#[test]
fn records_follow_the_level_that_the_cluster_agreed_on() {
    let mut rig = Rig::default();
    let written = |rig: &mut Rig, level: i16, client: i16| {
        rig.machine.set_level(level);
        let from = rig.log.len();
        let producer = rig.init();
        rig.add(producer, 0, client).unwrap();
        rig.end(producer, true, client).unwrap();
        rig.mark_all();
        let versions = rig.log[from..].iter();
        let versions: Vec<i16> = versions
            .map(|record| rig.machine.record_version(record))
            .collect();
        assert!(versions.iter().all(|version| *version == versions[0]));
        versions[0]
    };
    assert_eq!(written(&mut rig, 0, 0), 0);
    assert_eq!(written(&mut rig, 1, 0), 1);
    assert_eq!(written(&mut rig, 0, 0), 0, "and back");
    assert_eq!(written(&mut rig, 2, EPOCH_PER_TXN), 1);
}

#[test]
fn what_an_old_record_cannot_say_is_not_lost_at_level_0() {
    let mut rig = Rig::default();
    let producer = rig.init();
    rig.add(producer, 0, EPOCH_PER_TXN).unwrap();
    let open = rig.log.last().unwrap();
    assert_eq!(rig.machine.record_version(open), 1, "a newer client's");
}

#[test]
fn a_transaction_goes_from_its_first_partition_to_its_markers() {
    let mut rig = Rig::default();
    let producer = rig.init();
    assert_eq!(producer, epoch(1, 0));
    assert_eq!(rig.end(producer, true, 0), Err(ErrorCode::InvalidTxnState));
    rig.add(producer, 0, 0).unwrap();
    rig.add(producer, 1, 0).unwrap();
    let before = rig.log.len();
    rig.add(producer, 1, 0).unwrap();
    assert_eq!(rig.log.len(), before, "what is known is not written again");
    assert_eq!(rig.end(producer, true, 0), Ok(producer));
    assert_eq!(rig.state(), TxnState::PrepareCommit);
    let markers = &rig.markers[0];
    assert!(markers.committed);
    assert_eq!(markers.places.len(), 2);
    for committed in [true, false] {
        let told = rig.end(producer, committed, 0);
        assert_eq!(told, Err(ErrorCode::ConcurrentTransactions));
    }
    assert_eq!(
        rig.add(producer, 0, 0),
        Err(ErrorCode::ConcurrentTransactions)
    );
    assert_eq!(rig.init_as(None), Err(ErrorCode::ConcurrentTransactions));
    rig.mark_all();
    assert_eq!(rig.state(), TxnState::CompleteCommit);
    assert_eq!(rig.end(producer, true, 0), Ok(producer), "a repeat");
    assert_eq!(rig.end(producer, false, 0), Err(ErrorCode::InvalidTxnState));
}

#[test]
fn with_version_2_each_transaction_has_an_epoch_and_a_late_end_touches_no_other() {
    let mut rig = Rig::default();
    let first = rig.init();
    rig.add(first, 0, 2).unwrap();
    let second = rig.end(first, true, 2).unwrap();
    assert_eq!(second, epoch(1, 1));
    assert_eq!(
        rig.markers[0].producer, second,
        "markers fence what is late"
    );
    rig.mark_all();
    assert_eq!(rig.end(first, true, 2), Ok(second), "a repeat");
    rig.add(second, 0, 2).unwrap();
    assert_eq!(rig.end(first, true, 2), Err(ErrorCode::ProducerFenced));
    assert_eq!(rig.end(first, false, 2), Err(ErrorCode::ProducerFenced));
    assert_eq!(rig.state(), TxnState::Ongoing);
    let third = rig.end(second, false, 2).unwrap();
    rig.mark_all();
    assert_eq!(rig.end(second, true, 2), Err(ErrorCode::InvalidTxnState));
    assert_eq!(
        rig.end(third, false, 2),
        Ok(epoch(1, 3)),
        "nothing was added"
    );
    rig.mark_all();
    assert_eq!(rig.state(), TxnState::CompleteAbort);
}

/// The end is answered before its markers are written, and a transaction that was refused its first batch meanwhile is aborted.
#[test]
fn who_ends_the_next_transaction_while_the_last_is_marked_waits_and_is_not_fenced() {
    let mut rig = Rig::default();
    let first = rig.init();
    rig.add(first, 0, 2).unwrap();
    let second = rig.end(first, true, 2).unwrap();
    let wait = Err(ErrorCode::ConcurrentTransactions);
    for committed in [true, false] {
        assert_eq!(rig.end(second, committed, 2), wait);
        assert_eq!(rig.end(first, committed, 2), wait);
    }
    rig.mark_all();
    let third = rig.end(second, false, 2).unwrap();
    assert_eq!(third, epoch(1, 2));
    rig.mark_all();
    assert_eq!(rig.add(third, 0, 2), Ok(()));
}

#[test]
fn a_second_producer_aborts_the_first_and_fences_it() {
    let mut rig = Rig::default();
    let old = rig.init();
    rig.add(old, 0, 0).unwrap();
    assert_eq!(rig.init_as(None), Err(ErrorCode::ConcurrentTransactions));
    assert_eq!(
        (rig.state(), rig.markers.len()),
        (TxnState::PrepareAbort, 1)
    );
    assert_eq!(rig.markers[0].producer, epoch(1, 1));
    rig.mark_all();
    let new = rig.init();
    assert_eq!(new, epoch(1, 2));
    assert_eq!(rig.add(old, 0, 0), Err(ErrorCode::ProducerFenced));
    assert_eq!(rig.end(old, true, 0), Err(ErrorCode::ProducerFenced));
    assert_eq!(
        rig.add(epoch(9, 0), 0, 0),
        Err(ErrorCode::InvalidProducerIdMapping)
    );
}

#[test]
fn a_producer_that_recovers_is_told_the_same_twice_and_a_fenced_one_nothing() {
    let mut rig = Rig::default();
    let first = rig.init();
    let second = rig.init_as(Some(first)).unwrap();
    assert_eq!(second, epoch(1, 1));
    assert_eq!(rig.init_as(Some(first)), Ok(second), "the answer was lost");
    let third = rig.init_as(Some(second)).unwrap();
    assert_eq!(rig.init_as(Some(first)), Err(ErrorCode::ProducerFenced));
    assert_eq!(
        rig.init_as(Some(epoch(8, 2))),
        Err(ErrorCode::ProducerFenced)
    );
    assert_eq!(third, epoch(1, 2));
}

/// A machine at `level`, and two producers whose transactions it has aborted, as they were open for too long.
fn aborted_in_absence(level: i16) -> (Rig, Producer) {
    let mut rig = Rig::default();
    rig.machine.settings.abort_check = Duration::from_millis(1);
    rig.machine.set_level(level);
    let producer = rig.init();
    rig.add(producer, 0, 0).unwrap();
    let mut other = rig.machine.txns["t"].clone();
    other.producer = epoch(100, 7);
    rig.machine.replay(&other.record("another"));
    rig.wall += 60_001;
    let step = rig.tick();
    assert_eq!(step.records.len(), 2, "both in one batch");
    rig.perform(step);
    rig.mark_all();
    (rig, producer)
}

#[test]
fn a_producer_whose_transaction_was_aborted_in_its_absence_recovers_unless_another_came() {
    let next = epoch(1, 1);
    let (mut rig, producer) = aborted_in_absence(2);
    assert_eq!(rig.init_as(Some(producer)), Ok(next));
    assert_eq!(rig.init_as(Some(producer)), Ok(next), "the answer was lost");
    assert_eq!(rig.add(next, 0, 0), Ok(()));

    let (mut rig, producer) = aborted_in_absence(2);
    let other = rig.init();
    assert_eq!(other, epoch(1, 2));
    let fenced = Err(ErrorCode::ProducerFenced);
    assert_eq!(rig.init_as(Some(producer)), fenced);
    assert_eq!(rig.init_as(Some(next)), fenced);
    assert_eq!(rig.add(other, 0, 0), Ok(()));

    let (mut rig, producer) = aborted_in_absence(1);
    assert_eq!(rig.init_as(Some(producer)), fenced, "as at that level");
}

/// Another one asks first, and comes again when the transaction is aborted: then it is the only one.
#[test]
fn who_recovers_from_a_fence_is_fenced_when_the_other_comes_again() {
    let mut rig = Rig::default();
    rig.machine.set_level(EPOCH_PER_TXN);
    let first = rig.init();
    rig.add(first, 0, 2).unwrap();
    let wait = Err(ErrorCode::ConcurrentTransactions);
    assert_eq!(rig.init_as(None), wait);
    rig.mark_all();
    let second = rig.init_as(Some(first)).unwrap();
    assert_eq!(second, epoch(1, 1));
    rig.add(second, 0, 2).unwrap();
    assert_eq!(rig.init_as(None), wait);
    rig.mark_all();
    assert_eq!(rig.init(), epoch(1, 3));
    for late in [first, second] {
        let fenced = Err(ErrorCode::ProducerFenced);
        assert_eq!(rig.init_as(Some(late)), fenced);
        assert_eq!(rig.end(late, true, 2), fenced);
    }
}

#[test]
fn who_waits_is_given_back_when_another_looks_after_the_partition() {
    let mut rig = Rig::default();
    let producer = rig.init();
    rig.add(producer, 0, 2).unwrap();
    let next = rig.end(producer, true, 2).unwrap();
    let step = rig.machine.ask(ticket(7), add(next, 1, 2, true), rig.at());
    assert_eq!(rig.perform(step), []);
    assert_eq!(rig.machine.abandon(), [ticket(7)]);
    assert_eq!(rig.machine.abandon(), []);
}

#[test]
fn who_may_wait_begins_the_next_transaction_when_the_last_is_complete() {
    let mut rig = Rig::default();
    let first = rig.init();
    rig.add(first, 0, 2).unwrap();
    let second = rig.end(first, true, 2).unwrap();
    for partition in [1, 2] {
        let ask = add(second, partition, 2, true);
        let step = rig.machine.ask(ticket(7), ask, rig.at());
        assert_eq!(rig.perform(step), []);
    }
    let markers = rig.markers.remove(0);
    let ask = Ask::Marked(Marked {
        transactional_id: "t".into(),
        producer: markers.producer,
    });
    let step = rig.machine.ask(ticket(1), ask, rig.at());
    let told = rig.perform(step);
    assert_eq!(
        told,
        [Answer::Marked(()), Answer::Add(Ok(())), Answer::Add(Ok(()))]
    );
    assert_eq!(rig.state(), TxnState::Ongoing);
    let places: Vec<i32> = rig.machine.txns["t"]
        .places
        .iter()
        .map(|place| place.1)
        .collect();
    assert_eq!(places, [1, 2]);
}

#[test]
fn who_waits_for_markers_is_told_to_come_again_after_a_while() {
    let mut rig = Rig::default();
    rig.markers = rig.machine.on_loaded(rig.at());
    let first = rig.init();
    rig.add(first, 0, 2).unwrap();
    let second = rig.end(first, true, 2).unwrap();
    let ask = |rig: &mut Rig| {
        let step = rig
            .machine
            .ask(ticket(7), add(second, 1, 2, true), rig.at());
        rig.perform(step)
    };
    let tick = |rig: &mut Rig| {
        let step = rig.tick();
        rig.perform(step)
    };
    let come_again = Answer::Add(Err(ErrorCode::ConcurrentTransactions));
    assert_eq!(ask(&mut rig), []);
    rig.wall += 60;
    assert_eq!(ask(&mut rig), []);
    assert_eq!(rig.machine.next_deadline(), Some(Instant(100_000_000)));
    rig.wall += 39;
    assert_eq!(tick(&mut rig), []);
    rig.wall += 1;
    assert_eq!(tick(&mut rig), std::slice::from_ref(&come_again));
    assert_eq!(rig.machine.next_deadline(), Some(Instant(160_000_000)));
    rig.mark_all_telling(1);
    assert_eq!(rig.state(), TxnState::Ongoing, "the one that still waited");
    let third = rig.end(second, true, 2).unwrap();
    let again = add(third, 1, 2, true);
    for number in 0..=WAITING_MAX {
        let step = rig
            .machine
            .ask(ticket(number as u64), again.clone(), rig.at());
        let told = rig.perform(step);
        let expected = (number == WAITING_MAX).then(|| come_again.clone());
        assert_eq!(told, Vec::from_iter(expected));
    }
}

#[test]
fn verification_tells_added_partitions_from_others() {
    let mut rig = Rig::default();
    let producer = rig.init();
    rig.add(producer, 0, 0).unwrap();
    let verify = |producer| {
        Ask::Verify(Verify {
            transactional_id: "t".into(),
            producer,
            places: vec![("topic".into(), 0), ("topic".into(), 1)],
        })
    };
    let told = rig.ask(verify(producer));
    assert_eq!(
        told,
        Answer::Verify(vec![Ok(()), Err(ErrorCode::TransactionAbortable)])
    );
    let told = rig.ask(verify(epoch(1, 5)));
    assert_eq!(
        told,
        Answer::Verify(vec![Err(ErrorCode::ProducerFenced); 2])
    );
}

#[test]
fn lists_go_by_state_producer_time_and_id() {
    let mut rig = Rig::default();
    let producer = rig.init();
    rig.add(producer, 0, 0).unwrap();
    rig.wall = LATER;
    let mut count = |filter: Filter| match rig.ask(Ask::List(List {
        filter: filter.into(),
    })) {
        Answer::List(list) => list.len(),
        other => panic!("{other:?}"),
    };
    let by_states = |states: &[TxnState]| Filter {
        states: states.to_vec(),
        ..Filter::default()
    };
    let by_time = |duration_ms| Filter {
        duration_ms: Some(duration_ms),
        ..Filter::default()
    };
    assert_eq!(count(Filter::default()), 1);
    assert_eq!(count(by_states(&[TxnState::Ongoing, TxnState::Empty])), 1);
    assert_eq!(count(by_states(&[TxnState::Empty])), 0);
    assert_eq!(count(by_time(LATER - 1)), 1);
    assert_eq!(count(by_time(LATER)), 0);
    let by_pattern = |pattern: &str| Filter {
        pattern: Some(crate::Pattern::new(pattern).unwrap()),
        ..Filter::default()
    };
    assert_eq!(count(by_pattern("[s-u]")), 1);
    assert_eq!(count(by_pattern("")), 0);
    assert_eq!(count(by_pattern("tt*u?")), 1);
}

/// Any order of requests, with a restart after any of them: the log alone gives the same transactions, what is decided stays so
/// and is marked again, and epochs only rise.
#[test]
fn a_restart_anywhere_changes_nothing() {
    let mut seed = 0x9e37_79b9_7f4a_7c15_u64;
    let mut next = move |bound: u64| {
        seed ^= seed << 13;
        seed ^= seed >> 7;
        seed ^= seed << 17;
        seed % bound
    };
    for _ in 0..200 {
        let mut rig = Rig::default();
        let mut known = vec![rig.init()];
        for _ in 0..60 {
            let before = rig.machine.txns["t"].producer;
            let decided = rig.state();
            let producer = known[known.len() - 1 - next(known.len().min(3) as u64) as usize];
            let version = if next(2) == 0 { 0 } else { 2 };
            let mut is_marked = false;
            match next(8) {
                0 => known.extend(rig.init_as(None).ok()),
                1 => known.extend(rig.init_as(Some(producer)).ok()),
                2 | 3 => drop(rig.add(producer, next(4) as i32, version)),
                4 | 5 => known.extend(rig.end(producer, next(2) == 0, version).ok()),
                6 => {
                    is_marked = true;
                    rig.mark_all();
                }
                _ => {
                    rig.wall += 30_000;
                    let step = rig.tick();
                    rig.perform(step);
                }
            }
            let now = rig.machine.txns["t"].producer;
            assert!(
                now.id > before.id || now.epoch >= before.epoch,
                "{before:?} {now:?}"
            );
            if decided.is_prepared() && !is_marked {
                assert_eq!(rig.state(), decided, "what is decided stays");
            }
            if next(3) == 0 {
                let lived = rig.machine.txns["t"].clone();
                rig.restart();
                let again = &rig.machine.txns["t"];
                assert_eq!(again.record("t"), lived.record("t"));
                assert_eq!(rig.markers.len(), usize::from(lived.state.is_prepared()));
            }
        }
    }
}
