//! Text of strangers, made fit for a terminal and for a line of a log.
//!
//! Names of groups, clients and members, metadata of commits and messages of peers may hold any character. Shown as they are, a
//! control character moves the cursor, recolours the screen or forges a row; here each becomes an escape that can be read.

use std::borrow::Cow;
use std::fmt::Write;

/// `text` with every character that steers a terminal written as an escape: `\n`, `\x1b`, `\u{202e}`.
#[must_use]
pub fn printable(text: &str) -> Cow<'_, str> {
    if !text.contains(steers) {
        return Cow::Borrowed(text);
    }
    let mut shown = String::with_capacity(text.len() + 8);
    for letter in text.chars() {
        // Writing to a string cannot fail.
        let _ = match letter {
            '\n' => shown.write_str("\\n"),
            '\r' => shown.write_str("\\r"),
            '\t' => shown.write_str("\\t"),
            letter if letter.is_ascii() && steers(letter) => {
                write!(shown, "\\x{:02x}", u32::from(letter))
            }
            letter if steers(letter) => write!(shown, "\\u{{{:x}}}", u32::from(letter)),
            letter => shown.write_char(letter),
        };
    }
    Cow::Owned(shown)
}

/// True for control characters, and for those that end a line or turn the direction of writing.
fn steers(letter: char) -> bool {
    letter.is_control()
        || matches!(letter, '\u{200e}' | '\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2066}'..='\u{2069}' | '\u{feff}')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_steers_a_terminal_becomes_an_escape_and_all_else_stays() {
        for (text, shown) in [
            (
                "orders-1 \u{e4}\u{4e16} \\ \"",
                "orders-1 \u{e4}\u{4e16} \\ \"",
            ),
            ("a\nb\tc\r", "a\\nb\\tc\\r"),
            ("\x1b[2J\x07\0\x7f", "\\x1b[2J\\x07\\x00\\x7f"),
            ("\u{9b}31m", "\\u{9b}31m"),
            ("\u{202e}gpj\u{2028}", "\\u{202e}gpj\\u{2028}"),
        ] {
            assert_eq!(printable(text), shown);
        }
        assert!(matches!(printable("plain"), Cow::Borrowed(_)));
    }
}
