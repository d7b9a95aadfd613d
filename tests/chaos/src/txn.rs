//! A transactional producer as the protocol knows it: it asks until it is answered, through every death of the broker, and speaks as
//! clients do today or as they did before each transaction had an epoch of its own.
//!
//! Owns the connections, the identity and the sequences; asks again where coordinator and leaders are after every refusal. What is written, and what an undecided transaction means, is its owner's.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use client::{Connection, Error};
use model::{ProducerEpoch, ProducerId, Sequence, Timestamp};
use sim::checker::Outcome;
use wire::messages::add_partitions_to_txn_request::AddPartitionsToTxnTopic;
use wire::messages::offset_fetch_request::{OffsetFetchRequestGroup, OffsetFetchRequestTopics};
use wire::messages::produce_request::{PartitionProduceData, TopicProduceData};
use wire::messages::txn_offset_commit_request::{
    TxnOffsetCommitRequestPartition, TxnOffsetCommitRequestTopic,
};
use wire::messages::{
    AddOffsetsToTxnRequest, AddPartitionsToTxnRequest, EndTxnRequest, FindCoordinatorRequest,
    InitProducerIdRequest, OffsetFetchRequest, ProduceRequest, TxnOffsetCommitRequest,
};
use wire::records::BatchBuilder;
use wire::{ErrorCode, Records};

use crate::load::connect;

/// Transactions that most leave open are aborted so soon.
pub(crate) const TIMEOUT_MS: i32 = 3_000;
/// A broker that stays away longer than this has failed the scenario.
pub(crate) const PATIENCE: Duration = Duration::from_secs(40);
pub(crate) const PAUSE: Duration = Duration::from_millis(10);
const GROUP: i8 = 0;
const TRANSACTION: i8 = 1;
/// Last versions that name topics.
const NAMED_PRODUCE_VERSION_MAX: i16 = 12;
const NAMED_FETCH_VERSION_MAX: i16 = 9;
/// Last versions of clients that know of one epoch for all transactions of a producer.
const OLD_PRODUCE_VERSION_MAX: i16 = 11;
const OLD_ADD_VERSION_MAX: i16 = 3;
const OLD_END_VERSION_MAX: i16 = 4;
const OLD_COMMIT_VERSION_MAX: i16 = 4;
/// The last version that takes the names of topics.
const COMMIT_VERSION_MAX: i16 = 5;

/// One batch of a transaction.
pub(crate) struct Part {
    pub(crate) partition: i32,
    pub(crate) count: usize,
    records: Records,
    is_acked: bool,
    /// Where its first record is, when that was told.
    pub(crate) base: Option<i64>,
}

/// Why a transaction goes no further.
pub(crate) enum End {
    /// Another incarnation took over, or the coordinator aborted it.
    Fenced,
    /// A result that no scenario may bring about.
    Wrong(String),
}

/// The outcomes of transactions.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Tally {
    pub(crate) committed: u64,
    pub(crate) aborted: u64,
    pub(crate) undecided: u64,
    pub(crate) fenced: u64,
    pub(crate) open: usize,
}

impl Tally {
    /// Takes the end of an open transaction, `None` if its producer crashed before it asked for any; whether it took effect, and whether
    /// its producer goes on.
    pub(crate) fn settle(
        &mut self,
        ended: Result<Option<Outcome>, End>,
    ) -> Result<(Outcome, bool), String> {
        self.open -= 1;
        let (outcome, goes_on) = match ended {
            Ok(Some(outcome)) => (outcome, outcome != Outcome::Info),
            // Nobody ever asked for a commit.
            Ok(None) => (Outcome::Fail, false),
            Err(End::Fenced) => {
                self.fenced += 1;
                (Outcome::Fail, false)
            }
            Err(End::Wrong(why)) => return Err(why),
        };
        *match outcome {
            Outcome::Ok => &mut self.committed,
            Outcome::Fail => &mut self.aborted,
            Outcome::Info => &mut self.undecided,
        } += 1;
        Ok((outcome, goes_on))
    }

    /// A scenario in which nothing was committed, aborted or fenced proves nothing.
    pub(crate) fn check(&self) -> Result<(), String> {
        if self.committed == 0 || self.aborted == 0 || self.fenced == 0 {
            Err(format!("vacuous: {self:?}"))
        } else {
            Ok(())
        }
    }
}

