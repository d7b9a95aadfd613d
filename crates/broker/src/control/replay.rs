//! From batches of the metadata log to the image.

use meta::record::Record;
use meta::{Image, Place, RecordError, ReplayError};
use model::Offset;
use wire::records::{Batch, Caps, CodecError, RecordError as BatchRecordError, RecordIter};

/// A batch that does not fit the image; a newer version wrote it, or it is damaged.
#[derive(Debug, thiserror::Error)]
pub enum Unfit {
    #[error(transparent)]
    Record(#[from] RecordError),
    #[error(transparent)]
    Batch(#[from] BatchRecordError),
    #[error(transparent)]
    Codec(#[from] CodecError),
    #[error(transparent)]
    Replay(#[from] ReplayError),
}

/// The place that records of the batch have, from `base` on.
fn placed(batch: &Batch, base: Offset) -> Place {
    Place {
        base,
        epoch: batch.leader_epoch(),
        time: batch.max_timestamp(),
    }
}

/// The records of a batch; none of one of the quorum's own.
pub(super) fn records(batch: &Batch) -> Result<Vec<Record>, Unfit> {
    if batch.attributes().is_control() {
        return Ok(Vec::new());
    }
    let plain = batch.plain(Caps::default())?;
    let mut records = Vec::new();
    for record in RecordIter::new(&plain, batch.record_count()) {
        let value = record?
            .value
            .map(|value| plain.slice_ref(value))
            .unwrap_or_default();
        records.push(meta::record::decode(value)?);
    }
    Ok(records)
}

/// Applies a batch, whose records these are.
pub(super) fn apply(image: &mut Image, batch: &Batch, records: &[Record]) -> Result<(), Unfit> {
    if batch.attributes().is_control() {
        image.pass_over(placed(batch, batch.next_offset()))?;
    } else {
        image.replay(placed(batch, batch.base_offset()), records)?;
    }
    Ok(())
}

/// Applies a batch; returns its records, none for a batch of the quorum's own.
pub(crate) fn replay(image: &mut Image, batch: &Batch) -> Result<Vec<Record>, Unfit> {
    let records = records(batch)?;
    apply(image, batch, &records)?;
    Ok(records)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::StartError;

    #[test]
    fn a_start_that_fails_for_a_record_names_the_log_once() {
        let missing = ReplayError::NoTopicNamed("t".to_owned());
        let error = StartError::from(Unfit::from(missing));
        assert_eq!(error.to_string(), "metadata log: there is no topic t");
    }
}
