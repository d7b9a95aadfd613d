//! The four messages of a login, as text.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;

/// The message is none of SCRAM, or one out of place.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Malformed {
    #[error("the message is not UTF-8")]
    Text,
    #[error("the first message of the client is not one of SCRAM")]
    ClientFirst,
    #[error(
        "the first message of the client asks for channel binding, which this mechanism has not"
    )]
    Binding,
    #[error("the first message of the client asks for an extension that nobody here knows")]
    Mandatory,
    #[error("the first message of the server is not one of SCRAM")]
    ServerFirst,
    #[error("the final message of the client is not one of SCRAM")]
    ClientFinal,
    #[error("the final message of the server is not one of SCRAM")]
    ServerFinal,
}

/// `n,[a=AUTHZID],n=NAME,r=NONCE[,EXTENSION...]`
#[derive(Debug, PartialEq, Eq)]
pub(super) struct ClientFirst {
    pub(super) authorization_id: String,
    pub(super) name: String,
    pub(super) nonce: String,
    /// With their names: a client that has a token says so.
    pub(super) extensions: Vec<(String, String)>,
    /// The two parts that later messages repeat.
    pub(super) gs2_header: String,
    pub(super) bare: String,
}

impl ClientFirst {
    pub(super) fn new(name: &str, nonce: String) -> ClientFirst {
        let bare = format!("n={},r={nonce}", escaped(name));
        ClientFirst {
            authorization_id: String::new(),
            name: name.to_owned(),
            nonce,
            extensions: Vec::new(),
            gs2_header: "n,,".to_owned(),
            bare,
        }
    }

    pub(super) fn text(&self) -> String {
        format!("{}{}", self.gs2_header, self.bare)
    }

    pub(super) fn read(message: &[u8]) -> Result<ClientFirst, Malformed> {
        let text = str::from_utf8(message).map_err(|_| Malformed::Text)?;
        let why = Malformed::ClientFirst;
        let (binding, rest) = text.split_once(',').ok_or(why)?;
        if binding.starts_with("p=") {
            return Err(Malformed::Binding);
        }
        if binding != "n" {
            return Err(why);
        }
        let (identity, bare) = rest.split_once(',').ok_or(why)?;
        let authorization_id = match identity.strip_prefix("a=") {
            Some(name) => unescaped(name).filter(|name| !name.is_empty()).ok_or(why)?,
            None if identity.is_empty() => String::new(),
            None => return Err(why),
        };
        if bare.starts_with("m=") {
            return Err(Malformed::Mandatory);
        }
        let mut attributes = bare.split(',');
        let name = attributes.next().and_then(|at| at.strip_prefix("n="));
        let name = name
            .and_then(unescaped)
            .filter(|name| !name.is_empty())
            .ok_or(why)?;
        let nonce = attributes.next().and_then(|at| at.strip_prefix("r="));
        let nonce = nonce.filter(|nonce| is_printable(nonce)).ok_or(why)?;
        let extensions = attributes.map(attribute);
        let extensions: Option<Vec<_>> = extensions.collect();
        Ok(ClientFirst {
            authorization_id,
            name,
            nonce: nonce.to_owned(),
            extensions: extensions.ok_or(why)?,
            gs2_header: text[..text.len() - bare.len()].to_owned(),
            bare: bare.to_owned(),
        })
    }
}

/// `r=NONCE,s=SALT,i=ITERATIONS[,EXTENSION...]`
#[derive(Debug, PartialEq, Eq)]
pub(super) struct ServerFirst {
    pub(super) nonce: String,
    pub(super) salt: Vec<u8>,
    pub(super) iterations: i32,
}

impl ServerFirst {
    pub(super) fn text(&self) -> String {
        let salt = STANDARD.encode(&self.salt);
        format!("r={},s={salt},i={}", self.nonce, self.iterations)
    }

    pub(super) fn read(text: &str) -> Result<ServerFirst, Malformed> {
        let why = Malformed::ServerFirst;
        let mut attributes = text.split(',');
        let mut next = |name| {
            attributes
                .next()
                .and_then(|at| at.strip_prefix(name))
                .ok_or(why)
        };
        let (nonce, salt, iterations) = (next("r=")?, next("s=")?, next("i=")?);
        if !is_printable(nonce) || !attributes.all(|at| attribute(at).is_some()) {
            return Err(why);
        }
        Ok(ServerFirst {
            nonce: nonce.to_owned(),
            salt: STANDARD.decode(salt).map_err(|_| why)?,
            iterations: number(iterations).ok_or(why)?,
        })
    }
}

