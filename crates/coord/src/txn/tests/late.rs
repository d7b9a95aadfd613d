//! The effects of time: late transactions, and ids that nobody used for long.

use super::super::late::ABORTED_PER_CHECK_MAX;
use super::*;

#[test]
fn timeouts_are_bounded_and_a_late_transaction_is_aborted() {
    let mut rig = Rig::default();
    rig.machine.settings.abort_check = Duration::from_millis(1);
    for timeout_ms in [0, -1, 900_001] {
        let ask = Ask::Init(Init {
            transactional_id: "t".into(),
            timeout_ms,
            expected: None,
            fresh: None,
        });
        let refused = Answer::Init(Err(ErrorCode::InvalidTransactionTimeout));
        assert_eq!(rig.ask(ask), refused);
    }
    let producer = rig.init();
    rig.add(producer, 0, 2).unwrap();
    rig.wall += 60_000;
    let step = rig.tick();
    assert_eq!(rig.perform(step), []);
    assert_eq!(rig.state(), TxnState::Ongoing);
    rig.wall += 1;
    let step = rig.tick();
    rig.perform(step);
    assert_eq!(rig.state(), TxnState::PrepareAbort);
    rig.mark_all();
    assert_eq!(rig.end(producer, true, 2), Err(ErrorCode::InvalidTxnState));
    assert_eq!(rig.add(producer, 0, 2), Err(ErrorCode::ProducerFenced));
    rig.wall += 604_800_000;
    let step = rig.tick();
    rig.perform(step);
    assert!(rig.machine.txns.is_empty(), "nobody used it for long");
}

#[test]
fn ids_that_nobody_used_are_looked_for_at_an_interval_of_their_own() {
    for (expiration_check, first) in [(60, 60), (2, 2)] {
        let mut rig = Rig::default();
        rig.machine.settings.expiration_ms = 1_000;
        rig.machine.settings.expiration_check = Duration::from_secs(expiration_check);
        rig.markers = rig.machine.on_loaded(rig.at());
        rig.init();
        while !rig.machine.txns.is_empty() {
            let next = rig.machine.next_deadline().unwrap();
            rig.wall = (next.0 / 1_000_000) as i64;
            let step = rig.tick();
            rig.perform(step);
        }
        assert_eq!(rig.wall, first * 1_000);
    }
}

#[test]
fn many_late_transactions_are_aborted_a_batch_at_a_time() {
    let mut rig = Rig::default();
    rig.markers = rig.machine.on_loaded(rig.at());
    for number in 0..ABORTED_PER_CHECK_MAX as i64 + 1 {
        let mut txn = Txn::new(ProducerId(number), 1_000);
        txn.state = TxnState::Ongoing;
        let record = txn.record(&format!("t{number}"));
        rig.machine.replay(&record);
    }
    rig.wall += 10_000;
    let step = rig.tick();
    assert_eq!(step.records.len(), ABORTED_PER_CHECK_MAX);
    rig.perform(step);
    assert_eq!(rig.machine.next_deadline(), Some(Instant(10_100_000_000)));
    rig.wall += 100;
    let step = rig.tick();
    assert_eq!(step.records.len(), 1);
}

/// A machine with so many late transactions, and a log that refuses what it is told to.
struct LateRig {
    rig: Rig,
    checks: usize,
    /// Those that the operator was told to be too large.
    too_large: Vec<String>,
}

impl LateRig {
    fn of(count: i64) -> LateRig {
        let mut rig = Rig::default();
        rig.markers = rig.machine.on_loaded(rig.at());
        for number in 0..count {
            let mut late = Txn::new(ProducerId(number), 1_000);
            late.state = TxnState::Ongoing;
            rig.machine.replay(&late.record(&format!("t{number:04}")));
        }
        rig.wall += 10_000;
        LateRig {
            rig,
            checks: 0,
            too_large: Vec::new(),
        }
    }

    /// One check; how many it aborted, or would have.
    fn check(&mut self, refuses: impl Fn(&[TransactionRecord]) -> bool) -> usize {
        let step = self.rig.tick();
        let count = step.records.len();
        if refuses(&step.records) {
            self.too_large.extend(self.rig.machine.take_too_large());
        } else {
            self.rig.perform(step);
        }
        self.checks += 1;
        let next = self.rig.machine.next_deadline().unwrap();
        self.rig.wall = (next.0 / 1_000_000) as i64;
        count
    }

    fn open(&self) -> Vec<&str> {
        let txns = self.rig.machine.txns.iter();
        let open = txns.filter(|(_, txn)| txn.state == TxnState::Ongoing);
        open.map(|(id, _)| id.as_str()).collect()
    }
}

#[test]
fn a_late_transaction_that_is_never_taken_keeps_no_other_open() {
    const NEVER: [&str; 4] = ["t0000", "t0117", "t0118", "t0249"];
    let refuses = |records: &[TransactionRecord]| {
        records
            .iter()
            .any(|TransactionRecord::TransactionLog(key, _)| {
                NEVER.contains(&key.transactional_id.as_str())
            })
    };
    let mut late = LateRig::of(250);
    while late.open() != NEVER {
        late.check(refuses);
        assert!(late.checks < 100, "{} are open", late.open().len());
    }
    assert!(late.rig.wall < 30_000, "it took until {}", late.rig.wall);
    // They are few and tried one by one, at the interval of checks.
    let (before, rounds) = (late.checks, 10);
    while late.rig.wall < 30_000 + 10_000 * rounds {
        late.check(refuses);
    }
    let each = (late.checks - before) as i64 / rounds;
    assert!(each <= 8, "{each} checks in a round");
    while !late.open().is_empty() {
        late.check(|_| false);
        assert!(late.checks < before + 100, "the log takes them now");
    }
}

