//! A client that logs in to a listener that asks for it.

use std::time::Duration;

use bytes::Bytes;
use meta::Record;
use security::login::scram::{Client, Credential, Hash, NONCE_RANDOM_BYTES, Password};
use security::{Principal, Secret};
use wire::Request;
use wire::messages::{
    ApiVersionsRequest, ApiVersionsResponse, MetadataRequest, SaslAuthenticateRequest,
    SaslAuthenticateResponse, SaslHandshakeRequest, SaslHandshakeResponse,
};
use wire::metadata::UserScramCredentialRecord;

use crate::event_loop::bench::{Bench, encoded};

const HASH: Hash = Hash::Sha256;
const SALT: &[u8] = b"a salt of alice's own, and long";
const RANDOM: [u8; NONCE_RANDOM_BYTES] = [9; NONCE_RANDOM_BYTES];
const SESSION_MS: u64 = 60_000;
const SECOND: Duration = Duration::from_secs(1);

/// A broker that knows alice, who has the password `open`, and lets users log in by SCRAM and PLAIN.
fn bench(more: &[(&str, &str)]) -> Bench {
    let own = [
        ("listeners", "SASL_PLAINTEXT://127.0.0.1:9092"),
        ("inter.broker.listener.name", "SASL_PLAINTEXT"),
        ("sasl.enabled.mechanisms", "SCRAM-SHA-256,PLAIN"),
        ("connection.failed.authentication.delay.ms", "0"),
    ];
    let all: Vec<(&str, &str)> = own.iter().chain(more).copied().collect();
    let mut bench = Bench::with(&all);
    let credential = Credential::new(HASH, b"open", SALT.to_vec(), 4096);
    let record = UserScramCredentialRecord {
        name: "alice".to_owned(),
        mechanism: HASH.number(),
        salt: SALT.to_vec().into(),
        stored_key: credential.stored_key.expose().clone().into(),
        server_key: credential.server_key.expose().clone().into(),
        iterations: 4096,
    };
    bench.publish(&[Record::from(record)]);
    bench
}

fn known(password: &str) -> Password {
    Password::new(HASH, Secret::new(password.as_bytes().to_vec()))
}

fn ask<R: Request>(bench: &mut Bench, request: &R, version: i16) -> R::Response {
    bench.put(&encoded(request, version));
    bench.answer::<R>(version).expect("an answer at once")
}

fn handshake(bench: &mut Bench, mechanism: &str) -> SaslHandshakeResponse {
    let mechanism = mechanism.to_owned();
    ask(bench, &SaslHandshakeRequest { mechanism }, 1)
}

fn token(bench: &mut Bench, bytes: &[u8]) -> SaslAuthenticateResponse {
    let auth_bytes = Bytes::copy_from_slice(bytes);
    ask(bench, &SaslAuthenticateRequest { auth_bytes }, 1)
}

fn versions(bench: &mut Bench) -> ApiVersionsResponse {
    ask(bench, &ApiVersionsRequest::default(), 0)
}

/// The exchange of SCRAM; returns the last answer.
fn scram(bench: &mut Bench, password: &str) -> SaslAuthenticateResponse {
    let (first, client) = Client::begin("alice", &RANDOM);
    let answer = token(bench, first.as_bytes());
    assert_eq!(answer.error_code, 0);
    let proved = client.prove(&answer.auth_bytes, &mut known(password));
    let (last, verifying) = proved.expect("a challenge");
    let answer = token(bench, last.as_bytes());
    if answer.error_code == 0 {
        verifying
            .end(&answer.auth_bytes)
            .expect("the broker proves itself too");
    }
    answer
}

fn metadata(bench: &mut Bench) -> Option<i16> {
    bench.put(&encoded(&MetadataRequest::default(), 9));
    let answer = bench.answer::<MetadataRequest>(9)?;
    Some(answer.error_code)
}

