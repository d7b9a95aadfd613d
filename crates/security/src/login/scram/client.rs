//! The client's end of a login, which checks the server as well.

use crate::secret::{Secret, same};

use super::messages::{ClientFinal, ClientFirst, Malformed, ServerFinal, ServerFirst};
use super::{Hash, ITERATIONS, NONCE_RANDOM_BYTES, auth_message, nonce, xor};

/// Why a client does not go on.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ClientError {
    #[error("{0}")]
    Malformed(#[from] Malformed),
    #[error("the server does not repeat the nonce of this login")]
    Nonce,
    #[error("the server wants {0} iterations, and 4096 to 16384 are allowed")]
    Iterations(i32),
    #[error("the server refuses: {0}")]
    Refused(String),
    #[error(
        "the server does not prove that it knows the password: it may not be the one that is meant"
    )]
    Signature,
}

/// A password, with what was made of it last: salting takes milliseconds, and a server gives the same salt each time.
#[derive(Clone)]
pub struct Password {
    hash: Hash,
    password: Secret<Vec<u8>>,
    salted: Option<(Vec<u8>, i32, Secret<Vec<u8>>)>,
}

impl Password {
    #[must_use]
    pub fn new(hash: Hash, password: Secret<Vec<u8>>) -> Password {
        Password {
            hash,
            password,
            salted: None,
        }
    }

    fn salted(&mut self, salt: &[u8], iterations: i32) -> Secret<Vec<u8>> {
        if let Some((known, rounds, salted)) = &self.salted
            && (known.as_slice(), *rounds) == (salt, iterations)
        {
            return salted.clone();
        }
        let salted = self.hash.salted(self.password.expose(), salt, iterations);
        self.salted = Some((salt.to_vec(), iterations, salted.clone()));
        salted
    }
}

/// A client that has sent its first message.
pub struct Client {
    pub(super) first: ClientFirst,
}

/// A client that has sent its proof and waits for that of the server.
pub struct Verifying {
    signature: Secret<Vec<u8>>,
}

impl Client {
    /// The first message, and what goes on with its answer.
    #[must_use]
    pub fn begin(name: &str, random: &[u8; NONCE_RANDOM_BYTES]) -> (String, Client) {
        let first = ClientFirst::new(name, nonce(random));
        (first.text(), Client { first })
    }

    /// The proof for the server's first message.
    pub fn prove(
        self,
        message: &[u8],
        password: &mut Password,
    ) -> Result<(String, Verifying), ClientError> {
        let hash = password.hash;
        self.prove_with(message, hash, |salt, iterations| {
            Ok(password.salted(salt, iterations))
        })
    }

    /// The same, where `salted` gives the salted password for a salt and a number of rounds that are allowed, or refuses them.
    pub(in crate::login) fn prove_with<E: From<ClientError>>(
        self,
        message: &[u8],
        hash: Hash,
        salted: impl FnOnce(&[u8], i32) -> Result<Secret<Vec<u8>>, E>,
    ) -> Result<(String, Verifying), E> {
        let (text, server) = self.server_first(message)?;
        let salted = salted(&server.salt, server.iterations)?;
        let client_key = hash.client_key(&salted);
        let without_proof = ClientFinal::without_proof(&self.first.gs2_header, &server.nonce);
        let auth = auth_message(&self.first.bare, text, &without_proof);
        let stored_key = hash.digest(client_key.expose());
        let proof = xor(
            client_key.expose(),
            &hash.hmac(&stored_key, auth.as_bytes()),
        );
        let signature = hash.hmac(hash.server_key(&salted).expose(), auth.as_bytes());
        let verifying = Verifying {
            signature: Secret::new(signature),
        };
        Ok((ClientFinal::text(&without_proof, &proof), verifying))
    }

    /// The server's first message, if it goes on with this login.
    fn server_first<'m>(&self, message: &'m [u8]) -> Result<(&'m str, ServerFirst), ClientError> {
        let text = str::from_utf8(message).map_err(|_| Malformed::Text)?;
        // A server may refuse at once.
        if let Some(why) = text.strip_prefix("e=") {
            return Err(ClientError::Refused(why.to_owned()));
        }
        let server = ServerFirst::read(text)?;
        let is_longer = self.first.nonce.len() < server.nonce.len();
        if !is_longer || !server.nonce.starts_with(&self.first.nonce) {
            return Err(ClientError::Nonce);
        }
        if !ITERATIONS.contains(&server.iterations) {
            return Err(ClientError::Iterations(server.iterations));
        }
        Ok((text, server))
    }
}

impl Verifying {
    /// Checks the server's last message: only then is the client logged in.
    pub fn end(self, message: &[u8]) -> Result<(), ClientError> {
        match ServerFinal::read(message)? {
            ServerFinal::Error(why) => Err(ClientError::Refused(why)),
            ServerFinal::Signature(signature) if same(self.signature.expose(), &signature) => {
                Ok(())
            }
            ServerFinal::Signature(_) => Err(ClientError::Signature),
        }
    }
}
