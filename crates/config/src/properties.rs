//! Java properties files: `key=value`, `key: value` or `key value`, comments, continued lines, escapes.
//!
//! Owns the syntax only. A later line with the same key wins, as in Java.

#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("line {line}: \\u needs four hexadecimal digits")]
pub struct PropertiesError {
    pub line: usize,
}

/// Pairs in the order of the file.
pub fn parse(text: &str) -> Result<Vec<(String, String)>, PropertiesError> {
    let mut pairs = Vec::new();
    let mut lines = text.lines().enumerate();
    while let Some((number, line)) = lines.next() {
        let line = line.trim_start_matches(BLANKS);
        if line.is_empty() || line.starts_with(['#', '!']) {
            continue;
        }
        let mut logical = line.to_owned();
        while continues(&logical) {
            logical.pop();
            let Some((_, next)) = lines.next() else { break };
            logical.push_str(next.trim_start_matches(BLANKS));
        }
        pairs.push(pair(&logical).ok_or(PropertiesError { line: number + 1 })?);
    }
    Ok(pairs)
}

const BLANKS: [char; 3] = [' ', '\t', '\x0c'];

/// An odd number of backslashes at the end.
fn continues(line: &str) -> bool {
    line.bytes().rev().take_while(|byte| *byte == b'\\').count() % 2 == 1
}

fn pair(line: &str) -> Option<(String, String)> {
    let mut escaped = false;
    let end = line
        .char_indices()
        .find(|(_, letter)| {
            let ends = !escaped && (BLANKS.contains(letter) || matches!(letter, '=' | ':'));
            escaped = !escaped && *letter == '\\';
            ends
        })
        .map_or(line.len(), |(at, _)| at);
    let (key, rest) = line.split_at(end);
    let rest = rest.trim_start_matches(BLANKS);
    let rest = rest
        .strip_prefix(['=', ':'])
        .unwrap_or(rest)
        .trim_start_matches(BLANKS);
    Some((unescape(key)?, unescape(rest)?))
}

fn unescape(text: &str) -> Option<String> {
    let mut units: Vec<u16> = Vec::with_capacity(text.len());
    let mut letters = text.chars();
    let mut buffer = [0; 2];
    while let Some(letter) = letters.next() {
        let letter = match letter {
            '\\' => match letters.next() {
                Some('u') => {
                    let digits: String = letters.by_ref().take(4).collect();
                    if digits.len() != 4 || !digits.bytes().all(|byte| byte.is_ascii_hexdigit()) {
                        return None;
                    }
                    units.push(u16::from_str_radix(&digits, 16).ok()?);
                    continue;
                }
                Some('t') => '\t',
                Some('n') => '\n',
                Some('r') => '\r',
                Some('f') => '\x0c',
                Some(other) => other,
                None => break,
            },
            letter => letter,
        };
        units.extend_from_slice(letter.encode_utf16(&mut buffer));
    }
    Some(String::from_utf16_lossy(&units))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pairs(text: &str) -> Vec<(String, String)> {
        parse(text).expect("well formed")
    }

    fn one(key: &str, value: &str) -> Vec<(String, String)> {
        vec![(key.into(), value.into())]
    }

    #[test]
    fn keys_end_at_the_first_sign_or_blank_that_is_not_escaped() {
        assert_eq!(pairs("a=b"), one("a", "b"));
        assert_eq!(pairs("a : b"), one("a", "b"));
        assert_eq!(pairs("  a   b c "), one("a", "b c "));
        assert_eq!(pairs("a\\=\\:\\ b = c"), one("a=: b", "c"));
        assert_eq!(pairs("a"), one("a", ""));
        assert_eq!(pairs("a = = b"), one("a", "= b"));
    }

    #[test]
    fn comments_count_only_at_the_start_of_a_line() {
        assert_eq!(pairs("# x\n ! y\n\na=b # c\r\n"), one("a", "b # c"));
    }

    #[test]
    fn an_odd_number_of_backslashes_continues_the_line() {
        assert_eq!(pairs("a=b,\\\n   c"), one("a", "b,c"));
        assert_eq!(pairs("a=b\\\\\nc=d").len(), 2);
        assert_eq!(pairs("a=b\\"), one("a", "b"));
        assert_eq!(pairs("a=b\\\n# c"), one("a", "b# c"));
    }

    #[test]
    fn escapes_name_letters_also_outside_the_first_plane() {
        assert_eq!(pairs("a=\\t\\u00e9\\q"), one("a", "\té\u{71}"));
        assert_eq!(pairs("a=\\ud83d\\ude00"), one("a", "😀"));
        assert_eq!(parse("x=1\na=\\u12"), Err(PropertiesError { line: 2 }));
        assert_eq!(parse("a=\\u+123"), Err(PropertiesError { line: 1 }));
    }
}
