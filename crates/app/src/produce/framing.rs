//! Bytes as they come become records as they are delimited.
//!
//! Owns what was read and does not yet end. A delimiter may fall across reads; within the quotes of a CSV field it is data.

use std::io;

use crate::table::bytes;

/// Longest record that is read; brokers accept far less unless their settings say otherwise.
const RECORD_BYTES_MAX: usize = 256 << 20;

/// Where a CSV row is being read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Quoting {
    FieldStart,
    Plain,
    Quoted,
    /// A quote within quotes: the end of them, or the first half of a quote that is data.
    QuoteSeen,
}

pub(super) struct Framing {
    delimiter: Vec<u8>,
    /// Of CSV, whose quotes are minded: what stands between fields.
    separator: Option<u8>,
    quoting: Quoting,
    buffer: Vec<u8>,
    /// Where the next record begins.
    start: usize,
    /// Up to where no delimiter ends.
    scanned: usize,
}

impl Framing {
    pub(super) fn delimited(delimiter: &[u8]) -> Framing {
        assert!(!delimiter.is_empty(), "records need an end");
        Framing {
            delimiter: delimiter.to_vec(),
            separator: None,
            quoting: Quoting::FieldStart,
            buffer: Vec::new(),
            start: 0,
            scanned: 0,
        }
    }

    pub(super) fn csv(separator: u8) -> Framing {
        Framing {
            separator: Some(separator),
            ..Framing::delimited(b"\n")
        }
    }

    pub(super) fn feed(&mut self, bytes: &[u8]) {
        if self.start > 0 {
            self.buffer.drain(..self.start);
            self.scanned -= self.start;
            self.start = 0;
        }
        self.buffer.extend_from_slice(bytes);
    }

    /// The next record without its delimiter; `None` when more has to be read first.
    pub(super) fn next(&mut self) -> io::Result<Option<&[u8]>> {
        while let Some(end) = self.next_end() {
            let record = &self.buffer[self.start..end];
            if record.ends_with(&self.delimiter) {
                let range = self.start..end - self.delimiter.len();
                self.start = end;
                self.quoting = Quoting::FieldStart;
                return Ok(Some(&self.buffer[range]));
            }
        }
        if self.buffer.len() - self.start > RECORD_BYTES_MAX {
            let most = bytes(RECORD_BYTES_MAX as u64);
            return Err(io::Error::other(format!("a record is longer than {most}")));
        }
        Ok(None)
    }

    /// The place after the next byte that may end a record.
    fn next_end(&mut self) -> Option<usize> {
        let last = *self.delimiter.last().expect("checked when it was made");
        let unseen = &self.buffer[self.scanned..];
        let at = match self.separator {
            None => unseen.iter().position(|byte| *byte == last),
            Some(separator) => {
                let quoting = &mut self.quoting;
                unseen.iter().position(|byte| {
                    *quoting = match (*quoting, *byte) {
                        (Quoting::FieldStart, b'"') | (Quoting::QuoteSeen, b'"') => Quoting::Quoted,
                        (Quoting::Quoted, b'"') => Quoting::QuoteSeen,
                        (Quoting::Quoted, _) => Quoting::Quoted,
                        (_, byte) if byte == separator => Quoting::FieldStart,
                        _ => Quoting::Plain,
                    };
                    *quoting != Quoting::Quoted && *byte == last
                })
            }
        };
        self.scanned = at.map_or(self.buffer.len(), |at| self.scanned + at + 1);
        at.map(|_| self.scanned)
    }

    /// The record that ends with the input instead of a delimiter.
    pub(super) fn rest(&mut self) -> Option<&[u8]> {
        let rest = &self.buffer[std::mem::replace(&mut self.start, self.buffer.len())..];
        (!rest.is_empty()).then_some(rest)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// All records of `text`, fed in pieces of `piece` bytes, so that delimiters fall across reads.
    fn records(text: &[u8], mut framing: Framing, piece: usize) -> Vec<Vec<u8>> {
        let mut all = Vec::new();
        for chunk in text.chunks(piece) {
            framing.feed(chunk);
            while let Some(record) = framing.next().unwrap() {
                all.push(record.to_vec());
            }
        }
        all.extend(framing.rest().map(<[u8]>::to_vec));
        all
    }

    #[test]
    fn lines_keep_every_byte_but_the_delimiter() {
        for piece in [1, 2, 3, 100] {
            let lines =
                |text: &[u8], delimiter: &[u8]| records(text, Framing::delimited(delimiter), piece);
            assert_eq!(
                lines(b"a\r\n\n \xff\0b\nlast", b"\n"),
                [&b"a\r"[..], b"", b" \xff\0b", b"last"]
            );
            assert_eq!(lines(b"", b"\n"), Vec::<Vec<u8>>::new());
            assert_eq!(lines(b"a\n", b"\n"), [b"a"]);
            assert_eq!(lines(b"a--b-c--", b"--"), [&b"a"[..], b"b-c"]);
            assert_eq!(lines(b"a\0b", b"\0"), [b"a", b"b"]);
        }
    }

    #[test]
    fn a_row_of_csv_may_hold_line_feeds_in_quotes_and_quotes_elsewhere() {
        for piece in [1, 2, 3, 100] {
            let rows = |text: &[u8]| records(text, Framing::csv(b','), piece);
            assert_eq!(
                rows(b"a,\"b\nc\"\nd,5\" disk\n\"x \"\"y\"\"\n\",z"),
                [&b"a,\"b\nc\""[..], b"d,5\" disk", b"\"x \"\"y\"\"\n\",z"]
            );
        }
    }
}
