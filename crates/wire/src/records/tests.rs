//! Batches against bytes made by the Java client 4.3.0 (`tests/data/records`), hostile bytes, bombs.

use bytes::Bytes;
use model::{LeaderEpoch, Offset, ProducerEpoch, ProducerId, Sequence, Timestamp};

use super::*;

macro_rules! golden {
    ($name:literal) => {
        Bytes::from_static(include_bytes!(concat!(
            "../../tests/data/records/",
            $name,
            ".bin"
        )))
    };
}

fn one(bytes: &Bytes, source: Source) -> Result<Batch, BatchError> {
    let mut batches = Batch::cut(bytes, source);
    let batch = batches.next().expect("a batch or an error")?;
    assert!(batches.next().is_none(), "one batch only");
    Ok(batch)
}

fn java_batches() -> [(Codec, Bytes); 5] {
    [
        (Codec::None, golden!("none")),
        (Codec::Gzip, golden!("gzip")),
        (Codec::Snappy, golden!("snappy")),
        (Codec::Lz4, golden!("lz4")),
        (Codec::Zstd, golden!("zstd")),
    ]
}

fn big_value() -> Vec<u8> {
    b"abcdefghij".iter().copied().cycle().take(70_000).collect()
}

/// The records that the Java program wrote, through our builder.
fn same_records(codec: Codec) -> Batch {
    let mut builder = BatchBuilder::new()
        .compression(codec)
        .leader_epoch(LeaderEpoch(7))
        .producer(ProducerId(4711), ProducerEpoch(3), Sequence(i32::MAX - 1));
    let at = |ms: i64| Timestamp(1_700_000_000_000 + ms);
    builder.push(
        at(0),
        Some(b"key"),
        Some(b"value"),
        &[("a", Some(b"1")), ("a", None), ("", Some(b""))],
    );
    builder.push(at(5), None, Some(b"no key"), &[]);
    builder.push(at(-10), Some(b"tombstone"), None, &[]);
    if codec != Codec::None {
        builder.push(at(1), Some(b""), Some(&big_value()), &[]);
    }
    builder.build()
}

#[test]
fn batches_of_the_java_client_are_read_in_every_codec() {
    for (codec, bytes) in java_batches() {
        let batch = one(&bytes, Source::Produce).unwrap();
        let ours = same_records(codec);
        assert_eq!(batch.attributes().codec(), Some(codec));
        assert_eq!(
            batch.plain(Caps::default()),
            ours.plain(Caps::default()),
            "{codec}"
        );
        assert_eq!(batch.producer_id(), ProducerId(4711));
        assert_eq!(batch.producer_epoch(), ProducerEpoch(3));
        assert_eq!(batch.leader_epoch(), LeaderEpoch(7));
        assert_eq!(batch.base_timestamp(), Timestamp(1_700_000_000_000));
        assert_eq!(batch.max_timestamp(), Timestamp(1_700_000_000_005));
        let last = if codec == Codec::None {
            Sequence(0)
        } else {
            Sequence(1)
        };
        assert_eq!(batch.last_sequence(), last, "wraps after the largest");
        let summary = validate_records(
            &batch,
            &Rules {
                contiguous: true,
                ..Rules::default()
            },
        )
        .unwrap();
        assert_eq!(summary.count, batch.record_count());
        assert_eq!(summary.max_timestamp, batch.max_timestamp());
        assert_eq!(summary.max_timestamp_delta, 1);
    }
}

#[test]
fn the_builder_writes_what_java_writes() {
    assert_eq!(same_records(Codec::None).to_bytes(), golden!("none"));
    let mut transactional = BatchBuilder::new()
        .producer(ProducerId(9), ProducerEpoch(1), Sequence(5))
        .transactional();
    transactional.push(Timestamp(5), None, Some(b"v"), &[]);
    assert_eq!(transactional.build().to_bytes(), golden!("transactional"));
    let mut append_time = BatchBuilder::new()
        .base_offset(Offset(10))
        .append_time(Timestamp(-1));
    append_time.push(Timestamp(5), None, Some(b"v"), &[]);
    let java = one(&golden!("append_time"), Source::Log).unwrap();
    let mut ours = append_time.build();
    ours.set_append_time(java.max_timestamp());
    assert_eq!(ours.plain(Caps::default()), java.plain(Caps::default()));
    assert_eq!(ours.attributes(), java.attributes());
    assert!(ours.is_intact());
}

