//! Reading records: assigned partitions, the next fetch under way while the last one is decoded.
//!
//! Owns the positions. Invariant: `next` of a partition is one past the last offset handed out, and only whole batches are handed
//! out. Checksums are verified when records are walked ([`Fetched::each`]). Which partitions to read is the caller's choice:
//! groups are not known here.

mod damage;
mod fetched;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use model::Instant;
use wire::error_code::ErrorCode;
use wire::messages::FetchRequest;
use wire::messages::fetch_request::{FetchPartition, FetchTopic};
use wire::messages::fetch_response::{FetchResponse, FetchableTopicResponse, PartitionData};
use wire::{Records, Uuid};

use crate::admin::OffsetSpec;
use crate::cluster::{Client, Outage, Outages, Patience};
use crate::connection::Connection;
use crate::error::Error;
pub use damage::Skipped;
pub use fetched::{Fetched, Taken};

/// Last version that names topics; later ones need their ids.
const NAMED_VERSION_MAX: i16 = 12;
/// Between two looks for the leader of a partition that lost it.
const LEADER_PAUSE: Duration = Duration::from_millis(500);
/// A leader is elected in less where one can be.
const NO_LEADER_REPORTED_AFTER: Duration = Duration::from_secs(3);
/// With several brokers each is waited for in turn, so an idle one must answer soon.
const WAIT_SHARED_MAX: Duration = Duration::from_millis(100);

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(i8)]
pub enum Isolation {
    #[default]
    ReadUncommitted = 0,
    ReadCommitted = 1,
}

#[derive(Clone, Debug)]
pub struct ConsumerOptions {
    pub isolation: Isolation,
    /// Upper bound of one answer; the first batch comes even when it is larger.
    pub bytes_max: i32,
    pub partition_bytes_max: i32,
    pub min_bytes: i32,
    /// How long a broker with nothing to send waits.
    pub wait: Duration,
    pub outages: Outages,
    /// Passes over what is damaged and calls the function, instead of stopping there.
    pub skip_damaged: Option<fn(&Skipped)>,
}

impl Default for ConsumerOptions {
    fn default() -> ConsumerOptions {
        ConsumerOptions {
            isolation: Isolation::ReadCommitted,
            bytes_max: 16 << 20,
            partition_bytes_max: 4 << 20,
            min_bytes: 1,
            wait: Duration::from_millis(500),
            outages: Outages::Bounded,
            skip_damaged: None,
        }
    }
}

struct Assigned {
    topic: Arc<str>,
    id: Uuid,
    partition: i32,
    next: i64,
    leader: Option<i32>,
    /// Wants a place in the next request (not while one is under way).
    is_asked: bool,
    is_paused: bool,
}

struct Link {
    connection: Connection,
    /// Places in `assigned` that the request under way asked for; empty: none is.
    asked: Vec<usize>,
}

pub struct Consumer {
    client: Client,
    options: ConsumerOptions,
    assigned: Vec<Assigned>,
    links: BTreeMap<i32, Link>,
    /// Broker whose answer was taken last; the next one is another's, if there is another.
    last: i32,
    /// A partition's failure that came with other partitions' records; told by the next poll.
    failed: Option<Error>,
    patience: Patience,
    leaderless: Option<Leaderless>,
}

/// Some partitions have no leader, and others are read.
#[derive(Clone, Copy)]
struct Leaderless {
    since: Instant,
    next_look: Instant,
    is_reported: bool,
}

impl Consumer {
    #[must_use]
    pub fn new(client: Client, options: ConsumerOptions) -> Consumer {
        let patience =
            Patience::new(client.env(), client.options().timeout).with_outages(options.outages);
        Consumer {
            client,
            options,
            assigned: Vec::new(),
            links: BTreeMap::new(),
            last: i32::MIN,
            failed: None,
            patience,
            leaderless: None,
        }
    }

    /// Adds a partition, read from `next` on.
    pub fn assign(&mut self, topic: &str, partition: i32, next: i64) -> Result<(), Error> {
        let known = self.client.topic(topic)?;
        let leader = known.partition(partition)?.leader;
        let same = self
            .assigned
            .iter()
            .find(|assigned| &*assigned.topic == topic);
        let name = same.map_or_else(|| Arc::from(topic), |assigned| Arc::clone(&assigned.topic));
        self.assigned.push(Assigned {
            topic: name,
            id: known.id,
            partition,
            next,
            leader,
            is_asked: false,
            is_paused: false,
        });
        Ok(())
    }

