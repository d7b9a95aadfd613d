//! `cargo xtask tidy`: the rules about files that neither rustfmt nor clippy knows.
//!
//! Owns the list of rules; each looks at one file that git knows and gives its objections. Generated files are exempt. The patches
//! of `tests/mutants`, the arrows between modules and crates, the names of threads, settings without effect and paths in documents have rules
//! of their own (`mutants`, `arrows`, `crates`, `threads`, `accepted`, `paths`).

use std::path::Path;
use std::process::Command;

/// Longer files hold two subjects.
const LINES_MAX: usize = 900;

/// Comments of the whole tree that may begin with a relative clause in place of a subject. There are fewer; a new one needs a noun.
const HEADLESS_MAX: usize = 20;

/// Words with which such a comment begins.
const HEADLESS: [&str; 4] = ["Who", "What", "Whose", "Whoever"];

/// Names that say nothing about what is inside.
const VAGUE_NAMES: [&str; 4] = ["utils.rs", "util.rs", "common.rs", "helpers.rs"];

/// Calls that must not reach a commit. Split, so that this file passes its own rule.
const UNFINISHED: [&str; 3] = [
    concat!("todo", "!("),
    concat!("unimplemented", "!("),
    concat!("dbg", "!("),
];

pub(crate) fn run(args: &[&str]) -> Result<(), String> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    let listed = Command::new("git")
        .args(["ls-files", "*.rs"])
        .current_dir(&root)
        .output();
    let listed = listed.map_err(|why| format!("git: {why}"))?;
    let listed = String::from_utf8_lossy(&listed.stdout);
    let paths: Vec<&str> = listed.lines().collect();
    match args {
        [] => check(&root, &paths),
        ["--arrows"] => crate::arrows::renew(&root, &paths),
        _ => Err("usage: cargo xtask tidy [--arrows]".to_owned()),
    }
}

fn check(root: &Path, paths: &[&str]) -> Result<(), String> {
    let mut objections = Vec::new();
    let mut headless = Vec::new();
    for path in paths {
        // A file that was deleted but not yet committed is no concern.
        let Ok(text) = std::fs::read_to_string(root.join(path)) else {
            continue;
        };
        objections.extend(
            judge(path, &text)
                .into_iter()
                .map(|objection| format!("{path}: {objection}")),
        );
        headless.extend(headless_lines(&text).map(|line| format!("{path}:{line}")));
    }
    if headless.len() > HEADLESS_MAX {
        objections.push(format!(
            "{} comments begin with {}, more than {HEADLESS_MAX}; begin with the subject: {}",
            headless.len(),
            HEADLESS.join(", "),
            headless.join(" ")
        ));
    }
    objections.extend(crate::mutants::objections(root)?);
    objections.extend(crate::arrows::objections(root, paths)?);
    objections.extend(crate::threads::objections(root, paths)?);
    objections.extend(crate::crates::objections(root)?);
    objections.extend(crate::accepted::objections(root, paths));
    objections.extend(crate::paths::objections(root)?);
    if objections.is_empty() {
        Ok(())
    } else {
        Err(objections.join("\n"))
    }
}

/// True for files that a program writes.
pub(crate) fn is_generated(text: &str) -> bool {
    text.lines().take(8).any(|line| line.contains("@generated"))
}

/// Numbers of the lines with a comment that begins with a relative clause.
fn headless_lines(text: &str) -> impl Iterator<Item = usize> {
    let is_headless = |line: &str| {
        let comment = line.trim_start().strip_prefix("//");
        let words = comment.map(|text| text.trim_start_matches(['/', '!']).trim_start());
        words.is_some_and(|words| {
            let first = words.split(|letter: char| !letter.is_alphanumeric()).next();
            first.is_some_and(|first| HEADLESS.contains(&first))
        })
    };
    let text = if is_generated(text) { "" } else { text };
    text.lines()
        .enumerate()
        .filter(move |(_, line)| is_headless(line))
        .map(|(number, _)| number + 1)
}

fn judge(path: &str, text: &str) -> Vec<String> {
    let mut objections = Vec::new();
    if !text.starts_with("//!") {
        objections.push("does not open by saying what it owns (`//!`)".to_owned());
    }
    if is_generated(text) {
        return objections;
    }
    let lines = text.lines().count();
    if lines > LINES_MAX {
        objections.push(format!("{lines} lines, more than {LINES_MAX}"));
    }
    let (dir, name) = path.rsplit_once('/').unwrap_or(("", path));
    if VAGUE_NAMES.contains(&name) {
        objections.push("a file is named after a noun of the domain".to_owned());
    }
    let is_of_package = dir.matches('/').count() == 2;
    if dir.starts_with("crates/") && dir.ends_with("/tests") && is_of_package {
        objections.push("a second test binary; put it below `tests/it`".to_owned());
    }
    for (number, line) in text.lines().enumerate() {
        let number = number + 1;
        for word in UNFINISHED.iter().filter(|word| line.contains(**word)) {
            objections.push(format!("line {number}: `{word}`"));
        }
        let nameless = |word: &str| line.contains(word) && !line.contains(&format!("{word}("));
        if line.contains("//")
            && [concat!("TO", "DO"), concat!("FIX", "ME")]
                .into_iter()
                .any(nameless)
        {
            objections.push(format!("line {number}: a promise without a name"));
        }
    }
    objections
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn comments_without_a_subject_are_counted() {
        let lines = |text: &str| headless_lines(text).collect::<Vec<_>>();
        let text = "//! What it owns.\n/// Whoever comes.\nlet x = 1; // What follows\n    // Who asks waits.\n// Whatever\n";
        assert_eq!(lines(text), [1, 2, 4]);
        assert_eq!(lines("//! @generated\n// What\n"), Vec::<usize>::new());
    }

    #[test]
    fn files_that_break_a_rule_are_named_with_the_rule() {
        let check = |path: &str, text: &str, want: usize| {
            assert_eq!(judge(path, text).len(), want, "{path}: {text}")
        };
        check("crates/log/src/roll.rs", "//! Rolls.\nfn roll() {}\n", 0);
        check("crates/log/src/roll.rs", "fn roll() {}\n", 1);
        check("crates/log/src/utils.rs", "//! Things.\n", 1);
        check("crates/log/tests/roll.rs", "//! Rolls.\n", 1);
        check("crates/log/tests/it/roll.rs", "//! Rolls.\n", 0);
        check("crates/log/src/roll/tests/late.rs", "//! Rolls.\n", 0);
        check(
            "crates/log/src/roll.rs",
            concat!("//! Rolls.\nfn f() { todo", "!() }\n"),
            1,
        );
        check(
            "crates/log/src/roll.rs",
            concat!("//! Rolls.\n// TO", "DO: later\n// TO", "DO(ann): later\n"),
            1,
        );
        check(
            "crates/wire/src/any.rs",
            &format!("//! @generated\n{}", "\n".repeat(2000)),
            0,
        );
        check(
            "crates/log/src/roll.rs",
            &format!("//! Rolls.\n{}", "\n".repeat(2000)),
            1,
        );
    }
}
