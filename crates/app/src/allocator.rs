//! The allocator, and how long it keeps what was freed.
//!
//! A broker under load takes and frees receive buffers of a megabyte all the time: each one given back to the system in between costs
//! as many cleared pages when the next is taken.
//!
//! Each thread keeps pages of its own, and gives none back but when it allocates: one that sleeps after a busy hour would keep that
//! hour's memory for good. So a worker that has waited for half a minute gives back what it has before it waits on.

use std::ffi::{c_int, c_long};

#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

/// `mi_option_purge_delay`, in milliseconds; the bindings do not name it.
const PURGE_DELAY: c_int = 15;
/// As long as what other processes may do without. mimalloc keeps it for a second.
const KEPT_MS: c_long = 60_000;
/// Where memory is little, freed pages are needed elsewhere at once.
const KEPT_MS_SHORT: c_long = 10;
/// Less than this is little.
const MEMORY_BYTES: u64 = 1 << 30;

/// Freed memory goes back to the system after a minute, or at once where there is little; `limit` is 0 where nobody knows how much
/// there is. `MIMALLOC_PURGE_DELAY` says otherwise.
#[allow(unsafe_code)]
pub(crate) fn keep_freed_memory(limit: u64) {
    let is_little = 0 < limit && limit < MEMORY_BYTES;
    let kept = if is_little { KEPT_MS_SHORT } else { KEPT_MS };
    // SAFETY: takes two numbers, of which the first is below mimalloc's number of options; called by the main thread before it
    // starts another, so nobody reads the option meanwhile.
    unsafe { libmimalloc_sys::mi_option_set_default(PURGE_DELAY, kept) }
}

/// Gives back what this thread freed, and whatever the process keeps beside. For a thread that has nothing to do.
#[allow(unsafe_code)]
pub(crate) fn give_back() {
    // SAFETY: takes a flag, and frees pages that nothing is allocated in; any thread may call it at any time.
    unsafe { libmimalloc_sys::mi_collect(true) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    #[allow(unsafe_code)]
    fn the_option_is_the_one_whose_default_is_a_second() {
        // SAFETY: reads one of mimalloc's options.
        assert_eq!(
            unsafe { libmimalloc_sys::mi_option_get(PURGE_DELAY) },
            1_000
        );
    }
}
