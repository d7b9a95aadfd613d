//! The load of a cluster scenario, and its verdict: our own producers and readers, whose every word is judged, and librdkafka's.
//!
//! *Records*: idempotent and plain producers, a reader, librdkafka's idempotent producer and two members of a group. *Transfers*:
//! transactional producers, two of which share an id, one of librdkafka, and readers of both levels. *Everything*: both with small batches,
//! records of 1 MB in bursts, and a topic whose replicas move, all on topics whose oldest records are removed.

use std::collections::{BTreeMap, HashMap};
use std::fs::File;
use std::path::PathBuf;
use std::process::Command;
use std::sync::Arc;
use std::time::{Duration, Instant};

use client::{Change, Resource};
use parking_lot::Mutex;
use sim::checker::{Op, check};

use crate::children::ClientProcess;
use crate::cluster::nodes::{COUNT, Nodes, WRITE_AGAIN_MAX};
use crate::groups::judge_commits;
use crate::ledger::{Account, Log, judge_from};
use crate::load::{
    CHAOS, Gauge, Load, Manner, PARTITIONS, PRODUCERS, Subject, TOPIC, connect, read_from,
};
use crate::place::Place;
use crate::stock;
use crate::txn_load::{self, IDS, TxnLoad};
use crate::zombies::read_op;

const SOURCE: &str = include_str!("stock.py");
const PYTHON: &str = concat!(
    env!("CARGO_MANIFEST_DIR"),
    "/../../.cache/clients/python/bin/python3"
);
const GROUP: &str = "chaos-stock";
const MEMBERS: usize = 2;
const ANSWER_MAX: Duration = Duration::from_secs(20);
/// A client may have to wait for its last request to time out.
const END_MAX: Duration = Duration::from_secs(60);

/// Which of the loads run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Mix {
    Records,
    /// Both.
    Transfers,
    /// Both and more, for as long as anybody likes.
    Everything,
}

/// Records of nearly 1 MB.
const BIG: Subject = Subject {
    topic: "big",
    padding: 990_000,
};
/// Has two replicas, so that there is a node for the third.
pub(crate) const MOVED: Subject = Subject {
    topic: "moved",
    padding: 0,
};
/// A few thousand records/s in batches of one or two.
const SMALL_BATCHES: [Manner; 4] = [
    Manner {
        idempotent: true,
        in_flight: 5,
        linger: Duration::ZERO,
        burst: 2,
        ..Manner::PLAIN
    },
    Manner {
        idempotent: true,
        in_flight: 5,
        burst: 2,
        ..Manner::PLAIN
    },
    Manner {
        in_flight: 5,
        linger: Duration::from_millis(1),
        burst: 2,
        ..Manner::PLAIN
    },
    Manner {
        burst: 2,
        ..Manner::PLAIN
    },
];
const BIG_ONES: [Manner; 1] = [Manner {
    idempotent: true,
    in_flight: 5,
    linger: Duration::ZERO,
    burst: 6,
    pause: Duration::from_secs(40),
    ..Manner::PLAIN
}];
const FEW: [Manner; 2] = [
    Manner {
        idempotent: true,
        in_flight: 5,
        burst: 1,
        pause: Duration::from_millis(5),
        ..Manner::PLAIN
    },
    Manner {
        burst: 1,
        pause: Duration::from_millis(10),
        ..Manner::PLAIN
    },
];
/// Records of librdkafka under way at once, and the seconds between two bursts: so long that small batches alone fill what a node keeps in
/// memory of the newest records.
const BURST: [&str; 2] = ["60", "40"];
/// Kept of each partition: minutes of the load, so that a reader is never behind.
const RECORDS_RETAINED: &str = "16777216";
const BIG_RETAINED: &str = "50331648";
/// One for each 16 MiB, so that the number of files stays small where nothing is removed.
const SEGMENT: &str = "16777216";
/// One of so many records may be removed before the reader was shown it.
const UNSEEN_SHARE: usize = 20;

/// librdkafka, if it is installed for the client tests.
struct Stock {
    script: PathBuf,
    /// Kept with the rest of a scenario that fails.
    dir: PathBuf,
}

impl Stock {
    fn new(place: &Place) -> Result<Option<Stock>, String> {
        let asked = Command::new(PYTHON)
            .args(["-c", "import confluent_kafka"])
            .output();
        if !asked.is_ok_and(|told| told.status.success()) {
            place.miss("confluent-kafka is not installed (tests/clients/run librdkafka): no load of librdkafka");
            return Ok(None);
        }
        let script = place.dir.join("stock.py");
        std::fs::write(&script, SOURCE).map_err(|error| error.to_string())?;
        Ok(Some(Stock {
            script,
            dir: place.dir.clone(),
        }))
    }

