//! A simulated member of a consumer group: joins by one of the two protocols, commits rising offsets, sometimes sleeps or leaves.
//!
//! Owns the connection and the offsets of what the member owns; the protocols decide what that is. Notes who held which partition
//! and what was committed, so that two owners, a lost commit and a commit of a member that was thrown out are seen at once.

mod classic;
mod consumer;

use std::collections::BTreeMap;
use std::time::Duration;

use env::sim::{Chance, Outside};
use model::Instant;
use wire::messages::offset_commit_request::{
    OffsetCommitRequestPartition, OffsetCommitRequestTopic,
};
use wire::messages::offset_fetch_request::{OffsetFetchRequestGroup, OffsetFetchRequestTopics};
use wire::messages::{FindCoordinatorRequest, OffsetCommitRequest, OffsetFetchRequest};
use wire::{ApiKey, ErrorCode};

use super::keep::{Client, Link};
use super::line::{LineError, RawAnswer, code, nonsense};
use super::notes::Notes;
use super::requests::{GROUP, find_coordinator};
use classic::Classic;
use consumer::Consumer;

const RECONNECT: Duration = Duration::from_millis(200);
const BEAT: Duration = Duration::from_millis(150);
/// A join is answered when the last member has come or was given up.
const ANSWER_MAX: Duration = Duration::from_secs(10);
pub(crate) const SESSION_MS: i32 = 1_000;
const REBALANCE_MS: i32 = 2_000;
/// Versions that know of members of both protocols.
const COMMIT_VERSION: i16 = 9;
const FETCH_VERSION: i16 = 9;

/// The knowledge about one partition of a group.
#[derive(Debug, Default)]
pub(crate) struct GroupPart {
    /// Highest offset whose commit was acknowledged, and highest that anybody tried to commit.
    acked: i64,
    pub(crate) tried: i64,
    /// Classic protocol: owner in each generation.
    owners: BTreeMap<i32, String>,
    /// Members that believe to own it, and until when they may.
    holders: BTreeMap<u32, Instant>,
    /// Acknowledged commits.
    pub(crate) commits: u64,
}

/// How a group shares out its partitions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum GroupProtocol {
    Classic,
    /// KIP-848.
    Consumer,
    /// Members of both, that change from one to the other when they leave.
    Mixed,
}

enum Protocol {
    Classic(Classic),
    Consumer(Consumer),
}

/// The next question of a member.
enum Wish {
    /// Asked by the protocol itself.
    Asked,
    /// Where to go on in the partitions that it owns.
    Positions,
    /// To commit, to beat or to leave: the member picks.
    Any,
}

/// The meaning of an answer for the member.
enum Effect {
    Nothing,
    /// The member owns nothing any more.
    ThrownOut,
    /// Another process came for its instance.
    Fenced,
    /// Another broker, perhaps: ask where the coordinator is.
    Moved,
}

/// Partitions that the member owns.
#[derive(Default)]
struct Held {
    /// Next offset to commit is one more; `None` until it was asked for.
    positions: BTreeMap<i32, Option<i64>>,
    /// The offsets acknowledged before a fetch of offsets, or a commit, was sent.
    floor: BTreeMap<i32, i64>,
    committing: BTreeMap<i32, i64>,
}

pub(crate) struct Member {
    /// Names the member among all clients of the run.
    number: u32,
    /// Of a static member (KIP-345).
    instance: Option<String>,
    /// Another process runs for the same instance. Each fences the other, who hears of it later: what it believes counts for
    /// nothing, only what it may commit.
    is_shared: bool,
    is_mixed: bool,
    /// Requests may arrive long after their connection was given up. By a late join of the classic protocol a member has joined
    /// a rebalance that it knows nothing of: then only the generation tells owners apart.
    is_delayed: bool,
    group: String,
    topic: String,
    partitions: i32,
    chance: Chance,
    link: Link,
    /// The coordinator's topic may have to be made first.
    is_lost: bool,
    held: Held,
    protocol: Protocol,
    turn: u64,
}

impl Client for Member {
    fn link(&self) -> &Link {
        &self.link
    }

    fn link_mut(&mut self) -> &mut Link {
        &mut self.link
    }

    fn name(&self) -> String {
        format!("member of {}", self.group)
    }

