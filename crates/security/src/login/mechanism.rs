//! The mechanisms of users.

use super::scram::Hash;

/// A way to log in that a listener may offer. That of nodes is none of them: no setting names it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, std::hash::Hash, PartialOrd, Ord)]
pub enum Mechanism {
    Plain,
    Scram(Hash),
}

impl Mechanism {
    pub const EVERY: [Mechanism; 3] = [
        Mechanism::Plain,
        Mechanism::Scram(Hash::Sha256),
        Mechanism::Scram(Hash::Sha512),
    ];

    /// The name in a handshake and in settings.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Mechanism::Plain => "PLAIN",
            Mechanism::Scram(hash) => hash.mechanism(),
        }
    }

    /// That of a name, whose letters are all capitals.
    #[must_use]
    pub fn of_name(name: &str) -> Option<Mechanism> {
        Mechanism::EVERY
            .into_iter()
            .find(|mechanism| mechanism.name() == name)
    }
}
