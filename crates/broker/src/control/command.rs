//! Commands that the active controller decides about, as Kafka's requests, and the answers to those.

use std::ops::Range;
use std::time::Duration;

use meta::decide::create_topics::NewTopic;
use meta::name;
use model::{BrokerId, Instant, Ticket};
use wire::EncodeError;
use wire::messages::create_topics_request::{
    CreatableReplicaAssignment, CreatableTopic, CreatableTopicConfig,
};
use wire::messages::{
    AllocateProducerIdsRequest, AllocateProducerIdsResponse, CreateTopicsRequest,
};

use super::envelope;
use crate::asker::Asker;
use crate::mail::calls::{Call, Recipient};
use crate::peers::Answer;

/// The version of a request in an envelope, which is that of no link.
const CREATE_TOPICS: i16 = 7;

/// A change of the metadata.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Command {
    CreateTopics(Vec<NewTopic>),
    /// A block of producer ids for a broker.
    AllocateProducerIds {
        broker: BrokerId,
        epoch: i64,
    },
}

/// The kind of a command, which says what its answer looks like.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    CreateTopics,
    AllocateProducerIds,
}

/// The outcome of a command.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Done {
    /// The topics exist, or have been refused: the metadata say which.
    Topics,
    ProducerIds(Range<i64>),
}

/// The asker behind a command, and how long the answer is waited for.
pub(crate) struct Terms<'a> {
    pub(crate) asker: &'a Asker,
    pub(crate) patience: Duration,
    pub(crate) now: Instant,
}

impl Command {
    pub(crate) fn kind(&self) -> Kind {
        match self {
            Command::CreateTopics(_) => Kind::CreateTopics,
            Command::AllocateProducerIds { .. } => Kind::AllocateProducerIds,
        }
    }

    /// The request to the active controller, whose answer comes under `ticket`.
    pub(crate) fn call(self, ticket: Ticket, terms: &Terms<'_>) -> Result<Call, EncodeError> {
        let whom = (ticket, Recipient::Controller);
        let until = terms.now.plus(terms.patience);
        match self {
            Command::CreateTopics(topics) => {
                // The broker's own topics are no wish of the client that needs them: it may not be allowed to create any.
                let are_own = topics.iter().all(|topic| name::is_internal(&topic.name));
                let request = CreateTopicsRequest {
                    topics: topics.into_iter().map(creatable).collect(),
                    timeout_ms: i32::try_from(terms.patience.as_millis()).unwrap_or(i32::MAX),
                    validate_only: false,
                };
                if are_own && terms.asker.authority.is_some() {
                    return Ok(Call::new(whom, request, until));
                }
                let wrapped = envelope::wrapped(&request, CREATE_TOPICS, terms.asker)?;
                Ok(Call::new(whom, wrapped, until))
            }
            Command::AllocateProducerIds { broker, epoch } => {
                let request = AllocateProducerIdsRequest {
                    broker_id: broker.0,
                    broker_epoch: epoch,
                };
                Ok(Call::new(whom, request, until))
            }
        }
    }
}

impl Kind {
    /// The outcome that an answer reports; none where the command was refused.
    pub(crate) fn read(self, answer: Answer) -> Option<Done> {
        match self {
            // Whatever became of each topic, the metadata that are here by then have it or do not.
            Kind::CreateTopics => Some(Done::Topics),
            Kind::AllocateProducerIds => {
                let response = answer.read::<AllocateProducerIdsResponse>();
                let response = response.filter(|response| response.error_code == 0)?;
                block(response.producer_id_start, response.producer_id_len)
            }
        }
    }
}

/// A block of producer ids, if there is one such.
pub(crate) fn block(first: i64, count: i32) -> Option<Done> {
    let end = first.checked_add(i64::from(count))?;
    (0 <= first).then_some(Done::ProducerIds(first..end))
}

