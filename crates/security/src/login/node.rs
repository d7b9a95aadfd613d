//! ESKER-NODE: nodes of one cluster prove to each other that they are of it.
//!
//! The proof is SCRAM-SHA-512 with the cluster's secret as the password and the node's id as the name, so it is mutual: a node goes on only
//! with one that knows the secret too. The slow step is done once, when the secret is read, and no link and no accept waits for it. Does
//! not say which node may have which id, since all nodes are trusted alike, but that no other has the id of this one; and does not bind the
//! proof to a connection.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use zeroize::Zeroizing;

use super::scram::{
    Client, ClientError, Credential, Fakes, Hash, ITERATIONS, Malformed, NONCE_RANDOM_BYTES,
    Refusal, Verifying, Waiting, begin, nonce,
};
use crate::secret::Secret;

/// The name of the mechanism, as a handshake asks for it.
pub const MECHANISM: &str = "ESKER-NODE";
/// Bytes that a secret must have, and those of one that is made here.
pub const SECRET_BYTES_MIN: usize = 32;

const HASH: Hash = Hash::Sha512;
const ROUNDS: i32 = *ITERATIONS.start();
/// Bytes of the salt, as many as others have.
const SALT_BYTES: usize = NONCE_RANDOM_BYTES;
/// Of the digits of a nonce.
const NONCE_RADIX: u32 = 32;
/// Characters at the end of a nonce by which a process knows a login that it began itself: 40 bits. The 90 before them are random.
const MARK_CHARS: usize = 8;
/// Bytes of a sentence of the other end that are repeated.
const TOLD_BYTES_MAX: usize = 256;

/// The knowledge that all nodes of a cluster have and nobody else has. As text it is one line of base64.
#[derive(Clone)]
pub struct ClusterSecret(Secret<Vec<u8>>);

/// The text is not that of a secret. No variant holds a part of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NoSecret {
    #[error("is empty: one line of base64 is needed")]
    Empty,
    #[error("has more than one line")]
    Lines,
    #[error("is not base64")]
    NotBase64,
    #[error("has {0} bytes, and at least {SECRET_BYTES_MIN} are needed")]
    Short(usize),
}

impl ClusterSecret {
    /// A new one, of random bytes, which the caller zeroes.
    #[must_use]
    pub fn generate(random: &[u8; SECRET_BYTES_MIN]) -> ClusterSecret {
        ClusterSecret(Secret::new(random.to_vec()))
    }

    /// Reads the text of a file; blanks and line ends around it count for nothing.
    pub fn parse(text: &str) -> Result<ClusterSecret, NoSecret> {
        let text = text.trim();
        if text.is_empty() {
            return Err(NoSecret::Empty);
        }
        if text.contains(['\n', '\r']) {
            return Err(NoSecret::Lines);
        }
        // Zeroed whatever comes of it, and long enough from the start: a buffer that grows leaves copies behind.
        let mut bytes = Zeroizing::new(vec![0; base64::decoded_len_estimate(text.len())]);
        let length = STANDARD.decode_slice(text, &mut bytes);
        let length = length.map_err(|_| NoSecret::NotBase64)?;
        if length < SECRET_BYTES_MIN {
            return Err(NoSecret::Short(length));
        }
        Ok(ClusterSecret(Secret::new(bytes[..length].to_vec())))
    }

    /// The line for the file, without a line end.
    #[must_use]
    pub fn text(&self) -> Zeroizing<String> {
        let bytes = self.0.expose();
        let length = base64::encoded_len(bytes.len(), true).unwrap_or_default();
        let mut text = Zeroizing::new(String::with_capacity(length));
        STANDARD.encode_string(bytes, &mut text);
        text
    }
}

