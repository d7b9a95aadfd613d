//! Failures in which other systems lost what they had acknowledged, each in a few steps, on several loads.

use std::time::Duration;

use sim::run::Deed::{CutOff, HarmSnapshots, Kill, Pause, PowerOff, Rejoin, RotApart, Start};
use sim::run::{Plan, ScriptStep, run_nodes};

const SEEDS: std::ops::Range<u64> = 1..5;

fn ms(ms: u64) -> Duration {
    Duration::from_millis(ms)
}

fn check(script: &[ScriptStep]) {
    check_with(script, |_| {});
}

fn check_with(script: &[ScriptStep], change: impl Fn(&mut Plan)) {
    for seed in SEEDS {
        let mut plan = Plan::scripted(seed, script.to_vec());
        change(&mut plan);
        for verdict in run_nodes(seed, &plan, false) {
            assert!(verdict.is_clean(), "seed {seed}: {}", verdict.describe());
            assert!(verdict.acked > 0, "seed {seed}");
        }
    }
}

/// Kafka 0.8 (Jepsen, 2013): followers are cut off, their leader goes on and dies, and one of them leads without what it acknowledged.
#[test]
fn followers_that_were_cut_off_do_not_lead_without_what_was_acknowledged() {
    check(&[
        (ms(1_000), CutOff(2)),
        (ms(4_000), CutOff(3)),
        (ms(5_500), PowerOff(1)),
        (ms(6_000), Rejoin(2)),
        (ms(6_000), Rejoin(3)),
        (ms(10_000), Start(1)),
    ]);
}

/// The ISR shrinks to the leader, because the others stand still one after the other, and the leader loses its power.
#[test]
fn the_last_replica_in_sync_takes_nothing_with_it() {
    check(&[
        (ms(1_000), Pause(2, ms(2_500))),
        (ms(3_400), Pause(3, ms(2_500))),
        (ms(5_400), PowerOff(1)),
        (ms(9_000), Start(1)),
    ]);
    check(&[
        (ms(1_000), Kill(2)),
        (ms(4_000), Kill(3)),
        (ms(5_000), PowerOff(1)),
        (ms(5_500), Start(2)),
        (ms(6_000), Start(3)),
        (ms(10_000), Start(1)),
    ]);
}

/// NATS 7545: replicas change while nodes are cut off.
#[test]
fn replicas_that_change_while_nodes_are_cut_off_lose_nothing() {
    let script = [
        (ms(1_500), CutOff(1)),
        (ms(3_500), Rejoin(1)),
        (ms(4_000), CutOff(2)),
        (ms(6_000), Rejoin(2)),
        (ms(6_200), PowerOff(3)),
        (ms(7_000), Start(3)),
        (ms(8_000), CutOff(3)),
        (ms(10_000), Rejoin(3)),
    ];
    check_with(&script, |plan| plan.reassigns = true);
}

/// NATS 7549 rots a minority; TigerBeetle's helix is other places on each replica. Everything is repaired, over starts of all.
#[test]
fn other_places_that_rot_on_each_replica_are_repaired_from_the_others() {
    check(&[
        (ms(4_000), RotApart),
        (ms(4_500), Kill(1)),
        (ms(5_000), Start(1)),
        (ms(7_000), PowerOff(2)),
        (ms(7_500), Start(2)),
        (ms(9_500), Kill(3)),
        (ms(10_000), Start(3)),
    ]);
}

/// NATS 7556: a node whose snapshots are damaged takes streams for gone, and has them deleted everywhere.
#[test]
fn damaged_snapshots_of_one_node_delete_nothing() {
    for node in 1..=3 {
        check(&[
            (ms(3_000), PowerOff(node)),
            (ms(3_100), HarmSnapshots(node)),
            (ms(3_200), Start(node)),
            (ms(6_000), Kill(node % 3 + 1)),
            (ms(8_000), Start(node % 3 + 1)),
        ]);
    }
}

/// NATS 7567: one loses its power, the others stand still, and they go on in another order.
#[test]
fn a_power_cut_beside_nodes_that_stand_still_loses_nothing() {
    for node in 1..=3 {
        let (next, last) = (node % 3 + 1, (node + 1) % 3 + 1);
        check(&[
            (ms(2_000), Pause(next, ms(1_000))),
            (ms(2_050), Pause(last, ms(3_000))),
            (ms(2_100), PowerOff(node)),
            (ms(2_500), Start(node)),
            (ms(7_000), Pause(last, ms(2_500))),
            (ms(7_100), PowerOff(next)),
            (ms(7_200), Start(next)),
        ]);
    }
}
