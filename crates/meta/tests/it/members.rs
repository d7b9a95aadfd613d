//! Brokers come, go and are taken off the list, and ISRs, leaders and eligible leaders follow.

use std::collections::BTreeMap;

use ::model::{BrokerId, LeaderEpoch, PartitionIndex};
use meta::decide::alter_partition::{AlterPartitionError, Proposal, alter_partitions};
use meta::decide::assign_dirs::{AssignDirError, AssignDirsError, Assignment, assign_dirs};
use meta::decide::create_partitions::{Growth, create_partitions};
use meta::decide::heartbeat::{UnregisterError, fence, heartbeat, leads_any, unregister};
use meta::decide::producer_ids::{AllocateError, allocate_for};
use meta::decide::reassign::{ReassignError, Target, is_in_progress, reassign};
use meta::decide::registration::{Before, RegisterError, Registering, register};
use meta::decide::{TopicRules, TopicSettings};
use meta::sessions::{Heartbeat, HeartbeatError, State, Step};
use meta::{Endpoint, Image, Levels, NO_LEADER, Partition, Record, SecurityProtocol, Trouble};
use wire::Uuid;
use wire::metadata::{FeatureLevelRecord, PartitionRecord};

use crate::isrs::{altered, proposal};
use crate::replay::{registration, topic};

/// The same settings for every topic.
#[derive(Clone, Copy)]
pub(super) struct All(TopicRules);

impl TopicSettings for All {
    fn of(&self, _: &Image, _: &str) -> TopicRules {
        self.0
    }
}

pub(super) const STRICT: All = All(TopicRules {
    min_isr: 2,
    may_be_unclean: false,
});

pub(super) fn dir(broker: i32, number: u8) -> Uuid {
    Uuid([
        number,
        broker as u8,
        7,
        7,
        7,
        7,
        7,
        7,
        7,
        7,
        7,
        7,
        7,
        7,
        7,
        7,
    ])
}

/// Brokers 1 to 3 with two directories each; topic `t` with a partition for each list of replicas, all in sync.
pub(super) fn cluster(partitions: &[&[i32]]) -> Image {
    let mut image = Image::default();
    let mut add = |record: Record| {
        image.replay(image.next_place(), &[record]).expect("fits");
    };
    for (name, feature_level) in [
        ("metadata.version", 30),
        ("eligible.leader.replicas.version", 1),
    ] {
        let name = name.to_owned();
        add(FeatureLevelRecord {
            name,
            feature_level,
        }
        .into());
    }
    for id in 1..=3 {
        let mut broker = registration(id, i64::from(id) + 10);
        broker.log_dirs = vec![dir(id, 1), dir(id, 2)];
        add(broker.into());
    }
    add(topic("t", 1));
    for (at, replicas) in partitions.iter().enumerate() {
        add(PartitionRecord {
            partition_id: at as i32,
            topic_id: Uuid([1; 16]),
            replicas: replicas.to_vec(),
            isr: replicas.to_vec(),
            leader: replicas[0],
            leader_epoch: 0,
            partition_epoch: 0,
            directories: replicas.iter().map(|id| dir(*id, 1)).collect(),
            ..PartitionRecord::default()
        }
        .into());
    }
    image
}

pub(super) fn after(image: &Image, records: &[Record]) -> Image {
    let mut image = image.clone();
    crate::replay(&mut image, records);
    image
}

pub(super) fn partition(image: &Image, at: usize) -> &Partition {
    &image.topic("t").expect("created").partitions[at]
}

/// Leader, ISR and eligible leaders.
pub(super) fn shown(image: &Image, at: usize) -> (i32, Vec<i32>, Vec<i32>) {
    let numbers = |ids: &[BrokerId]| ids.iter().map(|id| id.0).collect();
    let one = partition(image, at);
    (
        one.leader.0,
        numbers(&one.isr),
        numbers(&one.eligible_leaders),
    )
}

fn step(from: State, to: State) -> Step {
    Step {
        from,
        to,
        is_caught_up: true,
    }
}

fn beat(broker: i32) -> Heartbeat {
    Heartbeat {
        broker: BrokerId(broker),
        epoch: i64::from(broker) + 10,
        metadata_offset: 1000,
        ..Heartbeat::default()
    }
}

