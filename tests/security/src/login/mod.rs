//! The door of a listener that asks for a login: what it answers to each kind of frame in each of its states, and how it bears with those who
//! do not get in.
//!
//! `trespass login [--quick] [--only PART] [--peer HOST:PORT,HOST:PORT]`; the parts are `states`, `tokens`, `truncated`, `crowd` and
//! `units`. With a peer the first part is asked of that broker as well, at two listeners with users as ours have them (sessions end at the second),
//! and differences are shown.

mod crowd;
mod door;
mod expected;
mod frames;
mod states;
mod tokens;
mod truncated;
mod units;

use std::process::ExitCode;

use crate::broker::Place;
use crate::broker::table::{self, Table};

#[derive(Default)]
struct Plan {
    is_quick: bool,
    only: Option<String>,
    peer: Option<String>,
}

fn plan(arguments: &[String]) -> Option<Plan> {
    let mut plan = Plan::default();
    let mut arguments = arguments.iter();
    while let Some(argument) = arguments.next() {
        match argument.as_str() {
            "--quick" => plan.is_quick = true,
            "--only" => plan.only = Some(arguments.next()?.clone()),
            "--peer" => plan.peer = Some(arguments.next()?.clone()),
            _ => return None,
        }
    }
    Some(plan)
}

type Part = fn(&mut Place, &Plan, &mut Table) -> Result<(), String>;

const PARTS: [(&str, &str, Part); 5] = [
    (
        "states",
        "each state of a door, each kind of frame",
        states::run,
    ),
    ("tokens", "logins that are not let in", tokens::run),
    ("truncated", "logins that end at each byte", truncated::run),
    ("crowd", "many who do not log in", crowd::run),
    (
        "units",
        "vectors of the RFCs and negative ones, in the crate",
        units::run,
    ),
];

pub(crate) fn run(arguments: &[String]) -> ExitCode {
    let Some(plan) = plan(arguments) else {
        println!("usage: trespass login [--quick] [--only PART] [--peer HOST:PORT,HOST:PORT]");
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
            let outcome = outcome.and_then(|()| place.search(door::PASSWORD));
            if outcome.is_ok() {
                place.clean();
            }
            outcome.map_err(|why| format!("{why}; see {}", place.root.display()))
        });
        table.done("the part came to its end", name, outcome);
        counts.push(table.print(title));
    }
    table::close("tests/security/login", &counts)
}
