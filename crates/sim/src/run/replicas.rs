//! The replicas of a partition are held against each other at every step: no client is shown all of it.
//!
//! One leader in an epoch; whatever any replica knows to be committed is synced on every replica in sync; what is committed does
//! not become less while a broker lives; and nothing waits at a broker that acts as no leader.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use broker::Replica;
use env::sim::HostId;
use meta::{Image, NO_LEADER};
use model::{BrokerId, Instant, LeaderEpoch, Offset};
use wire::Uuid;

use super::Run;
use super::cluster::Cluster;

type Place = (Uuid, i32);

/// Requests that wait at a broker that acts as no leader are answered by then: a second after two of the longest syncs of a slow disk, 5 s
/// each. The shard that answers them may wait for both in one turn: what one commit lets be written, it writes at once.
const RELEASED_WITHIN: Duration = Duration::from_secs(11);

/// The partitions with more than one replica as each node has them, for people.
pub(super) fn describe(cluster: &Cluster) -> String {
    let mut lines = Vec::new();
    for node in cluster.nodes() {
        let host = cluster.node(node);
        let Some(broker) = host.broker().filter(|_| host.is_running()) else {
            lines.push(format!("node {} is away", node.0));
            continue;
        };
        let image = broker.image();
        let fenced = image.brokers().filter(|broker| broker.is_fenced);
        let fenced: Vec<i32> = fenced.map(|broker| broker.id.0).collect();
        let leadership = broker.leadership();
        lines.push(format!(
            "node {}: leadership {leadership:?}, fenced {fenced:?}",
            node.0
        ));
        for it in broker.replicas() {
            let Some(of) = planned(&image, &it).filter(|of| of.replicas.len() > 1) else {
                continue;
            };
            lines.push(format!(
                "  {}-{}: leader {} in {}, replicas {:?} adding {:?} removing {:?}, isr {:?}, elr {:?}; leads {:?}, {:?}",
                it.name,
                it.partition,
                of.leader.0,
                of.leader_epoch.0,
                numbers(&of.replicas),
                numbers(&of.adding),
                numbers(&of.removing),
                numbers(&of.isr),
                numbers(&of.eligible_leaders),
                it.leads_in,
                it.bounds
            ));
        }
    }
    lines.join("\n")
}

/// The partition of a replica as the metadata have it.
fn planned<'a>(image: &'a Image, it: &Replica) -> Option<&'a meta::image::Partition> {
    let at = usize::try_from(it.partition).ok()?;
    image.topic_by_id(it.topic)?.partitions.get(at)
}

fn numbers(brokers: &[BrokerId]) -> Vec<i32> {
    brokers.iter().map(|broker| broker.0).collect()
}

impl Run {
    /// True if all nodes run and every replica is in sync: one disk may go, and nothing that was acknowledged is lost with it.
    pub(super) fn may_lose_a_disk(&self) -> bool {
        let mut nodes = self.cluster.nodes();
        self.copies.are_whole()
            && self.copies.are_known_anew()
            && nodes.all(|node| self.cluster.node(node).is_running())
    }
}

#[derive(Default)]
pub(super) struct Copies {
    leaders: BTreeMap<(Place, LeaderEpoch), HostId>,
    /// The offsets committed for a broker in its present life, and which of its lives that is.
    committed: BTreeMap<HostId, (u64, BTreeMap<Place, Offset>)>,
    /// Nodes that lost a disk, with the registration of the life in which they did: until the next one their replicas are nobody's.
    wiped: BTreeMap<HostId, i64>,
    /// The newest metadata that any broker showed.
    image: Option<Arc<Image>>,
    /// Changes of leaders that were seen.
    pub(super) moves: u64,
    /// Replicas that were found in sync, and behind what their leader has.
    pub(super) compared: u64,
    /// Nodes that act as no leader, and since when.
    silent: BTreeMap<HostId, Instant>,
    /// Files rot: a replica that finds at a start what is lost cuts off what is behind, committed or not, and fetches it again.
    may_lose: bool,
}

impl Copies {
    pub(super) fn of(may_lose: bool) -> Copies {
        Copies {
            may_lose,
            ..Copies::default()
        }
    }

    /// A node loses a disk now.
    pub(super) fn on_wiped(&mut self, node: HostId) {
        let image = self.image.as_ref();
        let known = image.and_then(|image| image.broker(BrokerId(node.0.into())));
        if let Some(known) = known {
            self.wiped.insert(node, known.epoch);
        }
    }

    /// True if every node that lost a disk is registered again: until then it is in sync in the metadata alone.
    fn are_known_anew(&self) -> bool {
        self.wiped.iter().all(|(node, before)| {
            let image = self.image.as_ref();
            let known = image.and_then(|image| image.broker(BrokerId(node.0.into())));
            known.is_some_and(|known| *before < known.epoch)
        })
    }

