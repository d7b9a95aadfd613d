//! Writing records: batches per partition, several requests under way, order and exactness kept over retries.
//!
//! Owns what was accepted and not yet acknowledged. Invariants: a partition's batches are sent in the order of their sequences, and
//! after a failure its next request waits until none of its batches is under way; so an idempotent producer writes every record
//! once and in order. A batch that is too large for its topic is sent as smaller ones. What the broker refuses for good stops the
//! producer: going on would leave a hole.

mod lane;
pub mod partitioner;
mod request;

use std::collections::{BTreeMap, HashMap, VecDeque};
use std::time::Duration;

use model::{ProducerEpoch, ProducerId, Timestamp};
use wire::messages::{InitProducerIdRequest, ProduceRequest};
use wire::records::Compression;
use wire::{ApiKey, Uuid};

use crate::cluster::{Client, Outages, Patience};
use crate::connection::Connection;
use crate::error::Error;
use lane::{Lane, Outcome};
use partitioner::Sticky;

/// When the broker answers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Acks {
    None,
    Leader,
    All,
}

impl Acks {
    fn number(self) -> i16 {
        match self {
            Acks::None => 0,
            Acks::Leader => 1,
            Acks::All => -1,
        }
    }
}

#[derive(Clone, Debug)]
pub struct ProducerOptions {
    pub acks: Acks,
    /// A batch is closed before it grows past this; a larger record gets a batch of its own.
    pub batch_bytes: usize,
    /// An open batch is closed after this time, when the producer is called at all.
    pub linger: Duration,
    /// Requests under way per broker, 1 to 5: brokers remember five batches per producer and partition.
    pub in_flight: usize,
    pub compression: Compression,
    /// Needs `acks: All`; switched off with any other.
    pub idempotent: bool,
    /// Remember deliveries for [`Producer::take_deliveries`].
    pub report: bool,
    pub outages: Outages,
}

impl Default for ProducerOptions {
    fn default() -> ProducerOptions {
        ProducerOptions {
            acks: Acks::All,
            batch_bytes: 256 << 10,
            linger: Duration::from_millis(5),
            in_flight: 5,
            compression: Compression::default(),
            idempotent: true,
            report: false,
            outages: Outages::Bounded,
        }
    }
}

#[derive(Clone, Copy, Debug, Default)]
pub struct Record<'a> {
    pub key: Option<&'a [u8]>,
    pub value: Option<&'a [u8]>,
    pub headers: &'a [(&'a str, Option<&'a [u8]>)],
    /// Milliseconds since 1970; the time of sending when not given.
    pub timestamp: Option<i64>,
}

/// A topic that a producer knows; see [`Producer::topic`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TopicRef(usize);

/// A batch that was acknowledged.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Delivery {
    pub topic: TopicRef,
    pub partition: i32,
    /// Rises with the order in which the batches of a partition are in its log; pieces of a batch that was too large have later ones.
    /// Answers may come in another order: of two batches under way the first is refused in doubt, and sent again, when the second was taken.
    pub serial: u64,
    /// `None` with `acks: None`, or for a duplicate whose place the broker no longer knows.
    pub base_offset: Option<i64>,
    pub records: i32,
    /// Size of the batch on the wire.
    pub bytes: usize,
    /// From the first record of the batch to the answer.
    pub latency: Duration,
}

pub(super) struct TopicState {
    name: String,
    id: Uuid,
    lanes: Vec<Lane>,
    sticky: Sticky,
    /// [`ProducerOptions::batch_bytes`], or less where the broker refused as much.
    batch_bytes: usize,
}

/// A batch that is under way.
#[derive(Clone, Copy)]
pub(super) struct Item {
    topic: usize,
    partition: usize,
    serial: u64,
}

struct Link {
    connection: Connection,
    /// Batches of each request that is not answered, oldest first.
    requests: VecDeque<Vec<Item>>,
}

/// The state to wait for.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Goal {
    Sent,
    Acknowledged,
}

