//! Doing one case and measuring it.
//!
//! Every producer, consumer or connection is a thread with a client of its own, as separate processes would be. Clocks start when all
//! of them are connected and stop when the last one is done.

use std::ops::ControlFlow;
use std::sync::Barrier;
use std::time::Duration;

use client::{
    Connection, Consumer, ConsumerOptions, Isolation, OffsetSpec, Producer, ProducerOptions, Record,
};
use env::Env;
use model::{Instant, Timestamp};
use wire::Records;
use wire::messages::ProduceRequest;
use wire::messages::produce_request::{PartitionProduceData, TopicProduceData};
use wire::records::{BatchBuilder, Codec};

use super::arguments::BenchArgs;
use super::case::{Batching, Case, Job, Watch};
use super::histogram::Histogram;
use super::overhead::{Overhead, Traffic};
use super::report::Row;
use super::series::Tally;
use crate::arguments::Global;
use crate::connect::connect;
use crate::failure::Failure;
use crate::produce::Acks;

/// Unmeasured seconds before a case that runs by time.
const WARM_UP: Duration = Duration::from_secs(1);
/// A producer that runs by time looks at the clock once in so many records.
const CLOCK_RECORDS: u64 = 64;
/// Unmeasured records before a case that takes them one at a time.
const WARM_UP_RECORDS: u64 = 200;

pub(super) struct Bench<'a> {
    pub(super) env: &'a Env,
    pub(super) global: &'a Global,
    pub(super) args: &'a BenchArgs,
    pub(super) case: &'a Case,
}

/// The result of one thread.
pub(super) struct Done {
    pub(super) records: u64,
    pub(super) began: Instant,
    pub(super) ended: Instant,
    pub(super) latency: Histogram,
    /// Where the case is about the course of the rate.
    pub(super) tally: Option<Tally>,
}

