//! One request of the Kafka door while it is handled: its asker, the place of its answer, and what its handler may use.

use std::sync::Arc;
use std::time::Duration;

use env::logs::REQUESTS;
use meta::Record;
use meta::decide::Uuids;
use model::{Ticket, WaiterKey};
use security::login::server::Login;

use wire::{ApiKey, ErrorCode, Message, Reader};

use super::api::overdue::Overdue;
use super::hall::{Door, Hall};
use super::parked::{AskedFor, Change, Parked, Remote, Then, Waiting};
use crate::asker::Asker;
use crate::control::command::Command;
use crate::control::log::Written;
use crate::mail::calls;
use crate::mail::calls::Recipient;
use crate::meters::meter::Refusal;
use crate::net::Entrance;
use crate::net::connection::Connection;
use crate::net::{Address, Chunk, Connections, Outcome, Reply};
use crate::ops::asking::{Asking, Awaited, Awaiting, QUESTION_BYTES, only};
use crate::ops::change::{self, Begun};
use crate::ops::command::{self, Commanded};
use crate::ops::query::{Query, Told};
use crate::ops::view::{Scene, View};
use crate::ops::{Desk, Step, Tickets};
use crate::peers::{Answer, Encodable};

/// A request that needs a change before it can be answered is answered without it then. Kafka does not wait for a topic that it
/// creates by the way, and its clients ask again.
pub(super) const AGAIN_WAIT_MAX: Duration = Duration::from_secs(5);

/// Requests that need a change of the metadata are handled more than once.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Attempt {
    First,
    /// The state that it needed is there now.
    Second,
    /// The state that it needed was not durable in time: it is answered without.
    Overdue,
}

pub(crate) struct Call<'a> {
    pub(crate) desk: &'a mut Desk,
    pub(crate) door: &'a mut Door,
    pub(crate) connections: &'a mut Connections,
    pub(crate) address: Address,
    pub(crate) asker: Arc<Asker>,
}

