//! Several nodes are one cluster: one active controller in an epoch, one history of changes, and the same metadata everywhere at last.
//!
//! Looks into the brokers for what no client is shown: who is the active controller, and the whole image of each node. What clients
//! were told of topics is held against those images when every client has been judged.

use std::collections::BTreeMap;
use std::ops::Range;

use broker::Broker;
use env::sim::HostId;
use model::{LeaderEpoch, Offset};

use super::cluster::Cluster;
use super::{LIVE_MAX, Run};
use crate::checker::{Act, Told, Verb, linearize};
use crate::client::council::VALUE;

/// The whole cluster, as the run has seen it so far.
#[derive(Default)]
pub(super) struct Unity {
    /// The active controller of each epoch.
    leaderships: BTreeMap<LeaderEpoch, HostId>,
    /// The id of the cluster, in every life of every node.
    cluster_id: Option<String>,
    /// The metadata log of each node.
    logs: BTreeMap<HostId, Range<Offset>>,
    /// Logs that began anew at a snapshot of another node, and logs that were trimmed.
    pub(super) fetched: u64,
    pub(super) trimmed: u64,
    /// The answers of clients of all nodes about topics that they changed.
    acts: BTreeMap<String, Vec<Act>>,
    /// Topics that are there, and that are not, as the clients of all nodes know.
    there: Vec<String>,
    gone: Vec<String>,
}

impl Unity {
    /// Epochs that had an active controller.
    pub(super) fn leaderships(&self) -> u64 {
        self.leaderships.len() as u64
    }

    /// Looks at every node; what is wrong.
    pub(super) fn watch(&mut self, cluster: &Cluster) -> Option<String> {
        for node in cluster.nodes() {
            let Some(broker) = cluster.node(node).broker() else {
                self.logs.remove(&node);
                continue;
            };
            if let Some(wrong) = self.watch_id(node, broker, cluster.nodes().count()) {
                return Some(wrong);
            }
            if let Some(epoch) = broker.leadership() {
                let first = *self.leaderships.entry(epoch).or_insert(node);
                if first != node {
                    let (first, second) = (first.0, node.0);
                    return Some(format!(
                        "nodes {first} and {second} are both the active controller of epoch {}",
                        epoch.0
                    ));
                }
            }
            let log = broker.metadata_log();
            if let Some(before) = self.logs.insert(node, log.clone()) {
                self.fetched += u64::from(before.end < log.start);
                self.trimmed += u64::from(before.start < log.start);
            }
        }
        None
    }

    /// The voters of one list agree on one id, and no node ever has another.
    fn watch_id(&mut self, node: HostId, broker: &Broker, nodes: usize) -> Option<String> {
        let Some(id) = broker.cluster_id() else {
            let leads = broker.leadership().is_some();
            return leads.then(|| format!("node {} leads a cluster without an id", node.0));
        };
        let first = self.cluster_id.get_or_insert_with(|| id.to_owned());
        // An empty directory of the only node is another cluster.
        (1 < nodes && first != id)
            .then(|| format!("node {} is of cluster {id}, others of {first}", node.0))
    }

    fn names(&self, names: &[&str], are_there: bool) -> Vec<String> {
        let known = if are_there { &self.there } else { &self.gone };
        let is_there = |name: &&String| names.contains(&name.as_str());
        let wrong = known.iter().filter(|name| is_there(name) != are_there);
        wrong.cloned().collect()
    }
}

impl Run {
    /// Keeps what the clients of the home node know of topics.
    pub(super) fn remember_topics(&mut self) {
        let (there, gone) = self.clients.admin.told();
        let owned = |names: Vec<&str>| names.into_iter().map(str::to_owned).collect::<Vec<_>>();
        self.unity.there.extend(owned(there));
        self.unity.gone.extend(owned(gone));
        for (name, acts) in &self.clients.notes.acts {
            let all = self.unity.acts.entry(name.clone()).or_default();
            all.extend_from_slice(acts);
        }
    }

    /// Once nothing disturbs the nodes, and no client changes anything, they have one active controller and the same metadata. Those
    /// are what the clients were told.
    pub(super) fn demand_unity(&mut self) {
        if !self.clients.notes.violations.is_empty() {
            return;
        }
        if !self.until(LIVE_MAX, |run| run.cluster.is_of_one_mind()) {
            if self.clients.notes.violations.is_empty() {
                let nodes = self.cluster.nodes().map(|node| self.cluster.describe(node));
                let nodes: Vec<String> = nodes.collect();
                let what = format!("the nodes do not agree: {}", nodes.join("; "));
                self.clients.notes.violation(what);
            }
            return;
        }
        let Some(image) = self.cluster.home().broker().map(broker::Broker::image) else {
            return;
        };
        let names: Vec<&str> = image.topics().map(|topic| &*topic.name).collect();
        for name in self.unity.names(&names, true) {
            let what = format!("topic {name} was created and is not in the metadata at last");
            self.clients.notes.violation(what);
        }
        for name in self.unity.names(&names, false) {
            let what = format!("topic {name} was deleted and is in the metadata at last");
            self.clients.notes.violation(what);
        }
        let now = self.cluster.now().0;
        for (name, acts) in &self.unity.acts {
            let resource = meta::Resource::topic(name);
            let value = image.overrides(&resource).get(VALUE).cloned();
            let told = value
                .and_then(|value| value.parse().ok())
                .filter(|_| image.topic(name).is_some())
                .map_or(Told::Missing, Told::Value);
            let last = Act {
                told,
                returned: now + 1,
                ..Act::begun(Verb::Read, now)
            };
            let acts: Vec<Act> = acts.iter().copied().chain([last]).collect();
            if let Err(around) = linearize(&acts) {
                let around: Vec<String> = around.iter().map(|act| format!("{act:?}")).collect();
                let around = around.join("; ");
                let what =
                    format!("no order of what all were told of topic {name} is possible: {around}");
                self.clients.notes.violation(what);
            }
        }
    }
}

impl Cluster {
    /// One node is the active controller, all are in, and they have the same metadata.
    fn is_of_one_mind(&self) -> bool {
        let brokers: Option<Vec<_>> = self.nodes().map(|node| self.node(node).broker()).collect();
        let Some(brokers) = brokers else {
            return false;
        };
        let images: Vec<_> = brokers.iter().map(|broker| broker.image()).collect();
        let Some((first, others)) = images.split_first() else {
            return false;
        };
        let controllers = brokers
            .iter()
            .filter(|broker| broker.leadership().is_some());
        let are_in = self.nodes().all(|node| {
            let known = first.broker(model::BrokerId(node.0.into()));
            known.is_some_and(|known| !known.is_fenced)
        });
        let records = |image: &meta::Image| meta::snapshot::records(image).collect::<Vec<_>>();
        let all = records(first);
        let are_equal = |other: &std::sync::Arc<meta::Image>| {
            other.end() == first.end() && records(other) == all
        };
        controllers.count() == 1 && are_in && others.iter().all(are_equal)
    }

    fn describe(&self, node: HostId) -> String {
        let host = self.node(node);
        let Some(broker) = host.broker() else {
            return format!("{} is down", node.0);
        };
        let image = broker.image();
        let fenced = image.brokers().filter(|known| known.is_fenced);
        let fenced: Vec<i32> = fenced.map(|known| known.id.0).collect();
        format!(
            "{} shows the metadata up to {}, of which {:?} are fenced, has the log {:?}, and the leadership of {:?}",
            node.0,
            image.end(),
            fenced,
            broker.metadata_log(),
            broker.leadership(),
        )
    }
}
