//! `esker txn`: transactions that are open, and the end of one that hangs.

use std::collections::BTreeMap;

use clap::{Args, Subcommand};
use client::{ActiveProducer, Client};
use env::Env;
use serde_json::json;

use crate::arguments::Global;
use crate::connect::connect;
use crate::failure::Failure;
use crate::table::Table;

#[derive(Args, Debug)]
pub(crate) struct TxnArgs {
    #[command(subcommand)]
    pub(crate) verb: TxnVerb,
}

#[derive(Debug, Subcommand)]
pub(crate) enum TxnVerb {
    /// List transactional ids and where their transactions stand
    #[command(visible_alias = "ls")]
    List {
        /// Only these states, such as Ongoing
        #[arg(long, value_name = "LIST", value_delimiter = ',', value_parser = state)]
        state: Vec<String>,
        /// Only ids that this regular expression matches as a whole
        #[arg(long, value_name = "REGEX")]
        pattern: Option<String>,
    },
    /// Show the producer, the age and the partitions of transactions
    Describe {
        #[arg(required = true, value_name = "ID")]
        ids: Vec<String>,
    },
    /// Abort a transaction that hangs in a partition and holds its readers back
    Abort(AbortArgs),
}

#[derive(Args, Debug)]
pub(crate) struct AbortArgs {
    #[arg(long)]
    pub(crate) topic: String,
    #[arg(long, allow_negative_numbers = true, value_parser = crate::arguments::partition)]
    pub(crate) partition: i32,
    /// First offset of the transaction; those of all that are open are told when it is not given
    #[arg(long, value_name = "OFFSET", value_parser = clap::value_parser!(i64).range(0..))]
    pub(crate) start_offset: Option<i64>,
}

/// As Kafka names them.
const STATES: [&str; 8] = [
    "Empty",
    "Ongoing",
    "PrepareCommit",
    "PrepareAbort",
    "CompleteCommit",
    "CompleteAbort",
    "PrepareEpochFence",
    "Dead",
];

fn state(text: &str) -> Result<String, String> {
    crate::group::one_of(&STATES, text)
}

pub(crate) fn txn(global: &Global, args: &TxnArgs) -> Result<(), Failure> {
    let mut client = connect(&Env::real(), global)?;
    match &args.verb {
        TxnVerb::List { state, pattern } => {
            list(&mut client, state, pattern.as_deref(), global.json)
        }
        TxnVerb::Describe { ids } => describe(&mut client, ids, global.json),
        TxnVerb::Abort(args) => abort(&mut client, args, global.json),
    }
}

fn list(
    client: &mut Client,
    states: &[String],
    pattern: Option<&str>,
    json: bool,
) -> Result<(), Failure> {
    let mut table = Table::new(&["transactional_id", "coordinator", "producer_id", "state"]);
    for txn in client.list_transactions(states, pattern)? {
        table.row([
            json!(txn.transactional_id),
            json!(txn.coordinator),
            json!(txn.producer_id),
            json!(txn.state),
        ]);
    }
    if table.is_empty() && !json {
        match states {
            [] => env::tell!("no transactions"),
            states => env::tell!("no transactions in state {}", states.join(" or ")),
        }
        return Ok(());
    }
    Ok(table.print(json)?)
}

fn describe(client: &mut Client, ids: &[String], json: bool) -> Result<(), Failure> {
    let mut table = Table::new(&[
        "transactional_id",
        "state",
        "producer_id",
        "producer_epoch",
        "timeout_ms",
        "start_ms",
        "partitions",
    ]);
    let mut failures = Vec::new();
    for id in ids {
        let txn = match client.describe_transaction(id) {
            Ok(txn) => txn,
            Err(error) => {
                failures.push(error.into());
                continue;
            }
        };
        let partitions = txn.partitions.iter();
        let partitions: Vec<String> = partitions
            .map(|(topic, index)| format!("{topic}-{index}"))
            .collect();
        table.row([
            json!(txn.transactional_id),
            json!(txn.state),
            json!(txn.producer_id),
            json!(txn.producer_epoch),
            json!(txn.timeout_ms),
            json!(txn.start_ms),
            json!(partitions),
        ]);
    }
    if json || !table.is_empty() {
        table.print(json)?;
    }
    Failure::all(failures)
}

fn abort(client: &mut Client, args: &AbortArgs, json: bool) -> Result<(), Failure> {
    let producers = client.describe_producers(&args.topic, args.partition)?;
    let open: BTreeMap<i64, &ActiveProducer> = producers
        .iter()
        .filter_map(|producer| Some((producer.transaction_start?, producer)))
        .collect();
    let place = format!("{}-{}", args.topic, args.partition);
    let found = |start: i64| Some((start, *open.get(&start)?));
    let (start, producer) = match args.start_offset {
        // One that is alive would go on and commit what comes after the marker.
        None if !open.is_empty() => return Err(which(&place, &open)),
        start => start
            .and_then(found)
            .ok_or_else(|| Failure::new(format!("no such transaction is open in {place}")))?,
    };
    client.abort_hanging(&args.topic, args.partition, producer)?;
    let mut table = Table::new(&["topic", "partition", "producer_id", "start_offset"]);
    table.row([
        json!(args.topic),
        json!(args.partition),
        json!(producer.producer_id),
        json!(start),
    ]);
    Ok(table.print(json)?)
}

fn which(place: &str, open: &BTreeMap<i64, &ActiveProducer>) -> Failure {
    let starts: Vec<String> = open
        .iter()
        .map(|(start, producer)| format!("{start} (of producer {})", producer.producer_id))
        .collect();
    let starts = starts.join(", ");
    Failure::new(format!("which transaction of {place}?"))
        .hint(format!("say --start-offset; these are open: {starts}"))
}
