//! Every kind of record has its effect on the image, at the place that its batch has.

use ::model::{BrokerId, LeaderEpoch, Offset, Timestamp};
use meta::record::{decode, encode};
use meta::{
    Delta, Image, MetadataVersion, Place, Record, RecordWriteError, ReplayError, View, WriteError,
};
use wire::Uuid;
use wire::metadata::register_broker_record::BrokerFeature;
use wire::metadata::{
    AbortTransactionRecord, AccessControlEntryRecord, BeginTransactionRecord,
    BrokerRegistrationChangeRecord, ClearElrRecord, ClientQuotaRecord, DelegationTokenRecord,
    EndTransactionRecord, FeatureLevelRecord, FenceBrokerRecord, NoOpRecord, PartitionChangeRecord,
    PartitionRecord, ProducerIdsRecord, RegisterBrokerRecord, RegisterControllerRecord,
    RemoveAccessControlEntryRecord, RemoveDelegationTokenRecord, RemoveTopicRecord,
    RemoveUserScramCredentialRecord, TopicRecord, UnfenceBrokerRecord, UnregisterBrokerRecord,
    UnregisterControllerRecord, UserScramCredentialRecord, ZkMigrationStateRecord,
    client_quota_record::EntityData,
};

pub(crate) fn place(base: i64, epoch: i32) -> Place {
    Place {
        base: Offset(base),
        epoch: LeaderEpoch(epoch),
        time: Timestamp(1000 + base),
    }
}

/// Replays one after the other, each in a batch of its own.
pub(crate) fn of(records: &[Record]) -> Image {
    let mut image = Image::default();
    for record in records {
        let at = image.next_place();
        image
            .replay(at, std::slice::from_ref(record))
            .expect("fits");
    }
    image
}

pub(crate) fn topic(name: &str, id: u8) -> Record {
    TopicRecord {
        name: name.into(),
        topic_id: Uuid([id; 16]),
    }
    .into()
}

pub(crate) fn partition(topic: u8, index: i32, replicas: &[i32]) -> PartitionRecord {
    PartitionRecord {
        partition_id: index,
        topic_id: Uuid([topic; 16]),
        replicas: replicas.to_vec(),
        isr: replicas.to_vec(),
        leader: replicas[0],
        leader_epoch: 0,
        partition_epoch: 0,
        directories: vec![Uuid([50; 16]); replicas.len()],
        ..PartitionRecord::default()
    }
}

pub(crate) fn registration(id: i32, epoch: i64) -> RegisterBrokerRecord {
    RegisterBrokerRecord {
        broker_id: id,
        broker_epoch: epoch,
        incarnation_id: Uuid([id as u8; 16]),
        features: vec![BrokerFeature {
            name: "group.version".into(),
            min_supported_version: 0,
            max_supported_version: 1,
        }],
        fenced: false,
        log_dirs: vec![Uuid([50; 16])],
        ..RegisterBrokerRecord::default()
    }
}

fn level(name: &str, level: i16) -> Record {
    FeatureLevelRecord {
        name: name.into(),
        feature_level: level,
    }
    .into()
}

pub(crate) fn quota(user: Option<&str>, key: &str, value: f64, remove: bool) -> Record {
    ClientQuotaRecord {
        entity: vec![EntityData {
            entity_type: "user".into(),
            entity_name: user.map(str::to_owned),
        }],
        key: key.into(),
        value,
        remove,
    }
    .into()
}

pub(crate) fn acl(id: u8) -> AccessControlEntryRecord {
    AccessControlEntryRecord {
        id: Uuid([id; 16]),
        resource_type: 2,
        resource_name: "t".into(),
        pattern_type: 3,
        principal: "User:a".into(),
        host: "*".into(),
        operation: 3,
        permission_type: 3,
    }
}

pub(crate) fn credential(name: &str, iterations: i32) -> UserScramCredentialRecord {
    UserScramCredentialRecord {
        name: name.into(),
        mechanism: 1,
        iterations,
        ..UserScramCredentialRecord::default()
    }
}

