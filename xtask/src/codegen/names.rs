//! Rust names for the names of the message definitions.

/// `TopicId`, `topicId`, `KRaftVersion`, `ISR` become `topic_id`, `topic_id`, `k_raft_version`, `isr`.
pub(super) fn snake(name: &str) -> String {
    let chars: Vec<char> = name.chars().collect();
    let mut out = String::new();
    for (i, &c) in chars.iter().enumerate() {
        if c.is_ascii_uppercase() && i > 0 {
            let after_word = !chars[i - 1].is_ascii_uppercase();
            let before_word = chars.get(i + 1).is_some_and(char::is_ascii_lowercase);
            if after_word || before_word {
                out.push('_');
            }
        }
        out.push(c.to_ascii_lowercase());
    }
    out
}

/// A field name: snake case, raw where it is a keyword.
pub(super) fn field(name: &str) -> String {
    let name = snake(name);
    if matches!(
        name.as_str(),
        "type" | "match" | "ref" | "mod" | "loop" | "move" | "use"
    ) {
        format!("r#{name}")
    } else {
        name
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_are_split_where_a_reader_would() {
        assert_eq!(snake("TopicId"), "topic_id");
        assert_eq!(snake("leaderEpoch"), "leader_epoch");
        assert_eq!(snake("KRaftVersionFeature"), "k_raft_version_feature");
        assert_eq!(snake("ISR"), "isr");
        assert_eq!(field("Type"), "r#type");
    }
}
