//! Directories and processes that do not belong: each is survived, and named once.

use crate::check;

#[test]
fn emptied_voter_gives_no_vote_to_a_log_that_may_lack_what_it_had_acknowledged() {
    // 1 and 2 committed a record that 3 never saw. 2 forgets it, and 1 is away.
    check(
        "voters 3 | elect 1 | run | cut 3 | append 1 1 | run | cut 1 | wipe 2 | join 3 | wait 20000 => 1 committed 2 | 3 epoch 1 | 2 alarms 1",
    );
    check(
        "voters 3 | elect 1 | run | cut 3 | append 1 1 | run | cut 1 | wipe 2 | join 3 | wait 20000 | join 1 | wait 20000 => 2 log 1 1 3 | 3 log 1 1 3",
    );
}

#[test]
fn emptied_voter_does_not_count_before_the_others_have_committed_without_it() {
    check(
        "voters 3 | elect 1 | run | cut 3 | wipe 2 | append 1 1 | wait 2000 => 2 log 1 1 | 1 committed 1",
    );
    check(
        "voters 3 | elect 1 | run | wipe 2 | wait 1000 | append 1 1 | wait 1000 | cut 3 | append 1 1 | wait 1000 => 2 log 1 1 1 | 1 committed 3",
    );
}

#[test]
fn emptied_voter_votes_again_once_it_counts() {
    check(
        "voters 3 | elect 1 | run | wipe 2 | wait 1000 | append 1 1 | wait 1000 | cut 3 | append 1 1 | wait 1000 | cut 1 | join 3 | wait 9000 => 2 leader 2 | 3 log 1 1 1 2",
    );
}

#[test]
fn emptied_voter_of_two_votes_at_once() {
    // The other one was part of every majority.
    check(
        "voters 2 | elect 1 | run | append 1 1 | run | wipe 2 | cut 1 | wait 5000 | join 1 | wait 9000 => 2 log 1 1 3",
    );
}

#[test]
fn new_cluster_begins_once_all_of_its_voters_are_there() {
    check("new 3 | wait 5000 => 1 committed 1 | 2 committed 1 | 3 committed 1");
    check("new 3 | cut 3 | wait 20000 => 1 epoch 0 | 2 epoch 0");
    check("new 3 | cut 3 | wait 20000 | join 3 | wait 9000 => 1 committed 1 | 3 committed 1");
    check("new 5 | wait 9000 => 1 committed 1 | 5 committed 1");
}

/// A voter that was there from the beginning and never got a record is as empty as one that was emptied; together they know nothing.
#[test]
fn two_empty_voters_elect_nobody_while_a_third_has_metadata() {
    check(
        "voters 3 | cut 2 | elect 1 | append 1 1 | run | cut 1 | wipe 3 | join 2 | wait 20000 => 1 committed 2 | 2 epoch 0 | 3 epoch 0",
    );
}

#[test]
fn voter_without_its_vote_file_does_not_count_before_the_others_have_committed_without_it() {
    check(
        "voters 3 | elect 1 | run | rot 2 | cut 3 | append 1 1 | wait 2000 => 2 log 1 1 | 1 committed 1",
    );
    check(
        "voters 3 | elect 1 | run | rot 2 | wait 1000 | append 1 1 | wait 1000 | cut 3 | append 1 1 | wait 1000 => 1 committed 3",
    );
}

#[test]
fn voter_with_an_older_copy_of_its_directory_is_named_and_gets_what_it_lacks() {
    check(
        "voters 3 | elect 1 | run | append 1 3 | run | roll 2 1 | wait 3000 => 1 alarms 1 | 2 log 1 1 1 1 | 1 committed 4",
    );
}

#[test]
fn node_with_the_id_of_the_leader_is_named_by_both() {
    check(
        "dynamic 3 | elect 1 | run | double 4 1 | wait 3000 => 1 alarms 1 | 4 alarms 1 | 1 leader 1 | 4 unattached 0",
    );
    // Voters of the settings look for the leader under every id but their own.
    check("voters 3 | elect 1 | run | double 4 1 | wait 7000 => 4 alarms 0");
    check("voters 3 | elect 1 | run | double 4 1 | wait 20000 => 4 alarms 1 | 1 leader 1");
    check(
        "voters 3 | elect 1 | run | fetch 1 1 9 0 | fetch 1 1 9 0 => 1 alarms 1 | 1 answers -1 -1",
    );
}

#[test]
fn two_nodes_with_the_id_of_a_follower_are_named() {
    check("voters 3 | elect 1 | run | fetch 1 2 9 1 | fetch 1 2 2 1 | fetch 1 2 9 1 => 1 alarms 1");
    // One disk in the place of another.
    check("voters 3 | elect 1 | run | cut 2 | fetch 1 2 9 1 | fetch 1 2 9 1 => 1 alarms 0");
}

#[test]
fn snapshot_that_comes_damaged_is_fetched_again_without_haste() {
    check(
        "voters 3 | elect 1 | run | cut 3 | append 1 3 | run | snapshot 1 | trim 1 | spoil 3 2 | join 3 | wait 9000 => 3 end 4 | 3 committed 4 | 3 alarms 1",
    );
    check(
        "voters 3 | elect 1 | run | cut 3 | append 1 3 | run | snapshot 1 | trim 1 | spoil 3 1000 | join 3 | wait 9000 => 3 downloads 20 | 3 alarms 1",
    );
}

/// 3 missed what 1 and 2 committed, and was started as if it were alone. It leads a later epoch with a log that lacks those records.
#[test]
fn leader_that_lacks_what_is_committed_is_named_and_not_followed() {
    const ODD: &str = "voters 3 | elect 1 | run | append 1 1 | run | cut 3 | append 1 2 | run | wait 2000 | mark 1 | die 1 | alone 3 | join 3 | wait 9000";
    let check_after = |rest: &str| check(&format!("{ODD}{rest}"));
    check_after(" => 2 shuns | 2 committed 4 | 2 log 1 1 1 1 | 3 leader 2");
    // With another voter two are enough, while the odd one goes on.
    check_after(
        " | power 1 | wait 20000 => 1 begins 1 1 1 1 | 2 begins 1 1 1 1 | 1 least 5 | 2 least 5",
    );
    // Put right, it lacks nothing, before or after the others.
    check_after(" | power 1 | wait 9000 | among 3 | wait 20000 => 3 begins 1 1 1 1 | 3 least 5");
    check_after(
        " | among 3 | wait 500 | power 1 | wait 60000 => 1 least 5 | 2 least 5 | 2 begins 1 1 1 1",
    );
    check_after(
        " | among 3 | wait 30000 | power 1 | wait 60000 => 1 least 5 | 2 least 5 | 2 begins 1 1 1 1",
    );
}

#[test]
fn observer_follows_no_leader_that_lacks_what_is_committed() {
    check(
        "voters 1 observers 1 | elect 1 | append 1 3 | run | wait 3000 | roll 1 2 | wait 9000 => 2 shuns | 2 committed 4 | 2 log 1 1 1 1 | 1 leader 2",
    );
}

/// A snapshot may be what lacks it.
#[test]
fn snapshot_that_lacks_what_is_committed_is_not_fetched() {
    check(
        "voters 1 observers 1 | elect 1 | append 1 3 | run | wait 3000 | roll 1 2 | wait 500 | snapshot 1 | trim 1 | wait 9000 => 2 shuns | 2 log 1 1 1 1 | 2 downloads 0",
    );
}