    /// Reads no partition any more, until some are assigned again. What was asked for and has not come is given up.
    pub fn clear(&mut self) {
        self.assigned.clear();
        self.links.clear();
        self.failed = None;
    }

    /// Asks for no more of a partition; what was asked for already may still come. One at least has to stay.
    pub fn pause(&mut self, topic: &str, partition: i32) {
        let mut all = self.assigned.iter_mut();
        if let Some(found) = all.find(|a| &*a.topic == topic && a.partition == partition) {
            found.is_paused = true;
        }
    }

    /// The next offset of a partition that has not been handed out.
    #[must_use]
    pub fn position(&self, topic: &str, partition: i32) -> Option<i64> {
        let found = self
            .assigned
            .iter()
            .find(|a| &*a.topic == topic && a.partition == partition);
        found.map(|assigned| assigned.next)
    }

    pub fn client(&mut self) -> &mut Client {
        &mut self.client
    }

    /// Waits for one answer and hands out what it holds; an empty list when the brokers had nothing for the time they wait.
    pub fn poll(&mut self) -> Result<Vec<Fetched>, Error> {
        assert!(
            !self.assigned.is_empty(),
            "a consumer without partitions would wait for ever"
        );
        self.patience.begin();
        self.look_for_leaders()?;
        loop {
            match self.poll_once() {
                Err(error @ (Error::Unreadable { .. } | Error::Damaged { .. }))
                    if let Some(report) = self.options.skip_damaged =>
                {
                    match self.skip(&error)? {
                        Some(skipped) => report(&skipped),
                        // Nothing there can be read: perhaps its whole directory is away for a while.
                        None => self.recover(error)?,
                    }
                }
                Err(error) if error.is_retriable() => self.recover(error)?,
                Err(Error::OutOfRange {
                    topic,
                    partition,
                    asked,
                    ..
                }) => {
                    return Err(self.out_of_range(topic, partition, asked));
                }
                Ok(fetched) => {
                    self.patience.reset();
                    return Ok(fetched);
                }
                result => return result,
            }
        }
    }

    /// A partition that lost its leader is asked for at no broker, so that no answer names the next one. An outage of one partition is one
    /// of the reader, though others are read meanwhile.
    fn look_for_leaders(&mut self) -> Result<(), Error> {
        let now = self.client.env().clock.now();
        let mut all = self.assigned.iter();
        let missing = all.find(|it| it.leader.is_none() && !it.is_paused);
        let Some(missing) = missing else {
            if let (Some(over), Outages::Outlived(report)) =
                (self.leaderless.take(), self.options.outages)
                && over.is_reported
            {
                report(Outage::Over(now.since(over.since)));
            }
            return Ok(());
        };
        let error = Error::NoLeader {
            topic: missing.topic.to_string(),
            partition: missing.partition,
        };
        let known = self.leaderless.get_or_insert(Leaderless {
            since: now,
            next_look: now,
            is_reported: false,
        });
        let lasted = now.since(known.since);
        match self.options.outages {
            Outages::Bounded if self.client.options().timeout <= lasted => {
                return Err(Error::TimedOut {
                    what: "reading".to_owned(),
                    after: self.client.options().timeout,
                    last: Some(Box::new(error)),
                });
            }
            Outages::Outlived(report)
                if !known.is_reported && NO_LEADER_REPORTED_AFTER <= lasted =>
            {
                known.is_reported = true;
                report(Outage::Began(&error));
            }
            _ => {}
        }
        if now < known.next_look {
            return Ok(());
        }
        known.next_look = now.plus(LEADER_PAUSE);
        match self.find_leaders() {
            Err(error) if error.is_retriable() => Ok(()),
            result => result,
        }
    }

