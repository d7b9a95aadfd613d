//! The real broker under simulated faults, in runs short enough for every commit; `make sim SEEDS=n` runs as many as wanted.

use env::sim::Faults;
use sim::run::{
    FaultSite, GroupProtocol, Load, Plan, SLOW_SYNC_NANOS, Strike, Verdict, everywhere, run,
};

pub(crate) fn check(seed: u64, plan: &Plan) -> Verdict {
    let verdict = run(seed, plan, false);
    assert!(
        verdict.is_clean(),
        "seed {seed}\n{plan:#?}\n{}",
        verdict.describe()
    );
    verdict
}

#[test]
fn the_same_seed_gives_the_same_run() {
    for seed in 1..5 {
        let plan = Plan::of(seed);
        let (a, b) = (check(seed, &plan), check(seed, &plan));
        assert_eq!(
            (a.trace, a.events, a.counts),
            (b.trace, b.events, b.counts),
            "seed {seed}"
        );
        assert_ne!(a.trace, check(seed + 100, &Plan::of(seed + 100)).trace);
    }
}

#[test]
fn mixed_faults_break_no_promise() {
    for seed in 1..30 {
        check(seed, &Plan::of(seed));
    }
}

/// Runs a few seeds of one kind of fault, which must have struck.
fn struck_by(strikes: &[Strike], bit: impl Fn(&Verdict) -> u64) {
    let mut bites = 0;
    for seed in 200..205 {
        bites += bit(&check(seed, &Plan::striking(seed, strikes)));
    }
    assert!(bites > 0, "{strikes:?} did nothing");
}

#[test]
fn what_was_acknowledged_survives_power_cuts() {
    struck_by(
        &[Strike::PowerCut, Strike::PowerCutAtOperation],
        |verdict| verdict.counts.pages_lost,
    );
}

/// A commit on a slow disk is long on its way, so that many cuts meet one: answered a moment too early, it would be gone.
fn committed_over_power_cuts(protocol: GroupProtocol) {
    let mut commits = 0;
    for seed in 300..330 {
        let mut plan = Plan::grouped(seed, &[Strike::PowerCut, Strike::Kill]);
        plan.faults.sync_nanos = SLOW_SYNC_NANOS;
        (plan.group_protocol, plan.log_dirs) = (protocol, 1);
        let verdict = run(seed, &plan, false);
        let found = verdict.describe();
        assert!(verdict.violations.is_empty(), "seed {seed}\n{found}");
        commits += verdict.commits;
    }
    assert!(commits > 200, "{commits} commits show little");
}

#[test]
fn members_of_the_classic_protocol_keep_their_commits_over_power_cuts() {
    committed_over_power_cuts(GroupProtocol::Classic);
}

#[test]
fn members_of_the_consumer_protocol_keep_their_commits_over_power_cuts() {
    committed_over_power_cuts(GroupProtocol::Consumer);
}

#[test]
fn a_broker_that_is_killed_or_restarted_goes_on_where_it_was() {
    struck_by(&[Strike::Kill, Strike::Restart], |verdict| {
        verdict.starts - 1
    });
}

#[test]
fn producers_that_send_again_after_broken_connections_write_nothing_twice() {
    struck_by(&[Strike::Reset, Strike::Stall, Strike::Kill], |verdict| {
        verdict.resent
    });
}

/// A batch that is sent again before the original is durable is not answered before it either: the power may go meanwhile.
#[test]
fn duplicates_of_what_is_on_its_way_to_the_disk_survive_power_cuts() {
    let (mut resent, mut lost) = (0, 0);
    for seed in 600..610 {
        let verdict = check(seed, &Plan::impatient(seed, &[Strike::PowerCut]));
        resent += verdict.resent;
        lost += verdict.counts.pages_lost;
    }
    assert!(
        resent > 1_000 && lost > 0,
        "{resent} sent again, {lost} pages lost"
    );
}