    fn start(&self, words: &[&str]) -> Result<ClientProcess, String> {
        let log = self.dir.join(format!("stock-{}.log", words[0]));
        let log = File::options().create(true).append(true).open(log);
        let log = log.map_err(|error| error.to_string())?;
        let mut command = Command::new(PYTHON);
        command.arg(&self.script).args(words).stderr(log);
        ClientProcess::spawn(&mut command)
    }
}

pub(crate) struct Loads {
    pub(crate) records: Load,
    pub(crate) transfers: Option<TxnLoad>,
    producer: Option<ClientProcess>,
    transactor: Option<ClientProcess>,
    members: Vec<ClientProcess>,
    beside: Vec<Beside>,
    mix: Mix,
    stock: Option<Stock>,
    bootstrap: String,
}

/// A load of another topic.
struct Beside {
    subject: Subject,
    load: Load,
    stock: Option<ClientProcess>,
}

impl Loads {
    pub(crate) fn start(
        mix: Mix,
        nodes: &Nodes,
        place: &Place,
        seed: u64,
    ) -> Result<Loads, String> {
        let bootstrap = nodes.bootstrap();
        let stock = Stock::new(place)?;
        let partitions = PARTITIONS.to_string();
        let transfers = match mix {
            Mix::Records => None,
            Mix::Transfers | Mix::Everything => {
                let settings = [("segment.bytes", SEGMENT)];
                let settings = &settings[..usize::from(mix == Mix::Everything)];
                nodes.create_with(txn_load::TOPIC, COUNT as i16, settings)?;
                Some(TxnLoad::start(&bootstrap, seed, &IDS))
            }
        };
        let start = |words: &[&str]| stock.as_ref().map(|stock| stock.start(words)).transpose();
        let (records, number) = if mix == Mix::Everything {
            bound(nodes)?;
            let load = Load::of(&bootstrap, CHAOS, &SMALL_BATCHES);
            (load, SMALL_BATCHES.len().to_string())
        } else {
            (Load::start(&bootstrap), PRODUCERS.to_string())
        };
        let producer = start(&["producer", &bootstrap, TOPIC, &partitions, &number])?;
        let transactor = if mix != Mix::Records {
            let (number, seed) = ((IDS.len() + 1).to_string(), seed.to_string());
            let topic = txn_load::TOPIC;
            start(&[
                "txn",
                &bootstrap,
                topic,
                &partitions,
                &number,
                "stock",
                &seed,
            ])?
        } else {
            None
        };
        let mut members = Vec::new();
        for _ in 0..MEMBERS {
            members.extend(start(&["member", &bootstrap, TOPIC, GROUP])?);
        }
        let mut beside = Vec::new();
        if mix == Mix::Everything {
            let (padding, number) = (BIG.padding.to_string(), BIG_ONES.len().to_string());
            let [burst, pause] = BURST;
            let words: [&str; 8] = [
                "pipelined",
                &bootstrap,
                BIG.topic,
                &partitions,
                &number,
                &padding,
                burst,
                pause,
            ];
            beside.push(Beside {
                subject: BIG,
                load: Load::of(&bootstrap, BIG, &BIG_ONES),
                stock: start(&words)?,
            });
            beside.push(Beside {
                subject: MOVED,
                load: Load::of(&bootstrap, MOVED, &FEW),
                stock: None,
            });
        }
        let loads = Loads {
            records,
            transfers,
            producer,
            transactor,
            members,
            beside,
            mix,
            stock,
            bootstrap,
        };
        loads.records.wait_for_acks(500)?;
        if let Some(producer) = &loads.producer {
            producer.wait_for("acked", 100, ANSWER_MAX)?;
        }
        for member in &loads.members {
            member.wait_for("commit", 1, ANSWER_MAX)?;
        }
        if let Some(transfers) = &loads.transfers {
            transfers.wait_for_commits(10)?;
        }
        Ok(loads)
    }

    /// librdkafka's producer with any number of requests under way, where it is installed: it says its silences.
    pub(crate) fn flood(&self, topic: &str, bytes: usize) -> Result<ClientProcess, String> {
        let stock = self.stock.as_ref().ok_or("librdkafka is not installed")?;
        stock.start(&["flood", &self.bootstrap, topic, &bytes.to_string()])
    }

    /// The answers that librdkafka's producer got so far.
    pub(crate) fn stock_acks(&self) -> usize {
        self.producer
            .as_ref()
            .map_or(0, |process| process.said("acked"))
    }

    /// Of all topics.
    pub(crate) fn gauges(&self) -> Vec<Gauge> {
        let beside = self.beside.iter().map(|beside| &beside.load);
        [&self.records]
            .into_iter()
            .chain(beside)
            .map(Load::gauge)
            .collect()
    }

