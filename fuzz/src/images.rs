//! Valid inputs of the targets `recovery`, `settings` and `validator`: what a log, a journal and their checkpoint leave on a disk, the
//! segments that Kafka and we wrote for the tests of the log, settings as operators write them, records of every shape.

use std::fs;
use std::path::Path;
use std::sync::Arc;

use env::disk::Open;
use env::{Disk, Env};
use log::checkpoint::{self, Checkpoint, Lost, Row};
use log::epochs::Syncing;
use log::journal::{Entry, Resume, What, Writer};
use log::producer;
use log::txn_index::AbortedTxn;
use log::{FilePool, LogConfig, ProducerStates, Store};
use model::{
    LeaderEpoch, Offset, PartitionIndex, Position, ProducerEpoch, ProducerId, Sequence, Timestamp,
};
use wire::Uuid;
use wire::records::{Batch, BatchBuilder, Codec};

use crate::files::{self, name_of, piece};

const NOW: Timestamp = Timestamp(1_700_000_000_000);

fn batch(at: i64, codec: Codec) -> Batch {
    let producer = (ProducerId(1), ProducerEpoch(0), Sequence(at as i32));
    let mut builder = BatchBuilder::new()
        .base_offset(Offset(at))
        .leader_epoch(LeaderEpoch(1))
        .compression(codec)
        .producer(producer.0, producer.1, producer.2);
    for value in ["one", "two"] {
        builder.push(NOW, Some(b"key"), Some(value.as_bytes()), &[]);
    }
    builder.build()
}

fn content(disk: &dyn Disk, path: &Path) -> Vec<u8> {
    let file = disk.open(path, Open::Read).expect("a file that was listed");
    let mut bytes = vec![0; file.len().expect("its length") as usize];
    file.read_exact_at(&mut bytes, 0).expect("its bytes");
    bytes
}

/// Every file of a directory of a partition that an input can name.
fn partition(files: impl Iterator<Item = (String, Vec<u8>)>) -> Vec<u8> {
    let named = |name: &str| (0..=u8::MAX).find(|what| name_of(*what) == name);
    let mut input = Vec::new();
    for (name, bytes) in files {
        if let Some(what) = named(&name).filter(|_| bytes.len() <= usize::from(u16::MAX)) {
            input.extend(piece(what, &bytes));
        }
    }
    input
}

pub fn recovery(fuzz: &Path) -> Vec<Vec<u8>> {
    let mut inputs = Vec::new();
    for of in ["kafka", "ours"] {
        let dir = fuzz.join("../crates/log/tests/data").join(of);
        let entries = fs::read_dir(dir)
            .expect("data of the log's tests")
            .flatten();
        let files = entries.map(|entry| {
            let bytes = fs::read(entry.path()).expect("a file of the tests");
            (entry.file_name().to_string_lossy().into_owned(), bytes)
        });
        let files = partition(files);
        // Known up to an offset that there is not, and not known at all.
        inputs.push([&[0, 1, 100, 0, 0, 0], &files[..]].concat());
        inputs.push([&[0, 3, 100, 4, 0, 10], &files[..]].concat());
    }
    let machine = files::machine();
    let env = machine.env();
    inputs.extend(segments(&env));
    inputs.push([&[1, 1], &checkpointed(&env)[..]].concat());
    inputs.push([&[2, 1], &producers(&env)[..]].concat());
    for sync in [true, false] {
        inputs.push([&[3, 1], &journal(sync)[..]].concat());
    }
    inputs
}

/// A log of several segments, two batches each.
fn segments(env: &Env) -> Vec<Vec<u8>> {
    let dir = files::partition_dir();
    let pool = FilePool::new(Arc::clone(&env.disk), 4);
    let config = LogConfig {
        index_interval_bytes: 1,
        ..LogConfig::default()
    };
    let store = Store::create(&pool, &dir, Arc::new(config), Offset(0)).expect("an empty disk");
    for (at, codec) in [(0, Codec::None), (2, Codec::Lz4), (4, Codec::Zstd)] {
        store.append(&[batch(at, codec)], NOW).expect("room");
        if at == 2 {
            let txn = AbortedTxn {
                producer_id: ProducerId(1),
                first_offset: Offset(0),
                last_offset: Offset(3),
                last_stable_offset: Offset(0),
            };
            store.add_aborted(txn).expect("room");
        }
        if at == 0 {
            store.roll(NOW).expect("room");
        }
    }
    store.write_indexes().expect("room");
    store.sync().expect("a disk without faults");
    let known = store.known();
    drop(store);
    let entries = env.disk.read_dir(&dir).expect("the log's directory");
    let files = entries.iter().map(|entry| {
        let bytes = content(&*env.disk, &dir.join(&entry.name));
        (entry.name.clone(), bytes)
    });
    let files = partition(files);
    let len = (known.active_len as u16).to_be_bytes();
    let known = [0, 3, known.log_end.0 as u8, 1, len[0], len[1]];
    let believed = [&known[..], &files].concat();
    vec![believed, [&[0, 1, 0, 0, 0, 0], &files[..]].concat()]
}