#[test]
fn a_user_logs_in_and_is_served_in_that_name() {
    let mut bench = bench(&[]);
    assert_eq!(versions(&mut bench).error_code, 0);
    let offered = handshake(&mut bench, "SCRAM-SHA-256");
    assert_eq!(offered.error_code, 0);
    assert_eq!(offered.mechanisms, ["SCRAM-SHA-256", "PLAIN"]);
    assert_eq!(bench.asker().principal, Principal::anonymous());
    let last = scram(&mut bench, "open");
    assert_eq!((last.error_code, last.session_lifetime_ms), (0, 0));
    assert_eq!(bench.asker().principal, Principal::user("alice"));
    assert_eq!(metadata(&mut bench), Some(0));
    // It has logged in, and its session has no end.
    assert_eq!(handshake(&mut bench, "SCRAM-SHA-256").error_code, 34);
    assert_eq!(token(&mut bench, b"x").error_code, 34);
    assert!(!bench.is_cut_off());
}

#[test]
fn nothing_is_served_before_a_login() {
    let mut bench = bench(&[]);
    assert_eq!(metadata(&mut bench), None);
    assert!(bench.is_cut_off());
}

#[test]
fn another_request_in_the_middle_of_a_login_ends_the_connection() {
    let mut bench = bench(&[]);
    handshake(&mut bench, "SCRAM-SHA-256");
    assert_eq!(metadata(&mut bench), None);
    assert!(bench.is_cut_off());
    let mut bench = self::bench(&[]);
    versions(&mut bench);
    bench.put(&encoded(&ApiVersionsRequest::default(), 0));
    assert!(bench.is_cut_off(), "the second question for the versions");
}

#[test]
fn a_question_for_the_versions_in_the_middle_of_a_login_is_answered_in_a_version_that_it_reads() {
    for (asked, written, answered) in [(0, 0, 0), (3, 3, 3), (127, 3, 0)] {
        let mut bench = bench(&[]);
        handshake(&mut bench, "SCRAM-SHA-256");
        let mut frame = encoded(&ApiVersionsRequest::default(), written);
        frame[6..8].copy_from_slice(&i16::to_be_bytes(asked));
        bench.put(&frame);
        let told = bench.answer::<ApiVersionsRequest>(answered);
        let told = told.map(|told| (told.error_code, told.api_keys.len()));
        assert_eq!(told, Some((34, 0)), "version {asked}");
        assert!(bench.is_cut_off());
    }
}

#[test]
fn wrong_credentials_are_told_alike_whoever_exists() {
    let mut told = Vec::new();
    for (name, password) in [("alice", "guess"), ("nobody", "open")] {
        let mut bench = bench(&[]);
        handshake(&mut bench, "SCRAM-SHA-256");
        let (first, client) = Client::begin(name, &RANDOM);
        let answer = token(&mut bench, first.as_bytes());
        let proved = client.prove(&answer.auth_bytes, &mut known(password));
        let (last, _) = proved.expect("a challenge");
        let answer = token(&mut bench, last.as_bytes());
        assert_eq!(answer.error_code, 58);
        assert!(bench.is_cut_off());
        told.push(answer.error_message);
    }
    assert_eq!(told[0], told[1]);
}

#[test]
fn a_refusal_is_told_after_a_pause() {
    let mut bench = bench(&[("connection.failed.authentication.delay.ms", "100")]);
    handshake(&mut bench, "PLAIN");
    let auth_bytes = Bytes::from_static(b"no token");
    bench.put(&encoded(&SaslAuthenticateRequest { auth_bytes }, 1));
    bench.pass_to_timers(Duration::from_millis(99));
    assert!(bench.answer::<SaslAuthenticateRequest>(1).is_none() && !bench.is_cut_off());
    bench.pass_to_timers(Duration::from_millis(1));
    let told = bench
        .answer::<SaslAuthenticateRequest>(1)
        .expect("it is told");
    assert_eq!(told.error_code, 58);
    assert!(bench.is_cut_off());
}

