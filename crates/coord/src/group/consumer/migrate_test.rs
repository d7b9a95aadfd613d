//! Classic and consumer members in one group, on the way there and back.

use bytes::Bytes;
use wire::group::GroupRecord;
use wire::messages::ConsumerProtocolSubscription;
use wire::messages::consumer_protocol_subscription::TopicPartition;
use wire::{ErrorCode, Message, Uuid, Writer};

use super::partitions::Target;
use super::world::{Told, World};
use super::*;
use crate::caller;
use crate::group::Answer;
use crate::group::ask::{
    ConsumerHeartbeat, Heartbeat, Join, JoinRefusal, Joined, Kind, Leaver, Protocol, Standing, Sync,
};

/// The metadata of a classic member: reads t, has these.
fn metadata(has: &[i32]) -> Bytes {
    let message = ConsumerProtocolSubscription {
        topics: vec!["t".into()],
        owned_partitions: vec![TopicPartition {
            topic: "t".into(),
            partitions: has.to_vec(),
        }],
        ..ConsumerProtocolSubscription::default()
    };
    let mut w = Writer::new();
    w.i16(1);
    message.encode(&mut w, 1).expect("a subscription");
    w.finish().into_bytes().expect("bytes")
}

fn classic_group(world: &World, members: &[(&str, &[i32])]) -> ClassicGroup {
    let (topic, _) = world.topics.topics["t"];
    let member = |&(id, has): &(&str, &[i32])| ClassicMember {
        id: id.into(),
        rebalance_timeout_ms: 60_000,
        session_timeout_ms: 10_000,
        protocols: vec![("cooperative-sticky".into(), metadata(&[]))],
        assignment: embedded::assignment(
            &[(topic, has.iter().map(|&it| (it, 1)).collect())].into(),
            1,
            &world.topics,
        ),
        ..ClassicMember::default()
    };
    ClassicGroup {
        protocol_type: "consumer".into(),
        protocol: "cooperative-sticky".into(),
        generation: 3,
        members: members.iter().map(member).collect(),
    }
}

fn join_of(name: &str) -> ConsumerHeartbeat {
    ConsumerHeartbeat {
        group_id: "g".into(),
        member_id: name.into(),
        rebalance_timeout_ms: Some(60_000),
        topic_names: Some(vec!["t".into()]),
        owned: Some(Vec::new()),
        brings_member_id: true,
        ..ConsumerHeartbeat::default()
    }
}

fn epoch_of(told: &Told) -> i32 {
    let Standing { member_epoch, .. } = told.0.as_ref().expect("a member");
    *member_epoch
}

impl World {
    fn upgrade(&mut self, classic: &ClassicGroup, name: &str) -> String {
        let cx = World::cx(&self.topics, &self.settings, self.at);
        let step =
            ConsumerGroup::upgrade("g", classic, caller(&join_of(name)), &join_of(name), &cx);
        let Some(Answer::ConsumerHeartbeat(told)) = self.take(step).pop() else {
            panic!("no answer");
        };
        let epoch = told.as_ref().map_or(0, |standing| standing.member_epoch);
        self.clients.entry(name.to_owned()).or_default().epoch = epoch;
        self.show(&Told(told))
    }

    /// Why the heartbeat is refused, if it is.
    pub(super) fn classic_beat(&mut self, id: &str, generation: i32) -> Option<ErrorCode> {
        let beat = Heartbeat {
            group_id: "g".into(),
            generation,
            member_id: id.into(),
            ..Heartbeat::default()
        };
        let cx = World::cx(&self.topics, &self.settings, self.at);
        self.group.classic_heartbeat(&beat, &cx).err()
    }

    /// Leaves of member ids, some with their instance.
    fn leave(
        &mut self,
        members: &[(&str, Option<&str>)],
    ) -> (Vec<Result<(), ErrorCode>>, Vec<GroupRecord>) {
        let leaver = |&(id, instance): &(&str, Option<&str>)| Leaver {
            member_id: id.into(),
            instance_id: instance.map(str::to_owned),
            reason: None,
        };
        let leavers: Vec<Leaver> = members.iter().map(leaver).collect();
        let cx = World::cx(&self.topics, &self.settings, self.at);
        let (results, records) = self.group.classic_leave(&leavers, &cx);
        self.take(crate::Step {
            records: records.clone(),
            ..crate::Step::default()
        });
        (results, records)
    }

