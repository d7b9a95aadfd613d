//! The last step of opening a log directory: what was replayed becomes durable, and its journal pieces free.

use std::collections::VecDeque;
use std::io;
use std::path::Path;
use std::sync::Arc;

use env::{Bell, Env};
use log::Syncing;
use log::checkpoint::Checkpoint;
use log::journal::{self, Piece, Replayed, make_piece};

use super::build::Parts;
use super::recover::{OpenError, Opened, Recovery};
use super::writer::{self, VOLUME_SYNC_MIN};
use super::{DirSettings, LogDir, Point};

impl Recovery {
    /// Makes what was replayed durable, notes it in a checkpoint, and only then lets the journal pieces be used again.
    pub(super) fn settle(
        self,
        replayed: Replayed,
        bell: Arc<dyn Bell>,
    ) -> Result<Opened, OpenError> {
        let Recovery {
            env,
            path,
            settings,
            id,
            lock,
            files,
            checkpoint,
            logs,
            ..
        } = self;
        let at = |error| OpenError::Io {
            path: path.clone(),
            error,
        };
        let Replayed {
            mut resume,
            pieces,
            rounds,
            damage,
        } = replayed;
        resume.last_piece = resume.last_piece.max(checkpoint.piece);
        let mut logs = logs;
        let changed = logs.values().filter(|log| log.is_changed).count();
        let syncing = match changed {
            0..VOLUME_SYNC_MIN => Syncing::Now,
            _ => Syncing::WithVolume,
        };
        for ((topic, _), log) in logs.iter_mut().filter(|(_, log)| log.is_changed) {
            let Some(store) = &log.store else { continue };
            log.derived
                .store(&*env.disk, store.dir(), *topic, Some(&log.epochs), syncing)
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
            env.disk.sync_volume(&path).map_err(at)?;
            for store in logs.values().filter_map(|log| log.store.as_ref()) {
                store.on_volume_synced(store.log_end());
            }
        }
        env.disk.sync_dir(&path).map_err(at)?;
        let rows = logs.iter().filter_map(|(key, log)| log.row(*key)).collect();
        let point = Point {
            sequence: resume.last_sequence,
            checksum: resume.last_checksum,
            piece: resume.last_piece,
            live_bytes: 0,
        };
        if rounds > 0 || !damage.is_empty() || checkpoint.sequence == 0 {
            Checkpoint {
                sequence: point.sequence,
                checksum: point.checksum,
                piece: point.piece,
                rows,
                lost: logs
                    .iter()
                    .flat_map(|((topic, partition), log)| {
                        writer::lost(*topic, *partition, &log.holes, log.log_start)
                    })
                    .collect(),
            }
            .store(&*env.disk, &path)
            .map_err(at)?;
        }
        let journal_path = LogDir::journal_path(&path);
        let journal_writer = journal::Writer::new(
            Arc::clone(&env.disk),
            journal_path.clone(),
            id,
            settings.journal_piece_bytes,
            resume,
        );
        let spares = journal_writer.spares();
        keep_pieces(&env, &journal_path, pieces, &spares, settings).map_err(at)?;
        let parts = Parts {
            id,
            files,
            writer: journal_writer,
            point,
            bell,
            lock,
        };
        let dir = Arc::new(LogDir::new(env, path, settings, parts));
        let partitions = logs
            .into_iter()
            .map(|(key, log)| log.into_partition(key, &dir))
            .collect();
        Ok(Opened {
            dir,
            partitions,
            rounds,
        })
    }
}

/// Recycles the pieces that recovery read, and makes sure there is one to begin with.
fn keep_pieces(
    env: &Env,
    dir: &Path,
    pieces: Vec<Piece>,
    spares: &journal::Spares,
    settings: DirSettings,
) -> io::Result<()> {
    let mut pieces = VecDeque::from(pieces);
    while pieces.len() > super::SPARE_PIECES_MAX {
        let Some(piece) = pieces.pop_back() else {
            break;
        };
        env.disk
            .remove_file(&journal::piece_path(dir, piece.slot))?;
    }
    pieces.into_iter().for_each(|piece| spares.put(piece));
    if spares.count() == 0 {
        let slot = spares.reserve_slot();
        spares.put(make_piece(
            &*env.disk,
            dir,
            slot,
            settings.journal_first_piece_bytes,
        )?);
    }
    Ok(())
}