pub struct Producer {
    client: Client,
    options: ProducerOptions,
    identity: Option<(ProducerId, ProducerEpoch)>,
    topics: Vec<TopicState>,
    names: HashMap<String, usize>,
    links: BTreeMap<i32, Link>,
    /// Lanes with batches that wait to be sent, in the order in which they began to.
    ready: VecDeque<(usize, usize)>,
    /// Batches.
    unacknowledged: usize,
    records_acknowledged: u64,
    next_serial: u64,
    swept_ms: i64,
    deliveries: Vec<Delivery>,
    patience: Patience,
}

impl Producer {
    pub fn new(client: Client, options: ProducerOptions) -> Producer {
        assert!(
            (1..=5).contains(&options.in_flight),
            "brokers remember five batches"
        );
        let mut patience =
            Patience::new(client.env(), client.options().timeout).with_outages(options.outages);
        if let Some(until) = client.options().until {
            patience.keep(until);
        }
        Producer {
            client,
            options,
            identity: None,
            topics: Vec::new(),
            names: HashMap::new(),
            links: BTreeMap::new(),
            ready: VecDeque::new(),
            unacknowledged: 0,
            records_acknowledged: 0,
            next_serial: 0,
            swept_ms: 0,
            deliveries: Vec::new(),
            patience,
        }
    }

    /// Looks a topic up, which may create it, and gives the name that [`Producer::send`] takes.
    pub fn topic(&mut self, name: &str) -> Result<TopicRef, Error> {
        if let Some(known) = self.names.get(name) {
            return Ok(TopicRef(*known));
        }
        let found = self.client.topic_or_create(name)?;
        let sticky = Sticky::new(self.client.env().rng.next_u64());
        let lanes = found
            .partitions
            .iter()
            .map(|partition| Lane::new(partition.leader))
            .collect();
        self.topics.push(TopicState {
            name: name.to_owned(),
            id: found.id,
            lanes,
            sticky,
            batch_bytes: self.options.batch_bytes,
        });
        self.names.insert(name.to_owned(), self.topics.len() - 1);
        Ok(TopicRef(self.topics.len() - 1))
    }

    #[must_use]
    pub fn partitions(&self, topic: TopicRef) -> i32 {
        self.topics[topic.0].lanes.len() as i32
    }

    /// Accepts a record. It is on its way at the latest when its batch is full; [`Producer::flush`] makes sure. An error may be
    /// about any earlier record.
    pub fn send(
        &mut self,
        topic: TopicRef,
        partition: Option<i32>,
        record: &Record<'_>,
    ) -> Result<(), Error> {
        if self.options.idempotent && self.options.acks == Acks::All && self.identity.is_none() {
            self.identity = Some(self.identify()?);
        }
        let now_ms = self.client.env().clock.wall_ms();
        let time = record.timestamp.map_or(now_ms, Timestamp);
        let index = self.choose(topic, partition, record.key)?;
        let batch_bytes = self.topics[topic.0].batch_bytes;
        if self.topics[topic.0].lanes[index].is_full_for(record, batch_bytes) {
            self.seal(topic.0, index);
        }
        let now = self.client.env().clock.now();
        let lane = &mut self.topics[topic.0].lanes[index];
        let compression = self.options.compression;
        let size = lane.push(record, time, now, compression);
        if size >= batch_bytes {
            self.seal(topic.0, index);
        }
        if now_ms.0 - self.swept_ms >= self.options.linger.as_millis() as i64 {
            self.swept_ms = now_ms.0;
            self.sweep(Some(self.options.linger));
        }
        if self.ready.is_empty() {
            Ok(())
        } else {
            self.drive(Goal::Sent)
        }
    }

    fn choose(
        &self,
        topic: TopicRef,
        partition: Option<i32>,
        key: Option<&[u8]>,
    ) -> Result<usize, Error> {
        let state = &self.topics[topic.0];
        let count = state.lanes.len() as i32;
        match (partition, key) {
            (Some(index), _) if !(0..count).contains(&index) => Err(Error::NoPartition {
                topic: state.name.clone(),
                partition: index,
                count,
            }),
            (Some(index), _) => Ok(index as usize),
            (None, Some(key)) => Ok(partitioner::of_key(key, count) as usize),
            (None, None) => Ok(state.sticky.current(count) as usize),
        }
    }

    fn identify(&mut self) -> Result<(ProducerId, ProducerEpoch), Error> {
        self.patience.begin();
        let identity = self.identify_in_time();
        self.client.deadline = self.patience.kept();
        identity
    }

