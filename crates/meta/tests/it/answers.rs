//! Decisions answer as Kafka 4.3 did for the same requests on one broker.

use std::collections::BTreeSet;

use ::model::BrokerId;
use meta::decide::create_partitions::{Growth, create_partitions};
use meta::decide::create_topics::{
    CreateTopicError, NewTopic, TooFewBrokers, auto_create, check_brokers, create_topics,
};
use meta::decide::delete_topics::{DeleteTopicError, Target, delete_topics};
use meta::decide::producer_ids::allocate_producer_ids;
use meta::{Candidate, Image, Record, Resource, name};
use wire::metadata::BrokerRegistrationChangeRecord;

use crate::{broker, image, replay, step, uuids};

pub(crate) fn topic(name: &str) -> NewTopic {
    NewTopic {
        name: name.into(),
        partitions: -1,
        replication_factor: -1,
        ..NewTopic::default()
    }
}

fn growth(name: &str, count: i32, assignments: Option<Vec<Vec<i32>>>) -> Growth {
    Growth {
        name: name.into(),
        count,
        assignments,
    }
}

fn says(topics: &[NewTopic]) -> Vec<String> {
    let mut image = image(1);
    let existing = create_topics(
        &image,
        &broker(""),
        &[topic("a"), topic("t.x")],
        &mut uuids(),
    );
    replay(&mut image, &existing.records);
    let mut more = uuids();
    for _ in 0..10 {
        more();
    }
    let decision = create_topics(&image, &broker(""), topics, &mut more);
    decision
        .answers
        .iter()
        .map(|(_, answer)| {
            answer
                .as_ref()
                .err()
                .map_or_else(|| "fine".into(), ToString::to_string)
        })
        .collect()
}

#[test]
fn bad_names_are_refused_in_the_words_of_kafka() {
    for (name, words) in [
        ("", "Topic name is invalid: the empty string is not allowed"),
        (".", "Topic name is invalid: '.' is not allowed"),
        ("a", "Topic 'a' already exists."),
        ("t_x", "Topic 't_x' collides with existing topic: t.x"),
        ("t.x", "Topic 't.x' already exists."),
        (
            "__cluster_metadata",
            "Creation of internal topic __cluster_metadata is prohibited.",
        ),
        ("__consumer_offsets", "fine"),
    ] {
        assert_eq!(says(&[topic(name)]), [words]);
    }
}

#[test]
fn names_that_stand_twice_are_refused_once_and_last() {
    let answers = says(&[
        topic("d1"),
        topic("d2"),
        topic("d1"),
        topic("x.y"),
        topic("x_y"),
    ]);
    assert_eq!(answers, ["fine", "fine", "fine", "Duplicate topic name."]);
}

#[test]
fn sizes_out_of_bounds_are_refused_in_the_words_of_kafka() {
    let sized = |partitions, replication_factor| {
        says(&[NewTopic {
            partitions,
            replication_factor,
            ..topic("bounds")
        }])
        .remove(0)
    };
    assert_eq!(
        sized(0, 1),
        "Number of partitions was set to an invalid non-positive value."
    );
    assert_eq!(
        sized(-2, 1),
        "Number of partitions was set to an invalid non-positive value."
    );
    assert_eq!(
        sized(1, 0),
        "Replication factor must be larger than 0, or -1 to use the default value."
    );
    assert_eq!(
        sized(1, 2),
        "Unable to replicate the partition 2 time(s): The target replication factor of 2 cannot be reached because only 1 \
         broker(s) are registered or some brokers have all their log directories cordoned."
    );
    assert_eq!(
        sized(100_001, 1),
        "Excessively large number of partitions per request."
    );
    assert_eq!(
        sized(10_000, 1),
        "Unable to perform excessively large batch operation."
    );
    assert_eq!(sized(-1, -1), "fine");
}

