//! Three brokers on machines of their own, and a door without frames on each: its operations reach the node that has to carry them out.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::path::Path;

use env::sim::{Faults, HostId, Machines};
use model::{BrokerId, InboxId};
use parking_lot::Mutex;

use super::*;
use crate::Broker;
use crate::mail::inboxes::{Inbox, Post, Redeemed, ShardId};
use crate::mail::question::Reach;
use crate::meters::meter::Meter;
use crate::ops::command::Called;
use crate::ops::query::Query;
use crate::ops::trim::{Target, Trim, TrimRefusal, Trimming};
use crate::peers::{Answer, Ceilings};

/// The file with the secret of the cluster, and what is in it.
const SECRET: &str = "/etc/esker/cluster.secret";
const SECRET_TEXT: &[u8] = b"c2ltdWxhdGVkIG1hY2hpbmVzIHRydXN0IGVhY2ggb3RoZXI=\n";
const PORT: u16 = 9092;
const NODES: [u8; 3] = [1, 2, 3];
/// An answer that is not there by then does not come.
const LONG: Duration = Duration::from_secs(30);

/// The inbox of a door.
#[derive(Default)]
struct Heard(Mutex<Vec<Redeemed>>);

impl Inbox for Heard {
    fn put(&self, redeemed: Vec<Redeemed>) {
        self.0.lock().extend(redeemed);
    }
}

/// One node, and the loop of a door beside its shards.
struct Node {
    broker: Broker,
    desk: Desk,
    heard: Arc<Heard>,
}

pub(super) struct World {
    machines: Machines,
    nodes: Vec<Node>,
    asker: Asker,
    keys: Pending<()>,
    /// The node whose door asks.
    at: usize,
}

fn settings(machines: &Machines, node: u8) -> config::Broker {
    let address = |node| machines.address(HostId(node), PORT);
    let voters = NODES.map(|node| format!("{node}@{}", address(node)));
    let pairs = BTreeMap::from([
        ("node.id", node.to_string()),
        ("listeners", format!("PLAINTEXT://{}", address(node))),
        ("controller.quorum.voters", voters.join(",")),
        ("esker.cluster.secret.file", SECRET.to_owned()),
        ("log.dirs", "/data".to_owned()),
        ("num.network.threads", "2".to_owned()),
        ("offsets.topic.num.partitions", "1".to_owned()),
        ("esker.journal.piece.bytes", "1048576".to_owned()),
        ("esker.journal.bytes", "2097152".to_owned()),
    ]);
    let mut settings = config::Settings::default();
    for (name, value) in &pairs {
        settings.put(name, value).expect("a known setting");
    }
    let machine = config::Machine {
        cores: 2,
        memory_bytes: 0,
        descriptors: 20_000,
    };
    config::Broker::new(settings, machine).expect("settings that fit each other")
}

impl World {
    fn start(seed: u64) -> World {
        let machines = Machines::new(seed, 3, &Faults::default());
        let start = |node| {
            let machine = machines.get(HostId(node));
            machine.install(Path::new(SECRET), SECRET_TEXT);
            let env = machine.env();
            let heard = Arc::new(Heard::default());
            let inboxes = vec![Arc::clone(&heard) as Arc<dyn Inbox>];
            let ceilings = Ceilings::default();
            let started = Broker::start_beside(&env, settings(&machines, node), ceilings, inboxes);
            let (broker, inboxes) = started.expect("a fresh start");
            let inbox: InboxId = inboxes[0];
            let meter = Arc::new(Meter::default());
            let desk = Desk::new(inbox, Reach::Cluster, meter, Arc::clone(&broker.shared));
            Node {
                broker,
                desk,
                heard,
            }
        };
        let nodes = NODES.into_iter().map(start).collect();
        let here = SocketAddr::from(([127, 0, 0, 1], PORT));
        let mut world = World {
            machines,
            nodes,
            asker: Asker::anonymous(here, here),
            keys: Pending::new(),
            at: 0,
        };
        world.until(|world| {
            let counts = |node: &Node| {
                let image = node.broker.image();
                let open = image.brokers().filter(|broker| !broker.is_fenced).count();
                open == NODES.len() && node.broker.shared.state.is_serving()
            };
            world.nodes.iter().all(counts) && world.controller().is_some()
        });
        world
    }

    fn until(&mut self, is_so: impl Fn(&World) -> bool) {
        let came = self.machines.run_until(LONG, |_| is_so(self));
        assert!(came, "it does not come");
        let desk = &mut self.nodes[self.at].desk;
        desk.refresh_time();
    }

    /// The place of the active controller.
    fn controller(&self) -> Option<usize> {
        let mut nodes = self.nodes.iter();
        nodes.position(|node| node.broker.leadership().is_some())
    }

    /// The place of the leader of a partition, once the node of the door knows it.
    fn leader(&self, topic: &str, index: i32) -> Option<usize> {
        let topics = self.nodes[self.at].broker.shared.catalog.topics();
        let BrokerId(leader) = topics.leader(topic, index)?.broker?;
        usize::try_from(leader - 1).ok()
    }

