//! Requests in the envelope of another broker, and the answers that go back in it to the client of that (KIP-590).

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::sync::Arc;

use bytes::Bytes;
use security::Principal;
use wire::messages::EnvelopeRequest;
use wire::{ApiKey, ErrorCode, Reader, RequestHead, decode_request_header};

use crate::asker::{Asker, Authority};
use crate::control::envelope::{self, EnvelopeAnswer};
use crate::net::{EnvelopeAddress, Outcome, Reply};
use crate::ops::Desk;

/// True if the active controller alone can answer: nothing else is carried.
pub(super) const fn is_for_controller(key: ApiKey) -> bool {
    matches!(
        key,
        ApiKey::CreateTopics
            | ApiKey::DeleteTopics
            | ApiKey::CreatePartitions
            | ApiKey::AlterConfigs
            | ApiKey::IncrementalAlterConfigs
            | ApiKey::ElectLeaders
            | ApiKey::AlterPartitionReassignments
            | ApiKey::ListPartitionReassignments
            | ApiKey::UpdateFeatures
            | ApiKey::UnregisterBroker
            | ApiKey::UnregisterController
            | ApiKey::DescribeQuorum
            | ApiKey::AddRaftVoter
            | ApiKey::RemoveRaftVoter
            | ApiKey::CreateAcls
            | ApiKey::DeleteAcls
            | ApiKey::AlterUserScramCredentials
    )
}

/// Puts an answer into the envelope that it goes back in. A request that got none was not fit, or its controller is none any more and
/// cannot say what became of it: the broker that brought it must not bring it again.
pub(super) fn wrap(desk: &Desk, to: EnvelopeAddress, outcome: Outcome) -> Outcome {
    let (data, code) = match outcome {
        Outcome::Waits => return Outcome::Waits,
        Outcome::Reply(reply) => (reply.frame(), ErrorCode::None),
        Outcome::Silent | Outcome::Close if desk.shared.metadata.is_active() => {
            (None, ErrorCode::InvalidRequest)
        }
        Outcome::Silent | Outcome::Close => (None, ErrorCode::RequestTimedOut),
    };
    encode(desk, to, data, code)
}

/// The request within is not looked at.
pub(super) fn refuse(desk: &Desk, to: EnvelopeAddress, why: ErrorCode) -> Outcome {
    encode(desk, to, None, why)
}

/// A request that another broker brings, read as far as it has to be before it is handled: nothing of it has been asked about yet.
#[derive(Debug)]
pub struct Carried {
    /// Of the request within.
    pub head: RequestHead,
    /// The client that made it, for which the other broker speaks.
    pub principal: Principal,
    pub address: IpAddr,
}

impl Carried {
    /// Reads an envelope, and the head of the request within; the reader stands at its body. Refuses requests that controllers do not
    /// decide, and clients that nobody can be.
    pub fn read(request: &EnvelopeRequest) -> Result<(Carried, Reader), ErrorCode> {
        let mut reader = Reader::new(request.request_data.clone());
        let head = decode_request_header(&mut reader).ok();
        let is_fit = |head: &RequestHead| head.api().is_some_and(is_for_controller);
        let head = head.filter(is_fit).ok_or(ErrorCode::InvalidRequest)?;
        let bytes = &request.client_host_address[..];
        let v4 = <[u8; 4]>::try_from(bytes).map(|ip| IpAddr::V4(Ipv4Addr::from(ip)));
        let v6 = <[u8; 16]>::try_from(bytes).map(|ip| IpAddr::V6(Ipv6Addr::from(ip)));
        let address = v4.or(v6).map_err(|_| ErrorCode::InvalidRequest)?;
        let principal = envelope::principal(request);
        let principal = principal.ok_or(ErrorCode::PrincipalDeserializationFailure)?;
        let carried = Carried {
            head,
            principal,
            address,
        };
        Ok((carried, reader))
    }

    /// The client, as one that came to `local` itself.
    pub(super) fn asker(&self, local: SocketAddr, authority: Option<Arc<Authority>>) -> Asker {
        Asker {
            principal: self.principal.clone(),
            authority,
            ..Asker::anonymous(SocketAddr::new(self.address, 0), local)
        }
    }
}

fn encode(desk: &Desk, to: EnvelopeAddress, data: Option<Bytes>, code: ErrorCode) -> Outcome {
    let answer = EnvelopeAnswer {
        data,
        code: code.code(),
        end: Some(desk.shared.catalog.image().end()),
    };
    let EnvelopeAddress {
        correlation_id,
        version,
    } = to;
    match wire::frame::encode_response(ApiKey::Envelope, &answer, version, correlation_id) {
        Ok(encoded) => Outcome::Reply(Reply::new(encoded, Vec::new())),
        Err(_) => Outcome::Close,
    }
}

#[cfg(test)]
mod tests {
    use wire::Message;
    use wire::messages::create_acls_request::AclCreation;
    use wire::messages::create_topics_request::CreatableTopic;
    use wire::messages::{
        CreateAclsRequest, CreateAclsResponse, CreateTopicsRequest, CreateTopicsResponse,
        DescribeAclsRequest, MetadataRequest, ResponseHeader,
    };

    use super::*;
    use crate::event_loop::bench::{Bench, encoded};

    const VERSION: i16 = 7;
    const CODE: i16 = ErrorCode::TopicAuthorizationFailed as i16;

    fn enveloped(name: &str, principal: Principal) -> EnvelopeRequest {
        let topic = CreatableTopic {
            name: name.to_owned(),
            num_partitions: 1,
            replication_factor: 1,
            ..CreatableTopic::default()
        };
        let create = CreateTopicsRequest {
            topics: vec![topic],
            timeout_ms: 1_000,
            validate_only: false,
        };
        let client = SocketAddr::from(([10, 0, 0, 7], 0));
        let asker = Asker {
            principal,
            ..Asker::anonymous(client, client)
        };
        envelope::wrapped(&create, VERSION, &asker).expect("it fits")
    }