#[test]
fn manual_assignments_are_checked_in_the_words_of_kafka() {
    let assigned = |partitions, replication_factor, assignments: &[(i32, &[i32])]| {
        let assignments = assignments
            .iter()
            .map(|(index, replicas)| (*index, replicas.to_vec()))
            .collect();
        says(&[NewTopic {
            partitions,
            replication_factor,
            assignments,
            ..topic("m")
        }])
        .remove(0)
    };
    let gap = "partitions should be a consecutive 0-based integer sequence";
    let factor =
        "A manual partition assignment was specified, but replication factor was not set to -1.";
    assert_eq!(assigned(1, 1, &[(0, &[1])]), factor);
    assert_eq!(
        assigned(1, -1, &[(0, &[1])]),
        "A manual partition assignment was specified, but numPartitions was not set to -1."
    );
    assert_eq!(assigned(-1, -1, &[(1, &[1])]), gap);
    assert_eq!(assigned(-1, -1, &[(-1, &[1])]), gap);
    assert_eq!(assigned(-1, -1, &[(0, &[1]), (2, &[1])]), gap);
    assert_eq!(
        assigned(-1, -1, &[(0, &[])]),
        "The manual partition assignment includes an empty replica list."
    );
    assert_eq!(
        assigned(-1, -1, &[(0, &[1, 1])]),
        "The manual partition assignment includes the broker 1 more than once."
    );
    assert_eq!(
        assigned(-1, -1, &[(0, &[5])]),
        "The manual partition assignment includes broker 5, but no such broker is registered."
    );
    assert_eq!(
        assigned(-1, -1, &[(0, &[1]), (0, &[1])]),
        "Found multiple manual partition assignments for partition 0"
    );
    assert_eq!(assigned(-1, -1, &[(0, &[1]), (1, &[1])]), "fine");
}

#[test]
fn settings_of_a_new_topic_are_checked() {
    let with = |name: &str, value: Option<&str>| {
        says(&[NewTopic {
            settings: vec![(name.into(), value.map(Into::into))],
            ..topic("s")
        }])
        .remove(0)
    };
    assert_eq!(
        with("retention.ms", None),
        "Null value not supported for topic configs: retention.ms"
    );
    assert_eq!(
        with("nosuch", Some("1")),
        "Unknown topic config name: nosuch"
    );
    assert_eq!(
        with("retention.ms", Some("q")),
        "Invalid value q for configuration retention.ms: Not a number of type LONG"
    );
    assert_eq!(with("esker.durability", Some("os")), "fine");
}

#[test]
fn a_topic_that_is_refused_leaves_no_record() {
    let bad = NewTopic {
        partitions: 3,
        replication_factor: 9,
        ..topic("bad")
    };
    let decision = create_topics(&image(1), &broker(""), &[bad, topic("good")], &mut uuids());
    assert_eq!(decision.records.len(), 2);
    assert!(matches!(
        decision.answers[0].1,
        Err(CreateTopicError::TooFewBrokers { .. })
    ));
}

#[test]
fn leaders_and_directories_take_turns() {
    let mut image = image(3);
    let wide = NewTopic {
        partitions: 6,
        replication_factor: 2,
        ..topic("wide")
    };
    step(&mut image, |image| {
        create_topics(image, &broker(""), &[wide], &mut uuids()).records
    });
    let partitions = &image.topic("wide").expect("created").partitions;
    for id in 1..=3 {
        assert_eq!(
            partitions
                .iter()
                .filter(|partition| partition.leader == BrokerId(id))
                .count(),
            2
        );
    }
    for dir in image.brokers().flat_map(|broker| &broker.log_dirs) {
        assert_eq!(
            partitions
                .iter()
                .flat_map(|partition| &partition.directories)
                .filter(|other| *other == dir)
                .count(),
            2
        );
    }
}

#[test]
fn a_cordoned_directory_gets_nothing_new() {
    let image = image(1);
    let all = &image.broker(BrokerId(1)).expect("registered").log_dirs;
    let usable =
        |image: &Image| Candidate::new(image).without_log_dirs(BrokerId(1), &[], &all[..1]);
    let wide = NewTopic {
        partitions: 6,
        ..topic("wide")
    };
    let chosen = NewTopic {
        assignments: vec![(0, vec![1])],
        ..topic("chosen")
    };
    let created = create_topics(&usable(&image), &broker(""), &[wide, chosen], &mut uuids());
    let mut after = image.clone();
    replay(&mut after, &created.records);
    let grown = create_partitions(&usable(&after), &[growth("wide", 9, None)]);
    replay(&mut after, &grown.records);
    let partitions = after.topics().flat_map(|topic| &topic.partitions);
    let dirs: Vec<_> = partitions.flat_map(|of| of.directories.clone()).collect();
    assert_eq!(dirs, vec![all[1]; 10]);
}