fn creatable(topic: NewTopic) -> CreatableTopic {
    let assignments = topic.assignments.into_iter();
    let configs = topic.settings.into_iter();
    CreatableTopic {
        name: topic.name,
        num_partitions: topic.partitions,
        replication_factor: topic.replication_factor,
        assignments: assignments
            .map(|(partition_index, broker_ids)| CreatableReplicaAssignment {
                partition_index,
                broker_ids,
            })
            .collect(),
        configs: configs
            .map(|(name, value)| CreatableTopicConfig { name, value })
            .collect(),
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use bytes::Bytes;
    use model::{InboxId, WaiterKey};
    use security::authorize::Rules;
    use wire::messages::EnvelopeRequest;
    use wire::{ApiKey, Message, Reader, Writer, decode_request_header};

    use super::*;
    use crate::asker::Authority;
    use crate::peers::Encodable;

    const TICKET: Ticket = Ticket {
        inbox: InboxId(0),
        key: WaiterKey(1),
        part: 0,
    };

    fn client() -> Asker {
        let client = std::net::SocketAddr::from(([10, 0, 0, 7], 4000));
        Asker::anonymous(client, client)
    }

    fn call(command: Command) -> Call {
        call_for(&client(), command)
    }

    fn call_for(asker: &Asker, command: Command) -> Call {
        let terms = Terms {
            asker,
            patience: Duration::from_secs(5),
            now: Instant(0),
        };
        let call = command.call(TICKET, &terms).expect("it fits");
        assert_eq!(call.until, Instant(0).plus(terms.patience));
        assert_eq!(call.to, Recipient::Controller);
        call
    }

    fn frame(call: &Call) -> Bytes {
        call.request.frame(0, 1).expect("it fits").slice(4..)
    }

    fn body<M: Message>(frame: Bytes) -> M {
        let mut reader = Reader::new(frame);
        let head = decode_request_header(&mut reader).expect("a header");
        M::decode(&mut reader, head.version).expect("the request")
    }

    fn answer(body: Bytes) -> Answer {
        Answer { version: 0, body }
    }

    #[test]
    fn new_topics_travel_in_an_envelope_with_all_that_is_said_of_them() {
        let topic = NewTopic {
            name: "t".to_owned(),
            partitions: 3,
            replication_factor: 2,
            assignments: vec![(0, vec![1, 2])],
            settings: vec![("cleanup.policy".to_owned(), Some("compact".to_owned()))],
        };
        let call = call(Command::CreateTopics(vec![topic]));
        assert_eq!(call.request.key(), ApiKey::Envelope);
        let wrapped: EnvelopeRequest = body(frame(&call));
        assert_eq!(&wrapped.client_host_address[..], [10, 0, 0, 7]);
        let request: CreateTopicsRequest = body(wrapped.request_data);
        assert_eq!((request.timeout_ms, request.validate_only), (5_000, false));
        let [topic] = request.topics.as_slice() else {
            panic!("one topic was asked for")
        };
        assert_eq!((topic.num_partitions, topic.replication_factor), (3, 2));
        assert_eq!(topic.assignments[0].broker_ids, [1, 2]);
        let setting = &topic.configs[0];
        assert_eq!(setting.name, "cleanup.policy");
        assert_eq!(setting.value.as_deref(), Some("compact"));
    }

    #[test]
    fn topics_of_the_broker_are_asked_for_in_its_own_name_where_clients_may_not_create_any() {
        let stranger = Asker {
            authority: Some(Arc::new(Authority::new(Rules::default()))),
            ..client()
        };
        let key = |asker: &Asker, name: &str| {
            let topic = NewTopic {
                name: name.to_owned(),
                ..NewTopic::default()
            };
            let call = call_for(asker, Command::CreateTopics(vec![topic]));
            call.request.key()
        };
        assert_eq!(key(&stranger, name::OFFSETS), ApiKey::CreateTopics);
        assert_eq!(key(&stranger, "t"), ApiKey::Envelope);
        assert_eq!(key(&client(), name::OFFSETS), ApiKey::Envelope);
    }

    #[test]
    fn a_block_of_producer_ids_is_read_from_an_answer_that_has_one() {
        let command = Command::AllocateProducerIds {
            broker: BrokerId(3),
            epoch: 9,
        };
        let kind = command.kind();
        let call = call(command);
        assert_eq!(call.request.key(), ApiKey::AllocateProducerIds);
        let request: AllocateProducerIdsRequest = body(frame(&call));
        assert_eq!((request.broker_id, request.broker_epoch), (3, 9));
        for (first, count, error_code, done) in [
            (1_000, 1_000, 0, Some(Done::ProducerIds(1_000..2_000))),
            (1_000, 1_000, 77, None),
            (-1, 1_000, 0, None),
            (i64::MAX, 1, 0, None),
        ] {
            let response = AllocateProducerIdsResponse {
                producer_id_start: first,
                producer_id_len: count,
                error_code,
                ..AllocateProducerIdsResponse::default()
            };
            let mut w = Writer::new();
            response.encode(&mut w, 0).expect("it fits");
            let body = w.finish().into_bytes().expect("no files");
            assert_eq!(kind.read(answer(body)), done);
        }
        assert_eq!(kind.read(answer(Bytes::new())), None);
    }
}
