//! `esker consume`: records of a topic to standard output.

mod group;

use std::collections::BTreeMap;
use std::io::{BufWriter, Write};
use std::ops::ControlFlow;
use std::sync::Arc;
use std::time::Duration;

use clap::Args;
use client::{
    Client, Consumer, ConsumerOptions, Fetched, OffsetSpec, Outage, Outages, Skipped, Taken, Topic,
};
use env::Env;
use model::Instant;

use crate::arguments::Global;
use crate::connect::{connect, outages};
use crate::failure::Failure;
use crate::moment;
use crate::template::{Shown, Template, write_json};

#[derive(Args, Debug)]
pub(crate) struct ConsumeArgs {
    pub(crate) topic: String,
    /// Where to begin: `beginning`, `end`, an offset, `-N` (the last N of each partition), `-1h` (an hour ago; also d, m, s), or `@`
    /// and a time (milliseconds since 1970, RFC 3339, or local such as 2026-11-21 09:30)
    #[arg(short = 'o', long, visible_alias = "offset", value_name = "WHERE", default_value = "beginning", allow_hyphen_values = true, value_parser = place)]
    pub(crate) from: OffsetSpec,
    /// Stop after this many records
    #[arg(
        short = 'n',
        long,
        visible_alias = "max-messages",
        value_name = "RECORDS"
    )]
    pub(crate) count: Option<u64>,
    /// Stop at the end of the topic as it is now, instead of waiting for more
    #[arg(short = 'e', long)]
    pub(crate) exit: bool,
    /// How to print a record: %t topic, %p partition, %o offset, %T timestamp, %k key, %K its length, %s value, %S its
    /// length, %R its length as 4 bytes, %h headers; \n \r \t \xHH
    #[arg(short, long, value_name = "FORMAT", conflicts_with = "json")]
    pub(crate) format: Option<Template>,
    /// Only these partitions
    #[arg(short, long, value_name = "LIST", value_delimiter = ',', allow_negative_numbers = true, value_parser = crate::arguments::partition)]
    pub(crate) partition: Vec<i32>,
    /// Read as a member of this consumer group: from where it has committed, else from --from; what was printed is committed
    #[arg(short, long, value_name = "GROUP", conflicts_with = "partition")]
    pub(crate) group: Option<String>,
    /// Hide records of open and aborted transactions
    #[arg(
        long,
        value_enum,
        default_value = "read-committed",
        value_name = "LEVEL"
    )]
    pub(crate) isolation: Isolation,
    /// Go on behind records that are damaged, and say which offsets were passed over
    #[arg(long)]
    pub(crate) skip_damaged: bool,
}

#[derive(clap::ValueEnum, Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Isolation {
    ReadCommitted,
    ReadUncommitted,
}

impl From<Isolation> for client::Isolation {
    fn from(isolation: Isolation) -> client::Isolation {
        match isolation {
            Isolation::ReadCommitted => client::Isolation::ReadCommitted,
            Isolation::ReadUncommitted => client::Isolation::ReadUncommitted,
        }
    }
}

pub(crate) fn place(text: &str) -> Result<OffsetSpec, String> {
    match text {
        "beginning" | "earliest" | "start" => return Ok(OffsetSpec::Beginning),
        "end" | "latest" => return Ok(OffsetSpec::End),
        _ => {}
    }
    if let Some(time) = text.strip_prefix('@') {
        return moment::parse(time).map(OffsetSpec::Time);
    }
    if let Some(age) = text.strip_prefix('-')
        && age.ends_with(|unit: char| unit.is_ascii_alphabetic())
    {
        let age = i64::try_from(moment::duration(age)?.as_millis()).unwrap_or(i64::MAX);
        let now = Env::real().clock.wall_ms().0;
        return Ok(OffsetSpec::Time(now.saturating_sub(age).max(0)));
    }
    match text.parse::<i64>() {
        Ok(offset) if offset >= 0 => Ok(OffsetSpec::Offset(offset)),
        Ok(last) if last > i64::MIN => Ok(OffsetSpec::Last(-last)),
        _ => Err(format!(
            "`{text}` is none of: beginning, end, an offset, -N, -1h, @time"
        )),
    }
}

