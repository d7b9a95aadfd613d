//! The client against a broker in memory that fails on purpose.

mod consuming;
mod door;
mod fake;
mod logging_in;
mod producing;
mod routing;
