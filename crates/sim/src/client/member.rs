//! A simulated member of a classic consumer group: joins, syncs, beats, commits rising offsets, sometimes sleeps or leaves.
//!
//! Notes who owned which partition in which generation and what was committed, so that two owners, a lost commit and a commit
//! of a member that was thrown out are seen at once.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use env::sim::{Chance, Machine};
use model::Instant;
use wire::messages::join_group_request::JoinGroupRequestProtocol;
use wire::messages::leave_group_request::MemberIdentity;
use wire::messages::offset_commit_request::{
    OffsetCommitRequestPartition, OffsetCommitRequestTopic,
};
use wire::messages::offset_fetch_request::OffsetFetchRequestTopic;
use wire::messages::sync_group_request::SyncGroupRequestAssignment;
use wire::messages::{
    FindCoordinatorRequest, HeartbeatRequest, JoinGroupRequest, JoinGroupResponse,
    LeaveGroupRequest, OffsetCommitRequest, OffsetFetchRequest, SyncGroupRequest,
};
use wire::{ApiKey, ErrorCode};

use super::line::{Answer, Line, LineError};
use super::notes::Notes;

const RECONNECT: Duration = Duration::from_millis(200);
const BEAT: Duration = Duration::from_millis(150);
/// A join is answered when the last member has come or was given up.
const ANSWER_MAX: Duration = Duration::from_secs(10);
pub(crate) const SESSION_MS: i32 = 1_000;
const REBALANCE_MS: i32 = 2_000;

/// What is known of one partition of a group.
#[derive(Debug, Default)]
pub(crate) struct GroupPart {
    /// Highest offset whose commit was acknowledged, and highest that anybody tried to commit.
    acked: i64,
    tried: i64,
    /// Owner in each generation.
    owners: BTreeMap<i32, String>,
    /// Acknowledged commits.
    pub(crate) commits: u64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    /// The coordinator's topic may have to be made first.
    Lost,
    Out,
    Joined,
    Synced,
    /// Knows where to go on.
    Active,
}

pub(crate) struct Member {
    group: String,
    topic: String,
    partitions: i32,
    chance: Chance,
    line: Option<Line>,
    state: State,
    id: String,
    generation: i32,
    owned: BTreeMap<i32, i64>,
    /// Members to assign to, where this one leads.
    led: Vec<String>,
    /// When the question under way was asked; for a commit or a fetch what it is about.
    asked: Option<Instant>,
    /// What was acknowledged before a fetch of offsets, or a commit, was sent.
    floor: BTreeMap<i32, i64>,
    committing: BTreeMap<i32, i64>,
    wake: Instant,
    turn: u64,
}

impl Member {
    pub(crate) fn new(group: &str, topic: &str, partitions: i32, chance: Chance) -> Member {
        Member {
            group: group.to_owned(),
            topic: topic.to_owned(),
            partitions,
            chance,
            line: None,
            state: State::Lost,
            id: String::new(),
            generation: -1,
            owned: BTreeMap::new(),
            led: Vec::new(),
            asked: None,
            floor: BTreeMap::new(),
            committing: BTreeMap::new(),
            wake: Instant(0),
            turn: 0,
        }
    }

    pub(crate) fn wake(&self) -> Instant {
        self.wake
    }

    pub(crate) fn has_news(&self) -> bool {
        self.line.as_ref().is_some_and(Line::has_news)
    }

    pub(crate) fn line(&self) -> Option<&Line> {
        self.line.as_ref()
    }

    pub(crate) fn describe(&self) -> String {
        format!(
            "{} member {:?} {:?} generation {} owns {:?}",
            self.group, self.id, self.state, self.generation, self.owned
        )
    }

