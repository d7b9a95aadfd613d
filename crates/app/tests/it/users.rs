//! Users and rules from the command line.

#![allow(clippy::disallowed_methods)] // tests meet the operating system as users do

use std::os::unix::fs::PermissionsExt;

use serde_json::{Value, json};

use crate::broker::{Broker, Dir, failure};

/// A client that does not log in stands above the rules: nobody else is there to make them.
const AUTHORIZER: [&str; 4] = [
    "--set",
    "authorizer.class.name=org.apache.kafka.metadata.authorizer.StandardAuthorizer",
    "--set",
    "super.users=User:ANONYMOUS",
];

fn told(broker: &Broker, args: &[&str]) -> Value {
    broker.json(&[&["--json"], args].concat())
}

/// Rules in short: what is allowed or denied to whom, on what.
fn rules(listed: &Value) -> Vec<String> {
    let rows = listed.as_array().expect("a list").iter();
    let text = |row: &Value, name: &str| row[name].as_str().expect(name).to_owned();
    rows.map(|row| {
        let columns = [
            "principal",
            "host",
            "permission",
            "operation",
            "resource",
            "name",
            "pattern",
        ];
        columns.map(|name| text(row, name)).join(" ")
    })
    .collect()
}

#[test]
fn a_user_comes_with_its_rules_and_goes_with_them() {
    let dir = Dir::new();
    let broker = Broker::start(&dir.0, &AUTHORIZER);
    let allow = "write,describe:topic:orders-*";
    let added = told(&broker, &["user", "add", "alice", "--allow", allow]);
    let password = added[0]["password"].as_str().expect("it is told once");
    assert_eq!(
        (added[0]["user"].as_str(), password.len()),
        (Some("alice"), 26)
    );
    let given = dir.file("password", b"wonderland\n");
    let given = given.to_str().expect("a path");
    let bob = ["user", "add", "bob", "--password-file", given];
    assert_eq!(
        told(&broker, &bob),
        json!([{"user": "bob", "password": null, "properties": null}])
    );

    let of = |user: &str| {
        json!({
            "user": user,
            "mechanisms": ["SCRAM-SHA-256", "SCRAM-SHA-512"],
            "iterations": [4096, 4096],
        })
    };
    let listed = told(&broker, &["user", "list"]);
    assert_eq!(listed, json!([of("alice"), of("bob")]));
    assert!(!listed.to_string().contains(password));
    let own = ["acl", "list", "--principal", "alice"];
    let expected = [
        "User:alice * allow Write topic orders- prefixed",
        "User:alice * allow Describe topic orders- prefixed",
    ];
    assert_eq!(rules(&told(&broker, &own)), expected);

    let (code, words) = failure(&broker.run(&["user", "add", "alice"], b""));
    assert!(
        code == 1 && words.contains("esker user passwd alice"),
        "{words}"
    );
    let (code, words) = failure(&broker.run(&["user", "passwd", "carol"], b""));
    assert!(
        code == 1 && words.contains("esker user add carol"),
        "{words}"
    );
    let other = told(&broker, &["user", "passwd", "alice"]);
    assert_ne!(other[0]["password"].as_str(), Some(password));
    let kept = dir.0.join("alice.properties");
    let path = kept.to_str().expect("a path");
    let told_of = told(&broker, &["user", "passwd", "alice", "--properties", path]);
    assert_eq!(
        told_of,
        json!([{"user": "alice", "password": null, "properties": path}])
    );
    let mode = std::fs::metadata(&kept).expect("written").permissions();
    assert_eq!(mode.mode() & 0o777, 0o600);
    // Its own file is replaced, and nothing else.
    told(&broker, &["user", "passwd", "alice", "--properties", path]);
    let link = dir.0.join("link.properties");
    std::os::unix::fs::symlink(&kept, &link).expect("a link");
    for (user, at) in [("bob", &kept), ("alice", &link)] {
        let at = at.to_str().expect("a path");
        let refused = broker.run(&["user", "passwd", user, "--properties", at], b"");
        let (code, words) = failure(&refused);
        assert!(code == 1 && words.contains("is there already"), "{words}");
    }
    assert!(link.is_symlink());
    let (code, words) = failure(&broker.run(&["user", "delete", "*"], b""));
    assert!(code == 2 && words.contains("no user"), "{words}");

    broker.ok(&["user", "delete", "alice", "bob"], b"");
    assert_eq!(told(&broker, &["user", "list"]), json!([]));
    assert_eq!(told(&broker, &own), json!([]));
    let (code, _) = failure(&broker.run(&["user", "delete", "alice"], b""));
    assert_eq!(code, 1);
    assert_eq!(broker.stop(), Some(0));
}

