//! Object stores: named, immutable objects, written as a whole and read in parts.
//!
//! Nothing here waits: an operation is begun under a tag, and its outcome comes later, in any order. Invariant of every implementation: an
//! object is there as a whole or not at all, and of two that write under a condition at once one alone succeeds. Everything else may fail, and an
//! operation whose answer was lost may have been done: see [`Trouble::is_in_doubt`].

use std::ops::Range;
use std::sync::Arc;

use bytes::Bytes;

use crate::Bell;

/// Chosen by the one who begins an operation, to know its outcome by.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Tag(pub u64);

/// The name that a store gives to one content of an object.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct ETag(pub String);

/// The condition under which an object is written.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum When {
    /// Only if there is none of the name.
    Absent,
    /// Only if it is the one of this etag still.
    Still(ETag),
}

/// The part of an object that is read.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Part {
    Whole,
    /// Bytes from here to there, as far as the object has them.
    Range(Range<u64>),
    /// The last so many bytes.
    Last(u64),
}

/// An operation. Names are UTF-8, of parts that `/` separates; none of these is empty, `.` or `..`.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Op {
    Put {
        name: String,
        /// In pieces, as they lie in memory.
        content: Vec<Bytes>,
        when: When,
    },
    Get {
        name: String,
        part: Part,
    },
    /// Objects that are not there count as deleted.
    Delete {
        names: Vec<String>,
    },
    /// Objects whose names begin with `prefix` and come behind `after` in the order of bytes; at most [`LISTED_MAX`] of them.
    List {
        prefix: String,
        after: Option<String>,
    },
}

/// Objects that one listing names.
pub const LISTED_MAX: usize = 1000;

/// An object as a listing has it.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Listed {
    pub name: String,
    pub bytes: u64,
}

/// An operation that was done.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Outcome {
    Put {
        etag: ETag,
    },
    Got {
        content: Bytes,
        /// Of the whole object.
        bytes: u64,
        /// Of the whole object too, where the store says it with a part.
        etag: Option<ETag>,
    },
    Deleted,
    Listed {
        /// In the order of their names.
        objects: Vec<Listed>,
        /// There are more behind the last one.
        has_more: bool,
    },
}

/// An operation that was not done, as far as anybody knows.
#[derive(Clone, Debug, PartialEq, Eq, Hash, thiserror::Error)]
pub enum Trouble {
    /// A condition does not hold: there is an object already, or another one.
    #[error("the object is there already, or another one is")]
    Taken,
    #[error("there is no such object")]
    Missing,
    /// Credentials, rights, or a store that does not exist: it does not pass by itself.
    #[error("{0}")]
    Refused(String),
    /// The store asks for patience.
    #[error("the store is busy")]
    Busy,
    #[error("the store cannot be reached: {0}")]
    Unreachable(String),
    /// The request may have been done.
    #[error("the store did not answer: {0}")]
    NoAnswer(String),
    /// The store has no room, or failed by itself.
    #[error("{0}")]
    Failed(String),
}

impl Trouble {
    /// True if the operation may have been done for all that.
    #[must_use]
    pub fn is_in_doubt(&self) -> bool {
        matches!(self, Trouble::NoAnswer(_) | Trouble::Failed(_))
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Done {
    pub tag: Tag,
    pub result: Result<Outcome, Trouble>,
}

/// One store, as one worker uses it.
pub trait Bucket: Send + Sync {
    fn start(&self, tag: Tag, op: Op);
    /// Adds the outcomes that came since the last call.
    fn take(&self, done: &mut Vec<Done>);
    /// Rings when there is an outcome. The worker sleeps on it, and others may ring it too.
    fn bell(&self) -> Arc<dyn Bell>;
}

/// True if a name may be that of an object.
#[must_use]
pub fn is_name(name: &str) -> bool {
    const NAME_BYTES_MAX: usize = 1024;
    let is_part =
        |part: &str| !part.is_empty() && part != "." && part != ".." && !part.contains('\0');
    name.len() <= NAME_BYTES_MAX && name.split('/').all(is_part)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_lead_nowhere_else() {
        for name in ["a", "topics/t.AAAA/0/00000000000000000000-x.log", "ü"] {
            assert!(is_name(name), "{name}");
        }
        let long = "a".repeat(1025);
        for name in ["", "/a", "a/", "a//b", "..", "a/../b", "./a", "a\0b", &long] {
            assert!(!is_name(name), "{name}");
        }
    }
}