impl std::fmt::Display for Tally {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Tally {
            committed,
            aborted,
            undecided,
            fenced,
            ..
        } = self;
        write!(
            f,
            "{committed} transactions committed, {aborted} aborted, {undecided} undecided, {fenced} fenced"
        )
    }
}

pub(crate) struct TxnProducer {
    address: String,
    id: String,
    topic: &'static str,
    /// Adds its partitions itself, and keeps its epoch.
    pub(crate) is_old: bool,
    /// A transaction that is left open is aborted so soon.
    pub(crate) timeout_ms: i32,
    /// By address.
    connections: BTreeMap<String, Connection>,
    /// Addresses by kind and key, as far as they are known.
    coordinators: BTreeMap<(i8, String), String>,
    /// Addresses by partition.
    leaders: BTreeMap<i32, String>,
    identity: (i64, i16),
    /// The next of each partition, in the present epoch.
    sequences: BTreeMap<i32, i32>,
}

impl TxnProducer {
    pub(crate) fn new(address: &str, id: &str, topic: &'static str) -> TxnProducer {
        TxnProducer {
            address: address.to_owned(),
            id: id.to_owned(),
            topic,
            is_old: false,
            timeout_ms: TIMEOUT_MS,
            connections: BTreeMap::new(),
            coordinators: BTreeMap::new(),
            leaders: BTreeMap::new(),
            identity: (-1, -1),
            sequences: BTreeMap::new(),
        }
    }

    /// As if it had crashed: whoever waits for its answers is gone.
    pub(crate) fn drop_connection(&mut self) {
        self.connections.clear();
        self.forget();
    }

    /// Where things are may have changed.
    fn forget(&mut self) {
        self.coordinators.clear();
        self.leaders.clear();
    }

    /// Calls the coordinator of its transactions until there is an answer, in a version of at most `limit`; whether the first attempt
    /// got it.
    fn call<R: wire::Request>(
        &mut self,
        request: &R,
        limit: i16,
    ) -> Result<(R::Response, bool), String> {
        let id = self.id.clone();
        self.call_at((TRANSACTION, &id), request, limit)
    }

    /// The same of the coordinator of this kind and key.
    fn call_at<R: wire::Request>(
        &mut self,
        (kind, key): (i8, &str),
        request: &R,
        limit: i16,
    ) -> Result<(R::Response, bool), String> {
        let begun = Instant::now();
        let mut is_first = true;
        loop {
            let error = match self.coordinator(kind, key) {
                Err(error) => error,
                Ok(address) => {
                    let told = self.open(&address).and_then(|connection| {
                        connection.send_up_to(request, limit)?;
                        connection.receive_as::<R>()
                    });
                    match told {
                        Ok(response) => return Ok((response, is_first)),
                        Err(error) => {
                            // A refused connection has carried nothing.
                            is_first &= matches!(error, Error::Connect { .. });
                            error
                        }
                    }
                }
            };
            self.hang_up(&error, begun)?;
        }
    }

    fn coordinator(&mut self, kind: i8, key: &str) -> Result<String, Error> {
        let place = (kind, key.to_owned());
        if let Some(address) = self.coordinators.get(&place) {
            return Ok(address.clone());
        }
        let request = FindCoordinatorRequest {
            key_type: kind,
            coordinator_keys: vec![key.to_owned()],
            ..Default::default()
        };
        let told = connect(&self.address, PAUSE)?.call_any(&request)?;
        let found = told.coordinators.first();
        let code = found.map_or(told.error_code, |found| found.error_code);
        Error::check(code, || format!("the coordinator of {key}"), None)?;
        let (host, port) = found.map_or((told.host.clone(), told.port), |found| {
            (found.host.clone(), found.port)
        });
        let address = format!("{host}:{port}");
        self.coordinators.insert(place, address.clone());
        Ok(address)
    }

    fn leader(&mut self, partition: i32) -> Result<String, Error> {
        if let Some(address) = self.leaders.get(&partition) {
            return Ok(address.clone());
        }
        let mut client = connect(&self.address, PAUSE)?;
        let topic = client.topic(self.topic)?;
        for partition in &topic.partitions {
            if let Some(leader) = partition.leader {
                let address = client.address(leader)?.to_owned();
                self.leaders.insert(partition.index, address);
            }
        }
        let no_leader = || Error::NoLeader {
            topic: self.topic.to_owned(),
            partition,
        };
        self.leaders.get(&partition).cloned().ok_or_else(no_leader)
    }

