//! Metrics and health, as an operator sees them from outside.
//!
//! The loops count in cells of their own; [`Watch`](crate::Watch) reads those cells on another thread and never waits for a loop.

mod census;
mod page;
mod readiness;
mod samples;
mod sink;
mod table;
mod watch;

pub use page::Form;
pub use sink::{Number, Sink};
pub use table::{Kind, METRICS, Metric, markdown};
pub use watch::{Process, Watch};
