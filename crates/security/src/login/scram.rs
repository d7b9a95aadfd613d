//! SCRAM: both ends prove that they know a password, and neither says it (RFC 5802, RFC 7677; Kafka's KIP-84).
//!
//! The server keeps no password: a [`Credential`] is enough to check a client, and does not let anybody act as one.

mod client;
mod messages;
mod server;

use aws_lc_rs::{digest, hmac, pbkdf2};

use std::num::NonZeroU32;

pub use client::{Client, ClientError, Password, Verifying};
pub use messages::Malformed;
pub use server::{Fakes, First, Refusal, Waiting, begin};

use crate::secret::Secret;

/// Rounds that a credential may have (KIP-84; KIP-554 bounds them above). Fewer are guessed too soon, more keep a client busy for ever.
pub const ITERATIONS: std::ops::RangeInclusive<i32> = 4096..=16_384;
/// Random bytes of a [`nonce`]: 130 bits, as in Kafka.
pub const NONCE_RANDOM_BYTES: usize = 26;

/// The hash that a mechanism is made with.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Hash {
    Sha256,
    Sha512,
}

impl Hash {
    pub const ALL: [Hash; 2] = [Hash::Sha256, Hash::Sha512];

    /// The name of the mechanism.
    #[must_use]
    pub const fn mechanism(self) -> &'static str {
        match self {
            Hash::Sha256 => "SCRAM-SHA-256",
            Hash::Sha512 => "SCRAM-SHA-512",
        }
    }

    #[must_use]
    pub fn of_mechanism(name: &str) -> Option<Hash> {
        Hash::ALL.into_iter().find(|hash| hash.mechanism() == name)
    }

    /// The number in Kafka's records and requests (KIP-554).
    #[must_use]
    pub const fn number(self) -> i8 {
        match self {
            Hash::Sha256 => 1,
            Hash::Sha512 => 2,
        }
    }

    #[must_use]
    pub fn numbered(number: i8) -> Option<Hash> {
        Hash::ALL.into_iter().find(|hash| hash.number() == number)
    }

    /// Bytes of a hash.
    #[must_use]
    const fn len(self) -> usize {
        match self {
            Hash::Sha256 => 32,
            Hash::Sha512 => 64,
        }
    }

    fn digest(self, bytes: &[u8]) -> Vec<u8> {
        let algorithm = match self {
            Hash::Sha256 => &digest::SHA256,
            Hash::Sha512 => &digest::SHA512,
        };
        digest::digest(algorithm, bytes).as_ref().to_vec()
    }

    pub(super) fn hmac(self, key: &[u8], bytes: &[u8]) -> Vec<u8> {
        let algorithm = match self {
            Hash::Sha256 => hmac::HMAC_SHA256,
            Hash::Sha512 => hmac::HMAC_SHA512,
        };
        let key = hmac::Key::new(algorithm, key);
        hmac::sign(&key, bytes).as_ref().to_vec()
    }

    /// `SaltedPassword`: the slow step, some milliseconds. Kafka has no SASLprep: the password is taken as it is.
    #[must_use]
    pub fn salted(self, password: &[u8], salt: &[u8], iterations: i32) -> Secret<Vec<u8>> {
        let algorithm = match self {
            Hash::Sha256 => pbkdf2::PBKDF2_HMAC_SHA256,
            Hash::Sha512 => pbkdf2::PBKDF2_HMAC_SHA512,
        };
        let rounds = u32::try_from(iterations).ok().and_then(NonZeroU32::new);
        let mut salted = vec![0; self.len()];
        pbkdf2::derive(
            algorithm,
            rounds.unwrap_or(NonZeroU32::MIN),
            salt,
            password,
            &mut salted,
        );
        Secret::new(salted)
    }

    fn client_key(self, salted: &Secret<Vec<u8>>) -> Secret<Vec<u8>> {
        Secret::new(self.hmac(salted.expose(), b"Client Key"))
    }

    fn server_key(self, salted: &Secret<Vec<u8>>) -> Secret<Vec<u8>> {
        Secret::new(self.hmac(salted.expose(), b"Server Key"))
    }
}

/// The record of a user's password at a server.
#[derive(Clone)]
pub struct Credential {
    pub hash: Hash,
    pub salt: Vec<u8>,
    pub iterations: i32,
    pub stored_key: Secret<Vec<u8>>,
    pub server_key: Secret<Vec<u8>>,
}

impl Credential {
    /// That of a password.
    #[must_use]
    pub fn new(hash: Hash, password: &[u8], salt: Vec<u8>, iterations: i32) -> Credential {
        let salted = hash.salted(password, &salt, iterations);
        Credential::of_salted(hash, &salted, salt, iterations)
    }

    /// That of a password which a client has salted itself (KIP-554).
    #[must_use]
    pub fn of_salted(
        hash: Hash,
        salted: &Secret<Vec<u8>>,
        salt: Vec<u8>,
        iterations: i32,
    ) -> Credential {
        let client_key = hash.client_key(salted);
        Credential {
            hash,
            salt,
            iterations,
            stored_key: Secret::new(hash.digest(client_key.expose())),
            server_key: hash.server_key(salted),
        }
    }

    /// True if this is the password, as PLAIN brings it. Takes as long as salting does.
    #[must_use]
    pub fn is_of(&self, password: &[u8]) -> bool {
        let salted = self.hash.salted(password, &self.salt, self.iterations);
        let client_key = self.hash.client_key(&salted);
        self.stored_key.is(&self.hash.digest(client_key.expose()))
    }
}

/// A text of 130 random bits, from as many bytes as that.
#[must_use]
pub fn nonce(random: &[u8; NONCE_RANDOM_BYTES]) -> String {
    const DIGITS: &[u8; 32] = b"0123456789abcdefghijklmnopqrstuv";
    let digit = |byte: &u8| char::from(DIGITS[usize::from(byte & 31)]);
    random.iter().map(digit).collect()
}

/// A salt of 130 random bits in the form of Kafka's tools, a number to base 36: all salts look alike, whoever made them and whether there is
/// such a user or not.
#[must_use]
pub fn salt(random: &[u8; NONCE_RANDOM_BYTES]) -> Vec<u8> {
    const DIGITS: &[u8; 36] = b"0123456789abcdefghijklmnopqrstuvwxyz";
    // To base 32, the highest digit first.
    let mut rest = random.map(|byte| u16::from(byte & 31));
    let mut salt = Vec::with_capacity(NONCE_RANDOM_BYTES);
    loop {
        let mut remainder = 0;
        for digit in &mut rest {
            let part = remainder * 32 + *digit;
            (*digit, remainder) = (part / 36, part % 36);
        }
        salt.push(DIGITS[usize::from(remainder)]);
        if rest.iter().all(|digit| *digit == 0) {
            salt.reverse();
            return salt;
        }
    }
}

/// Both proofs of a login rest on this text.
fn auth_message(first_bare: &str, server_first: &str, final_without_proof: &str) -> String {
    format!("{first_bare},{server_first},{final_without_proof}")
}

fn xor(one: &[u8], other: &[u8]) -> Vec<u8> {
    one.iter()
        .zip(other)
        .map(|(one, other)| one ^ other)
        .collect()
}

#[cfg(test)]
mod tests;
