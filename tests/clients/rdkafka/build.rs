//! Hands the program the version of the rdkafka crate that the lock file names.

fn main() {
    let lock = std::fs::read_to_string("Cargo.lock").unwrap_or_default();
    let version = lock
        .split("name = \"rdkafka\"\nversion = \"")
        .nth(1)
        .and_then(|rest| rest.split('"').next());
    println!(
        "cargo::rustc-env=RDKAFKA_VERSION={}",
        version.unwrap_or("?")
    );
    println!("cargo::rerun-if-changed=Cargo.lock");
}
