//! Replication: fetches served and sent, divergence, appends, cuts, the watermark.
//!
//! The watermark is the largest offset that a majority of voters has synced, and it means nothing before it passes the start of
//! the leader's epoch: records of older epochs are committed by a record of this one behind them, never by counting.

use bytes::Bytes;
use model::lineage::EpochEnd;
use model::{BrokerId, LeaderEpoch, Offset};
use wire::messages::fetch_request as asked;
use wire::messages::fetch_response as answered;
use wire::messages::{FetchRequest, FetchResponse};
use wire::records::{Batch, BatchError, Source};
use wire::{ApiKey, ErrorCode, Records, Uuid};

use crate::calls::Target;
use crate::effect::{Alarm, Effect, Fill, Refusal};
use crate::event::{AppendTag, Caller, Moment};
use crate::history::{Change, History};
use crate::message::{self, Request, Response, TOPIC_ID};
use crate::snapshot::SnapshotId;
use crate::state::{Parked, Role};
use crate::step::Quorum;
use crate::voters::Replica;

/// Fetches that may wait at a leader; beyond it they are answered at once, and their senders ask again.
const PARKED_MAX: usize = 10_000;

/// The place a follower names, judged.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Verdict {
    /// The place is in this log.
    Valid,
    Diverging(EpochEnd),
    /// The log starts behind it.
    Snapshot(SnapshotId),
}

impl Quorum {
    /// Appends to the log of a leader. The batch gets its offsets and epoch here.
    pub(crate) fn append(&mut self, at: Moment, mut batch: Batch) -> (Offset, Offset) {
        batch.set_base_offset(self.log.end());
        batch.set_leader_epoch(self.election.epoch);
        let changes =
            History::read(&batch).expect("a leader writes control records that it can read");
        let is_change = changes
            .iter()
            .any(|(_, change)| matches!(change, Change::Voters(_)));
        self.log
            .note(&batch)
            .expect("a leader appends at its end, in its epoch");
        self.history.apply(changes);
        let (base, next) = (batch.base_offset(), batch.next_offset());
        self.effects.push(Effect::Append {
            batches: vec![batch],
            life: self.log.life(),
        });
        if is_change {
            self.count_new_voters();
            self.raise_watermark(at);
        }
        self.answer_parked(at, |fetch| fetch.from < next);
        (base, next)
    }

    pub(crate) fn on_append(
        &mut self,
        at: Moment,
        tag: AppendTag,
        epoch: LeaderEpoch,
        batch: Batch,
    ) {
        if !self.is_leader() || epoch != self.election.epoch {
            let why = Refusal::NotLeader {
                epoch: self.election.epoch,
                leader: self.election.leader,
            };
            return self.refuse(tag, why);
        }
        // Control batches are this machine's own.
        if batch.attributes().is_control() {
            return self.refuse(tag, Refusal::Because(ErrorCode::InvalidRecord));
        }
        let (base, next) = self.append(at, batch);
        self.effects.push(Effect::Accepted { tag, base, next });
    }

    /// The durable end moved.
    pub(crate) fn after_sync(&mut self, at: Moment) {
        let is_synced = self.log.is_synced();
        let timeout = self.settings.fetch_timeout;
        match &mut self.role {
            Role::Leader(_) => self.raise_watermark(at),
            // The time in which it could not ask is not the leader's silence.
            Role::Follower(state) if is_synced => {
                state.fetch_deadline = state.fetch_deadline.max(at.now.plus(timeout));
            }
            Role::Follower(_)
            | Role::Unattached(_)
            | Role::Prospective(_)
            | Role::Candidate(_)
            | Role::Resigned(_) => {}
        }
    }

