//! The log checker: what clients saw, held against what a replicated log promises.
//!
//! Input is a [`History`] of completed operations; output a [`Report`] of anomalies, each with an example. Written once and
//! used at every level, from one simulated broker to real processes. Knows nothing of brokers, protocols or time limits; a
//! history in which nothing happened is refused by the [`Guard`].
//!
//! Write-write cycles between transactions are normal in this kind of log (there is no write isolation), so only write-read
//! cycles are searched.

mod cycles;
mod ends;
mod guard;
mod history;
mod linear;
mod loss;
mod order;
mod outcome;
mod report;
mod session;

pub use guard::{Fault, Guard};
pub use history::{EndSeen, History, Isolation, Key, Kind, Op, Outcome, Polled, Sent, Value};
pub use linear::{Act, Told, Verb, linearize};
pub use outcome::{Answer, Attempt, Meaning, Request, classify};
pub use report::{Anomaly, Report};

/// Judges a history.
#[must_use]
pub fn check(history: &History) -> Report {
    let mut report = Report::default();
    let order = order::Orders::build(history, &mut report);
    loss::check(history, &order, &mut report);
    session::check(history, &order, &mut report);
    cycles::check(history, &order, &mut report);
    ends::check(history, &mut report);
    report
}