/// Why one end does not go on. The sentence is fit for the other end as well: it tells nothing of the secret.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NodeRefusal {
    #[error("the other end has another cluster secret")]
    OtherSecret,
    #[error("the name of the other end is no node id, which is a number from 0 to 2147483647")]
    NoNodeId,
    #[error(
        "the node that it reached has the same node id, and each node of a cluster has one of its own"
    )]
    SameId,
    #[error("the other end does not speak the proof of nodes: {0}")]
    Malformed(Malformed),
    #[error("the other end goes on with another login than this one")]
    OtherLogin,
    #[error("the other end refuses: {0}")]
    Refused(String),
}

/// The means by which a node proves itself and checks the proofs of others. Cheap to share, dear to make.
pub struct NodeProof {
    salted: Secret<Vec<u8>>,
    credential: Credential,
    own: Option<Own>,
}

/// The node that proves itself here.
struct Own {
    id: i32,
    /// Of this process alone: another with the same id and secret makes other marks.
    key: Secret<Vec<u8>>,
}

/// A node that has said its id.
pub struct NodeClient(Client);

/// A node that has proved itself, and waits for the other end to do so.
pub struct NodeVerifying(Verifying);

/// A node that was told an id, and waits for its proof.
pub struct NodeServer {
    waiting: Waiting,
    id: i32,
}

impl NodeProof {
    /// Takes some milliseconds.
    #[must_use]
    pub fn new(secret: &ClusterSecret) -> NodeProof {
        let secret = secret.0.expose();
        // Strangers are told the salt. It is made from the stretched secret, so that it is no short cut for who guesses a secret that is
        // not random.
        let stretched = HASH.salted(secret, b"esker node proof 1", ROUNDS);
        let mut salt = HASH.hmac(stretched.expose(), b"salt");
        salt.truncate(SALT_BYTES);
        let salted = HASH.salted(secret, &salt, ROUNDS);
        NodeProof {
            credential: Credential::of_salted(HASH, &salted, salt, ROUNDS),
            salted,
            own: None,
        }
    }

    /// Knows the node from now on, and refuses others of its id. A node reaches itself as well, where it leads the quorum: logins that this
    /// process began are let in, and `key`, which no other process has, is what they are known by.
    #[must_use]
    pub fn of_node(mut self, id: i32, key: &[u8]) -> NodeProof {
        let key = HASH.hmac(key, b"esker logins of a node with itself");
        self.own = Some(Own {
            id,
            key: Secret::new(key),
        });
        self
    }

    /// Salts for users who do not exist: the same at all nodes that have the secret.
    #[must_use]
    pub fn fakes(&self) -> Fakes {
        let bytes = HASH.hmac(self.salted.expose(), b"esker salts of nobody");
        let mut key = [0; 32];
        key.copy_from_slice(&bytes[..32]);
        Fakes::new(key)
    }

    /// The first message of the node `node`, and what goes on with its answer.
    ///
    /// # Panics
    ///
    /// If `node` is negative: no node has such an id.
    #[must_use]
    pub fn begin(&self, node: i32, random: &[u8; NONCE_RANDOM_BYTES]) -> (Vec<u8>, NodeClient) {
        assert!(0 <= node, "a node id is not negative");
        let marked = self.own.as_ref().map(|own| own.marked(random));
        let (first, client) = Client::begin(&node.to_string(), marked.as_ref().unwrap_or(random));
        (first.into_bytes(), NodeClient(client))
    }

    /// The answer to a first message.
    pub fn answer(
        &self,
        first: &[u8],
        random: &[u8; NONCE_RANDOM_BYTES],
    ) -> Result<(Vec<u8>, NodeServer), NodeRefusal> {
        let first = begin(HASH, first)?;
        let id = node_id(first.name()).ok_or(NodeRefusal::NoNodeId)?;
        let own = self.own.as_ref().filter(|own| own.id == id);
        if own.is_some_and(|own| !own.began(first.nonce())) {
            return Err(NodeRefusal::SameId);
        }
        let (answer, waiting) = first.waiting(self.credential.clone(), None, random);
        Ok((answer.into_bytes(), NodeServer { waiting, id }))
    }
}