    fn identify_in_time(&mut self) -> Result<(ProducerId, ProducerEpoch), Error> {
        loop {
            self.client.deadline = self.patience.until();
            match self.ask_identity() {
                Err(error) if self.patience.outlives(&error) => {
                    self.patience.pause("starting a producer", error)?;
                }
                result => return result,
            }
        }
    }

    fn ask_identity(&mut self) -> Result<(ProducerId, ProducerEpoch), Error> {
        self.client
            .retry("starting an idempotent producer", |client| {
                let request = InitProducerIdRequest {
                    transactional_id: None,
                    transaction_timeout_ms: i32::MAX,
                    producer_id: -1,
                    producer_epoch: -1,
                    ..Default::default()
                };
                let response = client.call_any(&request)?;
                Error::check(
                    response.error_code,
                    || "asking for a producer id".to_owned(),
                    None,
                )?;
                Ok((
                    ProducerId(response.producer_id),
                    ProducerEpoch(response.producer_epoch),
                ))
            })
    }

    /// Closes the open batch of a lane and queues it.
    fn seal(&mut self, topic: usize, index: usize) {
        let state = &mut self.topics[topic];
        let lane = &mut state.lanes[index];
        if !lane.seal(self.next_serial, self.identity) {
            return;
        }
        self.next_serial += 1;
        if self.unacknowledged == 0 {
            self.patience.begin();
        }
        self.unacknowledged += 1;
        if state.sticky.current(state.lanes.len() as i32) as usize == index {
            state.sticky.move_on();
        }
        self.list(topic, index);
    }

    fn list(&mut self, topic: usize, index: usize) {
        let lane = &mut self.topics[topic].lanes[index];
        if !lane.is_listed {
            lane.is_listed = true;
            self.ready.push_back((topic, index));
        }
    }

    /// Closes open batches: all, or those older than `age`.
    fn sweep(&mut self, age: Option<Duration>) {
        let now = self.client.env().clock.now();
        for topic in 0..self.topics.len() {
            for index in 0..self.topics[topic].lanes.len() {
                let opened = self.topics[topic].lanes[index].opened();
                if opened.is_some_and(|opened| age.is_none_or(|age| now.since(opened) >= age)) {
                    self.seal(topic, index);
                }
            }
        }
    }

    /// Sends everything accepted so far, without waiting for the answers.
    pub fn dispatch(&mut self) -> Result<(), Error> {
        self.sweep(None);
        self.drive(Goal::Sent)
    }

    /// True if something that was accepted is not acknowledged.
    #[must_use]
    pub fn is_waiting(&self) -> bool {
        self.unacknowledged > 0
    }

    /// Sends everything accepted so far and waits until it is acknowledged.
    pub fn flush(&mut self) -> Result<(), Error> {
        self.sweep(None);
        self.drive(Goal::Acknowledged)
    }

    /// Records that brokers have acknowledged, or that were sent with `acks: None`.
    #[must_use]
    pub fn records_acknowledged(&self) -> u64 {
        self.records_acknowledged
    }

    /// Returns the acknowledgements since the last call; empty unless [`ProducerOptions::report`] is set.
    pub fn take_deliveries(&mut self) -> Vec<Delivery> {
        std::mem::take(&mut self.deliveries)
    }

    /// Takes off the time of the command in which there was nothing to write.
    pub fn forgive(&mut self, idle: Duration) {
        self.patience.forgive(idle);
        self.client.deadline = self.patience.kept();
    }

    /// The client underneath, for questions between records.
    pub fn client(&mut self) -> &mut Client {
        &mut self.client
    }

    fn drive(&mut self, goal: Goal) -> Result<(), Error> {
        let driven = self.drive_in_time(goal);
        // Questions of others between records have their own time.
        self.client.deadline = self.patience.kept();
        driven
    }

