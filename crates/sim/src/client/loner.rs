//! A consumer without a group's members: it commits rising offsets, several before it has heard of the first, and looks what is
//! committed.
//!
//! Whatever was acknowledged before it looks is there, and nothing that nobody tried or that was refused for certain. Commits of a
//! connection that was lost may still arrive, after newer ones: for a while each of them is as good as the newest.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::time::Duration;

use env::sim::{Chance, Outside};
use model::Instant;
use wire::messages::offset_commit_request::{
    OffsetCommitRequestPartition, OffsetCommitRequestTopic,
};
use wire::messages::offset_fetch_request::OffsetFetchRequestTopic;
use wire::messages::{FindCoordinatorRequest, OffsetCommitRequest, OffsetFetchRequest};
use wire::{ApiKey, ErrorCode};

use super::keep::{ANSWER_MAX, Client, Link};
use super::line::{Line, LineError, RawAnswer, code, nonsense};
use super::notes::Notes;
use super::requests::{GROUP, STRAY_MAX, find_coordinator};

const RECONNECT: Duration = Duration::from_millis(150);
const COMMIT_VERSION: i16 = 8;
const FETCH_VERSION: i16 = 5;
/// Requests under way at a time, and those that are sent at once.
const IN_FLIGHT_MAX: usize = 6;
const TOGETHER_MAX: u64 = 3;
/// A refusal that comes sooner was given to what was not written: none that waited for the disk is (`offsets.commit.timeout.ms`).
const PROMPT_MAX: Duration = Duration::from_secs(4);

enum Asked {
    Coordinator,
    Commit {
        partition: i32,
        offset: i64,
        at: Instant,
    },
    /// The offsets that must be there at least, of each partition.
    Look(Vec<i64>),
}

/// The knowledge about one partition.
#[derive(Default)]
struct Mark {
    tried: i64,
    acked: i64,
    refused: BTreeSet<i64>,
    /// Commits on connections that were lost, and until when they may arrive.
    strays: BTreeMap<i64, Instant>,
}

impl Mark {
    fn floor(&self) -> i64 {
        let strays = self.strays.keys().copied();
        strays.chain([self.acked]).min().unwrap_or(self.acked)
    }
}

pub(crate) struct Loner {
    group: String,
    topic: String,
    marks: Vec<Mark>,
    chance: Chance,
    link: Link,
    is_lost: bool,
    asked: VecDeque<Asked>,
    /// No disk fails or is full: what is refused at once is refused for certain, whatever the code leaves open.
    is_disk_sound: bool,
    /// Commits that were acknowledged, and looks.
    pub(crate) commits: u64,
    pub(crate) looks: u64,
}

impl Client for Loner {
    fn link(&self) -> &Link {
        &self.link
    }

    fn link_mut(&mut self) -> &mut Link {
        &mut self.link
    }

    fn name(&self) -> String {
        self.group.clone()
    }

    fn on_answer(
        &mut self,
        answer: &RawAnswer,
        world: &Outside,
        notes: &mut Notes,
    ) -> Result<(), LineError> {
        let now = world.now();
        let asked = self.asked.pop_front();
        self.link.asked = (!self.asked.is_empty()).then_some(now);
        match (asked, answer.key()) {
            (Some(Asked::Coordinator), ApiKey::FindCoordinator) => {
                let found = answer.decode::<FindCoordinatorRequest>()?;
                self.is_lost = code(found.error_code)? != ErrorCode::None;
            }
            (
                Some(Asked::Commit {
                    partition,
                    offset,
                    at,
                }),
                ApiKey::OffsetCommit,
            ) => {
                let told = answer.decode::<OffsetCommitRequest>()?.topics;
                let mut told = told.iter().flat_map(|topic| &topic.partitions);
                let told = told
                    .next()
                    .ok_or_else(|| nonsense("an answer of nothing"))?;
                let is_prompt = self.is_disk_sound && now.since(at) < PROMPT_MAX;
                let error = code(told.error_code)?;
                let is_met = notes.squeezed_at.is_some_and(|since| since <= at);
                if is_met && is_judged(error, is_prompt) {
                    notes.squeezed_at = None;
                    notes.squeezes_met += 1;
                }
                self.on_told((partition, offset), error, is_prompt, notes);
            }
            (Some(Asked::Look(floors)), ApiKey::OffsetFetch) => {
                let told = answer.decode::<OffsetFetchRequest>()?;
                match code(told.error_code)? {
                    ErrorCode::None => self.looks += 1,
                    error => self.is_lost |= error == ErrorCode::NotCoordinator,
                }
                for of in told.topics.iter().flat_map(|topic| &topic.partitions) {
                    if of.error_code == 0 {
                        self.judge(of.partition_index, of.committed_offset, &floors, notes);
                    }
                }
            }
            (_, key) => return Err(nonsense(format!("an answer of {key:?} to something else"))),
        }
        Ok(())
    }

    fn hang_up(&mut self, world: &Outside, notes: &mut Notes) {
        let until = world.now().plus(STRAY_MAX);
        for asked in std::mem::take(&mut self.asked) {
            if let Asked::Commit {
                partition, offset, ..
            } = asked
            {
                self.marks[partition as usize].strays.insert(offset, until);
            }
        }
        self.link.lose(world.now(), notes);
    }

