//! Bytes that one connection has received and not yet handed on: a buffer that grows with the bytes that arrive.
//!
//! Invariant: nothing is allocated by a declared length alone (a buffer at most doubles), and a buffer larger than
//! [`FREE_BYTES`] is on the shard's [`Account`] until it is given back. Small requests are read even when that is exhausted. Also
//! knows how long the client was waited for, as opposed to the broker not reading, and which batches may stay in the buffer.

use std::time::Duration;

use bytes::{Buf, Bytes, BytesMut};
use env::ConnId;
use model::Instant;
use partition::ReceiveBuffer;

use super::share::Head;
use crate::budget::Account;

/// Bytes that a connection begins with, and stays at while its requests are small and each is done with before the next one comes:
/// clients keep several connections, and most of them say little. Thousands that connect at once would else wait for the system
/// to zero the pages of buffers that nobody fills.
const FIRST_BYTES: usize = 4 << 10;
/// Room for a receive call behind that: starts here, doubles each time a call fills it, and returns here when the connection
/// idles.
const ROOM_BYTES_MIN: usize = 16 << 10;
const ROOM_BYTES_MAX: usize = 512 << 10;
/// A receive call with less room than this is not worth its price.
const ROOM_BYTES_LEFT_MIN: usize = 4 << 10;
/// A buffer made for one frame, at most; a larger one is put together in several.
const FRAME_BYTES_MAX: usize = 4 << 20;
/// Every connection may have that much, whatever others use; idle ones give it back.
const FREE_BYTES: usize = 2 * ROOM_BYTES_MIN;
const PAGE: usize = 4096;
/// A client that keeps a request unfinished may be waited for this long while memory is short, and longer as long as it
/// sends at the rate: 64 KiB in a second.
const WAIT_MAX: Duration = Duration::from_secs(5);
/// The one that may finish beyond the bound keeps all others of its shard waiting.
const WAIT_LICENSED_MAX: Duration = Duration::from_millis(500);
const WAIT_NANOS_A_BYTE: u64 = 1_000_000_000 / (64 << 10);

/// The beginning of the buffer.
pub(crate) enum Frame {
    Request(Bytes),
    /// Nothing whole yet.
    Partial,
    /// The declared length is not acceptable.
    Refused {
        length: i32,
    },
}

pub(crate) struct Inbox {
    owner: ConnId,
    /// The received bytes, and behind them the room for more.
    bytes: BytesMut,
    /// Size of the allocation that `bytes` is a part of.
    held: usize,
    room: usize,
    /// Room that the last frame would have wanted, when it was a large one.
    frame_room: usize,
    /// How long the client was waited for, less what its bytes made good.
    waited: Duration,
    /// All that was sent is read, since then.
    waits_since: Option<Instant>,
    source: ReceiveBuffer,
    /// The buffer has changed since the last frame, or nothing lies in it any more.
    is_fresh: bool,
}

/// The cost of a buffer of this size for its shard's account.
fn charge(size: usize) -> usize {
    if size <= FREE_BYTES { 0 } else { size }
}

impl Inbox {
    pub(crate) fn new(owner: ConnId) -> Inbox {
        Inbox {
            owner,
            bytes: BytesMut::new(),
            held: 0,
            room: ROOM_BYTES_MIN,
            frame_room: 0,
            waited: Duration::ZERO,
            waits_since: None,
            source: ReceiveBuffer::default(),
            is_fresh: true,
        }
    }

    /// The buffer that the last frame lies in.
    pub(crate) fn source(&mut self) -> &mut ReceiveBuffer {
        &mut self.source
    }

    /// Sees to it that there is room to receive into; false when memory is short, upon which the owner waits.
    pub(crate) fn make_room(&mut self, account: &mut Account) -> bool {
        let filled = self.bytes.len();
        let wanted = if filled == 0 && self.bytes.capacity() < self.frame_room {
            // A client that sends large requests sends another: a buffer that it outgrows would have to be copied into a larger one.
            self.frame_room
        } else if self.bytes.capacity() - filled < ROOM_BYTES_LEFT_MIN {
            if self.is_first() && filled == 0 && self.bytes.try_reclaim(FIRST_BYTES) {
                self.is_fresh = true;
                return true;
            }
            let more = match self.held {
                0 => FIRST_BYTES,
                _ => self.room.max(filled.min(self.lacks())),
            };
            if self.bytes.try_reclaim(more) {
                self.is_fresh = true;
                account.end_denial(self.owner);
                return true;
            }
            filled + more
        } else {
            return true;
        };
        let least = filled + ROOM_BYTES_MIN;
        if account.resize(self.owner, charge(self.held), charge(wanted)) {
            self.replace(wanted);
        } else if least <= FREE_BYTES {
            self.frame_room = 0;
            account.resize(self.owner, charge(self.held), 0);
            self.replace(least);
        } else {
            account.deny(self.owner, self.lacks());
            return false;
        }
        account.end_denial(self.owner);
        true
    }

