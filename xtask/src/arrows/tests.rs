//! Crates of a few lines, and what the rules about arrows find in them.

use super::*;

fn files(files: &[(&str, &str)]) -> BTreeMap<String, String> {
    let owned = files.iter();
    let owned = owned.map(|(file, text)| ((*file).to_owned(), (*text).to_owned()));
    owned.collect()
}

fn arrows(list: &[(&str, &str)]) -> String {
    let files = files(list);
    let modules = read(&files);
    let arrows = modules.arrows().into_iter();
    let arrows = arrows.flat_map(|(from, to)| to.into_iter().map(move |to| format!("{from}>{to}")));
    arrows.collect::<Vec<_>>().join(" ")
}

#[test]
fn paths_lead_to_the_file_that_has_the_item() {
    let check = |text: &str, want: &str| {
        let list = [
            ("lib.rs", "mod a; mod b; pub use b::c::Deep;"),
            ("a.rs", text),
            (
                "b/mod.rs",
                "pub(crate) mod c; mod d; pub(crate) use d::D; pub struct B;",
            ),
            ("b/c.rs", ""),
            ("b/d.rs", ""),
        ];
        assert_eq!(arrows(&list), want, "{text}");
    };
    check("use crate::b::B;", "a.rs>b/mod.rs");
    check("use crate::b::{B, c::Deep};", "a.rs>b/c.rs a.rs>b/mod.rs");
    check("use super::b::{self}; fn f() { b::c::f() }", "a.rs>b/c.rs");
    check(
        "use crate::b::c as other; fn f() { other::f() }",
        "a.rs>b/c.rs",
    );
    check("fn f() -> crate::b::D {}", "a.rs>b/d.rs");
    check("use crate::Deep;", "a.rs>b/c.rs");
    check("use std::b::B; use bytes::Bytes;", "");
    check("// use crate::b::B;\nconst C: &str = \"crate::b::B\";", "");
    check("#[cfg(test)] mod tests { use crate::b::B; }", "");
}

#[test]
fn a_module_that_declares_and_re_exports_has_no_arrow_to_its_children() {
    let child = ("a/b.rs", "use super::c::C;");
    let list = [
        ("a/mod.rs", "mod b; mod c; pub use b::B;"),
        child,
        ("a/c.rs", ""),
    ];
    assert_eq!(arrows(&list), "a/b.rs>a/c.rs");
    let list = [
        ("a/mod.rs", "mod b; mod c; use b::B;"),
        child,
        ("a/c.rs", ""),
    ];
    assert_eq!(arrows(&list), "a/b.rs>a/c.rs a/mod.rs>a/b.rs");
}

#[test]
fn a_folder_of_another_name_is_its_module() {
    let list = [
        ("lib.rs", "#[path = \"loop/mod.rs\"]\nmod turning; mod a;"),
        ("loop/mod.rs", "pub(crate) mod shard;"),
        ("loop/shard.rs", "use super::S; use crate::a::A;"),
        ("a.rs", "use crate::turning::shard::Shard;"),
    ];
    assert_eq!(
        arrows(&list),
        "a.rs>loop/shard.rs loop/shard.rs>a.rs loop/shard.rs>loop/mod.rs"
    );
}

#[test]
fn a_new_arrow_is_found() {
    let files = files(&[
        ("a.rs", "use crate::b::B;"),
        ("b/mod.rs", "mod c;"),
        ("b/c.rs", "use super::B;"),
    ]);
    let found = |table: &str| {
        let table = parse(table).expect("a table");
        judge("x", &table["x"], &files)
    };
    assert_eq!(found("[x]\na -> b"), Vec::<String>::new());
    for table in ["[x]", "[x]\na -> c", "[x]\nb -> a"] {
        let found = found(table);
        assert_eq!(found.len(), 1, "{table}");
        assert!(found[0].contains("crates/x/src/a.rs") && found[0].contains("a -> b"));
    }
}

#[test]
fn a_circle_of_too_many_files_is_found() {
    let files = files(&[
        ("a.rs", "use crate::b::B;"),
        ("b.rs", "use crate::c::C;"),
        ("c.rs", "use crate::d::D;"),
        ("d.rs", "use crate::a::A; use crate::e::E;"),
        ("e.rs", ""),
    ]);
    let table = "a -> b\nb -> c\nc -> d\nd -> a e";
    let found = |head: &str| {
        let table = parse(&format!("{head}\n{table}")).expect("a table");
        judge("x", &table["x"], &files)
    };
    assert_eq!(found("[x] circle 4"), Vec::<String>::new());
    assert_eq!(found("[x]"), Vec::<String>::new());
    let found = found("[x] circle 3");
    assert_eq!(
        found,
        [
            "crates/x: 4 files lead to each other, more than 3: a.rs b.rs c.rs d.rs; without a.rs -> b.rs it has 1"
        ]
    );
}

#[test]
fn the_table_that_is_written_is_the_one_of_the_code() {
    let table = parse("[x] circle 3\na -> gone").expect("a table");
    let files = files(&[
        ("a.rs", "use crate::b::B;"),
        ("b.rs", "use crate::c::C;"),
        ("c.rs", ""),
    ]);
    let sources = Sources::from([("x".to_owned(), files)]);
    let written = write(&renewed(&table, &sources));
    assert!(
        written.ends_with("\n[x] circle 3\na -> b\nb -> c\n"),
        "{written}"
    );
    let again = parse(&written).expect("a table");
    assert_eq!(judge("x", &again["x"], &sources["x"]), Vec::<String>::new());
    assert!(parse("[x\n").is_err() && parse("a -> b").is_err() && parse("[x]\na b").is_err());
}

#[test]
fn modules_that_lead_to_each_other_are_a_knot_though_no_files_are_a_circle() {
    let files = files(&[
        ("a/mod.rs", "mod one; mod two;"),
        ("a/one.rs", "use crate::b::B;"),
        ("a/two.rs", ""),
        ("b.rs", "use crate::a::two::Two;"),
    ]);
    let found = |head: &str| {
        let table = parse(&format!("{head}\na -> b\nb -> a")).expect("a table");
        judge("x", &table["x"], &files)
    };
    assert_eq!(found("[x] circle 0"), Vec::<String>::new());
    assert_eq!(found("[x] circle 0 knot 2"), Vec::<String>::new());
    let knot = "crates/x: 2 modules lead to each other, more than 0: a b; without a -> b it has 1";
    assert_eq!(found("[x] knot 0"), [knot]);
}

#[test]
fn bounds_are_read_and_written_and_nothing_else_is() {
    let table = parse("[x] circle 4 knot 2\na -> b").expect("a table");
    assert_eq!(parse(&write(&table)).as_ref(), Ok(&table));
    for odd in ["[x] circle", "[x] circle four", "[x] ring 4"] {
        assert!(parse(odd).is_err(), "{odd}");
    }
}