    /// Generation, or error.
    pub(super) fn classic_join(
        &mut self,
        id: &str,
        protocol: &str,
        has: &[i32],
    ) -> Result<i32, ErrorCode> {
        let (joined, _) = self.classic_join_as(id, None, protocol, has);
        joined
            .map(|joined| joined.generation)
            .map_err(|refusal| refusal.code)
    }

    fn classic_join_as(
        &mut self,
        id: &str,
        instance: Option<&str>,
        protocol: &str,
        has: &[i32],
    ) -> (Result<Joined, JoinRefusal>, Vec<GroupRecord>) {
        let protocol = Protocol {
            name: protocol.into(),
            metadata: metadata(has),
        };
        self.classic_join_with(id, instance, vec![protocol])
    }

    fn classic_join_with(
        &mut self,
        id: &str,
        instance: Option<&str>,
        protocols: Vec<Protocol>,
    ) -> (Result<Joined, JoinRefusal>, Vec<GroupRecord>) {
        let join = Join {
            group_id: "g".into(),
            member_id: id.into(),
            instance_id: instance.map(str::to_owned),
            session_timeout_ms: 10_000,
            rebalance_timeout_ms: Some(60_000),
            protocol_type: "consumer".into(),
            protocols,
            needs_member_id: true,
            fresh: Uuid([9; 16]),
            ..Join::default()
        };
        let cx = World::cx(&self.topics, &self.settings, self.at);
        let step = self.group.classic_join(caller(&join), &join, &cx);
        let records = step.records.clone();
        match self.take(step).pop() {
            Some(Answer::Join(joined)) => (joined, records),
            other => panic!("{other:?}"),
        }
    }

    pub(super) fn classic_sync(
        &mut self,
        id: &str,
        generation: i32,
    ) -> Result<Vec<i32>, ErrorCode> {
        let sync = Sync {
            group_id: "g".into(),
            generation,
            member_id: id.into(),
            ..Sync::default()
        };
        let cx = World::cx(&self.topics, &self.settings, self.at);
        let step = self.group.classic_sync(caller(&sync), &sync, &cx);
        match self.take(step).pop() {
            Some(Answer::Sync(Ok(it))) => {
                let target: Target =
                    embedded::assigned(&it.assignment, &self.topics).expect("an assignment");
                Ok(target.into_values().flatten().collect())
            }
            Some(Answer::Sync(Err(code))) => Err(code),
            other => panic!("{other:?}"),
        }
    }
}

/// A group of two classic members and one consumer, all of them where they are to be.
fn mixed() -> World {
    let mut world = World::new();
    world.topics.set("t", 3);
    let classic = classic_group(&world, &[("c1", &[0, 1]), ("c2", &[2])]);
    assert_eq!(world.upgrade(&classic, "a"), "4:");
    assert_eq!(
        world.classic_beat("c1", 3),
        Some(ErrorCode::RebalanceInProgress)
    );
    assert_eq!(
        world.classic_beat("c2", 3),
        Some(ErrorCode::RebalanceInProgress)
    );
    assert_eq!(
        world.classic_sync("c2", 3),
        Err(ErrorCode::RebalanceInProgress)
    );

    // c1 has to give up one, and stays in its epoch until it has.
    assert_eq!(
        world.classic_join("c1", "cooperative-sticky", &[0, 1]),
        Ok(3)
    );
    assert_eq!(world.classic_sync("c1", 3), Ok(vec![0]));
    assert_eq!(
        world.classic_beat("c1", 3),
        Some(ErrorCode::RebalanceInProgress)
    );
    assert_eq!(epoch_of(&world.beat("a", |_| {})), 4);
    assert!(world.clients["a"].has.is_empty());
    assert_eq!(world.classic_join("c1", "cooperative-sticky", &[0]), Ok(4));
    assert_eq!(world.classic_sync("c1", 4), Ok(vec![0]));
    assert_eq!(world.classic_beat("c1", 4), None);

    assert_eq!(world.classic_join("c2", "cooperative-sticky", &[2]), Ok(4));
    assert_eq!(world.classic_sync("c2", 4), Ok(vec![2]));
    let response = world.beat("a", |_| {});
    assert_eq!(world.show(&response), "4: t1");
    assert_eq!(world.group.state(), ConsumerState::Stable);
    world
}

