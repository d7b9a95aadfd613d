//! Settings whose row says `Accepted`: a start says of them that they have no effect, so no other crate may read one.

use std::path::Path;

use crate::tokens::{Token, production};

const TABLE: &str = "crates/config/src/table/";
const OWNER: &str = "crates/config/";

pub(crate) fn objections(root: &Path, paths: &[&str]) -> Vec<String> {
    let read = |path: &&str| std::fs::read_to_string(root.join(path)).ok();
    let tables = paths.iter().filter(|path| path.starts_with(TABLE));
    let accepted: Vec<String> = tables
        .filter_map(read)
        .flat_map(|text| accepted(&text))
        .collect();
    let mut objections = Vec::new();
    if accepted.is_empty() {
        objections.push(format!(
            "{TABLE}: no setting is Accepted: is this rule still right?"
        ));
    }
    let others = paths.iter().filter(|path| {
        path.starts_with("crates/") && path.contains("/src/") && !path.starts_with(OWNER)
    });
    for path in others {
        let found = read(path)
            .map(|text| named(&text, &accepted))
            .unwrap_or_default();
        objections.extend(found.into_iter().map(|name| {
            format!("{path}: reads `{name}`, which {TABLE} says has no effect (Accepted): say what it does, or do not read it")
        }));
    }
    objections
}

/// Names of the rows of a table that say so.
fn accepted(table: &str) -> Vec<String> {
    let rows = table.split(';');
    let rows = rows.filter_map(|row| {
        let (_, row) = row.split_once('"')?;
        let (name, rest) = row.split_once('"')?;
        let words = rest.split('"').step_by(2).flat_map(str::split_whitespace);
        words
            .into_iter()
            .any(|word| word == "Accepted")
            .then(|| name.to_owned())
    });
    rows.collect()
}

/// Those of the names that the code of a file has as a text.
fn named(text: &str, names: &[String]) -> Vec<String> {
    let texts = production(text)
        .into_iter()
        .filter_map(|token| match token {
            Token::Text(text) if names.contains(&text) => Some(text),
            _ => None,
        });
    texts.collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_setting_without_effect_that_is_read_is_found() {
        let table = "settings! {\n \"a.b\" Int \"1\" Any ReadOnly Works \"what is Accepted\";\n \"c.d\" Int - Any ReadOnly Accepted\n \"text\";\n}";
        let names = accepted(table);
        assert_eq!(names, ["c.d"]);
        let code =
            "fn f() { g(\"a.b\"); g(\"c.d\") }\n#[cfg(test)] mod tests { fn t() { g(\"c.d\") } }";
        assert_eq!(named(code, &names), ["c.d"]);
    }
}