#[test]
fn rules_are_added_listed_by_what_they_are_about_and_deleted() {
    let dir = Dir::new();
    let broker = Broker::start(&dir.0, &AUTHORIZER);
    let add = |args: &[&str]| told(&broker, &[&["acl", "add"], args].concat());
    let principal = ["--principal", "alice", "--operation", "read"];
    add(&[&principal[..], &["--topic", "a", "--group", "g"]].concat());
    add(&[&principal[..], &["--topic", "a", "--prefixed", "--deny"]].concat());
    add(&["--principal", "User:*", "--operation", "alter", "--cluster"]);
    let list = |args: &[&str]| rules(&told(&broker, &[&["acl", "list"], args].concat()));
    assert_eq!(list(&[]).len(), 4);
    let about = [
        "User:alice * allow Read topic a literal",
        "User:alice * deny Read topic a prefixed",
    ];
    assert_eq!(list(&["--topic", "a"]), about);
    assert_eq!(list(&["--topic", "ab", "--match"]), about[1..]);
    let cluster = ["User:* * allow Alter cluster kafka-cluster literal"];
    assert_eq!(list(&["--cluster"]), cluster);

    let star = [&["acl", "add"], &principal[..], &["--topic", "orders-*"]].concat();
    let (code, words) = failure(&broker.run(&star, b""));
    assert!(
        code == 2 && words.contains("--topic orders- --prefixed"),
        "{words}"
    );

    let (code, words) = failure(&broker.run(&["acl", "delete"], b""));
    assert!(code == 2 && words.contains("--all"), "{words}");
    let gone = told(
        &broker,
        &["acl", "delete", "--principal", "alice", "--topic", "a"],
    );
    assert_eq!(rules(&gone), about);
    assert_eq!(list(&[]).len(), 2);
    told(&broker, &["acl", "delete", "--all"]);
    assert_eq!(list(&[]), [""; 0]);
    assert_eq!(broker.stop(), Some(0));
}

#[test]
fn without_an_authorizer_there_are_users_and_no_rules() {
    let dir = Dir::new();
    let broker = Broker::start(&dir.0, &[]);
    let (code, words) = failure(&broker.run(&["acl", "list"], b""));
    assert!(
        code == 1 && words.contains("No Authorizer is configured"),
        "{words}"
    );
    let allow = ["user", "add", "alice", "--allow", "read:topic:a"];
    let (code, _) = failure(&broker.run(&allow, b""));
    assert_eq!((code, told(&broker, &["user", "list"])), (1, json!([])));
    told(&broker, &["user", "add", "alice"]);
    broker.ok(&["user", "delete", "alice"], b"");
    assert_eq!(broker.stop(), Some(0));
}

#[test]
fn who_may_not_see_the_cluster_is_not_told_that_it_is_dead() {
    let dir = Dir::new();
    let broker = Broker::start(&dir.0, &AUTHORIZER[..2]);
    let (code, words) = failure(&broker.run(&["cluster", "status"], b""));
    assert!(
        code == 1 && words.contains("for those who have Describe on it"),
        "{words}"
    );
    assert_eq!(broker.stop(), Some(0));
}
