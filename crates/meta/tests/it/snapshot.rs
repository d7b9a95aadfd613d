//! An image and its snapshot are the same, and a snapshot that is not whole is none.

use ::model::{BrokerId, LeaderEpoch, Offset, Timestamp};
use bytes::Bytes;
use meta::checkpoint::{self, CheckpointError, Head, SnapshotId};
use meta::{Image, MetadataVersion, Place, Record, View, snapshot};
use proptest::prelude::*;
use wire::Uuid;
use wire::messages::VotersRecord;
use wire::messages::voters_record::Voter;
use wire::metadata::{
    BeginTransactionRecord, ClearElrRecord, ConfigRecord, FeatureLevelRecord,
    PartitionChangeRecord, ProducerIdsRecord, RegisterControllerRecord, RemoveTopicRecord,
};

use crate::replay::{acl, credential, partition, quota, registration, token, topic};

fn level(name: &str, level: i16) -> Record {
    FeatureLevelRecord {
        name: name.into(),
        feature_level: level,
    }
    .into()
}

fn replicas() -> impl Strategy<Value = Vec<i32>> {
    proptest::collection::vec(1..6, 1..4)
}

/// Records over few names and numbers, so that many of them fit what came before.
fn record() -> impl Strategy<Value = Record> {
    let name = || prop::sample::select(vec!["a", "b.c", "b_c", "d"]);
    let id = || 1..5u8;
    prop_oneof![
        (name(), id()).prop_map(|(name, id)| topic(name, id)),
        (id(), 0..3, replicas()).prop_map(|(id, at, all)| partition(id, at, &all).into()),
        (id(), 0..3, replicas(), any::<bool>(), -2..6).prop_map(|(id, at, all, is, leader)| {
            PartitionChangeRecord {
                partition_id: at,
                topic_id: Uuid([id; 16]),
                isr: is.then(|| all[1..].to_vec()),
                eligible_leader_replicas: is.then(|| all[..1].to_vec()),
                last_known_elr: (!is).then(|| all.clone()),
                adding_replicas: (!is).then(|| all[1..].to_vec()),
                leader_recovery_state: i8::from(is),
                directories: is.then(|| vec![Uuid([9; 16]); all.len()]),
                leader,
                ..PartitionChangeRecord::default()
            }
            .into()
        }),
        id().prop_map(|id| RemoveTopicRecord {
            topic_id: Uuid([id; 16])
        }
        .into()),
        name().prop_map(|name| ClearElrRecord {
            topic_name: name.into()
        }
        .into()),
        (
            prop::sample::select(vec![2, 4, 16, 32]),
            name(),
            prop::option::of(0..3)
        )
            .prop_map(|(kind, name, value)| ConfigRecord {
                resource_type: kind,
                resource_name: name.into(),
                name: "retention.ms".into(),
                value: value.map(|value: i32| value.to_string()),
            }
            .into()),
        (1..6, 0..9i64, any::<bool>()).prop_map(|(id, epoch, is_odd)| {
            let mut broker = registration(id, epoch);
            broker.fenced = is_odd;
            broker.in_controlled_shutdown = is_odd;
            broker.rack = is_odd.then(|| "r".to_owned());
            broker.cordoned_log_dirs = is_odd.then(Vec::new);
            broker.into()
        }),
        (1..4, any::<bool>()).prop_map(|(controller_id, zk_migration_ready)| {
            RegisterControllerRecord {
                controller_id,
                zk_migration_ready,
                ..RegisterControllerRecord::default()
            }
            .into()
        }),
        (0..3i16).prop_map(|to| level("group.version", to)),
        (1..9i64).prop_map(|block| ProducerIdsRecord {
            broker_id: 1,
            broker_epoch: 2,
            next_producer_id: block * 1000
        }
        .into()),
        (prop::option::of(name()), 0..3, any::<bool>()).prop_map(|(user, value, remove)| quota(
            user,
            "k",
            f64::from(value) / 3.0,
            remove
        )),
        id().prop_map(|id| acl(id).into()),
        (name(), 1..3).prop_map(|(name, rounds)| credential(name, rounds).into()),
        (name(), 1..3i64).prop_map(|(id, expires)| token(id, expires).into()),
    ]
}

