//! What an operator sees of a broker from outside: lines of its log.

#![allow(clippy::disallowed_methods)] // a peer of the broker, not a part of it

use std::io::{Read, Write};
use std::net::TcpStream;

use crate::broker::{Broker, Dir, esker, failure};

/// Sends bytes to the Kafka port and waits until the broker closes the connection.
fn provoke(broker: &Broker, bytes: &[u8]) {
    let mut stream = TcpStream::connect(&broker.address).unwrap();
    stream.write_all(bytes).unwrap();
    let mut rest = Vec::new();
    // A reset is as good as an end.
    let _ = stream.read_to_end(&mut rest);
    assert!(rest.is_empty(), "{rest:?}");
}

/// Metadata in a version that no broker has, from the client `old-app`.
const OF_ANOTHER_VERSION: &[u8] = b"\0\0\0\x12\0\x03\0\x63\0\0\0\x07\0\x07old-app\0";

#[test]
fn probes_of_other_protocols_and_clients_that_are_cut_off_are_named() {
    let dir = Dir::new();
    let broker = Broker::start(&dir.0, &[]);
    provoke(&broker, b"GET /metrics HTTP/1.1\r\nHost: here\r\n\r\n");
    provoke(&broker, b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03");
    provoke(&broker, OF_ANOTHER_VERSION);
    let said = broker.said();
    let lines: Vec<&str> = said.lines().collect();
    for (line, words) in lines.iter().zip([
        &["broker.connections: ", "it speaks HTTP"][..],
        &["broker.connections: ", "it speaks TLS"],
        &[
            "broker.requests: ",
            "api=Metadata version=99 client_id=old-app peer=127.0.0.1:",
            "versions 0 to ",
        ],
    ]) {
        assert!(
            line.starts_with("20") && line.contains("Z  WARN "),
            "{line}"
        );
        for word in words {
            assert!(line.contains(word), "{word} in {line}");
        }
    }
    assert_eq!(lines.len(), 3, "{said}");
}

#[test]
fn lines_are_json_for_collectors_and_a_setting_or_a_flag_says_so() {
    for more in [
        &["--log-format", "json"][..],
        &[
            "--set",
            "esker.log.format=JSON",
            "--set",
            "num.io.threads=8",
        ],
    ] {
        let dir = Dir::new();
        let broker = Broker::start(&dir.0, more);
        provoke(&broker, OF_ANOTHER_VERSION);
        let said = broker.said();
        let line = said.lines().last().unwrap();
        let line: serde_json::Value = serde_json::from_str(line).unwrap();
        assert_eq!(line["level"], "WARN");
        assert_eq!(line["target"], "broker.requests");
        assert_eq!(line["client_id"], "old-app");
        assert_eq!(line["version"], 99);
        assert!(line["timestamp"].as_str().unwrap().ends_with('Z'));
        let all_are_json = said
            .lines()
            .all(|line| serde_json::from_str::<serde_json::Value>(line).is_ok());
        assert!(all_are_json, "{said}");
    }
}

#[test]
fn levels_are_those_of_the_setting() {
    let dir = Dir::new();
    let broker = Broker::start(
        &dir.0,
        &["--set", "esker.log.level=info,broker.requests=off"],
    );
    provoke(&broker, OF_ANOTHER_VERSION);
    assert_eq!(broker.said(), "");
    for (level, words) in [
        ("loud", "loud is no level"),
        ("brokr=debug", "brokr is no logger"),
    ] {
        let setting = format!("esker.log.level={level}");
        let args = ["serve", "--listen", "127.0.0.1:0", "--set", &setting];
        let (code, error) = failure(&esker(&args, "", b""));
        assert!(code == 2 && error.contains(words), "{error}");
    }
}
