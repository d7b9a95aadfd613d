//! Reading cases without the consumer: bare fetches of one partition, and the segments as plain files.
//!
//! A fetch here is one request and one answer on a connection of its own, so its time is the broker's and the socket's.

use std::path::{Path, PathBuf};
use std::time::Duration;

use client::Connection;
use env::Env;
use env::disk::Open;
use model::Instant;
use wire::messages::FetchRequest;
use wire::messages::fetch_request::{FetchPartition, FetchTopic};
use wire::records::{Batch, Caps, RecordIter, Source};
use wire::{Records, Uuid};

use super::histogram::Histogram;
use super::work::{Bench, Done};
use crate::connect::connect;
use crate::failure::Failure;

/// Last version that names topics; later ones need their ids.
const NAMED_VERSION_MAX: i16 = 12;
/// Of a fetch whose answers are decoded before the next one: the consumer's own bound of a partition.
const TURN_BYTES: usize = 4 << 20;

struct Fetcher {
    connection: Connection,
    topic: String,
    id: Uuid,
    bytes_max: i32,
}

impl Fetcher {
    /// The batches of partition 0 from `offset` on, at most as much as one answer may bring, and at least one batch.
    fn fetch(&mut self, offset: i64) -> Result<bytes::Bytes, Failure> {
        let partition = FetchPartition {
            fetch_offset: offset,
            partition_max_bytes: self.bytes_max,
            ..FetchPartition::default()
        };
        let request = FetchRequest {
            replica_id: -1,
            max_wait_ms: 500,
            min_bytes: 1,
            max_bytes: self.bytes_max,
            session_epoch: -1,
            topics: vec![FetchTopic {
                topic: self.topic.clone(),
                topic_id: self.id,
                partitions: vec![partition],
            }],
            ..FetchRequest::default()
        };
        let limit = if self.id.is_zero() {
            NAMED_VERSION_MAX
        } else {
            i16::MAX
        };
        self.connection.send_up_to(&request, limit)?;
        let response = self.connection.receive_as::<FetchRequest>()?;
        let what = || "fetching".to_owned();
        client::Error::check(response.error_code, what, None)?;
        let topic = response.responses.into_iter().next();
        let data = topic.and_then(|topic| topic.partitions.into_iter().next());
        let data =
            data.ok_or_else(|| Failure::new("an answer to a fetch without the partition"))?;
        client::Error::check(data.error_code, what, None)?;
        match data.records {
            Some(Records::Bytes(bytes)) => Ok(bytes),
            _ => Ok(bytes::Bytes::new()),
        }
    }
}

/// Records and end of the whole batches in an answer.
fn counted(answer: &[u8]) -> Option<(u64, i64)> {
    let (mut rest, mut records, mut end) = (answer, 0, None);
    while let Some(head) = wire::records::Head::read(rest) {
        let Some((_, after)) = rest.split_at_checked(head.size()) else {
            break;
        };
        head.check_shape().ok()?;
        records += head.record_count().max(0) as u64;
        end = Some(head.next_offset().0);
        rest = after;
    }
    end.map(|end| (records, end))
}

