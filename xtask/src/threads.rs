//! The threads of the product: every name that is spawned stands in the table of ARCHITECTURE.md, and no other.

use std::collections::BTreeSet;
use std::path::Path;

use crate::tokens::{Token, production};

const PAGE: &str = "ARCHITECTURE.md";
const HEADING: &str = "## Threads";
/// Crates whose threads are not the product's: the one that makes them, and the simulator.
const OTHERS: [&str; 2] = ["crates/env/", "crates/sim/"];

/// The objections to the table; `paths` are the source files that git knows.
pub(crate) fn objections(root: &Path, paths: &[&str]) -> Result<Vec<String>, String> {
    let page = std::fs::read_to_string(root.join(PAGE)).map_err(|why| format!("{PAGE}: {why}"))?;
    let of_product = paths.iter().filter(|path| {
        let is_source = path.starts_with("crates/") && path.contains("/src/");
        is_source && !OTHERS.iter().any(|other| path.starts_with(other))
    });
    let texts = of_product.filter_map(|path| std::fs::read_to_string(root.join(path)).ok());
    let spawned = texts.flat_map(|text| spawned(&text)).collect();
    Ok(judge(&spawned, &page))
}

/// Names of threads in a file: the first argument of `spawn` and its kin.
fn spawned(text: &str) -> Vec<String> {
    let tokens = production(text);
    let names = tokens.windows(3).filter_map(|window| match window {
        [Token::Word(call), Token::Sign('('), Token::Text(name)]
            if call == "spawn" || call.starts_with("spawn_") =>
        {
            Some(name.clone())
        }
        _ => None,
    });
    names.collect()
}

fn judge(spawned: &BTreeSet<String>, page: &str) -> Vec<String> {
    let known = in_table(page);
    let missing = spawned.difference(&known);
    let missing = missing.map(|name| format!("{PAGE}: no row `{name}` below {HEADING}"));
    let gone = known.difference(spawned);
    let gone = gone.map(|name| format!("{PAGE}: no thread is named `{name}`"));
    missing.chain(gone).collect()
}

/// The first word of each row.
fn in_table(page: &str) -> BTreeSet<String> {
    let section = page.split_once(HEADING).map_or("", |(_, after)| after);
    let section = section.split_once("\n## ").map_or(section, |(own, _)| own);
    let rows = section.lines().filter(|line| line.starts_with("| "));
    let words = rows.filter_map(|row| {
        let word = row.trim_start_matches("| ").split_whitespace().next()?;
        Some(word.trim_end_matches(',').to_owned())
    });
    // The first row names the columns.
    words.skip(1).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_thread_that_the_table_lacks_is_found() {
        let text = "fn start() { threads.spawn(\"a\", x); threads.spawn_syncer(\n\"b\", y); cleaning.spawn(); }
            #[cfg(test)] mod tests { fn f() { threads.spawn(\"c\", z); } }";
        let spawned: BTreeSet<String> = spawned(text).into_iter().collect();
        let page = |rows: &str| {
            format!(
                "# Page\n\n## Threads\n\n| loop | owns |\n|---|---|\n{rows}\n## Next\n| d | e |\n"
            )
        };
        let both = page("| a (`n`) | x |\n| b, one each | y |\n");
        assert_eq!(judge(&spawned, &both), Vec::<String>::new());
        let one = judge(&spawned, &page("| a | x |\n"));
        assert_eq!(one, ["ARCHITECTURE.md: no row `b` below ## Threads"]);
        let more = judge(&spawned, &page("| a | x |\n| b | y |\n| z | z |\n"));
        assert_eq!(more, ["ARCHITECTURE.md: no thread is named `z`"]);
        assert_eq!(judge(&spawned, "# Page\n").len(), 2);
    }
}