#[test]
fn transaction_markers_equal_those_of_java() {
    let end = EndTxn {
        committed: true,
        coordinator_epoch: 12,
    };
    let time = Timestamp(1_700_000_000_000);
    let mut commit = end_txn_batch(ProducerId(9), ProducerEpoch(1), end, time);
    assert_eq!(
        ControlRecord::read(&commit),
        Some(ControlRecord::EndTxn(end))
    );
    commit.set_base_offset(Offset(100));
    commit.set_leader_epoch(LeaderEpoch(2));
    assert_eq!(commit.to_bytes(), golden!("commit"));
    let abort = one(&golden!("abort"), Source::Log).unwrap();
    let end = EndTxn {
        committed: false,
        coordinator_epoch: 13,
    };
    assert_eq!(
        ControlRecord::read(&abort),
        Some(ControlRecord::EndTxn(end))
    );
    assert_eq!(
        one(&golden!("abort"), Source::Produce),
        Err(BatchError::Control)
    );
}

#[test]
fn every_codec_and_level_survives_a_round_trip() {
    let plain = Bytes::from(big_value());
    for codec in Codec::ALL {
        let (low, high) = (*codec.levels().start(), *codec.levels().end());
        for level in [None, Some(low), Some(high.min(12))] {
            let packed = Compression { codec, level }.compress(plain.clone());
            assert_eq!(
                codec.decompress(&packed, Caps::default()),
                Ok(plain.clone()),
                "{codec} {level:?}"
            );
        }
        let none = Compression::from(codec).compress(Bytes::new());
        assert_eq!(
            codec.decompress(&none, Caps::default()),
            Ok(Bytes::new()),
            "{codec} of nothing"
        );
    }
}

#[test]
fn bare_snappy_is_read_too() {
    let plain = Bytes::from(big_value());
    let bare = Bytes::from(snap::raw::Encoder::new().compress_vec(&plain).unwrap());
    assert_eq!(Codec::Snappy.decompress(&bare, Caps::default()), Ok(plain));
}

#[test]
fn recompression_keeps_records_and_identity() {
    let batch = same_records(Codec::Lz4);
    let again = recompress(&batch, Codec::Zstd.into(), Caps::default()).unwrap();
    assert!(again.is_intact());
    assert_eq!(again.plain(Caps::default()), batch.plain(Caps::default()));
    assert_eq!(again.base_sequence(), batch.base_sequence());
    assert_eq!(again.max_timestamp(), batch.max_timestamp());
    assert_eq!(one(&again.to_bytes(), Source::Produce), Ok(again));
}

#[test]
fn a_batch_beyond_the_first_steps_of_the_buffer_comes_back_whole() {
    let plain: Vec<u8> = (0..11u32 << 18)
        .flat_map(|at| (at.wrapping_mul(0x9E37_79B1) >> 12).to_be_bytes())
        .collect();
    let plain = Bytes::from(plain);
    for codec in Codec::ALL {
        let packed = Compression::from(codec).compress(plain.clone());
        let back = codec.decompress(&packed, Caps::default());
        assert!(back.is_ok_and(|back| back == plain), "{codec}");
        let exact = Caps {
            bytes_max: plain.len(),
            ..Caps::default()
        };
        let back = codec.decompress(&packed, exact);
        assert!(back.is_ok_and(|back| back == plain), "{codec}");
    }
}

#[test]
fn bombs_end_at_the_cap() {
    // 64 MiB of zeros; caps of bytes and of ratio must each stop every codec.
    let plain = Bytes::from(vec![0u8; 64 << 20]);
    for codec in [Codec::Gzip, Codec::Snappy, Codec::Lz4, Codec::Zstd] {
        let bomb = Compression::from(codec).compress(plain.clone());
        let by_bytes = Caps {
            bytes_max: 1 << 20,
            ratio_max: usize::MAX,
            ..Caps::default()
        };
        assert_eq!(
            codec.decompress(&bomb, by_bytes),
            Err(CodecError::TooLarge {
                codec,
                limit: 1 << 20
            }),
            "{codec}"
        );
        let by_ratio = Caps {
            bytes_max: usize::MAX,
            ratio_max: 5,
            ..Caps::default()
        };
        let limit = (bomb.len() * 5).max(4 << 20);
        assert_eq!(
            codec.decompress(&bomb, by_ratio),
            Err(CodecError::TooLarge { codec, limit }),
            "{codec}"
        );
    }
}

