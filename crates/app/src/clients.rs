//! `esker client`: clients that push their metrics, and what they pushed last.
//!
//! The broker keeps it in a topic of its own, which is read from its beginning: the newest record of each instance counts.

use std::collections::BTreeMap;
use std::ops::ControlFlow;

use broker::metrics::Number;
use clap::{Args, Subcommand};
use client::{Consumer, ConsumerOptions, OffsetSpec};
use env::Env;
use serde_json::{Value, json};

use crate::arguments::Global;
use crate::connect::connect;
use crate::failure::Failure;
use crate::otlp;
use crate::table::Table;

const TOPIC: &str = "__client_metrics";

#[derive(Args, Debug)]
pub(crate) struct ClientArgs {
    #[command(subcommand)]
    pub(crate) verb: ClientVerb,
}

#[derive(Debug, Subcommand)]
pub(crate) enum ClientVerb {
    /// List clients that pushed metrics, and when they did last
    #[command(visible_alias = "ls")]
    List,
    /// Show the metrics that clients pushed last
    Describe {
        /// Instances, or client ids
        #[arg(required = true, value_name = "CLIENT")]
        clients: Vec<String>,
        /// Only metrics whose names begin so
        #[arg(long, value_name = "PREFIX", default_value = "")]
        metric: String,
    },
}

/// The last push of one instance.
#[derive(Default)]
struct Pushed {
    client_id: String,
    software: String,
    address: String,
    at_ms: i64,
    metrics: Vec<u8>,
}

pub(crate) fn clients(global: &Global, args: &ClientArgs) -> Result<(), Failure> {
    let known = read(global)?;
    let table = match &args.verb {
        ClientVerb::List => list(&known),
        ClientVerb::Describe { clients, metric } => describe(&known, clients, metric)?,
    };
    Ok(table.print(global.json)?)
}

fn list(known: &BTreeMap<String, Pushed>) -> Table {
    let mut table = Table::new(&[
        "client_instance_id",
        "client_id",
        "software",
        "address",
        "pushed_ms",
        "metrics",
    ]);
    for (id, pushed) in known {
        let points = otlp::points(&pushed.metrics).ok();
        table.row([
            json!(id),
            json!(pushed.client_id),
            json!(pushed.software),
            json!(pushed.address),
            json!(pushed.at_ms),
            json!(points.map(|points| points.len())),
        ]);
    }
    table
}

fn describe(
    known: &BTreeMap<String, Pushed>,
    clients: &[String],
    prefix: &str,
) -> Result<Table, Failure> {
    let mut table = Table::new(&["client_instance_id", "metric", "labels", "value"]);
    for asked in clients {
        let is_asked =
            |(id, pushed): &(&String, &Pushed)| *id == asked || pushed.client_id == *asked;
        let mut found = known.iter().filter(is_asked).peekable();
        if found.peek().is_none() {
            return Err(Failure::new(format!(
                "no client {asked} has pushed metrics"
            )));
        }
        for (id, pushed) in found {
            let points = otlp::points(&pushed.metrics)
                .map_err(|_| Failure::new(format!("what {id} pushed is not OpenTelemetry's")))?;
            for point in points
                .iter()
                .filter(|point| point.metric.starts_with(prefix))
            {
                let value = match point.value {
                    Number::Int(value) => json!(value),
                    // Java's producers push NaN for what they have not measured, which JSON has no word for.
                    Number::Double(value) if value.is_finite() => json!(value),
                    Number::Double(_) => Value::Null,
                };
                table.row([json!(id), json!(point.metric), json!(point.labels), value]);
            }
        }
    }
    Ok(table)
}

/// The newest push of each instance.
fn read(global: &Global) -> Result<BTreeMap<String, Pushed>, Failure> {
    let mut client = connect(&Env::real(), global)?;
    let mut known = BTreeMap::new();
    match client.topic(TOPIC) {
        Ok(_) => {}
        // Nobody has pushed anything.
        Err(client::Error::NoTopic { .. }) => return Ok(known),
        Err(error) => return Err(error.into()),
    }
    let options = ConsumerOptions::default();
    let start = client.resolve(TOPIC, &[(0, OffsetSpec::Beginning)], options.isolation)?;
    let end = client.resolve(TOPIC, &[(0, OffsetSpec::End)], options.isolation)?;
    let at = |places: &BTreeMap<i32, i64>| places.get(&0).copied().unwrap_or(0);
    let (start, end) = (at(&start), at(&end));
    let mut consumer = Consumer::new(client, options);
    consumer.assign(TOPIC, 0, start)?;
    while consumer.position(TOPIC, 0).is_some_and(|next| next < end) {
        for fetched in consumer.poll()? {
            let _: ControlFlow<()> = fetched.each(|record| {
                let (Some(key), Some(value)) = (record.key, record.value) else {
                    return ControlFlow::Continue(());
                };
                let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
                let mut pushed = Pushed {
                    at_ms: record.timestamp,
                    metrics: value.to_vec(),
                    ..Pushed::default()
                };
                for header in record.headers.iter() {
                    let value = text(header.value.unwrap_or_default());
                    match header.key {
                        b"client_id" => pushed.client_id = value,
                        b"software_name" => pushed.software = value,
                        b"software_version" => {
                            pushed.software = format!("{} {value}", pushed.software)
                        }
                        b"address" => pushed.address = value,
                        _ => {}
                    }
                }
                known.insert(text(key), pushed);
                ControlFlow::Continue(())
            })?;
        }
    }
    Ok(known)
}
