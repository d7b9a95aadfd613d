//! `esker tier`: is a store of objects fit for sealed segments?

use std::time::Duration;

use bucket::Address;
use clap::{Args, Subcommand};
use env::Env;
use env::bucket::{Bucket, Done, Op, Outcome, Tag, Trouble};
use serde_json::{Value, json};
use tier::check::Check;

use crate::arguments::Global;
use crate::failure::Failure;
use crate::table::Table;

#[derive(Args, Debug)]
pub(crate) struct TierArgs {
    #[command(subcommand)]
    verb: TierVerb,
}

#[derive(Debug, Subcommand)]
enum TierVerb {
    /// Check that a store keeps what a tier rests on: whole objects, and writes under conditions. Makes one object and deletes it
    Check {
        /// The store, such as file:///mnt/archive
        #[arg(value_name = "STORE")]
        store: Address,
    },
}

pub(crate) fn tier(global: &Global, args: &TierArgs) -> Result<(), Failure> {
    let TierVerb::Check { store } = &args.verb;
    let env = Env::real();
    let bucket = store.open(&env);
    let mut unique = [0; 8];
    env.rng.fill(&mut unique);
    let mut check = Check::new(format!("check/{:016x}", u64::from_le_bytes(unique)));
    while let Some(op) = check.next() {
        check.take(&ask(&env, &*bucket, op, global.timeout()));
    }
    let mut table = Table::new(&["a_fit_store", "result"]);
    for finding in check.findings() {
        let result = finding.problem.as_deref().unwrap_or("ok");
        table.row([json!(finding.property), Value::from(result)]);
    }
    table.print(global.json)?;
    match check.is_fit() {
        true => Ok(()),
        false => Err(Failure::new("the store is not fit for a tier")
            .hint("no log is tiered to it until all of this holds")),
    }
}

/// The answer of the store, if there is one in time.
fn ask(env: &Env, bucket: &dyn Bucket, op: Op, patience: Duration) -> Result<Outcome, Trouble> {
    let until = env.clock.now().plus(patience);
    bucket.start(Tag(0), op);
    let mut done: Vec<Done> = Vec::new();
    loop {
        bucket.take(&mut done);
        if let Some(done) = done.pop() {
            return done.result;
        }
        if until <= env.clock.now() {
            let words = format!("nothing came in {} s", patience.as_secs());
            return Err(Trouble::NoAnswer(words));
        }
        bucket.bell().wait(Some(until));
    }
}
