//! Logins that are not let in, whatever they try, and what each is told.

use std::time::{Duration, Instant};

use security::Secret;
use security::login::scram::{Client, Hash, Password};
use wire::messages::alter_user_scram_credentials_request::ScramCredentialUpsertion;
use wire::messages::{AlterUserScramCredentialsRequest, MetadataRequest};

use super::Plan;
use super::door::{Broker, OTHER, PASSWORD, USER};
use crate::broker::Place;
use crate::broker::frames::{Talk, random};
use crate::broker::table::Table;

const NOBODY: &str = "nobody-at-all";
const WRONG: &str = "Authentication failed: Invalid username or password";
const ANOTHER: &str =
    "Authentication failed: Client requested an authorization id that is different from username";
/// Logins of each kind whose time is taken.
const ROUNDS: usize = 15;
/// The times of a known and an unknown user differ by no more than this part, or by less than anybody could tell over a network.
const APART_MAX: f64 = 0.5;
const APART_MAX_MS: f64 = 3.0;

pub(crate) fn run(place: &mut Place, _: &Plan, table: &mut Table) -> Result<(), String> {
    let settings = ["listener.name.guests.connection.failed.authentication.delay.ms=0"];
    let mut broker = Broker::start(place, &settings)?;
    let at = broker.users.clone();
    for hash in Hash::ALL {
        let words = format!(
            "Authentication failed during authentication due to invalid credentials with SASL mechanism {}",
            hash.mechanism()
        );
        of_scram(table, &at, hash, &words);
    }
    of_plain(table, &at);
    of_clients(table);
    upserts(table, &broker.node.address)?;
    // Without the pause that hides all differences.
    alike(table, &broker.guests)?;
    broker.node.stop()
}

type Change = fn(String) -> String;

fn of_scram(table: &mut Table, at: &str, hash: Hash, words: &str) {
    let name = |what: &str| format!("{}: {what}", hash.mechanism());
    let log_in = |user: &str, password: &str| match scram(at, hash, user, password, |last| last) {
        Ok(()) => "let in".to_owned(),
        Err(why) => why,
    };
    table.check(&name("the password"), "", "let in", &log_in(USER, PASSWORD));
    for (what, user, password) in [
        ("a wrong password", USER, "guess"),
        ("an empty password", USER, ""),
        ("the password of nobody", NOBODY, PASSWORD),
        ("a name in other letters", "Alice", PASSWORD),
    ] {
        table.check(&name(what), "", words, &log_in(user, password));
    }
    let changes: [(&str, Change); 9] = [
        ("another nonce", |last| last.replacen(",r=", ",r=x", 1)),
        ("the nonce of the client alone", |last| {
            let (before, proof) = last.rsplit_once(",p=").unwrap_or((&last, ""));
            let cut = before.len().saturating_sub(26);
            format!("{},p={proof}", &before[..cut])
        }),
        ("a short proof", |last| {
            let (before, _) = last.rsplit_once(",p=").unwrap_or((&last, ""));
            format!("{before},p=AAAA")
        }),
        ("an empty proof", |last| {
            let (before, _) = last.rsplit_once(",p=").unwrap_or((&last, ""));
            format!("{before},p=")
        }),
        ("no proof", |last| {
            let (before, _) = last.rsplit_once(",p=").unwrap_or((&last, ""));
            before.to_owned()
        }),
        ("another proof", |last| with_other_proof(&last)),
        ("a channel that is bound", |last| {
            last.replacen("c=biws", "c=cD10bHMtdW5pcXVlLCw=", 1)
        }),
        ("the authzid of another in the last message", |last| {
            last.replacen("c=biws", "c=bixhPWJvYiw=", 1)
        }),
        ("an attribute that is mandatory", |last| {
            format!("m=x,{last}")
        }),
    ];
    for (what, change) in changes {
        let got = scram(at, hash, USER, PASSWORD, change);
        let got = got.map_or_else(|why| why, |()| "let in".to_owned());
        table.check(&name(what), "", words, &got);
    }
    for (what, first, wanted) in [
        (
            "the authzid of another",
            format!("n,a={OTHER},n={USER},r=0123456789"),
            ANOTHER,
        ),
        ("no name", "n,,n=,r=0123456789".to_owned(), words),
        ("no nonce", format!("n,,n={USER},r="), words),
        (
            "a mandatory extension",
            format!("n,,m=x,n={USER},r=0123456789"),
            words,
        ),
        (
            "channel binding",
            format!("p=tls-unique,,n={USER},r=0123456789"),
            words,
        ),
        (
            "a name that ends in an equals sign",
            "n,,n=a=,r=0123456789".to_owned(),
            words,
        ),
        ("bytes that are no text", String::new(), words),
        ("a token of delegation", String::new(), words),
    ] {
        let got = match what {
            "bytes that are no text" => first_message(at, hash, b"n,,n=\xff\xfe,r=0123456789"),
            // There are none yet: nobody has one of that id.
            "a token of delegation" => scram_of_token(at, hash),
            _ => first_message(at, hash, first.as_bytes()),
        };
        table.check(&name(what), "", wanted, &got);
    }
}

