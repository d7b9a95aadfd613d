//! Commands: changes of the metadata that this broker needs. The active controller decides about each: this node, if it is that, else
//! another one that is called.

use std::time::Duration;

use model::{BrokerId, Ticket};

use super::change::{self, Begun};
use super::{Desk, topics, txns};
use crate::asker::Asker;
use crate::control::command::{self, Command, Done, Kind, Terms};
use crate::peers::Answer;

/// How far a command came.
pub(crate) enum Commanded {
    /// Decided here. What is done holds once the change is durable.
    Here(Begun, Option<Done>),
    /// The active controller was called, whose answer comes under the ticket.
    There(Called),
    /// Nothing was done, and nobody can be asked now.
    Nowhere,
}

/// A command that another node decides about.
pub(crate) struct Called {
    kind: Kind,
}

impl Called {
    /// The answer has come, or none has; true if the command was carried out.
    pub(crate) fn end(self, desk: &Desk, answer: Option<Answer>) -> bool {
        match answer.and_then(|answer| self.kind.read(answer)) {
            Some(done) => {
                take(desk, done);
                true
            }
            None => false,
        }
    }
}

/// Puts what a command has brought to where this broker takes it from.
pub(crate) fn take(desk: &Desk, done: Done) {
    match done {
        Done::Topics => {}
        Done::ProducerIds(block) => desk.shared.state.add_producer_ids(block),
    }
}

pub(crate) fn carry_out(
    desk: &mut Desk,
    asker: &Asker,
    command: Command,
    (ticket, patience): (Ticket, Duration),
) -> Commanded {
    if matches!(&command, Command::CreateTopics(topics) if topics.is_empty()) {
        return Commanded::Here(Begun::Durable, None);
    }
    let state = &desk.shared.state;
    let is_alone = state.is_alone();
    let is_early = !is_alone && state.awaits_brokers(&desk.shared.catalog);
    match command {
        Command::CreateTopics(_) if is_early => Commanded::Nowhere,
        Command::CreateTopics(topics) if is_alone || desk.shared.metadata.is_active() => {
            let ((), begun) = change::begin(desk, asker, ticket, patience, |view, uuids| {
                (topics::create_implied(view, topics, uuids), ())
            });
            Commanded::Here(begun, None)
        }
        // Its block is handed to this broker when the records are published.
        Command::AllocateProducerIds { .. } if is_alone => {
            let ((), begun) = change::begin(desk, asker, ticket, patience, |view, _| {
                (txns::allocate(view), ())
            });
            Commanded::Here(begun, None)
        }
        Command::AllocateProducerIds { broker, epoch } => {
            allocate(desk, asker, (broker, epoch), (ticket, patience))
        }
        command => call(desk, asker, command, (ticket, patience)),
    }
}

fn allocate(
    desk: &mut Desk,
    asker: &Asker,
    (broker, epoch): (BrokerId, i64),
    (ticket, patience): (Ticket, Duration),
) -> Commanded {
    let metadata = &desk.shared.metadata;
    match metadata.allocate_producer_ids(ticket, broker, epoch) {
        Some((Ok((first, count)), written)) => match command::block(first, count) {
            Some(block) => Commanded::Here(change::begun(desk, patience, written), Some(block)),
            None => Commanded::Nowhere,
        },
        Some((Err(_), _)) => Commanded::Nowhere,
        None => {
            let command = Command::AllocateProducerIds { broker, epoch };
            call(desk, asker, command, (ticket, patience))
        }
    }
}

fn call(
    desk: &Desk,
    asker: &Asker,
    command: Command,
    (ticket, patience): (Ticket, Duration),
) -> Commanded {
    let terms = Terms {
        asker,
        patience,
        now: desk.now,
    };
    let kind = command.kind();
    match command.call(ticket, &terms) {
        Ok(call) => {
            desk.shared.mail.calls.call(call);
            Commanded::There(Called { kind })
        }
        Err(_) => Commanded::Nowhere,
    }
}
