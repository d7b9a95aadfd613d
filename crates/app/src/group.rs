//! `esker group`: list, describe, reset and delete. Lag is told in records and in seconds.

use std::collections::BTreeMap;
use std::io::{IsTerminal, Write};
use std::ops::{ControlFlow, Range};
use std::time::Duration;

use clap::{Args, Subcommand};
use client::{
    Client, Committed, Consumer, ConsumerOptions, GroupInfo, GroupMember, Isolation, OffsetSpec,
    Part,
};
use env::Env;
use model::printable;
use serde_json::{Value, json};
use wire::ErrorCode;

use crate::arguments::Global;
use crate::connect::connect;
use crate::consume;
use crate::failure::Failure;
use crate::table::Table;

/// How long `describe` waits for the records that give the lag in seconds.
const LAG_WAIT: Duration = Duration::from_secs(5);
/// Of a partition in one answer: its first batch is wanted, and most are smaller.
const LAG_BYTES: i32 = 16 << 10;

#[derive(Args, Debug)]
pub(crate) struct GroupArgs {
    #[command(subcommand)]
    pub(crate) verb: GroupVerb,
}

#[derive(Debug, Subcommand)]
pub(crate) enum GroupVerb {
    /// List groups
    #[command(visible_alias = "ls")]
    List {
        /// Only groups in this state: Empty, Stable, PreparingRebalance, Assigning, ...
        #[arg(long, value_name = "STATE", value_delimiter = ',', value_parser = state)]
        state: Vec<String>,
        /// Only groups of this type: classic, consumer
        #[arg(long = "type", value_name = "TYPE", value_delimiter = ',', value_parser = kind)]
        kind: Vec<String>,
    },
    /// Show members, committed offsets and lag of groups
    Describe {
        #[arg(required = true, value_name = "GROUP")]
        groups: Vec<String>,
        /// Show it again every so many seconds, until it is interrupted
        #[arg(short, long, value_name = "SECONDS", num_args = 0..=1, require_equals = true, default_missing_value = "2", value_parser = crate::arguments::seconds)]
        watch: Option<Duration>,
    },
    /// Move what a group without members has committed
    Reset(ResetArgs),
    /// Delete groups without members, or what they committed for one topic
    #[command(visible_alias = "rm")]
    Delete {
        #[arg(required = true, value_name = "GROUP")]
        groups: Vec<String>,
        /// Only forget the offsets of this topic
        #[arg(long, value_name = "TOPIC")]
        topic: Option<String>,
    },
}

#[derive(Args, Debug)]
pub(crate) struct ResetArgs {
    pub(crate) group: String,
    /// Only these topics; all that the group has committed when not given
    #[arg(short, long, value_name = "TOPIC")]
    pub(crate) topic: Vec<String>,
    /// Only these partitions
    #[arg(short, long, value_name = "LIST", value_delimiter = ',', allow_negative_numbers = true, value_parser = crate::arguments::partition)]
    pub(crate) partition: Vec<i32>,
    #[command(flatten)]
    pub(crate) to: Target,
    /// Show what would change, and change nothing
    #[arg(long)]
    pub(crate) dry_run: bool,
}

#[derive(Args, Debug)]
#[group(required = true, multiple = false)]
pub(crate) struct Target {
    /// `beginning`, `end`, an offset, `-N` (N before the end), `-1h` (an hour ago), or `@` and a time (milliseconds, RFC 3339 or
    /// local)
    #[arg(long, value_name = "WHERE", allow_hyphen_values = true, value_parser = consume::place)]
    pub(crate) to: Option<OffsetSpec>,
    /// To the first record that is at most this old, such as 90s, 15m, 6h or 2d
    #[arg(long, value_name = "DURATION", value_parser = crate::moment::duration)]
    pub(crate) by_duration: Option<Duration>,
    /// Forward by this many records, or back when negative
    #[arg(long, value_name = "RECORDS", allow_hyphen_values = true)]
    pub(crate) shift_by: Option<i64>,
}

/// Of groups of any type, as Kafka names them.
const STATES: [&str; 8] = [
    "Empty",
    "Stable",
    "PreparingRebalance",
    "CompletingRebalance",
    "Assigning",
    "Reconciling",
    "NotReady",
    "Dead",
];
const KINDS: [&str; 4] = ["classic", "consumer", "share", "streams"];

fn state(text: &str) -> Result<String, String> {
    one_of(&STATES, text)
}

