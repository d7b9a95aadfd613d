//! The messages of a hostile server before the client's end of a login, of a user and of a node: bytes of any kind, and those of an honest
//! server with some changed.
//!
//! A client goes on with a first message only if that goes on with its own login, and believes no server that does not prove, by a
//! second computation, that it knows the secret.

#![no_main]

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use esker_fuzz::logins::{self, NODES, Proves, USER, attribute, fakes, record, text};
use esker_fuzz::script::Script;
use libfuzzer_sys::fuzz_target;
use security::login::node::{NodeClient, NodeVerifying};
use security::login::scram::{self, Client, Hash, ITERATIONS, NONCE_RANDOM_BYTES, Verifying};

const RANDOM: [u8; NONCE_RANDOM_BYTES] = [5; NONCE_RANDOM_BYTES];
const OTHER: [u8; NONCE_RANDOM_BYTES] = [6; NONCE_RANDOM_BYTES];

fuzz_target!(|data: &[u8]| {
    let mut script = Script::new(data);
    let proves = script.one_of(&[
        Proves::User(Hash::Sha256),
        Proves::User(Hash::Sha512),
        Proves::Node,
    ]);
    let (first, end) = End::begin(proves);
    let answer = said(&mut script, || honest_answer(proves, &first));
    let Some((last, verifying)) = end.prove(&answer) else {
        return;
    };
    let answer = text(&answer);
    let (salt, rounds) = check_answer(&answer);
    assert!(last.starts_with(&format!("c=biws,r={}", nonce(&answer))));
    let salted = proves.salted(&salt, rounds);
    let right = proves.server_last(&salted, (&text(&first), &answer, &last));
    let told = said(&mut script, || right.clone().into_bytes());
    let is_right = text(&told).split(',').next() == Some(&*right) && is_text(&told);
    assert_eq!(verifying.end(&told), is_right, "{}", text(&told));
});

/// A message of the server: some bytes, the honest ones, or these mangled.
fn said(script: &mut Script<'_>, honest: impl Fn() -> Vec<u8>) -> Vec<u8> {
    match script.byte() % 4 {
        0 => script.piece().to_vec(),
        1 => honest(),
        2 => script.mangle(honest()),
        _ => {
            let once = script.mangle(honest());
            script.mangle(once)
        }
    }
}

fn honest_answer(proves: Proves, first: &[u8]) -> Vec<u8> {
    match proves {
        Proves::User(hash) => {
            let first = scram::begin(hash, first).expect("of an honest client");
            let (answer, _) = first.answer(Some(record(hash)), &fakes(), &OTHER);
            answer.into_bytes()
        }
        Proves::Node => NODES.answer(first, &OTHER).expect("of an honest node").0,
    }
}

/// A first message of a server that a client has answered. Returns the salt and the rounds.
fn check_answer(answer: &str) -> (Vec<u8>, u32) {
    let own = scram::nonce(&RANDOM);
    let theirs = nonce(answer).strip_prefix(&own);
    assert!(theirs.is_some_and(|theirs| !theirs.is_empty()), "{answer}");
    let value = |name| attribute(answer, name).expect("it was read");
    let rounds: i32 = value("i=").parse().expect("a number");
    assert!(ITERATIONS.contains(&rounds), "{answer}");
    let salt = STANDARD.decode(value("s=")).expect("base64");
    (salt, rounds.unsigned_abs())
}

fn nonce(answer: &str) -> &str {
    answer
        .split(',')
        .next()
        .and_then(|at| at.strip_prefix("r="))
        .expect("it was read")
}

fn is_text(bytes: &[u8]) -> bool {
    std::str::from_utf8(bytes).is_ok()
}

/// A client of either kind.
enum End {
    User(Hash, Client),
    Node(NodeClient),
}

enum Verifies {
    User(Verifying),
    Node(NodeVerifying),
}

impl End {
    fn begin(proves: Proves) -> (Vec<u8>, End) {
        match proves {
            Proves::User(hash) => {
                let (first, client) = Client::begin(USER, &RANDOM);
                (first.into_bytes(), End::User(hash, client))
            }
            Proves::Node => {
                let (first, client) = NODES.begin(7, &RANDOM);
                (first, End::Node(client))
            }
        }
    }

    fn prove(self, answer: &[u8]) -> Option<(String, Verifies)> {
        match self {
            End::User(hash, client) => match logins::prove(client, answer, (hash, true)) {
                Ok((last, verifying)) => Some((last, Verifies::User(verifying))),
                Err(why) => {
                    assert!(!why.to_string().is_empty());
                    None
                }
            },
            End::Node(client) => match client.prove(&NODES, answer) {
                Ok((last, verifying)) => Some((text(&last), Verifies::Node(verifying))),
                Err(why) => {
                    // It may be told on.
                    assert!(why.to_string().len() < 512);
                    None
                }
            },
        }
    }
}

impl Verifies {
    /// True if the client is logged in.
    fn end(self, told: &[u8]) -> bool {
        match self {
            Verifies::User(verifying) => verifying.end(told).is_ok(),
            Verifies::Node(verifying) => verifying.end(told).is_ok(),
        }
    }
}
