//! Writes around the page cache.
//!
//! The kernel wants buffer, position and length aligned, so a call's bytes are put together in a buffer of the thread. Where a
//! file system takes no such writes, the caller writes as usual.

use std::cell::RefCell;
use std::fs::File;
use std::io::{self, IoSlice};
use std::os::unix::fs::FileExt;

/// What every disk and file system in use is content with.
const ALIGNMENT: usize = 4096;
/// Bytes per call: the kernel has a disk work on parts of it side by side.
const CALL_BYTES: usize = 1 << 20;

thread_local! {
    /// [`CALL_BYTES`] and what aligning them takes. Zeroed by the system and touched as far as calls reach.
    static BUFFER: RefCell<Vec<u8>> = const { RefCell::new(Vec::new()) };
}

/// A descriptor of its own for writes around the page cache, if the file system has such.
#[cfg(target_os = "linux")]
pub(super) fn reopen(file: &File) -> Option<File> {
    use std::fs::OpenOptions;
    use std::os::fd::AsRawFd;
    use std::os::unix::fs::OpenOptionsExt;

    let same = format!("/proc/self/fd/{}", file.as_raw_fd());
    OpenOptions::new()
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
    BUFFER.with_borrow_mut(|buffer| {
        if buffer.is_empty() {
            *buffer = vec![0; CALL_BYTES + ALIGNMENT];
        }
        let begin = buffer.as_ptr().align_offset(ALIGNMENT);
        let call = &mut buffer[begin..begin + CALL_BYTES];
        let (mut filled, mut position) = (0, position);
        for buf in bufs {
            let mut rest: &[u8] = buf;
            while !rest.is_empty() {
                let (part, behind) = rest.split_at(rest.len().min(CALL_BYTES - filled));
                call[filled..filled + part.len()].copy_from_slice(part);
                filled += part.len();
                rest = behind;
                if filled == CALL_BYTES {
                    file.write_all_at(call, position)?;
                    position += CALL_BYTES as u64;
                    filled = 0;
                }
            }
        }
        file.write_all_at(&call[..filled], position)
    })
}
