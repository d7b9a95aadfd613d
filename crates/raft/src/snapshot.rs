//! Snapshots: their names, what must hold for a file of one, and how one is served and fetched (KIP-630).
//!
//! A snapshot is believed only when its driver has read it to the end with a [`Checker`]. One that is damaged is fetched again; the
//! log is never restarted from it.

use std::fmt;

use bytes::Bytes;
use model::{BrokerId, LeaderEpoch, Offset};
use wire::messages::fetch_snapshot_request as asked;
use wire::messages::fetch_snapshot_response as answered;
use wire::messages::{FetchSnapshotRequest, FetchSnapshotResponse};
use wire::records::Batch;
use wire::{ApiKey, ErrorCode, Records};

use crate::calls::Target;
use crate::control::{self, Control};
use crate::effect::{Alarm, Effect, Fill, Peer};
use crate::event::{Caller, Moment};
use crate::message::{self, Request, Response, TOPIC};
use crate::state::{Download, Role};
use crate::step::Quorum;
use crate::voters::{Endpoint, Replica, VoterSet};

/// A snapshot's name: the offset behind its last record and that record's epoch. Ordered as logs are: by epoch first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct SnapshotId {
    pub epoch: LeaderEpoch,
    pub end: Offset,
}

impl SnapshotId {
    /// The snapshot that a formatted directory begins with. It is never served: each replica has its own.
    pub const BOOTSTRAP: SnapshotId = SnapshotId {
        epoch: LeaderEpoch(0),
        end: Offset(0),
    };
}

impl fmt::Display for SnapshotId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:020}-{:010}", self.end.0, self.epoch.0)
    }
}

/// The facts of the quorum in a snapshot.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SnapshotFacts {
    pub voters: Option<VoterSet>,
    pub version: Option<i16>,
    /// The cluster of the log that it stands for.
    pub cluster: Option<String>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SnapshotFault {
    #[error("snapshot does not begin with its header")]
    Header,
    #[error("snapshot has no footer")]
    Footer,
    #[error("snapshot goes on behind its footer")]
    Tail,
    #[error("snapshot has a batch at {got} where {want} was due")]
    Gap { got: Offset, want: Offset },
    #[error("snapshot has a batch that cannot be read")]
    Unreadable,
}

/// Reads a snapshot batch by batch and says whether it is whole. Checksums are those of [`Batch::cut`].
#[derive(Debug, Default)]
pub struct Checker {
    next: Offset,
    is_begun: bool,
    is_ended: bool,
    facts: SnapshotFacts,
}

impl Checker {
    pub fn push(&mut self, batch: &Batch) -> Result<(), SnapshotFault> {
        if self.is_ended {
            return Err(SnapshotFault::Tail);
        }
        if batch.base_offset() != self.next {
            return Err(SnapshotFault::Gap {
                got: batch.base_offset(),
                want: self.next,
            });
        }
        self.next = batch.next_offset();
        for (_, record) in control::read(batch).map_err(|_| SnapshotFault::Unreadable)? {
            match record {
                Control::SnapshotHeader(header) => {
                    self.is_begun = true;
                    self.facts.cluster = header.cluster_id;
                }
                Control::SnapshotFooter(_) => self.is_ended = true,
                Control::Version(version) => self.facts.version = Some(version.k_raft_version),
                Control::Voters(voters) => {
                    let set = VoterSet::from_record(&voters).ok_or(SnapshotFault::Unreadable)?;
                    self.facts.voters = Some(set);
                }
                Control::LeaderChange(_) => {}
            }
        }
        if self.is_begun {
            Ok(())
        } else {
            Err(SnapshotFault::Header)
        }
    }

    pub fn finish(self) -> Result<SnapshotFacts, SnapshotFault> {
        if !self.is_begun {
            return Err(SnapshotFault::Header);
        }
        if !self.is_ended {
            return Err(SnapshotFault::Footer);
        }
        Ok(self.facts)
    }
}

impl Quorum {
    /// The id that a snapshot ending at `end` has. `None` if it may not be made: not committed here, or older than the log.
    #[must_use]
    pub fn snapshot_id(&self, end: Offset) -> Option<SnapshotId> {
        if end < self.log.start() || end > self.published {
            return None;
        }
        let epoch = self.log.epoch_before(end)?;
        Some(SnapshotId { epoch, end })
    }

    /// A snapshot of our own making is on disk, verified.
    pub(crate) fn on_snapshot_written(&mut self, id: SnapshotId, size: u64) {
        if self.snapshot_id(id.end) == Some(id) {
            self.log.add_snapshot(id, size);
        }
    }

    /// The driver wants the log to start at this snapshot.
    pub(crate) fn on_trim(&mut self, to: SnapshotId) {
        if self.log.snapshot_size(to).is_none()
            || to.end > self.published
            || to.end < self.log.start()
        {
            return;
        }
        self.history.trim(to.end);
        let older = self.log.trim(to);
        self.empty_trimmed_answers();
        self.effects.push(Effect::Trim { to: to.end });
        let drop = |id| Effect::DeleteSnapshot { id };
        self.effects.extend(older.into_iter().map(drop));
    }

