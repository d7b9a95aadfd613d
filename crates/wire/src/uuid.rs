//! 16 bytes of identity, written as Kafka writes them: base64 for addresses, no padding, 22 characters.

use std::fmt;
use std::str::FromStr;

const ALPHABET: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";

/// Identity of a topic, a directory, a client. All zero means "none".
#[derive(Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Uuid(pub [u8; 16]);

impl Uuid {
    pub const ZERO: Uuid = Uuid([0; 16]);

    pub fn is_zero(self) -> bool {
        self == Self::ZERO
    }
}

impl fmt::Display for Uuid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let bits = u128::from_be_bytes(self.0);
        // 21 characters of six bits, then the last two bits with four zeros behind them.
        let text: [u8; 22] = std::array::from_fn(|i| {
            let sextet = if i < 21 {
                bits >> (122 - 6 * i)
            } else {
                bits << 4
            };
            ALPHABET[(sextet & 63) as usize]
        });
        text.iter()
            .try_for_each(|&c| fmt::Write::write_char(f, char::from(c)))
    }
}

impl fmt::Debug for Uuid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// The text is not 22 characters of the alphabet that stand for 16 bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("not an identity of 22 characters")]
pub struct ParseUuidError;

impl FromStr for Uuid {
    type Err = ParseUuidError;

    fn from_str(text: &str) -> Result<Self, ParseUuidError> {
        // Padding is not written but may be read.
        let text = text.strip_suffix("==").unwrap_or(text);
        if text.len() != 22 {
            return Err(ParseUuidError);
        }
        let mut bits: u128 = 0;
        for (i, c) in text.bytes().enumerate() {
            let sextet = ALPHABET
                .iter()
                .position(|&a| a == c)
                .ok_or(ParseUuidError)? as u128;
            bits = if i < 21 {
                bits << 6 | sextet
            } else {
                bits << 2 | sextet >> 4
            };
        }
        Ok(Self(bits.to_be_bytes()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_is_the_one_kafka_writes() {
        let counting = Uuid(std::array::from_fn(|i| i as u8));
        for (uuid, text) in [
            (Uuid::ZERO, "AAAAAAAAAAAAAAAAAAAAAA"),
            (counting, "AAECAwQFBgcICQoLDA0ODw"),
            (Uuid([0xff; 16]), "_____________________w"),
        ] {
            assert_eq!(uuid.to_string(), text);
            assert_eq!(text.parse(), Ok(uuid));
        }
    }

    #[test]
    fn other_texts_are_refused() {
        for text in [
            "",
            "AAAA",
            "AAECAwQFBgcICQoLDA0OD",
            "AAECAwQFBgcICQoLDA0OD+",
            "AAECAwQFBgcICQoLDA0ODwAA",
            "ääääääääääA=",
        ] {
            assert_eq!(text.parse::<Uuid>(), Err(ParseUuidError), "{text}");
        }
    }
}
