//! The outside view of a broker: lines of its log, metrics, health, notices to systemd.

#![allow(clippy::disallowed_methods)] // a peer of the broker, not a part of it

use std::io::{Read, Write};
use std::net::TcpStream;

use crate::broker::{Broker, Dir, esker, failure};
use crate::cluster::until;

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

/// The port of metrics and health, as the log names it.
pub(crate) fn window(broker: &Broker) -> String {
    let log = broker.log();
    let (_, rest) = log.split_once("health on http://").expect(&log);
    rest.split_once('/').unwrap().0.to_owned()
}

/// Status and body of a GET.
pub(crate) fn get(address: &str, path: &str, accept: &str) -> (u16, String) {
    ask(address, "GET", path, accept)
}

fn ask(address: &str, method: &str, path: &str, accept: &str) -> (u16, String) {
    let mut stream = TcpStream::connect(address).unwrap();
    write!(
        stream,
        "{method} {path} HTTP/1.1\r\nHost: here\r\nAccept: {accept}\r\nConnection: close\r\n\r\n"
    )
    .unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    let (head, body) = answer.split_once("\r\n\r\n").expect(&answer);
    let status = head.split(' ').nth(1).unwrap().parse().unwrap();
    (status, body.to_owned())
}

fn watched(dir: &Dir) -> Broker {
    Broker::start(&dir.0, &["--set", "esker.http.listen=127.0.0.1:0"])
}

/// The value of a sample.
fn sample(page: &str, name: &str) -> Option<f64> {
    let line = page
        .lines()
        .find(|line| line.rsplit_once(' ').is_some_and(|(left, _)| left == name))?;
    line.rsplit_once(' ')?.1.parse().ok()
}

#[test]
fn every_metric_of_the_table_is_on_the_page_and_no_other() {
    let dir = Dir::new();
    let broker = watched(&dir);
    broker.ok(&["produce", "greetings"], b"one\ntwo\nthree\n");
    broker.ok(&["consume", "greetings", "-e"], b"");
    broker.ok(
        &[
            "group",
            "reset",
            "readers",
            "-t",
            "greetings",
            "--to",
            "end",
        ],
        b"",
    );
    assert!(
        !broker
            .run(&["topic", "describe", "nosuch"], b"")
            .status
            .success()
    );
    let address = window(&broker);
    let (status, page) = get(&address, "/metrics", "*/*");
    assert_eq!(status, 200, "{page}");
    for metric in broker::metrics::METRICS {
        let head = format!("# TYPE {} {}\n", metric.name, metric.kind.name());
        assert!(page.contains(&head), "{head} in {page}");
    }
    for line in page.lines().filter(|line| !line.starts_with('#')) {
        let name = line.split(['{', ' ']).next().unwrap();
        let is_known = |metric: &&broker::metrics::Metric| {
            let rest = name.strip_prefix(metric.name);
            rest.is_some_and(|rest| matches!(rest, "" | "_bucket" | "_sum" | "_count"))
        };
        assert!(
            broker::metrics::METRICS
                .iter()
                .any(|metric| is_known(&metric)),
            "{line}"
        );
    }
    for (name, least) in [
        ("esker_ready", 1.0),
        ("esker_requests_total{api=\"Produce\"}", 1.0),
        ("esker_request_duration_seconds_count{api=\"Fetch\"}", 1.0),
        ("esker_topic_log_end_offsets{topic=\"greetings\"}", 3.0),
        (
            "esker_topic_appended_bytes_total{topic=\"greetings\"}",
            60.0,
        ),
        ("esker_topic_fetched_bytes_total{topic=\"greetings\"}", 60.0),
        ("esker_connections_opened_total", 3.0),
        ("process_resident_memory_bytes", 1e6),
    ] {
        let value = sample(&page, name);
        assert!(
            value.is_some_and(|value| least <= value),
            "{name}: {value:?} in {page}"
        );
    }
    let errors = page.lines().find(|line| {
        line.starts_with("esker_request_errors_total")
            && line.contains("UNKNOWN_TOPIC_OR_PARTITION")
    });
    assert!(errors.is_some(), "{page}");
    assert!(page.contains("esker_journal_rounds_total{dir="), "{page}");
    assert!(
        page.contains("esker_memory_budget_bytes{budget=\"unwritten\"}"),
        "{page}"
    );

    let (_, open) = get(
        &address,
        "/metrics",
        "application/openmetrics-text;version=1.0.0",
    );
    assert!(open.ends_with("# EOF\n") && open.contains("# TYPE esker_requests counter\n"));
    check_with_promtool(&["check", "metrics"], &page);
    assert_eq!(broker.said(), "");
    assert_eq!(broker.stop(), Some(0));
}

