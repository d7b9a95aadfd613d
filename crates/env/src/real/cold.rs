//! Bytes that are not in the page cache: telling so, and bringing them there.
//!
//! A disk serves requests about in their order, so what is asked for at once is what a sync waits behind. The kernel's own reading
//! ahead is as much as the disk is set to, megabytes on some, and `readahead` fills the cache with small pages, which takes it ten
//! times as long as the largest ones (`docs/decisions/disk-sharing.md`). So a range is brought in by blocks of the largest page, one
//! after the other.

use std::fs::File;
use std::os::unix::fs::FileExt;

use super::sys;

/// A hop of the fallback, and of probes: the kernel reads ahead in windows of this size or more.
const STEP_BYTES: u64 = 128 << 10;

/// Waits until a range is in the page cache, as far as the file and the disk give it.
pub(super) fn bring_in(file: &File, position: u64, len: u64) {
    // The caller reads ahead and does not know where the file ends.
    let end = file.metadata().map_or(0, |file| file.len());
    let end = end.min(position + len);
    let mut at = position;
    while at < end {
        let block_end = ((at / BLOCK_BYTES) + 1) * BLOCK_BYTES;
        let upto = block_end.min(end);
        let is_worth_a_block = upto - at >= BLOCK_BYTES / 2;
        if !(is_worth_a_block && bring_block(file, at, upto)) {
            bring_by_steps(file, at, upto);
        }
        at = upto;
    }
}

/// The largest page of a processor with pages of 4 KiB.
const BLOCK_BYTES: u64 = 2 << 20;

/// Brings a part of a block, and what else of it is missing. False where the kernel does not do it.
#[cfg(target_os = "linux")]
fn bring_block(file: &File, from: u64, upto: u64) -> bool {
    const PAGE: u64 = sys::PAGE_BYTES as u64;
    const PAGES: usize = (BLOCK_BYTES / PAGE) as usize;
    /// Pages that are there already split a block; one with more parts is left to the fallback.
    const TRIES: usize = 4;
    if sys::page_bytes() != Some(sys::PAGE_BYTES) {
        return false;
    }
    let block = from / BLOCK_BYTES * BLOCK_BYTES;
    let Ok(view) = sys::View::of(file, block, BLOCK_BYTES as usize) else {
        return false;
    };
    let first = ((from - block) / PAGE) as usize;
    let end = (upto - block).div_ceil(PAGE) as usize;
    let mut present = [0; PAGES];
    for _ in 0..TRIES {
        if view.present(&mut present).is_err() {
            return false;
        }
        let missing = (first..end).find(|page| present[*page] & 1 == 0);
        match missing.map(|page| view.bring(page)) {
            None => return true,
            Some(Ok(())) => {}
            // Cut off, or not given by the disk: who sends the bytes is told.
            Some(Err(error)) => return error.kind() != std::io::ErrorKind::InvalidInput,
        }
    }
    false
}

#[cfg(not(target_os = "linux"))]
fn bring_block(_: &File, _: u64, _: u64) -> bool {
    false
}

fn bring_by_steps(file: &File, from: u64, upto: u64) {
    let steps = || (from..upto).step_by(STEP_BYTES as usize);
    // The kernel cuts one call down to its own window.
    #[cfg(target_os = "linux")]
    for at in steps() {
        sys::read_ahead(file, at, STEP_BYTES.min(upto - at));
    }
    let mut byte = [0];
    for at in steps().chain([upto - 1]) {
        // An error shows again when the bytes are sent, and is dealt with there.
        let _ = file.read_at(&mut byte, at);
    }
}

/// True if a range can be read without waiting, as far as a few probes show.
pub(super) fn is_resident(file: &File, position: u64, len: u64) -> bool {
    if len == 0 {
        return true;
    }
    let last = position + len - 1;
    // A probe of a page that is missing behind some that are not looks to the kernel like a reader that goes straight on.
    #[cfg(target_os = "linux")]
    if let Ok(cached) = sys::pages_cached(file, position, len)
        && cached <= last / sys::PAGE_BYTES as u64 - position / sys::PAGE_BYTES as u64
    {
        return false;
    }
    // Those that are on their way do not count.
    (position..last)
        .step_by(STEP_BYTES as usize)
        .chain([last])
        .all(|position| sys::is_resident(file, position))
}