#[test]
fn where_all_directories_are_cordoned_nothing_new_is_made_in_the_words_of_kafka() {
    let mut image = image(2);
    step(&mut image, |image| {
        let old = NewTopic {
            replication_factor: 1,
            ..topic("old")
        };
        create_topics(image, &broker(""), &[old], &mut uuids()).records
    });
    for (cordoned, wanted, words) in [
        (
            1..=1,
            2,
            "Unable to replicate the partition 2 time(s): The target replication factor of 2 cannot be reached because only 1 \
             broker(s) are registered or some brokers have all their log directories cordoned.",
        ),
        (
            1..=2,
            1,
            "Unable to replicate the partition 1 time(s): All brokers are currently fenced, or have all their log directories \
             cordoned.",
        ),
    ] {
        let mut image = Candidate::new(&image);
        for id in cordoned {
            let all = image
                .broker(BrokerId(id))
                .expect("registered")
                .log_dirs
                .clone();
            image = image.without_log_dirs(BrokerId(id), &[], &all);
        }
        let wide = NewTopic {
            replication_factor: wanted,
            ..topic("wide")
        };
        let chosen = NewTopic {
            assignments: vec![(0, vec![2, 1])],
            ..topic("chosen")
        };
        let created = create_topics(&image, &broker(""), &[wide, chosen], &mut uuids());
        assert_eq!(created.records, []);
        let said: Vec<String> = (created.answers.iter())
            .filter_map(|(_, answer)| answer.as_ref().err().map(ToString::to_string))
            .collect();
        let chosen_words = |id: i32| {
            format!(
                "The manual partition assignment includes broker {id}, but all its log directories are cordoned."
            )
        };
        let first = if wanted == 2 { 1 } else { 2 };
        assert_eq!(said, [words.to_owned(), chosen_words(first)]);
        if wanted == 1 {
            for assignments in [None, Some(vec![vec![1]])] {
                let grown = create_partitions(&image, &[growth("old", 2, assignments.clone())]);
                let error = grown.answers[0].1.as_ref().expect_err("nowhere to go");
                let want = assignments.map_or(words.to_owned(), |_| chosen_words(1));
                assert_eq!((error.to_string(), grown.records.len()), (want, 0));
            }
        }
    }
}

#[test]
fn what_is_missing_is_created_when_asked_for() {
    let mut image = image(1);
    let broker = broker("num.partitions=4\noffsets.topic.num.partitions=7");
    let names = BTreeSet::from(["new", "bad name", "__consumer_offsets"]);
    let decision = auto_create(&image, &broker, &names, &mut uuids());
    replay(&mut image, &decision.records);
    assert_eq!(decision.answers.len(), 2);
    assert_eq!(image.topic("new").expect("created").partitions.len(), 4);
    assert_eq!(
        image
            .topic("__consumer_offsets")
            .expect("created")
            .partitions
            .len(),
        7
    );
    let offsets = image.overrides(&Resource::topic("__consumer_offsets"));
    assert_eq!(
        offsets.get("cleanup.policy").map(String::as_str),
        Some("compact")
    );
    assert_eq!(
        auto_create(&image, &broker, &names, &mut uuids()).records,
        []
    );
}

/// Replicas of the first partition of each topic that comes to be where a request names none.
fn factors(image: &Image, settings: &str) -> [Option<usize>; 3] {
    let names = ["new", "__consumer_offsets", "__transaction_state"];
    let broker = broker(settings);
    let all = BTreeSet::from(names);
    let implied = auto_create(image, &broker, &all, &mut uuids()).records;
    let asked = create_topics(image, &broker, &[topic("asked")], &mut uuids()).records;
    let after = |records: &[Record]| {
        let mut image = image.clone();
        replay(&mut image, records);
        image
    };
    let of = |image: &Image, name| Some(image.topic(name)?.partitions.first()?.replicas.len());
    let made = after(&implied);
    assert_eq!(of(&after(&asked), "asked"), of(&made, names[0]));
    names.map(|name| of(&made, name))
}

#[test]
fn topics_have_a_replica_on_each_broker_that_is_registered_and_on_three_at_most() {
    let few =
        "num.partitions=2\noffsets.topic.num.partitions=2\ntransaction.state.log.num.partitions=2";
    for (brokers, each) in [(1, 1), (2, 2), (3, 3), (4, 3)] {
        assert_eq!(factors(&image(brokers), few), [Some(each); 3]);
    }
    let mut one_is_fenced = image(3);
    step(&mut one_is_fenced, |image| {
        let third = image.broker(BrokerId(3)).expect("registered");
        let change = BrokerRegistrationChangeRecord {
            broker_id: third.id.0,
            broker_epoch: third.epoch,
            fenced: 1,
            ..BrokerRegistrationChangeRecord::default()
        };
        vec![Record::BrokerRegistrationChange(change)]
    });
    assert_eq!(
        factors(&one_is_fenced, few),
        [Some(3); 3],
        "it follows once it is back"
    );
}

