//! Loads that meet what happens seldom: requests that come after their transaction, transactions in a compacted topic, members that
//! are static or change their protocol, coordinators whose logs refuse what they decided.

use sim::run::{Plan, Strike};

use crate::broker::check;

/// M-05: batches, and additions of partitions, that come when their transaction is over begin none and fall on no other one.
#[test]
fn what_comes_after_its_transaction_is_in_none() {
    let kinds: [&[Strike]; 3] = [
        &[],
        &[Strike::Stall, Strike::Reset, Strike::Restart],
        &[Strike::Kill, Strike::PowerCut],
    ];
    let (mut batches, mut additions) = (0, 0);
    for (number, strikes) in kinds.into_iter().enumerate() {
        for is_old in [true, false] {
            let seed = 700 + 2 * number as u64 + u64::from(is_old);
            let verdict = check(seed, &Plan::straying(seed, strikes, is_old));
            batches += verdict.late_batches;
            additions += verdict.late_additions;
        }
    }
    assert!(
        batches > 20 && additions > 5,
        "{batches} batches and {additions} additions came late"
    );
}

/// I11 where records are written in transactions: what was aborted takes no key from what was committed, and nothing is taken from
/// a transaction that is open.
#[test]
fn compaction_keeps_the_newest_committed_of_each_key() {
    let kinds: [&[Strike]; 3] = [
        &[],
        &[Strike::PowerCut, Strike::PowerCutAtOperation],
        &[Strike::Kill, Strike::Restart, Strike::FailSync],
    ];
    for strikes in kinds {
        let (mut cleaned, mut before_open) = (0, 0);
        for seed in 720..724 {
            let verdict = check(seed, &Plan::transacting_table(seed, strikes));
            cleaned += verdict.cleaned.0;
            before_open += verdict.cleaned.1;
        }
        assert!(
            cleaned > 0 && before_open > 0,
            "{strikes:?}: {cleaned} aborted records cleaned, {before_open} times before an open transaction"
        );
    }
}

/// Static members resume, fence each other, and change their protocol; nobody owns what another one holds.
#[test]
fn members_that_come_back_or_change_their_protocol_share_nothing() {
    let kinds: [&[Strike]; 3] = [
        &[],
        &[Strike::PowerCut, Strike::Kill],
        &[Strike::Reset, Strike::Restart],
    ];
    let (mut resumed, mut shut_out, mut switched) = (0, 0, 0);
    for strikes in kinds {
        for seed in 740..746 {
            let verdict = check(seed, &Plan::of_instances(seed, strikes));
            resumed += verdict.resumed;
            shut_out += verdict.shut_out;
            switched += verdict.switched;
        }
    }
    assert!(
        resumed > 0 && shut_out > 0 && switched > 0,
        "{resumed} resumed, {shut_out} shut out, {switched} switched"
    );
}

/// Records acknowledged before a log refused something are not forgotten with it.
#[test]
fn a_log_that_refuses_its_coordinator_takes_nothing_from_what_was_acknowledged() {
    let kinds: [&[Strike]; 3] = [
        &[],
        &[Strike::PowerCut, Strike::Kill, Strike::SlowDisk],
        &[Strike::FullDisk, Strike::FailSync, Strike::Restart],
    ];
    let (mut too_large, mut forgotten) = (0, 0);
    for strikes in kinds {
        for seed in 760..762 {
            let plans = [
                Plan::grouped(seed, strikes),
                Plan::of_instances(seed, strikes),
                Plan::transactional(seed, strikes, seed % 2 == 0),
                Plan::transacting_table(seed, strikes),
            ];
            for mut plan in plans {
                plan.squeeze();
                let verdict = check(seed, &plan);
                too_large += verdict.too_large;
                forgotten += verdict.forgotten;
            }
        }
    }
    assert!(
        too_large > 1_000 && forgotten > 1,
        "{too_large} commits too large, {forgotten} taken and forgotten"
    );
}
