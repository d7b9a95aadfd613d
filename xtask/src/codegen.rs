//! `cargo xtask codegen`: the Kafka message definitions under `crates/wire/schemas` become Rust under `crates/wire/src`.
//!
//! Owns the list of directories and the comparison of what is committed with what would be generated. The output is
//! committed, so no build runs this; a test does, and fails when the two differ.

mod emit;
mod logs;
mod names;
mod schema;
mod tables;
mod types;
mod versions;

use schema::Message;
use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Directory of definitions, module that holds the result, what the module is about.
const GROUPS: [(&str, &str, &str); 7] = [
    (
        "clients",
        "messages",
        "Requests, responses and headers of the protocol, and the records all parts share.",
    ),
    (
        "metadata",
        "metadata",
        "Records of the cluster metadata log.",
    ),
    (
        "group",
        "group",
        "Keys and values of the group coordinator's log (`__consumer_offsets`).",
    ),
    (
        "transaction",
        "transaction",
        "Keys and values of the transaction coordinator's log (`__transaction_state`).",
    ),
    (
        "share",
        "share",
        "Keys and values of the share coordinator's log (`__share_group_state`).",
    ),
    (
        "storage",
        "storage",
        "Records about remote segments, and the producer snapshot file.",
    ),
    ("raft", "raft", "The state file of the metadata quorum."),
];

pub(crate) fn run(args: &[&str]) -> Result<(), String> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    match args {
        [] => write(&root),
        ["--check"] => check(&root),
        _ => Err("usage: cargo xtask codegen [--check]".to_owned()),
    }
}

fn write(root: &Path) -> Result<(), String> {
    let src = root.join("crates/wire/src");
    let files = generate(root)?;
    for path in stale(&src, &files)? {
        fs::remove_file(&path).map_err(|e| format!("{}: {e}", path.display()))?;
    }
    for (path, text) in &files {
        let path = src.join(path);
        if fs::read_to_string(&path).is_ok_and(|old| old == *text) {
            continue;
        }
        save(&path, text)?;
    }
    println!("{} files", files.len());
    Ok(())
}

/// Fails, naming the files, when the committed code is not what the definitions give.
pub(crate) fn check(root: &Path) -> Result<(), String> {
    let src = root.join("crates/wire/src");
    let files = generate(root)?;
    let mut wrong = stale(&src, &files)?;
    for (path, text) in &files {
        let path = src.join(path);
        if !fs::read_to_string(&path).is_ok_and(|old| old == *text) {
            wrong.push(path);
        }
    }
    if wrong.is_empty() {
        return Ok(());
    }
    let list: Vec<String> = wrong
        .iter()
        .map(|path| path.display().to_string())
        .collect();
    Err(format!(
        "not as generated, run `cargo xtask codegen`:\n{}",
        list.join("\n")
    ))
}

/// Files in the generated directories that no definition stands behind.
fn stale(src: &Path, files: &BTreeMap<PathBuf, String>) -> Result<Vec<PathBuf>, String> {
    let mut stale = Vec::new();
    for (_, module, _) in GROUPS {
        let Ok(entries) = fs::read_dir(src.join(module)) else {
            continue;
        };
        for entry in entries {
            let name = entry.map_err(|e| e.to_string())?.file_name();
            let path = Path::new(module).join(name);
            if !files.contains_key(&path) {
                stale.push(src.join(path));
            }
        }
    }
    Ok(stale)
}

/// Path below `crates/wire/src` and laid out text of every generated file.
fn generate(root: &Path) -> Result<BTreeMap<PathBuf, String>, String> {
    let schemas = root.join("crates/wire/schemas");
    let mut files = BTreeMap::new();
    let mut groups: Vec<(&str, Vec<Message>)> = Vec::new();
    for (dir, module, subject) in GROUPS {
        let mut messages = Vec::new();
        for path in definitions(&schemas.join(dir))? {
            let text = fs::read_to_string(&path).map_err(|e| format!("{}: {e}", path.display()))?;
            let Some(message) =
                Message::parse(&text).map_err(|why| format!("{}: {why}", path.display()))?
            else {
                continue;
            };
            let source = format!("{dir}/{}.json", message.name);
            let file = Path::new(module).join(format!("{}.rs", names::snake(&message.name)));
            files.insert(file, emit::module(&message, &source)?);
            messages.push(message);
        }
        let log = logs::module(module, &messages);
        let log_name = log.as_ref().map(|(name, _)| *name);
        let text = tables::root(&messages, subject, log_name);
        files.insert(Path::new(module).join("mod.rs"), text);
        if let Some((_, text)) = log {
            files.insert(Path::new(module).join("record.rs"), text);
        }
        groups.push((module, messages));
    }
    let groups: Vec<(&str, &[Message])> = groups
        .iter()
        .map(|(module, messages)| (*module, messages.as_slice()))
        .collect();
    files.insert(PathBuf::from("api.rs"), tables::api(groups[0].1)?);
    files.insert(PathBuf::from("any.rs"), tables::any(&groups)?);
    lay_out(root, files)
}

fn definitions(dir: &Path) -> Result<Vec<PathBuf>, String> {
    let entries = fs::read_dir(dir).map_err(|e| format!("{}: {e}", dir.display()))?;
    let mut paths = Vec::new();
    for entry in entries {
        paths.push(entry.map_err(|e| e.to_string())?.path());
    }
    paths.retain(|path| path.extension().is_some_and(|e| e == "json"));
    paths.sort();
    Ok(paths)
}

/// Runs rustfmt over all files at once, in a scratch directory below `target`.
fn lay_out(
    root: &Path,
    mut files: BTreeMap<PathBuf, String>,
) -> Result<BTreeMap<PathBuf, String>, String> {
    let scratch = root
        .join("target")
        .join(format!("codegen-{}", std::process::id()));
    for (path, text) in &files {
        save(&scratch.join(path), text)?;
    }
    // rustfmt follows `pub mod`, so the roots bring the messages along.
    let roots = files
        .keys()
        .filter(|path| path.components().count() == 1 || path.ends_with("mod.rs"));
    let status = Command::new("rustfmt")
        .args(["--edition", "2024"])
        .args(roots.map(|path| scratch.join(path)))
        .current_dir(root)
        .status()
        .map_err(|e| format!("rustfmt: {e}"))?;
    if !status.success() {
        return Err(format!(
            "rustfmt refused the generated code, see {}",
            scratch.display()
        ));
    }
    for (path, text) in &mut files {
        *text = fs::read_to_string(scratch.join(path))
            .map_err(|e| format!("{}: {e}", path.display()))?;
    }
    fs::remove_dir_all(&scratch).map_err(|e| e.to_string())?;
    Ok(files)
}

fn save(path: &Path, text: &str) -> Result<(), String> {
    let dir = path.parent().unwrap_or(Path::new("."));
    fs::create_dir_all(dir)
        .and_then(|()| fs::write(path, text))
        .map_err(|e| format!("{}: {e}", path.display()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn committed_messages_are_what_the_definitions_give() {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
        if let Err(why) = check(&root) {
            panic!("{why}");
        }
    }
}