    fn desk(&mut self) -> &mut Desk {
        &mut self.nodes[self.at].desk
    }

    fn ticket(&mut self) -> Ticket {
        let key = self.keys.insert(());
        self.desk().ticket(key, 0)
    }

    /// Hands on what operations left at the desk, as a loop without coordinators does, and waits for something to come back.
    fn turn(&mut self) -> Vec<Redeemed> {
        let Node { desk, heard, .. } = &mut self.nodes[self.at];
        let inboxes = &desk.shared.mail.inboxes;
        while let Some(asked) = desk.asked.pop_front() {
            let home = ShardId::home(asked.partition, inboxes.shards_count());
            inboxes.post(home, Post::Asked(Box::new(asked)));
        }
        desk.shared.mail.spread(std::mem::take(&mut desk.news));
        let heard = Arc::clone(heard);
        let came = (self.machines).run_until(LONG, |_| !heard.0.lock().is_empty());
        assert!(came, "nobody answers");
        self.desk().refresh_time();
        std::mem::take(&mut *heard.0.lock())
    }

    /// The answer of another node to a call of this one.
    fn replied(&mut self, of: Ticket) -> (Ticket, Option<Answer>) {
        loop {
            for redeemed in self.turn() {
                if let Redeemed::Replied(ticket, answer) = redeemed
                    && ticket.key == of.key
                {
                    return (ticket, answer);
                }
            }
        }
    }

    fn command(&mut self, command: crate::control::command::Command) {
        let ticket = self.ticket();
        let asker = self.asker.clone();
        let commanded = command::carry_out(self.desk(), &asker, command, (ticket, LONG));
        let Commanded::There(called) = commanded else {
            panic!("this node is not the controller")
        };
        let called: Called = called;
        let (_, answer) = self.replied(ticket);
        assert!(called.end(self.desk(), answer), "it is carried out");
    }

    fn produce(&mut self, value: &[u8], acks: Acks) -> Produced {
        let first = self.ticket();
        let tickets = |part| Ticket { part, ..first };
        let request = Produce {
            acks,
            patience: PATIENCE,
            transactional_id: None,
            joining: Joining::Adds,
            knows_zstd: true,
            topics: vec![(Uuid::ZERO, TOPIC.to_owned())],
            batches: vec![BatchFor {
                topic: 0,
                index: 0,
                records: batch(value),
            }],
        };
        let asker = self.asker.clone();
        let mut stamp = Stamp::default();
        let begun = produce::begin(self.desk(), &asker, request, origin(&mut stamp), &tickets);
        let Ok(Step::Parked(mut producing)) = begun else {
            panic!("another broker leads")
        };
        while !producing.is_ready() {
            let (ticket, answer) = self.replied(first);
            producing.on_replied(ticket, answer);
        }
        done(producing.go_on(self.desk(), &asker, origin(&mut stamp), &tickets))
    }

    fn fetch(&mut self, from: Offset) -> super::super::fetch::FetchResult {
        let ticket = self.ticket();
        let asker = self.asker.clone();
        let terms = Terms {
            kind: Kind::Consumer,
            scope: Scope::of_leader(Isolation::Committed),
            bytes_min: 1,
            bytes_max: 1 << 20,
            near: Vec::new(),
            deadline: self.desk().now,
        };
        let wanted = Wanted {
            topic_id: Uuid::ZERO,
            topic: TOPIC,
            index: 0,
            from,
            bytes_max: 1 << 20,
            current_epoch: LeaderEpoch::NONE,
        };
        let mut fetching = Fetching::new(self.desk(), &asker, [wanted], terms);
        let client = || Client {
            readers: None,
            memory_max: usize::MAX,
        };
        while fetching.advance(self.desk(), ticket.key, client()) == Progress::Gathers {
            let (ticket, answer) = self.replied(ticket);
            fetching.on_replied(ticket, answer);
        }
        let mut results = fetching.into_results().map(|fetched| fetched.result);
        results.next().expect("one for one")
    }

