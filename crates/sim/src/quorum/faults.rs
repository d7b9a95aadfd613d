//! Faults, what clients and operators do, and the healing at the end.

use model::Offset;
use raft::{AppendTag, Event, Quorum, Replica, Request, RoleName};
use wire::messages::add_raft_voter_request::Listener;
use wire::messages::{AddRaftVoterRequest, RemoveRaftVoterRequest};

use super::node::{LISTENER, Syncs, endpoint, replica};
use super::plan::{MS, SECOND, Strike};
use super::world::{Broken, Item, World, snapshot};

/// A sound cluster has a leader, and has passed a new record on to all, within so many fetch timeouts.
const FETCH_TIMEOUTS_MAX: u64 = 15;
/// A leader gives up on a replica that joins after 2 s of a clock that may be a fifth slow.
const JOIN_MAX: u64 = 3 * SECOND;
/// Time that one batch may take to a healed follower that fetches one at a time: two messages of 5 ms, a sync of as much, and some.
const CATCH_UP: u64 = 50 * MS;

impl World {
    /// Everything that comes again and again.
    pub(super) fn begin(&mut self) {
        let first = self.plan.fault_every;
        if !self.plan.strikes.is_empty() {
            self.after(first, Item::Strike);
        }
        self.after(SECOND, Item::Append);
        self.after(self.plan.snapshot_every, Item::Snapshot);
        if self.plan.is_dynamic || self.plan.is_raised {
            self.after(self.plan.change_every, Item::Change);
        }
    }

    pub(super) fn strike(&mut self) -> Broken {
        if self.is_healed {
            return Ok(());
        }
        let next = self.chance.below(2 * self.plan.fault_every);
        self.after(next, Item::Strike);
        let strike = *self.chance.pick(&self.plan.strikes.clone());
        let numbers: Vec<u32> = self.numbers().into_iter().collect();
        let number = *self.chance.pick(&numbers);
        self.say(|| format!("{strike:?} strikes n{number}"));
        let long = self.chance.below(4 * SECOND);
        match strike {
            Strike::Kill => self.kill(number, long),
            Strike::Power => self.cut_power(number, long),
            Strike::PowerOfAll => {
                for number in numbers {
                    let long = self.chance.below(3 * SECOND);
                    self.cut_power(number, long);
                }
            }
            Strike::Pause => {
                let until = self.now + 2 * long;
                if let Some(node) = self.nodes.get_mut(&number) {
                    node.paused_until = until;
                }
            }
            Strike::Split => self.split(2 * long),
            Strike::Deafen => self.deafen(number, 2 * long),
            Strike::SlowDisk => {
                let until = self.now + long;
                if let Some(node) = self.nodes.get_mut(&number) {
                    node.slow_until = until;
                }
            }
            Strike::VoteRot => self.rot_vote(number, long),
            Strike::Wipe => self.wipe(number, long),
            Strike::Lone => self.misname(number, long),
        }
        Ok(())
    }

    fn stop(&mut self, number: u32, long: u64) -> bool {
        let Some(node) = self.nodes.get_mut(&number) else {
            return false;
        };
        let was_running = node.quorum.take().is_some();
        if was_running {
            node.boot += 1;
            (node.log_syncs, node.vote_syncs) = (Syncs::default(), Syncs::default());
            self.after(long, Item::Start { node: number });
        }
        was_running
    }

    fn kill(&mut self, number: u32, long: u64) {
        if self.stop(number, long)
            && let Some(node) = self.nodes.get_mut(&number)
        {
            self.counts.kills += 1;
            node.disk.kill();
        }
    }

    fn cut_power(&mut self, number: u32, long: u64) {
        if self.stop(number, long)
            && let Some(node) = self.nodes.get_mut(&number)
        {
            self.counts.power_cuts += 1;
            node.disk.cut_power(&mut self.chance);
        }
    }

    /// A replica has just voted: the moment at which its memory counts.
    pub(super) fn strike_voter(&mut self, number: u32) {
        if !self.is_healed && self.chance.one_in(self.plan.voter_dies_one_in) {
            let wait = self.chance.below(20 * MS);
            self.after(wait, Item::VoterDies { node: number });
        }
    }

    pub(super) fn voter_dies(&mut self, number: u32) {
        if self.is_healed {
            return;
        }
        let long = self.chance.below(20 * MS);
        if self.chance.one_in(2) {
            self.kill(number, long);
        } else {
            self.cut_power(number, long);
        }
    }

