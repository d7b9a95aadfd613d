//! Writes valid inputs of the targets: the golden vectors of messages, records and batches, the logs that coordinators write,
//! what logs leave on a disk, settings, and scripts of logins, rules and envelopes.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use bytes::Bytes;
use coord::group::Ask;
use coord::group::ask::{
    Commit, CommitPartition, CommitTopic, ConsumerHeartbeat, Join, Protocol, TopicKey,
};
use esker_fuzz::{Entry, World, access, images};
use model::{LeaderEpoch, Offset, PartitionIndex};
use wire::transaction::transaction_log_value::PartitionsSchema;
use wire::transaction::{TransactionLogKey, TransactionLogValue, TransactionRecord};
use wire::{ApiKey, Uuid, any};

/// Names and numbers of the records of a coordinator's log, as far as its machine reads them.
const GROUP_RECORDS: [(&str, i16); 9] = [
    ("OffsetCommit", 1),
    ("GroupMetadata", 2),
    ("ConsumerGroupMetadata", 3),
    ("ConsumerGroupPartitionMetadata", 4),
    ("ConsumerGroupMemberMetadata", 5),
    ("ConsumerGroupTargetAssignmentMetadata", 6),
    ("ConsumerGroupTargetAssignmentMember", 7),
    ("ConsumerGroupCurrentMemberAssignment", 8),
    ("ConsumerGroupRegularExpression", 16),
];
const TRANSACTION_RECORDS: [(&str, i16); 1] = [("TransactionLog", 0)];

fn main() -> std::io::Result<()> {
    let fuzz = Path::new(env!("CARGO_MANIFEST_DIR"));
    let packed = fs::read(fuzz.join("../crates/wire/tests/data/messages.zst"))?;
    let text = zstd::decode_all(&packed[..])?;
    let mut written = 0;
    let mut keys: BTreeMap<(bool, i16), Vec<u8>> = BTreeMap::new();
    let mut values = Vec::new();
    for (number, line) in String::from_utf8_lossy(&text).lines().enumerate() {
        let words: Vec<&str> = line.split(' ').collect();
        let [group, name, version, "random", body] = words[..] else {
            continue;
        };
        let (version, body): (i16, Vec<u8>) = (version.parse().expect("version"), hex(body));
        let index = any::ALL
            .iter()
            .position(|m| m.group == group && m.name == name)
            .expect("a known message");
        let key = |suffix| {
            ApiKey::ALL
                .into_iter()
                .find(|key| group == "messages" && name.strip_suffix(suffix) == Some(key.name()))
        };

        let record = |suffix| match group {
            "group" => record_of(&GROUP_RECORDS, name, suffix).map(|of| (false, of)),
            "transaction" => record_of(&TRANSACTION_RECORDS, name, suffix).map(|of| (true, of)),
            _ => None,
        };
        if let Some(of) = record("Key") {
            keys.insert(of, [&of.1.to_be_bytes()[..], &body].concat());
        }
        if let Some(of) = record("Value") {
            values.push((number, of, [&version.to_be_bytes()[..], &body].concat()));
        }
        let blob = [&version.to_be_bytes()[..], &body].concat();
        let cut = match name {
            "ConsumerProtocolSubscription" => Some(blob.len() as u16),
            "ConsumerProtocolAssignment" => Some(0),
            _ => None,
        };
        if let Some(cut) = cut {
            let head = [number as u8 & 7, (cut >> 8) as u8, cut as u8];
            save(fuzz, "consumers", number, &[&head[..], &blob].concat())?;
            written += 1;
        }

        let mut input = (index as u16).to_be_bytes().to_vec();
        input.push(version as u8);
        save(fuzz, "messages", number, &[&input[..], &body].concat())?;
        written += 1;
        if let Some(key) = key("Request") {
            // Correlation id 0, client id "c", no tagged fields.
            let tags: &[u8] = if key.request_header_version(version) == 2 {
                &[0]
            } else {
                &[]
            };
            let header = [
                &key.key().to_be_bytes()[..],
                &version.to_be_bytes(),
                &[0, 0, 0, 0, 0, 1, b'c'],
                tags,
            ]
            .concat();
            save(fuzz, "frames", number, &[&header[..], &body].concat())?;
            written += 1;
        }
        if let Some(key) = key("Response") {
            let tags: &[u8] = if key.response_header_version(version) == 1 {
                &[0]
            } else {
                &[]
            };
            let header = [&[key.key() as u8, version as u8, 0, 0, 0, 0][..], tags].concat();
            save(fuzz, "responses", number, &[&header[..], &body].concat())?;
            written += 1;
        }
    }
    for (number, of, value) in values {
        let Some(key) = keys.get(&of) else { continue };
        let entry = Entry::Record {
            key: Bytes::copy_from_slice(key),
            value: Some(value.into()),
            producer: None,
        };
        let mut input = vec![u8::from(of.0)];
        entry.write(&mut input);
        save(fuzz, "coordinators", number, &input)?;
        written += 1;
    }
    for (number, log) in [groups(), transactions()].into_iter().enumerate() {
        // Every beginning of it, as a crash leaves it.
        let mut input = vec![number as u8];
        for (at, entry) in log.iter().enumerate() {
            entry.write(&mut input);
            save(fuzz, "coordinators", 1_000_000 * (number + 1) + at, &input)?;
            written += 1;
        }
    }
    let batches = fuzz.join("../crates/wire/tests/data/records");
    for (number, entry) in fs::read_dir(batches)?.enumerate() {
        let batch = fs::read(entry?.path())?;
        // From a producer and from a log, with the checksum mended.
        for how in [2u8, 3] {
            save(
                fuzz,
                "batch",
                number * 2 + usize::from(how & 1),
                &[&[how], &batch[..]].concat(),
            )?;
            written += 1;
        }
    }
    for (target, inputs) in [
        ("recovery", images::recovery(fuzz)),
        ("settings", images::settings()),
        ("validator", images::validator()),
        ("login", access::login()),
        ("scram_client", access::scram_client()),
        ("acl_model", access::acl_model()),
        ("envelope", access::envelope()),
    ] {
        for (number, input) in inputs.iter().enumerate() {
            save(fuzz, target, number, input)?;
            written += 1;
        }
    }
    println!("{written} seeds");
    Ok(())
}