    pub(crate) fn act(&mut self, machine: &Machine, notes: &mut Notes) {
        while let Some(line) = &mut self.line {
            let done = match line.poll() {
                Ok(Some(answer)) => self.on_answer(&answer, machine, notes),
                Ok(None) => break,
                Err(error) => Err(error),
            };
            if let Err(error) = done {
                if let LineError::Nonsense(what) = error {
                    notes.violation(format!("member of {}: {what}", self.group));
                }
                self.hang_up(machine, notes);
            }
        }
        if machine.now() >= self.wake {
            self.on_wake(machine, notes);
        }
    }

    fn hang_up(&mut self, machine: &Machine, notes: &mut Notes) {
        self.line = None;
        if self.asked.take().is_some() {
            notes.unanswered += 1;
        }
        // What was on its way may be in the group: only joining again tells.
        self.rejoin();
        self.wake = machine.now().plus(RECONNECT);
    }

    fn rejoin(&mut self) {
        if self.state != State::Lost {
            self.state = State::Out;
        }
        self.owned.clear();
        self.committing.clear();
    }

    fn on_wake(&mut self, machine: &Machine, notes: &mut Notes) {
        let now = machine.now();
        self.wake = now.plus(Duration::from_millis(self.chance.between(20, 150)));
        if self.line.is_none() {
            self.line = Line::open(machine).ok();
            if self.line.is_none() {
                self.wake = now.plus(RECONNECT);
            }
            return;
        }
        match self.asked {
            Some(asked) if now.since(asked) > ANSWER_MAX => self.hang_up(machine, notes),
            Some(_) => {}
            None => {
                self.ask(notes);
                self.asked = Some(now);
                if self.state == State::Active && self.chance.one_in(60) {
                    // Asleep for longer than its session: it comes back as a member that was thrown out.
                    self.wake = now.plus(Duration::from_millis(SESSION_MS as u64 * 2));
                }
            }
        }
    }

    fn ask(&mut self, notes: &mut Notes) {
        self.turn += 1;
        let Some(line) = &mut self.line else { return };
        match self.state {
            State::Lost => {
                let request = FindCoordinatorRequest {
                    key: self.group.clone(),
                    ..Default::default()
                };
                line.ask(&request, 3, true);
            }
            State::Out => {
                let request = JoinGroupRequest {
                    group_id: self.group.clone(),
                    session_timeout_ms: SESSION_MS,
                    rebalance_timeout_ms: REBALANCE_MS,
                    member_id: self.id.clone(),
                    protocol_type: "consumer".to_owned(),
                    protocols: vec![JoinGroupRequestProtocol {
                        name: "round".to_owned(),
                        metadata: bytes::Bytes::from_static(b"m"),
                    }],
                    ..Default::default()
                };
                line.ask(&request, 5, true);
            }
            State::Joined => {
                let assignments = self.assignments();
                let request = SyncGroupRequest {
                    group_id: self.group.clone(),
                    generation_id: self.generation,
                    member_id: self.id.clone(),
                    assignments,
                    ..Default::default()
                };
                if let Some(line) = &mut self.line {
                    line.ask(&request, 3, true);
                }
            }
            State::Synced => self.fetch(notes),
            State::Active => self.go_on(notes),
        }
    }

    fn assignments(&self) -> Vec<SyncGroupRequestAssignment> {
        let count = self.led.len().max(1);
        self.led
            .iter()
            .enumerate()
            .map(|(place, member)| SyncGroupRequestAssignment {
                member_id: member.clone(),
                assignment: (0..self.partitions)
                    .filter(|partition| *partition as usize % count == place)
                    .map(|partition| partition as u8)
                    .collect::<Vec<u8>>()
                    .into(),
            })
            .collect()
    }

    fn fetch(&mut self, notes: &mut Notes) {
        self.floor = self
            .owned
            .keys()
            .map(|partition| (*partition, notes.part(&self.group, *partition).acked))
            .collect();
        let request = OffsetFetchRequest {
            group_id: self.group.clone(),
            topics: Some(vec![OffsetFetchRequestTopic {
                name: self.topic.clone(),
                partition_indexes: self.owned.keys().copied().collect(),
            }]),
            ..Default::default()
        };
        if let Some(line) = &mut self.line {
            line.ask(&request, 5, true);
        }
    }

