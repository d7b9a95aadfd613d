//! The search for secrets where nobody may see them, for every run that gives nodes some.

#![forbid(unsafe_code)]

pub mod leaks;