    fn split(&mut self, long: u64) {
        let side: Vec<u32> = {
            let numbers = self.numbers().into_iter();
            numbers.filter(|_| self.chance.one_in(2)).collect()
        };
        for a in self.numbers() {
            for b in self.numbers() {
                if side.contains(&a) != side.contains(&b) {
                    self.disconnect((a, b), long);
                }
            }
        }
    }

    fn deafen(&mut self, number: u32, long: u64) {
        let hears = self.chance.one_in(2);
        for other in self.numbers() {
            let pair = if hears {
                (number, other)
            } else {
                (other, number)
            };
            self.disconnect(pair, long);
        }
    }

    fn disconnect(&mut self, pair: (u32, u32), long: u64) {
        if pair.0 != pair.1 {
            *self.deaf.entry(pair).or_insert(0) += 1;
            self.after(long, Item::Reconnect { pair });
        }
    }

    pub(super) fn reconnect(&mut self, pair: (u32, u32)) {
        if let Some(count) = self.deaf.get_mut(&pair) {
            *count -= 1;
            if *count == 0 {
                self.deaf.remove(&pair);
            }
        }
    }

    /// True if a voter more may be lost for good: all know the same voters, and enough of them can still elect.
    fn can_spare(&self, number: u32) -> bool {
        // A disk that goes after its replica caught up and before its vote counts takes a majority of two with it: that is an operator's
        // bad luck, and nobody could do better.
        if self.joins_until > self.now {
            return false;
        }
        let mut sets = self.nodes.values().map(|node| {
            let quorum = node.quorum.as_ref()?;
            Some(quorum.history().voters())
        });
        let Some(Some(voters)) = sets.next() else {
            return false;
        };
        if !sets.all(|set| set == Some(voters)) {
            return false;
        }
        let sound = voters.iter().filter(|voter| {
            let id = voter.replica.id.0 as u32;
            let node = self.nodes.get(&id);
            id != number
                && node.is_some_and(|node| {
                    !node.has_lost_vote && !node.is_new && voter.replica.accepts(node.replica)
                })
        });
        sound.count() > voters.len() / 2
    }

    /// True if a replica may be on its way to a vote by itself: its disk is spared as that of one that an operator adds.
    fn may_join(&self, number: u32) -> bool {
        let Some(node) = self.nodes.get(&number) else {
            return false;
        };
        let voters = node.quorum.as_ref().map(|quorum| quorum.history().voters());
        self.plan.joins && !voters.is_some_and(|voters| voters.has(node.replica))
    }

    fn rot_vote(&mut self, number: u32, long: u64) {
        if !self.can_spare(number) || !self.stop(number, long) {
            return;
        }
        let Some(node) = self.nodes.get_mut(&number) else {
            return;
        };
        node.disk.kill();
        if node.disk.has_vote() {
            node.has_lost_vote = true;
            node.is_lone = false;
            self.counts.votes_lost += 1;
            node.disk.rot_vote(&mut self.chance);
        }
    }

    /// A voter that has voted is started with settings that name it alone.
    fn misname(&mut self, number: u32, long: u64) {
        let node = self.nodes.get(&number);
        let has_voted = node.is_some_and(|node| node.disk.has_vote() && !node.has_lost_vote);
        if self.plan.voters < number || self.plan.voters < 2 || !has_voted {
            return;
        }
        self.kill(number, long);
        if let Some(node) = self.nodes.get_mut(&number) {
            node.is_lone = true;
        }
    }

    fn wipe(&mut self, number: u32, long: u64) {
        // The settings of the only voter name no other: on an empty disk it begins a cluster of its own, with an id of its own.
        let begins_anew = !self.plan.is_dynamic && self.plan.voters == 1;
        let is_spared = begins_anew || self.may_join(number) || !self.can_spare(number);
        if is_spared || !self.stop(number, long) {
            return;
        }
        self.counts.wipes += 1;
        if let Some(node) = self.nodes.get_mut(&number) {
            let disk = std::mem::take(&mut node.disk);
            self.buried.push((node.replica, disk));
            node.disks += 1;
            node.replica = replica(number, node.disks);
            node.has_lost_vote = false;
            node.is_lone = false;
            node.facts.clear();
        }
        self.format(number);
    }

