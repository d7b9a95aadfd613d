//! The quorum that settings name: what is accepted, what is refused, and why.

use std::time::Duration;

use model::BrokerId;

use super::*;
use crate::fixture::{MACHINE, broker, broker_on};
use crate::settings::Format;

const THREE: &str = "controller.quorum.voters=1@127.0.0.1:9092,2@127.0.0.1:9192,3@127.0.0.1:9292";

fn check(text: &str, words: Option<&str>) {
    let said = broker_on(MACHINE, text)
        .err()
        .map(|error| error.to_string());
    match words {
        None => assert_eq!(said, None, "{text}"),
        Some(words) => assert!(
            said.as_ref().is_some_and(|said| said.contains(words)),
            "{text}: {said:?}"
        ),
    }
}

fn is_alone(text: &str) -> bool {
    let broker = broker(text);
    broker.quorum.is_alone(broker.node_id)
}

#[test]
fn a_node_that_names_itself_is_alone() {
    for text in [
        "",
        "process.roles=broker",
        "controller.quorum.voters=",
        "controller.quorum.voters=1@localhost:9093",
        "node.id=7\ncontroller.quorum.voters=7@kafka:9093",
        "broker.id=7\ncontroller.quorum.voters=7@[::1]:9093",
        "controller.quorum.bootstrap.servers=",
        "controller.quorum.bootstrap.servers=localhost:9093\nlisteners=PLAINTEXT://:9092,CONTROLLER://:9093",
        "controller.quorum.bootstrap.servers=127.0.0.1:9093\nlisteners=PLAINTEXT://:9092,CONTROLLER://localhost:9093",
        "controller.quorum.bootstrap.servers=localhost:9093,127.0.0.1:9093\nlisteners=PLAINTEXT://:9092,CONTROLLER://:9093",
        "controller.quorum.bootstrap.servers=kafka:9093\nlisteners=PLAINTEXT://:9092,CONTROLLER://:9093",
        "controller.quorum.bootstrap.servers=Kafka:9093\nlisteners=PLAINTEXT://:9092,CONTROLLER://kafka:9093",
        "controller.quorum.bootstrap.servers=a:9093\nlisteners=PLAINTEXT://:9092,CONTROLLER://:9093\n\
         advertised.listeners=PLAINTEXT://b:9092,CONTROLLER://a:9093",
    ] {
        check(text, None);
        assert!(is_alone(text), "{text}");
        let door = broker(text).quorum.controller_listener;
        assert_eq!(door.is_some(), text.contains("CONTROLLER:"), "{text}");
    }
}

#[test]
fn a_node_that_names_others_is_not_alone() {
    let listeners =
        "node.id=1\nesker.cluster.insecure=true\nlisteners=PLAINTEXT://:9092,CONTROLLER://:9093";
    for text in [
        format!("node.id=2\nlisteners=PLAINTEXT://127.0.0.1:9192\n{THREE}"),
        "node.id=1\nprocess.roles=broker\ncontroller.quorum.voters=2@localhost:9093".to_owned(),
        "node.id=1\ncontroller.quorum.bootstrap.servers=a:9093".to_owned(),
        "broker.id=7\nprocess.roles=broker\ncontroller.quorum.voters=1@a:9093".to_owned(),
        "node.id=1\nprocess.roles=broker\ncontroller.quorum.bootstrap.servers=a:9093".to_owned(),
        format!("{listeners}\ncontroller.quorum.voters=1@a:9093,2@b:9093,3@c:9093"),
        format!("{listeners}\ncontroller.quorum.bootstrap.servers=a:9094"),
        format!("{listeners}\ncontroller.quorum.bootstrap.servers=a:9093,b:9093,c:9093"),
        format!(
            "{listeners}\ncontroller.quorum.bootstrap.servers=a:9093\nadvertised.listeners=PLAINTEXT://b:9092,CONTROLLER://b:9093"
        ),
        // A controller alone has brokers elsewhere.
        "node.id=1\nprocess.roles=controller\ncontroller.quorum.voters=1@127.0.0.1:9092".to_owned(),
    ] {
        check(&text, None);
        assert!(!is_alone(&text), "{text}");
    }
}

#[test]
fn a_broker_alone_does_not_take_a_controller_elsewhere_for_itself() {
    let text = "node.id=4\nlisteners=PLAINTEXT://:9092\nesker.cluster.insecure=true\ncontroller.quorum.bootstrap.servers=a:9092";
    assert!(
        is_alone(text),
        "one address, on the port of this controller"
    );
    assert!(!is_alone(&format!("process.roles=broker\n{text}")));
}

