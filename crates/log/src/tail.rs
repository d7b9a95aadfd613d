//! The hot tail of one log: its newest batches, in memory as they were received.
//!
//! Invariant: batches are contiguous from `start` to `end`; those at or above `written` are not in a segment file yet and are
//! never dropped. Readers of the tail and the segment writer take clones, which share the received bytes. Does no IO.

use std::collections::VecDeque;

use model::Offset;
use wire::records::Batch;

/// Free places up to this many stay.
const PLACES_MIN: usize = 16;

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

    /// Bytes of memory that the batches hold, their places included.
    pub fn bytes(&self) -> usize {
        self.bytes
    }

    pub fn push(&mut self, batch: Batch) {
        assert!(batch.base_offset() >= self.end, "appends go to the end");
        self.end = batch.next_offset();
        self.bytes += batch.held();
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

    /// Drops everything at and above `to`, which splits no batch. Returns the bytes of memory of those that were not in segment files.
    pub fn cut(&mut self, to: Offset) -> usize {
        assert!(to <= self.end, "a log is cut at or in front of its end");
        let mut unwritten = 0;
        while let Some(batch) = self.batches.pop_back_if(|batch| to < batch.next_offset()) {
            assert!(to <= batch.base_offset(), "a cut splits no batch");
            self.bytes -= batch.held();
            if self.written <= batch.base_offset() {
                unwritten += batch.held();
            }
        }
        self.end = to;
        self.written = self.written.min(to);
        if self.batches.is_empty() {
            self.start = to;
        }
        self.give_back_places();
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

    /// Bytes that the batches at or above `written` will take in segment files.
    pub fn unwritten_size(&self) -> usize {
        let batches = self.batches.iter().rev();
        let unwritten = batches.take_while(|batch| batch.base_offset() >= self.written);
        unwritten.map(|batch| batch.size()).sum()
    }

    /// Bytes of memory of the batches at or above `written`.
    pub fn unwritten_bytes(&self) -> usize {
        self.batches
            .iter()
            .rev()
            .take_while(|batch| batch.base_offset() >= self.written)
            .map(Batch::held)
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

    /// Drops written batches below `offset`; returns how many bytes of memory they were counted for.
    pub fn evict(&mut self, offset: Offset) -> usize {
        let limit = offset.min(self.written);
        let before = self.bytes;
        while let Some(batch) = self.batches.front() {
            if batch.next_offset() > limit {
                break;
            }
            self.start = batch.next_offset();
            self.bytes -= batch.held();
            self.batches.pop_front();
        }
        if self.batches.is_empty() {
            self.start = self.end;
        }
        self.give_back_places();
        before - self.bytes
    }

    /// A burst of small batches leaves places behind that quieter times do not fill.
    fn give_back_places(&mut self) {
        let filled = self.batches.len();
        if PLACES_MIN < self.batches.capacity() && filled < self.batches.capacity() / 4 {
            self.batches.shrink_to(filled * 2);
        }
    }

    pub fn iter(&self) -> impl Iterator<Item = &Batch> {
        self.batches.iter()
    }
}

#[cfg(test)]
mod tests {
    use model::Timestamp;
    use wire::records::BatchBuilder;

    use super::*;

    fn batch(offset: i64) -> Batch {
        let mut builder = BatchBuilder::new().base_offset(Offset(offset));
        builder.push(Timestamp(0), None, Some(&[b'x'; 40]), &[]);
        builder.build()
    }

    /// Memory of the places, filled or not, and of the records.
    fn held(tail: &Tail) -> usize {
        let records: usize = tail.batches.iter().map(|batch| batch.body().len()).sum();
        tail.batches.capacity() * size_of::<Batch>() + records
    }

    #[test]
    fn small_batches_count_with_their_places_and_leave_none_behind() {
        let mut tail = Tail::new(Offset(0));
        let (mut counted, mut taken) = (0, 0);
        for offset in 0..10_000 {
            tail.push(batch(offset));
            (counted, taken) = (counted + tail.bytes(), taken + held(&tail));
        }
        assert!(
            taken <= counted,
            "{taken} bytes, {counted} counted, on average"
        );
        assert!(
            counted < taken * 3 / 2,
            "{counted} counted for {taken} bytes"
        );
        tail.on_written(Offset(10_000));
        tail.evict(Offset(9_990));
        let left = held(&tail);
        assert!(
            left <= PLACES_MIN.max(4 * 10) * size_of::<Batch>() + 10 * 100,
            "{left} bytes for 10"
        );
    }
}
