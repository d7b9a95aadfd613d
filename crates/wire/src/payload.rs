//! The record payload of a produce or fetch message: opaque here, bytes or a promise of bytes.

use bytes::Bytes;

/// Record batches inside a message. Decoding gives `Bytes`, a slice of the frame.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Records {
    Bytes(Bytes),
    /// This many bytes that the sender of the frame supplies, for example from a file.
    External(u32),
}

impl Records {
    pub fn len(&self) -> usize {
        match self {
            Records::Bytes(bytes) => bytes.len(),
            Records::External(len) => *len as usize,
        }
    }

    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

impl Default for Records {
    fn default() -> Self {
        Records::Bytes(Bytes::new())
    }
}

impl From<Bytes> for Records {
    fn from(bytes: Bytes) -> Self {
        Records::Bytes(bytes)
    }
}