impl Bench<'_> {
    pub(super) fn measure(&self, run: u32) -> Result<Row, Failure> {
        if let Job::Produce {
            watch: Watch::Overhead,
            ..
        } = self.case.job
        {
            let traffic = Traffic::default();
            let counted = Bench {
                env: &traffic.over(self.env),
                ..*self
            };
            let mut row = counted.measure_rate(run)?;
            row.overhead_per_record = Some(self.overhead(&traffic, row.records)?);
            return Ok(row);
        }
        self.measure_rate(run)
    }

    fn measure_rate(&self, run: u32) -> Result<Row, Failure> {
        let cpu = cpu_seconds(self.env);
        let done = match self.case.job {
            Job::Produce {
                producers,
                batch,
                watch,
            } => self.together(producers as usize, |_, start| {
                self.produce(batch, watch, start)
            })?,
            Job::Consume {
                consumers,
                fetch_bytes,
            } => self.together(consumers as usize, |_, start| {
                self.consume(fetch_bytes, start)
            })?,
            Job::ProduceAndConsume { batch } => self.together(2, |i, start| match i {
                0 => self.produce(batch, Watch::Rate, start),
                _ => self.consume(None, start),
            })?,
            Job::EndToEnd => vec![self.end_to_end()?],
            Job::FetchInTurn => vec![self.fetch_in_turn()?],
            Job::Fetch { bytes } => vec![self.fetch_again(bytes)?],
            Job::ReadFiles { piece } => vec![self.read_files(piece)?],
            Job::Append {
                connections,
                appenders,
            } => {
                let share = |i: usize| {
                    appenders / connections + u32::from((i as u32) < appenders % connections)
                };
                self.together(connections as usize, |i, start| {
                    self.append(share(i), i as i32 % self.case.partitions, start)
                })?
            }
        };
        let cpu = cpu_seconds(self.env)
            .zip(cpu)
            .map(|(after, before)| after - before);
        Ok(self.row(run, &done, cpu))
    }

    fn row(&self, run: u32, done: &[Done], cpu: Option<f64>) -> Row {
        let began = done.iter().map(|done| done.began).min().unwrap_or_default();
        let ended = done.iter().map(|done| done.ended).max().unwrap_or_default();
        let seconds = ended.since(began).as_secs_f64().max(1e-9);
        // A producer and its consumer move the same records: they count once, as the source counts them.
        let counted = if matches!(self.case.job, Job::ProduceAndConsume { .. }) {
            &done[..1]
        } else {
            done
        };
        let records: u64 = counted.iter().map(|done| done.records).sum();
        let mut latency = Histogram::new();
        for done in done {
            latency.merge(&done.latency);
        }
        let tally = done.iter().find_map(|done| done.tally.as_ref());
        Row {
            case: self.case.label.clone(),
            curve: self.case.curve.clone(),
            x: self.case.x,
            run,
            partitions: self.case.partitions,
            replication_factor: self.case.replication_factor,
            acks: match self.case.acks {
                Acks::All => -1,
                Acks::One => 1,
                Acks::Zero => 0,
            },
            records,
            seconds,
            records_per_second: records as f64 / seconds,
            mib_per_second: records as f64 * self.case.size as f64 / seconds / (1 << 20) as f64,
            client_cores: cpu.map(|cpu| cpu / seconds),
            latency_ms: latency.percentiles(),
            latency_buckets_ms: latency.buckets(),
            series: tally.map(|tally| tally.series(self.case.size)),
            overhead_per_record: None,
            latency,
        }
    }

    /// Of the records that are in the topic now.
    fn overhead(&self, traffic: &Traffic, records: u64) -> Result<Overhead, Failure> {
        let dirs = connect(self.env, self.global)?.describe_log_dirs()?;
        let stored = dirs.iter().flat_map(|dir| &dir.stored);
        let of_topic = stored.filter(|stored| stored.topic == self.args.topic);
        let log_bytes: i64 = of_topic.map(|stored| stored.bytes.max(0)).sum();
        let copies = i64::from(self.case.replication_factor.max(1));
        Ok(traffic.overhead((log_bytes / copies) as u64, records, self.case.size))
    }

    /// Unmeasured time of a case that runs by time; no longer than what is measured.
    pub(super) fn warm_up(&self) -> Duration {
        WARM_UP.min(self.case.time)
    }

    // Threads of the load, not of the broker: the environment's workers take turns, which would bend what is measured.
    #[allow(clippy::disallowed_methods)]
    fn together(
        &self,
        count: usize,
        work: impl Fn(usize, &Barrier) -> Result<Done, Failure> + Sync,
    ) -> Result<Vec<Done>, Failure> {
        let start = Barrier::new(count);
        std::thread::scope(|scope| {
            let (work, start) = (&work, &start);
            let threads: Vec<_> = (0..count)
                .map(|i| scope.spawn(move || work(i, start)))
                .collect();
            threads
                .into_iter()
                .map(|thread| thread.join().expect("a load thread does not panic"))
                .collect()
        })
    }

    fn producer(&self, batch_bytes: usize) -> Result<Producer, Failure> {
        let options = ProducerOptions {
            acks: self.case.acks.into(),
            compression: Codec::from(self.args.codec).into(),
            idempotent: self.case.acks == Acks::All,
            batch_bytes,
            report: true,
            ..ProducerOptions::default()
        };
        Ok(Producer::new(connect(self.env, self.global)?, options))
    }

    /// Writes what reading cases read, in large batches.
    pub(super) fn load(&self) -> Result<(), Failure> {
        let mut producer = self.producer(512 << 10)?;
        let topic = producer.topic(&self.args.topic)?;
        let values = Values::new(self.env, self.case.size);
        for i in 0..self.case.records {
            producer.send(
                topic,
                None,
                &Record {
                    value: Some(values.get(i)),
                    ..Record::default()
                },
            )?;
            producer.take_deliveries();
        }
        Ok(producer.flush()?)
    }

    fn produce(&self, batch: Batching, watch: Watch, start: &Barrier) -> Result<Done, Failure> {
        let (batch_bytes, every) = match batch {
            Batching::Bytes(bytes) => (bytes, None),
            Batching::Records(records) => (1 << 20, Some(records)),
        };
        let connected = self.producer(batch_bytes).and_then(|mut producer| {
            let topic = producer.topic(&self.args.topic)?;
            Ok((producer, topic))
        });
        start.wait();
        let (mut producer, topic) = connected?;
        let values = Values::new(self.env, self.case.size);
        let mut latency = Histogram::new();
        let mut tally = match watch {
            Watch::Seconds => Some(Tally::by_time(self.case.time)),
            Watch::Stored => Some(Tally::by_records(self.case.records)),
            Watch::Rate | Watch::Overhead => None,
        };
        let began = self.env.clock.now();
        let end = (watch == Watch::Seconds).then(|| began.plus(self.case.time));
        let mut note = |producer: &mut Producer| {
            let mut acknowledged = 0;
            for delivery in producer.take_deliveries() {
                latency.add(delivery.latency, delivery.records as u64);
                acknowledged += delivery.records as u64;
            }
            if let Some(tally) = tally.as_mut().filter(|_| acknowledged > 0) {
                tally.add(self.env.clock.now().since(began), acknowledged);
            }
        };
        let mut records = 0;
        while records < self.case.records {
            producer.send(
                topic,
                None,
                &Record {
                    value: Some(values.get(records)),
                    ..Record::default()
                },
            )?;
            records += 1;
            if every.is_some_and(|every| records % every == 0) {
                producer.dispatch()?;
            }
            note(&mut producer);
            let is_due = |end| records % CLOCK_RECORDS == 0 && end <= self.env.clock.now();
            if end.is_some_and(is_due) {
                break;
            }
        }
        producer.flush()?;
        note(&mut producer);
        Ok(Done {
            records,
            began,
            ended: self.env.clock.now(),
            latency,
            tally,
        })
    }

    fn consumer(
        &self,
        place: OffsetSpec,
        wait: Duration,
        fetch_bytes: Option<usize>,
    ) -> Result<Consumer, Failure> {
        let mut client = connect(self.env, self.global)?;
        let places: Vec<(i32, OffsetSpec)> = (0..self.case.partitions)
            .map(|index| (index, place))
            .collect();
        let starts = client.resolve(&self.args.topic, &places, Isolation::ReadUncommitted)?;
        let usual = ConsumerOptions::default();
        let bytes = fetch_bytes.map(|bytes| bytes as i32);
        let options = ConsumerOptions {
            isolation: Isolation::ReadUncommitted,
            wait,
            bytes_max: bytes.unwrap_or(usual.bytes_max),
            partition_bytes_max: bytes.unwrap_or(usual.partition_bytes_max),
            ..usual
        };
        let mut consumer = Consumer::new(client, options);
        for (index, start) in starts {
            consumer.assign(&self.args.topic, index, start)?;
        }
        Ok(consumer)
    }

    /// Reads as many records as the topic holds, or will hold, from the beginning.
    fn consume(&self, fetch_bytes: Option<usize>, start: &Barrier) -> Result<Done, Failure> {
        let connected = self.consumer(
            OffsetSpec::Beginning,
            Duration::from_millis(500),
            fetch_bytes,
        );
        start.wait();
        let mut consumer = connected?;
        let began = self.env.clock.now();
        let (mut records, mut bytes) = (0, 0);
        while records < self.case.records {
            for fetched in consumer.poll()? {
                let _: ControlFlow<()> = fetched.each(|record| {
                    records += 1;
                    bytes += record.value.map_or(0, <[u8]>::len);
                    ControlFlow::Continue(())
                })?;
            }
        }
        if bytes as u64 != records * self.case.size as u64 {
            return Err(Failure::new(format!(
                "read {bytes} bytes of values in {records} records: the topic has other writers"
            )));
        }
        Ok(Done {
            records,
            began,
            ended: self.env.clock.now(),
            latency: Histogram::new(),
            tally: None,
        })
    }

    /// One record is written, acknowledged and read before the next one is; the latency is from the call to the record in hand.
    fn end_to_end(&self) -> Result<Done, Failure> {
        let mut consumer = self.consumer(OffsetSpec::End, Duration::from_secs(5), None)?;
        let mut producer = self.producer(1 << 20)?;
        let topic = producer.topic(&self.args.topic)?;
        let values = Values::new(self.env, self.case.size);
        let mut latency = Histogram::new();
        let mut began = self.env.clock.now();
        for i in 0..self.case.records + WARM_UP_RECORDS {
            if i == WARM_UP_RECORDS {
                began = self.env.clock.now();
            }
            let sent = self.env.clock.now();
            producer.send(
                topic,
                Some(0),
                &Record {
                    value: Some(values.get(i)),
                    ..Record::default()
                },
            )?;
            producer.flush()?;
            producer.take_deliveries();
            let mut seen = 0;
            while seen == 0 {
                for fetched in consumer.poll()? {
                    let _: ControlFlow<()> =
                        fetched.each(|_| (seen += 1, ControlFlow::Continue(())).1)?;
                }
            }
            if seen > 1 {
                return Err(Failure::new(format!(
                    "{seen} records arrived for one: the topic has other writers"
                )));
            }
            if i >= WARM_UP_RECORDS {
                latency.add(self.env.clock.now().since(sent), 1);
            }
        }
        Ok(Done {
            records: self.case.records,
            began,
            ended: self.env.clock.now(),
            latency,
            tally: None,
        })
    }

    /// One connection with `appenders` behind it and one request under way: whoever waits while it is busy shares the next one.
    fn append(&self, appenders: u32, partition: i32, start: &Barrier) -> Result<Done, Failure> {
        let connected = self.appender(partition);
        start.wait();
        let (mut connection, name, id) = connected?;
        let limit = if id.is_zero() { 12 } else { i16::MAX };
        let values = Values::new(self.env, self.case.size);
        let mut latency = Histogram::new();
        let (mut records, mut number) = (0, 0);
        let warm = self.env.clock.now().plus(self.warm_up());
        let end = warm.plus(self.case.time);
        loop {
            let sent = self.env.clock.now();
            if sent >= end {
                return Ok(Done {
                    records,
                    began: warm,
                    ended: end,
                    latency,
                    tally: None,
                });
            }
            let mut batch = BatchBuilder::new().compression(Codec::from(self.args.codec));
            for _ in 0..appenders {
                batch.push(
                    Timestamp(1_700_000_000_000),
                    None,
                    Some(values.get(number)),
                    &[],
                );
                number += 1;
            }
            let batch = Some(Records::Bytes(batch.build().to_bytes()));
            let partition_data = vec![PartitionProduceData {
                index: partition,
                records: batch,
            }];
            let acks = if self.case.acks == Acks::All { -1 } else { 1 };
            let topic_data = vec![TopicProduceData {
                name: name.clone(),
                topic_id: id,
                partition_data,
            }];
            let request = ProduceRequest {
                transactional_id: None,
                acks,
                timeout_ms: 30_000,
                topic_data,
            };
            connection.send_up_to(&request, limit)?;
            let response = connection.receive_as::<ProduceRequest>()?;
            let answer = response
                .responses
                .first()
                .and_then(|topic| topic.partition_responses.first());
            let code = answer.map_or(-1, |answer| answer.error_code);
            client::Error::check(code, || "appending".to_owned(), None)?;
            let now = self.env.clock.now();
            if warm <= now && now < end {
                records += u64::from(appenders);
                latency.add(now.since(sent.max(warm)), u64::from(appenders));
            }
        }
    }

    fn appender(&self, partition: i32) -> Result<(Connection, String, wire::Uuid), Failure> {
        let mut client = connect(self.env, self.global)?;
        let topic = client.topic(&self.args.topic)?;
        Ok((
            client.open_broker(topic.leader(partition)?)?,
            topic.name,
            topic.id,
        ))
    }
}

