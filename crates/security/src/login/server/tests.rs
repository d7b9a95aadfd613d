//! The server's end of a login, frame by frame.

use std::sync::LazyLock;

use super::*;
use crate::login::node::ClusterSecret;
use crate::login::scram::{Client, Password, Verifying};

mod negative;

const RANDOM: [u8; NONCE_RANDOM_BYTES] = *b"abcdefghijklmnopqrstuvwxyz";
const SALT: &[u8] = b"0123456789abcdefghijklmnop";
const PLAIN: Mechanism = Mechanism::Plain;
const SHA_256: Mechanism = Mechanism::Scram(Hash::Sha256);
const SHA_512: Mechanism = Mechanism::Scram(Hash::Sha512);
const SESSION: Duration = Duration::from_secs(60);

/// Salting takes its time: once for all tests.
static RECORDS: LazyLock<[Credential; 2]> =
    LazyLock::new(|| Hash::ALL.map(|hash| Credential::new(hash, b"secret", SALT.to_vec(), 4096)));
static NODES: LazyLock<Arc<NodeProof>> = LazyLock::new(|| {
    let secret = ClusterSecret::generate(&[1; 32]);
    Arc::new(NodeProof::new(&secret))
});

/// Alice has a record for each hash, bob one for the larger, carol a password in the settings, eve records that nobody may use.
struct Known;

impl Users for Known {
    fn scram(&self, hash: Hash, name: &str) -> Option<Credential> {
        let record = RECORDS.iter().find(|record| record.hash == hash)?.clone();
        match (name, hash) {
            ("alice", _) | ("bob", Hash::Sha512) => Some(record),
            ("eve", Hash::Sha256) => Some(Credential::new(hash, b"secret", SALT.to_vec(), 1)),
            ("eve", Hash::Sha512) => Some(Credential {
                iterations: 1_000_000_000,
                ..record
            }),
            _ => None,
        }
    }

    fn plain(&self, name: &str) -> Option<Secret<Vec<u8>>> {
        (name == "carol").then(|| Secret::new(b"carols".to_vec()))
    }
}

fn offer(session: Option<Duration>) -> Arc<Offer> {
    Arc::new(Offer {
        mechanisms: [PLAIN, SHA_256, SHA_512].map(|it| (it, session)).to_vec(),
        nodes: Some(Arc::clone(&NODES)),
        fakes: Fakes::new([7; 32]),
    })
}

fn at(seconds: u64) -> Instant {
    Instant(seconds * 1_000_000_000)
}

/// A connection, and the time on it.
struct Conn {
    login: Login,
    now: Instant,
}

impl Conn {
    fn new(session: Option<Duration>) -> Conn {
        Conn {
            login: Login::new(offer(session)),
            now: at(10),
        }
    }

    fn frame(&mut self, frame: Frame<'_>) -> Step {
        self.login.on_frame(frame, &Known, self.now, &RANDOM)
    }

    fn handshake(&mut self, version: i16, mechanism: &str) -> Step {
        self.frame(Frame::SaslHandshake { version, mechanism })
    }

    /// A token, as the handshake has it; a check is run at once.
    fn token(&mut self, token: &[u8]) -> Step {
        let frame = if self.login.is_raw() {
            Frame::Raw(token)
        } else {
            let version = 2;
            Frame::SaslAuthenticate { version, token }
        };
        match self.frame(frame) {
            Step::Check(check) => self.login.on_verdict(&check.run(), self.now),
            step => step,
        }
    }

    fn plain(&mut self, version: i16, name: &str, password: &str) -> Step {
        assert!(matches!(self.handshake(version, "PLAIN"), Step::Handshake));
        self.token(format!("\0{name}\0{password}").as_bytes())
    }

    /// The last step, and for a client that was let in the end that checks the server.
    fn scram(
        &mut self,
        version: i16,
        hash: Hash,
        name: &str,
        password: &str,
    ) -> (Step, Option<Verifying>) {
        let step = self.handshake(version, hash.mechanism());
        assert!(matches!(step, Step::Handshake));
        let (first, client) = Client::begin(name, &RANDOM);
        let Step::Challenge(answer) = self.token(first.as_bytes()) else {
            panic!("a challenge");
        };
        let mut password = Password::new(hash, Secret::new(password.as_bytes().to_vec()));
        let (proof, verifying) = client.prove(&answer, &mut password).expect("a proof");
        (self.token(proof.as_bytes()), Some(verifying))
    }
}

