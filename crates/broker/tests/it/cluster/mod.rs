//! Several brokers in one world, under one set of metadata.

mod failover;
mod isr;
mod nodes;
mod spread;