    /// True if every replica of each partition is in sync, and none is on its way, as the newest metadata have it.
    pub(super) fn are_whole(&self) -> bool {
        let topics = self.image.iter().flat_map(|image| image.topics());
        let partitions = topics.flat_map(|topic| &topic.partitions);
        // The only replica of a partition is not filled again by anybody.
        let mut replicated = partitions.filter(|of| 1 < of.replicas.len());
        replicated.all(|of| {
            let is_settled = of.adding.is_empty() && of.removing.is_empty();
            is_settled && of.isr.len() == of.replicas.len() && of.leader != NO_LEADER
        })
    }

    /// Looks at every node; what is wrong.
    pub(super) fn watch(&mut self, cluster: &Cluster) -> Option<String> {
        let nodes = cluster.nodes().map(|node| (node, cluster.node(node)));
        let running = nodes.filter(|(_, host)| host.is_running());
        let mut here: Vec<(HostId, Vec<Replica>)> = Vec::new();
        for (node, host) in running {
            let Some(broker) = host.broker() else {
                self.silent.remove(&node);
                continue;
            };
            let image = broker.image();
            if self
                .image
                .as_ref()
                .is_none_or(|known| known.end() < image.end())
            {
                self.image = Some(image);
            }
            let replicas = broker.replicas();
            // A replica that comes back to a node that was rid of it knows nothing.
            if let Some((_, committed)) = self.committed.get_mut(&node) {
                committed.retain(|place, _| {
                    replicas.iter().any(|it| *place == (it.topic, it.partition))
                });
            }
            let wrong = (replicas.iter()).find_map(|it| self.judge(node, host.starts, it));
            if wrong.is_some() {
                return wrong;
            }
            if !broker.is_silent() || host.machine.is_paused() {
                self.silent.remove(&node);
            }
            if broker.is_silent() && !host.machine.is_paused() {
                // Its own time: that of a node whose disk keeps it busy is ahead, and it cannot be heard so long.
                let now = host.machine.env().clock.now();
                let since = *self.silent.entry(node).or_insert(now);
                let is_late = RELEASED_WITHIN < now.since(since);
                let waits = |it: &&Replica| is_late && 0 < it.waiting_count;
                if let Some(it) = replicas.iter().find(waits) {
                    return Some(format!(
                        "{}-{}: {} requests wait at node {}, which acts as no leader",
                        it.name, it.partition, it.waiting_count, node.0
                    ));
                }
            }
            here.push((node, replicas));
        }
        self.judge_in_sync(&here)
    }

    fn judge(&mut self, node: HostId, life: u64, it: &Replica) -> Option<String> {
        let place = (it.topic, it.partition);
        if let Some(epoch) = it.leads_in {
            let known = self.leaders.len();
            let first = *self.leaders.entry((place, epoch)).or_insert(node);
            self.moves += (self.leaders.len() - known) as u64;
            if first != node {
                let (first, second) = (first.0, node.0);
                return Some(format!(
                    "{}-{}: nodes {first} and {second} both lead in epoch {}",
                    it.name, it.partition, epoch.0
                ));
            }
        }
        let (of, committed) = self.committed.entry(node).or_default();
        if *of != life {
            (*of, *committed) = (life, BTreeMap::new());
        }
        if self.may_lose {
            return None;
        }
        let now = it.bounds.high_watermark;
        let before = committed
            .insert(place, now)
            .filter(|before| now < *before)?;
        // It was rid of the replica and has it anew, between two looks.
        if self.is_arriving(node, it) {
            return None;
        }
        Some(format!(
            "{}-{}: node {} had {before} committed, and has {now}",
            it.name, it.partition, node.0
        ))
    }

    /// True if the newest metadata give the node a replica that it did not have.
    fn is_arriving(&self, node: HostId, it: &Replica) -> bool {
        let image = self.image.as_ref();
        let planned = image.and_then(|image| planned(image, it));
        planned.is_some_and(|of| of.adding.contains(&BrokerId(node.0.into())))
    }

    fn judge_in_sync(&mut self, here: &[(HostId, Vec<Replica>)]) -> Option<String> {
        let image = self.image.as_ref()?;
        let mut known: BTreeMap<Place, (Offset, HostId)> = BTreeMap::new();
        for (node, replicas) in here {
            for it in replicas {
                let highest = (it.bounds.high_watermark, *node);
                let of = known.entry((it.topic, it.partition)).or_insert(highest);
                *of = (*of).max(highest);
            }
        }
        for (node, replicas) in here {
            let id = BrokerId(node.0.into());
            let registered = image.broker(id).filter(|broker| !broker.is_fenced);
            let is_new = |epoch: i64| self.wiped.get(node) != Some(&epoch);
            if registered.is_none_or(|broker| !is_new(broker.epoch)) {
                continue;
            }
            for it in replicas.iter().filter(|it| !it.is_offline) {
                let (committed, by) = known[&(it.topic, it.partition)];
                let Some(partition) = planned(image, it).filter(|of| of.isr.contains(&id)) else {
                    continue;
                };
                self.compared += u64::from(*node != by);
                if it.bounds.durable < committed {
                    return Some(format!(
                        "{}-{}: node {} knows {committed} to be committed, node {} is in sync {:?} and has {} synced",
                        it.name, it.partition, by.0, node.0, partition.isr, it.bounds.durable
                    ));
                }
            }
        }
        None
    }
}
