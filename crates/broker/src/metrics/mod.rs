//! Metrics and health, as an operator sees them from outside.
//!
//! The loops count in cells of their own; [`Watch`](crate::Watch) reads those cells on another thread and never waits for a loop.

mod census;
pub(crate) mod counts;
pub(crate) mod lag;
pub(crate) mod meter;
mod page;
mod readiness;
mod samples;
mod sink;
pub(crate) mod software;
mod table;
mod watch;

pub use page::Form;
pub use sink::{Number, Sink};
pub use table::{Kind, METRICS, Metric, markdown};
pub use watch::{Process, Watch};
