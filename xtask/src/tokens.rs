//! Rust source as words and signs, as far as the rules of `tidy` read it: without comments, and without code of tests.
//!
//! Not a parser: unknown text is passed on as single signs.

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Token {
    /// A name or keyword; a raw one without its `r#`.
    Word(String),
    /// The contents of a string literal, escapes as written.
    Text(String),
    /// `::`
    Path,
    Sign(char),
}

impl Token {
    pub(crate) fn is(&self, word: &str) -> bool {
        matches!(self, Token::Word(own) if own == word)
    }
}

/// All tokens of production code.
pub(crate) fn production(text: &str) -> Vec<Token> {
    split_tests(&tokens(text)).0
}

/// Production code, and the modules in other files that are declared for tests alone.
pub(crate) fn split_tests(tokens: &[Token]) -> (Vec<Token>, Vec<String>) {
    let mut kept = Vec::with_capacity(tokens.len());
    let mut test_modules = Vec::new();
    let mut at = 0;
    while at < tokens.len() {
        if !starts_test(&tokens[at..]) {
            kept.push(tokens[at].clone());
            at += 1;
            continue;
        }
        let end = at + item_len(&tokens[at..]);
        let item = &tokens[at..end];
        if let Some(place) = item.iter().position(|token| token.is("mod"))
            && let [Token::Word(name), Token::Sign(';')] = &item[place + 1..]
        {
            test_modules.push(name.clone());
        }
        at = end;
    }
    (kept, test_modules)
}

/// True if the tokens begin with `#[cfg(test)]`.
fn starts_test(tokens: &[Token]) -> bool {
    let [hash, open, cfg, paren, test, ..] = tokens else {
        return false;
    };
    *hash == Token::Sign('#')
        && *open == Token::Sign('[')
        && cfg.is("cfg")
        && *paren == Token::Sign('(')
        && test.is("test")
}

/// Tokens of the item in front with its attributes: up to a semicolon or the end of the first block outside of brackets.
fn item_len(tokens: &[Token]) -> usize {
    let (mut depth, mut in_block) = (0usize, false);
    for (at, token) in tokens.iter().enumerate() {
        match token {
            Token::Sign('{') if depth == 0 => {
                in_block = true;
                depth += 1;
            }
            Token::Sign('{' | '(' | '[') => depth += 1,
            Token::Sign('}' | ')' | ']') => {
                depth = depth.saturating_sub(1);
                // A list of imports is a block as well; its semicolon follows.
                let is_use = tokens.get(at + 1) == Some(&Token::Sign(';'));
                if depth == 0 && in_block && !is_use {
                    return at + 1;
                }
            }
            Token::Sign(';') if depth == 0 => return at + 1,
            _ => {}
        }
    }
    tokens.len()
}

pub(crate) fn tokens(text: &str) -> Vec<Token> {
    let mut rest = text;
    let mut tokens = Vec::new();
    while let Some(first) = rest.chars().next() {
        if rest.starts_with("//") {
            rest = rest.split_once('\n').map_or("", |(_, after)| after);
        } else if rest.starts_with("/*") {
            rest = rest.split_once("*/").map_or("", |(_, after)| after);
        } else if let Some((string, after)) = string(rest) {
            tokens.push(Token::Text(string.to_owned()));
            rest = after;
        } else if first == '\'' {
            rest = after_quote(rest);
        } else if is_of_word(first) {
            let raw = rest.strip_prefix("r#").unwrap_or(rest);
            let end = raw.find(|c| !is_of_word(c)).unwrap_or(raw.len());
            tokens.push(Token::Word(raw[..end].to_owned()));
            rest = &raw[end..];
        } else if let Some(after) = rest.strip_prefix("::") {
            tokens.push(Token::Path);
            rest = after;
        } else {
            if !first.is_whitespace() {
                tokens.push(Token::Sign(first));
            }
            rest = &rest[first.len_utf8()..];
        }
    }
    tokens
}

fn is_of_word(c: char) -> bool {
    c.is_alphanumeric() || c == '_'
}

/// A string literal in front, plain or raw, and what follows it.
fn string(text: &str) -> Option<(&str, &str)> {
    let after_b = text.strip_prefix('b').unwrap_or(text);
    if let Some(raw) = after_b.strip_prefix('r') {
        let hashes = raw.len() - raw.trim_start_matches('#').len();
        if let Some(body) = raw[hashes..].strip_prefix('"') {
            let end = format!("\"{}", &raw[..hashes]);
            return Some(body.split_once(end.as_str()).unwrap_or((body, "")));
        }
    }
    let body = after_b.strip_prefix('"')?;
    let mut is_escaped = false;
    for (at, c) in body.char_indices() {
        if c == '"' && !is_escaped {
            return Some((&body[..at], &body[at + 1..]));
        }
        is_escaped = c == '\\' && !is_escaped;
    }
    Some((body, ""))
}

/// Behind a character literal, or behind the quote of a lifetime.
fn after_quote(text: &str) -> &str {
    let body = &text[1..];
    let mut chars = body.char_indices();
    match (chars.next(), chars.next()) {
        (Some((_, '\\')), Some((at, escaped))) => {
            let rest = &body[at + escaped.len_utf8()..];
            rest.split_once('\'').map_or("", |(_, after)| after)
        }
        (Some(_), Some((at, '\''))) => &body[at + 1..],
        _ => body,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(tokens: &[Token]) -> String {
        let words = tokens.iter().filter_map(|token| match token {
            Token::Word(word) => Some(word.as_str()),
            _ => None,
        });
        words.collect::<Vec<_>>().join(" ")
    }

    #[test]
    fn comments_strings_and_characters_hold_no_words() {
        let text = r##"a // b "c
            /* d */ e "f \" g" h r#"i " j"# k '"' l '\'' m &'n o b"p" q"##;
        assert_eq!(words(&tokens(text)), "a e h k l m n o q");
    }

    #[test]
    fn code_of_tests_is_left_out() {
        let text = "a; #[cfg(test)] use b::{c, d}; e; #[cfg(test)] mod f; g;
            #[cfg(test)] #[allow(x)] mod h { fn i() { j(); } } k;
            #[cfg(test)] fn l() -> [u8; 3] { m } n";
        let (kept, modules) = split_tests(&tokens(text));
        assert_eq!(words(&kept), "a e g k n");
        assert_eq!(modules, ["f"]);
    }
}
