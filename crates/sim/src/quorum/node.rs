//! A replica of the model cluster: its machine while the process runs, its disk, its clock.

use std::collections::{BTreeMap, BTreeSet};

use model::{BrokerId, Instant, Offset, Timestamp};
use raft::{
    Boot, Checker, Effect, Endpoint, History, Listener, LogView, Me, Moment, Quorum, Replica,
    Settings, SnapshotFacts, SnapshotId, VersionRange, Voter, VoterSet, quorum_state,
};
use wire::Uuid;
use wire::records::{Batch, Source};

use super::disk::Disk;
use super::plan::Plan;

pub(super) const CLUSTER: &str = "quorum";
pub(super) const LISTENER: &str = "CONTROLLER";
pub(super) const VERSIONS: VersionRange = VersionRange { min: 0, max: 1 };

/// Where the node with this number listens.
pub(super) fn endpoint(number: u32) -> Endpoint {
    Endpoint {
        host: format!("n{number}"),
        port: 9093,
    }
}

pub(super) fn listeners(number: u32) -> Vec<Listener> {
    vec![Listener {
        name: LISTENER.to_owned(),
        endpoint: endpoint(number),
    }]
}

/// The replica of a node; each wipe makes another one of it.
pub(super) fn replica(number: u32, disks: u32) -> Replica {
    let mut directory = [0; 16];
    directory[0..4].copy_from_slice(&number.to_be_bytes());
    directory[4..8].copy_from_slice(&disks.to_be_bytes());
    directory[15] = 7;
    Replica {
        id: BrokerId(number as i32),
        directory: Uuid(directory),
    }
}

/// The voters that a cluster begins with.
pub(super) fn first_voters(plan: &Plan) -> VoterSet {
    VoterSet::of((1..=plan.voters).map(|number| {
        let replica = replica(number, 0);
        Voter {
            replica: if plan.is_dynamic {
                replica
            } else {
                Replica {
                    directory: Uuid::ZERO,
                    ..replica
                }
            },
            listeners: listeners(number),
            versions: if plan.is_dynamic {
                VERSIONS
            } else {
                VersionRange { min: 0, max: 0 }
            },
        }
    }))
}

/// A node before an event, to see what the event did.
#[derive(Clone, Copy, Debug)]
pub(super) struct Before {
    pub(super) watermark: Option<Offset>,
    pub(super) voters_at: Option<Offset>,
    pub(super) was_leader: bool,
}

/// Syncs of one file, one after the other: each covers what was written before it began.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Syncs {
    /// When the one under way ends, and the one behind it.
    current_end: u64,
    next_end: u64,
}

impl Syncs {
    /// When a write of this moment is covered, if the sync that covers it takes so long.
    pub(super) fn join(&mut self, now: u64, took: u64) -> u64 {
        if self.next_end <= now {
            self.current_end = now + took;
            self.next_end = self.current_end;
            return self.current_end;
        }
        if self.current_end <= now {
            self.current_end = self.next_end;
        }
        if self.next_end == self.current_end {
            self.next_end += took;
        }
        self.next_end
    }
}

#[derive(Debug)]
pub(super) struct Node {
    pub(super) number: u32,
    pub(super) replica: Replica,
    pub(super) disks: u32,
    pub(super) quorum: Option<Quorum>,
    pub(super) disk: Disk,
    /// Counts the starts: what belongs to an older one is gone.
    pub(super) boot: u32,
    clock_from: u64,
    clock_ppm: u64,
    pub(super) paused_until: u64,
    pub(super) slow_until: u64,
    pub(super) tick_at: Option<u64>,
    pub(super) log_syncs: Syncs,
    pub(super) vote_syncs: Syncs,
    pub(super) published: Offset,
    pub(super) has_lost_vote: bool,
    /// It began on an empty disk, and does not count yet.
    pub(super) is_new: bool,
    /// The settings of its next start name it alone.
    pub(super) is_lone: bool,
    pub(super) facts: BTreeMap<SnapshotId, SnapshotFacts>,
}

impl Node {
    pub(super) fn new(number: u32, clock_from: u64, clock_ppm: u64) -> Node {
        Node {
            number,
            replica: replica(number, 0),
            disks: 0,
            quorum: None,
            disk: Disk::default(),
            boot: 0,
            clock_from,
            clock_ppm,
            paused_until: 0,
            slow_until: 0,
            tick_at: None,
            log_syncs: Syncs::default(),
            vote_syncs: Syncs::default(),
            published: Offset::ZERO,
            has_lost_vote: false,
            is_new: false,
            is_lone: false,
            facts: BTreeMap::new(),
        }
    }