    fn on_answer(
        &mut self,
        answer: &RawAnswer,
        world: &Outside,
        notes: &mut Notes,
    ) -> Result<(), LineError> {
        let asked = self.link.asked.take().unwrap_or(world.now());
        let effect = match answer.key() {
            ApiKey::FindCoordinator => {
                let found = answer.decode::<FindCoordinatorRequest>()?;
                self.is_lost = code(found.error_code)? != ErrorCode::None;
                Effect::Nothing
            }
            ApiKey::OffsetFetch => {
                let response = answer.decode::<OffsetFetchRequest>()?;
                self.on_positions(&response, notes)?
            }
            ApiKey::OffsetCommit => {
                let response = answer.decode::<OffsetCommitRequest>()?;
                let (mut effect, mut is_taken) = (Effect::Nothing, false);
                for partition in response.topics.iter().flat_map(|topic| &topic.partitions) {
                    match code(partition.error_code)? {
                        ErrorCode::None => {
                            is_taken = true;
                            self.on_committed(partition.partition_index, notes);
                        }
                        error => effect = self.on_error(error),
                    }
                }
                // Some errors leave the member as it is, and say nothing about its instance.
                if is_taken {
                    self.judge_instance(asked, notes);
                }
                effect
            }
            _ => match &mut self.protocol {
                Protocol::Classic(classic) => {
                    let (effect, owned) = classic.on_answer(answer, asked)?;
                    if let Some(owned) = owned {
                        notes.resumed += u64::from(classic.has_resumed());
                        self.on_generation(&owned, notes);
                        self.is_instance((asked, world.now()), notes);
                        self.take(&owned, world.now(), notes)?;
                    }
                    self.renew_belief(notes);
                    effect
                }
                Protocol::Consumer(consumer) => {
                    let was_out = consumer.is_out();
                    let (effect, assigned) = consumer.on_answer(answer, asked, &self.held)?;
                    if was_out && !consumer.is_out() {
                        self.is_instance((asked, world.now()), notes);
                    }
                    if let Some(assigned) = assigned {
                        self.take(&assigned, world.now(), notes)?;
                    }
                    self.renew_belief(notes);
                    effect
                }
            },
        };
        let is_fenced = matches!(effect, Effect::Fenced);
        self.suffer(effect, notes);
        let pause = if self.held.positions.is_empty() {
            20
        } else {
            BEAT.as_millis() as u64
        };
        let wake = world
            .now()
            .plus(Duration::from_millis(self.chance.between(1, pause)));
        // A sleeper goes on sleeping.
        if self.link.wake <= world.now().plus(BEAT * 2) {
            self.link.wake = wake;
        }
        if is_fenced {
            // The other one gets its time.
            notes.shut_out += 1;
            let pause = Duration::from_millis(self.chance.between(1_000, 4_000));
            self.link.wake = world.now().plus(pause);
        }
        Ok(())
    }

    fn hang_up(&mut self, world: &Outside, notes: &mut Notes) {
        self.link.lose(world.now(), notes);
        self.held.committing.clear();
        let effect = match &mut self.protocol {
            Protocol::Classic(classic) => classic.on_silence(),
            Protocol::Consumer(consumer) => consumer.on_silence(),
        };
        self.suffer(effect, notes);
    }

    fn on_wake(&mut self, world: &Outside, notes: &mut Notes) {
        let now = world.now();
        let pause = Duration::from_millis(self.chance.between(20, 150));
        if !self.may_ask(pause, ANSWER_MAX, world, notes) {
            return;
        }
        self.ask(now, notes);
        if !self.held.positions.is_empty() && self.chance.one_in(60) {
            // Asleep for longer than its session: it comes back as a member that was thrown out.
            self.link.wake = now.plus(Duration::from_millis(SESSION_MS as u64 * 2));
        }
    }
}

impl Member {
    pub(crate) fn new(
        protocol: GroupProtocol,
        group: &str,
        topic: &str,
        partitions: i32,
        mut chance: Chance,
        notes: &mut Notes,
    ) -> Member {
        let is_mixed = protocol == GroupProtocol::Mixed;
        let is_classic = protocol == GroupProtocol::Classic || is_mixed && chance.one_in(2);
        let protocol = if is_classic {
            Protocol::Classic(Classic::new(None))
        } else {
            Protocol::Consumer(Consumer::new(&mut chance, None))
        };
        Member {
            number: notes.process(),
            instance: None,
            is_shared: false,
            is_mixed,
            is_delayed: false,
            group: group.to_owned(),
            topic: topic.to_owned(),
            partitions,
            chance,
            link: Link::new(Instant(0), RECONNECT),
            is_lost: true,
            held: Held::default(),
            protocol,
            turn: 0,
        }
    }