#[test]
fn a_late_transaction_that_is_too_large_for_the_log_is_told_once() {
    let mut late = LateRig::of(3);
    let is_large = |records: &[TransactionRecord]| {
        let mut keys = records
            .iter()
            .map(|TransactionRecord::TransactionLog(key, _)| key);
        keys.any(|key| key.transactional_id == "t0001")
    };
    for _ in 0..50 {
        late.check(is_large);
    }
    assert_eq!(late.open(), ["t0001"]);
    assert_eq!(late.too_large, ["t0001"]);
}

#[test]
fn late_transactions_are_aborted_as_fast_as_ever_after_a_full_disk() {
    let mut late = LateRig::of(1_000);
    for full in 0..50 {
        let tried = late.check(|_| true);
        assert!(tried == 1 || full == 0, "{tried} are tried on a full disk");
    }
    let before = late.checks;
    while !late.open().is_empty() {
        late.check(|_| false);
        assert!(late.checks < before + 30, "{} are open", late.open().len());
    }
}

/// Bytes that a batch of these records needs for sure.
fn batch_bytes(records: &[TransactionRecord]) -> usize {
    let size = |record: &TransactionRecord| {
        let (key, value) = record.encode(1).unwrap();
        key.len() + value.map_or(0, |value| value.len())
    };
    records.iter().map(size).sum()
}

#[test]
fn long_ids_are_forgotten_and_large_transactions_aborted_within_one_batch_each() {
    let mut rig = Rig::default();
    rig.markers = rig.machine.on_loaded(rig.at());
    for number in 0..90 {
        let idle = Txn::new(ProducerId(number), 1_000);
        let id = format!("{number:_>30000}");
        rig.machine.replay(&idle.record(&id));
        let mut late = Txn::new(ProducerId(1_000 + number), 1_000);
        late.state = TxnState::Ongoing;
        late.places = (0..200)
            .map(|topic| (format!("{topic:_>249}"), 0))
            .collect();
        rig.machine.replay(&late.record(&format!("late {number}")));
    }
    rig.wall += 2 * rig.machine.settings.expiration_ms;
    let mut checks = 0;
    while !rig.machine.txns.is_empty() {
        checks += 1;
        assert!(checks < 1_000, "{} are left", rig.machine.txns.len());
        let step = rig.tick();
        assert!(batch_bytes(&step.records) <= STEP_BYTES_MAX);
        let is_gone =
            |TransactionRecord::TransactionLog(_, value): &TransactionRecord| value.is_none();
        let gone = step.records.iter().filter(|record| is_gone(record)).count();
        assert!(
            gone == 0 || gone == step.records.len(),
            "one kind at a time"
        );
        rig.perform(step);
        rig.mark_all();
        let next = rig.machine.next_deadline();
        rig.wall = next.map_or(rig.wall, |next| (next.0 / 1_000_000) as i64);
        if checks == 100 {
            // Those that were aborted are used once more; their time comes, too.
            rig.wall += 2 * rig.machine.settings.expiration_ms;
        }
    }
}

#[test]
fn ids_that_cannot_be_forgotten_keep_no_transaction_open() {
    let mut rig = Rig::default();
    rig.markers = rig.machine.on_loaded(rig.at());
    // More than one check forgets, so that the next one is at it again.
    for number in 0..=EXPIRED_PER_CHECK_MAX {
        let idle = Txn::new(ProducerId(1), 1_000);
        rig.machine.replay(&idle.record(&format!("idle {number}")));
    }
    rig.wall += 2 * rig.machine.settings.expiration_ms;
    let mut aborted = 0;
    for number in 0..6 {
        let mut late = Txn::new(ProducerId(number), 1_000);
        late.state = TxnState::Ongoing;
        rig.machine.replay(&late.record(&format!("late {number}")));
        let step = rig.tick();
        let mut records = step.records.iter();
        // The log has no room for what forgets an id, whatever the reason.
        let is_refused = records.any(|TransactionRecord::TransactionLog(_, value)| value.is_none());
        if !is_refused {
            aborted += step.effects.len();
            rig.perform(step);
        }
        rig.wall = (rig.machine.next_deadline().unwrap().0 / 1_000_000) as i64;
    }
    assert!(aborted >= 5, "{aborted} were aborted");
}

#[test]
fn a_wall_clock_that_was_set_back_keeps_no_transaction_open() {
    let mut rig = Rig::default();
    rig.machine.settings.abort_check = Duration::from_millis(1);
    let producer = rig.init();
    rig.add(producer, 0, 2).unwrap();
    for (passed, back, state) in [
        (1, 0, TxnState::Ongoing),
        (30_000, 3_600_000, TxnState::Ongoing),
        (30_000, 0, TxnState::Ongoing),
        (1, 0, TxnState::PrepareAbort),
    ] {
        rig.wall += passed;
        rig.set_back += back;
        rig.add(producer, (rig.wall % 2) as i32, 2).ok();
        let step = rig.tick();
        rig.perform(step);
        assert_eq!(rig.state(), state, "at {}", rig.wall);
    }
}
