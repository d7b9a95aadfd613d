//! I15: what clients do to the same topics at the same time is as if one did it after the other, over crashes as well.

use sim::run::{Load, Plan};

use crate::broker::check;

#[test]
fn topics_that_several_clients_change_at_once_are_linearizable() {
    for seed in 1..11 {
        let verdict = check(seed, &Plan::of_load(seed, Load::Council));
        assert!(verdict.acts > 100, "seed {seed}: {} acts", verdict.acts);
    }
}
