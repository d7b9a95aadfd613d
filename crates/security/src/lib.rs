//! Principals, secrets, logins, rules: who somebody is, and what that one may do.
//!
//! Machines only: messages come in, messages and verdicts go out. No IO, no clock, no dice: random bytes come with the call that needs
//! them. The order of the rules and the words of the mechanisms are those of Apache Kafka, because they are its interface.

pub mod authorize;
pub mod jaas;
pub mod login;
mod principal;
mod secret;

pub use principal::{ANONYMOUS, NODE, Principal, USER};
pub use secret::Secret;
