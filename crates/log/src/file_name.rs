//! Names of the files of a segment.

use model::Offset;

/// Name of a segment's file: twenty digits, so that names sort like offsets.
#[must_use]
pub fn file_name(base: Offset, extension: &str) -> String {
    format!("{:020}.{extension}", base.0)
}
