//! Completion scripts: each is one that its shell takes, and knows the verbs.

use std::io::{ErrorKind, Write};
use std::process::{Command, Output, Stdio};

use crate::broker::{Dir, esker};

fn script(shell: &str) -> String {
    let output = esker(&["completions", shell], "127.0.0.1:1", b"");
    assert!(output.status.success(), "{shell}");
    String::from_utf8(output.stdout).unwrap()
}

/// The shell's answers to the script; none, which is reported, where the shell is not installed. Everybody has bash.
#[allow(clippy::disallowed_methods)]
fn taken_by(shell: &str, args: &[&str]) -> Option<Output> {
    let mut command = Command::new(shell);
    command.args(args).stdin(Stdio::null());
    match command.output() {
        Err(error) if error.kind() == ErrorKind::NotFound && shell != "bash" => {
            // Beside the test's own output, which nobody sees of a test that passes.
            let _ = writeln!(std::io::stderr(), "skipped: {shell} is not installed");
            None
        }
        output => Some(output.unwrap_or_else(|error| panic!("{shell}: {error}"))),
    }
}

#[test]
fn every_shell_gets_a_script_that_knows_every_verb() {
    for shell in ["bash", "zsh", "fish", "elvish", "powershell"] {
        let script = script(shell);
        for word in [
            "consume",
            "produce",
            "abort",
            "--by-duration",
            "--bootstrap",
        ] {
            // fish names long options without their dashes.
            let word = word.trim_start_matches('-');
            assert!(script.contains(word), "{shell}: {word}");
        }
    }
    let output = esker(&["completions", "cmd"], "127.0.0.1:1", b"");
    assert_eq!(output.status.code(), Some(2));
}

#[test]
fn shells_take_their_scripts() {
    let dir = Dir::new();
    for shell in ["bash", "zsh", "fish"] {
        let path = dir.file(shell, script(shell).as_bytes());
        if let Some(output) = taken_by(shell, &["-n", path.to_str().unwrap()]) {
            let said = String::from_utf8_lossy(&output.stderr);
            assert!(
                output.status.success() && said.is_empty(),
                "{shell}: {said}"
            );
        }
    }
}

#[test]
fn bash_completes_a_verb() {
    let dir = Dir::new();
    let path = dir.file("bash", script("bash").as_bytes());
    let line = format!(
        "source {} && COMP_WORDS=(esker group de) COMP_CWORD=2 && _esker esker de group && echo \"${{COMPREPLY[*]}}\"",
        path.display()
    );
    let output = taken_by("bash", &["--norc", "-c", &line]).expect("bash is required");
    let said = String::from_utf8_lossy(&output.stdout);
    assert_eq!(said.trim(), "describe delete");
}
