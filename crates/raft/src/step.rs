//! The machine: what it remembers, how it begins, and the one entry.

use std::collections::{BTreeMap, VecDeque};
use std::mem::{Discriminant, discriminant};

use model::lineage::EpochEnd;
use model::{BrokerId, Instant, LeaderEpoch, Offset};
use wire::ErrorCode;

use crate::calls::{CallId, Calls, Target};
use crate::cluster::Naming;
use crate::effect::{Alarm, Effect, Fill, Peer, Refusal};
use crate::event::{AppendTag, Caller, Event, Failure, Moment, VoteNumber};
use crate::history::History;
use crate::log_view::{Life, LogView};
use crate::memory::Memory;
use crate::message::{Request, Response};
use crate::quorum_state::{Election, VoteFile};
use crate::shunned::Shunned;
use crate::snapshot::SnapshotId;
use crate::state::{Role, Unattached};
use crate::timers::{Jitter, Settings, sooner};
use crate::voters::{Endpoint, Listener, Replica, VersionRange, Voter};

/// Answers that may wait for a write of the vote file. More come only from peers that do not wait for answers; theirs are dropped,
/// and time out there.
const HELD_MAX: usize = 10_000;

/// Changes of state that one event may cause: an election alone takes four, more would be a circle.
const TURNS_MAX: usize = 16;

/// The last epoch that is taken from a peer, or stood for: none follows the one behind it. Elections never come that far; garbage may.
pub(crate) const EPOCH_MAX: LeaderEpoch = LeaderEpoch(i32::MAX - 1);

/// This replica.
#[derive(Clone, Debug)]
pub struct Me {
    pub replica: Replica,
    /// The id of the cluster, as its directory has it. `None`: it is of none yet.
    pub cluster: Option<String>,
    /// The id of a cluster that this replica begins, as the first leader of its voters. No other node ever has the same.
    pub proposal: String,
    pub listeners: Vec<Listener>,
    /// Name of the listener at which voters are dialled.
    pub listener: String,
    /// `controller.quorum.bootstrap.servers`; none where the voters of the settings are asked instead.
    pub seeds: Vec<Endpoint>,
    pub versions: VersionRange,
}

/// The finds on disk. A log that ends below its newest snapshot was restarted there before.
#[derive(Clone, Debug)]
pub struct Boot {
    pub log: LogView,
    pub history: History,
    pub vote: VoteFile,
    /// Known to be committed, by the last checkpoint.
    pub committed: Offset,
}

/// One replica of the metadata log.
#[derive(Debug)]
pub struct Quorum {
    pub(crate) me: Me,
    pub(crate) settings: Settings,
    pub(crate) log: LogView,
    pub(crate) history: History,
    pub(crate) election: Election,
    pub(crate) leader_endpoint: Option<Endpoint>,
    pub(crate) role: Role,
    /// Committed, as far as this replica knows, and not above its end.
    pub(crate) watermark: Option<Offset>,
    /// The driver knows everything below to be committed: durable here, too.
    pub(crate) published: Offset,
    /// Knowledge of its own promises.
    pub(crate) memory: Memory,
    /// False while its fetches must not count as those of a voter.
    pub(crate) is_counted: bool,
    pub(crate) began: Instant,
    /// An epoch that others say this node leads, which does not know of it, and since when they do.
    pub(crate) own_leadership: Option<(LeaderEpoch, Instant)>,
    /// Voters that have shown an empty log to this one, which is empty itself, and the epoch they were in then.
    pub(crate) empties: BTreeMap<BrokerId, LeaderEpoch>,
    /// A voter has shown a log with records to this one, which is empty.
    pub(crate) has_met_records: bool,
    pub(crate) calls: Calls,
    pub(crate) jitter: Jitter,
    pub(crate) effects: Vec<Effect>,
    told: (LeaderEpoch, Option<BrokerId>),
    wanted: VoteNumber,
    stored: VoteNumber,
    held: VecDeque<(VoteNumber, Effect)>,
    alarmed: (LeaderEpoch, Vec<Discriminant<Alarm>>),
    pub(crate) shunned: Shunned,
    pub(crate) naming: Naming,
}

