//! Nodes that come back one after the other, by their own end or by SIGKILL: the cluster serves after each, and nothing is lost.

use std::collections::BTreeMap;

use super::cluster::Cluster;
use crate::broker::Place;
use crate::broker::table::Table;

const TOPIC: &str = "written";
const RECORDS: usize = 20;

pub(crate) fn run(place: &mut Place, restarts: usize, table: &mut Table) -> Result<(), String> {
    let mut cluster = Cluster::new(place, &["min.insync.replicas=2"]);
    cluster.start()?;
    let address = |cluster: &Cluster, node: usize| cluster.addresses[node % 3].clients.clone();
    let first = address(&cluster, 0);
    place.esker(&["topic", "create", TOPIC, "-p", "3", "-b", &first], "")?;
    let mut written = Vec::new();
    for restart in 0..restarts {
        let node = restart % 3;
        // Each node meets both ends in turn.
        let is_killed = (restart / 3) % 2 == 1;
        let how = if is_killed { "kill -9" } else { "stop" };
        let which = format!("restart {} of node {}", restart + 1, node + 1);
        if is_killed {
            cluster.nodes[node].kill();
        } else {
            cluster.nodes[node].stop()?;
        }
        cluster.nodes[node].start()?;
        let served = cluster.nodes[node].await_serving();
        if table
            .done(&format!("{how}, start: it serves"), &which, served)
            .is_none()
        {
            return Err(which);
        }
        let lines: Vec<String> = (0..RECORDS).map(|at| format!("{restart}-{at}")).collect();
        let (here, there) = (address(&cluster, node), address(&cluster, node + 1));
        let input = lines.join("\n");
        let produced = place.esker(&["produce", TOPIC, "-b", &here], &input);
        let produced = produced.map(|_| ());
        if table
            .done("records, by acks=all through it", &which, produced)
            .is_some()
        {
            written.extend(lines);
        }
        let read = place.esker(&["consume", TOPIC, "-e", "-b", &there], "");
        let wanted = "each record once";
        let got = read.map_or_else(|why| why, |read| compare(&written, &read));
        table.check("read back through another", &which, wanted, &got);
    }
    cluster.stop()
}

/// Says what is lost or doubled of the lines that were written.
pub(crate) fn compare(written: &[String], read: &str) -> String {
    let mut counts: BTreeMap<&str, i64> = BTreeMap::new();
    for line in read.lines() {
        *counts.entry(line).or_default() += 1;
    }
    for line in written {
        *counts.entry(line).or_default() -= 1;
    }
    let sum = |is: fn(i64) -> bool| counts.values().filter(|count| is(**count)).count();
    match (sum(|count| count < 0), sum(|count| 0 < count)) {
        (0, 0) => "each record once".to_owned(),
        (lost, doubled) => format!("{lost} lost, {doubled} doubled or not acknowledged"),
    }
}