    pub(super) fn append(&mut self) -> Broken {
        // Afterwards slower than one batch goes round, so that a replica which fetches one at a time can catch up.
        let every = if self.is_healed {
            self.plan.append_every.max(CATCH_UP)
        } else {
            self.plan.append_every
        };
        let wait = self.chance.below(2 * every);
        self.after(wait, Item::Append);
        let leaders = self.leaders();
        if leaders.is_empty() {
            return Ok(());
        }
        // There may be one that does not know yet that it is none.
        let number = *self.chance.pick(&leaders);
        let epoch = self.quorum(number).map(Quorum::epoch);
        let batch = self.batch();
        let tag = AppendTag(self.values);
        match epoch {
            Some(epoch) => self.step(number, Event::Append { tag, epoch, batch }),
            None => Ok(()),
        }
    }

    fn quorum(&self, number: u32) -> Option<&Quorum> {
        let node = self.nodes.get(&number)?;
        let is_awake = node.paused_until <= self.now;
        node.quorum.as_ref().filter(|_| is_awake)
    }

    fn leaders(&self) -> Vec<u32> {
        let numbers = self.numbers().into_iter();
        let leads = |number: &u32| {
            self.quorum(*number)
                .is_some_and(|quorum| quorum.role() == RoleName::Leader)
        };
        numbers.filter(leads).collect()
    }

    /// An operator changes the voters: first those that are gone for good, then at random.
    pub(super) fn change(&mut self) -> Broken {
        if self.is_healed {
            return Ok(());
        }
        let wait = self.chance.below(2 * self.plan.change_every);
        self.after(wait, Item::Change);
        let leaders = self.leaders();
        if leaders.is_empty() {
            return Ok(());
        }
        let leader = *self.chance.pick(&leaders);
        let Some(voters) = self
            .quorum(leader)
            .map(|quorum| quorum.history().voters().clone())
        else {
            return Ok(());
        };
        let is_dynamic = self
            .quorum(leader)
            .is_some_and(|quorum| quorum.history().is_dynamic());
        if !is_dynamic {
            let (tag, epoch) = (AppendTag(0), self.quorum(leader).map(Quorum::epoch));
            let raise = epoch.map(|epoch| Event::MakeDynamic { tag, epoch });
            return raise.map_or(Ok(()), |raise| self.step(leader, raise));
        }
        let is_sound = |replica: Replica| {
            let node = self.nodes.get(&(replica.id.0 as u32));
            node.is_some_and(|node| node.replica == replica && !node.has_lost_vote)
        };
        let replicas: Vec<Replica> = voters.iter().map(|voter| voter.replica).collect();
        // A voter more would be missed while one does not count yet.
        let waits = |replica: &Replica| {
            let node = self.nodes.get(&(replica.id.0 as u32));
            node.is_some_and(|node| node.is_new)
        };
        if replicas.iter().any(waits) {
            return Ok(());
        }
        let gone = replicas.iter().copied().find(|replica| !is_sound(*replica));
        let outside: Vec<u32> = self
            .numbers()
            .into_iter()
            .filter(|number| voters.get(model::BrokerId(*number as i32)).is_none())
            .filter(|number| {
                self.nodes
                    .get(number)
                    .is_some_and(|node| !node.has_lost_vote)
            })
            .collect();
        let request = match gone {
            Some(gone) => remove(gone),
            None if !outside.is_empty() && (replicas.len() < 2 || self.chance.one_in(2)) => {
                let number = *self.chance.pick(&outside);
                let joining = self.nodes.get(&number).map(|node| node.replica);
                let Some(joining) = joining else {
                    return Ok(());
                };
                self.joins_until = self.now + JOIN_MAX;
                add(number, joining, self.chance.one_in(2))
            }
            None if replicas.len() > 1 => remove(*self.chance.pick(&replicas)),
            None => return Ok(()),
        };
        self.say(|| format!("an operator asks n{leader}: {request:?}"));
        // Two operators at once, who do not know of each other.
        if self.chance.one_in(3) && replicas.len() > 2 {
            let other = remove(*self.chance.pick(&replicas));
            if gone.is_none() {
                self.ask(leader, other)?;
            }
        }
        self.ask(leader, request)
    }

