//! Leader: how far each replica came, and the leader's own time limits.

use std::collections::{BTreeMap, BTreeSet};

use model::{BrokerId, Instant, LeaderEpoch, Offset};
use wire::messages::leader_change_message::Voter as Counted;
use wire::messages::{KRaftVersionRecord, LeaderChangeMessage};
use wire::{ErrorCode, Uuid};

use super::Role;
use crate::calls::Target;
use crate::change::Change;
use crate::control::{self, Control};
use crate::effect::{Alarm, Left};
use crate::event::{Caller, Moment};
use crate::quorum_state::Election;
use crate::step::Quorum;
use crate::timers::sooner;
use crate::voters::{Replica, VoterSet};

/// Replicas without a vote that are remembered. Beyond it a newcomer takes the place of the one that was silent longest.
const OBSERVERS_MAX: usize = 10_000;

/// How far a replica came.
#[derive(Clone, Debug)]
pub(crate) struct Progress {
    pub(crate) replica: Replica,
    /// The replica's synced end; None if it has not fetched from this leader.
    pub(crate) end: Option<Offset>,
    pub(crate) last_fetch: Option<Moment>,
    pub(crate) last_caught_up: Option<Moment>,
    /// The leader's end when it last fetched.
    leader_end: Offset,
    /// True if the replica has stored the id of the cluster, and refuses requests of another.
    pub(crate) has_cluster: bool,
}

impl Progress {
    fn new(replica: Replica) -> Progress {
        Progress {
            replica,
            end: None,
            last_fetch: None,
            last_caught_up: None,
            leader_end: Offset::ZERO,
            has_cluster: false,
        }
    }

    fn fetched(&mut self, at: Moment, end: Offset, leader_end: Offset) {
        if end >= leader_end {
            self.last_caught_up = Some(at);
        } else if self.leader_end > Offset::ZERO && end >= self.leader_end {
            self.last_caught_up = self.last_fetch;
        }
        self.end = Some(end);
        self.last_fetch = Some(at);
        self.leader_end = leader_end;
    }
}

/// A fetch that waits for news.
#[derive(Clone, Debug)]
pub(crate) struct Parked {
    pub(crate) caller: Caller,
    pub(crate) replica: Replica,
    pub(crate) from: Offset,
    pub(crate) epoch: LeaderEpoch,
    pub(crate) bytes_max: u32,
    pub(crate) deadline: Instant,
}

/// The directories that nodes fetch for: the last, and the one before.
#[derive(Debug, Default)]
struct Doubles(BTreeMap<BrokerId, (Heard, Option<Heard>)>);

/// A directory, and when it was last fetched for.
#[derive(Clone, Copy, Debug)]
struct Heard {
    directory: Uuid,
    at: Instant,
}

impl Doubles {
    /// True if a replica comes back after another one with its id: a disk that was replaced does not.
    fn are_two(&mut self, replica: Replica, now: Instant) -> bool {
        if replica.id.0 < 0 || replica.directory.is_zero() {
            return false;
        }
        if self.0.len() >= OBSERVERS_MAX && !self.0.contains_key(&replica.id) {
            self.0.clear();
        }
        let heard = Heard {
            directory: replica.directory,
            at: now,
        };
        let (last, before) = self.0.entry(replica.id).or_insert((heard, None));
        if last.directory == replica.directory {
            *last = heard;
            return false;
        }
        let is_back = before.is_some_and(|before| before.directory == replica.directory);
        (*before, *last) = (Some(*last), heard);
        is_back
    }

    /// The directory that a node fetches for; `None` if none is recent, or two are.
    fn only(&self, id: BrokerId, is_recent: impl Fn(Instant) -> bool) -> Option<Uuid> {
        let (last, before) = self.0.get(&id)?;
        let is_only = !before.is_some_and(|before| is_recent(before.at));
        (is_recent(last.at) && is_only).then_some(last.directory)
    }
}

#[derive(Debug)]
pub(crate) struct Leader {
    /// Offset of the epoch's first record. Nothing is known to be committed before it is.
    pub(crate) epoch_start: Offset,
    pub(crate) voters: BTreeMap<BrokerId, Progress>,
    pub(crate) observers: BTreeMap<Replica, Progress>,
    pub(crate) parked: Vec<Parked>,
    pub(crate) change: Option<Change>,
    /// The words of voters on themselves while `kraft.version` is 0.
    pub(crate) described: VoterSet,
    pub(crate) resigns: bool,
    /// A majority of the voters had the id of the cluster for good.
    pub(crate) is_settled: bool,
    doubles: Doubles,
    /// Voters that fetched since the last time they were a majority.
    fetched: BTreeSet<BrokerId>,
    check_deadline: Instant,
    begin_deadline: Instant,
}

