//! A shard for tests: requests are put before it by hand, and what waits and what is kept can be looked at.
//!
//! It shares topics and directories with a broker on a simulated machine that is never given a turn.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use env::ConnId;
use env::sim::{Faults, Machine, Rot};
use env::{Turn, Worker};
use model::{Ticket, Timestamp};
use partition::{News, Piece};
use wire::Message;
use wire::frame::encode_request;
use wire::messages::CreateTopicsRequest;
use wire::messages::create_topics_request::CreatableTopic;
use wire::records::BatchBuilder;

use super::shard::Shard;
use crate::Broker;
use security::Principal;
use security::authorize::{Kind, Operation, Rules};
use wire::metadata::{AccessControlEntryRecord, RemoveAccessControlEntryRecord};

use crate::asker::{Asker, Authority};
use crate::mail::inboxes::{Post, Redeemed, ShardId};
use crate::net::connection::Connection;
use crate::passwords::PasswordChecker;
use crate::reads::{ReaderLoop, ReaderPool};

pub(crate) struct Bench {
    pub(crate) shard: Shard,
    _broker: Broker,
    machine: Machine,
    settings: config::Settings,
}

const CONN: ConnId = ConnId(1);

impl Bench {
    pub(crate) fn new() -> Bench {
        Bench::with(&[])
    }

    /// A broker that is set up otherwise.
    pub(crate) fn with(more: &[(&str, &str)]) -> Bench {
        let machine = Machine::new(1, Faults::default());
        Bench::on(machine, Bench::settings(more))
    }

    fn settings(more: &[(&str, &str)]) -> config::Settings {
        let mut settings = config::Settings::default();
        let own = [
            ("node.id", "1"),
            ("listeners", "PLAINTEXT://127.0.0.1:9092"),
            ("log.dirs", "/data"),
            ("num.network.threads", "1"),
            ("auto.create.topics.enable", "false"),
            ("esker.journal.piece.bytes", "4194304"),
            ("esker.journal.bytes", "8388608"),
        ];
        for (name, value) in own.iter().chain(more) {
            settings.put(name, value).expect("a known setting");
        }
        settings
    }

    /// Likewise, on a machine that has a file already.
    pub(crate) fn with_file(path: &str, bytes: &[u8], more: &[(&str, &str)]) -> Bench {
        let machine = Machine::new(1, Faults::default());
        machine.install(Path::new(path), bytes);
        Bench::on(machine, Bench::settings(more))
    }

    /// The identity of the client.
    pub(crate) fn asker(&self) -> &Asker {
        self.shard
            .connections
            .get(CONN)
            .expect("it is open")
            .asker()
    }

    /// The broker is killed, and another one begins with its files.
    pub(crate) fn restart(self) -> Bench {
        self.again(Machine::kill)
    }

    /// The process ends by `how`; another one begins with its files.
    fn again<T>(self, how: impl FnOnce(&Machine) -> T) -> Bench {
        let Bench {
            shard,
            _broker,
            machine,
            settings,
        } = self;
        drop((shard, _broker));
        how(&machine);
        Bench::on(machine, settings)
    }

    /// The same, with a setting changed in between.
    pub(crate) fn restart_with(mut self, name: &str, value: &str) -> Bench {
        self.settings.put(name, value).expect("a known setting");
        self.restart()
    }

    /// The power goes at the `count`th operation of the disk from now on.
    pub(crate) fn crash_after(&self, count: u64) {
        let operation = self.machine.counts().disk_ops + count;
        (self.machine).faults(|faults| faults.crash_at_op = Some(operation));
    }

    /// The power is gone, if it was not yet, and comes back.
    pub(crate) fn power_cut(self) -> Bench {
        self.again(|machine| {
            machine.power_cut();
            machine.faults(|faults| faults.crash_at_op = None);
        })
    }