/// Where a trim may end: what [`place`] accepts but for `beginning` and `-N`, which would surprise.
pub(crate) fn trim_place(text: &str) -> Result<OffsetSpec, String> {
    match place(text)? {
        OffsetSpec::Beginning | OffsetSpec::Last(_) => {
            Err(format!("`{text}` is none of: an offset, end, @time"))
        }
        place => Ok(place),
    }
}

/// The partitions that were asked for, or all.
pub(crate) fn chosen(topic: &Topic, asked: &[i32]) -> Result<Vec<i32>, Failure> {
    let count = topic.partitions.len() as i32;
    if let Some(partition) = asked.iter().find(|index| !(0..count).contains(*index)) {
        return Err(client::Error::NoPartition {
            topic: topic.name.clone(),
            partition: *partition,
            count,
        }
        .into());
    }
    let mut chosen = if asked.is_empty() {
        (0..count).collect()
    } else {
        asked.to_vec()
    };
    chosen.sort_unstable();
    chosen.dedup();
    Ok(chosen)
}

/// An offset above the end of every partition that was asked for.
pub(crate) fn beyond(
    topic: &str,
    asked: i64,
    starts: &BTreeMap<i32, i64>,
    ends: &BTreeMap<i32, i64>,
) -> Failure {
    let (log_start, log_end) = (
        starts.values().min().copied().unwrap_or(0),
        ends.values().max().copied().unwrap_or(0),
    );
    match ends.keys().collect::<Vec<_>>()[..] {
        [partition] => Failure::from(client::Error::OutOfRange {
            topic: topic.to_owned(),
            partition: *partition,
            asked,
            log_start,
            log_end,
        }),
        _ => Failure::new(format!(
            "the partitions of {topic} keep offsets from {log_start} up to {log_end}; {asked} is outside of them"
        ))
        .hint("read from what is there with --from beginning"),
    }
}

/// A partition whose leader gives no answer in this time is read after the others.
const LEADER_WAIT: Duration = Duration::from_secs(3);
/// Between two looks for the leader of partitions of which none has one, or that a group's member waits for.
const LEADER_PAUSE: Duration = Duration::from_secs(1);
/// Between two looks for partitions that are new: a metadata request of one topic, so a hundred readers cost 20 a second.
const NEW_PARTITIONS_PAUSE: Duration = Duration::from_secs(5);

/// Looks for new partitions of a topic that is read as a whole, and for leaders of those that had none.
struct Growth {
    /// Partitions that are known; `None` if no others are wanted.
    known: Option<i32>,
    leaderless: Vec<i32>,
    next_look: Instant,
}

impl Growth {
    fn new(client: &Client, known: Option<usize>, leaderless: &[i32]) -> Growth {
        Growth {
            known: known.map(|known| known as i32),
            leaderless: leaderless.to_vec(),
            next_look: client.env().clock.now().plus(NEW_PARTITIONS_PAUSE),
        }
    }

    fn follow(&mut self, consumer: &mut Consumer, args: &ConsumeArgs) -> Result<(), Failure> {
        let now = consumer.client().env().clock.now();
        if now < self.next_look || (self.known.is_none() && self.leaderless.is_empty()) {
            return Ok(());
        }
        self.next_look = now.plus(NEW_PARTITIONS_PAUSE);
        let topic = &args.topic;
        consumer.client().forget_topic(topic);
        let found = match consumer.client().topic(topic) {
            // The next poll waits for it.
            Err(error) if error.is_outage() => return Ok(()),
            found => found?,
        };
        let has_leader = |index: i32| {
            let partition = found.partitions.get(index as usize);
            partition.is_some_and(|partition| partition.leader.is_some())
        };
        for index in std::mem::take(&mut self.leaderless) {
            let start = has_leader(index)
                .then(|| soon(consumer.client(), args, &[index], args.from))
                .transpose();
            match start {
                Ok(Some(start)) => consumer.assign(topic, index, start[&index])?,
                Ok(None) => self.leaderless.push(index),
                Err(error) if error.is_outage() => self.leaderless.push(index),
                Err(error) => return Err(error.into()),
            }
        }
        // New partitions are read from their beginning, wherever the others were begun: all they hold came since.
        while let Some(known) = self.known
            && has_leader(known)
        {
            consumer.assign(topic, known, 0)?;
            self.known = Some(known + 1);
        }
        Ok(())
    }
}

