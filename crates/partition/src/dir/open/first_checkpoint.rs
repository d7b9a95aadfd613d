//! The last step of opening a log directory: what was replayed becomes durable, and its journal pieces free.
//!
//! A full disk is no reason to stay away: reads need no room. A failed sync is, as everywhere.

use std::collections::VecDeque;
use std::io;
use std::path::Path;
use std::sync::Arc;

use env::{Bell, Env};
use log::Syncing;
use log::checkpoint::Checkpoint;
use log::journal::{self, Piece, Replayed, is_full, make_piece};

use super::accept_loss;
use super::error::OpenError;
use super::log_loader::Log;
use super::recovery::Recovery;
use crate::dir::build::Parts;
use crate::dir::flight::Point;
use crate::dir::log_dir::{LogDir, SPARE_PIECES_MAX};
use crate::dir::residents::Residents;
use crate::dir::rows;
use crate::dir::settings::DirSettings;
use crate::partition::Partition;

/// A directory ready for work, with the partitions that were found in it.
pub struct Opened {
    pub residents: Arc<Residents>,
    pub partitions: Vec<Arc<Partition>>,
    /// Journal rounds that were replayed.
    pub rounds: u64,
}

impl Recovery {
    /// Makes what was replayed durable, notes it in a checkpoint, and only then lets the journal pieces be used again. Where
    /// the disk has no room for that, the pieces stay as they are and the segment writer does it later.
    pub(super) fn take_first_checkpoint(
        mut self,
        replayed: Replayed,
        bell: Arc<dyn Bell>,
    ) -> Result<Opened, OpenError> {
        let Replayed {
            mut resume,
            idle,
            live,
            rounds,
            damage,
            unproven,
        } = replayed;
        resume.last_piece = resume.last_piece.max(self.checkpoint.piece);
        self.logs.values_mut().for_each(Log::forgive_holes);
        let mut point = Point {
            sequence: resume.last_sequence,
            checksum: resume.last_checksum,
            piece: resume.last_piece,
            live_bytes: 0,
            room: 0,
        };
        // A row of files that are gone, or set aside, would be missed by a start that knows its partition again.
        let is_row_without_log = |row: &_| !self.logs.contains_key(row);
        let is_news = rounds > 0
            || !damage.is_empty()
            || !self.taken_back.is_empty()
            || self.has_given_up
            || self.rows.keys().any(is_row_without_log)
            || self.checkpoint.sequence == 0
            || self.is_of_old;
        let mut full = self
            .is_full
            .then(|| "no room for what is replayed".to_owned());
        if full.is_none() {
            match self.store(point, is_news) {
                Err(error) if error.is_full() && self.has_checkpoint => {
                    full = Some(error.to_string());
                }
                done => done?,
            }
        }
        let is_settled = full.is_none();
        // The journal still vouches for what it holds, and readers are about to see it: rounds that may not be durable are written once more.
        if let Some(unproven) = unproven.filter(|_| !is_settled) {
            unproven.harden().map_err(|error| OpenError::Io {
                path: self.path.clone(),
                error,
            })?;
        }
        let checkpointed = if is_settled {
            point.sequence
        } else {
            self.checkpoint.sequence
        };
        let Recovery {
            env,
            path,
            settings,
            id,
            lock,
            folds_names,
            files,
            logs,
            ..
        } = self;
        let at = |error| OpenError::Io {
            path: path.clone(),
            error,
        };
        let journal_path = LogDir::journal_path(&path);
        let mut writer = journal::Writer::new(
            &env,
            journal_path.clone(),
            id,
            settings.journal_piece_bytes,
            resume,
        );
        let mut idle = idle;
        if is_settled {
            idle.extend(live.into_iter().map(|(piece, _)| piece));
        } else {
            writer = writer.behind(live);
            point.live_bytes = writer.live_bytes();
        }
        if let Some(error) =
            keep_pieces(&env, &journal_path, idle, &writer.spares(), settings).map_err(at)?
        {
            full.get_or_insert(error.to_string());
        }
        let parts = Parts {
            id,
            files,
            writer,
            point,
            checkpointed,
            bell,
            lock,
            folds_names,
        };
        let dir = LogDir::new(env, path, settings, parts);
        if let Some(why) = full {
            dir.set_full(true, &why);
        }
        let residents = Residents::new(dir);
        let partitions = logs
            .into_iter()
            .map(|(key, log)| log.into_partition(key, &residents, !is_settled))
            .collect();
        Ok(Opened {
            residents,
            partitions,
            rounds,
        })
    }

