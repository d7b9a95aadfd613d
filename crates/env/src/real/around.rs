//! Reads and writes around the page cache.
//!
//! The kernel wants buffer, position and length aligned, so the bytes of a call go through a buffer of the thread. Where a
//! file system takes no such calls, the caller reads and writes as usual.

use std::cell::RefCell;
use std::fs::File;
use std::io::{self, IoSlice};
use std::os::unix::fs::FileExt;

/// An alignment that suffices for every disk and file system in use.
const ALIGNMENT: usize = 4096;
/// Bytes per call, at most: the kernel has a disk work on parts of it side by side.
pub(super) const CALL_BYTES: usize = 1 << 20;

thread_local! {
    /// [`CALL_BYTES`] wherever they begin and end in a page, and what aligning the buffer takes. Zeroed by the system and touched as
    /// far as calls reach.
    static BUFFER: RefCell<Vec<u8>> = const { RefCell::new(Vec::new()) };
}

/// A descriptor of its own for what goes around the page cache, if the file system has such.
#[cfg(target_os = "linux")]
pub(super) fn reopen(file: &File) -> Option<File> {
    use std::fs::OpenOptions;
    use std::os::fd::AsRawFd;
    use std::os::unix::fs::OpenOptionsExt;

    let same = format!("/proc/self/fd/{}", file.as_raw_fd());
    OpenOptions::new()
        .read(true)
        .write(true)
        .custom_flags(libc::O_DIRECT)
        .open(same)
        .ok()
}

#[cfg(not(target_os = "linux"))]
pub(super) fn reopen(_: &File) -> Option<File> {
    None
}

/// Writes `bufs`, whole pages in all, through a descriptor of [`reopen`].
pub(super) fn write(file: &File, bufs: &[IoSlice<'_>], position: u64) -> io::Result<()> {
    with_buffer(|call| {
        let (mut filled, mut position) = (0, position);
        for buf in bufs {
            let mut rest: &[u8] = buf;
            while !rest.is_empty() {
                let (part, behind) = rest.split_at(rest.len().min(CALL_BYTES - filled));
                call[filled..filled + part.len()].copy_from_slice(part);
                filled += part.len();
                rest = behind;
                if filled == CALL_BYTES {
                    file.write_all_at(&call[..CALL_BYTES], position)?;
                    position += CALL_BYTES as u64;
                    filled = 0;
                }
            }
        }
        file.write_all_at(&call[..filled], position)
    })
}

/// Reads up to the end of `buf`, which is at most [`CALL_BYTES`], or of the file, through a descriptor of [`reopen`].
pub(super) fn read(file: &File, buf: &mut [u8], position: u64) -> io::Result<usize> {
    with_buffer(|call| {
        let skip = (position % ALIGNMENT as u64) as usize;
        let len = (skip + buf.len()).next_multiple_of(ALIGNMENT);
        let got = file.read_at(&mut call[..len], position - skip as u64)?;
        let found = call[..got].get(skip..).unwrap_or_default();
        let len = found.len().min(buf.len());
        buf[..len].copy_from_slice(&found[..len]);
        Ok(len)
    })
}

/// Lends the thread's aligned [`CALL_BYTES`] and a page, for those that begin inside of one.
fn with_buffer<T>(body: impl FnOnce(&mut [u8]) -> T) -> T {
    BUFFER.with_borrow_mut(|buffer| {
        if buffer.is_empty() {
            *buffer = vec![0; CALL_BYTES + 2 * ALIGNMENT];
        }
        let begin = buffer.as_ptr().align_offset(ALIGNMENT);
        body(&mut buffer[begin..begin + CALL_BYTES + ALIGNMENT])
    })
}