/// Resolves a place of partitions, unless their leaders do not answer soon.
fn soon(
    client: &mut Client,
    args: &ConsumeArgs,
    partitions: &[i32],
    place: OffsetSpec,
) -> Result<BTreeMap<i32, i64>, client::Error> {
    soon_of(
        client,
        (&args.topic, args.isolation.into()),
        partitions,
        place,
    )
}

fn soon_of(
    client: &mut Client,
    (topic, isolation): (&str, client::Isolation),
    partitions: &[i32],
    place: OffsetSpec,
) -> Result<BTreeMap<i32, i64>, client::Error> {
    client.within(LEADER_WAIT, |client| {
        client.resolve(topic, &places(partitions, place), isolation)
    })
}

fn places(partitions: &[i32], place: OffsetSpec) -> Vec<(i32, OffsetSpec)> {
    partitions.iter().map(|index| (*index, place)).collect()
}

/// The partitions that can be read now, and those without a leader that answers.
pub(crate) fn divided(
    client: &mut Client,
    (name, isolation): (&str, client::Isolation),
    all: &[i32],
) -> Result<(Vec<i32>, Vec<i32>), client::Error> {
    let is_away = |client: &mut Client, some: &[i32]| {
        let found = soon_of(client, (name, isolation), some, OffsetSpec::End);
        found.is_err_and(|error| error.is_outage())
    };
    if all.is_empty() || !is_away(client, all) {
        return Ok((all.to_vec(), Vec::new()));
    }
    let topic = match client.topic(name) {
        Err(error) if error.is_outage() => return Ok((Vec::new(), all.to_vec())),
        topic => topic?,
    };
    let mut by_leader: BTreeMap<Option<i32>, Vec<i32>> = BTreeMap::new();
    for index in all {
        let partition = topic.partitions.get(*index as usize);
        let leader = partition.and_then(|partition| partition.leader);
        by_leader.entry(leader).or_default().push(*index);
    }
    let is_only = by_leader.len() == 1;
    let (mut led, mut leaderless) = (Vec::new(), Vec::new());
    for (leader, some) in by_leader {
        let is_led = leader.is_some() && !is_only && !is_away(client, &some);
        let of = if is_led { &mut led } else { &mut leaderless };
        of.extend(some);
    }
    led.sort_unstable();
    leaderless.sort_unstable();
    Ok((led, leaderless))
}

/// Writes a line that names partitions without a leader, and what becomes of `theirs`.
pub(crate) fn report_leaderless(topic: &str, leaderless: &[i32], theirs: &str) {
    let (what, their) = match leaderless {
        [one] => (format!("partition {one} of {topic} has"), "its"),
        all => (
            format!("partitions {} of {topic} have", list(all, ", ")),
            "their",
        ),
    };
    env::tell!("{what} no leader that answers, and {their} {theirs}");
}

fn list(of: &[i32], comma: &str) -> String {
    let of: Vec<String> = of.iter().map(i32::to_string).collect();
    of.join(comma)
}

pub(crate) fn consume(global: &Global, args: &ConsumeArgs) -> Result<(), Failure> {
    match &args.group {
        Some(group) => group::consume(global, args, group),
        None => read(global, args),
    }
}

fn options(global: &Global, args: &ConsumeArgs) -> ConsumerOptions {
    ConsumerOptions {
        isolation: args.isolation.into(),
        outages: if args.exit {
            Outages::Bounded
        } else {
            outages(global)
        },
        skip_damaged: args.skip_damaged.then_some(report_skipped as fn(&Skipped)),
        ..ConsumerOptions::default()
    }
}

/// Reads without a group.
fn read(global: &Global, args: &ConsumeArgs) -> Result<(), Failure> {
    let mut client = connect(&Env::real(), global)?;
    let topic = client.topic(&args.topic)?;
    let all = chosen(&topic, &args.partition)?;
    let (led, leaderless) = led_first(&mut client, global, args, all)?;
    let known = args.partition.is_empty().then_some(topic.partitions.len());
    let growth = (!args.exit).then(|| Growth::new(&client, known, &leaderless));
    let mut left = Left::new(args.count);
    read_of(global, args, client, &led, growth, &mut left)?;
    if leaderless.is_empty() || left.records == Some(0) {
        return Ok(());
    }
    let client = connect(&Env::real(), global)?;
    read_of(global, args, client, &leaderless, None, &mut left)
}

