//! A replica that lost what it had: it leads nothing, and fetches all of it again.

use std::time::Duration;

use super::nodes::*;

const TOPIC: &str = "t";

#[test]
fn a_replica_whose_files_are_gone_fetches_them_again_and_then_counts() {
    let mut nodes = Nodes::start(41);
    nodes.create_on(TOPIC, &[2, 1, 3], &[]);
    for number in 0..20 {
        nodes.produce(2, TOPIC, &format!("value {number}"));
    }
    nodes.stop(2);
    nodes.remove_dir(2, "t-0");
    nodes.within(Duration::from_secs(1), |nodes| {
        Some(nodes.leaders(1, TOPIC)? != [2])
    });
    nodes.start_one(2);
    let is_whole = |nodes: &Nodes| {
        let (start, end) = nodes.ends(2, TOPIC)?;
        Some((start, end) == (0, 20) && nodes.isr(1, TOPIC)?.len() == 3)
    };
    nodes.until(is_whole);
    for number in 20..25 {
        let leader = nodes.leaders(1, TOPIC).expect("it is there")[0];
        let leader = Node::try_from(leader).expect("one leads");
        nodes.produce(leader, TOPIC, &format!("value {number}"));
    }
    nodes.until(|nodes| Some(nodes.ends(2, TOPIC)? == (0, 25)));
}

#[test]
fn files_of_the_only_replica_are_missed() {
    let mut nodes = Nodes::start(42);
    nodes.create_on(TOPIC, &[2], &[]);
    nodes.produce(2, TOPIC, "value");
    nodes.stop(2);
    nodes.remove_dir(2, "t-0");
    let refused = nodes.try_start(2).expect_err("nobody else has them");
    assert!(refused.contains("/data/t-0"), "{refused}");
}