fn kind(text: &str) -> Result<String, String> {
    one_of(&KINDS, text)
}

/// A name of a list in its own spelling, however its letters were typed.
pub(crate) fn one_of(names: &[&str], text: &str) -> Result<String, String> {
    let found = names.iter().find(|name| name.eq_ignore_ascii_case(text));
    found.map_or_else(
        || Err(format!("it is none of: {}", names.join(", "))),
        |name| Ok((*name).to_owned()),
    )
}

pub(crate) fn group(global: &Global, args: &GroupArgs) -> Result<(), Failure> {
    let env = Env::real();
    let mut client = connect(&env, global)?;
    match &args.verb {
        GroupVerb::List { state, kind } => list(&mut client, state, kind, global.json),
        GroupVerb::Describe { groups, watch } => match watch {
            Some(pause) => watch_groups(&mut client, global, groups, *pause),
            None => describe(&mut client, global, groups),
        },
        GroupVerb::Reset(args) => reset(&mut client, args, global.json),
        GroupVerb::Delete { groups, topic } => {
            delete(&mut client, groups, topic.as_deref(), global.json)
        }
    }
}

fn list(
    client: &mut Client,
    states: &[String],
    kinds: &[String],
    json: bool,
) -> Result<(), Failure> {
    let mut table = Table::new(&["group", "type", "state", "protocol_type"]);
    for group in client.list_groups(states, kinds)? {
        table.row([
            json!(group.id),
            json!(group.kind),
            json!(group.state),
            json!(group.protocol_type),
        ]);
    }
    if table.is_empty() && !json {
        env::tell!("{}", no_groups(states, kinds));
        return Ok(());
    }
    Ok(table.print(json)?)
}

/// Why a list is empty.
fn no_groups(states: &[String], kinds: &[String]) -> String {
    let mut words = "no groups".to_owned();
    if !kinds.is_empty() {
        words.push_str(&format!(" of type {}", kinds.join(" or ")));
    }
    if !states.is_empty() {
        words.push_str(&format!(" in state {}", states.join(" or ")));
    }
    if kinds.is_empty() && states.is_empty() {
        words.push_str("; a consumer with a group.id makes one");
    }
    words
}

const LAG_COLUMNS: &[&str] = &[
    "topic",
    "partition",
    "committed",
    "log_end",
    "lag",
    "lag_seconds",
    "member",
    "client",
    "host",
    "metadata",
];

/// Describes groups again and again. What fails now may be there the next time, so only an output that is closed ends it.
fn watch_groups(
    client: &mut Client,
    global: &Global,
    groups: &[String],
    pause: Duration,
) -> Result<(), Failure> {
    let clock = std::sync::Arc::clone(&client.env().clock);
    let bell = client.env().threads.bell();
    loop {
        let next = clock.now().plus(pause);
        let mut out = std::io::stdout();
        if !global.json {
            if out.is_terminal() {
                // To the upper left corner, and the screen is empty.
                write!(out, "\x1b[H\x1b[2J")?;
            }
            writeln!(out, "{}", crate::moment::format(clock.wall_ms().0))?;
        }
        match describe(client, global, groups) {
            Err(failure) if failure.is_quiet() => return Err(failure),
            Err(failure) => {
                failure.report();
            }
            Ok(()) => {}
        }
        out.flush()?;
        bell.wait(Some(next));
    }
}

fn describe(client: &mut Client, global: &Global, groups: &[String]) -> Result<(), Failure> {
    let (mut all, mut failures) = (Vec::new(), Vec::new());
    let mut gap = "";
    for name in groups {
        let (group, lags) = match look(client, global, name) {
            Ok(found) => found,
            Err(failure) => {
                failures.push(failure);
                continue;
            }
        };
        if global.json {
            all.push(json!({
                "group": group.id, "type": group.kind, "state": group.state, "assignor": group.assignor,
                "epoch": group.epoch, "last_rebalance": group.last_rebalance,
                "members": group.members.iter().map(member_json).collect::<Vec<Value>>(),
                "partitions": lags.json(),
            }));
            continue;
        }
        let mut out = std::io::stdout().lock();
        write!(
            out,
            "{gap}group {}  {}  {}",
            printable(&group.id),
            printable(group.kind),
            printable(&group.state)
        )?;
        if !group.assignor.is_empty() {
            write!(out, "  assignor {}", printable(&group.assignor))?;
        }
        writeln!(out, "  members {}", group.members.len())?;
        gap = "\n";
        if let Some(reason) = &group.last_rebalance {
            writeln!(out, "last rebalance: {}", printable(reason))?;
        }
        if lags.is_empty() {
            writeln!(out, "nothing committed, nothing assigned")?;
        } else {
            lags.write_text(&mut out)?;
        }
    }
    if global.json {
        crate::table::print_json(&mut std::io::stdout().lock(), &Value::Array(all))?;
    }
    Failure::all(failures)
}

