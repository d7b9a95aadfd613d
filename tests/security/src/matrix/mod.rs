//! The matrix: every API, version and asker with every kind of resource, asked of Esker and compared with what Kafka answered.
//!
//! `--record` asks Kafka first and writes its answers anew; `--only API` (repeated) asks of some APIs alone; `--verbose` shows every
//! explained difference as well. Succeeds with no unexplained difference only. Versions that one of both does not offer are not
//! compared, and counted.

mod answers;
mod ask;
mod brokers;
mod cases;
mod explained;
mod people;
mod shape;
mod table;

use std::collections::BTreeMap;
use std::io;
use std::process::ExitCode;

use wire::{AnyMessage, ApiKey, Uuid};

use answers::{Answers, Recorded};
use ask::Stage;
use brokers::Broker;
use cases::{Row, Scene, Target};
use people::PEOPLE;
use table::Table;

/// APIs that Kafka 4.3 does not have: there is nothing to compare with.
const NEWER: &[ApiKey] = &[
    ApiKey::StreamsGroupTopologyDescriptionUpdate,
    ApiKey::UnregisterController,
];

#[derive(Default)]
struct Options {
    record: bool,
    verbose: bool,
    only: Vec<String>,
}

pub(crate) fn run(arguments: &[String]) -> ExitCode {
    let mut options = Options::default();
    let mut words = arguments.iter();
    while let Some(word) = words.next() {
        match word.as_str() {
            "--record" => options.record = true,
            "--verbose" => options.verbose = true,
            "--only" => options.only.extend(words.next().cloned()),
            other => {
                eprintln!(
                    "matrix: unknown option {other}; known are --record, --verbose and --only API"
                );
                return ExitCode::from(2);
            }
        }
    }
    let mut only = options.only.iter();
    if let Some(unknown) = only.find(|name| !ApiKey::ALL.iter().any(|api| api.name() == *name)) {
        eprintln!("matrix: there is no API {unknown}");
        return ExitCode::from(2);
    }
    match compare(&options) {
        Ok(0) => ExitCode::SUCCESS,
        Ok(_) => ExitCode::FAILURE,
        Err(why) => {
            eprintln!("matrix: {why}");
            ExitCode::FAILURE
        }
    }
}

fn compare(options: &Options) -> io::Result<usize> {
    let is_meant =
        |api: &ApiKey| options.only.is_empty() || options.only.iter().any(|o| o == api.name());
    let is_known = |api: &ApiKey| !NEWER.contains(api);
    let apis: Vec<ApiKey> = ApiKey::ALL
        .into_iter()
        .filter(is_known)
        .filter(is_meant)
        .collect();
    if options.record {
        let mut kafka = Stage::set(Broker::kafka()?)?;
        let offered = kafka.versions()?;
        for (api, recorded) in ask_all(&mut kafka, &apis, &offered, |api| {
            !offered.iter().any(|(key, _, _)| *key == api)
        })? {
            answers::save(api, &recorded)?;
        }
    }
    let mut recorded = BTreeMap::new();
    for api in apis {
        if let Some(answers) = answers::load(api)? {
            recorded.insert(api.key(), (api, answers));
        }
    }
    let mut esker = Stage::set(Broker::esker()?)?;
    let offered = esker.versions()?;
    let mut table = Table::default();
    let asked: Vec<ApiKey> = recorded.values().map(|(api, _)| *api).collect();
    for (api, got) in ask_all(&mut esker, &asked, &offered, |api| {
        recorded[&api.key()].1.versions.is_none()
    })? {
        let (_, wanted) = &recorded[&api.key()];
        table.add(api, wanted, &got, options.verbose);
    }
    if !esker.broker.is_alive() {
        return Err(io::Error::other("the broker is gone"));
    }
    Ok(table.end(NEWER))
}

