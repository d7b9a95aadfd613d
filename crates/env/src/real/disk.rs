//! Files and directories of the operating system.
//!
//! Data is ours alone: files are created 0600 and directories 0700. Writes go out in calls of at most
//! [`WRITE_BYTES_MAX`]; a short one is completed, any error ends the write at once and is never retried.

use std::collections::BTreeMap;
use std::fs::{DirBuilder, File as OsFile, OpenOptions, TryLockError};
use std::io::{self, IoSlice};
use std::os::fd::{AsRawFd, RawFd};
use std::os::unix::fs::{DirBuilderExt, FileExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock};
use std::time::{Duration, UNIX_EPOCH};

use parking_lot::Mutex;

use super::{around, cold, sys};
use crate::disk::{Dir, Disk, Entry, File, FileHandle, Lock, Open, Space};

/// Larger calls fall off a cliff on file systems with large folios.
const WRITE_BYTES_MAX: usize = 128 << 10;
/// Slices per call: below every system's `IOV_MAX`, and 4 KiB of stack.
const WRITE_SLICES_MAX: usize = 256;

#[derive(Default)]
pub(super) struct OsDisk {
    /// One open directory per volume that is synced: the kernel reports a write-back error only to those who had it open when
    /// the error came.
    volumes: Mutex<BTreeMap<PathBuf, Arc<OsFile>>>,
}

impl OsDisk {
    fn volume(&self, path: &Path) -> io::Result<Arc<OsFile>> {
        let mut volumes = self.volumes.lock();
        if let Some(dir) = volumes.get(path) {
            return Ok(Arc::clone(dir));
        }
        let dir = Arc::new(OsFile::open(path)?);
        volumes.insert(path.to_path_buf(), Arc::clone(&dir));
        Ok(dir)
    }
}

impl Disk for OsDisk {
    fn open(&self, path: &Path, how: Open) -> io::Result<FileHandle> {
        let mut options = OpenOptions::new();
        options.read(true).mode(0o600);
        match how {
            Open::Read => &mut options,
            Open::Write => options.write(true),
            Open::Create => options.write(true).create(true).truncate(false),
            Open::CreateNew => options.write(true).create_new(true),
            Open::Truncate => options.write(true).create(true).truncate(true),
        };
        Ok(Arc::new(Opened {
            file: options.open(path)?,
            around: OnceLock::new(),
        }))
    }

    fn create_dir_all(&self, path: &Path) -> io::Result<()> {
        DirBuilder::new().recursive(true).mode(0o700).create(path)
    }

    fn read_dir(&self, path: &Path) -> io::Result<Vec<Entry>> {
        let mut entries = Vec::new();
        for entry in std::fs::read_dir(path)? {
            let entry = entry?;
            let meta = match entry.metadata() {
                Ok(meta) => meta,
                // Removed between the listing and the look.
                Err(error) if error.kind() == io::ErrorKind::NotFound => continue,
                Err(error) => return Err(error),
            };
            let name = entry.file_name().to_string_lossy().into_owned();
            entries.push(Entry {
                name,
                is_dir: meta.is_dir(),
                len: if meta.is_dir() { 0 } else { meta.len() },
            });
        }
        entries.sort_unstable_by(|a, b| a.name.cmp(&b.name));
        Ok(entries)
    }

    fn exists(&self, path: &Path) -> io::Result<bool> {
        path.try_exists()
    }

    fn is_private(&self, path: &Path) -> io::Result<bool> {
        Ok(std::fs::metadata(path)?.mode() & 0o077 == 0)
    }

    fn modified_ms(&self, path: &Path) -> io::Result<i64> {
        let modified = std::fs::metadata(path)?.modified()?;
        let ms = |span: Duration| i64::try_from(span.as_millis()).unwrap_or(i64::MAX);
        Ok(match modified.duration_since(UNIX_EPOCH) {
            Ok(since) => ms(since),
            Err(before) => -ms(before.duration()),
        })
    }

    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        std::fs::rename(from, to)
    }

    fn remove_file(&self, path: &Path) -> io::Result<()> {
        std::fs::remove_file(path)
    }

    fn remove_dir_all(&self, path: &Path) -> io::Result<()> {
        std::fs::remove_dir_all(path)
    }

    fn open_dir(&self, path: &Path) -> io::Result<Box<dyn Dir>> {
        Ok(Box::new(OpenedDir(OsFile::open(path)?)))
    }

    fn sync_dir(&self, path: &Path) -> io::Result<()> {
        OsFile::open(path)?.sync_all()
    }

    fn watch_volume(&self, path: &Path) -> io::Result<()> {
        self.volume(path).map(drop)
    }

    fn sync_volume(&self, path: &Path) -> io::Result<()> {
        sys::sync_volume(&*self.volume(path)?)
    }

    fn lock(&self, path: &Path) -> io::Result<Box<dyn Lock>> {
        let file = OpenOptions::new()
            .read(true)
            .write(true)
            .create(true)
            .truncate(false)
            .mode(0o600)
            .open(path)?;
        match file.try_lock() {
            Ok(()) => {
                file.set_len(0)?;
                file.write_all_at(std::process::id().to_string().as_bytes(), 0)?;
                Ok(Box::new(Locked { _file: file }))
            }
            Err(TryLockError::WouldBlock) => {
                let mut holder = [0; 10];
                let length = file.read_at(&mut holder, 0)?;
                let holder = format!("process {}", String::from_utf8_lossy(&holder[..length]));
                Err(io::Error::new(io::ErrorKind::WouldBlock, holder))
            }
            Err(TryLockError::Error(error)) => Err(error),
        }
    }

    fn space(&self, path: &Path) -> io::Result<Space> {
        sys::space(path)
    }
}

