//! A controller begins a cluster or takes one over, registers, and raises a level only where every node knows it.

use std::collections::BTreeMap;

use ::model::BrokerId;
use meta::decide::controller::{
    RegisteringController, UnfitController, UnregisterControllerError, activate, bootstrap,
    register_controller, unregister_controller,
};
use meta::decide::register_broker::FEATURES;
use meta::decide::update_features::{Controllers, Direction, Update, update_features};
use meta::{Endpoint, Image, Levels, MetadataVersion, Record, Resource, SecurityProtocol};
use wire::Uuid;
use wire::metadata::{
    AbortTransactionRecord, BeginTransactionRecord, EndTransactionRecord, FeatureLevelRecord,
};

use crate::replay;
use crate::replay::{registration, topic};

/// All features of Kafka 4.4.
const ALL: [(&str, std::ops::RangeInclusive<i16>); 6] = [
    ("metadata.version", 7..=33),
    ("eligible.leader.replicas.version", 0..=1),
    ("group.version", 0..=1),
    ("share.version", 0..=2),
    ("streams.version", 0..=1),
    ("transaction.version", 0..=2),
];

fn begun(name: &str, supported: &[(&str, std::ops::RangeInclusive<i16>)]) -> Image {
    let version = MetadataVersion::from_name(name).expect("known");
    let first = bootstrap(version, supported, 2);
    let mut image = Image::default();
    let records = activate(&image, &first);
    image
        .replay(image.next_place(), &records)
        .expect("a whole transaction");
    assert!(!image.is_in_transaction());
    assert_eq!(activate(&image, &first), [], "the log is not empty");
    image
}

#[test]
fn a_cluster_begins_with_the_features_of_its_version_that_are_supported() {
    for (name, supported, levels) in [
        ("4.4", &ALL[..], vec![1, 1, 33, 2, 1, 2]),
        ("4.3", &ALL[..], vec![1, 1, 30, 1, 1, 2]),
        ("4.0", &ALL[..], vec![1, 25, 2]),
        ("3.3", &ALL[..], vec![7]),
        ("4.3", &FEATURES[..], vec![1, 1, 30, 2]),
    ] {
        let image = begun(name, supported);
        let found: Vec<i16> = image.features().map(|(_, level)| level).collect();
        assert_eq!(found, levels, "{name}");
        let minimum = image.overrides(&Resource::cluster());
        let has_eligible = 1 <= image.feature("eligible.leader.replicas.version");
        let expected = has_eligible.then_some("2");
        let minimum = minimum.get("min.insync.replicas").map(String::as_str);
        assert_eq!(minimum, expected, "{name}");
    }
}

#[test]
fn a_transaction_that_was_left_open_is_aborted_first() {
    let begin = Record::from(BeginTransactionRecord::default());
    let mut image = begun("4.3", &ALL);
    image
        .replay(image.next_place(), &[begin.clone(), topic("t", 1)])
        .expect("begins");
    let aborted = activate(&image, &[]);
    let abort = AbortTransactionRecord {
        reason: Some("Controller failover".into()),
    };
    assert_eq!(aborted, [abort.clone().into()]);
    image
        .replay(image.next_place(), &aborted)
        .expect("one was open");
    assert!(image.topic("t").is_none() && !image.is_in_transaction());

    // The first one failed before it had begun the cluster.
    let mut empty = Image::default();
    empty.replay(empty.next_place(), &[begin]).expect("begins");
    let first = bootstrap(MetadataVersion::LATEST, &FEATURES, 1);
    let records = activate(&empty, &first);
    assert_eq!(records[0], abort.into());
    assert!(matches!(records[1], Record::BeginTransaction(_)));
    assert_eq!(records[2..2 + first.len()], first);
    assert_eq!(
        records.last(),
        Some(&EndTransactionRecord::default().into())
    );
}

fn registering(id: i32, most: i16) -> RegisteringController {
    RegisteringController {
        id: BrokerId(id),
        incarnation: Uuid([7; 16]),
        endpoints: vec![Endpoint {
            name: "CONTROLLER".into(),
            host: "h".into(),
            port: 9093,
            protocol: SecurityProtocol::SASL_SSL,
        }],
        features: BTreeMap::from([("metadata.version".to_owned(), Levels { min: 7, max: most })]),
    }
}

#[test]
fn a_controller_registers_where_the_log_knows_such_a_record() {
    let mut image = begun("4.3", &ALL);
    let record = register_controller(&image, &registering(3, 30)).expect("new enough");
    replay(&mut image, &[record]);
    let known = image.controllers().next().expect("registered");
    assert_eq!(known.endpoints[0].protocol, SecurityProtocol::SASL_SSL);
    assert!(known.features["metadata.version"].contains(30));
    let old = begun("3.6", &ALL);
    assert_eq!(
        register_controller(&old, &registering(3, 30)),
        Err(UnfitController::TooOld)
    );
}

#[test]
fn a_controller_that_is_not_active_is_unregistered_where_the_log_knows_such_a_record() {
    let unregister = |image: &Image, id| unregister_controller(image, BrokerId(1), BrokerId(id));
    let mut image = begun("4.4", &ALL);
    let unknown = UnregisterControllerError::NotRegistered(BrokerId(3));
    assert_eq!(unregister(&image, 3), Err(unknown));
    let record = register_controller(&image, &registering(3, 33)).expect("new enough");
    replay(&mut image, &[record]);
    let active = Err(UnregisterControllerError::Active);
    assert_eq!(unregister(&image, 1), active);
    let gone = unregister(&image, 3).expect("registered");
    replay(&mut image, &[gone]);
    assert_eq!(image.controllers().count(), 0);

    let mut old = begun("4.4-IV1", &ALL);
    let record = register_controller(&old, &registering(3, 33)).expect("new enough");
    replay(&mut old, &[record]);
    let too_old = Err(UnregisterControllerError::TooOld);
    assert_eq!(
        (unregister(&old, 3), unregister(&old, 1)),
        (too_old, active)
    );
}

#[test]
fn a_level_is_raised_only_when_every_node_knows_it() {
    let mut image = Image::default();
    let level = FeatureLevelRecord {
        name: "metadata.version".into(),
        feature_level: 29,
    };
    replay(&mut image, &[level.into()]);
    let raise = |image: &Image, voters: &[BrokerId]| {
        let quorum = Controllers {
            local: BrokerId(1),
            kraft_version: 0,
            voters,
        };
        let to = Update {
            level: 30,
            direction: Some(Direction::Upgrade),
        };
        let updates = [("metadata.version".to_owned(), to)].into();
        let records = update_features(image, quorum, &updates);
        records.map(|_| ()).map_err(|error| error.to_string())
    };
    let refused = |reason: &str| {
        Err(format!(
            "Invalid update version 30 for feature metadata.version. {reason}"
        ))
    };
    assert_eq!(raise(&image, &[]), Ok(()));
    let both = [BrokerId(1), BrokerId(2)];
    assert_eq!(
        raise(&image, &both),
        refused("controller 2 has not registered, and may not support this feature")
    );
    for most in [29, 30] {
        let record = register_controller(&image, &registering(2, most)).expect("new enough");
        replay(&mut image, &[record]);
        let expected = if most == 30 {
            Ok(())
        } else {
            refused("Controller 2 only supports versions 7-29")
        };
        assert_eq!(raise(&image, &both), expected);
    }
    let mut broker = registration(4, 9);
    broker.features.clear();
    image
        .replay(image.next_place(), &[broker.into()])
        .expect("registers");
    assert_eq!(
        raise(&image, &both),
        refused("Broker 4 does not support this feature.")
    );
}