#[test]
fn internal_topics_wait_for_the_brokers_that_the_settings_name() {
    let voters = "controller.quorum.voters=1@h:1,2@h:2,3@h:3\nesker.cluster.insecure=true";
    let combined = format!("node.id=1\nlisteners=PLAINTEXT://h:1\n{voters}");
    assert_eq!(factors(&image(2), &combined), [Some(2), None, None]);
    assert_eq!(factors(&image(3), &combined), [Some(3); 3]);
    let check = |of: &Image| check_brokers(of, &broker(&combined), name::OFFSETS);
    let few = TooFewBrokers {
        needed: 3,
        usable: 2,
    };
    assert_eq!((check(&image(2)), check(&image(3))), (Err(few), Ok(())));
    let of_two = format!("{combined}\noffsets.topic.replication.factor=2");
    assert_eq!(factors(&image(2), &of_two), [Some(2), Some(2), None]);
    let broker_alone = format!(
        "process.roles=broker\nnode.id=4\nlisteners=PLAINTEXT://h:4\ncontroller.listener.names=C\n{voters}"
    );
    assert_eq!(factors(&image(2), &broker_alone), [Some(2); 3]);
}

#[test]
fn a_number_of_replicas_that_is_set_is_the_one_of_its_topics_alone() {
    let of = |name: &str, factor: i32| {
        format!(
            "offsets.topic.num.partitions=2\ntransaction.state.log.num.partitions=2\n{name}.replication.factor={factor}"
        )
    };
    let three = image(3);
    for (text, want) in [
        (of("default", 1), [Some(1), Some(3), Some(3)]),
        (of("default", 2), [Some(2), Some(3), Some(3)]),
        (of("offsets.topic", 2), [Some(3), Some(2), Some(3)]),
        (of("transaction.state.log", 1), [Some(3), Some(3), Some(1)]),
        (of("offsets.topic", 5), [Some(3); 3]),
    ] {
        assert_eq!(factors(&three, &text), want, "{text}");
    }
}

pub(crate) fn with_topic(partitions: i32) -> Image {
    let mut image = image(1);
    let new = NewTopic {
        partitions,
        ..topic("t")
    };
    step(&mut image, |image| {
        create_topics(image, &broker(""), &[new], &mut uuids()).records
    });
    image
}

#[test]
fn topics_are_deleted_by_name_or_by_id() {
    let image = with_topic(1);
    let id = image.topic("t").expect("created").id;
    let by_name = |name: &str| Target {
        name: Some(name.into()),
        ..Target::default()
    };
    let by_id = |id| Target { name: None, id };
    let strange = wire::Uuid([3; 16]);
    for (targets, answers) in [
        (
            vec![by_name("none")],
            vec![Err(DeleteTopicError::UnknownName)],
        ),
        (vec![by_id(strange)], vec![Err(DeleteTopicError::UnknownId)]),
        (
            vec![Target::default()],
            vec![Err(DeleteTopicError::Nothing)],
        ),
        (
            vec![Target {
                name: Some("t".into()),
                id,
            }],
            vec![Err(DeleteTopicError::NameAndId)],
        ),
        (
            vec![by_name("t"), by_name("t")],
            vec![Err(DeleteTopicError::DuplicateName)],
        ),
        (
            vec![by_id(id), by_id(id)],
            vec![Err(DeleteTopicError::DuplicateId)],
        ),
        (
            vec![by_name("t"), by_id(id)],
            vec![Err(DeleteTopicError::NameOfId)],
        ),
        (
            vec![by_id(id), by_name("t")],
            vec![Err(DeleteTopicError::NameOfId)],
        ),
        (
            vec![by_id(id), by_id(id), by_name("t")],
            vec![
                Err(DeleteTopicError::DuplicateId),
                Err(DeleteTopicError::NameOfId),
            ],
        ),
        (
            vec![by_name("t"), by_name("t"), by_id(id)],
            vec![Err(DeleteTopicError::DuplicateName), Ok(())],
        ),
        (vec![by_name("t")], vec![Ok(())]),
        (
            vec![by_id(id), by_id(strange)],
            vec![Ok(()), Err(DeleteTopicError::UnknownId)],
        ),
    ] {
        let decision = delete_topics(&image, &targets);
        let got: Vec<_> = decision
            .answers
            .iter()
            .map(|(_, answer)| answer.clone())
            .collect();
        assert_eq!(got, answers);
        assert_eq!(
            decision.records.len(),
            answers.iter().filter(|answer| answer.is_ok()).count()
        );
        let mut after = image.clone();
        replay(&mut after, &decision.records);
        assert_eq!(after.topic("t").is_none(), answers.contains(&Ok(())));
    }
}

