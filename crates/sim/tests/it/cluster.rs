//! Three brokers that are one cluster: nodes are struck and links are cut, and clients of each node find what they were told.

use sim::run::{Load, Plan, Verdict, run_nodes};

fn check(seed: u64) -> Vec<Verdict> {
    let verdicts = check_load(seed, Load::Cluster);
    assert_eq!(verdicts.len(), 3);
    verdicts
}

fn check_load(seed: u64, load: Load) -> Vec<Verdict> {
    let verdicts = run_nodes(seed, &Plan::of_load(seed, load), false);
    for verdict in &verdicts {
        assert!(verdict.is_clean(), "seed {seed}: {}", verdict.describe());
        assert!(verdict.acked > 0, "seed {seed}");
    }
    verdicts
}

fn trace(verdicts: &[Verdict]) -> Option<(u64, u64)> {
    let last = verdicts.last()?;
    Some((last.trace, last.events))
}

#[test]
fn three_brokers_are_one_cluster_over_faults_and_repeat_their_run() {
    let (mut leaderships, mut trimmed, mut fetched) = (0, 0, 0);
    for seed in 1..9 {
        let verdicts = check(seed);
        if seed == 1 {
            assert_eq!(trace(&verdicts), trace(&check(seed)));
        }
        // The last verdict counts for the whole cluster.
        let last = verdicts.last().expect("three verdicts");
        leaderships += last.leaderships;
        trimmed += last.trimmed;
        fetched += last.fetched;
    }
    assert!(leaderships > 10, "{leaderships} active controllers");
    assert!(trimmed > 20, "{trimmed} metadata logs were trimmed");
    assert!(fetched > 0, "no snapshot was fetched");
}

#[test]
fn a_client_that_was_told_of_its_change_finds_it_though_its_node_lags_behind_the_controller() {
    for seed in [12, 29] {
        check(seed);
    }
}

#[test]
fn a_change_that_may_have_been_made_is_not_asked_for_a_second_time() {
    for seed in [11, 21, 32] {
        check(seed);
    }
}

#[test]
fn a_node_starts_though_its_power_went_when_the_metadata_log_had_just_been_trimmed() {
    for seed in [4, 75, 113, 128] {
        check(seed);
    }
}

/// Three hosts lose power, one comes back without a directory: the stub of a replica there led, and had others cut off what they had synced.
#[test]
fn a_replica_whose_directory_is_gone_judges_no_other_log() {
    check_load(36, Load::Replicas);
}

/// A leader that starts anew has metadata in which its last ISR is missing: it committed without a replica that was in sync.
#[test]
fn a_leader_that_starts_anew_commits_with_those_that_it_had_let_in() {
    check_load(261, Load::Replicas);
}

/// A log was cut where its last segment began. The new file had the name that the last checkpoint vouched for, and after a power cut the
/// broker refused its zeros and did not start.
#[test]
fn a_node_starts_though_its_power_went_when_a_segment_had_just_been_cut_off() {
    check_load(4, Load::ReplicatedGroups);
}

/// A follower's log was cut where its bytes had rotted: the broker took its whole log directory offline.
#[test]
fn a_replica_that_is_cut_where_its_bytes_rotted_keeps_its_directory() {
    check_load(23, Load::Rot);
}

/// A disk was taken while the node that had lost the one before was not registered again, and still in sync in the metadata.
#[test]
fn disks_are_replaced_one_after_the_other() {
    check_load(11, Load::Moves);
    check_load(17, Load::Moves);
}

/// A node was taken away while another one was out of the ISR, because it had been cut off or had a slow disk: nobody was left to serve, and
/// the demand that the others do was wrong.
#[test]
fn a_node_stays_away_when_every_replica_of_the_others_is_in_sync() {
    check_load(50, Load::ReplicatedTransactions);
    check_load(21, Load::ReplicatedGroups);
}

/// The topics of the coordinators had `max.message.bytes=1`, and the node that was asked to end that went away for good: no group and no
/// transaction could commit, and the demand that they do was wrong.
#[test]
fn coordinators_have_room_before_a_node_stays_away() {
    check_load(109, Load::ReplicatedTransactions);
    check_load(67, Load::ReplicatedGroups);
}

