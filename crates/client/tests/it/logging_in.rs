//! Logins: who gets in, what is said of those who do not, and the next login of a session with an end.

use std::time::Duration;

use client::{Client, Connection, Error, Login, LoginRefusal, Options};
use security::Secret;
use security::login::Mechanism;
use wire::messages::MetadataRequest;

use crate::door::{Door, PLAIN, SHA_256, SHA_512};

const SESSION: Duration = Duration::from_secs(60);

fn options(mechanism: Mechanism, user: &str, password: &str) -> Options {
    let password = Secret::new(password.as_bytes().to_vec());
    Options {
        login: Some(Login::new(mechanism, user, password)),
        ..Options::default()
    }
}

fn alice(mechanism: Mechanism) -> Options {
    options(mechanism, "alice", "wonderland")
}

fn failure(door: &Door, options: Options) -> Error {
    let client = Client::connect(&door.env(), "door:9092", options);
    client.err().expect("nobody gets in")
}

fn refusal(door: &Door, options: Options) -> LoginRefusal {
    match failure(door, options) {
        Error::Login { why, .. } => why,
        other => panic!("{other}"),
    }
}

fn opened(door: &Door) -> Connection {
    let connection = Connection::open(&door.env(), "door:9092", &alice(SHA_256));
    connection.unwrap_or_else(|error| panic!("{error}"))
}

fn ask(connection: &mut Connection) {
    let answer = connection.call(&MetadataRequest::default());
    answer.unwrap_or_else(|error| panic!("{error}"));
}

#[test]
fn every_mechanism_logs_in_before_anything_is_asked() {
    for (mechanism, asked) in [
        (PLAIN, "versions handshake token metadata"),
        (SHA_256, "versions handshake token token metadata"),
        (SHA_512, "versions handshake token token metadata"),
    ] {
        let door = Door::new(&[PLAIN, SHA_256, SHA_512], None);
        let client = Client::connect(&door.env(), "door:9092", alice(mechanism));
        assert!(client.is_ok(), "{mechanism:?}");
        assert_eq!(door.asked(), asked);
    }
}

#[test]
fn a_refusal_names_user_mechanism_and_address_and_repeats_the_broker() {
    for (mechanism, words) in [
        (PLAIN, "Authentication failed: Invalid username or password"),
        (
            SHA_512,
            "Authentication failed during authentication due to invalid credentials with SASL mechanism SCRAM-SHA-512",
        ),
    ] {
        for (user, password) in [("alice", "mirror"), ("bob", "wonderland")] {
            let door = Door::new(&[PLAIN, SHA_512], None);
            let error = failure(&door, options(mechanism, user, password));
            let name = mechanism.name();
            let told = format!("cannot log in to door:9092 as {user} by {name}: {words}");
            assert_eq!(error.to_string(), told);
            assert!(!error.is_retriable() && !error.is_outage());
            assert_eq!(door.0.lock().unwrap().dials, 1);
            assert!(!door.asked().contains("metadata"));
        }
    }
}

#[test]
fn a_mechanism_that_is_not_there_is_told_with_those_that_are() {
    let door = Door::new(&[PLAIN, SHA_512], None);
    let told = refusal(&door, alice(SHA_256)).to_string();
    assert!(told.ends_with("but PLAIN, SCRAM-SHA-512"), "{told}");
    assert_eq!(door.asked(), "versions handshake");
}

#[test]
fn a_broker_that_does_not_prove_itself_is_asked_for_nothing() {
    let turned = |from: &'static [u8], to: &'static [u8]| {
        let door = Door::new(&[SHA_256], None);
        door.spoil(move |_, answer| {
            let mut bytes = answer.to_vec();
            if let Some(at) = bytes.windows(from.len()).position(|part| part == from) {
                bytes[at..at + to.len()].copy_from_slice(to);
            }
            Some(bytes.into())
        });
        let why = refusal(&door, alice(SHA_256));
        assert!(matches!(why, LoginRefusal::Broker(_)), "{why}");
        assert!(!door.asked().contains("metadata"));
        why.to_string()
    };
    assert!(turned(b"v=", b"v=AAAA").contains("does not prove"));
    assert!(turned(b"v=", b"x=").contains("final message of the server"));
    assert!(turned(b"i=4096", b"i=0001").contains("1 iterations"));
    assert!(turned(b"r=", b"r=Z").contains("nonce"));
}

#[test]
fn a_listener_without_logins_says_so() {
    let door = Door::without_logins();
    let why = refusal(&door, alice(SHA_256));
    assert_eq!(why, LoginRefusal::NotAsked);
    // One that knows nothing of SASL ends the connection, and so does one that goes down.
    door.spoil(|key, answer| (key != wire::ApiKey::SaslHandshake).then_some(answer));
    let error = failure(&door, alice(SHA_256));
    assert!(matches!(error, Error::NoLogin { .. }), "{error}");
    assert!(error.is_retriable() && error.is_outage());
    assert!(error.to_string().contains("ended the login of alice"));
}