    /// The lines of librdkafka's producers, and their topics.
    pub(crate) fn stock_lines(&self) -> Vec<(&'static str, Arc<Mutex<Vec<String>>>)> {
        let beside = self.beside.iter();
        let beside = beside.map(|beside| (beside.subject.topic, &beside.stock));
        let lines = |(topic, stock): (&'static str, &Option<ClientProcess>)| {
            stock.as_ref().map(|stock| (topic, stock.lines()))
        };
        [(TOPIC, &self.producer)]
            .into_iter()
            .chain(beside)
            .filter_map(lines)
            .collect()
    }

    /// All is well from now on: every partition takes records again; how long until the last did.
    pub(crate) fn wait_for_writes(&self) -> Result<Duration, String> {
        let begun = Instant::now();
        let before = self.records.acked_by_partition();
        let stock = self.stock_acks();
        loop {
            let now = self.records.acked_by_partition();
            let silent: Vec<&i32> = now
                .iter()
                .filter(|(partition, acked)| **acked <= before[*partition])
                .map(|(partition, _)| partition)
                .collect();
            let is_stock_well = self.producer.is_none() || self.stock_acks() > stock;
            if silent.is_empty() && is_stock_well {
                return Ok(begun.elapsed());
            }
            if let Some(why) = self.records.failure() {
                return Err(format!("a producer stopped: {why}"));
            }
            if let Some(why) = self.transfers.as_ref().and_then(TxnLoad::failure) {
                return Err(format!("a client of transfers stopped: {why}"));
            }
            if begun.elapsed() > WRITE_AGAIN_MAX {
                return Err(format!(
                    "{} s after all is well no record was taken by partitions {silent:?}{}",
                    WRITE_AGAIN_MAX.as_secs(),
                    if is_stock_well {
                        ""
                    } else {
                        ", nor of librdkafka by any"
                    }
                ));
            }
            std::thread::sleep(Duration::from_millis(20));
        }
    }

    /// Ends the load and judges it: what was acknowledged is there, once where that was promised, in order; what was shown stays;
    /// transactions are whole; commits never go back.
    pub(crate) fn judge(self, place: &Place) -> Result<(), String> {
        let Loads {
            records,
            transfers,
            producer,
            transactor,
            members,
            beside,
            mix,
            stock: _,
            bootstrap,
        } = self;
        let told = producer.map(|process| process.finish(END_MAX)).transpose();
        let told = told.map_err(|why| format!("librdkafka's producer: {why}"))?;
        let transacted = transactor
            .map(|process| process.finish(END_MAX))
            .transpose();
        let transacted = transacted.map_err(|why| format!("librdkafka's transactions: {why}"))?;
        let mut said = Vec::new();
        for member in members {
            let lines = member.finish(END_MAX);
            said.push(lines.map_err(|why| format!("librdkafka's member: {why}"))?);
        }
        let trims = mix == Mix::Everything;
        let told = told.as_deref();
        let judged = judge_records(place, &bootstrap, CHAOS, records, told, trims)?;
        if judged == 0 {
            return Err("vacuous: no reader was shown anything".to_owned());
        }
        for Beside {
            subject,
            load,
            stock,
        } in beside
        {
            let topic = subject.topic;
            let told = stock.map(|process| process.finish(END_MAX)).transpose();
            let told = told.map_err(|why| format!("librdkafka's producer of {topic}: {why}"))?;
            judge_records(place, &bootstrap, subject, load, told.as_deref(), trims)
                .map_err(|why| format!("{topic}: {why}"))?;
        }
        if !said.is_empty() {
            judge_group(place, &said, &bootstrap)?;
        }
        if let Some(transfers) = transfers {
            judge_transfers(place, transfers, transacted)?;
        }
        stock::tell(place);
        Ok(())
    }
}

/// The oldest records of the topic that is there are removed from now on; creates the other topics.
fn bound(nodes: &Nodes) -> Result<(), String> {
    let topic = Resource::Topic(TOPIC.to_owned());
    let change = Change::Set("retention.bytes".to_owned(), RECORDS_RETAINED.to_owned());
    nodes.ask(|client| client.alter_configs(&topic, &[change], false))?;
    nodes.create_with(
        BIG.topic,
        COUNT as i16,
        &[
            ("retention.bytes", BIG_RETAINED),
            ("segment.bytes", SEGMENT),
        ],
    )?;
    // With two, a partition would take nothing while one of its nodes is away.
    nodes.create_with(MOVED.topic, 2, &[("min.insync.replicas", "1")])
}

