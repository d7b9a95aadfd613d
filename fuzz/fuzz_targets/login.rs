//! Frames before the server's end of a login, by a script: whatever a client sends, whole and raw, for each mechanism, with honest
//! messages of a user, of a node and of strangers among them, some of them mangled, and time that passes.
//!
//! Nobody is let in but by a proof that a second computation finds right, and by a right one everybody is. A connection that was refused
//! stays closed, an identity never becomes another one, and a request is served only in a session that lives.

#![no_main]

use std::time::Duration;

use esker_fuzz::logins::{
    self, Known, NODES, PASSWORD, Proves, SESSION, SET, STRANGER, USER, WRONG, offer,
};
use esker_fuzz::script::Script;
use libfuzzer_sys::fuzz_target;
use model::Instant;
use security::Principal;
use security::login::node::{self, NodeClient};
use security::login::scram::{Client, Hash, NONCE_RANDOM_BYTES};
use security::login::server::{Answer, Check, Done, Frame, Login, Reason, Refused, Step, Verdict};

/// Frames of one input; a broker cuts a stranger off sooner.
const FRAMES_MAX: usize = 32;
/// Passwords of PLAIN that are checked: each takes milliseconds.
const CHECKS_MAX: usize = 3;
/// Bytes that an answer may be longer than the token: server's nonce, salt and iterations, or a proof.
const ANSWER_MORE_MAX: usize = 160;
const NAME_BYTES_MAX: usize = 255;

const MECHANISMS: [&str; 6] = [
    "PLAIN",
    "SCRAM-SHA-256",
    "SCRAM-SHA-512",
    node::MECHANISM,
    "GSSAPI",
    "",
];

fuzz_target!(|data: &[u8]| {
    let mut script = Script::new(data);
    let ends = script.flag();
    let mut talk = Talk::new(ends);
    for _ in 0..FRAMES_MAX {
        if script.is_over() {
            break;
        }
        talk.turn(&mut script);
    }
});

/// The method of the handshake that was answered last.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Way {
    Plain,
    Scram(Proves),
}

/// An honest client in the middle of its login.
enum Honest {
    User(Client, bool),
    Node(NodeClient),
}

struct Talk {
    login: Login,
    now: Instant,
    frames: u8,
    checks: usize,
    way: Option<Way>,
    /// The first message that was answered, and the answer.
    dialogue: Option<(Vec<u8>, Vec<u8>)>,
    honest: Option<Honest>,
    /// A password that is being checked, and the message that it came in.
    check: Option<(Check, Vec<u8>)>,
    /// Verdicts of other logins.
    old: Vec<Verdict>,
    /// The model: who is in, until when.
    is_in: Option<(Principal, Option<Instant>)>,
    is_open: bool,
    is_closed: bool,
}

impl Talk {
    fn new(ends: bool) -> Talk {
        Talk {
            login: Login::new(offer(ends.then_some(SESSION))),
            now: Instant(10_000_000_000),
            frames: 0,
            checks: 0,
            way: None,
            dialogue: None,
            honest: None,
            check: None,
            old: Vec::new(),
            is_in: None,
            is_open: false,
            is_closed: false,
        }
    }

    fn turn(&mut self, script: &mut Script<'_>) {
        match script.byte() % 10 {
            0 => {
                let is_valid = script.flag();
                self.send(Frame::ApiVersions { is_valid });
            }
            1 => {
                let version = i16::from(script.byte() % 4) - 1;
                let mechanism = script.text_of(&MECHANISMS);
                self.send(Frame::SaslHandshake { version, mechanism });
            }
            2 => {
                let version = i16::from(script.byte() % 5) - 1;
                let token = script.piece();
                self.send(Frame::SaslAuthenticate { version, token });
            }
            3 => {
                let token = script.piece();
                self.send(Frame::Raw(token));
            }
            4 => self.send(Frame::Other),
            5 => {
                let token = self.honest(script);
                self.token(&token);
            }
            6 => {
                let token = self.honest(script);
                let token = script.mangle(token);
                self.token(&token);
            }
            7 => {
                let ms = u64::from(script.number()) * 2;
                self.now = self.now.plus(Duration::from_millis(ms));
            }
            8 => self.verdict(),
            _ => {
                if let Some(old) = self.old.first().copied() {
                    self.on_verdict(&old, false);
                }
            }
        }
        self.look();
    }

