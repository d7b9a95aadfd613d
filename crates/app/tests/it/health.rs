//! Three real nodes as monitoring sees them: one is paused, one killed, one cut off from the others, one without room. Each figure and
//! each alert changes, and changes back.

#![allow(clippy::disallowed_methods)] // a peer of the brokers, not a part of them

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use crate::broker::{Broker, Dir, ESKER};
use crate::cluster::{addresses, until};
use crate::observing::{check_with_promtool, get, window};

/// A scrape of one node: value by series, without the node.
type Page = BTreeMap<String, f64>;
/// A series, and what the sum of its values is to be.
type Figure<'a> = (&'a str, fn(f64) -> bool);

struct Node {
    broker: Broker,
    /// Of its metrics.
    window: String,
}

/// The nodes by number; `None` for one that is down or does not answer.
struct Nodes(BTreeMap<usize, Option<Node>>);

/// An event, the figures of each node after it, and the alerts that follow if it lasts.
struct Phase {
    name: &'static str,
    pages: BTreeMap<usize, Option<Page>>,
    fires: &'static [&'static str],
}

/// The alerts about a node without room, whatever else it does.
const OF_ROOM: &[&str] = &["EskerDiskFull", "EskerUnderReplicated"];
/// The alerts of a cluster. Those about room and memory of the machine depend on where the test runs.
const OF_NODES: &[&str] = &[
    "EskerDown",
    "EskerNotReady",
    "EskerPartitionsUnserved",
    "EskerNoController",
    "EskerNoLeader",
    "EskerUncleanElection",
    "EskerBelowMinIsr",
    "EskerUnderReplicated",
    "EskerFencedBroker",
    "EskerReassignmentStuck",
    "EskerDiskFull",
];
/// Minutes that a phase is taken to last.
const PHASE_MINUTES: usize = 10;
/// The alerts about a node that is gone, and led and followed.
const ONE_IS_GONE: &[&str] = &[
    "EskerBelowMinIsr",
    "EskerDown",
    "EskerFencedBroker",
    "EskerNoLeader",
    "EskerUnderReplicated",
];
/// Starts node `id` by a command, with short sessions.
fn start(command: Command, id: usize, addresses: &[String], data: &Path) -> Node {
    let more = [
        "esker.http.listen=127.0.0.1:0",
        "broker.session.timeout.ms=3000",
        "broker.heartbeat.interval.ms=300",
        "replica.lag.time.max.ms=3000",
        // Leaders that moved come back soon.
        "leader.imbalance.check.interval.seconds=1",
    ];
    let more: Vec<&str> = more.iter().flat_map(|one| ["--set", one]).collect();
    let broker = Broker::start_node_by(command, (id, addresses), data, &more);
    let window = window(&broker);
    Node { broker, window }
}

impl Nodes {
    fn node(&self, id: usize) -> &Node {
        self.0[&id].as_ref().unwrap()
    }

    fn scrape(&self, but: &[usize]) -> BTreeMap<usize, Option<Page>> {
        let page = |(id, node): (&usize, &Option<Node>)| {
            let node = node.as_ref().filter(|_| !but.contains(id));
            (*id, node.map(|node| read(&node.window)))
        };
        self.0.iter().map(page).collect()
    }

    /// The number of the active controller, once there is one: a machine that is busy elects another at times.
    fn controller(&self) -> usize {
        let mut found = None;
        until(|| {
            let pages = self.scrape(&[]);
            let active = pages.iter().find(|(_, page)| {
                page.as_ref()
                    .is_some_and(|page| page["esker_active_controller"] == 1.0)
            });
            found = active.map(|(id, _)| *id);
            found.is_some()
        });
        found.unwrap()
    }
}

fn read(window: &str) -> Page {
    let (status, text) = get(window, "/metrics", "*/*");
    assert_eq!(status, 200, "{text}");
    let samples = text.lines().filter(|line| !line.starts_with('#'));
    let sample = |line: &str| {
        let (series, value) = line.rsplit_once(' ')?;
        Some((series.to_owned(), value.parse().ok()?))
    };
    samples.filter_map(sample).collect()
}

/// The sum of a series over the nodes that answer.
fn sum(pages: &BTreeMap<usize, Option<Page>>, name: &str) -> f64 {
    let pages = pages.values().flatten();
    pages
        .map(|page| page.get(name).copied().unwrap_or(0.0))
        .sum()
}

