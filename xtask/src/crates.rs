//! The crates and what each names: the list in ARCHITECTURE.md says what `cargo metadata` says, and no line names a crate above it.

use std::collections::BTreeMap;
use std::path::Path;
use std::process::Command;

use serde_json::Value;

const PAGE: &str = "ARCHITECTURE.md";
const HEADING: &str = "## Crates";

type Arrows = BTreeMap<String, Vec<String>>;

pub(crate) fn objections(root: &Path) -> Result<Vec<String>, String> {
    let page = std::fs::read_to_string(root.join(PAGE)).map_err(|why| format!("{PAGE}: {why}"))?;
    let metadata = Command::new("cargo")
        .args([
            "metadata",
            "--no-deps",
            "--offline",
            "--format-version",
            "1",
        ])
        .current_dir(root)
        .output();
    let metadata = metadata.map_err(|why| format!("cargo metadata: {why}"))?;
    let metadata = serde_json::from_slice(&metadata.stdout);
    let metadata: Value = metadata.map_err(|why| format!("cargo metadata: {why}"))?;
    Ok(judge(&drawn(&page), &built(&metadata)))
}

/// Each package below `crates`, with those of them that it depends on but for tests.
fn built(metadata: &Value) -> Arrows {
    let packages = metadata["packages"].as_array().into_iter().flatten();
    let ours: Vec<&Value> = packages
        .filter(|package| {
            package["manifest_path"]
                .as_str()
                .is_some_and(|path| path.contains("/crates/"))
        })
        .collect();
    let is_ours = |name: &str| ours.iter().any(|package| package["name"] == name);
    let arrows = ours.iter().map(|package| {
        let all = package["dependencies"].as_array().into_iter().flatten();
        let of_product = all.filter(|dependency| dependency["kind"].is_null());
        let names = of_product.filter_map(|dependency| dependency["name"].as_str());
        let mut names: Vec<String> = names
            .filter(|name| is_ours(name))
            .map(str::to_owned)
            .collect();
        names.sort();
        (
            package["name"].as_str().unwrap_or_default().to_owned(),
            names,
        )
    });
    arrows.collect()
}

/// The lines `crate -> crates` of the page, in their order, without what follows two spaces.
fn drawn(page: &str) -> Vec<(String, Vec<String>)> {
    let section = page.split_once(HEADING).map_or("", |(_, after)| after);
    let section = section.split_once("\n## ").map_or(section, |(own, _)| own);
    let lines = section.split("```").nth(1).unwrap_or_default().lines();
    let rows = lines.filter_map(|line| {
        let (name, rest) = line.split_once("->")?;
        let names = rest.trim_start().split("  ").next().unwrap_or_default();
        let names = names
            .split_whitespace()
            .filter(|name| *name != "-")
            .map(str::to_owned);
        Some((name.trim().to_owned(), names.collect()))
    });
    rows.collect()
}

fn judge(drawn: &[(String, Vec<String>)], built: &Arrows) -> Vec<String> {
    let mut objections = Vec::new();
    for (at, (name, named)) in drawn.iter().enumerate() {
        let mut sorted = named.clone();
        sorted.sort();
        match built.get(name) {
            None => objections.push(format!("{PAGE}: there is no crate {name}")),
            Some(real) if *real != sorted => {
                objections.push(format!(
                    "{PAGE}: {name} -> {}, and not {}",
                    real.join(" "),
                    named.join(" ")
                ));
            }
            Some(_) => {}
        }
        let above = drawn[..at]
            .iter()
            .filter(|(other, _)| named.contains(other));
        objections
            .extend(above.map(|(other, _)| {
                format!("{PAGE}: {name} names {other}, which is drawn above it")
            }));
    }
    let missing = built
        .keys()
        .filter(|name| !drawn.iter().any(|(other, _)| other == *name));
    objections.extend(
        missing.map(|name| format!("{PAGE}: the crate {name} is not drawn below {HEADING}")),
    );
    objections
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_drawing_that_differs_from_the_build_is_found() {
        let metadata = serde_json::json!({"packages": [
            {"name": "a", "manifest_path": "/r/crates/a/Cargo.toml", "dependencies": [
                {"name": "c", "kind": null}, {"name": "b", "kind": null}, {"name": "serde", "kind": null}]},
            {"name": "b", "manifest_path": "/r/crates/b/Cargo.toml", "dependencies": [{"name": "a", "kind": "dev"}]},
            {"name": "c", "manifest_path": "/r/crates/c/Cargo.toml", "dependencies": []},
            {"name": "xtask", "manifest_path": "/r/xtask/Cargo.toml", "dependencies": [{"name": "a", "kind": null}]},
        ]});
        let built = built(&metadata);
        let check = |lines: &str, want: usize| {
            let page = format!("# P\n\n## Crates\n\n```\n{lines}\n```\n\n## Next\n");
            let found = judge(&drawn(&page), &built);
            assert_eq!(found.len(), want, "{lines}: {found:?}");
        };
        check("a -> b c   on top\nb -> -     words\nc -> -", 0);
        check("a -> c b\nb -> -", 1);
        check("a -> b\nb -> -\nc -> -", 1);
        check("b -> -\na -> b c\nc -> -\nd -> -", 2);
    }
}