    /// Moves the watermark of a leader to what a majority of the voters has synced.
    pub(crate) fn raise_watermark(&mut self, at: Moment) {
        let me = self.me.replica.id;
        let own = self.log.durable();
        let Role::Leader(leader) = &self.role else {
            return;
        };
        let ends = leader.voters.values().map(|voter| {
            // This leader is a voter as the others are: what its disk does not have, it does not have.
            if voter.replica.id == me {
                Some(own)
            } else {
                voter.end
            }
        });
        let Some(end) = majority_end(ends.collect()) else {
            return;
        };
        if end <= leader.epoch_start || self.watermark.is_some_and(|known| end <= known) {
            return;
        }
        self.watermark = Some(end);
        self.on_committed();
        self.answer_parked(at, |_| true);
    }

    /// The watermark as this leader may report it: none before its epoch has a committed record.
    pub(crate) fn leader_watermark(&self) -> Option<Offset> {
        let Role::Leader(leader) = &self.role else {
            return None;
        };
        self.watermark.filter(|known| *known > leader.epoch_start)
    }

    fn judge(&self, from: Offset, epoch: LeaderEpoch) -> Verdict {
        let first = self.log.first_snapshot();
        let last = self.log.last_snapshot();
        // A replica that has nothing gets the newest snapshot, if there is one besides its own bootstrap.
        if from == Offset::ZERO
            && let Some(id) = last.filter(|id| *id != SnapshotId::BOOTSTRAP)
        {
            return Verdict::Snapshot(id);
        }
        let start = self.log.start();
        if from == Offset::ZERO && start == Offset::ZERO {
            return Verdict::Valid;
        }
        if let (Some(first), Some(last)) = (first, last)
            && (from < start || from == start && epoch != first.epoch || epoch < first.epoch)
        {
            return Verdict::Snapshot(last);
        }
        let asked = EpochEnd { epoch, end: from };
        match self.log.lineage().judge(asked) {
            None => Verdict::Valid,
            Some(known) => Verdict::Diverging(known),
        }
    }

    pub(crate) fn on_fetch(&mut self, at: Moment, caller: Caller, request: &FetchRequest) {
        // Requests of before version 15 name their replica elsewhere.
        let id = request.replica_state.replica_id.max(request.replica_id);
        let cluster = request.cluster_id.as_deref();
        self.hear_cluster_of_voter(BrokerId(id), cluster);
        if !self.is_of_this_cluster(at, Some(BrokerId(id)), cluster) {
            return self.answer_fetch_top(caller, ErrorCode::InconsistentClusterId);
        }
        let Some(part) = request_part(request) else {
            return self.answer_fetch_top(caller, ErrorCode::InvalidRequest);
        };
        let (from, epoch) = (part.fetch_offset, part.last_fetched_epoch);
        if request.max_wait_ms < 0 || from < 0 || epoch < 0 || epoch > part.current_leader_epoch {
            return self.answer_fetch_error(caller, ErrorCode::InvalidRequest);
        }
        let replica = Replica {
            id: BrokerId(id),
            directory: part.replica_directory_id,
        };
        // Whatever epoch it is in: it takes no other from a leader that has its own id.
        if replica.id == self.me.replica.id && self.is_leader() {
            self.meet_double(replica.directory);
            return self.answer_fetch_error(caller, ErrorCode::UnknownServerError);
        }
        if let Some(error) = self.leader_error(part.current_leader_epoch) {
            return self.answer_fetch_error(caller, error);
        }
        let fetch = Parked {
            caller,
            replica,
            from: Offset(from),
            epoch: LeaderEpoch(epoch),
            bytes_max: request.max_bytes.max(0) as u32,
            deadline: at
                .now
                .plus(std::time::Duration::from_millis(request.max_wait_ms as u64)),
        };
        let verdict = self.judge(fetch.from, fetch.epoch);
        // A replica has one fetch at a time: an older one is of a connection that is gone.
        self.answer_parked(at, |old| old.replica == replica);
        if verdict == Verdict::Valid {
            let has_cluster = cluster.is_some() && self.cluster().is_some();
            self.saw_fetch(at, replica, fetch.from, has_cluster);
        }
        let has_news = self.log.end() > fetch.from
            || Offset(part.high_watermark) < self.leader_watermark().unwrap_or(Offset(-1));
        let Role::Leader(leader) = &mut self.role else {
            return;
        };
        let waits = verdict == Verdict::Valid && !has_news && request.max_wait_ms > 0;
        if waits && leader.parked.len() < PARKED_MAX {
            leader.parked.push(fetch);
        } else {
            self.answer_fetch(&fetch, verdict);
        }
    }