#[test]
fn a_fenced_broker_leaves_isrs_and_leads_nothing_and_one_that_is_back_leads_where_nobody_does() {
    let image = cluster(&[&[1, 2, 3], &[2, 1], &[1], &[3]]);
    let fenced = after(&image, &fence(&image, &STRICT, BrokerId(1)));
    assert!(fenced.broker(BrokerId(1)).expect("registered").is_fenced);
    assert_eq!(shown(&fenced, 0), (2, vec![2, 3], vec![]));
    assert_eq!(shown(&fenced, 1), (2, vec![2], vec![1]));
    assert_eq!(shown(&fenced, 2), (NO_LEADER.0, vec![], vec![1]));
    assert_eq!(shown(&fenced, 3), (3, vec![3], vec![]));
    assert_eq!(partition(&fenced, 0).leader_epoch, LeaderEpoch(1));
    assert_eq!(
        (
            partition(&fenced, 1).leader_epoch,
            partition(&fenced, 1).epoch
        ),
        (LeaderEpoch(0), 1)
    );

    let back = heartbeat(
        &fenced,
        &STRICT,
        &beat(1),
        step(State::Fenced, State::Unfenced),
    );
    let back = after(&fenced, &back);
    assert!(!back.broker(BrokerId(1)).expect("registered").is_fenced);
    assert_eq!(shown(&back, 2), (1, vec![1], vec![]));
    assert_eq!(shown(&back, 0), (2, vec![2, 3], vec![]));
    assert_eq!(fence(&image, &STRICT, BrokerId(9)), []);
}

#[test]
fn a_broker_that_shuts_down_hands_its_leaderships_over_before_it_goes() {
    let image = cluster(&[&[1, 2, 3], &[1]]);
    assert!(leads_any(&image, BrokerId(1)));
    let begun = heartbeat(
        &image,
        &STRICT,
        &beat(1),
        step(State::Unfenced, State::ShuttingDown),
    );
    let begun = after(&image, &begun);
    let broker = begun.broker(BrokerId(1)).expect("registered");
    assert!(broker.is_shutting_down && !broker.is_fenced);
    assert_eq!(shown(&begun, 0), (2, vec![2, 3], vec![]));
    assert!(!leads_any(&begun, BrokerId(1)));
    let gone = heartbeat(
        &begun,
        &STRICT,
        &beat(1),
        step(State::ShuttingDown, State::Down),
    );
    assert!(
        after(&begun, &gone)
            .broker(BrokerId(1))
            .expect("registered")
            .is_fenced
    );
    let same = step(State::Unfenced, State::Unfenced);
    assert_eq!(heartbeat(&image, &STRICT, &beat(1), same), []);
}

#[test]
fn a_broker_that_was_stopped_while_it_shut_down_leads_again_when_it_is_unfenced() {
    let mut image = cluster(&[&[1]]);
    for (from, to, leader) in [
        (State::Unfenced, State::ShuttingDown, NO_LEADER.0),
        (State::ShuttingDown, State::Down, NO_LEADER.0),
        (State::Fenced, State::Unfenced, 1),
    ] {
        let records = heartbeat(&image, &STRICT, &beat(1), step(from, to));
        image = after(&image, &records);
        assert_eq!(partition(&image, 0).leader.0, leader, "{to:?}");
    }
}

#[test]
fn a_new_partition_needs_a_broker_that_can_lead_it() {
    let image = cluster(&[&[1, 2, 3]]);
    let fenced = after(&image, &fence(&image, &STRICT, BrokerId(1)));
    let grown = |image: &Image| {
        let growth = Growth {
            name: "t".into(),
            count: 2,
            assignments: Some(vec![vec![1, 2, 3]]),
        };
        create_partitions(image, &[growth]).answers.remove(0).1
    };
    assert_eq!(grown(&fenced), Ok(()));
    let none = after(&fenced, &fence(&fenced, &STRICT, BrokerId(2)));
    let none = after(&none, &fence(&none, &STRICT, BrokerId(3)));
    let error = grown(&none).expect_err("nobody can lead it").to_string();
    assert_eq!(
        error,
        "All brokers specified in the manual partition assignment for partition 1 are fenced or in controlled shutdown."
    );
}

