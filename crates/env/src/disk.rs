//! Files and directories.
//!
//! Invariant of every implementation: bytes are durable once [`File::sync_data`] returned `Ok` for a file whose directory
//! entry was made durable by [`Disk::sync_dir`]; nothing else is promised. After a failed sync nothing about the file is known.

use std::io::{self, IoSlice};
use std::path::Path;
use std::sync::Arc;

/// The way in which a file is opened.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Open {
    /// Existing file, reads only.
    Read,
    /// Existing file, reads and writes.
    Write,
    /// Existing or new file, reads and writes; keeps the content.
    Create,
    /// New file; fails with `AlreadyExists`.
    CreateNew,
    /// Existing or new file, emptied.
    Truncate,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entry {
    pub name: String,
    pub is_dir: bool,
    pub len: u64,
}

/// An open directory.
pub trait Dir: Send + Sync {
    /// Makes its entries durable.
    fn sync(&self) -> io::Result<()>;
}

/// Held while a directory is ours; dropped with the process.
pub trait Lock: Send + Sync {}

pub trait Disk: Send + Sync {
    fn open(&self, path: &Path, how: Open) -> io::Result<FileHandle>;
    /// Creates `path` and its parents; the caller syncs what must last.
    fn create_dir_all(&self, path: &Path) -> io::Result<()>;
    /// Entries in name order, `.` and `..` left out.
    fn read_dir(&self, path: &Path) -> io::Result<Vec<Entry>>;
    fn exists(&self, path: &Path) -> io::Result<bool>;
    /// When a file was last written or got its length, by the wall clock, in milliseconds since 1970. Takes no descriptor.
    fn modified_ms(&self, path: &Path) -> io::Result<i64>;
    /// True if the file lets nobody but its owner read or write it.
    fn is_private(&self, path: &Path) -> io::Result<bool>;
    /// Atomic replacement, durable after `sync_dir` of the parent.
    fn rename(&self, from: &Path, to: &Path) -> io::Result<()>;
    fn remove_file(&self, path: &Path) -> io::Result<()>;
    fn remove_dir_all(&self, path: &Path) -> io::Result<()>;
    /// A directory to be synced later: that needs a descriptor now and none then.
    fn open_dir(&self, path: &Path) -> io::Result<Box<dyn Dir>>;
    /// Makes the entries of `path` durable.
    fn sync_dir(&self, path: &Path) -> io::Result<()>;
    /// From here on a sync of the volume that holds `path` reports errors of write-back, also those that were reported to others.
    fn watch_volume(&self, path: &Path) -> io::Result<()>;
    /// Makes everything on the volume that holds `path` durable (`syncfs`).
    fn sync_volume(&self, path: &Path) -> io::Result<()>;
    /// Takes the exclusive lock file `path`; `WouldBlock` when another process holds it, and the error says which.
    fn lock(&self, path: &Path) -> io::Result<Box<dyn Lock>>;
    /// Bytes (total, available to us) of the volume that holds `path`.
    fn space(&self, path: &Path) -> io::Result<Space>;
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Space {
    pub total: u64,
    pub available: u64,
}

pub type FileHandle = Arc<dyn File>;

pub trait File: Send + Sync {
    /// Reads up to `buf.len()` bytes at `position`; 0 means end of file.
    fn read_at(&self, buf: &mut [u8], position: u64) -> io::Result<usize>;
    /// The same for bytes that nobody reads soon, at most `at_once` of them: those that are not in the page cache are read around
    /// it, where the file system can, and push nothing out of it.
    fn read_once(&self, buf: &mut [u8], position: u64, at_once: usize) -> io::Result<usize> {
        let len = buf.len().min(at_once);
        self.read_at(&mut buf[..len], position)
    }
    /// Writes all of `bufs` at `position`, in calls of at most 128 KiB (larger ones fall off a cliff on large folios).
    fn write_at(&self, bufs: &[IoSlice<'_>], position: u64) -> io::Result<()>;
    /// Writes whole pages of 4 KiB, at a multiple of that, which nobody reads soon: around the page cache, where the file system
    /// can, and then it waits for the disk. Promises no more than `write_at`.
    fn write_pages(&self, bufs: &[IoSlice<'_>], position: u64) -> io::Result<()> {
        self.write_at(bufs, position)
    }
    /// Makes content and length durable (`fdatasync`).
    fn sync_data(&self) -> io::Result<()>;
    fn len(&self) -> io::Result<u64>;
    fn is_empty(&self) -> io::Result<bool> {
        Ok(self.len()? == 0)
    }
    fn set_len(&self, len: u64) -> io::Result<()>;
    /// Sets what [`Disk::modified_ms`] says until the next write.
    fn set_modified_ms(&self, ms: i64) -> io::Result<()>;
    /// Reserves blocks for `len` bytes at `position` without changing the length; best effort.
    fn allocate(&self, position: u64, len: u64) -> io::Result<()>;
    /// Gives back the blocks reserved beyond the length. Only for the one who writes the file: what another writes behind the
    /// end meanwhile may be cut.
    fn trim(&self) -> io::Result<()>;
    /// Starts write-back of a range without waiting and without a promise.
    fn start_writeback(&self, position: u64, len: u64);
    /// Waits until a range is in the page cache, as far as it can be read; best effort.
    fn bring_in(&self, position: u64, len: u64);
    /// True if reading the range would not wait for the disk, as far as a few probes show.
    fn is_resident(&self, _position: u64, _len: u64) -> bool {
        true
    }
    /// Says that a clean range will not be needed soon.
    fn drop_cache(&self, position: u64, len: u64);
    /// The descriptor, where there is one, for `sendfile`.
    #[cfg(unix)]
    fn raw_fd(&self) -> Option<std::os::fd::RawFd>;

    fn read_exact_at(&self, mut buf: &mut [u8], mut position: u64) -> io::Result<()> {
        while !buf.is_empty() {
            match self.read_at(buf, position) {
                Ok(0) => return Err(io::ErrorKind::UnexpectedEof.into()),
                Ok(n) => {
                    buf = &mut buf[n..];
                    position += n as u64;
                }
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }
}
