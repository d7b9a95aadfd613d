//! Appends, the watermark, cuts.

use crate::check;

#[test]
fn record_is_committed_once_a_majority_has_synced_it() {
    check("voters 3 | elect 1 | run | append 1 2 | run => 1 committed 3 | 2 committed 3 | 3 end 3");
    check("voters 3 | elect 1 | run | cut 2 | cut 3 | append 1 2 | run => 1 end 3 | 1 committed 1");
}

#[test]
fn leader_counts_itself_up_to_its_own_sync() {
    check(
        "voters 2 | elect 1 | run | hold 1 | append 1 1 | run => 2 durable 2 | 1 durable 1 | 1 committed 1",
    );
    check(
        "voters 2 | elect 1 | run | hold 1 | append 1 1 | run | release 1 | run => 1 committed 2",
    );
    // The others are a majority without it.
    check("voters 3 | elect 1 | run | hold 1 | append 1 1 | run => 1 durable 1 | 1 committed 2");
}

#[test]
fn follower_does_not_ask_before_its_own_sync() {
    check(
        "voters 2 | elect 1 | run | hold 2 | append 1 1 | run => 2 end 2 | 2 durable 1 | 1 committed 1",
    );
    check("voters 2 | elect 1 | run | hold 2 | append 1 1 | wait 2500 => 2 follower 1");
}

#[test]
fn old_epoch_is_not_committed_by_counting() {
    // 1 writes in epoch 1 and is cut off; it comes back as the leader of a later epoch. What the others had of it commits nothing
    // before they have a record of the new epoch.
    check(
        "voters 3 | elect 1 | run | cut 2 | cut 3 | append 1 1 | run | wait 4000 | join 2 | elect 1 | run => 1 committed 3 | 2 end 3",
    );
}

#[test]
fn follower_cuts_what_its_leader_lacks() {
    check(
        "voters 3 | elect 1 | run | cut 1 | append 1 2 | run | doubt 3 | elect 2 | append 2 1 | run => 1 log 1 1 1 | 2 log 1 2 2 | 3 log 1 2 2",
    );
    check(
        "voters 3 | elect 1 | run | cut 1 | append 1 2 | run | doubt 3 | elect 2 | append 2 1 | run | join 1 | wait 9000 => 1 log 1 2 2 | 1 follower 2 | 1 committed 3",
    );
}

#[test]
fn power_cut_takes_what_was_not_synced() {
    check("voters 3 | elect 1 | run | hold 2 | append 1 1 | run | power 2 => 2 log 1 | 2 end 1");
    check(
        "voters 3 | elect 1 | run | hold 2 | append 1 1 | run | power 2 | wait 3000 => 2 log 1 1 | 2 committed 2",
    );
}