    fn ask(bench: &mut Bench, request: &EnvelopeRequest) -> (i16, Option<CreateTopicsResponse>) {
        bench.put(&encoded(request, envelope::VERSION));
        bench.commit();
        let answer = bench.answer::<EnvelopeRequest>(envelope::VERSION);
        let answer = answer.expect("it is durable");
        let within = answer.response_data.map(|data| {
            let mut reader = Reader::new(data);
            let header = ApiKey::CreateTopics.response_header_version(VERSION);
            ResponseHeader::decode(&mut reader, header).expect("a header");
            CreateTopicsResponse::decode(&mut reader, VERSION).expect("the answer")
        });
        (answer.error_code, within)
    }

    #[test]
    fn the_controller_asks_about_the_client_and_not_about_the_broker_that_brings_the_request() {
        let mut bench = Bench::with(&[
            (
                "authorizer.class.name",
                "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
            ),
            ("super.users", "User:alice"),
        ]);
        bench.become_node(2);
        for (name, principal, code) in [
            ("a", Principal::user("alice"), 0),
            ("b", Principal::anonymous(), CODE),
        ] {
            let (outer, within) = ask(&mut bench, &enveloped(name, principal));
            assert_eq!(outer, 0);
            let topics = within.expect("it was looked at").topics;
            assert_eq!(
                (topics[0].name.as_str(), topics[0].error_code),
                (name, code)
            );
        }
        let image = bench.shard.desk.shared.catalog.image();
        let is_there = ["a", "b"].map(|name| image.topic(name).is_some());
        assert_eq!(is_there, [true, false]);
    }

    #[test]
    fn a_request_of_somebody_unknown_is_refused_and_the_broker_that_brings_it_stays_connected() {
        let mut bench = Bench::new();
        bench.become_node(2);
        let mut request = enveloped("a", Principal::anonymous());
        let unknown = ErrorCode::PrincipalDeserializationFailure.code();
        for principal in [None, Some(Bytes::from_static(b"\0\0\x05Node\x021\0\0"))] {
            request.request_principal = principal;
            assert_eq!(ask(&mut bench, &request), (unknown, None));
        }
        assert!(!bench.is_cut_off());
        let image = bench.shard.desk.shared.catalog.image();
        assert!(image.topic("a").is_none());
    }

    #[test]
    fn an_envelope_in_an_envelope_and_what_is_no_controller_s_are_refused_unread() {
        let mut bench = Bench::with(&[
            (
                "authorizer.class.name",
                "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
            ),
            ("super.users", "User:alice"),
        ]);
        bench.become_node(2);
        // Of one who might carry envelopes itself: nothing but the nesting is wrong.
        let alice = Principal::user("alice");
        let inner = enveloped("a", alice.clone());
        let client = SocketAddr::from(([10, 0, 0, 7], 0));
        let asker = Asker {
            principal: alice,
            ..Asker::anonymous(client, client)
        };
        let nested = envelope::wrapped(&inner, envelope::VERSION, &asker);
        let metadata = MetadataRequest::default();
        let not_its_own = envelope::wrapped(&metadata, 12, &asker);
        let rules = DescribeAclsRequest {
            resource_type_filter: 1,
            pattern_type_filter: 1,
            operation: 1,
            permission_type: 1,
            ..DescribeAclsRequest::default()
        };
        let answered_anywhere = envelope::wrapped(&rules, 3, &asker);
        let garbage = envelope::request(Bytes::from_static(b"\0\x13\0"), &asker);
        for request in [nested, not_its_own, answered_anywhere, garbage] {
            let request = request.expect("it fits");
            let refused = (ErrorCode::InvalidRequest.code(), None);
            assert_eq!(ask(&mut bench, &request), refused);
        }
        assert!(!bench.is_cut_off());
        let image = bench.shard.desk.shared.catalog.image();
        assert!(image.topic("a").is_none());
    }

    #[test]
    fn rules_that_another_broker_brings_are_made_by_its_client_or_not_at_all() {
        let mut bench = Bench::with(&[
            (
                "authorizer.class.name",
                "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
            ),
            ("super.users", "User:alice"),
        ]);
        bench.become_node(2);
        let client = SocketAddr::from(([10, 0, 0, 7], 0));
        let rule = AclCreation {
            resource_type: 2,
            resource_name: "t".to_owned(),
            resource_pattern_type: 3,
            principal: "User:bob".to_owned(),
            host: "*".to_owned(),
            operation: 3,
            permission_type: 3,
        };
        let request = CreateAclsRequest {
            creations: vec![rule],
        };
        for (user, code, count) in [("bob", 31, 0), ("alice", 0, 1)] {
            let asker = Asker {
                principal: Principal::user(user),
                ..Asker::anonymous(client, client)
            };
            let envelope = envelope::wrapped(&request, 3, &asker).expect("it fits");
            bench.put(&encoded(&envelope, envelope::VERSION));
            bench.commit();
            let answer = bench.answer::<EnvelopeRequest>(envelope::VERSION);
            let answer = answer.expect("it is durable");
            let mut reader = Reader::new(answer.response_data.expect("it was looked at"));
            let header = ApiKey::CreateAcls.response_header_version(3);
            ResponseHeader::decode(&mut reader, header).expect("a header");
            let within = CreateAclsResponse::decode(&mut reader, 3).expect("the answer");
            assert_eq!((answer.error_code, within.results[0].error_code), (0, code));
            let image = bench.shard.desk.shared.catalog.image();
            assert_eq!(image.acls().count(), count, "{user}");
        }
    }
}
