//! `esker topic`: create, list, describe, alter, delete and trim.

mod partitions;

use std::io::Write;

use clap::{Args, Subcommand};
use client::{
    Change, Client, Isolation, NewTopic, OffsetSpec, Resource, Setting, SettingSource, Topic,
};
use env::Env;
use serde_json::{Value, json};
use wire::{ErrorCode, Uuid};

use crate::arguments::{Global, Pair};
use crate::connect::connect;
use crate::failure::Failure;
use crate::table::Table;

#[derive(Args, Debug)]
pub(crate) struct TopicArgs {
    #[command(subcommand)]
    pub(crate) verb: TopicVerb,
}

#[derive(Debug, Subcommand)]
pub(crate) enum TopicVerb {
    /// Create topics
    Create(CreateArgs),
    /// List topics
    #[command(visible_alias = "ls")]
    List {
        /// Show internal topics too
        #[arg(long)]
        internal: bool,
    },
    /// Show partitions, replicas, offsets and changed settings of topics
    Describe {
        #[arg(required = true, value_name = "TOPIC")]
        topics: Vec<String>,
        /// Show every setting, not only those that differ from the defaults
        #[arg(long)]
        all_configs: bool,
    },
    /// Change settings, add partitions
    Alter(AlterArgs),
    /// Delete topics and their records
    #[command(visible_alias = "rm")]
    Delete {
        #[arg(required = true, value_name = "TOPIC")]
        topics: Vec<String>,
        /// A topic that does not exist is no error
        #[arg(long)]
        if_exists: bool,
    },
    /// Delete the oldest records of a topic
    Trim(TrimArgs),
}

#[derive(Args, Debug)]
pub(crate) struct CreateArgs {
    #[arg(required = true, value_name = "TOPIC")]
    pub(crate) topics: Vec<String>,
    /// Number of partitions; the broker's num.partitions when not given
    #[arg(short, long, value_name = "COUNT", allow_negative_numbers = true, value_parser = clap::value_parser!(i32).range(1..))]
    pub(crate) partitions: Option<i32>,
    /// Copies of each partition; the broker's default.replication.factor when not given
    #[arg(short, long, value_name = "COUNT", value_parser = clap::value_parser!(i16).range(1..))]
    pub(crate) replication_factor: Option<i16>,
    /// A topic setting, such as retention.ms=3600000
    #[arg(short, long, value_name = "NAME=VALUE")]
    pub(crate) config: Vec<Pair>,
    /// A topic that exists already is no error
    #[arg(long)]
    pub(crate) if_not_exists: bool,
    /// Ask the broker whether it would do it, and change nothing
    #[arg(long)]
    pub(crate) validate_only: bool,
}

#[derive(Args, Debug)]
pub(crate) struct AlterArgs {
    pub(crate) topic: String,
    #[command(flatten)]
    pub(crate) wanted: Wanted,
}

#[derive(Args, Debug)]
#[group(required = true, multiple = true)]
pub(crate) struct Wanted {
    /// New total number of partitions
    #[arg(short, long, value_name = "COUNT", allow_negative_numbers = true, value_parser = clap::value_parser!(i32).range(1..))]
    pub(crate) partitions: Option<i32>,
    /// Give a setting a value
    #[arg(long, visible_alias = "add-config", value_name = "NAME=VALUE")]
    pub(crate) set: Vec<Pair>,
    /// Return a setting to its default
    #[arg(long, visible_alias = "delete-config", value_name = "NAME")]
    pub(crate) unset: Vec<String>,
}

#[derive(Args, Debug)]
pub(crate) struct TrimArgs {
    pub(crate) topic: String,
    /// Records below this go: an offset (of several partitions, those that end before it lose all their records), `end`, or `@`
    /// and a time (milliseconds, RFC 3339 or local)
    #[arg(long, value_name = "WHERE", allow_hyphen_values = true, value_parser = crate::consume::trim_place)]
    pub(crate) before: OffsetSpec,
    /// Only these partitions
    #[arg(short, long, value_name = "LIST", value_delimiter = ',', allow_negative_numbers = true, value_parser = crate::arguments::partition)]
    pub(crate) partition: Vec<i32>,
}