#[test]
fn a_mechanism_that_is_not_on_offer_is_answered_with_those_that_are() {
    let mut bench = bench(&[]);
    let told = handshake(&mut bench, "GSSAPI");
    assert_eq!(told.error_code, 33);
    assert_eq!(told.mechanisms, ["SCRAM-SHA-256", "PLAIN"]);
    assert!(bench.is_cut_off());
}

/// PLAIN is checked against the same records, on another thread: nothing behind the token is looked at meanwhile.
#[test]
fn a_plain_password_is_checked_elsewhere_while_requests_wait() {
    for (password, code) in [("open", 0), ("guess", 58)] {
        let mut bench = bench(&[]);
        handshake(&mut bench, "PLAIN");
        let auth_bytes = Bytes::from(format!("\0alice\0{password}"));
        bench.put(&encoded(&SaslAuthenticateRequest { auth_bytes }, 1));
        bench.put(&encoded(&MetadataRequest::default(), 9));
        assert!(bench.answer::<SaslAuthenticateRequest>(1).is_none());
        bench.check_passwords();
        let told = bench
            .answer::<SaslAuthenticateRequest>(1)
            .expect("the verdict");
        assert_eq!(told.error_code, code);
        assert_eq!(bench.answer::<MetadataRequest>(9).is_some(), code == 0);
        assert_eq!(bench.is_cut_off(), code != 0);
    }
}

/// Handshakes of version 0 have tokens without a header behind them (KIP-43).
#[test]
fn tokens_of_old_clients_travel_without_headers() {
    let mut bench = bench(&[]);
    let mechanism = "SCRAM-SHA-256".to_owned();
    let answer = ask(&mut bench, &SaslHandshakeRequest { mechanism }, 0);
    assert_eq!(answer.error_code, 0);
    let mut send = |bytes: &[u8]| {
        let mut frame = u32::try_from(bytes.len())
            .expect("a short one")
            .to_be_bytes()
            .to_vec();
        frame.extend_from_slice(bytes);
        bench.put(&frame);
        bench.answer_bytes().expect("a token")
    };
    let (first, client) = Client::begin("alice", &RANDOM);
    let challenge = send(first.as_bytes());
    let proved = client.prove(&challenge, &mut known("open"));
    let (last, verifying) = proved.expect("a challenge");
    let last = send(last.as_bytes());
    verifying.end(&last).expect("the broker proves itself too");
    assert_eq!(metadata(&mut bench), Some(0));
}

#[test]
fn a_session_ends_unless_the_client_logs_in_again() {
    let session = SESSION_MS.to_string();
    let mut bench = bench(&[("connections.max.reauth.ms", session.as_str())]);
    handshake(&mut bench, "SCRAM-SHA-256");
    let last = scram(&mut bench, "open");
    assert_eq!(last.session_lifetime_ms, SESSION_MS as i64);
    bench.pass(Duration::from_millis(SESSION_MS) - SECOND);
    assert_eq!(handshake(&mut bench, "SCRAM-SHA-256").error_code, 0);
    assert_eq!(scram(&mut bench, "open").error_code, 0);
    bench.pass(Duration::from_millis(SESSION_MS));
    assert_eq!(metadata(&mut bench), Some(0));
    bench.pass(Duration::from_millis(1));
    assert_eq!(metadata(&mut bench), None);
    assert!(bench.is_cut_off());
}

#[test]
fn strangers_have_small_frames_and_little_time() {
    let mut small = bench(&[]);
    small.put(&(64 * 1024 + 1_i32).to_be_bytes());
    assert!(!small.is_open());
    let mut slow = bench(&[]);
    versions(&mut slow);
    slow.pass(10 * SECOND);
    slow.shard.close_idle();
    assert!(slow.is_open());
    slow.pass(SECOND);
    slow.shard.close_idle();
    assert!(!slow.is_open());
}
