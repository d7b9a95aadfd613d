//! Logins: what proves that somebody is who it says (SASL, RFC 4422).

pub mod node;
pub mod plain;
pub mod scram;
