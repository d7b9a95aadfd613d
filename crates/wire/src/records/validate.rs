//! Walks every record of a batch: what its header claims about them holds, and its largest time is theirs.
//!
//! Every uncompressed batch of a client is walked; a compressed one for compacted topics (a key is needed), for bounded timestamps,
//! before it is compressed anew, and where its header hides the time of its records.

use std::ops::RangeInclusive;

use model::Timestamp;

use super::batch::{Batch, TimestampType};
use super::codec::{Caps, CodecError, Oversized};
use super::pass::{Claim, pass};
use super::record::{RecordError, RecordIter};

/// The rules that the records must satisfy beyond being readable.
#[derive(Clone, Debug, Default)]
pub struct Rules {
    pub caps: Caps,
    /// Records without key are refused (compacted topics).
    pub key_required: bool,
    /// Timestamps outside are refused; `None` accepts all.
    pub timestamps: Option<RangeInclusive<i64>>,
    /// Offset deltas must run 0, 1, 2, ... without holes, as a producer numbers them.
    pub contiguous: bool,
}

/// The findings of a walk over the records.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RecordSummary {
    pub count: i32,
    pub max_timestamp: Timestamp,
    /// Offset delta of the first record that carries `max_timestamp`.
    pub max_timestamp_delta: i32,
    pub plain_bytes: usize,
}

#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum RecordFault {
    #[error("cannot decompress: {0}")]
    Codec(CodecError),
    #[error(transparent)]
    Oversized(#[from] Oversized),
    #[error(transparent)]
    Record(#[from] RecordError),
    #[error("{}", rejected(.0))]
    Rules(Vec<Breach>),
}

impl From<CodecError> for RecordFault {
    fn from(error: CodecError) -> RecordFault {
        match error {
            CodecError::Oversized(record) => RecordFault::Oversized(record),
            error => RecordFault::Codec(error),
        }
    }
}

/// A record that can be read and breaks a rule.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Breach {
    pub index: i32,
    pub rule: Rule,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Rule {
    /// The topic is compacted, and the record has no key.
    Key,
    /// The time is none of those that the topic takes.
    Timestamp { timestamp: i64, low: i64, high: i64 },
    /// The batch claims to have the time of its append, which a producer cannot know.
    AppendTime,
}

impl Rule {
    fn is_about_time(self) -> bool {
        matches!(self, Rule::Timestamp { .. } | Rule::AppendTime)
    }
}

/// The sentences of Kafka's `LogValidator`: clients and their tests look for them.
impl std::fmt::Display for Breach {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Breach { index, rule } = self;
        match rule {
            Rule::Key => f.write_str("Compacted topic cannot accept message without key"),
            Rule::Timestamp {
                timestamp,
                low,
                high,
            } => write!(
                f,
                "Timestamp {timestamp} of message with offset {index} is out of range. The timestamp should be within [{low}, {high}]"
            ),
            Rule::AppendTime => write!(
                f,
                "Invalid timestamp type in message with offset {index}. Producer should not set timestamp type to LogAppendTime."
            ),
        }
    }
}

/// Records of one batch that are named when they break a rule: more than a batch of ordinary size holds, and an answer below 1 MiB
/// however many empty records a compressed batch unfolds to. The others are refused unnamed, with their batch.
pub const BREACHES_MAX: usize = 10_000;

/// True if one of the breaches is about time: then Kafka refuses the batch with INVALID_TIMESTAMP, else with INVALID_RECORD.
#[must_use]
pub fn has_invalid_timestamp(breaches: &[Breach]) -> bool {
    breaches.iter().any(|breach| breach.rule.is_about_time())
}

/// Kafka's sentence, and behind it the first three breaches; the answer names each of them beside.
fn rejected(breaches: &[Breach]) -> String {
    let first = breaches.iter().take(3);
    if has_invalid_timestamp(breaches) {
        let first = first.map(|breach| format!("record {}: {breach}", breach.index));
        let first: Vec<String> = first.collect();
        let more = if breaches.len() > 3 { "; ..." } else { "" };
        return format!(
            "One or more records have been rejected due to invalid timestamp: {}{more}",
            first.join("; ")
        );
    }
    let first = first.map(|breach| {
        format!(
            "RecordError(batchIndex={}, message='{breach}')",
            breach.index
        )
    });
    let first: Vec<String> = first.collect();
    format!(
        "One or more records have been rejected due to {} record errors in total, and only showing the first three errors at most: [{}]",
        breaches.len(),
        first.join(", ")
    )
}

/// Walks all records; those that break a rule are named by their index.
pub fn validate_records(batch: &Batch, rules: &Rules) -> Result<RecordSummary, RecordFault> {
    let plain = batch.plain(rules.caps)?;
    pass_records(batch, &plain, rules).map_or_else(|| walk_records(batch, &plain, rules), Ok)
}

