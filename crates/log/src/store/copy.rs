//! A copy of a log's files in another directory, made while the log grows and retires.
//!
//! Owns the files of the other directory until it is complete. The source may be appended to and retired from meanwhile, but
//! not compacted nor truncated: a segment that is known changes at its end only. What is copied is synced when a segment is done,
//! so that little is left for the end. Producer states and leader epochs are not of the log's files: their owner writes them.

use std::collections::BTreeMap;
use std::io::{self, IoSlice};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use env::disk::Open;
use env::{Disk, FileHandle};
use model::Offset;

use super::Store;
use super::open::Known;
use super::progress::Progress;
use crate::file_name::file_name;
use crate::heads;
use crate::index::{Entry, OffsetEntry, TimeEntry};
use crate::scan::read_up_to;
use crate::segment::Segment;
use crate::txn_index::Files;

/// Index files are copied as a whole: `segment.index.bytes` is 10 MiB, and no sane one is larger than this.
const INDEX_BYTES_MAX: u64 = 64 << 20;

/// The copy of a log so far.
pub struct LogCopy {
    disk: Arc<dyn Disk>,
    dir: PathBuf,
    /// Of each segment, by its base.
    done: BTreeMap<Offset, Done>,
    /// The newest of them, written and not synced.
    open: Option<(Offset, FileHandle)>,
    end: Offset,
}

#[derive(Clone, Copy, Default)]
struct Done {
    bytes: u64,
    /// The index files of a segment that takes no more appends are copied, too.
    is_indexed: bool,
}

#[derive(Debug, thiserror::Error)]
pub enum CopyError {
    /// The log cannot be read.
    #[error("reading: {0}")]
    Source(io::Error),
    /// The copy cannot be written.
    #[error("writing: {0}")]
    Target(io::Error),
}

impl LogCopy {
    /// Begins in `dir`, which is made and is nobody else's.
    pub fn begin(disk: &Arc<dyn Disk>, dir: &Path) -> Result<LogCopy, CopyError> {
        disk.create_dir_all(dir).map_err(CopyError::Target)?;
        Ok(LogCopy {
            disk: Arc::clone(disk),
            dir: dir.to_path_buf(),
            done: BTreeMap::new(),
            open: None,
            end: Offset::ZERO,
        })
    }

    /// Everything below is copied, as far as that is known.
    #[must_use]
    pub fn end(&self) -> Offset {
        self.end
    }

    /// Bytes of segments that are copied.
    #[must_use]
    pub fn bytes(&self) -> u64 {
        self.done.values().map(|done| done.bytes).sum()
    }

    /// Copies about `bytes_max` more; 0 when nothing is left at the moment.
    pub fn step(&mut self, source: &Store, bytes_max: usize) -> Result<u64, CopyError> {
        let segments = source.segments();
        let last = self
            .open
            .as_ref()
            .map_or(Offset(i64::MIN), |(base, _)| *base);
        let from = segments.partition_point(|segment| segment.base() < last);
        for (at, segment) in segments.iter().enumerate().skip(from) {
            let have = self.done.get(&segment.base()).map(|done| done.bytes);
            let len = segment.len();
            if have.is_none_or(|have| have < len) {
                let copied = self.copy(segment, have.unwrap_or(0), len, bytes_max);
                // Retired between our look at the list and at its file.
                let copied = match copied {
                    Err(CopyError::Source(error)) if error.kind() == io::ErrorKind::NotFound => {
                        return Ok(0);
                    }
                    copied => copied?,
                };
                let is_whole = have.unwrap_or(0) + copied == len;
                self.end = match segments.get(at + 1) {
                    Some(next) if is_whole => {
                        self.copy_indexes(segment)?;
                        next.base()
                    }
                    None if is_whole => segment.end(),
                    _ => segment.base(),
                };
                // An empty segment is something that was left, too.
                return Ok(copied.max(1));
            }
        }
        Ok(0)
    }

    fn copy(
        &mut self,
        segment: &Segment,
        from: u64,
        to: u64,
        bytes_max: usize,
    ) -> Result<u64, CopyError> {
        let base = segment.base();
        let file = segment.file().map_err(CopyError::Source)?;
        let wanted = usize::try_from(to - from).unwrap_or(usize::MAX);
        let mut bytes = vec![0; wanted.min(bytes_max)];
        let got = read_up_to(&*file, &mut bytes, from).map_err(CopyError::Source)?;
        bytes.truncate(got);
        if got == 0 && from < to {
            return Err(CopyError::Source(io::ErrorKind::UnexpectedEof.into()));
        }
        let target = match &self.open {
            Some((open, file)) if *open == base => Arc::clone(file),
            _ => {
                self.end_segment().map_err(CopyError::Target)?;
                let path = self.dir.join(file_name(base, "log"));
                let opened = self.disk.open(&path, Open::Create);
                let opened = opened.map_err(CopyError::Target)?;
                self.open = Some((base, Arc::clone(&opened)));
                opened
            }
        };
        target
            .write_at(&[IoSlice::new(&bytes)], from)
            .map_err(CopyError::Target)?;
        target.start_writeback(from, got as u64);
        self.done.entry(base).or_default().bytes = from + got as u64;
        Ok(got as u64)
    }