#[test]
fn a_quorum_that_cannot_be_read_is_refused() {
    for text in [
        "localhost:9093",
        "x@localhost:9093",
        "1@localhost",
        "-1@localhost:9093",
        "1@PLAINTEXT://localhost:9093",
    ] {
        let voters = format!("controller.quorum.voters={text}");
        check(&voters, Some("a voter is id@host:port"));
    }
    for text in ["localhost", "PLAINTEXT://localhost:9093"] {
        let servers = format!("controller.quorum.bootstrap.servers={text}");
        check(&servers, Some("a server is host:port"));
    }
}

#[test]
fn settings_with_which_nodes_could_not_find_each_other_are_refused() {
    let cases = [
        (
            format!("node.id=4\n{THREE}"),
            "controller.quorum.voters: does not name node 4, which is this controller: add 4@HOST:PORT, or set process.roles=broker",
        ),
        (
            format!("node.id=1\nprocess.roles=broker\n{THREE}"),
            "controller.quorum.voters: names node 1, which is this broker and no controller: take it out, or set \
             process.roles=broker,controller",
        ),
        (
            "node.id=1\ncontroller.quorum.voters=1@a:1,2@b:1,1@c:1".to_owned(),
            "controller.quorum.voters: names node 1 twice",
        ),
        (
            THREE.to_owned(),
            "node.id: each of several nodes has a number of its own: set it (`esker serve --node-id`)",
        ),
        (
            "node.id=1\ncontroller.quorum.voters=1@127.0.0.1:9092,2@0.0.0.0:9192".to_owned(),
            "controller.quorum.voters: 2@0.0.0.0:9192: nobody can connect to all addresses",
        ),
        (
            "node.id=1\ncontroller.quorum.bootstrap.servers=[::]:9192".to_owned(),
            "controller.quorum.bootstrap.servers: [::]:9192: nobody can connect to all addresses",
        ),
        (
            "node.id=1\nprocess.roles=controller".to_owned(),
            "controller.quorum.voters: names no voter: a controller must know them; set it to 1@HOST:PORT for a controller alone",
        ),
        (
            format!("node.id=2\n{THREE}"),
            "listeners: PLAINTEXT is at 127.0.0.1:9092, and controller.quorum.voters has others look for node 2 at 127.0.0.1:9192: \
             give both the same port",
        ),
        (
            format!("node.id=1\nbroker.session.timeout.ms=2000\n{THREE}"),
            "broker.session.timeout.ms: must be greater than broker.heartbeat.interval.ms, which is 2000",
        ),
        (
            format!("node.id=1\nbroker.heartbeat.interval.ms=0\n{THREE}"),
            "broker.heartbeat.interval.ms: must be greater than or equal to 1",
        ),
        (
            format!(
                "node.id=4\nprocess.roles=broker\nlisteners=PLAINTEXT://127.0.0.1:1,CONTROLLER://127.0.0.1:2\n{THREE}"
            ),
            "listeners: CONTROLLER is one of controller.listener.names, and this broker is no controller: take it out, or set \
             process.roles=broker,controller",
        ),
        (
            format!(
                "node.id=1\nprocess.roles=controller\nlisteners=PLAINTEXT://127.0.0.1:1,CONTROLLER://127.0.0.1:9092\n{THREE}"
            ),
            "listeners: PLAINTEXT is none of controller.listener.names, and this controller serves no clients: take it out, or set \
             process.roles=broker,controller",
        ),
        (
            format!(
                "node.id=1\nlisteners=PLAINTEXT://127.0.0.1:1,CONTROLLER://127.0.0.1:9092\n\
                 listener.security.protocol.map=PLAINTEXT:PLAINTEXT,CONTROLLER:SSL\n{THREE}"
            ),
            "listeners: CONTROLLER speaks SSL; TLS comes with the next version",
        ),
    ];
    for (text, words) in cases {
        let said = broker_on(MACHINE, &text).err();
        assert_eq!(
            said.map(|error| error.to_string()).as_deref(),
            Some(words),
            "{text}"
        );
    }
}

