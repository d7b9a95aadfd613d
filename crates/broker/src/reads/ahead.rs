//! Reading ahead of clients that go straight on through a file.
//!
//! While a client decodes one answer the next ranges are brought to memory, in a bounded window that grows with the reader. Decides
//! only: the reader pool brings what is asked for.

use std::collections::VecDeque;
use std::sync::{Arc, Weak};

use env::{File, FileHandle};
use log::FileSlice;
use partition::Range;

/// Read-ahead starts with one answer's worth, doubles while the reader goes straight on, and ends here.
const AHEAD_BYTES_MIN: u64 = 2 << 20;
const AHEAD_BYTES_MAX: u64 = 16 << 20;
/// Sequential readers remembered per connection.
const READERS_MAX: usize = 32;

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
        (end + self.window).next_multiple_of(Range::STEP_BYTES)
    }
}

/// The disk's part of a slice that is about to be sent.
pub(crate) struct Wish {
    /// The slice is not in memory.
    pub(crate) is_cold: bool,
    /// The range that its reader will ask for next.
    pub(crate) ahead: Option<Range>,
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
    /// A slice is about to be sent: keeps the window of its reader full.
    pub(crate) fn on_slice(&mut self, slice: &FileSlice) -> Wish {
        self.on_span(Span {
            file: &slice.file,
            position: slice.position,
            len: slice.len as u64,
        })
    }

    fn on_span(&mut self, span: Span<'_>) -> Wish {
        let end = span.position + span.len;
        // The last answer may have ended inside a batch, which the reader then asks for again.
        let goes_on = |reader: &Reader| {
            let again = reader.next.checked_sub(span.position);
            again.is_some_and(|again| again <= span.len)
        };
        let is_it = |reader: &Reader| is_of(reader, span.file) && goes_on(reader);
        let is_cold = !span.file.is_resident(span.position, span.len);
        let Some(reader) = self.0.iter_mut().find(|reader| is_it(reader)) else {
            self.remember(Reader {
                file: Arc::downgrade(span.file),
                next: end,
                asked: end,
                window: AHEAD_BYTES_MIN,
            });
            return Wish {
                is_cold,
                ahead: None,
            };
        };
        reader.next = end;
        if is_cold {
            // The reader was faster than its window, which begins anew behind the slice.
            reader.asked = end;
        }
        let from = reader.asked.max(end);
        let mut ahead = None;
        if from < end + reader.window / 4 * 3 {
            let upto = reader.widen(end);
            reader.asked = upto;
            // Bytes that are there already need no thread; the window then moves on over them.
            if is_cold || !span.file.is_resident(from, upto - from) {
                ahead = Some(Range::new(Arc::clone(span.file), from, upto - from));
            }
        }
        Wish { is_cold, ahead }
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

#[cfg(test)]
mod tests {
    use std::io::{self, IoSlice};
    use std::path::Path;

    use env::disk::Open;
    use env::sim::{Faults, Machine};

    use super::*;

    /// A file of which nothing is in memory.
    struct Cold(FileHandle);

    impl File for Cold {
        fn read_at(&self, buf: &mut [u8], position: u64) -> io::Result<usize> {
            self.0.read_at(buf, position)
        }
        fn write_at(&self, bufs: &[IoSlice<'_>], position: u64) -> io::Result<()> {
            self.0.write_at(bufs, position)
        }
        fn sync_data(&self) -> io::Result<()> {
            self.0.sync_data()
        }
        fn len(&self) -> io::Result<u64> {
            self.0.len()
        }
        fn set_len(&self, len: u64) -> io::Result<()> {
            self.0.set_len(len)
        }
        fn set_modified_ms(&self, ms: i64) -> io::Result<()> {
            self.0.set_modified_ms(ms)
        }
        fn allocate(&self, position: u64, len: u64) -> io::Result<()> {
            self.0.allocate(position, len)
        }
        fn trim(&self) -> io::Result<()> {
            self.0.trim()
        }
        fn start_writeback(&self, position: u64, len: u64) {
            self.0.start_writeback(position, len);
        }
        fn bring_in(&self, position: u64, len: u64) {
            self.0.bring_in(position, len);
        }
        fn is_resident(&self, _: u64, _: u64) -> bool {
            false
        }
        fn drop_cache(&self, position: u64, len: u64) {
            self.0.drop_cache(position, len);
        }
        fn raw_fd(&self) -> Option<std::os::fd::RawFd> {
            None
        }
    }

    fn file(machine: &Machine) -> FileHandle {
        let disk = machine.env().disk;
        let file = disk.open(Path::new("/segment"), Open::Create);
        let file = file.expect("a new file");
        file.set_len(64 << 20).expect("room");
        file
    }

    /// The bytes from a number of MiB on, one MiB of them.
    fn span(file: &FileHandle, mib: u64) -> Span<'_> {
        Span {
            file,
            position: mib << 20,
            len: 1 << 20,
        }
    }

    fn ahead(readers: &mut Readers, span: Span<'_>) -> Option<(u64, u64)> {
        let wish = readers.on_span(span);
        assert!(wish.is_cold);
        let range = wish.ahead?;
        Some((range.position() >> 20, range.left() >> 20))
    }

    #[test]
    fn the_window_of_a_reader_grows_while_it_goes_straight_on() {
        let machine = Machine::new(1, Faults::default());
        let file: FileHandle = Arc::new(Cold(file(&machine)));
        let mut readers = Readers::default();
        assert_eq!(ahead(&mut readers, span(&file, 0)), None, "it may jump");
        assert_eq!(ahead(&mut readers, span(&file, 1)), Some((2, 4)));
        assert_eq!(ahead(&mut readers, span(&file, 2)), Some((3, 9)));
        assert_eq!(ahead(&mut readers, span(&file, 3)), Some((4, 16)));
        assert_eq!(
            ahead(&mut readers, span(&file, 4)),
            Some((5, 17)),
            "to a whole step"
        );
        assert_eq!(ahead(&mut readers, span(&file, 20)), None, "another reader");
    }

    #[test]
    fn readers_are_remembered_without_their_files() {
        let machine = Machine::new(1, Faults::default());
        let file = file(&machine);
        let mut readers = Readers::default();
        assert!(!readers.on_span(span(&file, 0)).is_cold);
        assert_eq!(Arc::strong_count(&file), 1, "a reader keeps no file open");
        assert!(!readers.on_span(span(&file, 1)).is_cold);
        assert_eq!(readers.0.len(), 1, "it goes straight on");
    }
}
