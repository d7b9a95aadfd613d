//! A stage: one broker with its users' connections, and what super prepares on it.

use std::collections::HashMap;
use std::io;
use std::time::Duration;

use bytes::Bytes;
use wire::any::{AnyRequest, AnyResponse, decode_response};
use wire::messages::{
    AddPartitionsToTxnRequest, ApiVersionsRequest, ConsumerGroupHeartbeatRequest,
    CreateAclsRequest, CreateTopicsRequest, DescribeAclsRequest, FindCoordinatorRequest,
    MetadataRequest, MetadataResponse, OffsetCommitRequest, RequestHeader, ResponseHeader,
    SaslAuthenticateRequest, SaslHandshakeRequest, add_partitions_to_txn_request as added,
    create_acls_request::AclCreation, create_topics_request::CreatableTopic,
    metadata_request::MetadataRequestTopic, offset_commit_request as commit,
};
use wire::{ApiKey, Message, Reader, Uuid, Writer};

use super::brokers::Broker;
use super::people::{PEOPLE, password, rules};
use super::shape;
use crate::peer::{Peer, Reply};

/// A request that is allowed may create an internal topic first.
const PATIENCE: Duration = Duration::from_secs(20);
const TRIES_MAX: u32 = 200;
const PAUSE: Duration = Duration::from_millis(50);
const RULES_WAIT: Duration = Duration::from_secs(2);

/// An answer, or its lack.
pub(crate) enum Outcome {
    Answer(Box<AnyResponse>),
    Closed,
    Silence,
    /// A frame that is not the answer.
    Garbled,
}

pub(crate) struct Stage {
    pub(crate) broker: Broker,
    connections: HashMap<&'static str, Peer>,
    correlation: i32,
    fresh: u32,
    /// Identities of topics by name.
    pub(crate) ids: Vec<(Uuid, &'static str)>,
}

impl Stage {
    /// Writes the rules and what all cases find there.
    pub(crate) fn set(broker: Broker) -> io::Result<Stage> {
        let mut stage = Stage {
            broker,
            connections: HashMap::new(),
            correlation: 0,
            fresh: 0,
            ids: Vec::new(),
        };
        stage.write_rules()?;
        for name in ["there", "other", "common"] {
            let id = stage.make_topic(name, 2)?;
            stage.ids.push((id, name));
        }
        stage.produce_one()?;
        // Asking for a coordinator makes its internal topic.
        for key_type in [0, 1] {
            let request = FindCoordinatorRequest {
                key_type,
                coordinator_keys: vec!["there".to_owned()],
                ..FindCoordinatorRequest::default()
            };
            stage.prepare(4, AnyRequest::FindCoordinator(request), |answer| {
                matches!(answer, AnyResponse::FindCoordinator(answer)
                    if answer.coordinators.iter().all(|c| c.error_code == 0))
            })?;
        }
        for name in ["there", "other"] {
            stage.make_group(name)?;
            stage.make_transactional_id(name)?;
        }
        Ok(stage)
    }

    pub(crate) fn fresh_name(&mut self) -> String {
        self.fresh += 1;
        format!("fresh-{}", self.fresh)
    }

