//! A broker on a simulated machine, as small as it can be, for tests that speak to it through the Kafka door.

use broker::Broker;
use env::sim::Machine;

pub(crate) const PORT: u16 = 9092;

/// With two shards and a journal of two small pieces; `extra` settings go before these.
pub(crate) fn start(machine: &Machine, extra: &[(&str, &str)]) -> Broker {
    let address = format!("PLAINTEXT://127.0.0.1:{PORT}");
    let base = [
        ("node.id", "1"),
        ("listeners", &*address),
        ("log.dirs", "/data"),
        ("num.network.threads", "2"),
        ("auto.create.topics.enable", "false"),
        ("esker.journal.piece.bytes", "1048576"),
        ("esker.journal.bytes", "2097152"),
    ];
    let mut settings = config::Settings::default();
    for (name, value) in base.iter().chain(extra) {
        settings.put(name, value).expect("a known setting");
    }
    let this = config::Machine {
        cores: 2,
        memory_bytes: 0,
        descriptors: 20_000,
    };
    let settings = config::Broker::new(settings, this).expect("settings that fit each other");
    Broker::start(&machine.env(), settings).expect("a start")
}
