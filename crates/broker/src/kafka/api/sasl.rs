//! SaslHandshake and SaslAuthenticate on a connection whose requests are served: a client logs in again, or another node proves itself where
//! clients need not log in.
//!
//! They are listed everywhere, since clients guess the age of a broker by the APIs that it lists, and refused as in Kafka where they have no
//! place, so that a client that was set up with SASL by mistake learns of it.

use security::login::node::MECHANISM;
use security::login::server::{Frame, LATE};
use wire::messages::{SaslAuthenticateRequest, SaslHandshakeRequest};

use crate::kafka::call::Call;
use crate::kafka::login;
use crate::kafka::login::form::Form;
use crate::net::Outcome;

pub(crate) fn on_handshake(call: &mut Call<'_>, request: SaslHandshakeRequest) -> Outcome {
    if call.login().is_none() {
        let takes_nodes = (call.entrance()).is_some_and(|it| it.offer.nodes.is_some());
        if request.mechanism != MECHANISM || !takes_nodes {
            return login::not_now(call, Form::Handshake, "");
        }
        call.begin_login();
    }
    let frame = Frame::SaslHandshake {
        version: call.version(),
        mechanism: &request.mechanism,
    };
    login::take(call, frame, Form::Handshake)
}

pub(crate) fn on_authenticate(call: &mut Call<'_>, request: SaslAuthenticateRequest) -> Outcome {
    if call.login().is_none() {
        return login::not_now(call, Form::Token, LATE);
    }
    let frame = Frame::SaslAuthenticate {
        version: call.version(),
        token: &request.auth_bytes,
    };
    login::take(call, frame, Form::Token)
}

#[cfg(test)]
mod tests {
    use security::Principal;
    use security::login::node::{ClusterSecret, NodeProof, SECRET_BYTES_MIN};
    use security::login::scram::NONCE_RANDOM_BYTES;
    use wire::messages::{
        AllocateProducerIdsRequest, ApiVersionsRequest, SaslAuthenticateResponse,
        SaslHandshakeResponse,
    };
    use wire::{ApiKey, Request};

    use super::*;
    use crate::event_loop::bench::{Bench, encoded};

    const OWN: u8 = 1;
    const FILE: &str = "/etc/cluster.secret";
    const RANDOM: [u8; NONCE_RANDOM_BYTES] = [7; NONCE_RANDOM_BYTES];

    fn secret(byte: u8) -> ClusterSecret {
        ClusterSecret::generate(&[byte; SECRET_BYTES_MIN])
    }

    /// A broker whose cluster has the secret of `OWN`.
    fn bench() -> Bench {
        let text = secret(OWN).text();
        Bench::with_file(
            FILE,
            text.as_bytes(),
            &[
                ("esker.cluster.secret.file", FILE),
                ("connection.failed.authentication.delay.ms", "0"),
            ],
        )
    }

    fn ask<R: Request>(bench: &mut Bench, request: &R, version: i16) -> R::Response {
        bench.put(&encoded(request, version));
        bench.answer::<R>(version).expect("an answer at once")
    }

    fn handshake(bench: &mut Bench, mechanism: &str) -> SaslHandshakeResponse {
        let mechanism = mechanism.to_owned();
        ask(bench, &SaslHandshakeRequest { mechanism }, 1)
    }

    fn message(bench: &mut Bench, bytes: Vec<u8>) -> SaslAuthenticateResponse {
        let auth_bytes = bytes.into();
        ask(bench, &SaslAuthenticateRequest { auth_bytes }, 1)
    }

    fn lists_peers(bench: &mut Bench) -> bool {
        let listed = ask(bench, &ApiVersionsRequest::default(), 0).api_keys;
        let key = ApiKey::AllocateProducerIds as i16;
        listed.iter().any(|row| row.api_key == key)
    }

    #[test]
    fn a_client_that_wants_sasl_is_told_that_there_is_none() {
        for version in [0, 1] {
            let mechanism = "SCRAM-SHA-256".to_owned();
            let request = SaslHandshakeRequest { mechanism };
            let told = ask(&mut bench(), &request, version);
            assert_eq!((told.error_code, told.mechanisms.len()), (34, 0));
        }
        let mut bench = bench();
        assert_eq!(message(&mut bench, b"x".to_vec()).error_code, 34);
        assert!(!bench.is_cut_off());
    }

    #[test]
    fn a_node_is_one_once_it_has_proved_that_it_has_the_secret() {
        let mut bench = bench();
        assert!(
            !lists_peers(&mut bench),
            "this machine's own address proves nothing"
        );
        let proof = NodeProof::new(&secret(OWN));
        assert_eq!(handshake(&mut bench, MECHANISM).error_code, 0);
        let (first, client) = proof.begin(3, &RANDOM);
        let answer = message(&mut bench, first);
        assert!(
            !bench.asker().principal.is_node(),
            "it has not proved itself yet"
        );
        let (last, verifying) = client
            .prove(&proof, &answer.auth_bytes)
            .expect("a challenge");
        let answer = message(&mut bench, last);
        assert_eq!(answer.error_code, 0);
        verifying
            .end(&answer.auth_bytes)
            .expect("the broker proves itself too");
        assert!(lists_peers(&mut bench));
        assert_eq!(bench.asker().principal, Principal::node(3));
    }

    #[test]
    fn one_with_another_secret_is_told_why_and_sent_away() {
        let mut bench = bench();
        let proof = NodeProof::new(&secret(OWN + 1));
        handshake(&mut bench, MECHANISM);
        let (first, _) = proof.begin(3, &RANDOM);
        let answer = message(&mut bench, first);
        assert_eq!(answer.error_code, 0);
        let told = message(&mut bench, b"c=biws,r=x,p=AAAA".to_vec());
        assert_eq!(told.error_code, 58);
        assert!(told.error_message.is_some());
        assert!(bench.is_cut_off());
        assert!(!bench.asker().principal.is_node());
    }

    #[test]
    fn a_request_of_nodes_without_proof_is_not_served() {
        let mut bench = bench();
        bench.put(&encoded(&AllocateProducerIdsRequest::default(), 0));
        let told = bench.answer::<AllocateProducerIdsRequest>(0);
        let told = told.map(|told| (told.error_code, told.producer_id_len));
        assert_eq!(told, Some((31, 0)));
        assert!(!bench.is_cut_off());
    }
}