    pub(crate) fn delayed(self, is_delayed: bool) -> Member {
        Member { is_delayed, ..self }
    }

    /// Makes it a static member.
    pub(crate) fn of_instance(mut self, instance: String, is_shared: bool) -> Member {
        self.is_shared = is_shared;
        self.instance = Some(instance);
        let is_classic = matches!(self.protocol, Protocol::Classic(_));
        self.play(is_classic);
        self
    }

    /// Begins anew, by this protocol.
    fn play(&mut self, is_classic: bool) {
        let instance = self.instance.clone();
        self.protocol = if is_classic {
            Protocol::Classic(Classic::new(instance))
        } else {
            Protocol::Consumer(Consumer::new(&mut self.chance, instance))
        };
    }

    pub(crate) fn group(&self) -> &str {
        &self.group
    }

    pub(crate) fn describe(&self) -> String {
        let (id, epoch) = self.credentials();
        format!(
            "{} member {id:?} epoch {epoch} {}owns {:?}",
            self.group,
            if self.is_lost { "lost " } else { "" },
            self.held.positions
        )
    }

    /// Member id, and generation or epoch.
    fn credentials(&self) -> (&str, i32) {
        match &self.protocol {
            Protocol::Classic(classic) => classic.credentials(),
            Protocol::Consumer(consumer) => consumer.credentials(),
        }
    }

    fn suffer(&mut self, effect: Effect, notes: &mut Notes) {
        match effect {
            Effect::Nothing => return,
            Effect::ThrownOut | Effect::Fenced => {}
            Effect::Moved => self.is_lost = true,
        }
        self.held.committing.clear();
        // A member that only asks where the coordinator is stays one in the consumer protocol.
        if matches!(
            (&effect, &self.protocol),
            (Effect::Moved, Protocol::Consumer(_))
        ) {
            return;
        }
        for partition in std::mem::take(&mut self.held.positions).keys() {
            let part = notes.part(&self.group, *partition);
            part.holders.remove(&self.number);
        }
    }

    fn ask(&mut self, now: Instant, notes: &mut Notes) {
        self.turn += 1;
        let (link, group, topic) = (&mut self.link, &self.group, &self.topic);
        if self.is_lost && link.leave() {
            self.is_lost = false;
            return;
        }
        if self.is_lost {
            link.ask(&find_coordinator(group, GROUP), 3, now);
            return;
        }
        let wish = match &mut self.protocol {
            Protocol::Classic(classic) => classic.ask(link, group, topic, self.partitions, now),
            Protocol::Consumer(consumer) => consumer.wish(link, group, topic, &self.held, now),
        };
        match wish {
            Wish::Asked => {}
            Wish::Positions => self.fetch(now, notes),
            Wish::Any => self.go_on(now, notes),
        }
    }

    fn fetch(&mut self, now: Instant, notes: &mut Notes) {
        self.held.floor = self
            .held
            .positions
            .keys()
            .map(|partition| (*partition, notes.part(&self.group, *partition).acked))
            .collect();
        let (id, epoch) = self.credentials();
        let is_consumer = matches!(self.protocol, Protocol::Consumer(_));
        let request = OffsetFetchRequest {
            groups: vec![OffsetFetchRequestGroup {
                group_id: self.group.clone(),
                member_id: is_consumer.then(|| id.to_owned()),
                member_epoch: if is_consumer { epoch } else { -1 },
                topics: Some(vec![OffsetFetchRequestTopics {
                    name: self.topic.clone(),
                    partition_indexes: self.held.positions.keys().copied().collect(),
                    ..Default::default()
                }]),
            }],
            ..Default::default()
        };
        self.link.ask(&request, FETCH_VERSION, now);
    }

