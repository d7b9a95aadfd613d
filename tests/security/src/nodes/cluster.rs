//! A cluster of three nodes, each with a listener of each kind.

use std::path::PathBuf;

use wire::messages::describe_quorum_request::{PartitionData, TopicData};
use wire::messages::metadata_request::MetadataRequestTopic;
use wire::messages::{DescribeClusterRequest, DescribeQuorumRequest, MetadataRequest};

use crate::broker::frames::Talk;
use crate::broker::{Node, Place};

pub(crate) const TOPIC: &str = "t";
pub(crate) const METADATA: &str = "__cluster_metadata";

/// The listeners of one node.
#[derive(Clone)]
pub(crate) struct Addresses {
    pub(crate) clients: String,
    pub(crate) users: String,
    pub(crate) controllers: String,
}

pub(crate) struct Cluster {
    pub(crate) nodes: Vec<Node>,
    pub(crate) addresses: Vec<Addresses>,
}

/// The state that must stay the same while strangers ask: the quorum, and who leads what with whom.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Sight {
    pub(crate) controller: i32,
    epoch: i32,
    voters: Vec<i32>,
    observers: Vec<i32>,
    brokers: Vec<i32>,
    partitions: Vec<(i32, i32, Vec<i32>, Vec<i32>)>,
    pub(crate) topic_id: wire::Uuid,
    pub(crate) cluster_id: String,
}

impl Cluster {
    /// Three nodes that are not started. `settings` are those of each.
    pub(crate) fn new(place: &mut Place, settings: &[&str]) -> Cluster {
        let addresses: Vec<Addresses> = (0..3).map(|_| Addresses::new(place)).collect();
        let voters = (1..).zip(&addresses);
        let voters = voters.map(|(id, of)| format!("{id}@{}", of.controllers));
        let voters = voters.collect::<Vec<_>>().join(",");
        let node = |(id, of): (i32, &Addresses)| {
            let listeners = format!(
                "listeners=PLAINTEXT://{},SASL_PLAINTEXT://{},CONTROLLER://{}",
                of.clients, of.users, of.controllers
            );
            let id = id.to_string();
            let mut arguments = vec!["--node-id", &id, "--voters", &voters];
            let own = [
                listeners.as_str(),
                "controller.listener.names=CONTROLLER",
                "listener.security.protocol.map=PLAINTEXT:PLAINTEXT,SASL_PLAINTEXT:SASL_PLAINTEXT,CONTROLLER:PLAINTEXT",
                "inter.broker.listener.name=PLAINTEXT",
                "sasl.enabled.mechanisms=SCRAM-SHA-512",
            ];
            for setting in own.iter().chain(settings) {
                arguments.extend(["--set", setting]);
            }
            Node::new(place, &format!("node-{id}"), &of.clients, &arguments)
        };
        let nodes = (1..).zip(&addresses).map(node).collect();
        Cluster { nodes, addresses }
    }

    pub(crate) fn secret(&self) -> PathBuf {
        self.nodes[0].data.join("cluster.secret")
    }

    /// Starts the first node, which makes the secret, and the others with it.
    pub(crate) fn start(&mut self) -> Result<(), String> {
        self.nodes[0].start()?;
        self.nodes[0].await_listening()?;
        self.give_secret();
        for node in &mut self.nodes[1..] {
            node.start()?;
        }
        self.await_all()
    }

    /// All but the first have the file of the first from their next start on.
    pub(crate) fn give_secret(&mut self) {
        let secret = self.secret().display().to_string();
        for node in &mut self.nodes[1..] {
            node.arguments
                .extend(["--cluster-secret".to_owned(), secret.clone()]);
        }
    }

    pub(crate) fn await_all(&mut self) -> Result<(), String> {
        for (id, node) in (1..).zip(&mut self.nodes) {
            let served = node.await_serving();
            served.map_err(|why| format!("node {id}: {why}"))?;
        }
        Ok(())
    }

    pub(crate) fn stop(&mut self) -> Result<(), String> {
        self.nodes.iter_mut().try_for_each(Node::stop)
    }
}

impl Addresses {
    fn new(place: &mut Place) -> Addresses {
        let mut next = || format!("127.0.0.1:{}", place.port());
        Addresses {
            clients: next(),
            users: next(),
            controllers: next(),
        }
    }
}

/// The knowledge of a node, for an asker who may have it.
pub(crate) fn look(talk: &mut Talk) -> Result<Sight, String> {
    let partitions = vec![PartitionData { partition_index: 0 }];
    let quorum = DescribeQuorumRequest {
        topics: vec![TopicData {
            topic_name: METADATA.to_owned(),
            partitions,
        }],
    };
    let quorum = talk.ask(&quorum, 1)?;
    let quorum = (quorum.topics.first()).and_then(|topic| topic.partitions.first());
    let quorum = quorum.ok_or("the quorum is not described")?.clone();
    let cluster = talk.ask(&DescribeClusterRequest::default(), 0)?;
    let topic = MetadataRequestTopic {
        name: Some(TOPIC.to_owned()),
        ..Default::default()
    };
    let topics = MetadataRequest {
        topics: Some(vec![topic]),
        ..Default::default()
    };
    let topics = talk.ask(&topics, 12)?;
    let topic = topics.topics.first().ok_or("no topic")?;
    let sorted = |mut ids: Vec<i32>| {
        ids.sort_unstable();
        ids
    };
    let ids = |states: &[wire::messages::describe_quorum_response::ReplicaState]| {
        sorted(states.iter().map(|state| state.replica_id).collect())
    };
    let mut partitions: Vec<_> = (topic.partitions.iter())
        .map(|of| {
            let isr = sorted(of.isr_nodes.clone());
            (of.partition_index, of.leader_id, isr, vec![of.leader_epoch])
        })
        .collect();
    partitions.sort();
    Ok(Sight {
        controller: quorum.leader_id,
        epoch: quorum.leader_epoch,
        voters: ids(&quorum.current_voters),
        observers: ids(&quorum.observers),
        brokers: sorted(cluster.brokers.iter().map(|of| of.broker_id).collect()),
        partitions,
        topic_id: topic.topic_id,
        cluster_id: cluster.cluster_id,
    })
}

impl Sight {
    pub(crate) fn epoch(&self) -> i32 {
        self.epoch
    }

    /// True if all replicas are where they are to be.
    pub(crate) fn is_whole(&self) -> bool {
        let is_whole = |(_, leader, isr, _): &(i32, i32, Vec<i32>, Vec<i32>)| {
            0 <= *leader && isr.len() == self.brokers.len()
        };
        self.brokers.len() == 3 && self.partitions.iter().all(is_whole)
    }
}