#[test]
fn an_unclean_election_happens_by_itself_only_where_the_topic_allows_it() {
    let image = cluster(&[&[1, 2]]);
    let strict = All(TopicRules {
        min_isr: 1,
        ..STRICT.0
    });
    let allowed = All(TopicRules {
        may_be_unclean: true,
        ..strict.0
    });
    let alone = after(&image, &fence(&image, &strict, BrokerId(2)));
    let back = heartbeat(
        &alone,
        &strict,
        &beat(2),
        step(State::Fenced, State::Unfenced),
    );
    let lone = after(&alone, &back);
    assert_eq!(shown(&lone, 0), (1, vec![1], vec![]));
    let lost = after(&lone, &fence(&lone, &strict, BrokerId(1)));
    assert_eq!(partition(&lost, 0).leader, NO_LEADER);
    let forced = after(&lone, &fence(&lone, &allowed, BrokerId(1)));
    assert_eq!(shown(&forced, 0), (2, vec![2], vec![]));
    assert!(partition(&forced, 0).is_recovering);
}

#[test]
fn failed_directories_take_their_replicas_out_of_sync_and_cordons_are_noted() {
    let image = cluster(&[&[1, 2, 3], &[2, 3]]);
    let told = Heartbeat {
        failed_log_dirs: vec![dir(1, 1), dir(9, 9)],
        cordoned_log_dirs: Some(vec![dir(1, 2)]),
        ..beat(1)
    };
    let same = step(State::Unfenced, State::Unfenced);
    let failed = after(&image, &heartbeat(&image, &STRICT, &told, same));
    let broker = failed.broker(BrokerId(1)).expect("registered");
    assert_eq!(broker.log_dirs, [dir(1, 2)]);
    assert_eq!(broker.cordoned_log_dirs, Some(vec![dir(1, 2)]));
    assert_eq!(shown(&failed, 0), (2, vec![2, 3], vec![]));
    assert_eq!(shown(&failed, 1), (2, vec![2, 3], vec![]));
    assert_eq!(heartbeat(&failed, &STRICT, &told, same), []);
    // A leader that has not heard of it yet does not bring it back.
    let joins = Proposal {
        leader_epoch: partition(&failed, 0).leader_epoch,
        partition_epoch: partition(&failed, 0).epoch,
        ..proposal(&[1, 2, 3])
    };
    assert_eq!(
        altered(&failed, 2, joins),
        Err(AlterPartitionError::IneligibleReplica)
    );
}

#[test]
fn an_unregistered_broker_is_in_no_isr_and_not_eligible() {
    let image = cluster(&[&[1, 2], &[3]]);
    let alone = after(&image, &fence(&image, &STRICT, BrokerId(1)));
    assert_eq!(shown(&alone, 0), (2, vec![2], vec![1]));
    let gone = unregister(&alone, &STRICT, BrokerId(1)).expect("registered");
    let gone = after(&alone, &gone);
    assert_eq!(shown(&gone, 0), (2, vec![2], vec![]));
    assert_eq!(gone.broker(BrokerId(1)), None);
    let again = unregister(&gone, &STRICT, BrokerId(1));
    assert_eq!(again, Err(UnregisterError::NotRegistered(BrokerId(1))));
}

fn registering(id: i32, incarnation: u8) -> Registering {
    let levels = |min, max| Levels { min, max };
    Registering {
        id: BrokerId(id),
        incarnation: Uuid([incarnation; 16]),
        endpoints: vec![Endpoint {
            name: "SSL".into(),
            host: "h".into(),
            port: 9093,
            protocol: SecurityProtocol::SSL,
        }],
        features: BTreeMap::from([
            ("metadata.version".to_owned(), levels(7, 30)),
            ("eligible.leader.replicas.version".to_owned(), levels(0, 1)),
        ]),
        rack: Some("r".into()),
        log_dirs: vec![dir(id, 1), dir(id, 2)],
        before: Before::default(),
        before_in: BTreeMap::new(),
    }
}