/// The partitions to be read first, and those without a leader that answers. A reader that outlives outages waits for the first leader.
/// One that does not has all to be read, if none can be: what it reads then says why.
fn led_first(
    client: &mut Client,
    global: &Global,
    args: &ConsumeArgs,
    all: Vec<i32>,
) -> Result<(Vec<i32>, Vec<i32>), Failure> {
    let of = (args.topic.as_str(), args.isolation.into());
    let (mut led, mut leaderless) = divided(client, of, &all)?;
    if leaderless.is_empty() {
        return Ok((led, leaderless));
    }
    if !led.is_empty() {
        let theirs = format!(
            "records come last, if ever: `esker cluster status` says why, and -p {} reads the others alone",
            list(&led, ",")
        );
        report_leaderless(&args.topic, &leaderless, &theirs);
        return Ok((led, leaderless));
    }
    let Outages::Outlived(report) = options(global, args).outages else {
        return Ok((all, Vec::new()));
    };
    report_leaderless(
        &args.topic,
        &leaderless,
        "records are waited for: `esker cluster status` says why",
    );
    let (clock, bell) = (Arc::clone(&client.env().clock), client.env().threads.bell());
    let began = clock.now();
    while led.is_empty() {
        bell.wait(Some(clock.now().plus(LEADER_PAUSE)));
        client.forget_topic(&args.topic);
        (led, leaderless) = divided(client, of, &all)?;
    }
    report(Outage::Over(clock.now().since(began)));
    Ok((led, leaderless))
}

fn read_of(
    global: &Global,
    args: &ConsumeArgs,
    mut client: Client,
    indexes: &[i32],
    mut growth: Option<Growth>,
    left: &mut Left,
) -> Result<(), Failure> {
    let isolation = args.isolation.into();
    let at = |place: OffsetSpec| places(indexes, place);
    let starts = client.resolve(&args.topic, &at(args.from), isolation)?;
    if args.exit {
        left.ends = client.resolve(&args.topic, &at(OffsetSpec::End), isolation)?;
        if let OffsetSpec::Offset(offset) = args.from
            && left.ends.values().all(|end| *end < offset)
        {
            let begins = client.resolve(&args.topic, &at(OffsetSpec::Beginning), isolation)?;
            return Err(beyond(&args.topic, offset, &begins, &left.ends));
        }
        left.ends
            .retain(|index, end| starts.get(index).is_some_and(|start| start < end));
    }
    if args.count == Some(0) || (args.exit && left.ends.is_empty()) {
        return Ok(());
    }
    let mut consumer = Consumer::new(client, options(global, args));
    for (index, start) in &starts {
        if !args.exit || left.ends.contains_key(index) {
            consumer.assign(&args.topic, *index, *start)?;
        }
    }
    let printer = Printer::of(global, args);
    let mut out = BufWriter::with_capacity(256 << 10, std::io::stdout().lock());
    loop {
        let fetched = match consumer.poll() {
            Ok(fetched) => fetched,
            Err(error) => {
                out.flush()?;
                return Err(stopped(&mut consumer, error));
            }
        };
        for fetched in fetched {
            if print(&fetched, &printer, left, &mut out)? {
                return Ok(out.flush()?);
            }
        }
        out.flush()?;
        if let Some(growth) = &mut growth {
            growth.follow(&mut consumer, args)?;
        }
        if args.exit {
            // Offsets that hold no record to show (markers, aborted or compacted records) also count as read.
            left.ends.retain(|index, end| {
                consumer
                    .position(&args.topic, *index)
                    .is_some_and(|next| next < *end)
            });
            if left.ends.is_empty() {
                return Ok(());
            }
        }
    }
}

fn report_skipped(skipped: &Skipped) {
    let Skipped {
        topic,
        partition,
        from,
        to,
        why,
    } = skipped;
    env::tell!("skipped the offsets {from} up to {to} of {topic}-{partition}: {why}");
}