/// A step in a word.
fn word(step: &Step) -> &'static str {
    match step {
        Step::Versions => "versions",
        Step::Handshake => "handshake",
        Step::Challenge(_) => "challenge",
        Step::Check(_) => "check",
        Step::Done(_) => "done",
        Step::Hold => "hold",
        Step::Pass => "pass",
        Step::NotNow(_) => "not-now",
        Step::Refused(refused) => match (&refused.answer, refused.is_delayed) {
            (Answer::Nothing, false) => "close",
            (Answer::Nothing, true) => "nothing",
            (Answer::UnsupportedMechanism(_), _) => "33",
            (Answer::IllegalState, _) => "34",
            (Answer::Failed(_), _) => "58",
        },
    }
}

fn done(step: Step) -> Done {
    match step {
        Step::Done(done) => done,
        step => panic!("{}", word(&step)),
    }
}

fn refused(step: Step) -> Refused {
    match step {
        Step::Refused(refused) => refused,
        step => panic!("{}", word(&step)),
    }
}

/// The words for the client.
fn told(step: Step) -> String {
    match refused(step).answer {
        Answer::Failed(words) => words,
        answer => panic!("{answer:?}"),
    }
}

const STATES: &str = "
                versions bad-versions handshake-0 handshake-1 handshake-2 handshake-x token-0 token-2 token-3 raw other
fresh           versions versions  handshake handshake close 33      close   close   close close close
versioned       close    close     handshake handshake close 33      close   close   close close close
framed          34       34        34        34        close 34      check   check   close close 34
raw             close    close     close     close     close close   close   close   close check close
proof           34       34        34        34        close 34      58      58      close close 34
checking        hold     hold      hold      hold      hold  hold    hold    hold    hold  hold  hold
other-mechanism nothing  nothing   nothing   nothing   nothing nothing nothing nothing nothing nothing nothing
open-endless    pass     pass      not-now   not-now   close not-now not-now not-now close close pass
open            pass     pass      handshake handshake close 33      not-now not-now close close pass
open-soon       pass     pass      not-now   not-now   close not-now not-now not-now close close pass
expired         close    close     handshake handshake close 33      close   close   close close close
expired-soon    close    close     close     close     close close   close   close   close close close
again           34       34        34        34        close 34      check   check   close close 34
closed          close    close     close     close     close close   close   close   close close close
";

/// A connection in a state of the table.
fn in_state(state: &str) -> Conn {
    let session = (state != "open-endless").then_some(SESSION);
    let mut conn = Conn::new(session);
    match state {
        "fresh" => {}
        "versioned" => drop(conn.frame(Frame::ApiVersions { is_valid: true })),
        "framed" => drop(conn.handshake(1, "PLAIN")),
        "raw" => drop(conn.handshake(0, "PLAIN")),
        "proof" => {
            conn.handshake(1, "SCRAM-SHA-256");
            let (first, _) = Client::begin("alice", &RANDOM);
            assert_eq!(word(&conn.token(first.as_bytes())), "challenge");
        }
        "checking" => {
            conn.handshake(1, "PLAIN");
            let token = b"\0alice\0secret";
            let step = conn.frame(Frame::SaslAuthenticate { version: 1, token });
            assert_eq!(word(&step), "check");
        }
        "closed" => drop(conn.frame(Frame::Other)),
        _ => {
            assert_eq!(word(&conn.plain(1, "carol", "carols")), "done");
            conn.now = at(15);
            match state {
                "open" | "open-endless" => {}
                "open-soon" => drop(conn.plain(1, "carol", "carols")),
                "expired" => conn.now = Instant(at(70).0 + 1),
                "expired-soon" => {
                    // A second login of one nanosecond less than the interval between two.
                    conn.login.offer = offer(Some(Duration::from_millis(1)));
                    conn.plain(1, "carol", "carols");
                    conn.now = Instant(at(16).0 - 1);
                }
                "other-mechanism" => drop(conn.handshake(1, "SCRAM-SHA-256")),
                "again" => drop(conn.handshake(1, "PLAIN")),
                state => panic!("{state}"),
            }
        }
    }
    conn
}

