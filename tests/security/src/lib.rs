//! The search for secrets where nobody may see them, for every run that gives nodes some.

#![forbid(unsafe_code)]
#![allow(clippy::disallowed_methods)] // looks at files as an operator does

pub mod leaks;