#[test]
fn a_declared_size_allocates_nothing() {
    // A snappy block that says 4 GiB, in both framings.
    let claim = [0xff, 0xff, 0xff, 0xff, 0x0f, 0, 0, 0];
    let error = Codec::Snappy.decompress(&Bytes::copy_from_slice(&claim), Caps::default());
    assert!(matches!(error, Err(CodecError::TooLarge { .. })));
    let mut framed = Vec::from(*b"\x82SNAPPY\0\0\0\0\x01\0\0\0\x01\x7f\xff\xff\xff");
    framed.extend_from_slice(&claim);
    let error = Codec::Snappy.decompress(&framed.into(), Caps::default());
    assert_eq!(
        error,
        Err(CodecError::Damaged {
            codec: Codec::Snappy
        })
    );
}

#[test]
fn truncated_compression_is_refused() {
    for (codec, bytes) in java_batches().into_iter().skip(1) {
        let body = bytes.slice(HEAD_SIZE..);
        let whole = codec.decompress(&body, Caps::default()).unwrap();
        for len in 0..body.len() {
            // A cut between two blocks of snappy is not visible there; the record count shows it.
            let got = codec.decompress(&body.slice(..len), Caps::default());
            assert_ne!(got.as_ref(), Ok(&whole), "{codec} cut at {len}");
        }
    }
}

#[test]
fn every_flipped_byte_under_the_checksum_is_seen() {
    let bytes = golden!("none");
    for at in 8..bytes.len() {
        if (12..16).contains(&at) {
            continue; // the leader epoch is set by the broker and not covered
        }
        let mut bad = bytes.to_vec();
        bad[at] ^= 0x40;
        assert!(one(&bad.into(), Source::Produce).is_err(), "byte {at}");
    }
}

#[test]
fn truncation_is_an_error_for_a_producer_and_an_end_for_a_log() {
    let whole = golden!("none");
    for len in 1..whole.len() {
        let part = whole.slice(..len);
        let error = one(&part, Source::Produce).unwrap_err();
        assert_eq!(error.fault(), Fault::Corrupt, "{len}");
        let mut log = Batch::cut(&part, Source::Log);
        assert!(log.next().is_none());
        assert_eq!(log.rest().len(), len);
    }
}

#[test]
fn several_batches_are_cut_as_slices_of_the_frame() {
    let first = golden!("none");
    let second = golden!("zstd");
    let frame = Bytes::from([&first[..], &second[..], &first[..50]].concat());
    let batches: Result<Vec<_>, _> = Batch::cut(&frame, Source::Log).collect();
    let batches = batches.unwrap();
    assert_eq!(batches.len(), 2);
    assert_eq!(batches[1].to_bytes(), second);
    let inside = frame.as_ptr_range();
    assert!(inside.contains(&batches[1].body().as_ptr()), "not copied");
}

fn patched(change: impl FnOnce(&mut Head)) -> Bytes {
    let mut batch = same_records(Codec::None);
    change(&mut batch.head);
    let crc = checksum(&batch.head, &batch.body);
    batch.head.set_crc(crc);
    batch.to_bytes()
}