/// The table that a reader makes of a compacted topic is the one that was written (I11).
#[test]
fn compaction_keeps_the_newest_of_each_key_through_power_cuts_and_restarts() {
    let kinds: [&[Strike]; 3] = [
        &[],
        &[Strike::PowerCut, Strike::PowerCutAtOperation],
        &[Strike::Kill, Strike::Restart, Strike::FailSync],
    ];
    for strikes in kinds {
        let mut compacted = 0;
        for seed in 300..304 {
            compacted += check(seed, &Plan::compacting(seed, strikes)).compacted;
        }
        assert!(compacted > 0, "{strikes:?}: nothing was compacted");
    }
}

#[test]
fn a_full_disk_refuses_and_recovers() {
    struck_by(&[Strike::FullDisk], |verdict| {
        verdict.refused + verdict.counts.writes_refused_full
    });
}

/// M-09.
#[test]
fn clocks_that_jump_stop_and_run_at_other_rates_delete_nothing_early() {
    let kinds: [&[Strike]; 4] = [
        &[],
        &[Strike::JumpClock, Strike::StickClock, Strike::Restart],
        &[Strike::SkewClock, Strike::Kill],
        &[
            Strike::SkewClock,
            Strike::StickClock,
            Strike::PowerCut,
            Strike::FailSync,
        ],
    ];
    for strikes in kinds {
        let mut expired = 0;
        for seed in 200..206 {
            expired += check(seed, &Plan::aging(seed, strikes)).expired;
        }
        assert!(expired > 100, "{strikes:?}: {expired} records went");
    }
}

/// Every fault of one kind, at places spread over short runs of two seeds.
fn is_harmless_at(place: FaultSite, seeds: [u64; 2], most: u64) {
    for seed in seeds {
        let found = everywhere(seed, place, most);
        assert!(found.failures.is_empty(), "{}", found.failures.join("\n"));
        assert!(found.tried > 25, "{} of {}", found.tried, found.places);
    }
}

/// M-08; `sim --syncs all` takes every one of them.
#[test]
fn no_sync_is_believed_after_one_failed_wherever_that_is() {
    is_harmless_at(FaultSite::Sync, [1, 2], 60);
}

#[test]
fn a_failed_write_takes_nothing_with_it_wherever_it_is() {
    is_harmless_at(FaultSite::Write, [3, 4], 60);
}

#[test]
fn the_power_may_go_at_any_operation() {
    is_harmless_at(FaultSite::Operation, [5, 6], 100);
}

/// The cut leaves no time for ten sends, so the run does not owe them.
#[test]
fn a_run_that_a_power_cut_took_its_time_from_still_counts() {
    let faults = Faults {
        crash_at_op: Some(92),
        ..Faults::default()
    };
    let verdict = check(16, &Plan::short(16, faults));
    assert_eq!(verdict.counts.crashes_at_op, 1);
}

/// The simulator tested on itself: acknowledged records that were never synced must be missed.
#[test]
fn a_device_that_lies_about_syncs_is_found_out() {
    let mut found = 0;
    for seed in 0..10 {
        let mut plan = Plan::striking(seed, &[Strike::PowerCut]);
        plan.faults.syncs_lie = true;
        found += u32::from(!run(seed, &plan, false).is_clean());
    }
    assert!(found >= 8, "{found} of 10");
}

/// U-05, U-06.
#[test]
fn every_state_a_crash_leaves_is_recovered_twice_the_same() {
    let (mut images, mut records) = (0, 0);
    for seed in 1..5 {
        let tally = sim::run::images(seed, 150);
        assert!(tally.failures.is_empty(), "{}", tally.failures.join("\n"));
        images += tally.images;
        records += tally.records;
    }
    assert!(
        images >= 400 && records > 10_000,
        "{images} images, {records} records"
    );
}

#[test]
fn every_state_a_crash_leaves_of_transactions_is_recovered() {
    let (mut images, mut records) = (0, 0);
    for seed in 1..5 {
        let tally = sim::run::txn_images(seed, 100);
        assert!(tally.failures.is_empty(), "{}", tally.failures.join("\n"));
        images += tally.images;
        records += tally.records;
    }
    assert!(
        images >= 250 && records > 5_000,
        "{images} images, {records} records"
    );
}