    /// The node's clock at a moment of the world.
    pub(super) fn moment(&self, now: u64) -> Moment {
        let gone = u128::from(now) * u128::from(self.clock_ppm) / 1_000_000;
        let local = self.clock_from + gone as u64;
        Moment {
            now: Instant(local),
            wall: Timestamp((local / 1_000_000) as i64),
        }
    }

    /// The first moment of the world at which the node's clock shows `deadline`.
    pub(super) fn world_time(&self, deadline: Instant) -> u64 {
        let gone = deadline.0.saturating_sub(self.clock_from);
        let time = (u128::from(gone) * 1_000_000).div_ceil(u128::from(self.clock_ppm));
        u64::try_from(time).unwrap_or(u64::MAX)
    }

    pub(super) fn before(&self) -> Before {
        let quorum = self.quorum.as_ref();
        Before {
            watermark: quorum.and_then(Quorum::watermark),
            voters_at: quorum.and_then(|quorum| quorum.history().voters_at()),
            was_leader: quorum.is_some_and(|quorum| quorum.role() == raft::RoleName::Leader),
        }
    }

    /// Starts the process on what the disk has; `None` where the start is refused, as that of a voter without the others is.
    pub(super) fn start(
        &mut self,
        now: u64,
        plan: &Plan,
        nodes: u32,
        seed: u64,
    ) -> Option<Vec<Effect>> {
        let is_lone = std::mem::take(&mut self.is_lone);
        let mut named = first_voters(plan);
        if is_lone {
            named = VoterSet::of(named.get(self.replica.id).cloned());
        }
        let image = &self.disk.now;
        let mut log = LogView::starting_at(image.start);
        for (id, bytes) in &self.disk.snapshots {
            log.add_snapshot(*id, bytes.len() as u64);
        }
        let mut history = if plan.is_dynamic {
            History::default()
        } else {
            History::new(named.clone())
        };
        let bootstrap = plan.is_dynamic.then_some(SnapshotId::BOOTSTRAP);
        if let Some(id) = image.start.or(bootstrap)
            && let Some(facts) = self.facts.get(&id)
        {
            history.restart(id, facts);
        }
        for batch in &image.batches {
            log.note(batch).expect("what a disk kept is a log");
            history.note(batch).expect("what a disk kept can be read");
        }
        log.believe();
        if !history.is_dynamic() {
            let batches: Vec<Batch> = image.batches.iter().cloned().collect();
            let found = quorum_state::voters_before(self.disk.vote_file(), &batches);
            let found = found.expect("what a disk kept can be read");
            let named: BTreeSet<BrokerId> = named.iter().map(|voter| voter.replica.id).collect();
            if self.replica.id.0 as u32 <= plan.voters && !found.is_empty() && found != named {
                return None;
            }
        }
        self.boot += 1;
        self.tick_at = None;
        self.paused_until = 0;
        let boot = Boot {
            log,
            history,
            vote: self.disk.vote(),
            committed: self.disk.committed,
        };
        let me = Me {
            replica: self.replica,
            cluster: self.disk.cluster.clone(),
            proposal: format!("{}.{}", self.replica, self.boot),
            listeners: listeners(self.number),
            listener: LISTENER.to_owned(),
            seeds: if plan.is_dynamic {
                (1..=nodes).map(endpoint).collect()
            } else {
                Vec::new()
            },
            versions: VERSIONS,
        };
        let settings = Settings {
            election_timeout: std::time::Duration::from_nanos(plan.election_timeout),
            fetch_bytes_max: plan.fetch_bytes_max,
            snapshot_bytes_max: plan.fetch_bytes_max.max(64),
            joins: plan.joins,
            ..Settings::default()
        };
        let (quorum, effects) = Quorum::new(me, settings, boot, seed, self.moment(now));
        self.published = quorum.watermark().unwrap_or_default();
        self.quorum = Some(quorum);
        Some(effects)
    }
}

/// Reads a snapshot to its end: what it says of the quorum, and the digest in its one data batch.
pub(super) fn read_snapshot(bytes: &bytes::Bytes) -> Option<(SnapshotFacts, u64)> {
    let mut checker = Checker::default();
    let mut digest = None;
    for batch in Batch::cut(bytes, Source::Log) {
        let batch = batch.ok()?;
        checker.push(&batch).ok()?;
        if !batch.attributes().is_control() {
            digest = Some(value_of(&batch)?);
        }
    }
    Some((checker.finish().ok()?, digest?))
}

fn value_of(batch: &Batch) -> Option<u64> {
    let plain = batch.plain(wire::records::Caps::default()).ok()?;
    let record = wire::records::RecordIter::new(&plain, batch.record_count()).next()?;
    let value = record.ok()?.value?.first_chunk().copied()?;
    Some(u64::from_be_bytes(value))
}
