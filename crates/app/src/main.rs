//! The `esker` command: one binary that is broker, command-line client, benchmark and inspector.
//!
//! Owns the way from arguments to a verb and from a verb's result to an exit code. Verbs return a [`Failure`] instead of
//! printing; nothing below `main` ends the process.

mod acl;
mod allocator;
mod arguments;
mod bench;
mod clients;
mod cluster;
mod command_config;
mod connect;
mod consume;
mod failure;
mod grammar;
mod grant;
mod group;
mod http;
mod inspect;
mod moment;
mod otlp;
mod password;
mod produce;
mod repair;
mod serve;
mod systemd;
mod table;
mod template;
mod tier;
mod topic;
mod txn;
mod user;
mod window;

use std::process::ExitCode;

use clap::{CommandFactory, FromArgMatches};

use crate::failure::Failure;
use crate::grammar::{Cli, Command};

fn main() -> ExitCode {
    let matches = Cli::command().get_matches();
    let mut cli = Cli::from_arg_matches(&matches).unwrap_or_else(|error| error.exit());
    let clock = env::Env::real().clock;
    let began = clock.now();
    let is_ready = grammar::check_used(&matches).and_then(|()| cli.global.complete(&matches));
    let global = cli.global.clone();
    match is_ready.and_then(|()| run(cli)) {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => connect::explained(&global, clock.now().since(began), failure).report(),
    }
}

fn run(cli: Cli) -> Result<(), Failure> {
    let global = cli.global;
    match cli.command {
        Command::Serve(args) => serve::serve(&args),
        Command::Topic(args) => topic::topic(&global, &args),
        Command::Group(args) => group::group(&global, &args),
        Command::Txn(args) => txn::txn(&global, &args),
        Command::User(args) => user::user(&global, &args),
        Command::Acl(args) => acl::acl(&global, &args),
        Command::Cluster(args) => cluster::cluster(&global, &args),
        Command::Client(args) => clients::clients(&global, &args),
        Command::Produce(args) => produce::produce(&global, &args),
        Command::Consume(args) => consume::consume(&global, &args),
        Command::Inspect(args) => inspect::inspect(&global, &args),
        Command::Repair(args) => repair::repair(&global, &args),
        Command::Tier(args) => tier::tier(&global, &args),
        Command::Bench(args) => bench::bench(&global, &args),
        Command::Completions { shell } => completions(shell),
    }
}

fn completions(shell: clap_complete::Shell) -> Result<(), Failure> {
    let mut script = Vec::new();
    clap_complete::generate(shell, &mut Cli::command(), "esker", &mut script);
    std::io::Write::write_all(&mut std::io::stdout().lock(), &script)?;
    Ok(())
}