    /// The next message of a client that keeps to the rules, whoever it is.
    fn honest(&mut self, script: &mut Script<'_>) -> Vec<u8> {
        let who = script.byte();
        let (name, is_right) = match who % 4 {
            0 => (USER, true),
            1 => (USER, false),
            2 => (STRANGER, true),
            _ => (SET, true),
        };
        let own = [who; NONCE_RANDOM_BYTES];
        let answer = self.dialogue.as_ref().map(|(_, answer)| answer.clone());
        match (self.way, self.honest.take(), answer) {
            (
                Some(Way::Scram(Proves::User(hash))),
                Some(Honest::User(client, is_right)),
                Some(answer),
            ) => {
                let proved = logins::prove(client, &answer, (hash, is_right));
                proved.map_or_else(|_| Vec::new(), |(proof, _)| proof.into_bytes())
            }
            (Some(Way::Scram(Proves::Node)), Some(Honest::Node(client)), Some(answer)) => {
                let proved = client.prove(&NODES, &answer);
                proved.map_or_else(|_| Vec::new(), |(proof, _)| proof)
            }
            (Some(Way::Scram(Proves::User(_))), _, _) => {
                let (first, client) = Client::begin(name, &own);
                self.honest = Some(Honest::User(client, is_right));
                first.into_bytes()
            }
            (Some(Way::Scram(Proves::Node)), _, _) => {
                let (first, client) = NODES.begin(i32::from(who), &own);
                self.honest = Some(Honest::Node(client));
                first
            }
            (Some(Way::Plain) | None, _, _) => {
                let password = if is_right { PASSWORD } else { WRONG };
                format!("\0{name}\0{password}").into_bytes()
            }
        }
    }

    fn token(&mut self, token: &[u8]) {
        if self.login.is_raw() {
            self.send(Frame::Raw(token));
        } else {
            let version = 2;
            self.send(Frame::SaslAuthenticate { version, token });
        }
    }

    fn send(&mut self, frame: Frame<'_>) {
        self.frames += 1;
        let mut random = [0; NONCE_RANDOM_BYTES];
        random.fill(self.frames);
        let was_checking = self.check.is_some();
        let step = self.login.on_frame(frame, &Known, self.now, &random);
        let token = match frame {
            Frame::SaslAuthenticate { token, .. } | Frame::Raw(token) => token,
            _ => &[],
        };
        let is_right = self.is_right(token);
        if self.is_closed {
            assert!(is_silent(&step), "a closed connection stays closed");
            return;
        }
        assert_eq!(matches!(step, Step::Hold), was_checking);
        match step {
            Step::Versions => assert!(self.is_in.is_none(), "served as a request"),
            Step::Handshake => {
                let Frame::SaslHandshake { mechanism, .. } = frame else {
                    panic!("a handshake that nobody asked for");
                };
                (self.dialogue, self.honest) = (None, None);
                self.is_open = false;
                self.way = Some(way(mechanism));
            }
            Step::Challenge(answer) => {
                assert!(answer.len() <= token.len() + ANSWER_MORE_MAX);
                assert!(self.dialogue.is_none(), "one challenge a login");
                assert!(matches!(self.way, Some(Way::Scram(_))));
                assert!(answer.starts_with(b"r="));
                self.dialogue = Some((token.to_vec(), answer));
            }
            Step::Check(check) => {
                assert!(self.way == Some(Way::Plain));
                self.check = Some((check, token.to_vec()));
            }
            Step::Done(done) => {
                assert!(is_right, "let in without a proof");
                self.on_done(&done, token);
            }
            Step::Hold => {}
            Step::Pass | Step::NotNow(_) => {
                assert!(self.is_open && self.lives(), "served without a session");
            }
            Step::Refused(refused) => {
                let is_out_of_place = matches!(
                    refused.reason,
                    Reason::Unexpected | Reason::Version | Reason::OtherMechanism
                );
                let may_be = is_out_of_place || self.is_in.is_some();
                assert!(!is_right || may_be, "{refused:?}");
                self.on_refused(&refused);
            }
        }
    }

    /// True if a token at this moment is the proof of somebody who may be let in, by its bytes alone.
    fn is_right(&self, token: &[u8]) -> bool {
        match (self.way, &self.dialogue) {
            // Compared with the settings of the listener at once; with records later.
            (Some(Way::Plain), _) => is_plain(token, SET),
            (Some(Way::Scram(proves)), Some((first, answer))) => {
                let is_named = match proves {
                    Proves::User(_) => logins::name(first) == Some(USER),
                    Proves::Node => true,
                };
                is_named && !is_of_token(first) && proves.is_proof(first, answer, token)
            }
            _ => false,
        }
    }

