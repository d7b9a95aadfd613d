//! A broker and its metadata for tests of handlers.

use config::{Broker, Machine, Settings};
use meta::decide::Uuids;
use meta::decide::create_topics::{NewTopic, create_topics};
use meta::decide::register_broker::{self, register_broker};
use meta::{Endpoint, Image, Record, SecurityProtocol};
use model::{BrokerId, LeaderEpoch, Offset, Timestamp};
use wire::Uuid;

use crate::asker::Asker;
use crate::ops::cluster::Quorum;
use crate::ops::view::View;

pub(super) struct Fixture {
    pub(super) image: Image,
    pub(super) broker: Broker,
    next: u64,
    asker: Asker,
    pub(super) loggers: env::logs::Loggers,
}

impl Uuids for Fixture {
    fn next(&mut self) -> Uuid {
        uuid(&mut self.next)
    }
}

fn uuid(next: &mut u64) -> Uuid {
    *next += 1;
    let mut bytes = [9; 16];
    bytes[..8].copy_from_slice(&next.to_be_bytes());
    Uuid(bytes)
}

impl Fixture {
    /// Broker 1 with the settings of `text` and the topics `a` of one partition and `t` of three, where `t` keeps a second.
    pub(super) fn new(text: &str) -> Fixture {
        let mut settings = Settings::default();
        settings
            .read(text, config::Format::Properties)
            .expect("known settings");
        let broker = Broker::new(
            settings,
            Machine {
                cores: 2,
                memory_bytes: 0,
                descriptors: 20_000,
            },
        )
        .expect("usable settings");
        let mut fixture = Fixture {
            image: Image::default(),
            broker,
            next: 0,
            asker: Asker::anonymous(([10, 0, 0, 8], 4000).into(), ([10, 0, 0, 7], 9092).into()),
            loggers: env::logs::Loggers::default(),
        };
        let registration = register_broker::Broker {
            id: BrokerId(1),
            incarnation: Uuid([1; 16]),
            endpoints: vec![Endpoint {
                name: "PLAINTEXT".into(),
                host: "127.0.0.1".into(),
                port: 9092,
                protocol: SecurityProtocol::PLAINTEXT,
            }],
            rack: None,
            log_dirs: vec![Uuid([2; 16])],
        };
        fixture.replay(&register_broker(&fixture.image.clone(), &registration));
        let topic = |name: &str, partitions| NewTopic {
            name: name.into(),
            partitions,
            replication_factor: 1,
            ..NewTopic::default()
        };
        let kept = NewTopic {
            settings: vec![("retention.ms".into(), Some("1000".into()))],
            ..topic("t", 3)
        };
        let mut next = fixture.next;
        let mut uuids = || uuid(&mut next);
        let decision = create_topics(
            &fixture.image,
            &fixture.broker,
            &[topic("a", 1), kept],
            &mut uuids,
        );
        fixture.next = next;
        fixture.replay(&decision.records);
        fixture
    }

    /// Broker 2, at port 9192.
    pub(super) fn register_second(&mut self, is_fenced: bool) {
        let registration = register_broker::Broker {
            id: BrokerId(2),
            incarnation: Uuid([3; 16]),
            endpoints: vec![Endpoint {
                name: "PLAINTEXT".into(),
                host: "127.0.0.1".into(),
                port: 9192,
                protocol: SecurityProtocol::PLAINTEXT,
            }],
            rack: None,
            log_dirs: vec![Uuid([4; 16])],
        };
        self.replay(&register_broker(&self.image.clone(), &registration));
        if is_fenced {
            self.fence(BrokerId(2));
        }
    }

    pub(super) fn fence(&mut self, id: BrokerId) {
        let epoch = self.image.broker(id).expect("registered").epoch;
        let change = wire::metadata::BrokerRegistrationChangeRecord {
            broker_id: id.0,
            broker_epoch: epoch,
            fenced: 1,
            ..Default::default()
        };
        self.replay(&[change.into()]);
    }

    pub(super) fn replay(&mut self, records: &[Record]) {
        let place = self.image.next_place();
        self.image.replay(place, records).expect("fits");
        let (cluster, own) = (
            meta::Resource::cluster(),
            meta::Resource::broker(BrokerId(1)),
        );
        self.broker = self
            .broker
            .with_dynamic(self.image.overrides(&cluster), self.image.overrides(&own));
    }

    pub(super) fn view(&self) -> View<'_> {
        View {
            image: &self.image,
            broker: &self.broker,
            cluster_id: "cluster",
            listener: "PLAINTEXT",
            asker: &self.asker,
            folds_names: false,
            loggers: &self.loggers,
            leader: Some(BrokerId(1)),
            is_silent: false,
        }
    }

    pub(super) fn id(&self, topic: &str) -> Uuid {
        self.image.topic(topic).expect("there").id
    }
}

/// Identities for handlers, none of which the fixture has used.
pub(super) fn uuids() -> impl FnMut() -> Uuid {
    let mut next = 1000;
    move || uuid(&mut next)
}

/// Nodes 1, 2 and 3 vote, at the hosts a, b and c; node 2 leads, and this is node 1.
pub(super) fn quorum_of_three() -> Quorum {
    let voter = |(id, host): (i32, &str)| {
        let endpoint = raft::Endpoint {
            host: host.into(),
            port: 9093,
        };
        let name = "CONTROLLER".into();
        (BrokerId(id), vec![raft::Listener { name, endpoint }])
    };
    Quorum {
        own: raft::Replica {
            id: BrokerId(1),
            directory: Uuid([2; 16]),
        },
        view: raft::View {
            role: raft::RoleName::Follower,
            epoch: LeaderEpoch(3),
            leader: Some(BrokerId(2)),
            voted: None,
            watermark: Some(Offset(7)),
            end: Offset(8),
            durable: Offset(8),
            may_vote: true,
            voters: Vec::new(),
            observers: Vec::new(),
        },
        voters: [(1, "a"), (2, "b"), (3, "c")].map(voter).to_vec(),
        wall: Timestamp(99),
    }
}
