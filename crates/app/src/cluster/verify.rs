//! `esker cluster verify`: every broker shows its replica of each partition, and they are held against each other.
//!
//! Compared is what was committed when it began, from the highest log start on. What cannot be compared is a failure as well: nobody knows
//! that it is the same.

mod comparison;

use std::collections::BTreeMap;
use std::time::Duration;

use clap::Args;
use client::{Client, Isolation, OffsetSpec, Partition, ReplicaEnds, ReplicaReader, Topic};
use model::Instant;
use serde_json::{Value, json};
use wire::ErrorCode;

use crate::failure::Failure;
use crate::table::{Table, bytes};
use comparison::{Comparison, Difference, Mode};

/// Bytes of a replica that are asked for at once. So much of each is in memory.
const FETCH_BYTES: i32 = 4 << 20;
/// Work that takes longer says so often how far it came.
const REPORT_EVERY: Duration = Duration::from_secs(5);

#[derive(Args, Debug)]
pub(crate) struct VerifyArgs {
    pub(crate) topic: String,
    /// Only these partitions
    #[arg(short, long, value_name = "LIST", value_delimiter = ',', allow_negative_numbers = true, value_parser = crate::arguments::partition)]
    pub(crate) partition: Vec<i32>,
}

pub(super) fn verify(client: &mut Client, args: &VerifyArgs, json: bool) -> Result<(), Failure> {
    let topic = client.topic(&args.topic)?;
    let indexes = crate::consume::chosen(&topic, &args.partition)?;
    let settings = client.describe_configs(&client::Resource::Topic(topic.name.clone()))?;
    let policy = settings.iter().find(|it| it.name == "cleanup.policy");
    let is_compacted = policy
        .and_then(|it| it.value.as_deref())
        .is_some_and(|policy| policy.contains("compact"));
    let mode = if is_compacted {
        Mode::Records
    } else {
        Mode::Batches
    };
    let mut table = Table::new(&["partition", "replicas", "from", "to", "bytes", "result"]);
    let mut failures = Vec::new();
    let mut walk = Walk {
        mode,
        readers: BTreeMap::new(),
        reported_at: client.env().clock.now(),
        client,
        topic: &topic,
    };
    let known = topic.partitions.iter();
    for partition in known.filter(|it| indexes.contains(&it.index)) {
        let verdict = walk.partition(partition);
        table.row([
            json!(partition.index),
            json!(verdict.replicas),
            json!(verdict.range.map(|(from, _)| from)),
            json!(verdict.range.map(|(_, to)| to)),
            json!(verdict.bytes),
            json!(verdict.result),
        ]);
        failures.extend(verdict.failures);
    }
    table.print(json)?;
    Failure::all(failures)
}

/// The outcome for one partition.
#[derive(Default)]
struct Verdict {
    /// Those that were compared.
    replicas: Vec<i32>,
    range: Option<(i64, i64)>,
    bytes: u64,
    result: Value,
    failures: Vec<Failure>,
}

impl Verdict {
    fn fails(&mut self, what: String, todo: &str) {
        self.failures.push(Failure::new(what).hint(todo));
    }

    /// Nothing was compared.
    fn none(mut self, what: String, todo: &str) -> Verdict {
        self.fails(what, todo);
        self.result = json!("not compared");
        self
    }
}

/// The way through the partitions of a topic.
struct Walk<'a> {
    client: &'a mut Client,
    topic: &'a Topic,
    mode: Mode,
    readers: BTreeMap<i32, ReplicaReader>,
    reported_at: Instant,
}

/// A replica that knows less to be committed than its leader is asked again after this pause, for 2 s in all.
const LEARNING_PAUSE: Duration = Duration::from_millis(100);
const LEARNING_TRIES: u32 = 20;

const SEE_STATUS: &str = "`esker cluster status` says what is wrong and what to do";
const CATCHES_UP: &str = "verify again once `esker topic describe` shows no lag";

