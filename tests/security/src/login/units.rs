//! Vectors of RFC 5802 and 7677 and logins that must fail, which are tests of the crate `security`: run, and counted.

use std::process::Command;

use super::Plan;
use crate::broker::Place;
use crate::broker::table::Table;

/// Each with the tests that it names, and how many there are at least.
const FILTERS: [(&str, &str, usize); 4] = [
    ("vectors and forms of SCRAM", "login::scram::", 7),
    ("logins that must fail", "login::server::tests::negative", 6),
    ("states of the machine", "login::server::", 13),
    ("proofs of nodes", "login::node::", 7),
];

pub(crate) fn run(_: &mut Place, _: &Plan, table: &mut Table) -> Result<(), String> {
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    for (name, filter, least) in FILTERS {
        let output = Command::new(&cargo)
            .args(["test", "--quiet", "--package", "security", "--lib", filter])
            .output()
            .map_err(|error| format!("cargo: {error}"))?;
        let text = String::from_utf8_lossy(&output.stdout).into_owned();
        let passed = text.lines().find_map(|line| {
            let (_, rest) = line.split_once("test result: ok. ")?;
            rest.split(' ').next()?.parse::<usize>().ok()
        });
        let got = match passed {
            Some(count) if least <= count => "passed".to_owned(),
            Some(count) => format!("{count} tests, and {least} are expected"),
            None => text.lines().rev().take(3).collect::<Vec<_>>().join(" | "),
        };
        let count = passed.unwrap_or_default();
        table.check(&format!("{name} ({count} tests)"), filter, "passed", &got);
    }
    Ok(())
}
