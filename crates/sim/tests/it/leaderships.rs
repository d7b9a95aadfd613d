//! Clients of a cluster that look for the brokers they need: groups and transactions whose coordinators, partitions and controller are at
//! different brokers, which are struck and cut off from each other.

use sim::run::{Load, Plan, Verdict, run};

fn check(seed: u64, load: Load) -> Verdict {
    let verdict = run(seed, &Plan::of_load(seed, load), false);
    assert!(verdict.is_clean(), "seed {seed}: {}", verdict.describe());
    verdict
}

#[test]
fn groups_keep_what_they_were_told_wherever_their_coordinators_are() {
    let (mut commits, mut unanswered) = (0, 0);
    for seed in [3, 5, 8, 13] {
        let verdict = check(seed, Load::Coordinators);
        commits += verdict.commits;
        unanswered += verdict.unanswered;
        if seed == 5 {
            let again = check(seed, Load::Coordinators);
            assert_eq!((verdict.trace, verdict.events), (again.trace, again.events));
        }
    }
    assert!(commits > 200, "{commits} commits");
    assert!(unanswered > 50, "{unanswered} requests without an answer");
}

#[test]
fn transactions_end_as_they_were_decided_wherever_their_partitions_are() {
    let (mut committed, mut aborted) = (0, 0);
    for seed in [1, 5, 8, 13] {
        let verdict = check(seed, Load::Markers);
        committed += verdict.txns_committed;
        aborted += verdict.txns_aborted;
    }
    assert!(committed > 50, "{committed} transactions committed");
    assert!(aborted > 20, "{aborted} transactions aborted");
}

#[test]
fn a_node_starts_though_its_power_went_while_its_metadata_log_was_being_cut() {
    check(36, Load::Markers);
}
