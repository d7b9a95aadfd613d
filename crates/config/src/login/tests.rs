//! Listeners with logins, from the settings.

use super::*;
use crate::fixture::{MACHINE, broker, broker_on};
use security::login::scram::Hash;

const PLAIN: &str = "org.apache.kafka.common.security.plain.PlainLoginModule";
const SCRAM: &str = "org.apache.kafka.common.security.scram.ScramLoginModule";
const INSIDE: &str = "listeners=INSIDE://:9092\nlistener.security.protocol.map=INSIDE:SASL_PLAINTEXT\n\
    inter.broker.listener.name=INSIDE\n";

/// The login of a broker with one SASL listener.
fn login(text: &str) -> Login {
    let broker = broker(&format!("{INSIDE}{text}"));
    broker.logins["INSIDE"].clone()
}

/// The error for that, as an operator reads it.
fn said(text: &str) -> Option<String> {
    let refused = broker_on(MACHINE, &format!("{INSIDE}{text}")).err();
    refused.map(|error| error.to_string())
}

fn names(login: &Login) -> Vec<&str> {
    let names = login.mechanisms.iter();
    names.map(|(mechanism, _)| mechanism.name()).collect()
}

#[test]
fn a_listener_in_the_clear_lets_in_everybody() {
    let broker = broker("");
    let login = &broker.logins["PLAINTEXT"];
    assert_eq!(login.protocol, Protocol::Plaintext);
    assert_eq!((login.mechanisms.len(), login.plain_users.len()), (0, 0));
    assert_eq!(login.receive_bytes_max, 65_536);
    assert_eq!(login.failure_delay, Duration::from_millis(100));
}

#[test]
fn mechanisms_are_offered_in_the_order_of_the_settings_and_once() {
    let own = "listener.name.inside.sasl.enabled.mechanisms=PLAIN";
    let all = "sasl.enabled.mechanisms=SCRAM-SHA-512,PLAIN,SCRAM-SHA-512,SCRAM-SHA-256";
    let login_of_all = login(all);
    assert_eq!(login_of_all.protocol, Protocol::SaslPlaintext);
    let expected = ["SCRAM-SHA-512", "PLAIN", "SCRAM-SHA-256"];
    assert_eq!(names(&login_of_all), expected);
    assert_eq!(names(&login(&format!("{all}\n{own}"))), ["PLAIN"]);
    // GSSAPI stands for all listeners, and this one has its own.
    let others = format!("sasl.enabled.mechanisms=GSSAPI\n{own}");
    assert_eq!(names(&login(&others)), ["PLAIN"]);
}

#[test]
fn the_longest_prefix_wins() {
    let text = "sasl.enabled.mechanisms=PLAIN,SCRAM-SHA-256,SCRAM-SHA-512\n\
        connections.max.reauth.ms=1000\n\
        listener.name.inside.connections.max.reauth.ms=2000\n\
        listener.name.inside.scram-sha-256.connections.max.reauth.ms=3000\n\
        listener.name.inside.scram-sha-512.connections.max.reauth.ms=0\n\
        listener.name.outside.connections.max.reauth.ms=4000\n\
        listener.name.inside.sasl.server.max.receive.size=2048\n\
        connection.failed.authentication.delay.ms=7\n";
    let of_inside = login(text);
    let seconds = |seconds| Some(Duration::from_secs(seconds));
    let expected = [
        (Mechanism::Plain, seconds(2)),
        (Mechanism::Scram(Hash::Sha256), seconds(3)),
        (Mechanism::Scram(Hash::Sha512), None),
    ];
    assert_eq!(of_inside.mechanisms, expected);
    assert_eq!(of_inside.receive_bytes_max, 2048);
    assert_eq!(of_inside.failure_delay, Duration::from_millis(7));
    let own = "listener.name.inside.connection.failed.authentication.delay.ms=9";
    let of_inside = login(&format!("{text}{own}"));
    assert_eq!(of_inside.failure_delay, Duration::from_millis(9));
    let negative = login("sasl.enabled.mechanisms=PLAIN\nconnections.max.reauth.ms=-1");
    assert_eq!(negative.mechanisms, [(Mechanism::Plain, None)]);
}

#[test]
fn users_of_plain_are_those_of_its_own_configuration() {
    let text = format!(
        "sasl.enabled.mechanisms=PLAIN,SCRAM-SHA-256\n\
        listener.name.inside.plain.sasl.jaas.config={PLAIN} required username=\"admin\" password=\"a\" user_admin=\"a\" user_alice=\"al;ice\";\n\
        listener.name.inside.scram-sha-256.sasl.jaas.config={SCRAM} required username=\"admin\" password=\"a\";"
    );
    let login_of_two = login(&text);
    let users: Vec<&String> = login_of_two.plain_users.keys().collect();
    assert_eq!(users, ["admin", "alice"]);
    assert!(login_of_two.plain_users["alice"].is(b"al;ice"));
    let shown = format!("{login_of_two:?}");
    assert!(!shown.contains("al;ice"), "{shown}");
    // The users of the cluster are enough.
    assert!(
        login("sasl.enabled.mechanisms=PLAIN")
            .plain_users
            .is_empty()
    );
}