    fn on(machine: Machine, settings: config::Settings) -> Bench {
        let this = config::Machine {
            cores: 2,
            memory_bytes: 0,
            descriptors: 20_000,
        };
        let fitting = config::Broker::new(settings.clone(), this);
        let fitting = fitting.expect("settings that fit each other");
        let env = machine.env();
        let broker = Broker::start(&env, fitting).expect("a fresh start");
        let poller = env.net.poller().expect("a poller");
        let mut shard = Shard::new(ShardId(0), Arc::clone(&broker.shared), poller);
        let here = std::net::SocketAddr::from(([127, 0, 0, 1], 9092));
        let asker = Asker {
            authority: shard.desk.shared.catalog.authority(),
            ..Asker::anonymous(here, here)
        };
        let entrance = Arc::clone(shard.desk.shared.entrances.at(here));
        let connection = Connection::new(CONN, Arc::new(asker), entrance, shard.desk.now);
        shard.connections.insert(connection);
        Bench {
            shard,
            _broker: broker,
            machine,
            settings,
        }
    }

    /// A broker that asks its rules about everybody but `boss`, who is the client.
    pub(crate) fn guarded(more: &[(&str, &str)]) -> Bench {
        let own = [
            (
                "authorizer.class.name",
                "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
            ),
            ("super.users", "User:boss"),
            ("offsets.topic.num.partitions", "1"),
            ("transaction.state.log.num.partitions", "1"),
        ];
        let all: Vec<(&str, &str)> = own.iter().chain(more).copied().collect();
        let mut bench = Bench::with(&all);
        bench.become_user("boss");
        bench
    }

    /// The client proves another identity.
    pub(crate) fn become_user(&mut self, name: &str) {
        self.become_principal(Principal::user(name));
    }

    /// The client proves that it is another node.
    pub(crate) fn become_node(&mut self, id: i32) {
        self.become_principal(Principal::node(id));
    }

    fn become_principal(&mut self, principal: Principal) {
        let connection = self.shard.connections.get_mut(CONN);
        let asker = connection.expect("it stays open").asker_mut();
        let asker = Arc::make_mut(asker);
        asker.principal = principal;
        asker.memory = crate::asker::Memory::default();
    }

    /// The metadata come to have a rule: `alice allow Read Topic t`. A name that ends in a star is a prefix, unless it is one.
    pub(crate) fn add_rule(&mut self, text: &str) -> wire::Uuid {
        let words: Vec<&str> = text.split(' ').collect();
        let [user, permission, operation, kind, name] = words[..] else {
            panic!("{text}")
        };
        let operations = Operation::EVERY.into_iter();
        let kinds = Kind::EVERY.into_iter();
        let prefix = name.strip_suffix('*').filter(|prefix| !prefix.is_empty());
        let id = self.shard.desk.fresh_uuid();
        let rule = AccessControlEntryRecord {
            id,
            resource_type: kinds
                .filter(|one| format!("{one:?}") == kind)
                .map(|one| one as i8)
                .sum(),
            resource_name: prefix.unwrap_or(name).to_owned(),
            pattern_type: if prefix.is_some() { 4 } else { 3 },
            principal: format!("User:{user}"),
            host: "*".to_owned(),
            operation: operations
                .filter(|one| format!("{one:?}") == operation)
                .map(|one| one as i8)
                .sum(),
            permission_type: if permission == "allow" { 3 } else { 2 },
        };
        self.decide(vec![rule.into()]);
        id
    }

    pub(crate) fn remove_rule(&mut self, id: wire::Uuid) {
        let gone = RemoveAccessControlEntryRecord { id };
        self.decide(vec![gone.into()]);
    }

    /// The controller decides so, whatever it is asked.
    fn decide(&mut self, records: Vec<meta::Record>) {
        let key = self.shard.door.parked.next_key();
        let ticket = self.shard.desk.ticket(key, 0);
        let shared = Arc::clone(&self.shard.desk.shared);
        shared.metadata.change(ticket, false, |_| (records, ()));
        self.commit();
    }

