//! Paths that documents and the heads of files name: each exists.
//!
//! Looks at back quotes and links of `*.md` and of comments that begin with `//!`. A path may be written from the root, from the folder of the file or
//! one above it, from `crates`, or from inside a crate, with or without `.rs`. Text in back quotes that only looks like a path (of another
//! machine, of a data directory, with a placeholder) is passed over by its form.

use std::collections::BTreeSet;
use std::path::Path;
use std::process::Command;

/// Examples and names that no file has, with the file that names them.
const EXAMPLES: [(&str, &str); 7] = [
    ("docs/style.md", "watermark.rs"),
    ("docs/style.md", "utils.rs"),
    ("docs/style.md", "common.rs"),
    ("docs/style.md", "helpers.rs"),
    ("docs/style.md", "name/tests.rs"),
    ("tests/clients/README.md", "requirements.txt"),
    ("fuzz/README.md", "artifacts/TARGET"),
];

/// Endings that make a word without a slash a file of this repository.
const ENDINGS: [&str; 5] = [".rs", ".md", ".py", ".toml", ".txt"];

pub(crate) fn objections(root: &Path) -> Result<Vec<String>, String> {
    let listed = Command::new("git")
        .args(["ls-files", "--cached", "--others", "--exclude-standard"])
        .current_dir(root)
        .output();
    let listed = listed.map_err(|why| format!("git: {why}"))?;
    let listed = String::from_utf8_lossy(&listed.stdout);
    let files: Vec<&str> = listed
        .lines()
        .filter(|path| root.join(path).exists())
        .collect();
    let known = Known::new(&files);
    let mut objections = Vec::new();
    for path in &files {
        let is_code = path.ends_with(".rs");
        if !(is_code || path.ends_with(".md")) {
            continue;
        }
        let Ok(text) = std::fs::read_to_string(root.join(path)) else {
            continue;
        };
        if crate::tidy::is_generated(&text) {
            continue;
        }
        objections.extend(judge(path, &text, &known, &|page| {
            std::fs::read_to_string(root.join(page)).unwrap_or_default()
        }));
    }
    Ok(objections)
}

/// Files and folders of the repository.
struct Known<'a> {
    paths: BTreeSet<&'a str>,
    names: BTreeSet<&'a str>,
    crates: BTreeSet<&'a str>,
}