impl Quorum {
    /// Begins as what the vote file says. `seed` feeds the jitter of elections.
    #[must_use]
    pub fn new(
        me: Me,
        settings: Settings,
        boot: Boot,
        seed: u64,
        at: Moment,
    ) -> (Quorum, Vec<Effect>) {
        let last = boot.log.last();
        let newest = boot.log.last_snapshot();
        assert!(
            newest.is_none_or(|id| (id.epoch, id.end) <= (last.epoch, last.end)),
            "a log that ends below its newest snapshot must be restarted first"
        );
        let committed = boot.committed.min(boot.log.end()).max(boot.log.start());
        let mut quorum = Quorum {
            me,
            settings,
            log: boot.log,
            history: boot.history,
            election: Election::NONE,
            leader_endpoint: None,
            role: Role::Unattached(Unattached { deadline: None }),
            watermark: (committed > Offset::ZERO).then_some(committed),
            published: committed,
            memory: Memory::Whole,
            is_counted: true,
            began: at.now,
            own_leadership: None,
            empties: BTreeMap::new(),
            has_met_records: false,
            calls: Calls::default(),
            jitter: Jitter::new(seed),
            effects: Vec::new(),
            told: (LeaderEpoch::NONE, None),
            wanted: VoteNumber(0),
            stored: VoteNumber(0),
            held: VecDeque::new(),
            alarmed: (LeaderEpoch::NONE, Vec::new()),
            shunned: Shunned::default(),
            naming: Naming::default(),
        };
        quorum.begin(at, boot.vote);
        quorum.poll(at);
        let effects = std::mem::take(&mut quorum.effects);
        (quorum, effects)
    }

    /// Takes an event and returns what it causes.
    pub fn step(&mut self, at: Moment, event: Event) -> Vec<Effect> {
        self.calls.expire(at.now, &self.settings);
        match event {
            Event::Tick => {}
            Event::VoteStored { number } => self.on_vote_stored(at, number),
            Event::Synced { up_to, life } => self.on_synced(at, up_to, life),
            Event::Append { tag, epoch, batch } => self.on_append(at, tag, epoch, batch),
            Event::Request { caller, request } => self.on_request(at, caller, request),
            Event::Gone { caller } => self.on_gone(caller),
            Event::Answer { call, response } => self.on_answer(at, call, response),
            Event::Failed { call, failure } => self.on_failed(at, call, failure),
            Event::SnapshotInstalled { id, size, facts } => {
                self.on_snapshot_installed(at, id, size, &facts);
            }
            Event::SnapshotDamaged { id } => self.on_snapshot_damaged(at, id),
            Event::SnapshotWritten { id, size } => self.on_snapshot_written(id, size),
            Event::Trim { to } => self.on_trim(to),
            Event::Resign { epoch } => self.on_resign(epoch),
            Event::MakeDynamic { tag, epoch } => self.on_make_dynamic(at, tag, epoch),
            Event::ClusterTold { cluster } => self.learn_cluster(Some(&cluster)),
        }
        self.poll(at);
        std::mem::take(&mut self.effects)
    }

    /// When the next [`Event::Tick`] is due.
    #[must_use]
    pub fn next_deadline(&self) -> Option<Instant> {
        sooner(self.role_deadline(), self.calls.next_deadline())
    }

    fn poll(&mut self, at: Moment) {
        // Taken before a request is sent: the request carries the id, and waits until the id is stored.
        self.take_committed_cluster();
        for _ in 0..TURNS_MAX {
            if !self.turn(at) {
                break;
            }
        }
        self.publish();
    }

