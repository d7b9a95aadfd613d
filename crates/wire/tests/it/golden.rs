//! Bytes equal to those of Kafka 4.4: for every message and record, every version, set and unset.

use crate::vectors::{Line, Vector, lines};
use bytes::Bytes;
use std::collections::BTreeSet;
use wire::{ApiKey, DecodeError, EncodeError, Encoded, Listener, RecodeError, any};

/// Collects what differs, so that one run shows the whole damage.
fn check_all(check: impl Fn(&Line) -> Result<(), String>) {
    let mut wrong = Vec::new();
    for line in lines() {
        if let Err(why) = check(line) {
            wrong.push(format!(
                "{} {} v{}: {why}",
                line.message.group, line.message.name, line.version
            ));
        }
    }
    assert!(
        wrong.is_empty(),
        "{} differences, the first: {:#?}",
        wrong.len(),
        &wrong[..wrong.len().min(20)]
    );
}

fn joined(encoded: Encoded) -> Bytes {
    let len = encoded.len;
    let bytes = encoded.into_bytes().expect("nothing external");
    assert_eq!(bytes.len(), len);
    bytes
}

fn same(got: &Bytes, want: &Bytes) -> Result<(), String> {
    if got == want {
        Ok(())
    } else {
        Err(format!("\n got {got:02x?}\nwant {want:02x?}"))
    }
}

#[test]
fn every_message_and_version_has_vectors_unset_and_set_by_chance() {
    let of_kind = |is_kind: fn(&Vector) -> bool| -> BTreeSet<_> {
        lines()
            .iter()
            .filter(|line| is_kind(&line.vector))
            .map(|line| (line.message.group, line.message.name, line.version))
            .collect()
    };
    let unset = of_kind(|vector| matches!(vector, Vector::Default(_)));
    let set = of_kind(|vector| matches!(vector, Vector::Random(_)));
    let down = of_kind(|vector| matches!(vector, Vector::Down { .. }));
    for message in any::ALL {
        for version in message.min_version..=message.max_version {
            let this = (message.group, message.name, version);
            let name = message.name;
            assert!(unset.contains(&this), "{name} v{version}: nothing unset");
            assert!(set.contains(&this), "{name} v{version}: nothing by chance");
            assert!(
                version == message.max_version || down.contains(&this),
                "{name} v{version}: nothing from the latest version"
            );
        }
    }
}

#[test]
fn unset_messages_have_the_bytes_of_kafka() {
    check_all(|line| {
        let Vector::Default(want) = &line.vector else {
            return Ok(());
        };
        match (line.message.default_bytes(line.version), want) {
            (Ok(got), Some(want)) => same(&joined(got), want),
            (Err(_), None) => Ok(()),
            (Ok(_), None) => Err("encoded what Kafka refuses".to_owned()),
            (Err(why), Some(_)) => Err(why.to_string()),
        }
    });
}

#[test]
fn decoded_and_encoded_again_is_the_same() {
    check_all(|line| {
        let Some(want) = line.bytes() else {
            return Ok(());
        };
        let got = line
            .message
            .recode(want.clone(), line.version)
            .map_err(|why| why.to_string())?;
        same(&joined(got), want)
    });
}

#[test]
fn older_versions_drop_or_refuse_what_kafka_drops_or_refuses() {
    check_all(|line| {
        let Vector::Down { latest, here } = &line.vector else {
            return Ok(());
        };
        match (
            line.message
                .convert(latest.clone(), line.message.max_version, line.version),
            here,
        ) {
            (Ok(got), Some(want)) => same(&joined(got), want),
            (
                Err(RecodeError::Encode(EncodeError::Field { .. } | EncodeError::Null { .. })),
                None,
            ) => Ok(()),
            (Ok(_), None) => Err("encoded what Kafka refuses".to_owned()),
            (Err(why), _) => Err(why.to_string()),
        }
    });
}

#[test]
fn versions_outside_the_range_are_refused() {
    for message in any::ALL {
        for version in [
            message.min_version - 1,
            message.max_version + 1,
            i16::MIN,
            i16::MAX,
        ] {
            assert_eq!(
                message.default_bytes(version),
                Err(EncodeError::Version { version }),
                "{}",
                message.name
            );
            assert!(
                message
                    .recode(Bytes::from_static(&[0; 64]), version)
                    .is_err(),
                "{}",
                message.name
            );
        }
    }
}

#[test]
fn facts_of_the_apis_are_those_of_kafka() {
    let mut ours = String::new();
    for api in ApiKey::ALL {
        let (low, high, stable) = (
            api.min_version(),
            api.max_version(),
            api.max_version_stable(),
        );
        let on = |listener| api.is_on(listener);
        let headers = (low..=high).map(|version| {
            format!(
                " {version}:{}:{}",
                api.request_header_version(version),
                api.response_header_version(version)
            )
        });
        let (key, name, headers) = (api.key(), api.name(), headers.collect::<String>());
        let (broker, controller) = (on(Listener::Broker), on(Listener::Controller));
        ours += &format!("{key} {name} {low} {high} {stable} {broker} {controller}{headers}\n");
        assert_eq!(ApiKey::try_from(key), Ok(api));
    }
    assert_eq!(ours, include_str!("../data/apis.txt"));
    for key in [-1, 4, 5, 6, 7, 95, i16::MAX] {
        assert_eq!(ApiKey::try_from(key), Err(DecodeError::ApiKey { key }));
    }
}
