//! Nodes that come back with less than they had, or with a clock that is wrong: the cluster keeps what it committed.

use std::path::Path;
use std::time::Duration;

use env::sim::Rot;
use wire::messages::create_topics_request::CreatableTopic;
use wire::messages::{ControllerRegistrationRequest, CreateTopicsRequest};

use super::isr::{active, active_of};
use super::nodes::*;

const SNAPSHOTS: &str = "/data/snapshots";
/// A snapshot of the metadata is taken so often.
const OFTEN: &[(&str, &str)] = &[("metadata.log.max.snapshot.interval.ms", "1000")];
const A_WHILE: Duration = Duration::from_secs(3);

pub(super) fn create(nodes: &Nodes, asked: Node, topic: &str) {
    let request = CreateTopicsRequest {
        topics: vec![CreatableTopic {
            name: topic.to_owned(),
            num_partitions: 2,
            replication_factor: 2,
            ..Default::default()
        }],
        timeout_ms: 10_000,
        ..Default::default()
    };
    nodes.patiently(asked, &request, 7, |answer| answer.topics[0].error_code);
}

pub(super) fn knows(nodes: &Nodes, node: Node, topic: &str) {
    nodes.until(|nodes| Some(nodes.leaders(node, topic)?.len() == 2));
}

/// One that is not the active controller, and the third.
pub(super) fn others(nodes: &Nodes) -> (Node, Node, Node) {
    let active = active(nodes).expect("three voters have one");
    let mut others = ALL.into_iter().filter(|node| *node != active);
    let (one, other) = (others.next(), others.next());
    (active, one.expect("a second"), other.expect("a third"))
}

/// The one that lacks a topic asks the one that forgot it for its vote.
#[test]
fn an_emptied_voter_helps_nobody_to_leadership_who_lacks_what_it_had() {
    let mut nodes = Nodes::start(51);
    let (active, emptied, behind) = others(&nodes);
    nodes.kill(behind);
    create(&nodes, active, "kept");
    knows(&nodes, emptied, "kept");
    nodes.kill(active);
    nodes.kill(emptied);
    nodes.replace_dir(emptied, "/data");
    nodes.start_one(emptied);
    nodes.start_one(behind);
    nodes.pass(Duration::from_secs(20));
    let told = nodes.ask(behind, &quorum_of_metadata(), 2);
    let leader = told.map(|told| told.topics[0].partitions[0].leader_id);
    assert!(
        leader.is_none_or(|leader| leader < 0 || leader == i32::from(active)),
        "{leader:?}"
    );
    // With the one that has it all of them do.
    nodes.start_one(active);
    for node in ALL {
        knows(&nodes, node, "kept");
    }
    // And the emptied one counts again: the cluster goes on without another.
    nodes.pass(A_WHILE);
    nodes.kill(behind);
    create(&nodes, emptied, "after");
    knows(&nodes, active, "after");
}

#[test]
fn a_voter_with_an_older_copy_of_its_directory_gets_what_it_lacks() {
    let mut nodes = Nodes::start(52);
    let (active, rolled, other) = others(&nodes);
    create(&nodes, active, "first");
    knows(&nodes, rolled, "first");
    nodes.stop(rolled);
    let copy = nodes.files(rolled, "/data");
    nodes.start_one(rolled);
    for topic in ["second", "third"] {
        create(&nodes, active, topic);
        knows(&nodes, rolled, topic);
    }
    nodes.stop(rolled);
    nodes.put_back(rolled, "/data", &copy);
    nodes.start_one(rolled);
    for topic in ["first", "second", "third"] {
        for node in [active, rolled, other] {
            knows(&nodes, node, topic);
        }
    }
}

