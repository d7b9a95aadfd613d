//! The words of a text, by the rules that Kafka gives to Java's `StreamTokenizer`.

use std::iter::Peekable;
use std::str::Chars;

use zeroize::Zeroizing;

use super::NoEntry;

/// A word, quoted or not, or one of the two signs.
pub(super) enum Word {
    /// May be a password.
    Text(Zeroizing<String>),
    Equals,
    Semicolon,
}

pub(super) struct Words<'t> {
    rest: Peekable<Chars<'t>>,
    /// Bytes of the whole: no word is longer, and none has to grow and leave copies behind.
    bytes: usize,
}

impl<'t> Words<'t> {
    pub(super) fn new(text: &'t str) -> Words<'t> {
        Words {
            rest: text.chars().peekable(),
            bytes: text.len(),
        }
    }

    /// The next word; `None` at the end.
    pub(super) fn next(&mut self) -> Result<Option<Word>, NoEntry> {
        loop {
            match self.rest.peek() {
                None => return Ok(None),
                Some('\0'..=' ') => drop(self.rest.next()),
                Some('/') => self.pass_comment(),
                Some(_) => break,
            }
        }
        match self.rest.peek().copied() {
            Some('=') => {
                self.rest.next();
                Ok(Some(Word::Equals))
            }
            Some(';') => {
                self.rest.next();
                Ok(Some(Word::Semicolon))
            }
            Some(mark @ ('"' | '\'')) => {
                self.rest.next();
                self.quoted(mark).map(|text| Some(Word::Text(text)))
            }
            Some(sign) if is_of_word(sign) => Ok(Some(Word::Text(self.plain()))),
            _ => Err(NoEntry::Sign),
        }
    }

    fn plain(&mut self) -> Zeroizing<String> {
        let mut text = Zeroizing::new(String::with_capacity(self.bytes));
        while let Some(sign) = self.rest.next_if(|sign| is_of_word(*sign)) {
            text.push(sign);
        }
        text
    }

    /// Up to `mark`. A JVM takes a quotation that its line ends before for a whole one; here it is none.
    fn quoted(&mut self, mark: char) -> Result<Zeroizing<String>, NoEntry> {
        // A sign of two bytes may be written with four: this is enough in any case.
        let mut text = Zeroizing::new(String::with_capacity(self.bytes));
        loop {
            match self.rest.next() {
                None | Some('\n' | '\r') => return Err(NoEntry::Quotation),
                Some('\\') => text.push(self.escaped()?),
                Some(sign) if sign == mark => return Ok(text),
                Some(sign) => text.push(sign),
            }
        }
    }

    /// The sign after a backslash: a letter of C, up to three octal digits, or itself.
    fn escaped(&mut self) -> Result<char, NoEntry> {
        let sign = self.rest.next().ok_or(NoEntry::Quotation)?;
        Ok(match sign {
            'a' => '\x07',
            'b' => '\x08',
            'f' => '\x0c',
            'n' => '\n',
            'r' => '\r',
            't' => '\t',
            'v' => '\x0b',
            '0'..='7' => {
                let mut number = digit(sign);
                // With a first digit beyond 3, a third one would be beyond a byte.
                let more = if sign <= '3' { 2 } else { 1 };
                for _ in 0..more {
                    let Some(next) = self.rest.next_if(|next| matches!(next, '0'..='7')) else {
                        break;
                    };
                    number = number * 8 + digit(next);
                }
                char::from(number)
            }
            sign => sign,
        })
    }

    /// `/* ... */`, or anything else that begins with a slash, up to the end of the line.
    fn pass_comment(&mut self) {
        self.rest.next();
        if self.rest.next_if_eq(&'*').is_none() {
            while self
                .rest
                .next_if(|sign| !matches!(sign, '\n' | '\r'))
                .is_some()
            {}
            return;
        }
        let mut last = ' ';
        for sign in self.rest.by_ref() {
            if (last, sign) == ('*', '/') {
                return;
            }
            last = sign;
        }
    }
}

fn digit(sign: char) -> u8 {
    // An octal digit is one byte of ASCII.
    (sign as u8) - b'0'
}

/// True for signs that need no quotation marks. Java leaves out those of the second block of controls.
fn is_of_word(sign: char) -> bool {
    match sign {
        '\0'..=' ' | '/' | '"' | '\'' | '=' | ';' => false,
        sign => !matches!(sign, '\u{81}'..='\u{9f}'),
    }
}