impl Call<'_> {
    /// True if the asker is another node.
    pub(crate) fn is_of_peer(&self) -> bool {
        self.desk.shared.catalog.settings().trusts(&self.asker)
    }

    /// True if the requests of the connection are served now.
    pub(crate) fn is_admitted(&self) -> bool {
        let connection = self.connections.get(self.address.conn);
        connection.is_none_or(|connection| connection.is_admitted(self.desk.now))
    }

    /// True if the connection is to log in, and has not yet.
    pub(crate) fn is_stranger(&self) -> bool {
        let connection = self.connections.get(self.address.conn);
        connection.is_some_and(Connection::is_stranger)
    }

    pub(crate) fn entrance(&self) -> Option<&Arc<Entrance>> {
        let connection = self.connections.get(self.address.conn);
        connection.map(|connection| &connection.entrance)
    }

    pub(crate) fn login(&self) -> Option<&Login> {
        let connection = self.connections.get(self.address.conn)?;
        connection.login.as_deref()
    }

    pub(crate) fn login_mut(&mut self) -> Option<&mut Login> {
        let connection = self.connections.get_mut(self.address.conn)?;
        connection.login.as_deref_mut()
    }

    /// A login begins on a connection whose listener asks for none.
    pub(crate) fn begin_login(&mut self) {
        if let Some(connection) = self.connections.get_mut(self.address.conn) {
            let offer = Arc::clone(&connection.entrance.offer);
            connection.login = Some(Box::new(Login::new(offer)));
            self.connections.on_login_begun(self.address.conn);
        }
    }

    /// The connection speaks for somebody else from its next request on.
    pub(crate) fn become_asker(&mut self, asker: Asker) {
        if let Some(connection) = self.connections.get_mut(self.address.conn) {
            *connection.asker_mut() = Arc::new(asker);
        }
    }

    /// The connection ends once the answer to this request is out.
    pub(crate) fn close_behind(&mut self) {
        if let Some(connection) = self.connections.get_mut(self.address.conn) {
            connection.is_closing = true;
        }
    }

    pub(crate) fn version(&self) -> i16 {
        self.address.version
    }

    /// True at a node that serves clients once it is part of its cluster.
    pub(crate) fn is_at_broker(&self) -> bool {
        (self.desk.shared.catalog.config().broker.quorum.roles).broker
    }

    /// True at a broker that no controller counts in, or that cannot reach the one that does; at a controller that hears no leader.
    pub(crate) fn is_cut_off(&self) -> bool {
        let shared = &self.desk.shared;
        if !self.is_at_broker() {
            return !shared.metadata.hears_leader();
        }
        !self.door.is_open || shared.state.is_self_fenced()
    }

    /// The hall without this request, for what is no part of it.
    pub(crate) fn hall(&mut self) -> Hall<'_> {
        Hall {
            desk: self.desk,
            door: self.door,
            connections: self.connections,
        }
    }

    pub(crate) fn reply<M: Message>(&self, key: ApiKey, response: &M) -> Outcome {
        self.reply_with(key, response, Vec::new())
    }

    pub(crate) fn reply_with<M: Message>(
        &self,
        key: ApiKey,
        response: &M,
        fillers: Vec<Vec<Chunk>>,
    ) -> Outcome {
        let Address {
            version,
            correlation_id,
            ..
        } = self.address;
        match wire::frame::encode_response(key, response, version, correlation_id) {
            Ok(encoded) => Outcome::Reply(Reply::new(encoded, fillers)),
            Err(error) => {
                tracing::error!(target: REQUESTS, "{key:?} version {version}: answer cannot be encoded: {error}");
                Outcome::Close
            }
        }
    }

    /// The published metadata as the asker sees them.
    pub(crate) fn scene(&self) -> Scene {
        Scene::new(self.desk, &self.asker)
    }

    /// The key that the next `park` uses.
    pub(crate) fn next_key(&mut self) -> WaiterKey {
        self.door.parked.next_key()
    }

    pub(crate) fn ticket(&mut self) -> Ticket {
        let key = self.next_key();
        self.desk.ticket(key, 0)
    }

    /// Parks the request under the key that `next_key` gave.
    pub(crate) fn park(&mut self, waiting: Waiting) -> Outcome {
        let parked = Parked {
            waiting,
            address: self.address,
            asker: Arc::clone(&self.asker),
        };
        self.door.parked.insert(parked);
        Outcome::Waits
    }

    /// Nothing more of this connection is handled before `unhold`: it must not overtake the request that waits.
    pub(crate) fn hold(&mut self) {
        self.connections.hold(self.address.conn);
    }

    pub(crate) fn unhold(&mut self) {
        self.connections.unhold(self.address.conn);
    }

    /// A request that takes `bytes` of memory until it is answered counts as that many, if it has fewer.
    pub(crate) fn charge(&mut self, bytes: usize) {
        self.connections.charge(&self.address, bytes);
    }

    /// Carries out an operation that may ask coordinators. `finish` makes the answer of the request.
    pub(crate) fn carry_out<R, Q: Query<Answer: Send> + 'static, T: 'static>(
        &mut self,
        begin: impl FnOnce(&mut Desk, &Asker, R, Tickets<'_>) -> Awaited<Q, T>,
        request: R,
        finish: impl FnOnce(&mut Call<'_>, T) -> Outcome + Send + 'static,
    ) -> Outcome {
        let first = self.ticket();
        let tickets = |part| Ticket { part, ..first };
        match begin(self.desk, &self.asker, request, &tickets) {
            Step::Done(done) => finish(self, done),
            Step::Parked(Awaiting { asking, read }) => {
                self.park_asking(asking, |call, told| finish(call, read.read(told)))
            }
            Step::Dropped => Outcome::Close,
        }
    }

    /// Asks the coordinator of a transaction, unless the asker may not.
    pub(crate) fn ask_txn<Q: Query<Answer: Send> + 'static>(
        &mut self,
        question: Result<(i32, Q), ErrorCode>,
        finish: impl FnOnce(&mut Call<'_>, Told<Q>) -> Outcome + Send + 'static,
    ) -> Outcome {
        match question {
            Ok(question) => self.ask_all(vec![question], |call, told| finish(call, only(told))),
            Err(code) => finish(self, Err(code)),
        }
    }

    /// Asks several coordinators; `finish` gets what they said in the order of the questions.
    pub(crate) fn ask_all<Q: Query<Answer: Send> + 'static>(
        &mut self,
        questions: Vec<(i32, Q)>,
        finish: impl FnOnce(&mut Call<'_>, Vec<Told<Q>>) -> Outcome + Send + 'static,
    ) -> Outcome {
        if questions.is_empty() {
            return finish(self, Vec::new());
        }
        if self.desk.is_stopping {
            // A request that waits for other members now would keep the broker from ending.
            return Outcome::Close;
        }
        let first = self.ticket();
        let ticket = |part| Ticket { part, ..first };
        let asking = Asking::begin(self.desk, questions, ticket);
        self.park_asking(asking, finish)
    }

    /// Parks the request under the key that `next_key` gave.
    pub(crate) fn park_asking<Q: Query<Answer: Send> + 'static>(
        &mut self,
        asking: Asking<Q>,
        finish: impl FnOnce(&mut Call<'_>, Vec<Told<Q>>) -> Outcome + Send + 'static,
    ) -> Outcome {
        self.charge(asking.questions() * QUESTION_BYTES);
        self.park(Waiting::Asking(Box::new(AskedFor { asking, finish })))
    }

    /// Decides on the newest image and answers when that is durable, or when `patience` has passed.
    pub(crate) fn change<M: Message + Overdue + Send + 'static>(
        &mut self,
        key: ApiKey,
        patience: Duration,
        decide: impl FnOnce(&View<'_>, &mut dyn Uuids) -> (Vec<Record>, M),
    ) -> Outcome {
        let ticket = self.ticket();
        let (response, begun) = change::begin(self.desk, &self.asker, ticket, patience, decide);
        self.answer_begun(key, response, begun)
    }

    /// Answers once a change is committed, or when its time is up.
    pub(crate) fn answer_begun<M: Message + Overdue + Send + 'static>(
        &mut self,
        key: ApiKey,
        mut response: M,
        begun: Begun,
    ) -> Outcome {
        let reply = match self.reply(key, &response) {
            Outcome::Reply(reply) => reply,
            other => return other,
        };
        let overdue = Box::new(move |call: &mut Call<'_>| {
            response.time_out();
            call.reply(key, &response)
        });
        self.on_begun(begun, Then::Reply { reply, overdue })
    }

    /// Answers once a change that the active controller decided is committed. `None`: this node is not the active controller.
    pub(crate) fn answer_change<T, M: Message + Overdue + Send + 'static>(
        &mut self,
        key: ApiKey,
        decided: Option<(T, Written)>,
        respond: impl FnOnce(Result<T, ErrorCode>) -> M,
    ) -> Outcome {
        let (answer, written) = match decided {
            Some((answer, written)) => (Ok(answer), written),
            None => (Err(ErrorCode::NotController), Written::Durable),
        };
        let response = respond(answer);
        let patience = self.desk.shared.catalog.config().request_wait_max;
        let begun = change::begun(self.desk, patience, written);
        self.answer_begun(key, response, begun)
    }

    /// Asks another node; the handler goes on with its answer, or without one.
    pub(crate) fn ask_node(
        &mut self,
        (to, patience): (Recipient, Duration),
        request: impl Encodable + 'static,
        finish: impl FnOnce(&mut Call<'_>, Option<Answer>) -> Outcome + Send + 'static,
    ) -> Outcome {
        let until = self.desk.now.plus(patience);
        let ticket = self.ticket();
        let call = calls::Call::new((ticket, to), request, until);
        let finish = Box::new(finish);
        let outcome = self.park(Waiting::Remote(Remote { finish }));
        self.desk.shared.mail.calls.call(call);
        outcome
    }

    /// Carries out what a request needs before it can be answered; `again` handles it then.
    pub(crate) fn change_first(
        &mut self,
        command: Command,
        again: impl FnOnce(&mut Call<'_>, Attempt) -> Outcome + Send + 'static,
    ) -> Outcome {
        let terms = (self.ticket(), AGAIN_WAIT_MAX);
        match command::carry_out(self.desk, &self.asker, command, terms) {
            Commanded::Here(begun, done) => {
                let again = |call: &mut Call<'_>, attempt| {
                    if let Some(done) = done.filter(|_| attempt == Attempt::Second) {
                        command::take(call.desk, done);
                    }
                    again(call, attempt)
                };
                self.on_begun(begun, Then::Again(Box::new(again)))
            }
            Commanded::There(called) => {
                let finish = |call: &mut Call<'_>, answer| {
                    let attempt = if called.end(call.desk, answer) {
                        Attempt::Second
                    } else {
                        Attempt::Overdue
                    };
                    again(call, attempt)
                };
                self.park(Waiting::Remote(Remote {
                    finish: Box::new(finish),
                }))
            }
            Commanded::Nowhere => again(self, Attempt::Overdue),
        }
    }

    fn on_begun(&mut self, begun: Begun, then: Then) -> Outcome {
        match begun {
            Begun::Durable => then.answer(self),
            Begun::Waits(change) => self.park(Waiting::Change(Change {
                change,
                then: Some(then),
            })),
            Begun::Offline => Outcome::Close,
        }
    }
}

/// Decodes a request and hands it to its handler.
pub(crate) fn with<R: Message>(
    call: &mut Call<'_>,
    mut reader: Reader,
    handle: impl FnOnce(&mut Call<'_>, R) -> Outcome,
) -> Outcome {
    reader.bound_elements(call.desk.shared.catalog.settings().elements_max);
    match R::decode(&mut reader, call.version()) {
        Ok(request) => handle(call, request),
        Err(error) => {
            let desk = &mut *call.desk;
            desk.meter().on_refused(Refusal::Garbage);
            if let Some(kept_back) = desk.complaints.garbage.admit(desk.now) {
                tracing::warn!(
                    target: REQUESTS, version = call.address.version, kept_back = kept_back.count(),
                    "connection from {} closed: {error}", call.asker.peer,
                );
            }
            Outcome::Close
        }
    }
}
