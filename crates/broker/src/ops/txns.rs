//! Transactions: what operations on them share.

use coord::txn::Answer;
use wire::ErrorCode;

/// The refusal behind an answer that is not of the kind that was asked for; only a bug makes a machine answer something else.
pub(crate) fn unexpected(told: Result<Answer, ErrorCode>) -> ErrorCode {
    match told {
        // The state of the transaction does not fit a batch of its log, which the client knows nothing of.
        Err(ErrorCode::MessageTooLarge) => ErrorCode::UnknownServerError,
        Err(code) => code,
        Ok(answer) => unreachable!("a transaction coordinator answered {answer:?}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_state_too_large_for_its_log_is_the_servers_own_trouble() {
        for (code, told) in [
            (ErrorCode::MessageTooLarge, ErrorCode::UnknownServerError),
            (ErrorCode::NotCoordinator, ErrorCode::NotCoordinator),
        ] {
            assert_eq!(unexpected(Err(code)), told);
        }
    }
}