#[test]
fn a_damaged_snapshot_at_a_start_is_passed_over_and_a_start_without_any_is_refused() {
    let mut nodes = Nodes::start_with(53, OFTEN);
    let (active, damaged, _) = others(&nodes);
    for topic in ["first", "second", "third"] {
        create(&nodes, active, topic);
        nodes.pass(A_WHILE);
    }
    nodes.stop(damaged);
    let files = nodes.files(damaged, SNAPSHOTS);
    let mut names: Vec<&Path> = files.iter().map(|(path, _)| path.as_path()).collect();
    names.sort();
    assert_eq!(names.len(), 2, "{names:?}");
    let rot = |path: &Path| {
        let machine = nodes.machine(damaged);
        machine
            .rot(path, 90..91, Rot::Flip { bit: 3 })
            .expect("it is there");
    };
    rot(names[1]);
    nodes.start_one(damaged);
    for topic in ["first", "second", "third"] {
        knows(&nodes, damaged, topic);
    }
    nodes.stop(damaged);
    let files = nodes.files(damaged, SNAPSHOTS);
    let halves = files.into_iter().map(|(path, bytes)| {
        let half = bytes.len() / 2;
        (path, bytes[..half].to_vec())
    });
    let cut: Vec<_> = halves.collect();
    nodes.put_back(damaged, SNAPSHOTS, &cut);
    let refused = nodes
        .try_start(damaged)
        .expect_err("its log begins behind a snapshot that is gone");
    assert!(refused.contains("snapshot that it begins at"), "{refused}");
    // As the line says.
    nodes.replace_dir(damaged, "/data");
    nodes.start_one(damaged);
    for topic in ["first", "second", "third"] {
        knows(&nodes, damaged, topic);
    }
}

#[test]
fn controllers_register_with_the_active_one_and_again_in_their_next_life() {
    let mut nodes = Nodes::start_with(56, &[PLAYABLE]);
    let ids = |nodes: &Nodes, node| {
        let known = nodes.controllers(node).into_iter();
        known.map(|(id, _)| id).collect::<Vec<_>>()
    };
    for node in ALL {
        nodes.until(|nodes| Some(ids(nodes, node) == [1, 2, 3]));
    }
    let before = nodes.controllers(1);
    let (active, other, third) = others(&nodes);
    for node in [other, active] {
        nodes.kill(node);
        nodes.start_one(node);
    }
    let lives = |nodes: &Nodes| {
        let now = nodes.controllers(third).into_iter();
        let again = now.zip(&before).filter(|(now, before)| now != *before);
        again.map(|((id, _), _)| id).collect::<Vec<_>>()
    };
    let mut restarted = [i32::from(active), i32::from(other)];
    restarted.sort_unstable();
    nodes.until(|nodes| Some(lives(nodes) == restarted));
    // A number that no node has is refused.
    let request = ControllerRegistrationRequest {
        controller_id: -1,
        ..Default::default()
    };
    nodes.until(|nodes| {
        let active = active_of(nodes, third)?;
        let answer = nodes.ask(active, &request, 0)?;
        Some(answer.error_code == wire::ErrorCode::InvalidRequest.code())
    });
    assert_eq!(ids(&nodes, third), [1, 2, 3]);
}

/// The leader's own file is damaged: the next snapshot that it takes is not.
#[test]
fn a_damaged_snapshot_that_is_fetched_is_not_believed() {
    let mut nodes = Nodes::start_with(54, OFTEN);
    let (active, emptied, _) = others(&nodes);
    for topic in ["first", "second"] {
        create(&nodes, active, topic);
        nodes.pass(A_WHILE);
    }
    nodes.kill(emptied);
    nodes.replace_dir(emptied, "/data");
    for (path, _) in nodes.files(active, SNAPSHOTS) {
        let machine = nodes.machine(active);
        machine
            .rot(&path, 90..91, Rot::Flip { bit: 3 })
            .expect("it is there");
    }
    nodes.start_one(emptied);
    nodes.pass(A_WHILE);
    create(&nodes, active, "third");
    for topic in ["first", "second", "third"] {
        knows(&nodes, emptied, topic);
    }
}

#[test]
fn a_clock_that_is_an_hour_off_moves_no_leadership_and_no_leadership() {
    let nodes = Nodes::start(55);
    let (leads, other, third) = others(&nodes);
    create(&nodes, leads, "first");
    let before = nodes
        .ask(leads, &quorum_of_metadata(), 2)
        .expect("it answers");
    let hour = 3_600_000;
    for (node, by) in [
        (leads, hour),
        (leads, -2 * hour),
        (other, -hour),
        (third, hour),
    ] {
        nodes.machine(node).jump_wall(by);
        nodes.pass(A_WHILE);
        let topic = format!("off-{node}-{}", by > 0);
        create(&nodes, other, &topic);
        ALL.into_iter().for_each(|node| knows(&nodes, node, &topic));
        nodes.produce_to(other, &topic, 0, "value");
        assert_eq!(nodes.isr(other, &topic).map(|isr| isr.len()), Some(2));
    }
    let after = nodes
        .ask(leads, &quorum_of_metadata(), 2)
        .expect("it answers");
    let of = |told: &wire::messages::DescribeQuorumResponse| {
        let part = &told.topics[0].partitions[0];
        (part.leader_id, part.leader_epoch)
    };
    assert_eq!(of(&before), of(&after));
}

