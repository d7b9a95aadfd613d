//! `esker repair`: what keeps a damaged data directory closed, and an operator's word that it is given up.
//!
//! Works on the files of a stopped broker. A broker goes on by itself behind damage that it can name; only where nothing shows
//! which partitions lost something does it wait for this. Never changes records, offsets or journal bytes. A quorum that lost its
//! majority is the affair of `new_quorum`.

mod new_quorum;

use std::io::Write;
use std::path::PathBuf;

use broker::{Damage, OpenError, accept_loss, unnamed_loss};
use clap::Args;
use env::Env;
use serde_json::{Value, json};

use crate::arguments::Global;
use crate::failure::Failure;

#[derive(Args, Debug)]
pub(crate) struct RepairArgs {
    /// Data directories of a stopped broker
    #[arg(required = true, value_name = "DIR")]
    pub(crate) paths: Vec<PathBuf>,
    /// Let the broker start without the journal rounds that nothing else names. Partitions that wrote nothing later may then end
    /// too early and use offsets again that were acknowledged once
    #[arg(long)]
    pub(crate) accept_loss: bool,
    /// Where a majority of the voters is lost for good: show what this voter has of the metadata, and make it the only voter once the
    /// id of its cluster was typed. With several directories, of several survivors, only compare them
    #[arg(long, conflicts_with = "accept_loss")]
    pub(crate) new_quorum: bool,
}

pub(crate) fn repair(global: &Global, args: &RepairArgs) -> Result<(), Failure> {
    let env = Env::real();
    let mut out = std::io::stdout().lock();
    let mut is_closed = false;
    let mut rows = Vec::new();
    let is_missing = |path: &&PathBuf| !env.disk.exists(path).unwrap_or(false);
    if let Some(path) = args.paths.iter().find(is_missing) {
        return Err(Failure::new(format!("{} does not exist", path.display())));
    }
    if args.new_quorum {
        return new_quorum::new_quorum(global, &args.paths);
    }
    for path in &args.paths {
        let found = if args.accept_loss {
            accept_loss(&env, path)
        } else {
            unnamed_loss(&env, path)
        };
        let found = found.map_err(|error| match error {
            OpenError::Locked { .. } => Failure::new(error).hint("stop that broker first"),
            error => Failure::new(error),
        })?;
        is_closed |= !args.accept_loss && !found.is_empty();
        if global.json {
            let range = |damage: &Damage| json!({ "from": damage.from, "to": damage.to });
            rows.push(json!({
                "dir": path.display().to_string(),
                "lost_rounds": found.iter().map(range).collect::<Vec<_>>(),
                "accepted": args.accept_loss,
            }));
        } else {
            let told = tell(&found, args.accept_loss);
            writeln!(out, "{}: {told}", path.display())?;
        }
    }
    if global.json {
        crate::table::print_json(&mut out, &Value::Array(rows))?;
    }
    if is_closed {
        let failure = Failure::damage("nothing tells which partitions these rounds were of");
        let hint = "restore the directory from a copy, or give them up with --accept-loss";
        return Err(failure.hint(hint));
    }
    Ok(())
}

fn tell(found: &[Damage], is_accepted: bool) -> String {
    if found.is_empty() {
        return "nothing keeps it closed".to_owned();
    }
    let ranges: Vec<String> = found
        .iter()
        .map(|damage| format!("{} to {}", damage.from, damage.to - 1))
        .collect();
    let state = if is_accepted {
        "are given up; the next start goes on without them"
    } else {
        "are lost"
    };
    format!("journal rounds {} {state}", ranges.join(", "))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rounds_are_told_with_their_last_one() {
        let damage = |from, to| Damage {
            from,
            to,
            is_named: false,
        };
        assert_eq!(tell(&[], false), "nothing keeps it closed");
        assert_eq!(
            tell(&[damage(3, 4), damage(8, 12)], false),
            "journal rounds 3 to 3, 8 to 11 are lost"
        );
        assert!(tell(&[damage(3, 4)], true).contains("given up"));
    }
}
