//! Clients that are not let in.

use super::*;
use crate::login::{plain, scram};

const GENERIC: &str =
    "Authentication failed during authentication due to invalid credentials with SASL mechanism ";
const ANOTHER: &str =
    "Authentication failed: Client requested an authorization id that is different from username";
const WRONG: &str = "Authentication failed: Invalid username or password";

#[test]
fn plain_messages_that_let_nobody_in() {
    let tokens = |count| format!("Invalid SASL/PLAIN response: expected 3 tokens, got {count}");
    let no_name = "Authentication failed: username not specified";
    let no_password = "Authentication failed: password not specified";
    let cases: [(&[u8], &str, &str); 18] = [
        (b"", &tokens(1), "malformed"),
        (b"alice", &tokens(1), "malformed"),
        (b"alice\0secret", &tokens(2), "malformed"),
        (b"\0alice\0secret\0", &tokens(4), "malformed"),
        (b"\0\0\0\0\0", &tokens(4), "malformed"),
        (b"\0\0secret", no_name, "malformed"),
        (b"alice\0\0secret", no_name, "malformed"),
        (b"\0alice\0", no_password, "malformed"),
        (b"\0\xff\0secret", WRONG, "malformed"),
        (b"\0alice\0\xff", WRONG, "malformed"),
        (b"\0alice\0Secret", WRONG, "credentials"),
        (b"\0alice\0secre", WRONG, "credentials"),
        (b"\0Alice\0secret", WRONG, "credentials"),
        (b"\0nobody\0secret", WRONG, "credentials"),
        (b"\0carol\0secret", WRONG, "credentials"),
        (b"\0eve\0secret", WRONG, "credentials"),
        // A name is told that it may not be another once the password was right, and not before.
        (b"bob\0alice\0secret", ANOTHER, "principal"),
        (b"bob\0alice\0wrong", WRONG, "credentials"),
    ];
    for (token, words, kind) in cases {
        let mut conn = Conn::new(None);
        conn.handshake(1, "PLAIN");
        let refused = refused(conn.token(token));
        assert_eq!(
            refused.answer,
            Answer::Failed(words.to_owned()),
            "{token:?}"
        );
        assert_eq!((refused.reason.kind(), refused.is_delayed), (kind, true));
        let mut conn = Conn::new(None);
        conn.handshake(0, "PLAIN");
        let refused = super::refused(conn.token(token));
        assert_eq!(refused.answer, Answer::Nothing, "raw, {token:?}");
    }
    let mut conn = Conn::new(None);
    done_for(&mut conn, b"alice\0alice\0secret");
}

fn done_for(conn: &mut Conn, token: &[u8]) {
    conn.handshake(1, "PLAIN");
    done(conn.token(token));
}

#[test]
fn first_messages_of_scram_that_let_nobody_in() {
    let generic = format!("{GENERIC}SCRAM-SHA-256");
    let cases: [(&[u8], &str, &str); 14] = [
        (b"", &generic, "malformed"),
        (b"\0alice\0secret", &generic, "malformed"),
        (b"n,,n=alice", &generic, "malformed"),
        (b"n,,n=,r=x", &generic, "malformed"),
        (b"n,,n=alice,r=", &generic, "malformed"),
        (b"n,,n=al=ice,r=x", &generic, "malformed"),
        (b"n,,n=alice,r=\xff", &generic, "malformed"),
        (b"y,,n=alice,r=x", &generic, "malformed"),
        (b"p=tls-unique,,n=alice,r=x", &generic, "malformed"),
        (
            b"p=tls-server-end-point,,n=alice,r=x",
            &generic,
            "malformed",
        ),
        (b"n,,m=must,n=alice,r=x", &generic, "malformed"),
        (b"n,,n=alice,r=x,nonsense", &generic, "malformed"),
        (b"n,a=bob,n=alice,r=x", ANOTHER, "principal"),
        // Whether there is such a name or not.
        (b"n,a=bob,n=nobody,r=x", ANOTHER, "principal"),
    ];
    for (token, words, kind) in cases {
        let mut conn = Conn::new(None);
        conn.handshake(1, "SCRAM-SHA-256");
        let refused = refused(conn.token(token));
        assert_eq!(
            refused.answer,
            Answer::Failed(words.to_owned()),
            "{token:?}"
        );
        assert_eq!(refused.reason.kind(), kind, "{token:?}");
    }
}