    /// Reports progress of the watermark, then of the leadership.
    fn publish(&mut self) {
        self.settle();
        let committed = self.watermark.unwrap_or_default();
        let up_to = committed.min(self.log.durable());
        if up_to > self.published {
            self.published = up_to;
            self.effects.push(Effect::Committed { up_to });
        }
        let leader = match &self.role {
            // Only the commit of its first record makes a leader active, in a cluster that has its id for good.
            Role::Leader(leader) if self.published <= leader.epoch_start => None,
            Role::Leader(leader) if !leader.is_settled => None,
            Role::Resigned(_) => None,
            _ if self.shuns_leader() => None,
            _ => self.election.leader,
        };
        let told = (self.election.epoch, leader);
        if told != self.told {
            self.told = told;
            let (epoch, leader) = told;
            self.effects.push(Effect::LeaderChanged { epoch, leader });
        }
    }

    fn on_request(&mut self, at: Moment, caller: Caller, request: Request) {
        match request {
            Request::Vote(request) => self.on_vote(at, caller, &request),
            Request::BeginEpoch(request) => self.on_begin_epoch(at, caller, &request),
            Request::EndEpoch(request) => self.on_end_epoch(at, caller, &request),
            Request::Fetch(request) => self.on_fetch(at, caller, &request),
            Request::FetchSnapshot(request) => self.on_fetch_snapshot(at, caller, &request),
            Request::AddVoter(request) => self.on_add_voter(at, caller, &request),
            Request::RemoveVoter(request) => self.on_remove_voter(at, caller, &request),
            Request::UpdateVoter(request) => self.on_update_voter(at, caller, &request),
            // The broker answers these.
            Request::ApiVersions(_) => {}
        }
    }

    fn on_answer(&mut self, at: Moment, call: CallId, response: Response) {
        let Some(target) = self.calls.target_of(call) else {
            return;
        };
        let is_of_use = match response {
            Response::Vote(response) => self.on_vote_answer(at, target, &response),
            Response::BeginEpoch(response) => self.on_begin_answer(at, target, &response),
            Response::EndEpoch(response) => self.on_end_answer(at, target, &response),
            Response::Fetch(response) => self.on_fetch_answer(at, target, response),
            Response::FetchSnapshot(response) => self.on_snapshot_answer(at, target, response),
            Response::AddVoter(response) => self.on_joining_answer(at, response.error_code),
            Response::RemoveVoter(response) => self.on_joining_answer(at, response.error_code),
            Response::UpdateVoter(response) => self.on_update_answer(at, &response),
            Response::ApiVersions(response) => self.on_versions_answer(at, call, &response),
        };
        // A change of state has forgotten the call already.
        if self.calls.target_of(call) != Some(target) {
            return;
        }
        if is_of_use {
            self.calls.end(target);
        } else {
            self.calls.rest(target, at.now, self.settings.retry_backoff);
        }
    }

    fn on_failed(&mut self, at: Moment, call: CallId, failure: Failure) {
        let Some(target) = self.calls.target_of(call) else {
            return;
        };
        self.calls.rest(target, at.now, self.settings.retry_backoff);
        self.on_change_failed(call);
        let is_leader = self.election.leader.map(Target::Node) == Some(target);
        if failure == Failure::Disconnected && is_leader {
            self.on_leader_lost(at);
        }
        let stands = matches!(self.role, Role::Prospective(_)) && self.knows_all_empty();
        if failure == Failure::UnsupportedVersion && stands {
            // A voter knows no pre-votes: nobody can ask for one.
            self.become_candidate(at);
        }
    }

    fn on_vote_stored(&mut self, at: Moment, number: VoteNumber) {
        self.stored = self.stored.max(number.min(self.wanted));
        while let Some((needs, _)) = self.held.front() {
            if *needs > self.stored {
                break;
            }
            self.effects
                .extend(self.held.pop_front().map(|(_, effect)| effect));
        }
        self.count_own_vote(at);
    }

    /// True if the vote file of this write is on disk.
    pub(crate) fn is_stored(&self, number: VoteNumber) -> bool {
        self.stored >= number
    }