/// Says which limit a write met: the error of the system reads as if the file were to blame.
fn name_limit(error: io::Error) -> io::Error {
    if error.kind() != io::ErrorKind::FileTooLarge {
        return error;
    }
    let what = "files of this process may not be so long: its limit (ulimit -f, LimitFSIZE) or that of the file system is reached";
    io::Error::new(io::ErrorKind::FileTooLarge, what)
}

/// The lock lives as long as its descriptor.
struct Locked {
    _file: OsFile,
}

impl Lock for Locked {}

struct Opened {
    file: OsFile,
    /// The same file, for what goes around the page cache; nothing where nothing can.
    around: OnceLock<Option<OsFile>>,
}

struct OpenedDir(OsFile);

impl Dir for OpenedDir {
    fn sync(&self) -> io::Result<()> {
        self.0.sync_all()
    }
}

impl Opened {
    fn around(&self) -> Option<&OsFile> {
        let around = self.around.get_or_init(|| around::reopen(&self.file));
        around.as_ref()
    }
}

impl File for Opened {
    fn read_at(&self, buf: &mut [u8], position: u64) -> io::Result<usize> {
        loop {
            match self.file.read_at(buf, position) {
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                other => return other,
            }
        }
    }

    fn read_once(&self, buf: &mut [u8], position: u64, at_once: usize) -> io::Result<usize> {
        let len = buf.len().min(at_once).min(around::CALL_BYTES);
        let buf = &mut buf[..len];
        if !cold::is_resident(&self.file, position, len as u64)
            && let Some(around) = self.around()
        {
            match around::read(around, buf, position) {
                // Opened so, and yet not read, or not with this alignment.
                Err(error) if error.kind() == io::ErrorKind::InvalidInput => {}
                other => return other,
            }
        }
        self.read_at(buf, position)
    }

    fn write_at(&self, bufs: &[IoSlice<'_>], position: u64) -> io::Result<()> {
        let mut rest = Rest { bufs, skip: 0 };
        let mut position = position;
        let mut call = [IoSlice::new(&[]); WRITE_SLICES_MAX];
        loop {
            let slices = rest.fill(&mut call);
            if slices == 0 {
                return Ok(());
            }
            match sys::write_vectored_at(&self.file, &call[..slices], position) {
                Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
                Ok(written) => {
                    rest.advance(written);
                    position += written as u64;
                }
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(name_limit(error)),
            }
        }
    }

    fn write_pages(&self, bufs: &[IoSlice<'_>], position: u64) -> io::Result<()> {
        if let Some(file) = self.around() {
            match around::write(file, bufs, position) {
                // Opened so, and yet not written, or not with this alignment.
                Err(error) if error.kind() == io::ErrorKind::InvalidInput => {}
                other => return other.map_err(name_limit),
            }
        }
        self.write_at(bufs, position)
    }

    fn sync_data(&self) -> io::Result<()> {
        self.file.sync_data()
    }

    fn len(&self) -> io::Result<u64> {
        Ok(self.file.metadata()?.len())
    }

    fn set_len(&self, len: u64) -> io::Result<()> {
        self.file.set_len(len)
    }

    fn set_modified_ms(&self, ms: i64) -> io::Result<()> {
        let span = Duration::from_millis(ms.unsigned_abs());
        let time = match ms {
            0.. => UNIX_EPOCH.checked_add(span),
            _ => UNIX_EPOCH.checked_sub(span),
        };
        self.file
            .set_modified(time.ok_or(io::ErrorKind::InvalidInput)?)
    }

    fn allocate(&self, position: u64, len: u64) -> io::Result<()> {
        sys::allocate(&self.file, position, len)
    }

    fn trim(&self) -> io::Result<()> {
        // Setting the length it has frees the blocks behind it.
        self.file.set_len(self.len()?)
    }

    fn start_writeback(&self, position: u64, len: u64) {
        sys::start_writeback(&self.file, position, len);
    }

    fn bring_in(&self, position: u64, len: u64) {
        cold::bring_in(&self.file, position, len);
    }

    fn is_resident(&self, position: u64, len: u64) -> bool {
        cold::is_resident(&self.file, position, len)
    }

    fn drop_cache(&self, position: u64, len: u64) {
        sys::drop_cache(&self.file, position, len);
    }

    fn raw_fd(&self) -> Option<RawFd> {
        Some(self.file.as_raw_fd())
    }
}

/// The rest of a vectored write: `bufs`, less the first `skip` bytes of the first one.
struct Rest<'a> {
    bufs: &'a [IoSlice<'a>],
    skip: usize,
}

impl<'a> Rest<'a> {
    /// Puts the next call's slices into `call` and returns how many; 0 when everything is written.
    fn fill(&self, call: &mut [IoSlice<'a>]) -> usize {
        let (mut slices, mut bytes, mut skip) = (0, 0, self.skip);
        for buf in self.bufs {
            let buf: &'a [u8] = buf;
            let part = &buf[skip..];
            skip = 0;
            if part.is_empty() {
                continue;
            }
            let part = &part[..part.len().min(WRITE_BYTES_MAX - bytes)];
            call[slices] = IoSlice::new(part);
            slices += 1;
            bytes += part.len();
            if slices == call.len() || bytes == WRITE_BYTES_MAX {
                break;
            }
        }
        slices
    }

    fn advance(&mut self, mut written: usize) {
        while let Some(first) = self.bufs.first() {
            let left = first.len() - self.skip;
            if written < left {
                self.skip += written;
                return;
            }
            written -= left;
            self.skip = 0;
            self.bufs = &self.bufs[1..];
        }
        assert!(written == 0, "the kernel wrote more than it was given");
    }
}