pub(crate) fn token(id: &str, expires: i64) -> DelegationTokenRecord {
    DelegationTokenRecord {
        owner: "User:a".into(),
        token_id: id.into(),
        expiration_timestamp: expires,
        ..DelegationTokenRecord::default()
    }
}

#[test]
fn quotas_rules_credentials_and_tokens_are_carried_and_removed() {
    let before = of(&[
        quota(Some("a"), "producer_byte_rate", 5.0, false),
        quota(Some("a"), "producer_byte_rate", 6.0, false),
        quota(None, "request_percentage", 50.0, false),
        acl(1).into(),
        acl(2).into(),
        credential("a", 4096).into(),
        credential("a", 8192).into(),
        token("t1", 1).into(),
        token("t1", 2).into(),
    ]);
    let quotas: Vec<_> = before.quotas().collect();
    assert_eq!(quotas.len(), 2);
    assert!(
        quotas
            .iter()
            .any(|(_, quotas)| quotas.get("producer_byte_rate") == Some(&6.0))
    );
    assert_eq!(before.acls().count(), 2);
    let of_a = before.credential(1, "a");
    assert_eq!(of_a.map(|one| one.iterations), Some(8192));
    assert_eq!(
        before.token("t1").map(|one| one.expiration_timestamp),
        Some(2)
    );

    let mut after = before.clone();
    let gone = [
        quota(Some("a"), "producer_byte_rate", 0.0, true),
        RemoveAccessControlEntryRecord { id: Uuid([1; 16]) }.into(),
        RemoveUserScramCredentialRecord {
            name: "a".into(),
            mechanism: 1,
        }
        .into(),
        RemoveDelegationTokenRecord {
            token_id: "t1".into(),
        }
        .into(),
    ];
    after
        .replay(after.next_place(), &gone)
        .expect("they are there");
    assert_eq!((after.quotas().count(), after.acls().count()), (1, 1));
    assert_eq!(
        (after.credentials().count(), after.tokens().count()),
        (0, 0)
    );
    let delta = Delta::between(&before, &after);
    let counts = [
        delta.quotas.len(),
        delta.acls.len(),
        delta.credentials.len(),
        delta.tokens.len(),
    ];
    assert_eq!(counts, [1; 4]);
    let unknown = RemoveAccessControlEntryRecord { id: Uuid([1; 16]) };
    let refused = after.replay(after.next_place(), &[unknown.into()]);
    assert_eq!(refused, Err(ReplayError::NoAcl(Uuid([1; 16]))));
}

#[test]
fn a_registration_keeps_features_states_and_cordons() {
    let image = of(&[
        registration(1, 0).into(),
        BrokerRegistrationChangeRecord {
            broker_id: 1,
            broker_epoch: 0,
            fenced: 1,
            in_controlled_shutdown: 1,
            cordoned_log_dirs: Some(vec![Uuid([50; 16])]),
            ..BrokerRegistrationChangeRecord::default()
        }
        .into(),
    ]);
    let broker = image.broker(BrokerId(1)).expect("registered");
    assert!(broker.is_fenced && broker.is_shutting_down && !broker.is_active());
    assert_eq!(broker.cordoned_log_dirs, Some(vec![Uuid([50; 16])]));
    assert!(broker.features["group.version"].contains(1));
    assert!(!broker.features["group.version"].contains(2));
}