    /// Has a password checked that waits for it.
    fn verdict(&mut self) {
        self.checks += 1;
        if CHECKS_MAX < self.checks {
            return;
        }
        if let Some((check, token)) = self.check.take() {
            let verdict = check.run();
            self.on_verdict(&verdict, is_plain(&token, USER));
            self.old.push(verdict);
        }
    }

    fn on_verdict(&mut self, verdict: &Verdict, is_right: bool) {
        self.check = None;
        match self.login.on_verdict(verdict, self.now) {
            Step::Done(done) => {
                assert!(is_right && !self.is_closed, "let in by a wrong password");
                self.on_done(&done, format!("\0{USER}\0{PASSWORD}").as_bytes());
            }
            Step::Refused(refused) => {
                assert!(!is_right || self.is_in.is_some() || self.is_closed);
                self.on_refused(&refused);
            }
            _ => panic!("a verdict is the end of a login"),
        }
    }

    fn on_done(&mut self, done: &Done, token: &[u8]) {
        assert!(done.last.len() <= token.len() + ANSWER_MORE_MAX);
        let is_node = self.way == Some(Way::Scram(Proves::Node));
        assert_eq!(done.principal.is_node(), is_node);
        let is_known = is_node || [USER, SET].contains(&done.principal.name());
        assert!(is_known, "nobody is called {}", done.principal);
        let before = self.is_in.as_ref();
        assert_eq!(done.is_again, before.is_some());
        assert!(before.is_none_or(|(before, _)| *before == done.principal));
        let ends = self.login.session().and_then(|session| session.ends);
        assert_eq!(done.session_ms == 0, ends.is_none());
        if ends.is_some() {
            assert_eq!(ends, Some(self.now.plus(SESSION)));
        }
        self.is_in = Some((done.principal.clone(), ends));
        self.is_open = true;
        (self.dialogue, self.honest) = (None, None);
    }

    fn on_refused(&mut self, refused: &Refused) {
        assert!(!refused.reason.to_string().is_empty() && !refused.reason.kind().is_empty());
        let name = refused.name.as_ref().map_or(0, String::len);
        assert!(name <= NAME_BYTES_MAX);
        if let Answer::Failed(words) = &refused.answer {
            assert!(!words.contains(PASSWORD), "a secret in {words}");
        }
        self.is_closed = true;
        self.is_open = false;
    }

    fn lives(&self) -> bool {
        let ends = self.is_in.as_ref().map(|(_, ends)| *ends);
        ends.is_some_and(|ends| ends.is_none_or(|ends| self.now <= ends))
    }

    /// Holds the machine against the model.
    fn look(&self) {
        let held = self.login.session().map(|session| &session.principal);
        let known = self.is_in.as_ref().map(|(principal, _)| principal);
        assert_eq!(held, known, "the old identity holds until the new proof");
        assert_eq!(self.login.admits(self.now), self.is_open && self.lives());
        assert_eq!(self.login.is_under_way(), !self.is_open && !self.is_closed);
    }
}

fn way(mechanism: &str) -> Way {
    match mechanism {
        "PLAIN" => Way::Plain,
        node::MECHANISM => Way::Scram(Proves::Node),
        name => {
            let hash = Hash::of_mechanism(name).expect("no other is on offer");
            Way::Scram(Proves::User(hash))
        }
    }
}

/// True for the message of PLAIN by which `name` is let in.
fn is_plain(token: &[u8], name: &str) -> bool {
    let tail = format!("\0{name}\0{PASSWORD}");
    token == tail.as_bytes() || token == format!("{name}{tail}").as_bytes()
}

/// True if the first message is that of a delegation token, of which there are none.
fn is_of_token(first: &[u8]) -> bool {
    let first = logins::text(first);
    let mut extensions = first.split(',').skip(4);
    extensions.any(|at| {
        let value = at.strip_prefix("tokenauth=");
        value.is_some_and(|value| value.eq_ignore_ascii_case("true"))
    })
}

fn is_silent(step: &Step) -> bool {
    matches!(step, Step::Refused(refused) if refused.answer == Answer::Nothing && !refused.is_delayed)
}
