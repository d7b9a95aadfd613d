//! Cold reads: bytes that are not in memory are brought there by a helper thread, ahead of readers that go straight on, and bytes
//! of an earlier life of the process are verified there before they are first served. Records are found by their times there too.
//!
//! A shard never waits for the disk: a fetch of cold bytes is parked and told when they are there, and while its client
//! decodes one answer the next ranges are read. Small steps, one at a time, and a bounded window keep the device free for commits.

use std::collections::VecDeque;
use std::sync::{Arc, Weak};

use env::{Bell, File, FileHandle, Turn, Worker};
use log::FileSlice;
use model::{Instant, Ticket};
use parking_lot::Mutex;
use partition::{News, Partition, ReadRequest};

use crate::kafka::api::list_offsets::Search;
use crate::shared::Shared;

/// Read-ahead starts with one answer's worth, doubles while the reader goes straight on, and ends here.
const AHEAD_BYTES_MIN: u64 = 2 << 20;
const AHEAD_BYTES_MAX: u64 = 16 << 20;
/// What waits for the disk; past it a fetch reads, and verifies, for itself.
const QUEUE_MAX: usize = 256;
/// Sequential readers remembered per connection.
const READERS_MAX: usize = 32;
/// What is asked of the disk at once: a sync may have to wait behind it.
const STEP_BYTES: u64 = 2 << 20;

/// A range of a file to be brought to memory, and who waits for its first `needed` bytes.
pub(crate) struct Range {
    file: FileHandle,
    position: u64,
    needed: u64,
    ahead: u64,
    waiter: Option<Ticket>,
}

impl Range {
    /// Brings its first bytes to memory. Returns who waited for them, if they are all there.
    fn bring_some(&mut self) -> Option<Ticket> {
        let left = self.needed + self.ahead;
        // Steps begin where those of other ranges do.
        let some = left.min(STEP_BYTES - self.position % STEP_BYTES);
        self.file.bring_in(self.position, some);
        self.position += some;
        let ahead = some.saturating_sub(self.needed);
        self.needed -= some - ahead;
        self.ahead -= ahead;
        self.waiter.take_if(|_| self.needed == 0)
    }

    fn is_brought(&self) -> bool {
        self.needed + self.ahead == 0
    }
}

/// Reads of one fetch whose bytes nobody has verified.
struct Unverified {
    reads: Vec<(Arc<Partition>, ReadRequest)>,
    waiter: Ticket,
}

enum Work {
    Bring(Range),
    Verify(Unverified),
    Search(Arc<Search>, Ticket),
}

#[derive(Default)]
struct Queue {
    work: VecDeque<Work>,
    /// The helper thread has ended: nobody would be told.
    is_closed: bool,
}

/// The way to the helper thread.
pub(crate) struct Prefetcher {
    queue: Mutex<Queue>,
    bell: Arc<dyn Bell>,
}

impl Prefetcher {
    pub(crate) fn new(bell: Arc<dyn Bell>) -> Prefetcher {
        Prefetcher {
            queue: Mutex::default(),
            bell,
        }
    }

    pub(crate) fn ring(&self) {
        self.bell.ring();
    }

    /// Has the bytes of these reads verified; `waiter` is told when they are, or are known to be damaged. False when too many wait
    /// already, or nobody works on it any more.
    pub(crate) fn verify(&self, reads: Vec<(Arc<Partition>, ReadRequest)>, waiter: Ticket) -> bool {
        self.push(Work::Verify(Unverified { reads, waiter }))
    }

    /// Has times looked up; `waiter` is told when they are. False as for [`Prefetcher::verify`].
    pub(crate) fn search(&self, search: Arc<Search>, waiter: Ticket) -> bool {
        self.push(Work::Search(search, waiter))
    }

    fn ask(&self, range: Range) -> bool {
        self.push(Work::Bring(range))
    }

    /// False when too many wait already, or nobody works on it any more.
    fn push(&self, work: Work) -> bool {
        let mut queue = self.queue.lock();
        let is_taken = !queue.is_closed && queue.work.len() < QUEUE_MAX;
        if is_taken {
            queue.work.push_back(work);
            drop(queue);
            self.bell.ring();
        }
        is_taken
    }
}

/// One reader that goes straight on through a file.
struct Reader {
    /// Weak: a connection may be open for months, and files that were deleted or closed meanwhile must go.
    file: Weak<dyn File>,
    next: u64,
    /// Up to where reading ahead was asked for.
    asked: u64,
    window: u64,
}

impl Reader {
    /// Up to where to read ahead of `end`, now that the reader has come there.
    fn widen(&mut self, end: u64) -> u64 {
        self.window = (self.window * 2).min(AHEAD_BYTES_MAX);
        (end + self.window).next_multiple_of(STEP_BYTES)
    }
}

/// Bytes of a file that are about to be sent.
#[derive(Clone, Copy)]
struct Span<'a> {
    file: &'a FileHandle,
    position: u64,
    len: u64,
}

/// The sequential readers of one connection.
#[derive(Default)]
pub(crate) struct Readers(VecDeque<Reader>);

