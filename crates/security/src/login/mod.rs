//! Logins: what proves that somebody is who it says (SASL, RFC 4422).

mod mechanism;
pub mod node;
pub mod plain;
pub mod scram;
pub mod server;

pub use mechanism::Mechanism;
