//! Principals: those who ask, as Kafka writes them.

use std::fmt;
use std::str::FromStr;
use std::sync::Arc;

/// The type of people and programs.
pub const USER: &str = "User";
/// The type of nodes of this cluster. No login of a user, no rule and no envelope can name one.
pub const NODE: &str = "Node";
/// The type of those who administer a machine. As with nodes: only a socket in the file system gives it.
const LOCAL: &str = "Local";
/// The name of a user who did not log in.
pub const ANONYMOUS: &str = "ANONYMOUS";

/// A type and a name, `User:alice`. Cheap to clone.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Principal {
    /// Both, with a colon between.
    text: Arc<str>,
    /// Bytes of the type.
    kind: usize,
}

/// The text has no colon, or nothing in front of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("expected a string in format principalType:principalName")]
pub struct NoPrincipal;

impl Principal {
    #[must_use]
    pub fn new(kind: &str, name: &str) -> Principal {
        Principal {
            text: format!("{kind}:{name}").into(),
            kind: kind.len(),
        }
    }

    #[must_use]
    pub fn user(name: &str) -> Principal {
        Principal::new(USER, name)
    }

    #[must_use]
    pub fn anonymous() -> Principal {
        Principal::user(ANONYMOUS)
    }

    #[must_use]
    pub fn node(id: i32) -> Principal {
        Principal::new(NODE, &id.to_string())
    }

    /// The administrator of the machine that a node runs on.
    #[must_use]
    pub fn local() -> Principal {
        Principal::new(LOCAL, "administrator")
    }

    #[must_use]
    pub fn kind(&self) -> &str {
        &self.text[..self.kind]
    }

    #[must_use]
    pub fn name(&self) -> &str {
        &self.text[self.kind + 1..]
    }

    #[must_use]
    pub fn is_node(&self) -> bool {
        self.kind() == NODE
    }

    #[must_use]
    pub fn is_local(&self) -> bool {
        self.kind() == LOCAL
    }

    /// The text of this principal in rules and settings; `None` if it cannot be written so that it is read as the same.
    #[must_use]
    pub(crate) fn text(&self) -> Option<&str> {
        (!self.kind().contains(':')).then_some(&self.text)
    }

    /// True if this is what a rule or a setting writes as `text`. Does not allocate.
    #[must_use]
    pub fn is(&self, text: &str) -> bool {
        self.text() == Some(text)
    }
}

impl fmt::Display for Principal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

impl FromStr for Principal {
    type Err = NoPrincipal;

    /// Splits at the first colon, as Kafka does: a name may have more of them.
    fn from_str(text: &str) -> Result<Principal, NoPrincipal> {
        let (kind, name) = text.split_once(':').ok_or(NoPrincipal)?;
        if kind.is_empty() {
            return Err(NoPrincipal);
        }
        Ok(Principal::new(kind, name))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_principal_is_written_and_read_as_kafka_does() {
        let alice: Principal = "User:alice".parse().expect("it has a type");
        assert_eq!(alice, Principal::user("alice"));
        assert_eq!(alice.to_string(), "User:alice");
        assert!(alice.is("User:alice") && !alice.is("User:alicia") && !alice.is("alice"));
        let name: Principal = "User:CN=a:b".parse().expect("the first colon counts");
        assert_eq!(name.name(), "CN=a:b");
        for text in ["alice", "", ":alice"] {
            assert_eq!(text.parse::<Principal>(), Err(NoPrincipal));
        }
        assert!(Principal::node(3).is_node() && !Principal::user("3").is_node());
        let odd = Principal::new("Node:3", "x");
        assert_eq!((odd.kind(), odd.name()), ("Node:3", "x"));
        assert!(!odd.is_node() && !odd.is("Node:3:x"));
        assert_ne!(odd, Principal::new("Node", "3:x"));
    }
}
