//! Requests that nobody should be granted, sent as raw frames to real brokers.

#![forbid(unsafe_code)]
#![allow(clippy::disallowed_macros, clippy::disallowed_methods)] // acts on processes, clocks and files as an operator does

mod broker;
mod login;
mod matrix;
mod nodes;
mod peer;

use std::process::ExitCode;

fn main() -> ExitCode {
    match std::env::args().nth(1).as_deref() {
        Some("nodes") => nodes::run(&std::env::args().skip(2).collect::<Vec<_>>()),
        Some("login") => login::run(&std::env::args().skip(2).collect::<Vec<_>>()),
        Some("matrix") => matrix::run(&std::env::args().skip(2).collect::<Vec<_>>()),
        _ => {
            eprintln!("usage: trespass matrix|nodes|login [OPTION]...");
            ExitCode::from(2)
        }
    }
}