fn in_frame(frame: &str) -> Frame<'static> {
    let handshake = |version, mechanism| Frame::SaslHandshake { version, mechanism };
    let token = |version| Frame::SaslAuthenticate {
        version,
        token: b"\0alice\0secret",
    };
    match frame {
        "versions" => Frame::ApiVersions { is_valid: true },
        "bad-versions" => Frame::ApiVersions { is_valid: false },
        "handshake-0" => handshake(0, "PLAIN"),
        "handshake-1" => handshake(1, "PLAIN"),
        "handshake-2" => handshake(2, "PLAIN"),
        "handshake-x" => handshake(1, "GSSAPI"),
        "token-0" => token(0),
        "token-2" => token(2),
        "token-3" => token(3),
        "raw" => Frame::Raw(b"\0alice\0secret"),
        "other" => Frame::Other,
        frame => panic!("{frame}"),
    }
}

#[test]
fn each_kind_of_frame_has_one_answer_in_each_state() {
    let mut rows = STATES.trim().lines();
    let frames: Vec<&str> = rows
        .next()
        .expect("the frames")
        .split_whitespace()
        .collect();
    let mut count = 0;
    for row in rows {
        let mut words = row.split_whitespace();
        let state = words.next().expect("a state");
        let answers: Vec<&str> = words.collect();
        assert_eq!(answers.len(), frames.len(), "{state}");
        for (frame, answer) in frames.iter().zip(answers) {
            let mut conn = in_state(state);
            let step = conn.frame(in_frame(frame));
            assert_eq!(word(&step), answer, "{frame} in state {state}");
            // A refusal that ends a connection ends it for good.
            if matches!(step, Step::Refused(_)) {
                assert_eq!(word(&conn.frame(Frame::Other)), "close", "{frame}, {state}");
                assert!(!conn.login.admits(conn.now));
            }
            count += 1;
        }
    }
    assert_eq!(count, 14 * 11);
}

#[test]
fn users_log_in_by_each_mechanism_framed_and_raw() {
    for version in [0, 1] {
        for hash in Hash::ALL {
            let mut conn = Conn::new(None);
            let (step, verifying) = conn.scram(version, hash, "alice", "secret");
            let done = done(step);
            assert_eq!(done.principal, Principal::user("alice"));
            assert_eq!((done.session_ms, done.is_again), (0, false));
            let verified = verifying.map(|verifying| verifying.end(&done.last));
            assert_eq!(verified, Some(Ok(())));
            assert!(conn.login.admits(at(1_000_000)));
        }
        for (name, password) in [("alice", "secret"), ("bob", "secret"), ("carol", "carols")] {
            let mut conn = Conn::new(None);
            let done = done(conn.plain(version, name, password));
            assert_eq!((done.principal, done.last), (Principal::user(name), vec![]));
        }
    }
}

#[test]
fn nodes_prove_themselves_at_the_door_of_the_clients() {
    let mut conn = Conn::new(Some(SESSION));
    let proof = NodeProof::new(&ClusterSecret::generate(&[1; 32]));
    assert_eq!(word(&conn.handshake(1, node::MECHANISM)), "handshake");
    let (first, client) = proof.begin(7, &RANDOM);
    let Step::Challenge(answer) = conn.token(&first) else {
        panic!("a challenge");
    };
    let (message, verifying) = client.prove(&proof, &answer).expect("a proof");
    let done = done(conn.token(&message));
    assert_eq!(done.principal, Principal::node(7));
    assert_eq!(done.session_ms, 0, "nodes need not log in again");
    assert_eq!(verifying.end(&done.last), Ok(()));
    assert_eq!(word(&conn.handshake(1, node::MECHANISM)), "not-now");

    let mut conn = Conn::new(None);
    conn.handshake(1, node::MECHANISM);
    let words = told(conn.token(b"n,,n=alice,r=x"));
    assert!(words.contains("no node id"), "{words}");
    // Nobody is told of it, and nobody can ask for it where there is no secret.
    let names = ["PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512"];
    assert_eq!(conn.login.mechanisms(), names);
    let without = Offer {
        mechanisms: vec![(SHA_512, None)],
        nodes: None,
        fakes: Fakes::new([7; 32]),
    };
    let mut login = Login::new(Arc::new(without));
    let (version, mechanism) = (1, node::MECHANISM);
    let frame = Frame::SaslHandshake { version, mechanism };
    let refused = refused(login.on_frame(frame, &Known, at(1), &RANDOM));
    let answer = Answer::UnsupportedMechanism(vec!["SCRAM-SHA-512"]);
    assert_eq!(
        (refused.answer, refused.reason),
        (answer, Reason::Mechanism(mechanism.to_owned()))
    );
}