#[test]
fn a_record_of_another_registration_is_refused() {
    let image = of(&[registration(1, 5).into()]);
    let wrong = |record: Record| {
        let mut image = image.clone();
        image.replay(image.next_place(), &[record])
    };
    let error = ReplayError::BrokerEpoch {
        broker: BrokerId(1),
        known: 5,
        got: 4,
    };
    let fence = FenceBrokerRecord { id: 1, epoch: 4 };
    assert_eq!(wrong(fence.into()), Err(error.clone()));
    let unfence = UnfenceBrokerRecord { id: 1, epoch: 4 };
    assert_eq!(wrong(unfence.into()), Err(error.clone()));
    let gone = UnregisterBrokerRecord {
        broker_id: 1,
        broker_epoch: 4,
    };
    assert_eq!(wrong(gone.into()), Err(error));
    let unknown = FenceBrokerRecord { id: 2, epoch: 4 };
    assert_eq!(
        wrong(unknown.into()),
        Err(ReplayError::NoBroker(BrokerId(2)))
    );
    let state = BrokerRegistrationChangeRecord {
        broker_id: 1,
        broker_epoch: 5,
        fenced: 3,
        ..BrokerRegistrationChangeRecord::default()
    };
    assert!(matches!(
        wrong(state.into()),
        Err(ReplayError::BrokerState { value: 3, .. })
    ));
}

#[test]
fn cleared_eligible_leaders_are_those_of_one_topic_or_of_all() {
    let eligible = |topic| {
        let mut partition = partition(topic, 0, &[1, 2]);
        partition.eligible_leader_replicas = Some(vec![2]);
        partition.last_known_elr = Some(vec![1]);
        Record::from(partition)
    };
    let image = of(&[topic("a", 1), eligible(1), topic("b", 2), eligible(2)]);
    let cleared = |image: &Image| -> Vec<bool> {
        let partitions = image.topics().flat_map(|topic| &topic.partitions);
        partitions
            .map(|one| one.eligible_leaders.is_empty() && one.last_known_leaders.is_empty())
            .collect()
    };
    let after = |name: &str| {
        let mut image = image.clone();
        let record = ClearElrRecord {
            topic_name: name.into(),
        };
        image
            .replay(image.next_place(), &[record.into()])
            .map(|()| cleared(&image))
    };
    assert_eq!(after("a"), Ok(vec![true, false]));
    assert_eq!(after(""), Ok(vec![true, true]));
    assert_eq!(after("c"), Err(ReplayError::NoTopicNamed("c".into())));
}

#[test]
fn the_place_of_a_batch_gives_offset_and_epoch_whatever_came_between() {
    let mut image = Image::default();
    let noop = || Record::from(NoOpRecord::default());
    // A control batch of one record is at 0.
    image.pass_over(place(1, 3)).expect("goes on");
    image
        .replay(place(1, 3), &[noop(), noop()])
        .expect("goes on");
    assert_eq!((image.end(), image.last_epoch()), (3, LeaderEpoch(3)));
    image
        .replay(place(10, 4), &[noop()])
        .expect("a gap of control batches");
    assert_eq!((image.end(), image.last_epoch()), (11, LeaderEpoch(4)));
    assert_eq!(image.last_time(), Timestamp(1010));
    let backwards = image.replay(place(10, 4), &[noop()]);
    assert_eq!(backwards, Err(ReplayError::Backwards { base: 10, end: 11 }));
}

#[test]
fn each_view_has_the_generation_of_its_last_change() {
    let mut image = of(&[
        topic("a", 1),
        partition(1, 0, &[1]).into(),
        acl(1).into(),
        NoOpRecord::default().into(),
    ]);
    let at = |image: &Image, view| image.generation(view);
    assert_eq!(at(&image, View::Names), 1);
    assert_eq!(at(&image, View::Topics), 2);
    assert_eq!(at(&image, View::Acls), 3);
    assert_eq!((at(&image, View::Brokers), image.end()), (0, 4));
    let change = PartitionChangeRecord {
        partition_id: 0,
        topic_id: Uuid([1; 16]),
        leader: 1,
        ..PartitionChangeRecord::default()
    };
    image
        .replay(place(9, 0), &[change.into()])
        .expect("it is there");
    assert_eq!((at(&image, View::Topics), at(&image, View::Names)), (10, 1));
}