#[test]
fn a_classic_group_goes_on_as_a_consumer_group() {
    let world = mixed();
    let cx = World::cx(&world.topics, &world.settings, world.at);
    let described = world.group.describe(&cx);
    let kinds: Vec<_> = (described.members.iter())
        .map(|member| (member.member_id.as_str(), member.kind))
        .collect();
    assert_eq!(
        kinds,
        [
            ("a", Kind::Consumer),
            ("c1", Kind::Classic),
            ("c2", Kind::Classic)
        ]
    );
}

#[test]
fn guests_go_on_until_what_changed_may_be_assigned() {
    let mut world = mixed();
    let t = |beat: &mut ConsumerHeartbeat| {
        beat.topic_names = Some(vec!["t".into()]);
    };
    assert_eq!(epoch_of(&world.beat("b", t)), 4);
    assert_eq!((world.group.epoch, world.group.assignment_epoch), (5, 4));
    assert_eq!(world.classic_beat("c1", 4), None);
    // One that joins all the same has its assignment, and need not come again.
    assert_eq!(world.classic_join("c1", "cooperative-sticky", &[0]), Ok(4));
    assert_eq!(world.classic_sync("c1", 4), Ok(vec![0]));
    assert_eq!(world.classic_beat("c1", 4), None);
    world.pass(1_000);
    assert_eq!(
        world.classic_beat("c1", 4),
        Some(ErrorCode::RebalanceInProgress)
    );
    assert_eq!(world.classic_sync("c2", 4), Ok(vec![2]));
    assert_eq!(world.classic_join("c1", "cooperative-sticky", &[0]), Ok(5));
    let again = Err(ErrorCode::RebalanceInProgress);
    assert_eq!(world.classic_sync("c2", 4), again);
    assert_eq!(world.classic_join("c2", "cooperative-sticky", &[2]), Ok(5));
    assert_eq!(world.classic_beat("c2", 5), None);
}

#[test]
fn a_static_member_that_changes_its_protocol_moves_nobody() {
    let (mut world, response) = with_static();
    assert_eq!(world.show(&response), "3: t2");
    assert_eq!(world.classic_beat("c1", 3), None);
    assert_eq!(world.group.state(), ConsumerState::Stable);
}

#[test]
fn what_cannot_be_upgraded_stays_classic() {
    let mut world = World::new();
    world.topics.set("t", 3);
    let classic = classic_group(&world, &[("c1", &[0, 1, 2])]);
    let mut refused = |change: &dyn Fn(&mut ClassicGroup)| {
        let mut classic = classic.clone();
        change(&mut classic);
        assert_eq!(world.upgrade(&classic, "a"), "GROUP_ID_NOT_FOUND");
        assert!(!world.group.exists());
    };
    refused(&|it| it.protocol_type = "connect".into());
    refused(&|it| it.members[0].assignment = Bytes::from_static(&[0, 1, 0]));
    refused(&|it| it.members[0].protocols[0].1 = Bytes::from_static(&[0]));
    world.settings.migration = Migration::Downgrade;
    assert_eq!(world.upgrade(&classic, "a"), "GROUP_ID_NOT_FOUND");
}