fn of_plain(table: &mut Table, at: &str) {
    let long = format!("\0{USER}\0{}", "x".repeat(60_000));
    let cases: [(&str, &[u8], &[&str]); 12] = [
        ("the password", b"\0alice\0open-sesame", &["let in"]),
        (
            "the password and the own authzid",
            b"alice\0alice\0open-sesame",
            &["let in"],
        ),
        ("a wrong password", b"\0alice\0guess", &[WRONG]),
        (
            "the password of nobody",
            b"\0nobody-at-all\0open-sesame",
            &[WRONG],
        ),
        (
            "the authzid of another",
            b"bob\0alice\0open-sesame",
            &[ANOTHER],
        ),
        (
            "the authzid of another, wrong password",
            b"bob\0alice\0guess",
            &[WRONG],
        ),
        ("a long password", long.as_bytes(), &[WRONG]),
        (
            "the password and more",
            b"\0alice\0open-sesame\0",
            &["refused"],
        ),
        ("no password", b"\0alice\0", &["refused"]),
        ("no name", b"\0\0open-sesame", &["refused"]),
        ("two parts", b"alice\0open-sesame", &["refused"]),
        (
            "bytes that are no text",
            b"\0al\xffice\0open-sesame",
            &[WRONG],
        ),
    ];
    for (what, token, wanted) in cases {
        let got = match plain(at, token) {
            Ok(()) => "let in".to_owned(),
            // Kafka's words differ by what is missing; they say nothing about users.
            Err(why) if wanted == ["refused"] && why != WRONG && !why.is_empty() => {
                "refused".to_owned()
            }
            Err(why) => why,
        };
        table.check_any(&format!("PLAIN: {what}"), "", wanted, &got);
    }
}

/// Our own client meets a server that wants too few iterations, or too many.
fn of_clients(table: &mut Table) {
    for hash in Hash::ALL {
        for iterations in [1, 4095, 16_385, 1_000_000_000] {
            let (first, client) = Client::begin(USER, &random());
            let nonce = first.rsplit_once("r=").map_or("", |(_, nonce)| nonce);
            let challenge = format!("r={nonce}server,s=c2FsdHNhbHQ=,i={iterations}");
            let mut known = Password::new(hash, Secret::new(b"x".to_vec()));
            let began = Instant::now();
            let refused = client.prove(challenge.as_bytes(), &mut known).is_err();
            let got = match refused && began.elapsed() < Duration::from_secs(1) {
                true => "refused at once",
                false => "accepted",
            };
            let name = format!("our client: {iterations} iterations");
            table.check(&name, hash.mechanism(), "refused at once", got);
        }
    }
}

/// Records that nobody could log in with are not taken.
fn upserts(table: &mut Table, at: &str) -> Result<(), String> {
    for iterations in [1, 4095, 16_385, 1_000_000_000] {
        let upsertion = ScramCredentialUpsertion {
            name: "eve".to_owned(),
            mechanism: Hash::Sha512.number(),
            iterations,
            salt: vec![1; 20].into(),
            salted_password: vec![2; 64].into(),
        };
        let request = AlterUserScramCredentialsRequest {
            upsertions: vec![upsertion],
            ..Default::default()
        };
        let mut talk = Talk::open(at).map_err(|error| error.to_string())?;
        let told = talk.ask(&request, 0)?;
        let code = told.results.first().map_or(-1, |result| result.error_code);
        let name = format!("a user of {iterations} iterations");
        table.check(&name, "", "93", &code.to_string());
    }
    Ok(())
}