#[test]
fn what_would_let_nobody_in_or_everybody_does_not_start() {
    let jaas = "sasl.enabled.mechanisms=PLAIN,SCRAM-SHA-256\nlistener.name.inside.";
    let cases = [
        (
            String::new(),
            "sasl.enabled.mechanisms: INSIDE speaks SASL_PLAINTEXT, and no mechanism is set, so nobody could log in; SCRAM-SHA-512 is the usual one",
        ),
        (
            "sasl.enabled.mechanisms=".to_owned(),
            "and no mechanism is set",
        ),
        (
            "listener.name.inside.sasl.enabled.mechanisms=".to_owned(),
            "and no mechanism is set",
        ),
        (
            "sasl.enabled.mechanisms=PLAIN,GSSAPI".to_owned(),
            "INSIDE asks for GSSAPI (Kerberos), which is not built in",
        ),
        (
            "sasl.enabled.mechanisms=OAUTHBEARER".to_owned(),
            "INSIDE asks for OAUTHBEARER, which comes with a later version",
        ),
        (
            "sasl.enabled.mechanisms=plain".to_owned(),
            "INSIDE asks for plain, which is no mechanism here",
        ),
        (
            "sasl.enabled.mechanisms=ESKER-NODE".to_owned(),
            "which is no mechanism here",
        ),
        (
            format!("{jaas}plain.sasl.jaas.config=com.example.Login required;"),
            "listener.name.inside.plain.sasl.jaas.config: names the login module com.example.Login, which is not built in",
        ),
        (
            format!("{jaas}scram-sha-256.sasl.jaas.config=x"),
            "listener.name.inside.scram-sha-256.sasl.jaas.config: says nothing after the login module",
        ),
        (
            format!("{jaas}plain.sasl.jaas.config={PLAIN} required user_a=\"b\""),
            "does not end with a semicolon",
        ),
        (
            format!("{jaas}plain.sasl.jaas.config={PLAIN} required username=\"a\" password=\"b\";"),
            "names no user; write user_NAME=\"PASSWORD\"",
        ),
        (
            format!("{jaas}plain.sasl.jaas.config={SCRAM} required user_a=\"b\";"),
            "is of org.apache.kafka.common.security.scram.ScramLoginModule, and PLAIN needs org.apache.kafka.common.security.plain.PlainLoginModule",
        ),
        (
            format!("{jaas}sasl.jaas.config={PLAIN} required user_a=\"b\";"),
            "listener.name.inside.plain.sasl.jaas.config: is not set; sasl.jaas.config without this prefix has no effect",
        ),
        (
            format!("sasl.jaas.config=x\n{jaas}connections.max.reauth.ms=5"),
            "sasl.jaas.config without this prefix has no effect",
        ),
        (
            format!("{jaas}connections.max.reauth.ms=soon"),
            "listener.name.inside.connections.max.reauth.ms: Invalid value soon",
        ),
        (
            format!("{jaas}plain.connections.max.reauth.ms=soon"),
            "listener.name.inside.plain.connections.max.reauth.ms: Invalid value soon",
        ),
        (
            format!("{jaas}sasl.server.max.receive.size=1"),
            "Value must be at least 1024",
        ),
        (
            "sasl.enabled.mechanisms=PLAIN\nconnections.max.idle.ms=100".to_owned(),
            "connection.failed.authentication.delay.ms: must be less than connections.max.idle.ms",
        ),
    ];
    for (text, words) in cases {
        let told = said(&text).unwrap_or_else(|| panic!("{text} is accepted"));
        assert!(told.contains(words), "{told}");
    }
}

#[test]
fn listeners_of_a_broker_may_speak_different_protocols() {
    let text = "listeners=PLAINTEXT://127.0.0.1:9092,OUTSIDE://:9093,CONTROLLER://127.0.0.1:9094\n\
        listener.security.protocol.map=PLAINTEXT:PLAINTEXT,OUTSIDE:SASL_PLAINTEXT,CONTROLLER:SASL_PLAINTEXT\n\
        controller.listener.names=CONTROLLER\nsasl.enabled.mechanisms=SCRAM-SHA-512\n";
    let broker = broker(text);
    let protocols: Vec<(&str, Protocol)> = broker
        .logins
        .iter()
        .map(|(name, login)| (name.as_str(), login.protocol))
        .collect();
    let expected = [
        ("CONTROLLER", Protocol::SaslPlaintext),
        ("OUTSIDE", Protocol::SaslPlaintext),
        ("PLAINTEXT", Protocol::Plaintext),
    ];
    assert_eq!(protocols, expected);
    assert_eq!(Protocol::SaslPlaintext.number(), 2);
    assert_eq!(Protocol::Plaintext.name(), "PLAINTEXT");
}

#[test]
fn protocols_with_tls_are_refused_by_name() {
    for protocol in ["SSL", "SASL_SSL"] {
        let told = said(&format!("listener.security.protocol.map=INSIDE:{protocol}"));
        let words = format!("listeners: INSIDE speaks {protocol}; TLS comes with the next version");
        assert_eq!(told, Some(words));
    }
    let told = said("listener.security.protocol.map=INSIDE:TLS").unwrap_or_default();
    assert!(
        told.contains("INSIDE speaks TLS, which is no protocol"),
        "{told}"
    );
}
