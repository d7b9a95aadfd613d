//! A link by scripts: `ask`, what the other end sends, and what came of it.
//!
//! `ask NAME` is a heartbeat, `wide NAME` one that cordons directories, `fetch NAME` an API that only some scripts list. `lists KEY=MIN-MAX ..`
//! answers the question for versions; `answer` and `garbage` answer the first request; `breaks`, `refuses` and `silent` end the
//! connection. The trace has what left (`KEYvVERSION`), and what became of each request.

use std::fmt::Write;
use std::sync::Arc;

use bytes::BufMut;
use security::login::node::{ClusterSecret, NodeProof, SECRET_BYTES_MIN};
use security::login::scram::NONCE_RANDOM_BYTES;
use wire::messages::api_versions_response::ApiVersion;
use wire::messages::vote_request::{PartitionData, TopicData};
use wire::messages::{BrokerHeartbeatRequest, FetchRequest, VoteRequest};
use wire::messages::{SaslAuthenticateRequest, SaslAuthenticateResponse, SaslHandshakeResponse};
use wire::{Uuid, Writer, decode_request_header};

use super::*;

const UNTIL: Instant = Instant(7);

struct Bench {
    link: Link<&'static str>,
    shared: SharedBuffer,
    /// Correlation and version of the requests that left and have no answer.
    left: VecDeque<(i32, ApiKey, i16)>,
    /// Those of the login that left.
    messages: Vec<Bytes>,
    trace: String,
}

fn framed(body: &[u8]) -> Vec<u8> {
    let mut frame = Vec::new();
    frame.put_i32(body.len() as i32);
    frame.put_slice(body);
    frame
}

fn names(name: &str) -> &'static str {
    ["a", "b", "c"]
        .into_iter()
        .find(|known| *known == name)
        .expect("a, b or c")
}

impl Bench {
    fn new(ceilings: Ceilings, is_probe: bool) -> Bench {
        Bench {
            link: Link::new(ceilings, is_probe, None),
            shared: SharedBuffer::new(),
            left: VecDeque::new(),
            messages: Vec::new(),
            trace: String::new(),
        }
    }

    /// A link that proves itself with the secret, to an end that has the other one.
    fn with_secrets(own: u8, other: u8, may_go_without: bool) -> (Bench, NodeProof) {
        let proof = |byte| NodeProof::new(&ClusterSecret::generate(&[byte; SECRET_BYTES_MIN]));
        let own = Arc::new(proof(own));
        let (first, client) = own.begin(3, &[5; NONCE_RANDOM_BYTES]);
        let login = Login {
            proof: own,
            first,
            client,
            may_go_without,
        };
        let mut bench = Bench::new(Ceilings::default(), false);
        bench.link = Link::new(Ceilings::default(), false, Some(login));
        (bench, proof(other))
    }

    /// The other end takes the mechanism, or answers the handshake with this code.
    fn take_mechanism(&mut self, error_code: i16) {
        let response = SaslHandshakeResponse {
            error_code,
            mechanisms: Vec::new(),
        };
        self.answer_with(&response, 1);
    }

    /// The other end sends these bytes, or refuses with this code.
    fn take_message(&mut self, bytes: Vec<u8>, error_code: i16) {
        let response = SaslAuthenticateResponse {
            error_code,
            auth_bytes: bytes.into(),
            ..Default::default()
        };
        self.answer_with(&response, 1);
    }

    fn answer_with<M: Message>(&mut self, response: &M, version: i16) {
        let mut w = Writer::new();
        response.encode(&mut w, version).expect("it fits");
        let body = w.finish().into_bytes().expect("it fits");
        self.answer(&body);
        self.send();
        self.tell();
    }

    /// The message of the login that left last.
    fn message(&self) -> Vec<u8> {
        self.messages.last().expect("one left").to_vec()
    }

    fn say(&mut self, words: &str) {
        let gap = if self.trace.is_empty() { "" } else { ", " };
        write!(self.trace, "{gap}{words}").expect("to a string");
    }

    fn ask(&mut self, name: &str, is_wide: bool) {
        let request = BrokerHeartbeatRequest {
            cordoned_log_dirs: is_wide.then(|| vec![Uuid([1; 16])]),
            ..Default::default()
        };
        self.link.ask(request, Some(UNTIL), names(name));
    }

