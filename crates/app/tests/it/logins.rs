//! A node that asks for logins, from the socket of its administrators to the rules that decide.

#![allow(clippy::disallowed_methods)] // tests meet the operating system as users do

use std::os::unix::fs::{FileTypeExt, PermissionsExt};
use std::path::Path;

use serde_json::Value;

use crate::broker::{Broker, Dir, esker, failure};

const FREE: &str = "SASL_PLAINTEXT://127.0.0.1:0";
const GUARDED: [&str; 6] = [
    "--set",
    "sasl.enabled.mechanisms=SCRAM-SHA-512,SCRAM-SHA-256,PLAIN",
    "--set",
    "authorizer.class.name=org.apache.kafka.metadata.authorizer.StandardAuthorizer",
    "--set",
    "super.users=User:admin",
];

/// The output of a command that has to succeed.
fn done(args: &[&str], address: &str, input: &[u8]) -> String {
    let output = esker(args, address, input);
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(output.status.success(), "{args:?}: {said}");
    String::from_utf8(output.stdout).expect("text")
}

fn text(path: &Path) -> &str {
    path.to_str().expect("a path")
}

#[test]
fn the_first_user_comes_by_the_socket_and_the_others_by_logins() {
    let dir = Dir::new();
    let (data, files) = (dir.0.join("data"), Dir::new());
    let broker = Broker::start_as(FREE, &data, &GUARDED);
    let socket = data.join("esker.sock");
    let meta = std::fs::metadata(&socket).expect("it is there");
    assert!(meta.file_type().is_socket());
    assert_eq!(meta.permissions().mode() & 0o777, 0o600);

    let (admin, alice) = (files.0.join("admin"), files.0.join("alice"));
    let (admin, alice) = (text(&admin), text(&alice));
    let (code, said) = failure(&broker.run(&["topic", "list"], b""));
    assert!(code == 1 && said.contains("without a login"), "{said}");
    done(
        &["user", "add", "admin", "--properties", admin],
        text(&socket),
        b"",
    );

    let as_admin = |args: &[&str]| {
        let args = [&["--command-config", admin], args].concat();
        done(&args, &broker.address, b"")
    };
    as_admin(&["topic", "create", "orders-1", "-p", "3"]);
    as_admin(&["topic", "create", "other"]);
    let allow = "write:topic:orders-*";
    as_admin(&[
        "user",
        "add",
        "alice",
        "--allow",
        allow,
        "--properties",
        alice,
    ]);
    let produced = ["--command-config", alice, "produce", "orders-1"];
    done(&produced, &broker.address, b"1\n2\n3\n");
    for refused in [
        ["--command-config", alice, "consume", "orders-1", "-e"],
        ["--command-config", alice, "produce", "other", "--json"],
    ] {
        let (code, said) = failure(&esker(&refused, &broker.address, b"x\n"));
        let is_told = said.contains("not allowed to do this with the topic");
        assert!(code == 1 && is_told, "{refused:?}: {said}");
    }
    let why = as_admin(&["acl", "explain", "alice", "read", "topic:orders-1"]);
    assert!(
        why.starts_with("User:alice may not Read topic orders-1 from 127.0.0.1: rules name it"),
        "{why}"
    );
    assert!(
        why.contains("esker acl add --principal User:alice --operation Read --topic orders-1"),
        "{why}"
    );
    let why = as_admin(&[
        "--json",
        "acl",
        "explain",
        "alice",
        "write",
        "topic:orders-1",
    ]);
    let why: Value = serde_json::from_str(&why).expect("JSON");
    assert_eq!(why["allowed"], true, "{why}");
    as_admin(&[
        "acl",
        "add",
        "--principal",
        "alice",
        "--operation",
        "read",
        "--topic",
        "orders-1",
    ]);
    let consumed = ["--command-config", alice, "consume", "orders-1", "-e"];
    let mut read: Vec<String> = done(&consumed, &broker.address, b"")
        .lines()
        .map(str::to_owned)
        .collect();
    read.sort();
    assert_eq!(read, ["1", "2", "3"]);

    // A lost password is given anew by way of the socket, and the old one is none from then on.
    let old = files.file("old", &std::fs::read(admin).expect("kept"));
    done(
        &["user", "passwd", "admin", "--properties", admin],
        text(&socket),
        b"",
    );
    as_admin(&["cluster", "status"]);
    let stale = ["--command-config", text(&old), "topic", "list"];
    let (code, said) = failure(&esker(&stale, &broker.address, b""));
    assert!(code == 1 && said.contains("invalid credentials"), "{said}");

    // No password is in what the broker says, and the socket goes with it.
    for file in [admin, alice] {
        let kept = std::fs::read_to_string(file).expect("kept");
        let (_, password) = kept.rsplit_once("password=\"").expect("a password");
        let password = password.split('"').next().expect("its end");
        assert!(password.len() > 20 && !broker.log().contains(password));
    }
    assert_eq!(broker.stop(), Some(0));
    assert!(!socket.exists());
}