#[test]
fn the_refusal_of_a_custom_assignor_says_what_to_do() {
    let mut world = World::new();
    world.topics.set("t", 3);
    let mut classic = classic_group(&world, &[("c1", &[0, 1, 2])]);
    // A subscription that only its own assignor can read.
    classic.members[0].protocols[0].1 = Bytes::from_static(b"{\"zone\":1}");
    let cx = World::cx(&world.topics, &world.settings, world.at);
    let refused = ConsumerGroup::from_classic("g", &classic, &cx);
    let Err(refusal) = refused else {
        panic!("it was upgraded")
    };
    for words in [
        "classic group g",
        "custom assignor",
        "have all members use assignors of Kafka (range, round robin, sticky)",
    ] {
        assert!(refusal.message.contains(words), "{}", refusal.message);
    }
}

#[test]
fn a_group_without_consumer_members_is_classic_again() {
    let mut world = mixed();
    let cx = World::cx(&world.topics, &world.settings, world.at);
    let mut leave = join_of("a");
    leave.member_epoch = -1;
    let step = world.group.heartbeat(caller(&leave), &leave, &cx);
    let Some(GroupRecord::GroupMetadata(_, Some(value))) = step.records.last() else {
        panic!("{:?}", step.records.last());
    };
    assert_eq!((value.generation, value.members.len()), (4, 2));
    assert_eq!(value.protocol.as_deref(), Some("cooperative-sticky"));
    for (member, has) in value.members.iter().zip([vec![0], vec![2]]) {
        let target = embedded::assigned(&member.assignment, &world.topics).expect("readable");
        let partitions: Vec<i32> = target.into_values().flatten().collect();
        assert_eq!(partitions, has, "{}", member.member_id);
    }
    world.take(step);
    assert!(!world.group.exists());
}

/// A classic member, and a static one that has changed to the consumer protocol, with the answer to that: `i` owns 2.
fn with_static() -> (World, Told) {
    let mut world = World::new();
    world.topics.set("t", 3);
    let mut classic = classic_group(&world, &[("c1", &[0, 1]), ("c2", &[2])]);
    classic.members[1].instance_id = Some("i".into());
    let mut join = join_of("a");
    join.instance_id = Some("i".into());
    let cx = World::cx(&world.topics, &world.settings, world.at);
    let step = ConsumerGroup::upgrade("g", &classic, caller(&join), &join, &cx);
    let Some(Answer::ConsumerHeartbeat(told)) = world.take(step).pop() else {
        panic!("no answer");
    };
    (world, Told(told))
}

#[test]
fn a_group_is_classic_again_when_its_last_consumer_is_back_as_a_classic_member() {
    let (mut world, _) = with_static();
    let mut away = join_of("a");
    away.member_epoch = -2;
    away.instance_id = Some("i".into());
    let cx = World::cx(&world.topics, &world.settings, world.at);
    let step = world.group.heartbeat(caller(&away), &away, &cx);
    world.take(step);

    let (joined, records) = world.classic_join_as("", Some("i"), "cooperative-sticky", &[]);
    let joined = joined.expect("a member");
    let Some(GroupRecord::GroupMetadata(_, Some(value))) = records.last() else {
        panic!("{:?}", records.last());
    };
    let (generation, protocol) = (value.generation, value.protocol.clone());
    assert_eq!((joined.generation, joined.protocol), (generation, protocol));
    let had: Vec<_> = (value.members.iter())
        .map(|member| {
            let target = embedded::assigned(&member.assignment, &world.topics).expect("readable");
            let partitions: Vec<i32> = target.into_values().flatten().collect();
            (member.member_id.clone(), partitions)
        })
        .collect();
    assert_eq!(
        had,
        [("c1".to_owned(), vec![0, 1]), (joined.member_id, vec![2])]
    );
    assert!(!world.group.exists());
}

#[test]
fn a_group_with_other_consumers_or_that_may_not_downgrade_stays_when_one_is_back_as_classic() {
    let (mut world, _) = with_static();
    world.settings.migration = Migration::Upgrade;
    let (joined, _) = world.classic_join_as("", Some("i"), "cooperative-sticky", &[]);
    assert_eq!(joined.map(|joined| joined.generation), Ok(3));
    assert_eq!(world.group.members_count(), 2);

    let (mut world, _) = with_static();
    world.beat("b", |beat| {
        beat.rebalance_timeout_ms = Some(60_000);
        beat.topic_names = Some(vec!["t".into()]);
    });
    let (joined, _) = world.classic_join_as("", Some("i"), "cooperative-sticky", &[]);
    assert!(joined.is_ok());
    assert_eq!(world.group.members_count(), 3);
}

