//! An input as a script: numbers and pieces of bytes that a target takes from its front, and writes for seeds.

/// The rest of an input. At its end there are zeros and empty pieces.
pub struct Script<'a>(&'a [u8]);

impl<'a> Script<'a> {
    pub fn new(input: &'a [u8]) -> Script<'a> {
        Script(input)
    }

    pub fn is_over(&self) -> bool {
        self.0.is_empty()
    }

    pub fn byte(&mut self) -> u8 {
        let Some((byte, rest)) = self.0.split_first() else {
            return 0;
        };
        self.0 = rest;
        *byte
    }

    pub fn flag(&mut self) -> bool {
        self.byte() & 1 == 1
    }

    pub fn number(&mut self) -> u16 {
        u16::from_be_bytes([self.byte(), self.byte()])
    }

    /// As many bytes as the next number says, or as there are.
    pub fn piece(&mut self) -> &'a [u8] {
        let length = usize::from(self.number()).min(self.0.len());
        let (piece, rest) = self.0.split_at(length);
        self.0 = rest;
        piece
    }

    /// A piece, as far as it is text.
    pub fn text(&mut self) -> &'a str {
        let piece = self.piece();
        match std::str::from_utf8(piece) {
            Ok(text) => text,
            Err(error) => std::str::from_utf8(&piece[..error.valid_up_to()]).unwrap_or_default(),
        }
    }

    /// One of some.
    pub fn one_of<T: Copy>(&mut self, all: &[T]) -> T {
        all[usize::from(self.byte()) % all.len()]
    }

    /// One of these texts, or another one.
    pub fn text_of(&mut self, all: &[&'a str]) -> &'a str {
        let at = usize::from(self.byte()) % (all.len() + 1);
        all.get(at).copied().unwrap_or_else(|| self.text())
    }

    /// The same bytes with some changed: cut off, put in, or turned.
    pub fn mangle(&mut self, mut bytes: Vec<u8>) -> Vec<u8> {
        let at = usize::from(self.number()).min(bytes.len());
        match self.byte() % 4 {
            0 => bytes.truncate(at),
            1 => {
                let piece = self.piece();
                bytes.splice(at..at, piece.iter().copied());
            }
            2 => {
                let end = (at + usize::from(self.byte())).min(bytes.len());
                bytes.drain(at..end);
            }
            _ => {
                let turned = self.byte();
                if let Some(byte) = bytes.get_mut(at) {
                    *byte ^= turned;
                }
            }
        }
        bytes
    }
}

/// A piece as a script has it.
pub fn piece(bytes: &[u8]) -> Vec<u8> {
    let length = bytes.len() as u16;
    [&length.to_be_bytes()[..], bytes].concat()
}
