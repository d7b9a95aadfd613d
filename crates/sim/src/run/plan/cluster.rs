//! Runs of several brokers: beside each other, and as one cluster.

use std::time::Duration;

use env::sim::{Chance, HostId};

use super::super::script::{Deed, Step as ScriptStep};
use super::{Plan, Strike};
use crate::client::member::GroupProtocol;
use crate::client::producer::Habits;

/// Nodes of a cluster: the fewest of which one may fail.
const UNITED: u8 = 3;
/// An answer that takes longer is not waited for where another broker may have the leadership.
pub(in crate::run) const LED_PATIENCE: Duration = Duration::from_secs(3);

/// Between two batches of a producer that others have caught up with long before.
const REST: Duration = Duration::from_secs(2);

/// They take a log directory from a broker.
const OFFLINE: [Strike; 2] = [Strike::FailSync, Strike::FailWrite];

/// The end of names that belong to one node.
pub(in crate::run) fn suffix(node: HostId) -> String {
    format!("-of-{}", node.0)
}

impl Plan {
    /// The part of it that the clients of one node have. In one cluster their topics are their own, on their node.
    pub(in crate::run) fn on(&self, node: HostId) -> Plan {
        let mut plan = self.clone();
        if plan.is_united && !plan.is_led {
            let end = suffix(node);
            for topic in &mut plan.topics {
                topic.name += &end;
                topic.node = Some(node);
            }
            for habits in &mut plan.producers {
                habits.topic += &end;
            }
        }
        plan
    }

    /// A run with these kinds of faults, pauses and cut links, of so many brokers.
    #[must_use]
    pub fn beside(seed: u64, strikes: &[Strike], nodes: u8) -> Plan {
        let mut strikes = strikes.to_vec();
        strikes.extend([Strike::Pause, Strike::CutLink]);
        let mut plan = Plan::striking(seed, &strikes);
        plan.nodes = nodes;
        plan.strike_pause /= u32::from(nodes);
        plan.producers.truncate(2);
        plan
    }

    /// A run with these kinds of faults, pauses and cut links, of three brokers that are one cluster. Each has clients that produce to
    /// partitions of its own and change topics through it, some of them those of others.
    #[must_use]
    pub fn united(seed: u64, strikes: &[Strike]) -> Plan {
        let mut plan = Plan::beside(seed, strikes, UNITED);
        let mut chance = Chance::new(seed ^ 0x756e_6974);
        plan.is_united = true;
        plan.snapshot_bytes = (chance.one_in(2)).then(|| chance.between(1_000, 10_000));
        (plan.council, plan.changes) = (4, 20);
        (plan.members, plan.table) = (0, None);
        plan.transactors.clear();
        plan
    }

    /// A run with these kinds of faults, pauses and cut links, of a cluster of three with one set of clients, who look for the brokers
    /// that they need.
    pub(super) fn led(seed: u64, strikes: &[Strike]) -> Plan {
        let mut strikes = strikes.to_vec();
        if strikes.iter().any(|strike| OFFLINE.contains(strike)) {
            // A log directory that failed comes back with the next start.
            strikes.push(Strike::Kill);
        }
        let mut plan = Plan::united(seed, &strikes);
        plan.is_led = true;
        (plan.council, plan.changes, plan.trims) = (0, 5, 0);
        plan.time = Duration::from_secs(12);
        for habits in &mut plan.producers {
            habits.patience = LED_PATIENCE;
        }
        plan
    }

    /// The same, and groups, each with its coordinator at some broker.
    #[must_use]
    pub fn coordinating(seed: u64, strikes: &[Strike]) -> Plan {
        let mut plan = Plan::led(seed, strikes);
        let mut chance = Chance::new(seed ^ 0x636f_6f72);
        (plan.members, plan.loners) = (6, 3);
        if chance.one_in(3) {
            plan.statics = 4;
            if chance.one_in(2) {
                plan.group_protocol = GroupProtocol::Mixed;
            }
        } else {
            plan.groups = 2;
        }
        plan
    }

    /// The same, and transactions, each with its coordinator at some broker and its partitions at others.
    #[must_use]
    pub fn marking(seed: u64, strikes: &[Strike], is_old: bool) -> Plan {
        let mut plan = Plan::led(seed, strikes);
        plan.transactors = if Chance::new(seed ^ 0x6d61_726b).one_in(3) {
            Plan::straying(seed, &plan.strikes, is_old).transactors
        } else {
            Plan::transactional(seed, &plan.strikes, is_old).transactors
        };
        plan.producers.truncate(1);
        plan
    }

    /// The same, and partitions move to other brokers, and now and then a disk is replaced.
    #[must_use]
    pub(super) fn moved(mut self, seed: u64) -> Plan {
        let mut chance = Chance::new(seed ^ 0x6d6f_7665);
        self.reassigns = !chance.one_in(4);
        // One disk at a time: where one fails beside, nobody may be known to have everything.
        let takes_disks = [Strike::FailSync, Strike::FailWrite];
        self.strikes.retain(|strike| !takes_disks.contains(strike));
        if !self.reassigns || !chance.one_in(3) {
            self.strikes.push(Strike::Wipe);
            // The others stay as they are.
            if seed % 6 == 3 {
                self.rest_a_partition();
                self.slows_new_disks = true;
            }
        }
        // Two replicas of a partition, of which both have to be in sync, take no record while one node is away.
        self.leaves_one_away &= !self.reassigns;
        self.time = Duration::from_secs(20);
        self
    }

