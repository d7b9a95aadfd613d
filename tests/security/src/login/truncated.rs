//! Logins that end with each of their bytes: the connection is dropped there, and the broker keeps nothing of it.

use std::thread;
use std::time::Duration;

use bytes::Bytes;
use security::Secret;
use security::login::scram::{Client, Hash, Password};
use wire::messages::{ApiVersionsRequest, SaslAuthenticateRequest, SaslHandshakeRequest};

use super::Plan;
use super::door::{Broker, PASSWORD, USER};
use crate::broker::Place;
use crate::broker::frames::{Talk, of, random};
use crate::broker::table::Table;
use crate::peer::Reply;

/// Memory that may stay after thousands of connections: what an allocator keeps.
const GROWTH_KIB_MAX: u64 = 24 << 10;
const QUICK_STEP: usize = 7;

pub(crate) fn run(place: &mut Place, plan: &Plan, table: &mut Table) -> Result<(), String> {
    let mut broker = Broker::start(place, &[])?;
    let step = if plan.is_quick { QUICK_STEP } else { 1 };
    let at = broker.users.clone();
    // Files that a broker opens once and keeps are open before they are counted.
    for version in [0, 1] {
        for mechanism in MECHANISMS {
            log_in(&at, mechanism, version, usize::MAX)?;
        }
    }
    thread::sleep(Duration::from_millis(500));
    let before = broker.node.descriptors().ok_or("no descriptors to count")?;
    let memory = broker.node.resident_kib().ok_or("no memory to measure")?;
    for mechanism in MECHANISMS {
        for version in [0, 1] {
            let whole = log_in(&at, mechanism, version, usize::MAX)?;
            for count in (0..whole).step_by(step) {
                let sent = log_in(&at, mechanism, version, count);
                let got = match sent {
                    Ok(sent) if sent <= count => "dropped".to_owned(),
                    Ok(sent) => format!("{sent} bytes were sent"),
                    Err(why) => why,
                };
                let name = format!("{mechanism}, handshake v{version}: a login that is cut");
                table.check(&name, &format!("at byte {count}"), "dropped", &got);
            }
        }
    }
    let mut after = 0;
    for _ in 0..130 {
        after = broker.node.descriptors().ok_or("it has died")?;
        if after <= before {
            break;
        }
        thread::sleep(Duration::from_millis(100));
    }
    let got = match after <= before {
        true => "no more than before".to_owned(),
        false => format!("{after}, and {before} before"),
    };
    table.check("descriptors afterwards", "", "no more than before", &got);
    let now = broker.node.resident_kib().ok_or("it has died")?;
    let got = match now <= memory + GROWTH_KIB_MAX {
        true => "bounded".to_owned(),
        false => format!("{now} KiB, and {memory} KiB before"),
    };
    table.check("memory afterwards", "", "bounded", &got);
    let let_in = log_in(&at, "PLAIN", 1, usize::MAX);
    table.done("afterwards somebody logs in", "", let_in);
    broker.node.stop()
}

const MECHANISMS: [&str; 2] = ["SCRAM-SHA-512", "PLAIN"];

/// The rest of a login.
struct Cut {
    talk: Talk,
    left: usize,
    sent: usize,
}

impl Cut {
    /// Sends a frame and waits for its answer; `None` once the login is cut.
    fn ask(&mut self, frame: &[u8]) -> Result<Option<Bytes>, String> {
        let mut whole = (frame.len() as u32).to_be_bytes().to_vec();
        whole.extend_from_slice(frame);
        let count = whole.len().min(self.left);
        self.talk
            .peer
            .send_raw(&whole[..count])
            .map_err(|error| error.to_string())?;
        self.left -= count;
        self.sent += count;
        if count < whole.len() {
            return Ok(None);
        }
        match self.talk.peer.receive() {
            Reply::Frame(frame) => Ok(Some(frame.into())),
            other => Err(format!("{other:?} after {} bytes", self.sent)),
        }
    }
}

/// A login that is cut after so many bytes. Returns how many bytes were sent.
fn log_in(at: &str, mechanism: &str, version: i16, left: usize) -> Result<usize, String> {
    let talk = Talk::open(at).map_err(|error| error.to_string())?;
    let mut cut = Cut {
        talk,
        left,
        sent: 0,
    };
    cut.go(mechanism, version)?;
    Ok(cut.sent)
}

impl Cut {
    fn go(&mut self, mechanism: &str, version: i16) -> Result<(), String> {
        if self.ask(&of(&ApiVersionsRequest::default(), 0))?.is_none() {
            return Ok(());
        }
        let handshake = SaslHandshakeRequest {
            mechanism: mechanism.to_owned(),
        };
        if self.ask(&of(&handshake, version))?.is_none() {
            return Ok(());
        }
        let Some(hash) = Hash::of_mechanism(mechanism) else {
            let token = format!("\0{USER}\0{PASSWORD}");
            let answered = self.token(version, token.as_bytes())?;
            return self.end(answered);
        };
        let (first, client) = Client::begin(USER, &random());
        let Some(challenge) = self.token(version, first.as_bytes())? else {
            return Ok(());
        };
        let mut known = Password::new(hash, Secret::new(PASSWORD.as_bytes().to_vec()));
        let proved = client.prove(&challenge, &mut known);
        let (last, _) = proved.map_err(|error| error.to_string())?;
        let answered = self.token(version, last.as_bytes())?;
        self.end(answered)
    }

    /// The bytes of the answer to a token.
    fn token(&mut self, version: i16, token: &[u8]) -> Result<Option<Bytes>, String> {
        if version == 0 {
            return self.ask(token);
        }
        let auth_bytes = Bytes::copy_from_slice(token);
        let frame = of(&SaslAuthenticateRequest { auth_bytes }, 2);
        let Some(answer) = self.ask(&frame)? else {
            return Ok(None);
        };
        let mut reader = wire::Reader::new(answer);
        let read = wire::frame::decode_response::<SaslAuthenticateRequest>(&mut reader, 2);
        let (_, told) = read.map_err(|error| error.to_string())?;
        match told.error_code {
            0 => Ok(Some(told.auth_bytes)),
            code => Err(format!("code {code}")),
        }
    }

    fn end(&self, answered: Option<Bytes>) -> Result<(), String> {
        match (answered, self.left) {
            (None, 1..) => Err("the login did not end".to_owned()),
            _ => Ok(()),
        }
    }
}
