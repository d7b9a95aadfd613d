//! A cluster that has no secret gets one, node by node, while it is written to and read from.

use std::io::Write;
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use super::cluster::Cluster;
use super::restarts::compare;
use super::secrets::pause;
use crate::broker::table::Table;
use crate::broker::{Node, Place};

const TOPIC: &str = "loaded";
const INSECURE: &str = "esker.cluster.insecure=true";
/// Between two lines of the load.
const GAP: Duration = Duration::from_millis(2);
/// A node is left alone so long before the next one changes.
const PAUSES: usize = 15;

pub(crate) fn run(place: &mut Place, table: &mut Table) -> Result<(), String> {
    let mut cluster = Cluster::new(place, &["min.insync.replicas=2", INSECURE]);
    for node in &mut cluster.nodes {
        node.start()?;
    }
    cluster.await_all()?;
    let all: Vec<&str> = cluster
        .addresses
        .iter()
        .map(|of| of.clients.as_str())
        .collect();
    let all = all.join(",");
    place.esker(&["topic", "create", TOPIC, "-p", "6", "-b", &all], "")?;
    let load = Load::start(place, &all)?;
    let outcome = change(&mut cluster, table);
    let written = load.end();
    outcome?;
    let written = written?;
    let read = place.esker(&["consume", TOPIC, "-e", "-b", &all], "");
    let got = read.map_or_else(|why| why, |read| compare(&written, &read));
    let name = format!("{} records of an idempotent producer", written.len());
    table.check(&name, "", "each record once", &got);
    let is_insecure = |node: &Node| node.arguments.iter().any(|it| it == INSECURE);
    let got = format!(
        "{}",
        cluster
            .nodes
            .iter()
            .filter(|node| is_insecure(node))
            .count()
    );
    table.check("nodes that are insecure at the end", "", "0", &got);
    cluster.stop()
}

fn change(cluster: &mut Cluster, table: &mut Table) -> Result<(), String> {
    // First all know the secret that the first node made, then nobody goes without.
    let secret = cluster.secret().display().to_string();
    for node in [1, 2, 0] {
        if node != 0 {
            let arguments = &mut cluster.nodes[node].arguments;
            arguments.extend(["--cluster-secret".to_owned(), secret.clone()]);
        }
        restart(cluster, node, "with a secret, still insecure", table)?;
    }
    for node in 0..3 {
        let arguments = &mut cluster.nodes[node].arguments;
        if let Some(at) = arguments.iter().position(|it| it == INSECURE) {
            arguments.drain(at - 1..=at);
        }
        restart(cluster, node, "with a secret alone", table)?;
    }
    Ok(())
}

fn restart(cluster: &mut Cluster, node: usize, how: &str, table: &mut Table) -> Result<(), String> {
    for _ in 0..PAUSES {
        pause();
    }
    let it = &mut cluster.nodes[node];
    let outcome = it.stop().and_then(|()| it.start());
    let outcome = outcome.and_then(|()| it.await_serving());
    let which = format!("node {}", node + 1);
    let served = table.done(&format!("a start {how}"), &which, outcome);
    served.ok_or(which)
}

/// One producer that writes numbered lines until it is told to end.
struct Load {
    is_over: Arc<AtomicBool>,
    thread: thread::JoinHandle<Result<Vec<String>, String>>,
}

impl Load {
    fn start(place: &Place, bootstrap: &str) -> Result<Load, String> {
        let mut child = Command::new(&place.esker)
            .args(["produce", TOPIC, "-b", bootstrap])
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .stderr(Stdio::piped())
            .spawn()
            .map_err(|error| format!("esker produce: {error}"))?;
        let mut stdin = child.stdin.take().ok_or("no pipe")?;
        let is_over = Arc::new(AtomicBool::new(false));
        let told = Arc::clone(&is_over);
        let thread = thread::spawn(move || {
            let mut written = Vec::new();
            while !told.load(Ordering::Relaxed) {
                let line = format!("line-{}", written.len());
                if writeln!(stdin, "{line}").is_err() {
                    break;
                }
                written.push(line);
                thread::sleep(GAP);
            }
            drop(stdin);
            let ended = child.wait_with_output();
            let ended = ended.map_err(|error| error.to_string())?;
            match ended.status.success() {
                true => Ok(written),
                false => Err(format!(
                    "esker produce: {}",
                    String::from_utf8_lossy(&ended.stderr)
                )),
            }
        });
        Ok(Load { is_over, thread })
    }

    fn end(self) -> Result<Vec<String>, String> {
        self.is_over.store(true, Ordering::Relaxed);
        let ended = self.thread.join();
        ended.map_err(|_| "the load has panicked".to_owned())?
    }
}
