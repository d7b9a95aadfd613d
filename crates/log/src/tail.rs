//! The hot tail of one log: its newest batches, in memory as they were received.
//!
//! Invariant: batches are contiguous from `start` to `end`; those at or above `written` are not in a segment file yet and are
//! never dropped. Readers of the tail and the segment writer take clones, which share the received bytes. Does no IO.

use std::collections::VecDeque;

use model::Offset;
use wire::records::Batch;

#[derive(Debug)]
pub struct Tail {
    batches: VecDeque<Batch>,
    start: Offset,
    end: Offset,
    written: Offset,
    bytes: usize,
}

impl Tail {
    /// An empty tail of a log that ends at `end` and is wholly in its files.
    pub fn new(end: Offset) -> Tail {
        Tail {
            batches: VecDeque::new(),
            start: end,
            end,
            written: end,
            bytes: 0,
        }
    }

    /// The tail of a log that ends at `end` and whose last `batches` are not in its files yet. Offsets between them are lost.
    pub fn unwritten_from(batches: Vec<Batch>, end: Offset) -> Tail {
        let mut tail = Tail::new(batches.first().map_or(end, |batch| batch.base_offset()));
        batches.into_iter().for_each(|batch| tail.push(batch));
        assert!(tail.end <= end, "a log ends behind its batches");
        tail.end = end;
        tail
    }

    /// First offset in memory; equal to `end` when nothing is.
    pub fn start(&self) -> Offset {
        self.start
    }

    /// Next offset to be appended.
    pub fn end(&self) -> Offset {
        self.end
    }

    /// Next offset that the segment files lack.
    pub fn written(&self) -> Offset {
        self.written
    }

    /// Bytes held in memory.
    pub fn bytes(&self) -> usize {
        self.bytes
    }

    pub fn push(&mut self, batch: Batch) {
        assert!(batch.base_offset() >= self.end, "appends go to the end");
        self.end = batch.next_offset();
        self.bytes += batch.size();
        self.batches.push_back(batch);
    }

    /// Where a cut to `to` ends: in front of the batch that holds it, if that is in memory.
    #[must_use]
    pub fn cut_place(&self, to: Offset) -> Offset {
        let at = (self.batches).partition_point(|batch| batch.next_offset() <= to);
        match self.batches.get(at) {
            Some(batch) if batch.base_offset() < to => batch.base_offset(),
            Some(_) | None => to,
        }
    }

    /// Drops everything at and above `to`, which splits no batch. Returns the bytes that were not in segment files.
    pub fn cut(&mut self, to: Offset) -> usize {
        assert!(to <= self.end, "a log is cut at or in front of its end");
        let mut unwritten = 0;
        while let Some(batch) = self.batches.pop_back_if(|batch| to < batch.next_offset()) {
            assert!(to <= batch.base_offset(), "a cut splits no batch");
            self.bytes -= batch.size();
            if self.written <= batch.base_offset() {
                unwritten += batch.size();
            }
        }
        self.end = to;
        self.written = self.written.min(to);
        if self.batches.is_empty() {
            self.start = to;
        }
        unwritten
    }

    /// Whole batches from the one that holds `from` and below `limit`, up to `bytes_max`; the first is given whatever its size.
    pub fn read(&self, from: Offset, limit: Offset, bytes_max: usize) -> Vec<Batch> {
        let first = self
            .batches
            .partition_point(|batch| batch.next_offset() <= from);
        let mut bytes = 0;
        self.batches
            .range(first..)
            .take_while(|batch| {
                let fits = bytes == 0 || bytes + batch.size() <= bytes_max;
                bytes += batch.size();
                fits && batch.next_offset() <= limit
            })
            .cloned()
            .collect()
    }

    /// The next batches for the segment writer, below `limit` and of about `bytes_max` bytes.
    pub fn unwritten(&self, limit: Offset, bytes_max: usize) -> Vec<Batch> {
        self.read(self.written, limit, bytes_max)
    }

    /// Bytes at or above `written`.
    pub fn unwritten_bytes(&self) -> usize {
        self.batches
            .iter()
            .rev()
            .take_while(|batch| batch.base_offset() >= self.written)
            .map(|batch| batch.size())
            .sum()
    }

    /// Everything below `offset` is in segment files now.
    pub fn on_written(&mut self, offset: Offset) {
        assert!(
            self.written <= offset && offset <= self.end,
            "written moves forward within the tail"
        );
        self.written = offset;
    }

    /// Drops written batches below `offset`; returns how many bytes that freed.
    pub fn evict(&mut self, offset: Offset) -> usize {
        let limit = offset.min(self.written);
        let before = self.bytes;
        while let Some(batch) = self.batches.front() {
            if batch.next_offset() > limit {
                break;
            }
            self.start = batch.next_offset();
            self.bytes -= batch.size();
            self.batches.pop_front();
        }
        if self.batches.is_empty() {
            self.start = self.end;
        }
        before - self.bytes
    }

    pub fn iter(&self) -> impl Iterator<Item = &Batch> {
        self.batches.iter()
    }
}
