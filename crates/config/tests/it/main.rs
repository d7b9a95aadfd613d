//! The documents about settings agree with the table.

use std::path::Path;

/// After a change of the table: `UPDATE=1 cargo test -p config --test it`.
#[test]
#[allow(clippy::disallowed_methods)]
fn the_page_of_settings_is_fresh() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/configuration.md");
    let page = config::docs::markdown();
    if std::env::var_os("UPDATE").is_some() {
        std::fs::write(&path, &page).expect("docs can be written");
    }
    let written = std::fs::read_to_string(&path).expect("docs/configuration.md exists");
    assert!(
        written == page,
        "docs/configuration.md is stale: run UPDATE=1 cargo test -p config --test it"
    );
}