    fn go_on(&mut self, notes: &mut Notes) {
        let Some(line) = &mut self.line else { return };
        if self.chance.one_in(80) {
            let request = LeaveGroupRequest {
                group_id: self.group.clone(),
                members: vec![MemberIdentity {
                    member_id: self.id.clone(),
                    ..Default::default()
                }],
                ..Default::default()
            };
            line.ask(&request, 3, true);
        } else if self.turn.is_multiple_of(2) && !self.owned.is_empty() {
            self.committing = self
                .owned
                .iter()
                .map(|(partition, at)| (*partition, at + 1))
                .collect();
            for (partition, offset) in &self.committing {
                let part = notes.part(&self.group, *partition);
                part.tried = part.tried.max(*offset);
                self.floor.insert(*partition, part.acked);
            }
            let partitions = self
                .committing
                .iter()
                .map(|(partition, offset)| OffsetCommitRequestPartition {
                    partition_index: *partition,
                    committed_offset: *offset,
                    committed_metadata: Some(String::new()),
                    ..Default::default()
                })
                .collect();
            let request = OffsetCommitRequest {
                group_id: self.group.clone(),
                generation_id_or_member_epoch: self.generation,
                member_id: self.id.clone(),
                topics: vec![OffsetCommitRequestTopic {
                    name: self.topic.clone(),
                    partitions,
                    ..Default::default()
                }],
                ..Default::default()
            };
            line.ask(&request, 7, true);
        } else {
            let request = HeartbeatRequest {
                group_id: self.group.clone(),
                generation_id: self.generation,
                member_id: self.id.clone(),
                ..Default::default()
            };
            line.ask(&request, 3, true);
        }
    }

    fn on_answer(
        &mut self,
        answer: &Answer,
        machine: &Machine,
        notes: &mut Notes,
    ) -> Result<(), LineError> {
        self.asked = None;
        match answer.key() {
            ApiKey::FindCoordinator => {
                let found = answer.decode::<FindCoordinatorRequest>()?;
                match code(found.error_code)? {
                    ErrorCode::None => self.state = State::Out,
                    other => self.on_error(other),
                }
            }
            ApiKey::JoinGroup => self.on_joined(answer.decode::<JoinGroupRequest>()?)?,
            ApiKey::SyncGroup => {
                let response = answer.decode::<SyncGroupRequest>()?;
                match code(response.error_code)? {
                    ErrorCode::None => self.on_synced(&response.assignment, notes)?,
                    other => self.on_error(other),
                }
            }
            ApiKey::OffsetFetch => {
                let response = answer.decode::<OffsetFetchRequest>()?;
                match code(response.error_code)? {
                    ErrorCode::None => {
                        for partition in response.topics.iter().flat_map(|topic| &topic.partitions)
                        {
                            if partition.error_code == 0 {
                                self.on_position(
                                    partition.partition_index,
                                    partition.committed_offset,
                                    notes,
                                );
                            }
                        }
                        self.state = State::Active;
                    }
                    other => self.on_error(other),
                }
            }
            ApiKey::OffsetCommit => {
                let response = answer.decode::<OffsetCommitRequest>()?;
                for partition in response.topics.iter().flat_map(|topic| &topic.partitions) {
                    match code(partition.error_code)? {
                        ErrorCode::None => self.on_committed(partition.partition_index, notes),
                        other => self.on_error(other),
                    }
                }
            }
            ApiKey::LeaveGroup => {
                answer.decode::<LeaveGroupRequest>()?;
                self.id.clear();
                self.rejoin();
            }
            ApiKey::Heartbeat => match code(answer.decode::<HeartbeatRequest>()?.error_code)? {
                ErrorCode::None => {}
                other => self.on_error(other),
            },
            _ => {}
        }
        let pause = if self.state == State::Active {
            BEAT.as_millis() as u64
        } else {
            20
        };
        let wake = machine
            .now()
            .plus(Duration::from_millis(self.chance.between(1, pause)));
        // A sleeper goes on sleeping.
        if self.wake <= machine.now().plus(BEAT * 2) {
            self.wake = wake;
        }
        Ok(())
    }