#[test]
fn a_transaction_takes_effect_at_its_end_or_not_at_all() {
    let begin = || Record::from(BeginTransactionRecord::default());
    let inside = || [topic("b", 2), partition(2, 0, &[1]).into()];
    let before = of(&[topic("a", 1)]);
    for (end, topics) in [
        (Record::from(EndTransactionRecord::default()), 2),
        (Record::from(AbortTransactionRecord::default()), 1),
    ] {
        let mut image = before.clone();
        // It begins and ends within batches, and goes over several.
        image
            .replay(place(1, 0), &[NoOpRecord::default().into(), begin()])
            .expect("begins");
        let [first, second] = inside();
        image.replay(place(3, 0), &[first]).expect("fits");
        image.replay(place(4, 1), &[second]).expect("fits");
        assert!(image.is_in_transaction());
        assert_eq!((image.topics_count(), image.ahead().topics_count()), (1, 2));
        assert_eq!((image.end(), image.last_epoch()), (5, LeaderEpoch(1)));
        assert!(!Delta::between(&before, &image).has_topics());
        let last = topic("c", 3);
        image.replay(place(5, 1), &[end, last]).expect("ends");
        assert_eq!(image.topics_count(), topics + 1);
        assert!(!image.is_in_transaction());
        assert_eq!((image.end(), image.last_time()), (7, Timestamp(1005)));
    }
}

#[test]
fn transactions_do_not_nest_and_do_not_end_unbegun() {
    let begin = || Record::from(BeginTransactionRecord::default());
    let mut image = of(&[begin()]);
    let twice = image.replay(image.next_place(), &[begin()]);
    assert_eq!(twice, Err(ReplayError::TransactionTwice));
    for end in [
        Record::from(EndTransactionRecord::default()),
        Record::from(AbortTransactionRecord::default()),
    ] {
        let mut image = Image::default();
        let unbegun = image.replay(image.next_place(), &[end]);
        assert_eq!(unbegun, Err(ReplayError::NoTransaction));
    }
}

#[test]
fn what_contradicts_the_image_is_refused() {
    let ids = |next| {
        Record::from(ProducerIdsRecord {
            broker_id: 1,
            broker_epoch: 0,
            next_producer_id: next,
        })
    };
    let image = of(&[ids(1000), topic("a", 1)]);
    let refused = |record: Record| {
        let mut image = image.clone();
        image.replay(image.next_place(), &[record]).err()
    };
    assert_eq!(
        refused(ids(1000)),
        Some(ReplayError::ProducerIds {
            known: 1000,
            got: 1000
        })
    );
    assert_eq!(refused(ids(2000)), None);
    let mut none_given = Image::default();
    let negative = none_given.replay(none_given.next_place(), &[ids(-1)]);
    let back = ReplayError::ProducerIds { known: 0, got: -1 };
    assert_eq!(negative, Err(back));
    assert_eq!(
        refused(level("metadata.version", 34)),
        Some(ReplayError::MetadataVersion(34))
    );
    assert_eq!(
        refused(topic("a", 9)),
        Some(ReplayError::TopicTwice("a".into()))
    );
    assert_eq!(
        refused(topic("z", 1)),
        Some(ReplayError::TopicTwice("z".into()))
    );
    let unknown = RemoveTopicRecord {
        topic_id: Uuid([3; 16]),
    };
    assert_eq!(
        refused(unknown.into()),
        Some(ReplayError::NoTopic(Uuid([3; 16])))
    );
}

#[test]
fn a_controller_is_unregistered_once() {
    let gone = UnregisterControllerRecord { controller_id: 3 };
    let known = RegisterControllerRecord {
        controller_id: 3,
        ..RegisterControllerRecord::default()
    };
    let mut image = of(&[known.into(), gone.clone().into()]);
    assert_eq!(image.controllers().count(), 0);
    let again = image.replay(image.next_place(), &[gone.into()]);
    assert_eq!(again, Err(ReplayError::NoController(BrokerId(3))));
}