    /// Answers the waiting fetches that `is_due` picks.
    pub(crate) fn answer_parked(&mut self, _at: Moment, is_due: impl Fn(&Parked) -> bool) {
        let Role::Leader(leader) = &mut self.role else {
            return;
        };
        let (due, rest) = std::mem::take(&mut leader.parked)
            .into_iter()
            .partition(is_due);
        leader.parked = rest;
        let due: Vec<Parked> = due;
        for fetch in &due {
            let verdict = self.judge(fetch.from, fetch.epoch);
            self.answer_fetch(fetch, verdict);
        }
    }

    /// Another process uses this node's id. One with the same directory may be an earlier run of this node.
    fn meet_double(&mut self, directory: Uuid) {
        let me = self.me.replica;
        if directory != me.directory {
            let (id, directory) = (me.id, (!directory.is_zero()).then_some(directory));
            self.alarm_once(Alarm::IdTaken { id, directory });
        }
    }

    pub(crate) fn on_gone(&mut self, caller: Caller) {
        if let Role::Leader(leader) = &mut self.role {
            leader.parked.retain(|fetch| fetch.caller != caller);
        }
    }

    fn answer_fetch(&mut self, fetch: &Parked, verdict: Verdict) {
        let mut part = self.fetch_part(ErrorCode::None);
        part.high_watermark = self.leader_watermark().map_or(-1, |offset| offset.0);
        let mut fill = None;
        match verdict {
            Verdict::Valid if fetch.from < self.log.end() => {
                fill = Some(Fill::Records {
                    from: fetch.from,
                    to: self.log.end(),
                    bytes_max: fetch.bytes_max,
                });
            }
            Verdict::Valid => {}
            Verdict::Diverging(known) => {
                part.diverging_epoch = answered::EpochEndOffset {
                    epoch: known.epoch.0,
                    end_offset: known.end.0,
                };
            }
            Verdict::Snapshot(id) => {
                part.snapshot_id = answered::SnapshotId {
                    end_offset: id.end.0,
                    epoch: id.epoch.0,
                };
            }
        }
        let response = self.fetch_response(part);
        self.answer_filled(fetch.caller, Response::Fetch(response), fill);
    }

    pub(crate) fn answer_fetch_error(&mut self, caller: Caller, error: ErrorCode) {
        let response = self.fetch_response(self.fetch_part(error));
        self.answer(caller, Response::Fetch(response));
    }

    fn answer_fetch_top(&mut self, caller: Caller, error: ErrorCode) {
        let response = FetchResponse {
            error_code: error as i16,
            ..Default::default()
        };
        self.answer(caller, Response::Fetch(response));
    }

    fn fetch_part(&self, error: ErrorCode) -> answered::PartitionData {
        answered::PartitionData {
            error_code: error as i16,
            high_watermark: -1,
            log_start_offset: self.log.start().0,
            current_leader: answered::LeaderIdAndEpoch {
                leader_id: self.leader_or_none(),
                leader_epoch: self.election.epoch.0,
            },
            records: Some(Records::default()),
            ..Default::default()
        }
    }

