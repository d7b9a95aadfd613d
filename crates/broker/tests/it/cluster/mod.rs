//! Several brokers in one world, under one set of metadata.

mod bounds;
mod bulk;
mod disks;
mod early;
mod eligible;
mod failover;
mod grown;
mod idle;
mod isr;
mod lives;
mod lost;
mod misfits;
mod nodes;
mod pipelined;
mod preferred;
mod reads;
mod reassign;
mod repairs;
mod rules;
mod silent;
mod spread;
mod trims;