/// Quiet cases of all APIs come first: what others leave behind would be seen in lists. APIs that Kafka has for nodes alone are asked
/// in all versions.
fn ask_all(
    stage: &mut Stage,
    apis: &[ApiKey],
    offered: &[(ApiKey, i16, i16)],
    is_for_nodes: impl Fn(ApiKey) -> bool,
) -> io::Result<Vec<(ApiKey, Recorded)>> {
    let rows = cases::all();
    let mut all: BTreeMap<i16, (ApiKey, Recorded)> = BTreeMap::new();
    for api in apis {
        let row = offered.iter().find(|(key, _, _)| key == api);
        let versions = row.map(|(_, min, max)| (*min, *max));
        let recorded = Recorded {
            versions,
            ..Recorded::default()
        };
        all.insert(api.key(), (*api, recorded));
    }
    for is_loud in [false, true] {
        for row in &rows {
            let Some((_, recorded)) = all.get_mut(&row.api.key()) else {
                continue;
            };
            let Some((min, max)) = recorded.versions else {
                continue;
            };
            for target in row
                .targets
                .iter()
                .filter(|target| target.is_loud() == is_loud)
            {
                let case = recorded.cases.entry(row.label(*target)).or_default();
                for version in min..=max {
                    for person in &PEOPLE {
                        let answer = ask_one(stage, row, *target, version, person.name)?;
                        if let Some(answer) = answer {
                            case.insert((version, person.name.to_owned()), answer);
                        }
                    }
                }
            }
            recorded.cases.retain(|_, answers| !answers.is_empty());
        }
    }
    for (api, recorded) in all.values_mut() {
        if is_for_nodes(*api) {
            ask_unserved(stage, *api, recorded)?;
        }
    }
    Ok(all.into_values().collect())
}

fn ask_one(
    stage: &mut Stage,
    row: &Row,
    target: Target,
    version: i16,
    who: &'static str,
) -> io::Result<Option<String>> {
    let id_of = |name: &str| {
        let mut ids = stage.ids.iter();
        ids.find(|(_, known)| *known == name)
            .map_or(Uuid::ZERO, |(id, _)| *id)
    };
    let mut scene = Scene {
        version,
        target,
        there_id: id_of("there"),
        other_id: id_of("other"),
        fresh: String::new(),
        fresh_id: Uuid::ZERO,
    };
    if target.is_loud() {
        scene.fresh = stage.fresh_name();
    }
    if (row.make)(&scene).is_none() {
        return Ok(None);
    }
    match target {
        Target::MadeTopic | Target::MadeTopicById => {
            scene.fresh_id = stage.make_topic(&scene.fresh, 1)?
        }
        Target::MadeGroup => stage.make_group(&scene.fresh)?,
        Target::MadeConsumers => stage.make_consumers(&scene.fresh)?,
        Target::MadeTransaction => stage.make_transaction(&scene.fresh)?,
        _ => (),
    }
    let Some(request) = (row.make)(&scene) else {
        return Ok(None);
    };
    let outcome = stage.ask(who, version, &request)?;
    Ok(Some(stage.words(
        outcome,
        Some(scene.fresh_id),
        cases::is_ordered(row.api),
    )))
}

/// An API that is not for users: nothing but an empty request can be meant, and it is refused.
fn ask_unserved(stage: &mut Stage, api: ApiKey, recorded: &mut Recorded) -> io::Result<()> {
    let name = format!("{}Request", api.name());
    let Some(message) = wire::any::ALL
        .iter()
        .find(|message: &&AnyMessage| message.name == name)
    else {
        return Ok(());
    };
    let mut answers = Answers::new();
    for version in api.min_version()..=api.max_version_stable() {
        let body = message
            .default_bytes(version)
            .and_then(wire::Encoded::into_bytes);
        let body = body.map_err(io::Error::other)?;
        for person in &PEOPLE {
            let outcome = stage.ask_bytes(person.name, api, version, &body)?;
            let answer = stage.words(outcome, None, true);
            answers.insert((version, person.name.to_owned()), answer);
        }
    }
    recorded.cases.insert("unserved".to_owned(), answers);
    Ok(())
}