    fn drive_in_time(&mut self, goal: Goal) -> Result<(), Error> {
        loop {
            self.client.deadline = self.patience.until();
            match self.send_ready() {
                Err(error) if error.is_retriable() => {
                    self.recover(error)?;
                    continue;
                }
                result => result?,
            }
            let done = match goal {
                Goal::Sent => self.ready.is_empty(),
                Goal::Acknowledged => self.unacknowledged == 0,
            };
            if done {
                return Ok(());
            }
            // The answer that frees a place where something waits; any other one while everything is on its way.
            let full = self
                .links
                .iter()
                .find(|(_, link)| link.requests.len() >= self.options.in_flight);
            let waiting = full.or_else(|| {
                self.links
                    .iter()
                    .find(|(_, link)| !link.requests.is_empty())
            });
            let Some(broker) = waiting.map(|(broker, _)| *broker) else {
                let (topic, partition) = self.ready.front().map_or((String::new(), 0), |(t, p)| {
                    (self.topics[*t].name.clone(), *p as i32)
                });
                self.recover(Error::NoLeader { topic, partition })?;
                continue;
            };
            match self.receive(broker) {
                Err(error) if error.is_retriable() => self.recover(error)?,
                result => result?,
            }
        }
    }

    /// One request to each broker that has room, as long as there is something to send.
    fn send_ready(&mut self) -> Result<(), Error> {
        let mut leaders: Vec<i32> = Vec::new();
        for (topic, index) in &self.ready {
            if let Some(leader) = self.topics[*topic].lanes[*index].leader
                && !leaders.contains(&leader)
            {
                leaders.push(leader);
            }
        }
        for leader in leaders {
            while self
                .links
                .get(&leader)
                .is_none_or(|link| link.requests.len() < self.options.in_flight)
            {
                if !self.send_to(leader)? {
                    break;
                }
            }
        }
        Ok(())
    }

    /// Sends one request with the next batch of every lane that this broker leads; `false` when there is none.
    fn send_to(&mut self, broker: i32) -> Result<bool, Error> {
        let items = request::gather(&mut self.topics, &mut self.ready, broker);
        if items.is_empty() {
            return Ok(false);
        }
        let sent = self.write(broker, &items);
        if let Err(error) = sent {
            self.links
                .remove(&broker)
                .into_iter()
                .flat_map(|link| link.requests)
                .flatten()
                .chain(items)
                .for_each(|item| self.return_item(item));
            return Err(error);
        }
        Ok(true)
    }

    fn write(&mut self, broker: i32, items: &[Item]) -> Result<(), Error> {
        if !self.links.contains_key(&broker) {
            let connection = self.client.open_broker(broker)?;
            self.links.insert(
                broker,
                Link {
                    connection,
                    requests: VecDeque::new(),
                },
            );
        }
        let link = self.links.get_mut(&broker).expect("inserted above");
        link.connection.bound(self.patience.until());
        let timeout_ms = self.client.options().io_timeout.as_millis() as i32;
        let (produce, limit): (ProduceRequest, i16) =
            request::build(&self.topics, items, self.options.acks, timeout_ms);
        if self.options.acks == Acks::None {
            link.connection.send_unanswered_up_to(&produce, limit)?;
            for item in items {
                self.on_outcome(*item, Outcome::Delivered(None));
            }
            return Ok(());
        }
        link.connection.send_up_to(&produce, limit)?;
        link.requests.push_back(items.to_vec());
        Ok(())
    }

    fn receive(&mut self, broker: i32) -> Result<(), Error> {
        let link = self.links.get_mut(&broker).expect("the caller saw it");
        link.connection.bound(self.patience.until());
        let reply = match link.connection.receive() {
            Ok(reply) => reply,
            Err(error) => return Err(self.drop_link(broker, error)),
        };
        let items = link
            .requests
            .pop_front()
            .expect("an answer has its request");
        let response = match link.connection.decode::<ProduceRequest>(&reply) {
            Ok(response) => response,
            Err(error) => {
                link.requests.push_front(items);
                return Err(self.drop_link(broker, error));
            }
        };
        let mut failed = None;
        for item in items {
            let state = &self.topics[item.topic];
            let answer = request::answer(&response, state, item.partition);
            let Some(answer) = answer else {
                let address = self.client.address(broker).unwrap_or_default().to_owned();
                let fault = crate::error::Garbage::Content("a partition is missing in it");
                return Err(Error::Garbled {
                    address,
                    api: ApiKey::Produce,
                    fault,
                });
            };
            let what = || format!("writing to {}-{}", state.name, item.partition);
            let outcome = state.lanes[item.partition].judge(item.serial, answer, what);
            match outcome {
                Ok(outcome) => self.on_outcome(item, outcome),
                Err(error) => {
                    self.return_item(item);
                    // A refusal for good outweighs one that may pass.
                    if failed.as_ref().is_none_or(Error::is_retriable) {
                        failed = Some(error);
                    }
                }
            }
        }
        failed.map_or(Ok(()), Err)
    }

