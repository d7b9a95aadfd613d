//! The cluster as a client sees it: who the brokers are, who leads what, and whom to ask.
//!
//! Owns the metadata cache and one control connection per broker; a producer's or consumer's own connections are not here, so a
//! question never waits behind records. An operation that failed for a passing reason is tried again with fresh metadata
//! after a growing pause, until its deadline.

use std::collections::BTreeMap;
use std::time::Duration;

use env::Env;
use model::Instant;
use wire::error_code::ErrorCode;
use wire::messages::metadata_request::MetadataRequestTopic;
use wire::messages::metadata_response::{MetadataResponse, MetadataResponseTopic};
use wire::messages::{MetadataRequest, metadata_response};
use wire::{Request, Uuid};

use crate::connection::Connection;
use crate::error::Error;
use crate::options::Options;

const PAUSE_MIN: Duration = Duration::from_millis(50);
const PAUSE_MAX: Duration = Duration::from_secs(1);
/// A broker that has not greeted by then is passed over, where others can be asked.
const HELLO_WAIT: Duration = Duration::from_secs(3);

/// A broker hears of a topic that was made at another one in less.
const NEWS_WAIT: Duration = Duration::from_millis(500);
/// Between two looks for such a topic.
const NEWS_PAUSE: Duration = Duration::from_millis(50);