impl Bench<'_> {
    fn fetcher(&self, bytes: usize) -> Result<Fetcher, Failure> {
        let mut client = connect(self.env, self.global)?;
        let topic = client.topic(&self.args.topic)?;
        Ok(Fetcher {
            connection: client.open_broker(topic.leader(0)?)?,
            topic: topic.name,
            id: topic.id,
            bytes_max: bytes as i32,
        })
    }

    /// Once through the partition; each answer is decoded before the next is asked for.
    pub(super) fn fetch_in_turn(&self) -> Result<Done, Failure> {
        let mut fetcher = self.fetcher(TURN_BYTES)?;
        let mut latency = Histogram::new();
        let began = self.env.clock.now();
        let (mut records, mut offset) = (0, 0);
        while records < self.case.records {
            let asked = self.env.clock.now();
            let answer = fetcher.fetch(offset)?;
            latency.add(self.env.clock.now().since(asked), 1);
            let Some((_, end)) = counted(&answer) else {
                return Err(self.ran_dry(records));
            };
            for batch in Batch::cut(&answer, Source::Log).map_while(Result::ok) {
                records += walked(&batch).map_err(Failure::damage)?;
            }
            offset = end;
        }
        Ok(Done {
            records,
            latency,
            ..Done::between(began, self.env.clock.now())
        })
    }

    /// Answers of `bytes`, again and again from the beginning, until the time is over. Only heads are looked at.
    pub(super) fn fetch_again(&self, bytes: usize) -> Result<Done, Failure> {
        let mut fetcher = self.fetcher(bytes)?;
        let mut latency = Histogram::new();
        let warm = self.env.clock.now().plus(self.warm_up());
        let end = warm.plus(self.case.time);
        let (mut records, mut offset, mut seen) = (0, 0, 0);
        loop {
            let asked = self.env.clock.now();
            if asked >= end {
                break;
            }
            let answer = fetcher.fetch(offset)?;
            let took = self.env.clock.now().since(asked);
            let Some((count, next)) = counted(&answer) else {
                return Err(self.ran_dry(records));
            };
            if asked >= warm {
                records += count;
                latency.add(took, 1);
            }
            // The last answer of a round may be a short one: the next round begins before it.
            seen += count;
            (offset, seen) = if seen + count > self.case.records {
                (0, 0)
            } else {
                (next, seen)
            };
        }
        Ok(Done {
            records,
            latency,
            ..Done::between(warm, end)
        })
    }

    fn ran_dry(&self, records: u64) -> Failure {
        Failure::new(format!(
            "the partition ended after {records} of {} records",
            self.case.records
        ))
    }

    /// The segments of the topic's partitions, one after the other, as `cat` reads them. What the broker has only in its journal
    /// yet is not there.
    pub(super) fn read_files(&self, piece: usize) -> Result<Done, Failure> {
        let dir = self.args.cold.as_deref().unwrap_or(Path::new("."));
        let unreadable = |error| {
            Failure::new(format!(
                "cannot read the segments of {}: {error}",
                dir.display()
            ))
        };
        let segments = segments(self.env, dir, &self.args.topic).map_err(unreadable)?;
        let mut buf = vec![0; piece];
        let mut latency = Histogram::new();
        let began = self.env.clock.now();
        let mut bytes = 0;
        for (path, len) in segments {
            let file = self.env.disk.open(&path, Open::Read).map_err(unreadable)?;
            let mut at = 0;
            while at < len {
                let asked = self.env.clock.now();
                let n = file.read_at(&mut buf, at).map_err(unreadable)?;
                latency.add(self.env.clock.now().since(asked), 1);
                if n == 0 {
                    break;
                }
                at += n as u64;
            }
            bytes += at;
        }
        if bytes == 0 {
            let (dir, topic) = (dir.display(), &self.args.topic);
            return Err(Failure::new(format!("no segments of {topic} below {dir}"))
                .hint("--cold names the data directory of the broker that is measured"));
        }
        Ok(Done {
            // Files know no records: as many as have that many bytes of values, so that the rates can be compared.
            records: bytes / self.case.size as u64,
            latency,
            ..Done::between(began, self.env.clock.now())
        })
    }
}

fn walked(batch: &Batch) -> Result<u64, String> {
    let plain = batch
        .plain(Caps::default())
        .map_err(|fault| fault.to_string())?;
    let mut records = 0;
    for record in RecordIter::new(&plain, batch.record_count()) {
        record.map_err(|fault| fault.to_string())?;
        records += 1;
    }
    Ok(records)
}

/// The segments of a topic below a data directory, with their lengths.
pub(super) fn segments(env: &Env, dir: &Path, topic: &str) -> std::io::Result<Vec<(PathBuf, u64)>> {
    let of_topic = |name: &str| name.rsplit_once('-').is_some_and(|(name, _)| name == topic);
    let mut found = Vec::new();
    for partition in env.disk.read_dir(dir)? {
        if !partition.is_dir || !of_topic(&partition.name) {
            continue;
        }
        let path = dir.join(&partition.name);
        for segment in env.disk.read_dir(&path)? {
            if segment.name.ends_with(".log") {
                found.push((path.join(&segment.name), segment.len));
            }
        }
    }
    found.sort();
    Ok(found)
}

impl Done {
    fn between(began: Instant, ended: Instant) -> Done {
        Done {
            records: 0,
            began,
            ended: ended.max(began.plus(Duration::from_nanos(1))),
            latency: Histogram::new(),
            tally: None,
        }
    }
}
