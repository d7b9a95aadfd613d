//! Two brokers in memory that share their logs, reached through an environment whose sockets lead to them; each partition has its leader.
//!
//! Answers what a client asks, in the order of the requests, and remembers every batch. A fault is drawn for each produce and fetch
//! request; what a real network and a real cluster do to a client, this one does often.

use std::collections::{BTreeMap, VecDeque};
use std::io::{self, Read, Write};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use bytes::Bytes;
use env::{Env, Net, Poller, Stream};
use model::{LeaderEpoch, Offset};
use wire::messages::api_versions_response::ApiVersion;
use wire::messages::fetch_response::{FetchableTopicResponse, PartitionData};
use wire::messages::list_offsets_request::ListOffsetsPartition;
use wire::messages::list_offsets_response::{
    ListOffsetsPartitionResponse, ListOffsetsTopicResponse,
};
use wire::messages::metadata_response::{
    MetadataResponseBroker, MetadataResponsePartition, MetadataResponseTopic,
};
use wire::messages::produce_response::{PartitionProduceResponse, TopicProduceResponse};
use wire::messages::*;
use wire::records::{Batch, Source};
use wire::{ApiKey, ErrorCode, Message, Reader, Records, Uuid, decode_request_header, frame};

pub(crate) const TOPIC: &str = "t";
const ID: Uuid = Uuid([7; 16]);

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Fault {
    /// The connection ends before the request is looked at.
    LoseRequest,
    /// The request is done, and the connection ends before the answer.
    LoseAnswer,
    Refuse(ErrorCode),
    /// The request is done, nothing is answered any more, and the other broker leads what this one led.
    LoseLead,
}

/// A broker finds so many of the last batches of a producer again, as Kafka's does.
const REMEMBERED: usize = 5;
const HOSTS: [&str; 2] = ["fake", "other"];

#[derive(Default)]
pub(crate) struct Log {
    pub(crate) batches: Vec<Batch>,
    /// Everything each producer wrote.
    producers: BTreeMap<i64, Vec<Written>>,
}

struct Written {
    base_sequence: i32,
    next_sequence: i32,
    base_offset: i64,
}

impl Log {
    pub(crate) fn end(&self) -> i64 {
        self.batches.last().map_or(0, |batch| batch.next_offset().0)
    }

    /// As a Kafka broker judges sequences: a producer it does not know may begin anywhere.
    fn append(&mut self, mut batch: Batch) -> (ErrorCode, i64) {
        let end = self.end();
        if batch.has_producer_id() {
            let base = batch.base_sequence().0;
            let known = self.producers.entry(batch.producer_id().0).or_default();
            if let Some(written) = known
                .iter()
                .rev()
                .take(REMEMBERED)
                .find(|written| written.base_sequence == base)
            {
                return (ErrorCode::DuplicateSequenceNumber, written.base_offset);
            }
            if known.last().is_some_and(|last| last.next_sequence != base) {
                return (ErrorCode::OutOfOrderSequenceNumber, -1);
            }
            let next_sequence = batch.last_sequence().0 + 1;
            known.push(Written {
                base_sequence: base,
                next_sequence,
                base_offset: end,
            });
        }
        batch.set_base_offset(Offset(end));
        batch.set_leader_epoch(LeaderEpoch(0));
        self.batches.push(batch);
        (ErrorCode::None, end)
    }
}

pub(crate) struct State {
    pub(crate) logs: Vec<Log>,
    /// Draws the fault of the next request of a kind.
    pub(crate) fault: Box<dyn FnMut(ApiKey) -> Option<Fault> + Send>,
    pub(crate) dials: usize,
    /// Refuse that many connections first.
    pub(crate) unreachable: usize,
    /// Bytes of one fetch answer; the last batch is cut off there.
    pub(crate) fetch_bytes: usize,
    /// `max.message.bytes`.
    pub(crate) batch_bytes_max: usize,
    /// Batches that hold an offset of these ranges fail their checksum at the broker.
    pub(crate) rotten: Vec<std::ops::Range<i64>>,
    /// Of each partition, by its place among the hosts.
    pub(crate) leaders: Vec<usize>,
    /// Questions about the topic that are answered as if it were not there.
    pub(crate) unheard: usize,
}

#[derive(Clone)]
pub(crate) struct Fake(pub(crate) Arc<Mutex<State>>);

impl Fake {
    pub(crate) fn new(partitions: usize) -> Fake {
        let logs = std::iter::repeat_with(Log::default)
            .take(partitions)
            .collect();
        let fault = Box::new(|_| None);
        Fake(Arc::new(Mutex::new(State {
            logs,
            fault,
            dials: 0,
            unreachable: 0,
            fetch_bytes: 1 << 20,
            batch_bytes_max: 1 << 20,
            rotten: Vec::new(),
            leaders: (0..partitions).map(|at| at % HOSTS.len()).collect(),
            unheard: 0,
        })))
    }

    pub(crate) fn with_faults(
        self,
        fault: impl FnMut(ApiKey) -> Option<Fault> + Send + 'static,
    ) -> Fake {
        self.0.lock().unwrap().fault = Box::new(fault);
        self
    }