/// Ends a load of records and judges it; how many a reader was shown. `told` by a producer of librdkafka; `trims` if the oldest records are
/// removed.
fn judge_records(
    place: &Place,
    bootstrap: &str,
    subject: Subject,
    load: Load,
    told: Option<&[String]>,
    trims: bool,
) -> Result<usize, String> {
    let (mut accounts, shown) = load.finish()?;
    if let Some(lines) = told {
        accounts.push(account(lines, subject.padding > 0)?);
    }
    let read = || -> Result<(Log, BTreeMap<i32, i64>), String> {
        let (log, starts) = read_from(bootstrap, subject)?;
        Ok((log, if trims { starts } else { BTreeMap::new() }))
    };
    // A request that was on its way when its producer was cut off and gave it up may still come: then all of it is read and judged again.
    let counts = loop {
        let there = read()?;
        let (log, starts) = &there;
        let counts = judge_from(&accounts, &shown, log, starts)?;
        if subject.padding > 0 {
            break counts;
        }
        match stock::check_log(bootstrap, subject.topic, log) {
            Ok(()) => break counts,
            Err(why) if read()? == there => return Err(why),
            Err(_) => {}
        }
    };
    let unseen = match counts.unseen {
        0 => String::new(),
        unseen => format!(", {unseen} removed before a reader was shown them"),
    };
    place.say(&format!(
        "{}: {} records acknowledged, {} there, {} repeated by plain producers, {} shown before{unseen}",
        subject.topic, counts.acked, counts.records, counts.repeated, counts.shown
    ));
    if counts.unseen * UNSEEN_SHARE > counts.records {
        return Err("vacuous: too much was removed before a reader was shown it".to_owned());
    }
    Ok(counts.shown)
}

/// The account of a producer of librdkafka: idempotent, or with any number of requests under way.
fn account(lines: &[String], reorders: bool) -> Result<Account, String> {
    let mut account = Account {
        idempotent: !reorders,
        reorders,
        ..Account::default()
    };
    let mut unordered: HashMap<u64, i64> = HashMap::new();
    for line in lines {
        let mut words = line.split(' ');
        let word = words.next().unwrap_or_default();
        let numbers: Vec<i64> = words.filter_map(|word| word.parse().ok()).collect();
        match (word, &numbers[..]) {
            ("sent", [partition, number]) => {
                let sent = account.sent.entry(*partition as i32).or_default();
                sent.push(*number as u64);
            }
            ("acked", [_, number, offset]) if reorders => {
                unordered.insert(*number as u64, *offset);
            }
            ("acked", [partition, number, offset]) => {
                let acked = account.acked.entry(*partition as i32).or_default();
                let sent = &account.sent[&(*partition as i32)];
                if sent.get(acked.len()) != Some(&(*number as u64)) {
                    return Err(format!(
                        "librdkafka tells of {number} in {partition} out of order"
                    ));
                }
                acked.push((*offset >= 0).then_some(*offset));
            }
            _ => return Err(format!("librdkafka's producer said {line:?}")),
        }
    }
    if reorders {
        for (partition, sent) in &account.sent {
            let told = |number: &u64| unordered.get(number).map(|offset| Some(*offset));
            let acked: Option<Vec<_>> = sent.iter().map(told).collect();
            let acked = acked.ok_or("librdkafka flushed, yet not everything is acknowledged")?;
            account.acked.insert(*partition, acked);
        }
    }
    Ok(account)
}

fn judge_group(place: &Place, said: &[Vec<String>], bootstrap: &str) -> Result<(), String> {
    let (commits, highest) = judge_commits(said)?;
    let committed = connect(bootstrap, ANSWER_MAX)
        .and_then(|mut client| client.committed(GROUP))
        .map_err(|error| format!("asking for the commits: {error}"))?;
    for (partition, offset) in &highest {
        let found = committed.get(&(TOPIC.to_owned(), *partition));
        if found.is_none_or(|found| found.offset < *offset) {
            return Err(format!(
                "partition {partition}: {offset} was acknowledged as committed, at last {found:?} is"
            ));
        }
    }
    place.say(&format!("{commits} commits of a group, none went back"));
    Ok(())
}

fn judge_transfers(
    place: &Place,
    transfers: TxnLoad,
    transacted: Option<Vec<String>>,
) -> Result<(), String> {
    let lines = transacted.unwrap_or_default();
    let ops = lines.iter().filter_map(|line| line.strip_prefix("op "));
    let ops: Vec<Op> = ops.map(read_op).collect::<Option<_>>().ok_or("no op")?;
    let others = ops.len();
    let (history, tally) = transfers.finish(ops)?;
    let report = check(&history);
    place.say(&format!(
        "{tally}; {others} transactions of librdkafka; {} events judged",
        report.events
    ));
    if !report.is_clean() {
        return Err(format!("the history is broken:\n{report}"));
    }
    tally.check()
}