    fn go_on(&mut self, now: Instant, notes: &mut Notes) {
        if self.instance.is_some() && self.chance.one_in(40) {
            self.restart(notes);
        } else if self.chance.one_in(80) {
            let (link, group) = (&mut self.link, &self.group);
            match &mut self.protocol {
                Protocol::Classic(classic) => classic.leave(link, group, now),
                Protocol::Consumer(consumer) => {
                    consumer.leave(link, group, now, &mut self.chance);
                }
            }
            // Nothing is touched after the farewell.
            self.suffer(Effect::ThrownOut, notes);
            if self.is_mixed && self.chance.one_in(2) {
                let is_classic = matches!(self.protocol, Protocol::Classic(_));
                self.play(!is_classic);
                notes.switched += 1;
            }
        } else if self.turn.is_multiple_of(2) && !self.held.positions.is_empty() {
            self.commit(now, notes);
        } else {
            self.beat(now, notes);
        }
    }

    /// A static member ends without a word and begins again, as one that nobody has to wait for.
    fn restart(&mut self, notes: &mut Notes) {
        self.suffer(Effect::ThrownOut, notes);
        match &mut self.protocol {
            Protocol::Classic(classic) => classic.restart(),
            Protocol::Consumer(consumer) => consumer.restart(&mut self.chance),
        }
    }

    /// The coordinator knew this process as that of its instance when it answered a question of that time.
    fn is_instance(&self, (asked, answered): (Instant, Instant), notes: &mut Notes) {
        if let Some(instance) = &self.instance {
            let known = notes.instances.entry(instance.clone()).or_default();
            known.insert(self.number, (asked, answered));
        }
    }

    /// A commit was taken that was sent at `asked`: nobody may have had the place by then who asked for it after we last had it.
    /// A member whose question was on its way together with ours may have come before us, whatever answer arrived first.
    fn judge_instance(&self, asked: Instant, notes: &mut Notes) {
        let Some(instance) = &self.instance else {
            return;
        };
        let Some(known) = notes.instances.get(instance) else {
            return;
        };
        let since = known
            .get(&self.number)
            .map_or(Instant(0), |(_, since)| *since);
        let mut others = known.iter().filter(|(other, _)| **other != self.number);
        let fencing = others.find(|(_, (claimed, had))| since < *claimed && *had < asked);
        if let Some((other, _)) = fencing {
            let (group, number) = (&self.group, self.number);
            notes.violation(format!(
                "{group}: a commit of member {number} was taken, which was fenced by {other} as {instance}"
            ));
        }
    }

    fn beat(&mut self, now: Instant, notes: &mut Notes) {
        let link = &mut self.link;
        match &mut self.protocol {
            Protocol::Classic(classic) => classic.beat(link, &self.group, now),
            Protocol::Consumer(consumer) => {
                for partition in consumer.lets_go(&mut self.chance) {
                    self.held.positions.remove(&partition);
                    let part = notes.part(&self.group, partition);
                    part.holders.remove(&self.number);
                }
                consumer.beat(link, &self.group, &self.topic, &self.held, now);
            }
        }
    }

    fn commit(&mut self, now: Instant, notes: &mut Notes) {
        self.held.committing = self
            .held
            .positions
            .iter()
            .filter_map(|(partition, at)| at.map(|at| (*partition, at + 1)))
            .collect();
        for (partition, offset) in &self.held.committing {
            let part = notes.part(&self.group, *partition);
            part.tried = part.tried.max(*offset);
            self.held.floor.insert(*partition, part.acked);
        }
        let partitions = self
            .held
            .committing
            .iter()
            .map(|(partition, offset)| OffsetCommitRequestPartition {
                partition_index: *partition,
                committed_offset: *offset,
                committed_metadata: Some(String::new()),
                ..Default::default()
            })
            .collect();
        let (id, epoch) = self.credentials();
        let request = OffsetCommitRequest {
            group_id: self.group.clone(),
            generation_id_or_member_epoch: epoch,
            member_id: id.to_owned(),
            group_instance_id: match &self.protocol {
                Protocol::Classic(_) => self.instance.clone(),
                Protocol::Consumer(_) => None,
            },
            topics: vec![OffsetCommitRequestTopic {
                name: self.topic.clone(),
                partitions,
                ..Default::default()
            }],
            ..Default::default()
        };
        self.link.ask(&request, COMMIT_VERSION, now);
    }

    fn on_error(&mut self, error: ErrorCode) -> Effect {
        match &mut self.protocol {
            Protocol::Classic(classic) => classic.on_error(error),
            Protocol::Consumer(consumer) => consumer.on_error(error),
        }
    }

