//! OpenTelemetry's protocol for metrics: reading what clients pushed to a broker, and pushing what a broker counts to a collector.

mod export;
mod points;
mod push;

pub(crate) use points::points;
pub(crate) use push::{Target, run};