    /// Changes what is remembered of the epoch. Returns the write that holds messages back until it is done.
    pub(crate) fn remember(&mut self, election: Election) -> VoteNumber {
        if election == self.election {
            return self.wanted;
        }
        self.election = election;
        if self.keeps_promises(election.voted.is_some()) {
            self.store_vote();
        }
        self.wanted
    }

    pub(crate) fn store_vote(&mut self) {
        self.wanted.0 += 1;
        self.effects.push(Effect::StoreVote {
            number: self.wanted,
            election: self.election,
            version: self.history.version(),
        });
    }

    /// Has the id of the cluster stored; what is sent from now on waits for that.
    pub(crate) fn store_cluster(&mut self, cluster: String) -> VoteNumber {
        self.wanted.0 += 1;
        self.effects.push(Effect::StoreCluster {
            number: self.wanted,
            cluster,
        });
        self.wanted
    }

    /// Sends a message, at once or when the vote file that it rests on is stored.
    fn release(&mut self, effect: Effect) {
        if self.stored >= self.wanted {
            self.effects.push(effect);
        } else if self.held.len() < HELD_MAX {
            self.held.push_back((self.wanted, effect));
        }
    }

    /// Answers of a leader that wait no longer carry records: its log may be cut before they leave.
    pub(crate) fn empty_held_answers(&mut self) {
        for (_, effect) in &mut self.held {
            if let Effect::Answer { fill, .. } = effect {
                *fill = None;
            }
        }
    }

    /// Nor do they carry what was trimmed while they waited.
    pub(crate) fn empty_trimmed_answers(&mut self) {
        for (_, effect) in &mut self.held {
            if let Effect::Answer { fill, .. } = effect {
                let is_there = |fill: &Fill| match fill {
                    Fill::Records { from, .. } => self.log.start() <= *from,
                    Fill::Snapshot { id, .. } => self.log.snapshot_size(*id).is_some(),
                };
                *fill = fill.take().filter(is_there);
            }
        }
    }

    pub(crate) fn answer(&mut self, caller: Caller, response: Response) {
        self.answer_filled(caller, response, None);
    }

    pub(crate) fn answer_filled(&mut self, caller: Caller, response: Response, fill: Option<Fill>) {
        self.release(Effect::Answer {
            caller,
            response,
            fill,
        });
    }

    pub(crate) fn send(
        &mut self,
        now: Instant,
        target: Target,
        peer: Peer,
        request: Request,
    ) -> CallId {
        let call = self.calls.begin(target, now, self.settings.request_timeout);
        self.release(Effect::Send {
            call,
            peer,
            request,
        });
        call
    }

    pub(crate) fn refuse(&mut self, tag: AppendTag, why: Refusal) {
        self.effects.push(Effect::Refused { tag, why });
    }

    /// Reports an alarm of each kind once an epoch: a peer may repeat its error with every message.
    pub(crate) fn alarm_once(&mut self, alarm: Alarm) {
        let (epoch, kinds) = &mut self.alarmed;
        if *epoch != self.election.epoch {
            *epoch = self.election.epoch;
            kinds.clear();
        }
        let kind = discriminant(&alarm);
        if !kinds.contains(&kind) {
            kinds.push(kind);
            self.effects.push(Effect::Alarm(alarm));
        }
    }

    pub(crate) fn leader_or_none(&self) -> i32 {
        self.election.leader.map_or(-1, |id| id.0)
    }

    /// True if this replica has a vote.
    pub(crate) fn is_voter(&self) -> bool {
        self.may_vote() && self.history.voters().has(self.me.replica)
    }

