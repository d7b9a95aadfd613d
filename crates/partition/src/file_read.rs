//! The half of a read that asks the files.
//!
//! Holds all that the state of the partition has to do with it, so that it may be done at any later time and on any thread:
//! committed records stay where they are. A move, a trim or a deletion meanwhile is for the caller to find out.

use std::sync::Arc;

use log::AbortedTxn;
use log::store::{Located, Read as StoreRead, ReadError as StoreError, Store};
use model::Offset;
use wire::records::Batch;

use crate::isolation::Isolation;
use crate::partition::{Bounds, Hole, Home, Partition};
use crate::read::{Read, ReadError, ReadRequest, Records};

pub(crate) struct FileRead {
    pub(crate) request: ReadRequest,
    pub(crate) bounds: Bounds,
    /// Nothing at or above this offset is read.
    pub(crate) limit: Offset,
    /// Where what is lost ends if the files have nothing at the asked offset.
    pub(crate) lost_to: Offset,
    /// True if the limit is the begin of a hole.
    pub(crate) stops_at_hole: bool,
    /// The first batches in memory, where compaction may have left nothing between the asked offset and them.
    pub(crate) behind_gap: Vec<Batch>,
    /// The records, where the files are asked for aborted transactions alone.
    pub(crate) in_memory: Option<Vec<Batch>>,
    /// Aborted transactions that may not be in the files yet.
    pub(crate) recent: Vec<AbortedTxn>,
}

/// How far a read comes without the disk.
pub(crate) enum Known {
    Read(Read),
    /// The disk has to be asked for about so many bytes.
    Unread {
        files: FileRead,
        bytes: usize,
    },
}

/// Aborted transactions that a reader of committed data has to know of.
struct Aborted<'a> {
    /// Upper bound of their first offsets.
    upto: Offset,
    /// The files, if some of the transactions may be in them.
    store: Option<&'a Store>,
}

impl FileRead {
    /// Bytes that the read keeps in memory.
    pub(crate) fn memory(&self) -> usize {
        let batches = self.in_memory.iter().flatten().chain(&self.behind_gap);
        batches.map(|batch| batch.size()).sum()
    }

    /// Reads what is known and verified without the disk.
    pub(crate) fn known(mut self, home: &Home) -> Result<Known, ReadError> {
        let (from, bytes_max) = (self.request.from, self.request.bytes_max);
        let store = home.store.get();
        let records = match (self.in_memory.take(), store) {
            (Some(batches), _) => Records::Memory(batches),
            (None, None) => Records::AtEnd,
            (None, Some(_)) if self.request.scope.anew => {
                return Ok(Known::Unread {
                    files: self,
                    bytes: bytes_max,
                });
            }
            (None, Some(store)) => match store.locate(from, self.limit, bytes_max) {
                Ok(Located::Read(read)) => self.take(store, read)?,
                Ok(Located::Unread { bytes }) => return Ok(Known::Unread { files: self, bytes }),
                // The executed need meets the rot again, reports it and has it repaired.
                Err(error) if error.is_rot() => {
                    return Ok(Known::Unread {
                        files: self,
                        bytes: bytes_max,
                    });
                }
                Err(error) => return Err(error.into()),
            },
        };
        let Some(aborted) = self.aborted(store, &records)? else {
            let read = Read::without_aborted(records, self.bounds);
            return Ok(Known::Read(read));
        };
        let stored = match aborted.store {
            Some(store) => store.known_aborted(from, aborted.upto)?,
            None => Some(Vec::new()),
        };
        if let Some(stored) = stored {
            return Ok(Known::Read(self.finish(records, stored, aborted.upto)));
        }
        let bytes = records.len();
        if let Records::Memory(batches) = records {
            self.in_memory = Some(batches);
        }
        Ok(Known::Unread { files: self, bytes })
    }

    /// Reads, finds and verifies. May be repeated.
    pub(crate) fn read(&self, home: &Home) -> Result<Read, ReadError> {
        let (from, bytes_max) = (self.request.from, self.request.bytes_max);
        let store = home.store.get();
        let records = match (&self.in_memory, store) {
            (Some(batches), _) => Records::Memory(batches.clone()),
            (None, None) => Records::AtEnd,
            (None, Some(store)) if self.request.scope.anew => {
                self.take(store, store.read_anew(from, self.limit, bytes_max)?)?
            }
            (None, Some(store)) => self.take(store, store.read(from, self.limit, bytes_max)?)?,
        };
        let Some(aborted) = self.aborted(store, &records)? else {
            return Ok(Read::without_aborted(records, self.bounds));
        };
        let stored = match aborted.store {
            Some(store) => store.aborted(from, aborted.upto)?,
            None => Vec::new(),
        };
        Ok(self.finish(records, stored, aborted.upto))
    }

    fn take(&self, store: &Store, read: StoreRead) -> Result<Records, ReadError> {
        let StoreRead::Slice(slice) = read else {
            let gaps_end = store.gaps_end();
            let next = self.behind_gap.first();
            if next.is_some_and(|next| next.base_offset() <= gaps_end) {
                return Ok(Records::Memory(self.behind_gap.clone()));
            }
            // Less may be known to be committed than was when compaction took all up to a batch behind that. Or the log was cut there.
            if self.limit <= gaps_end && !self.stops_at_hole {
                return Ok(Records::AtEnd);
            }
            // Written, and in no batch: a header has rotted so that its batch seems to lie elsewhere, or compaction left nothing before
            // offsets that are lost. Compaction always leaves the last batch of a segment.
            let hole = Hole {
                from: self.request.from,
                to: self.lost_to,
            };
            return Err(ReadError::Damaged { hole });
        };
        // The store gives one whole batch even if it is too large.
        if slice.size() <= self.request.bytes_max || self.request.at_least_one {
            Ok(Records::File(slice))
        } else {
            Ok(Records::AtEnd)
        }
    }