#[test]
fn a_new_broker_is_registered_fenced_in_the_epoch_of_its_batch() {
    let image = cluster(&[&[1, 2]]);
    let decided = register(&image, &STRICT, &registering(4, 40), false).expect("fits");
    assert_eq!(
        (decided.epoch, decided.is_fenced, decided.is_new_life),
        (image.end(), true, true)
    );
    let image = after(&image, &decided.records);
    let broker = image.broker(BrokerId(4)).expect("registered");
    assert!(broker.is_fenced);
    assert_eq!(broker.endpoints[0].protocol, SecurityProtocol::SSL);
    assert!(broker.features["metadata.version"].contains(30));
}

#[test]
fn a_new_life_is_out_of_the_isr_and_after_an_unclean_stop_not_eligible() {
    let image = cluster(&[&[1, 2]]);
    let fenced = after(&image, &fence(&image, &STRICT, BrokerId(1)));
    assert_eq!(shown(&fenced, 0), (2, vec![2], vec![1]));
    let known = fenced.broker(BrokerId(1)).map(|broker| broker.incarnation);
    let known = known.expect("registered");
    let other = Uuid([98; 16]);
    for (epoch, incarnations, eligible) in [
        (Some(11), vec![], vec![1]),
        (Some(10), vec![], vec![]),
        (None, vec![], vec![]),
        (None, vec![known], vec![1]),
        (Some(10), vec![other, known], vec![1]),
        (Some(10), vec![other], vec![]),
    ] {
        let before = Before {
            epoch,
            incarnations,
        };
        let broker = Registering {
            before: before.clone(),
            ..registering(1, 99)
        };
        for (image, expected) in [(&fenced, &eligible), (&image, &eligible)] {
            let decided = register(image, &STRICT, &broker, false).expect("fits");
            let image = after(image, &decided.records);
            assert_eq!(
                shown(&image, 0),
                (2, vec![2], expected.clone()),
                "{before:?}"
            );
            assert_eq!(
                image.broker(BrokerId(1)).expect("there").epoch,
                decided.epoch
            );
        }
    }
}

/// A replica of broker 1 is in its directory of that number.
fn assignment(number: u8, partition: i32) -> Assignment {
    Assignment {
        dir: dir(1, number),
        topic: Uuid([1; 16]),
        partition: PartitionIndex(partition),
    }
}

/// Its disk with the second directory failed: what it had in the first is there.
#[test]
fn a_new_life_without_a_directory_stays_eligible_in_the_others() {
    let image = cluster(&[&[1, 2], &[1, 2]]);
    let (first, second) = (dir(1, 1), dir(1, 2));
    let moved = [assignment(2, 1)];
    let moved = assign_dirs(&image, &STRICT, BrokerId(1), 11, &moved).expect("allowed");
    let image = after(&image, &moved.records);
    for (log_dirs, epoch, eligible) in [
        (vec![first], 11, [vec![1], vec![]]),
        (vec![first], 10, [vec![], vec![]]),
        (vec![second], 11, [vec![], vec![]]),
        (vec![first, second], 11, [vec![1], vec![]]),
    ] {
        let of_first = Before {
            epoch: Some(epoch),
            incarnations: Vec::new(),
        };
        let broker = Registering {
            log_dirs,
            before_in: BTreeMap::from([(first, of_first)]),
            ..registering(1, 99)
        };
        let decided = register(&image, &STRICT, &broker, false).expect("fits");
        let image = after(&image, &decided.records);
        for (at, eligible) in eligible.into_iter().enumerate() {
            assert_eq!(shown(&image, at), (2, vec![2], eligible));
        }
    }
}

#[test]
fn the_same_incarnation_amends_its_registration_and_keeps_its_epoch() {
    let image = cluster(&[&[1, 2]]);
    let decided = register(&image, &STRICT, &registering(1, 1), true).expect("fits");
    assert_eq!(
        (decided.epoch, decided.is_fenced, decided.is_new_life),
        (11, false, false)
    );
    assert_eq!(decided.records.len(), 1);
    let image = after(&image, &decided.records);
    assert_eq!(shown(&image, 0), (1, vec![1, 2], vec![]));
    assert_eq!(
        image.broker(BrokerId(1)).expect("there").rack.as_deref(),
        Some("r")
    );
}

