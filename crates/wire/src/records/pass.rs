//! One flat pass over the records of a plain batch: they are what their header claims, or the slow walk has to find out what is wrong.
//!
//! Takes nothing apart and names no fault, so that every batch of a producer can afford it (`docs/decisions/records.md`). Accepts
//! only what [`super::validate_records`] accepts, which is asked where the pass gives up.

use std::ops::RangeInclusive;

/// The conditions that the records have to meet.
pub(super) struct Claim<'a> {
    pub count: i32,
    /// Times of records count from here.
    pub base: i64,
    pub key_required: bool,
    /// No record may be without these, or have no time.
    pub times: Option<&'a RangeInclusive<i64>>,
}

/// The largest time of the records, and the offset delta of the first that has it.
pub(super) struct Passed {
    pub latest: i64,
    pub latest_delta: i32,
}

/// `None` where anything is out of the ordinary: the records may still be good.
pub(super) fn pass(body: &[u8], claim: &Claim<'_>) -> Option<Passed> {
    let mut at = 0;
    let (mut earliest, mut latest, mut latest_delta) = (i64::MAX, i64::MIN, 0);
    for index in 0..claim.count {
        let length = signed(number(body, &mut at)?);
        let end = at.checked_add(usize::try_from(length).ok()?)?;
        // The attributes, which nothing uses.
        at += 1;
        let time = signed(number(body, &mut at)?);
        if number(body, &mut at)? != u64::from(index.unsigned_abs()) << 1 {
            return None;
        }
        let key = number(body, &mut at)?;
        if claim.key_required && key & 1 == 1 {
            return None;
        }
        at += length_of(key)?;
        let value = number(body, &mut at)?;
        at += length_of(value)?;
        let headers = number(body, &mut at)?;
        if headers != 0 {
            pass_headers(body, &mut at, headers)?;
        }
        // Nothing read goes back, so no field reached beyond its record.
        if at != end {
            return None;
        }
        earliest = earliest.min(time);
        if time > latest {
            (latest, latest_delta) = (time, index);
        }
    }
    if at != body.len() || claim.count == 0 {
        return None;
    }
    let (earliest, latest) = (
        claim.base.checked_add(earliest)?,
        claim.base.checked_add(latest)?,
    );
    let is_in_bounds =
        |times: &RangeInclusive<i64>| times.contains(&earliest) && times.contains(&latest);
    // Times below -1 are none that a record may have as its largest.
    (claim.times.is_none_or(is_in_bounds) && latest >= -1).then_some(Passed {
        latest,
        latest_delta,
    })
}

#[cold]
fn pass_headers(body: &[u8], at: &mut usize, count: u64) -> Option<()> {
    let count = usize::try_from(signed(count)).ok()?;
    // A header takes at least two bytes.
    if count > body.len().saturating_sub(*at) / 2 {
        return None;
    }
    for _ in 0..count {
        let key = number(body, at)?;
        if key & 1 == 1 {
            return None;
        }
        *at += length_of(key)?;
        let value = number(body, at)?;
        *at += length_of(value)?;
    }
    Some(())
}

/// Bytes of a key or a value; none for one that is null.
#[inline]
fn length_of(raw: u64) -> Option<usize> {
    const LENGTH_MAX: u64 = i32::MAX as u64;
    let length = if raw & 1 == 1 { 0 } else { raw >> 1 };
    (length <= LENGTH_MAX).then_some(length as usize)
}

#[inline]
fn signed(raw: u64) -> i64 {
    (raw >> 1) as i64 ^ -((raw & 1) as i64)
}

/// A number of up to four bytes, as nearly all are.
#[inline]
fn number(body: &[u8], at: &mut usize) -> Option<u64> {
    let first = *body.get(*at)?;
    *at += 1;
    if first < 0x80 {
        return Some(u64::from(first));
    }
    let second = *body.get(*at)?;
    *at += 1;
    let low = u64::from(first & 0x7f) | u64::from(second & 0x7f) << 7;
    if second < 0x80 {
        return Some(low);
    }
    let third = *body.get(*at)?;
    *at += 1;
    let low = low | u64::from(third & 0x7f) << 14;
    if third < 0x80 {
        return Some(low);
    }
    let fourth = *body.get(*at)?;
    *at += 1;
    (fourth < 0x80).then_some(low | u64::from(fourth) << 21)
}
