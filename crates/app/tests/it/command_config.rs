//! `--command-config` as its users meet it, at a broker that asks nobody for a login.

#![allow(clippy::disallowed_methods)] // tests meet the operating system as users do

use std::os::unix::fs::PermissionsExt;

use crate::broker::{Broker, Dir, esker, failure};

const LOGIN: &str = "security.protocol=SASL_PLAINTEXT\nsasl.mechanism=SCRAM-SHA-512\n\
    sasl.jaas.config=org.apache.kafka.common.security.scram.ScramLoginModule required username=\"alice\" password=\"wonderland\";\n";
/// Nothing listens there.
const NOBODY: &str = "127.0.0.1:1";

#[test]
fn a_file_names_the_brokers_unless_the_command_line_does() {
    let dir = Dir::new();
    let broker = Broker::start(&dir.0, &[]);
    let text = format!("bootstrap.servers={}\nacks=all\na.b=1\n", broker.address);
    let file = dir.file("client.properties", text.as_bytes());
    let file = file.to_str().expect("a path");
    let output = esker(&["topic", "list", "--command-config", file], NOBODY, b"");
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(output.status.success(), "{said}");
    assert_eq!(
        said.matches("passed over: a.b and 1 others").count(),
        1,
        "{said}"
    );
    for args in [
        ["topic", "list", "-b", NOBODY, "--command-config", file],
        ["-b", NOBODY, "--command-config", file, "topic", "list"],
    ] {
        let (code, said) = failure(&esker(&args, &broker.address, b""));
        assert!(code == 1 && said.contains(NOBODY), "{said}");
    }
}

#[test]
fn a_login_that_nobody_asks_for_is_refused_with_advice_and_no_password() {
    let dir = Dir::new();
    let broker = Broker::start(&dir.0, &[]);
    let file = dir.file("client.properties", LOGIN.as_bytes());
    let path = file.to_str().expect("a path");
    let verbs: [&[&str]; 3] = [
        &["topic", "list"],
        &["cluster", "status"],
        &["produce", "t"],
    ];
    for mode in [0o644, 0o600] {
        std::fs::set_permissions(&file, PermissionsExt::from_mode(mode)).expect("an own file");
        for verb in verbs {
            let args = [verb, &["--command-config", path]].concat();
            let (code, said) = failure(&esker(&args, &broker.address, b"x\n"));
            let told = format!(
                "cannot log in to {} as alice by SCRAM-SHA-512: its listener takes no login",
                broker.address
            );
            assert!(code == 1 && said.contains(&told), "{args:?}: {said}");
            assert!(said.contains("security.protocol=PLAINTEXT"), "{said}");
            assert_eq!(said.contains("others can read"), mode == 0o644, "{said}");
            assert!(!said.contains("wonderland"), "{said}");
        }
    }
}

#[test]
fn a_file_that_lets_nobody_in_is_refused_before_anything_is_asked() {
    let dir = Dir::new();
    let file = dir.file(
        "client.properties",
        LOGIN.replace("SASL_PLAIN", "SSL-").as_bytes(),
    );
    let file = file.to_str().expect("a path");
    let (code, said) = failure(&esker(
        &["user", "list", "--command-config", file],
        NOBODY,
        b"",
    ));
    assert!(code == 2 && said.contains("is no protocol"), "{said}");
    let missing = ["acl", "list", "--command-config", "/nowhere"];
    let (code, said) = failure(&esker(&missing, NOBODY, b""));
    assert!(code == 1 && said.contains("cannot read /nowhere"), "{said}");
}
