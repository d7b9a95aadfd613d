//! Nodes whose secret is another one, unfit, or none: each says so in a line, and nobody else notices.

use std::path::Path;

use security::login::node::ClusterSecret;

use super::cluster::{Cluster, TOPIC, look};
use crate::broker::frames::Talk;
use crate::broker::table::Table;
use crate::broker::{Node, Place, write_secret};

/// How long the stranger has to find out that it is one.
const TRIES: usize = 100;

pub(crate) fn run(place: &mut Place, table: &mut Table) -> Result<(), String> {
    stranger(place, table)?;
    unfit(place, table)
}

/// A node of another cluster's secret, with the number of a voter that is away.
fn stranger(place: &mut Place, table: &mut Table) -> Result<(), String> {
    let mut cluster = Cluster::new(place, &[]);
    cluster.start()?;
    let first = cluster.addresses[0].clients.clone();
    place.esker(&["topic", "create", TOPIC, "-p", "3", "-b", &first], "")?;
    cluster.nodes[2].stop()?;
    let other = place.root.join("other.secret");
    write_secret(&other, &secret(9), 0o600)?;
    let arguments = &mut cluster.nodes[2].arguments;
    if let Some(last) = arguments.last_mut() {
        *last = other.display().to_string();
    }
    let count = cluster.nodes[2].lines().len();
    cluster.nodes[2].start()?;
    cluster.nodes[2].await_listening()?;
    // The line of its log, and the answer to a client.
    let words = "different cluster secrets";
    let mut said = Vec::new();
    for _ in 0..TRIES {
        let lines = cluster.nodes[2].lines();
        said = lines[count..]
            .iter()
            .filter(|line| line.contains(words))
            .cloned()
            .collect();
        if 2 <= said.len() {
            break;
        }
        pause();
    }
    let got = match said.len() {
        0 => format!("nothing: {}", cluster.nodes[2].last_line()),
        1 | 2 => "a line for each node that it reaches".to_owned(),
        more => format!("{more} lines"),
    };
    let name = "a node with another secret says";
    table.check(name, "", "a line for each node that it reaches", &got);
    let metadata = wire::messages::MetadataRequest::default();
    let served = Talk::open(&cluster.addresses[2].clients)
        .map_err(|error| error.to_string())
        .and_then(|mut talk| talk.ask(&metadata, 9).map(|_| "served".to_owned()));
    let got = served.unwrap_or_else(|why| why);
    table.check_any("and serves clients", "", &["closed", "silence"], &got);
    // The others go on.
    let input: Vec<String> = (0..100).map(|at| at.to_string()).collect();
    let produced = place.esker(&["produce", TOPIC, "-b", &first], &input.join("\n"));
    table.done("the cluster takes records", "", produced);
    let read = place.esker(&["consume", TOPIC, "-e", "-b", &first], "");
    let read = read.map_or_else(|why| why, |read| super::restarts::compare(&input, &read));
    table.check("and gives them back", "", "each record once", &read);
    let sight = Talk::open(&first)
        .map_err(|error| error.to_string())
        .and_then(|mut talk| look(&mut talk));
    let got = sight.map_or_else(|why| why, |sight| format!("{:?}", sight.controller != 3));
    table.check("and is led by one of its own", "", "true", &got);
    cluster.stop()
}

