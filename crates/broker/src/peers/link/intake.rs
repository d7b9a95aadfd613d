//! Answers of one connection, each in memory of its own size.
//!
//! Records of an answer may stay in memory for as long as their log is quiet, and keep all of the allocation that they lie in. So no
//! two answers share one, and none has room that nothing fills. Small ones are received into a buffer of all connections, which nothing
//! keeps, and copied out; the rest of a large one is received where it stays. Invariant: an allocation is never larger than
//! [`BELIEVED_BYTES`] and four times what has arrived, whatever length the other end declares.

use std::io;

use bytes::{Bytes, BytesMut};

/// Received at a time beside large answers: a copy of so much costs less than a second call.
pub(in crate::peers) const SHARED_BYTES: usize = 16 << 10;
/// Room that a declared length gets before its bytes arrive.
const BELIEVED_BYTES: usize = 1 << 20;
/// A longer answer ends its connection: nothing that is asked for is half as large.
pub(in crate::peers) const FRAME_BYTES_MAX: usize = 64 << 20;

/// The other end does not speak the protocol.
#[derive(Debug)]
pub(in crate::peers) struct Garbage;

/// The buffer that all connections of one owner receive into, one after the other.
pub(in crate::peers) struct SharedBuffer(BytesMut);

impl SharedBuffer {
    pub(in crate::peers) fn new() -> SharedBuffer {
        SharedBuffer(BytesMut::with_capacity(SHARED_BYTES))
    }
}

/// The answer at the front, as far as it has come.
#[derive(Default)]
pub(in crate::peers) struct Intake {
    /// The first bytes of its length.
    head: Vec<u8>,
    /// Its length is known.
    begun: Option<Begun>,
    whole: Vec<Bytes>,
}

struct Begun {
    frame: BytesMut,
    length: usize,
}

impl Begun {
    fn new(length: usize) -> Begun {
        Begun {
            frame: BytesMut::with_capacity(length.min(BELIEVED_BYTES)),
            length,
        }
    }

    fn missing(&self) -> usize {
        self.length - self.frame.len()
    }

    /// Makes room behind what has arrived, and none beyond the end.
    fn make_room(&mut self) {
        let filled = self.frame.len();
        if filled == self.frame.capacity() && filled < self.length {
            let mut larger = BytesMut::with_capacity(self.length.min(4 * filled));
            larger.extend_from_slice(&self.frame);
            self.frame = larger;
        }
    }

    /// Takes what belongs to this answer off the front of `bytes`.
    fn take(&mut self, bytes: &mut &[u8]) {
        while 0 < self.missing() && !bytes.is_empty() {
            self.make_room();
            let room = self.frame.capacity() - self.frame.len();
            let (taken, rest) = bytes.split_at(room.min(self.missing()).min(bytes.len()));
            self.frame.extend_from_slice(taken);
            *bytes = rest;
        }
    }
}

impl Intake {
    /// Receives once with `recv`; returns how many bytes that were, 0 if the other end closed its side.
    pub(in crate::peers) fn receive(
        &mut self,
        shared: &mut SharedBuffer,
        recv: impl FnOnce(&mut BytesMut) -> io::Result<usize>,
    ) -> io::Result<Result<usize, Garbage>> {
        if let Some(begun) = &mut self.begun
            && SHARED_BYTES <= begun.missing()
        {
            begun.make_room();
            let received = recv(&mut begun.frame)?;
            self.end_if_whole();
            return Ok(Ok(received));
        }
        let SharedBuffer(buffer) = shared;
        buffer.clear();
        let received = recv(buffer)?;
        Ok(self.take_in(buffer).map(|()| received))
    }

    /// Whole answers without their lengths, in the order in which they came.
    pub(in crate::peers) fn take_whole(&mut self) -> Vec<Bytes> {
        std::mem::take(&mut self.whole)
    }

    fn take_in(&mut self, mut bytes: &[u8]) -> Result<(), Garbage> {
        while !bytes.is_empty() {
            if self.begun.is_none() {
                let missing = 4 - self.head.len();
                let (head, rest) = bytes.split_at(missing.min(bytes.len()));
                self.head.extend_from_slice(head);
                bytes = rest;
                self.begin()?;
            }
            if let Some(begun) = &mut self.begun {
                begun.take(&mut bytes);
            }
            self.end_if_whole();
        }
        Ok(())
    }

