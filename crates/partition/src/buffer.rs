//! The buffer that batches were received in, and which of them may stay there.
//!
//! A batch that stays keeps all of the buffer, with everything around it that was refused or went elsewhere. Invariant: of each buffer
//! the first batch that stays is counted for all of it, once for each log directory, because directories evict by themselves; the others
//! are counted for their places. So the tails count at least what they keep. None stays before an eighth of the size was kept by the same
//! directory, or is expected to be: a batch of some hundred bytes would count as a buffer of many KiB. A request that is one batch, or
//! a few, is never copied; of one with hundreds an eighth is.

use wire::Uuid;
use wire::records::Batch;

/// The first eighth of what is kept of a buffer is copied out; only batches behind that stay in it.
const COPIED_PART: usize = 8;

#[derive(Debug, Default)]
pub struct ReceiveBuffer {
    size: usize,
    shares: Vec<Share>,
}

/// The part of one log directory.
#[derive(Debug)]
struct Share {
    dir: Uuid,
    /// Bytes of accepted batches, and of those that are expected.
    bytes: usize,
    /// True if a batch of this directory is counted for the whole buffer.
    is_counted: bool,
}

/// Batches that were given their place, and are not accepted yet.
#[must_use]
#[derive(Clone, Copy, Debug)]
pub struct Placed {
    dir: Uuid,
    bytes: usize,
    stays: bool,
}

impl ReceiveBuffer {
    #[must_use]
    pub fn new(size: usize) -> ReceiveBuffer {
        ReceiveBuffer {
            size,
            shares: Vec::new(),
        }
    }

    /// Another buffer takes the place of this one.
    pub fn begin(&mut self, size: usize) {
        self.size = size;
        self.shares.clear();
    }

    #[must_use]
    pub fn size(&self) -> usize {
        self.size
    }

    fn share(&mut self, dir: Uuid) -> &mut Share {
        let known = self.shares.iter().position(|share| share.dir == dir);
        let at = known.unwrap_or_else(|| {
            self.shares.push(Share {
                dir,
                bytes: 0,
                is_counted: false,
            });
            self.shares.len() - 1
        });
        &mut self.shares[at]
    }

    /// `bytes` of batches are about to be given to a directory.
    pub fn expect(&mut self, dir: Uuid, bytes: usize) {
        self.share(dir).bytes += bytes;
    }

    /// Gives batches for one directory their place: they stay where they are, or are copied.
    pub fn place(&mut self, dir: Uuid, batches: &mut [Batch]) -> Placed {
        let bytes = batches.iter().map(|batch| batch.size()).sum();
        let (size, share) = (self.size, self.share(dir));
        let stays = size / COPIED_PART <= share.bytes + bytes;
        let mut counts_for = if share.is_counted { 0 } else { size };
        for batch in batches {
            if stays {
                batch.count_for(std::mem::take(&mut counts_for));
            } else {
                *batch = batch.detached();
            }
        }
        Placed { dir, bytes, stays }
    }

    /// The batches were accepted. Batches whose bytes were changed since they came (`as_received` is false) keep nothing of the buffer.
    pub fn on_kept(&mut self, placed: Placed, as_received: bool) {
        let share = self.share(placed.dir);
        share.bytes += placed.bytes;
        share.is_counted |= placed.stays && as_received;
    }
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;
    use model::Timestamp;
    use wire::records::{BatchBuilder, Source};

    use super::*;

    const HERE: Uuid = Uuid([1; 16]);
    const THERE: Uuid = Uuid([2; 16]);

    /// `count` batches one behind the other, each with a value of `value` bytes.
    fn received(count: usize, value: usize) -> Vec<Batch> {
        let mut all = Vec::new();
        for _ in 0..count {
            let mut builder = BatchBuilder::new();
            builder.push(Timestamp(0), None, Some(&vec![b'x'; value]), &[]);
            builder.build().write_to(&mut all);
        }
        let all = Bytes::from(all.into_boxed_slice());
        let batches = Batch::cut(&all, Source::Log);
        batches.map(|batch| batch.expect("it is whole")).collect()
    }

    fn counted(batches: &[Batch]) -> usize {
        batches.iter().map(Batch::held).sum()
    }

    #[test]
    fn what_stays_in_a_buffer_is_counted_for_all_of_it_and_once() {
        let mut buffer = ReceiveBuffer::new(64 << 10);
        let mut batches = received(100, 500);
        let size: usize = batches.iter().map(|batch| batch.size()).sum();
        let mut kept = Vec::new();
        for batch in &mut batches {
            let placed = buffer.place(HERE, std::slice::from_mut(batch));
            buffer.on_kept(placed, true);
            kept.push(batch.clone());
        }
        let places = received(1, 0)[0].held() * 100;
        let copied = size / 8..size / 4;
        let beside = counted(&kept) - (64 << 10);
        assert!(beside < copied.end + places, "{beside}");
        assert!(copied.start < beside, "{beside}");
    }

    #[test]
    fn a_small_batch_does_not_keep_a_large_buffer() {
        let mut buffer = ReceiveBuffer::new(64 << 10);
        let mut batches = received(1, 100);
        let records = batches[0].body().clone();
        let placed = buffer.place(HERE, &mut batches);
        buffer.on_kept(placed, true);
        assert_ne!(batches[0].body().as_ptr(), records.as_ptr(), "it is a copy");
        assert!(counted(&batches) < 500, "{}", counted(&batches));
    }

    #[test]
    fn every_directory_counts_the_buffer_and_none_that_keeps_nothing() {
        let mut buffer = ReceiveBuffer::new(10_000);
        let [mut refused, mut recompressed, mut here, mut there] =
            [(); 4].map(|()| received(1, 5000));
        let _ = buffer.place(HERE, &mut refused);
        let placed = buffer.place(HERE, &mut recompressed);
        buffer.on_kept(placed, false);
        for (dir, batches) in [(HERE, &mut here), (THERE, &mut there)] {
            let placed = buffer.place(dir, batches);
            buffer.on_kept(placed, true);
            assert!(10_000 < counted(batches), "{dir:?}");
        }
    }

    #[test]
    fn an_answer_whose_records_are_most_of_it_is_not_copied() {
        let mut batches = received(12, 100);
        let size = batches.iter().map(|batch| batch.size()).sum::<usize>() + 12 * 40;
        let mut buffer = ReceiveBuffer::new(size);
        buffer.expect(HERE, size - 12 * 40);
        for batch in &mut batches {
            let records = batch.body().as_ptr();
            let placed = buffer.place(HERE, std::slice::from_mut(batch));
            buffer.on_kept(placed, true);
            assert_eq!(batch.body().as_ptr(), records, "it stays");
        }
        assert!(size < counted(&batches));
    }
}
