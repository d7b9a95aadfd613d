//! Replication of partitions between brokers, as far as it needs threads and connections: the worker that follows leaders, asks
//! the controller for other ISRs, and fetches what is damaged here. What a leader sends to its followers is `ops::feed`.

mod dirs;
mod gate;
mod isr;
mod repair;
mod unheard;
mod worker;

pub(crate) use worker::ReplicaWorker;
