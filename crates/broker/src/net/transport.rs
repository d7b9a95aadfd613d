//! The way of bytes between a connection and its socket.
//!
//! One member today; TLS becomes another one beside it, which has no use for sendfile.

use std::io::{self, IoSlice};

use bytes::BytesMut;
use env::{ConnId, Poller};
use log::segment::FileSlice;

pub(crate) enum Transport {
    /// Bytes as they are: one vectored write, and files by sendfile.
    Plain(ConnId),
}

impl Transport {
    pub(crate) fn receive(
        &self,
        poller: &mut dyn Poller,
        into: &mut BytesMut,
    ) -> io::Result<usize> {
        let Transport::Plain(conn) = self;
        poller.recv(*conn, into)
    }

    pub(crate) fn send(
        &self,
        poller: &mut dyn Poller,
        slices: &[IoSlice<'_>],
    ) -> io::Result<usize> {
        let Transport::Plain(conn) = self;
        poller.send(*conn, slices)
    }

    /// Sends the beginning of a slice, at most `len` bytes.
    pub(crate) fn send_file(
        &self,
        poller: &mut dyn Poller,
        slice: &FileSlice,
        len: usize,
    ) -> io::Result<usize> {
        let Transport::Plain(conn) = self;
        poller.send_file(*conn, &slice.file, slice.position, len)
    }
}