    fn on_wake(&mut self, world: &Outside, notes: &mut Notes) {
        let now = world.now();
        self.link.wake = now.plus(Duration::from_millis(self.chance.between(2, 40)));
        if self.link.line.is_none() {
            self.link.open(world, notes);
            return;
        }
        let answer_max = self.link.answer_max(ANSWER_MAX);
        let is_silent = |asked| now.since(asked) > answer_max;
        if self.link.asked.is_some_and(is_silent) {
            self.hang_up(world, notes);
            return;
        }
        for mark in &mut self.marks {
            mark.strays.retain(|_, until| now < *until);
        }
        for _ in 0..self.chance.between(1, TOGETHER_MAX) {
            let Some(unanswered) = self.link.line.as_ref().map(Line::unanswered) else {
                return;
            };
            if unanswered < IN_FLIGHT_MAX && !(self.is_lost && unanswered > 0) {
                self.ask(now);
            }
        }
    }
}

/// True if the size of a commit was judged. Where another broker has the leadership, the log is read, or too few replicas are in sync, it is not.
fn is_judged(error: ErrorCode, is_prompt: bool) -> bool {
    let is_forgotten = is_prompt && error == ErrorCode::CoordinatorNotAvailable;
    is_forgotten || matches!(error, ErrorCode::None | ErrorCode::UnknownServerError)
}

impl Loner {
    pub(crate) fn new(
        number: usize,
        (topic, partitions): (String, i32),
        is_disk_sound: bool,
        chance: Chance,
    ) -> Loner {
        Loner {
            group: format!("loner-{number}"),
            topic,
            marks: (0..partitions).map(|_| Mark::default()).collect(),
            chance,
            link: Link::new(Instant(0), RECONNECT),
            is_lost: true,
            asked: VecDeque::new(),
            is_disk_sound,
            commits: 0,
            looks: 0,
        }
    }

    pub(crate) fn group(&self) -> &str {
        &self.group
    }

    fn ask(&mut self, now: Instant) {
        if self.is_lost && self.link.leave() {
            self.is_lost = false;
        } else if self.is_lost {
            let request = find_coordinator(&self.group, GROUP);
            self.link.ask(&request, 3, now);
            self.asked.push_back(Asked::Coordinator);
        } else if self.chance.one_in(3) {
            self.look(now);
        } else {
            self.commit(now);
        }
    }

    fn commit(&mut self, now: Instant) {
        let partition = self.chance.below(self.marks.len() as u64) as i32;
        let mark = &mut self.marks[partition as usize];
        mark.tried += 1;
        let offset = mark.tried;
        let request = OffsetCommitRequest {
            group_id: self.group.clone(),
            generation_id_or_member_epoch: -1,
            topics: vec![OffsetCommitRequestTopic {
                name: self.topic.clone(),
                partitions: vec![OffsetCommitRequestPartition {
                    partition_index: partition,
                    committed_offset: offset,
                    ..Default::default()
                }],
                ..Default::default()
            }],
            ..Default::default()
        };
        self.link.ask(&request, COMMIT_VERSION, now);
        let at = now;
        self.asked.push_back(Asked::Commit {
            partition,
            offset,
            at,
        });
    }

    fn look(&mut self, now: Instant) {
        let topic = OffsetFetchRequestTopic {
            name: self.topic.clone(),
            partition_indexes: (0..self.marks.len() as i32).collect(),
        };
        let request = OffsetFetchRequest {
            group_id: self.group.clone(),
            topics: Some(vec![topic]),
            ..Default::default()
        };
        self.link.ask(&request, FETCH_VERSION, now);
        let floors = self.marks.iter().map(Mark::floor).collect();
        self.asked.push_back(Asked::Look(floors));
    }

    fn on_told(
        &mut self,
        (partition, offset): (i32, i64),
        error: ErrorCode,
        is_prompt: bool,
        notes: &mut Notes,
    ) {
        let mark = &mut self.marks[partition as usize];
        if error == ErrorCode::None {
            mark.acked = mark.acked.max(offset);
            self.commits += 1;
            return;
        }
        if is_prompt || broker::leaves_unknown(error).is_none() {
            mark.refused.insert(offset);
        }
        match error {
            ErrorCode::UnknownServerError => notes.too_large += 1,
            ErrorCode::CoordinatorNotAvailable if is_prompt => notes.forgotten += 1,
            ErrorCode::NotCoordinator => self.is_lost = true,
            _ => {}
        }
    }

    fn judge(&self, partition: i32, found: i64, floors: &[i64], notes: &mut Notes) {
        let at = usize::try_from(partition).unwrap_or(usize::MAX);
        let (Some(mark), Some(floor)) = (self.marks.get(at), floors.get(at)) else {
            return;
        };
        let (group, tried) = (&self.group, mark.tried);
        if found.max(0) < *floor || tried < found {
            notes.violation(format!(
                "{group}: partition {partition} is committed at {found}, acknowledged was {floor}, tried {tried}"
            ));
        }
        if mark.refused.contains(&found) {
            notes.violation(format!(
                "{group}: partition {partition} is committed at {found}, which was refused"
            ));
        }
    }
}