    /// Asks as `user`, and returns the answer when what it rests on is durable.
    pub(crate) fn ask_as<R: wire::Request>(
        &mut self,
        user: &str,
        request: &R,
        version: i16,
    ) -> R::Response {
        self.become_user(user);
        self.put(&encoded(request, version));
        for _ in 0..8 {
            self.commit();
            if let Some(answer) = self.answer::<R>(version) {
                return answer;
            }
            self.write_decisions();
        }
        panic!("{:?} is not answered", R::KEY)
    }

    /// The client proves another identity, to a broker whose authorizer has no rules.
    pub(crate) fn become_stranger(&mut self) {
        let connection = self.shard.connections.get_mut(CONN);
        let asker = connection.expect("it stays open").asker_mut();
        let asker = Arc::make_mut(asker);
        asker.principal = Principal::user("stranger");
        asker.authority = Some(Arc::new(Authority::new(Rules::default())));
    }

    /// Requests arrive, with their lengths in front, and are handled; what is decided is written, as before a commit.
    pub(crate) fn put(&mut self, requests: &[u8]) {
        self.receive(requests);
        self.write_decisions();
    }

    /// Coordinators write what they decided, and their answers are handed on.
    pub(crate) fn write_decisions(&mut self) {
        self.shard.coordinating().write_decisions();
        self.shard.spread_answers();
    }

    /// Coordinators load and do what is due.
    pub(crate) fn turn_coordinators(&mut self) {
        self.shard.coordinating().turn();
        self.shard.spread_answers();
    }

    /// Requests arrive and are handled.
    pub(crate) fn receive(&mut self, requests: &[u8]) {
        let Shard {
            connections,
            account,
            ..
        } = &mut self.shard;
        let connection = connections.get_mut(CONN).expect("it stays open");
        connection.put(requests, account);
        self.shard.handle_frames(CONN);
    }

    /// The answer at the front, when it is there.
    pub(crate) fn answer<R: wire::Request>(&mut self, version: i16) -> Option<R::Response> {
        let answer = self.take_answer()?;
        let mut reader = wire::Reader::new(answer.slice(4..));
        let decoded = wire::frame::decode_response::<R>(&mut reader, version);
        Some(decoded.expect("an answer to that").1)
    }

    fn take_answer(&mut self) -> Option<Bytes> {
        let connection = self.shard.connections.get_mut(CONN);
        let connection = connection.expect("it stays open");
        let before = connection.unanswered_bytes();
        let answer = connection.take_answer()?;
        let after = connection.unanswered_bytes();
        // The client has it, though nothing was sent.
        self.shard.connections.taken.change(before, after);
        self.shard.connections.answers_unsent = 0;
        Some(Bytes::from(answer))
    }

    /// The answer at the front, without its header, when it is there.
    pub(crate) fn answer_body(&mut self, key: wire::ApiKey, version: i16) -> Option<Bytes> {
        let answer = self.take_answer()?;
        let mut reader = wire::Reader::new(answer.slice(4..));
        let header = key.response_header_version(version);
        let header = wire::messages::ResponseHeader::decode(&mut reader, header);
        header.expect("an answer to that");
        reader.take(reader.remaining()).ok()
    }

    /// Time passes, and timers that are due fire.
    pub(crate) fn pass_to_timers(&mut self, time: Duration) {
        self.shard.desk.now = self.shard.desk.now.plus(time);
        self.shard.hall().fire_timers();
    }

    /// The passwords that wait are checked.
    pub(crate) fn check_passwords(&mut self) {
        let shared = Arc::clone(&self.shard.desk.shared);
        let mut checker = PasswordChecker {
            passwords: Arc::clone(&shared.passwords),
            mail: Arc::clone(&shared.mail),
        };
        while checker.turn() == Turn::Again {}
        for post in shared.mail.inboxes.take_posts(self.shard.id) {
            if let Post::Redeemed(Redeemed::Verdict(ticket, verdict)) = post {
                self.shard.hall().on_verdict(ticket.key, &verdict);
            }
        }
        // What came meanwhile.
        self.shard.handle_frames(CONN);
    }

    /// The answer at the front as it is on the wire, without its length.
    pub(crate) fn answer_bytes(&mut self) -> Option<Bytes> {
        Some(self.take_answer()?.slice(4..))
    }