    fn open(&mut self, address: &str) -> Result<&mut Connection, Error> {
        if !self.connections.contains_key(address) {
            let connection = connect(address, PAUSE)?.open(address)?;
            self.connections.insert(address.to_owned(), connection);
        }
        Ok(self.connections.get_mut(address).expect("opened above"))
    }

    fn hang_up(&mut self, error: &Error, since: Instant) -> Result<(), String> {
        self.drop_connection();
        if since.elapsed() > PATIENCE {
            return Err(format!("no answer for {} s: {error}", PATIENCE.as_secs()));
        }
        std::thread::sleep(PAUSE);
        Ok(())
    }

    pub(crate) fn init(&mut self) -> Result<(), String> {
        let begun = Instant::now();
        let init = InitProducerIdRequest {
            transactional_id: Some(self.id.clone()),
            transaction_timeout_ms: self.timeout_ms,
            producer_id: -1,
            producer_epoch: -1,
            ..Default::default()
        };
        loop {
            let (told, _) = self.call(&init, i16::MAX)?;
            if told.error_code == 0 {
                self.identity = (told.producer_id, told.producer_epoch);
                self.sequences.clear();
                return Ok(());
            }
            if begun.elapsed() > PATIENCE {
                return Err(format!("no producer id: error {}", told.error_code));
            }
            self.forget();
            std::thread::sleep(PAUSE);
        }
    }

    /// A transaction begins.
    pub(crate) fn begin(&mut self) {
        if !self.is_old {
            self.sequences.clear();
        }
    }

    /// The next batch of `partition`.
    pub(crate) fn part(&mut self, partition: i32, values: &[Vec<u8>]) -> Part {
        let sequence = self.sequences.entry(partition).or_default();
        let (id, epoch) = (ProducerId(self.identity.0), ProducerEpoch(self.identity.1));
        let mut builder = BatchBuilder::new()
            .producer(id, epoch, Sequence(*sequence))
            .transactional();
        for value in values {
            builder.push(Timestamp(1), None, Some(value), &[]);
        }
        *sequence += values.len() as i32;
        Part {
            partition,
            count: values.len(),
            records: builder.build().to_bytes().into(),
            is_acked: false,
            base: None,
        }
    }

    /// Writes all parts, each until it is acknowledged.
    pub(crate) fn write(&mut self, parts: &mut [Part]) -> Result<(), End> {
        let begun = Instant::now();
        if self.is_old {
            self.add(parts)?;
        }
        while parts.iter().any(|part| !part.is_acked) {
            match self.write_open(parts) {
                Ok(None) => {}
                Ok(Some(
                    ErrorCode::InvalidProducerEpoch
                    | ErrorCode::ProducerFenced
                    | ErrorCode::InvalidProducerIdMapping
                    | ErrorCode::InvalidTxnState,
                )) => return Err(End::Fenced),
                Ok(Some(
                    code @ (ErrorCode::OutOfOrderSequenceNumber | ErrorCode::UnknownProducerId),
                )) => {
                    let what = format!("refused with {code:?} although it kept order");
                    return Err(End::Wrong(what));
                }
                Ok(Some(code)) if begun.elapsed() > PATIENCE => {
                    return Err(End::Wrong(format!("cannot write: {code:?}")));
                }
                Ok(Some(_)) => {
                    self.drop_connection();
                    std::thread::sleep(PAUSE);
                }
                Err(error) => self.hang_up(&error, begun).map_err(End::Wrong)?,
            }
        }
        Ok(())
    }

    /// Informs the coordinator where the transaction is going to write.
    fn add(&mut self, parts: &[Part]) -> Result<(), End> {
        let begun = Instant::now();
        let mut partitions: Vec<i32> = parts.iter().map(|part| part.partition).collect();
        partitions.sort_unstable();
        partitions.dedup();
        let request = AddPartitionsToTxnRequest {
            v3_and_below_transactional_id: self.id.clone(),
            v3_and_below_producer_id: self.identity.0,
            v3_and_below_producer_epoch: self.identity.1,
            v3_and_below_topics: vec![AddPartitionsToTxnTopic {
                name: self.topic.to_owned(),
                partitions,
            }],
            ..Default::default()
        };
        loop {
            let (told, _) = self
                .call(&request, OLD_ADD_VERSION_MAX)
                .map_err(End::Wrong)?;
            let topics = told.results_by_topic_v3_and_below.iter();
            let mut codes = topics
                .flat_map(|topic| &topic.results_by_partition)
                .map(|partition| partition.partition_error_code);
            let Some(code) = codes.find(|code| *code != 0) else {
                return Ok(());
            };
            self.fenced_or_later(code, begun, "add partitions")?;
        }
    }

