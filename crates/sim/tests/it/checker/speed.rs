//! The checker must not be what limits a run.

use std::time::Instant;

use sim::checker::check;

use super::clean;

#[test]
#[ignore = "a figure of optimised builds: cargo test --release -p sim -- --ignored"]
#[allow(clippy::disallowed_methods)] // measures this machine
fn a_million_events_are_judged_in_a_second() {
    let history = clean::history(1, 400_000, 12);
    let start = Instant::now();
    let report = check(&history);
    let seconds = start.elapsed().as_secs_f64();
    assert!(report.is_clean(), "{report}");
    let rate = report.events as f64 / seconds;
    println!(
        "{} events, {:.2} million per second",
        report.events,
        rate / 1e6
    );
    assert!(rate > 1e6);
}
