//! Patterns as Kafka's clients send them: RE2's syntax, matched against whole names.
//!
//! The engine takes time linear in the name for any pattern, and a pattern that compiles to too much is refused.

use regex::{Regex, RegexBuilder};

/// 1 MiB of compiled program; a pattern that needs more is called invalid.
const PROGRAM_BYTES_MAX: usize = 1 << 20;

#[derive(Clone, Debug)]
pub struct Pattern(Regex);

impl Pattern {
    /// The error is for people.
    pub fn new(pattern: &str) -> Result<Pattern, String> {
        let build = |pattern: &str| {
            RegexBuilder::new(pattern)
                .size_limit(PROGRAM_BYTES_MAX)
                .build()
                .map_err(|error| error.to_string())
        };
        let pattern = unquote(pattern);
        // By itself first: "a)|(b" is wrong, and would be right between parentheses.
        build(&pattern)?;
        build(&format!("^(?:{pattern})$")).map(Pattern)
    }

    #[must_use]
    pub fn compiles(pattern: &str) -> bool {
        Pattern::new(pattern).is_ok()
    }

    #[must_use]
    pub fn matches(&self, name: &str) -> bool {
        self.0.is_match(name)
    }
}

impl PartialEq for Pattern {
    fn eq(&self, other: &Pattern) -> bool {
        self.0.as_str() == other.0.as_str()
    }
}

/// RE2's `\Q...\E`, which the engine does not know, as escaped letters.
fn unquote(pattern: &str) -> String {
    let mut plain = String::with_capacity(pattern.len());
    let mut rest = pattern;
    while let Some(at) = rest.find('\\') {
        let (before, after) = rest.split_at(at);
        plain.push_str(before);
        if let Some(quoted) = after.strip_prefix("\\Q") {
            let (literal, tail) = quoted.split_once("\\E").unwrap_or((quoted, ""));
            plain.push_str(&regex::escape(literal));
            rest = tail;
        } else {
            // An escape and what it escapes stay together: `\\Q` is a backslash and a Q.
            let length = after.chars().take(2).map(char::len_utf8).sum();
            let (escape, tail) = after.split_at(length);
            plain.push_str(escape);
            rest = tail;
        }
    }
    plain.push_str(rest);
    plain
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(pattern: &str, name: &str, matches: bool) {
        let compiled = Pattern::new(pattern).unwrap();
        assert_eq!(compiled.matches(name), matches, "{pattern} {name}");
    }

    #[test]
    fn a_pattern_matches_whole_names() {
        check("orders", "orders", true);
        check("orders", "orders-2", false);
        check("a|b", "ab", false);
        check("a|b", "b", true);
        check("foo.*", "foobar", true);
        check("", "", true);
    }

    #[test]
    fn quoted_text_stands_for_itself() {
        check(r"\Qa.b\E.*", "a.bc", true);
        check(r"\Qa.b\E.*", "axbc", false);
        check(r"\Qa.b", "a.b", true);
        check(r"\\Q", r"\Q", true);
    }

    #[test]
    fn what_does_not_compile_is_refused() {
        for pattern in [
            "(",
            "a)|(b",
            "[",
            r"a{2,1}",
            r"(?<!a)b",
            r"(a)\1",
            r"((a{100}){100}){100}",
        ] {
            assert!(Pattern::new(pattern).is_err(), "{pattern}");
        }
    }
}
