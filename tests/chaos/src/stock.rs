//! Clients that nobody here wrote read the same at the end, at both levels of isolation: kcat, and Kafka's console consumer where
//! `KAFKA_JARS_DIR` names a directory of Kafka's jars.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::fmt::Debug;
use std::process::Command;

use client::Isolation;

use crate::ledger::{Log, Value};
use crate::place::Place;

/// Of all partitions: values by partition and offset.
pub(crate) type Records<T> = BTreeMap<(i32, i64), T>;

/// Longer than any read of a whole topic takes here.
const SECONDS_MAX: &str = "60";
/// Partition, offset, size and value of a record; the value may be any bytes.
const FORMAT: &str = "%p %o %S %s";
const JARS: &str = "KAFKA_JARS_DIR";
/// Of Kafka's client: errors to stderr, nothing else.
const LOGGING: &str = concat!(
    "-Dlog4j2.configurationFile=",
    env!("CARGO_MANIFEST_DIR"),
    "/../clients/java/log4j2.properties"
);
/// How long the console consumer waits for a record that should be there.
const SILENCE_MS_MAX: &str = "20000";

fn is_kcat_installed() -> bool {
    let asked = Command::new("kcat").arg("-V").output();
    asked.is_ok_and(|output| output.status.success())
}

/// Kafka's jars, if somebody says where they are.
fn jars() -> Option<OsString> {
    std::env::var_os(JARS).filter(|named| !named.is_empty())
}

/// The scenario says who has read it back, and misses kcat where it is not there.
pub(crate) fn tell(place: &Place) {
    if is_kcat_installed() {
        place.say("kcat read the same at both levels of isolation")
    } else {
        place.miss("kcat is not installed: it has not read it back")
    }
    if jars().is_some() {
        place.say("Kafka's console consumer read the same at both levels of isolation");
    }
}

/// Without transactions both levels show everything.
pub(crate) fn check_log(address: &str, topic: &str, log: &Log) -> Result<(), String> {
    let ours: Records<Option<Value>> = log
        .iter()
        .flat_map(|(partition, records)| {
            let at = |(offset, value): (&i64, &Value)| ((*partition, *offset), Some(*value));
            records.iter().map(at)
        })
        .collect();
    for isolation in [Isolation::ReadCommitted, Isolation::ReadUncommitted] {
        check(address, topic, isolation, &ours, Value::of)?;
    }
    Ok(())
}

/// The others read what we have read at this level, if they are there.
pub(crate) fn check<T: PartialEq + Debug>(
    address: &str,
    topic: &str,
    isolation: Isolation,
    ours: &Records<T>,
    value: impl Fn(&[u8]) -> T,
) -> Result<(), String> {
    let level = match isolation {
        Isolation::ReadCommitted => "read_committed",
        Isolation::ReadUncommitted => "read_uncommitted",
    };
    if is_kcat_installed() {
        let read = kcat(address, topic, level);
        let theirs = read.and_then(|printed| records(&printed, &value));
        theirs
            .and_then(|theirs| compare(ours, &theirs))
            .map_err(|why| format!("kcat, {level}: {why}"))?;
    }
    // It is told how many there are, and would wait for one when there is none.
    if let Some(jars) = jars().filter(|_| !ours.is_empty()) {
        let read = console(&jars, address, topic, level, ours.len());
        let theirs = read.and_then(|printed| lines(&printed, &value));
        theirs
            .and_then(|theirs| compare(ours, &theirs))
            .map_err(|why| format!("kafka-console-consumer, {level}: {why}"))?;
    }
    Ok(())
}

fn kcat(address: &str, topic: &str, level: &str) -> Result<Vec<u8>, String> {
    let mut command = Command::new("timeout");
    command
        .args([SECONDS_MAX, "kcat", "-C", "-e", "-q", "-b", address])
        .args(["-t", topic, "-o", "beginning", "-f", FORMAT])
        .args(["-X", "check.crcs=true", "-X"])
        .arg(format!("isolation.level={level}"));
    output(command)
}

/// Knows no end: it leaves after `count` records, so what it would read too much stands in place of something else.
fn console(
    jars: &OsString,
    address: &str,
    topic: &str,
    level: &str,
    count: usize,
) -> Result<Vec<u8>, String> {
    let mut classes = jars.clone();
    classes.push("/*");
    let mut command = Command::new("timeout");
    command
        .args([SECONDS_MAX, "java", "-Xmx256m", "-XX:+UseSerialGC"])
        .args(["-XX:TieredStopAtLevel=1", LOGGING, "-cp"])
        .arg(classes)
        .arg("org.apache.kafka.tools.consumer.ConsoleConsumer")
        .args(["--bootstrap-server", address, "--topic", topic])
        .args(["--from-beginning", "--isolation-level", level])
        .args(["--timeout-ms", SILENCE_MS_MAX, "--max-messages"])
        .arg(count.to_string());
    for property in [
        "print.partition=true",
        "print.offset=true",
        "value.deserializer=org.apache.kafka.common.serialization.BytesDeserializer",
    ] {
        command.args(["--formatter-property", property]);
    }
    output(command)
}