#[test]
fn the_level_of_the_quorum_is_not_in_the_image() {
    let image = of(&[level("kraft.version", 1), level("group.version", 1)]);
    let features: Vec<_> = image.features().collect();
    assert_eq!(features, [("group.version", 1)]);
}

/// One of each of the 27 types.
fn all_types() -> Vec<Record> {
    vec![
        registration(1, 0).into(),
        UnregisterBrokerRecord::default().into(),
        topic("a", 1),
        partition(1, 0, &[1]).into(),
        wire::metadata::ConfigRecord::default().into(),
        PartitionChangeRecord::default().into(),
        FenceBrokerRecord::default().into(),
        UnfenceBrokerRecord::default().into(),
        RemoveTopicRecord::default().into(),
        token("t", 1).into(),
        credential("a", 1).into(),
        level("group.version", 1),
        quota(None, "k", 1.0, false),
        ProducerIdsRecord::default().into(),
        BrokerRegistrationChangeRecord::default().into(),
        acl(1).into(),
        RemoveAccessControlEntryRecord::default().into(),
        NoOpRecord::default().into(),
        ZkMigrationStateRecord::default().into(),
        RemoveUserScramCredentialRecord::default().into(),
        BeginTransactionRecord::default().into(),
        EndTransactionRecord::default().into(),
        AbortTransactionRecord::default().into(),
        RemoveDelegationTokenRecord::default().into(),
        RegisterControllerRecord::default().into(),
        UnregisterControllerRecord::default().into(),
        ClearElrRecord::default().into(),
    ]
}

#[test]
fn every_type_is_written_at_every_level_that_has_it_and_read_again() {
    let all = all_types();
    let mut keys: Vec<i16> = all.iter().map(Record::key).collect();
    keys.sort_unstable();
    keys.dedup();
    assert_eq!(keys.len(), 27);
    for number in MetadataVersion::OLDEST.level()..=MetadataVersion::LATEST.level() {
        let at = MetadataVersion::from_level(number).expect("known");
        for record in &all {
            let record = at.fit(record);
            let Some(version) = at.record_version(&record) else {
                let key = record.key();
                let refused = RecordWriteError::Level { key, level: number };
                assert_eq!(encode(&record, at), Err(refused));
                continue;
            };
            let value = encode(&record, at).expect("the level can say it");
            assert_eq!(value[2], u8::try_from(version).expect("small"));
            assert_eq!(decode(value), Ok(record.clone()), "level {number}");
        }
    }
    let oldest = all
        .iter()
        .filter(|record| MetadataVersion::OLDEST.record_version(record).is_some());
    assert_eq!(oldest.count(), 16);
}

#[test]
fn records_are_written_at_the_finalized_level_and_a_new_one_holds_at_once() {
    let image = of(&[level("metadata.version", 14)]);
    let records = [
        registration(1, 1).into(),
        topic("a", 1),
        partition(1, 0, &[1]).into(),
        level("metadata.version", 30),
        partition(1, 1, &[1]).into(),
    ];
    let written = meta::write(&image, place(1, 0), &records).expect("fits");
    let versions: Vec<u8> = written.values.iter().map(|value| value[2]).collect();
    assert_eq!(versions, [2, 0, 0, 0, 2]);
    let a = written.image.topic("a").expect("created");
    assert!(a.partitions[0].directories.is_empty(), "level 14 has none");
    assert_eq!(
        a.partitions[0].directory(BrokerId(1)),
        Some(meta::dir::MIGRATING)
    );
    assert_eq!(a.partitions[1].directories, [Uuid([50; 16])]);
    let read: Vec<Record> = (written.values.into_iter())
        .map(|value| decode(value).expect("written"))
        .collect();
    let mut again = image.clone();
    again.replay(place(1, 0), &read).expect("fits");
    assert_eq!(again, written.image);

    let early = meta::write(&image, place(1, 0), &[ClearElrRecord::default().into()]);
    assert!(matches!(
        early,
        Err(WriteError::Record(RecordWriteError::Level {
            key: 28,
            level: 14
        }))
    ));
}