#[test]
fn headers_that_lie_are_refused_by_name() {
    let produce = |change: fn(&mut Head)| one(&patched(change), Source::Produce).unwrap_err();
    assert_eq!(
        produce(|h| h.set_magic(1)),
        BatchError::UnsupportedMagic { magic: 1 }
    );
    assert_eq!(
        produce(|h| h.set_magic(3)),
        BatchError::UnknownMagic { magic: 3 }
    );
    assert_eq!(
        produce(|h| h.set_base_offset(Offset(5))),
        BatchError::BaseOffset { offset: 5 }
    );
    assert_eq!(
        produce(|h| h.set_record_count(0)),
        BatchError::Count { count: 0 }
    );
    assert_eq!(
        produce(|h| h.set_record_count(-1)),
        BatchError::Count { count: -1 }
    );
    assert_eq!(
        produce(|h| h.set_record_count(2)),
        BatchError::CountMismatch { count: 2, delta: 2 }
    );
    assert_eq!(
        produce(|h| h.set_last_offset_delta(-1)),
        BatchError::OffsetRange { delta: -1 }
    );
    assert_eq!(
        produce(|h| h.set_attributes(Attributes(5))),
        BatchError::UnknownCodec { id: 5 }
    );
    assert_eq!(
        produce(|h| h.set_attributes(Attributes(0x30))),
        BatchError::Control
    );
    let no_sequence = produce(|h| h.set_producer(ProducerId(1), ProducerEpoch(0), Sequence(-1)));
    assert_eq!(
        no_sequence,
        BatchError::Sequence {
            producer: 1,
            sequence: -1
        }
    );
    let overfull = produce(|h| {
        h.set_record_count(i32::MAX);
        h.set_last_offset_delta(i32::MAX - 1);
    });
    assert_eq!(
        overfull,
        BatchError::Overfull {
            count: i32::MAX,
            bytes: 53
        }
    );
    let past_the_end = one(
        &patched(|h| h.set_base_offset(Offset(i64::MAX))),
        Source::Log,
    )
    .unwrap_err();
    assert_eq!(past_the_end, BatchError::OffsetRange { delta: 2 });
    let mut short = golden!("none").to_vec();
    short[8..12].copy_from_slice(&48i32.to_be_bytes());
    assert_eq!(
        one(&short.into(), Source::Produce),
        Err(BatchError::TooShort { length: 48 })
    );
}

#[test]
fn record_rules_name_the_records_that_break_them() {
    let batch = same_records(Codec::Zstd);
    let breaches = |rules: &Rules| match validate_records(&batch, rules) {
        Err(RecordFault::Rules(breaches)) => breaches,
        other => panic!("{other:?}"),
    };
    let breach = |index, rule| Breach { index, rule };
    let keyed = Rules {
        key_required: true,
        ..Rules::default()
    };
    assert_eq!(breaches(&keyed), [breach(1, Rule::Key)]);
    let (low, high) = (1_700_000_000_000, 1_700_000_000_003);
    let time = |timestamp| Rule::Timestamp {
        timestamp,
        low,
        high,
    };
    let timed = Rules {
        timestamps: Some(low..=high),
        ..Rules::default()
    };
    let (late, early) = (time(1_700_000_000_005), time(1_699_999_999_990));
    assert_eq!(breaches(&timed), [breach(1, late), breach(2, early)]);
    let both = Rules {
        key_required: true,
        ..timed
    };
    assert_eq!(
        breaches(&both),
        [breach(1, Rule::Key), breach(2, early)],
        "one for each record"
    );
    let mut holes = BatchBuilder::new();
    holes.push_at(0, Timestamp(1), None, None, &[]);
    holes.push_at(4, Timestamp(1), None, None, &[]);
    let holes = holes.build();
    assert_eq!(
        validate_records(&holes, &Rules::default()).unwrap().count,
        2
    );
    let contiguous = Rules {
        contiguous: true,
        ..Rules::default()
    };
    let fault = RecordError::OffsetDelta { index: 1, delta: 4 };
    assert_eq!(validate_records(&holes, &contiguous), Err(fault.into()));
}

#[test]
fn records_without_a_time_are_within_all_bounds() {
    let mut builder = BatchBuilder::new();
    builder.push(Timestamp::NONE, None, None, &[]);
    let timed = Rules {
        timestamps: Some(1..=2),
        ..Rules::default()
    };
    assert!(validate_records(&builder.build(), &timed).is_ok());
}