fn checkpointed(env: &Env) -> Vec<u8> {
    let topic = Uuid([7; 16]);
    let row = |partition| Row {
        topic,
        partition: PartitionIndex(partition),
        log_start: Offset(1),
        local_start: Offset(1),
        restart_point: Offset(0),
        committed: Offset(5),
        restarted_at: Offset(0),
        log_end: Offset(6),
        active_base: Offset(2),
        active_len: Position(300),
        has_files: true,
        has_producers: partition == 0,
    };
    let lost = Lost {
        topic,
        partition: PartitionIndex(1),
        from: Offset(2),
        to: Offset(4),
    };
    let checkpoint = Checkpoint {
        sequence: 9,
        checksum: 1,
        piece: 2,
        rows: vec![row(0), row(1)],
        lost: vec![lost],
    };
    let dir = Path::new("/data");
    checkpoint.store(&*env.disk, dir).expect("room");
    content(&*env.disk, &dir.join(checkpoint::FILE_NAME))
}

fn producers(env: &Env) -> Vec<u8> {
    let mut states = ProducerStates::new(Offset(0));
    for at in [0, 2, 4] {
        states.apply(&batch(at, Codec::None), None);
    }
    let dir = files::partition_dir();
    producer::write(&*env.disk, &dir, &states, Syncing::Now).expect("room");
    content(&*env.disk, &producer::snapshot_path(&dir, states.end()))
}

/// Some rounds of two logs in two pieces.
fn journal(sync: bool) -> Vec<u8> {
    let machine = files::machine();
    let env = machine.env();
    let dir = Path::new("/data/journal");
    env.disk.create_dir_all(dir).expect("room");
    let id = Uuid([9; 16]);
    let mut writer = Writer::new(&env, dir.into(), id, 20 << 10, Resume::default());
    for round in 0..5i64 {
        let entry = |partition, what| Entry {
            topic: Uuid([7; 16]),
            partition: PartitionIndex(partition),
            what,
        };
        let batches = (0..2).map(|log| entry(log, What::Batch(batch(round * 2, Codec::None))));
        let mut entries: Vec<Entry> = batches.collect();
        let start = Offset(round);
        entries.extend((round == 3).then(|| entry(0, What::Trim { start })));
        writer.commit(&entries, sync || round == 2).expect("room");
    }
    let mut input = Vec::new();
    for slot in 0..2u8 {
        let path = log::journal::piece_path(dir, u32::from(slot));
        if env.disk.exists(&path).expect("a disk without faults") {
            for run in files::unpadded(&content(&*env.disk, &path)) {
                input.extend(piece(slot, run));
            }
        }
    }
    input
}

pub fn settings() -> Vec<Vec<u8>> {
    let properties = "# a broker\nnode.id=3\nlisteners = PLAINTEXT://:9092,INSIDE://[::1]:19092\n\
        advertised.listeners: PLAINTEXT://broker.example:9092,INSIDE://[::1]:19092\n\
        listener.security.protocol.map=PLAINTEXT:PLAINTEXT,INSIDE:PLAINTEXT\n\
        inter.broker.listener.name=INSIDE\nlog.dirs=/a,\\\n  /b\\u0020c\nlog.retention.hours 24\n\
        esker.durability=os\nlog.cleaner.io.buffer.load.factor=0.9\n";
    let toml = "\"node.id\" = 3\nlisteners = [\"PLAINTEXT://:9092\"]\n[log]\ndirs = [\"/a\", \"/b\"]\n\
        retention.ms = 1000\n[log.cleaner]\nenable = true\n";
    let topic = "cleanup.policy=compact,delete\nretention.ms=1000\nsegment.bytes=1048576\n\
        compression.type=zstd\ncompression.zstd.level=3\nmessage.timestamp.type=LogAppendTime\n";
    let group = "consumer.session.timeout.ms=45000\nconsumer.heartbeat.interval.ms=5000\n";
    let metrics =
        "metrics=org.apache.kafka.\ninterval.ms=1000\nmatch=client_id=a.*,client_software_name=b\n";
    let input = |which: u8, text: &str| [&[which], text.as_bytes()].concat();
    let listeners = ["PLAINTEXT://:9092", "a-b_c://[::1]:0", "localhost:9092"];
    let mut inputs = vec![
        input(0, properties),
        input(1, toml),
        input(3, topic),
        input(3, group),
        input(3, metrics),
    ];
    inputs.extend(listeners.map(|text| input(2, text)));
    inputs
}

pub fn validator() -> Vec<Vec<u8>> {
    let mut builder = BatchBuilder::new().base_offset(Offset(0));
    let headers: [(&str, Option<&[u8]>); 2] = [("h", Some(b"v")), ("h", None)];
    builder.push(Timestamp(0), Some(b"key"), Some(b"value"), &headers);
    builder.push(Timestamp(1000), None, Some(&[b'x'; 70]), &[]);
    builder.push(Timestamp(1), Some(b""), None, &[]);
    let batch = builder.build();
    let bytes = batch.to_bytes();
    let (count, delta) = (batch.record_count() as u8, batch.last_offset_delta() as u8);
    let hows = 0..16u8;
    let head = |how: u8| [how, how, count, delta, 0, 2, 0, 2];
    let with_body = |how| [&head(how)[..], &bytes[wire::records::HEAD_SIZE..]].concat();
    hows.map(with_body).collect()
}
