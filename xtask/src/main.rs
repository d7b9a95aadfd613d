//! Chores of the repository: `cargo xtask <chore>`.
//!
//! Each chore is a module with a `run` that takes the remaining arguments. Nothing here is part of the product.

// Chores run on the developer's machine, not inside an `Env`.
#![allow(clippy::disallowed_macros, clippy::disallowed_methods)]

mod accepted;
mod arrows;
mod codegen;
mod crates;
mod golden;
mod mutants;
mod paths;
mod threads;
mod tidy;
mod tokens;

use std::process::ExitCode;

const USAGE: &str = "usage: cargo xtask <chore>

chores:
  codegen [--check]   write the protocol messages from crates/wire/schemas (or only compare)
  golden              write the golden vectors of crates/wire with Kafka's own codec
  tidy [--arrows]     check the rules about files that rustfmt and clippy do not know (or write the table of arrows)";

fn main() -> ExitCode {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let args: Vec<&str> = args.iter().map(String::as_str).collect();
    let outcome = match args.as_slice() {
        ["codegen", rest @ ..] => codegen::run(rest),
        ["golden", rest @ ..] => golden::run(rest),
        ["tidy", rest @ ..] => tidy::run(rest),
        _ => Err(USAGE.to_owned()),
    };
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(why) => {
            eprintln!("{why}");
            ExitCode::FAILURE
        }
    }
}