/// Runs promtool over an input, where it is installed or in `.cache/`; the line that it is not says how to get it.
pub(crate) fn check_with_promtool(args: &[&str], input: &str) {
    let root = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let spawn = |program: &std::ffi::OsStr| {
        std::process::Command::new(program)
            .args(args)
            .current_dir(&root)
            .stdin(std::process::Stdio::piped())
            .stdout(std::process::Stdio::piped())
            .stderr(std::process::Stdio::piped())
            .spawn()
    };
    let found =
        spawn("promtool".as_ref()).or_else(|_| spawn(root.join(".cache/promtool").as_ref()));
    let Ok(mut promtool) = found else {
        let _ = writeln!(
            std::io::stderr(),
            "skipped: promtool {}: it is in Debian's package prometheus, and tests/setup puts it into .cache/",
            args.join(" ")
        );
        return;
    };
    let mut pipe = promtool.stdin.take().unwrap();
    // Beside reading what it says, which may fill a pipe before it has read all.
    let checked = std::thread::scope(|scope| {
        scope.spawn(move || pipe.write_all(input.as_bytes()));
        promtool.wait_with_output().unwrap()
    });
    let said = [checked.stdout, checked.stderr].concat();
    let said = String::from_utf8_lossy(&said);
    assert!(checked.status.success(), "{said}");
}

#[test]
fn alert_rules_pass_promtool() {
    check_with_promtool(&["check", "rules", "ops/prometheus/esker-alerts.yml"], "");
    check_with_promtool(
        &["test", "rules", "ops/prometheus/esker-alerts-test.yml"],
        "",
    );
}

/// Each alert leads to a section that is there and names it, and an alert that a section names is there.
#[test]
fn alerts_and_sections_of_the_handbook_lead_to_each_other() {
    let root = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let read = |path: &str| std::fs::read_to_string(root.join(path)).unwrap();
    let (rules, handbook) = (
        read("ops/prometheus/esker-alerts.yml"),
        read("docs/operations.md"),
    );
    let sections: Vec<(String, &str)> = handbook
        .split("\n## ")
        .skip(1)
        .map(|section| {
            let title = section.lines().next().unwrap_or_default();
            let plain = title.to_lowercase().replace(',', "").replace(' ', "-");
            (plain, section)
        })
        .collect();
    let mut alerts = Vec::new();
    for rule in rules.split("- alert: ").skip(1) {
        let alert = rule.lines().next().unwrap();
        let (_, anchor) = rule.split_once("docs/operations.md#").expect(alert);
        let anchor = anchor.split('"').next().unwrap();
        let section = sections.iter().find(|(title, _)| title == anchor);
        let (_, text) = section.unwrap_or_else(|| panic!("{alert} leads to no section: {anchor}"));
        assert!(
            text.contains(&format!("`{alert}`")),
            "{anchor} does not name {alert}"
        );
        alerts.push(alert);
    }
    let named = handbook.split('`').filter(|word| {
        let rest = word.strip_prefix("Esker");
        rest.is_some_and(|rest| rest.chars().all(char::is_alphanumeric))
    });
    for name in named {
        assert!(alerts.contains(&name), "{name} is no alert");
    }
}

