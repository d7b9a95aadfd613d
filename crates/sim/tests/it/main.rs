//! The checker against histories that are known to be clean or broken, and the broker against the checker.

mod broker;
mod checker;
mod classics;
mod client;
mod cluster;
mod coordinators;
mod council;
mod crowd;
mod dirs;
mod epochs;
mod full;
mod hangs;
mod last_epoch;
mod leaderships;
mod memory;
mod nodes;
mod odd_loads;
mod small_broker;