fn look(client: &mut Client, global: &Global, name: &str) -> Result<(GroupInfo, Table), Failure> {
    let group = client
        .describe_group(name)
        .map_err(|error| not_found(error, name))?;
    let committed = client.committed(name)?;
    let lags = lags(client, global, &group, &committed)?;
    Ok((group, lags))
}

fn not_found(error: client::Error, group: &str) -> Failure {
    match error.code() {
        Some(ErrorCode::GroupIdNotFound) => Failure::new(format!("there is no group {group}"))
            .hint("`esker group list` shows those there are"),
        _ => error.into(),
    }
}

fn member_json(member: &GroupMember) -> Value {
    let owned: Vec<Value> = member
        .owned
        .iter()
        .map(|(topic, partition)| json!({"topic": topic, "partition": partition}))
        .collect();
    json!({
        "member": member.id, "instance": member.instance, "client": member.client, "host": member.host,
        "partitions": owned,
    })
}

/// One row for each partition that is committed or owned.
fn lags(
    client: &mut Client,
    global: &Global,
    group: &GroupInfo,
    committed: &BTreeMap<Part, Committed>,
) -> Result<Table, Failure> {
    let mut owners: BTreeMap<&Part, &GroupMember> = BTreeMap::new();
    for member in &group.members {
        owners.extend(member.owned.iter().map(|part| (part, member)));
    }
    let mut parts: Vec<&Part> = committed.keys().chain(owners.keys().copied()).collect();
    parts.sort();
    parts.dedup();
    let logs = logs(client, &parts)?;
    // Trimmed records can no longer be read: they are no part of the lag.
    let unread: BTreeMap<&Part, Range<i64>> = committed
        .iter()
        .filter_map(|(part, at)| {
            let log = logs.get(part)?;
            Some((part, at.offset.max(log.start)..log.end))
        })
        .collect();
    let behind: BTreeMap<&Part, Range<i64>> = unread
        .iter()
        .filter(|(_, unread)| !unread.is_empty())
        .map(|(part, unread)| (*part, unread.clone()))
        .collect();
    let ages = ages(client, global, &behind)?;
    let mut table = Table::new(LAG_COLUMNS);
    for part in parts {
        let (at, end) = (committed.get(part), logs.get(part).map(|log| log.end));
        let lag = unread
            .get(part)
            .map(|unread| (unread.end - unread.start).max(0));
        let seconds = match lag {
            Some(0) => Some(0.0),
            _ => ages.get(part).copied().flatten(),
        };
        let owner = owners.get(part);
        table.row([
            json!(part.0),
            json!(part.1),
            json!(at.map(|at| at.offset)),
            json!(end),
            json!(lag),
            json!(seconds),
            json!(owner.map(|owner| &owner.id)),
            json!(owner.map(|owner| &owner.client)),
            json!(owner.map(|owner| owner.host.trim_start_matches('/'))),
            json!(at.map(|at| &at.metadata)),
        ]);
    }
    Ok(table)
}

/// Where the logs begin and end; nothing for topics that are gone and for partitions without a leader.
fn logs(client: &mut Client, parts: &[&Part]) -> Result<BTreeMap<Part, Range<i64>>, Failure> {
    let mut by_topic: BTreeMap<&str, Vec<i32>> = BTreeMap::new();
    for (topic, partition) in parts {
        by_topic.entry(topic).or_default().push(*partition);
    }
    let mut logs = BTreeMap::new();
    for (topic, partitions) in by_topic {
        let isolation = Isolation::ReadUncommitted;
        let (led, leaderless) = match consume::divided(client, (topic, isolation), &partitions) {
            Err(client::Error::NoTopic { .. }) => continue,
            divided => divided?,
        };
        if !leaderless.is_empty() {
            let theirs = "end is not known: `esker cluster status` says why";
            consume::report_leaderless(topic, &leaderless, theirs);
        }
        let mut find = |place: OffsetSpec| {
            let places: Vec<(i32, OffsetSpec)> = led.iter().map(|it| (*it, place)).collect();
            client.resolve(topic, &places, isolation)
        };
        let found =
            find(OffsetSpec::Beginning).and_then(|starts| Ok((starts, find(OffsetSpec::End)?)));
        match found {
            Ok((starts, ends)) => logs.extend(ends.into_iter().filter_map(|(partition, end)| {
                let start = *starts.get(&partition)?;
                Some(((topic.to_owned(), partition), start..end))
            })),
            Err(client::Error::NoTopic { .. } | client::Error::NoPartition { .. }) => {}
            Err(error) => return Err(error.into()),
        }
    }
    Ok(logs)
}