    /// Sends what is not acknowledged at once, in order; the first refusal.
    fn write_open(&mut self, parts: &mut [Part]) -> Result<Option<ErrorCode>, Error> {
        let (id, topic) = (self.id.clone(), self.topic);
        let limit = if self.is_old {
            OLD_PRODUCE_VERSION_MAX
        } else {
            NAMED_PRODUCE_VERSION_MAX
        };
        for part in parts.iter().filter(|part| !part.is_acked) {
            let address = self.leader(part.partition)?;
            let connection = self.open(&address)?;
            let data = PartitionProduceData {
                index: part.partition,
                records: Some(part.records.clone()),
            };
            let topic = TopicProduceData {
                name: topic.to_owned(),
                partition_data: vec![data],
                ..Default::default()
            };
            let request = ProduceRequest {
                transactional_id: Some(id.clone()),
                acks: -1,
                timeout_ms: 10_000,
                topic_data: vec![topic],
            };
            connection.send_up_to(&request, limit)?;
        }
        for part in parts.iter_mut().filter(|part| !part.is_acked) {
            let address = self.leader(part.partition)?;
            let response = self.open(&address)?.receive_as::<ProduceRequest>()?;
            let mut told = response.responses.iter();
            let told = told
                .find_map(|topic| topic.partition_responses.first())
                .map_or((-1, -1), |told| (told.error_code, told.base_offset));
            match ErrorCode::try_from(told.0).unwrap_or(ErrorCode::UnknownServerError) {
                ErrorCode::None => (part.is_acked, part.base) = (true, Some(told.1)),
                ErrorCode::DuplicateSequenceNumber => part.is_acked = true,
                code => return Ok(Some(code)),
            }
        }
        Ok(None)
    }

    /// `Info` when it was asked to commit and fenced before it knew.
    pub(crate) fn end(&mut self, committed: bool) -> Result<Outcome, End> {
        let begun = Instant::now();
        let request = EndTxnRequest {
            transactional_id: self.id.clone(),
            producer_id: self.identity.0,
            producer_epoch: self.identity.1,
            committed,
        };
        let mut is_certain = true;
        loop {
            let limit = if self.is_old {
                OLD_END_VERSION_MAX
            } else {
                i16::MAX
            };
            let (told, is_first) = self.call(&request, limit).map_err(End::Wrong)?;
            is_certain &= is_first;
            let code =
                ErrorCode::try_from(told.error_code).unwrap_or(ErrorCode::UnknownServerError);
            match code {
                ErrorCode::None => {
                    if !self.is_old {
                        self.identity = (told.producer_id, told.producer_epoch);
                    }
                    let outcome = if committed {
                        Outcome::Ok
                    } else {
                        Outcome::Fail
                    };
                    return Ok(outcome);
                }
                ErrorCode::ProducerFenced
                | ErrorCode::InvalidProducerEpoch
                | ErrorCode::InvalidProducerIdMapping
                | ErrorCode::InvalidTxnState => {
                    return if committed && !is_certain {
                        Ok(Outcome::Info)
                    } else {
                        Err(End::Fenced)
                    };
                }
                code if begun.elapsed() > PATIENCE => {
                    return Err(End::Wrong(format!("cannot end: {code:?}")));
                }
                _ => {
                    is_certain = false;
                    self.forget();
                    std::thread::sleep(PAUSE);
                }
            }
        }
    }

    /// The offsets of `group` that are certain; waits for those that a transaction holds.
    pub(crate) fn committed(
        &mut self,
        group: &str,
        topic: &str,
        partitions: &[i32],
    ) -> Result<BTreeMap<i32, i64>, String> {
        let begun = Instant::now();
        let request = OffsetFetchRequest {
            groups: vec![OffsetFetchRequestGroup {
                group_id: group.to_owned(),
                topics: Some(vec![OffsetFetchRequestTopics {
                    name: topic.to_owned(),
                    partition_indexes: partitions.to_vec(),
                    ..Default::default()
                }]),
                ..Default::default()
            }],
            require_stable: true,
            ..Default::default()
        };
        loop {
            let (told, _) = self.call_at((GROUP, group), &request, NAMED_FETCH_VERSION_MAX)?;
            let groups = told.groups.iter().filter(|group| group.error_code == 0);
            let found = groups
                .flat_map(|group| &group.topics)
                .flat_map(|topic| &topic.partitions)
                .filter(|partition| partition.error_code == 0);
            let found: BTreeMap<i32, i64> = found
                .map(|found| (found.partition_index, found.committed_offset.max(0)))
                .collect();
            if found.len() == partitions.len() {
                return Ok(found);
            }
            if begun.elapsed() > PATIENCE {
                return Err(format!("the offsets of {group} do not become certain"));
            }
            self.forget();
            std::thread::sleep(PAUSE);
        }
    }