#[test]
fn a_group_that_may_not_downgrade_stays_a_consumer_group() {
    let mut world = mixed();
    world.settings.migration = Migration::Upgrade;
    world.beat("a", |beat| beat.member_epoch = -1);
    assert_eq!(world.group.members_count(), 2);
    assert_eq!(world.classic_beat("c1", 4), None);
    world.pass(1_000);
    assert_eq!(
        world.classic_beat("c1", 4),
        Some(ErrorCode::RebalanceInProgress)
    );
}

#[test]
fn a_group_whose_record_would_not_fit_stays_a_consumer_group_without_its_silent_member() {
    let mut world = mixed();
    world.batch_bytes_max = 500;
    for _ in 0..10 {
        world.pass(5_000);
        let epoch = world.group.members["c1"].epoch;
        world.classic_beat("c1", epoch);
        world.classic_beat("c2", epoch);
        world.tick();
    }
    let left: Vec<&String> = world.group.members.keys().collect();
    assert_eq!(left, ["c1", "c2"]);
    assert!(world.group.exists());
}

/// Protocols of these names, each with the same to say.
fn protocols(names: impl Iterator<Item = String>) -> Vec<Protocol> {
    let protocol = |name| Protocol {
        name,
        metadata: metadata(&[]),
    };
    names.map(protocol).collect()
}

#[test]
fn a_guest_needs_one_protocol_that_all_other_guests_support() {
    let mut world = mixed();
    let mut joined = |id: &str, names: &[&str]| {
        let names = names.iter().map(|&name| name.to_owned());
        let (joined, _) = world.classic_join_with(id, None, protocols(names));
        joined.map(drop).map_err(|refusal| refusal.code)
    };
    let both = ["range", "range", "cooperative-sticky"];
    assert_eq!(
        joined("c3", &["range"]),
        Err(ErrorCode::InconsistentGroupProtocol)
    );
    assert_eq!(joined("c1", &both), Ok(()));
    // Now c2 is the only one that does not know it.
    assert_eq!(
        joined("c1", &["range"]),
        Err(ErrorCode::InconsistentGroupProtocol)
    );
    assert_eq!(joined("c2", &["range"]), Ok(()));
    assert_eq!(
        joined("c3", &["cooperative-sticky"]),
        Err(ErrorCode::InconsistentGroupProtocol)
    );
    assert_eq!(joined("c3", &both), Ok(()));
}

#[test]
fn a_guest_says_no_more_about_itself_than_a_classic_member() {
    let mut world = mixed();
    let names = (0..100_000).map(|at| at.to_string());
    let mut many = protocols(["cooperative-sticky".to_owned()].into_iter().chain(names));
    let (joined, records) = world.classic_join_with("c3", None, many.clone());
    let refused = joined.map_err(|refusal| refusal.code);
    assert_eq!(refused, Err(ErrorCode::InvalidRequest));
    assert!(records.is_empty());
    many.truncate(5_000);
    let (joined, _) = world.classic_join_with("c3", None, many);
    assert!(joined.is_ok());
}

#[test]
fn classic_members_are_gone_when_they_are_silent_or_do_not_join_again() {
    let mut world = mixed();
    // Their sessions are their own, and began with the upgrade, where nobody had heard of them yet.
    world.pass(10_001);
    world.beat("a", |_| {});
    world.tick();
    assert_eq!(world.group.members_count(), 1);

    let mut world = World::new();
    world.topics.set("t", 3);
    let classic = classic_group(&world, &[("c1", &[0, 1]), ("c2", &[2])]);
    world.upgrade(&classic, "a");
    world.tick();
    for _ in 0..8 {
        world.pass(9_000);
        world.beat("a", |_| {});
        world.classic_beat("c1", 3);
        world.classic_beat("c2", 3);
        world.tick();
    }
    // 60 seconds to join again have passed.
    assert_eq!(world.group.members_count(), 1);
}