#[test]
fn who_cannot_be_let_in_by_scram_learns_it_at_the_end() {
    for hash in Hash::ALL {
        let words = format!("{GENERIC}{}", hash.mechanism());
        let mut cases = vec![
            ("nobody", scram::Refusal::Unknown),
            ("carol", scram::Refusal::Unknown),
            ("eve", scram::Refusal::Iterations),
        ];
        if hash == Hash::Sha256 {
            cases.push(("bob", scram::Refusal::Unknown));
        }
        for (name, why) in cases {
            let mut conn = Conn::new(None);
            let (step, _) = conn.scram(1, hash, name, "secret");
            let refused = refused(step);
            assert_eq!(refused.reason, Reason::Scram(why), "{name}");
            assert_eq!(refused.answer, Answer::Failed(words.clone()), "{name}");
            assert_eq!(refused.name.as_deref(), Some(name));
        }
        let mut conn = Conn::new(None);
        let (step, _) = conn.scram(1, hash, "alice", "Secret");
        assert_eq!(told(step), words);
    }
    // A delegation token of nobody.
    let mut conn = Conn::new(None);
    conn.handshake(1, "SCRAM-SHA-256");
    let step = conn.token(b"n,,n=alice,r=x,tokenauth=true");
    assert_eq!(word(&step), "challenge");
    let refused = refused(conn.token(b"c=biws,r=x,p=AAAA"));
    assert_eq!(refused.reason.kind(), "replay");
}

/// The proof of alice for a connection that waits for it.
fn proof(conn: &mut Conn) -> String {
    conn.handshake(1, "SCRAM-SHA-256");
    let (first, client) = Client::begin("alice", &RANDOM);
    let Step::Challenge(answer) = conn.token(first.as_bytes()) else {
        panic!("a challenge");
    };
    let mut password = Password::new(Hash::Sha256, Secret::new(b"secret".to_vec()));
    client.prove(&answer, &mut password).expect("a proof").0
}

#[test]
fn proofs_of_scram_that_let_nobody_in() {
    let good = proof(&mut Conn::new(None));
    let (front, back) = good.rsplit_once(",p=").expect("it has a proof");
    let half = scram::nonce(&RANDOM);
    let mut cases: Vec<(String, &str)> = vec![
        (format!("c=biws,r=another,p={back}"), "replay"),
        (format!("c=biws,r={half},p={back}"), "replay"),
        (good.replace("r=", "r=x"), "replay"),
        (good.replace("c=biws", "c=eSws"), "replay"),
        (good.replace("c=biws", "c=cD10bHMtdW5pcXVlLCw="), "replay"),
        (format!("{front},p="), "credentials"),
        (format!("{front},p=AAAA"), "credentials"),
        (format!("{front},p={back}{back}"), "malformed"),
        (format!("{front},x=y,p={back}"), "credentials"),
        (format!("{front},p=!"), "malformed"),
        (front.to_owned(), "malformed"),
        (format!("{good},x=y"), "malformed"),
        (format!("n,,n=alice,r={half}"), "malformed"),
    ];
    let whole = base64::Engine::encode(&base64::engine::general_purpose::STANDARD, [0; 32]);
    cases.push((format!("{front},p={whole}"), "credentials"));
    let longer = base64::Engine::encode(&base64::engine::general_purpose::STANDARD, [0; 33]);
    cases.push((format!("{front},p={longer}"), "credentials"));
    let words = format!("{GENERIC}SCRAM-SHA-256");
    for (token, kind) in cases {
        let mut conn = Conn::new(None);
        assert_eq!(proof(&mut conn), good, "the same each time");
        let refused = refused(conn.token(token.as_bytes()));
        assert_eq!(refused.reason.kind(), kind, "{token}");
        assert_eq!(refused.answer, Answer::Failed(words.clone()), "{token}");
    }
    for at in 0..good.len() {
        let mut conn = Conn::new(None);
        proof(&mut conn);
        assert_eq!(word(&conn.token(&good.as_bytes()[..at])), "58", "{at}");
    }
    let mut conn = Conn::new(None);
    proof(&mut conn);
    done(conn.token(good.as_bytes()));
}

#[test]
fn a_first_message_is_refused_or_waits_for_its_proof_wherever_it_ends() {
    let whole = b"n,,n=alice,r=abcdef";
    for at in 0..whole.len() {
        let mut conn = Conn::new(None);
        conn.handshake(1, "SCRAM-SHA-512");
        let step = conn.token(&whole[..at]);
        // From the first letter of the nonce on it is one.
        let is_whole = 14 <= at;
        assert_eq!(
            word(&step),
            if is_whole { "challenge" } else { "58" },
            "{at}"
        );
    }
}

#[test]
fn long_names_are_cut_for_the_log_and_nowhere_else() {
    let name = "ü".repeat(1_000);
    let mut conn = Conn::new(None);
    let refused = refused(conn.plain(1, &name, "secret"));
    assert_eq!(refused.name, Some("ü".repeat(127)));
    assert_eq!(refused.method, Some(Method::User(PLAIN)));
    let malformed = plain::Malformed::Tokens(1);
    assert_eq!(Reason::Plain(malformed).kind(), "malformed");
}