impl Walk<'_> {
    fn partition(&mut self, partition: &Partition) -> Verdict {
        let name = format!("{}-{}", self.topic.name, partition.index);
        let mut verdict = Verdict::default();
        let Some(leader) = partition.leader else {
            return verdict.none(
                format!("{name} has no leader: nobody knows what is committed"),
                SEE_STATUS,
            );
        };
        let asked = [(partition.index, OffsetSpec::End)];
        let isolation = Isolation::ReadUncommitted;
        let found = self.client.resolve(&self.topic.name, &asked, isolation);
        let committed = match found.map(|found| found.get(&partition.index).copied()) {
            Ok(Some(committed)) => committed,
            Ok(None) => return verdict.none(format!("{name} has no end"), SEE_STATUS),
            Err(error) => return verdict.none(format!("{name}: {error}"), SEE_STATUS),
        };
        // The leader first: the others are held against it.
        let mut brokers = partition.replicas.clone();
        brokers.sort_by_key(|broker| (*broker != leader, *broker));
        let (mut ends, mut start) = (Vec::new(), 0);
        for broker in brokers {
            match self.ends(broker, partition.index, committed) {
                Ok(told) => {
                    if told.log_end < committed {
                        verdict.fails(
                            format!(
                                "replica {broker} of {name} ends at {}, and {committed} is committed: the rest is not compared",
                                told.log_end
                            ),
                            CATCHES_UP,
                        );
                    }
                    start = start.max(told.log_start);
                    ends.push((broker, told.log_end.min(committed)));
                }
                Err(why) => verdict.fails(
                    format!("replica {broker} of {name} is not compared: {why}"),
                    SEE_STATUS,
                ),
            }
        }
        verdict.replicas = ends.iter().map(|(broker, _)| *broker).collect();
        verdict.range = Some((start, committed.max(start)));
        let mut comparison = Comparison::new(self.mode, start, &ends);
        let outcome = self.compare(&mut comparison, partition.index, (&mut verdict, committed));
        verdict.bytes = comparison.bytes();
        verdict.result = match outcome {
            Err(Difference {
                offset,
                broker,
                what,
            }) => {
                let what = format!(
                    "replica {broker} of {name} differs at offset {offset} from that of broker {leader}: it {what}"
                );
                verdict.fails(
                    what,
                    "keep both directories: `esker inspect` looks into their files, and says which is damaged",
                );
                json!(format!("differs at {offset}"))
            }
            Ok(()) if verdict.replicas.len() < 2 => json!("not compared"),
            Ok(()) if !verdict.failures.is_empty() => json!("same as far as compared"),
            Ok(()) => json!("same"),
        };
        if partition.replicas.len() < 2 {
            verdict.result = json!("one replica");
        }
        verdict
    }

    /// The ends of a replica, which shows no more than it knows to be committed: a follower learns of that a moment after its leader.
    fn ends(&mut self, broker: i32, index: i32, committed: i64) -> Result<ReplicaEnds, String> {
        let mut tries = 0..LEARNING_TRIES;
        loop {
            let told = self
                .client
                .replica_ends(broker, &self.topic.name, &[index])
                .map_err(|error| error.to_string())?;
            let told = told.get(&index).copied();
            let is_behind = told.is_none_or(|told| told.log_end < committed);
            if !is_behind || tries.next().is_none() {
                return told.ok_or_else(|| format!("broker {broker} does not say where it ends"));
            }
            let env = self.client.env();
            let until = env.clock.now().plus(LEARNING_PAUSE);
            env.threads.bell().wait(Some(until));
        }
    }

    fn compare(
        &mut self,
        comparison: &mut Comparison,
        index: i32,
        (verdict, committed): (&mut Verdict, i64),
    ) -> Result<(), Difference> {
        loop {
            comparison.advance()?;
            let wants = comparison.wants();
            if wants.is_empty() {
                return Ok(());
            }
            self.report(index, comparison, committed);
            // All of them are asked before one is waited for.
            let asked: Vec<_> = wants
                .into_iter()
                .map(|(broker, from)| (broker, from, self.ask(broker, index, from)))
                .collect();
            for (broker, from, asked) in asked {
                match asked.and_then(|()| self.take(broker)) {
                    Ok(bytes) => comparison.put(broker, &bytes)?,
                    Err(error) => {
                        self.recover((broker, index, from), error, comparison, verdict)?
                    }
                }
            }
        }
    }

    fn ask(&mut self, broker: i32, index: i32, from: i64) -> Result<(), client::Error> {
        if !self.readers.contains_key(&broker) {
            let reader = self.client.open_replicas(broker)?;
            self.readers.insert(broker, reader);
        }
        let reader = self.readers.get_mut(&broker).expect("inserted above");
        reader.ask(self.topic, index, from, FETCH_BYTES)
    }

    fn take(&mut self, broker: i32) -> Result<bytes::Bytes, client::Error> {
        let reader = self.readers.get_mut(&broker).expect("it was asked");
        reader.take()
    }

    /// Retention may have removed what was asked for; a replica that cannot be read is a difference, and one that cannot be asked is left
    /// out.
    fn recover(
        &mut self,
        (broker, index, from): (i32, i32, i64),
        error: client::Error,
        comparison: &mut Comparison,
        verdict: &mut Verdict,
    ) -> Result<(), Difference> {
        let differs = |what: String| Difference {
            offset: from,
            broker,
            what,
        };
        match error.code() {
            Some(ErrorCode::OffsetOutOfRange) => match self.ends(broker, index, 0) {
                Ok(told) if from < told.log_start => {
                    comparison.skip_to(told.log_start);
                    return Ok(());
                }
                Ok(told) => return Err(differs(format!("ends at {}", told.log_end))),
                Err(_) => {}
            },
            Some(ErrorCode::CorruptMessage) => {
                return Err(differs(format!("cannot be read: {error}")));
            }
            // The broker reads its disk anew for this, and has damage repaired from another replica.
            Some(ErrorCode::KafkaStorageError) => {
                return Err(differs(format!(
                    "cannot be read, or is under repair, verify again: {error}"
                )));
            }
            _ => {}
        }
        self.readers.remove(&broker);
        comparison.leave_out(broker);
        let name = format!("{}-{index}", self.topic.name);
        verdict.fails(
            format!("replica {broker} of {name} is compared up to {from} only: {error}"),
            SEE_STATUS,
        );
        Ok(())
    }

    fn report(&mut self, index: i32, comparison: &Comparison, committed: i64) {
        let now = self.client.env().clock.now();
        if now.since(self.reported_at) < REPORT_EVERY {
            return;
        }
        self.reported_at = now;
        env::tell!(
            "{}-{index}: offset {} of {committed}, {} of each replica",
            self.topic.name,
            comparison.at(),
            bytes(comparison.bytes())
        );
    }
}