    pub(crate) fn is_open(&self) -> bool {
        self.shard.connections.get(CONN).is_some()
    }

    pub(crate) fn is_cut_off(&self) -> bool {
        self.shard
            .connections
            .get(CONN)
            .is_some_and(|open| open.is_closing)
    }

    /// Time passes, and those are told whose time is up.
    pub(crate) fn pass(&mut self, time: Duration) {
        self.shard.desk.now = self.shard.desk.now.plus(time);
        self.shard.hall().expire();
    }

    /// A turn waits for the disk: the clock goes on, and the time that the turn knows stays.
    pub(crate) fn wait_in_turn(&mut self, time: Duration) {
        let before = self.machine.now();
        let nanos = u64::try_from(time.as_nanos()).expect("a short wait");
        self.machine
            .faults(|faults| faults.sync_nanos = nanos..nanos + 1);
        let disk = &self.shard.desk.shared.env.disk;
        let dir = &self.shard.desk.shared.volumes.dirs()[0].path;
        disk.sync_dir(dir).expect("a working disk");
        let fast = Faults::default().sync_nanos;
        self.machine.faults(|faults| faults.sync_nanos = fast);
        assert!(time <= self.machine.now().since(before));
    }

    /// The client goes, and somebody looks who waits.
    pub(crate) fn hang_up(&mut self) {
        self.shard.close(CONN);
        self.shard.hall().expire();
    }

    /// The broker is to end, and something that was written is not durable yet.
    pub(crate) fn begin_stop(&mut self) {
        self.shard.desk.is_stopping = true;
    }

    /// The broker beside it is asked to stop.
    pub(crate) fn stop_broker(&self) {
        self._broker.stop();
    }

    /// True if all threads of the broker beside it end.
    pub(crate) fn ends(&self) -> bool {
        let ended = |machine: &Machine| machine.workers_count() == 0;
        self.machine.run_until(Duration::from_secs(10), ended)
    }

    /// The volume takes nothing more.
    pub(crate) fn fill_disk(&self) {
        let taken = self.machine.disk_taken();
        self.machine.faults(|faults| faults.disk_bytes = taken);
    }

    /// It does again.
    pub(crate) fn empty_disk(&self) {
        self.machine
            .faults(|faults| faults.disk_bytes = Faults::default().disk_bytes);
    }

    /// A byte of a file changes unseen.
    pub(crate) fn rot(&self, path: &str, position: u64) {
        let (path, bytes) = (std::path::Path::new(path), position..position + 1);
        let rotted = self.machine.rot(path, bytes, Rot::Flip { bit: 1 });
        rotted.expect("a file that is there");
    }

    /// Reads from disk for the requests that need it, and lets them go on. Returns how many pieces came.
    pub(crate) fn execute_needs(&mut self) -> usize {
        let pieces = executed(&self.shard.desk.shared.readers);
        let count = pieces.len();
        for (ticket, piece) in pieces {
            self.shard.hall().on_piece(ticket, piece);
        }
        count
    }

    /// Makes appends durable. Returns the tickets of readers that have more to read, and does not notify them.
    pub(crate) fn take_readable(&mut self) -> Vec<Ticket> {
        self.sync();
        let news = std::mem::take(&mut self.shard.desk.news).into_iter();
        let tickets = news.filter_map(|news| match news {
            News::Readable(ticket) => Some(ticket),
            _ => None,
        });
        tickets.collect()
    }

    pub(crate) fn unsent_memory(&self) -> usize {
        self.shard.connections.unsent_memory()
    }

    /// Makes appends durable, and notifies those that wait for it.
    pub(crate) fn commit(&mut self) {
        self.news_count();
    }

    /// The same, and how many were to be told.
    pub(crate) fn news_count(&mut self) -> usize {
        self.sync();
        let count = self.shard.desk.news.len();
        self.shard.spread();
        count
    }

