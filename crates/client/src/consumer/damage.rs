//! Reading on behind records that are damaged, where the caller would rather miss them than stop.
//!
//! A broker refuses the offset of a batch that fails its checksum, whatever range is asked for from there. So the offsets behind
//! are asked for one by one, which misses nothing that is good; behind [`SINGLE_MAX`] of them with doubling steps, and then back to
//! the first good one of the last step.

use wire::error_code::ErrorCode;
use wire::messages::FetchRequest;
use wire::messages::fetch_request::{FetchPartition, FetchTopic};
use wire::records::{Batch, Source};
use wire::{Records, Uuid};

use super::{Consumer, NAMED_VERSION_MAX};
use crate::admin::OffsetSpec;
use crate::cluster::Client;
use crate::error::Error;

/// Offsets that are tried one by one: more than most batches have records, and at 0.2 ms each less than a second.
const SINGLE_MAX: i64 = 4096;

/// Offsets of a partition that were passed over because they cannot be read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Skipped {
    pub topic: String,
    pub partition: i32,
    pub from: i64,
    /// The first that is read again.
    pub to: i64,
    pub why: String,
}

/// The codes with which a broker says that it cannot read what it stored.
pub(super) fn is_damage(code: ErrorCode) -> bool {
    matches!(
        code,
        ErrorCode::CorruptMessage | ErrorCode::KafkaStorageError
    )
}

impl Consumer {
    /// Moves a partition behind what cannot be read at its position; `None` if nothing behind it can be read either.
    pub(super) fn skip(&mut self, error: &Error) -> Result<Option<Skipped>, Error> {
        let (Error::Unreadable {
            topic, partition, ..
        }
        | Error::Damaged {
            topic, partition, ..
        }) = error
        else {
            return Ok(None);
        };
        let (topic, partition) = (topic.clone(), *partition);
        let Some(at) = self
            .assigned
            .iter()
            .position(|a| *a.topic == *topic && a.partition == partition)
        else {
            return Ok(None);
        };
        let from = self.assigned[at].next;
        let Some(to) = next_good(&mut self.client, &topic, partition, from)? else {
            return Ok(None);
        };
        self.assigned[at].next = to;
        let why = error.to_string();
        Ok(Some(Skipped {
            topic,
            partition,
            from,
            to,
            why,
        }))
    }
}

impl Client {
    /// The first offset behind `from`, which cannot be read, that can; the end of the log counts as one.
    pub fn next_good(
        &mut self,
        topic: &str,
        partition: i32,
        from: i64,
    ) -> Result<Option<i64>, Error> {
        next_good(self, topic, partition, from)
    }
}

fn next_good(
    client: &mut Client,
    topic: &str,
    partition: i32,
    from: i64,
) -> Result<Option<i64>, Error> {
    let isolation = super::Isolation::ReadUncommitted;
    let ends = client.resolve(topic, &[(partition, OffsetSpec::End)], isolation)?;
    let end = ends.get(&partition).copied().unwrap_or(from);
    let found = client.topic(topic)?;
    let (id, leader) = (found.id, found.leader(partition)?);
    let mut is_good = |offset: i64| can_read(client, leader, (topic, id), partition, offset);
    let (mut bad, mut step) = (from, 1);
    loop {
        let next = bad.saturating_add(step).min(end);
        if next <= bad {
            return Ok(None);
        }
        if is_good(next)? {
            return first_good(bad, next, is_good).map(Some);
        }
        bad = next;
        if SINGLE_MAX <= bad - from {
            step *= 2;
        }
    }
}

/// The first good offset of those behind `bad`, up to `good`.
fn first_good(
    mut bad: i64,
    mut good: i64,
    mut is_good: impl FnMut(i64) -> Result<bool, Error>,
) -> Result<i64, Error> {
    while 1 < good - bad {
        let middle = bad + (good - bad) / 2;
        if is_good(middle)? {
            good = middle;
        } else {
            bad = middle;
        }
    }
    Ok(good)
}

/// True if a fetch from `offset` brings a whole batch, or nothing at the end of the log.
fn can_read(
    client: &mut Client,
    leader: i32,
    (topic, topic_id): (&str, Uuid),
    partition: i32,
    offset: i64,
) -> Result<bool, Error> {
    let request = FetchRequest {
        replica_id: -1,
        max_wait_ms: 0,
        min_bytes: 0,
        max_bytes: 1,
        session_id: 0,
        session_epoch: -1,
        topics: vec![FetchTopic {
            topic: topic.to_owned(),
            topic_id,
            partitions: vec![FetchPartition {
                partition,
                fetch_offset: offset,
                partition_max_bytes: 1,
                ..Default::default()
            }],
        }],
        ..Default::default()
    };
    let limit = if topic_id.is_zero() {
        NAMED_VERSION_MAX
    } else {
        i16::MAX
    };
    let response = client.call_broker_up_to(leader, &request, limit)?;
    let what = || format!("reading {topic}-{partition}");
    Error::check(response.error_code, what, None)?;
    let mut answers = response.responses.iter().flat_map(|it| &it.partitions);
    let Some(data) = answers.find(|data| data.partition_index == partition) else {
        return Ok(false);
    };
    if ErrorCode::try_from(data.error_code).is_ok_and(is_damage) {
        return Ok(false);
    }
    Error::check(data.error_code, what, None)?;
    match &data.records {
        Some(Records::Bytes(records)) => Ok(Batch::cut(records, Source::Log)
            .next()
            .is_none_or(|first| first.is_ok())),
        _ => Ok(true),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_way_back_ends_at_the_first_good_offset_of_the_last_step() {
        for first in 101..=200 {
            let mut asked = 0;
            let found = first_good(100, 200, |offset| {
                asked += 1;
                Ok(first <= offset)
            });
            assert_eq!(found.unwrap(), first);
            assert!(asked <= 7, "{asked}");
        }
    }
}
