//! The failure of a look for a record by its time.

use std::io;

use wire::records::Oversized;

use crate::scan::ScanError;

/// Why a record is not found by its time.
#[derive(Debug, thiserror::Error)]
pub enum FindError {
    #[error(transparent)]
    Scan(#[from] ScanError),
    /// The batch that may have it holds a record larger than the log lets it become.
    #[error(transparent)]
    Oversized(#[from] Oversized),
}

impl From<io::Error> for FindError {
    fn from(error: io::Error) -> FindError {
        ScanError::from(error).into()
    }
}