    fn is_first(&self) -> bool {
        self.held == FIRST_BYTES
    }

    /// Where to receive behind what is there; what was received is told to `on_received`.
    pub(crate) fn buffer(&mut self) -> &mut BytesMut {
        &mut self.bytes
    }

    pub(crate) fn on_received(&mut self, received: usize, now: Instant) {
        if self.bytes.len() == self.bytes.capacity() && !self.is_first() {
            self.room = (self.room * 2).min(ROOM_BYTES_MAX);
        }
        self.on_readable(now);
        if !self.waited.is_zero() {
            let made_good = Duration::from_nanos(received as u64 * WAIT_NANOS_A_BYTE);
            self.waited = self.waited.saturating_sub(made_good);
        }
    }

    /// The client has sent all it has.
    pub(crate) fn on_drained(&mut self, now: Instant) {
        if !self.bytes.is_empty() && FREE_BYTES < self.held && self.waits_since.is_none() {
            self.waits_since = Some(now);
        }
    }

    /// There is more to read: from now on the broker is waited for.
    pub(crate) fn on_readable(&mut self, now: Instant) {
        if let Some(since) = self.waits_since.take() {
            self.waited += now.since(since);
        }
    }

    /// Keeps memory from others without making use of it.
    pub(crate) fn is_late(&self, has_licence: bool, now: Instant) -> bool {
        let waits = self
            .waits_since
            .map_or(Duration::ZERO, |since| now.since(since));
        let waits_max = if has_licence {
            WAIT_LICENSED_MAX
        } else {
            WAIT_MAX
        };
        FREE_BYTES < self.held && !self.bytes.is_empty() && waits_max < self.waited + waits
    }

    /// The beginning of the next request, as soon as it is there; `None` for what is none.
    pub(crate) fn head(&self) -> Option<Head> {
        let bytes = usize::try_from(self.announced()?).ok()?;
        let api = self.bytes.get(4..6)?.first_chunk().copied()?;
        Some(Head {
            bytes,
            api: i16::from_be_bytes(api),
        })
    }

    /// The next request, if it is whole; it stays where it is.
    pub(crate) fn whole(&self) -> Option<&[u8]> {
        let length = usize::try_from(self.announced()?).ok()?;
        self.bytes.get(4..4usize.checked_add(length)?)
    }

    /// The next whole frame, without its length prefix.
    pub(crate) fn next_frame(&mut self, frame_bytes_max: i32) -> Frame {
        let Some(length) = self.announced() else {
            return Frame::Partial;
        };
        if length < 0 || length > frame_bytes_max {
            return Frame::Refused { length };
        }
        if self.bytes.len() < 4 + length as usize {
            return Frame::Partial;
        }
        self.bytes.advance(4);
        // One byte more than the frame: a receive call that does not fill its room has taken all there was.
        let whole = (4 + length as usize + 1).next_multiple_of(PAGE);
        let is_large = (ROOM_BYTES_MIN..=FRAME_BYTES_MAX).contains(&whole);
        self.frame_room = if is_large { whole } else { 0 };
        (self.waited, self.waits_since) = (Duration::ZERO, None);
        if std::mem::take(&mut self.is_fresh) {
            self.source.begin(self.held);
        }
        Frame::Request(self.bytes.split_to(length as usize).freeze())
    }

    /// The rest of the buffer that a large request came in would keep all of it, long after the answer.
    pub(crate) fn leave_request(&mut self, bytes: usize, account: &mut Account) {
        if ROOM_BYTES_MAX < bytes && (self.bytes.is_empty() || FRAME_BYTES_MAX < bytes) {
            self.trim(account);
        }
    }

    /// Gives back a buffer that is larger than what is in it needs.
    pub(crate) fn trim(&mut self, account: &mut Account) {
        let needs = self.bytes.len() + ROOM_BYTES_MIN;
        if FREE_BYTES < self.held && needs <= FREE_BYTES {
            account.resize(self.owner, charge(self.held), 0);
            self.replace(if self.bytes.is_empty() { 0 } else { needs });
        }
    }

    /// Gives back whatever is not filled, of a buffer that may be beyond the bound.
    pub(crate) fn cut(&mut self, account: &mut Account) {
        let needs = match self.bytes.len() {
            0 => 0,
            filled => filled + ROOM_BYTES_MIN,
        };
        if needs < self.held {
            account.resize(self.owner, charge(self.held), charge(needs));
            self.replace(needs);
        }
    }

    /// Gives back the buffer of a connection that waits for nothing.
    pub(crate) fn shrink(&mut self, account: &mut Account) {
        if self.bytes.is_empty() {
            self.release(account);
            self.room = ROOM_BYTES_MIN;
            self.frame_room = 0;
        }
    }

