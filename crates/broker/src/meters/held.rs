//! Bytes that a broker holds in memory for those who use it, as its loops count them for their own bounds.
//!
//! A shard writes its row at the end of each turn, and nobody else does; whoever asks adds them up. The rows say what the shards'
//! limits are kept by, so a counter that is wrong here is one by which memory grows, or clients are turned away.

use std::ops::AddAssign;
use std::sync::atomic::{AtomicUsize, Ordering};

/// The sum over all shards.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Held {
    pub connections: usize,
    /// Bytes of requests that were read whole and are not answered.
    pub request_bytes: usize,
    /// Bytes of buffers of requests that are not whole, beyond what every connection may have.
    pub unfinished_bytes: usize,
    /// Bytes of answers in memory that clients have not taken.
    pub answer_bytes: usize,
    /// Requests that wait for something, and deadlines of those that do not wait for ever.
    pub waiting: usize,
    pub deadlines: usize,
    pub fetch_sessions: usize,
}

impl AddAssign for Held {
    fn add_assign(&mut self, other: Held) {
        self.connections += other.connections;
        self.request_bytes += other.request_bytes;
        self.unfinished_bytes += other.unfinished_bytes;
        self.answer_bytes += other.answer_bytes;
        self.waiting += other.waiting;
        self.deadlines += other.deadlines;
        self.fetch_sessions += other.fetch_sessions;
    }
}

/// The bytes of one shard when its last turn ended. Apart from those of other shards, so that none waits for another's cache line.
#[derive(Default)]
#[repr(align(128))]
pub(crate) struct Row([AtomicUsize; 7]);

impl Row {
    pub(crate) fn write(&self, held: Held) {
        let numbers = [
            held.connections,
            held.request_bytes,
            held.unfinished_bytes,
            held.answer_bytes,
            held.waiting,
            held.deadlines,
            held.fetch_sessions,
        ];
        for (cell, number) in self.0.iter().zip(numbers) {
            cell.store(number, Ordering::Relaxed);
        }
    }

    pub(crate) fn read(&self) -> Held {
        let number = |at: usize| self.0[at].load(Ordering::Relaxed);
        Held {
            connections: number(0),
            request_bytes: number(1),
            unfinished_bytes: number(2),
            answer_bytes: number(3),
            waiting: number(4),
            deadlines: number(5),
            fetch_sessions: number(6),
        }
    }
}
