//! A vote is given once in an epoch, and is on disk before anyone knows of it.

use crate::check;

#[test]
fn candidate_counts_its_own_vote_only_once_it_is_stored() {
    // Two of four would be enough with its own: the disk has not said so yet.
    check("voters 3 | elect 1 | run => 1 voted nobody");
    check("voters 1 | hold 1 | kill 1 => 1 leader 2");
    check("voters 2 | hold 1 | expire 1 | run | wait 200 => 1 candidate 1 | 2 unattached 0");
    check("voters 2 | hold 1 | expire 1 | run | release 1 | run => 1 leader 1");
}

#[test]
fn vote_that_is_not_stored_is_not_told() {
    check("voters 3 | hold 2 | cut 3 | expire 1 | run | wait 500 => 1 candidate 1 | 2 voted 1");
    check("voters 3 | hold 2 | cut 3 | expire 1 | run | release 2 | run => 1 leader 1");
}

#[test]
fn vote_is_remembered_after_a_restart() {
    // 2 voted for 1, whose victory nobody heard of. 3 gets no vote in this epoch.
    check("voters 3 | cut 3 | expire 1 | run | kill 2 => 2 follower 1");
    check("voters 3 | hold 1 | expire 1 | run | kill 1 => 1 unattached 1 | 1 voted 1");
}

#[test]
fn replica_without_its_vote_file_follows_and_does_not_vote() {
    check(
        "voters 3 | elect 1 | run | rot 2 | append 1 1 | wait 3000 => 2 follower 1 | 2 log 1 1 | 2 alarms 1",
    );
    check("voters 3 | elect 1 | run | rot 2 | cut 1 | wait 20000 => 3 epoch 1 | 2 follower 1");
}
