//! Brokers beside each other, each with clients of its own: links are cut and nodes are struck, and every node keeps its promises.

use sim::run::{Plan, Strike, Verdict, run_nodes};

const STRIKES: [Strike; 6] = [
    Strike::PowerCut,
    Strike::Kill,
    Strike::Restart,
    Strike::JumpClock,
    Strike::SlowDisk,
    Strike::Reset,
];

/// The verdicts of all nodes, each of which must be clean and have served its clients.
fn check(seed: u64, nodes: u8) -> Vec<Verdict> {
    let verdicts = run_nodes(seed, &Plan::beside(seed, &STRIKES, nodes), false);
    assert_eq!(verdicts.len(), usize::from(nodes));
    for (number, verdict) in verdicts.iter().enumerate() {
        let name = format!("seed {seed}, verdict {number} of {nodes}");
        assert!(verdict.is_clean(), "{name}: {}", verdict.describe());
        assert!(verdict.acked > 0 && verdict.polled > 0, "{name}");
    }
    verdicts
}

/// The run as one number, as it was when the last node was judged.
fn trace(verdicts: &[Verdict]) -> (u64, u64) {
    let last = verdicts.last().expect("a run has nodes");
    (last.trace, last.events)
}

#[test]
fn two_and_three_brokers_keep_their_promises_over_cut_links_and_repeat_their_run() {
    let mut traces = Vec::new();
    let (mut cuts, mut pauses) = (0, 0);
    for nodes in [2, 3] {
        for seed in 0..4 {
            let verdicts = check(seed, nodes);
            let first = trace(&verdicts);
            assert_eq!(first, trace(&check(seed, nodes)), "seed {seed}");
            assert!(!traces.contains(&first), "seed {seed}");
            traces.push(first);
            for verdict in &verdicts {
                cuts += verdict.counts.link_cuts;
                pauses += verdict.counts.pauses;
            }
        }
    }
    assert!(cuts > 20, "{cuts} things met a cut link");
    assert!(pauses > 0, "{pauses} pauses");
}