    pub(super) fn take_snapshot(&mut self) -> Broken {
        let wait = self.chance.below(2 * self.plan.snapshot_every);
        self.after(wait, Item::Snapshot);
        let numbers: Vec<u32> = self.numbers().into_iter().collect();
        let number = *self.chance.pick(&numbers);
        let Some(node) = self.nodes.get(&number) else {
            return Ok(());
        };
        let end = node.published;
        let Some(id) = self
            .quorum(number)
            .and_then(|quorum| quorum.snapshot_id(end))
        else {
            return Ok(());
        };
        let facts = self
            .quorum(number)
            .map(|quorum| quorum.history().facts_at(end));
        let Some(digest) = self.oracle.digest(end).filter(|_| end > Offset::ZERO) else {
            return Ok(());
        };
        let facts = facts.unwrap_or_default();
        let bytes = snapshot(&facts, digest);
        let size = bytes.len() as u64;
        if let Some(node) = self.nodes.get_mut(&number) {
            node.disk.snapshots.insert(id, bytes);
            node.facts.insert(id, facts);
        }
        self.counts.snapshots += 1;
        self.step(number, Event::SnapshotWritten { id, size })?;
        if self.chance.one_in(2) {
            self.step(number, Event::Trim { to: id })?;
        }
        Ok(())
    }

    /// No more faults: all nodes run, all hear each other, disks are quick.
    pub(super) fn heal(&mut self) -> Broken {
        self.is_healed = true;
        self.deaf.clear();
        self.say(|| "healed".to_owned());
        for number in self.numbers() {
            if let Some(node) = self.nodes.get_mut(&number) {
                node.paused_until = 0;
                node.slow_until = 0;
            }
            self.after(MS, Item::Start { node: number });
        }
        Ok(())
    }

    /// Shows where each node ended, to whoever looks at one run.
    pub(super) fn say_all(&mut self) {
        for number in self.numbers() {
            let Some(node) = self.nodes.get(&number) else {
                continue;
            };
            let said = node.quorum.as_ref().map(|quorum| {
                let view = quorum.view();
                format!(
                    "{:?} {} log {}..{} committed {:?} voters {}",
                    view.role,
                    view.epoch,
                    quorum.log().start(),
                    view.end,
                    view.watermark,
                    quorum.history().voters(),
                )
            });
            let (replica, is_new, has_lost) = (node.replica, node.is_new, node.has_lost_vote);
            let said = said.unwrap_or_else(|| "down".to_owned());
            self.say(|| format!("{replica} {said}, new {is_new}, lost its vote {has_lost}"));
        }
    }

    pub(super) fn healing_takes(&self) -> u64 {
        let ends = self.nodes.values().map(|node| node.disk.now.end().0);
        let (first, last) = (ends.clone().min(), ends.max());
        let behind = last.unwrap_or(0) - first.unwrap_or(0);
        2 * SECOND * FETCH_TIMEOUTS_MAX + behind as u64 * CATCH_UP
    }

    /// After the healing there is one leader, and all have what was appended since.
    pub(super) fn check_progress(&mut self) -> Broken {
        let leaders = self.leaders();
        if leaders.len() != 1 {
            return Err(format!("after healing the leaders are {leaders:?}"));
        }
        let Some(probe) = self.probe else {
            return Err("after healing no append was accepted".to_owned());
        };
        let epoch = self.quorum(leaders[0]).map(Quorum::epoch);
        for number in self.numbers() {
            let quorum = self.quorum(number);
            let committed = quorum.and_then(Quorum::watermark).unwrap_or_default();
            if committed < probe {
                return Err(format!(
                    "after healing n{number} is at {committed}, {probe} was accepted"
                ));
            }
            let cluster = quorum.and_then(Quorum::cluster);
            if cluster.is_none() || cluster != self.oracle.cluster() {
                return Err(format!(
                    "after healing n{number} is of {cluster:?}, {:?} is committed",
                    self.oracle.cluster()
                ));
            }
            if quorum.map(Quorum::epoch) != epoch {
                return Err(format!(
                    "after healing n{number} is in epoch {:?}, its leader in {epoch:?}",
                    quorum.map(Quorum::epoch)
                ));
            }
        }
        Ok(())
    }
}

fn remove(replica: Replica) -> Request {
    Request::RemoveVoter(RemoveRaftVoterRequest {
        cluster_id: None,
        voter_id: replica.id.0,
        voter_directory_id: replica.directory,
    })
}

fn add(number: u32, replica: Replica, ack_when_committed: bool) -> Request {
    let at = endpoint(number);
    Request::AddVoter(AddRaftVoterRequest {
        cluster_id: None,
        timeout_ms: 2_000,
        voter_id: replica.id.0,
        voter_directory_id: replica.directory,
        listeners: vec![Listener {
            name: LISTENER.to_owned(),
            host: at.host,
            port: at.port,
        }],
        ack_when_committed,
    })
}
