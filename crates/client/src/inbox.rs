//! Bytes from a socket, cut into frames.
//!
//! Invariant: `start <= filled <= bytes.len()`; `bytes[start..filled]` is what was received and not yet cut. A frame longer than
//! `frame_max` is refused before room is made for it, and room grows with what arrives, not with what was announced.

use std::io::{self, Read};

use bytes::Bytes;

/// Read at least this much at a time, so that small frames cost less than one call each.
const READ_MIN: usize = 32 << 10;
/// Room made ahead of what has arrived.
const READ_MAX: usize = 1 << 20;
/// A frame above this keeps the buffer it was read into, which is made for it; below, it is copied out.
const COPY_MAX: usize = 64 << 10;
/// Room of that buffer that nothing fills, up to this part of the frame; beyond, the frame is copied out as well. A consumer keeps its
/// records for as long as the application takes.
const ROOM_PART: usize = 8;

#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("a frame of {announced} bytes was announced, at most {max} are accepted")]
pub struct FrameTooLong {
    pub announced: i32,
    pub max: usize,
}

#[derive(Debug)]
pub(crate) struct Inbox {
    bytes: Vec<u8>,
    start: usize,
    filled: usize,
    frame_max: usize,
}

impl Inbox {
    pub(crate) fn new(frame_max: usize) -> Inbox {
        Inbox {
            bytes: Vec::new(),
            start: 0,
            filled: 0,
            frame_max,
        }
    }

    /// Reads once; 0 means that the peer closed its side.
    pub(crate) fn fill(&mut self, from: &mut dyn Read) -> io::Result<usize> {
        if self.start > 0 {
            self.bytes.copy_within(self.start..self.filled, 0);
            self.filled -= self.start;
            self.start = 0;
        }
        let missing = self.missing();
        let is_large = COPY_MAX < missing + self.filled;
        let room = if is_large && 0 < missing {
            // Grows with what has arrived, and not beyond the frame.
            self.reserve(missing.min(self.filled.max(READ_MAX)));
            missing.min(READ_MAX)
        } else {
            missing.clamp(READ_MIN, READ_MAX)
        };
        if self.bytes.len() < self.filled + room {
            self.bytes.resize(self.filled + room, 0);
        }
        let n = from.read(&mut self.bytes[self.filled..])?;
        self.filled += n;
        Ok(n)
    }

    /// Makes room for so much behind what is filled, and for no more.
    fn reserve(&mut self, room: usize) {
        let wanted = self.filled + room;
        if self.bytes.capacity() < wanted {
            self.bytes.reserve_exact(wanted - self.bytes.len());
        }
    }

    fn announced(&self) -> Option<i32> {
        let head = self.bytes[self.start..self.filled].first_chunk::<4>()?;
        Some(i32::from_be_bytes(*head))
    }

    fn missing(&self) -> usize {
        let whole = self
            .announced()
            .map_or(4, |len| 4 + usize::try_from(len).unwrap_or(0));
        whole.saturating_sub(self.filled - self.start)
    }

    /// The next whole frame without its length, if it has arrived.
    pub(crate) fn frame(&mut self) -> Result<Option<Bytes>, FrameTooLong> {
        let Some(announced) = self.announced() else {
            return Ok(None);
        };
        let len = usize::try_from(announced)
            .ok()
            .filter(|len| *len <= self.frame_max);
        let len = len.ok_or(FrameTooLong {
            announced,
            max: self.frame_max,
        })?;
        let end = self.start + 4 + len;
        if self.filled < end {
            return Ok(None);
        }
        let is_tight = self.bytes.capacity() - len <= len / ROOM_PART;
        if len > COPY_MAX && is_tight {
            let rest = self.bytes[end..self.filled].to_vec();
            let mut whole = std::mem::replace(&mut self.bytes, rest);
            whole.truncate(end);
            let frame = Bytes::from(whole).slice(self.start + 4..);
            self.start = 0;
            self.filled = self.bytes.len();
            return Ok(Some(frame));
        }
        let frame = Bytes::copy_from_slice(&self.bytes[self.start + 4..end]);
        self.start = end;
        Ok(Some(frame))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn framed(bodies: &[Vec<u8>]) -> Vec<u8> {
        let frame = |body: &Vec<u8>| [&(body.len() as i32).to_be_bytes()[..], body].concat();
        bodies.iter().flat_map(frame).collect()
    }

    /// A reader that hands out `step` bytes at a time.
    struct Trickle<'a>(&'a [u8], usize);

    impl Read for Trickle<'_> {
        fn read(&mut self, buf: &mut [u8]) -> io::Result<usize> {
            let n = self.1.min(buf.len()).min(self.0.len());
            buf[..n].copy_from_slice(&self.0[..n]);
            self.0 = &self.0[n..];
            Ok(n)
        }
    }

    #[test]
    fn frames_come_out_whole_however_the_bytes_arrive() {
        let body = |len: usize| (0..len).map(|i| (i * 7 + len) as u8).collect::<Vec<u8>>();
        let bodies: Vec<Vec<u8>> = [0, 1, 5, 70_000, 3, 65_536, 65_537, 2_000_000, 9]
            .map(body)
            .into();
        let wire = framed(&bodies);
        for step in [1, 3, 1000, 65_541, usize::MAX] {
            if step == 1 && cfg!(miri) {
                continue;
            }
            let mut inbox = Inbox::new(4 << 20);
            let mut reader = Trickle(&wire, step);
            let mut got = Vec::new();
            loop {
                while let Some(frame) = inbox.frame().unwrap() {
                    got.push(frame.to_vec());
                }
                if inbox.fill(&mut reader).unwrap() == 0 {
                    break;
                }
            }
            assert!(got == bodies, "step {step}");
        }
    }

    #[test]
    fn a_frame_keeps_little_more_memory_than_its_own_length() {
        let lengths = [100, 65_536, 65_537, 70_000, 300_000, 3_000_000, 80_000, 9];
        let bodies: Vec<Vec<u8>> = lengths.map(|len| vec![b'x'; len]).into();
        let wire = framed(&bodies);
        for step in [1000, 65_541, usize::MAX] {
            let mut inbox = Inbox::new(4 << 20);
            let mut reader = Trickle(&wire, step);
            while inbox.fill(&mut reader).unwrap() > 0 {
                while let Some(frame) = inbox.frame().unwrap() {
                    let len = frame.len();
                    let alone = frame.try_into_mut().expect("nobody else has a part of it");
                    // A slice in front of which something lies has that beside its own capacity.
                    let most = len + len / ROOM_PART;
                    assert!(alone.capacity() <= most, "{len} in {}", alone.capacity());
                }
            }
        }
    }

    #[test]
    fn a_frame_beyond_the_limit_is_refused_before_room_is_made() {
        for announced in [1001i32, i32::MAX, -1, i32::MIN] {
            let mut inbox = Inbox::new(1000);
            inbox.fill(&mut &announced.to_be_bytes()[..]).unwrap();
            assert_eq!(
                inbox.frame(),
                Err(FrameTooLong {
                    announced,
                    max: 1000
                })
            );
            assert!(inbox.bytes.len() <= READ_MAX);
        }
    }
}
