//! The server's end of a login.

use crate::secret::{Secret, same};

use super::messages::{ClientFinal, ClientFirst, Malformed, ServerFinal, ServerFirst};
use super::{Credential, Hash, ITERATIONS, auth_message, nonce, salt, xor};

/// Why a login fails. What a client is told is one sentence for all but the first two, so that nobody learns which names exist.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Refusal {
    #[error("{0}")]
    Malformed(#[from] Malformed),
    #[error("the client wants to act under another name than its own")]
    Another,
    #[error("there is no such user with a password for this mechanism")]
    Unknown,
    #[error("the password has fewer or more iterations than are allowed")]
    Iterations,
    #[error(
        "the nonce of the last message is not that of this login (librdkafka before 2.6.1 sends its own part twice)"
    )]
    Nonce,
    #[error("the last message binds another channel than the first")]
    Binding,
    #[error("the password is wrong")]
    Proof,
}

/// Gives users who do not exist a salt, the same each time: nobody learns from the first answer who exists (CVE-2021-38153).
#[derive(Clone)]
pub struct Fakes(Secret<Vec<u8>>);

impl Fakes {
    /// With a key that is random and lives as long as the process, or longer.
    #[must_use]
    pub fn new(key: [u8; 32]) -> Fakes {
        Fakes(Secret::new(key.to_vec()))
    }

    /// A credential that no password fits. Each mechanism has a salt of its own, as of those who exist.
    pub(in crate::login) fn credential(&self, hash: Hash, name: &str) -> Credential {
        let of = [hash.mechanism().as_bytes(), b",", name.as_bytes()].concat();
        let bytes = Hash::Sha512.hmac(self.0.expose(), &of);
        let (mut random, mut key) = ([0; super::NONCE_RANDOM_BYTES], hash.digest(&bytes));
        random.copy_from_slice(&bytes[..super::NONCE_RANDOM_BYTES]);
        // A hash of what is no key of anybody.
        key.reverse();
        Credential {
            hash,
            salt: salt(&random),
            iterations: *ITERATIONS.start(),
            stored_key: Secret::new(key.clone()),
            server_key: Secret::new(key),
        }
    }
}

/// The first message of a client, whose credential is to be looked up.
pub struct First {
    hash: Hash,
    message: ClientFirst,
}

/// Reads the first message.
pub fn begin(hash: Hash, message: &[u8]) -> Result<First, Refusal> {
    let message = ClientFirst::read(message)?;
    if !message.authorization_id.is_empty() && message.authorization_id != message.name {
        return Err(Refusal::Another);
    }
    Ok(First { hash, message })
}

/// A login that waits for the client's proof.
pub struct Waiting {
    credential: Credential,
    /// Why it fails whatever the client sends.
    refusal: Option<Refusal>,
    first: ClientFirst,
    pub(super) server_first: String,
    pub(super) nonce: String,
}

impl First {
    #[must_use]
    pub fn name(&self) -> &str {
        &self.message.name
    }

    /// The client's part of the nonce.
    pub(in crate::login) fn nonce(&self) -> &str {
        &self.message.nonce
    }

    /// True if the client says that its name is the id of a delegation token (KIP-48).
    #[must_use]
    pub fn is_of_token(&self) -> bool {
        let mut extensions = self.message.extensions.iter();
        extensions.any(|(name, value)| name == "tokenauth" && value.eq_ignore_ascii_case("true"))
    }

    /// The answer, for the credential that the user has. `random` is 130 bits for the nonce.
    #[must_use]
    pub fn answer(
        self,
        credential: Option<Credential>,
        fakes: &Fakes,
        random: &[u8; super::NONCE_RANDOM_BYTES],
    ) -> (String, Waiting) {
        let known = credential.filter(|credential| credential.hash == self.hash);
        let fake = || fakes.credential(self.hash, &self.message.name);
        match known {
            None => {
                let credential = fake();
                self.waiting(credential, Some(Refusal::Unknown), random)
            }
            Some(known) if !ITERATIONS.contains(&known.iterations) => {
                let credential = fake();
                self.waiting(credential, Some(Refusal::Iterations), random)
            }
            Some(known) => self.waiting(known, None, random),
        }
    }

    /// The answer with this credential, for a login that fails for `refusal` if there is one.
    pub(in crate::login) fn waiting(
        self,
        credential: Credential,
        refusal: Option<Refusal>,
        random: &[u8; super::NONCE_RANDOM_BYTES],
    ) -> (String, Waiting) {
        let nonce = format!("{}{}", self.message.nonce, nonce(random));
        let server_first = ServerFirst {
            nonce: nonce.clone(),
            salt: credential.salt.clone(),
            iterations: credential.iterations,
        };
        let server_first = server_first.text();
        let waiting = Waiting {
            credential,
            refusal,
            first: self.message,
            server_first: server_first.clone(),
            nonce,
        };
        (server_first, waiting)
    }
}

impl Waiting {
    #[must_use]
    pub fn name(&self) -> &str {
        &self.first.name
    }

    /// Checks the proof; returns the last message, by which the client knows that the server has its credential.
    pub fn end(&self, message: &[u8]) -> Result<String, Refusal> {
        let message = ClientFinal::read(message)?;
        let hash = self.credential.hash;
        let auth = auth_message(&self.first.bare, &self.server_first, &message.without_proof);
        let signature = hash.hmac(self.credential.stored_key.expose(), auth.as_bytes());
        let is_whole = message.proof.len() == signature.len();
        let client_key = Secret::new(xor(&message.proof, &signature));
        let is_proof = is_whole
            && self
                .credential
                .stored_key
                .is(&hash.digest(client_key.expose()));
        // All of it is computed before anything is looked at: the time is the same whatever is wrong.
        if !same(message.nonce.as_bytes(), self.nonce.as_bytes()) {
            return Err(Refusal::Nonce);
        }
        if message.binding != self.first.gs2_header.as_bytes() {
            return Err(Refusal::Binding);
        }
        if let Some(refusal) = self.refusal {
            return Err(refusal);
        }
        if !is_proof {
            return Err(Refusal::Proof);
        }
        let signature = hash.hmac(self.credential.server_key.expose(), auth.as_bytes());
        Ok(ServerFinal::Signature(signature).text())
    }
}
