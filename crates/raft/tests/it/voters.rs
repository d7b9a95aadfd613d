//! Voters come and go one at a time.

use crate::check;
use crate::world::World;

#[test]
fn first_leader_writes_the_voters_of_the_bootstrap_snapshot() {
    // LeaderChange, KRaftVersion and Voters are three records of one batch.
    check("dynamic 3 | elect 1 | run => 1 log 1 | 1 end 3 | 2 voters 1,2,3");
}

#[test]
fn replica_that_caught_up_becomes_a_voter() {
    check(
        "dynamic 1 observers 1 | wait 2000 | add 1 2 | run => 1 voters 1,2 | 2 voters 1,2 | 1 answers 0",
    );
}

#[test]
fn replica_that_never_fetched_does_not_become_a_voter() {
    check(
        "dynamic 1 observers 1 | cut 2 | run | join 2 | add 1 2 | run => 1 voters 1 | 1 answers 7",
    );
}

#[test]
fn second_change_waits_for_the_first() {
    check(
        "dynamic 3 | elect 1 | run | cut 2 | cut 3 | remove 1 2 | remove 1 3 => 1 voters 1,3 | 1 answers 7",
    );
}

#[test]
fn change_waits_for_the_epochs_first_commit() {
    check(
        "dynamic 3 | elect 1 | run | cut 1 | doubt 3 | elect 2 | hold 2 | hold 3 | append 2 1 | remove 2 1 => 2 answers",
    );
    check(
        "dynamic 3 | hold 1 | expire 1 | run | cut 2 | cut 3 | release 1 | run | remove 1 2 => 1 answers 6",
    );
}

#[test]
fn leader_that_removes_itself_leads_until_that_is_committed() {
    check("dynamic 3 | elect 1 | run | remove 1 1 | run | wait 9000 => 1 answers 0 | 1 voters 2,3");
    check("dynamic 3 | elect 1 | run | cut 2 | cut 3 | remove 1 1 => 1 leader 1 | 1 voters 2,3");
}

#[test]
fn leader_that_dies_with_its_own_removal_written_is_elected_again() {
    // Nobody else has the record, so nobody else's log is as long; without its standing the quorum would be stuck.
    check(
        "dynamic 2 | elect 1 | run | cut 2 | remove 1 1 | run | kill 1 | join 2 | wait 20000 => 2 voters 2 | 2 committed 6",
    );
}

#[test]
fn removed_voter_disturbs_nobody() {
    let mut world = World::default();
    for command in "dynamic 3|elect 1|run|remove 1 3|run|wait 9000".split('|') {
        world.play(command);
    }
    let before = world.epoch(1);
    world.play("wait 60000");
    assert_eq!(world.epoch(1), before);
}

/// Node 4 went by the number of a voter, or of a node that is added, and is gone.
#[test]
fn directory_of_a_process_that_is_gone_gets_no_vote() {
    let raised = "voters 3 | elect 1 | run | wait 3000 | die 3 | double 4 3 | wait 5000 | die 4 | wait 100000 | raise 1";
    check(&format!("{raised} => 1 keeps 3 none | 1 leader 1"));
    check(&format!(
        "{raised} | kill 3 | wait 9000 | raise 1 | run => 1 keeps 3 3"
    ));
    let added = "dynamic 1 observers 1 | wait 2000 | double 3 2 | wait 2000 | die 3 | wait 100000 | add 1 2 3 | run";
    check(&format!("{added} => 1 voters 1 | 1 answers 7"));
    check(&format!("{added} | add 1 2 | run => 1 keeps 2 2"));
}

#[test]
fn node_that_runs_twice_gets_no_vote() {
    check(
        "dynamic 1 observers 1 | wait 2000 | double 3 2 | wait 3000 | add 1 2 | run => 1 voters 1 | 1 answers 7",
    );
    check(
        "voters 3 | elect 1 | run | wait 3000 | double 4 3 | wait 5000 | raise 1 => 1 keeps 3 none",
    );
}
