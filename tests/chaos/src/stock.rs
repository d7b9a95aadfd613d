//! A client that nobody here wrote reads the same at the end: kcat, at both levels of isolation, where it is installed.

use std::collections::BTreeMap;
use std::fmt::Debug;
use std::process::Command;

use client::Isolation;

use crate::ledger::{Log, Value};

/// Of all partitions: values by partition and offset.
pub(crate) type Records<T> = BTreeMap<(i32, i64), T>;

/// Longer than any read of a whole topic takes here.
const SECONDS_MAX: &str = "60";
/// Partition, offset, size and value of a record; the value may be any bytes.
const FORMAT: &str = "%p %o %S %s";

fn is_installed() -> bool {
    let asked = Command::new("kcat").arg("-V").output();
    asked.is_ok_and(|output| output.status.success())
}

/// What the scenario says of it.
pub(crate) fn remark() -> &'static str {
    match is_installed() {
        true => "kcat read the same at both levels of isolation",
        false => "kcat is not installed: only our own client has read it back",
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

/// kcat reads what we have read at this level, if it is there.
pub(crate) fn check<T: PartialEq + Debug>(
    address: &str,
    topic: &str,
    isolation: Isolation,
    ours: &Records<T>,
    value: impl Fn(&[u8]) -> T,
) -> Result<(), String> {
    if !is_installed() {
        return Ok(());
    }
    let level = match isolation {
        Isolation::ReadCommitted => "read_committed",
        Isolation::ReadUncommitted => "read_uncommitted",
    };
    let read = Command::new("timeout")
        .args([SECONDS_MAX, "kcat", "-C", "-e", "-q", "-b", address])
        .args(["-t", topic, "-o", "beginning", "-f", FORMAT])
        .args(["-X", "check.crcs=true", "-X"])
        .arg(format!("isolation.level={level}"))
        .output()
        .map_err(|error| format!("kcat: {error}"))?;
    if !read.status.success() {
        let said = String::from_utf8_lossy(&read.stderr);
        return Err(format!("kcat, {level}: {}: {said}", read.status));
    }
    let theirs = records(&read.stdout, value).map_err(|why| format!("kcat, {level}: {why}"))?;
    compare(ours, &theirs).map_err(|why| format!("kcat, {level}: {why}"))
}

/// What kcat printed.
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
        for broken in [&b"0 0 3 a "[..], b"0 0 x", b"0 0 1 a0 0 1 a"] {
            assert!(records(broken, <[u8]>::to_vec).is_err(), "{broken:?}");
        }
    }
}
