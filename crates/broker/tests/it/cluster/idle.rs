//! A cluster that nobody uses: what its nodes hold in memory does not grow.

use std::time::Duration;

use super::nodes::*;

const TOPIC: &str = "t";
const MINUTE: Duration = Duration::from_secs(60);

/// Bytes of batches in memory, and those of requests, answers and buffers, of all nodes.
fn held(nodes: &Nodes) -> [(usize, usize); 3] {
    ALL.map(|node| {
        let (held, batches) = nodes.memory(node);
        let of_clients = held.request_bytes + held.unfinished_bytes + held.answer_bytes;
        (batches.hot_bytes + batches.unwritten_bytes, of_clients)
    })
}

#[test]
fn a_cluster_at_rest_holds_no_more_after_an_hour_than_after_minutes() {
    let nodes = Nodes::start(41);
    nodes.create_on(TOPIC, &[1, 2, 3], &[]);
    for number in 0..50 {
        nodes.produce(1, TOPIC, &number.to_string());
    }
    let busy = held(&nodes);
    nodes.pass(5 * MINUTE);
    let mut most = held(&nodes);
    assert!(
        busy.iter().all(|(batches, _)| 50 * 100 < *batches),
        "the newest batches are in memory: {busy:?}"
    );
    // Nodes write on: the records that an idle controller writes keep followers able to tell that they are up to date.
    for _ in 0..5 {
        nodes.pass(MINUTE);
        for (most, now) in most.iter_mut().zip(held(&nodes)) {
            *most = (most.0.max(now.0), most.1.max(now.1));
        }
    }
    for minute in 10..60 {
        nodes.pass(MINUTE);
        let now = held(&nodes);
        for (now, most) in now.iter().zip(&most) {
            assert!(
                now.0 <= most.0 + most.0 / 4 && now.1 <= most.1 + (4 << 10),
                "minute {minute}: {now:?} are held, {most:?} were"
            );
        }
    }
}