impl Readers {
    /// A slice is about to be sent: keeps the reader's window full. Returns whether `ticket` will be told when the slice is
    /// in memory; otherwise it may be sent now.
    pub(crate) fn on_slice(
        &mut self,
        slice: &FileSlice,
        ticket: Option<Ticket>,
        prefetcher: &Prefetcher,
    ) -> bool {
        let span = Span {
            file: &slice.file,
            position: slice.position,
            len: slice.len as u64,
        };
        self.on_span(span, ticket, prefetcher)
    }

    fn on_span(&mut self, span: Span<'_>, ticket: Option<Ticket>, prefetcher: &Prefetcher) -> bool {
        let end = span.position + span.len;
        // The last answer may have ended inside a batch, which the reader then asks for again.
        let goes_on = |reader: &Reader| {
            reader
                .next
                .checked_sub(span.position)
                .is_some_and(|again| again <= span.len)
        };
        let known = self
            .0
            .iter()
            .position(|reader| is_of(reader, span.file) && goes_on(reader));
        let is_cold = ticket.is_some() && !span.file.is_resident(span.position, span.len);
        let Some(at) = known else {
            self.remember(Reader {
                file: Arc::downgrade(span.file),
                next: end,
                asked: end,
                window: AHEAD_BYTES_MIN,
            });
            return is_cold && prefetcher.ask(range(span, 0, ticket));
        };
        let reader = &mut self.0[at];
        reader.next = end;
        if is_cold {
            // The reader was faster than its window: wait for this slice.
            let upto = reader.widen(end);
            if prefetcher.ask(range(span, upto - end, ticket)) {
                reader.asked = upto;
                return true;
            }
        }
        let from = reader.asked.max(end);
        if from < end + reader.window / 4 * 3 {
            // Bytes that are there already need no thread; the window then moves on over them.
            let ahead = reader.widen(end) - from;
            let is_asked = span.file.is_resident(from, ahead)
                || prefetcher.ask(Range {
                    file: Arc::clone(span.file),
                    position: from,
                    needed: 0,
                    ahead,
                    waiter: None,
                });
            if is_asked {
                reader.asked = from + ahead;
            }
        }
        false
    }

    fn remember(&mut self, reader: Reader) {
        if self.0.len() == READERS_MAX {
            self.0.pop_front();
        }
        self.0.push_back(reader);
    }
}

fn is_of(reader: &Reader, file: &FileHandle) -> bool {
    std::ptr::addr_eq(reader.file.as_ptr(), Arc::as_ptr(file))
}

fn range(span: Span<'_>, ahead: u64, waiter: Option<Ticket>) -> Range {
    Range {
        file: Arc::clone(span.file),
        position: span.position,
        needed: span.len,
        ahead,
        waiter,
    }
}

/// The loop of the helper thread.
pub(crate) struct PrefetchLoop {
    pub(crate) shared: Arc<Shared>,
}

impl Worker for PrefetchLoop {
    fn turn(&mut self) -> Turn {
        loop {
            let next = {
                let mut queue = self.shared.prefetcher.queue.lock();
                queue.is_closed = queue.work.is_empty() && self.shared.is_stopping();
                if queue.is_closed {
                    return Turn::Done;
                }
                queue.work.pop_front()
            };
            let waiter = match next {
                None => return Turn::Sleep { until: None },
                Some(Work::Bring(mut range)) => {
                    let waiter = range.bring_some();
                    if !range.is_brought() {
                        // Readers take turns. It had its place, and goes on without asking for one.
                        let mut queue = self.shared.prefetcher.queue.lock();
                        queue.work.push_back(Work::Bring(range));
                    }
                    waiter
                }
                Some(Work::Verify(unverified)) => {
                    for (partition, request) in &unverified.reads {
                        // Planning verifies. Damage is found again by whoever asks, who is told.
                        let _ = partition.plan_read(ReadRequest {
                            may_wait: false,
                            ..*request
                        });
                    }
                    Some(unverified.waiter)
                }
                Some(Work::Search(search, waiter)) => {
                    search.answer();
                    Some(waiter)
                }
            };
            if let Some(ticket) = waiter {
                self.shared.spread(vec![News::Readable(ticket)]);
            }
        }
    }

    fn park(&mut self, until: Option<Instant>) {
        self.shared.prefetcher.bell.wait(until);
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use env::disk::Open;
    use env::sim::{Faults, Machine};

    use super::*;

    #[test]
    fn readers_are_remembered_without_their_files() {
        let machine = Machine::new(1, Faults::default());
        let env = machine.env();
        let prefetcher = Prefetcher::new(env.threads.bell());
        let file = env.disk.open(Path::new("/segment"), Open::Create);
        let file = file.expect("a new file");
        file.set_len(64 << 20).expect("room");
        let span = |position| Span {
            file: &file,
            position,
            len: 1 << 20,
        };
        let mut readers = Readers::default();
        assert!(!readers.on_span(span(0), None, &prefetcher));
        assert_eq!(Arc::strong_count(&file), 1, "who reads keeps no file open");
        assert!(!readers.on_span(span(1 << 20), None, &prefetcher));
        assert_eq!(readers.0.len(), 1, "it goes straight on");
    }
}