    /// Makes the files alone sufficient for everything up to `point`.
    fn store(&mut self, point: Point, is_news: bool) -> Result<(), OpenError> {
        let (disk, path) = (&*self.env.disk, &self.path);
        let at = |error| OpenError::Io {
            path: path.clone(),
            error,
        };
        let syncing = if self.files.expects_volume_sync() {
            Syncing::WithVolume
        } else {
            Syncing::Now
        };
        for ((topic, _), log) in self.logs.iter_mut().filter(|(_, log)| log.is_changed) {
            let Some(store) = log.store.as_ref().filter(|_| log.unread.is_none()) else {
                continue;
            };
            log.derived
                .store(
                    disk,
                    store.dir(),
                    *topic,
                    Some(&log.epochs),
                    log.needed_from(),
                    syncing,
                )
                .map_err(|error| OpenError::Io {
                    path: log.path.clone(),
                    error,
                })?;
            store.write_long_indexes()?;
            if syncing == Syncing::Now {
                store.sync()?;
            }
        }
        if syncing == Syncing::WithVolume {
            let closed = self.files.closed_unsynced();
            let stores = self.logs.values().filter_map(|log| log.store.as_ref());
            let covered: Vec<_> = stores.map(|of| (of, of.before_volume_sync())).collect();
            disk.sync_volume(path).map_err(at)?;
            (covered.iter()).for_each(|(store, covered)| store.on_volume_synced(covered));
            self.files.on_volume_synced(closed);
        }
        disk.sync_dir(path).map_err(at)?;
        if is_news {
            let rows = self.logs.iter().filter_map(|(key, log)| log.row(*key));
            let lost = self.logs.iter().flat_map(|((topic, partition), log)| {
                rows::lost(*topic, *partition, &log.holes, log.log_start)
            });
            Checkpoint {
                sequence: point.sequence,
                checksum: point.checksum,
                piece: point.piece,
                rows: rows.collect(),
                lost: lost.collect(),
            }
            .store(disk, path)
            .map_err(at)?;
            for log in self.logs.values_mut() {
                log.forget_carried(disk, path).map_err(at)?;
            }
        }
        for rescued in &self.taken_back {
            disk.remove_dir_all(rescued).map_err(at)?;
        }
        accept_loss::forget(&self.env, path).map_err(at)
    }
}

/// Recycles the pieces that recovery read, and makes sure there is one to begin with; `Some` when the disk has no room for it.
fn keep_pieces(
    env: &Env,
    dir: &Path,
    pieces: Vec<Piece>,
    spares: &journal::Spares,
    settings: DirSettings,
) -> io::Result<Option<io::Error>> {
    let mut pieces = VecDeque::from(pieces);
    while pieces.len() > SPARE_PIECES_MAX {
        let Some(piece) = pieces.pop_back() else {
            break;
        };
        env.disk
            .remove_file(&journal::piece_path(dir, piece.slot))?;
    }
    pieces.into_iter().for_each(|piece| spares.put(piece));
    if spares.count() == 0 {
        let slot = spares.reserve_slot();
        match make_piece(&*env.disk, dir, slot, settings.journal_first_piece_bytes) {
            Ok(piece) => spares.put(piece),
            Err(error) if is_full(&error) => return Ok(Some(error)),
            Err(error) => return Err(error),
        }
    }
    Ok(None)
}