/// M-07, U-08.
#[test]
fn damaged_files_are_told_by_the_broker_or_by_the_checksum_of_a_batch() {
    let (mut reported, mut harmless, mut of_tables) = (0, 0, 0);
    for seed in 1..5 {
        let tally = sim::run::damages(seed, 60);
        assert!(tally.failures.is_empty(), "{}", tally.failures.join("\n"));
        reported += tally.reported;
        harmless += tally.harmless;
        of_tables += tally.of_tables;
    }
    assert!(
        reported > 20 && harmless > 20 && of_tables > 5,
        "{reported} reported, {harmless} harmless, {of_tables} in compacted tables"
    );
}

#[test]
fn writes_that_go_astray_and_files_that_cannot_be_read_are_told_or_harmless() {
    let (mut reported, mut harmless) = (0, 0);
    for seed in 1..5 {
        let tally = sim::run::injuries(seed, 12);
        assert!(tally.failures.is_empty(), "{}", tally.failures.join("\n"));
        reported += tally.reported;
        harmless += tally.harmless;
    }
    assert!(
        reported > 5 && harmless > 5,
        "{reported} reported, {harmless} harmless"
    );
}

/// Found by a seed: a power cut takes an index that the first start still had, and what lies behind bytes of its segment that cannot
/// be read was not found without it.
#[test]
fn behind_bytes_that_cannot_be_read_no_index_is_needed() {
    let tally = sim::run::injuries(71003, 5);
    assert!(tally.failures.is_empty(), "{}", tally.failures.join("\n"));
}

#[test]
fn damaged_files_of_transactions_are_told_or_harmless() {
    let (mut reported, mut harmless) = (0, 0);
    for seed in 1..4 {
        let tally = sim::run::txn_damages(seed, 40);
        assert!(tally.failures.is_empty(), "{}", tally.failures.join("\n"));
        reported += tally.reported;
        harmless += tally.harmless;
    }
    assert!(
        reported > 10 && harmless > 10,
        "{reported} reported, {harmless} harmless"
    );
}

#[test]
fn transactions_whose_files_cannot_be_read_are_told_of_or_whole() {
    let (mut reported, mut harmless) = (0, 0);
    for seed in 1..4 {
        let tally = sim::run::txn_injuries(seed, 10);
        assert!(tally.failures.is_empty(), "{}", tally.failures.join("\n"));
        reported += tally.reported;
        harmless += tally.harmless;
    }
    assert!(
        reported > 2 && harmless > 5,
        "{reported} reported, {harmless} harmless"
    );
}

/// Found by seeds: what was queued when a directory failed kept its commit thread asleep, or spinning, for ever; and a commit
/// thread that had ended before a shard left that shard waiting.
#[test]
fn a_broker_with_a_failed_directory_still_stops() {
    let mut failed = 0;
    for seed in 300..330 {
        let mut plan = Plan::striking(seed, &[Strike::FailWrite, Strike::Restart]);
        (plan.log_dirs, plan.network_threads) = (2, 3);
        failed += check(seed, &plan).counts.writes_failed;
    }
    assert!(failed > 20, "{failed}");
}

/// Found by a seed: markers of what was decided while the broker stopped were asked of shards that had ended, and waited for them.
#[test]
fn a_broker_stops_while_transactions_end() {
    for seed in 480..500 {
        let strikes = [Strike::Restart, Strike::Stall, Strike::SlowDisk];
        let mut plan = Plan::transactional(seed, &strikes, false);
        (plan.log_dirs, plan.network_threads) = (2, 3);
        check(seed, &plan);
    }
}

/// Found by a seed: the first batch of a transaction was refused for a moment, the one sent behind it was let in as the first, and
/// the transaction could never be committed.
#[test]
fn a_transaction_goes_on_whose_first_batch_was_refused() {
    for seed in 85..88 {
        check(seed, &Plan::of_load(seed, Load::Transactions));
    }
}