    /// Classic: no two members own a partition in one generation. Where members of both protocols are, a group that was empty may
    /// begin its numbers anew.
    fn on_generation(&self, owned: &[i32], notes: &mut Notes) {
        if self.is_mixed {
            return;
        }
        let (id, generation) = self.credentials();
        let id = self.instance.as_deref().unwrap_or(id).to_owned();
        for partition in owned {
            let part = notes.part(&self.group, *partition);
            let before = part.owners.insert(generation, id.clone());
            if let Some(other) = before.filter(|other| *other != id) {
                notes.violation(format!(
                    "{}: partition {partition} belongs to {other} and to {id} in generation {generation}",
                    self.group
                ));
            }
        }
    }

    /// Nobody gets a partition while another member may believe that it is its own.
    fn take(&mut self, taken: &[i32], now: Instant, notes: &mut Notes) -> Result<(), LineError> {
        self.refuse_unknown(taken)?;
        let believed = self.believes_until();
        let may_be_zombies = notes.may_meet_zombies(now);
        for partition in taken {
            let part = notes.part(&self.group, *partition);
            let other = part
                .holders
                .iter()
                .find(|(member, until)| **member != self.number && now < **until);
            // Of an answer that took longer than a session nothing is left: somebody else may have the partition by now.
            if let Some((other, until)) = other.filter(|_| now < believed && !may_be_zombies) {
                let what = format!(
                    "{}: partition {partition} goes to member {} while member {other} holds it until {until:?}",
                    self.group, self.number
                );
                notes.violation(what);
            }
            self.held.positions.insert(*partition, None);
        }
        Ok(())
    }

    fn believes_until(&self) -> Instant {
        match &self.protocol {
            Protocol::Classic(classic) => classic.holds_until(),
            Protocol::Consumer(consumer) => consumer.holds_until(),
        }
    }

    fn renew_belief(&self, notes: &mut Notes) {
        if self.is_shared || matches!(self.protocol, Protocol::Classic(_)) && self.is_delayed {
            return;
        }
        let until = self.believes_until();
        for partition in self.held.positions.keys() {
            let part = notes.part(&self.group, *partition);
            part.holders.insert(self.number, until);
        }
    }

    fn refuse_unknown(&self, partitions: &[i32]) -> Result<(), LineError> {
        let known = 0..self.partitions;
        if partitions.iter().all(|partition| known.contains(partition)) {
            Ok(())
        } else {
            Err(nonsense("an assignment that nobody made"))
        }
    }

    fn on_positions(
        &mut self,
        response: &wire::messages::OffsetFetchResponse,
        notes: &mut Notes,
    ) -> Result<Effect, LineError> {
        let Some(group) = response.groups.first() else {
            return Err(nonsense("offsets of no group"));
        };
        match code(group.error_code)? {
            ErrorCode::None => {
                for partition in group.topics.iter().flat_map(|topic| &topic.partitions) {
                    if partition.error_code == 0 {
                        self.on_position(
                            partition.partition_index,
                            partition.committed_offset,
                            notes,
                        );
                    }
                }
                if let Protocol::Classic(classic) = &mut self.protocol {
                    classic.on_positions();
                }
                Ok(Effect::Nothing)
            }
            error => Ok(self.on_error(error)),
        }
    }

    /// Offsets acknowledged before the question are in the answer, and nothing that nobody tried.
    fn on_position(&mut self, partition: i32, committed: i64, notes: &mut Notes) {
        let floor = self.held.floor.get(&partition).copied().unwrap_or(0);
        let tried = notes.part(&self.group, partition).tried;
        if committed.max(0) < floor || committed > tried {
            notes.violation(format!(
                "{}: partition {partition} is committed at {committed}, acknowledged was {floor}, tried {tried}",
                self.group
            ));
        }
        if let Some(at) = self.held.positions.get_mut(&partition) {
            *at = Some(committed.max(0));
        }
    }

    fn on_committed(&mut self, partition: i32, notes: &mut Notes) {
        let Some(offset) = self.held.committing.get(&partition).copied() else {
            return;
        };
        notes.acked_commits.push((partition, offset));
        let floor = self.held.floor.get(&partition).copied().unwrap_or(0);
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
        if let Some(at) = self.held.positions.get_mut(&partition) {
            *at = Some(offset);
        }
    }
}