/// A restart of a broker that takes less is not reported by a client that outlives outages.
const OUTAGE_REPORTED_AFTER: Duration = Duration::from_secs(1);

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Topic {
    pub name: String,
    /// Zero when the broker is too old to say.
    pub id: Uuid,
    pub is_internal: bool,
    /// In the order of their numbers, from 0, without gaps.
    pub partitions: Vec<Partition>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Partition {
    pub index: i32,
    pub leader: Option<i32>,
    pub leader_epoch: i32,
    pub replicas: Vec<i32>,
    pub isr: Vec<i32>,
    pub offline: Vec<i32>,
}

impl Topic {
    pub(crate) fn partition(&self, index: i32) -> Result<&Partition, Error> {
        let found = usize::try_from(index)
            .ok()
            .and_then(|at| self.partitions.get(at));
        found.ok_or_else(|| Error::NoPartition {
            topic: self.name.clone(),
            partition: index,
            count: self.partitions.len() as i32,
        })
    }

    /// The broker that leads a partition.
    pub fn leader(&self, index: i32) -> Result<i32, Error> {
        let leader = self.partition(index)?.leader;
        leader.ok_or_else(|| Error::NoLeader {
            topic: self.name.clone(),
            partition: index,
        })
    }
}

pub struct Client {
    env: Env,
    options: Options,
    bootstrap: Vec<String>,
    brokers: BTreeMap<i32, String>,
    controller: Option<i32>,
    cluster_id: Option<String>,
    topics: BTreeMap<String, Topic>,
    connections: BTreeMap<String, Connection>,
    /// Of the operation under way, with all its waits.
    pub(crate) deadline: Option<Instant>,
}

impl Client {
    /// Reaches the first bootstrap address that answers (`host:port`, commas between several) and learns the brokers.
    /// Tries each once: a broker that is not there is reported at once.
    pub fn connect(env: &Env, bootstrap: &str, options: Options) -> Result<Client, Error> {
        let mut client = Client::aside(env, bootstrap, options)?;
        let timeout = client.options.timeout;
        client.within(timeout, |client| client.ask_metadata(Some(&[]), false))?;
        Ok(client)
    }

    /// Knows the bootstrap addresses alone, and has asked none of them.
    pub(crate) fn aside(env: &Env, bootstrap: &str, options: Options) -> Result<Client, Error> {
        let bootstrap: Vec<String> = bootstrap
            .split(',')
            .map(str::trim)
            .filter(|part| !part.is_empty())
            .map(|address| complete_address(address, options.login.is_some()))
            .collect::<Result<_, _>>()?;
        // Behind the socket in the file system there is one node.
        let is_alone = bootstrap.len() == 1;
        let path = bootstrap.iter().find(|address| is_path(address));
        if let Some(path) = path.filter(|_| !is_alone) {
            return Err(Error::Address {
                address: path.clone(),
            });
        }
        if bootstrap.is_empty() {
            return Err(Error::Address {
                address: String::new(),
            });
        }
        Ok(Client {
            env: env.clone(),
            deadline: options.until,
            options,
            bootstrap,
            brokers: BTreeMap::new(),
            controller: None,
            cluster_id: None,
            topics: BTreeMap::new(),
            connections: BTreeMap::new(),
        })
    }

    pub(crate) fn bootstrap(&self) -> &[String] {
        &self.bootstrap
    }

    #[must_use]
    pub fn env(&self) -> &Env {
        &self.env
    }

    #[must_use]
    pub fn options(&self) -> &Options {
        &self.options
    }

    #[must_use]
    pub fn cluster_id(&self) -> Option<&str> {
        self.cluster_id.as_deref()
    }

    /// Broker ids with their addresses.
    #[must_use]
    pub fn brokers(&self) -> &BTreeMap<i32, String> {
        &self.brokers
    }

    pub fn address(&self, broker: i32) -> Result<&str, Error> {
        let what = || format!("broker {broker}");
        let gone = || Error::Refused {
            what: what(),
            code: ErrorCode::BrokerNotAvailable,
            message: None,
        };
        self.brokers
            .get(&broker)
            .map(String::as_str)
            .ok_or_else(gone)
    }

    /// A connection of the caller's own.
    pub fn open(&self, address: &str) -> Result<Connection, Error> {
        self.open_by(address, self.deadline)
    }

    fn open_by(&self, address: &str, until: Option<Instant>) -> Result<Connection, Error> {
        Connection::open_by(&self.env, address, &self.options, until)
    }

    /// Runs an operation whose waits take `timeout` together at most, or less inside of another one.
    pub fn within<T>(
        &mut self,
        timeout: Duration,
        operation: impl FnOnce(&mut Client) -> Result<T, Error>,
    ) -> Result<T, Error> {
        let outer = self.deadline;
        let until = self.env.clock.now().plus(timeout);
        self.deadline = Some(outer.map_or(until, |outer| outer.min(until)));
        let result = operation(self);
        self.deadline = outer;
        result
    }

    /// Connects to one of several addresses that are to be asked one after the other: one that is silent leaves time for the `others`.
    pub(crate) fn greet(&mut self, address: &str, others: usize) -> Result<(), Error> {
        if self.connections.contains_key(address) {
            return Ok(());
        }
        let until = if others == 0 {
            self.deadline
        } else {
            let now = self.env.clock.now();
            let left = self.deadline.map(|deadline| deadline.since(now));
            let left = left.unwrap_or(self.options.io_timeout);
            let share = left / u32::try_from(others + 1).unwrap_or(u32::MAX);
            Some(now.plus(share.min(HELLO_WAIT)))
        };
        let connection = self.open_by(address, until)?;
        self.connections.insert(address.to_owned(), connection);
        Ok(())
    }

    /// A connection of the caller's own to a broker of the cluster.
    pub fn open_broker(&self, broker: i32) -> Result<Connection, Error> {
        self.open(self.address(broker)?)
    }

    fn control(&mut self, address: &str) -> Result<&mut Connection, Error> {
        if !self.connections.contains_key(address) {
            let connection = self.open(address)?;
            self.connections.insert(address.to_owned(), connection);
        }
        let connection = self.connections.get_mut(address).expect("inserted above");
        connection.bound(self.deadline);
        Ok(connection)
    }

    pub(crate) fn call_at<R: Request>(
        &mut self,
        address: &str,
        request: &R,
    ) -> Result<R::Response, Error> {
        self.call_at_up_to(address, request, i16::MAX)
    }

    fn call_at_up_to<R: Request>(
        &mut self,
        address: &str,
        request: &R,
        limit: i16,
    ) -> Result<R::Response, Error> {
        let result = self.control(address)?.call_up_to(request, limit);
        result.map_err(|error| self.on_failure(address, error))
    }

    /// Forgets a connection that ended. The reason may be that its listener wants a login, and then is that.
    fn on_failure(&mut self, address: &str, error: Error) -> Error {
        if !error.ends_connection() {
            return error;
        }
        let ended = self.connections.remove(address);
        if !error.is_close() || !ended.is_some_and(|ended| ended.may_want_login()) {
            return error;
        }
        let until = self.env.clock.now().plus(HELLO_WAIT);
        let until = self.deadline.map_or(until, |deadline| deadline.min(until));
        match Connection::mechanisms(&self.env, address, &self.options, Some(until)) {
            Ok(mechanisms) if !mechanisms.is_empty() => Error::LoginNeeded {
                address: address.to_owned(),
                mechanisms,
            },
            _ => error,
        }
    }

    /// Asks one broker.
    pub fn call_broker<R: Request>(
        &mut self,
        broker: i32,
        request: &R,
    ) -> Result<R::Response, Error> {
        let address = self.address(broker)?.to_owned();
        self.call_at(&address, request)
    }

    /// Asks one broker, in a version of at most `limit`.
    pub(crate) fn call_broker_up_to<R: Request>(
        &mut self,
        broker: i32,
        request: &R,
        limit: i16,
    ) -> Result<R::Response, Error> {
        let address = self.address(broker)?.to_owned();
        self.call_at_up_to(&address, request, limit)
    }

    /// Asks the controller, or any broker when none is known: it passes the question on.
    pub fn call_controller<R: Request>(&mut self, request: &R) -> Result<R::Response, Error> {
        match self.controller.filter(|id| self.brokers.contains_key(id)) {
            Some(id) => self.call_broker(id, request),
            None => self.call_any(request),
        }
    }

    /// Asks whoever answers first: connected brokers, then known ones, then the bootstrap list.
    pub fn call_any<R: Request>(&mut self, request: &R) -> Result<R::Response, Error> {
        let mut addresses: Vec<String> = self.connections.keys().cloned().collect();
        for address in self.brokers.values().chain(&self.bootstrap) {
            if !addresses.contains(address) {
                addresses.push(address.clone());
            }
        }
        let mut last = None;
        let mut others = addresses.len();
        for address in addresses {
            others -= 1;
            let greeted = self.greet(&address, others);
            match greeted.and_then(|()| self.call_at(&address, request)) {
                Err(
                    error @ (Error::Connect { .. }
                    | Error::NoGreeting { .. }
                    | Error::NoLogin { .. }
                    | Error::Lost { .. }),
                ) => last = Some(error),
                result => return result,
            }
        }
        Err(last.expect("the bootstrap list is not empty"))
    }

    /// Runs `operation` until it succeeds, fails for good, or the deadline passes; metadata is forgotten in between.
    pub fn retry<T>(
        &mut self,
        what: &str,
        mut operation: impl FnMut(&mut Client) -> Result<T, Error>,
    ) -> Result<T, Error> {
        let timeout = self.options.timeout;
        self.within(timeout, |client| {
            let mut patience = Patience::new(&client.env, timeout);
            if let Some(deadline) = client.deadline {
                patience.keep(deadline);
            }
            loop {
                match operation(client) {
                    Err(error) if error.is_retriable() => {
                        client.topics.clear();
                        patience.pause(what, error)?;
                        // A broker that moved is found again here; failing is fine, the operation will show it.
                        let _ = client.ask_metadata(Some(&[]), false);
                    }
                    result => return result,
                }
            }
        })
    }

    /// `None` asks for all topics.
    fn ask_metadata(
        &mut self,
        names: Option<&[&str]>,
        create: bool,
    ) -> Result<MetadataResponse, Error> {
        let topic = |name: &&str| MetadataRequestTopic {
            name: Some((*name).to_owned()),
            ..Default::default()
        };
        let request = MetadataRequest {
            topics: names.map(|names| names.iter().map(topic).collect()),
            allow_auto_topic_creation: create,
            ..Default::default()
        };
        let response = self.call_any(&request)?;
        Error::check(response.error_code, || "metadata".to_owned(), None)?;
        let path = self.bootstrap.first().filter(|address| is_path(address));
        let address = |broker: &metadata_response::MetadataResponseBroker| {
            let own = || host_port(&broker.host, broker.port);
            (broker.node_id, path.cloned().unwrap_or_else(own))
        };
        self.brokers = response.brokers.iter().map(address).collect();
        self.controller = Some(response.controller_id).filter(|id| *id >= 0);
        self.cluster_id.clone_from(&response.cluster_id);
        Ok(response)
    }

    /// Every topic of the cluster, in name order.
    pub fn topics(&mut self) -> Result<Vec<Topic>, Error> {
        self.retry("listing topics", |client| {
            let response = client.ask_metadata(None, false)?;
            let mut topics = response
                .topics
                .iter()
                .map(topic_of)
                .collect::<Result<Vec<_>, _>>()?;
            topics.sort_by(|a, b| a.name.cmp(&b.name));
            Ok(topics)
        })
    }

    /// One topic from the cache, else from the cluster. A topic that does not exist is an error as soon as a broker would have heard of it.
    pub fn topic(&mut self, name: &str) -> Result<Topic, Error> {
        self.find_topic(name, false)
    }

    /// The same for a topic that the broker may create by being asked (`auto.create.topics.enable`).
    pub fn topic_or_create(&mut self, name: &str) -> Result<Topic, Error> {
        self.find_topic(name, true)
    }

    fn find_topic(&mut self, name: &str, create: bool) -> Result<Topic, Error> {
        if let Some(topic) = self.topics.get(name) {
            return Ok(topic.clone());
        }
        self.retry(&format!("finding topic {name}"), |client| {
            if !create {
                return client.look_for(name);
            }
            // Ask without creating first: a topic that exists costs one question either way.
            match client.look_up(name, false) {
                Err(Error::NoTopic { .. }) => {}
                result => return result,
            }
            match client.look_up(name, true) {
                // Told "unknown" while being created; the broker that will not create it says so until the deadline.
                Err(Error::NoTopic { topic }) => {
                    let what = format!("topic {topic}");
                    Err(Error::Refused {
                        what,
                        code: ErrorCode::UnknownTopicOrPartition,
                        message: None,
                    })
                }
                result => result,
            }
        })
    }

    /// Looks again for a topic that one of several brokers does not know: it may have been made at another one a moment ago.
    fn look_for(&mut self, name: &str) -> Result<Topic, Error> {
        let until = self.env.clock.now().plus(NEWS_WAIT);
        let until = self.deadline.map_or(until, |deadline| deadline.min(until));
        loop {
            let found = self.look_up(name, false);
            let next = self.env.clock.now().plus(NEWS_PAUSE);
            match found {
                Err(Error::NoTopic { .. }) if 1 < self.brokers.len() && next < until => {
                    self.env.threads.bell().wait(Some(next));
                }
                found => return found,
            }
        }
    }

    fn look_up(&mut self, name: &str, create: bool) -> Result<Topic, Error> {
        let response = self.ask_metadata(Some(&[name]), create)?;
        let found = response
            .topics
            .iter()
            .find(|topic| topic.name.as_deref() == Some(name));
        let found = found.ok_or_else(|| Error::NoTopic {
            topic: name.to_owned(),
        })?;
        if found.error_code == ErrorCode::UnknownTopicOrPartition as i16 {
            return Err(Error::NoTopic {
                topic: name.to_owned(),
            });
        }
        let topic = topic_of(found)?;
        self.topics.insert(name.to_owned(), topic.clone());
        Ok(topic)
    }

    /// Drops what is cached of a topic, so that the next look at it asks the cluster.
    pub fn forget_topic(&mut self, name: &str) {
        self.topics.remove(name);
    }
}

/// How long a reader or a writer bears that brokers cannot be reached.
#[derive(Clone, Copy, Debug, Default)]
pub enum Outages {
    /// As long as any operation may take: [`Options::timeout`].
    #[default]
    Bounded,
    /// However long they last. The function is called when one begins and when it is over.
    Outlived(fn(Outage<'_>)),
}

#[derive(Clone, Copy, Debug)]
pub enum Outage<'a> {
    Began(&'a Error),
    Over(Duration),
}

/// Waits between attempts: doubling pauses, one deadline.
pub(crate) struct Patience {
    env: Env,
    start: Instant,
    timeout: Duration,
    /// When it is given up.
    until: Instant,
    /// `until` is that of a command: it stays until progress is made.
    is_kept: bool,
    pause: Duration,
    outages: Outages,
    /// When the outage began that is reported and not over.
    outage: Option<Instant>,
}

impl Patience {
    pub(crate) fn new(env: &Env, timeout: Duration) -> Patience {
        let start = env.clock.now();
        Patience {
            env: env.clone(),
            start,
            timeout,
            until: start.plus(timeout),
            is_kept: false,
            pause: PAUSE_MIN,
            outages: Outages::Bounded,
            outage: None,
        }
    }

    pub(crate) fn with_outages(mut self, outages: Outages) -> Patience {
        self.outages = outages;
        self
    }

    /// Gives up at another time, which stays until progress is made.
    pub(crate) fn keep(&mut self, until: Instant) {
        (self.until, self.is_kept) = (until, true);
    }

    /// Time went by in which nothing was asked for.
    pub(crate) fn forgive(&mut self, time: Duration) {
        self.until = self.until.plus(time);
    }

    /// When the command ends that has made no progress, if there is one.
    pub(crate) fn kept(&self) -> Option<Instant> {
        self.is_kept.then_some(self.until)
    }

    /// When it is given up, if ever.
    pub(crate) fn until(&self) -> Option<Instant> {
        matches!(self.outages, Outages::Bounded).then_some(self.until)
    }

    /// True if `error` is no reason to give up, however often it comes.
    pub(crate) fn outlives(&self, error: &Error) -> bool {
        matches!(self.outages, Outages::Outlived(_)) && error.is_outage()
    }

    /// Pauses, or gives up with `error` as the reason.
    pub(crate) fn pause(&mut self, what: &str, error: Error) -> Result<(), Error> {
        let now = self.env.clock.now();
        if let (Outages::Outlived(report), true) = (self.outages, error.is_outage()) {
            // A connection that is lost and at once made again is not worth a word.
            if self.outage.is_none() && now.since(self.start) >= OUTAGE_REPORTED_AFTER {
                self.outage = Some(self.start);
                report(Outage::Began(&error));
            }
        } else if now.plus(self.pause) >= self.until {
            return Err(Error::TimedOut {
                what: what.to_owned(),
                after: self.timeout,
                last: Some(Box::new(error)),
            });
        }
        // Half of the pause is chance, so that clients of a broker that came back do not knock in step.
        let half = self.pause / 2;
        let extra = Duration::from_nanos(self.env.rng.next_u64() % (half.as_nanos() as u64 + 1));
        self.env.threads.bell().wait(Some(now.plus(half + extra)));
        self.pause = (self.pause * 2).min(PAUSE_MAX);
        Ok(())
    }

    /// Something new is waited for, after a time in which nothing was.
    pub(crate) fn begin(&mut self) {
        self.start = self.env.clock.now();
        self.pause = PAUSE_MIN;
        if !self.is_kept {
            self.until = self.start.plus(self.timeout);
        }
    }

    /// Progress was made: the deadline starts anew.
    pub(crate) fn reset(&mut self) {
        let now = self.env.clock.now();
        if let (Outages::Outlived(report), Some(began)) = (self.outages, self.outage.take()) {
            report(Outage::Over(now.since(began)));
        }
        self.is_kept = false;
        self.begin();
    }
}

fn topic_of(found: &MetadataResponseTopic) -> Result<Topic, Error> {
    let name = found.name.clone().unwrap_or_default();
    // A leader that is missing is told per partition; the topic as a whole is still known.
    if found.error_code != ErrorCode::LeaderNotAvailable as i16 || found.partitions.is_empty() {
        Error::check(found.error_code, || format!("topic {name}"), None)?;
    }
    let partition = |p: &metadata_response::MetadataResponsePartition| Partition {
        index: p.partition_index,
        leader: Some(p.leader_id).filter(|id| *id >= 0),
        leader_epoch: p.leader_epoch,
        replicas: p.replica_nodes.clone(),
        isr: p.isr_nodes.clone(),
        offline: p.offline_replicas.clone(),
    };
    let mut partitions: Vec<Partition> = found.partitions.iter().map(partition).collect();
    partitions.sort_by_key(|partition| partition.index);
    let gapless = partitions
        .iter()
        .enumerate()
        .all(|(at, partition)| usize::try_from(partition.index) == Ok(at));
    if !gapless || partitions.is_empty() {
        return Err(Error::Refused {
            what: format!("topic {name}"),
            code: ErrorCode::LeaderNotAvailable,
            message: None,
        });
    }
    Ok(Topic {
        name,
        id: found.topic_id,
        is_internal: found.is_internal,
        partitions,
    })
}

pub(crate) fn host_port(host: &str, port: i32) -> String {
    if host.contains(':') {
        format!("[{host}]:{port}")
    } else {
        format!("{host}:{port}")
    }
}

/// Kafka's port, where an address names none.
const PORT_DEFAULT: i32 = 9092;

/// True of a socket in the file system. All brokers are asked by way of the node that listens there: what others alone can do, it refuses.
fn is_path(address: &str) -> bool {
    address.contains('/')
}

/// `host:port` of an address as people write it: perhaps with a scheme, perhaps without a port. A path is one already.
fn complete_address(text: &str, has_login: bool) -> Result<String, Error> {
    if is_path(text) && !text.contains(':') {
        return Ok(text.to_owned());
    }
    let bad = || Error::Address {
        address: text.to_owned(),
    };
    let address = match text.split_once("://") {
        Some((scheme, address)) => match scheme.to_ascii_uppercase().as_str() {
            "PLAINTEXT" | "KAFKA" => address.trim_end_matches('/'),
            "SASL_PLAINTEXT" if has_login => address.trim_end_matches('/'),
            "SASL_PLAINTEXT" => {
                return Err(Error::LoginNeeded {
                    address: text.to_owned(),
                    mechanisms: Vec::new(),
                });
            }
            protocol @ ("SSL" | "SASL_SSL") => {
                return Err(Error::Protocol {
                    address: text.to_owned(),
                    protocol: protocol.to_owned(),
                });
            }
            _ => return Err(bad()),
        },
        None => text,
    };
    let (host, port) = match address.rsplit_once(':') {
        // An IPv6 address alone.
        Some(_) if address.parse::<std::net::Ipv6Addr>().is_ok() => (address, PORT_DEFAULT),
        Some(_) if address.ends_with(']') => (address, PORT_DEFAULT),
        Some((host, port)) => (host, port.parse::<u16>().map_err(|_| bad())?.into()),
        None => (address, PORT_DEFAULT),
    };
    let host = host
        .strip_prefix('[')
        .and_then(|host| host.strip_suffix(']'))
        .unwrap_or(host);
    // A number alone is a port whose host was forgotten.
    if host.is_empty() || host.bytes().all(|byte| byte.is_ascii_digit()) || host.contains('/') {
        return Err(bad());
    }
    Ok(host_port(host, port))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_may_have_a_scheme_and_lack_a_port() {
        for (text, whole) in [
            ("localhost:9093", "localhost:9093"),
            ("127.0.0.1:1", "127.0.0.1:1"),
            ("[::1]:9093", "[::1]:9093"),
            ("localhost", "localhost:9092"),
            ("[::1]", "[::1]:9092"),
            ("::1", "[::1]:9092"),
            ("PLAINTEXT://kafka:9093", "kafka:9093"),
            ("plaintext://kafka", "kafka:9092"),
            ("kafka://kafka:1/", "kafka:1"),
            ("data/esker.sock", "data/esker.sock"),
        ] {
            assert_eq!(complete_address(text, false).unwrap(), whole, "{text}");
        }
        for bad in [
            "",
            ":9092",
            "9092",
            "localhost:",
            "localhost:99999",
            "localhost:x",
            "http://localhost:9092",
            "host/path:1",
        ] {
            assert!(
                matches!(complete_address(bad, false), Err(Error::Address { .. })),
                "{bad}"
            );
        }
        let error = complete_address("SASL_SSL://h:1", true).unwrap_err();
        assert!(error.to_string().contains("not SASL_SSL; TLS"), "{error}");
        let with_login = |has_login| complete_address("SASL_PLAINTEXT://h", has_login);
        assert_eq!(with_login(true).unwrap(), "h:9092");
        assert!(matches!(with_login(false), Err(Error::LoginNeeded { .. })));
    }

    #[test]
    fn addresses_of_ipv6_brokers_are_put_into_brackets() {
        assert_eq!(host_port("::1", 9092), "[::1]:9092");
        assert_eq!(host_port("kafka.example", 9092), "kafka.example:9092");
    }

    #[test]
    fn partitions_are_sorted_and_may_not_have_gaps() {
        let partition = |partition_index| metadata_response::MetadataResponsePartition {
            partition_index,
            leader_id: -1,
            ..Default::default()
        };
        let mut found = MetadataResponseTopic {
            name: Some("t".into()),
            ..Default::default()
        };
        found.partitions = vec![partition(1), partition(0)];
        let topic = topic_of(&found).unwrap();
        assert_eq!(
            topic.partitions.iter().map(|p| p.index).collect::<Vec<_>>(),
            [0, 1]
        );
        assert!(matches!(
            topic.leader(1),
            Err(Error::NoLeader { partition: 1, .. })
        ));
        assert!(matches!(
            topic.leader(2),
            Err(Error::NoPartition { count: 2, .. })
        ));
        assert!(matches!(topic.leader(-1), Err(Error::NoPartition { .. })));
        found.partitions.push(partition(3));
        assert!(topic_of(&found).unwrap_err().is_retriable());
    }
}
