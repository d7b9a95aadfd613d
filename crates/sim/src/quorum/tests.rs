//! A hundred seeds, and the same seed twice.

use super::run;

#[test]
fn quorums_keep_their_promises_under_faults() {
    let (mut cuts, mut refused) = (0, 0);
    for seed in 1..=100 {
        let verdict = run(seed, false);
        assert_eq!(verdict.broken, None, "seed {seed}");
        cuts += verdict.counts.cuts;
        refused += verdict.counts.refused;
    }
    assert!(cuts > 0, "no log was ever cut: the faults are too kind");
    assert!(
        refused > 0,
        "no voter was ever started without the others: the operators are too careful"
    );
}

/// A candidate of epoch 2 gets its last vote when epoch 3 has committed already: it leads, and nobody follows it.
#[test]
fn late_vote_makes_a_leader_of_an_epoch_that_is_over() {
    assert_eq!(run(14_737, false).broken, None);
}

#[test]
fn same_seed_is_the_same_run() {
    for seed in [3, 17] {
        assert_eq!(run(seed, false).trace, run(seed, false).trace);
    }
}
