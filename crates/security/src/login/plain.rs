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
    #[error("Invalid SASL/PLAIN response: expected 3 tokens")]
    Tokens,
    #[error("Invalid SASL/PLAIN response: it is not UTF-8")]
    Text,
    #[error("Authentication failed: username not specified")]
    NoName,
    #[error("Authentication failed: password not specified")]
    NoPassword,
    #[error(
        "Authentication failed: Client requested an authorization id that is different from username"
    )]
    Another,
}

/// Reads `[authzid] NUL name NUL password`.
pub fn read(message: &[u8]) -> Result<Message, Malformed> {
    let parts: Vec<&[u8]> = message.split(|byte| *byte == 0).collect();
    let [authorization_id, name, password] = parts[..] else {
        return Err(Malformed::Tokens);
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
    if !authorization_id.is_empty() && authorization_id != name {
        return Err(Malformed::Another);
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
            (b"".as_slice(), Malformed::Tokens),
            (b"alice", Malformed::Tokens),
            (b"\0alice", Malformed::Tokens),
            (b"\0alice\0secret\0", Malformed::Tokens),
            (b"\0\0secret", Malformed::NoName),
            (b"\0alice\0", Malformed::NoPassword),
            (b"bob\0alice\0secret", Malformed::Another),
            (b"\0\xff\0secret", Malformed::Text),
            (b"\0alice\0\xff", Malformed::Text),
        ] {
            assert_eq!(read(bytes).map(|_| ()), Err(why), "{bytes:?}");
        }
        assert!(read(b"alice\0alice\0secret").is_ok());
    }
}