fn record_of(known: &[(&str, i16)], name: &str, suffix: &str) -> Option<i16> {
    let name = name.strip_suffix(suffix)?;
    let found = known.iter().find(|(known, _)| *known == name);
    found.map(|(_, number)| *number)
}

/// The records of a coordinator for a group of each kind, with commits, some of a transaction.
fn groups() -> Vec<Entry> {
    let mut world = World::load(Vec::new()).expect("an empty log");
    world.ask(Ask::Join(Join {
        group_id: "classic".to_owned(),
        session_timeout_ms: 10_000,
        rebalance_timeout_ms: Some(10_000),
        protocol_type: "consumer".to_owned(),
        protocols: vec![Protocol {
            name: "range".to_owned(),
            ..Protocol::default()
        }],
        fresh: Uuid([1; 16]),
        ..Join::default()
    }));
    for member in ["one", "two"] {
        world.ask(Ask::ConsumerHeartbeat(ConsumerHeartbeat {
            group_id: "consumer".to_owned(),
            member_id: member.to_owned(),
            rebalance_timeout_ms: Some(10_000),
            topic_names: Some(vec!["t".to_owned()]),
            owned: Some(Vec::new()),
            brings_member_id: true,
            ..ConsumerHeartbeat::default()
        }));
    }
    let from = world.log.len();
    let partition = |index| CommitPartition {
        index: PartitionIndex(index),
        offset: Offset(10),
        leader_epoch: LeaderEpoch::NONE,
        metadata: String::new(),
    };
    world.ask(Ask::Commit(Commit {
        group_id: "tool".to_owned(),
        member_id: String::new(),
        instance_id: None,
        generation: -1,
        knows_member_epochs: true,
        retention_ms: None,
        topics: vec![CommitTopic {
            topic: TopicKey::Name("t".to_owned()),
            partitions: (0..3).map(partition).collect(),
        }],
    }));
    let commits = world.log[from..].to_vec();
    for mut entry in commits {
        if let Entry::Record { producer, .. } = &mut entry {
            *producer = Some(1);
        }
        world.log.push(entry);
    }
    world.mark(1, true);
    for _ in 0..4 {
        world.turn();
    }
    world.log
}

/// A transactional id in every state.
fn transactions() -> Vec<Entry> {
    let partitions = || PartitionsSchema {
        topic: "t".to_owned(),
        partition_ids: vec![0, 1],
    };
    let states = 0..6;
    let entry = |state: i8| {
        let key = TransactionLogKey {
            transactional_id: format!("id-{}", state % 3),
        };
        let value = TransactionLogValue {
            producer_id: i64::from(state),
            producer_epoch: i16::from(state),
            transaction_timeout_ms: 1_000,
            transaction_status: state,
            transaction_partitions: (state > 0).then(|| vec![partitions()]),
            transaction_last_update_timestamp_ms: 1_700_000_000_000,
            transaction_start_timestamp_ms: 1_700_000_000_000,
            client_transaction_version: i16::from(state % 3),
            ..TransactionLogValue::default()
        };
        let record = TransactionRecord::TransactionLog(key, Some(value));
        let (key, value) = record.encode(1).expect("a record");
        Entry::Record {
            key,
            value,
            producer: None,
        }
    };
    states.map(entry).collect()
}

fn save(fuzz: &Path, target: &str, number: usize, input: &[u8]) -> std::io::Result<()> {
    let dir = fuzz.join("corpus").join(target);
    fs::create_dir_all(&dir)?;
    fs::write(dir.join(format!("golden-{number}")), input)
}

fn hex(text: &str) -> Vec<u8> {
    let pair = |at: usize| u8::from_str_radix(&text[at..at + 2], 16).expect("hex");
    if text == "." {
        Vec::new()
    } else {
        (0..text.len()).step_by(2).map(pair).collect()
    }
}
