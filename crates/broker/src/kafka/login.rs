//! Connections that log in: their frames go to the machine of their login, and what it says is done here.
//!
//! Owns the forms of the answers, the waits (for a password that is checked elsewhere, and the pause behind a refusal) and the lines about
//! those who are not let in. Serves nothing itself.

pub(super) mod form;

use std::sync::Arc;

use bytes::Bytes;
use env::logs::CONNECTIONS;
use model::WaiterKey;
use security::login::node;
use security::login::server::{Answer, Done, Frame, Refused, Step, Verdict};
use wire::messages::{
    ApiVersionsRequest, ApiVersionsResponse, SaslAuthenticateRequest, SaslAuthenticateResponse,
    SaslHandshakeRequest, SaslHandshakeResponse,
};
use wire::{ApiKey, ErrorCode, Message, Reader, RequestHead};

use self::form::{Form, Refusing};
use super::api::{self, api_versions};
use super::call::Call;
use super::hall::Hall;
use super::parked::Waiting;
use super::router::{answer_versions, await_membership};
use crate::asker::Asker;
use crate::net::Known;
use crate::net::{Outcome, Reply};

/// Frames of a login: with more the client only keeps its place.
const FRAMES_MAX: u64 = 12;

/// A request on a connection whose login is not over.
pub(super) fn on_request(
    call: &mut Call<'_>,
    head: &RequestHead,
    mut reader: Reader,
    whole: Bytes,
) -> Outcome {
    if call.is_stranger() && FRAMES_MAX <= call.address.slot {
        return Outcome::Close;
    }
    let version = head.version;
    match head.api() {
        Some(ApiKey::SaslHandshake) => {
            // The machine refuses versions that nobody knows before it looks at the name.
            let request = SaslHandshakeRequest::decode(&mut reader, version);
            let mechanism = request.map(|request| request.mechanism);
            let mechanism = mechanism.unwrap_or_default();
            // The metadata say who exists, once they are here.
            if !call.door.is_open && mechanism != node::MECHANISM {
                return await_membership(call, whole);
            }
            let mechanism = &mechanism;
            take(
                call,
                Frame::SaslHandshake { version, mechanism },
                Form::Handshake,
            )
        }
        Some(ApiKey::SaslAuthenticate) => {
            let request = SaslAuthenticateRequest::decode(&mut reader, version);
            let token = request.map(|request| request.auth_bytes);
            let token = &*token.unwrap_or_default();
            take(
                call,
                Frame::SaslAuthenticate { version, token },
                Form::Token,
            )
        }
        Some(ApiKey::ApiVersions) => {
            let is_known = api::is_served(ApiKey::ApiVersions, version, &call.desk.shared.ceilings);
            let mut body = Reader::new(Bytes::copy_from_slice(reader.rest()));
            let request = ApiVersionsRequest::decode(&mut body, version).ok();
            let request = request.filter(|_| is_known);
            let is_valid =
                request.is_some_and(|request| api_versions::is_in_order(&request, version));
            match step(call, Frame::ApiVersions { is_valid }) {
                Step::Versions => answer_versions(call, is_known, reader),
                step => {
                    // KIP-511: whoever asks in a version that nobody knows is answered in the first.
                    if !is_known {
                        call.address.version = 0;
                    }
                    act(call, step, Form::Versions)
                }
            }
        }
        _ => take(call, Frame::Other, Form::Other),
    }
}

/// A token without a header.
pub(super) fn on_raw(call: &mut Call<'_>, token: &[u8]) -> Outcome {
    take(call, Frame::Raw(token), Form::Raw)
}

pub(super) fn take(call: &mut Call<'_>, frame: Frame<'_>, form: Form) -> Outcome {
    let step = step(call, frame);
    act(call, step, form)
}

fn step(call: &mut Call<'_>, frame: Frame<'_>) -> Step {
    let shared = &call.desk.shared;
    let (image, random) = (shared.catalog.image(), shared.identity.random());
    let now = call.desk.now;
    let Some(connection) = call.connections.get_mut(call.address.conn) else {
        return Step::Hold;
    };
    let entrance = Arc::clone(&connection.entrance);
    let users = Known {
        image: &image,
        entrance: &entrance,
    };
    match connection.login.as_mut() {
        Some(login) => login.on_frame(frame, &users, now, &random),
        None => Step::Hold,
    }
}

fn act(call: &mut Call<'_>, step: Step, form: Form) -> Outcome {
    match step {
        Step::Handshake => {
            let mechanisms = call.login().map(|login| login.mechanisms());
            handshake(call, 0, mechanisms.unwrap_or_default())
        }
        Step::Challenge(token) => answer(call, form, token, 0),
        Step::Check(check) => {
            let ticket = call.ticket();
            if !call.desk.shared.passwords.check(ticket, check) {
                return Outcome::Close;
            }
            call.hold();
            call.park(Waiting::Password(form))
        }
        Step::Done(done) => let_in(call, form, done),
        Step::NotNow(words) => not_now(call, form, words),
        Step::Refused(refused) => refuse(call, form, &refused),
        // Versions are answered before, and nothing else is served here. No frame comes while a password is checked.
        Step::Versions | Step::Pass | Step::Hold => Outcome::Close,
    }
}