    fn on_error(&mut self, code: ErrorCode) {
        match code {
            ErrorCode::UnknownMemberId => {
                self.id.clear();
                self.rejoin();
            }
            ErrorCode::NotCoordinator => {
                self.rejoin();
                self.state = State::Lost;
            }
            // The group is being loaded, or the disk is full: the same again later.
            ErrorCode::CoordinatorLoadInProgress | ErrorCode::CoordinatorNotAvailable => {}
            _ => self.rejoin(),
        }
    }

    fn on_joined(&mut self, response: JoinGroupResponse) -> Result<(), LineError> {
        match code(response.error_code)? {
            ErrorCode::None => {
                self.state = State::Joined;
                self.led = match response.leader == response.member_id {
                    true => response
                        .members
                        .into_iter()
                        .map(|member| member.member_id)
                        .collect(),
                    false => Vec::new(),
                };
                self.id = response.member_id;
                self.generation = response.generation_id;
            }
            ErrorCode::MemberIdRequired => self.id = response.member_id,
            other => self.on_error(other),
        }
        Ok(())
    }

    /// No two members own a partition in one generation.
    fn on_synced(&mut self, assignment: &[u8], notes: &mut Notes) -> Result<(), LineError> {
        let owned: BTreeSet<i32> = assignment.iter().map(|byte| i32::from(*byte)).collect();
        if owned.iter().any(|partition| *partition >= self.partitions) {
            return Err(LineError::Nonsense(
                "an assignment that nobody made".to_owned(),
            ));
        }
        for partition in &owned {
            let part = notes.part(&self.group, *partition);
            let before = part.owners.insert(self.generation, self.id.clone());
            if let Some(other) = before.filter(|other| *other != self.id) {
                notes.violation(format!(
                    "{}: partition {partition} belongs to {other} and to {} in generation {}",
                    self.group, self.id, self.generation
                ));
            }
        }
        self.owned = owned.into_iter().map(|partition| (partition, 0)).collect();
        self.state = State::Synced;
        Ok(())
    }

    /// What was acknowledged before the question is in the answer, and nothing that nobody tried.
    fn on_position(&mut self, partition: i32, committed: i64, notes: &mut Notes) {
        let floor = self.floor.get(&partition).copied().unwrap_or(0);
        let tried = notes.part(&self.group, partition).tried;
        if committed.max(0) < floor || committed > tried {
            notes.violation(format!(
                "{}: partition {partition} is committed at {committed}, acknowledged was {floor}, tried {tried}",
                self.group
            ));
        }
        if let Some(at) = self.owned.get_mut(&partition) {
            *at = committed.max(0);
        }
    }

    fn on_committed(&mut self, partition: i32, notes: &mut Notes) {
        let Some(offset) = self.committing.get(&partition).copied() else {
            return;
        };
        let floor = self.floor.get(&partition).copied().unwrap_or(0);
        let part = notes.part(&self.group, partition);
        part.commits += 1;
        part.acked = part.acked.max(offset);
        if offset <= floor {
            // A member that was thrown out before an owner after it committed more.
            notes.violation(format!(
                "{}: partition {partition}: a commit of {offset} was taken that was sent after one of {floor}",
                self.group
            ));
        }
        if let Some(at) = self.owned.get_mut(&partition) {
            *at = offset;
        }
    }
}

fn code(code: i16) -> Result<ErrorCode, LineError> {
    ErrorCode::try_from(code).map_err(|error| LineError::Nonsense(error.to_string()))
}
