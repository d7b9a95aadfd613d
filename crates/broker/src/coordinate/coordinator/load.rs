//! How a coordinator reads its log to the end, a piece at a time.

use std::time::Duration;

use coord::Moment;
use model::Offset;
use partition::{Isolation, ReadError, ReadRequest, Records, Scope};
use wire::records::{Batch, Caps, ControlRecord, RecordIter, Source};

use super::{Coordinator, Machine, Output, Results, State};

/// Log bytes read in one piece while loading.
pub(super) const READ_BYTES: usize = 256 << 10;
/// When to look again whether what a load has still to read is durable, unless somebody asks before. It is told to nobody here: on a
/// full disk it may take hours.
pub(super) const PAUSE: Duration = Duration::from_millis(10);

/// One finding of a load.
enum Piece {
    /// Batches, which are replayed.
    Read { next: Offset, bytes: usize },
    /// Batches that nobody may see yet, or that are under repair. No more are appended before they are replayed.
    NotYet,
    /// The end of the log.
    End,
}

impl<M: Machine> Coordinator<M> {
    /// Replays at most `budget` bytes; `Active` when the end is reached.
    ///
    /// A batch that was appended before the one that was refused is not durable (1), a load that ended before it would be asked and
    /// decide without it (2), and whoever waits for the batch is told that it counts (3). So a load ends where the log does.
    pub(crate) fn load(&mut self, budget: &mut usize, at: Moment, output: &mut Output) {
        if let State::Waiting(from, _) = self.state {
            self.state = State::Loading(from);
        }
        while let State::Loading(from) = self.state {
            if *budget == 0 {
                return;
            }
            match self.load_piece(from) {
                Ok(Piece::Read { next, bytes }) => {
                    *budget = budget.saturating_sub(bytes);
                    self.state = State::Loading(next);
                }
                Ok(Piece::NotYet) => {
                    self.state = State::Waiting(from, at.now.plus(PAUSE));
                }
                Ok(Piece::End) => {
                    let effects = self.machine.on_loaded(at);
                    self.state = State::Active;
                    let answers = Vec::new();
                    Results::<M> { answers, effects }.release(&self.basis(), output);
                }
                // It resigns as soon as this broker acts on the metadata that say so.
                Err(_) if self.is_succeeded() => {
                    self.state = State::Waiting(from, at.now.plus(PAUSE));
                }
                Err(reason) => {
                    tracing::error!(target: env::logs::COORDINATORS, "{} cannot be loaded: {reason}", self.name());
                    self.state = State::Failed;
                }
            }
        }
    }

    /// Replays the batches at `from`.
    fn load_piece(&mut self, from: Offset) -> Result<Piece, String> {
        let from = from.max(self.log.bounds().log_start);
        let request = ReadRequest {
            from,
            bytes_max: READ_BYTES,
            memory_bytes_max: usize::MAX,
            at_least_one: true,
            current_epoch: self.epoch,
            scope: Scope::of_leader(Isolation::Uncommitted),
        };
        let read = match self.log.read(request) {
            // Another replica is asked for it: the load goes on then.
            Err(ReadError::UnderRepair { .. }) => return Ok(Piece::NotYet),
            read => read.map_err(|error| error.to_string())?,
        };
        let batches = match read.records {
            Records::AtEnd => Vec::new(),
            Records::Memory(batches) => batches,
            Records::File(slice) => {
                let bytes = slice.read().map_err(|error| error.to_string())?;
                Batch::cut(&bytes, Source::Log)
                    .take_while(|batch| batch.is_ok())
                    .flatten()
                    .collect()
            }
        };
        let Some(last) = batches.last() else {
            // Compaction may have left nothing up to what is committed, or to the end. A batch that is missing is an error of the read.
            let is_all = read.bounds.high_watermark == read.bounds.log_end;
            return Ok(if is_all { Piece::End } else { Piece::NotYet });
        };
        let next = last.next_offset();
        let bytes = batches.iter().map(|batch| batch.size()).sum();
        for batch in &batches {
            self.replay(batch)?;
        }
        Ok(Piece::Read { next, bytes })
    }

    fn replay(&mut self, batch: &Batch) -> Result<(), String> {
        if batch.attributes().is_control() {
            if let Some(ControlRecord::EndTxn(end)) = ControlRecord::read(batch) {
                self.machine
                    .replay_marker(batch.producer_id(), end.committed);
            }
            return Ok(());
        }
        let producer = batch
            .attributes()
            .is_transactional()
            .then(|| (batch.producer_id(), batch.producer_epoch()));
        let plain = batch
            .plain(Caps::default())
            .map_err(|error| error.to_string())?;
        for record in RecordIter::new(&plain, batch.record_count()) {
            let record = record.map_err(|error| error.to_string())?;
            let (Some(key), value) = (record.key, record.value) else {
                continue;
            };
            match M::decode(
                plain.slice_ref(key),
                value.map(|value| plain.slice_ref(value)),
            ) {
                Ok(record) => self.machine.replay(&record, producer),
                // A newer node wrote something that this one does not know: it keeps it, and goes on without.
                Err(wire::DecodeError::ApiKey { .. }) => {}
                Err(error) => return Err(error.to_string()),
            }
        }
        Ok(())
    }
}
