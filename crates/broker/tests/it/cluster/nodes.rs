//! Three brokers on machines of their own, which keep the metadata together, and a client that asks them one request at a time.

use std::collections::BTreeMap;
use std::io::IoSlice;
use std::path::{Path, PathBuf};
use std::time::Duration;

use broker::{Broker, Held, InMemory};
use bytes::Bytes;
use env::Poller;
use env::disk::Open;
use env::sim::{Faults, HostId, Link, Machine, Machines, Passage, SimConn, Site};
use model::{Instant, Timestamp};
use wire::frame::{decode_response, encode_request};
use wire::messages::create_topics_request::{
    CreatableReplicaAssignment, CreatableTopic, CreatableTopicConfig,
};
use wire::messages::describe_quorum_request;
use wire::messages::metadata_request::MetadataRequestTopic;
use wire::messages::produce_request::{PartitionProduceData, TopicProduceData};
use wire::messages::{
    CreateTopicsRequest, DescribeQuorumRequest, FindCoordinatorRequest, MetadataRequest,
    MetadataResponse, ProduceRequest, ProduceResponse,
};
use wire::records::BatchBuilder;
use wire::{ErrorCode, Reader, Records, Request};

/// The file with the secret of the cluster, and what is in it.
const SECRET: &str = "/etc/esker/cluster.secret";
/// For tests that play a node from outside, without proof.
pub(super) const PLAYABLE: (&str, &str) = ("esker.cluster.insecure", "true");
const SECRET_TEXT: &[u8] = b"c2ltdWxhdGVkIG1hY2hpbmVzIHRydXN0IGVhY2ggb3RoZXI=\n";
const PORT: u16 = 9092;
/// An answer that is not there by then does not come.
const PATIENCE: Duration = Duration::from_secs(10);
const PAUSE: Duration = Duration::from_millis(50);
const TRIES_MAX: usize = 400;

/// Number of a node, from 1.
pub(super) type Node = u8;
pub(super) const ALL: [Node; 3] = [1, 2, 3];

pub(super) struct Nodes {
    machines: Machines,
    brokers: [Option<Broker>; 3],
    /// Of each node, over those that every test has.
    given: &'static [(&'static str, &'static str)],
    more: More,
    /// Of the machine of node 1; nobody knows that of the others.
    memory_bytes: u64,
}

