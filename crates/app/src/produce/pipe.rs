//! Standard input, read beside the work of the producer.
//!
//! A read of a pipe may wait for ever, and what was read before is not acknowledged yet: so a thread of its own reads, and whoever
//! takes the chunks may do something else while none comes.

use std::io::{self, Read};
use std::sync::mpsc::{Receiver, RecvTimeoutError, TryRecvError, sync_channel};
use std::time::Duration;

/// Chunks that were read and are not taken: 1 MiB. Then the writer of the pipe waits.
const CHUNKS_MAX: usize = 16;
const CHUNK_BYTES: usize = 64 << 10;

pub(super) struct Pipe {
    chunks: Receiver<io::Result<Vec<u8>>>,
}

/// Something that was read, or its end.
pub(super) type Chunk = io::Result<Option<Vec<u8>>>;

impl Pipe {
    // It ends with the pipe or with the process, and does nothing but read.
    #[allow(clippy::disallowed_methods)]
    pub(super) fn open(mut input: impl Read + Send + 'static) -> Pipe {
        let (send, chunks) = sync_channel(CHUNKS_MAX);
        std::thread::spawn(move || {
            loop {
                let mut chunk = vec![0; CHUNK_BYTES];
                let read = match input.read(&mut chunk) {
                    Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                    Ok(0) => return,
                    read => read,
                };
                let is_last = read.is_err();
                let chunk = read.map(|len| {
                    chunk.truncate(len);
                    chunk
                });
                if send.send(chunk).is_err() || is_last {
                    return;
                }
            }
        });
        Pipe { chunks }
    }

    /// The chunk that is there now; `None` when none is.
    pub(super) fn ready(&self) -> Option<Chunk> {
        match self.chunks.try_recv() {
            Ok(chunk) => Some(chunk.map(Some)),
            Err(TryRecvError::Disconnected) => Some(Ok(None)),
            Err(TryRecvError::Empty) => None,
        }
    }

    /// The chunk that is there within `time`; `None` when none is.
    pub(super) fn within(&self, time: Duration) -> Option<Chunk> {
        match self.chunks.recv_timeout(time) {
            Ok(chunk) => Some(chunk.map(Some)),
            Err(RecvTimeoutError::Disconnected) => Some(Ok(None)),
            Err(RecvTimeoutError::Timeout) => None,
        }
    }

    pub(super) fn wait(&self) -> Chunk {
        self.chunks.recv().map_or(Ok(None), |chunk| chunk.map(Some))
    }
}
