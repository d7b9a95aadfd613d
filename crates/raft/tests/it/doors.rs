//! Where voters find each other, whatever the listeners are called.

use crate::check;

/// A broker of Apache Kafka looks for its own name of the controllers' listener, and has no controller where the leader lacks it (T-1).
#[test]
fn leader_keeps_the_listener_names_that_the_voters_use() {
    check(
        "dynamic 3 | elect 1 | run | named 3 PLAINTEXT | wait 3000 => 1 names 3 CONTROLLER,PLAINTEXT | 2 names 3 CONTROLLER,PLAINTEXT",
    );
    check("dynamic 1 | named 1 PLAINTEXT | wait 3000 => 1 names 1 CONTROLLER,PLAINTEXT");
}

#[test]
fn voters_of_other_listener_names_find_each_other() {
    check(
        "dynamic 3 | named 1 A | named 2 B | named 3 C | wait 9000 | cut 1 | wait 9000 | join 1 | wait 9000 => 2 names 1 A,B,C,CONTROLLER",
    );
}

/// T-2.
#[test]
fn voter_that_cannot_be_found_does_not_lead_and_keeps_the_address_that_it_had() {
    check("dynamic 3 | elect 1 | run | named 3 | wait 3000 => 1 names 3 CONTROLLER | 3 follower 1");
}

#[test]
fn node_without_an_address_becomes_no_voter() {
    check(
        "dynamic 1 observers 1 | elect 1 | run | wait 3000 | bare 1 2 => 1 answers 42 | 1 voters 1",
    );
    check("dynamic 1 observers 1 | elect 1 | run | wait 3000 | add 1 2 | run => 1 voters 1,2");
}

/// T-3: its settings know only a node that has left.
#[test]
fn observer_asks_the_voters_of_its_log_for_the_leader() {
    check(
        "dynamic 3 observers 1 | elect 1 | run | wait 3000 | remove 1 2 | run | die 2 | seeds 4 2 | wait 9000 | append 1 1 | wait 3000 => 4 follower 1 | 4 log 1 1 1",
    );
}

/// Its vote file names the leader, nothing names an address of it, and the only node that it knows is the leader itself, whose answers say
/// nothing new.
#[test]
fn observer_that_starts_again_finds_the_leader_that_it_remembers() {
    check(
        "voters 3 observers 1 | seeds 4 1 | elect 1 | run | wait 3000 | append 1 1 | wait 3000 | kill 4 | wait 3000 | append 1 1 | wait 3000 => 4 follower 1 | 4 log 1 1 1",
    );
}
