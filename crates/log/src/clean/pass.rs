//! One pass over one log: learn the newest offset of each key, then write the segments anew without what is older.
//!
//! Reads about 1 MiB a step, so that whoever drives it may pause, stop or pace it between any two. Each group of segments
//! is swapped in as soon as it is written; a pass that ends early leaves a log in which some older records are left. Invariant:
//! nothing above what the map reached is dropped. Refuses to go on over damage.

use std::io::{self, IoSlice};
use std::ops::Range;
use std::sync::Arc;

use env::FileHandle;
use model::{Offset, Timestamp};
use wire::records::{Batch, Caps, CodecError, RecordError, RecordFault, RecordIter};

use super::filter::{self, Fate, LastOfProducers, Rules};
use super::keys::{Full, KeyMap};
use super::source::{Gaps, Source};
use super::txns::CleanedTxns;
use crate::config::LogConfig;
use crate::index::{Entry, OffsetEntry};
use crate::scan::{Damage, ScanError};
use crate::segment::Segment;
use crate::store::{Deleted, ReadError, Store, StoreError};

/// Bytes that are written at once. More of it keeps the commits of others waiting for the disk, and is no faster
/// (docs/decisions/disk-sharing.md).
const WRITE_BYTES: usize = 1 << 18;

#[derive(Debug, thiserror::Error)]
pub enum CleanError {
    /// The log stays as it is: whoever compacts over damage buries it.
    #[error("segment {base}: {damage}")]
    Damaged { base: Offset, damage: Damage },
    #[error("batch at {offset}: {fault}")]
    Records { offset: Offset, fault: RecordFault },
    #[error("segment {base} would grow beyond 2 GiB")]
    TooLarge { base: Offset },
    /// Retention or truncation took the segments meanwhile; a later pass begins anew.
    #[error("the log changed under the pass")]
    Overtaken,
    #[error(transparent)]
    Read(#[from] ReadError),
    #[error(transparent)]
    Store(#[from] StoreError),
}

impl CleanError {
    /// Where in the log a replica may have to repair what was met.
    #[must_use]
    pub fn offset_in(&self, store: &Store) -> Option<Offset> {
        match self {
            CleanError::Damaged { base, damage } => {
                let (base, damage) = (*base, *damage);
                store.offset_of(&ReadError::Damaged { base, damage })
            }
            CleanError::Read(error) => store.offset_of(error),
            CleanError::Store(StoreError::Damaged { base, damage, .. }) => {
                let (base, damage) = (*base, *damage);
                store.offset_of(&ReadError::Damaged { base, damage })
            }
            CleanError::Records { .. }
            | CleanError::TooLarge { .. }
            | CleanError::Overtaken
            | CleanError::Store(_) => None,
        }
    }
}

/// The order for a pass.
#[derive(Clone, Debug)]
pub struct Order {
    pub first_dirty: Offset,
    pub upto: Offset,
    pub now: Timestamp,
    /// Chosen by chance for each pass.
    pub seed: [u64; 2],
    pub map_bytes_max: u64,
    pub map_load: f64,
    /// Offsets that are known to be lost.
    pub holes: Vec<(Offset, Offset)>,
}

#[derive(Debug, Default)]
pub struct Step {
    /// Bytes read and written, for pacing.
    pub bytes: u64,
    /// Renamed files, to be unlinked later.
    pub deleted: Deleted,
    /// Set by the last step.
    pub outcome: Option<Outcome>,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Outcome {
    /// First offset that this pass did not see.
    pub clean_end: Offset,
    pub bytes_read: u64,
    pub bytes_before: u64,
    pub bytes_after: u64,
    pub segments_before: usize,
    pub segments_after: usize,
}

enum Phase {
    Learn {
        at: usize,
        source: Option<Source>,
    },
    Write {
        groups: Vec<Range<usize>>,
        at: usize,
        group: Option<Box<Group>>,
    },
}

/// A new segment while it is written.
struct Group {
    sources: Range<usize>,
    at: usize,
    source: Option<Source>,
    output: Output,
    is_changed: bool,
    producers: LastOfProducers,
}

struct Output {
    segment: Arc<Segment>,
    file: FileHandle,
    position: u64,
    batches: Vec<Batch>,
    pending: usize,
}

pub struct Pass {
    order: Order,
    config: Arc<LogConfig>,
    /// All segments below `order.upto`, and the bytes they had.
    segments: Vec<Arc<Segment>>,
    gaps: Gaps,
    keys: KeyMap,
    txns: CleanedTxns,
    phase: Phase,
    outcome: Outcome,
}

impl Pass {
    #[must_use]
    pub fn new(store: &Store, order: Order) -> Pass {
        let segments: Vec<_> = store
            .segments()
            .iter()
            .filter(|segment| segment.base() < order.upto)
            .cloned()
            .collect();
        // There are at most as many keys as offsets.
        let offsets = order.upto.0.saturating_sub(order.first_dirty.0);
        let keys_max = u64::try_from(offsets).unwrap_or(0);
        let first = segments.partition_point(|segment| segment.end() <= order.first_dirty);
        Pass {
            keys: KeyMap::new(order.seed, keys_max, order.map_bytes_max, order.map_load),
            gaps: Gaps {
                below: store.gaps_end(),
                holes: order.holes.clone(),
            },
            config: store.config(),
            txns: CleanedTxns::default(),
            phase: Phase::Learn {
                at: first,
                source: None,
            },
            outcome: Outcome::default(),
            segments,
            order,
        }
    }

    /// Goes on by about 1 MiB, of which the disk is asked for `at_once` bytes at a time. `producers` says what active producers
    /// wrote last. After an error the pass is over.
    pub fn step(
        &mut self,
        store: &Store,
        at_once: usize,
        producers: &mut dyn FnMut() -> LastOfProducers,
    ) -> Result<Step, CleanError> {
        match &self.phase {
            Phase::Learn { .. } => self.learn(store, at_once),
            Phase::Write { .. } => self.write(store, at_once, producers),
        }
    }

    /// Removes what is half written.
    pub fn abandon(&self, store: &Store) {
        if let Phase::Write {
            group: Some(group), ..
        } = &self.phase
        {
            store.discard_cleaned(group.output.segment.base());
        }
    }

    fn learn(&mut self, store: &Store, at_once: usize) -> Result<Step, CleanError> {
        let Phase::Learn { at, source } = &mut self.phase else {
            return Ok(Step::default());
        };
        let Some(segment) = self.segments.get(*at) else {
            return self.learned(store);
        };
        let at_segment = damaged(segment.base());
        if source.is_none() {
            // Of what ended before the first batch that is read, no marker would come: all that its producer writes later would
            // count as aborted.
            let from = segment.base().max(self.order.first_dirty);
            self.txns.expect(store.aborted(from, segment.end())?);
            *source = Some(Source::at(segment, self.order.first_dirty).map_err(&at_segment)?);
        }
        let Some(open) = source else {
            return Ok(Step::default());
        };
        let run = (open.run(store, &self.gaps, at_once)).map_err(&at_segment)?;
        let (is_at_end, end) = (open.is_at_end(), segment.end());
        let caps = self.config.caps();
        for batch in &run.batches {
            if batch.attributes().is_control() {
                self.txns.on_control(batch);
            } else if !self.txns.on_records(batch)
                && learn_batch(&mut self.keys, batch, self.order.first_dirty, caps)?.is_err()
            {
                return self.learned(store);
            }
            self.keys.reach(batch.last_offset());
        }
        if is_at_end {
            self.keys.reach(end.advance(-1));
            *at += 1;
            *source = None;
        }
        self.outcome.bytes_read += run.bytes;
        Ok(Step {
            bytes: run.bytes,
            ..Step::default()
        })
    }

    /// The map is complete, or full: what it reached is written anew.
    fn learned(&mut self, store: &Store) -> Result<Step, CleanError> {
        let reached = self
            .keys
            .latest()
            .map_or(Offset::ZERO, |last| last.advance(1));
        self.outcome.clean_end = reached.max(self.order.first_dirty);
        let count = self
            .segments
            .partition_point(|segment| segment.base() < reached);
        self.segments.truncate(count);
        let end = self.segments.last().map_or(Offset::ZERO, |last| last.end());
        // Before any file changes: from now on readers expect gaps there.
        store.begin_cleaning(end)?;
        self.txns = CleanedTxns::default();
        self.phase = Phase::Write {
            groups: groups(&self.segments, &self.config)?,
            at: 0,
            group: None,
        };
        Ok(Step::default())
    }

    fn write(
        &mut self,
        store: &Store,
        at_once: usize,
        producers: &mut dyn FnMut() -> LastOfProducers,
    ) -> Result<Step, CleanError> {
        let Phase::Write { groups, at, group } = &mut self.phase else {
            return Ok(Step::default());
        };
        let Some(sources) = groups.get(*at).cloned() else {
            store.end_cleaning(self.outcome.clean_end)?;
            return Ok(Step {
                outcome: Some(self.outcome),
                ..Step::default()
            });
        };
        let open = match group {
            Some(open) => open,
            None => {
                let base = self.segments[sources.start].base();
                let (segment, file) = store.create_cleaned(base)?;
                group.insert(Box::new(Group {
                    at: sources.start,
                    sources,
                    source: None,
                    output: Output {
                        segment: Arc::new(segment),
                        file,
                        position: 0,
                        batches: Vec::new(),
                        pending: 0,
                    },
                    is_changed: false,
                    producers: producers(),
                }))
            }
        };
        if open.at == open.sources.end {
            let Some(open) = group.take() else {
                return Ok(Step::default());
            };
            *at += 1;
            return self.finish(store, *open);
        }
        let segment = &self.segments[open.at];
        let at_segment = damaged(segment.base());
        let source = match &mut open.source {
            Some(source) => source,
            None => {
                self.txns
                    .expect(store.aborted(segment.base(), segment.end())?);
                open.source.insert(Source::new(segment))
            }
        };
        let run = (source.run(store, &self.gaps, at_once)).map_err(&at_segment)?;
        let is_at_end = source.is_at_end();
        let is_last = is_at_end && open.at + 1 == open.sources.end;
        let rules = Rules {
            now: self.order.now,
            delete_retention_ms: self.config.delete_retention_ms,
            caps: self.config.caps(),
        };
        let before = open.output.position;
        let count = run.batches.len();
        for (number, batch) in run.batches.into_iter().enumerate() {
            let is_bound = is_last && number + 1 == count;
            let fate = filter::judge(
                &batch,
                is_bound,
                rules,
                &self.keys,
                &mut self.txns,
                &open.producers,
            );
            let fate = fate.map_err(|fault| CleanError::Records {
                offset: batch.base_offset(),
                fault,
            })?;
            open.is_changed |= fate != Fate::Stays;
            match fate {
                Fate::Stays => open.output.push(batch),
                Fate::Becomes(batch) => open.output.push(batch),
                Fate::Goes => {}
            }
            if open.output.pending >= WRITE_BYTES {
                let interval = self.config.index_interval_bytes;
                open.output
                    .flush(interval)
                    .map_err(|error| store.io(error))?;
            }
        }
        if is_at_end {
            open.at += 1;
            open.source = None;
        }
        if open.output.position + open.output.pending as u64 > i32::MAX as u64 {
            return Err(CleanError::TooLarge {
                base: open.output.segment.base(),
            });
        }
        self.outcome.bytes_read += run.bytes;
        Ok(Step {
            bytes: run.bytes + open.output.position - before,
            ..Step::default()
        })
    }

    /// A group is written: it takes the place of its sources, unless it says the same as the only one.
    fn finish(&mut self, store: &Store, group: Group) -> Result<Step, CleanError> {
        let sources = &self.segments[group.sources.clone()];
        let mut output = group.output;
        let before = output.position;
        let base = output.segment.base();
        let undone = |error| {
            store.discard_cleaned(base);
            store.io(error)
        };
        output
            .flush(self.config.index_interval_bytes)
            .map_err(undone)?;
        let len = output.position;
        self.outcome.segments_before += sources.len();
        self.outcome.segments_after += 1;
        self.outcome.bytes_before += sources.iter().map(|segment| segment.len()).sum::<u64>();
        self.outcome.bytes_after += len;
        let aborted = self.txns.take_noted();
        let mut step = Step {
            bytes: len - before,
            ..Step::default()
        };
        if !group.is_changed && sources.len() == 1 {
            store.discard_cleaned(base);
            return Ok(step);
        }
        let end = sources.last().map_or(base, |last| last.end());
        output.segment.finish_cleaned(len, end, aborted);
        // Records without a time are as old as their file, which compaction makes no younger.
        let written = sources.iter().map(|segment| store.modified(segment));
        if let Some(last) = written.filter_map(Result::ok).max() {
            output.file.set_modified_ms(last.0).map_err(undone)?;
        }
        output.file.sync_data().map_err(undone)?;
        step.deleted = store
            .swap(sources, &output.segment)?
            .ok_or(CleanError::Overtaken)?;
        Ok(step)
    }
}

impl Output {
    fn push(&mut self, batch: Batch) {
        self.pending += batch.size();
        self.batches.push(batch);
    }

    fn flush(&mut self, index_interval: u64) -> io::Result<()> {
        let bufs: Vec<IoSlice<'_>> = self
            .batches
            .iter()
            .flat_map(|batch| [IoSlice::new(batch.head()), IoSlice::new(batch.body())])
            .collect();
        if bufs.is_empty() {
            return Ok(());
        }
        self.file.write_at(&bufs, self.position)?;
        self.file
            .start_writeback(self.position, self.pending as u64);
        self.segment
            .note_cleaned(self.position, &self.batches, index_interval);
        self.position += self.pending as u64;
        self.pending = 0;
        self.batches.clear();
        Ok(())
    }
}

/// Puts the keys of a batch into the map. `Err` inside when it is full.
fn learn_batch(
    keys: &mut KeyMap,
    batch: &Batch,
    first_dirty: Offset,
    caps: Caps,
) -> Result<Result<(), Full>, CleanError> {
    let at = |fault: RecordFault| CleanError::Records {
        offset: batch.base_offset(),
        fault,
    };
    let codec = |error: CodecError| at(error.into());
    let plain = batch.plain(caps).map_err(codec)?;
    for record in RecordIter::new(&plain, batch.record_count()) {
        let record = record.map_err(|error: RecordError| at(error.into()))?;
        let offset = batch.base_offset().advance(i64::from(record.offset_delta));
        if let Some(key) = record.key.filter(|_| first_dirty <= offset)
            && keys.put(key, offset).is_err()
        {
            return Ok(Err(Full));
        }
    }
    Ok(Ok(()))
}

/// Runs of segments that together are no larger than one may be.
fn groups(segments: &[Arc<Segment>], config: &LogConfig) -> Result<Vec<Range<usize>>, CleanError> {
    let bytes_max = config.segment_bytes.min(i32::MAX as u64);
    let entries_max = config.segment_index_bytes / OffsetEntry::SIZE as u64;
    let mut groups: Vec<Range<usize>> = Vec::new();
    let (mut bytes, mut entries) = (0, 0);
    for (at, segment) in segments.iter().enumerate() {
        // Brings the indexes to where their entries are counted.
        segment.max_time().map_err(damaged(segment.base()))?;
        let (more_bytes, more_entries) = (segment.len(), segment.index_entries());
        let joins = groups.last().is_some_and(|group| {
            let base = segments[group.start].base();
            bytes + more_bytes <= bytes_max
                && entries + more_entries <= entries_max
                && segment.end().0 - base.0 <= i64::from(i32::MAX)
        });
        match groups.last_mut().filter(|_| joins) {
            Some(group) => group.end = at + 1,
            None => {
                groups.push(at..at + 1);
                (bytes, entries) = (0, 0);
            }
        }
        bytes += more_bytes;
        entries += more_entries;
    }
    Ok(groups)
}

fn damaged(base: Offset) -> impl Fn(ScanError) -> CleanError {
    move |error| match error {
        ScanError::Io(error) => ReadError::Io { base, error }.into(),
        ScanError::Damage(damage) => CleanError::Damaged { base, damage },
    }
}