    fn ask<Q: Query, T>(
        &mut self,
        begin: impl FnOnce(&mut Desk, &Asker, Tickets<'_>) -> Awaited<Q, T>,
    ) -> T {
        let first = self.ticket();
        let asker = self.asker.clone();
        let Awaiting { mut asking, read } =
            match begin(self.desk(), &asker, &|part| Ticket { part, ..first }) {
                Step::Done(done) => return done,
                Step::Parked(awaiting) => awaiting,
                Step::Dropped => panic!("the broker does not stop"),
            };
        while !asking.is_done() {
            for redeemed in self.turn() {
                match redeemed {
                    Redeemed::Answered(answered) => asking.on_answer(self.desk(), *answered),
                    Redeemed::News(news) => {
                        if let Some((ticket, code)) = crate::error::outcome(news) {
                            asking.on_news(ticket, code);
                        }
                    }
                    _ => panic!("nothing else was asked"),
                }
            }
        }
        read.read(asking.into_told())
    }

    fn trim(&mut self, to: Offset) -> Trimming {
        let first = self.ticket();
        let asker = self.asker.clone();
        let request = Trim {
            topics: vec![TOPIC.to_owned()],
            targets: vec![Target {
                topic: 0,
                index: 0,
                to: Some(to),
            }],
            patience: PATIENCE,
        };
        let begun = trim::begin(self.desk(), &asker, request, |part| Ticket {
            part,
            ..first
        });
        let Step::Parked(mut trimming) = begun else {
            panic!("another broker leads")
        };
        while !trimming.is_done() {
            let (ticket, answer) = self.replied(first);
            trimming.on_replied(ticket, answer);
        }
        trimming
    }
}

#[test]
fn operations_reach_the_right_node_from_one_that_is_neither_controller_nor_coordinator_nor_leader()
{
    let mut world = World::start(42);
    let controller = world.controller().expect("there is one");
    let others = |taken: &[usize]| (0..NODES.len()).find(|at| !taken.contains(at));

    // The offsets of groups get a home, on whichever node.
    world.at = others(&[controller]).expect("there are three");
    let asker = Arc::new(world.asker.clone());
    let scene = Scene::new(world.desk(), &asker);
    world.command(topics::create_internal(
        &scene.view(""),
        meta::name::OFFSETS,
    ));
    let coordinator = world
        .leader(meta::name::OFFSETS, 0)
        .expect("it was created");

    world.at = others(&[controller, coordinator]).expect("there are three");
    world.until(|world| world.leader(meta::name::OFFSETS, 0) == Some(coordinator));
    let leader = i32::from(NODES[controller]);
    let new = NewTopic {
        name: TOPIC.to_owned(),
        partitions: -1,
        replication_factor: -1,
        assignments: vec![(0, vec![leader])],
        settings: Vec::new(),
    };
    world.command(crate::control::command::Command::CreateTopics(vec![new]));
    assert_eq!(world.leader(TOPIC, 0), Some(controller));
    let node = &world.nodes[world.at];
    assert!(node.broker.leadership().is_none());
    let known = node.broker.shared.catalog.topics();
    let here = known.partition(TOPIC, 0).err();
    assert_eq!(here, Some(crate::topics::Absent::Elsewhere));

    for (value, acks, offset) in [
        (b"one".as_slice(), Acks::All, 0),
        (b"two", Acks::Leader, 1),
        (b"six", Acks::None, 2),
    ] {
        let produced = world.produce(value, acks);
        let placed = produced.answers[0].result.as_ref().expect("it is taken");
        assert_eq!(placed.base_offset, Offset(offset));
        assert_eq!(placed.log_start, Offset(0));
    }

    let read = world
        .fetch(Offset(1))
        .unwrap_or_else(|why| panic!("{why:?}"));
    let Records::Memory(batches) = read.records else {
        panic!("it was just written")
    };
    let offsets: Vec<_> = batches.iter().map(|batch| batch.base_offset()).collect();
    assert_eq!(offsets, [Offset(1), Offset(2)]);
    assert_eq!(read.bounds.high_watermark, Offset(3));

    let committed =
        world.ask(|desk, asker, tickets| offsets::commit(desk, asker, commit(Offset(2)), tickets));
    assert_eq!(committed, Ok(vec![Ok(())]));
    let look_up = coord::group::ask::FetchOffsets {
        group_id: GROUP.to_owned(),
        member_id: None,
        member_epoch: -1,
        topics: None,
        require_stable: true,
    };
    let found =
        world.ask(|desk, asker, tickets| offsets::fetch(desk, asker, vec![look_up], tickets));
    let topics = found[0].as_ref().expect("they are there");
    let partition = topics[0].partitions[0].found.as_ref();
    let found = partition.expect("it is there").as_ref();
    assert_eq!(found.map(|found| found.offset), Some(Offset(2)));
    assert_eq!(topics[0].name.as_deref(), Some(TOPIC));
    let ids = vec![GROUP.to_owned()];
    let described = world.ask(|desk, asker, tickets| groups::describe(desk, asker, ids, tickets));
    let [(id, Ok(Ok(group)))] = described.as_slice() else {
        panic!("{described:?}")
    };
    assert_eq!((id.as_str(), group.state.name()), (GROUP, "Empty"));

    let trimming = world.trim(Offset(2));
    let start = trimming.trimmed[0].result.as_ref().ok();
    assert_eq!(start, Some(&Offset(2)));
    let Err(gone) = world.fetch(Offset(1)) else {
        panic!("it is trimmed")
    };
    let out_of_range = ErrorCode::OffsetOutOfRange;
    assert!(
        matches!(gone, Refused::Because(FetchRefusal::Refused(code)) if code == out_of_range),
        "{gone:?}"
    );
    let refused = world.trim(Offset(9));
    let refused = refused.trimmed[0]
        .result
        .as_ref()
        .expect_err("there is no such offset");
    assert!(
        matches!(refused, TrimRefusal::Refused(code) if *code == out_of_range),
        "{refused:?}"
    );
}
