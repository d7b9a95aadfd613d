//! Patterns as Kafka's clients send them: RE2's syntax, matched against whole names.
//!
//! The engine takes time linear in the name for any pattern, and a pattern that compiles to too much is refused. RE2's classes
//! (`\w`, `\d`, `\s`) and its `\b` know ASCII alone; the engine's own ones know all of Unicode and take ten times as much.

use regex::{Regex, RegexBuilder};
use regex_syntax::hir::{Hir, HirKind};

/// 1 MiB of compiled program; a pattern that needs more is called invalid.
const PROGRAM_BYTES_MAX: usize = 1 << 20;
/// Memory of a program for the names it has seen, to be faster with the next one.
const MEMORY_BYTES_MAX: usize = 256 << 10;

#[derive(Clone, Debug)]
pub struct Pattern {
    program: Regex,
    weight: Weight,
}

impl Pattern {
    /// The error is for people.
    pub fn new(pattern: &str) -> Result<Pattern, String> {
        let pattern = translated(pattern);
        // By itself first: "a)|(b" is wrong, and would be right between parentheses.
        let meaning = regex_syntax::parse(&pattern).map_err(|error| error.to_string())?;
        let program = RegexBuilder::new(&format!("^(?:{pattern})$"))
            .size_limit(PROGRAM_BYTES_MAX)
            .dfa_size_limit(MEMORY_BYTES_MAX)
            .build()
            .map_err(|error| error.to_string())?;
        let weight = Weight::of(&meaning);
        Ok(Pattern { program, weight })
    }

    #[must_use]
    pub fn compiles(pattern: &str) -> bool {
        Pattern::new(pattern).is_ok()
    }

    #[must_use]
    pub fn matches(&self, name: &str) -> bool {
        self.program.is_match(name)
    }

    /// Steps that it may take to match the name: some 20 nanoseconds each at most, and mostly far less.
    pub(crate) fn steps(&self, name: &str) -> u64 {
        (name.len() as u64 + 8).saturating_mul(self.weight.at_once)
    }

    /// The same for what it took to make the pattern.
    pub(crate) fn steps_to_make(&self) -> u64 {
        5_000 + self.weight.states.saturating_mul(100)
    }
}

impl PartialEq for Pattern {
    fn eq(&self, other: &Pattern) -> bool {
        self.program.as_str() == other.program.as_str()
    }
}

/// About how large a pattern is.
#[derive(Clone, Copy, Debug)]
struct Weight {
    /// Places in the pattern, with repetitions written out.
    states: u64,
    /// At how many of them a match may be at one moment.
    at_once: u64,
}

impl Weight {
    const ONE: Weight = Weight {
        states: 1,
        at_once: 1,
    };

    fn of(meaning: &Hir) -> Weight {
        match meaning.kind() {
            HirKind::Empty | HirKind::Look(_) | HirKind::Class(_) => Weight::ONE,
            HirKind::Literal(literal) => Weight {
                states: literal.0.len() as u64,
                ..Weight::ONE
            },
            HirKind::Capture(inner) => Weight::of(&inner.sub),
            HirKind::Repetition(inner) => {
                let copies = inner.max.unwrap_or(inner.min).max(1);
                let once = Weight::of(&inner.sub);
                let states = once.states.saturating_mul(u64::from(copies));
                let at_once = if has_one_length(meaning) {
                    once.at_once
                } else {
                    states
                };
                Weight { states, at_once }
            }
            HirKind::Concat(parts) => Weight::of_parts(parts),
            HirKind::Alternation(parts) => {
                (parts.iter().map(Weight::of)).fold(Weight::ONE, |whole, part| Weight {
                    states: whole.states.saturating_add(part.states),
                    at_once: whole.at_once.saturating_add(part.at_once),
                })
            }
        }
    }

    /// Of parts that follow each other. A match is in one of them, until one may have any length: it may be anywhere behind that.
    fn of_parts(parts: &[Hir]) -> Weight {
        let mut whole = Weight::ONE;
        let mut is_anywhere = false;
        for part in parts {
            let weight = Weight::of(part);
            whole.states = whole.states.saturating_add(weight.states);
            whole.at_once = if is_anywhere {
                whole.at_once.saturating_add(weight.states)
            } else {
                whole.at_once.max(weight.at_once)
            };
            is_anywhere |= !has_one_length(part);
        }
        whole
    }
}