/// Values of one size that differ: 64 different ones, of bytes that do not compress.
struct Values {
    bytes: Vec<u8>,
    size: usize,
}

const VALUES: usize = 64;

impl Values {
    fn new(env: &Env, size: usize) -> Values {
        // Windows into one run of random bytes, one byte apart.
        let mut bytes = vec![0; size + VALUES];
        env.rng.fill(&mut bytes);
        Values { bytes, size }
    }

    fn get(&self, number: u64) -> &[u8] {
        let at = (number % VALUES as u64) as usize;
        &self.bytes[at..at + self.size]
    }
}

/// Processor time of this process so far; `None` where it is not told.
fn cpu_seconds(env: &Env) -> Option<f64> {
    /// Ticks per second of that file on every Linux in use.
    const TICKS: f64 = 100.0;
    let file = env
        .disk
        .open(
            std::path::Path::new("/proc/self/stat"),
            env::disk::Open::Read,
        )
        .ok()?;
    let mut bytes = [0; 1024];
    let n = file.read_at(&mut bytes, 0).ok()?;
    let text = std::str::from_utf8(bytes.get(..n)?).ok()?;
    // The name in parentheses may hold spaces; user and system time are the 12th and 13th field behind it.
    let mut fields = text.rsplit_once(')')?.1.split_whitespace().skip(11);
    let user: f64 = fields.next()?.parse().ok()?;
    let system: f64 = fields.next()?.parse().ok()?;
    Some((user + system) / TICKS)
}