/// `c=BINDING,r=NONCE[,EXTENSION...],p=PROOF`
#[derive(Debug, PartialEq, Eq)]
pub(super) struct ClientFinal {
    pub(super) binding: Vec<u8>,
    pub(super) nonce: String,
    pub(super) proof: Vec<u8>,
    pub(super) without_proof: String,
}

impl ClientFinal {
    /// Without its proof, which rests on that.
    pub(super) fn without_proof(gs2_header: &str, nonce: &str) -> String {
        format!("c={},r={nonce}", STANDARD.encode(gs2_header))
    }

    pub(super) fn text(without_proof: &str, proof: &[u8]) -> String {
        format!("{without_proof},p={}", STANDARD.encode(proof))
    }

    pub(super) fn read(message: &[u8]) -> Result<ClientFinal, Malformed> {
        let text = str::from_utf8(message).map_err(|_| Malformed::Text)?;
        let why = Malformed::ClientFinal;
        let (without_proof, proof) = text.rsplit_once(",p=").ok_or(why)?;
        let mut attributes = without_proof.split(',');
        let mut next = |name| {
            attributes
                .next()
                .and_then(|at| at.strip_prefix(name))
                .ok_or(why)
        };
        let (binding, nonce) = (next("c=")?, next("r=")?);
        if !is_printable(nonce) || !attributes.all(|at| attribute(at).is_some()) {
            return Err(why);
        }
        Ok(ClientFinal {
            binding: STANDARD.decode(binding).map_err(|_| why)?,
            nonce: nonce.to_owned(),
            proof: STANDARD.decode(proof).map_err(|_| why)?,
            without_proof: without_proof.to_owned(),
        })
    }
}

/// `v=SIGNATURE` or `e=ERROR`
#[derive(Debug, PartialEq, Eq)]
pub(super) enum ServerFinal {
    Signature(Vec<u8>),
    Error(String),
}

impl ServerFinal {
    pub(super) fn text(&self) -> String {
        match self {
            ServerFinal::Signature(signature) => format!("v={}", STANDARD.encode(signature)),
            ServerFinal::Error(why) => format!("e={why}"),
        }
    }

    pub(super) fn read(message: &[u8]) -> Result<ServerFinal, Malformed> {
        let text = str::from_utf8(message).map_err(|_| Malformed::Text)?;
        let why = Malformed::ServerFinal;
        let first = text.split(',').next().unwrap_or_default();
        if let Some(error) = first.strip_prefix("e=") {
            return Ok(ServerFinal::Error(error.to_owned()));
        }
        let signature = first.strip_prefix("v=").ok_or(why)?;
        let signature = STANDARD.decode(signature).map_err(|_| why)?;
        Ok(ServerFinal::Signature(signature))
    }
}

/// A name and a value. Kafka has names of several letters, which RFC 5802 has not.
fn attribute(text: &str) -> Option<(String, String)> {
    let (name, value) = text.split_once('=')?;
    let is_name = !name.is_empty() && name.bytes().all(|byte| byte.is_ascii_alphabetic());
    let is_value = !value.is_empty() && !value.contains('\0');
    (is_name && is_value).then(|| (name.to_owned(), value.to_owned()))
}

/// A positive number without signs or blanks.
fn number(text: &str) -> Option<i32> {
    let is_plain = text.bytes().all(|byte| byte.is_ascii_digit());
    text.parse().ok().filter(|number| is_plain && 0 < *number)
}

fn is_printable(text: &str) -> bool {
    !text.is_empty()
        && text
            .bytes()
            .all(|byte| matches!(byte, 0x21..=0x7e) && byte != b',')
}

/// A name in a message: `=` and `,` would end it.
fn escaped(name: &str) -> String {
    name.replace('=', "=3D").replace(',', "=2C")
}

/// None where an `=` is not the beginning of `=2C` or `=3D`.
fn unescaped(text: &str) -> Option<String> {
    let mut parts = text.split('=');
    let mut name = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        let (sign, rest) = match part.get(..2)? {
            "2C" => (',', &part[2..]),
            "3D" => ('=', &part[2..]),
            _ => return None,
        };
        name.push(sign);
        name.push_str(rest);
    }
    (!name.contains('\0')).then_some(name)
}