pub(crate) fn topic(global: &Global, args: &TopicArgs) -> Result<(), Failure> {
    let mut client = connect(&Env::real(), global)?;
    match &args.verb {
        TopicVerb::Create(args) => create(&mut client, args, global.json),
        TopicVerb::List { internal } => list(&mut client, *internal, global.json),
        TopicVerb::Describe {
            topics,
            all_configs,
        } => describe(&mut client, topics, *all_configs, global.json),
        TopicVerb::Alter(args) => alter(&mut client, args, global.json),
        TopicVerb::Delete { topics, if_exists } => {
            delete(&mut client, topics, *if_exists, global.json)
        }
        TopicVerb::Trim(args) => trim(&mut client, args, global.json),
    }
}

fn create(client: &mut Client, args: &CreateArgs, json: bool) -> Result<(), Failure> {
    let mut table = Table::new(&["topic", "id", "partitions", "replication_factor"]);
    let mut failures = Vec::new();
    for name in &args.topics {
        let topic = NewTopic {
            name: name.clone(),
            partitions: args.partitions,
            replication_factor: args.replication_factor,
            configs: args
                .config
                .iter()
                .map(|pair| (pair.name.clone(), pair.value.clone()))
                .collect(),
        };
        match client.create_topic(&topic, args.validate_only) {
            Ok(made) => table.row([
                json!(made.name),
                // An answer to a question names an id that no topic will ever have.
                id(if args.validate_only {
                    Uuid::ZERO
                } else {
                    made.id
                }),
                json!(made.partitions),
                json!(made.replication_factor),
            ]),
            Err(error)
                if args.if_not_exists && error.code() == Some(ErrorCode::TopicAlreadyExists) => {}
            Err(error) => failures.push(error.into()),
        }
    }
    if json || !table.is_empty() {
        table.print(json)?;
    }
    if args.validate_only && !table.is_empty() {
        env::tell!("--validate-only: nothing was made");
    }
    Failure::all(failures)
}

/// An id as clients print it; nothing where the broker has none.
fn id(id: Uuid) -> Value {
    if id.is_zero() {
        Value::Null
    } else {
        json!(id.to_string())
    }
}

fn list(client: &mut Client, internal: bool, json: bool) -> Result<(), Failure> {
    let mut table = Table::new(&["topic", "partitions", "replication_factor", "id"]);
    for topic in client
        .topics()?
        .iter()
        .filter(|topic| internal || !topic.is_internal)
    {
        let factor = topic
            .partitions
            .iter()
            .map(|partition| partition.replicas.len())
            .max();
        table.row([
            json!(topic.name),
            json!(topic.partitions.len()),
            json!(factor),
            id(topic.id),
        ]);
    }
    if table.is_empty() && !json {
        env::tell!("no topics; make one with `esker topic create NAME`");
        return Ok(());
    }
    Ok(table.print(json)?)
}

fn describe(
    client: &mut Client,
    topics: &[String],
    all_configs: bool,
    json: bool,
) -> Result<(), Failure> {
    let (mut described, mut failures) = (Vec::new(), Vec::new());
    let mut gap = "";
    for name in topics {
        let (topic, partitions, mut configs) = match look(client, name) {
            Ok(found) => found,
            Err(failure) => {
                failures.push(failure);
                continue;
            }
        };
        configs.retain(|setting| all_configs || setting.source == SettingSource::Topic);
        if json {
            let setting =
                |s: &Setting| json!({"name": s.name, "value": s.value, "source": s.source.name()});
            let configs: Vec<Value> = configs.iter().map(setting).collect();
            described.push(json!({"topic": name, "id": id(topic.id), "partitions": partitions.json(), "configs": configs}));
            continue;
        }
        let mut out = std::io::stdout().lock();
        writeln!(
            out,
            "{gap}topic {}  id {}",
            model::printable(name),
            topic.id
        )?;
        gap = "\n";
        partitions.write_text(&mut out)?;
        if !configs.is_empty() {
            let mut table = Table::new(&["setting", "value", "source"]);
            for setting in configs {
                table.row([
                    json!(setting.name),
                    json!(setting.value),
                    json!(setting.source.name()),
                ]);
            }
            writeln!(out)?;
            table.write_text(&mut out)?;
        }
    }
    if json {
        crate::table::print_json(&mut std::io::stdout().lock(), &Value::Array(described))?;
    }
    Failure::all(failures)
}

fn look(client: &mut Client, name: &str) -> Result<(Topic, Table, Vec<Setting>), Failure> {
    let topic = client.topic(name)?;
    let partitions = partitions::table(client, &topic)?;
    let configs = client.describe_configs(&Resource::Topic(name.to_owned()))?;
    Ok((topic, partitions, configs))
}