    /// True if this replica may stand for election: a voter, or one whose removal may not be committed.
    ///
    /// A leader writes its own removal (1) and dies before anyone has it (2). Its log is now the longest: no other voter gets its
    /// vote, and the others may need it. So it stands, without a vote of its own, and the removal is committed in its next leadership.
    pub(crate) fn may_stand(&self) -> bool {
        if EPOCH_MAX <= self.election.epoch {
            return false;
        }
        let committed = self.watermark.unwrap_or_default();
        let stands = self.is_voter()
            || self.may_vote() && self.history.is_leaving(self.me.replica, committed);
        stands && self.can_be_found()
    }

    pub(crate) fn is_leader(&self) -> bool {
        matches!(self.role, Role::Leader(_))
    }

    /// True if a log that ends like this may lead us.
    pub(crate) fn is_up_to_date(&self, last: EpochEnd) -> bool {
        let ours = self.log.last();
        (last.epoch, last.end) >= (ours.epoch, ours.end)
    }

    /// The reason why a request for the leader of `epoch` is not served.
    pub(crate) fn leader_error(&self, epoch: i32) -> Option<ErrorCode> {
        let ours = self.election.epoch.0;
        if epoch < ours {
            Some(ErrorCode::FencedLeaderEpoch)
        } else if epoch > ours {
            Some(ErrorCode::UnknownLeaderEpoch)
        } else if !self.is_leader() {
            Some(ErrorCode::NotLeaderOrFollower)
        } else {
            None
        }
    }

    /// Where `target` is dialled.
    pub(crate) fn peer(&self, target: Target) -> Option<Peer> {
        match target {
            Target::Seed(at) => self.me.seeds.get(at).map(|endpoint| Peer {
                node: None,
                endpoint: endpoint.clone(),
            }),
            Target::Node(id) => {
                let leads = self.election.leader == Some(id);
                let endpoint = leads.then(|| self.leader_endpoint.clone()).flatten();
                let endpoint = endpoint.or_else(|| self.endpoint_of(id))?;
                Some(Peer {
                    node: Some(id),
                    endpoint,
                })
            }
        }
    }

    pub(crate) fn endpoint_of(&self, id: BrokerId) -> Option<Endpoint> {
        self.history.voters().get(id)?.reached_at(&self.me.listener)
    }

    /// This voter as the others are to know it: where it is dialled, under its own name for that and under each that the voters use.
    /// Kafka's brokers look for the name of their settings alone, and have no controller where the leader's entry lacks it.
    pub(crate) fn own_voter(&self) -> Voter {
        let own = &self.me.listeners;
        let known = self.history.voters();
        let primary = own.iter().find(|at| at.name == self.me.listener);
        let mut listeners = own.clone();
        if let Some(primary) = primary.or(own.first()) {
            let names = known.iter().flat_map(|voter| &voter.listeners);
            for Listener { name, .. } in names {
                if listeners.iter().all(|at| at.name != *name) {
                    listeners.push(Listener {
                        name: name.clone(),
                        endpoint: primary.endpoint.clone(),
                    });
                }
            }
            listeners.sort();
        } else if let Some(voter) = known.get(self.me.replica.id) {
            // Better where it was than nowhere.
            listeners.clone_from(&voter.listeners);
        }
        Voter {
            replica: self.me.replica,
            listeners,
            versions: self.me.versions,
        }
    }

    /// False for a voter among others that nobody could dial as a leader.
    fn can_be_found(&self) -> bool {
        self.history.voters().len() < 2 || !self.own_voter().listeners.is_empty()
    }

    #[must_use]
    pub fn log(&self) -> &LogView {
        &self.log
    }

    #[must_use]
    pub fn history(&self) -> &History {
        &self.history
    }

    /// Known to be committed here, durable or not.
    #[must_use]
    pub fn watermark(&self) -> Option<Offset> {
        self.watermark
    }

    /// The newest snapshot that was reported.
    #[must_use]
    pub fn last_snapshot(&self) -> Option<SnapshotId> {
        self.log.last_snapshot()
    }

    pub(crate) fn on_synced(&mut self, at: Moment, up_to: Offset, life: Life) {
        if self.log.synced(up_to, life) {
            self.after_sync(at);
        }
    }
}
