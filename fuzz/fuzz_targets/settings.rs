//! The texts of an operator: properties, TOML, listeners, overrides of topics, groups and subscriptions. The first byte chooses.

#![no_main]

use std::fmt::Write;
use std::sync::Arc;

use config::{Broker, Format, Level, Listener, Machine, Overrides, Settings, Topic};
use libfuzzer_sys::fuzz_target;

const MACHINE: Machine = Machine {
    cores: 4,
    memory_bytes: 8 << 30,
    descriptors: 65_536,
};

fuzz_target!(|data: &[u8]| {
    let [which, rest @ ..] = data else { return };
    let Ok(text) = std::str::from_utf8(rest) else {
        return;
    };
    match which % 4 {
        0 => file(text, Format::Properties),
        1 => file(text, Format::Toml),
        2 => listener(text),
        _ => overrides(text),
    }
});

fn file(text: &str, format: Format) {
    let mut settings = Settings::default();
    if let Err(error) = settings.read(text, format) {
        assert!(!error.to_string().is_empty());
        return;
    }
    let mut again = Settings::default();
    again
        .read(&written(&settings), Format::Properties)
        .expect("own text");
    assert_eq!(again, settings);
    for name in settings
        .warning()
        .into_iter()
        .flat_map(|warning| warning.names)
    {
        assert!(settings.get(&name).is_some());
    }
    let Ok(broker) = Broker::new(settings, MACHINE) else {
        return;
    };
    assert!(!broker.listeners.is_empty());
    for listener in broker.listeners.iter().chain(&broker.advertised) {
        same_again(listener);
    }
    assert!(!broker.describe().is_empty());
    let _ = broker.describe_cluster();
    let _ = Topic::resolve(&Overrides::default(), &broker);
}

/// As properties, with everything but plain letters escaped.
fn written(settings: &Settings) -> String {
    let pairs = settings.iter();
    pairs
        .map(|(name, value)| format!("{}={}\n", escaped(name), escaped(value)))
        .collect()
}

fn escaped(text: &str) -> String {
    let mut out = String::new();
    for unit in text.encode_utf16() {
        match char::from_u32(u32::from(unit)) {
            Some(letter) if letter.is_ascii_alphanumeric() || letter == '.' => out.push(letter),
            _ => write!(out, "\\u{unit:04x}").expect("in memory"),
        }
    }
    out
}

fn listener(text: &str) {
    if let Ok(listener) = Listener::parse(text) {
        same_again(&listener);
    }
}

fn same_again(listener: &Listener) {
    // Brackets are those of an IPv6 address; within a host they are one level that the next reading takes off.
    if listener.host.contains(['[', ']']) {
        return;
    }
    let text = format!("{}://{}", listener.name, listener.address());
    let again = Listener::parse(&text).expect("own text");
    assert_eq!(
        (&again.name, again.address()),
        (&listener.name, listener.address())
    );
}

fn overrides(text: &str) {
    let pairs = text.lines().filter_map(|line| line.split_once('='));
    let overrides: Overrides = pairs
        .map(|(name, value)| (name.to_owned(), value.to_owned()))
        .collect();
    let broker = Broker::new(Settings::default(), MACHINE).expect("defaults");
    if broker.check_topic(&overrides).is_ok() {
        let _ = Topic::resolve(&overrides, &broker);
        let _ = broker.describe_topic(&overrides);
    }
    if broker.check_group(&overrides).is_ok() {
        let _ = broker.describe_group(&overrides);
        for name in overrides.keys() {
            let _ = config::group_number(&overrides, name);
        }
    }
    if config::check_client_metrics(&overrides).is_ok() {
        let _ = config::ClientMetrics::resolve(&overrides);
        let _ = broker.describe_client_metrics(&overrides);
    }
    let overrides = Arc::new(overrides);
    let none = Arc::default();
    let levels = [Level::Cluster { own: &none }, Level::Own { cluster: &none }];
    for level in levels {
        let _ = broker.check_change(&overrides, level);
    }
    let _ = broker.with_dynamic(overrides, none);
}