/// Found by a seed: a full disk refused the first batch of a producer, the one sent behind it found room, and the first one, sent
/// again, was out of order.
#[test]
fn a_producer_keeps_its_order_whose_first_batch_found_no_room() {
    check(910_148, &Plan::of_load(910_148, Load::Instances));
}

/// A volume with many changed files is synced while the segment writer goes on, and directories change their order. Seed 686 found
/// that a directory was not told of pages that the sync of another one had lost.
#[test]
fn many_partitions_are_checkpointed_while_they_are_written() {
    for seed in [1, 2, 3, 686] {
        check(seed, &Plan::of_load(seed, Load::Wide));
    }
}

/// Found by a seed: two consumers that waited for more in turn, each answered while the other waited, kept a broker from ending
/// that was told to.
#[test]
fn a_broker_ends_though_consumers_go_on_to_ask() {
    check(130_241, &Plan::of_load(130_241, Load::Crowd));
}

/// Found by seeds: an abort whose marker no segment file had yet was not known to compaction, so that its records took the place
/// of committed ones.
#[test]
fn an_abort_that_no_segment_has_yet_supersedes_nothing() {
    for seed in [11, 72, 81] {
        check(seed, &Plan::of_load(seed, Load::Ledger));
    }
}

/// M-05.
#[test]
fn transactions_are_there_as_a_whole_or_not_at_all() {
    let kinds: [&[Strike]; 6] = [
        &[Strike::PowerCut, Strike::PowerCutAtOperation],
        &[Strike::Kill, Strike::Restart, Strike::Stall],
        &[Strike::FailSync, Strike::FailWrite, Strike::SlowDisk],
        &[Strike::FullDisk, Strike::Reset],
        &[Strike::JumpClock, Strike::StickClock, Strike::Kill],
        &Strike::ALL,
    ];
    let (mut committed, mut aborted, mut undecided, mut settled) = (0, 0, 0, 0);
    for (number, strikes) in (0..).zip(kinds) {
        for is_old in [false, true] {
            let seed = 400 + 2 * number + u64::from(is_old);
            let verdict = check(seed, &Plan::transactional(seed, strikes, is_old));
            committed += verdict.txns_committed;
            aborted += verdict.txns_aborted;
            undecided += verdict.txns_undecided;
            settled += verdict.settled;
        }
    }
    assert!(
        committed > 500 && aborted > 200 && undecided > 0 && settled > 20,
        "{committed} committed, {aborted} aborted, {undecided} undecided, {settled} offsets looked up"
    );
}

/// KAFKA-17754: without an epoch for each transaction a late commit ends the one that is open by then, and the checker sees it.
#[test]
fn a_late_end_falls_on_no_other_transaction() {
    let mut found = 0;
    for seed in 440..452 {
        for is_old in [false, true] {
            let mut plan = Plan::transactional(seed, &[], is_old);
            plan.delay_ends(2);
            if is_old {
                found += u32::from(!run(seed, &plan, false).is_clean());
            } else {
                check(seed, &plan);
            }
        }
    }
    assert!(found > 0, "the hole of the old protocol is not seen");
}

#[test]
fn partitions_that_move_between_directories_keep_every_promise() {
    let kinds: [&[Strike]; 6] = [
        &[],
        &[Strike::PowerCut, Strike::PowerCutAtOperation],
        &[Strike::Kill, Strike::Restart, Strike::Stall],
        &[Strike::FailSync, Strike::FailWrite, Strike::SlowDisk],
        &[Strike::FullDisk, Strike::PowerCut],
        &Strike::ALL,
    ];
    let mut moves = 0;
    for (number, strikes) in (0..).zip(kinds) {
        for seed in [500 + number, 520 + number] {
            moves += check(seed, &Plan::moving(seed, strikes)).moves;
        }
    }
    for seed in 540..544 {
        let strikes = [Strike::PowerCut, Strike::Kill];
        let mut plan = Plan::transactional(seed, &strikes, seed % 2 == 0);
        (plan.log_dirs, plan.moves) = (3, 50);
        moves += check(seed, &plan).moves;
    }
    assert!(moves > 40, "{moves} moves show little");
}