impl<'a> Known<'a> {
    fn new(files: &[&'a str]) -> Known<'a> {
        let mut known = Known {
            paths: BTreeSet::new(),
            names: BTreeSet::new(),
            crates: BTreeSet::new(),
        };
        for file in files {
            known.names.extend(file.rsplit('/').next());
            let mut rest = *file;
            known.paths.insert(rest);
            while let Some((folder, _)) = rest.rsplit_once('/') {
                known.paths.insert(folder);
                rest = folder;
            }
            let inner = file.strip_prefix("crates/");
            known
                .crates
                .extend(inner.and_then(|inner| inner.split('/').next()));
        }
        known
    }

    /// True if `token`, which `from` names, is one of them.
    fn has(&self, token: &str, from: &str) -> bool {
        let token = token.trim_end_matches('/');
        if !token.contains('/') {
            return self.names.contains(token);
        }
        let mut bases = vec![String::new(), "crates/".to_owned()];
        let mut folder = from;
        while let Some((above, _)) = folder.rsplit_once('/') {
            bases.push(format!("{above}/"));
            bases.push(format!("{above}/src/"));
            folder = above;
        }
        for one in &self.crates {
            bases.push(format!("crates/{one}/"));
            bases.push(format!("crates/{one}/src/"));
        }
        let mut tokens = vec![token.to_owned()];
        if let Some((first, rest)) = token.split_once('/') {
            tokens.push(format!("crates/{first}/src/{rest}"));
        }
        let places = bases.iter().flat_map(|base| {
            tokens
                .iter()
                .map(move |token| normal(&format!("{base}{token}")))
        });
        let mut forms =
            places.flat_map(|place| [format!("{place}.rs"), format!("{place}/mod.rs"), place]);
        forms.any(|place| match place.split_once(['*', '{']) {
            None => self.paths.contains(place.as_str()),
            Some((start, _)) => self
                .paths
                .range(start..)
                .next()
                .is_some_and(|next| next.starts_with(start)),
        })
    }
}

/// Without `..`.
fn normal(path: &str) -> String {
    let mut parts: Vec<&str> = Vec::new();
    for part in path.split('/') {
        match part {
            ".." => drop(parts.pop()),
            "." => {}
            part => parts.push(part),
        }
    }
    parts.join("/")
}

/// True if the text in back quotes is meant as a path of this repository.
fn is_path(token: &str) -> bool {
    let is_plain = |letter: char| letter.is_ascii_alphanumeric() || "_-./*{},".contains(letter);
    let is_placeholder =
        |part: &str| part.len() > 3 && part.chars().all(|letter| letter.is_ascii_uppercase());
    let is_elsewhere = token.starts_with(['/', '.', '-', '_', '*']) || token.starts_with("target/");
    let mut parts = token.split(['/', '.']);
    let has_folder = token.trim_end_matches('/').contains('/');
    let is_file = ENDINGS.iter().any(|ending| token.ends_with(ending));
    token.chars().all(is_plain)
        && !is_elsewhere
        && !parts.any(is_placeholder)
        && (has_folder || is_file)
}

/// Objections to one file; `read` gives the text of another page.
fn judge(path: &str, text: &str, known: &Known<'_>, read: &dyn Fn(&str) -> String) -> Vec<String> {
    let is_code = path.ends_with(".rs");
    let mut objections = Vec::new();
    let mut is_fenced = false;
    for (number, line) in (1..).zip(text.lines()) {
        let line = match (is_code, line.strip_prefix("//!")) {
            (true, None) => continue,
            (true, Some(head)) => head,
            (false, _) => line,
        };
        if line.trim_start().starts_with("```") {
            is_fenced = !is_fenced;
        }
        if is_fenced || !is_code && line.starts_with("    ") {
            continue;
        }
        let quoted = line.split('`').skip(1).step_by(2);
        for token in quoted.filter(|token| is_path(token)) {
            if !EXAMPLES.contains(&(path, token)) && !known.has(token, path) {
                objections.push(format!("{path}:{number}: `{token}` does not exist"));
            }
        }
        for link in links(line).filter(|_| !is_code) {
            let (page, anchor) = link.split_once('#').unwrap_or((link, ""));
            let folder = path.rsplit_once('/').map_or("", |(folder, _)| folder);
            let page = if page.is_empty() {
                path.to_owned()
            } else {
                normal(&format!("{folder}/{page}"))
            };
            let page = page.trim_start_matches('/').trim_end_matches('/');
            if !known.paths.contains(page) {
                objections.push(format!("{path}:{number}: the link {link} leads nowhere"));
            } else if !anchor.is_empty() && !headings(&read(page)).any(|heading| heading == anchor)
            {
                objections.push(format!("{path}:{number}: {page} has no heading #{anchor}"));
            }
        }
    }
    objections
}

/// Targets of links to files of the repository.
fn links(line: &str) -> impl Iterator<Item = &str> {
    let after = line.split("](").skip(1);
    let targets = after.filter_map(|rest| rest.split_once(')').map(|(target, _)| target));
    targets.filter(|target| !target.contains("://"))
}

/// Headings as links name them.
fn headings(page: &str) -> impl Iterator<Item = String> {
    let titles = page.lines().filter(|line| line.starts_with('#'));
    titles.map(|title| {
        let title = title.trim_start_matches('#').trim().to_lowercase();
        let letters = title
            .chars()
            .map(|letter| if letter == ' ' { '-' } else { letter });
        letters
            .filter(|letter| letter.is_alphanumeric() || "-_".contains(*letter))
            .collect()
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_and_links_that_lead_nowhere_are_found() {
        let files = [
            "docs/a.md",
            "docs/b.md",
            "crates/log/src/roll.rs",
            "crates/log/src/store/mod.rs",
            "tests/clients/run",
        ];
        let known = Known::new(&files);
        let check = |path: &str, text: &str, want: usize| {
            let found = judge(path, text, &known, &|_| "# B\n\n## One two\n".to_owned());
            assert_eq!(found.len(), want, "{text}: {found:?}");
        };
        check(
            "docs/a.md",
            "`log/roll`, `log/store`, `crates/log/src/roll.rs`, `b.md`, `tests/clients`",
            0,
        );
        check("docs/a.md", "`log/rolls` `c.md`", 2);
        check(
            "docs/a.md",
            "`/proc/x` `journal/NNNNNNNN.journal` `.cache/x` `a <b> c/d` `tests/*/run`",
            0,
        );
        check("docs/a.md", "```\n`log/rolls`\n```\n    `log/rolls`\n", 0);
        check(
            "crates/log/src/roll.rs",
            "//! `store/mod.rs`, `clean/pass`\n// `no/file`\n",
            1,
        );
        check(
            "docs/a.md",
            "[b](b.md#one-two), [a](#x), [c](c.md), [k](https://k/x.md)",
            2,
        );
        check("docs/a.md", "[b](b.md#three)", 1);
        check("README.md", "[b](docs/b.md)", 0);
    }
}
