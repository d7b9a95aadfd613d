//! The walk over a batch's records against a decoder that was written to be obvious: it copies, counts in wide numbers and keeps
//! everything. The input gives the head's fields and the bytes of the records; the rest of the head is always right.

#![no_main]

use bytes::Bytes;
use libfuzzer_sys::fuzz_target;
use wire::records::{
    Batch, BatchError, Breach, Caps, Codec, Compression, HEAD_SIZE, RecordFault, Rule, Rules,
    Source, validate_records,
};

/// Values of the rules' bounds: some of what a small input says lies outside.
const TIMES: [i64; 4] = [0, 1, 1_000, i64::MAX];

fuzz_target!(|data: &[u8]| {
    let [
        how,
        codec,
        count,
        last_delta,
        base_time,
        max_time,
        low,
        high,
        body @ ..,
    ] = data
    else {
        return;
    };
    let time = |n: &u8| TIMES[usize::from(n & 3)].saturating_sub(i64::from(n >> 6));
    let head = Head {
        append_time: how & 1 != 0,
        count: i32::from(*count),
        last_delta: i32::from(*last_delta),
        base_time: time(base_time),
        max_time: time(max_time),
    };
    let rules = Rules {
        caps: Caps::default(),
        key_required: how & 2 != 0,
        timestamps: (how & 4 != 0).then(|| time(low)..=time(high)),
        contiguous: how & 8 != 0,
    };
    let want = reference(&head, body, &rules);
    let codecs = [
        Codec::None,
        Codec::from_id(1 + codec % 4).expect("four codecs"),
    ];
    for codec in codecs {
        let packed = Compression::from(codec).compress(Bytes::copy_from_slice(body));
        let Some(batch) = head.over(codec, &packed) else {
            // The head itself is refused, for too many records in too few bytes or out of their range.
            continue;
        };
        let got = match validate_records(&batch, &rules) {
            Ok(summary) => {
                assert_eq!(summary.plain_bytes, body.len());
                Ok((
                    summary.count,
                    summary.max_timestamp.0,
                    summary.max_timestamp_delta,
                ))
            }
            Err(RecordFault::Rules(breaches)) => Err(Some(breaches)),
            Err(RecordFault::Record(_)) => Err(None),
            Err(RecordFault::Oversized(record)) => panic!("no cap is that small: {record}"),
            Err(RecordFault::Codec(fault)) => panic!("what was packed unpacks: {fault}"),
        };
        assert_eq!(got, want, "{codec}, {head:?}, {rules:?}");
    }
});

#[derive(Debug)]
struct Head {
    append_time: bool,
    count: i32,
    last_delta: i32,
    base_time: i64,
    max_time: i64,
}

impl Head {
    /// Laid out by hand; `None` when cutting refuses it.
    fn over(&self, codec: Codec, body: &[u8]) -> Option<Batch> {
        let mut bytes = vec![0u8; HEAD_SIZE];
        bytes[8..12].copy_from_slice(&((HEAD_SIZE - 12 + body.len()) as i32).to_be_bytes());
        bytes[16] = 2;
        let codec_id = (0..5u8).find(|id| Codec::from_id(*id) == Some(codec));
        bytes[22] = codec_id.expect("a known codec") | u8::from(self.append_time) << 3;
        bytes[23..27].copy_from_slice(&self.last_delta.to_be_bytes());
        bytes[27..35].copy_from_slice(&self.base_time.to_be_bytes());
        bytes[35..43].copy_from_slice(&self.max_time.to_be_bytes());
        // Nobody's: producer id, epoch and sequence are -1.
        bytes[43..57].fill(0xff);
        bytes[57..61].copy_from_slice(&self.count.to_be_bytes());
        bytes.extend_from_slice(body);
        let cut = Batch::cut(&Bytes::from(bytes.clone()), Source::Log).next();
        if let Some(Err(BatchError::Checksum { computed, .. })) = cut {
            bytes[17..21].copy_from_slice(&computed.to_be_bytes());
        }
        Batch::cut(&Bytes::from(bytes), Source::Log).next()?.ok()
    }
}

type Verdict = Result<(i32, i64, i32), Option<Vec<Breach>>>;