    pub(crate) fn release(&mut self, account: &mut Account) {
        account.resize(self.owner, charge(self.held), 0);
        self.bytes.clear();
        self.replace(0);
    }

    fn replace(&mut self, size: usize) {
        let mut bytes = BytesMut::with_capacity(size);
        bytes.extend_from_slice(&self.bytes);
        (self.bytes, self.held) = (bytes, size);
        self.is_fresh = true;
    }

    fn announced(&self) -> Option<i32> {
        let prefix = self.bytes.first_chunk::<4>()?;
        Some(i32::from_be_bytes(*prefix))
    }

    /// Bytes that the request at the front lacks, as far as its length is known.
    fn lacks(&self) -> usize {
        let length = self
            .announced()
            .and_then(|length| usize::try_from(length).ok());
        length.map_or(0, |length| {
            (4 + length + 1).saturating_sub(self.bytes.len())
        })
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::budget::Budget;

    const OWNER: ConnId = ConnId(1);

    fn inbox() -> (Inbox, Account) {
        let budget = Arc::new(Budget::new(1 << 20, 1));
        (Inbox::new(OWNER), Account::new(budget))
    }

    /// A frame of so many bytes arrives, as far as there is room; gives it when it is whole.
    fn receive(inbox: &mut Inbox, account: &mut Account, length: usize) -> Bytes {
        let mut frame = (length as u32).to_be_bytes().to_vec();
        frame.resize(4 + length, b'x');
        let mut rest = frame.as_slice();
        while !rest.is_empty() {
            assert!(inbox.make_room(account));
            let buffer = inbox.buffer();
            let taken = rest.len().min(buffer.capacity() - buffer.len());
            assert!(taken > 0, "made room");
            buffer.extend_from_slice(&rest[..taken]);
            rest = &rest[taken..];
            inbox.on_received(taken, Instant(0));
        }
        match inbox.next_frame(i32::MAX) {
            Frame::Request(request) => request,
            _ => panic!("{length} bytes are not a request"),
        }
    }

    #[test]
    fn small_requests_one_after_the_other_stay_in_the_first_buffer() {
        let (mut inbox, mut account) = inbox();
        for length in [10, 300, 4000, 20, 3000] {
            assert_eq!(receive(&mut inbox, &mut account, length).len(), length);
            assert_eq!(inbox.held, FIRST_BYTES);
        }
        inbox.shrink(&mut account);
        assert_eq!(inbox.held, 0);
        receive(&mut inbox, &mut account, 10);
        assert_eq!(inbox.held, FIRST_BYTES);
    }

    #[test]
    fn requests_that_are_kept_or_outgrow_the_first_buffer_get_an_ordinary_one() {
        let (mut inbox, mut account) = inbox();
        let kept: Vec<Bytes> = (0..10)
            .map(|_| receive(&mut inbox, &mut account, 3000))
            .collect();
        assert_eq!(inbox.held, ROOM_BYTES_MIN);
        assert!(
            kept.iter()
                .all(|request| request.iter().all(|&byte| byte == b'x'))
        );

        let (mut inbox, mut account) = self::inbox();
        assert_eq!(receive(&mut inbox, &mut account, 10_000).len(), 10_000);
        assert!((ROOM_BYTES_MIN..=FREE_BYTES).contains(&inbox.held));
    }

    #[test]
    fn who_was_let_beyond_the_bound_gives_back_before_the_next_one_is() {
        let bound = 64 << 10;
        let mut account = Account::new(Arc::new(Budget::new(bound, 1)));
        let mut inboxes: Vec<Inbox> = (0..20).map(|at| Inbox::new(ConnId(at))).collect();
        for inbox in &mut inboxes {
            account.deny(inbox.owner, 1);
            assert!(account.retry().contains(&inbox.owner), "it has the licence");
            receive(inbox, &mut account, 400_000);
            assert!(bound < account.used(), "it made use of it");
            assert!(account.finish(inbox.owner));
            inbox.cut(&mut account);
            assert!(account.used() <= bound, "{} of {bound}", account.used());
        }
    }

    #[test]
    fn a_buffer_is_known_by_its_size_until_another_takes_its_place() {
        let (mut inbox, mut account) = inbox();
        let _frame = receive(&mut inbox, &mut account, 200_000);
        let size = inbox.source.size();
        assert_eq!(size, inbox.held, "all of it, not what was received");
        let mut sizes = vec![size];
        let _frames: Vec<Bytes> = (0..40)
            .map(|_| {
                let frame = receive(&mut inbox, &mut account, 20_000);
                sizes.push(inbox.source.size());
                frame
            })
            .collect();
        sizes.dedup();
        assert!(1 < sizes.len(), "it was filled and replaced: {sizes:?}");
    }
}
