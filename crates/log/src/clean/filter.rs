//! The fate of one batch: it stays, loses records, is emptied or goes.
//!
//! The newest record of each key stays; a tombstone until the delete horizon of its batch has passed, which begins when a pass
//! meets it first (KIP-534). Records of aborted transactions go; a marker goes when nothing of its transaction is left and its
//! horizon has passed. Headers that producer states or the bounds of a segment rest on stay without records.

use std::collections::HashMap;

use model::{Offset, ProducerEpoch, ProducerId, Timestamp};
use wire::records::{Batch, Caps, Record, RecordFault, Retained, emptied};

use super::keys::KeyMap;
use super::txns::CleanedTxns;
use crate::producer::ProducerStates;

/// The last thing an active producer wrote: its batch must stay, or a restart would forget its sequence.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LastWritten {
    Records {
        last_offset: Offset,
    },
    /// Only a marker, which has the epoch.
    Marker {
        epoch: ProducerEpoch,
    },
}

pub type LastOfProducers = HashMap<ProducerId, LastWritten>;

/// The last writes of active producers, in no order: the least that has to be copied while appends wait.
#[must_use]
pub fn last_of(states: &ProducerStates) -> Vec<(ProducerId, LastWritten)> {
    let last = |(id, producer): (ProducerId, &crate::producer::Producer)| {
        let last = match producer.last() {
            Some(written) => LastWritten::Records {
                last_offset: written.last_offset,
            },
            None => LastWritten::Marker {
                epoch: producer.epoch,
            },
        };
        (id, last)
    };
    states.iter().map(last).collect()
}

/// The rules for all batches of a pass.
#[derive(Clone, Copy, Debug)]
pub struct Rules {
    pub now: Timestamp,
    pub delete_retention_ms: i64,
    pub caps: Caps,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Fate {
    Stays,
    /// Takes the place of the old one.
    Becomes(Batch),
    Goes,
}

/// Decides over `batch`. `is_bound`: it ends where the new segment ends, so that at least its header stays.
pub fn judge(
    batch: &Batch,
    is_bound: bool,
    rules: Rules,
    keys: &KeyMap,
    txns: &mut CleanedTxns,
    producers: &LastOfProducers,
) -> Result<Fate, RecordFault> {
    let is_control = batch.attributes().is_control();
    let horizon = batch.delete_horizon();
    let has_passed = horizon.is_some_and(|horizon| horizon <= rules.now);
    let is_done = if is_control {
        txns.on_control(batch)
    } else {
        txns.on_records(batch)
    };
    let records_go = is_done && (!is_control || has_passed);
    let stays = |record: &Record<'_>| {
        if records_go {
            return false;
        }
        if is_control {
            return true;
        }
        let offset = batch.base_offset().advance(i64::from(record.offset_delta));
        // Above what the map reached nothing is known.
        if keys.latest().is_none_or(|latest| latest < offset) {
            return true;
        }
        let Some(key) = record.key else { return false };
        let is_newest = keys.get(key).is_none_or(|newest| newest <= offset);
        is_newest && (record.value.is_some() || !has_passed)
    };
    let empty = |batch: &Batch| match batch.record_count() {
        0 => Fate::Stays,
        _ => Fate::Becomes(emptied(batch)),
    };
    let retained = Retained::of(batch, rules.caps, stays)?;
    if retained.is_empty() {
        return Ok(if is_bound || is_last(batch, producers) {
            empty(batch)
        } else {
            Fate::Goes
        });
    }
    let begins_horizon =
        (retained.has_tombstone() && !is_control || is_done && is_control) && horizon.is_none();
    if retained.is_whole() && !begins_horizon {
        return Ok(Fate::Stays);
    }
    let begun = rules.now.0.saturating_add(rules.delete_retention_ms);
    let left = retained.build(begins_horizon.then_some(Timestamp(begun)));
    Ok(left.map_or(Fate::Goes, Fate::Becomes))
}

/// The batch is the last that its producer, who is still known, wrote.
fn is_last(batch: &Batch, producers: &LastOfProducers) -> bool {
    batch.has_producer_id()
        && match producers.get(&batch.producer_id()) {
            Some(LastWritten::Records { last_offset }) => batch.last_offset() == *last_offset,
            Some(LastWritten::Marker { epoch }) => {
                batch.attributes().is_control() && batch.producer_epoch() == *epoch
            }
            None => false,
        }
}
