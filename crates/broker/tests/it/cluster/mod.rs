//! Several brokers in one world, under one set of metadata.

mod nodes;
mod spread;