impl Quorum {
    /// Becomes the leader. The first batch of the epoch names it, and is the first to be committed in it.
    pub(crate) fn become_leader(&mut self, at: Moment, granting: &[BrokerId]) {
        self.leave();
        let me = self.me.replica;
        let set = self.history.voters().clone();
        let voters = set.iter().map(|voter| {
            let replica = if voter.replica.id == me.id {
                me
            } else {
                voter.replica
            };
            (replica.id, Progress::new(replica))
        });
        self.leader_endpoint = self.own_voter().reached_at(&self.me.listener);
        self.remember(Election {
            epoch: self.election.epoch,
            leader: Some(me.id),
            voted: None,
        });
        let described = set.updating_node(self.own_voter()).unwrap_or_default();
        self.role = Role::Leader(Box::new(Leader {
            epoch_start: self.log.end(),
            voters: voters.collect(),
            observers: BTreeMap::new(),
            parked: Vec::new(),
            change: None,
            described: if self.history.is_dynamic() {
                VoterSet::default()
            } else {
                described
            },
            resigns: false,
            is_settled: false,
            doubles: Doubles::default(),
            fetched: BTreeSet::new(),
            check_deadline: at.now.plus(self.settings.check_quorum()),
            begin_deadline: at.now,
        }));
        let records = self.first_records(&set, granting);
        let batch = control::batch(&records, at.wall);
        self.append(at, batch);
    }

    fn first_records(&self, set: &VoterSet, granting: &[BrokerId]) -> Vec<Control> {
        let counted = |id: BrokerId| Counted {
            voter_id: id.0,
            ..Default::default()
        };
        let mut records = vec![Control::LeaderChange(LeaderChangeMessage {
            version: 0,
            leader_id: self.me.replica.id.0,
            voters: set.iter().map(|voter| counted(voter.replica.id)).collect(),
            granting_voters: granting.iter().map(|id| counted(*id)).collect(),
            cluster_id: self.cluster_to_name(),
        })];
        // Voters that only a bootstrap snapshot names are not in the log that others fetch.
        let me = self.own_voter();
        let is_due = self.history.is_bootstrap() || set.is_outdated(&me);
        if self.history.is_dynamic()
            && is_due
            && let Some(set) = set.updating(me)
        {
            records.push(Control::Version(KRaftVersionRecord {
                version: 0,
                k_raft_version: self.history.version(),
            }));
            records.push(Control::Voters(set.to_record()));
        }
        records
    }

    /// Leads no longer: callers that wait learn it now.
    pub(super) fn leave_leadership(&mut self) {
        self.empty_held_answers();
        let Role::Leader(leader) = &mut self.role else {
            return;
        };
        let parked = std::mem::take(&mut leader.parked);
        let change = leader.change.take();
        for fetch in parked {
            self.answer_fetch_error(fetch.caller, ErrorCode::NotLeaderOrFollower);
        }
        if let Some(change) = change {
            self.answer_change(&change, ErrorCode::NotLeaderOrFollower);
        }
    }

    pub(super) fn leader_deadline(&self, leader: &Leader) -> Instant {
        let parked = leader.parked.iter().map(|fetch| Some(fetch.deadline));
        let parked = parked.fold(None, sooner);
        let change = leader.change.as_ref().map(Change::deadline);
        let is_alone = self.history.voters().is_only(self.me.replica);
        let check = (!is_alone).then_some(leader.check_deadline);
        let begin = (!is_alone).then_some(leader.begin_deadline);
        let all = [parked, change, check, begin]
            .into_iter()
            .fold(None, sooner);
        // A leader of one has nothing to wait for.
        all.unwrap_or(Instant(u64::MAX))
    }

    pub(super) fn turn_leader(&mut self, at: Moment) -> bool {
        let Role::Leader(leader) = &self.role else {
            return false;
        };
        let is_alone = self.history.voters().is_only(self.me.replica);
        if leader.resigns || !is_alone && leader.check_deadline <= at.now {
            let time = self.settings.check_quorum();
            self.report_left(if leader.resigns {
                Left::Resigned
            } else {
                Left::Unheard { time }
            });
            let successors = self.successors();
            self.become_resigned(at, successors);
            return true;
        }
        self.expire_change(at.now);
        self.answer_parked(at, |fetch| fetch.deadline <= at.now);
        self.send_begin_epochs(at);
        false
    }

    /// Voters by how far they came, furthest first.
    fn successors(&self) -> Vec<Replica> {
        let Role::Leader(leader) = &self.role else {
            return Vec::new();
        };
        let me = self.me.replica.id;
        let mut others: Vec<&Progress> = leader.voters.values().collect();
        others.retain(|progress| progress.replica.id != me);
        others.sort_by_key(|progress| (std::cmp::Reverse(progress.end), progress.replica));
        others.iter().map(|progress| progress.replica).collect()
    }

