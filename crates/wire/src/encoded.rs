//! The parts of a finished message: a head, and payloads that stand between its parts.
//!
//! Invariant: splices are in order of `at`, which lies in the head; `len` is the sum of all pieces.

use crate::EncodeError;
use bytes::Bytes;
use std::collections::BTreeMap;

/// A payload between two parts of the head.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Splice {
    Bytes(Bytes),
    /// This many bytes that the sender supplies.
    External(u32),
}

impl Splice {
    #[allow(clippy::len_without_is_empty)]
    pub fn len(&self) -> usize {
        match self {
            Splice::Bytes(bytes) => bytes.len(),
            Splice::External(len) => *len as usize,
        }
    }
}

/// A splice and the position in the head before which it goes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SpliceAt {
    pub at: usize,
    pub content: Splice,
}

/// One piece of the output, in the order to send.
pub type Segment = Splice;

/// A finished message or frame. `len` counts head and splices.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Encoded {
    pub head: Bytes,
    pub splices: Vec<SpliceAt>,
    pub len: usize,
    /// Error codes in it other than zero, each with its count.
    pub errors: BTreeMap<i16, u32>,
}

impl Encoded {
    /// All pieces in order; none of them is empty.
    pub fn segments(&self) -> impl Iterator<Item = Segment> + '_ {
        let ends = self
            .splices
            .iter()
            .map(|splice| splice.at)
            .chain([self.head.len()]);
        let starts = [0]
            .into_iter()
            .chain(self.splices.iter().map(|splice| splice.at));
        let heads = starts
            .zip(ends)
            .map(|(start, end)| Splice::Bytes(self.head.slice(start..end)));
        let contents = self
            .splices
            .iter()
            .map(|splice| Some(splice.content.clone()))
            .chain([None]);
        heads
            .zip(contents)
            .flat_map(|(head, content)| [Some(head), content])
            .flatten()
            .filter(|segment| segment.len() > 0)
    }

    /// Everything in one buffer; an error when part of it is not in memory.
    pub fn into_bytes(self) -> Result<Bytes, EncodeError> {
        if self.splices.is_empty() {
            return Ok(self.head);
        }
        let mut whole = Vec::with_capacity(self.len);
        for segment in self.segments() {
            match segment {
                Splice::Bytes(bytes) => whole.extend_from_slice(&bytes),
                Splice::External(_) => return Err(EncodeError::External),
            }
        }
        Ok(Bytes::from(whole))
    }
}
