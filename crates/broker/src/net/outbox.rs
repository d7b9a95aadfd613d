//! Answers on their way out: pieces in memory and slices of files, in order.

use std::collections::BTreeMap;
use std::io::{self, IoSlice};

use bytes::Bytes;
use env::Poller;
use log::segment::FileSlice;
use wire::{Encoded, Segment};

use super::transport::Transport;

/// One piece of an answer.
pub(crate) enum Chunk {
    Bytes(Bytes),
    File(FileSlice),
}

impl Chunk {
    fn len(&self) -> usize {
        match self {
            Chunk::Bytes(bytes) => bytes.len(),
            Chunk::File(slice) => slice.len,
        }
    }

    /// Bytes that it keeps in memory until it is sent.
    fn memory(&self) -> usize {
        match self {
            Chunk::Bytes(bytes) => bytes.len(),
            Chunk::File(_) => 0,
        }
    }
}

/// A whole framed answer.
#[derive(Default)]
pub(crate) struct Reply {
    pub(crate) chunks: Vec<Chunk>,
    pub(crate) len: usize,
    /// Bytes of it that are in memory.
    pub(crate) memory: usize,
    /// Error codes in it, each with its count.
    pub(crate) errors: BTreeMap<i16, u32>,
}

impl Reply {
    /// `fillers` are the pieces for the external splices, in field order.
    pub(crate) fn new(encoded: Encoded, fillers: Vec<Vec<Chunk>>) -> Reply {
        let len = encoded.len;
        let mut chunks = Vec::with_capacity(1 + 2 * encoded.splices.len());
        let mut fillers = fillers.into_iter();
        for segment in encoded.segments() {
            match segment {
                Segment::Bytes(bytes) => chunks.push(Chunk::Bytes(bytes)),
                Segment::External(len) => {
                    let filler = fillers.next().unwrap_or_default();
                    assert_eq!(
                        filler.iter().map(Chunk::len).sum::<usize>(),
                        len as usize,
                        "a splice is filled exactly"
                    );
                    chunks.extend(filler);
                }
            }
        }
        let errors = encoded.errors;
        let memory = chunks.iter().map(Chunk::memory).sum();
        Reply {
            chunks,
            len,
            memory,
            errors,
        }
    }

    /// An answer that another node has made, without its length.
    pub(crate) fn carried(frame: Bytes) -> Reply {
        let head = u32::try_from(frame.len()).unwrap_or(u32::MAX);
        let head = Bytes::copy_from_slice(&head.to_be_bytes());
        let len = head.len() + frame.len();
        Reply {
            chunks: vec![Chunk::Bytes(head), Chunk::Bytes(frame)],
            len,
            memory: len,
            errors: BTreeMap::new(),
        }
    }

    /// The frame without its length; `None` where files have a part of it.
    pub(crate) fn frame(&self) -> Option<Bytes> {
        let mut all = Vec::with_capacity(self.len);
        for chunk in &self.chunks {
            let Chunk::Bytes(bytes) = chunk else {
                return None;
            };
            all.extend_from_slice(bytes);
        }
        let all = Bytes::from(all);
        (4 <= all.len()).then(|| all.slice(4..))
    }
}

/// Slices gathered for one send; Linux takes up to 1024.
const SLICES_MAX: usize = 64;
/// Bytes given to one sendfile call.
const FILE_BYTES_MAX: usize = 1 << 20;

/// The answers that one connection still has to send.
#[derive(Default)]
pub(crate) struct Outbox {
    /// None of them is empty: one that is would never have left, and be tried for ever.
    chunks: std::collections::VecDeque<Chunk>,
    bytes: usize,
    memory: usize,
}

impl Outbox {
    pub(crate) fn bytes(&self) -> usize {
        self.bytes
    }

    /// Bytes of it that are in memory.
    pub(crate) fn memory(&self) -> usize {
        self.memory
    }

    pub(crate) fn push(&mut self, reply: Reply) {
        self.bytes += reply.len;
        self.memory += reply.memory;
        // The last token of a login by PLAIN has no bytes, and no header (KIP-43).
        let chunks = reply.chunks.into_iter();
        self.chunks.extend(chunks.filter(|chunk| 0 < chunk.len()));
    }

    /// Sends until all is gone (`true`) or the socket takes no more (`false`).
    pub(crate) fn flush(
        &mut self,
        poller: &mut dyn Poller,
        transport: &Transport,
    ) -> io::Result<bool> {
        while let Some(first) = self.chunks.front_mut() {
            let sent = match first {
                Chunk::File(slice) => send_slice(poller, transport, slice),
                Chunk::Bytes(_) => {
                    let mut slices = [IoSlice::new(&[]); SLICES_MAX];
                    let mut count = 0;
                    for (slot, chunk) in slices.iter_mut().zip(&self.chunks) {
                        let Chunk::Bytes(bytes) = chunk else { break };
                        *slot = IoSlice::new(bytes);
                        count += 1;
                    }
                    transport.send(poller, &slices[..count])
                }
            };
            match sent {
                Ok(sent) => self.advance(sent),
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(false),
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        Ok(true)
    }

    fn advance(&mut self, mut sent: usize) {
        self.bytes -= sent;
        while sent > 0 {
            let Some(first) = self.chunks.front_mut() else {
                break;
            };
            if sent >= first.len() {
                sent -= first.len();
                self.memory -= first.memory();
                self.chunks.pop_front();
                continue;
            }
            match first {
                Chunk::Bytes(bytes) => {
                    self.memory -= sent;
                    *bytes = bytes.slice(sent..);
                }
                Chunk::File(slice) => {
                    slice.position += sent as u64;
                    slice.len -= sent;
                }
            }
            break;
        }
    }
}

/// A file that does not give what was promised ends the connection, for the head of the answer is gone already. The client
/// comes again, and is then told of which partition the bytes are; the others of its fetch are served.
fn send_slice(
    poller: &mut dyn Poller,
    transport: &Transport,
    slice: &FileSlice,
) -> io::Result<usize> {
    let len = slice.len.min(FILE_BYTES_MAX);
    let sent = match transport.send_file(poller, slice, len) {
        // The file is shorter than when the answer was planned: the client must not get garbage in its place.
        Ok(0) => Err(io::ErrorKind::UnexpectedEof.into()),
        sent => sent,
    };
    if sent.as_ref().is_err_and(is_of_the_file) {
        slice.distrust();
    }
    sent
}

/// Not one of the errors that a client causes by going away.
fn is_of_the_file(error: &io::Error) -> bool {
    use io::ErrorKind::{
        BrokenPipe, ConnectionAborted, ConnectionReset, Interrupted, NotConnected, TimedOut,
        WouldBlock,
    };
    !matches!(
        error.kind(),
        WouldBlock
            | Interrupted
            | BrokenPipe
            | ConnectionReset
            | ConnectionAborted
            | NotConnected
            | TimedOut
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_answer_without_bytes_leaves_with_its_length() {
        let mut outbox = Outbox::default();
        outbox.push(Reply::carried(Bytes::new()));
        assert_eq!((outbox.bytes(), outbox.memory()), (4, 4));
        outbox.advance(4);
        assert_eq!((outbox.bytes(), outbox.chunks.len()), (0, 0));
        // The length of the next one may leave alone as well.
        outbox.push(Reply::carried(Bytes::from_static(b"token")));
        outbox.push(Reply::carried(Bytes::new()));
        outbox.advance(9 + 4);
        assert_eq!((outbox.bytes(), outbox.chunks.len()), (0, 0));
    }
}
