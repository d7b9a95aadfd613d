//! Several brokers in one world, under one set of metadata.

mod isr;
mod nodes;
mod spread;