    pub(crate) fn env(&self) -> Env {
        Env {
            net: Arc::new(self.clone()),
            ..Env::real()
        }
    }
}

impl Net for Fake {
    fn resolve(&self, _: &str) -> io::Result<Vec<std::net::SocketAddr>> {
        Err(io::ErrorKind::Unsupported.into())
    }

    fn poller(&self) -> io::Result<Box<dyn Poller>> {
        Err(io::ErrorKind::Unsupported.into())
    }

    fn dial(&self, address: &str, _: Duration) -> io::Result<Box<dyn Stream>> {
        let mut state = self.0.lock().unwrap();
        state.dials += 1;
        if state.unreachable > 0 {
            state.unreachable -= 1;
            return Err(io::ErrorKind::ConnectionRefused.into());
        }
        let host = HOSTS.iter().position(|host| address.starts_with(host));
        Ok(Box::new(Socket {
            fake: self.clone(),
            host: host.unwrap_or(0),
            is_silent: false,
            sent: Vec::new(),
            answers: VecDeque::new(),
            is_closed: false,
        }))
    }
}

struct Socket {
    fake: Fake,
    host: usize,
    is_silent: bool,
    sent: Vec<u8>,
    answers: VecDeque<u8>,
    is_closed: bool,
}

impl Stream for Socket {
    fn set_timeout(&mut self, _: Duration) -> io::Result<()> {
        Ok(())
    }
}

impl Read for Socket {
    fn read(&mut self, buf: &mut [u8]) -> io::Result<usize> {
        if self.answers.is_empty() && !self.is_closed {
            return Err(io::ErrorKind::TimedOut.into());
        }
        self.answers.read(buf)
    }
}

