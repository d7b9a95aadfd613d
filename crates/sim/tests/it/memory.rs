//! I13: peers that take memory and bring nothing get no more than the bounds allow, and leave nothing behind.

use sim::run::{Load, Peaks, Plan};

use crate::broker::check;

#[test]
fn a_crowd_gets_what_the_bounds_allow_and_leaves_nothing_behind() {
    let mut most = Peaks::default();
    for seed in 1..13 {
        let peaks = check(seed, &Plan::of_load(seed, Load::Crowd)).peaks;
        most.unfinished_bytes = most.unfinished_bytes.max(peaks.unfinished_bytes);
        most.request_bytes = most.request_bytes.max(peaks.request_bytes);
        most.answer_bytes = most.answer_bytes.max(peaks.answer_bytes);
        most.fetch_sessions = most.fetch_sessions.max(peaks.fetch_sessions);
        most.waiting = most.waiting.max(peaks.waiting);
        most.hot_bytes = most.hot_bytes.max(peaks.hot_bytes);
    }
    // The bounds are 512 KiB, 512 KiB, 512 KiB of a shard's answers, six and 128 KiB. Requests of the crowd are answered in the turn in which they
    // are whole.
    assert!(most.unfinished_bytes > 512 << 10, "{most:?}");
    assert!(most.request_bytes > 50 << 10, "{most:?}");
    assert!(most.answer_bytes > 400 << 10, "{most:?}");
    assert!(most.fetch_sessions == 6 && most.waiting > 10, "{most:?}");
    assert!(most.hot_bytes > 100 << 10, "{most:?}");
}
