//! Starting and stopping a broker.

use crate::broker::{Broker, Dir, esker, failure};

#[test]
fn acknowledged_records_survive_a_kill_and_a_stop() {
    let dir = Dir::new();
    let mut want = String::new();
    for round in 0..4 {
        let broker = Broker::start(&dir.0, &[]);
        let lines: String = (0..500)
            .map(|i| format!("round {round} line {i}\n"))
            .collect();
        broker.ok(&["produce", "t"], lines.as_bytes());
        want.push_str(&lines);
        assert_eq!(broker.text(&["consume", "t", "-e"]), want, "round {round}");
        if round % 2 == 0 {
            broker.kill()
        } else {
            assert_eq!(broker.stop(), Some(0))
        }
    }
}

#[test]
fn a_second_broker_on_the_same_directory_is_told_that_it_is_in_use() {
    let dir = Dir::new();
    let broker = Broker::start(&dir.0, &[]);
    let second = esker(
        &[
            "serve",
            "--listen",
            "127.0.0.1:0",
            "--data-dir",
            dir.0.to_str().unwrap(),
        ],
        "",
        b"",
    );
    let (code, error) = failure(&second);
    assert_eq!(code, 1);
    assert!(
        error.contains(dir.0.to_str().unwrap()) && error.contains("in use by another broker"),
        "{error}"
    );
    assert_eq!(broker.stop(), Some(0));
}

#[test]
fn a_port_in_use_is_named() {
    let dir = Dir::new();
    let broker = Broker::start(&dir.0.join("a"), &[]);
    let second = esker(
        &[
            "serve",
            "--listen",
            &broker.address,
            "--data-dir",
            dir.0.join("b").to_str().unwrap(),
        ],
        "",
        b"",
    );
    let (code, error) = failure(&second);
    assert_eq!(code, 1);
    assert!(error.contains(&broker.address), "{error}");
}

#[test]
fn wrong_settings_are_refused_before_anything_is_touched() {
    let dir = Dir::new();
    let data = dir.0.join("data");
    let file = dir.file(
        "server.properties",
        b"num.partitions=2\nlog.retention.msec=5\n",
    );
    for (args, words) in [
        (&["--set", "num.partition=2"][..], "num.partitions"),
        (&["--set", "num.partitions=few"], "num.partitions"),
        (&["--config", file.to_str().unwrap()], "log.retention.ms"),
        (&["--config", "no-such-file"], "no-such-file"),
    ] {
        let all = [
            &[
                "serve",
                "--listen",
                "127.0.0.1:0",
                "--data-dir",
                data.to_str().unwrap(),
            ],
            args,
        ]
        .concat();
        let (code, error) = failure(&esker(&all, "", b""));
        assert!(code == 2 || code == 1, "{args:?}: {code}");
        assert!(error.contains(words), "{args:?}: {error}");
    }
    assert!(!data.exists_at_all());
}

trait Exists {
    fn exists_at_all(&self) -> bool;
}

impl Exists for std::path::PathBuf {
    #[allow(clippy::disallowed_methods)]
    fn exists_at_all(&self) -> bool {
        self.exists()
    }
}

#[test]
fn without_a_broker_the_client_says_how_to_start_one() {
    // Port 1 of the loopback is never listened on by anything a test machine runs.
    let (code, error) = failure(&esker(&["topic", "list"], "127.0.0.1:1", b""));
    assert_eq!(code, 1);
    assert!(error.contains("esker serve"), "{error}");
    let (code, error) = failure(&esker(&["topic", "list"], "nowhere", b""));
    assert!(code == 1 && error.contains("host:port"), "{error}");
}