/// Settings of a node beside those that all have.
type More = fn(Node) -> Vec<(&'static str, String)>;

impl Nodes {
    /// Starts all of them and waits until each counts three.
    pub(super) fn start(seed: u64) -> Nodes {
        Nodes::start_with(seed, &[])
    }

    /// Likewise, with settings of the test.
    pub(super) fn start_with(seed: u64, given: &'static [(&'static str, &'static str)]) -> Nodes {
        Nodes::start_all(seed, given, |_| Vec::new(), 0)
    }

    /// Likewise, with so much memory on the machine of node 1.
    pub(super) fn start_within(
        seed: u64,
        given: &'static [(&'static str, &'static str)],
        memory_bytes: u64,
    ) -> Nodes {
        Nodes::start_all(seed, given, |_| Vec::new(), memory_bytes)
    }

    /// Likewise, with settings of each node.
    pub(super) fn start_each(seed: u64, more: More) -> Nodes {
        Nodes::start_all(seed, &[], more, 0)
    }

    fn start_all(
        seed: u64,
        given: &'static [(&'static str, &'static str)],
        more: More,
        memory_bytes: u64,
    ) -> Nodes {
        let nodes = Nodes::begin_all(seed, given, more, memory_bytes);
        for node in ALL {
            nodes.until(|nodes| Some(nodes.metadata(node)?.brokers.len() == 3));
        }
        nodes
    }

    /// Starts all of them and waits for nothing.
    pub(super) fn begin(seed: u64) -> Nodes {
        Nodes::begin_all(seed, &[], |_| Vec::new(), 0)
    }

    fn begin_all(
        seed: u64,
        given: &'static [(&'static str, &'static str)],
        more: More,
        memory_bytes: u64,
    ) -> Nodes {
        let mut nodes = Nodes {
            more,
            memory_bytes,
            machines: Machines::new(seed, 3, &Faults::default()),
            brokers: [None, None, None],
            given,
        };
        for node in ALL {
            let machine = nodes.machines.get(HostId(node));
            machine.install(Path::new(SECRET), SECRET_TEXT);
            nodes.start_one(node);
        }
        nodes
    }

    /// The cluster that a node is of.
    pub(super) fn cluster_id(&self, node: Node) -> Option<String> {
        let broker = self.brokers[usize::from(node) - 1].as_ref()?;
        broker.cluster_id().map(str::to_owned)
    }

    /// The brokers that a node knows to be fenced.
    pub(super) fn fenced(&self, node: Node) -> Vec<i32> {
        let broker = self.brokers[usize::from(node) - 1].as_ref();
        let image = broker.expect("it runs").image();
        let fenced = image.brokers().filter(|broker| broker.is_fenced);
        fenced.map(|broker| broker.id.0).collect()
    }

    /// The epoch in which a node is the active controller.
    pub(super) fn leadership(&self, node: Node) -> Option<model::LeaderEpoch> {
        self.brokers[usize::from(node) - 1].as_ref()?.leadership()
    }

    fn settings(&self, node: Node) -> config::Broker {
        let address = |node| self.machines.address(HostId(node), PORT);
        let voters = ALL.map(|node| format!("{node}@{}", address(node)));
        let pairs = [
            ("node.id", node.to_string()),
            ("listeners", format!("PLAINTEXT://{}", address(node))),
            ("controller.quorum.voters", voters.join(",")),
            ("esker.cluster.secret.file", SECRET.to_owned()),
            ("log.dirs", "/data".to_owned()),
            ("num.network.threads", "2".to_owned()),
            ("offsets.topic.num.partitions", "6".to_owned()),
            ("transaction.state.log.num.partitions", "6".to_owned()),
            ("esker.journal.piece.bytes", "1048576".to_owned()),
            ("esker.journal.bytes", "2097152".to_owned()),
            // Many tests go on with one replica.
            ("min.insync.replicas", "1".to_owned()),
        ];
        let mut settings = config::Settings::default();
        let given = self.given.iter();
        let given = given.map(|(name, value)| (*name, (*value).to_owned()));
        let all = pairs.into_iter().chain(given).chain((self.more)(node));
        // A test takes a setting back by giving none.
        let last: BTreeMap<&str, String> = all.collect();
        for (name, value) in last.iter().filter(|(_, value)| !value.is_empty()) {
            settings.put(name, value).expect("a known setting");
        }
        let machine = config::Machine {
            cores: 2,
            memory_bytes: if node == 1 { self.memory_bytes } else { 0 },
            descriptors: 20_000,
        };
        config::Broker::new(settings, machine).expect("settings that fit each other")
    }

    /// The settings of later starts.
    pub(super) fn settle(&mut self, more: More) {
        self.more = more;
    }

    pub(super) fn start_one(&mut self, node: Node) {
        self.try_start(node).expect("a start");
    }

    /// The error says why it does not start.
    pub(super) fn try_start(&mut self, node: Node) -> Result<(), String> {
        let env = self.machines.get(HostId(node)).env();
        let broker = Broker::start(&env, self.settings(node)).map_err(|error| error.to_string())?;
        self.brokers[usize::from(node) - 1] = Some(broker);
        Ok(())
    }

    /// True if the process of a node runs.
    pub(super) fn runs(&self, node: Node) -> bool {
        self.brokers[usize::from(node) - 1].is_some()
            && self.machines.get(HostId(node)).workers_count() > 0
    }

    /// The process ends at once; what is durable stays.
    pub(super) fn kill(&mut self, node: Node) {
        self.machines.get(HostId(node)).kill();
        self.brokers[usize::from(node) - 1] = None;
    }

    /// The process has ended but for its listener, which goes, and whatever waits there, with what this returns.
    pub(super) fn kill_but_for_listener(&mut self, node: Node) -> Box<dyn Poller> {
        self.kill(node);
        let net = self.machines.get(HostId(node)).env().net;
        let mut poller = net.poller().expect("a poller");
        let address = self.machines.address(HostId(node), PORT);
        (poller.listen(&address.to_string())).expect("nobody listens there");
        poller
    }

    /// Asks the process to end, and waits until it has; how long that took.
    pub(super) fn stop(&mut self, node: Node) -> Duration {
        let began = self.machines.now();
        let broker = self.brokers[usize::from(node) - 1].take().expect("it runs");
        broker.stop();
        let has_gone = broker.remains();
        drop(broker);
        let is_over = self.machines.run_until(PATIENCE, |_| !has_gone());
        assert!(is_over, "it does not end");
        self.machines.now().since(began)
    }

    /// Removes a file from the disk of a node that does not run.
    pub(super) fn remove_file(&self, node: Node, name: &str) {
        let env = self.machines.get(HostId(node)).env();
        let path = Path::new("/data").join(name);
        env.disk.remove_file(&path).expect("it is there");
    }

    /// Removes a directory from the disk of a node that does not run.
    pub(super) fn remove_dir(&self, node: Node, name: &str) {
        let disk = self.machines.get(HostId(node)).env().disk;
        let removed = disk.remove_dir_all(&Path::new("/data").join(name));
        let synced = removed.and_then(|()| disk.sync_dir(Path::new("/data")));
        synced.expect("it is there");
    }

    /// Puts an empty directory in the place of one on the disk of a node that does not run.
    pub(super) fn replace_dir(&self, node: Node, path: &str) {
        let (disk, path) = (self.machines.get(HostId(node)).env().disk, Path::new(path));
        let replaced = (disk.remove_dir_all(path))
            .and_then(|()| disk.create_dir_all(path))
            .and_then(|()| disk.sync_dir(Path::new("/")));
        replaced.expect("it is there");
    }

    /// A file in the place of a directory, which cannot be opened any more, on the disk of a node that does not run.
    pub(super) fn break_dir(&self, node: Node, path: &str) {
        let (disk, path) = (self.machines.get(HostId(node)).env().disk, Path::new(path));
        let broken = (disk.remove_dir_all(path))
            .and_then(|()| disk.open(path, Open::Truncate))
            .and_then(|_| disk.sync_dir(Path::new("/")));
        broken.expect("it is there");
    }

    /// The files below a path on the disk of a node that does not run.
    pub(super) fn files(&self, node: Node, path: &str) -> Vec<(PathBuf, Vec<u8>)> {
        let disk = self.machines.get(HostId(node)).env().disk;
        let (mut dirs, mut files) = (vec![PathBuf::from(path)], Vec::new());
        while let Some(dir) = dirs.pop() {
            for entry in disk.read_dir(&dir).expect("it is there") {
                let path = dir.join(&entry.name);
                if entry.is_dir {
                    dirs.push(path);
                    continue;
                }
                let file = disk.open(&path, Open::Read).expect("it is there");
                let mut bytes = vec![0; usize::try_from(entry.len).expect("a small file")];
                file.read_exact_at(&mut bytes, 0).expect("all of it");
                files.push((path, bytes));
            }
        }
        files
    }

    /// Puts these files into the place of all that is below a path.
    pub(super) fn put_back(&self, node: Node, path: &str, files: &[(PathBuf, Vec<u8>)]) {
        self.replace_dir(node, path);
        let disk = self.machines.get(HostId(node)).env().disk;
        for (path, bytes) in files {
            let parent = path.parent().expect("it is in a directory");
            disk.create_dir_all(parent).expect("a directory");
            let file = disk.open(path, Open::Truncate).expect("a file");
            file.write_at(&[IoSlice::new(bytes)], 0).expect("room");
            file.sync_data().expect("a disk that works");
        }
        disk.sync_volume(Path::new(path))
            .expect("a disk that works");
    }

    pub(super) fn machine(&self, node: Node) -> &Machine {
        self.machines.get(HostId(node))
    }

    /// Writes a record to the first partition of a topic, where `node` leads it, and waits until it is committed.
    pub(super) fn produce(&self, node: Node, topic: &str, value: &str) {
        let code = |answer: &ProduceResponse| answer.responses[0].partition_responses[0].error_code;
        self.patiently(node, &produced(topic, 0, value), 9, code);
    }

    /// Writes a record to a partition, and waits until it is committed under whoever leads it.
    pub(super) fn produce_to(&self, asked: Node, topic: &str, index: i32, value: &str) {
        self.until(|nodes| {
            let leader = *nodes
                .leaders(asked, topic)?
                .get(usize::try_from(index).ok()?)?;
            let leader = Node::try_from(leader).ok().filter(|node| 0 < *node)?;
            let answer = nodes.ask(leader, &produced(topic, index, value), 9)?;
            Some(answer.responses[0].partition_responses[0].error_code == 0)
        });
    }

    /// The controllers that a node knows, each with the life that it registered in.
    pub(super) fn controllers(&self, node: Node) -> Vec<(i32, wire::Uuid)> {
        let broker = self.brokers[usize::from(node) - 1].as_ref();
        let image = broker.expect("it runs").image();
        let known = image.controllers();
        known.map(|known| (known.id.0, known.incarnation)).collect()
    }

    /// Where the log of the first partition of a topic starts and ends on a node.
    pub(super) fn ends(&self, node: Node, topic: &str) -> Option<(i64, i64)> {
        let broker = self.brokers[usize::from(node) - 1].as_ref()?;
        let replicas = broker.replicas().into_iter();
        let mut here = replicas.filter(|of| &*of.name == topic && of.partition == 0);
        let bounds = here.next()?.bounds;
        Some((bounds.log_start.0, bounds.log_end.0))
    }

    /// The ISR of the first partition of a topic, as a node has it.
    pub(super) fn isr(&self, asked: Node, topic: &str) -> Option<Vec<i32>> {
        self.isrs(asked, topic)?.into_iter().next()
    }

    /// The ISRs of a topic's partitions, as a node has them.
    pub(super) fn isrs(&self, asked: Node, topic: &str) -> Option<Vec<Vec<i32>>> {
        let told = self.metadata(asked)?;
        let mut topics = told.topics.into_iter();
        let topic = topics.find(|of| of.name.as_deref() == Some(topic))?;
        let mut partitions = topic.partitions;
        partitions.sort_by_key(|of| of.partition_index);
        Some(partitions.into_iter().map(|of| of.isr_nodes).collect())
    }

    /// Directories of partitions of a topic on the disk of a node, but for those that are on their way out.
    pub(super) fn dirs_of(&self, node: Node, topic: &str) -> Vec<String> {
        self.dirs_in("/data", node, topic)
    }

    /// The same, in one of several log directories.
    pub(super) fn dirs_in(&self, path: &str, node: Node, topic: &str) -> Vec<String> {
        let env = self.machines.get(HostId(node)).env();
        let entries = env.disk.read_dir(Path::new(path)).expect("it is there");
        let is_of = |name: &str| {
            let number = name
                .strip_prefix(topic)
                .and_then(|rest| rest.strip_prefix('-'));
            number.is_some_and(|number| number.parse::<i32>().is_ok())
        };
        let names = entries.into_iter().map(|entry| entry.name);
        let mut names: Vec<String> = names.filter(|name| is_of(name)).collect();
        names.sort();
        names
    }

    /// Directories that were set aside for an operator.
    pub(super) fn aside_of(&self, node: Node, topic: &str) -> Vec<String> {
        let disk = self.machines.get(HostId(node)).env().disk;
        let entries = disk.read_dir(Path::new("/data")).expect("it is there");
        let names = entries.into_iter().map(|entry| entry.name);
        let is_aside = |name: &String| name.starts_with(topic) && name.ends_with("-stray");
        names.filter(is_aside).collect()
    }

    /// What a broker counts as held in memory: for its clients, and of batches.
    pub(super) fn memory(&self, node: Node) -> (Held, InMemory) {
        let broker = self.brokers[usize::from(node) - 1].as_ref();
        let broker = broker.expect("it runs");
        (broker.held(), broker.in_memory())
    }

    pub(super) fn now(&self) -> Instant {
        self.machines.now()
    }

    pub(super) fn pass(&self, time: Duration) {
        self.machines.run_until(time, |_| false);
    }

    /// Asks until the answer is yes; none is "ask again".
    pub(super) fn until(&self, ask: impl Fn(&Nodes) -> Option<bool>) {
        for _ in 0..TRIES_MAX {
            if ask(self) == Some(true) {
                return;
            }
            self.pass(PAUSE);
        }
        panic!("it does not come");
    }

    /// Asks until the answer is yes. It has to come within so much time of the world.
    pub(super) fn within(&self, time: Duration, ask: impl Fn(&Nodes) -> Option<bool>) {
        let began = self.machines.now();
        self.until(ask);
        let took = self.machines.now().since(began);
        assert!(took <= time, "it took {took:?}");
    }

    /// All that goes from any node to another one travels longer by `delay`.
    pub(super) fn delay(&self, delay: Duration) {
        let link = Link {
            delay,
            ..Link::default()
        };
        for from in ALL {
            for to in ALL.into_iter().filter(|to| *to != from) {
                let [from, to] = [from, to].map(|node| Site::Host(HostId(node)));
                self.machines.set_link(from, to, link);
            }
        }
    }

    /// All that goes from one node to another one travels longer by `delay`.
    pub(super) fn slow_down(&self, from: Node, to: Node, delay: Duration) {
        let link = Link {
            delay,
            ..Link::default()
        };
        let [from, to] = [from, to].map(|node| Site::Host(HostId(node)));
        self.machines.set_link(from, to, link);
    }

    /// Nothing passes between two nodes.
    pub(super) fn part(&self, one: Node, other: Node) {
        let sites = [one, other].map(|node| Site::Host(HostId(node)));
        self.machines.cut(sites[0], sites[1], Passage::Dropped);
    }

    /// Nothing passes between a node and the others; clients reach all of them.
    pub(super) fn cut_off(&self, node: Node) {
        for other in ALL.into_iter().filter(|other| *other != node) {
            let sites = [node, other].map(|node| Site::Host(HostId(node)));
            self.machines.cut(sites[0], sites[1], Passage::Dropped);
        }
    }

    pub(super) fn mend(&self) {
        self.machines.mend_links();
    }

    /// One request on a connection of its own; none where the node gives no answer.
    pub(super) fn ask<R: Request>(
        &self,
        node: Node,
        request: &R,
        version: i16,
    ) -> Option<R::Response> {
        let address = self.machines.address(HostId(node), PORT);
        let conn = self.machines.outside().connect(address).ok()?;
        let answer = self.exchange(&conn, &frame(request, version))?;
        Some(decoded::<R>(answer, version))
    }

    /// Sends a request whose answer is waited for later.
    pub(super) fn send<R: Request>(&self, node: Node, request: &R, version: i16) -> SimConn {
        let address = self.machines.address(HostId(node), PORT);
        let conn = self.machines.outside().connect(address);
        let conn = conn.expect("it takes connections");
        let frame = frame(request, version);
        let mut left = &frame[..];
        let is_sent = self.machines.run_until(PATIENCE, |_| {
            left = &left[conn.send(left).unwrap_or(0)..];
            left.is_empty()
        });
        assert!(is_sent, "it takes no bytes");
        conn
    }

    /// The answer to what was sent.
    pub(super) fn receive<R: Request>(&self, conn: SimConn, version: i16) -> Option<R::Response> {
        let answer = self.exchange(&conn, &[])?;
        Some(decoded::<R>(answer, version))
    }

    /// A client that sends all of `requests` on one connection, whatever is answered.
    pub(super) fn pipe<R: Request>(&self, node: Node, requests: &[R], version: i16) -> Pipe {
        let address = self.machines.address(HostId(node), PORT);
        let conn = self.machines.outside().connect(address);
        let unsent = requests.iter().flat_map(|request| frame(request, version));
        Pipe {
            conn: conn.expect("it takes connections"),
            unsent: unsent.collect(),
            sent: 0,
            got: Vec::new(),
            answered: 0,
            wanted: requests.len(),
        }
    }

    /// Time passes, until `is_over` says so; false if it never did.
    pub(super) fn run(&self, time: Duration, mut is_over: impl FnMut() -> bool) -> bool {
        self.machines.run_until(time, |_| is_over())
    }

    /// Makes a topic of one partition with these replicas, the first of which leads when all nodes know it.
    pub(super) fn create_on(&self, topic: &str, replicas: &[Node], configs: &[(&str, &str)]) {
        let config = |(name, value): &(&str, &str)| CreatableTopicConfig {
            name: (*name).to_owned(),
            value: Some((*value).to_owned()),
        };
        let request = CreateTopicsRequest {
            topics: vec![CreatableTopic {
                name: topic.to_owned(),
                num_partitions: -1,
                replication_factor: -1,
                assignments: vec![CreatableReplicaAssignment {
                    partition_index: 0,
                    broker_ids: replicas.iter().map(|node| i32::from(*node)).collect(),
                }],
                configs: configs.iter().map(config).collect(),
            }],
            timeout_ms: 10_000,
            ..Default::default()
        };
        self.patiently(1, &request, 7, |answer| answer.topics[0].error_code);
        for node in ALL {
            self.until(|nodes| Some(nodes.leaders(node, topic)? == [i32::from(replicas[0])]));
        }
    }

    /// Asks again while the answer is of a kind that clients ask again after.
    pub(super) fn patiently<R: Request>(
        &self,
        node: Node,
        request: &R,
        version: i16,
        code: impl Fn(&R::Response) -> i16,
    ) -> R::Response {
        let mut last = None;
        for _ in 0..TRIES_MAX {
            if let Some(answer) = self.ask(node, request, version) {
                let code = ErrorCode::try_from(code(&answer)).expect("a code");
                if code == ErrorCode::None {
                    return answer;
                }
                assert!(code.is_retriable(), "{code:?}");
                last = Some(code);
            }
            self.pass(PAUSE);
        }
        panic!("node {node} says {last:?} all the time");
    }

    fn exchange(&self, conn: &SimConn, frame: &[u8]) -> Option<Bytes> {
        let (mut left, mut got, mut is_over) = (frame, Vec::new(), false);
        self.machines.run_until(PATIENCE, |_| {
            if !left.is_empty() {
                match conn.send(left) {
                    Ok(sent) => left = &left[sent..],
                    Err(error) => is_over |= error.kind() != std::io::ErrorKind::WouldBlock,
                }
            }
            let mut buf = [0; 4096];
            loop {
                match conn.recv(&mut buf) {
                    Ok(0) => is_over = true,
                    Ok(read) => {
                        got.extend_from_slice(&buf[..read]);
                        continue;
                    }
                    Err(error) => is_over |= error.kind() != std::io::ErrorKind::WouldBlock,
                }
                break;
            }
            is_over || whole(&got).is_some()
        });
        whole(&got)
    }

    pub(super) fn metadata(&self, node: Node) -> Option<MetadataResponse> {
        let request = MetadataRequest {
            topics: None,
            ..Default::default()
        };
        self.ask(node, &request, 12)
    }

    /// Leaders of the partitions of a topic, as one node knows them.
    pub(super) fn leaders(&self, node: Node, topic: &str) -> Option<Vec<i32>> {
        let request = MetadataRequest {
            topics: Some(vec![MetadataRequestTopic {
                name: Some(topic.to_owned()),
                ..Default::default()
            }]),
            ..Default::default()
        };
        let response = self.ask(node, &request, 12)?;
        let topic = response.topics.into_iter().next()?;
        let mut partitions = topic.partitions;
        partitions.sort_by_key(|partition| partition.partition_index);
        let leaders = partitions.iter().map(|partition| partition.leader_id);
        (topic.error_code == 0).then(|| leaders.collect())
    }

    /// The node that coordinates an id, as `asked` knows; 0 is for groups, 1 for transactions.
    pub(super) fn coordinator(&self, asked: Node, key_type: i8, id: &str) -> Node {
        let request = FindCoordinatorRequest {
            key_type,
            coordinator_keys: vec![id.to_owned()],
            ..Default::default()
        };
        let found = self.patiently(asked, &request, 6, |answer| {
            answer.coordinators[0].error_code
        });
        Node::try_from(found.coordinators[0].node_id).expect("one of three")
    }
}

/// Requests on their way without waiting for the answers to those before.
pub(super) struct Pipe {
    conn: SimConn,
    unsent: Vec<u8>,
    sent: usize,
    got: Vec<u8>,
    answered: usize,
    wanted: usize,
}

impl Pipe {
    /// Sends what the connection takes, and counts the answers that came.
    pub(super) fn turn(&mut self) {
        self.push();
        self.pull();
    }

    /// Sends what the connection takes, and reads nothing.
    pub(super) fn push(&mut self) {
        while self.sent < self.unsent.len() {
            match self.conn.send(&self.unsent[self.sent..]) {
                Ok(0) | Err(_) => break,
                Ok(sent) => self.sent += sent,
            }
        }
    }

    /// Counts the answers that came, and sends nothing.
    pub(super) fn pull(&mut self) {
        let mut buf = [0; 4096];
        while let Ok(read) = self.conn.recv(&mut buf)
            && 0 < read
        {
            self.got.extend_from_slice(&buf[..read]);
        }
        let mut at = 0;
        while let Some(answer) = whole(&self.got[at..]) {
            at += 4 + answer.len();
            self.answered += 1;
        }
        self.got.drain(..at);
    }

    pub(super) fn answered(&self) -> usize {
        self.answered
    }

    pub(super) fn is_over(&self) -> bool {
        self.answered == self.wanted
    }
}

pub(super) fn quorum_of_metadata() -> DescribeQuorumRequest {
    DescribeQuorumRequest {
        topics: vec![describe_quorum_request::TopicData {
            topic_name: "__cluster_metadata".to_owned(),
            partitions: vec![Default::default()],
        }],
    }
}

fn frame<R: Request>(request: &R, version: i16) -> Bytes {
    let frame = encode_request(request, version, 1, Some("test"));
    let frame = frame.and_then(wire::Encoded::into_bytes);
    frame.expect("a frame")
}

fn decoded<R: Request>(answer: Bytes, version: i16) -> R::Response {
    let decoded = decode_response::<R>(&mut Reader::new(answer), version);
    decoded.expect("an answer to that").1
}

/// The first frame, without its length, once it is there.
fn whole(got: &[u8]) -> Option<Bytes> {
    let length = i32::from_be_bytes(*got.first_chunk::<4>()?);
    let end = 4 + usize::try_from(length).ok()?;
    got.get(4..end).map(Bytes::copy_from_slice)
}

/// A record for a partition, with all acks.
pub(super) fn produced(topic: &str, index: i32, value: &str) -> ProduceRequest {
    let mut builder = BatchBuilder::new();
    let time = Timestamp(1_700_000_000_000);
    builder.push(time, None, Some(value.as_bytes()), &[]);
    ProduceRequest {
        acks: -1,
        timeout_ms: 5_000,
        topic_data: vec![TopicProduceData {
            name: topic.to_owned(),
            partition_data: vec![PartitionProduceData {
                index,
                records: Some(Records::Bytes(builder.build().to_bytes())),
            }],
            ..Default::default()
        }],
        ..Default::default()
    }
}