    fn aborted<'a>(
        &self,
        store: Option<&'a Store>,
        records: &Records,
    ) -> Result<Option<Aborted<'a>>, ReadError> {
        if self.request.scope.isolation != Isolation::Committed {
            return Ok(None);
        }
        let stable = self.bounds.last_stable;
        Ok(match (records, store) {
            (Records::AtEnd, _) => None,
            (Records::File(slice), Some(store)) => Some(Aborted {
                upto: store.end_of_slice(slice.slice(), stable)?,
                store: Some(store),
            }),
            (Records::File(_), None) => None,
            (Records::Memory(batches), store) => {
                let last = batches.last();
                Some(Aborted {
                    upto: last.map_or(stable, |last| last.next_offset()),
                    // Files that end at or below the asked offset have no marker that matters to this read.
                    store: store.filter(|store| self.request.from < store.log_end()),
                })
            }
        })
    }

    /// Adds the aborted transactions: those in segment files, then the recent ones.
    fn finish(&self, records: Records, stored: Vec<AbortedTxn>, upto: Offset) -> Read {
        let mut aborted = stored;
        let known = aborted.last().map_or(Offset(-1), |txn| txn.last_offset);
        let recent = self.recent.iter().copied();
        aborted.extend(recent.filter(|txn| known < txn.last_offset && txn.first_offset < upto));
        Read {
            records,
            bounds: self.bounds,
            aborted,
        }
    }
}

impl Partition {
    /// Reads what a look has left to the files.
    pub(crate) fn read_files(&self, files: &FileRead) -> Result<Read, ReadError> {
        let read = self.where_it_lives(|seen| files.read(seen.insert(self.home())));
        // The partition is deleted, fails or is trimmed (1) while its files are read (2): an error of the files may come of that,
        // and what they gave is not to be served.
        self.admit(&self.state.lock(), &files.request)?;
        match &read {
            Err(error) if self.report_damage(files, error) => {
                let at = files.request.from;
                Err(ReadError::UnderRepair { at })
            }
            _ => read,
        }
    }

    /// Somebody met damage at `at`. True if it is repaired with what another replica has.
    pub(crate) fn has_repaired(&self, at: Offset) -> bool {
        let (home, has_others) = {
            let state = self.state.lock();
            (Arc::clone(&state.home), state.progress.has_others())
        };
        has_others && home.dir.on_damage(self.key(), at)
    }

    /// A search that is not for an offset met rot: has it repaired where that is possible, and returns the error for the caller.
    pub(crate) fn on_damage_met(&self, error: ReadError) -> ReadError {
        let home = self.home();
        let at = match (&error, home.store.get()) {
            (ReadError::Store(error), Some(store)) => store.offset_of(error),
            _ => None,
        };
        let Some(at) = at.filter(|at| self.has_repaired(*at)) else {
            return error;
        };
        let reported = Some((at, None));
        if std::mem::replace(&mut self.state.lock().reported, reported) != reported {
            home.dir.on_rot_found();
            let (topic, index) = (&self.topic, self.index);
            env::tell!("{topic}-{index}: {error}; another replica is asked for what was there");
        }
        ReadError::UnderRepair { at }
    }

    /// Where a reader can go on that was just refused for rot at `from`; `None` where that is not known.
    pub fn goes_on_behind(&self, from: Offset) -> Option<Offset> {
        let reported = self.state.lock().reported;
        reported.filter(|(at, _)| *at == from)?.1
    }

    /// Reports rot that a reader has met, with where it may go on, and has it repaired where that is possible: true then. The same place
    /// is reported once as long as no other is met.
    fn report_damage(&self, files: &FileRead, error: &ReadError) -> bool {
        let from = files.request.from;
        let is_rot = match error {
            ReadError::Damaged { .. } => true,
            ReadError::Store(error) => error.is_rot(),
            _ => false,
        };
        let is_repaired = is_rot && self.has_repaired(from);
        let next = match error {
            _ if is_repaired => None,
            ReadError::Damaged { hole } => Some(hole.to),
            ReadError::Store(StoreError::Damaged { damage, .. }) if !damage.is_unread() => {
                let home = self.home();
                let store = home.store.get();
                store.and_then(|store| store.next_good(from, files.limit).ok().flatten())
            }
            _ => return false,
        };
        let reported = Some((from, next));
        if std::mem::replace(&mut self.state.lock().reported, reported) == reported {
            return is_repaired;
        }
        self.home().dir.on_rot_found();
        let (topic, index) = (&self.topic, self.index);
        let next = match next {
            _ if is_repaired => "another replica is asked for what was there".to_owned(),
            Some(next) => format!("readers can go on at offset {next}"),
            None => "no record that can be read follows".to_owned(),
        };
        env::tell!("{topic}-{index}: offset {from} cannot be read: {error}; {next}");
        is_repaired
    }
}