    fn drop_link(&mut self, broker: i32, error: Error) -> Error {
        self.hang_up(broker);
        error
    }

    /// The requests under way there are taken as lost.
    fn hang_up(&mut self, broker: i32) {
        let items: Vec<Item> = self
            .links
            .remove(&broker)
            .into_iter()
            .flat_map(|link| link.requests)
            .flatten()
            .collect();
        for item in items {
            self.return_item(item);
        }
    }

    /// The batch was not taken: it goes back to be sent again, before everything after it.
    fn return_item(&mut self, item: Item) {
        self.topics[item.topic].lanes[item.partition].give_back(item.serial);
        self.list(item.topic, item.partition);
    }

    /// Sends the records of a batch in smaller ones, and keeps the next batches of its topic as small.
    fn split(&mut self, item: Item) {
        let topic = &mut self.topics[item.topic];
        let lane = &mut topic.lanes[item.partition];
        let split = lane.split(item.serial, self.next_serial, self.options.compression);
        topic.batch_bytes = topic.batch_bytes.min(split.piece_bytes);
        self.next_serial += split.pieces;
        self.unacknowledged += split.pieces as usize - 1;
        self.list(item.topic, item.partition);
    }

    fn on_outcome(&mut self, item: Item, outcome: Outcome) {
        let base_offset = match outcome {
            Outcome::Delivered(base_offset) => base_offset,
            Outcome::Early => return self.return_item(item),
            Outcome::TooLarge => return self.split(item),
        };
        let done = self.topics[item.topic].lanes[item.partition].take(item.serial);
        self.unacknowledged -= 1;
        self.records_acknowledged += u64::from(done.records.unsigned_abs());
        self.patience.reset();
        if self.options.report {
            let latency = self.client.env().clock.now().since(done.opened);
            let (topic, partition) = (TopicRef(item.topic), item.partition as i32);
            self.deliveries.push(Delivery {
                topic,
                partition,
                serial: done.serial,
                base_offset,
                records: done.records,
                bytes: done.bytes.len(),
                latency,
            });
        }
    }

    /// Pauses, and asks again which brokers lead the partitions.
    fn recover(&mut self, error: Error) -> Result<(), Error> {
        self.patience.pause("writing", error)?;
        match self.find_leaders() {
            // The next attempt finds the brokers still away, and waits for them.
            Err(error) if self.patience.outlives(&error) => Ok(()),
            result => result,
        }
    }

    fn find_leaders(&mut self) -> Result<(), Error> {
        for state in &mut self.topics {
            self.client.forget_topic(&state.name);
            let found = self.client.topic(&state.name)?;
            if found.id != state.id && !state.id.is_zero() {
                // Deleted and created again: what was accepted belonged to the old one.
                return Err(Error::NoTopic {
                    topic: state.name.clone(),
                });
            }
            for (lane, partition) in state.lanes.iter_mut().zip(&found.partitions) {
                lane.leader = partition.leader;
            }
        }
        self.leave_old_leaders();
        Ok(())
    }

    /// A batch that a broker was asked to take before another led its partition is sent again: the batches behind it go to the new leader,
    /// and would overtake it while its answer is waited for, which may never come.
    fn leave_old_leaders(&mut self) {
        let topics = &self.topics;
        let leads = |broker: i32, item: &Item| {
            topics[item.topic].lanes[item.partition].leader == Some(broker)
        };
        let is_left = |(broker, link): (&i32, &Link)| {
            let mut items = link.requests.iter().flatten();
            items.any(|item| !leads(*broker, item)).then_some(*broker)
        };
        let left: Vec<i32> = self.links.iter().filter_map(is_left).collect();
        for broker in left {
            self.hang_up(broker);
        }
    }
}
