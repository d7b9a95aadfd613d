//! The bounds on memory, as shares of what there is.
//!
//! Owns the arithmetic that keeps the budgets together within half of the limit: of the control group, or of the machine. The other
//! half is for what no budget counts: group members, producer states, metadata, stacks, what the allocator keeps. Above 1 GiB the
//! budgets are what they are on large machines, and only those of requests grow.

/// Below it a broker may be killed under load: half of it is 32 MiB for the process itself, and that much again for requests of the
/// largest size that clients send as a rule.
pub const LIMIT_BYTES_MIN: u64 = 128 << 20;

/// Share of the memory for requests where `queued.max.request.bytes` is not set: one byte in 64, but from 64 MiB (one in 16 where
/// that is less) to 1 GiB.
const REQUESTS_SHARE: u64 = 64;
const REQUESTS_SHARE_SMALL: u64 = 16;
const REQUESTS_BYTES_MIN: u64 = 64 << 20;
const REQUESTS_BYTES_MAX: u64 = 1 << 30;
const TAIL_SHARE: u64 = 32;
pub(crate) const TAIL_BYTES_MAX: u64 = 32 << 20;
const UNWRITTEN_SHARE: u64 = 8;
/// Of each log directory.
const UNWRITTEN_BYTES_MAX: u64 = 128 << 20;
const COMPACTION_SHARE: u64 = 8;
pub(crate) const COMPACTION_BYTES_MAX: u64 = 128 << 20;

/// A share of the memory, and never more than a bound; the bound where nobody knows how much memory there is.
fn share(limit: u64, share: u64, most: u64) -> u64 {
    if limit == 0 {
        most
    } else {
        (limit / share).min(most)
    }
}

pub(crate) fn requests(limit: u64) -> u64 {
    let least = share(limit, REQUESTS_SHARE_SMALL, REQUESTS_BYTES_MIN);
    (limit / REQUESTS_SHARE).clamp(least, REQUESTS_BYTES_MAX)
}

pub(crate) fn tail(limit: u64) -> u64 {
    share(limit, TAIL_SHARE, TAIL_BYTES_MAX)
}

pub(crate) fn compaction(limit: u64) -> u64 {
    share(limit, COMPACTION_SHARE, COMPACTION_BYTES_MAX)
}

/// The bound of each use of memory.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Memory {
    /// 0 where nobody knows.
    pub limit: u64,
    /// Requests that are read and not answered, and those that are not whole.
    pub requests: u64,
    /// Answers in memory that clients have not taken.
    pub answers: u64,
    /// Newest records that are on disk as well.
    pub tail: u64,
    /// Durable batches that are not in segment files, of all directories together.
    pub unwritten: u64,
    /// Keys of logs that are compacted.
    pub compaction: u64,
}

impl Memory {
    pub(crate) fn new(
        limit: u64,
        dirs: usize,
        requests: u64,
        tail: u64,
        compaction: u64,
    ) -> Memory {
        Memory {
            limit,
            requests,
            answers: requests,
            tail,
            unwritten: share(limit, UNWRITTEN_SHARE, dirs as u64 * UNWRITTEN_BYTES_MAX),
            compaction,
        }
    }

    /// By name.
    pub fn budgets(&self) -> impl Iterator<Item = (&'static str, u64)> {
        [
            ("requests", self.requests),
            ("answers", self.answers),
            ("tail", self.tail),
            ("unwritten", self.unwritten),
            ("compaction", self.compaction),
        ]
        .into_iter()
    }

    /// The reason why the process may be killed for want of memory, where the limit is known.
    #[must_use]
    pub fn warning(&self) -> Option<String> {
        const MIB: u64 = 1 << 20;
        if self.limit == 0 {
            return None;
        }
        if self.limit < LIMIT_BYTES_MIN {
            return Some(format!(
                "{} MiB of memory are too few: a broker needs {} MiB",
                self.limit / MIB,
                LIMIT_BYTES_MIN / MIB
            ));
        }
        let all: u64 = self.budgets().map(|(_, bytes)| bytes).sum();
        if all <= self.limit / 2 {
            return None;
        }
        let named: Vec<String> = (self.budgets())
            .map(|(name, bytes)| format!("{name} {} MiB", bytes / MIB))
            .collect();
        Some(format!(
            "the settings grant {} MiB of memory ({}), more than half of the {} MiB there are: lower queued.max.request.bytes, \
             esker.hot.tail.bytes or log.cleaner.dedupe.buffer.size, or leave them out",
            all / MIB,
            named.join(", "),
            self.limit / MIB
        ))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn standard(limit: u64) -> Memory {
        Memory::new(limit, 1, requests(limit), tail(limit), compaction(limit))
    }

    #[test]
    fn budgets_take_half_of_any_limit_at_most() {
        for mib in [
            128_u64,
            200,
            256,
            512,
            1023,
            1024,
            1025,
            4096,
            65_536,
            1 << 20,
        ] {
            let memory = standard(mib << 20);
            assert_eq!(memory.warning(), None, "{mib} MiB: {memory:?}");
        }
    }

    #[test]
    fn large_machines_have_what_they_had() {
        let memory = standard(8 << 30);
        let mib: Vec<u64> = memory.budgets().map(|(_, bytes)| bytes >> 20).collect();
        assert_eq!(mib, [128, 128, 32, 128, 128]);
        assert_eq!(standard(0).requests, 64 << 20, "nobody knows");
    }

    #[test]
    fn too_little_memory_and_too_large_settings_are_told() {
        let little = standard(100 << 20).warning().unwrap_or_default();
        assert!(
            little.contains("100 MiB") && little.contains("needs 128 MiB"),
            "{little}"
        );
        let granted = Memory::new(256 << 20, 1, 100 << 20, 8 << 20, 32 << 20);
        let much = granted.warning().unwrap_or_default();
        assert!(
            much.contains("grant 272 MiB") && much.contains("256 MiB there are"),
            "{much}"
        );
        assert_eq!(Memory::new(0, 1, 1 << 40, 0, 0).warning(), None);
    }
}
