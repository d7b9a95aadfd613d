//! The tokens of one login, by its method.

use super::check::{Check, Ticket, Verdict};
use super::refusal::Reason;
use super::{Method, Offer, Users};
use crate::login::Mechanism;
use crate::login::node::{NodeProof, NodeServer};
use crate::login::scram::{self, Hash, NONCE_RANDOM_BYTES};
use crate::login::{node, plain};
use crate::principal::Principal;

/// The kind of token that has to come next.
pub(super) enum Exchange {
    Plain,
    ScramFirst(Hash),
    ScramFinal(Box<scram::Waiting>),
    NodeFirst,
    NodeFinal(Box<NodeServer>),
}

/// A user whose password is being checked.
pub(super) struct Checking {
    ticket: Ticket,
    name: String,
    is_for_another: bool,
}

/// The outcome of a token.
pub(super) enum Outcome {
    Challenge(Vec<u8>, Exchange),
    Check(Check, Checking),
    Proved(Principal, Vec<u8>),
    /// With the name that the client gave.
    Refused(Option<String>, Reason),
}

impl Exchange {
    pub(super) fn new(method: Method) -> Exchange {
        match method {
            Method::User(Mechanism::Plain) => Exchange::Plain,
            Method::User(Mechanism::Scram(hash)) => Exchange::ScramFirst(hash),
            Method::Node => Exchange::NodeFirst,
        }
    }

    pub(super) fn on_token(
        self,
        token: &[u8],
        offer: &Offer,
        users: &dyn Users,
        random: &[u8; NONCE_RANDOM_BYTES],
    ) -> Outcome {
        match self {
            Exchange::Plain => on_plain(token, offer, users, random),
            Exchange::ScramFirst(hash) => on_scram_first(hash, token, offer, users, random),
            Exchange::ScramFinal(waiting) => {
                let name = waiting.name().to_owned();
                match waiting.end(token) {
                    Ok(last) => Outcome::Proved(Principal::user(&name), last.into_bytes()),
                    Err(why) => Outcome::Refused(Some(name), Reason::Scram(why)),
                }
            }
            Exchange::NodeFirst => on_node_first(offer.nodes.as_deref(), token, random),
            Exchange::NodeFinal(server) => {
                let name = server.id().to_string();
                match server.end(token) {
                    Ok((last, id)) => Outcome::Proved(Principal::node(id), last),
                    Err(why) => Outcome::Refused(Some(name), Reason::Node(why)),
                }
            }
        }
    }
}

fn on_plain(
    token: &[u8],
    offer: &Offer,
    users: &dyn Users,
    random: &[u8; NONCE_RANDOM_BYTES],
) -> Outcome {
    let message = match plain::read(token) {
        Ok(message) => message,
        Err(why) => return Outcome::Refused(None, Reason::Plain(why)),
    };
    let ticket: Ticket = std::array::from_fn(|at| random[at]);
    let checking = Checking {
        ticket,
        is_for_another: message.is_for_another(),
        name: message.name,
    };
    let own = users.plain(&checking.name);
    if own.is_some_and(|own| own.is(message.password.expose())) {
        return checking.prove();
    }
    // A name of the settings may have records as well, and looks like any other to who guesses.
    let check = Check::new(
        ticket,
        &checking.name,
        message.password,
        users,
        &offer.fakes,
    );
    Outcome::Check(check, checking)
}

fn on_scram_first(
    hash: Hash,
    token: &[u8],
    offer: &Offer,
    users: &dyn Users,
    random: &[u8; NONCE_RANDOM_BYTES],
) -> Outcome {
    let first = match scram::begin(hash, token) {
        Ok(first) => first,
        Err(why) => return Outcome::Refused(None, Reason::Scram(why)),
    };
    // There are no delegation tokens yet: nobody has one of that id.
    let record = (!first.is_of_token()).then(|| users.scram(hash, first.name()));
    let (answer, waiting) = first.answer(record.flatten(), &offer.fakes, random);
    Outcome::Challenge(answer.into_bytes(), Exchange::ScramFinal(Box::new(waiting)))
}

fn on_node_first(
    proof: Option<&NodeProof>,
    token: &[u8],
    random: &[u8; NONCE_RANDOM_BYTES],
) -> Outcome {
    let answered = proof
        .ok_or(node::NodeRefusal::OtherSecret)
        .and_then(|proof| proof.answer(token, random));
    match answered {
        Ok((answer, server)) => Outcome::Challenge(answer, Exchange::NodeFinal(Box::new(server))),
        Err(why) => Outcome::Refused(None, Reason::Node(why)),
    }
}

impl Checking {
    /// After the verdict.
    pub(super) fn end(self, verdict: &Verdict) -> Outcome {
        if verdict.lets_in(&self.ticket) {
            self.prove()
        } else {
            Outcome::Refused(Some(self.name), Reason::Password)
        }
    }

    /// After the password was found to be right: only then is a client told that it may not be another.
    fn prove(self) -> Outcome {
        if self.is_for_another {
            return Outcome::Refused(Some(self.name), Reason::Another);
        }
        Outcome::Proved(Principal::user(&self.name), Vec::new())
    }
}
