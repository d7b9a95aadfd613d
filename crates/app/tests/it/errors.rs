//! `docs/errors.md` describes every error code that the broker can give, and what it leaves known. `UPDATE=1` renews the page.

#![allow(clippy::disallowed_methods)] // tests meet the operating system as users do

use std::collections::BTreeSet;
use std::fmt::Write;
use std::path::{Path, PathBuf};

use ::broker::{INDEFINITE, leaves_unknown};
use wire::ErrorCode;

const INTRODUCTION: &str = "# Error codes

What an answer of this broker leaves known. After a **definite** code nothing of what was asked is done, and nothing of it will
be done later. After an **indefinite** one it may be done, now or later: ask for the state before it is done otherwise, or do it
again in a way that does no harm twice, as an idempotent producer does. A code is about the part of the request that it stands
beside (a partition, a group, a resource); other parts have codes of their own. A connection that ends before the answer is
indefinite for every request on it. For requests that only read, every code is definite.

`again`: the same request may succeed later (what Kafka's clients call retriable).

| code | name | outcome | again | meaning |
| ---: | --- | --- | --- | --- |
";

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// The promises themselves; who names a code there does not give it.
const PROMISES: &str = "broker/src/error_outcomes.rs";

/// The codes that the sources of the broker name.
fn given(dir: &Path, found: &mut BTreeSet<String>) {
    for entry in std::fs::read_dir(dir).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            given(&path, found);
        } else if path.extension().is_some_and(|it| it == "rs") && !path.ends_with(PROMISES) {
            let text = std::fs::read_to_string(&path).unwrap();
            let after = text.split("ErrorCode::").skip(1);
            found.extend(after.map(|rest| {
                let name = rest.chars().take_while(char::is_ascii_alphanumeric);
                name.collect::<String>()
            }));
        }
    }
}

fn page() -> String {
    let mut names = BTreeSet::new();
    for part in ["broker", "coord", "meta", "partition", "config"] {
        given(&root().join("crates").join(part).join("src"), &mut names);
    }
    let mut page = INTRODUCTION.to_owned();
    for code in ErrorCode::ALL {
        if !code.is_error() || !names.contains(&format!("{code:?}")) {
            continue;
        }
        let (outcome, meaning) = match leaves_unknown(*code) {
            Some(why) => ("**indefinite**", format!("{}; {why}", code.message())),
            None => ("definite", code.message().to_owned()),
        };
        let again = if code.is_retriable() { "yes" } else { "" };
        let (number, name) = (code.code(), code.name());
        writeln!(
            page,
            "| {number} | {name} | {outcome} | {again} | {meaning} |"
        )
        .unwrap();
    }
    page
}

#[test]
fn the_page_of_error_codes_is_what_the_broker_gives() {
    let (path, page) = (root().join("docs/errors.md"), page());
    if std::env::var_os("UPDATE").is_some() {
        std::fs::write(&path, &page).unwrap();
    }
    let written = std::fs::read_to_string(&path).unwrap();
    assert!(written == page, "docs/errors.md: renew it with UPDATE=1");
}

#[test]
fn every_indefinite_code_is_one_that_the_broker_gives() {
    let page = page();
    for (code, _) in INDEFINITE {
        let row = format!("| {} | {} |", code.code(), code.name());
        assert!(page.contains(&row), "{code}");
    }
}