#[test]
fn plain_listeners_beyond_the_loopback_and_nodes_without_proof_are_said_at_the_start() {
    let open = "node.id=1\ncontroller.quorum.voters=1@a:9092,2@b:9092";
    let of = |text: &str| broker(&format!("{open}\n{text}"));
    let far = of("listeners=PLAINTEXT://:9092,CONTROLLER://10.0.0.7:9093");
    let words = far.warning_of_listeners().expect("both are far");
    for address in ["PLAINTEXT at 0.0.0.0:9092", "CONTROLLER at 10.0.0.7:9093"] {
        assert!(words.contains(address), "{words}");
    }
    let near = of("listeners=PLAINTEXT://127.0.0.1:9092");
    assert_eq!(
        (near.warning_of_listeners(), near.warning_of_nodes()),
        (None, None)
    );
    let insecure = of("listeners=PLAINTEXT://127.0.0.1:9092\nesker.cluster.insecure=true");
    let words = insecure.warning_of_nodes();
    assert!(words.is_some_and(|words| words.contains("127.0.0.1:9092")));
}

#[test]
fn the_door_of_a_controller_is_opened_where_other_nodes_are_named() {
    let text = format!(
        "node.id=1\nlisteners=PLAINTEXT://127.0.0.1:9094,controller://127.0.0.1:9092\n{THREE}"
    );
    let combined = broker(&text);
    let door = combined.quorum.controller_listener.as_ref();
    assert_eq!(
        door.map(Listener::address).as_deref(),
        Some("127.0.0.1:9092")
    );
    assert_eq!(combined.door_for_nodes(), door);
    assert_eq!(combined.listeners.len(), 1, "no door for clients");
    let alone = broker(&format!(
        "node.id=1\nprocess.roles=controller\nlisteners=CONTROLLER://127.0.0.1:9092\n{THREE}"
    ));
    assert!(alone.listeners.is_empty());
    assert_eq!(
        alone.quorum.roles,
        Roles {
            broker: false,
            controller: true
        }
    );
    let one_port = broker(&format!("node.id=1\n{THREE}"));
    assert_eq!(one_port.quorum.controller_listener, None);
    assert_eq!(one_port.door_for_nodes(), one_port.listeners.first());
}

#[test]
fn times_of_the_quorum_are_kafkas_unless_set() {
    let quorum = broker("controller.quorum.fetch.timeout.ms=700").quorum;
    let ms = Duration::from_millis;
    assert_eq!(quorum.heartbeat_interval, ms(2_000));
    assert_eq!(quorum.session_timeout, ms(9_000));
    assert_eq!(quorum.election_timeout, ms(1_000));
    assert_eq!(quorum.election_backoff_max, ms(1_000));
    assert_eq!(quorum.fetch_timeout, ms(700));
    assert_eq!(quorum.request_timeout, ms(2_000));
    assert_eq!(quorum.retry_backoff, ms(20));
}

#[test]
fn the_id_that_earlier_versions_made_of_the_voters_stays() {
    let id = |text: &str| {
        broker(&format!("node.id=1\n{text}"))
            .quorum
            .derived_cluster_id()
    };
    let three = id(THREE);
    assert_eq!(three.as_deref(), Some("fE1ISc2TUNLe_anqNrUAWw"));
    assert_eq!(
        three,
        id("controller.quorum.voters=3@127.0.0.1:9292, 1@127.0.0.1:9092,2@127.0.0.1:9192")
    );
    assert_ne!(
        three,
        id("controller.quorum.voters=1@127.0.0.1:9092,2@127.0.0.1:9192")
    );
    let name = |host: &str| id(&format!("controller.quorum.voters=1@{host}:9092"));
    assert_eq!(name("Kafka"), name("kafka"));
    assert_eq!(id(""), None);
}

#[test]
fn the_own_voter_is_found_in_settings_that_name_it() {
    let own = |text: &str| {
        let mut settings = Settings::default();
        settings.read(text, Format::Properties).expect("valid");
        Voter::own(&settings)
    };
    let second = own(&format!("node.id=2\n{THREE}")).expect("named");
    assert_eq!(
        (second.id, second.address().as_str()),
        (BrokerId(2), "127.0.0.1:9192")
    );
    let lone = own("node.id=1\ncontroller.quorum.voters=1@a:1").expect("named");
    assert_eq!(lone.address(), "a:1");
    for text in [THREE.to_owned(), format!("node.id=4\n{THREE}")] {
        assert_eq!(own(&text), None, "{text}");
    }
}