    fn fetch_response(&self, part: answered::PartitionData) -> FetchResponse {
        let endpoints = self.leader_address();
        let endpoints = endpoints.map(|(id, at)| answered::NodeEndpoint {
            node_id: id.0,
            host: at.host,
            port: i32::from(at.port),
            rack: None,
        });
        FetchResponse {
            responses: vec![answered::FetchableTopicResponse {
                topic_id: TOPIC_ID,
                partitions: vec![part],
                ..Default::default()
            }],
            node_endpoints: endpoints.into_iter().collect(),
            ..Default::default()
        }
    }

    pub(crate) fn send_fetch(&mut self, at: Moment, target: Target) {
        let Some(peer) = self.peer(target) else {
            return;
        };
        let request = FetchRequest {
            cluster_id: self.me.cluster.clone(),
            replica_state: asked::ReplicaState {
                replica_id: self.counted_id(),
                replica_epoch: -1,
            },
            max_wait_ms: self.settings.fetch_wait_max.as_millis() as i32,
            max_bytes: self.settings.fetch_bytes_max as i32,
            topics: vec![asked::FetchTopic {
                topic_id: TOPIC_ID,
                partitions: vec![asked::FetchPartition {
                    current_leader_epoch: self.election.epoch.0,
                    // The end and the synced end are one here: an unsynced log does not ask.
                    fetch_offset: self.log.end().0,
                    last_fetched_epoch: self.log.last_epoch().0,
                    log_start_offset: -1,
                    partition_max_bytes: 0,
                    replica_directory_id: self.me.replica.directory,
                    high_watermark: self.watermark.map_or(-1, |offset| offset.0),
                    ..Default::default()
                }],
                ..Default::default()
            }],
            ..Default::default()
        };
        self.send(at.now, target, peer, Request::Fetch(request));
    }

    /// True if the answer was of use, and the peer may be asked again at once.
    pub(crate) fn on_fetch_answer(
        &mut self,
        at: Moment,
        target: Target,
        response: FetchResponse,
    ) -> bool {
        if response.error_code != 0 {
            self.note_refused(target, ApiKey::Fetch, response.error_code);
            return false;
        }
        let addresses = response.node_endpoints.iter();
        let addresses =
            message::addresses(addresses.map(|at| (at.node_id, at.host.clone(), at.port)));
        let mut topics = response.responses;
        let [topic] = topics.as_mut_slice() else {
            return false;
        };
        let Some(part) = topic.partitions.pop() else {
            return false;
        };
        if topic.topic_id != TOPIC_ID || !topic.partitions.is_empty() || part.partition_index != 0 {
            return false;
        }
        let error = ErrorCode::try_from(part.error_code).ok();
        let leader = part.current_leader.clone();
        let is_of_double = leader.leader_id == self.me.replica.id.0 && !self.is_leader();
        if is_of_double && error == Some(ErrorCode::UnknownServerError) {
            self.meet_double(Uuid::ZERO);
            return false;
        }
        let handled = self.learn(
            at,
            ApiKey::Fetch,
            error,
            leader.leader_id,
            leader.leader_epoch,
            &addresses,
        );
        if let Some(is_of_use) = handled {
            return is_of_use;
        }
        let is_follower = matches!(self.role, Role::Follower(_));
        if !is_follower || error != Some(ErrorCode::None) {
            return false;
        }
        let is_empty = match &part.records {
            Some(Records::Bytes(bytes)) => bytes.is_empty(),
            Some(Records::External(_)) => false,
            None => true,
        };
        let is_empty = is_empty && part.diverging_epoch.epoch < 0 && part.snapshot_id.epoch < 0;
        let told = Offset(part.high_watermark);
        let is_of_use = self.take_fetched(at, part);
        self.remember_by(at, is_empty, told);
        if let Role::Follower(state) = &mut self.role
            && is_of_use
        {
            state.hear(at.now, self.settings.fetch_timeout);
            if let Some(leader) = self.election.leader.filter(|_| told >= Offset::ZERO) {
                self.shunned.forget(leader);
            }
        }
        is_of_use
    }

