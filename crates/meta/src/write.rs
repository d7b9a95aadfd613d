//! Decided records on their way to the log.
//!
//! Owns that the image a decision leads to is the one that its bytes lead to: each record is cut down to what the finalized
//! `metadata.version` can say, replayed, and encoded at that version. A level that a record finalizes holds for those after it.

use bytes::Bytes;

use crate::image::{Image, Place, ReplayError};
use crate::record::{self, Record, RecordWriteError};

/// A batch that can be appended at its place.
#[derive(Clone, Debug)]
pub struct Written {
    /// The image once the batch is committed.
    pub image: Image,
    /// The value of each record.
    pub values: Vec<Bytes>,
}

/// A fault of the decision.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum WriteError {
    #[error(transparent)]
    Replay(#[from] ReplayError),
    #[error(transparent)]
    Record(#[from] RecordWriteError),
}

/// Makes a batch of `records`, decided on `image`.
pub fn write(image: &Image, place: Place, records: &[Record]) -> Result<Written, WriteError> {
    let mut image = image.clone();
    let mut values = Vec::with_capacity(records.len());
    image.pass_over(place)?;
    for record in records {
        let version = image.ahead().metadata_version();
        let record = version.fit(record);
        values.push(record::encode(&record, version)?);
        image.replay(image.next_place(), std::slice::from_ref(&record))?;
    }
    Ok(Written { image, values })
}