    pub(crate) fn on_fetch_snapshot(
        &mut self,
        at: Moment,
        caller: Caller,
        request: &FetchSnapshotRequest,
    ) {
        let node = BrokerId(request.replica_id);
        if !self.is_of_this_cluster(at, Some(node), request.cluster_id.as_deref()) {
            let response = FetchSnapshotResponse {
                error_code: ErrorCode::InconsistentClusterId as i16,
                ..Default::default()
            };
            return self.answer(caller, Response::FetchSnapshot(response));
        }
        let Some(part) = request_part(request) else {
            let response = FetchSnapshotResponse {
                error_code: ErrorCode::InvalidRequest as i16,
                ..Default::default()
            };
            return self.answer(caller, Response::FetchSnapshot(response));
        };
        let id = SnapshotId {
            epoch: LeaderEpoch(part.snapshot_id.epoch),
            end: Offset(part.snapshot_id.end_offset),
        };
        let known = self.log.snapshot_size(id);
        let known = known.filter(|_| id != SnapshotId::BOOTSTRAP);
        let position = u64::try_from(part.position).ok();
        let (error, size) = match (self.leader_error(part.current_leader_epoch), known) {
            (Some(error), _) => (error, 0),
            (None, None) => (ErrorCode::SnapshotNotFound, 0),
            (None, Some(size)) if position.is_none_or(|position| position >= size) => {
                (ErrorCode::PositionOutOfRange, 0)
            }
            (None, Some(size)) => (ErrorCode::None, size),
        };
        let mut answer = answered::PartitionSnapshot {
            error_code: error as i16,
            current_leader: answered::LeaderIdAndEpoch {
                leader_id: self.leader_or_none(),
                leader_epoch: self.election.epoch.0,
            },
            // The field may be empty, and is never null.
            unaligned_records: Some(Records::default()),
            ..Default::default()
        };
        let fill = position.filter(|_| error == ErrorCode::None);
        let fill = fill.map(|position| Fill::Snapshot {
            id,
            position,
            bytes_max: request.max_bytes.max(1) as u32,
        });
        if fill.is_some() {
            answer.snapshot_id = answered::SnapshotId {
                end_offset: id.end.0,
                epoch: id.epoch.0,
            };
            answer.size = size as i64;
            answer.position = part.position;
            let replica = Replica {
                id: node,
                directory: part.replica_directory_id,
            };
            self.saw_voter(at.now, replica);
        }
        let response = FetchSnapshotResponse {
            topics: vec![answered::TopicSnapshot {
                name: TOPIC.to_owned(),
                partitions: vec![answer],
            }],
            node_endpoints: self
                .leader_address()
                .map(|(id, at)| answered::NodeEndpoint {
                    node_id: id.0,
                    host: at.host,
                    port: at.port,
                })
                .into_iter()
                .collect(),
            ..Default::default()
        };
        self.answer_filled(caller, Response::FetchSnapshot(response), fill);
    }

    /// The leader sent us to a snapshot. False if it lacks what is committed here.
    pub(crate) fn begin_download(&mut self, at: Moment, id: SnapshotId) -> bool {
        if let Some(committed) = self.watermark.filter(|committed| id.end < *committed) {
            self.shun_leader(at, id.end, committed);
            return false;
        }
        if let Role::Follower(follower) = &mut self.role {
            follower.download = Some(Download {
                id,
                position: 0,
                is_complete: false,
            });
        }
        true
    }

    pub(crate) fn send_fetch_snapshot(
        &mut self,
        at: Moment,
        target: Target,
        peer: Peer,
        download: &Download,
    ) {
        let request = FetchSnapshotRequest {
            cluster_id: self.me.cluster.clone(),
            replica_id: self.counted_id(),
            max_bytes: self.settings.snapshot_bytes_max as i32,
            topics: vec![asked::TopicSnapshot {
                name: TOPIC.to_owned(),
                partitions: vec![asked::PartitionSnapshot {
                    partition: 0,
                    current_leader_epoch: self.election.epoch.0,
                    snapshot_id: asked::SnapshotId {
                        end_offset: download.id.end.0,
                        epoch: download.id.epoch.0,
                    },
                    position: download.position as i64,
                    replica_directory_id: self.me.replica.directory,
                }],
            }],
        };
        self.send(at.now, target, peer, Request::FetchSnapshot(request));
    }