    /// Makes these offsets of `group` part of the transaction, as anybody may.
    pub(crate) fn commit_offsets(
        &mut self,
        group: &str,
        topic: &str,
        offsets: &BTreeMap<i32, i64>,
    ) -> Result<(), End> {
        match self.commit_offsets_as(group, ("", -1), topic, offsets)? {
            None => Ok(()),
            Some(code) => Err(End::Wrong(format!("cannot commit offsets: {code:?}"))),
        }
    }

    /// The same as a member of the group, with its generation or epoch (KIP-447); what the group answers one that is not it any more.
    pub(crate) fn commit_offsets_as(
        &mut self,
        group: &str,
        (member_id, generation): (&str, i32),
        topic: &str,
        offsets: &BTreeMap<i32, i64>,
    ) -> Result<Option<ErrorCode>, End> {
        let begun = Instant::now();
        if self.is_old {
            self.add_group(group)?;
        }
        let partitions = offsets.iter();
        let partitions = partitions.map(|(partition, offset)| TxnOffsetCommitRequestPartition {
            partition_index: *partition,
            committed_offset: *offset,
            ..Default::default()
        });
        let request = TxnOffsetCommitRequest {
            transactional_id: self.id.clone(),
            group_id: group.to_owned(),
            producer_id: self.identity.0,
            producer_epoch: self.identity.1,
            generation_id_or_member_epoch: generation,
            member_id: member_id.to_owned(),
            topics: vec![TxnOffsetCommitRequestTopic {
                name: topic.to_owned(),
                partitions: partitions.collect(),
                ..Default::default()
            }],
            ..Default::default()
        };
        let limit = if self.is_old {
            OLD_COMMIT_VERSION_MAX
        } else {
            COMMIT_VERSION_MAX
        };
        loop {
            let told = self.call_at((GROUP, group), &request, limit);
            let (told, _) = told.map_err(End::Wrong)?;
            let partitions = told.topics.iter().flat_map(|topic| &topic.partitions);
            let mut codes = partitions.map(|partition| partition.error_code);
            match codes.find(|code| *code != 0) {
                None => return Ok(None),
                Some(code) => match ErrorCode::try_from(code) {
                    Ok(
                        refusal @ (ErrorCode::UnknownMemberId
                        | ErrorCode::IllegalGeneration
                        | ErrorCode::FencedMemberEpoch
                        | ErrorCode::StaleMemberEpoch),
                    ) => return Ok(Some(refusal)),
                    _ => self.fenced_or_later(code, begun, "commit offsets")?,
                },
            }
        }
    }

    fn add_group(&mut self, group: &str) -> Result<(), End> {
        let begun = Instant::now();
        let request = AddOffsetsToTxnRequest {
            transactional_id: self.id.clone(),
            producer_id: self.identity.0,
            producer_epoch: self.identity.1,
            group_id: group.to_owned(),
        };
        loop {
            let (told, _) = self
                .call(&request, OLD_ADD_VERSION_MAX)
                .map_err(End::Wrong)?;
            match told.error_code {
                0 => return Ok(()),
                code => self.fenced_or_later(code, begun, "add the group")?,
            }
        }
    }

    /// Pauses when the request may be asked again.
    fn fenced_or_later(&mut self, code: i16, begun: Instant, what: &str) -> Result<(), End> {
        self.forget();
        match ErrorCode::try_from(code).unwrap_or(ErrorCode::UnknownServerError) {
            ErrorCode::ProducerFenced
            | ErrorCode::InvalidProducerEpoch
            | ErrorCode::InvalidProducerIdMapping
            | ErrorCode::InvalidTxnState => Err(End::Fenced),
            code if begun.elapsed() > PATIENCE => {
                Err(End::Wrong(format!("cannot {what}: {code:?}")))
            }
            _ => {
                std::thread::sleep(PAUSE);
                Ok(())
            }
        }
    }
}