#[test]
fn a_client_without_a_user_learns_that_it_needs_one() {
    let door = Door::new(&[PLAIN, SHA_512], None);
    let error = failure(&door, Options::default());
    let Error::LoginNeeded { mechanisms, .. } = &error else {
        panic!("{error}");
    };
    assert_eq!(mechanisms, &["PLAIN", "SCRAM-SHA-512"]);
    assert!(!error.is_retriable() && !error.is_outage());
    let told = "door:9092 lets nobody in without a login; it offers PLAIN, SCRAM-SHA-512";
    assert_eq!(error.to_string(), told);
    // A broker that ends connections for another reason is asked once, and taken for what it is.
    let door = Door::without_logins();
    door.spoil(|key, answer| (key != wire::ApiKey::Metadata).then_some(answer));
    let error = failure(&door, Options::default());
    assert!(matches!(error, Error::Lost { .. }), "{error}");
    assert_eq!(door.asked(), "versions metadata versions handshake");
}

#[test]
fn answers_that_are_cut_off_let_nobody_in() {
    for mechanism in [PLAIN, SHA_256] {
        let tokens = if mechanism == PLAIN { 1 } else { 2 };
        for spoilt in 1..=1 + tokens {
            for length in 0.. {
                let door = Door::new(&[mechanism], None);
                let mut number = 0;
                let (sender, whole) = std::sync::mpsc::channel();
                door.spoil(move |key, answer| {
                    number += usize::from(key != wire::ApiKey::ApiVersions);
                    let end = if number == spoilt {
                        length
                    } else {
                        answer.len()
                    };
                    sender.send(end < answer.len()).unwrap();
                    Some(answer.slice(..end.min(answer.len())))
                });
                let client = Client::connect(&door.env(), "door:9092", alice(mechanism));
                let is_cut = whole.try_iter().any(|is_cut| is_cut);
                assert_eq!(client.is_err(), is_cut, "{mechanism:?} {spoilt} {length}");
                if !is_cut {
                    break;
                }
            }
        }
    }
}

#[test]
fn a_session_with_an_end_is_renewed_between_requests() {
    let door = Door::new(&[SHA_256], Some(SESSION));
    let mut connection = opened(&door);
    door.asked();
    for _ in 0..3 {
        door.pass(SESSION * 84 / 100);
        ask(&mut connection);
        assert_eq!(door.asked(), "metadata");
        door.pass(SESSION * 12 / 100);
        ask(&mut connection);
        assert_eq!(door.asked(), "handshake token token metadata");
    }
    // A connection that was idle for longer than that logs in before it asks.
    door.pass(SESSION * 10);
    ask(&mut connection);
    assert_eq!(door.asked(), "handshake token token metadata");
    assert_eq!(door.0.lock().unwrap().dials, 1);
}

#[test]
fn answers_that_are_under_way_come_before_the_next_login_and_are_kept() {
    let door = Door::new(&[SHA_256], Some(SESSION));
    let mut connection = opened(&door);
    let request = MetadataRequest::default();
    let mut sent = Vec::new();
    sent.push(connection.send(&request).unwrap());
    sent.push(connection.send(&request).unwrap());
    door.pass(SESSION);
    sent.push(connection.send(&request).unwrap());
    assert_eq!(connection.unanswered(), 3);
    let received = [(); 3].map(|()| connection.receive().unwrap().correlation());
    assert_eq!(received.to_vec(), sent);
    assert_eq!(connection.unanswered(), 0);
    let asked = "versions handshake token token metadata metadata handshake token token metadata";
    assert_eq!(door.asked(), asked);
}

#[test]
fn a_login_that_comes_too_soon_costs_the_connection_alone() {
    let door = Door::new(&[SHA_256], Some(Duration::from_millis(100)));
    let mut connection = opened(&door);
    door.pass(Duration::from_millis(99));
    ask(&mut connection);
    door.pass(Duration::from_millis(99));
    let error = connection.call(&MetadataRequest::default()).err();
    let error = error.expect("a broker takes one login a second");
    assert!(matches!(error, Error::Lost { .. }), "{error}");
    assert!(error.is_retriable());
}

#[test]
fn a_password_that_was_changed_ends_the_session_with_the_words_of_the_broker() {
    let door = Door::new(&[SHA_256], Some(SESSION));
    let mut connection = opened(&door);
    door.spoil(|_, answer| {
        let turned: Vec<u8> = answer.to_vec();
        let at = turned.windows(2).position(|part| part == b"s=");
        let mut turned = turned;
        if let Some(at) = at {
            turned[at + 2] ^= 1;
        }
        Some(turned.into())
    });
    door.pass(SESSION);
    let error = connection.call(&MetadataRequest::default()).err();
    let error = error.expect("the salt is that of another password");
    let told = error.to_string();
    assert!(told.contains("failed during re-authentication"), "{told}");
    assert!(!error.is_retriable());
}

#[test]
fn nothing_shows_a_password() {
    for mechanism in Mechanism::EVERY {
        let shown = format!("{:?}", alice(mechanism));
        assert!(shown.contains("alice") && !shown.contains("wonderland"));
    }
}