impl Own {
    /// The same random bytes, but for the last: these make the mark.
    fn marked(&self, random: &[u8; NONCE_RANDOM_BYTES]) -> [u8; NONCE_RANDOM_BYTES] {
        let mut marked = *random;
        let text = nonce(random);
        let (head, _) = text.split_at(NONCE_RANDOM_BYTES - MARK_CHARS);
        let mark = HASH.hmac(self.key.expose(), head.as_bytes());
        marked[NONCE_RANDOM_BYTES - MARK_CHARS..].copy_from_slice(&mark[..MARK_CHARS]);
        marked
    }

    /// True if this process made the nonce.
    fn began(&self, made: &str) -> bool {
        let mut random = [0; NONCE_RANDOM_BYTES];
        let Ok(digits) = <&[u8; NONCE_RANDOM_BYTES]>::try_from(made.as_bytes()) else {
            return false;
        };
        // A digit of a nonce stands for five bits, and any byte with these gives it.
        for (byte, digit) in random.iter_mut().zip(digits) {
            match char::from(*digit).to_digit(NONCE_RADIX) {
                Some(value) => *byte = value as u8,
                None => return false,
            }
        }
        nonce(&self.marked(&random)) == made
    }
}

impl NodeClient {
    /// The proof for the other end's answer.
    pub fn prove(
        self,
        proof: &NodeProof,
        server_first: &[u8],
    ) -> Result<(Vec<u8>, NodeVerifying), NodeRefusal> {
        let own = &proof.credential;
        let salted = |salt: &[u8], iterations| {
            let is_own = salt == own.salt && iterations == own.iterations;
            is_own
                .then(|| proof.salted.clone())
                .ok_or(NodeRefusal::OtherSecret)
        };
        let (message, verifying) = self.0.prove_with(server_first, HASH, salted)?;
        Ok((message.into_bytes(), NodeVerifying(verifying)))
    }
}

impl NodeVerifying {
    /// Checks that the other end is of this cluster too: only then may anything be said to it.
    pub fn end(self, server_final: &[u8]) -> Result<(), NodeRefusal> {
        Ok(self.0.end(server_final)?)
    }
}

impl NodeServer {
    /// The id that the other end says it has, and has not proved yet.
    #[must_use]
    pub fn id(&self) -> i32 {
        self.id
    }

    /// The last message, and the id of the node that has proved itself.
    pub fn end(self, client_final: &[u8]) -> Result<(Vec<u8>, i32), NodeRefusal> {
        let message = self.waiting.end(client_final)?;
        Ok((message.into_bytes(), self.id))
    }
}

/// The id, if it is written as nodes write it: `07` and `+7` are none.
fn node_id(name: &str) -> Option<i32> {
    let id = name.parse().ok().filter(|id| 0 <= *id);
    id.filter(|id: &i32| id.to_string() == name)
}

impl From<Refusal> for NodeRefusal {
    fn from(refusal: Refusal) -> NodeRefusal {
        match refusal {
            Refusal::Malformed(why) => NodeRefusal::Malformed(why),
            Refusal::Nonce | Refusal::Binding => NodeRefusal::OtherLogin,
            Refusal::Another => NodeRefusal::NoNodeId,
            Refusal::Unknown | Refusal::Iterations | Refusal::Proof => NodeRefusal::OtherSecret,
        }
    }
}

impl From<ClientError> for NodeRefusal {
    fn from(error: ClientError) -> NodeRefusal {
        match error {
            ClientError::Malformed(why) => NodeRefusal::Malformed(why),
            ClientError::Nonce => NodeRefusal::OtherLogin,
            ClientError::Iterations(_) | ClientError::Signature => NodeRefusal::OtherSecret,
            ClientError::Refused(why) => {
                let end = why.floor_char_boundary(TOLD_BYTES_MAX);
                NodeRefusal::Refused(why[..end].to_owned())
            }
        }
    }
}

#[cfg(test)]
mod tests;
