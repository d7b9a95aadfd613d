//! Each state of a door, each kind of frame: brought into the state by real requests, then asked.

use std::thread;
use std::time::Duration;

use bytes::Bytes;
use security::Secret;
use security::login::scram::{Client, Hash, Password};
use wire::messages::{ApiVersionsRequest, SaslHandshakeRequest};

use super::Plan;
use super::door::{Broker, PASSWORD, SESSION_MS, USER};
use super::expected::{self, State, answer};
use super::frames::{self, Kind, Tokens};
use crate::broker::Place;
use crate::broker::frames::{Talk, random};
use crate::broker::table::Table;
use crate::peer::Reply;

const HASH: Hash = Hash::Sha512;
const MECHANISM: &str = "SCRAM-SHA-512";
/// A connection that stays open this long after an answer is not being closed.
const CLOSE_MAX: Duration = Duration::from_millis(700);

/// The listeners of a broker: sessions have no end at the first, and end at the second.
struct Listeners<'a> {
    users: &'a str,
    guests: &'a str,
}

/// A connection in some state, and what would be the next token.
struct Ready {
    talk: Talk,
    tokens: Tokens,
}

pub(crate) fn run(place: &mut Place, plan: &Plan, table: &mut Table) -> Result<(), String> {
    let mut broker = Broker::start(place, &[])?;
    let here = Listeners {
        users: &broker.users,
        guests: &broker.guests,
    };
    let peer = match &plan.peer {
        Some(peer) => {
            let (users, guests) = peer
                .split_once(',')
                .ok_or("--peer names two listeners: HOST:PORT,HOST:PORT")?;
            Some(Listeners { users, guests })
        }
        None => None,
    };
    let mut told = Vec::new();
    for state in expected::ALL {
        for kind in frames::ALL {
            let name = format!("{}: {}", state.name(), kind.name());
            let got = ask(&here, state, kind);
            let wanted = answer(state, kind);
            table.check(
                state.name(),
                kind.name(),
                "as expected",
                word(&got, wanted).as_str(),
            );
            told.push((name, state, kind, got));
        }
    }
    if let Some(peer) = peer {
        for (name, state, kind, ours) in told {
            let theirs = ask(&peer, state, kind);
            match expected::of_kafka(state, kind) {
                Some(wanted) => {
                    let got = word(&theirs, wanted);
                    table.check(
                        "differences from the peer that are wanted",
                        &name,
                        "as expected",
                        &got,
                    );
                }
                None => {
                    let got = same(&ours, &theirs);
                    table.check("as the peer answers", &name, "the same", &got);
                }
            }
        }
    }
    let served = Talk::open(&broker.users)
        .map_err(|error| error.to_string())
        .and_then(|mut talk| talk.scram(HASH, USER, PASSWORD));
    table.done("afterwards somebody logs in", "", served);
    broker.node.stop()
}

fn word(got: &str, wanted: &str) -> String {
    match got == wanted {
        true => "as expected".to_owned(),
        false => format!("{got}, and not {wanted}"),
    }
}

fn same(ours: &str, theirs: &str) -> String {
    match ours == theirs {
        true => "the same".to_owned(),
        false => format!("{theirs}, and here {ours}"),
    }
}

/// The outcome of a frame in a state.
fn ask(at: &Listeners<'_>, state: State, kind: Kind) -> String {
    let mut ready = match reach(at, state) {
        Ok(ready) => ready,
        Err(why) => return format!("not in that state: {why}"),
    };
    let bytes = kind.bytes(&ready.tokens);
    let reply = match ready.talk.peer.send_raw(&bytes) {
        Ok(()) => ready.talk.peer.receive(),
        Err(_) => Reply::Closed,
    };
    let told = kind.told(&reply);
    if !matches!(reply, Reply::Frame(_)) {
        return told;
    }
    ready.talk.peer.wait_at_most(CLOSE_MAX).ok();
    match ready.talk.peer.receive() {
        Reply::Closed => format!("{told}, closed"),
        Reply::Silence => told,
        Reply::Frame(_) => format!("{told}, and another answer"),
    }
}

fn reach(at: &Listeners<'_>, state: State) -> Result<Ready, String> {
    let address = match state {
        State::Mortal
        | State::Renewed
        | State::Again
        | State::AgainChallenged
        | State::OtherMechanism
        | State::Ended => at.guests,
        _ => at.users,
    };
    let mut talk = Talk::open(address).map_err(|error| error.to_string())?;
    let log_in = |talk: &mut Talk| talk.scram(HASH, USER, PASSWORD).map(|_| ());
    match state {
        State::Fresh => {}
        State::Versioned => {
            talk.ask(&ApiVersionsRequest::default(), 0)?;
        }
        State::Raw => handshake(&mut talk, MECHANISM, 0)?,
        State::Shaken => handshake(&mut talk, MECHANISM, 1)?,
        State::Open | State::Mortal => log_in(&mut talk)?,
        State::Renewed => {
            log_in(&mut talk)?;
            log_in(&mut talk)?;
        }
        State::Again => {
            log_in(&mut talk)?;
            handshake(&mut talk, MECHANISM, 1)?;
        }
        State::OtherMechanism => {
            log_in(&mut talk)?;
            handshake(&mut talk, "PLAIN", 1)?;
        }
        State::Ended => {
            log_in(&mut talk)?;
            thread::sleep(Duration::from_millis(SESSION_MS + 200));
        }
        State::Challenged | State::AgainChallenged => {
            if state == State::AgainChallenged {
                log_in(&mut talk)?;
            }
            handshake(&mut talk, MECHANISM, 1)?;
            return challenged(talk, false);
        }
        State::RawChallenged => {
            handshake(&mut talk, MECHANISM, 0)?;
            return challenged(talk, true);
        }
        State::Failed => {
            handshake(&mut talk, MECHANISM, 1)?;
            let told = talk.token(b"garbage")?;
            if told.error_code == 0 {
                return Err("it did not fail".to_owned());
            }
        }
    }
    let (first, _) = Client::begin(USER, &random());
    let tokens = Tokens {
        good: first.into_bytes(),
        bad: format!("n,a=another,n={USER},r=0123456789").into_bytes(),
        mechanism: MECHANISM,
    };
    Ok(Ready { talk, tokens })
}

fn handshake(talk: &mut Talk, mechanism: &str, version: i16) -> Result<(), String> {
    let mechanism = mechanism.to_owned();
    let told = talk.ask(&SaslHandshakeRequest { mechanism }, version)?;
    match told.error_code {
        0 => Ok(()),
        code => Err(format!("the handshake has code {code}")),
    }
}

/// The client's first message is answered: the next one is its proof, or a wrong one.
fn challenged(mut talk: Talk, is_raw: bool) -> Result<Ready, String> {
    let (first, client) = Client::begin(USER, &random());
    let challenge = if is_raw {
        match talk.peer.ask(first.as_bytes()) {
            Reply::Frame(frame) => Bytes::from(frame),
            other => return Err(format!("{other:?}")),
        }
    } else {
        talk.token(first.as_bytes())?.auth_bytes
    };
    let mut known = Password::new(HASH, Secret::new(PASSWORD.as_bytes().to_vec()));
    let proved = client.prove(&challenge, &mut known);
    let (good, _) = proved.map_err(|error| error.to_string())?;
    let bad = super::tokens::with_other_proof(&good);
    let tokens = Tokens {
        good: good.into_bytes(),
        bad: bad.into_bytes(),
        mechanism: MECHANISM,
    };
    Ok(Ready { talk, tokens })
}
