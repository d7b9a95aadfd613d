//! The knowledge that an answer leaves: after a definite code nothing of what was asked is done, and nothing of it will be done later.
//!
//! One table for users (`docs/errors.md`) and for the checker of the simulator, which holds the broker to it. Every code that is
//! given and not named here is definite.

use wire::ErrorCode;

/// Codes after which nobody knows whether the request was done, and why.
pub const INDEFINITE: &[(ErrorCode, &str)] = &[
    (
        ErrorCode::UnknownServerError,
        "what was not foreseen may have come before the write or behind it",
    ),
    (
        ErrorCode::RequestTimedOut,
        "what was written is not yet synced: records may still be committed, and changes made",
    ),
    (
        ErrorCode::CoordinatorNotAvailable,
        "mostly nothing was done; but on a full disk what was written and is not synced may still be committed",
    ),
    (
        ErrorCode::NotCoordinator,
        "mostly nothing was done; but what was written under a coordinator that is gone may be committed by the next",
    ),
    (
        ErrorCode::NotLeaderOrFollower,
        "mostly nothing was done; but what was written under a leader that is gone may be committed by the next",
    ),
    (
        ErrorCode::NotEnoughReplicasAfterAppend,
        "what was written is committed when enough replicas are in sync again",
    ),
    (
        ErrorCode::KafkaStorageError,
        "what a failed sync left behind may be found by the next start, or not",
    ),
];

/// Why it is not known, if it is not, whether a request was done that was answered with this code.
#[must_use]
pub fn leaves_unknown(code: ErrorCode) -> Option<&'static str> {
    let known = INDEFINITE.iter().find(|(known, _)| *known == code);
    known.map(|(_, why)| *why)
}