#[test]
fn so_many_records_are_named_and_no_more() {
    let mut builder = BatchBuilder::new().compression(Codec::Gzip);
    for _ in 0..=BREACHES_MAX {
        builder.push(Timestamp(1), None, None, &[]);
    }
    let keyed = Rules {
        key_required: true,
        ..Rules::default()
    };
    let fault = validate_records(&builder.build(), &keyed).unwrap_err();
    let RecordFault::Rules(breaches) = &fault else {
        panic!("{fault}");
    };
    assert_eq!(breaches.len(), BREACHES_MAX);
    assert_eq!(
        fault.to_string(),
        "One or more records have been rejected due to 10000 record errors in total, and only showing the first three errors at most: \
         [RecordError(batchIndex=0, message='Compacted topic cannot accept message without key'), \
         RecordError(batchIndex=1, message='Compacted topic cannot accept message without key'), \
         RecordError(batchIndex=2, message='Compacted topic cannot accept message without key')]"
    );
}

/// Clients and their tests look for the sentence, so it comes first and as Kafka has it.
#[test]
fn an_invalid_timestamp_is_refused_with_the_sentence_of_kafka() {
    let time = |index, timestamp| Breach {
        index,
        rule: Rule::Timestamp {
            timestamp,
            low: 10,
            high: 20,
        },
    };
    let key = Breach {
        index: 1,
        rule: Rule::Key,
    };
    let text = |breaches: Vec<Breach>| RecordFault::Rules(breaches).to_string();
    assert_eq!(
        text(vec![key, time(2, 7)]),
        "One or more records have been rejected due to invalid timestamp: \
         record 1: Compacted topic cannot accept message without key; \
         record 2: Timestamp 7 of message with offset 2 is out of range. The timestamp should be within [10, 20]"
    );
    assert!(text((0..4).map(|index| time(index, 7)).collect()).ends_with("[10, 20]; ..."));
    let stamped = Breach {
        index: 0,
        rule: Rule::AppendTime,
    };
    assert_eq!(
        text(vec![stamped]),
        "One or more records have been rejected due to invalid timestamp: record 0: Invalid timestamp type in message with offset 0. \
         Producer should not set timestamp type to LogAppendTime."
    );
}

#[test]
fn hostile_records_end_in_an_error() {
    let check = |body: &[u8], count: i32, want: RecordError| {
        let got: Result<Vec<_>, _> = RecordIter::new(body, count).collect();
        assert_eq!(got, Err(want));
    };
    check(&[], 1, RecordError::Count { want: 1, have: 0 });
    check(&[0x80], 1, RecordError::Truncated);
    check(
        &[0xff, 0xff, 0xff, 0xff, 0xff, 0x01],
        1,
        RecordError::Varint,
    );
    check(&[0xff, 0xff, 0xff, 0xff, 0x1f], 1, RecordError::Varint);
    check(&[1], 1, RecordError::Length { len: -1, have: 0 });
    check(&[100, 0, 0], 1, RecordError::Length { len: 50, have: 2 });
    // Length 6: attributes, time, offset, null key, null value, header count.
    check(
        &[12, 0, 0, 0, 1, 1, 1],
        1,
        RecordError::HeaderCount { count: -1 },
    );
    check(
        &[12, 0, 0, 0, 1, 1, 126],
        1,
        RecordError::HeaderCount { count: 63 },
    );
    check(
        &[14, 0, 0, 0, 1, 1, 0, 9],
        1,
        RecordError::LeftOver { bytes: 1 },
    );
    check(&[16, 0, 0, 0, 1, 1, 2, 1, 1], 1, RecordError::HeaderKey);
    check(
        &[12, 0, 0, 0, 1, 1, 0, 7],
        1,
        RecordError::LeftOver { bytes: 1 },
    );
    check(
        &[12, 0, 0, 0, 1, 1, 0],
        2,
        RecordError::Count { want: 2, have: 1 },
    );
}

#[test]
fn varints_of_the_builder_read_back_at_every_size() {
    for shift in 0..63 {
        for time in [1i64 << shift, -(1i64 << shift), (1i64 << shift) - 1] {
            let mut builder = BatchBuilder::new();
            builder.push(Timestamp(0), None, None, &[]);
            builder.push(Timestamp(time), None, None, &[]);
            let batch = builder.build();
            let times: Vec<i64> = RecordIter::new(batch.body(), 2)
                .map(|record| record.unwrap().timestamp_delta)
                .collect();
            assert_eq!(times, [0, time]);
        }
    }
}
