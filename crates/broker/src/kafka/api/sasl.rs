//! SaslHandshake and SaslAuthenticate on a connection that takes no SASL of clients: there other nodes of the cluster prove themselves.
//!
//! They are listed, since clients guess the age of a broker by the APIs that it lists, and refused as in Kafka, so that a client that was set
//! up with SASL by mistake learns of it. A node that proves itself is known by its number from then on. One that cannot is told so and
//! sent away.

use bytes::Bytes;
use env::logs::CONNECTIONS;
use security::Principal;
use security::login::node::{MECHANISM, NodeRefusal};
use wire::messages::{
    SaslAuthenticateRequest, SaslAuthenticateResponse, SaslHandshakeRequest, SaslHandshakeResponse,
};
use wire::{ApiKey, ErrorCode};

use crate::asker::{Asker, Login};
use crate::kafka::call::Call;
use crate::meters::meter::Refusal;
use crate::net::Outcome;

pub(crate) fn on_handshake(call: &mut Call<'_>, request: SaslHandshakeRequest) -> Outcome {
    let is_node = request.mechanism == MECHANISM;
    let takes_nodes = call.desk.shared.identity.proof().is_some();
    let response = match (is_node, takes_nodes) {
        (true, true) => {
            call.set_login(Some(Login::Named));
            SaslHandshakeResponse {
                error_code: 0,
                mechanisms: vec![MECHANISM.to_owned()],
            }
        }
        _ => no_handshake(),
    };
    call.reply(ApiKey::SaslHandshake, &response)
}

fn no_handshake() -> SaslHandshakeResponse {
    SaslHandshakeResponse {
        error_code: ErrorCode::IllegalSaslState.code(),
        mechanisms: Vec::new(),
    }
}

pub(crate) fn on_authenticate(call: &mut Call<'_>, request: SaslAuthenticateRequest) -> Outcome {
    let response = match call.take_login() {
        None => no_login(),
        Some(login) => match prove(call, login, &request.auth_bytes) {
            Ok(bytes) => SaslAuthenticateResponse {
                auth_bytes: bytes.into(),
                ..SaslAuthenticateResponse::default()
            },
            Err(why) => refuse(call, &why),
        },
    };
    call.reply(ApiKey::SaslAuthenticate, &response)
}

fn no_login() -> SaslAuthenticateResponse {
    SaslAuthenticateResponse {
        error_code: ErrorCode::IllegalSaslState.code(),
        error_message: Some(
            "SaslAuthenticate request received after successful authentication".to_owned(),
        ),
        auth_bytes: Bytes::new(),
        session_lifetime_ms: 0,
    }
}

/// Takes one message of a node; the answer to it.
fn prove(call: &mut Call<'_>, login: Login, message: &[u8]) -> Result<Vec<u8>, NodeRefusal> {
    match login {
        Login::Named => {
            let identity = call.desk.shared.identity.clone();
            let random = identity.random();
            // It was named only because there is one.
            let proof = identity.proof().ok_or(NodeRefusal::OtherLogin)?;
            let (answer, server) = proof.answer(message, &random)?;
            call.set_login(Some(Login::Asked(server)));
            Ok(answer)
        }
        Login::Asked(server) => {
            let (last, node) = server.end(message)?;
            call.become_asker(Asker {
                principal: Principal::node(node),
                ..Asker::clone(&call.asker)
            });
            Ok(last)
        }
    }
}

/// The other end is no node of this cluster: it learns why, and its connection ends.
fn refuse(call: &mut Call<'_>, why: &NodeRefusal) -> SaslAuthenticateResponse {
    call.desk.meter().on_refused(Refusal::Login);
    if let Some(kept_back) = call.desk.complaints.strangers.admit(call.desk.now) {
        tracing::warn!(
            target: CONNECTIONS,
            kept_back = kept_back.count(),
            "{} does not prove that it is a node of this cluster, and is sent away: {why}",
            call.asker.peer,
        );
    }
    call.close_behind();
    SaslAuthenticateResponse {
        error_code: ErrorCode::SaslAuthenticationFailed.code(),
        error_message: Some(why.to_string()),
        ..SaslAuthenticateResponse::default()
    }
}

#[cfg(test)]
mod tests {
    use security::login::node::{ClusterSecret, NodeProof, SECRET_BYTES_MIN};
    use security::login::scram::NONCE_RANDOM_BYTES;
    use wire::Request;
    use wire::messages::{AllocateProducerIdsRequest, ApiVersionsRequest};

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
            &[("esker.cluster.secret.file", FILE)],
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
        assert!(!lists_peers(&mut bench), "it has not proved itself yet");
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
        assert!(bench.is_cut_off());
    }
}