/// `Err(None)`: the records cannot be read; `Err(Some(..))`: they can, and break these rules.
fn reference(head: &Head, body: &[u8], rules: &Rules) -> Verdict {
    let records = all_records(body, head.count).ok_or(None)?;
    let mut before = -1;
    for (index, record) in records.iter().enumerate() {
        let is_next = if rules.contiguous { record.offset_delta == index as i128 } else { record.offset_delta > before };
        if !is_next || record.offset_delta > i128::from(head.last_delta) {
            return Err(None);
        }
        before = record.offset_delta;
    }
    let time = |record: &Plain| {
        if head.append_time {
            return head.max_time;
        }
        let time = i128::from(head.base_time) + record.time_delta;
        time.clamp(i128::from(i64::MIN), i128::from(i64::MAX)) as i64
    };
    let mut breaches = Vec::new();
    for (index, record) in (0i32..).zip(&records) {
        let timestamp = time(record);
        if rules.key_required && !record.has_key {
            breaches.push(Breach {
                index,
                rule: Rule::Key,
            });
            continue;
        }
        let Some(bounds) = &rules.timestamps else {
            continue;
        };
        let (low, high) = (*bounds.start(), *bounds.end());
        let is_inside = low <= timestamp && timestamp <= high;
        if !head.append_time && timestamp != -1 && !is_inside {
            let rule = Rule::Timestamp {
                timestamp,
                low,
                high,
            };
            breaches.push(Breach { index, rule });
        }
    }
    if !breaches.is_empty() {
        return Err(Some(breaches));
    }
    let latest = records.iter().map(time).max().unwrap_or(-1).max(-1);
    let first = records.iter().find(|record| time(record) == latest);
    // Nothing is later than no time at all, so then the first place stays 0.
    let delta = first
        .filter(|_| latest > -1)
        .map_or(0, |record| record.offset_delta as i32);
    Ok((records.len() as i32, latest, delta))
}

struct Plain {
    offset_delta: i128,
    time_delta: i128,
    has_key: bool,
}

fn all_records(body: &[u8], count: i32) -> Option<Vec<Plain>> {
    let mut input: Vec<u8> = body.iter().rev().copied().collect();
    let mut records = Vec::new();
    for _ in 0..count {
        let len = number(&mut input, 5, 32)?;
        let mut record = bytes(&mut input, len)?;
        record.reverse();
        records.push(one_record(record)?);
    }
    input.is_empty().then_some(records)
}

/// The last byte of `input` is the next one to be read.
fn one_record(mut input: Vec<u8>) -> Option<Plain> {
    input.pop()?;
    let time_delta = number(&mut input, 10, 64)?;
    let offset_delta = number(&mut input, 5, 32)?;
    let key = nullable(&mut input)?;
    nullable(&mut input)?;
    let headers = number(&mut input, 5, 32)?;
    if headers < 0 {
        return None;
    }
    for _ in 0..headers {
        // A header has a key; more headers than bytes end here soon.
        nullable(&mut input)??;
        nullable(&mut input)?;
    }
    input.is_empty().then_some(Plain {
        offset_delta,
        time_delta,
        has_key: key.is_some(),
    })
}

fn nullable(input: &mut Vec<u8>) -> Option<Option<Vec<u8>>> {
    let len = number(input, 5, 32)?;
    if len < 0 {
        return Some(None);
    }
    bytes(input, len).map(Some)
}

fn bytes(input: &mut Vec<u8>, len: i128) -> Option<Vec<u8>> {
    let len = usize::try_from(len)
        .ok()
        .filter(|len| *len <= input.len())?;
    Some((0..len).filter_map(|_| input.pop()).collect())
}

/// Seven bits a byte, lowest first, the sign in the lowest bit; at most so many bytes, and a number of so many bits.
fn number(input: &mut Vec<u8>, bytes_max: usize, bits: u32) -> Option<i128> {
    let mut groups = Vec::new();
    loop {
        let byte = input.pop()?;
        groups.push(u128::from(byte % 128));
        if byte < 128 {
            break;
        }
        if groups.len() == bytes_max {
            return None;
        }
    }
    let raw = groups
        .iter()
        .rev()
        .fold(0u128, |sum, group| sum * 128 + group);
    if raw >= 1 << bits {
        return None;
    }
    let half = (raw / 2) as i128;
    Some(if raw % 2 == 0 { half } else { -half - 1 })
}
