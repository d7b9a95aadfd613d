//! The login of a link: the mechanism, then three messages by which both ends prove that they know the secret of the cluster.
//!
//! The first message leaves with the choice of the mechanism, and the question for the versions with the last: a link that logs in waits for two
//! answers more than one that does not. A login that fails ends the link.

use bytes::Bytes;
use security::login::node::{MECHANISM, NodeClient, NodeProof, NodeRefusal, NodeVerifying};
use std::sync::Arc;
use wire::messages::{SaslAuthenticateRequest, SaslAuthenticateResponse, SaslHandshakeRequest};
use wire::{Message, Reader, Request};

use super::super::identity::Login;
use super::super::request::Encodable;
use super::intake::Garbage;
use super::{Fault, body};

/// Every node that takes proofs serves them, and every other one answers them.
const HANDSHAKE_VERSION: i16 = 1;
const AUTHENTICATE_VERSION: i16 = 1;

/// Why the ends of a link do not trust each other.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(in crate::peers) enum Refused {
    /// The other end takes no proof of nodes.
    Unknown,
    /// The secrets differ: the other end says so, or cannot prove that it has ours.
    Secret(String),
    /// The other end has the node id of this one.
    SameId,
}

/// How far a login is.
pub(super) enum LoginStage {
    /// The mechanism is named, and the first message on its way behind.
    Named {
        proof: Arc<NodeProof>,
        client: NodeClient,
        may_go_without: bool,
    },
    Begun {
        proof: Arc<NodeProof>,
        client: NodeClient,
    },
    /// The proof is on its way.
    Proving(NodeVerifying),
    /// The other end takes no proof: its answer to the first message counts for nothing.
    Without,
}

/// The first request of a login, and how it goes on.
pub(super) struct Handshake {
    pub(super) frames: Vec<Bytes>,
    pub(super) stage: LoginStage,
}

/// The consequence of an answer.
pub(super) enum Next {
    Waits(LoginStage),
    /// This frame goes, and the login with it.
    Proves(Bytes, LoginStage),
    Done,
    GoesWithout,
}

pub(super) fn begin(login: Login) -> Handshake {
    let Login {
        proof,
        first,
        client,
        may_go_without,
    } = login;
    let mechanism = SaslHandshakeRequest {
        mechanism: MECHANISM.to_owned(),
    };
    let frames = [
        mechanism.frame(HANDSHAKE_VERSION, 0),
        message(first).frame(AUTHENTICATE_VERSION, 0),
    ];
    Handshake {
        frames: frames.into_iter().flatten().collect(),
        stage: LoginStage::Named {
            proof,
            client,
            may_go_without,
        },
    }
}

fn message(bytes: Vec<u8>) -> SaslAuthenticateRequest {
    SaslAuthenticateRequest {
        auth_bytes: bytes.into(),
    }
}

impl LoginStage {
    pub(super) fn on_answer(self, frame: Bytes) -> Result<Next, Fault> {
        match self {
            LoginStage::Named {
                proof,
                client,
                may_go_without,
            } => {
                let answer = read::<SaslHandshakeRequest>(frame, HANDSHAKE_VERSION)?;
                match answer.error_code {
                    0 => Ok(Next::Waits(LoginStage::Begun { proof, client })),
                    _ if may_go_without => Ok(Next::Waits(LoginStage::Without)),
                    _ => Err(Fault::Login(Refused::Unknown)),
                }
            }
            LoginStage::Begun { proof, client } => {
                let proved = client.prove(&proof, &token(frame)?);
                let (last, verifying) = proved.map_err(secret)?;
                let frame = message(last).frame(AUTHENTICATE_VERSION, 0);
                let frame = frame.map_err(|_| Garbage)?;
                Ok(Next::Proves(frame, LoginStage::Proving(verifying)))
            }
            LoginStage::Proving(verifying) => {
                verifying.end(&token(frame)?).map_err(secret)?;
                Ok(Next::Done)
            }
            LoginStage::Without => Ok(Next::GoesWithout),
        }
    }
}

fn secret(why: impl std::fmt::Display) -> Fault {
    let why = why.to_string();
    // The other end has no more than words for it.
    let is_of_same_id = why == NodeRefusal::SameId.to_string();
    Fault::Login(if is_of_same_id {
        Refused::SameId
    } else {
        Refused::Secret(why)
    })
}

/// The bytes of an answer that goes on with the login.
fn token(frame: Bytes) -> Result<Bytes, Fault> {
    let answer: SaslAuthenticateResponse =
        read::<SaslAuthenticateRequest>(frame, AUTHENTICATE_VERSION)?;
    match answer.error_code {
        0 => Ok(answer.auth_bytes),
        _ => Err(secret(answer.error_message.unwrap_or_default())),
    }
}

fn read<R: Request>(frame: Bytes, version: i16) -> Result<R::Response, Garbage> {
    let body = body(frame, 0, R::KEY.response_header_version(version))?;
    R::Response::decode(&mut Reader::new(body), version).map_err(|_| Garbage)
}