/// It would lead alone, and ask the two others to cut what they have committed.
#[test]
fn a_voter_that_is_started_without_the_others_is_refused_and_the_cluster_goes_on() {
    let mut nodes = Nodes::start(54);
    let (active, odd, other) = others(&nodes);
    create(&nodes, active, "before");
    for way in [
        (|_| vec![("controller.quorum.voters", String::new())]) as fn(Node) -> _,
        |node| {
            let own = format!("{node}@10.0.0.{node}:9092");
            vec![("controller.quorum.voters", own)]
        },
        |node| {
            let two = format!("{node}@10.0.0.{node}:9092,9@10.0.0.9:9092");
            vec![("controller.quorum.voters", two)]
        },
    ] {
        nodes.stop(odd);
        nodes.settle(way);
        let refused = nodes.try_start(odd).expect_err("others vote");
        assert!(
            refused.contains("set controller.quorum.voters"),
            "{refused}"
        );
        nodes.settle(|_| Vec::new());
        create(&nodes, other, "meanwhile");
        nodes.kill(odd);
        nodes.start_one(odd);
        knows(&nodes, odd, "meanwhile");
        let request = wire::messages::DeleteTopicsRequest {
            topics: vec![wire::messages::delete_topics_request::DeleteTopicState {
                name: Some("meanwhile".to_owned()),
                ..Default::default()
            }],
            timeout_ms: 10_000,
            ..Default::default()
        };
        nodes.patiently(active, &request, 6, |answer| answer.responses[0].error_code);
    }
    knows(&nodes, odd, "before");
}

/// Two of three disks went back to an older copy, and both nodes lead without what the third has committed with them before.
#[test]
fn a_voter_that_is_asked_to_cut_what_is_committed_lives_and_keeps_it() {
    let mut nodes = Nodes::start_with(55, &[("log.flush.offset.checkpoint.interval.ms", "1000")]);
    let (active, one, other) = others(&nodes);
    create(&nodes, active, "first");
    ALL.iter().for_each(|node| knows(&nodes, *node, "first"));
    let rolled = [active, other];
    for node in rolled {
        nodes.stop(node);
    }
    let copies = rolled.map(|node| nodes.files(node, "/data"));
    rolled.iter().for_each(|node| nodes.start_one(*node));
    for topic in ["second", "third"] {
        create(&nodes, one, topic);
        knows(&nodes, one, topic);
    }
    nodes.pass(A_WHILE);
    for (node, copy) in rolled.iter().zip(&copies) {
        nodes.kill(*node);
        nodes.put_back(*node, "/data", copy);
    }
    nodes.stop(one);
    // Those that lack it elect one of themselves, and go on.
    rolled.iter().for_each(|node| nodes.start_one(*node));
    create(&nodes, active, "elsewhere");
    nodes.start_one(one);
    nodes.pass(Duration::from_secs(20));
    assert!(nodes.runs(one), "it lives");
    let told = nodes.ask(one, &quorum_of_metadata(), 2);
    let leader = told.map(|told| told.topics[0].partitions[0].leader_id);
    assert_eq!(leader, Some(-1), "it follows none of them");
    assert!(rolled.iter().all(|node| nodes.runs(*node)));
    // Put right, it is one of them again.
    nodes.stop(one);
    nodes.replace_dir(one, "/data");
    nodes.start_one(one);
    for topic in ["first", "elsewhere"] {
        ALL.iter().for_each(|node| knows(&nodes, *node, topic));
    }
}

/// A bit of the file turned one of its voters into another: it is not what the settings are held against.
#[test]
fn a_damaged_vote_names_no_voters_that_refuse_a_start() {
    let mut nodes = Nodes::start(57);
    let (active, damaged, _) = others(&nodes);
    nodes.stop(damaged);
    let mut files = nodes.files(damaged, "/data");
    let vote = files
        .iter_mut()
        .find(|(path, _)| path.ends_with("quorum-state"));
    let (_, text) = vote.expect("it has voted");
    let other = String::from_utf8(text.clone()).expect("text");
    let other = other.replace("{\"voterId\":3}", "{\"voterId\":7}");
    assert_ne!(other.as_bytes(), text.as_slice());
    *text = other.into_bytes();
    nodes.put_back(damaged, "/data", &files);
    nodes.start_one(damaged);
    create(&nodes, active, "after");
    knows(&nodes, damaged, "after");
}