    /// Lets all that can leave do so, some bytes at a time.
    fn send(&mut self) {
        let mut sent = Vec::new();
        while let Some(bytes) = self.link.unsent() {
            let count = bytes.len().min(7);
            sent.extend_from_slice(&bytes[..count]);
            self.link.on_sent(count);
        }
        let mut rest = &sent[..];
        while let Some((head, behind)) = rest.split_first_chunk::<4>() {
            let (frame, behind) = behind.split_at(i32::from_be_bytes(*head) as usize);
            let mut reader = Reader::new(Bytes::copy_from_slice(frame));
            let head = decode_request_header(&mut reader).expect("a header");
            let key = head.api().expect("a known API");
            if key == ApiKey::SaslAuthenticate {
                let request = SaslAuthenticateRequest::decode(&mut reader, head.version);
                self.messages.push(request.expect("whole").auth_bytes);
            }
            self.left
                .push_back((head.correlation_id, key, head.version));
            self.say(&format!("{key:?}v{}", head.version));
            rest = behind;
        }
    }

    fn receive(&mut self, bytes: &[u8]) {
        let Bench { link, shared, .. } = self;
        let took = link.receive(shared, |into| {
            into.put_slice(bytes);
            Ok(bytes.len())
        });
        match took.expect("no error of the system") {
            Ok(_) => {}
            Err(Fault::Garbage) => self.say("ends"),
            Err(Fault::Login(Refused::Unknown)) => self.say("takes no proof"),
            Err(Fault::Login(Refused::Secret(_))) => self.say("another secret"),
            Err(Fault::Login(Refused::SameId)) => self.say("the same id"),
        }
    }

    fn answer(&mut self, body: &[u8]) {
        let (correlation, key, version) = self.left.pop_front().expect("something left");
        let mut frame = correlation.to_be_bytes().to_vec();
        if 0 < key.response_header_version(version) {
            frame.push(0);
        }
        frame.extend_from_slice(body);
        self.receive(&framed(&frame));
    }

    fn lists(&mut self, rows: &[&str]) {
        let row = |row: &&str| {
            let (key, range) = row.split_once('=').expect("KEY=MIN-MAX");
            let (min, max) = range.split_once('-').expect("MIN-MAX");
            let number = |text: &str| text.parse().expect("a number");
            ApiVersion {
                api_key: number(key),
                min_version: number(min),
                max_version: number(max),
            }
        };
        let response = ApiVersionsResponse {
            api_keys: rows.iter().map(row).collect(),
            ..Default::default()
        };
        let mut w = Writer::new();
        response.encode(&mut w, HELLO_VERSION).expect("it fits");
        let body = w.finish().into_bytes().expect("it fits");
        self.answer(&body);
    }

    fn step(&mut self, step: &str) {
        let words: Vec<&str> = step.split_whitespace().collect();
        match words[..] {
            ["ask", name] => self.ask(name, false),
            ["wide", name] => self.ask(name, true),
            ["fetch", name] => self.link.ask(FetchRequest::default(), None, names(name)),
            ["prevote", name] => {
                let part = PartitionData {
                    pre_vote: true,
                    ..Default::default()
                };
                let topics = vec![TopicData {
                    partitions: vec![part],
                    ..Default::default()
                }];
                let request = VoteRequest {
                    topics,
                    ..Default::default()
                };
                self.link.ask(request, Some(UNTIL), names(name));
            }
            ["connected"] => self.link.on_connected(),
            ["lists", ref rows @ ..] => self.lists(rows),
            ["answer"] => self.answer(b"xy"),
            ["garbage"] => self.receive(&framed(b"\0\0\x7f\x7fxy")),
            ["overdue"] => {
                let at = self.link.deadline().map_or(0, |at| at.0);
                self.say(&format!("due {at}"));
            }
            ["extend"] => self.link.extend(UNTIL),
            _ => panic!("{step}"),
        }
        self.send();
        self.tell();
    }

    fn tell(&mut self) {
        for reply in self.link.take_replies() {
            self.tell_reply(&reply);
        }
        for Unknown { key, newest } in self.link.take_unknown() {
            self.say(&format!("no {key:?} beyond {}", newest.unwrap_or(-1)));
        }
        if self.link.is_over() {
            self.say("over");
        }
    }

    fn tell_reply(&mut self, reply: &Reply<&'static str>) {
        match reply {
            Reply::Answered { of, answer, .. } => {
                self.say(&format!("{of} answered v{}", answer.version));
            }
            Reply::Failed { of, why } => {
                let why = match why {
                    Lost::Refused => "refused",
                    Lost::Ended { was_sent: true } => "lost, sent",
                    Lost::Ended { was_sent: false } => "lost, unsent",
                    Lost::Unsupported => "unsupported",
                };
                self.say(&format!("{of} {why}"));
            }
        }
    }