    /// Says what the partition does keep; the refusal itself does not.
    fn out_of_range(&mut self, topic: String, partition: i32, asked: i64) -> Error {
        let isolation = self.options.isolation;
        let mut find = |place| {
            self.client
                .resolve(&topic, &[(partition, place)], isolation)
        };
        let (start, end) = match (find(OffsetSpec::Beginning), find(OffsetSpec::End)) {
            (Ok(start), Ok(end)) => (start.get(&partition).copied(), end.get(&partition).copied()),
            (Err(error), _) | (_, Err(error)) => return error,
        };
        let (log_start, log_end) = (start.unwrap_or(-1), end.unwrap_or(-1));
        Error::OutOfRange {
            topic,
            partition,
            asked,
            log_start,
            log_end,
        }
    }

    fn poll_once(&mut self) -> Result<Vec<Fetched>, Error> {
        if let Some(error) = self.failed.take() {
            return Err(error);
        }
        self.ask_all()?;
        let waiting = || {
            self.links
                .iter()
                .filter(|(_, link)| !link.asked.is_empty())
                .map(|(broker, _)| *broker)
        };
        let Some(broker) = waiting()
            .find(|broker| *broker > self.last)
            .or_else(|| waiting().next())
        else {
            let stuck = &self.assigned[0];
            return Err(Error::NoLeader {
                topic: stuck.topic.to_string(),
                partition: stuck.partition,
            });
        };
        self.last = broker;
        let link = self.links.get_mut(&broker).expect("chosen from the list");
        let received = link
            .connection
            .receive()
            .and_then(|reply| link.connection.decode::<FetchRequest>(&reply));
        let response = match received {
            Ok(response) => response,
            Err(error) => {
                self.drop_link(broker);
                return Err(error);
            }
        };
        for at in link.asked.drain(..) {
            self.assigned[at].is_asked = false;
        }
        let fetched = self.take(&response)?;
        // The next answer is prepared while the caller decodes this one.
        self.ask_all()?;
        Ok(fetched)
    }

    fn drop_link(&mut self, broker: i32) {
        for at in self
            .links
            .remove(&broker)
            .into_iter()
            .flat_map(|link| link.asked)
        {
            self.assigned[at].is_asked = false;
        }
    }

    /// A request to every leader that has none under way.
    fn ask_all(&mut self) -> Result<(), Error> {
        let mut leaders: Vec<i32> = self
            .assigned
            .iter()
            .filter(|a| !a.is_asked && !a.is_paused)
            .filter_map(|a| a.leader)
            .collect();
        leaders.sort_unstable();
        leaders.dedup();
        let shared = leaders.len() + self.links.len() > 1
            && self
                .assigned
                .iter()
                .any(|a| a.leader != self.assigned[0].leader);
        for leader in leaders {
            if self
                .links
                .get(&leader)
                .is_some_and(|link| !link.asked.is_empty())
            {
                continue;
            }
            if let Err(error) = self.ask(leader, shared) {
                self.drop_link(leader);
                return Err(error);
            }
        }
        Ok(())
    }

    fn ask(&mut self, leader: i32, shared: bool) -> Result<(), Error> {
        if !self.links.contains_key(&leader) {
            let connection = self.client.open_broker(leader)?;
            self.links.insert(
                leader,
                Link {
                    connection,
                    asked: Vec::new(),
                },
            );
        }
        let wait = if shared {
            self.options.wait.min(WAIT_SHARED_MAX)
        } else {
            self.options.wait
        };
        let mut request = FetchRequest {
            replica_id: -1,
            max_wait_ms: wait.as_millis() as i32,
            min_bytes: self.options.min_bytes,
            max_bytes: self.options.bytes_max,
            isolation_level: self.options.isolation as i8,
            session_id: 0,
            session_epoch: -1,
            ..Default::default()
        };
        let mut limit = i16::MAX;
        let mut asked = Vec::new();
        for (at, assigned) in self.assigned.iter_mut().enumerate() {
            if assigned.leader != Some(leader) || assigned.is_asked || assigned.is_paused {
                continue;
            }
            assigned.is_asked = true;
            asked.push(at);
            if assigned.id.is_zero() {
                limit = NAMED_VERSION_MAX;
            }
            let partition = FetchPartition {
                partition: assigned.partition,
                fetch_offset: assigned.next,
                partition_max_bytes: self.options.partition_bytes_max,
                ..Default::default()
            };
            match request
                .topics
                .iter_mut()
                .find(|topic| topic.topic == *assigned.topic)
            {
                Some(topic) => topic.partitions.push(partition),
                None => {
                    let (topic, topic_id) = (assigned.topic.to_string(), assigned.id);
                    request.topics.push(FetchTopic {
                        topic,
                        topic_id,
                        partitions: vec![partition],
                    });
                }
            }
        }
        let link = self.links.get_mut(&leader).expect("inserted above");
        link.asked = asked;
        link.connection.send_up_to(&request, limit).map(|_| ())
    }