#[test]
fn a_registration_that_does_not_fit_is_refused_in_the_words_of_kafka() {
    let image = cluster(&[&[1, 2]]);
    let refused = |change: &dyn Fn(&mut Registering), has_session: bool| {
        let mut broker = registering(1, 50);
        change(&mut broker);
        register(&image, &STRICT, &broker, has_session).err()
    };
    assert_eq!(refused(&|_| {}, false), None);
    assert_eq!(refused(&|_| {}, true), Some(RegisterError::Duplicate));
    let dirs = |dirs: Vec<Uuid>| refused(&move |broker| broker.log_dirs.clone_from(&dirs), false);
    assert_eq!(dirs(vec![]), Some(RegisterError::NoDirectories));
    assert_eq!(
        dirs(vec![meta::dir::UNASSIGNED]),
        Some(RegisterError::ReservedDirectory)
    );
    assert_eq!(
        dirs(vec![dir(1, 1); 2]),
        Some(RegisterError::DirectoryTwice)
    );
    assert_eq!(
        dirs(vec![dir(2, 1)]),
        Some(RegisterError::DirectoryOfOther {
            broker: BrokerId(2),
            dir: dir(2, 1)
        })
    );
    let without = |feature: &str| {
        let remove = |broker: &mut Registering| broker.features.retain(|name, _| name != feature);
        refused(&remove, false)
    };
    let none = without("metadata.version");
    assert_eq!(none, Some(RegisterError::NoMetadataVersion));
    let old = refused(
        &|broker| {
            broker
                .features
                .get_mut("metadata.version")
                .expect("there")
                .max = 29
        },
        false,
    );
    let text = old.expect("refused").to_string();
    assert_eq!(
        text,
        "Unable to register because the broker does not support finalized version 30 of metadata.version. The broker wants a version between 7 and 29, inclusive."
    );
    let unknown = without("eligible.leader.replicas.version");
    assert!(matches!(
        unknown,
        Some(RegisterError::Feature {
            finalized: 1,
            min: 0,
            max: 0,
            ..
        })
    ));
}

fn reassigned(image: &Image, replicas: Option<&[i32]>) -> (Image, Result<(), ReassignError>) {
    let target = Target {
        partition: 0,
        replicas: replicas.map(<[i32]>::to_vec),
    };
    let decided = reassign(image, &STRICT, &[("t".to_owned(), vec![target])], true);
    let answer = decided.answers[0].1[0].1.clone();
    (after(image, &decided.records), answer)
}

#[test]
fn a_partition_keeps_its_replicas_until_those_that_come_are_in_sync() {
    let image = cluster(&[&[1, 2]]);
    let ids = |ids: &[i32]| ids.iter().copied().map(BrokerId).collect::<Vec<_>>();
    let (moving, answer) = reassigned(&image, Some(&[3, 2]));
    assert_eq!(answer, Ok(()));
    assert_eq!(shown(&moving, 0), (1, vec![1, 2], vec![]));
    let begun = partition(&moving, 0);
    assert_eq!(begun.replicas, ids(&[3, 2, 1]));
    assert_eq!((&begun.adding, &begun.removing), (&ids(&[3]), &ids(&[1])));
    assert_eq!(begun.directory(BrokerId(2)), Some(dir(2, 1)));
    assert!(
        [dir(3, 1), dir(3, 2)]
            .map(Some)
            .contains(&begun.directory(BrokerId(3)))
    );

    let joins = Proposal {
        partition_epoch: begun.epoch,
        leader_epoch: begun.leader_epoch,
        ..proposal(&[1, 2, 3])
    };
    let decided = alter_partitions(
        &moving,
        &STRICT,
        &Trouble::default(),
        (BrokerId(1), 11),
        &[joins],
    );
    let done = after(&moving, &decided.expect("the epoch is right").records);
    assert_eq!(shown(&done, 0), (3, vec![2, 3], vec![]));
    assert_eq!(partition(&done, 0).replicas, ids(&[3, 2]));
    assert!(!is_in_progress(partition(&done, 0)));

    let (back, answer) = reassigned(&moving, None);
    assert_eq!(answer, Ok(()));
    assert_eq!(shown(&back, 0), (1, vec![1, 2], vec![]));
    assert_eq!(partition(&back, 0).replicas, ids(&[2, 1]));
    assert!(!is_in_progress(partition(&back, 0)));
    assert_eq!(reassigned(&back, None).1, Err(ReassignError::NotInProgress));

    // Another target in the middle: what came for the first one goes.
    let (other, answer) = reassigned(&moving, Some(&[1, 2]));
    assert_eq!(answer, Ok(()));
    assert_eq!(partition(&other, 0).replicas, ids(&[1, 2]));
    assert!(
        !is_in_progress(partition(&other, 0)),
        "all of them are there"
    );
}