impl Write for Socket {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        // A peer that closed still takes bytes for a while; they go nowhere.
        if !self.is_closed {
            self.sent.extend_from_slice(bytes);
            self.serve();
        }
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl Socket {
    fn serve(&mut self) {
        while let Some(length) = self
            .sent
            .first_chunk::<4>()
            .map(|four| i32::from_be_bytes(*four) as usize)
        {
            if self.sent.len() < 4 + length || self.is_closed {
                return;
            }
            let request: Vec<u8> = self.sent.drain(..4 + length).skip(4).collect();
            self.request(request.into());
        }
    }

    fn request(&mut self, bytes: Bytes) {
        let mut r = Reader::new(bytes);
        let head = decode_request_header(&mut r).expect("the client writes valid headers");
        let (key, version) = (
            head.api().expect("the client asks for known APIs"),
            head.version,
        );
        let mut state = self.fake.0.lock().unwrap();
        let fault = (state.fault)(key);
        if self.is_silent {
            return;
        }
        if fault == Some(Fault::LoseRequest) {
            self.is_closed = true;
            return;
        }
        let refused = match fault {
            Some(Fault::Refuse(code)) => Some(code),
            _ => None,
        };
        macro_rules! answer {
            ($response:expr) => {
                frame::encode_response(key, &$response, version, head.correlation_id).unwrap()
            };
        }
        let encoded = match key {
            ApiKey::ApiVersions => answer!(versions()),
            ApiKey::Metadata => answer!(metadata(
                &mut state,
                &MetadataRequest::decode(&mut r, version).unwrap()
            )),
            ApiKey::InitProducerId => answer!(InitProducerIdResponse {
                producer_id: 77,
                producer_epoch: 0,
                ..Default::default()
            }),
            ApiKey::Produce => answer!(produce(
                &mut state,
                self.host,
                &ProduceRequest::decode(&mut r, version).unwrap(),
                refused
            )),
            ApiKey::Fetch => answer!(fetch(
                &state,
                &FetchRequest::decode(&mut r, version).unwrap(),
                refused
            )),
            ApiKey::ListOffsets => answer!(list_offsets(
                &state,
                &ListOffsetsRequest::decode(&mut r, version).unwrap()
            )),
            other => panic!("{other} is not needed here"),
        };
        if fault == Some(Fault::LoseAnswer) {
            self.is_closed = true;
            return;
        }
        if fault == Some(Fault::LoseLead) {
            self.is_silent = true;
            for leader in &mut state.leaders {
                *leader = if *leader == self.host {
                    (self.host + 1) % HOSTS.len()
                } else {
                    *leader
                };
            }
            return;
        }
        self.answers.extend(encoded.into_bytes().unwrap());
    }
}

fn versions() -> ApiVersionsResponse {
    let keys = [
        ApiKey::ApiVersions,
        ApiKey::Metadata,
        ApiKey::InitProducerId,
        ApiKey::Produce,
        ApiKey::Fetch,
        ApiKey::ListOffsets,
    ];
    let offered = |key: &ApiKey| ApiVersion {
        api_key: key.key(),
        min_version: key.min_version(),
        max_version: key.max_version_stable(),
    };
    ApiVersionsResponse {
        api_keys: keys.iter().map(offered).collect(),
        ..Default::default()
    }
}

fn metadata(state: &mut State, request: &MetadataRequest) -> MetadataResponse {
    let is_asked = request.topics.as_ref().is_some_and(|it| !it.is_empty());
    let is_heard = !is_asked || state.unheard == 0;
    state.unheard -= usize::from(!is_heard);
    let leaders = &state.leaders;
    let partition = |index: usize| MetadataResponsePartition {
        partition_index: index as i32,
        leader_id: leaders[index] as i32 + 1,
        ..Default::default()
    };
    let asked = request
        .topics
        .iter()
        .flatten()
        .filter_map(|topic| topic.name.clone());
    let topic = |name: String| match name.as_str() {
        TOPIC if is_heard => MetadataResponseTopic {
            name: Some(name),
            topic_id: ID,
            partitions: (0..leaders.len()).map(partition).collect(),
            ..Default::default()
        },
        _ => MetadataResponseTopic {
            name: Some(name),
            error_code: ErrorCode::UnknownTopicOrPartition as i16,
            ..Default::default()
        },
    };
    let broker = |(at, host): (usize, &&str)| MetadataResponseBroker {
        node_id: at as i32 + 1,
        host: (*host).into(),
        port: 9092,
        rack: None,
    };
    MetadataResponse {
        brokers: HOSTS.iter().enumerate().map(broker).collect(),
        controller_id: 1,
        topics: asked.map(topic).collect(),
        ..Default::default()
    }
}

fn produce(
    state: &mut State,
    host: usize,
    request: &ProduceRequest,
    refused: Option<ErrorCode>,
) -> ProduceResponse {
    let mut partition_responses = Vec::new();
    for partition in &request.topic_data[0].partition_data {
        let Some(Records::Bytes(records)) = &partition.records else {
            panic!("records are bytes")
        };
        let batch = Batch::cut(records, Source::Produce)
            .next()
            .unwrap()
            .expect("the client writes valid batches");
        let (code, base_offset) = match refused {
            Some(code) => (code, -1),
            None if state.leaders[partition.index as usize] != host => {
                (ErrorCode::NotLeaderOrFollower, -1)
            }
            None if records.len() > state.batch_bytes_max => (ErrorCode::MessageTooLarge, -1),
            None => state.logs[partition.index as usize].append(batch),
        };
        partition_responses.push(PartitionProduceResponse {
            index: partition.index,
            error_code: code as i16,
            base_offset,
            ..Default::default()
        });
    }
    let topic = TopicProduceResponse {
        topic_id: ID,
        partition_responses,
        ..Default::default()
    };
    ProduceResponse {
        responses: vec![topic],
        ..Default::default()
    }
}

/// The ends of logs, whatever is asked for.
fn list_offsets(state: &State, request: &ListOffsetsRequest) -> ListOffsetsResponse {
    let end = |asked: &ListOffsetsPartition| ListOffsetsPartitionResponse {
        partition_index: asked.partition_index,
        offset: state.logs[asked.partition_index as usize].end(),
        ..Default::default()
    };
    let topics = request.topics.iter().map(|topic| ListOffsetsTopicResponse {
        name: topic.name.clone(),
        partitions: topic.partitions.iter().map(end).collect(),
    });
    ListOffsetsResponse {
        topics: topics.collect(),
        ..Default::default()
    }
}

fn fetch(state: &State, request: &FetchRequest, refused: Option<ErrorCode>) -> FetchResponse {
    let mut partitions = Vec::new();
    for asked in &request.topics[0].partitions {
        let log = &state.logs[asked.partition as usize];
        let from = log
            .batches
            .iter()
            .filter(|batch| batch.next_offset().0 > asked.fetch_offset);
        let is_rotten = |batch: &Batch| {
            let holds = |range: &std::ops::Range<i64>| {
                batch.base_offset().0 < range.end && range.start < batch.next_offset().0
            };
            state.rotten.iter().any(holds)
        };
        // Good batches are sent; rot is an error for the client that asks for it.
        let mut from = from.peekable();
        let refused = match from.peek() {
            Some(first) if is_rotten(first) => Some(ErrorCode::CorruptMessage),
            _ => refused,
        };
        let from = from.take_while(|batch| !is_rotten(batch));
        let mut bytes: Vec<u8> = from.flat_map(|batch| batch.to_bytes()).collect();
        let first = bytes.first_chunk::<12>().map_or(0, |head| {
            12 + i32::from_be_bytes([head[8], head[9], head[10], head[11]]) as usize
        });
        bytes.truncate(state.fetch_bytes.max(first));
        let (code, bytes) = refused.map_or((ErrorCode::None, bytes), |code| (code, Vec::new()));
        partitions.push(PartitionData {
            partition_index: asked.partition,
            error_code: code as i16,
            high_watermark: log.end(),
            records: Some(Records::Bytes(bytes.into())),
            ..Default::default()
        });
    }
    FetchResponse {
        responses: vec![FetchableTopicResponse {
            topic_id: ID,
            partitions,
            ..Default::default()
        }],
        ..Default::default()
    }
}

/// A small generator, so that a failing seed can be told.
pub(crate) fn random(seed: u64) -> impl FnMut(u64) -> u64 {
    let mut state = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
    move |below| {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        (state >> 11) % below
    }
}