/// How old the first record is that the group can read and has not, in seconds: 0 where nothing is left but markers of
/// transactions, none where that record has no time. What was not found out within `LAG_WAIT` is left out.
fn ages(
    client: &mut Client,
    global: &Global,
    behind: &BTreeMap<&Part, Range<i64>>,
) -> Result<BTreeMap<Part, Option<f64>>, Failure> {
    let mut ages = BTreeMap::new();
    let clock = std::sync::Arc::clone(&client.env().clock);
    let until = clock.now().plus(LAG_WAIT);
    let options = ConsumerOptions {
        partition_bytes_max: LAG_BYTES,
        isolation: Isolation::ReadUncommitted,
        wait: Duration::from_millis(100),
        ..ConsumerOptions::default()
    };
    let mut consumer = Consumer::new(connect(client.env(), global)?, options);
    for ((topic, partition), unread) in behind {
        consumer.assign(topic, *partition, unread.start)?;
    }
    while ages.len() < behind.len() && clock.now() < until {
        let fetched = match consumer.poll() {
            Ok(fetched) => fetched,
            // Trimmed since its beginning was asked for: what was found until now is told.
            Err(client::Error::OutOfRange { .. }) => break,
            Err(error) => return Err(error.into()),
        };
        let now = clock.wall_ms().0;
        for answer in fetched {
            let part = (answer.topic.to_string(), answer.partition);
            let mut first = None;
            let _ = answer.each(|record| {
                first = Some(record.timestamp);
                ControlFlow::Break(())
            })?;
            let (at, end) = (consumer.position(&part.0, part.1), behind[&part].end);
            let age = match first {
                Some(timestamp) if timestamp < 0 => None,
                Some(timestamp) => Some((now - timestamp).max(0) as f64 / 1000.0),
                None if at.is_some_and(|at| at < end) => continue,
                None => Some(0.0),
            };
            consumer.pause(&part.0, part.1);
            ages.entry(part).or_insert(age);
        }
    }
    Ok(ages)
}

fn reset(client: &mut Client, args: &ResetArgs, json: bool) -> Result<(), Failure> {
    let committed = client.committed(&args.group)?;
    let mut wanted: BTreeMap<String, Vec<i32>> = BTreeMap::new();
    if args.topic.is_empty() {
        for (topic, partition) in committed.keys() {
            wanted.entry(topic.clone()).or_default().push(*partition);
        }
    }
    for topic in &args.topic {
        let all = client.topic(topic)?;
        wanted.insert(topic.clone(), consume::chosen(&all, &args.partition)?);
    }
    if args.topic.is_empty() && !args.partition.is_empty() {
        for partitions in wanted.values_mut() {
            partitions.retain(|partition| args.partition.contains(partition));
        }
    }
    if wanted.values().all(Vec::is_empty) {
        return Err(Failure::new(format!(
            "group {} has committed nothing to move",
            args.group
        ))
        .hint("name a topic with --topic to set its offsets"));
    }
    let mut moved: BTreeMap<Part, i64> = BTreeMap::new();
    let mut table = Table::new(&["topic", "partition", "before", "after"]);
    for (topic, partitions) in &wanted {
        let after = target(client, topic, partitions, &args.to, &committed)?;
        for (partition, after) in after {
            let part = (topic.clone(), partition);
            let before = committed.get(&part).map(|at| at.offset);
            table.row([json!(topic), json!(partition), json!(before), json!(after)]);
            moved.insert(part, after);
        }
    }
    if !args.dry_run {
        client
            .commit_for(&args.group, &moved)
            .map_err(|error| match error.code() {
                Some(ErrorCode::UnknownMemberId) => {
                    Failure::new(format!("group {} has members", args.group))
                        .hint("stop its consumers first: their own commits would undo the reset")
                }
                _ => error.into(),
            })?;
    }
    Ok(table.print(json)?)
}

