//! The patches of `tests/mutants`: each still applies, and says which load of the simulator finds it within how many seeds.
//!
//! Does not build or run them, that is `tests/mutants/run`; a patch that no longer applies proves nothing any more, and says so
//! here, where every test run sees it.

use std::path::Path;
use std::process::Command;

const LOADS: [&str; 12] = [
    "all",
    "transactions",
    "strays",
    "ledger",
    "group",
    "instances",
    "table",
    "retries",
    "aging",
    "wide",
    "crowd",
    "council",
];

/// Those of three brokers that are one cluster.
const CLUSTER_LOADS: [&str; 11] = [
    "cluster",
    "coordinators",
    "markers",
    "replicas",
    "replicated-groups",
    "replicated-transactions",
    "moves",
    "quiet-moves",
    "rot",
    "pipelined",
    "upgrade",
];

/// The objections to the patches.
pub(crate) fn objections(root: &Path) -> Result<Vec<String>, String> {
    let dir = root.join("tests/mutants");
    let listed = std::fs::read_dir(&dir).map_err(|why| format!("{}: {why}", dir.display()))?;
    let mut names: Vec<String> = listed
        .flatten()
        .map(|entry| entry.file_name().to_string_lossy().into_owned())
        .filter(|name| name.ends_with(".patch"))
        .collect();
    names.sort_unstable();
    let mut objections = Vec::new();
    for name in names {
        let patch = format!("tests/mutants/{name}");
        let text = std::fs::read_to_string(root.join(&patch));
        let text = text.map_err(|why| format!("{patch}: {why}"))?;
        if !says_how_it_is_found(&text) {
            objections.push(format!(
                "{patch}: no line `Caught by: sim LOAD SEEDS [--images N | --damages N]`, `cluster LOAD SEEDS`, `quorum SEEDS` or `test PACKAGE NAME`"
            ));
        }
        let checked = Command::new("git")
            .args(["apply", "--check", &patch])
            .current_dir(root)
            .output();
        let checked = checked.map_err(|why| format!("git: {why}"))?;
        if !checked.status.success() {
            let why = String::from_utf8_lossy(&checked.stderr);
            let why = why.lines().next().unwrap_or_default();
            objections.push(format!("{patch}: does not apply any more: {why}"));
        }
    }
    Ok(objections)
}

fn says_how_it_is_found(text: &str) -> bool {
    let mut ways = text
        .lines()
        .filter_map(|line| line.strip_prefix("Caught by: "));
    ways.any(|way| is_way(&way.split(' ').collect::<Vec<_>>()))
}

fn is_way(words: &[&str]) -> bool {
    let is_count = |word: &str| word.parse::<u64>().is_ok();
    match words {
        ["sim", load, seeds] => LOADS.contains(load) && is_count(seeds),
        // Of each seed so many crash states, or so many damages of its files.
        ["sim", load, seeds, "--images" | "--damages", count] => {
            LOADS.contains(load) && is_count(seeds) && is_count(count)
        }
        ["cluster", load, seeds] => CLUSTER_LOADS.contains(load) && is_count(seeds),
        ["quorum", seeds] => is_count(seeds),
        ["test", _package, _name] => true,
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_mutant_still_applies() {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
        assert_eq!(objections(&root), Ok(Vec::new()));
    }

    #[test]
    fn a_mutant_says_how_it_is_found() {
        assert!(says_how_it_is_found(
            "A promise.\nCaught by: sim group 20\n\n"
        ));
        assert!(says_how_it_is_found(
            "Caught by: sim transactions 5 --images 400\n"
        ));
        assert!(says_how_it_is_found("Caught by: sim all 3 --damages 60\n"));
        assert!(says_how_it_is_found("Caught by: quorum 500\n"));
        assert!(!says_how_it_is_found("Caught by: quorum many\n"));
        assert!(says_how_it_is_found("Caught by: cluster markers 100\n"));
        assert!(says_how_it_is_found("Caught by: test log a_name\n"));
        assert!(!says_how_it_is_found("Caught by: test log\n"));
        assert!(!says_how_it_is_found("Caught by: cluster group 100\n"));
        assert!(!says_how_it_is_found("Caught by: cluster markers many\n"));
        assert!(!says_how_it_is_found("Caught by: sim all 3 --damages\n"));
        assert!(!says_how_it_is_found("A promise.\n"));
        assert!(!says_how_it_is_found("Caught by: sim grouping 20\n"));
        assert!(!says_how_it_is_found("Caught by: sim group many\n"));
    }
}
