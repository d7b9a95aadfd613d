//! Leader epochs of a partition: at which offset each leader began (KIP-101).
//!
//! Kept in `leader-epoch-checkpoint` in Kafka's text format. Invariant: epochs and start offsets both rise strictly. A replica
//! asks here where its log and its leader's part.

use std::io::{self, IoSlice};
use std::path::Path;

use env::Disk;
use env::disk::Open;
use model::{LeaderEpoch, Offset};

use crate::scan::DamageKind;

pub const FILE_NAME: &str = "leader-epoch-checkpoint";

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct EpochStart {
    pub epoch: LeaderEpoch,
    pub start: Offset,
}

/// The last epoch at or below the one asked for, and where it ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct EpochEnd {
    pub epoch: LeaderEpoch,
    pub end: Offset,
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Epochs {
    entries: Vec<EpochStart>,
}

impl Epochs {
    #[must_use]
    pub fn entries(&self) -> &[EpochStart] {
        &self.entries
    }

    #[must_use]
    pub fn latest(&self) -> Option<EpochStart> {
        self.entries.last().copied()
    }

    /// Notes that `epoch` begins at `start`. Entries that contradict it (a later epoch, or one that began at or above) go:
    /// their records were truncated. True when something changed and the file must be written.
    pub fn assign(&mut self, epoch: LeaderEpoch, start: Offset) -> bool {
        if epoch.0 < 0
            || self
                .latest()
                .is_some_and(|last| last.epoch == epoch && last.start <= start)
        {
            return false;
        }
        self.entries
            .retain(|entry| entry.epoch < epoch && entry.start < start);
        self.entries.push(EpochStart { epoch, start });
        true
    }

    /// The epoch of the record at `offset`.
    #[must_use]
    pub fn epoch_at(&self, offset: Offset) -> Option<LeaderEpoch> {
        let after = self.entries.partition_point(|entry| entry.start <= offset);
        after
            .checked_sub(1)
            .and_then(|at| self.entries.get(at))
            .map(|entry| entry.epoch)
    }

    /// The objection to a batch of `epoch` that ends with `last`: its epoch is outside of its checksum. A log that knows nothing of
    /// these offsets has no objection, nor has anyone to batches of brokers that knew no epochs.
    pub fn check(&self, epoch: LeaderEpoch, last: Offset) -> Result<(), DamageKind> {
        match self.epoch_at(last) {
            Some(want) if epoch != want && epoch != LeaderEpoch::NONE => {
                Err(DamageKind::Epoch { got: epoch, want })
            }
            Some(_) | None => Ok(()),
        }
    }

    /// Where the largest epoch not above `epoch` ends, in a log that ends at `log_end`. `None` when nothing is known of it:
    /// no epochs at all, or all of ours are later than the one asked for.
    #[must_use]
    pub fn end_of(&self, epoch: LeaderEpoch, log_end: Offset) -> Option<EpochEnd> {
        let after = self.entries.partition_point(|entry| entry.epoch <= epoch);
        let end = match self.entries.get(after) {
            Some(next) => next.start,
            // An epoch we have not heard of has no end that we could name.
            None if self.latest()?.epoch < epoch => return None,
            None => log_end,
        };
        match after.checked_sub(1).and_then(|at| self.entries.get(at)) {
            Some(entry) => Some(EpochEnd {
                epoch: entry.epoch,
                end,
            }),
            // Older than all we have: it ended at or before our first.
            None => Some(EpochEnd { epoch, end }),
        }
    }

    /// Forgets what began at or above `end`. True when something changed.
    pub fn truncate_from_end(&mut self, end: Offset) -> bool {
        let before = self.entries.len();
        self.entries.retain(|entry| entry.start < end);
        self.entries.len() != before
    }

    /// Forgets epochs wholly below `start`; the one that spans it now begins there. True when something changed.
    pub fn truncate_from_start(&mut self, start: Offset) -> bool {
        let covered = self.entries.partition_point(|entry| entry.start <= start);
        let Some(spanning) = covered.checked_sub(1) else {
            return false;
        };
        let changed = spanning > 0 || self.entries[spanning].start < start;
        self.entries.drain(..spanning);
        if let Some(first) = self.entries.first_mut() {
            first.start = first.start.max(start);
        }
        changed
    }

    /// Text of the file: version, number of entries, one line each.
    #[must_use]
    pub fn encode(&self) -> String {
        let mut text = format!("0\n{}\n", self.entries.len());
        for entry in &self.entries {
            text.push_str(&format!("{} {}\n", entry.epoch, entry.start));
        }
        text
    }

    /// `None` when the text is no such file.
    #[must_use]
    pub fn decode(text: &str) -> Option<Epochs> {
        let mut lines = text.lines();
        if lines.next()? != "0" {
            return None;
        }
        let count: usize = lines.next()?.parse().ok()?;
        let mut entries: Vec<EpochStart> = Vec::new();
        for line in lines {
            let (epoch, start) = line.split_once(' ')?;
            let entry = EpochStart {
                epoch: LeaderEpoch(epoch.parse().ok()?),
                start: Offset(start.parse().ok()?),
            };
            let rises = entries
                .last()
                .is_none_or(|last| last.epoch < entry.epoch && last.start < entry.start);
            if !rises || entry.epoch.0 < 0 || entry.start.0 < 0 {
                return None;
            }
            entries.push(entry);
        }
        (entries.len() == count).then_some(Epochs { entries })
    }

    /// Replaces the file of `dir`.
    pub fn write(&self, disk: &dyn Disk, dir: &Path, syncing: Syncing) -> io::Result<()> {
        replace_file(disk, dir, FILE_NAME, self.encode().as_bytes(), syncing)
    }