fn has_one_length(meaning: &Hir) -> bool {
    let properties = meaning.properties();
    properties.minimum_len().is_some() && properties.minimum_len() == properties.maximum_len()
}

/// The pattern in the words of the engine, which does not know `\Q...\E`, has other classes, and combines sets within a set.
fn translated(pattern: &str) -> String {
    let mut plain = String::with_capacity(pattern.len());
    let mut rest = pattern;
    let mut is_in_set = false;
    while !rest.is_empty() {
        let (token, tail) = rest.split_at(token_length(rest, is_in_set));
        rest = tail;
        match token {
            r"\w" => plain.push_str("[0-9A-Za-z_]"),
            r"\W" => plain.push_str("[^0-9A-Za-z_]"),
            r"\d" => plain.push_str("[0-9]"),
            r"\D" => plain.push_str("[^0-9]"),
            r"\s" => plain.push_str(r"[\t\n\f\r ]"),
            r"\S" => plain.push_str(r"[^\t\n\f\r ]"),
            r"\b" | r"\B" if !is_in_set => plain.extend(["(?-u:", token, ")"]),
            "[" | "&" | "~" if is_in_set => plain.extend(["\\", token]),
            "]" => {
                is_in_set = false;
                plain.push_str(token);
            }
            _ => {
                let quoted = token.strip_prefix(r"\Q");
                if let Some(quoted) = quoted {
                    let literal = quoted.strip_suffix(r"\E").unwrap_or(quoted);
                    plain.push_str(&regex::escape(literal));
                    continue;
                }
                is_in_set |= token.starts_with('[');
                plain.push_str(token);
            }
        }
    }
    plain
}

/// Of what belongs together at the start of `rest`.
fn token_length(rest: &str, is_in_set: bool) -> usize {
    let through = |end: &str| rest.find(end).map(|at| at + end.len());
    if rest.starts_with(r"\Q") {
        return through(r"\E").unwrap_or(rest.len());
    }
    if rest.starts_with('\\') {
        // `\\Q` is a backslash and a Q.
        return rest.chars().take(2).map(char::len_utf8).sum();
    }
    if is_in_set && rest.starts_with("[:") {
        return through(":]").unwrap_or(1);
    }
    // A bracket that closes is an ordinary sign where a set begins.
    let opening = ["[^]", "[]", "[^"]
        .into_iter()
        .find(|it| rest.starts_with(it));
    match opening {
        Some(opening) if !is_in_set => opening.len(),
        _ => rest.chars().next().map_or(0, char::len_utf8),
    }
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
    fn classes_are_those_of_re2() {
        let uuid = r"\w{8}-\w{4}-\w{4}-\w{4}-\w{12}";
        check(uuid, "0a1b2c3d-0a1b-0a1b-0a1b-0a1b2c3d4e5f", true);
        check(r"[\w.-]{1,249}", &"a.b-c_9".repeat(30), true);
        check(r"\w", "é", false);
        check(r"\W", "é", true);
        check(r"[^\W\d]+", "abc", true);
        check(r"[^\W\d]+", "ab1", false);
        check(r"\d\D\s\S", "1a b", true);
        check(r"\d", "٣", false);
        check(r"é\bx", "éx", true);
        check(r"x\By.\b", "xyz", true);
        check(r"\pL+", "éa", true);
        check(r"\p{Greek}", "α", true);
        check(r"(?i)Ä\w", "äB", true);
        check(".{1,1000}", "é", true);
        // Signs that would begin or combine sets of sets.
        check("[[:alpha:]_]+", "a_", true);
        check("[[a]+", "[a", true);
        check("[]a]+", "]a", true);
        check("[^]a]", "]", false);
        check("[a&&b~]+", "a&b~", true);
        check(r"[\]\w]+", "a]", true);
    }

    #[test]
    fn a_pattern_weighs_what_it_may_cost() {
        let weigh = |pattern: &str| {
            let Weight { states, at_once } = Pattern::new(pattern).unwrap().weight;
            (states, at_once)
        };
        assert_eq!(weigh("orders-.*"), (9, 1));
        // One of many names is looked for at one place.
        assert_eq!(weigh("one|two|three"), (12, 4));
        assert_eq!(weigh(r"\d{4}-\d{2}"), (8, 1));
        assert_eq!(weigh("([ab]{0,249}){0,20}x"), (4_982, 4_981));
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
            r"[\b]",
        ] {
            assert!(Pattern::new(pattern).is_err(), "{pattern}");
        }
    }
}