    /// Partitions move to other brokers, and nobody writes to them: what a replica says of one is said once. Nodes do not end, because each
    /// start has everything said anew.
    #[must_use]
    pub(super) fn resting(mut self) -> Plan {
        (self.reassigns, self.leaves_one_away) = (true, false);
        self.producers.clear();
        (self.changes, self.readers) = (0, 1);
        self.strikes = vec![Strike::Pause, Strike::CutLink];
        self.time = Duration::from_secs(20);
        self
    }

    /// True if replicas have nothing to say but what they say when they begin.
    pub(in crate::run) fn is_resting(&self) -> bool {
        self.reassigns && self.producers.is_empty()
    }

    /// Somebody writes to one partition now and then, and nobody else does: what a replica of it said last is for a while all there is.
    fn rest_a_partition(&mut self) {
        let Some(topic) = self.topics.iter().find(|topic| 1 < topic.partitions) else {
            return;
        };
        for habits in self
            .producers
            .iter_mut()
            .filter(|of| of.topic == topic.name)
        {
            habits.partitions.start = 1;
        }
        self.producers.push(Habits {
            topic: topic.name.clone(),
            partitions: 0..1,
            acks: -1,
            idempotent: true,
            in_flight_max: 1,
            records_max: 3,
            pause: REST,
            patience: LED_PATIENCE,
        });
    }

    /// The same, with producers that send on whatever is answered, to brokers that have little memory for requests. Nothing fails, so
    /// each of them is answered all the time.
    #[must_use]
    pub(super) fn pipelined(mut self, seed: u64) -> Plan {
        let mut chance = Chance::new(seed ^ 0x7069_7065);
        self.strikes.clear();
        (self.leaves_one_away, self.changes) = (false, 0);
        self.time = Duration::from_secs(3);
        self.request_bytes = Some(*chance.pick(&[256 << 10, 512 << 10, 1 << 20]));
        let topic = self.producers[0].topic.clone();
        let partitions = *chance.pick(&[1, 1, 2]);
        let busy = Habits {
            topic,
            partitions: 0..partitions,
            acks: -1,
            idempotent: false,
            in_flight_max: chance.between(200, 900) as usize,
            records_max: chance.between(1, 20),
            pause: Duration::ZERO,
            patience: LED_PATIENCE,
        };
        self.producers = vec![busy; chance.between(1, 3) as usize];
        self
    }

    /// The same, with three replicas of each partition, of which two have to be in sync. Whoever writes without transactions waits for
    /// them.
    #[must_use]
    pub(super) fn replicated(mut self, seed: u64) -> Plan {
        let mut chance = Chance::new(seed ^ 0x7265_706c);
        self.replicas = UNITED;
        // Where a log directory failed, another replica is away already.
        let is_whole = !self.strikes.iter().any(|it| OFFLINE.contains(it));
        self.leaves_one_away = is_whole && chance.one_in(2);
        for topic in &mut self.topics {
            topic.replicas = i16::from(UNITED);
            topic
                .configs
                .push(("min.insync.replicas", (UNITED - 1).to_string()));
        }
        for habits in &mut self.producers {
            habits.acks = -1;
        }
        self
    }

    /// The same, with a group, and nodes that are stopped and start as another build.
    #[must_use]
    pub(super) fn upgraded(mut self) -> Plan {
        (self.turns_builds, self.leaves_one_away) = (true, false);
        self.strikes.extend([Strike::Restart; 4]);
        (self.members, self.groups) = (3, 1);
        self
    }

    /// Three replicas of each partition, no strikes but those of the script, and some time behind the last of them.
    #[must_use]
    pub fn scripted(seed: u64, script: Vec<ScriptStep>) -> Plan {
        let mut plan = Plan::led(seed, &[]).replicated(seed);
        plan.strikes.clear();
        plan.leaves_one_away = false;
        let last = script.last().map_or(Duration::ZERO, |(after, _)| *after);
        plan.time = last + Duration::from_secs(4);
        plan.snapshot_bytes = Some(2_000);
        if script.iter().any(|(_, deed)| *deed == Deed::RotApart) {
            plan = plan.rotting();
            plan.strikes.clear();
        }
        plan.script = script;
        plan
    }

    /// The same, with rot in segments that are closed soon. The good copy is not to be the one that stays away.
    #[must_use]
    pub(super) fn rotting(mut self) -> Plan {
        (self.rots, self.leaves_one_away) = (true, false);
        self.strikes.extend([Strike::Rot; 3]);
        self.strike_pause /= 2;
        for topic in &mut self.topics {
            topic.configs.retain(|(name, _)| *name != "segment.ms");
            topic.configs.push(("segment.ms", "500".to_owned()));
        }
        self
    }
}
