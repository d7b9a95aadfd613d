//! A model disk: the log and the vote file, each with what is written and what survives a power cut.
//!
//! Writes reach the disk in their order. A power cut leaves any prefix of those that no sync has covered, the last of them perhaps
//! in part; a killed process leaves all of them.

use std::collections::{BTreeMap, VecDeque};

use bytes::Bytes;
use env::sim::Chance;
use model::{LeaderEpoch, Offset};
use raft::quorum_state;
use raft::{Life, SnapshotId, VoteFile, VoteNumber};
use wire::records::Batch;

#[derive(Clone, Debug)]
pub(super) enum Write {
    Append(Vec<Batch>),
    Cut(Offset),
    Restart(SnapshotId),
}

impl Write {
    /// The log end behind it.
    fn end(&self) -> Offset {
        match self {
            Write::Append(batches) => batches
                .last()
                .map_or(Offset::ZERO, |last| last.next_offset()),
            Write::Cut(to) => *to,
            Write::Restart(at) => at.end,
        }
    }
}

/// A log as a disk has it.
#[derive(Clone, Debug, Default)]
pub(super) struct LogImage {
    /// The snapshot at which it starts, unless at 0.
    pub(super) start: Option<SnapshotId>,
    pub(super) batches: VecDeque<Batch>,
}

impl LogImage {
    pub(super) fn start(&self) -> Offset {
        self.start.map_or(Offset::ZERO, |id| id.end)
    }

    pub(super) fn end(&self) -> Offset {
        let last = self.batches.back();
        last.map_or(self.start(), |batch| batch.next_offset())
    }

    fn last_epoch(&self) -> LeaderEpoch {
        let last = self.batches.back().map(|batch| batch.leader_epoch());
        last.or(self.start.map(|id| id.epoch)).unwrap_or_default()
    }

    pub(super) fn write(&mut self, write: &Write) {
        match write {
            Write::Append(batches) => {
                for batch in batches {
                    assert_eq!(batch.base_offset(), self.end(), "a write leaves a gap");
                    self.batches.push_back(batch.clone());
                }
            }
            Write::Cut(to) => {
                while self
                    .batches
                    .back()
                    .is_some_and(|last| last.next_offset() > *to)
                {
                    self.batches.pop_back();
                }
                assert_eq!(self.end(), *to, "a cut inside a batch");
            }
            Write::Restart(at) => {
                self.start = Some(*at);
                self.batches.clear();
            }
        }
    }

    pub(super) fn trim(&mut self, to: SnapshotId) {
        if to.end <= self.start() {
            return;
        }
        self.start = Some(to);
        while self
            .batches
            .front()
            .is_some_and(|first| first.base_offset() < to.end)
        {
            self.batches.pop_front();
        }
    }

    /// The batch whose first offset this is.
    pub(super) fn batch_at(&self, base: Offset) -> Option<&Batch> {
        let at = self
            .batches
            .partition_point(|batch| batch.base_offset() < base);
        self.batches
            .get(at)
            .filter(|batch| batch.base_offset() == base)
    }

    /// The batch that ends there.
    pub(super) fn batch_before(&self, end: Offset) -> Option<&Batch> {
        let at = self
            .batches
            .partition_point(|batch| batch.next_offset() < end);
        self.batches
            .get(at)
            .filter(|batch| batch.next_offset() == end)
    }

    pub(super) fn read(&self, from: Offset, to: Offset, bytes_max: u32) -> Bytes {
        let first = self
            .batches
            .partition_point(|batch| batch.next_offset() <= from);
        let mut out = Vec::new();
        for batch in self.batches.range(first..) {
            let bytes = batch.to_bytes();
            let is_over = !out.is_empty() && out.len() + bytes.len() > bytes_max as usize;
            if batch.next_offset() > to || is_over {
                break;
            }
            out.extend_from_slice(&bytes);
        }
        out.into()
    }
}

/// The vote file and its check file.
#[derive(Clone, Debug, Default)]
struct VoteFiles {
    file: Option<Vec<u8>>,
    check: Option<Vec<u8>>,
}

impl VoteFiles {
    /// The files after each step of a write.
    fn steps(&self, contents: &[u8]) -> [VoteFiles; 2] {
        let check = quorum_state::check(self.file.as_deref(), contents);
        let new = VoteFiles {
            file: Some(contents.to_vec()),
            check: Some(check.into_bytes()),
        };
        let half = if self.file.is_some() {
            VoteFiles {
                file: self.file.clone(),
                check: new.check.clone(),
            }
        } else {
            VoteFiles {
                file: new.file.clone(),
                check: None,
            }
        };
        [half, new]
    }
}

