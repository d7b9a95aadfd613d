//! Several brokers in one world, each with clients of its own, while links between them and their clients are cut.

use sim::run::{Load, Plan, Strike, run_nodes};

const STRIKES: [Strike; 3] = [Strike::PowerCut, Strike::Kill, Strike::Reset];

#[test]
fn brokers_beside_each_other_keep_their_promises_and_repeat_themselves() {
    for (seed, nodes) in [(1, 2), (2, 3)] {
        let plan = Plan::beside(seed, &STRIKES, nodes);
        let run = || run_nodes(seed, &plan, false);
        let (first, again) = (run(), run());
        assert_eq!(first.len(), usize::from(nodes));
        for (node, (one, other)) in (1..).zip(first.iter().zip(&again)) {
            assert!(
                one.is_clean(),
                "seed {seed} node {node}: {}",
                one.describe()
            );
            assert_eq!(
                (one.trace, one.events, one.counts),
                (other.trace, other.events, other.counts),
                "seed {seed} node {node}"
            );
        }
        let cuts: u64 = first.iter().map(|node| node.counts.link_cuts).sum();
        assert!(cuts > 0, "seed {seed}: no link was cut under traffic");
    }
}

#[test]
fn a_node_of_another_seed_runs_otherwise() {
    let trace = |seed| run_nodes(seed, &Plan::of_load(seed, Load::Nodes), false)[0].trace;
    assert_ne!(trace(1), trace(2));
}
