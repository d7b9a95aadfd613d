//! Snapshots take the place of a log that is trimmed.

use crate::check;

#[test]
fn replica_behind_the_log_start_fetches_the_snapshot() {
    check(
        "voters 3 | elect 1 | run | cut 3 | append 1 3 | run | snapshot 1 | trim 1 | join 3 | wait 9000 => 3 follower 1 | 3 end 4 | 3 committed 4 | 3 log",
    );
    check(
        "voters 3 | elect 1 | run | cut 3 | append 1 3 | run | snapshot 1 | trim 1 | append 1 1 | join 3 | wait 9000 => 3 end 5 | 3 log 1",
    );
}

#[test]
fn diverging_log_is_replaced_by_the_snapshot() {
    check(
        "voters 3 | elect 1 | run | cut 1 | append 1 4 | run | doubt 3 | elect 2 | append 2 1 | run | snapshot 2 | trim 2 | join 1 | wait 9000 => 1 follower 2 | 1 end 3 | 1 committed 3",
    );
}

#[test]
fn newcomer_gets_the_newest_snapshot_first() {
    check("dynamic 1 observers 1 | run | append 1 3 | run | wait 3000 => 2 end 6 | 2 voters 1");
    check(
        "dynamic 1 observers 1 | cut 2 | append 1 3 | run | snapshot 1 | join 2 | wait 5000 => 2 end 6 | 2 voters 1 | 2 log",
    );
}