#[test]
fn health_and_readiness_say_why_and_nothing_can_be_changed() {
    let dir = Dir::new();
    let broker = watched(&dir);
    let address = window(&broker);
    assert_eq!(get(&address, "/healthz", "*/*"), (200, "ok\n".into()));
    assert_eq!(get(&address, "/readyz", "*/*"), (200, "ready\n".into()));
    assert_eq!(get(&address, "/nosuch", "*/*").0, 404);
    for method in ["POST", "PUT", "DELETE"] {
        assert_eq!(ask(&address, method, "/metrics", "*/*").0, 405, "{method}");
    }
    let data = dir.0.join("other");
    let taken = format!("esker.http.listen={address}");
    let args = [
        "serve",
        "--listen",
        "127.0.0.1:0",
        "--set",
        &taken,
        "--data-dir",
    ];
    let (code, error) = failure(&esker(
        &[&args[..], &[data.to_str().unwrap()]].concat(),
        "",
        b"",
    ));
    assert!(
        code == 1 && error.contains(&taken.replace('=', ": ")),
        "{error}"
    );
}

#[test]
fn the_lag_of_a_group_is_there_soon_after_its_commit() {
    let dir = Dir::new();
    let broker = watched(&dir);
    broker.ok(&["produce", "orders"], b"one\ntwo\n");
    broker.ok(
        &["group", "reset", "readers", "-t", "orders", "--to", "end"],
        b"",
    );
    broker.ok(&["produce", "orders"], b"three\n");
    let address = window(&broker);
    let begun = std::time::Instant::now();
    let name = "esker_group_lag_records{group=\"readers\",topic=\"orders\"}";
    // Groups are looked at every five seconds.
    let page = loop {
        let (_, page) = get(&address, "/metrics", "*/*");
        if sample(&page, name).is_some() {
            break page;
        }
        assert!(begun.elapsed().as_secs() < 60, "{page}");
    };
    assert_eq!(sample(&page, name), Some(1.0));
    assert_eq!(sample(&page, "esker_groups"), Some(1.0));
}

#[test]
#[cfg(target_os = "linux")]
fn systemd_is_notified_of_start_stop_and_life() {
    let dir = Dir::new();
    let path = dir.0.join("notify");
    let socket = std::os::unix::net::UnixDatagram::bind(&path).unwrap();
    socket
        .set_read_timeout(Some(std::time::Duration::from_secs(60)))
        .unwrap();
    let next = || {
        let mut buffer = [0; 64];
        let len = socket.recv(&mut buffer).unwrap();
        String::from_utf8_lossy(&buffer[..len]).into_owned()
    };
    let variables = [
        format!("NOTIFY_SOCKET={}", path.display()),
        "WATCHDOG_USEC=200000".to_owned(),
    ];
    let broker = Broker::start_with(&variables, &dir.0.join("data"));
    assert_eq!(next(), "READY=1");
    assert_eq!([next(), next()], ["WATCHDOG=1", "WATCHDOG=1"]);
    assert_eq!(broker.stop(), Some(0));
    // Those on their way come first.
    let last = std::iter::repeat_with(next).find(|message| message != "WATCHDOG=1");
    assert_eq!(last.as_deref(), Some("STOPPING=1"));
}

#[test]
fn settings_that_grant_more_memory_than_there_is_are_told() {
    let dir = Dir::new();
    let broker = Broker::start(&dir.0, &["--set", "queued.max.request.bytes=4000000000000"]);
    let said = broker.said();
    assert!(
        said.contains("the settings grant ") && said.contains("lower queued.max.request.bytes"),
        "{said}"
    );
}

#[test]
fn a_broker_without_a_place_for_another_connection_says_so_everywhere() {
    let dir = Dir::new();
    let broker = Broker::start(
        &dir.0,
        &[
            "--set",
            "esker.http.listen=127.0.0.1:0",
            "--set",
            "max.connections=2",
        ],
    );
    let address = window(&broker);
    let mut taken = Vec::new();
    let is_full = || {
        get(&address, "/readyz", "*/*")
            .1
            .contains("all 2 places for connections are taken")
    };
    assert!(!is_full());
    taken.extend((0..2).map(|_| TcpStream::connect(&broker.address).unwrap()));
    until(is_full);
    let page = get(&address, "/metrics", "text/plain").1;
    assert_eq!(sample(&page, "esker_connections_max"), Some(2.0));
    until(|| {
        broker
            .log()
            .contains("all 2 places for connections are taken, and new clients wait")
    });
    taken.clear();
    until(|| get(&address, "/readyz", "*/*").1 == "ready\n");
}
