//! Those who may log in, and proofs computed by a second hand: straight from RFC 5802, not by the code that is tested.

use std::sync::{Arc, LazyLock, Mutex};
use std::time::Duration;

use aws_lc_rs::{digest, hmac, pbkdf2};
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use security::Secret;
use security::login::Mechanism;
use security::login::node::{ClusterSecret, NodeProof};
use security::login::scram::{Client, ClientError, Credential, Fakes, Hash, Password, Verifying};
use security::login::server::{Offer, Users};

pub const USER: &str = "alice";
pub const PASSWORD: &str = "open";
/// Has a password in the settings of the listener, and no record.
pub const SET: &str = "carol";
/// Nobody's name.
pub const STRANGER: &str = "mallory";
pub const SESSION: Duration = Duration::from_secs(60);
const SALT: &[u8] = b"0123456789abcdefghijklmnop";
const ROUNDS: u32 = 4096;
const NODE_SECRET: [u8; 32] = [1; 32];

static RECORDS: LazyLock<[Credential; 2]> = LazyLock::new(|| {
    let record = |hash| Credential::new(hash, PASSWORD.as_bytes(), SALT.to_vec(), ROUNDS as i32);
    Hash::ALL.map(record)
});
pub static NODES: LazyLock<Arc<NodeProof>> =
    LazyLock::new(|| Arc::new(NodeProof::new(&ClusterSecret::generate(&NODE_SECRET))));

pub struct Known;

impl Users for Known {
    fn scram(&self, hash: Hash, name: &str) -> Option<Credential> {
        let record = RECORDS.iter().find(|record| record.hash == hash);
        record.filter(|_| name == USER).cloned()
    }

    fn plain(&self, name: &str) -> Option<Secret<Vec<u8>>> {
        (name == SET).then(|| secret(PASSWORD))
    }
}

pub fn record(hash: Hash) -> Credential {
    RECORDS[usize::from(hash == Hash::Sha512)].clone()
}

pub fn secret(text: &str) -> Secret<Vec<u8>> {
    Secret::new(text.as_bytes().to_vec())
}

/// A password that is not the user's.
pub const WRONG: &str = "shut";

/// The proof of a client that has the user's password, or another one. Each is salted once for as long as the salt stays the same.
pub fn prove(
    client: Client,
    answer: &[u8],
    (hash, is_right): (Hash, bool),
) -> Result<(String, Verifying), ClientError> {
    static PASSWORDS: LazyLock<Mutex<[Password; 4]>> = LazyLock::new(|| {
        let both =
            Hash::ALL.map(|hash| [WRONG, PASSWORD].map(|it| Password::new(hash, secret(it))));
        let [[one, two], [three, four]] = both;
        Mutex::new([one, two, three, four])
    });
    let at = 2 * usize::from(hash == Hash::Sha512) + usize::from(is_right);
    let mut passwords = PASSWORDS.lock().expect("one thread");
    client.prove(answer, &mut passwords[at])
}

pub fn fakes() -> Fakes {
    Fakes::new([7; 32])
}

/// Every mechanism, with sessions that end or that do not.
pub fn offer(session: Option<Duration>) -> Arc<Offer> {
    Arc::new(Offer {
        mechanisms: Mechanism::EVERY.map(|it| (it, session)).to_vec(),
        nodes: Some(Arc::clone(&NODES)),
        fakes: fakes(),
    })
}

/// The secret behind a login.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Proves {
    User(Hash),
    Node,
}

impl Proves {
    fn hash(self) -> Hash {
        match self {
            Proves::User(hash) => hash,
            Proves::Node => Hash::Sha512,
        }
    }

    fn digest(self, bytes: &[u8]) -> Vec<u8> {
        let algorithm = match self.hash() {
            Hash::Sha256 => &digest::SHA256,
            Hash::Sha512 => &digest::SHA512,
        };
        digest::digest(algorithm, bytes).as_ref().to_vec()
    }

    fn hmac(self, key: &[u8], bytes: &[u8]) -> Vec<u8> {
        let algorithm = match self.hash() {
            Hash::Sha256 => hmac::HMAC_SHA256,
            Hash::Sha512 => hmac::HMAC_SHA512,
        };
        let key = hmac::Key::new(algorithm, key);
        hmac::sign(&key, bytes).as_ref().to_vec()
    }

