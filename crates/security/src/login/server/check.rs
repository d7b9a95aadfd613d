//! A password that is compared with records, which takes milliseconds: a worker does it, not the loop of a door.

use super::Users;
use crate::login::scram::{Credential, Fakes, Hash, ITERATIONS};
use crate::secret::Secret;

/// Ties a verdict to the login that it was asked for.
pub(super) type Ticket = [u8; 16];

/// A question for a worker. The password in it is zeroed when the question is answered or dropped.
pub struct Check {
    ticket: Ticket,
    password: Secret<Vec<u8>>,
    /// One for each hash: the time is the same whatever records a name has.
    records: [(Credential, bool); Hash::ALL.len()],
}

/// The answer to a [`Check`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Verdict {
    ticket: Ticket,
    is_right: bool,
}

impl Check {
    pub(super) fn new(
        ticket: Ticket,
        name: &str,
        password: Secret<Vec<u8>>,
        users: &dyn Users,
        fakes: &Fakes,
    ) -> Check {
        let record = |hash| {
            let known = users.scram(hash, name);
            // One with too many iterations would keep a worker busy for as long as somebody likes.
            let known =
                known.filter(|known| known.hash == hash && ITERATIONS.contains(&known.iterations));
            let is_known = known.is_some();
            (
                known.unwrap_or_else(|| fakes.credential(hash, name)),
                is_known,
            )
        };
        Check {
            ticket,
            password,
            records: Hash::ALL.map(record),
        }
    }

    /// Computes for some milliseconds.
    #[must_use]
    pub fn run(self) -> Verdict {
        let is_of = |(record, is_known): &(Credential, bool)| {
            record.is_of(self.password.expose()) && *is_known
        };
        // All of them are tried, whatever the first says.
        let is_right = self
            .records
            .iter()
            .fold(false, |is_right, record| is_of(record) | is_right);
        Verdict {
            ticket: self.ticket,
            is_right,
        }
    }
}

impl Verdict {
    /// True if this is the verdict of the check with this ticket, and the password is right.
    pub(super) fn lets_in(&self, ticket: &Ticket) -> bool {
        self.ticket == *ticket && self.is_right
    }
}
