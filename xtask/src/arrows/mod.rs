//! Arrows between the modules of a crate, held against the table in `xtask/arrows.txt`.
//!
//! An arrow leads from the module at the top of the crate in which a file lies to the one whose item it names. One that the
//! table does not list is refused, and so are a circle of more files than the table allows and a knot of more modules. Code of tests has
//! no arrows.

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
# `circle` says, or of more modules than `knot` says. A new arrow is a decision: let the commit say why. `cargo xtask tidy --arrows` writes the table from the code.
";

type Arrows = BTreeMap<String, BTreeSet<String>>;

/// The arrows and circles that one crate may have.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Allowed {
    /// Files that may lead to each other; no bound if absent.
    circle_max: Option<usize>,
    /// Modules at the top that may lead to each other; no bound if absent.
    knot_max: Option<usize>,
    arrows: Arrows,
}

impl Allowed {
    /// Reads the bounds behind the name of a crate.
    fn bounds(text: &str) -> Option<Allowed> {
        let mut allowed = Allowed::default();
        let words: Vec<&str> = text.split_whitespace().collect();
        for pair in words.chunks(2) {
            let [name, count] = pair else {
                return None;
            };
            let count = count.parse().ok()?;
            match *name {
                "circle" => allowed.circle_max = Some(count),
                "knot" => allowed.knot_max = Some(count),
                _ => return None,
            }
        }
        Some(allowed)
    }
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
            let allowed = Allowed::bounds(rest).ok_or_else(odd)?;
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
        let bound = |name: &str, max: Option<usize>| {
            max.map_or(String::new(), |max| format!(" {name} {max}"))
        };
        let circle = bound("circle", allowed.circle_max);
        let knot = bound("knot", allowed.knot_max);
        writeln!(text, "\n[{name}]{circle}{knot}").expect("text");
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
    let files_bound = (allowed.circle_max, "files");
    objections.extend(too_large(name, &modules.arrows(), files_bound));
    let mut rooms = BTreeMap::<&str, BTreeSet<&str>>::new();
    for (from, to) in between_rooms(&modules).into_keys() {
        rooms.entry(from).or_default().insert(to);
        rooms.entry(to).or_default();
    }
    let rooms_bound = (allowed.knot_max, "modules");
    objections.extend(too_large(name, &rooms, rooms_bound));
    objections
}

/// Objections to circles of more than the bound. One alone is none.
fn too_large<'a>(
    name: &str,
    graph: &BTreeMap<&'a str, BTreeSet<&'a str>>,
    (max, what): (Option<usize>, &str),
) -> Vec<String> {
    let Some(max) = max else {
        return Vec::new();
    };
    let large = circles(graph).into_iter();
    let large = large.filter(|circle| max < circle.len());
    let objections = large.map(|circle| {
        let hint = keystone(graph, &circle);
        let hint = hint.map(|(from, to, rest)| format!("; without {from} -> {to} it has {rest}"));
        format!(
            "crates/{name}: {} {what} lead to each other, more than {max}: {}{}",
            circle.len(),
            circle.join(" "),
            hint.unwrap_or_default()
        )
    });
    objections.collect()
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
        let renewed = Allowed {
            arrows,
            ..allowed.clone()
        };
        (name.clone(), renewed)
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
