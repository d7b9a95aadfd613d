//! `esker repair --new-quorum`: a cluster whose voters are lost for good but a minority goes on with one of them.
//!
//! Shows what each named directory has, so that an operator finds the best survivor, and makes that one the only voter once its
//! cluster id was typed. With several directories it only compares.

use std::io::{BufRead, Write};
use std::path::PathBuf;

use broker::{Survivor, SurvivorError};
use env::Env;
use model::BrokerId;
use serde_json::{Value, json};

use crate::arguments::Global;
use crate::failure::Failure;

pub(super) fn new_quorum(global: &Global, paths: &[PathBuf]) -> Result<(), Failure> {
    let env = Env::real();
    let mut survivors = Vec::new();
    for path in paths {
        let survivor = Survivor::open(&env, path).map_err(|error| match error {
            SurvivorError::Open(broker::OpenError::Locked { .. }) => {
                Failure::new(error).hint("stop that broker first")
            }
            error => Failure::new(error),
        })?;
        survivors.push((path, survivor));
    }
    let mut out = std::io::stdout().lock();
    if global.json {
        let rows = survivors.iter().map(|(path, survivor)| {
            let mut row = row(survivor);
            row["dir"] = json!(path.display().to_string());
            row
        });
        crate::table::print_json(&mut out, &Value::Array(rows.collect()))?;
    } else {
        for (path, survivor) in &survivors {
            writeln!(out, "{}: {}", path.display(), report(survivor))?;
        }
    }
    out.flush()?;
    let place = |survivor: &Survivor| (survivor.epoch, survivor.end);
    let most = survivors.iter().map(|(_, survivor)| place(survivor)).max();
    let best: Vec<String> = survivors
        .iter()
        .filter(|(_, survivor)| Some(place(survivor)) == most)
        .map(|(path, _)| path.display().to_string())
        .collect();
    let mut survivors = survivors;
    match (survivors.pop(), survivors.is_empty()) {
        (Some((_, only)), true) => confirm(only),
        _ => {
            let words = match &best[..] {
                [one] => format!("{one} has most; give this directory alone to go on"),
                all => format!(
                    "{} have the same, and no other has more; give one of them alone to go on",
                    all.join(" and ")
                ),
            };
            if global.json {
                env::tell!("{words}");
            } else {
                writeln!(out, "{words}")?;
            }
            Ok(())
        }
    }
}

fn confirm(survivor: Survivor) -> Result<(), Failure> {
    let (node, id) = (survivor.node, survivor.cluster_id.clone());
    let mut err = std::io::stderr().lock();
    write!(
        err,
        "\nNode {node} becomes the only voter of this cluster; changes that only other voters have are lost. A lost voter must not come \
         back with its directory, and no other survivor may be given this command: each could lead a second cluster with the same id. \
         Copy the directory first: there is no way back.\nType the id of the cluster to go on: "
    )?;
    err.flush()?;
    let mut typed = String::new();
    std::io::stdin().lock().read_line(&mut typed)?;
    if typed.trim() != id {
        let failure = Failure::new("not confirmed; nothing was changed");
        return Err(failure.hint(format!("type {id}")));
    }
    survivor.become_only_voter().map_err(Failure::new)?;
    writeln!(
        err,
        "\nNode {node} is the only voter. Start it as before, then other nodes, and make these voters: `esker cluster add-voter N`."
    )?;
    Ok(())
}

fn report(survivor: &Survivor) -> String {
    let shares = survivor.shares;
    format!(
        "node {node} of cluster {cluster}\n  \
         metadata    epoch {epoch}, up to offset {end}\n  \
         voters      {voters}\n  \
         brokers     {brokers}\n  \
         topics      {topics}\n  \
         partitions  {whole} are whole here; {behind} are here and may lack their newest records; {elsewhere} are not here",
        node = survivor.node,
        cluster = survivor.cluster_id,
        epoch = survivor.epoch,
        end = survivor.end,
        voters = numbers(&survivor.voters),
        brokers = numbers(&survivor.brokers),
        topics = survivor.topics,
        whole = shares.whole,
        behind = shares.behind,
        elsewhere = shares.elsewhere,
    )
}

fn row(survivor: &Survivor) -> Value {
    let ids = |ids: &[BrokerId]| ids.iter().map(|id| id.0).collect::<Vec<_>>();
    json!({
        "node": survivor.node.0,
        "cluster_id": survivor.cluster_id,
        "epoch": survivor.epoch.0,
        "end": survivor.end.0,
        "voters": ids(&survivor.voters),
        "brokers": ids(&survivor.brokers),
        "topics": survivor.topics,
        "partitions": {
            "whole": survivor.shares.whole,
            "behind": survivor.shares.behind,
            "elsewhere": survivor.shares.elsewhere,
        },
    })
}

fn numbers(ids: &[BrokerId]) -> String {
    let ids: Vec<String> = ids.iter().map(ToString::to_string).collect();
    ids.join(", ")
}