/// Starts that are refused.
fn unfit(place: &mut Place, table: &mut Table) -> Result<(), String> {
    let good = place.root.join("good.secret");
    write_secret(&good, &secret(1), 0o600)?;
    let short = place.root.join("short.secret");
    // 31 bytes in base64.
    write_secret(&short, &format!("{}A==\n", "A".repeat(41)), 0o600)?;
    let open = place.root.join("open.secret");
    write_secret(&open, &secret(1), 0o644)?;
    let garbage = place.root.join("garbage.secret");
    write_secret(&garbage, "not a secret at all!\n", 0o600)?;
    let empty = place.root.join("empty.secret");
    write_secret(&empty, "", 0o600)?;
    let long = place.root.join("long.secret");
    write_secret(&long, &"A".repeat(5000), 0o600)?;
    let missing = place.root.join("missing.secret");
    // A node makes its directory, for itself alone.
    let directory = place.root.join("unfit-31-bytes");
    let cases: [(&str, Option<&Path>, &str); 8] = [
        (
            "31 bytes",
            Some(&short),
            "has 31 bytes, and at least 32 are needed",
        ),
        (
            "readable by others (0644)",
            Some(&open),
            "others than its owner may read it: chmod 600",
        ),
        ("no base64", Some(&garbage), "is not base64"),
        (
            "empty",
            Some(&empty),
            "is empty: one line of base64 is needed",
        ),
        (
            "5000 bytes",
            Some(&long),
            "5000 bytes are more than a secret has",
        ),
        (
            "a file that is not there",
            Some(&missing),
            "it cannot be read: No such file",
        ),
        ("a directory", Some(&directory), "it cannot be read"),
        ("none, for the second voter", None, "has no cluster secret"),
    ];
    for (name, path, words) in cases {
        let (own, first) = (place.port(), place.port());
        let voters = format!("1@127.0.0.1:{first},2@127.0.0.1:{own}");
        let address = format!("127.0.0.1:{own}");
        let mut arguments = vec!["--node-id", "2", "--voters", &voters];
        let path = path.map(|path| path.display().to_string());
        if let Some(path) = &path {
            arguments.extend(["--cluster-secret", path]);
        }
        refused(place, table, name, &address, &arguments, words);
    }
    // Beyond loopback a node of several is asked for a proof too, and is told where it has none.
    let port = place.port();
    let far = format!("0.0.0.0:{port}");
    let (own, first) = (format!("2@127.0.0.1:{port}"), place.port());
    let voters = format!("1@127.0.0.1:{first},{own}");
    let advertised = format!("127.0.0.1:{port}");
    let arguments = [
        "--node-id",
        "2",
        "--voters",
        &voters,
        "--listen",
        &far,
        "--advertise",
        &advertised,
        "--insecure",
    ];
    let name = "none, at a listener beyond loopback";
    refused(
        place,
        table,
        name,
        &advertised,
        &arguments,
        "has no cluster secret",
    );
    // Clients alone: whoever reaches it could do everything.
    let port = place.port();
    let far = format!("0.0.0.0:{port}");
    let arguments = ["--listen", &far];
    let address = format!("127.0.0.1:{port}");
    refused(
        place,
        table,
        "a listener beyond loopback without passwords",
        &address,
        &arguments,
        "--insecure",
    );
    Ok(())
}

fn refused(
    place: &Place,
    table: &mut Table,
    name: &str,
    address: &str,
    arguments: &[&str],
    words: &str,
) {
    let directory = format!("unfit-{}", name.replace([' ', '(', ')', ','], "-"));
    let mut node = Node::new(place, &directory, address, arguments);
    let ended = node.start().and_then(|()| node.await_end());
    let errors: Vec<String> = node
        .lines()
        .into_iter()
        .filter(|line| line.contains("rror") || line.contains(words))
        .collect();
    let got = match ended {
        Ok(0) => "it ended with 0".to_owned(),
        Ok(_) if errors.len() == 1 && errors[0].contains(words) => {
            "a line, and an end with an error".to_owned()
        }
        Ok(code) => format!("{code}: {}", node.lines().join(" | ")),
        Err(why) => why,
    };
    let row = format!("a secret that is unfit: {name}");
    table.check(&row, name, "a line, and an end with an error", &got);
}

fn secret(byte: u8) -> String {
    format!("{}\n", *ClusterSecret::generate(&[byte; 32]).text())
}
pub(crate) fn pause() {
    std::thread::sleep(std::time::Duration::from_millis(100));
}