    fn end(mut self, is_refused: bool) -> String {
        let link = std::mem::replace(&mut self.link, Link::new(Ceilings::default(), false, None));
        for reply in link.end(is_refused) {
            self.tell_reply(&reply);
        }
        self.trace
    }
}

#[track_caller]
fn check_with(ceilings: &Ceilings, is_probe: bool, script: &str) {
    let (steps, expected) = script.split_once("=>").expect("steps => trace");
    let mut bench = Bench::new(ceilings.clone(), is_probe);
    let mut ended = None;
    for step in steps.split('|').map(str::trim) {
        match step {
            "breaks" => ended = Some(false),
            "refuses" => ended = Some(true),
            step => bench.step(step),
        }
    }
    let trace = match ended {
        Some(is_refused) => bench.end(is_refused),
        None => bench.trace,
    };
    assert_eq!(trace, expected.trim(), "{steps}");
}

#[track_caller]
fn check(script: &str) {
    check_with(&Ceilings::default(), false, script);
}

#[test]
fn requests_wait_for_the_versions_and_go_in_the_newest_that_both_know() {
    check("ask a => ");
    check("ask a | connected => ApiVersionsv0");
    check("ask a | connected | lists 63=0-1 => ApiVersionsv0, BrokerHeartbeatv1");
    check(
        "connected | ask a | ask b | lists 63=0-99 | answer | answer => ApiVersionsv0, BrokerHeartbeatv2, BrokerHeartbeatv2, a answered v2, b answered v2",
    );
    check(
        "connected | lists 63=0-0 | ask a | answer | ask b => ApiVersionsv0, BrokerHeartbeatv0, a answered v0, BrokerHeartbeatv0",
    );
    // APIs of later builds are passed over.
    check("connected | lists 9999=0-3 63=0-1 | ask a => ApiVersionsv0, BrokerHeartbeatv1");
}

#[test]
fn this_node_speaks_no_newer_version_than_its_ceiling() {
    let older = Ceilings::new([(ApiKey::BrokerHeartbeat, 1)]);
    check_with(
        &older,
        false,
        "connected | lists 63=0-2 | ask a => ApiVersionsv0, BrokerHeartbeatv1",
    );
}

#[test]
fn a_request_that_the_other_end_lacks_fails_alone_and_the_idle_link_ends() {
    check(
        "connected | lists 63=0-2 | fetch a => ApiVersionsv0, a unsupported, no Fetch beyond -1, over",
    );
    check(
        "connected | lists 63=0-2 | ask a | fetch b | answer => ApiVersionsv0, BrokerHeartbeatv2, b unsupported, no Fetch beyond -1, a answered v2, over",
    );
    check(
        "connected | fetch a | ask b | lists 63=2-2 => ApiVersionsv0, BrokerHeartbeatv2, a unsupported, no Fetch beyond -1",
    );
    // Too new, and too old.
    check(
        "connected | lists 63=7-9 | ask a => ApiVersionsv0, a unsupported, no BrokerHeartbeat beyond -1, over",
    );
}

#[test]
fn a_version_that_cannot_say_all_of_a_request_is_none_for_it() {
    check(
        "connected | lists 63=0-1 | wide a => ApiVersionsv0, a unsupported, no BrokerHeartbeat beyond 1, over",
    );
    check(
        "connected | lists 52=0-1 | prevote a => ApiVersionsv0, a unsupported, no Vote beyond 1, over",
    );
    check("connected | lists 52=0-2 | prevote a => ApiVersionsv0, Votev2");
}

#[test]
fn a_link_that_breaks_fails_all_that_wait_and_says_which_may_have_been_carried_out() {
    check("ask a | refuses => a refused");
    check("ask a | connected | breaks => ApiVersionsv0, a lost, unsent");
    check(
        "ask a | connected | lists 63=0-2 | ask b | answer | breaks => ApiVersionsv0, BrokerHeartbeatv2, BrokerHeartbeatv2, a answered v2, b lost, sent",
    );
}

#[test]
fn an_end_that_speaks_garbage_ends() {
    check("ask a | connected | garbage | breaks => ApiVersionsv0, ends, a lost, unsent");
    check(
        "ask a | connected | lists 63=0-2 | garbage => ApiVersionsv0, BrokerHeartbeatv2, ends, a lost, sent",
    );
    check("connected | lists 63=0-2 | garbage => ApiVersionsv0, ends");
}

