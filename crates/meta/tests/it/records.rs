//! Records are those of Kafka, byte for byte.

use bytes::Bytes;
use meta::record::{decode, encode};
use meta::{Image, MetadataVersion, RecordError};
use proptest::prelude::*;
use wire::DecodeError;

/// Values of records in the metadata log of a Kafka 4.3 broker.
const GOLDEN: &str = "
01170001001212426f6f747374726170207265636f726473
010c00116d657461646174612e76657273696f6e001e00
0104000401146d696e2e696e73796e632e7265706c69636173023100
01180000
011b0000000001d79decce3f4744f3a02d987a1528df3e00020b434f4e54524f4c4c45520a3132372e302e302e317a9e000000080e67726f75702e76657273696f6e00000001000e6b726166742e76657273696f6e0000000100116d657461646174612e76657273696f6e0007001e000e73686172652e76657273696f6e00000001001073747265616d732e76657273696f6e0000000100147472616e73616374696f6e2e76657273696f6e000000020021656c696769626c652e6c65616465722e7265706c696361732e76657273696f6e000000010000
010004000000010037609d08cd6a4faaaf01a95374cd2b74000000000000000b020a504c41494e544558540a3132372e302e302e317aa0000000080e6b726166742e76657273696f6e00000001000e67726f75702e76657273696f6e00000001001073747265616d732e76657273696f6e0000000100147472616e73616374696f6e2e76657273696f6e000000020021656c696769626c652e6c65616465722e7265706c696361732e76657273696f6e0000000100116d657461646174612e76657273696f6e0007001e000e73686172652e76657273696f6e000000010000010001001102d1da408b48c4d737a75f0876e2cdcdfd
01140000
01110300000001000000000000000b01030101
01020002611ba37761779749588ca4bf5db501808900
010302000000001ba37761779749588ca4bf5db501808902000000010200000001010100000001000000000000000002d1da408b48c4d737a75f0876e2cdcdfd00
010400020261 0d726574656e74696f6e2e6d730437373700
010f0000000001000000000000000b00000000000003e800
0109001ba37761779749588ca4bf5db501808900
";

fn bytes(hex: &str) -> Bytes {
    let digits: Vec<u8> = hex.bytes().filter(u8::is_ascii_hexdigit).collect();
    digits
        .chunks(2)
        .map(|pair| u8::from_str_radix(std::str::from_utf8(pair).expect("ascii"), 16).expect("hex"))
        .collect()
}

fn golden() -> Vec<Bytes> {
    GOLDEN
        .lines()
        .filter(|line| !line.is_empty())
        .map(bytes)
        .collect()
}

#[test]
fn records_of_kafka_4_3_are_read_and_written_byte_for_byte() {
    for value in golden() {
        let record = decode(value.clone()).expect("written by Kafka");
        assert_eq!(
            encode(&record, MetadataVersion::LATEST),
            Ok(value),
            "{record:?}"
        );
    }
}

#[test]
fn an_older_version_of_a_record_is_read() {
    let unfence = bytes("01110000000001000000000000000b010001ff");
    assert!(decode(unfence).is_ok());
}

#[test]
fn the_log_of_a_kafka_4_3_broker_replays() {
    let mut image = Image::default();
    let values = golden();
    let (topic, all) = (values.len() - 1, &values);
    for value in &all[..topic] {
        let record = decode(value.clone()).expect("written by Kafka");
        image
            .replay(image.next_place(), &[record])
            .expect("in Kafka's order");
    }
    let a = image.topic("a").expect("created");
    assert_eq!(a.id.to_string(), "G6N3YXeXSViMpL9dtQGAiQ");
    assert_eq!(
        a.partitions[0]
            .directory(model::BrokerId(1))
            .map(|dir| dir.to_string()),
        Some("0dpAi0jE1zenXwh24s3N_Q".into())
    );
    assert_eq!(image.next_producer_id(), model::ProducerId(1000));
    assert_eq!(
        image
            .overrides(&meta::Resource::topic("a"))
            .get("retention.ms")
            .map(String::as_str),
        Some("777")
    );
    let record = decode(all[topic].clone()).expect("written by Kafka");
    image
        .replay(image.next_place(), &[record])
        .expect("the topic is there");
    assert_eq!(image.topics_count(), 0);
    assert!(image.overrides(&meta::Resource::topic("a")).is_empty());
    assert_eq!(image.end(), i64::try_from(all.len()).expect("few"));
}

#[test]
fn a_record_that_is_not_known_stops_the_reader_with_its_type() {
    assert_eq!(
        decode(bytes("01140900")),
        Err(RecordError::Version {
            key: 20,
            version: 9
        })
    );
    assert_eq!(
        decode(bytes("017f0000")),
        Err(RecordError::Type { key: 127 })
    );
    let frame = DecodeError::Version { version: 2 };
    assert_eq!(decode(bytes("02140000")), Err(RecordError::Damaged(frame)));
    let text = RecordError::Type { key: 127 }.to_string();
    assert!(
        text.contains("type 127") && text.contains("newer version"),
        "{text}"
    );
    assert!(decode(bytes("01020900")).is_err());
    assert!(decode(bytes("0114000000")).is_err());
}

#[test]
fn every_truncation_of_a_record_is_refused() {
    for value in golden() {
        for len in 0..value.len() {
            assert!(decode(value.slice(..len)).is_err(), "{len} of {value:?}");
        }
    }
}

proptest! {
    #[test]
    fn no_bytes_make_the_reader_panic(value in proptest::collection::vec(any::<u8>(), 0..80)) {
        let _ = decode(Bytes::from(value));
    }
}