    /// Reads the file of `dir`; `InvalidData` when it is damaged (then the batches have them), empty when there is none.
    pub fn read(disk: &dyn Disk, dir: &Path) -> io::Result<Epochs> {
        match read_text(disk, &dir.join(FILE_NAME))? {
            None => Ok(Epochs::default()),
            Some(text) => Epochs::decode(&text).ok_or_else(|| io::ErrorKind::InvalidData.into()),
        }
    }
}

/// When small files beside the segments become durable.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Syncing {
    /// Before the call returns.
    Now,
    /// With a sync of the whole volume that the caller makes: thousands of files then cost one sync. A crash before it may
    /// leave any of them empty, which reads as damaged.
    WithVolume,
}

/// Writes beside and renames over: readers see the old content or the new.
pub fn replace_file(
    disk: &dyn Disk,
    dir: &Path,
    name: &str,
    content: &[u8],
    syncing: Syncing,
) -> io::Result<()> {
    let temporary = dir.join(format!("{name}.tmp"));
    let file = disk.open(&temporary, Open::Truncate)?;
    file.write_at(&[IoSlice::new(content)], 0)?;
    if syncing == Syncing::Now {
        file.sync_data()?;
    }
    disk.rename(&temporary, &dir.join(name))?;
    match syncing {
        Syncing::Now => disk.sync_dir(dir),
        Syncing::WithVolume => Ok(()),
    }
}

/// A small text file, `None` when it is missing.
pub(crate) fn read_text(disk: &dyn Disk, path: &Path) -> io::Result<Option<String>> {
    const TEXT_BYTES_MAX: u64 = 16 << 20;
    let file = match disk.open(path, Open::Read) {
        Ok(file) => file,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(error),
    };
    let len = file.len()?;
    if len > TEXT_BYTES_MAX {
        return Err(io::ErrorKind::InvalidData.into());
    }
    let mut bytes = vec![0; len as usize];
    file.read_exact_at(&mut bytes, 0)?;
    String::from_utf8(bytes)
        .map(Some)
        .map_err(|_| io::ErrorKind::InvalidData.into())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn epochs(list: &[(i32, i64)]) -> Epochs {
        let mut epochs = Epochs::default();
        for (epoch, start) in list {
            epochs.assign(LeaderEpoch(*epoch), Offset(*start));
        }
        epochs
    }

    #[test]
    fn text_is_that_of_kafka_and_survives_a_round_trip() {
        let all = epochs(&[(0, 0), (2, 10), (5, 11)]);
        assert_eq!(all.encode(), "0\n3\n0 0\n2 10\n5 11\n");
        assert_eq!(Epochs::decode(&all.encode()), Some(all));
        for bad in [
            "",
            "1\n0\n",
            "0\n1\n",
            "0\n1\n3 x\n",
            "0\n2\n3 5\n3 6\n",
            "0\n2\n3 5\n4 5\n",
            "0\n0\n1 1\n",
        ] {
            assert_eq!(Epochs::decode(bad), None, "{bad:?}");
        }
    }

    #[test]
    fn the_end_of_an_epoch_is_the_start_of_the_next() {
        let all = epochs(&[(1, 5), (3, 20), (4, 30)]);
        let end = |epoch: i32| {
            all.end_of(LeaderEpoch(epoch), Offset(50))
                .map(|e| (e.epoch.0, e.end.0))
        };
        assert_eq!(end(4), Some((4, 50)));
        assert_eq!(end(3), Some((3, 30)));
        assert_eq!(end(2), Some((1, 20)));
        assert_eq!(end(0), Some((0, 5)));
        assert_eq!(end(5), None);
        assert_eq!(Epochs::default().end_of(LeaderEpoch(0), Offset(9)), None);
    }

    #[test]
    fn a_start_that_contradicts_entries_removes_them() {
        let mut all = epochs(&[(1, 5), (3, 20), (4, 30)]);
        assert!(!all.assign(LeaderEpoch(4), Offset(35)), "known already");
        assert!(all.assign(LeaderEpoch(6), Offset(20)));
        assert_eq!(all, epochs(&[(1, 5), (6, 20)]));
        assert!(
            all.assign(LeaderEpoch(6), Offset(10)),
            "begins earlier than we knew"
        );
        assert_eq!(all, epochs(&[(1, 5), (6, 10)]));
    }

    #[test]
    fn a_batch_of_another_epoch_is_contradicted_where_something_is_known() {
        let all = epochs(&[(1, 5), (3, 20)]);
        let is_damage = |epoch: i32, last: i64| {
            let found = all.check(LeaderEpoch(epoch), Offset(last));
            found.is_err()
        };
        for (epoch, last) in [(1, 5), (1, 19), (3, 20), (3, 900), (-1, 10), (7, 4), (0, 0)] {
            assert!(!is_damage(epoch, last), "{epoch} at {last}");
        }
        for (epoch, last) in [(0, 5), (3, 19), (1, 20), (4, 900), (i32::MIN, 10)] {
            assert!(is_damage(epoch, last), "{epoch} at {last}");
        }
    }

    #[test]
    fn truncation_cuts_both_ends() {
        let mut all = epochs(&[(1, 5), (3, 20), (4, 30)]);
        assert!(all.truncate_from_end(Offset(30)));
        assert_eq!(all, epochs(&[(1, 5), (3, 20)]));
        assert!(!all.truncate_from_end(Offset(21)));
        assert!(all.truncate_from_start(Offset(25)));
        assert_eq!(all, epochs(&[(3, 25)]));
        assert!(!all.truncate_from_start(Offset(25)));
        assert!(!all.truncate_from_start(Offset(3)));
        assert_eq!(all.epoch_at(Offset(24)), None);
        assert_eq!(all.epoch_at(Offset(25)), Some(LeaderEpoch(3)));
    }
}