    /// Commits what is queued, as the quorum does what that lets it; what the shard is to hear of becomes its news.
    pub(crate) fn sync(&mut self) {
        let (id, desk) = (self.shard.id, &mut self.shard.desk);
        for dir in desk.shared.volumes.dirs() {
            while dir.has_queued() {
                dir.commit(&mut desk.news);
            }
        }
        desk.shared.metadata.on_synced();
        let posts = desk.shared.mail.inboxes.take_posts(id).into_iter();
        let told = posts.filter_map(|post| match post {
            Post::Redeemed(Redeemed::News(news)) => Some(news),
            _ => None,
        });
        desk.news.extend(told);
        let inbox = desk.shared.metadata.parts.inbox;
        desk.news.retain(|news| news.inbox() != inbox);
    }

    /// The metadata come to have these records, as if a controller had written them.
    pub(crate) fn publish(&mut self, records: &[meta::Record]) {
        let shared = Arc::clone(&self.shard.desk.shared);
        let mut image = meta::Image::clone(&shared.catalog.image());
        let place = image.next_place();
        image.replay(place, records).expect("records that fit");
        let news = &mut self.shard.desk.news;
        shared.metadata.publish(&Arc::new(image), news);
        self.tell();
    }

    /// News that came without a commit reach those who wait.
    pub(crate) fn tell(&mut self) {
        self.shard.spread();
    }

    /// The client closes its connection.
    pub(crate) fn leave(&mut self) {
        self.shard.close(CONN);
    }

    pub(crate) fn create(&mut self, name: &str, num_partitions: i32) {
        let topic = CreatableTopic {
            name: name.to_owned(),
            num_partitions,
            replication_factor: 1,
            ..Default::default()
        };
        let request = CreateTopicsRequest {
            topics: vec![topic],
            timeout_ms: 1000,
            ..Default::default()
        };
        self.put(&encoded(&request, 4));
        self.commit();
    }

    pub(crate) fn partition(&mut self, topic: &str, index: i32) -> Arc<partition::Partition> {
        let topics = self.shard.desk.topics();
        let partition = topics.partition(topic, index);
        Arc::clone(partition.expect("a partition that was created"))
    }

    pub(crate) fn append(&mut self, topic: &str, value: &[u8]) {
        self.append_undurably(topic, value);
        self.commit();
    }

    pub(crate) fn append_undurably(&mut self, topic: &str, value: &[u8]) {
        let bytes = batch(value);
        let batch = wire::records::Batch::cut(&bytes, wire::records::Source::Produce).next();
        let moment = partition::Moment {
            now: self.shard.desk.now,
            wall: self.shard.desk.wall,
            stamp: &mut partition::Stamp::default(),
        };
        let batch = batch.and_then(Result::ok).expect("a whole batch");
        let appended = self
            .partition(topic, 0)
            .append(batch, partition::Acks::None, moment);
        appended.expect("it is let in");
    }

    pub(crate) fn request_bytes(&self) -> usize {
        self.shard.connections.request_bytes()
    }

    pub(crate) fn timers_count(&self) -> usize {
        self.shard.door.timers.len()
    }

    pub(crate) fn waiting_count(&self) -> usize {
        self.shard.door.parked.len()
    }
}

/// The results of all that the reader pool was asked for.
pub(crate) fn executed(pool: &Arc<ReaderPool>) -> Vec<(Ticket, Piece)> {
    let mut pieces = Vec::new();
    let mut reads = ReaderLoop {
        pool: Arc::clone(pool),
        deliver: |ticket, piece| pieces.push((ticket, piece)),
    };
    reads.turn();
    pieces
}

/// A batch of one record, of the present of the machine.
pub(crate) fn batch(value: &[u8]) -> Bytes {
    let mut batch = BatchBuilder::new();
    batch.push(Timestamp::NONE, None, Some(value), &[]);
    batch.build().to_bytes()
}

pub(crate) fn encoded<R: wire::Request>(request: &R, version: i16) -> Vec<u8> {
    let encoded = encode_request(request, version, 1, None).and_then(wire::Encoded::into_bytes);
    encoded.expect("can be encoded").to_vec()
}
