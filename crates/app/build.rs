//! Names the commit that is built, for `esker --version`; a source archive has none.

use std::process::Command;

#[allow(clippy::disallowed_methods)] // a build script runs before there is an environment to ask
fn main() {
    let git = |args: &[&str]| {
        let output = Command::new("git").args(args).output().ok()?;
        let text = String::from_utf8(output.stdout).ok()?;
        output.status.success().then(|| text.trim().to_owned())
    };
    let version = env!("CARGO_PKG_VERSION");
    let long = match git(&["rev-parse", "--short=10", "HEAD"]) {
        Some(commit) => format!("{version} ({commit})"),
        None => version.to_owned(),
    };
    println!("cargo:rustc-env=ESKER_VERSION={long}");
    println!("cargo:rerun-if-changed=build.rs");
    // The branch's own file changes with each commit, HEAD with each checkout.
    let branch = git(&["symbolic-ref", "--quiet", "HEAD"]);
    let names = ["HEAD".to_owned()].into_iter().chain(branch);
    for name in names {
        let path = git(&["rev-parse", "--git-path", &name]);
        // A file that is missing would be looked at as changed by every build: a branch may be in git's packed list.
        if let Some(path) = path.filter(|path| std::path::Path::new(path).exists()) {
            println!("cargo:rerun-if-changed={path}");
        }
    }
}
