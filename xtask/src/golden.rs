//! `cargo xtask golden`: writes the golden vectors of the wire crate with Kafka's own codec.
//!
//! Needs a JDK (17 or later) and Maven; with `KAFKA_JARS` naming a directory that has the jars of
//! `crates/wire/golden/pom.xml`, Maven is not needed. The result is committed, so tests need neither.

use std::path::Path;
use std::process::Command;

pub(crate) fn run(args: &[&str]) -> Result<(), String> {
    if !args.is_empty() {
        return Err("usage: [KAFKA_JARS=DIR] cargo xtask golden".to_owned());
    }
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    let wire = root.join("crates/wire");
    let jars = match std::env::var_os("KAFKA_JARS") {
        Some(dir) => dir.into(),
        None => {
            let dir = root.join("target/golden-jars");
            let mut maven = Command::new("mvn");
            maven
                .arg("--quiet")
                .arg("--file")
                .arg(wire.join("golden/pom.xml"));
            maven
                .arg("dependency:copy-dependencies")
                .arg(format!("-DoutputDirectory={}", dir.display()));
            perform(maven)?;
            dir
        }
    };
    let data = wire.join("tests/data");
    let mut java = Command::new("java");
    java.arg("--class-path").arg(jars.join("*"));
    java.arg(wire.join("golden/src/main/java/GoldenVectors.java"));
    java.arg(data.join("messages.zst"))
        .arg(data.join("apis.txt"));
    perform(java)
}

fn perform(mut command: Command) -> Result<(), String> {
    let name = command.get_program().to_string_lossy().into_owned();
    match command.status() {
        Ok(status) if status.success() => Ok(()),
        Ok(status) => Err(format!("{name}: {status}")),
        Err(why) => Err(format!("{name}: {why}")),
    }
}