fn let_in(call: &mut Call<'_>, form: Form, done: Done) -> Outcome {
    call.desk.meter().on_login();
    if !done.is_again {
        call.become_asker(Asker {
            principal: done.principal,
            ..Asker::clone(&call.asker)
        });
        call.connections.on_login(call.address.conn);
    }
    answer(call, form, done.last, done.session_ms)
}

fn handshake(call: &Call<'_>, error_code: i16, mechanisms: Vec<&str>) -> Outcome {
    let response = SaslHandshakeResponse {
        error_code,
        mechanisms: mechanisms.into_iter().map(str::to_owned).collect(),
    };
    call.reply(ApiKey::SaslHandshake, &response)
}

fn answer(call: &Call<'_>, form: Form, token: Vec<u8>, session_lifetime_ms: i64) -> Outcome {
    if form == Form::Raw {
        return Outcome::Reply(Reply::carried(token.into()));
    }
    let response = SaslAuthenticateResponse {
        auth_bytes: token.into(),
        session_lifetime_ms,
        ..SaslAuthenticateResponse::default()
    };
    call.reply(ApiKey::SaslAuthenticate, &response)
}

fn failed(call: &Call<'_>, code: ErrorCode, words: &str) -> Outcome {
    let response = SaslAuthenticateResponse {
        error_code: code.code(),
        error_message: Some(words.to_owned()),
        ..SaslAuthenticateResponse::default()
    };
    call.reply(ApiKey::SaslAuthenticate, &response)
}

/// ILLEGAL_SASL_STATE, in the form of the answer to what was asked.
pub(super) fn not_now(call: &Call<'_>, form: Form, words: &str) -> Outcome {
    let code = ErrorCode::IllegalSaslState;
    match form {
        Form::Handshake => handshake(call, code.code(), Vec::new()),
        Form::Token => failed(call, code, words),
        Form::Versions => {
            let response = ApiVersionsResponse {
                error_code: code.code(),
                ..ApiVersionsResponse::default()
            };
            call.reply(ApiKey::ApiVersions, &response)
        }
        Form::Raw | Form::Other => Outcome::Close,
    }
}

/// The connection ends, after a pause if somebody has tried to log in.
fn refuse(call: &mut Call<'_>, form: Form, refused: &Refused) -> Outcome {
    complain(call, refused);
    let outcome = match &refused.answer {
        Answer::Nothing => Outcome::Close,
        Answer::UnsupportedMechanism(mechanisms) => {
            let code = ErrorCode::UnsupportedSaslMechanism.code();
            handshake(call, code, mechanisms.clone())
        }
        Answer::IllegalState => not_now(call, form, ""),
        Answer::Failed(words) => failed(call, ErrorCode::SaslAuthenticationFailed, words),
    };
    let delay = call.entrance().map(|entrance| entrance.failure_delay);
    let delay = delay.filter(|delay| refused.is_delayed && !delay.is_zero());
    let Some(delay) = delay else {
        call.close_behind();
        return outcome;
    };
    let until = call.desk.now.plus(delay);
    let key = call.next_key();
    call.door.timers.set(until, key);
    call.hold();
    call.park(Waiting::Refusing(Refusing { outcome, until }))
}

fn complain(call: &mut Call<'_>, refused: &Refused) {
    call.desk.meter().on_login_refused(&refused.reason);
    let entrance = call.entrance().cloned();
    let listener = entrance.as_ref().map_or("", |entrance| &entrance.name);
    let Some(kept_back) = call.desk.complaints.strangers.admit(call.desk.now) else {
        return;
    };
    let (name, method) = (refused.name.as_deref(), refused.method);
    tracing::warn!(
        target: CONNECTIONS,
        listener,
        user = name.map(tracing::field::debug),
        mechanism = method.map(|method| method.name()),
        kept_back = kept_back.count(),
        "{} is not let in: {}",
        call.asker.peer,
        refused.reason,
    );
}

impl Hall<'_> {
    /// A password was checked.
    pub(crate) fn on_verdict(&mut self, key: WaiterKey, verdict: &Verdict) {
        if !matches!(self.waiting(key), Some(Waiting::Password(_))) {
            return;
        }
        self.resume(key, |call, waiting| {
            let Waiting::Password(form) = waiting else {
                return Outcome::Close;
            };
            let now = call.desk.now;
            call.unhold();
            match call.login_mut().map(|login| login.on_verdict(verdict, now)) {
                Some(step) => act(call, step, form),
                None => Outcome::Close,
            }
        });
    }

    /// The pause behind a refusal is over.
    pub(crate) fn on_refused(&mut self, key: WaiterKey) {
        self.resume(key, |call, waiting| match waiting {
            Waiting::Refusing(refusing) => {
                call.close_behind();
                refusing.outcome
            }
            _ => Outcome::Close,
        });
    }
}

#[cfg(test)]
mod tests;