    /// Makes durable what was written of the newest segment.
    pub fn sync(&self) -> Result<(), CopyError> {
        let synced = self
            .open
            .as_ref()
            .map_or(Ok(()), |(_, file)| file.sync_data());
        synced.map_err(CopyError::Target)
    }

    /// The kernel may forget a failed write-back of a closed file.
    fn end_segment(&mut self) -> io::Result<()> {
        match self.open.take() {
            Some((_, file)) => file.sync_data(),
            None => Ok(()),
        }
    }

    /// True if the copy has all bytes of the log's segments.
    fn is_complete(&self, segments: &[Arc<Segment>]) -> bool {
        segments.iter().all(|segment| {
            let done = self.done.get(&segment.base());
            done.is_some_and(|done| done.bytes == segment.len())
        })
    }

    /// Copies what is left of a log that nobody appends to any more, and makes all of it durable but its directory's name.
    pub fn finish(&mut self, source: &Store) -> Result<Known, CopyError> {
        const STEP_BYTES: usize = 1 << 20;
        /// Segments go while we look, one after the other at most.
        const LOOKS_MAX: usize = 10_000;
        let mut looks = 0;
        let segments = loop {
            while self.step(source, STEP_BYTES)? > 0 {}
            let segments = source.segments();
            if self.is_complete(&segments) {
                break segments;
            }
            looks += 1;
            if looks == LOOKS_MAX {
                return Err(CopyError::Source(io::ErrorKind::NotFound.into()));
            }
        };
        self.end_segment().map_err(CopyError::Target)?;
        let known = source.known();
        // Only caches: without them a start walks.
        let _ = source.write_indexes();
        let first = segments
            .first()
            .map_or(known.active_base, |first| first.base());
        self.drop_below(first).map_err(CopyError::Target)?;
        for segment in segments.iter() {
            self.copy_indexes(segment)?;
            let aborted = source
                .sound_txns(segment)
                .and_then(|()| segment.all_aborted());
            let aborted = aborted.map_err(|error| CopyError::Source(error.into()))?;
            let heads = segment.all_heads().map_err(CopyError::Source)?;
            let path = self.dir.join(file_name(segment.base(), heads::EXTENSION));
            heads::create(&*self.disk, &path, segment.whose(), heads.blocks())
                .map_err(CopyError::Target)?;
            if !aborted.is_empty() {
                Files::of(&self.dir, segment.base())
                    .create(&*self.disk, &aborted)
                    .map_err(CopyError::Target)?;
            }
        }
        let progress = Progress {
            clean_end: source.clean_end().unwrap_or(Progress::NONE.clean_end),
            gaps_end: source.gaps_end(),
        };
        let done = match progress {
            Progress::NONE => Ok(()),
            progress => progress.store(&*self.disk, &self.dir),
        };
        done.and_then(|()| self.disk.sync_dir(&self.dir))
            .map_err(CopyError::Target)?;
        Ok(known)
    }

    /// Segments that the log has retired since they were copied.
    fn drop_below(&mut self, first: Offset) -> io::Result<()> {
        let kept = self.done.split_off(&first);
        let gone = std::mem::replace(&mut self.done, kept);
        for base in gone.keys() {
            for extension in ["log", OffsetEntry::EXTENSION, TimeEntry::EXTENSION] {
                match self
                    .disk
                    .remove_file(&self.dir.join(file_name(*base, extension)))
                {
                    Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
                    _ => {}
                }
            }
        }
        Ok(())
    }

    fn copy_indexes(&mut self, segment: &Segment) -> Result<(), CopyError> {
        let done = self.done.entry(segment.base()).or_default();
        if !std::mem::replace(&mut done.is_indexed, true) {
            self.copy_index(segment, OffsetEntry::EXTENSION)?;
            self.copy_index(segment, TimeEntry::EXTENSION)?;
        }
        Ok(())
    }

    fn copy_index(&self, segment: &Segment, extension: &str) -> Result<(), CopyError> {
        let from = self.disk.open(&segment.path(extension), Open::Read);
        let from = match from {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
            from => from.map_err(CopyError::Source)?,
        };
        let len = from.len().map_err(CopyError::Source)?;
        if len > INDEX_BYTES_MAX {
            return Ok(());
        }
        let mut bytes = vec![0; usize::try_from(len).unwrap_or(0)];
        from.read_exact_at(&mut bytes, 0)
            .map_err(CopyError::Source)?;
        let write = || -> io::Result<()> {
            let path = self.dir.join(file_name(segment.base(), extension));
            let file = self.disk.open(&path, Open::Truncate)?;
            file.write_at(&[IoSlice::new(&bytes)], 0)?;
            // Half of the times would be believed.
            file.sync_data()
        };
        write().map_err(CopyError::Target)
    }
}

impl From<CopyError> for io::Error {
    fn from(error: CopyError) -> io::Error {
        match error {
            CopyError::Source(error) | CopyError::Target(error) => error,
        }
    }
}
