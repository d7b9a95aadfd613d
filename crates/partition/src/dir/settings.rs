//! Settings of a log directory.

use std::time::Duration;

#[derive(Clone, Copy, Debug)]
pub struct DirSettings {
    pub journal_piece_bytes: u64,
    /// The first piece is small, so that the first start is quick.
    pub journal_first_piece_bytes: u64,
    /// A checkpoint begins when the journal holds this much.
    pub checkpoint_bytes: u64,
    /// Recent batches kept in memory after they were written to segments.
    pub hot_tail_bytes: usize,
    /// Durable batches that may wait for the segment writer.
    pub unwritten_bytes_max: usize,
    /// Appends are refused when the volume has less than this left.
    pub reserve_bytes: u64,
    pub segment_files_open_max: usize,
    pub retention_check: Duration,
    pub producer_expiration_ms: i64,
    pub producer_expiration_check: Duration,
    /// Closed segments are read again at this pace; 0 for never.
    pub scrub_bytes_per_second: u64,
}