/// An image made of those records that fit, at a level of `metadata.version`.
fn image() -> impl Strategy<Value = Image> {
    let levels = prop_oneof![Just(33), 7..=33i16];
    (levels, proptest::collection::vec(record(), 0..60)).prop_map(|(number, records)| {
        let version = MetadataVersion::from_level(number).expect("known");
        let mut image = Image::default();
        let first = [level("metadata.version", number)];
        for records in std::iter::once(&first[..]).chain(records.chunks(1)) {
            let Ok(written) = meta::write(&image, next(&image), records) else {
                continue;
            };
            image = written.image;
        }
        assert_eq!(image.metadata_version(), version);
        image
    })
}

fn next(image: &Image) -> Place {
    Place {
        base: Offset(image.end() + 3),
        epoch: LeaderEpoch(4),
        time: Timestamp(image.end() * 10),
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(256))]

    #[test]
    fn an_image_equals_the_one_of_its_snapshot(image in image()) {
        let bytes = checkpoint::write(&image, &Head::default(), Timestamp(77)).expect("fits");
        let (again, _) = checkpoint::read(&bytes, checkpoint::id_of(&image)).expect("whole");
        prop_assert_eq!(&again, &image);
        prop_assert!(snapshot::records(&again).eq(snapshot::records(&image)));
        prop_assert_eq!(again.generation(View::Topics), image.end());
        let first = snapshot::records(&image).next();
        prop_assert_eq!(first, Some(level("metadata.version", image.metadata_version().level())));
    }

    /// The writer of the bytes knew the checksums.
    #[test]
    fn records_that_are_wrong_in_batches_that_are_right_are_refused_or_make_an_image(
        records in proptest::collection::vec((record(), any::<prop::sample::Index>(), any::<u8>()), 0..30),
        is_changed in any::<bool>(),
    ) {
        let id = SnapshotId { end: Offset(40), epoch: LeaderEpoch(2) };
        let mut writer = checkpoint::Writer::new(id, &Head::default(), Timestamp(1)).expect("a header");
        let version = meta::record::encode(&level("metadata.version", 30), MetadataVersion::LATEST);
        writer.push(&version.expect("fits"));
        for (record, at, byte) in records {
            let value = meta::record::encode(&record, MetadataVersion::LATEST).expect("fits");
            let mut value = value.to_vec();
            if is_changed {
                let at = at.index(value.len());
                value[at] = byte;
            }
            writer.push(&value);
        }
        let bytes = writer.finish().expect("a footer");
        if let Ok((image, head)) = checkpoint::read(&bytes, id) {
            let again = checkpoint::write(&image, &head, Timestamp(1)).expect("fits");
            prop_assert_eq!(checkpoint::read(&again, id).expect("whole").0, image);
        }
    }
}

fn small() -> (Image, SnapshotId, Bytes) {
    let mut image = Image::default();
    let records = [
        level("metadata.version", 30),
        registration(1, 0).into(),
        topic("a", 1),
        partition(1, 0, &[1]).into(),
    ];
    image.replay(next(&image), &records).expect("fits");
    let voters = VotersRecord {
        voters: vec![Voter {
            voter_id: 1,
            ..Voter::default()
        }],
        ..VotersRecord::default()
    };
    let head = Head {
        kraft_version: Some(1),
        voters: Some(voters),
        cluster_id: Some("cluster".to_owned()),
        ..Head::default()
    };
    let bytes = checkpoint::write(&image, &head, Timestamp(77)).expect("fits");
    let id = checkpoint::id_of(&image);
    let (again, found) = checkpoint::read(&bytes, id).expect("whole");
    assert_eq!(again, image);
    assert_eq!(
        (found.kraft_version, found.voters),
        (head.kraft_version, head.voters)
    );
    assert_eq!(found.time, Some(image.last_time()));
    (image, id, bytes)
}

