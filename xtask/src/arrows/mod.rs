//! Arrows between the modules of a crate, held against the table in `xtask/arrows.txt`.
//!
//! An arrow leads from the module at the top of the crate in which a file lies to the one whose item it names. One that the
//! table does not list is refused, and so is a circle of more files than the table allows. Code of tests has no arrows.

mod circles;
mod modules;

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::path::Path;

use circles::{circles, keystone};
use modules::Modules;

pub(crate) const TABLE: &str = "xtask/arrows.txt";
const HEAD: &str = "\
# Which modules of a crate may name which: `cargo xtask tidy` refuses an arrow that is not here, and a circle of more files than
# `circle` says. A new arrow is a decision: let the commit say why. `cargo xtask tidy --arrows` writes the table from the code.
";

type Arrows = BTreeMap<String, BTreeSet<String>>;

/// The arrows and circles that one crate may have.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Allowed {
    /// Files that may lead to each other; no bound if absent.
    circle_max: Option<usize>,
    arrows: Arrows,
}

type Table = BTreeMap<String, Allowed>;

/// The files of every crate that the table lists: below `src`, with their texts.
type Sources = BTreeMap<String, BTreeMap<String, String>>;

fn parse(text: &str) -> Result<Table, String> {
    let mut table = Table::new();
    let mut current: Option<String> = None;
    for (number, line) in (1..).zip(text.lines()) {
        let odd = || format!("{TABLE}, line {number}: not understood: {line}");
        let line = line.trim();
        if line.is_empty() || line.starts_with('#') {
            continue;
        }
        if let Some(head) = line.strip_prefix('[') {
            let (name, rest) = head.split_once(']').ok_or_else(odd)?;
            let circle_max = match rest.trim().strip_prefix("circle ") {
                Some(count) => Some(count.parse().map_err(|_| odd())?),
                None => None,
            };
            let allowed = Allowed {
                circle_max,
                arrows: Arrows::new(),
            };
            table.insert(name.to_owned(), allowed);
            current = Some(name.to_owned());
            continue;
        }
        let (from, to) = line.split_once(" -> ").ok_or_else(odd)?;
        let allowed = current.as_ref().and_then(|name| table.get_mut(name));
        let targets = to.split_whitespace().map(str::to_owned).collect();
        let arrows = &mut allowed.ok_or_else(odd)?.arrows;
        arrows.insert(from.to_owned(), targets);
    }
    Ok(table)
}

fn write(table: &Table) -> String {
    let mut text = HEAD.to_owned();
    for (name, allowed) in table {
        let circle = allowed.circle_max.map(|max| format!(" circle {max}"));
        let circle = circle.unwrap_or_default();
        writeln!(text, "\n[{name}]{circle}").expect("text");
        for (from, to) in &allowed.arrows {
            let to: Vec<&str> = to.iter().map(String::as_str).collect();
            writeln!(text, "{from} -> {}", to.join(" ")).expect("text");
        }
    }
    text
}

fn read(files: &BTreeMap<String, String>) -> Modules {
    Modules::of(
        files
            .iter()
            .map(|(file, text)| (file.as_str(), text.as_str())),
    )
}

/// The arrows between modules, each with one pair of files that make it.
fn between_rooms(modules: &Modules) -> BTreeMap<(&str, &str), (&str, &str)> {
    let rooms = modules.rooms();
    let mut between = BTreeMap::new();
    for (from, targets) in modules.arrows() {
        for to in targets {
            let pair = (rooms[from], rooms[to]);
            if pair.0 != pair.1 {
                between.entry(pair).or_insert((from, to));
            }
        }
    }
    between
}

fn judge(name: &str, allowed: &Allowed, files: &BTreeMap<String, String>) -> Vec<String> {
    let modules = read(files);
    let mut objections = Vec::new();
    for ((from, to), (file, named)) in between_rooms(&modules) {
        let is_allowed = allowed.arrows.get(from).is_some_and(|all| all.contains(to));
        if !is_allowed {
            objections.push(format!(
                "crates/{name}/src/{file}: names {named}, a new arrow {from} -> {to} ({TABLE})"
            ));
        }
    }
    let graph = modules.arrows();
    for circle in circles(&graph) {
        if allowed.circle_max.is_some_and(|max| max < circle.len()) {
            let max = allowed.circle_max.unwrap_or_default();
            let hint = keystone(&graph, &circle);
            let hint =
                hint.map(|(from, to, rest)| format!("; without {from} -> {to} it has {rest}"));
            objections.push(format!(
                "crates/{name}: {} files lead to each other, more than {max}: {}{}",
                circle.len(),
                circle.join(" "),
                hint.unwrap_or_default()
            ));
        }
    }
    objections
}

/// The table with the arrows that the code has now. A circle may become no larger by it.
fn renewed(table: &Table, sources: &Sources) -> Table {
    let renew = |(name, allowed): (&String, &Allowed)| {
        let empty = BTreeMap::new();
        let modules = read(sources.get(name).unwrap_or(&empty));
        let mut arrows = Arrows::new();
        for (from, to) in between_rooms(&modules).into_keys() {
            arrows
                .entry(from.to_owned())
                .or_default()
                .insert(to.to_owned());
        }
        let circle_max = allowed.circle_max;
        (name.clone(), Allowed { circle_max, arrows })
    };
    table.iter().map(renew).collect()
}

fn sources(root: &Path, table: &Table, paths: &[&str]) -> Sources {
    let mut sources = Sources::new();
    for name in table.keys() {
        let prefix = format!("crates/{name}/src/");
        let files = paths.iter().filter_map(|path| {
            let file = path.strip_prefix(&prefix)?;
            // A file that was deleted but not yet committed is no concern.
            let text = std::fs::read_to_string(root.join(path)).ok()?;
            Some((file.to_owned(), text))
        });
        sources.insert(name.clone(), files.collect());
    }
    sources
}

fn table(root: &Path) -> Result<Table, String> {
    let text = std::fs::read_to_string(root.join(TABLE));
    parse(&text.map_err(|why| format!("{TABLE}: {why}"))?)
}

/// The objections to the arrows of the crates in the table; `paths` are the source files that git knows.
pub(crate) fn objections(root: &Path, paths: &[&str]) -> Result<Vec<String>, String> {
    let table = table(root)?;
    let sources = sources(root, &table, paths);
    let objections = table
        .iter()
        .flat_map(|(name, allowed)| judge(name, allowed, &sources[name]));
    Ok(objections.collect())
}

/// Writes the table anew.
pub(crate) fn renew(root: &Path, paths: &[&str]) -> Result<(), String> {
    let table = table(root)?;
    let sources = sources(root, &table, paths);
    let text = write(&renewed(&table, &sources));
    std::fs::write(root.join(TABLE), text).map_err(|why| format!("{TABLE}: {why}"))
}

#[cfg(test)]
mod tests;