/// A fact on its way to the disk that a replica must not forget.
#[derive(Clone, Debug)]
enum Kept {
    Vote(Vec<u8>),
    Cluster(String),
}

#[derive(Clone, Debug, Default)]
pub(super) struct Disk {
    pub(super) now: LogImage,
    pub(super) durable: LogImage,
    pending: VecDeque<(Write, Life)>,
    vote: VoteFiles,
    pending_votes: VecDeque<(VoteNumber, Kept)>,
    /// The id of the cluster.
    pub(super) cluster: Option<String>,
    pub(super) snapshots: BTreeMap<SnapshotId, Bytes>,
    pub(super) downloads: BTreeMap<SnapshotId, Vec<u8>>,
    /// The checkpoint's idea of what is committed.
    pub(super) committed: Offset,
}

impl Disk {
    pub(super) fn write(&mut self, write: Write, life: Life) {
        self.now.write(&write);
        self.pending.push_back((write, life));
    }

    /// The oldest write that is not synced is now.
    pub(super) fn sync(&mut self) -> Option<(Offset, Life)> {
        let (write, life) = self.pending.pop_front()?;
        self.durable.write(&write);
        Some((write.end(), life))
    }

    pub(super) fn write_vote(&mut self, number: VoteNumber, contents: String) {
        self.pending_votes
            .push_back((number, Kept::Vote(contents.into_bytes())));
    }

    pub(super) fn write_cluster(&mut self, number: VoteNumber, cluster: String) {
        self.pending_votes
            .push_back((number, Kept::Cluster(cluster)));
    }

    pub(super) fn sync_vote(&mut self) -> Option<VoteNumber> {
        let (number, kept) = self.pending_votes.pop_front()?;
        match kept {
            Kept::Vote(contents) => {
                let [_, new] = self.vote.steps(&contents);
                self.vote = new;
            }
            Kept::Cluster(cluster) => self.cluster = Some(cluster),
        }
        Some(number)
    }

    pub(super) fn trim(&mut self, to: SnapshotId) {
        self.now.trim(to);
        self.durable.trim(to);
    }

    pub(super) fn vote(&self) -> VoteFile {
        quorum_state::verify(self.vote.file.as_deref(), self.vote.check.as_deref())
    }

    pub(super) fn kill(&mut self) {
        while self.sync().is_some() {}
        while self.sync_vote().is_some() {}
        self.reopen();
    }

    pub(super) fn cut_power(&mut self, chance: &mut Chance) {
        let landed = chance.below(self.pending.len() as u64 + 1);
        for _ in 0..landed {
            self.sync();
        }
        if let Some((Write::Append(mut batches), _)) = self.pending.pop_front() {
            batches.truncate(chance.below(batches.len() as u64) as usize);
            self.durable.write(&Write::Append(batches));
        }
        let landed = chance.below(self.pending_votes.len() as u64 + 1);
        for _ in 0..landed {
            self.sync_vote();
        }
        // The file of the cluster is replaced whole, or not at all.
        if let Some((_, Kept::Vote(contents))) = self.pending_votes.pop_front()
            && chance.one_in(2)
        {
            let [half, _] = self.vote.steps(&contents);
            self.vote = half;
        }
        self.reopen();
    }

    fn reopen(&mut self) {
        self.pending.clear();
        self.pending_votes.clear();
        self.downloads.clear();
        self.now = self.durable.clone();
        // A snapshot that was installed when its restart was not durable yet.
        let last = (self.now.last_epoch(), self.now.end());
        let newest = self.snapshots.keys().next_back().copied();
        if let Some(id) = newest.filter(|id| (id.epoch, id.end) > last) {
            self.now.write(&Write::Restart(id));
            self.durable.write(&Write::Restart(id));
        }
    }

    /// A bit of the vote file turns over.
    pub(super) fn rot_vote(&mut self, chance: &mut Chance) {
        if let Some(file) = &mut self.vote.file {
            let bit = chance.below(file.len() as u64 * 8) as usize;
            file[bit / 8] ^= 1 << (bit % 8);
        }
    }

    pub(super) fn has_vote(&self) -> bool {
        self.vote.file.is_some()
    }

    /// Empty where there is none that is believed.
    pub(super) fn vote_file(&self) -> &[u8] {
        let file = self.vote.file.as_deref();
        file.filter(|_| self.vote() != VoteFile::Lost)
            .unwrap_or_default()
    }
}