    /// True if the answer was of use, and the peer may be asked again at once.
    pub(crate) fn on_snapshot_answer(
        &mut self,
        at: Moment,
        asked: Target,
        response: FetchSnapshotResponse,
    ) -> bool {
        if response.error_code != 0 {
            self.note_refused(asked, ApiKey::FetchSnapshot, response.error_code);
            return false;
        }
        let addresses = response
            .node_endpoints
            .iter()
            .map(|at| (at.node_id, at.host.clone(), i32::from(at.port)));
        let addresses = message::addresses(addresses);
        let mut topics = response.topics;
        let part = topics.first_mut().and_then(|topic| topic.partitions.pop());
        let Some(part) = part.filter(|_| topics.len() == 1 && topics[0].name == TOPIC) else {
            return false;
        };
        let (error, leader) = (ErrorCode::try_from(part.error_code), part.current_leader);
        let handled = self.learn(
            at,
            ApiKey::FetchSnapshot,
            error.ok(),
            leader.leader_id,
            leader.leader_epoch,
            &addresses,
        );
        if let Some(is_of_use) = handled {
            return is_of_use;
        }
        let Role::Follower(follower) = &mut self.role else {
            return true;
        };
        let Some(download) = &mut follower.download else {
            return true;
        };
        let id = SnapshotId {
            epoch: LeaderEpoch(part.snapshot_id.epoch),
            end: Offset(part.snapshot_id.end_offset),
        };
        let bytes = match part.unaligned_records {
            Some(Records::Bytes(bytes)) => bytes,
            Some(Records::External(_)) | None => Bytes::new(),
        };
        let is_next = id == download.id && part.position as u64 == download.position;
        let size = u64::try_from(part.size).unwrap_or(0);
        let fits = download.position + bytes.len() as u64 <= size;
        if error == Ok(ErrorCode::SnapshotNotFound)
            || error.is_ok_and(|e| e == ErrorCode::PositionOutOfRange)
        {
            // The leader deleted the snapshot while this node read it. The next fetch names another one.
            let id = download.id;
            follower.download = None;
            follower.hear(at.now, self.settings.fetch_timeout);
            self.effects.push(Effect::DropSnapshot { id });
            return true;
        }
        if error != Ok(ErrorCode::None) || !is_next || bytes.is_empty() || !fits {
            return false;
        }
        let position = download.position;
        download.position += bytes.len() as u64;
        download.is_complete = download.position == size;
        let is_complete = download.is_complete;
        follower.hear(at.now, self.settings.fetch_timeout);
        self.effects.push(Effect::WriteSnapshot {
            id,
            position,
            bytes,
        });
        if is_complete {
            self.effects.push(Effect::FinishSnapshot { id, size });
        }
        true
    }

    /// A downloaded snapshot is on disk under its name, verified to its last byte: the log starts over there.
    pub(crate) fn on_snapshot_installed(
        &mut self,
        at: Moment,
        id: SnapshotId,
        size: u64,
        facts: &SnapshotFacts,
    ) {
        if let Role::Follower(follower) = &mut self.role
            && follower.download.as_ref().is_some_and(|d| d.id == id)
        {
            follower.download = None;
            follower.hear(at.now, self.settings.fetch_timeout);
        }
        if let Some(theirs) = facts.cluster.as_deref().filter(|id| self.is_other(id)) {
            self.meet_leader_of_other(at, theirs);
            self.effects.push(Effect::DeleteSnapshot { id });
            return;
        }
        let last = self.log.last();
        let is_newer = (id.epoch, id.end) > (last.epoch, last.end);
        if is_newer && self.watermark.is_some_and(|committed| id.end < committed) {
            // More was committed while it came. The leader is asked again, and is found out if it has no other.
            self.effects.push(Effect::DeleteSnapshot { id });
            return;
        }
        self.log.add_snapshot(id, size);
        // The log may have gone on meanwhile, under another leader or with this node leading.
        if is_newer && !self.is_leader() {
            self.restart_log(id, facts);
        }
    }

    pub(crate) fn restart_log(&mut self, id: SnapshotId, facts: &SnapshotFacts) {
        let older = self.log.restart(id);
        self.history.restart(id, facts);
        self.effects.push(Effect::Restart {
            at: id,
            life: self.log.life(),
        });
        let delete = |id| Effect::DeleteSnapshot { id };
        self.effects.extend(older.into_iter().map(delete));
        self.watermark = self.watermark.max(Some(id.end));
    }

    pub(crate) fn on_snapshot_damaged(&mut self, at: Moment, id: SnapshotId) {
        let leader = self.election.leader;
        self.alarm_once(Alarm::SnapshotDamaged { id, leader });
        if let Role::Follower(follower) = &mut self.role
            && follower.download.as_ref().is_some_and(|d| d.id == id)
        {
            follower.download = None;
            follower.hear(at.now, self.settings.fetch_timeout);
            // The leader's own file may be damaged: without a pause it would be fetched without end.
            let pause = self.settings.fetch_timeout / 4;
            if let Some(leader) = leader.map(Target::Node) {
                self.calls.rest(leader, at.now, pause);
            }
        }
    }

    /// The leader of this epoch and where it listens, as answers carry it.
    pub(crate) fn leader_address(&self) -> Option<(BrokerId, Endpoint)> {
        Some((self.election.leader?, self.leader_endpoint.clone()?))
    }
}

fn request_part(request: &FetchSnapshotRequest) -> Option<&asked::PartitionSnapshot> {
    let [topic] = request.topics.as_slice() else {
        return None;
    };
    match topic.partitions.as_slice() {
        [part] if topic.name == TOPIC && part.partition == 0 => Some(part),
        _ => None,
    }
}