/// An unknown user and a wrong password take the same time and get the same words.
fn alike(table: &mut Table, at: &str) -> Result<(), String> {
    type Way = fn(&str, &str) -> String;
    let ways: [(&str, Way); 3] = [
        ("SCRAM-SHA-256", |at, user| {
            scram(at, Hash::Sha256, user, "guess", |last| last)
                .err()
                .unwrap_or_default()
        }),
        ("SCRAM-SHA-512", |at, user| {
            scram(at, Hash::Sha512, user, "guess", |last| last)
                .err()
                .unwrap_or_default()
        }),
        ("PLAIN", |at, user| {
            let token = format!("\0{user}\0guess");
            plain(at, token.as_bytes()).err().unwrap_or_default()
        }),
    ];
    for (name, way) in ways {
        let mut times = [Vec::new(), Vec::new()];
        let mut words = [String::new(), String::new()];
        for _ in 0..ROUNDS {
            for (at_user, user) in [USER, NOBODY].into_iter().enumerate() {
                let began = Instant::now();
                words[at_user] = way(at, user);
                times[at_user].push(began.elapsed().as_secs_f64() * 1e3);
            }
        }
        // The shortest of many: a busy machine adds to each.
        let [known, nobody] = times.map(|times| times.into_iter().fold(f64::MAX, f64::min));
        let apart = (known - nobody).abs();
        let is_alike = apart < APART_MAX_MS || apart < APART_MAX * known.max(nobody);
        let got = match is_alike {
            true => "the same".to_owned(),
            false => format!("{known:.1} ms, and {nobody:.1} ms for nobody"),
        };
        let row = format!("{name}: the time of a known and an unknown user");
        table.check(&row, "", "the same", &got);
        let got = if words[0] == words[1] && !words[0].is_empty() {
            "the same"
        } else {
            "others"
        };
        let row = format!("{name}: their words");
        table.check(&row, "", "the same", got);
    }
    Ok(())
}

/// A login whose last message is changed; the words of the refusal. The connection is closed behind it.
fn scram(
    at: &str,
    hash: Hash,
    user: &str,
    password: &str,
    change: impl Fn(String) -> String,
) -> Result<(), String> {
    let mut talk = Talk::open(at).map_err(|error| error.to_string())?;
    talk.handshake(hash.mechanism())?;
    let (first, client) = Client::begin(user, &random());
    let told = talk.token(first.as_bytes())?;
    let mut known = Password::new(hash, Secret::new(password.as_bytes().to_vec()));
    let proved = client.prove(&told.auth_bytes, &mut known);
    let (last, _) = proved.map_err(|error| error.to_string())?;
    let told = talk.token(change(last).as_bytes())?;
    end(talk, told.error_code, told.error_message)
}

fn scram_of_token(at: &str, hash: Hash) -> String {
    let run = || -> Result<(), String> {
        let mut talk = Talk::open(at).map_err(|error| error.to_string())?;
        talk.handshake(hash.mechanism())?;
        let told = talk.token(b"n,,n=alice,r=0123456789,tokenauth=true")?;
        let nonce = String::from_utf8_lossy(&told.auth_bytes).into_owned();
        let nonce = nonce.split(',').next().unwrap_or_default().to_owned();
        let proof = "A".repeat(if hash == Hash::Sha512 { 86 } else { 43 });
        let pad = if hash == Hash::Sha512 { "==" } else { "=" };
        let told = talk.token(format!("c=biws,{nonce},p={proof}{pad}").as_bytes())?;
        end(talk, told.error_code, told.error_message)
    };
    run().map_or_else(|why| why, |()| "let in".to_owned())
}

fn first_message(at: &str, hash: Hash, first: &[u8]) -> String {
    let run = || -> Result<(), String> {
        let mut talk = Talk::open(at).map_err(|error| error.to_string())?;
        talk.handshake(hash.mechanism())?;
        let told = talk.token(first)?;
        end(talk, told.error_code, told.error_message)
    };
    run().map_or_else(|why| why, |()| "answered".to_owned())
}

fn plain(at: &str, token: &[u8]) -> Result<(), String> {
    let mut talk = Talk::open(at).map_err(|error| error.to_string())?;
    talk.handshake("PLAIN")?;
    let told = talk.token(token)?;
    end(talk, told.error_code, told.error_message)
}

/// A refusal ends the connection, and nothing else does.
fn end(mut talk: Talk, code: i16, words: Option<String>) -> Result<(), String> {
    let served = talk.ask(&MetadataRequest::default(), 9).map(|_| ());
    match (code, served) {
        (0, _) => Ok(()),
        (_, Err(_)) => Err(words.unwrap_or_default()),
        (code, Ok(())) => Err(format!("{code}, and it is served all the same")),
    }
}

/// A last message with another proof of the same length.
pub(crate) fn with_other_proof(last: &str) -> String {
    let (before, proof) = last.rsplit_once(",p=").unwrap_or((last, ""));
    let (head, rest) = proof.split_at(proof.len().min(1));
    let other = if head == "A" { "B" } else { "A" };
    format!("{before},p={other}{rest}")
}
