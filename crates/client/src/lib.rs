//! A client of the Kafka protocol: what the command line, the benchmarks and the simulator speak to brokers with.
//!
//! Three layers. [`Session`] knows the protocol and does no IO, so a simulated machine can drive it. [`Connection`] puts a session
//! on a blocking socket. [`Client`], [`Producer`] and [`Consumer`] route, retry and pipeline over connections; each belongs to one
//! thread. Time, chance and sockets come from an [`env::Env`].

mod admin;
mod cluster;
mod connection;
mod consumer;
mod error;
mod inbox;
mod login;
mod member;
mod options;
mod producer;
mod session;

pub use admin::{
    ActiveProducer, BrokerInfo, Change, ClusterInfo, Committed, Created, DescribedTransaction,
    Found, GroupInfo, GroupMember, Identity, ListedGroup, ListedTransaction, LogDir, NewTopic,
    OffsetSpec, Part, PartitionInfo, PatternFilter, QuorumInfo, QuorumSight, ReplicaEnds,
    ReplicaInfo, ReplicaReader, Resource, RuleFilter, Setting, SettingSource, Stored, UserInfo,
    VoterAddress, VoterKey,
};
pub use cluster::{Client, Outage, Outages, Partition, Topic};
pub use connection::Connection;
pub use consumer::{Consumer, ConsumerOptions, Fetched, Isolation, Skipped, Taken};
pub use error::{Damage, Error, Garbage, LoginRefusal};
pub use inbox::FrameTooLong;
pub use login::{Login, LoginFault, LoginNext, LoginStep};
pub use member::Member;
pub use options::Options;
pub use producer::partitioner;
pub use producer::{Acks, Delivery, Producer, ProducerOptions, Record, TopicRef};
pub use session::{FRAME_BYTES_MAX, Reply, RequestError, Session};