#[test]
fn a_peer_that_takes_the_connection_and_says_nothing_is_overdue_with_its_first_request() {
    check("overdue => due 0");
    check("ask a | connected | overdue => ApiVersionsv0, due 7");
    check("ask a | connected | extend | overdue => ApiVersionsv0, due 7");
    check(
        "ask a | connected | lists 63=0-2 | extend | overdue => ApiVersionsv0, BrokerHeartbeatv2, due 7",
    );
}

#[test]
fn a_probe_is_one_question_for_versions() {
    let mut bench = Bench::new(Ceilings::default(), true);
    bench
        .link
        .ask(ApiVersionsRequest::default(), Some(UNTIL), "a");
    bench.step("connected");
    bench.lists(&["0=0-1"]);
    bench.tell();
    assert_eq!(bench.trace, "ApiVersionsv0, a answered v0");
}

#[test]
fn both_ends_prove_themselves_before_anything_is_asked() {
    let (mut bench, other) = Bench::with_secrets(1, 1, false);
    bench.step("ask a");
    bench.step("connected");
    bench.take_mechanism(0);
    let (answer, server) = other
        .answer(&bench.message(), &[6; NONCE_RANDOM_BYTES])
        .expect("a first message");
    bench.take_message(answer, 0);
    let (last, node) = server.end(&bench.message()).expect("the same secret");
    assert_eq!(node, 3);
    bench.take_message(last, 0);
    bench.step("lists 63=0-1");
    bench.step("answer");
    assert_eq!(
        bench.trace,
        "SaslHandshakev1, SaslAuthenticatev1, SaslAuthenticatev1, ApiVersionsv0, BrokerHeartbeatv1, a answered v1"
    );
}

#[test]
fn an_end_that_does_not_prove_itself_is_told_nothing() {
    // It has another secret, and so does not believe this one.
    let (mut bench, other) = Bench::with_secrets(1, 2, false);
    bench.step("ask a");
    bench.step("connected");
    bench.take_mechanism(0);
    let (answer, _) = other
        .answer(&bench.message(), &[6; NONCE_RANDOM_BYTES])
        .expect("a first message");
    bench.take_message(answer, 0);
    assert_eq!(
        bench.end(false),
        "SaslHandshakev1, SaslAuthenticatev1, another secret, a lost, unsent"
    );

    // It says that all is well, and has proved nothing.
    let (mut bench, other) = Bench::with_secrets(1, 1, true);
    bench.step("ask a");
    bench.step("connected");
    bench.take_mechanism(0);
    let (answer, _) = other
        .answer(&bench.message(), &[6; NONCE_RANDOM_BYTES])
        .expect("a first message");
    bench.take_message(answer, 0);
    bench.take_message(b"v=AAAA".to_vec(), 0);
    assert_eq!(
        bench.end(false),
        "SaslHandshakev1, SaslAuthenticatev1, SaslAuthenticatev1, ApiVersionsv0, another secret, a lost, unsent"
    );
}

#[test]
fn a_node_learns_that_another_one_has_its_id() {
    let (mut bench, other) = Bench::with_secrets(1, 1, false);
    let other = other.of_node(3, b"of another process");
    bench.step("ask a");
    bench.step("connected");
    bench.take_mechanism(0);
    let refused = other.answer(&bench.message(), &[6; NONCE_RANDOM_BYTES]);
    let words = refused.err().expect("it has that id").to_string();
    let response = SaslAuthenticateResponse {
        error_code: 58,
        error_message: Some(words),
        ..Default::default()
    };
    bench.answer_with(&response, 1);
    assert_eq!(
        bench.end(false),
        "SaslHandshakev1, SaslAuthenticatev1, the same id, a lost, unsent"
    );
}

#[test]
fn an_end_that_takes_no_proof_is_spoken_to_only_where_none_is_needed() {
    let (mut bench, _) = Bench::with_secrets(1, 1, false);
    bench.step("ask a");
    bench.step("connected");
    bench.take_mechanism(34);
    assert_eq!(
        bench.end(false),
        "SaslHandshakev1, SaslAuthenticatev1, takes no proof, a lost, unsent"
    );

    let (mut bench, _) = Bench::with_secrets(1, 1, true);
    bench.step("ask a");
    bench.step("connected");
    bench.take_mechanism(34);
    bench.take_message(Vec::new(), 34);
    bench.step("lists 63=0-1");
    assert_eq!(
        bench.trace,
        "SaslHandshakev1, SaslAuthenticatev1, ApiVersionsv0, BrokerHeartbeatv1"
    );
}