#[test]
fn classic_requests_of_others_are_refused() {
    let mut world = mixed();
    assert_eq!(world.classic_beat("a", 4), Some(ErrorCode::UnknownMemberId));
    assert_eq!(
        world.classic_beat("c1", 3),
        Some(ErrorCode::IllegalGeneration)
    );
    assert_eq!(world.classic_sync("x", 4), Err(ErrorCode::UnknownMemberId));
    assert_eq!(
        world.classic_join("c3", "range", &[]),
        Err(ErrorCode::InconsistentGroupProtocol)
    );
    assert_eq!(
        world.classic_join("", "cooperative-sticky", &[]),
        Err(ErrorCode::MemberIdRequired)
    );
    assert_eq!(world.classic_join("c3", "cooperative-sticky", &[]), Ok(4));
}

#[test]
fn a_leave_request_removes_members_of_either_protocol() {
    let mut world = mixed();
    let (left, unknown) = (Ok(()), Err(ErrorCode::UnknownMemberId));
    let (codes, _) = world.leave(&[("c1", None), ("x", None)]);
    assert_eq!(codes, [left, unknown]);
    assert_eq!(world.group.members_count(), 2);

    // The last of the consumer protocol gives the group back.
    let (codes, records) = world.leave(&[("a", None)]);
    assert_eq!(codes, [left]);
    let Some(GroupRecord::GroupMetadata(_, Some(value))) = records.last() else {
        panic!("{:?}", records.last());
    };
    assert_eq!(value.members[0].member_id, "c2");
    assert!(!world.group.exists());
}

#[test]
fn tools_remove_a_static_member_of_the_consumer_protocol_by_its_instance() {
    let mut world = World::new();
    world.topics.set("t", 3);
    for name in ["a", "b"] {
        let client = world.clients.entry(name.to_owned()).or_default();
        client.instance = Some(format!("desk-{name}"));
        client.names = vec!["t".into()];
        world.beat(name, |_| {});
    }
    // It keeps its place while it is away.
    world.beat("a", |beat| beat.member_epoch = -2);
    let (codes, _) = world.leave(&[("", Some("desk-x")), ("b", Some("desk-a"))]);
    let unknown = Err(ErrorCode::UnknownMemberId);
    let fenced = Err(ErrorCode::FencedInstanceId);
    assert_eq!(codes, [unknown, fenced]);
    assert_eq!(world.group.members_count(), 2);
    let (codes, _) = world.leave(&[("", Some("desk-a"))]);
    assert_eq!(codes, [Ok(())]);
    assert!(world.group.members.keys().eq(["b"]));
    // One that is there is told by its next heartbeat.
    let (codes, _) = world.leave(&[("b", Some("desk-b"))]);
    assert_eq!(codes, [Ok(())]);
    let response = world.beat("b", |_| {});
    assert_eq!(world.show(&response), "UNKNOWN_MEMBER_ID");
}

#[test]
fn a_late_commit_of_a_classic_member_holds_for_what_it_has_kept() {
    let world = mixed();
    let (topic, _) = world.topics.topics["t"];
    let commit = |generation: i32, partition: i32| {
        let by = CommitBy {
            member_id: "c1",
            instance_id: None,
            epoch: generation,
            transactional: false,
            knows_member_epochs: false,
        };
        world.group.validate_commit(&by, [(topic, partition)])
    };
    assert_eq!(commit(4, 0), Ok(()));
    // It has had the first since generation 3, and has given up the other.
    assert_eq!(commit(3, 0), Ok(()));
    let illegal = Err(ErrorCode::IllegalGeneration);
    assert_eq!(commit(3, 1), illegal);
    assert_eq!(commit(2, 0), illegal);
    assert_eq!(commit(5, 0), illegal);
}
