//! The row of a checkpoint for one partition.

use log::checkpoint;
use log::store::{Known, Store};
use model::{Offset, PartitionIndex, Position};
use wire::Uuid;

use super::durable::Key;
use crate::cuts::Marks;
use crate::partition::{Hole, Home, Partition};

impl Partition {
    /// The row for the partition's files in `home`.
    pub(super) fn checkpoint_row(&self, home: &Home) -> Option<checkpoint::Row> {
        let known = home.store.get().map(Store::known);
        let (marks, is_deleted) = {
            let state = self.state.lock();
            (state.marks(), state.is_deleted)
        };
        if is_deleted {
            None
        } else if self.unread.is_some() {
            self.unread
        } else {
            row(
                self.topic_id,
                self.index,
                marks,
                known,
                home.derived.lock().has_producers(),
            )
        }
    }

    pub(super) fn lost(&self) -> Vec<checkpoint::Lost> {
        let state = self.state.lock();
        let log_start = state.marks().log_start;
        let holes: Vec<Hole> = state.holes.iter().chain(&state.cut_off).copied().collect();
        lost(self.topic_id, self.index, &holes, log_start)
    }
}

/// The row of a partition of which nothing is known.
pub(super) fn empty((topic, partition): Key) -> checkpoint::Row {
    checkpoint::Row {
        topic,
        partition,
        log_start: Offset::ZERO,
        local_start: Offset::ZERO,
        restart_point: Offset::ZERO,
        committed: Offset::ZERO,
        restarted_at: Offset::ZERO,
        log_end: Offset::ZERO,
        active_base: Offset::ZERO,
        active_len: Position(0),
        has_files: false,
        has_producers: false,
    }
}

/// The holes of a partition that its log still spans.
pub(super) fn lost(
    topic: Uuid,
    partition: PartitionIndex,
    holes: &[Hole],
    log_start: Offset,
) -> Vec<checkpoint::Lost> {
    holes
        .iter()
        .filter(|hole| hole.to > log_start)
        .map(|hole| checkpoint::Lost {
            topic,
            partition,
            from: hole.from,
            to: hole.to,
        })
        .collect()
}

/// The row of a partition; none for one that was never used.
pub(super) fn row(
    topic: Uuid,
    partition: PartitionIndex,
    marks: Marks,
    known: Option<Known>,
    has_producers: bool,
) -> Option<checkpoint::Row> {
    let Marks {
        log_start,
        local_start,
        restart_point,
        committed,
        restarted_at,
    } = marks;
    if known.is_none() && log_start == Offset::ZERO && restart_point == Offset::ZERO {
        return None;
    }
    Some(checkpoint::Row {
        topic,
        partition,
        log_start,
        local_start,
        restart_point,
        committed,
        restarted_at,
        log_end: known.map_or(local_start, |known| known.log_end),
        active_base: known.map_or(local_start, |known| known.active_base),
        active_len: Position(known.map_or(0, |known| known.active_len)),
        has_files: known.is_some(),
        has_producers,
    })
}