#[test]
fn every_truncation_of_a_snapshot_is_refused() {
    let (_, id, bytes) = small();
    for len in 0..bytes.len() {
        let read = checkpoint::read(&bytes.slice(..len), id);
        assert!(read.is_err(), "{len} of {}", bytes.len());
    }
}

#[test]
fn every_bit_that_flips_is_seen() {
    let (_, id, bytes) = small();
    for bit in 0..bytes.len() * 8 {
        let mut flipped = bytes.to_vec();
        flipped[bit / 8] ^= 1 << (bit % 8);
        assert!(checkpoint::read(&flipped.into(), id).is_err(), "bit {bit}");
    }
}

#[test]
fn a_snapshot_of_another_place_or_with_more_behind_it_is_refused() {
    let (_, id, bytes) = small();
    let other = SnapshotId {
        epoch: LeaderEpoch(id.epoch.0 + 1),
        ..id
    };
    assert!(matches!(
        checkpoint::read(&bytes, other),
        Err(CheckpointError::Place {
            want: Offset(0),
            ..
        })
    ));
    let mut longer = bytes.to_vec();
    longer.push(0);
    assert!(checkpoint::read(&longer.into(), id).is_err());
    let twice: Bytes = [&bytes[..], &bytes[..]].concat().into();
    assert_eq!(
        checkpoint::read(&twice, id),
        Err(CheckpointError::AfterFooter)
    );
}

#[test]
fn many_records_go_into_batches_that_go_out_while_it_is_written() {
    let id = SnapshotId {
        end: Offset(9),
        epoch: LeaderEpoch(1),
    };
    let mut writer = checkpoint::Writer::new(id, &Head::default(), Timestamp(1)).expect("a header");
    let mut pieces = Vec::new();
    let mut values = 0;
    while pieces.len() < 4 {
        let topic = topic(&format!("{:0>200}", values), 0);
        let value = meta::record::encode(&topic, MetadataVersion::LATEST).expect("fits");
        writer.push(&value);
        values += 1;
        pieces.extend(Some(writer.take()).filter(|piece| !piece.is_empty()));
    }
    pieces.push(writer.finish().expect("a footer"));
    assert!(pieces.iter().all(|piece| piece.len() < 2 << 20));
    let bytes: Bytes = pieces.concat().into();
    let mut reader = checkpoint::Reader::new(id);
    let mut read = 0;
    for batch in wire::records::Batch::cut(&bytes, wire::records::Source::Log) {
        read += reader.on_batch(&batch.expect("whole")).expect("good").len();
    }
    assert_eq!((read, reader.finish().is_ok()), (values, true));
}

#[test]
fn names_of_snapshots_are_those_of_kafka() {
    let id = SnapshotId {
        end: Offset(1234),
        epoch: LeaderEpoch(56),
    };
    let name = "00000000000000001234-0000000056.checkpoint";
    assert_eq!(id.file_name(), name);
    assert_eq!(SnapshotId::of_file(name), Some(id));
    for other in [
        "1234-56.checkpoint",
        "00000000000000001234-0000000056.checkpoint.part",
        "00000000000000001234-+000000056.checkpoint",
        "00000000000000000000.log",
        "",
    ] {
        assert_eq!(SnapshotId::of_file(other), None, "{other}");
    }
}

#[test]
fn a_snapshot_within_a_transaction_is_refused() {
    let mut loader = snapshot::Loader::default();
    let begin = BeginTransactionRecord::default();
    loader.add(&[begin.into()]).expect("begins");
    assert!(loader.finish(next(&Image::default())).is_err());
    assert!(Image::default().broker(BrokerId(1)).is_none());
}