    fn take_fetched(&mut self, at: Moment, part: answered::PartitionData) -> bool {
        let (diverging, snapshot) = (part.diverging_epoch, part.snapshot_id);
        if diverging.epoch >= 0 && diverging.end_offset >= 0 {
            let told = EpochEnd {
                epoch: LeaderEpoch(diverging.epoch),
                end: Offset(diverging.end_offset),
            };
            return self.cut(at, told);
        }
        if snapshot.epoch >= 0 && snapshot.end_offset >= 0 {
            let id = SnapshotId {
                epoch: LeaderEpoch(snapshot.epoch),
                end: Offset(snapshot.end_offset),
            };
            return self.begin_download(at, id);
        }
        if diverging.epoch >= 0 || snapshot.epoch >= 0 || snapshot.end_offset >= 0 {
            return false;
        }
        let is_of_use = match part.records {
            Some(Records::Bytes(bytes)) => self.append_fetched(at, &bytes),
            Some(Records::External(_)) | None => true,
        };
        if part.high_watermark >= 0 {
            let told = Offset(part.high_watermark).min(self.log.end());
            self.watermark = self.watermark.max(Some(told));
        }
        is_of_use
    }

    /// Truncates this log to where it agrees with the leader's, which differs behind `told`.
    fn cut(&mut self, at: Moment, told: EpochEnd) -> bool {
        let to = self.log.lineage().cut_to(told);
        let committed = self.watermark.unwrap_or_default().max(self.log.start());
        if to < committed {
            self.shun_leader(at, to, committed);
            return false;
        }
        if to == self.log.end() {
            // The leader reported a divergence, and its own epochs truncate nothing.
            return false;
        }
        self.log.cut(to);
        self.history.cut(to);
        self.effects.push(Effect::Cut {
            to,
            life: self.log.life(),
        });
        true
    }

    /// Takes the batches of an answer, up to the first that does not fit. True if something fitted, or nothing was there.
    fn append_fetched(&mut self, at: Moment, bytes: &Bytes) -> bool {
        let mut taken = Vec::new();
        let mut is_bad = false;
        for batch in Batch::cut(bytes, Source::Log) {
            let changes = batch.as_ref().ok().map(History::read);
            if let Some(Ok(changes)) = &changes
                && let Some(theirs) = self.other_cluster(changes)
            {
                self.meet_leader_of_other(at, &theirs);
                break;
            }
            match (batch, changes) {
                (Ok(batch), Some(Ok(changes))) if batch.leader_epoch() <= self.election.epoch => {
                    if self.log.note(&batch).is_err() {
                        is_bad = true;
                        break;
                    }
                    self.history.apply(changes);
                    taken.push(batch);
                }
                (Err(BatchError::Truncated { .. }), _) => break,
                _ => {
                    is_bad = true;
                    break;
                }
            }
        }
        if is_bad {
            let at = self.log.end();
            self.alarm_once(Alarm::BadBatch { at });
        }
        let is_of_use = !taken.is_empty() || bytes.is_empty();
        if !taken.is_empty() {
            self.effects.push(Effect::Append {
                batches: taken,
                life: self.log.life(),
            });
        }
        is_of_use
    }
}

/// The largest end that more than half of the voters have reached, of which each may be unknown.
fn majority_end(mut ends: Vec<Option<Offset>>) -> Option<Offset> {
    let middle = ends.len() / 2;
    ends.sort_unstable_by(|a, b| b.cmp(a));
    ends.get(middle).copied().flatten()
}

fn request_part(request: &FetchRequest) -> Option<&asked::FetchPartition> {
    let [topic] = request.topics.as_slice() else {
        return None;
    };
    let is_ours = topic.topic_id == TOPIC_ID || topic.topic == message::TOPIC;
    match topic.partitions.as_slice() {
        [part] if is_ours && part.partition == 0 => Some(part),
        _ => None,
    }
}
