//! The load of a cluster scenario, and its verdict: our own producers and readers, whose every word is judged, and librdkafka's.
//!
//! *Records*: idempotent and plain producers, a reader, librdkafka's idempotent producer and two members of a group. *Transfers*:
//! transactional producers, two of which share an id, one of librdkafka, and readers of both levels.

use std::fs::File;
use std::path::PathBuf;
use std::process::Command;
use std::time::{Duration, Instant};

use sim::checker::{Op, check};

use crate::children::ClientProcess;
use crate::cluster::nodes::{Nodes, WRITE_AGAIN_MAX};
use crate::groups::judge_commits;
use crate::ledger::{Account, judge};
use crate::load::{Load, PARTITIONS, PRODUCERS, TOPIC, connect, read_all};
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
}

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
    bootstrap: String,
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
            Mix::Transfers => {
                nodes.create(txn_load::TOPIC)?;
                Some(TxnLoad::start(&bootstrap, seed, &IDS))
            }
        };
        let start = |words: &[&str]| stock.as_ref().map(|stock| stock.start(words)).transpose();
        let number = PRODUCERS.to_string();
        let producer = start(&["producer", &bootstrap, TOPIC, &partitions, &number])?;
        let transactor = if mix == Mix::Transfers {
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
        let loads = Loads {
            records: Load::start(&bootstrap),
            transfers,
            producer,
            transactor,
            members,
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

    /// The answers that librdkafka's producer got so far.
    pub(crate) fn stock_acks(&self) -> usize {
        self.producer
            .as_ref()
            .map_or(0, |process| process.said("acked"))
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
        let (mut accounts, shown) = records.finish()?;
        if let Some(lines) = &told {
            accounts.push(account(lines)?);
        }
        // A request that was on its way when its producer was cut off and gave it up may still come: then all of it is read and judged again.
        let counts = loop {
            let log = read_all(&bootstrap)?;
            let counts = judge(&accounts, &shown, &log)?;
            match stock::check_log(&bootstrap, TOPIC, &log) {
                Ok(()) => break counts,
                Err(why) if read_all(&bootstrap)? == log => return Err(why),
                Err(_) => {}
            }
        };
        place.say(&format!(
            "{} records acknowledged, {} there, {} repeated by plain producers, {} shown before",
            counts.acked, counts.records, counts.repeated, counts.shown
        ));
        if counts.shown == 0 {
            return Err("vacuous: no reader was shown anything".to_owned());
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

/// The account of librdkafka's producer.
fn account(lines: &[String]) -> Result<Account, String> {
    let mut account = Account {
        idempotent: true,
        ..Account::default()
    };
    for line in lines {
        let mut words = line.split(' ');
        let word = words.next().unwrap_or_default();
        let numbers: Vec<i64> = words.filter_map(|word| word.parse().ok()).collect();
        match (word, &numbers[..]) {
            ("sent", [partition, number]) => {
                let sent = account.sent.entry(*partition as i32).or_default();
                sent.push(*number as u64);
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
