//! Elections: how a node comes to lead, and ceases to.

use crate::check;

#[test]
fn lone_voter_leads_as_soon_as_its_vote_is_stored() {
    check("voters 1 => 1 leader 1 | 1 committed 1 | 1 log 1");
    check("voters 3 | elect 1 | kill 1 => 1 resigned 1");
}

#[test]
fn winner_writes_the_epoch_and_others_follow() {
    check(
        "voters 3 | elect 1 | run => 1 leader 1 | 2 follower 1 | 3 follower 1 | 1 log 1 | 3 log 1 | 1 committed 1",
    );
}

#[test]
fn election_needs_a_majority() {
    check(
        "voters 3 | cut 2 | cut 3 | expire 1 | run | wait 10000 => 1 prospective 0 | 1 voted nobody",
    );
    check("voters 5 | cut 2 | cut 3 | elect 1 => 1 leader 1");
}

#[test]
fn prospective_raises_no_epoch() {
    check("voters 3 | elect 1 | run | cut 3 | wait 20000 => 3 prospective 1 | 1 leader 1");
    check(
        "voters 3 | elect 1 | run | cut 3 | wait 20000 | join 3 | wait 3000 => 3 follower 1 | 1 leader 1",
    );
}

#[test]
fn voter_that_hears_its_leader_refuses_pre_votes() {
    check("voters 3 | elect 1 | run | expire 2 | run | wait 900 => 1 leader 1 | 2 follower 1");
}

#[test]
fn longer_log_wins() {
    // 3 lacks a record that 1 and 2 have: it cannot win while 2 is there.
    check(
        "voters 3 | elect 1 | run | cut 3 | append 1 1 | run | cut 1 | join 3 | wait 9000 => 2 leader 2 | 3 follower 2 | 3 log 1 1 2",
    );
}

#[test]
fn peers_without_pre_votes_are_asked_for_votes() {
    check("voters 3 | old | elect 1 => 1 leader 1");
}

#[test]
fn leader_without_a_majority_resigns_in_time() {
    check("voters 3 | elect 1 | run | cut 1 | wait 2900 => 1 leader 1");
    check("voters 3 | elect 1 | run | cut 2 | cut 3 | wait 3100 => 1 resigned 1");
}

#[test]
fn leader_that_is_none_any_more_says_why() {
    check("voters 3 | elect 1 | run | cut 2 | cut 3 | wait 2900 => 1 left nothing");
    check("voters 3 | elect 1 | run | cut 2 | cut 3 | wait 3100 => 1 left unheard 3000");
    check("voters 3 | elect 1 | run | resign 1 | run => 1 left resigned");
    // It was cut off, another one was elected, and it meets that or a candidate.
    check(
        "voters 3 | elect 1 | run | cut 1 | stand 3 | elect 2 | join 1 | wait 1000 => 1 left led 2 2",
    );
}

#[test]
fn leader_that_resigns_names_its_successor() {
    // The first in the list does not wait for its fetch time-out.
    check(
        "voters 3 | elect 1 | run | cut 3 | append 1 1 | run | join 3 | resign 1 | run | wait 100 => 2 leader 2 | 1 follower 2",
    );
}

#[test]
fn leader_that_comes_back_never_goes_on_in_its_epoch() {
    check("voters 3 | elect 1 | run | kill 1 => 1 resigned 1");
    check("voters 3 | elect 1 | run | kill 1 | wait 200 => 1 follower 2");
    check("voters 1 | append 1 2 | run | kill 1 => 1 leader 2 | 1 log 1 1 1 2");
}
