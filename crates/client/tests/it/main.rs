//! The client against a broker in memory that fails on purpose.

mod consuming;
mod fake;
mod producing;
mod routing;