/// Waits until the figures of the nodes that answer are as expected. What they are not is the message.
fn await_figures(
    nodes: &Nodes,
    silent: &[usize],
    expected: &[Figure<'_>],
) -> BTreeMap<usize, Option<Page>> {
    let mut wrong = String::new();
    for _ in 0..600 {
        let pages = nodes.scrape(silent);
        let is_wrong = |(name, is): &&Figure<'_>| !is(sum(&pages, name));
        let missed: Vec<&str> = (expected.iter().filter(is_wrong))
            .map(|(name, _)| *name)
            .collect();
        if missed.is_empty() {
            return pages;
        }
        wrong.clear();
        for name in missed {
            let _ = write!(wrong, "{name} is {}; ", sum(&pages, name));
        }
        std::thread::sleep(Duration::from_millis(50));
    }
    panic!("after 30 s {wrong}");
}

/// The alerts about a node that has lost all others.
const ONE_IS_LEFT: &[&str] = &[
    "EskerDown",
    "EskerNoController",
    "EskerNotReady",
    "EskerPartitionsUnserved",
];

const IS_ZERO: fn(f64) -> bool = |value| value == 0.0;
const IS_SOME: fn(f64) -> bool = |value| 0.0 < value;

/// Nothing is wrong, and all three are here.
const AT_REST: &[Figure<'static>] = &[
    ("esker_ready", |value| value == 3.0),
    ("esker_active_controller", |value| value == 1.0),
    ("esker_cluster_brokers", |value| value == 9.0),
    ("esker_cluster_brokers_fenced", IS_ZERO),
    ("esker_cluster_partitions_without_leader", IS_ZERO),
    ("esker_cluster_partitions_not_preferred", IS_ZERO),
    ("esker_partitions_led", |value| value == 12.0),
    ("esker_partitions_preferred", |value| value == 12.0),
    ("esker_partitions_unserved", IS_ZERO),
    ("esker_partitions_under_replicated", IS_ZERO),
    ("esker_partitions_below_min_isr", IS_ZERO),
    ("esker_partitions_at_min_isr", |value| value == 6.0),
    ("esker_partitions_reassigning", IS_ZERO),
    ("esker_log_dir_full", IS_ZERO),
    ("esker_follower_lag_records{follower=\"1\"}", IS_ZERO),
    ("esker_follower_lag_records{follower=\"2\"}", IS_ZERO),
    ("esker_follower_lag_records{follower=\"3\"}", IS_ZERO),
    ("esker_follower_lag_seconds{follower=\"3\"}", IS_ZERO),
    ("esker_quorum_voters", |value| value == 9.0),
    ("esker_metadata_lag_seconds", |value| value < 15.0),
    ("esker_metadata_log_end_offset", IS_SOME),
];

/// One of three leads and follows nothing any more.
const WITHOUT_ONE: &[Figure<'static>] = &[
    ("esker_ready", |value| value == 2.0),
    ("esker_active_controller", |value| value == 1.0),
    ("esker_cluster_brokers_fenced", |value| value == 2.0),
    ("esker_cluster_partitions_without_leader", |value| {
        value == 2.0
    }),
    ("esker_cluster_partitions_not_preferred", IS_SOME),
    ("esker_partitions_led", |value| value == 11.0),
    ("esker_partitions_unserved", IS_ZERO),
    ("esker_partitions_under_replicated", |value| value == 9.0),
    ("esker_partitions_below_min_isr", |value| value == 3.0),
    ("esker_isr_shrinks_total", IS_SOME),
    ("esker_leader_elections_total", IS_SOME),
    ("esker_leader_elections_unclean_total", IS_ZERO),
];

fn produce(broker: &Broker, topic: &str) {
    let lines: String = (0..600).map(|line| format!("record {line}\n")).collect();
    broker.ok(&["produce", topic], lines.as_bytes());
}

/// Topics with a leader, a follower and an only replica on each node, and what a scrape has of them.
fn populate(nodes: &Nodes) -> BTreeMap<usize, Option<Page>> {
    let first = &nodes.node(1).broker;
    for (topic, replicas, partitions, setting) in [
        ("wide", "3", "6", "min.insync.replicas=2"),
        ("strict", "3", "3", "min.insync.replicas=3"),
        ("lone", "1", "3", "min.insync.replicas=1"),
    ] {
        let made = [
            "topic", "create", topic, "-r", replicas, "-p", partitions, "-c", setting,
        ];
        first.ok(&made, b"");
        produce(first, topic);
    }
    await_figures(nodes, &[], AT_REST)
}

fn are_ready(nodes: &Nodes) -> bool {
    let mut nodes = nodes.0.values().flatten();
    nodes.all(|node| get(&node.window, "/readyz", "*/*").0 == 200)
}

#[test]
fn a_controller_alone_is_ready_while_it_hears_the_quorum() {
    let (dirs, addresses) = ([Dir::new(), Dir::new(), Dir::new()], addresses());
    let start = |id: usize| {
        let more = [
            "--roles",
            "controller",
            "--set",
            "esker.http.listen=127.0.0.1:0",
        ];
        let at = (id, &addresses[..]);
        let broker = Broker::start_node_by(Command::new(ESKER), at, &dirs[id - 1].0, &more);
        let window = window(&broker);
        Some(Node { broker, window })
    };
    let mut nodes = Nodes((1..=3).map(|id| (id, start(id))).collect());
    until(|| are_ready(&nodes));
    let leader = nodes.controller();
    let last = (1..=3).find(|id| *id != leader).unwrap();
    for id in (1..=3).filter(|id| *id != last) {
        nodes.0.insert(id, None).flatten().unwrap().broker.kill();
    }
    until(|| !are_ready(&nodes));
    let (_, why) = get(&nodes.node(last).window, "/readyz", "*/*");
    let majority = "2 of the voters 1, 2, 3 have to be up and to reach each other";
    assert!(why.contains(majority), "{why}");
    let page = read(&nodes.node(last).window);
    assert_eq!(
        (page["esker_ready"], page["esker_quorum_leader"]),
        (0.0, -1.0)
    );
    let line = format!(
        "this controller hears no leader of the quorum: no active controller is known: {majority}"
    );
    until(|| nodes.node(last).broker.log().contains(&line));
    nodes.0.insert(leader, start(leader));
    until(|| are_ready(&nodes));
}

#[test]
fn figures_and_alerts_change_with_a_node_and_change_back() {
    let (dirs, addresses) = ([Dir::new(), Dir::new(), Dir::new()], addresses());
    let start = |id: usize| {
        let command = Command::new(ESKER);
        (id, Some(start(command, id, &addresses, &dirs[id - 1].0)))
    };
    let mut nodes = Nodes(BTreeMap::from([start(1)]));
    let (status, why) = get(&nodes.node(1).window, "/readyz", "*/*");
    let waits = "waits for its cluster: no active controller is known: a new cluster begins once all 3 voters, 1, 2, 3, are up";
    assert!(status == 503 && why.starts_with(waits), "{status} {why}");
    assert_eq!(get(&nodes.node(1).window, "/healthz", "*/*").0, 200);
    nodes.0.extend([start(2), start(3)]);
    until(|| are_ready(&nodes));
    let mut phases = Vec::new();
    let mut note = |name, pages, fires| phases.push(Phase { name, pages, fires });
    let pages = populate(&nodes);
    assert!(0.0 < sum(&pages, "esker_replication_sent_bytes_total"));
    assert!(0.0 < sum(&pages, "esker_replication_received_bytes_total"));
    // Each partition counts where it is led.
    let ends = "esker_topic_log_end_offsets{topic=\"wide\"}";
    assert_eq!(sum(&pages, ends), 600.0);
    assert_eq!(sum(&pages, "esker_topic_partitions{topic=\"wide\"}"), 6.0);
    assert_eq!(sum(&pages, "esker_partitions"), 30.0);
    note("at rest", pages, &[]);

    // A pause: the process is there and says nothing.
    let paused = nodes.controller() % 3 + 1;
    nodes.node(paused).broker.nudge("-STOP");
    await_figures(&nodes, &[paused], WITHOUT_ONE);
    produce(&nodes.node(paused % 3 + 1).broker, "wide");
    let lag = |name: &str| format!("esker_follower_lag_{name}{{follower=\"{paused}\"}}");
    let (records, seconds) = (lag("records"), lag("seconds"));
    let lags: [Figure<'_>; 2] = [
        // More than it lacks, where a new leader has not heard it yet.
        (&records, |value| 600.0 <= value),
        (&seconds, |value| 1.0 < value),
    ];
    let pages = await_figures(&nodes, &[paused], &[WITHOUT_ONE, &lags].concat());
    note("one is paused", pages, ONE_IS_GONE);
    nodes.node(paused).broker.nudge("-CONT");
    let pages = await_figures(&nodes, &[], AT_REST);
    assert!(0.0 < sum(&pages, "esker_isr_grows_total"));
    assert_eq!(sum(&pages, ends), 1200.0);
    note("it goes on", pages, &[]);

    // A death, of the active controller.
    let dead = nodes.controller();
    let epoch = |page: &Page| page["esker_quorum_epoch"];
    let before = epoch(&read(&nodes.node(dead).window));
    if let Some(node) = nodes.0.insert(dead, None).flatten() {
        node.broker.kill();
    }
    let pages = await_figures(&nodes, &[], WITHOUT_ONE);
    let mut epochs = pages.values().flatten().map(epoch);
    assert!(epochs.all(|epoch| before < epoch));
    note("one is dead", pages, ONE_IS_GONE);
    nodes.0.extend([start(dead)]);
    note("it is back", await_figures(&nodes, &[], AT_REST), &[]);

    // The last of three cannot reach anybody.
    for silent in [1, 2] {
        nodes.node(silent).broker.nudge("-STOP");
    }
    let cut_off: [Figure<'_>; 4] = [
        ("esker_ready", IS_ZERO),
        ("esker_active_controller", IS_ZERO),
        ("esker_partitions_led", |value| value == 4.0),
        ("esker_partitions_unserved", |value| value == 4.0),
    ];
    let pages = await_figures(&nodes, &[1, 2], &cut_off);
    let last = &nodes.node(3).window;
    let (status, why) = get(last, "/readyz", "*/*");
    let unserved = "; 4 partitions that this broker leads are not served";
    let is_told = why.starts_with("acts as no leader: ") && why.contains(unserved);
    assert!(status == 503 && is_told, "{status} {why}");
    assert_eq!(get(last, "/healthz", "*/*"), (200, "ok\n".into()));
    note("one is left", pages, ONE_IS_LEFT);
    for silent in [1, 2] {
        nodes.node(silent).broker.nudge("-CONT");
    }
    note("all are back", await_figures(&nodes, &[], AT_REST), &[]);
    assert_eq!(get(last, "/readyz", "*/*"), (200, "ready\n".into()));
    check_alerts(&phases, OF_NODES);
}

/// Room of the node whose volume is filled.
const VOLUME: &str = "size=192m";

/// Starts `esker` with an empty volume of its own at the directory.
fn with_volume(data: &Path) -> Command {
    let mut command = Command::new("unshare");
    let script = format!("mount -t tmpfs -o {VOLUME} tmpfs \"$0\" && exec \"$@\"");
    command.args(["--map-root-user", "--mount", "sh", "-c", &script]);
    command.arg(data).arg(ESKER);
    command
}

/// True if a process may have mounts of its own here.
fn can_mount(at: &Path) -> bool {
    let mut unshare = Command::new("unshare");
    unshare.args([
        "--map-root-user",
        "--mount",
        "mount",
        "-t",
        "tmpfs",
        "tmpfs",
    ]);
    let output = unshare.arg(at).output();
    output.is_ok_and(|output| output.status.success())
}

/// Fills the volume of a node with a file, as the process sees it: the volume is mounted for it alone.
fn fill(node: &Node, data: &Path) -> PathBuf {
    let inside = format!("/proc/{}/root{}", node.broker.process_id(), data.display());
    let filler = Path::new(&inside).join("filler");
    let mut file = std::fs::File::create(&filler).unwrap();
    let piece = vec![0; 1 << 20];
    while file.write_all(&piece).is_ok() {}
    filler
}

#[test]
fn figures_and_alerts_change_with_the_room_of_a_node_and_change_back() {
    let (dirs, addresses) = ([Dir::new(), Dir::new(), Dir::new()], addresses());
    let data = &dirs[2].0;
    if !can_mount(data) {
        let skipped = "skipped: a volume of its own takes unprivileged user namespaces";
        let _ = writeln!(std::io::stderr(), "{skipped}");
        return;
    }
    let start = |id: usize| {
        let command = match id {
            3 => with_volume(data),
            _ => Command::new(ESKER),
        };
        (id, Some(start(command, id, &addresses, &dirs[id - 1].0)))
    };
    let nodes = Nodes(BTreeMap::from([start(1), start(2), start(3)]));
    until(|| are_ready(&nodes));
    let mut phases = Vec::new();
    let mut note = |name, pages, fires| phases.push(Phase { name, pages, fires });
    note("at rest", populate(&nodes), &[]);

    let filler = fill(nodes.node(3), data);
    let full = format!("esker_log_dir_full{{dir=\"{}\"}}", data.display());
    // Others lead what they can: all but the partition that has its only replica there. It cannot follow what is written.
    until(|| {
        produce(&nodes.node(1).broker, "wide");
        let others = nodes.scrape(&[3]);
        let is_relieved = sum(&others, "esker_partitions_led") == 11.0;
        let is_missed = IS_SOME(sum(&others, "esker_partitions_under_replicated"));
        is_relieved && is_missed && read(&nodes.node(3).window)[&full] == 1.0
    });
    // It may act as no leader, where the metadata found no room either.
    let (status, told) = get(&nodes.node(3).window, "/readyz", "*/*");
    assert!(
        told.contains("is full, appends are refused"),
        "{status} {told}"
    );
    note("one has no room", nodes.scrape(&[]), OF_ROOM);
    std::fs::remove_file(filler).unwrap();
    note("there is room", await_figures(&nodes, &[], AT_REST), &[]);
    check_alerts(&phases, OF_ROOM);
}

/// Has these rules look at the phases one after the other.
fn check_alerts(phases: &[Phase], alerts: &[&str]) {
    let mut series: BTreeMap<String, Vec<Option<f64>>> = BTreeMap::new();
    for (at, phase) in phases.iter().enumerate() {
        for (id, page) in &phase.pages {
            let of_node = |name: &str| match name.split_once('{') {
                Some((name, labels)) => {
                    format!("{name}{{job=\"esker\", instance=\"{id}\", {labels}")
                }
                None => format!("{name}{{job=\"esker\", instance=\"{id}\"}}"),
            };
            let mut put = |name: &str, value: f64| {
                let values = series.entry(of_node(name)).or_default();
                values.resize(at, None);
                values.push(Some(value));
            };
            put("up", if page.is_some() { 1.0 } else { 0.0 });
            let page = page.iter().flatten();
            let plain =
                page.filter(|(name, _)| name.starts_with("esker_") && !name.contains("_bucket{"));
            plain.for_each(|(name, value)| put(name, *value));
        }
    }
    let minutes = PHASE_MINUTES - 1;
    let mut text =
        "rule_files: [RULES]\nevaluation_interval: 1m\ntests:\n- interval: 1m\n  input_series:\n"
            .to_owned();
    for (name, values) in &series {
        let _ = write!(text, "  - series: '{name}'\n    values: '");
        for value in values {
            let _ = match value {
                Some(value) => write!(text, "{value}x{minutes} "),
                None => write!(text, "_x{PHASE_MINUTES} "),
            };
        }
        text.push_str("'\n");
    }
    text.push_str("  promql_expr_test:\n");
    let all = alerts.join("|");
    for (at, phase) in phases.iter().enumerate() {
        let end = (at + 1) * PHASE_MINUTES - 1;
        let _ = write!(
            text,
            "  # {}\n  - eval_time: {end}m\n    expr: 'max by (alertname) (ALERTS{{alertstate=\"firing\", alertname=~\"{all}\"}})'\n    exp_samples:\n",
            phase.name
        );
        for alert in phase.fires {
            let _ = writeln!(
                text,
                "    - {{labels: '{{alertname=\"{alert}\"}}', value: 1}}"
            );
        }
    }
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let rules = root.join("ops/prometheus/esker-alerts.yml");
    let dir = Dir::new();
    let text = text.replace("RULES", &rules.display().to_string());
    let file = dir.file("scraped.yml", text.as_bytes());
    check_with_promtool(&["test", "rules", &file.display().to_string()], "");
}