#[test]
fn a_deleted_name_may_be_used_again_and_no_longer_collides() {
    let mut image = image(1);
    let create =
        |image: &Image, name: &str| create_topics(image, &broker(""), &[topic(name)], &mut uuids());
    step(&mut image, |image| create(image, "a.b").records);
    assert!(create(&image, "a_b").records.is_empty());
    let target = Target {
        name: Some("a.b".into()),
        ..Target::default()
    };
    step(&mut image, |image| delete_topics(image, &[target]).records);
    step(&mut image, |image| create(image, "a_b").records);
    assert!(image.topic("a_b").is_some());
}

#[test]
fn a_topic_only_grows() {
    let image = with_topic(3);
    let says = |count, assignments: Option<&[&[i32]]>| {
        let assignments =
            assignments.map(|all| all.iter().map(|replicas| replicas.to_vec()).collect());
        let decision = create_partitions(
            &image,
            &[Growth {
                name: "t".into(),
                count,
                assignments,
            }],
        );
        decision.answers[0].1.as_ref().err().map_or_else(
            || format!("{} more", decision.records.len()),
            ToString::to_string,
        )
    };
    assert_eq!(says(3, None), "Topic already has 3 partition(s).");
    assert_eq!(
        says(1, None),
        "The topic t currently has 3 partition(s); 1 would not be an increase."
    );
    assert_eq!(
        says(-1, None),
        "The topic t currently has 3 partition(s); -1 would not be an increase."
    );
    assert_eq!(says(5, None), "2 more");
    assert_eq!(says(4, Some(&[&[1]])), "1 more");
    assert_eq!(
        says(5, Some(&[&[1]])),
        "Attempted to add 2 additional partition(s), but only 1 assignment(s) were specified."
    );
    assert_eq!(
        says(4, Some(&[&[2]])),
        "The manual partition assignment includes broker 2, but no such broker is registered."
    );
    assert_eq!(
        says(4, Some(&[&[]])),
        "The manual partition assignment includes an empty replica list."
    );
    let twice = [
        Growth {
            name: "t".into(),
            count: 5,
            assignments: None,
        },
        Growth {
            name: "t".into(),
            count: 6,
            assignments: None,
        },
    ];
    assert_eq!(create_partitions(&image, &twice).answers.len(), 1);
}

#[test]
fn producer_ids_are_given_out_in_blocks_of_a_thousand_from_zero() {
    let mut image = image(1);
    for first in [0, 1000, 2000] {
        let (record, block) = allocate_producer_ids(&image, BrokerId(1)).expect("ids are left");
        assert_eq!(block, first..first + 1000);
        replay(&mut image, &[record]);
    }
}

#[test]
fn what_was_switched_off_stays_off_at_the_next_start() {
    use meta::decide::register_broker::{self, GROUP_VERSION};
    use meta::decide::update_features::{Controllers, Direction, Update, update_features};

    let mut image = image(1);
    assert_eq!(image.feature(GROUP_VERSION), 1);
    let off = Update {
        level: 0,
        direction: Some(Direction::SafeDowngrade),
    };
    let updates = [(GROUP_VERSION.to_owned(), off)].into();
    let quorum = Controllers {
        local: BrokerId(1),
        kraft_version: 0,
        voters: &[],
    };
    let records = update_features(&image, quorum, &updates).expect("allowed");
    replay(&mut image, &records);
    let again = register_broker::Broker {
        id: BrokerId(1),
        incarnation: wire::Uuid([5; 16]),
        endpoints: Vec::new(),
        rack: Some("elsewhere".into()),
        log_dirs: Vec::new(),
    };
    step(&mut image, |image| {
        register_broker::register_broker(image, &again)
    });
    assert_eq!(image.feature(GROUP_VERSION), 0);
}
