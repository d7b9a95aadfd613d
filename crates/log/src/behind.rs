//! Finding the batches behind damage, where no index leads to them.
//!
//! A batch has nothing that marks its beginning, and a value may hold the bytes of one. So a place is believed only if a whole
//! batch with its checksum lies there and batches follow each other from it to a place that is known to begin one, or the end:
//! behind what lies in a value there are more bytes of its record. Of several damaged places the batches between them are not found.

use std::io;
use std::ops::Range;

use env::File;
use model::Offset;
use wire::records::{HEAD_SIZE, Head};

use crate::scan::{HeadScan, check_head, is_unreadable, read_batch, read_readable, read_up_to};

const READ_BYTES: u64 = 256 << 10;
/// The unit in which a disk fails to give bytes back.
const PAGE_BYTES: u64 = 4096;
/// Twice what a segment may have: heads of batches that are none cost the reading of what they claim.
const SEARCHED_BYTES_MAX: u64 = 4 << 30;
/// A head's offset, its length and epoch, and the byte that says which format it has.
const MAGIC_AT: usize = 16;

/// Base offset of the first batch behind damage at `position`, of those that have these offsets: no checksum covers a base offset.
pub fn next_offset_behind(
    file: &dyn File,
    position: u64,
    end: u64,
    offsets: Range<Offset>,
) -> io::Result<Option<Offset>> {
    let last_end = offsets.end;
    let found = first_behind_damage(file, position + 1, end, offsets, last_end)?;
    Ok(found.map(|(_, head)| head.base_offset()))
}

/// The first batch in `from..end` with a base within `offsets` from which batches follow each other to `end`, none of them with offsets
/// from `last_end` on. Damage lies inside the range, and `end` is the end of a batch.
pub(crate) fn first_behind_damage(
    file: &dyn File,
    from: u64,
    end: u64,
    offsets: Range<Offset>,
    last_end: Offset,
) -> io::Result<Option<(u64, Head)>> {
    let mut room = SEARCHED_BYTES_MAX;
    let mut at = from;
    while let Some((position, head)) = next_batch(file, at, end, &offsets, &mut room)? {
        match follow(file, position, end, last_end)? {
            None => return Ok(Some((position, head))),
            Some(next) => at = next,
        }
    }
    Ok(None)
}

/// Follows batches by their heads. Where they do not lead to `end`, returns where to go on searching.
fn follow(file: &dyn File, from: u64, end: u64, last_end: Offset) -> io::Result<Option<u64>> {
    let mut scan = HeadScan::new(file, from, end, Offset::ZERO).up_to(last_end);
    let mut last = None;
    loop {
        let damage = match scan.step() {
            Ok(None) => return Ok(None),
            Ok(found) => {
                last = found;
                continue;
            }
            Err(error) => error.into_damage(scan.position())?,
        };
        let Some((position, head)) = last else {
            return Ok(Some(damage.position + 1));
        };
        // Else it was the length of the batch before that is damaged, and batches were jumped over.
        return if is_whole(file, position, &head)? {
            Ok(Some(damage.position.max(from + 1)))
        } else {
            Ok(Some(position + 1))
        };
    }
}

/// The first whole batch in `from..end`, wherever it begins.
fn next_batch(
    file: &dyn File,
    from: u64,
    end: u64,
    offsets: &Range<Offset>,
    room: &mut u64,
) -> io::Result<Option<(u64, Head)>> {
    let mut at = from;
    while at + HEAD_SIZE as u64 <= end {
        let mut bytes = vec![0; (end - at).min(READ_BYTES) as usize];
        let (got, failed) = read_readable(file, &mut bytes, at);
        let failed_at = at + got as u64;
        bytes.truncate(got);
        let Some(left) = room.checked_sub(got as u64) else {
            return Ok(None);
        };
        *room = left;
        let mut position = at;
        for window in bytes.windows(HEAD_SIZE) {
            let is_head = window.get(MAGIC_AT) == Some(&2)
                && (window.first_chunk())
                    .is_some_and(|base| offsets.contains(&Offset(i64::from_be_bytes(*base))));
            let head = is_head.then(|| Head::read(window)).flatten();
            if let Some(head) = head
                && check_head(&head, end - position, offsets.start).is_ok()
            {
                let Some(left) = room.checked_sub(head.size() as u64) else {
                    return Ok(None);
                };
                *room = left;
                if is_whole(file, position, &head)? {
                    return Ok(Some((position, head)));
                }
            }
            position += 1;
        }
        match failed {
            Some(error) if is_unreadable(&error) => {
                at = first_readable(file, failed_at, end)?;
                continue;
            }
            Some(error) => return Err(error),
            None => {}
        }
        // The file is shorter than its segment.
        if position == at {
            return Ok(None);
        }
        at = position;
    }
    Ok(None)
}

fn is_whole(file: &dyn File, position: u64, head: &Head) -> io::Result<bool> {
    match read_batch(file, position, head) {
        Ok(_) => Ok(true),
        Err(error) => error.into_damage(position).map(|_| false),
    }
}

/// Where bytes can be read again behind `from`, where they cannot. Each try may cost a disk seconds, so the steps grow until one is
/// good, and are halved back: of several such places those between may not be found.
fn first_readable(file: &dyn File, from: u64, end: u64) -> io::Result<u64> {
    let mut bad = from & !(PAGE_BYTES - 1);
    let mut step = PAGE_BYTES;
    let mut good = loop {
        let next = bad + step;
        // Behind the end there is nothing that fails.
        if end <= next || is_readable(file, next)? {
            break next;
        }
        bad = next;
        step *= 2;
    };
    while PAGE_BYTES < good - bad {
        let middle = (bad + (good - bad) / 2) & !(PAGE_BYTES - 1);
        if end <= middle || is_readable(file, middle)? {
            good = middle
        } else {
            bad = middle
        }
    }
    Ok(good.min(end))
}

fn is_readable(file: &dyn File, page: u64) -> io::Result<bool> {
    match read_up_to(file, &mut [0; PAGE_BYTES as usize], page) {
        Ok(_) => Ok(true),
        Err(error) if is_unreadable(&error) => Ok(false),
        Err(error) => Err(error),
    }
}
