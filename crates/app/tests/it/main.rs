//! The `esker` binary as its users meet it: real processes, real sockets, real files.
//!
//! Each test has a broker of its own on a free port with a directory of its own, both gone when the test ends.

mod benching;
mod broker;
mod cluster;
mod command_config;
mod completions;
mod errors;
mod groups;
mod growing;
mod health;
mod inspecting;
mod logins;
mod losing;
mod members;
mod misfits;
mod observing;
mod proxy;
mod pushing;
mod records;
mod serving;
mod status;
mod topics;
mod transactions;
mod users;