/// Its standard output; the error is its standard error.
fn output(mut command: Command) -> Result<Vec<u8>, String> {
    let done = command.output().map_err(|error| error.to_string())?;
    if done.status.success() {
        Ok(done.stdout)
    } else {
        let said = String::from_utf8_lossy(&done.stderr);
        Err(format!("{}: {said}", done.status))
    }
}

/// The records that kcat printed.
fn records<T>(mut bytes: &[u8], value: impl Fn(&[u8]) -> T) -> Result<Records<T>, String> {
    let mut records = Records::new();
    while !bytes.is_empty() {
        let mut number = || {
            let end = bytes.iter().position(|byte| *byte == b' ')?;
            let number = std::str::from_utf8(&bytes[..end]).ok()?.parse::<i64>().ok();
            bytes = &bytes[end + 1..];
            number
        };
        let (Some(partition), Some(offset), Some(size)) = (number(), number(), number()) else {
            return Err(format!("no record where {} bytes are left", bytes.len()));
        };
        let Some((read, rest)) = bytes.split_at_checked(size as usize) else {
            return Err(format!("{partition}/{offset} is cut off"));
        };
        bytes = rest;
        let place = (partition as i32, offset);
        if records.insert(place, value(read)).is_some() {
            return Err(format!("{partition}/{offset} came twice"));
        }
    }
    Ok(records)
}

/// The lines of the console consumer: `Partition:0\tOffset:7\t` and the value, in which what is not printable is `\x` and two digits.
fn lines<T>(bytes: &[u8], value: impl Fn(&[u8]) -> T) -> Result<Records<T>, String> {
    let text = std::str::from_utf8(bytes).map_err(|error| error.to_string())?;
    let mut records = Records::new();
    for line in text.lines() {
        let parsed = || {
            let mut parts = line.splitn(3, '\t');
            let partition = parts.next()?.strip_prefix("Partition:")?.parse().ok()?;
            let offset = parts.next()?.strip_prefix("Offset:")?.parse().ok()?;
            Some(((partition, offset), unescaped(parts.next()?)?))
        };
        let Some((place, read)) = parsed() else {
            return Err(format!("no record: {line}"));
        };
        if records.insert(place, value(&read)).is_some() {
            return Err(format!("{}/{} came twice", place.0, place.1));
        }
    }
    Ok(records)
}

/// As Kafka's `Bytes` is printed; a backslash is escaped, too.
fn unescaped(text: &str) -> Option<Vec<u8>> {
    let mut parts = text.split("\\x");
    let mut bytes = parts.next()?.as_bytes().to_vec();
    for part in parts {
        let (digits, rest) = part.split_at_checked(2)?;
        bytes.push(u8::from_str_radix(digits, 16).ok()?);
        bytes.extend_from_slice(rest.as_bytes());
    }
    Some(bytes)
}

fn compare<T: PartialEq + Debug>(ours: &Records<T>, theirs: &Records<T>) -> Result<(), String> {
    for (place, value) in ours {
        let found = theirs.get(place);
        if found != Some(value) {
            return Err(format!("{value:?} is at {place:?}, it read {found:?}"));
        }
    }
    let is_more = |place: &&(i32, i64)| !ours.contains_key(*place);
    match theirs.keys().find(is_more) {
        Some(place) => Err(format!("it read {:?} at {place:?}", theirs[place])),
        None => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_printed_is_read_and_every_difference_is_told() {
        let printed = b"0 0 3 a b1 7 0 0 1 2 \n ";
        let theirs = records(printed, <[u8]>::to_vec).unwrap();
        let ours = Records::from([
            ((0, 0), b"a b".to_vec()),
            ((0, 1), b"\n ".to_vec()),
            ((1, 7), Vec::new()),
        ]);
        assert_eq!(theirs, ours);
        assert_eq!(compare(&ours, &theirs), Ok(()));
        for place in [(0, 0), (0, 1), (1, 7)] {
            let mut other = ours.clone();
            other.remove(&place);
            assert!(compare(&ours, &other).is_err() && compare(&other, &ours).is_err());
            other.insert(place, b"c".to_vec());
            assert!(compare(&ours, &other).is_err());
        }
        let lines_of = |text: &str| lines(text.as_bytes(), <[u8]>::to_vec);
        let printed =
            "Partition:0\tOffset:0\ta b\nPartition:1\tOffset:7\t\nPartition:0\tOffset:1\t\\x0A \n";
        assert_eq!(lines_of(printed).as_ref(), Ok(&ours));
        assert_eq!(
            unescaped("\\x5Cx41\\xFF").as_deref(),
            Some(&b"\\x41\xff"[..])
        );
        for broken in [
            "Processed a total of 3 messages",
            "Partition:0\tOffset:0",
            "Partition:0\tOffset:0\t\\x0",
            "Partition:0\tOffset:0\ta\nPartition:0\tOffset:0\ta",
        ] {
            assert!(lines_of(broken).is_err(), "{broken:?}");
        }
        for broken in [&b"0 0 3 a "[..], b"0 0 x", b"0 0 1 a0 0 1 a"] {
            assert!(records(broken, <[u8]>::to_vec).is_err(), "{broken:?}");
        }
    }
}
