//! PLAIN: a name and a password in one message (RFC 4616).

use zeroize::Zeroizing;

use crate::secret::Secret;

/// The message of a client.
pub struct Message {
    /// The name that the client wants to act under; empty for its own.
    pub authorization_id: String,
    pub name: String,
    pub password: Secret<Vec<u8>>,
}

/// Why a message is none, in the words of Kafka's server.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Malformed {
    /// Counts them up to four.
    #[error("Invalid SASL/PLAIN response: expected 3 tokens, got {0}")]
    Tokens(usize),
    /// Kafka compares what it makes of such bytes, and finds nobody.
    #[error("Authentication failed: Invalid username or password")]
    Text,
    #[error("Authentication failed: username not specified")]
    NoName,
    #[error("Authentication failed: password not specified")]
    NoPassword,
}

impl Message {
    /// True if the client wants to act under another name than its own. Nobody may, and a client is told so once its password was right.
    #[must_use]
    pub fn is_for_another(&self) -> bool {
        !self.authorization_id.is_empty() && self.authorization_id != self.name
    }
}

/// Reads `[authzid] NUL name NUL password`.
pub fn read(message: &[u8]) -> Result<Message, Malformed> {
    let parts: Vec<&[u8]> = message.split(|byte| *byte == 0).take(4).collect();
    let [authorization_id, name, password] = parts[..] else {
        return Err(Malformed::Tokens(parts.len()));
    };
    let text = |bytes: &[u8]| {
        str::from_utf8(bytes)
            .map(str::to_owned)
            .map_err(|_| Malformed::Text)
    };
    let (authorization_id, name) = (text(authorization_id)?, text(name)?);
    str::from_utf8(password).map_err(|_| Malformed::Text)?;
    if name.is_empty() {
        return Err(Malformed::NoName);
    }
    if password.is_empty() {
        return Err(Malformed::NoPassword);
    }
    Ok(Message {
        authorization_id,
        name,
        password: Secret::new(password.to_vec()),
    })
}

/// The message of a client that acts under its own name.
#[must_use]
pub fn write(name: &str, password: &Secret<Vec<u8>>) -> Zeroizing<Vec<u8>> {
    let mut message = Zeroizing::new(Vec::with_capacity(name.len() + password.expose().len() + 2));
    message.push(0);
    message.extend_from_slice(name.as_bytes());
    message.push(0);
    message.extend_from_slice(password.expose());
    message
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_message_has_three_parts_and_nothing_else() {
        let password = Secret::new(b"secret".to_vec());
        let message = read(&write("alice", &password)).unwrap_or_else(|why| panic!("{why}"));
        assert_eq!((&*message.name, &*message.authorization_id), ("alice", ""));
        assert!(message.password.is(b"secret"));
        for (bytes, why) in [
            (b"".as_slice(), Malformed::Tokens(1)),
            (b"alice", Malformed::Tokens(1)),
            (b"\0alice", Malformed::Tokens(2)),
            (b"\0alice\0secret\0", Malformed::Tokens(4)),
            (b"\0\0\0\0\0\0", Malformed::Tokens(4)),
            (b"\0\0secret", Malformed::NoName),
            (b"\0alice\0", Malformed::NoPassword),
            (b"\0\xff\0secret", Malformed::Text),
            (b"\0alice\0\xff", Malformed::Text),
        ] {
            assert_eq!(read(bytes).map(|_| ()), Err(why), "{bytes:?}");
        }
        let is_for_another = |bytes: &[u8]| read(bytes).map(|message| message.is_for_another());
        assert_eq!(is_for_another(b"alice\0alice\0secret"), Ok(false));
        assert_eq!(is_for_another(b"bob\0alice\0secret"), Ok(true));
    }
}