    fn send_begin_epochs(&mut self, at: Moment) {
        let pause = self.settings.begin_epoch();
        let me = self.me.replica.id;
        let Role::Leader(leader) = &mut self.role else {
            return;
        };
        if leader.begin_deadline > at.now {
            return;
        }
        leader.begin_deadline = at.now.plus(pause);
        let silent = leader.voters.values().filter(|voter| {
            let is_silent = |last: Moment| at.now.since(last.now) >= pause;
            voter.replica.id != me && voter.last_fetch.is_none_or(is_silent)
        });
        let silent: Vec<Replica> = silent.map(|voter| voter.replica).collect();
        for replica in silent {
            self.send_begin_epoch(at, Target::Node(replica.id), replica);
        }
    }

    /// A replica fetched from `end`, which is in this log; `has_cluster` if the request carried the id of the cluster.
    pub(crate) fn saw_fetch(
        &mut self,
        at: Moment,
        replica: Replica,
        end: Offset,
        has_cluster: bool,
    ) {
        let leader_end = self.log.end();
        let Role::Leader(leader) = &mut self.role else {
            return;
        };
        let mut alarms = Vec::new();
        if leader.doubles.are_two(replica, at.now) {
            let (id, directory) = (replica.id, Some(replica.directory));
            alarms.push(Alarm::IdTaken { id, directory });
        }
        let voter = leader.voters.get_mut(&replica.id);
        if let Some(voter) = voter.filter(|voter| voter.replica.accepts(replica)) {
            let known = voter.end.filter(|known| end < *known);
            voter.fetched(at, end, leader_end);
            voter.has_cluster |= has_cluster;
            alarms.extend(known.map(|from| Alarm::WentBack {
                replica,
                from,
                to: end,
            }));
        } else if replica.id.0 >= 0 {
            if leader.observers.len() >= OBSERVERS_MAX && !leader.observers.contains_key(&replica) {
                forget_silent(&mut leader.observers);
            }
            let observer = leader.observers.entry(replica);
            let observer = observer.or_insert_with(|| Progress::new(replica));
            observer.fetched(at, end, leader_end);
        }
        alarms.into_iter().for_each(|alarm| self.alarm_once(alarm));
        self.saw_voter(at.now, replica);
        self.raise_watermark(at);
    }

    /// The directory that a node fetches for now; `None` if it has been silent for so long that a leader gives up, or if two processes
    /// with its id fetch. Of a directory that was heard before that, nobody knows whose it is.
    pub(crate) fn directory_of(&self, now: Instant, id: BrokerId) -> Option<Uuid> {
        if id == self.me.replica.id {
            return Some(self.me.replica.directory);
        }
        let Role::Leader(leader) = &self.role else {
            return None;
        };
        let wait = self.settings.check_quorum();
        leader.doubles.only(id, |at| now.since(at) < wait)
    }

    /// A voter that asks is one that takes us for the leader.
    pub(crate) fn saw_voter(&mut self, now: Instant, replica: Replica) {
        let me = self.me.replica.id;
        let wait = self.settings.check_quorum();
        let Role::Leader(leader) = &mut self.role else {
            return;
        };
        let known = leader.voters.get(&replica.id);
        if replica.id != me && known.is_some_and(|known| known.replica.accepts(replica)) {
            leader.fetched.insert(replica.id);
        }
        let own = usize::from(leader.voters.contains_key(&me));
        if leader.fetched.len() + own > leader.voters.len() / 2 {
            leader.fetched.clear();
            leader.check_deadline = now.plus(wait);
        }
    }

    /// The voters of the log changed under this leader.
    pub(crate) fn count_new_voters(&mut self) {
        let set = self.history.voters().clone();
        let Role::Leader(leader) = &mut self.role else {
            return;
        };
        let mut old = std::mem::take(&mut leader.voters);
        for voter in set.iter() {
            let replica = voter.replica;
            let kept = old.remove(&replica.id);
            let kept = match kept {
                Some(known) if known.replica.accepts(replica) => Some(known),
                other => {
                    old.extend(other.map(|known| (known.replica.id, known)));
                    leader.observers.remove(&replica)
                }
            };
            let mut progress = kept.unwrap_or_else(|| Progress::new(replica));
            progress.replica = replica;
            leader.voters.insert(replica.id, progress);
        }
        for (_, gone) in old {
            leader.fetched.remove(&gone.replica.id);
            leader.observers.insert(gone.replica, gone);
        }
    }
}

fn forget_silent(observers: &mut BTreeMap<Replica, Progress>) {
    let silent = observers
        .values()
        .min_by_key(|observer| observer.last_fetch.map(|at| at.now));
    if let Some(replica) = silent.map(|observer| observer.replica) {
        observers.remove(&replica);
    }
}
