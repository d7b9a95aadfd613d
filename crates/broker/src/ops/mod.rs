//! Operations of the broker: what any door can ask for, in types of our own.
//!
//! An operation is authorised, carried out at a [`Desk`] and either done at once or parked by its door under a ticket. Protocol
//! versions and messages stay in the doors. An answer that differs by what a client does next has its error code here.

pub(crate) mod asking;
pub(crate) mod change;
pub(crate) mod cluster;
pub(crate) mod command;
pub(crate) mod configs;
pub(crate) mod credentials;
pub(crate) mod desk;
pub(crate) mod feed;
pub(crate) mod fetch;
pub(crate) mod groups;
pub(crate) mod guard;
mod leaders;
mod loggers;
pub(crate) mod offsets;
pub(crate) mod once;
pub(crate) mod produce;
pub(crate) mod query;
pub(crate) mod search;
pub(crate) mod topics;
pub(crate) mod trim;
pub(crate) mod txn_offsets;
pub(crate) mod txns;
pub(crate) mod verify;
pub(crate) mod view;

pub(crate) use desk::Desk;

use meta::Record;
use model::Ticket;

/// Makes the ticket of a part of an operation by its number.
pub(crate) type Tickets<'a> = &'a dyn Fn(u32) -> Ticket;

/// Carry a change out, or only say what would become of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Mode {
    Apply,
    Validate,
}

impl Mode {
    pub(crate) fn validate_if(only_validates: bool) -> Mode {
        if only_validates {
            Mode::Validate
        } else {
            Mode::Apply
        }
    }

    /// The records to write.
    fn records(self, records: Vec<Record>) -> Vec<Record> {
        match self {
            Mode::Apply => records,
            Mode::Validate => Vec::new(),
        }
    }
}

/// Why one part of an operation is refused.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Refused<E> {
    /// The asker may not do this.
    Unauthorised,
    Because(E),
}

/// How far an operation came.
pub(crate) enum Step<P, D> {
    Done(D),
    /// The door keeps it and brings it the news of its tickets.
    Parked(P),
    /// Nothing is answered: the broker is stopping, and what would be waited for may not come.
    Dropped,
}

impl<P, D> Step<P, D> {
    pub(crate) fn map_parked<Q>(self, map: impl FnOnce(P) -> Q) -> Step<Q, D> {
        match self {
            Step::Done(done) => Step::Done(done),
            Step::Parked(parked) => Step::Parked(map(parked)),
            Step::Dropped => Step::Dropped,
        }
    }
}

#[cfg(test)]
mod tests;
