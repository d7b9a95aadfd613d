//! Topic names: what is allowed, and which ones the broker keeps for itself.

/// Longest name; a directory name of a partition must still fit.
pub const LENGTH_MAX: usize = 249;
/// The log of this very crate; it is no topic.
pub const METADATA: &str = "__cluster_metadata";
pub const OFFSETS: &str = "__consumer_offsets";
pub const TRANSACTIONS: &str = "__transaction_state";
pub const SHARES: &str = "__share_group_state";
/// The topic of the metrics that clients push.
pub const CLIENT_METRICS: &str = "__client_metrics";

/// Why a name is no topic name; the texts are those of Kafka.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NameError {
    #[error("Topic name is invalid: the empty string is not allowed")]
    Empty,
    #[error("Topic name is invalid: '{0}' is not allowed")]
    Dots(String),
    #[error(
        "Topic name is invalid: the length of '{0}' is longer than the max allowed length {LENGTH_MAX}"
    )]
    Long(String),
    #[error(
        "Topic name is invalid: '{0}' contains one or more characters other than ASCII alphanumerics, '.', '_' and '-'"
    )]
    Letters(String),
}

pub fn check(name: &str) -> Result<(), NameError> {
    let fits = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'.' | b'_' | b'-');
    match name {
        "" => Err(NameError::Empty),
        "." | ".." => Err(NameError::Dots(name.into())),
        _ if LENGTH_MAX < name.encode_utf16().count() => Err(NameError::Long(name.into())),
        _ if !name.bytes().all(fits) => Err(NameError::Letters(name.into())),
        _ => Ok(()),
    }
}

/// As much of a name as a topic's may have. A request names a topic once and thousands of its partitions, and what is said of each
/// of them repeats the name: of one that no topic can have it would be 32 KiB each time.
pub(crate) fn shown(name: &str) -> &str {
    name.get(..name.floor_char_boundary(LENGTH_MAX))
        .unwrap_or(name)
}

/// Topics that the broker writes and nobody else.
#[must_use]
pub fn is_internal(name: &str) -> bool {
    matches!(name, OFFSETS | TRANSACTIONS | SHARES | CLIENT_METRICS)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_letters_digits_dots_dashes_and_underscores() {
        for name in ["a", "_", "A.b-c_9", OFFSETS, &"x".repeat(249)] {
            assert_eq!(check(name), Ok(()), "{name}");
        }
        for (name, words) in [
            ("", "Topic name is invalid: the empty string is not allowed"),
            ("..", "Topic name is invalid: '..' is not allowed"),
            (
                "a b",
                "Topic name is invalid: 'a b' contains one or more characters other than ASCII alphanumerics, '.', '_' and '-'",
            ),
        ] {
            assert_eq!(check(name).expect_err("refused").to_string(), words);
        }
        assert!(matches!(check(&"x".repeat(250)), Err(NameError::Long(_))));
        assert!(matches!(check("é"), Err(NameError::Letters(_))));
    }
}