/// A consumer that may read from any replica asked the only one of a partition, which had just started and did not lead yet: it showed
/// the end that its last checkpoint had, 0.
#[test]
fn the_only_replica_shows_no_end_before_it_leads() {
    check_load(20025, Load::Coordinators);
    check_load(20018, Load::Markers);
}

/// The records of one producer filled the memory for requests of a leader, which read no connection any more: neither its followers' fetches
/// nor anybody else.
#[test]
fn producers_that_send_on_are_answered_all_the_time() {
    for seed in 0..6 {
        check_load(seed, Load::Pipelined);
    }
}

/// Nodes of two builds are one cluster: whichever of them leads, each request goes in a version that both know.
#[test]
fn nodes_that_speak_older_versions_are_members_like_others() {
    for seed in 0..6 {
        check_load(seed, Load::Upgrade);
    }
}

/// Nodes were killed again and again while no controller heard them. One that had been registered without hearing of it named the last of
/// its lives alone, which the controller did not know: in the end no partition had an eligible leader.
#[test]
fn every_life_that_a_controller_may_know_keeps_its_replicas_eligible() {
    check_load(272, Load::Moves);
}

/// A broker that acted as no leader for a moment refused the first batch of a producer and took the second for its first.
#[test]
fn a_producer_begins_with_the_first_batch_that_was_refused() {
    check_load(308, Load::Replicas);
}

/// A leader did not know all of its producers, because batches of theirs had rotted, and took the next one for out of order.
#[test]
fn producers_wait_for_the_repair_of_their_batches() {
    check_load(1159, Load::Rot);
}

/// The base offset of a batch had rotted before an index was made of it: the repair took it for right the second time that it looked.
#[test]
fn a_rotted_base_offset_in_an_index_is_repaired() {
    check_load(30, Load::Rot);
}

/// A replica was taken from a node and given back in one batch of metadata: that it knows nothing then was taken for a loss.
#[test]
fn a_replica_that_comes_back_at_once_begins_anew() {
    check_load(190, Load::Moves);
}

/// Nodes that were started one after the other with slow disks were not up when they had to serve again, and the demand that they do was
/// wrong.
#[test]
fn disks_are_fast_before_nodes_begin_anew() {
    check_load(20007, Load::Rot);
}

/// A log was cut, got a checkpoint and a few more segments, and was at rest from then on: the scrub never read what was closed last.
#[test]
fn what_was_closed_since_the_last_checkpoint_is_scrubbed() {
    check_load(152, Load::Rot);
}

/// A node lost power before it knew what of its metadata was committed, and began its replicas in leader epochs of the part that never
/// was: it took the later, lower ones for old, and led no more.
#[test]
fn a_start_takes_no_leader_epoch_that_may_never_be_committed() {
    check_load(325, Load::ReplicatedGroups);
}

/// A link between 2 nodes refused connections, so the controller fenced a broker that lived. A producer began an epoch at the next coordinator
/// and wrote to the broker, which still led by its metadata: its coordinator knew an older epoch and refused the batch, and the demand that
/// nothing fences a producer that is alone was wrong.
#[test]
fn a_coordinator_that_was_succeeded_unheard_may_take_an_epoch_for_fenced() {
    check_load(123, Load::ReplicatedTransactions);
}

/// Wall clocks ran at a rate of their own for moments in which the brokers served no client and asked for no time, and the demand that this had an
/// effect was wrong.
#[test]
fn a_skewed_clock_need_not_be_seen_where_nobody_is_served() {
    check_load(87, Load::ReplicatedTransactions);
}

/// Nodes cleaned logs on slow disks after everything had healed, and a directory that is slow joins no ISR: the demand that all replicas are
/// in sync meanwhile was wrong.
#[test]
fn disks_are_fast_before_every_replica_has_to_be_in_sync() {
    check_load(53, Load::QuietMoves);
}

/// A node lost its power, and its disk was replaced before the power was back, which the machine refuses.
#[test]
fn a_disk_may_be_replaced_at_a_node_without_power() {
    check_load(244, Load::Moves);
}

/// A slow disk keeps a host busy, whose time is ahead of the others' meanwhile: it was taken for one that had long been silent.
#[test]
fn the_silence_of_a_node_is_of_its_own_time() {
    check_load(276, Load::Moves);
}