    /// The answer in the words of the recorded ones.
    pub(crate) fn words(&self, outcome: Outcome, fresh: Option<Uuid>, is_ordered: bool) -> String {
        let answer = match outcome {
            Outcome::Answer(answer) => answer,
            Outcome::Closed => return "closed".to_owned(),
            Outcome::Silence => return "silence".to_owned(),
            Outcome::Garbled => return "garbled".to_owned(),
        };
        let ids = self.ids.iter().copied();
        let known: Vec<(String, &'static str)> = ids
            .chain([(super::cases::GHOST, "ghost")])
            .chain(fresh.filter(|id| !id.is_zero()).map(|id| (id, "fresh")))
            .map(|(id, name)| (id.to_string(), name))
            .collect();
        match shape::read(&format!("{answer:?}")) {
            Some(shape) => shape::written(&shape::normal(shape, &known, is_ordered)),
            None => format!("unread {answer:?}"),
        }
    }

    pub(crate) fn ask(
        &mut self,
        who: &'static str,
        version: i16,
        request: &AnyRequest,
    ) -> io::Result<Outcome> {
        let mut body = Writer::new();
        let encoded = request.encode(&mut body, version);
        encoded.map_err(|why| io::Error::other(format!("{:?} {version}: {why}", request.key())))?;
        let body = body.finish().into_bytes().map_err(io::Error::other)?;
        self.ask_bytes(who, request.key(), version, &body)
    }

    pub(crate) fn ask_bytes(
        &mut self,
        who: &'static str,
        key: ApiKey,
        version: i16,
        body: &[u8],
    ) -> io::Result<Outcome> {
        self.correlation += 1;
        let correlation = self.correlation;
        if !self.connections.contains_key(who) {
            let peer = self.connect(who)?;
            self.connections.insert(who, peer);
        }
        let Some(peer) = self.connections.get_mut(who) else {
            return Ok(Outcome::Closed);
        };
        let outcome = match peer.ask(&frame(key, version, correlation, body)?) {
            Reply::Frame(frame) => read(key, version, correlation, frame),
            Reply::Closed => Outcome::Closed,
            Reply::Silence => Outcome::Silence,
        };
        // A late answer to this would be taken for that to the next.
        if !matches!(outcome, Outcome::Answer(_)) {
            self.connections.remove(who);
        }
        Ok(outcome)
    }

    fn connect(&self, who: &'static str) -> io::Result<Peer> {
        let logs_in = PEOPLE
            .iter()
            .any(|person| person.name == who && person.logs_in);
        if !logs_in {
            return Peer::connect(&self.broker.open, PATIENCE);
        }
        let mut peer = Peer::connect(&self.broker.named, PATIENCE)?;
        let handshake = SaslHandshakeRequest {
            mechanism: "PLAIN".to_owned(),
        };
        let token = format!("\0{who}\0{}", password(who));
        let login = SaslAuthenticateRequest {
            auth_bytes: Bytes::from(token),
        };
        for (version, request) in [
            (1, AnyRequest::SaslHandshake(handshake)),
            (1, AnyRequest::SaslAuthenticate(login)),
        ] {
            let mut body = Writer::new();
            request
                .encode(&mut body, version)
                .map_err(io::Error::other)?;
            let body = body.finish().into_bytes().map_err(io::Error::other)?;
            let key = request.key();
            let code = match peer.ask(&frame(key, version, 0, &body)?) {
                Reply::Frame(answer) => match read(key, version, 0, answer) {
                    Outcome::Answer(answer) => match *answer {
                        AnyResponse::SaslHandshake(answer) => answer.error_code,
                        AnyResponse::SaslAuthenticate(answer) => answer.error_code,
                        _ => -2,
                    },
                    _ => -2,
                },
                _ => -2,
            };
            if code != 0 {
                return Err(io::Error::other(format!(
                    "{who} cannot log in: {key} was answered {code}"
                )));
            }
        }
        Ok(peer)
    }

    /// Asks as super until the answer is as it must be.
    fn prepare(
        &mut self,
        version: i16,
        request: AnyRequest,
        is_good: impl Fn(&AnyResponse) -> bool,
    ) -> io::Result<AnyResponse> {
        let mut last = String::new();
        for _ in 0..TRIES_MAX {
            match self.ask("super", version, &request) {
                Ok(Outcome::Answer(answer)) if is_good(&answer) => return Ok(*answer),
                Ok(outcome) => last = self.words(outcome, None, true),
                Err(why) => last = why.to_string(),
            }
            std::thread::sleep(PAUSE);
        }
        Err(io::Error::other(format!(
            "{request:?} does not succeed: {last}"
        )))
    }

    fn write_rules(&mut self) -> io::Result<()> {
        let all = rules();
        let count = all.len();
        let creations = all.into_iter().map(|rule| AclCreation {
            resource_type: rule.kind as i8,
            resource_name: rule.name.to_owned(),
            resource_pattern_type: if rule.is_prefix { 4 } else { 3 },
            principal: format!("User:{}", rule.person),
            host: rule.host.to_owned(),
            operation: rule.operation as i8,
            permission_type: if rule.is_allowed { 3 } else { 2 },
        });
        let request = CreateAclsRequest {
            creations: creations.collect(),
        };
        self.prepare(3, AnyRequest::CreateAcls(request), |answer| {
            matches!(answer, AnyResponse::CreateAcls(answer)
                if answer.results.iter().all(|result| result.error_code == 0))
        })?;
        let everything = DescribeAclsRequest {
            resource_type_filter: 1,
            resource_name_filter: None,
            pattern_type_filter: 1,
            principal_filter: None,
            host_filter: None,
            operation: 1,
            permission_type: 1,
        };
        let described = |answer: &AnyResponse| match answer {
            AnyResponse::DescribeAcls(answer) => {
                answer.resources.iter().map(|r| r.acls.len()).sum()
            }
            _ => 0,
        };
        self.prepare(3, AnyRequest::DescribeAcls(everything), |answer| {
            described(answer) == count
        })?;
        // Kafka's controller and broker each have an authorizer, and neither tells when it has heard of them all.
        std::thread::sleep(RULES_WAIT);
        Ok(())
    }

    pub(crate) fn make_topic(&mut self, name: &str, partitions: i32) -> io::Result<Uuid> {
        let topic = CreatableTopic {
            name: name.to_owned(),
            num_partitions: partitions,
            replication_factor: 1,
            ..CreatableTopic::default()
        };
        let request = CreateTopicsRequest {
            topics: vec![topic],
            timeout_ms: 10_000,
            ..CreateTopicsRequest::default()
        };
        self.prepare(7, AnyRequest::CreateTopics(request), |answer| {
            matches!(answer, AnyResponse::CreateTopics(answer)
                if answer.topics.iter().all(|topic| matches!(topic.error_code, 0 | 36)))
        })?;
        let asked = MetadataRequestTopic {
            name: Some(name.to_owned()),
            ..Default::default()
        };
        let request = MetadataRequest {
            topics: Some(vec![asked]),
            allow_auto_topic_creation: false,
            ..MetadataRequest::default()
        };
        let is_led = |answer: &AnyResponse| {
            matches!(answer, AnyResponse::Metadata(MetadataResponse { topics, .. }) if topics.iter()
                .all(|topic| topic.error_code == 0 && topic.partitions.iter().all(|p| p.error_code == 0)))
        };
        match self.prepare(12, AnyRequest::Metadata(request), is_led)? {
            AnyResponse::Metadata(answer) => Ok(answer.topics[0].topic_id),
            _ => Ok(Uuid::ZERO),
        }
    }

    /// A group without members that has committed offsets in `there` and `other`.
    pub(crate) fn make_group(&mut self, name: &str) -> io::Result<()> {
        let topics = ["there", "other"].map(|name| commit::OffsetCommitRequestTopic {
            name: name.to_owned(),
            partitions: vec![commit::OffsetCommitRequestPartition {
                committed_offset: 1,
                ..Default::default()
            }],
            ..Default::default()
        });
        let request = OffsetCommitRequest {
            group_id: name.to_owned(),
            topics: topics.into(),
            ..OffsetCommitRequest::default()
        };
        self.prepare(8, AnyRequest::OffsetCommit(request), |answer| {
            matches!(answer, AnyResponse::OffsetCommit(answer) if answer.topics.iter()
                .all(|topic| topic.partitions.iter().all(|p| p.error_code == 0)))
        })?;
        Ok(())
    }

    /// A group whose member is subscribed to both.
    pub(crate) fn make_consumers(&mut self, name: &str) -> io::Result<()> {
        let request = ConsumerGroupHeartbeatRequest {
            group_id: name.to_owned(),
            member_id: "stranger".to_owned(),
            rebalance_timeout_ms: 60_000,
            subscribed_topic_names: Some(vec!["there".to_owned(), "other".to_owned()]),
            topic_partitions: Some(Vec::new()),
            ..ConsumerGroupHeartbeatRequest::default()
        };
        self.prepare(1, AnyRequest::ConsumerGroupHeartbeat(request), |answer| {
            matches!(answer, AnyResponse::ConsumerGroupHeartbeat(answer) if answer.error_code == 0)
        })?;
        Ok(())
    }

    pub(crate) fn make_transactional_id(&mut self, name: &str) -> io::Result<(i64, i16)> {
        let request = super::cases::init_producer_id(Some(name));
        let answer = self.prepare(4, AnyRequest::InitProducerId(request), |answer| {
            matches!(answer, AnyResponse::InitProducerId(answer) if answer.error_code == 0)
        })?;
        match answer {
            AnyResponse::InitProducerId(answer) => Ok((answer.producer_id, answer.producer_epoch)),
            _ => Ok((-1, -1)),
        }
    }

    /// A transaction that nobody ends before its time.
    pub(crate) fn make_transaction(&mut self, name: &str) -> io::Result<()> {
        let (id, epoch) = self.make_transactional_id(name)?;
        let topics = ["there", "other"].map(|name| added::AddPartitionsToTxnTopic {
            name: name.to_owned(),
            partitions: vec![0],
        });
        let request = AddPartitionsToTxnRequest {
            v3_and_below_transactional_id: name.to_owned(),
            v3_and_below_producer_id: id,
            v3_and_below_producer_epoch: epoch,
            v3_and_below_topics: topics.into(),
            ..AddPartitionsToTxnRequest::default()
        };
        self.prepare(3, AnyRequest::AddPartitionsToTxn(request), |answer| {
            matches!(answer, AnyResponse::AddPartitionsToTxn(answer)
            if answer.results_by_topic_v3_and_below.iter().all(|topic| {
                let mut all = topic.results_by_partition.iter();
                all.all(|partition| partition.partition_error_code == 0)
            }))
        })?;
        Ok(())
    }

    fn produce_one(&mut self) -> io::Result<()> {
        let request = super::cases::produce("there", Uuid::ZERO, 0, None);
        self.prepare(9, AnyRequest::Produce(request), |answer| {
            matches!(answer, AnyResponse::Produce(answer) if answer.responses.iter()
                .all(|topic| topic.partition_responses.iter().all(|p| p.error_code == 0)))
        })?;
        Ok(())
    }

    /// The versions that users are offered.
    pub(crate) fn versions(&mut self) -> io::Result<Vec<(ApiKey, i16, i16)>> {
        let request = ApiVersionsRequest {
            client_software_name: "trespass".to_owned(),
            client_software_version: "1".to_owned(),
            ..ApiVersionsRequest::default()
        };
        let answer = self.prepare(3, AnyRequest::ApiVersions(request), |_| true)?;
        let AnyResponse::ApiVersions(answer) = answer else {
            return Err(io::Error::other("no versions"));
        };
        let keys = answer.api_keys.iter();
        Ok(keys
            .filter_map(|row| {
                let key = ApiKey::from_key(row.api_key)?;
                Some((
                    key,
                    row.min_version.max(key.min_version()),
                    row.max_version.min(key.max_version()),
                ))
            })
            .collect())
    }
}

fn frame(key: ApiKey, version: i16, correlation: i32, body: &[u8]) -> io::Result<Vec<u8>> {
    let header = RequestHeader {
        request_api_key: key.key(),
        request_api_version: version,
        correlation_id: correlation,
        client_id: Some("matrix".to_owned()),
    };
    let mut w = Writer::new();
    header
        .encode(&mut w, key.request_header_version(version))
        .map_err(io::Error::other)?;
    let mut frame = w.finish().into_bytes().map_err(io::Error::other)?.to_vec();
    frame.extend_from_slice(body);
    Ok(frame)
}

fn read(key: ApiKey, version: i16, correlation: i32, frame: Vec<u8>) -> Outcome {
    let mut r = Reader::new(Bytes::from(frame));
    let Ok(header) = ResponseHeader::decode(&mut r, key.response_header_version(version)) else {
        return Outcome::Garbled;
    };
    match decode_response(key, version, &mut r) {
        Ok(answer) if header.correlation_id == correlation => Outcome::Answer(Box::new(answer)),
        _ => Outcome::Garbled,
    }
}