#[test]
fn the_old_identity_holds_until_the_new_proof() {
    let mut conn = Conn::new(Some(SESSION));
    let first = done(conn.plain(1, "alice", "secret"));
    assert_eq!((first.session_ms, first.is_again), (60_000, false));
    conn.now = at(69);
    conn.handshake(1, "PLAIN");
    let held = conn
        .login
        .session()
        .map(|session| session.principal.clone());
    assert_eq!(held, Some(Principal::user("alice")));
    assert!(conn.login.is_under_way() && !conn.login.admits(conn.now));
    let again = done(conn.token(b"\0alice\0secret"));
    assert_eq!((again.session_ms, again.is_again), (60_000, true));
    let ends = conn.login.session().and_then(|session| session.ends);
    assert_eq!(ends, Some(at(129)));
    assert!(conn.login.admits(at(129)) && !conn.login.admits(Instant(at(129).0 + 1)));
}

#[test]
fn nobody_becomes_another_by_logging_in_again() {
    let mut conn = Conn::new(Some(SESSION));
    conn.plain(1, "alice", "secret");
    let refused = refused(conn.plain(1, "bob", "secret"));
    assert_eq!(refused.reason.kind(), "principal");
    let words = "Cannot change principals during re-authentication from User.alice: User.bob";
    assert_eq!(refused.answer, Answer::Failed(words.to_owned()));

    let mut conn = Conn::new(Some(SESSION));
    conn.plain(1, "alice", "secret");
    assert_eq!(word(&conn.handshake(1, "SCRAM-SHA-512")), "handshake");
    let refused = super::tests::refused(conn.token(b"n,,n=alice,r=x"));
    assert_eq!(
        (refused.answer, refused.is_delayed),
        (Answer::Nothing, true)
    );

    let mut conn = Conn::new(Some(SESSION));
    conn.scram(1, Hash::Sha256, "alice", "secret");
    let (step, _) = conn.scram(1, Hash::Sha256, "alice", "wrong");
    let words = "Authentication failed during re-authentication due to invalid credentials with SASL mechanism SCRAM-SHA-256";
    assert_eq!(told(step), words);
}

#[test]
fn a_verdict_is_good_for_its_login_alone() {
    let check = |random: &[u8; NONCE_RANDOM_BYTES], token: &'static [u8]| {
        let mut conn = Conn::new(None);
        conn.handshake(1, "PLAIN");
        let frame = Frame::SaslAuthenticate { version: 1, token };
        let step = conn.login.on_frame(frame, &Known, conn.now, random);
        let Step::Check(check) = step else {
            panic!("a check");
        };
        (conn, check)
    };
    let (mut right, good) = check(&RANDOM, b"\0alice\0secret");
    let (mut wrong, _) = check(&[3; NONCE_RANDOM_BYTES], b"\0alice\0wrong");
    let verdict = good.run();
    let refused = refused(wrong.login.on_verdict(&verdict, wrong.now));
    assert_eq!(refused.reason, Reason::Password);
    assert_eq!(refused.name.as_deref(), Some("alice"));
    done(right.login.on_verdict(&verdict, right.now));
    // A second one changes nothing, and ends what should not be there.
    let step = right.login.on_verdict(&verdict, right.now);
    assert_eq!(word(&step), "close");
}

#[test]
fn a_check_may_be_computed_on_any_thread() {
    fn is_send<T: Send>() {}
    is_send::<Check>();
    is_send::<Verdict>();
    is_send::<Login>();
}