    /// The salted secret: dear, so that a caller keeps it.
    pub fn salted(self, salt: &[u8], rounds: u32) -> Vec<u8> {
        let (algorithm, length) = match self.hash() {
            Hash::Sha256 => (pbkdf2::PBKDF2_HMAC_SHA256, 32),
            Hash::Sha512 => (pbkdf2::PBKDF2_HMAC_SHA512, 64),
        };
        let own: &[u8] = match self {
            Proves::User(_) => PASSWORD.as_bytes(),
            Proves::Node => &NODE_SECRET,
        };
        let mut salted = vec![0; length];
        let rounds = rounds.try_into().expect("rounds");
        pbkdf2::derive(algorithm, rounds, salt, own, &mut salted);
        salted
    }

    /// The salted secret of the server that the fuzzers talk to.
    fn known(self, server_first: &str) -> &'static [u8] {
        static USERS: LazyLock<[Vec<u8>; 2]> =
            LazyLock::new(|| Hash::ALL.map(|hash| Proves::User(hash).salted(SALT, ROUNDS)));
        static NODE: LazyLock<(String, Vec<u8>)> = LazyLock::new(|| {
            let (first, _) = NODES.begin(1, &[0; 26]);
            let (answer, _) = NODES.answer(&first, &[0; 26]).expect("a node");
            let salt = attribute(&text(&answer), "s=").expect("a salt").to_owned();
            let bytes = STANDARD.decode(&salt).expect("base64");
            (salt, Proves::Node.salted(&bytes, ROUNDS))
        });
        match self {
            Proves::User(hash) => &USERS[usize::from(hash == Hash::Sha512)],
            Proves::Node => {
                assert_eq!(attribute(server_first, "s="), Some(&*NODE.0), "one salt");
                &NODE.1
            }
        }
    }

    /// True if `last` is the message by which somebody with the secret ends the login that began with the other two.
    pub fn is_proof(self, first: &[u8], server_first: &[u8], last: &[u8]) -> bool {
        let (Ok(first), Ok(last)) = (std::str::from_utf8(first), std::str::from_utf8(last)) else {
            return false;
        };
        let server_first = text(server_first);
        let Some((header, bare)) = gs2(first) else {
            return false;
        };
        let Some((without_proof, proof)) = last.rsplit_once(",p=") else {
            return false;
        };
        let nonce = attribute(&server_first, "r=").expect("a nonce");
        let bound = format!("c={},r={nonce}", STANDARD.encode(header));
        let is_bound = match without_proof.strip_prefix(&bound) {
            Some(rest) => rest.is_empty() || rest.starts_with(','),
            None => false,
        };
        let salted = self.known(&server_first);
        let client_key = self.hmac(salted, b"Client Key");
        let auth = format!("{bare},{server_first},{without_proof}");
        let signature = self.hmac(&self.digest(&client_key), auth.as_bytes());
        let pairs = client_key.iter().zip(&signature);
        let expected: Vec<u8> = pairs.map(|(key, signed)| key ^ signed).collect();
        is_bound && STANDARD.decode(proof).is_ok_and(|proof| proof == expected)
    }

    /// The message by which a server shows that it has the secret, salted so, after these.
    pub fn server_last(
        self,
        salted: &[u8],
        (first, server_first, last): (&str, &str, &str),
    ) -> String {
        let (_, bare) = gs2(first).expect("of an honest client");
        let (without_proof, _) = last.rsplit_once(",p=").expect("of an honest client");
        let auth = format!("{bare},{server_first},{without_proof}");
        let server_key = self.hmac(salted, b"Server Key");
        let signature = self.hmac(&server_key, auth.as_bytes());
        format!("v={}", STANDARD.encode(signature))
    }
}

/// The name in a first message, as it stands there.
pub fn name(first: &[u8]) -> Option<&str> {
    let (_, bare) = gs2(std::str::from_utf8(first).ok()?)?;
    bare.split(',').next()?.strip_prefix("n=")
}

/// The header of a first message, with its commas, and the rest.
fn gs2(first: &str) -> Option<(&str, &str)> {
    let (at, _) = first.match_indices(',').nth(1)?;
    Some(first.split_at(at + 1))
}

/// The value of an attribute.
pub fn attribute<'m>(message: &'m str, name: &str) -> Option<&'m str> {
    message.split(',').find_map(|at| at.strip_prefix(name))
}

pub fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}