    /// Begins an answer whose length is there.
    fn begin(&mut self) -> Result<(), Garbage> {
        let Some(head) = self.head.first_chunk::<4>() else {
            return Ok(());
        };
        let length = usize::try_from(i32::from_be_bytes(*head)).map_err(|_| Garbage)?;
        if FRAME_BYTES_MAX < length {
            return Err(Garbage);
        }
        self.head.clear();
        self.begun = Some(Begun::new(length));
        Ok(())
    }

    fn end_if_whole(&mut self) {
        if let Some(begun) = self.begun.take_if(|begun| begun.missing() == 0) {
            self.whole.push(begun.frame.freeze());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Receives all of `wire`, at most `step` bytes at a time; returns the answers, and the most that was allocated for one beyond what
    /// had arrived of it.
    fn received(mut wire: &[u8], step: usize) -> (Vec<Bytes>, usize) {
        let (mut intake, mut shared) = (Intake::default(), SharedBuffer::new());
        let (mut answers, mut most_ahead) = (Vec::new(), 0);
        while !wire.is_empty() {
            let mut recv = |into: &mut BytesMut| {
                let room = into.capacity() - into.len();
                assert!(0 < room, "room was made");
                let (part, rest) = wire.split_at(room.min(step).min(wire.len()));
                into.extend_from_slice(part);
                wire = rest;
                Ok(part.len())
            };
            let got = intake.receive(&mut shared, &mut recv).expect("no error");
            assert!(got.is_ok());
            answers.append(&mut intake.take_whole());
            let begun = intake.begun.as_ref();
            let ahead = begun.map_or(0, |begun| begun.frame.capacity() - begun.frame.len());
            most_ahead = ahead.max(most_ahead);
        }
        (answers, most_ahead)
    }

    fn framed(lengths: &[usize]) -> (Vec<u8>, Vec<Vec<u8>>) {
        let body = |len: &usize| (0..*len).map(|at| (at * 7 + len) as u8).collect();
        let bodies: Vec<Vec<u8>> = lengths.iter().map(body).collect();
        let frame = |body: &Vec<u8>| [&(body.len() as i32).to_be_bytes()[..], body].concat();
        (bodies.iter().flat_map(frame).collect(), bodies)
    }

    #[test]
    fn an_answer_keeps_memory_of_its_own_length_however_its_bytes_arrive() {
        let (wire, bodies) = framed(&[
            170,
            0,
            1,
            100,
            SHARED_BYTES - 4,
            SHARED_BYTES,
            70_000,
            3,
            BELIEVED_BYTES + 1,
            9 * BELIEVED_BYTES,
            200,
        ]);
        for step in [1, 3, 1000, SHARED_BYTES, 100_000, usize::MAX] {
            let (answers, _) = received(&wire, step);
            assert!(answers == bodies, "step {step}");
            for answer in answers.into_iter().filter(|answer| !answer.is_empty()) {
                let length = answer.len();
                let alone = answer
                    .try_into_mut()
                    .expect("nobody else has a part of its buffer");
                assert_eq!(alone.capacity(), length, "step {step}");
            }
        }
    }

    #[test]
    fn a_length_gets_little_more_memory_than_what_has_arrived_of_it() {
        let mut wire = (FRAME_BYTES_MAX as i32).to_be_bytes().to_vec();
        wire.resize(100, b'x');
        let (_, ahead) = received(&wire, usize::MAX);
        assert!(ahead <= BELIEVED_BYTES, "{ahead}");
        wire.resize(6 << 20, b'x');
        let (_, ahead) = received(&wire, usize::MAX);
        assert!(ahead <= 12 << 20, "{ahead}");
    }

    #[test]
    fn a_length_that_nothing_has_is_garbage() {
        for length in [-1, i32::MIN, i32::MAX, FRAME_BYTES_MAX as i32 + 1] {
            let mut intake = Intake::default();
            assert!(intake.take_in(&length.to_be_bytes()).is_err(), "{length}");
        }
    }
}