    /// Moves the positions past what arrived. A partition's error is told after the others were taken.
    fn take(&mut self, response: &FetchResponse) -> Result<Vec<Fetched>, Error> {
        Error::check(response.error_code, || "fetching".to_owned(), None)?;
        let (mut fetched, mut failed) = (Vec::new(), None);
        for topic in &response.responses {
            for data in &topic.partitions {
                let Some(assigned) = self
                    .assigned
                    .iter_mut()
                    .find(|assigned| assigned.is_in(topic, data))
                else {
                    continue;
                };
                match assigned.take(data, &self.options) {
                    Ok(Some(one)) => fetched.push(one),
                    Ok(None) => {}
                    Err(error) => failed = Some(error),
                }
            }
        }
        match failed {
            Some(error) if fetched.is_empty() => Err(error),
            failed => {
                self.failed = failed;
                Ok(fetched)
            }
        }
    }

    fn recover(&mut self, error: Error) -> Result<(), Error> {
        self.patience.pause("reading", error)?;
        match self.find_leaders() {
            // The next attempt finds the brokers still away, and waits for them.
            Err(error) if self.patience.outlives(&error) => Ok(()),
            result => result,
        }
    }

    fn find_leaders(&mut self) -> Result<(), Error> {
        for at in 0..self.assigned.len() {
            let name = Arc::clone(&self.assigned[at].topic);
            if at == 0 || name != self.assigned[at - 1].topic {
                self.client.forget_topic(&name);
            }
            let found = self.client.topic(&name)?;
            let assigned = &mut self.assigned[at];
            assigned.leader = found.partition(assigned.partition)?.leader;
            assigned.id = found.id;
        }
        Ok(())
    }
}

impl Assigned {
    fn is_in(&self, topic: &FetchableTopicResponse, data: &PartitionData) -> bool {
        let same = if topic.topic_id.is_zero() {
            *topic.topic == *self.topic
        } else {
            topic.topic_id == self.id
        };
        same && data.partition_index == self.partition
    }

    fn take(
        &mut self,
        data: &PartitionData,
        options: &ConsumerOptions,
    ) -> Result<Option<Fetched>, Error> {
        let (topic, partition) = (&self.topic, self.partition);
        if data.error_code == ErrorCode::OffsetOutOfRange as i16 {
            let (log_start, log_end) = (data.log_start_offset, data.high_watermark);
            return Err(Error::OutOfRange {
                topic: topic.to_string(),
                partition,
                asked: self.next,
                log_start,
                log_end,
            });
        }
        if let Ok(code) = ErrorCode::try_from(data.error_code)
            && damage::is_damage(code)
        {
            return Err(Error::Unreadable {
                topic: topic.to_string(),
                partition,
                offset: self.next,
                code,
            });
        }
        Error::check(
            data.error_code,
            || format!("reading {topic}-{partition}"),
            None,
        )?;
        let Some(Records::Bytes(records)) = &data.records else {
            return Ok(None);
        };
        let end = fetched::end_of(records).map_err(|fault| self.damaged(fault.into()))?;
        let Some(end) = end else { return Ok(None) };
        let aborted = data
            .aborted_transactions
            .iter()
            .flatten()
            .map(|aborted| (aborted.first_offset, aborted.producer_id));
        let is_committed = options.isolation == Isolation::ReadCommitted;
        let one = Fetched::new(
            Arc::clone(topic),
            partition,
            self.next,
            records.clone(),
            if is_committed {
                aborted.collect()
            } else {
                Vec::new()
            },
        )
        .with_marks(
            data.log_start_offset,
            data.high_watermark,
            data.last_stable_offset,
        )
        .with_skip(options.skip_damaged);
        self.next = self.next.max(end);
        Ok(Some(one))
    }

    fn damaged(&self, fault: crate::error::Damage) -> Error {
        Error::Damaged {
            topic: self.topic.to_string(),
            partition: self.partition,
            offset: self.next,
            fault,
        }
    }
}
