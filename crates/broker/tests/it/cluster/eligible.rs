//! The last replica in sync dies (KIP-966): it leads again if it lost nothing, and else nobody does by itself.

use std::time::Duration;

use wire::messages::create_topics_request::{CreatableReplicaAssignment, CreatableTopic};
use wire::messages::elect_leaders_request::TopicPartitions;
use wire::messages::incremental_alter_configs_request::{AlterConfigsResource, AlterableConfig};
use wire::messages::{
    BrokerHeartbeatRequest, CreateTopicsRequest, ElectLeadersRequest,
    IncrementalAlterConfigsRequest,
};

use super::isr::{PLAYED, active, join};
use super::nodes::*;

const TOPIC: &str = "last";

/// A topic whose only replica in sync is on `node`: the other one, on a broker that the test plays, is fenced.
fn create(nodes: &Nodes, active: Node, node: Node) {
    let broker_epoch = join(nodes, active);
    let request = CreateTopicsRequest {
        topics: vec![CreatableTopic {
            name: TOPIC.to_owned(),
            num_partitions: -1,
            replication_factor: -1,
            assignments: vec![CreatableReplicaAssignment {
                partition_index: 0,
                broker_ids: vec![i32::from(node), PLAYED],
            }],
            ..Default::default()
        }],
        timeout_ms: 10_000,
        ..Default::default()
    };
    nodes.patiently(active, &request, 7, |answer| answer.topics[0].error_code);
    let beat = BrokerHeartbeatRequest {
        broker_id: PLAYED,
        broker_epoch,
        current_metadata_offset: i64::MAX,
        want_fence: true,
        ..Default::default()
    };
    let heard = nodes.patiently(active, &beat, 1, |answer| answer.error_code);
    assert!(heard.is_fenced);
    nodes.until(|nodes| Some(isr(nodes, active)? == [i32::from(node)]));
}

fn isr(nodes: &Nodes, asked: Node) -> Option<Vec<i32>> {
    let told = nodes.metadata(asked)?;
    let mut topics = told.topics.into_iter();
    let topic = topics.find(|topic| topic.name.as_deref() == Some(TOPIC))?;
    Some(topic.partitions.first()?.isr_nodes.clone())
}

fn leader(nodes: &Nodes, asked: Node) -> Option<i32> {
    nodes.leaders(asked, TOPIC)?.first().copied()
}

/// Of each node; the first has the metadata.
const DIRS: [&str; 3] = ["/data", "/data1", "/data2"];

/// The cluster, its active controller, and the node with the last replica, which was killed.
fn killed(seed: u64) -> (Nodes, Node, Node) {
    let mut nodes = Nodes::start_with(seed, &[PLAYABLE, ("log.dirs", "/data,/data1,/data2")]);
    let active = active(&nodes).expect("three voters have one");
    let last = ALL.into_iter().find(|node| *node != active);
    let last = last.expect("two others");
    create(&nodes, active, last);
    nodes.produce(last, TOPIC, "value");
    nodes.until(|nodes| Some(dir_of_last(nodes, last).is_some()));
    nodes.kill(last);
    nodes.until(|nodes| Some(leader(nodes, active)? == -1));
    assert_eq!(isr(&nodes, active), Some(Vec::new()));
    (nodes, active, last)
}

fn dir_of_last(nodes: &Nodes, node: Node) -> Option<&'static str> {
    let has_it = |dir: &&str| !nodes.dirs_in(dir, node, TOPIC).is_empty();
    DIRS.into_iter().find(has_it)
}

#[test]
fn the_last_replica_in_sync_leads_again_after_a_kill() {
    let (mut nodes, active, last) = killed(31);
    nodes.start_one(last);
    nodes.until(|nodes| Some(leader(nodes, active)? == i32::from(last)));
    assert_eq!(isr(&nodes, active), Some(vec![i32::from(last)]));
}

