//! Replication of partitions between brokers, as far as it needs threads and connections: the worker that follows leaders and asks
//! the controller for other ISRs. What a leader sends to its followers is `ops::feed`.

mod dirs;
mod gate;
mod isr;
mod mailbox;
mod worker;

pub(crate) use mailbox::Mailbox;
pub(crate) use worker::ReplicaWorker;