/// Both halves are asked for before one is done: a refusal leaves the topic as it was.
fn alter(client: &mut Client, args: &AlterArgs, json: bool) -> Result<(), Failure> {
    let (name, wanted) = (&args.topic, &args.wanted);
    client.topic(name)?;
    let topic = Resource::Topic(name.clone());
    if !wanted.unset.is_empty() {
        let known = client.describe_configs(&topic)?;
        check_known(name, &wanted.unset, &known)?;
    }
    let set = wanted.set.iter();
    let set = set.map(|pair| Change::Set(pair.name.clone(), pair.value.clone()));
    let changes: Vec<Change> = set
        .chain(wanted.unset.iter().cloned().map(Change::Unset))
        .collect();
    let is_both = wanted.partitions.is_some() && !changes.is_empty();
    let steps: &[bool] = if is_both { &[true, false] } else { &[false] };
    for validate_only in steps {
        if !changes.is_empty() {
            client.alter_configs(&topic, &changes, *validate_only)?;
        }
        if let Some(count) = wanted.partitions {
            client.create_partitions(name, count, *validate_only)?;
        }
    }
    if json {
        let mut table = Table::new(&["topic", "partitions", "set", "unset"]);
        let set: serde_json::Map<String, Value> = wanted
            .set
            .iter()
            .map(|pair| (pair.name.clone(), json!(pair.value)))
            .collect();
        table.row([
            json!(name),
            json!(wanted.partitions),
            Value::Object(set),
            json!(wanted.unset),
        ]);
        table.print(json)?;
    }
    Ok(())
}

/// Brokers return to its default whatever they are told to, also what does not exist.
fn check_known(topic: &str, names: &[String], known: &[Setting]) -> Result<(), Failure> {
    let is_known = |name: &&String| known.iter().any(|setting| setting.name == **name);
    let Some(unknown) = names.iter().find(|name| !is_known(name)) else {
        return Ok(());
    };
    let failure = Failure::new(format!("topic {topic} has no setting {unknown}"));
    Err(match crate::failure::meant(unknown) {
        Some(hint) => failure.hint(hint),
        None => failure.hint(format!(
            "`esker topic describe {topic} --all-configs` shows those it has"
        )),
    })
}

fn delete(
    client: &mut Client,
    topics: &[String],
    if_exists: bool,
    json: bool,
) -> Result<(), Failure> {
    let mut table = Table::new(&["topic"]);
    let mut failures = Vec::new();
    for name in topics {
        match client.delete_topic(name) {
            Ok(()) => table.row([json!(name)]),
            Err(client::Error::NoTopic { .. }) if if_exists => {}
            Err(error) => failures.push(error.into()),
        }
    }
    print_done(&table, &failures, json)?;
    Failure::all(failures)
}

/// Prints the deleted names: for programs always, for people where these are not all that they asked for.
pub(crate) fn print_done(table: &Table, failures: &[Failure], json: bool) -> std::io::Result<()> {
    if json || !(failures.is_empty() || table.is_empty()) {
        table.print(json)?;
    }
    Ok(())
}

fn trim(client: &mut Client, args: &TrimArgs, json: bool) -> Result<(), Failure> {
    let topic = client.topic(&args.topic)?;
    let indexes = crate::consume::chosen(&topic, &args.partition)?;
    // The offsets of a time or of the end are asked first, so that nothing that arrives meanwhile is deleted.
    let at = |place: OffsetSpec| -> Vec<(i32, OffsetSpec)> {
        indexes.iter().map(|index| (*index, place)).collect()
    };
    let isolation = Isolation::ReadUncommitted;
    let before = client.resolve(&args.topic, &at(args.before), isolation)?;
    let ends = client.resolve(&args.topic, &at(OffsetSpec::End), isolation)?;
    if let OffsetSpec::Offset(offset) = args.before
        && ends.values().all(|end| *end < offset)
    {
        let starts = client.resolve(&args.topic, &at(OffsetSpec::Beginning), isolation)?;
        return Err(crate::consume::beyond(&args.topic, offset, &starts, &ends)
            .hint("`--before end` deletes all there is"));
    }
    // One offset for all partitions means "as far as each goes".
    let before: Vec<(i32, i64)> = before
        .iter()
        .map(|(index, offset)| {
            (
                *index,
                ends.get(index).map_or(*offset, |end| *offset.min(end)),
            )
        })
        .collect();
    let starts = client.delete_records(&args.topic, &before)?;
    let mut table = Table::new(&["topic", "partition", "log_start"]);
    for (partition, start) in starts {
        table.row([json!(args.topic), json!(partition), json!(start)]);
    }
    Ok(table.print(json)?)
}
