//! Questions about nodes: the cluster, who is at an address, log directories, active producers.

use std::time::Duration;

use env::Env;
use wire::ErrorCode;
use wire::messages::describe_cluster_response::DescribeClusterBroker;
use wire::messages::describe_log_dirs_response::{DescribeLogDirsPartition, DescribeLogDirsResult};
use wire::messages::describe_producers_request::TopicRequest;
use wire::messages::{DescribeClusterRequest, DescribeLogDirsRequest, DescribeProducersRequest};

use crate::cluster::{Client, host_port};
use crate::error::Error;
use crate::options::Options;

/// The kind of node that a door of controllers is asked for (KIP-919).
const CONTROLLERS: i8 = 2;

/// The node at an address.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Identity {
    /// `None` while it is part of none.
    pub cluster_id: Option<String>,
    /// Addresses of the controllers, at a door of controllers; `None` at one of brokers.
    pub controllers: Option<Vec<String>>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ClusterInfo {
    pub cluster_id: String,
    pub controller: Option<i32>,
    pub brokers: Vec<BrokerInfo>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BrokerInfo {
    pub id: i32,
    pub host: String,
    pub port: i32,
    pub rack: Option<String>,
    pub is_fenced: bool,
}

/// One log directory of one broker.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LogDir {
    pub broker: i32,
    pub path: String,
    /// `None` where the broker does not say.
    pub total_bytes: Option<i64>,
    pub usable_bytes: Option<i64>,
    /// The directory is offline and lists nothing.
    pub is_failed: bool,
    /// It takes no new partitions.
    pub is_cordoned: bool,
    /// The free bytes of its volume below which it refuses appends, if it has fewer and says so.
    pub full_below_bytes: Option<i64>,
    pub stored: Vec<Stored>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Stored {
    pub topic: String,
    pub partition: i32,
    pub bytes: i64,
    /// The time for which a reassignment has not moved, of a partition that this broker leads; `None` where none is under way, or it does not
    /// say.
    pub reassignment_still: Option<Duration>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ActiveProducer {
    pub producer_id: i64,
    pub epoch: i32,
    pub last_sequence: i32,
    pub last_timestamp: i64,
    /// Of the last marker; -1 before the first.
    pub coordinator_epoch: i32,
    /// First offset of the open transaction.
    pub transaction_start: Option<i64>,
}

impl Client {
    /// The brokers of the cluster, those that are fenced too where the broker that answers knows how to list them.
    pub fn describe_cluster(&mut self) -> Result<ClusterInfo, Error> {
        self.retry("describing the cluster", |client| {
            let request = |include_fenced_brokers| DescribeClusterRequest {
                endpoint_type: 1,
                include_fenced_brokers,
                ..Default::default()
            };
            let response = match client.call_any(&request(true)) {
                // Before Kafka 4.0 there is no field to ask for them.
                Err(Error::Encode(_)) => client.call_any(&request(false))?,
                result => result?,
            };
            Error::check(
                response.error_code,
                || "describing the cluster".to_owned(),
                response.error_message.as_deref(),
            )?;
            let broker = |b: &DescribeClusterBroker| BrokerInfo {
                id: b.broker_id,
                host: b.host.clone(),
                port: b.port,
                rack: b.rack.clone(),
                is_fenced: b.is_fenced,
            };
            Ok(ClusterInfo {
                cluster_id: response.cluster_id.clone(),
                controller: Some(response.controller_id).filter(|id| *id >= 0),
                brokers: response.brokers.iter().map(broker).collect(),
            })
        })
    }

    /// The cluster that the node at an address is of, and whether clients are served there.
    ///
    /// # Errors
    /// The node gives no answer, or does not know the question: a broker of before Kafka 2.8, a controller of before 3.7.
    pub fn identity_at(env: &Env, address: &str, options: Options) -> Result<Identity, Error> {
        let mut client = Client::aside(env, address, options)?;
        let address = client.bootstrap().first().cloned().unwrap_or_default();
        let mut request = DescribeClusterRequest {
            endpoint_type: 1,
            ..DescribeClusterRequest::default()
        };
        let mut response = client.call_at(&address, &request)?;
        let is_at_controllers = response.error_code == ErrorCode::MismatchedEndpointType.code();
        if is_at_controllers {
            request.endpoint_type = CONTROLLERS;
            response = client.call_at(&address, &request)?;
        }
        let words = response.error_message.as_deref();
        Error::check(
            response.error_code,
            || format!("describing {address}"),
            words,
        )?;
        let nodes = response.brokers.iter();
        let controllers = nodes.map(|node| host_port(&node.host, node.port));
        Ok(Identity {
            cluster_id: Some(response.cluster_id).filter(|id| !id.is_empty()),
            controllers: is_at_controllers.then(|| controllers.collect()),
        })
    }

    /// The log directories of every broker with all that they hold.
    pub fn describe_log_dirs(&mut self) -> Result<Vec<LogDir>, Error> {
        self.retry("describing log directories", |client| {
            let ids: Vec<i32> = client.brokers().keys().copied().collect();
            let mut dirs = Vec::new();
            for broker in ids {
                dirs.extend(client.log_dirs_of(broker)?);
            }
            Ok(dirs)
        })
    }

    /// The same of the broker at an address, asked once; also where no other broker lists it.
    pub fn log_dirs_at(
        env: &Env,
        broker: i32,
        address: &str,
        options: Options,
    ) -> Result<Vec<LogDir>, Error> {
        let mut client = Client::aside(env, address, options)?;
        client.log_dirs(broker, address)
    }

    /// The same of one broker, asked once.
    pub fn log_dirs_of(&mut self, broker: i32) -> Result<Vec<LogDir>, Error> {
        let address = self.address(broker)?.to_owned();
        self.log_dirs(broker, &address)
    }

    fn log_dirs(&mut self, broker: i32, address: &str) -> Result<Vec<LogDir>, Error> {
        let response = self.call_at(address, &DescribeLogDirsRequest { topics: None })?;
        Error::check(
            response.error_code,
            || format!("log directories of broker {broker}"),
            None,
        )?;
        let stored = |topic: &str, p: &DescribeLogDirsPartition| Stored {
            topic: topic.to_owned(),
            partition: p.partition_index,
            bytes: p.partition_size,
            reassignment_still: u64::try_from(p.reassignment_still_ms)
                .ok()
                .map(Duration::from_millis),
        };
        let log_dir = |dir: &DescribeLogDirsResult| {
            let topics = dir.topics.iter();
            let all =
                topics.flat_map(|topic| topic.partitions.iter().map(|p| stored(&topic.name, p)));
            LogDir {
                broker,
                path: dir.log_dir.clone(),
                total_bytes: Some(dir.total_bytes).filter(|bytes| *bytes >= 0),
                usable_bytes: Some(dir.usable_bytes).filter(|bytes| *bytes >= 0),
                is_failed: dir.error_code != 0,
                is_cordoned: dir.is_cordoned,
                full_below_bytes: Some(dir.full_below_bytes).filter(|bytes| *bytes >= 0),
                stored: all.collect(),
            }
        };
        Ok(response.results.iter().map(log_dir).collect())
    }

    pub fn describe_producers(
        &mut self,
        topic: &str,
        partition: i32,
    ) -> Result<Vec<ActiveProducer>, Error> {
        let what = format!("describing producers of {topic}-{partition}");
        self.retry(&what, |client| {
            let leader = client.topic(topic)?.leader(partition)?;
            let ask = TopicRequest {
                name: topic.to_owned(),
                partition_indexes: vec![partition],
            };
            let response =
                client.call_broker(leader, &DescribeProducersRequest { topics: vec![ask] })?;
            let mut producers = Vec::new();
            for answer in response.topics.iter().flat_map(|topic| &topic.partitions) {
                Error::check(
                    answer.error_code,
                    || what.clone(),
                    answer.error_message.as_deref(),
                )?;
                producers.extend(answer.active_producers.iter().map(|p| ActiveProducer {
                    producer_id: p.producer_id,
                    epoch: p.producer_epoch,
                    last_sequence: p.last_sequence,
                    last_timestamp: p.last_timestamp,
                    coordinator_epoch: p.coordinator_epoch,
                    transaction_start:
                        Some(p.current_txn_start_offset).filter(|offset| *offset >= 0),
                }));
            }
            Ok(producers)
        })
    }
}