/// The short way for records that are as nearly all are.
fn pass_records(batch: &Batch, plain: &[u8], rules: &Rules) -> Option<RecordSummary> {
    let count = batch.record_count();
    if !rules.contiguous || count > batch.last_offset_delta().saturating_add(1) {
        return None;
    }
    let append_time = batch.attributes().timestamp_type() == TimestampType::LogAppendTime;
    let claim = Claim {
        count,
        base: batch.base_timestamp().0,
        key_required: rules.key_required,
        times: rules.timestamps.as_ref().filter(|_| !append_time),
    };
    let passed = pass(plain, &claim)?;
    let (max_timestamp, max_timestamp_delta) = if append_time {
        (batch.max_timestamp(), 0)
    } else {
        (Timestamp(passed.latest), passed.latest_delta)
    };
    Some(RecordSummary {
        count,
        max_timestamp,
        max_timestamp_delta,
        plain_bytes: plain.len(),
    })
}

fn walk_records(batch: &Batch, plain: &[u8], rules: &Rules) -> Result<RecordSummary, RecordFault> {
    let append_time = batch.attributes().timestamp_type() == TimestampType::LogAppendTime;
    let mut summary = RecordSummary {
        count: 0,
        max_timestamp: Timestamp::NONE,
        max_timestamp_delta: 0,
        plain_bytes: plain.len(),
    };
    let mut last_delta = -1;
    let mut breaches = Vec::new();
    for record in RecordIter::new(plain, batch.record_count()) {
        let record = record?;
        let (index, delta) = (summary.count, record.offset_delta);
        let in_order = if rules.contiguous {
            delta == index
        } else {
            delta > last_delta
        };
        if !in_order || delta > batch.last_offset_delta() {
            return Err(RecordError::OffsetDelta { index, delta }.into());
        }
        let timestamp = if append_time {
            batch.max_timestamp().0
        } else {
            batch
                .base_timestamp()
                .0
                .saturating_add(record.timestamp_delta)
        };
        let accepted = rules.timestamps.as_ref();
        let misses = |accepted: &&RangeInclusive<i64>| {
            !append_time && timestamp != Timestamp::NONE.0 && !accepted.contains(&timestamp)
        };
        let rule = if rules.key_required && record.key.is_none() {
            Some(Rule::Key)
        } else {
            accepted.filter(misses).map(|accepted| Rule::Timestamp {
                timestamp,
                low: *accepted.start(),
                high: *accepted.end(),
            })
        };
        if let Some(rule) = rule.filter(|_| breaches.len() < BREACHES_MAX) {
            breaches.push(Breach { index, rule });
        }
        if timestamp > summary.max_timestamp.0 {
            summary.max_timestamp = Timestamp(timestamp);
            summary.max_timestamp_delta = delta;
        }
        last_delta = delta;
        summary.count += 1;
    }
    if breaches.is_empty() {
        Ok(summary)
    } else {
        Err(RecordFault::Rules(breaches))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::records::{BatchBuilder, Codec};

    fn batch(codec: Codec) -> Batch {
        let mut builder = BatchBuilder::new().compression(codec);
        let large = [7; 300];
        builder.push(Timestamp(1_000), Some(b"key"), Some(b"value"), &[]);
        builder.push(Timestamp(1_700), None, Some(&large), &[("h", Some(b"x"))]);
        builder.push(
            Timestamp(900),
            Some(b"key"),
            None,
            &[("h", None), ("", Some(b""))],
        );
        builder.build()
    }

    fn rules(key_required: bool, timestamps: Option<RangeInclusive<i64>>) -> Rules {
        Rules {
            key_required,
            timestamps,
            contiguous: true,
            ..Rules::default()
        }
    }

    /// The walk accepts all that the short way accepts, with the same summary; and the short way takes ordinary records.
    #[test]
    fn the_short_way_accepts_what_the_walk_accepts() {
        let all = [
            rules(false, None),
            rules(true, None),
            rules(false, Some(900..=1_700)),
            rules(false, Some(901..=2_000)),
            rules(false, Some(0..=1_699)),
        ];
        let good = batch(Codec::None);
        let passed = |batch: &Batch, plain: &[u8]| {
            all.iter()
                .map(|rules| {
                    let short = pass_records(batch, plain, rules);
                    if let Some(summary) = short {
                        assert_eq!(walk_records(batch, plain, rules), Ok(summary));
                    }
                    short.is_some()
                })
                .collect::<Vec<bool>>()
        };
        assert_eq!(
            passed(&good, good.body()),
            [true, false, true, false, false]
        );
        let zipped = batch(Codec::Gzip);
        let plain = zipped.plain(Caps::default()).unwrap();
        assert_eq!(passed(&zipped, &plain), [true, false, true, false, false]);
        for at in 0..plain.len() {
            passed(&good, &plain[..at]);
            for bit in 0..8 {
                let mut bytes = plain.to_vec();
                bytes[at] ^= 1 << bit;
                passed(&good, &bytes);
            }
        }
    }

    #[test]
    fn records_behind_each_other_cost_the_short_way_only() {
        let mut builder = BatchBuilder::new();
        (0..500).for_each(|at| builder.push(Timestamp(at), None, Some(b"value"), &[]));
        let batch = builder.build();
        let summary = pass_records(&batch, batch.body(), &rules(false, None)).unwrap();
        assert_eq!(
            (summary.count, summary.max_timestamp),
            (500, Timestamp(499))
        );
        assert_eq!(summary.max_timestamp_delta, 499);
    }
}
