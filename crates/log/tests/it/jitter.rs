//! `segment.jitter.ms`: partitions that begin together do not roll together, and none before its time.

use super::*;

const SEGMENT_MS: i64 = 1000;
const JITTER_MS: i64 = 400;

/// How long after the first record of a partition its segment is closed, with or without a restart on the way.
fn rolls_after(partition: i64, restarts: bool) -> i64 {
    let mut place = TestDir::simulated(1);
    place.dir = PathBuf::from(format!("/data/t-{partition}"));
    let config = || LogConfig {
        segment_ms: SEGMENT_MS,
        segment_jitter_ms: JITTER_MS,
        ..LogConfig::default()
    };
    let mut store = place.create(config(), 0);
    append(&store, &[batch(0, 1, 5000)]);
    if restarts {
        let known = store.known();
        drop(store);
        store = place.open(config(), Some(known)).0;
    }
    let is_rolled = |waited: &i64| {
        let late = batch(store.log_end().0, 1, 5000 + waited);
        store.append(&[late], NOW).unwrap().rolled.is_some()
    };
    (0..=SEGMENT_MS + 1)
        .find(is_rolled)
        .expect("it rolls in time")
}

#[test]
fn segments_roll_within_the_jitter_before_their_time_and_partitions_apart() {
    let rolled: Vec<i64> = (0..40).map(|at| rolls_after(at, false)).collect();
    let bounds = SEGMENT_MS - JITTER_MS + 1..=SEGMENT_MS + 1;
    assert!(
        rolled.iter().all(|after| bounds.contains(after)),
        "{rolled:?}"
    );
    // Forty of 400 moments, in each quarter of the span some.
    for quarter in 0..4 {
        let from = bounds.start() + quarter * JITTER_MS / 4;
        let span = from..from + JITTER_MS / 4;
        assert!(
            rolled.iter().any(|after| span.contains(after)),
            "none in {span:?}: {rolled:?}"
        );
    }
    let again: Vec<i64> = (0..40).map(|at| rolls_after(at, true)).collect();
    assert_eq!(again, rolled, "a restart moves nothing");
}