#[test]
fn fewer_replicas_lead_on_and_the_order_alone_is_changed_at_once() {
    let image = cluster(&[&[1, 2, 3]]);
    let ids = |ids: &[i32]| ids.iter().copied().map(BrokerId).collect::<Vec<_>>();
    let (fewer, answer) = reassigned(&image, Some(&[2, 3]));
    assert_eq!(answer, Ok(()));
    assert_eq!(shown(&fewer, 0), (2, vec![2, 3], vec![]));
    assert_eq!(partition(&fewer, 0).replicas, ids(&[2, 3]));
    let (turned, answer) = reassigned(&image, Some(&[3, 2, 1]));
    assert_eq!(answer, Ok(()));
    assert_eq!(shown(&turned, 0), (1, vec![1, 2, 3], vec![]));
    assert_eq!(partition(&turned, 0).replicas, ids(&[3, 2, 1]));
    let (same, answer) = reassigned(&image, Some(&[1, 2, 3]));
    assert_eq!((same.end(), answer), (image.end(), Ok(())));
}

#[test]
fn a_broker_says_where_replicas_are_and_one_in_a_failed_directory_is_out_of_sync() {
    let image = cluster(&[&[1, 2, 3], &[2, 3]]);
    let elsewhere = Assignment {
        topic: Uuid([2; 16]),
        ..assignment(2, 0)
    };
    let asked = [
        assignment(2, 0),
        assignment(2, 1),
        assignment(2, 7),
        elsewhere,
    ];
    let decided = assign_dirs(&image, &STRICT, BrokerId(1), 11, &asked).expect("allowed");
    assert_eq!(
        decided.answers,
        [
            Ok(()),
            Err(AssignDirError::NotReplica),
            Err(AssignDirError::UnknownPartition),
            Err(AssignDirError::UnknownTopic)
        ]
    );
    let moved = after(&image, &decided.records);
    assert_eq!(partition(&moved, 0).directory(BrokerId(1)), Some(dir(1, 2)));
    assert_eq!(shown(&moved, 0), (1, vec![1, 2, 3], vec![]));
    let same = assign_dirs(&moved, &STRICT, BrokerId(1), 11, &asked[..1]).expect("allowed");
    assert_eq!(same.records, []);

    let failed = assign_dirs(&image, &STRICT, BrokerId(1), 11, &[assignment(5, 0)]);
    let failed = after(&image, &failed.expect("allowed").records);
    assert_eq!(shown(&failed, 0), (2, vec![2, 3], vec![]));
    assert_eq!(
        partition(&failed, 0).directory(BrokerId(1)),
        Some(dir(1, 5))
    );

    let stale = assign_dirs(&image, &STRICT, BrokerId(1), 12, &asked);
    let error = HeartbeatError::Stale { known: 11, got: 12 };
    assert_eq!(stale, Err(AssignDirsError::Epoch(error)));
}

#[test]
fn producer_ids_go_to_the_registration_that_asks_for_them() {
    let image = cluster(&[&[1]]);
    let (record, first) = allocate_for(&image, BrokerId(1), 11).expect("there are ids");
    let image = after(&image, &[record]);
    let (_, second) = allocate_for(&image, BrokerId(2), 12).expect("there are ids");
    assert_eq!((first, second), (0..1000, 1000..2000));
    let stale = allocate_for(&image, BrokerId(2), 13);
    let error = HeartbeatError::Stale { known: 12, got: 13 };
    assert_eq!(stale, Err(AllocateError::Epoch(error)));
    let unknown = allocate_for(&image, BrokerId(9), 13);
    assert!(matches!(
        unknown,
        Err(AllocateError::Epoch(HeartbeatError::NotRegistered(_)))
    ));
}
