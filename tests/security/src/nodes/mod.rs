//! Three nodes with a cluster secret: what they answer to who has none, and what becomes of nodes whose secrets are wrong.
//!
//! `trespass nodes [--quick] [--restarts N] [--only PART]`; the parts are `requests`, `restarts`, `secrets` and `change`.

mod cluster;
mod envelopes;
mod requests;
mod restarts;
mod rolling;
mod secrets;
mod without_proof;

use std::process::ExitCode;

use crate::broker::Place;
use crate::broker::table::{self, Table};

const RESTARTS: usize = 100;
const RESTARTS_QUICK: usize = 10;

struct Plan {
    restarts: usize,
    only: Option<String>,
}

fn plan(arguments: &[String]) -> Option<Plan> {
    let mut plan = Plan {
        restarts: RESTARTS,
        only: None,
    };
    let mut arguments = arguments.iter();
    while let Some(argument) = arguments.next() {
        match argument.as_str() {
            "--quick" => plan.restarts = RESTARTS_QUICK,
            "--restarts" => plan.restarts = arguments.next()?.parse().ok()?,
            "--only" => plan.only = Some(arguments.next()?.clone()),
            _ => return None,
        }
    }
    Some(plan)
}

type Part = fn(&mut Place, &Plan, &mut Table) -> Result<(), String>;

const PARTS: [(&str, &str, Part); 4] = [
    (
        "requests",
        "requests among nodes, without proof",
        |place, _, table| without_proof::run(place, table),
    ),
    (
        "restarts",
        "restarts with the secret",
        |place, plan, table| restarts::run(place, plan.restarts, table),
    ),
    ("secrets", "secrets that are wrong", |place, _, table| {
        secrets::run(place, table)
    }),
    (
        "change",
        "from none to a secret, under load",
        |place, _, table| rolling::run(place, table),
    ),
];

pub(crate) fn run(arguments: &[String]) -> ExitCode {
    let Some(plan) = plan(arguments) else {
        println!("usage: trespass nodes [--quick] [--restarts N] [--only PART]");
        return ExitCode::from(2);
    };
    let mut counts = Vec::new();
    for (name, title, part) in PARTS {
        if plan.only.as_ref().is_some_and(|only| only != name) {
            continue;
        }
        let mut table = Table::default();
        let outcome = Place::new(name).and_then(|mut place| {
            let outcome = part(&mut place, &plan, &mut table);
            let outcome = outcome.and_then(|()| place.search(without_proof::PASSWORD));
            if outcome.is_ok() {
                place.clean();
            }
            outcome.map_err(|why| format!("{why}; see {}", place.root.display()))
        });
        table.done("the part came to its end", name, outcome);
        counts.push(table.print(title));
    }
    table::close("tests/security/nodes", &counts)
}