#[test]
fn one_that_may_have_lost_something_leads_when_an_operator_says_so() {
    let (mut nodes, active, last) = killed(32);
    let own = dir_of_last(&nodes, last).expect("its log is there");
    nodes.remove_file(last, &format!("{own}/esker.epoch"));
    nodes.start_one(last);
    nodes.until(|nodes| Some(nodes.metadata(last)?.brokers.len() == 3));
    nodes.pass(Duration::from_secs(15));
    assert_eq!(leader(&nodes, active), Some(-1));
    let request = ElectLeadersRequest {
        election_type: 1,
        topic_partitions: Some(vec![TopicPartitions {
            topic: TOPIC.to_owned(),
            partitions: vec![0],
        }]),
        timeout_ms: 10_000,
    };
    nodes.patiently(active, &request, 2, |answer| {
        answer.replica_election_results[0].partition_result[0].error_code
    });
    nodes.until(|nodes| Some(leader(nodes, active)? == i32::from(last)));
}

#[test]
fn a_replica_leads_again_though_another_directory_of_its_broker_is_missing() {
    let (mut nodes, active, last) = killed(33);
    let in_use = [Some(DIRS[0]), dir_of_last(&nodes, last)];
    let missing = DIRS.into_iter().find(|dir| !in_use.contains(&Some(dir)));
    nodes.break_dir(last, missing.expect("there are three"));
    nodes.start_one(last);
    nodes.until(|nodes| Some(leader(nodes, active)? == i32::from(last)));
    assert_eq!(isr(&nodes, active), Some(vec![i32::from(last)]));
}

/// The nodes of a topic that has no leader: the one that led has `COMMITTED` records and is down, the one that is up has `OLD` of them.
/// The third node is the active controller.
struct Leaderless {
    nodes: Nodes,
    controller: Node,
    behind: Node,
    led: Node,
}

const UNCLEAN: &str = "unclean.leader.election.enable";
const OLD: i64 = 3;
const COMMITTED: i64 = 10;

fn leaderless(seed: u64, configs: &[(&str, &str)]) -> Leaderless {
    let mut nodes = Nodes::start_with(seed, &[PLAYABLE]);
    let controller = active(&nodes).expect("three voters have one");
    let mut others = ALL.into_iter().filter(|node| *node != controller);
    let (led, behind) = (others.next().expect("one"), others.next().expect("two"));
    nodes.create_on(TOPIC, &[led, behind], configs);
    for _ in 0..OLD {
        nodes.produce(led, TOPIC, "both have it");
    }
    nodes.until(|nodes| Some(nodes.ends(behind, TOPIC)? == (0, OLD)));
    nodes.stop(behind);
    for _ in OLD..COMMITTED {
        nodes.produce(led, TOPIC, "acknowledged");
    }
    nodes.until(|nodes| Some(isr(nodes, controller)? == [i32::from(led)]));
    nodes.kill(led);
    nodes.start_one(behind);
    nodes.until(|nodes| Some(nodes.metadata(behind)?.brokers.len() == 2));
    Leaderless {
        nodes,
        controller,
        behind,
        led,
    }
}

/// Sets a setting of a resource: 2 is a topic, 4 a broker or, without a name, all of them.
fn set(nodes: &Nodes, asked: Node, (kind, name): (i8, &str), setting: (&str, &str)) {
    let request = IncrementalAlterConfigsRequest {
        resources: vec![AlterConfigsResource {
            resource_type: kind,
            resource_name: name.to_owned(),
            configs: vec![AlterableConfig {
                name: setting.0.to_owned(),
                config_operation: 0,
                value: Some(setting.1.to_owned()),
            }],
        }],
        ..Default::default()
    };
    nodes.patiently(asked, &request, 1, |answer| answer.responses[0].error_code);
}

