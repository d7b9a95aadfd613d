//! A request that another broker brings in an Envelope: all of it as one message, or its three parts by a script. What is read is fit to be
//! handled as if the client had come itself, and says the same as a second look at the bytes.

#![no_main]

use std::net::IpAddr;

use broker::Carried;
use bytes::Bytes;
use esker_fuzz::script::Script;
use libfuzzer_sys::fuzz_target;
use wire::messages::{DefaultPrincipalData, EnvelopeRequest};
use wire::{ApiKey, ErrorCode, Message, Reader, Writer, any};

/// Requests that change nothing, that only nodes make, or that carry others, and none of which a controller decides for a client.
const NEVER: [ApiKey; 14] = [
    ApiKey::Envelope,
    ApiKey::Vote,
    ApiKey::BeginQuorumEpoch,
    ApiKey::EndQuorumEpoch,
    ApiKey::Fetch,
    ApiKey::FetchSnapshot,
    ApiKey::UpdateRaftVoter,
    ApiKey::AlterPartition,
    ApiKey::BrokerRegistration,
    ApiKey::BrokerHeartbeat,
    ApiKey::ControllerRegistration,
    ApiKey::AllocateProducerIds,
    ApiKey::SaslHandshake,
    ApiKey::SaslAuthenticate,
];

fuzz_target!(|data: &[u8]| {
    let mut script = Script::new(data);
    let request = if script.flag() {
        let mut r = Reader::new(Bytes::copy_from_slice(&data[1..]));
        let Ok(request) = EnvelopeRequest::decode(&mut r, 0) else {
            return;
        };
        request
    } else {
        let principal = script.flag().then(|| own(script.piece()));
        EnvelopeRequest {
            request_principal: principal,
            client_host_address: own(script.piece()),
            request_data: own(script.piece()),
        }
    };
    let (carried, mut body) = match Carried::read(&request) {
        Ok(read) => read,
        Err(why) => {
            let ours = [
                ErrorCode::InvalidRequest,
                ErrorCode::PrincipalDeserializationFailure,
            ];
            assert!(ours.contains(&why), "{why:?}");
            return;
        }
    };
    check_client(&carried, &request);
    let api = carried.head.api().expect("a known one");
    assert!(!NEVER.contains(&api), "{api:?}");
    // Handlers decode the body; it encodes again.
    if let Ok(within) = any::decode_request(api, carried.head.version, &mut body) {
        let mut w = Writer::new();
        within
            .encode(&mut w, carried.head.version)
            .expect("decoded requests encode");
    }
});

fn own(bytes: &[u8]) -> Bytes {
    Bytes::copy_from_slice(bytes)
}

/// The client is the one of the bytes, and one that can have logged in.
fn check_client(carried: &Carried, request: &EnvelopeRequest) {
    let address = match carried.address {
        IpAddr::V4(address) => address.octets().to_vec(),
        IpAddr::V6(address) => address.octets().to_vec(),
    };
    assert_eq!(address, &request.client_host_address[..]);
    let principal = &carried.principal;
    assert!(!principal.is_node() && !principal.kind().is_empty());
    let said = request.request_principal.as_deref().expect("it was read");
    let [0, 0, said @ ..] = said else {
        panic!("a version that nobody knows");
    };
    let read = DefaultPrincipalData::decode(&mut Reader::new(own(said)), 0).expect("it was read");
    assert!(!read.token_authenticated, "there are no tokens");
    assert_eq!(
        (&*read.r#type, &*read.name),
        (principal.kind(), principal.name())
    );
}