/// Why reading ended; at damage with the offset from which on there is something to read.
fn stopped(consumer: &mut Consumer, error: client::Error) -> Failure {
    let Some((topic, partition, offset)) = error.damage() else {
        return error.into();
    };
    let next = consumer.client().next_good(topic, partition, offset);
    let failure = Failure::from(error);
    match next {
        Ok(Some(next)) => failure.after(format!("the next offset that can be read is {next}")),
        Ok(None) => failure.after("nothing behind it can be read"),
        // The first failure is the one to report.
        Err(_) => failure,
    }
}

enum Printer {
    /// Values, each with a line feed.
    Lines,
    Json,
    Template(Template),
}

impl Printer {
    fn of(global: &Global, args: &ConsumeArgs) -> Printer {
        if global.json {
            return Printer::Json;
        }
        let format = args.format.clone();
        format.map_or(Printer::Lines, Printer::Template)
    }
}

/// The records that are still to be read before we are done.
struct Left {
    records: Option<u64>,
    /// Ends of partitions that are not reached, when there are ends.
    ends: BTreeMap<i32, i64>,
    /// One past the offset of the record that was printed last.
    after_last: i64,
}

impl Left {
    fn new(records: Option<u64>) -> Left {
        Left {
            records,
            ends: BTreeMap::new(),
            after_last: 0,
        }
    }
}

/// Prints the records of one answer; `true` when the last wanted record was among them.
fn print(
    fetched: &Fetched,
    printer: &Printer,
    left: &mut Left,
    out: &mut impl Write,
) -> Result<bool, Failure> {
    let end = left
        .ends
        .get(&fetched.partition)
        .copied()
        .unwrap_or(i64::MAX);
    let stopped = fetched.each(|record| {
        // Records after the end as it was when we began are for the next reader.
        if record.offset >= end {
            return ControlFlow::Break(Ok(false));
        }
        // Without headers, as most records are, this allocates nothing.
        let headers: Vec<_> = record
            .headers
            .iter()
            .map(|header| (header.key, header.value))
            .collect();
        if let Err(error) = write(fetched, record, &headers, printer, out) {
            return ControlFlow::Break(Err(error));
        }
        left.after_last = record.offset + 1;
        if let Some(records) = &mut left.records {
            *records -= 1;
            if *records == 0 {
                return ControlFlow::Break(Ok(true));
            }
        }
        ControlFlow::Continue(())
    })?;
    match stopped {
        ControlFlow::Break(result) => Ok(result?),
        ControlFlow::Continue(()) => Ok(false),
    }
}

fn write(
    fetched: &Fetched,
    record: &Taken<'_>,
    headers: &[(&[u8], Option<&[u8]>)],
    printer: &Printer,
    out: &mut impl Write,
) -> std::io::Result<()> {
    let shown = Shown {
        topic: &fetched.topic,
        partition: fetched.partition,
        offset: record.offset,
        timestamp: record.timestamp,
        key: record.key,
        value: record.value,
        headers,
    };
    match printer {
        Printer::Lines => {
            out.write_all(record.value.unwrap_or_default())?;
            out.write_all(b"\n")
        }
        Printer::Json => write_json(&shown, out),
        Printer::Template(template) => template.write(&shown, out),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places_read_as_people_write_them() {
        for (text, want) in [
            ("beginning", OffsetSpec::Beginning),
            ("end", OffsetSpec::End),
            ("0", OffsetSpec::Offset(0)),
            ("77", OffsetSpec::Offset(77)),
            ("-10", OffsetSpec::Last(10)),
            ("@1700000000000", OffsetSpec::Time(1_700_000_000_000)),
            ("@1970-01-01T00:00:01Z", OffsetSpec::Time(1000)),
        ] {
            assert_eq!(place(text), Ok(want), "{text}");
        }
        let Ok(OffsetSpec::Time(hour_ago)) = place("-1h") else {
            panic!("a duration is a time")
        };
        let age = Env::real().clock.wall_ms().0 - hour_ago;
        assert!((3_600_000..3_660_000).contains(&age), "{age}");
        for text in [
            "",
            "-h",
            "-1x",
            "middle",
            "@",
            "@soon",
            "1.5",
            "-9223372036854775808",
        ] {
            assert!(place(text).is_err(), "{text} was accepted");
        }
    }

    #[test]
    fn a_trim_needs_a_place_that_deletes_something_sure() {
        assert!(trim_place("end").is_ok() && trim_place("5").is_ok());
        assert!(trim_place("beginning").is_err() && trim_place("-5").is_err());
    }
}