impl Leaderless {
    /// The replica that is behind leads; the one that led comes back and follows it, without the records that the leader lacks.
    fn is_led_by_the_one_behind(&mut self) {
        let Leaderless {
            nodes,
            controller,
            behind,
            led,
        } = self;
        let (controller, behind, led) = (*controller, *behind, *led);
        nodes.within(Duration::from_secs(2), |nodes| {
            Some(leader(nodes, controller)? == i32::from(behind))
        });
        assert_eq!(isr(nodes, controller), Some(vec![i32::from(behind)]));
        nodes.until(|nodes| Some(leader(nodes, behind)? == i32::from(behind)));
        nodes.produce(behind, TOPIC, "new");
        nodes.start_one(led);
        nodes.until(|nodes| Some(nodes.ends(led, TOPIC)? == (0, OLD + 1)));
        nodes.until(|nodes| Some(isr(nodes, controller)?.len() == 2));
        let aside: Vec<String> = nodes.aside_of(led, TOPIC);
        assert_eq!(aside.len(), 1, "what was removed stays beside: {aside:?}");
    }
}

#[test]
fn a_replica_that_is_behind_leads_when_it_comes_back_where_the_topic_was_made_for_it() {
    let mut all = leaderless(34, &[(UNCLEAN, "true")]);
    all.is_led_by_the_one_behind();
}

#[test]
fn a_partition_without_leader_gets_one_when_its_topic_is_given_the_setting() {
    let mut all = leaderless(35, &[]);
    all.nodes.pass(Duration::from_secs(15));
    assert_eq!(leader(&all.nodes, all.controller), Some(-1));
    set(&all.nodes, all.behind, (2, TOPIC), (UNCLEAN, "true"));
    all.is_led_by_the_one_behind();
}

#[test]
fn a_partition_without_leader_gets_one_when_all_brokers_are_given_the_setting() {
    let mut all = leaderless(36, &[]);
    all.nodes.pass(Duration::from_secs(15));
    assert_eq!(leader(&all.nodes, all.controller), Some(-1));
    set(&all.nodes, all.controller, (4, ""), (UNCLEAN, "true"));
    all.is_led_by_the_one_behind();
}

#[test]
fn the_leader_that_an_operator_elects_is_followed_by_the_one_that_has_more() {
    let mut all = leaderless(37, &[]);
    let nodes = &all.nodes;
    nodes.until(|nodes| Some(leader(nodes, all.controller)? == -1));
    let request = ElectLeadersRequest {
        election_type: 1,
        topic_partitions: None,
        timeout_ms: 10_000,
    };
    nodes.patiently(all.controller, &request, 2, |answer| answer.error_code);
    all.is_led_by_the_one_behind();
}

/// A replica led an epoch in which it wrote nothing, and the next leader, which had a record of the epoch before, never heard of it. The replica
/// named its epoch and was told to cut its empty log, again and again, and stayed out of the ISR (simulator: replicated-transactions 364).
#[test]
fn a_replica_that_led_without_writing_follows_the_next_leader() {
    let seeds = 60..80;
    let mut all = seeds.map(Nodes::start);
    let mut nodes = all
        .find(|nodes| active(nodes) == Some(3))
        .expect("each is elected now and then");
    nodes.create_on(TOPIC, &[1, 2], &[("min.insync.replicas", "2")]);
    nodes.part(1, 2);
    // Nobody else has it.
    drop(nodes.send(1, &produced(TOPIC, 0, "value"), 9));
    nodes.until(|nodes| Some(nodes.ends(1, TOPIC)? == (0, 1)));
    nodes.kill(1);
    nodes.until(|nodes| Some(leader(nodes, 3)? == 2));
    nodes.start_one(1);
    nodes.until(|nodes| Some(nodes.metadata(3)?.brokers.len() == 3));
    assert_eq!(isr(&nodes, 3), Some(vec![2]));
    nodes.cut_off(2);
    nodes.until(|nodes| Some(leader(nodes, 3)? == 1));
    assert_eq!(nodes.ends(2, TOPIC), Some((0, 0)));
    nodes.mend();
    nodes.within(Duration::from_secs(5), |nodes| {
        Some(isr(nodes, 3)?.len() == 2)
    });
    assert_eq!(nodes.ends(2, TOPIC), Some((0, 1)));
}