/// Where the partitions of one topic are to be read from, within what their logs keep.
fn target(
    client: &mut Client,
    topic: &str,
    partitions: &[i32],
    to: &Target,
    committed: &BTreeMap<Part, Committed>,
) -> Result<BTreeMap<i32, i64>, Failure> {
    let isolation = Isolation::ReadUncommitted;
    let mut at = |place: OffsetSpec| {
        let places: Vec<(i32, OffsetSpec)> =
            partitions.iter().map(|index| (*index, place)).collect();
        client.resolve(topic, &places, isolation)
    };
    let (starts, ends) = (at(OffsetSpec::Beginning)?, at(OffsetSpec::End)?);
    let mut asked = match (to.to, to.by_duration, to.shift_by) {
        (Some(place), _, _) => at(place)?,
        (_, Some(age), _) => {
            let age = i64::try_from(age.as_millis()).unwrap_or(i64::MAX);
            let now = client.env().clock.wall_ms().0;
            let places: Vec<(i32, OffsetSpec)> = partitions
                .iter()
                .map(|index| (*index, OffsetSpec::Time(now.saturating_sub(age))))
                .collect();
            client.resolve(topic, &places, isolation)?
        }
        (_, _, shift) => {
            let by = shift.unwrap_or(0);
            let from = |index: &i32| {
                let at = committed.get(&(topic.to_owned(), *index));
                let at = at.ok_or_else(|| {
                    Failure::new(format!("nothing is committed for {topic}-{index} to shift"))
                        .hint("leave it out with --partition, or say --to")
                })?;
                Ok((*index, at.offset.saturating_add(by)))
            };
            partitions
                .iter()
                .map(from)
                .collect::<Result<_, Failure>>()?
        }
    };
    for (partition, offset) in &mut asked {
        let start = starts.get(partition).copied().unwrap_or(0);
        let end = ends.get(partition).copied().unwrap_or(i64::MAX);
        let within = (*offset).clamp(start, end.max(start));
        if within != *offset {
            env::tell!(
                "{topic}-{partition} keeps the offsets from {start} up to {end}: {within} is taken for {offset}"
            );
        }
        *offset = within;
    }
    Ok(asked)
}

fn delete(
    client: &mut Client,
    groups: &[String],
    topic: Option<&str>,
    json: bool,
) -> Result<(), Failure> {
    let mut table = Table::new(&["group", "topic"]);
    let mut failures = Vec::new();
    for group in groups {
        let deleted = match topic {
            None => delete_group(client, group),
            Some(topic) => delete_committed(client, group, topic),
        };
        match deleted {
            Ok(()) => table.row([json!(group), json!(topic)]),
            Err(failure) => failures.push(failure),
        }
    }
    crate::topic::print_done(&table, &failures, json)?;
    Failure::all(failures)
}

fn delete_group(client: &mut Client, group: &str) -> Result<(), Failure> {
    client
        .delete_group(group)
        .map_err(|error| match error.code() {
            Some(ErrorCode::NonEmptyGroup) => {
                Failure::new(format!("group {group} has members")).hint("stop its consumers first")
            }
            _ => not_found(error, group),
        })
}

fn delete_committed(client: &mut Client, group: &str, topic: &str) -> Result<(), Failure> {
    let mut partitions: Vec<i32> = client
        .committed(group)?
        .into_keys()
        .filter(|(name, _)| name == topic)
        .map(|(_, partition)| partition)
        .collect();
    let is_nothing = partitions.is_empty();
    if is_nothing {
        // Asked all the same, because the broker knows more: whether there is such a group, and whether it reads the topic.
        partitions = consume::chosen(&client.topic(topic)?, &[])?;
    }
    client
        .delete_committed(group, topic, &partitions)
        .map_err(|error| match error.code() {
            Some(ErrorCode::GroupSubscribedToTopic) => {
                Failure::from(error).hint("stop its consumers first")
            }
            _ => not_found(error, group),
        })?;
    if is_nothing {
        let words = format!("group {group} has committed nothing for topic {topic}");
        return Err(Failure::new(words));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_states_are_known_however_they_are_typed() {
        assert_eq!(state("stable"), Ok("Stable".to_owned()));
        assert!(state("foo").unwrap_err().contains("PreparingRebalance"));
        assert!(kind("foo").unwrap_err().contains("classic, consumer"));
    }
}
