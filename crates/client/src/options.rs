//! Options of a client, set before it connects: its name, its user, its patience.

use std::time::Duration;

use model::Instant;

use crate::login::Login;

#[derive(Clone, Debug)]
pub struct Options {
    pub client_id: String,
    /// An operation with all its retries.
    pub timeout: Duration,
    /// One connect, or one wait for bytes of an answer.
    pub io_timeout: Duration,
    /// All operations together end by then, until a producer makes progress: each time starts anew from there.
    pub until: Option<Instant>,
    /// The user of every connection; `None` where brokers let everybody in.
    pub login: Option<Login>,
}

impl Default for Options {
    fn default() -> Options {
        let (timeout, io_timeout) = (Duration::from_secs(30), Duration::from_secs(30));
        Options {
            client_id: "esker".to_owned(),
            timeout,
            io_timeout,
            until: None,
            login: None,
        }
    }
}
