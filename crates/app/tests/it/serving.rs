//! Starting and stopping a broker.
#![allow(clippy::disallowed_methods)] // acts as a person at a shell does

use std::io::{Read, Write};
use std::net::TcpStream;
use std::path::{Path, PathBuf};

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

/// The system ends a process that writes beyond the limit of file sizes, unless it says that it can bear it.
#[test]
fn a_limit_of_file_sizes_is_a_full_disk_and_not_the_end() {
    const FILE_KIB_MAX: u32 = 2048;
    const TRIES_MAX: usize = 20;
    let dir = Dir::new();
    let broker = Broker::start_limited(FILE_KIB_MAX, &dir.0);
    let mut line = "x".repeat(900_000);
    line.push('\n');
    let produce = || broker.run(&["produce", "t", "--timeout", "1"], line.as_bytes());
    let taken = (0..TRIES_MAX)
        .take_while(|_| produce().status.success())
        .count();
    assert!((2..TRIES_MAX).contains(&taken), "{taken} were taken");
    let said = broker.said();
    assert!(
        said.contains("appends are refused") && said.contains("ulimit -f, LimitFSIZE"),
        "{said}"
    );
    assert!(taken <= broker.text(&["consume", "t", "-e"]).lines().count());
    assert_eq!(broker.stop(), Some(0));
    let broker = Broker::start(&dir.0, &[]);
    assert!(taken <= broker.text(&["consume", "t", "-e"]).lines().count());
    broker.ok(&["produce", "t"], line.as_bytes());
}

/// A line that could not be written ended the process, and four bytes from anybody made it write one.
#[test]
fn a_log_that_cannot_be_written_costs_its_lines_only() {
    let dir = Dir::new();
    let broker = Broker::start_unheard(&dir.0, &["--set", "num.io.threads=8"]);
    let mut stranger = TcpStream::connect(&broker.address).unwrap();
    stranger.write_all(b"\x7f\xff\xff\xff").unwrap();
    let closed = stranger.read(&mut [0]);
    assert!(matches!(closed, Ok(0) | Err(_)), "{closed:?}");
    broker.ok(&["produce", "t"], b"still here\n");
    assert_eq!(broker.text(&["consume", "t", "-e"]), "still here\n");
    assert_eq!(broker.stop(), Some(0));
}

#[test]
fn a_closed_terminal_stops_the_broker_as_a_person_would() {
    let dir = Dir::new();
    let broker = Broker::start_attended(&dir.0);
    broker.ok(&["produce", "t"], b"kept\n");
    assert_eq!(broker.signal("-HUP"), Some(0));
    let broker = Broker::start(&dir.0, &[]);
    assert_eq!(broker.said(), "", "nothing was left to replay");
    assert_eq!(broker.text(&["consume", "t", "-e"]), "kept\n");
    assert_eq!(broker.stop(), Some(0));
}

/// It has the name of a partition, of a topic that nobody knows, and was removed as one.
#[test]
fn a_directory_of_somebody_else_is_left_alone() {
    let dir = Dir::new();
    let backup = dir.0.join("data/backup-20260101");
    std::fs::create_dir_all(&backup).unwrap();
    std::fs::write(backup.join("notes.txt"), "mine").unwrap();
    let broker = Broker::start(&dir.0.join("data"), &[]);
    assert!(broker.said().contains("backup-20260101 is left alone"));
    assert_eq!(broker.stop(), Some(0));
    let notes = std::fs::read_to_string(backup.join("notes.txt"));
    assert_eq!(notes.unwrap(), "mine");
}

#[test]
fn an_authorizer_that_is_not_built_in_is_none() {
    let dir = Dir::new();
    let authorizer = "authorizer.class.name=com.example.Mine";
    let data = dir.0.to_str().unwrap();
    let (code, error) = failure(&esker(
        &["serve", "-l", "127.0.0.1:0", "-d", data, "-s", authorizer],
        "",
        b"",
    ));
    assert_eq!(code, 2, "{error}");
    assert!(error.contains("is not built in"), "{error}");
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
        error.contains(dir.0.to_str().unwrap())
            && error.contains("in use by another broker")
            && error.contains("another --data-dir"),
        "{error}"
    );
    // Which has no such argument.
    let dir_name = dir.0.to_str().unwrap();
    let repair = esker(&["repair", "--accept-loss", dir_name], "", b"");
    let (code, error) = failure(&repair);
    assert_eq!(code, 1);
    assert!(
        error.contains("in use by another broker")
            && error.contains("stop that broker")
            && !error.contains("--data-dir"),
        "{error}"
    );
    assert_eq!(broker.stop(), Some(0));
}

/// The broker took the first directory for that of the metadata log, found no topic in it, and removed the files of all.
#[test]
fn directories_may_be_named_in_another_order_and_none_may_be_left_out() {
    let dir = Dir::new();
    let [first, second] = ["first", "second"].map(|name| dir.0.join(name).display().to_string());
    let both = PathBuf::from(format!("{first},{second}"));
    let turned = PathBuf::from(format!("{second},{first}"));
    let lines: String = (0..200).map(|i| format!("line {i:03}\n")).collect();
    let all_are_there = |broker: &Broker| {
        let text = broker.text(&["consume", "t", "-e"]);
        let mut seen: Vec<_> = text.lines().collect();
        seen.sort_unstable();
        assert!(seen.iter().eq(&lines.lines().collect::<Vec<_>>()), "{text}");
    };

    let broker = Broker::start(&both, &[]);
    broker.ok(&["topic", "create", "t", "--partitions", "4"], b"");
    broker.ok(&["produce", "t"], lines.as_bytes());
    // New records are in the journal only, and so is the fact that the topic exists.
    broker.kill();
    let broker = Broker::start(&turned, &[]);
    all_are_there(&broker);
    assert_eq!(broker.stop(), Some(0));

    let elsewhere = format!("metadata.log.dir={second}");
    let nowhere = format!("metadata.log.dir={first}-third");
    let both = both.to_str().unwrap();
    for (data, more, words) in [
        (
            &second[..],
            &[][..],
            "no directory of log.dirs has the metadata log",
        ),
        (both, &["--set", &elsewhere], "the metadata log is in"),
        (both, &["--set", &nowhere], "is none of log.dirs"),
    ] {
        let mut args = vec!["serve", "--listen", "127.0.0.1:0", "--data-dir", data];
        args.extend(more);
        let (code, error) = failure(&esker(&args, "", b""));
        assert_eq!(code, 1, "{error}");
        assert!(error.contains(words), "{error}");
    }

    let broker = Broker::start(Path::new(both), &[]);
    all_are_there(&broker);
    assert_eq!(broker.stop(), Some(0));
}

/// Replaces the metadata log, and what a start reads with it, by an older copy.
fn put_back(copy: &Path, data: &Path) {
    for name in ["esker.checkpoint", "journal", "__cluster_metadata-0"] {
        let (from, to) = (copy.join(name), data.join(name));
        if to.is_dir() {
            std::fs::remove_dir_all(&to).unwrap();
        }
        copy_all(&from, &to);
    }
}

fn copy_all(from: &Path, to: &Path) {
    if !from.is_dir() {
        std::fs::copy(from, to).unwrap();
        return;
    }
    std::fs::create_dir_all(to).unwrap();
    for entry in std::fs::read_dir(from).unwrap() {
        let name = entry.unwrap().file_name();
        copy_all(&from.join(&name), &to.join(&name));
    }
}

/// To an older copy of the metadata log it looked deleted, and was removed.
#[test]
fn a_topic_that_is_younger_than_the_metadata_log_is_set_aside_and_told() {
    let dir = Dir::new();
    let (data, copy) = (dir.0.join("data"), dir.0.join("copy"));
    let broker = Broker::start(&data, &[]);
    broker.ok(&["produce", "old"], b"here before\n");
    assert_eq!(broker.stop(), Some(0));
    copy_all(&data, &copy);

    let mut seen = Vec::new();
    for round in 1..3 {
        let broker = Broker::start(&data, &[]);
        let line = format!("came later {round}\n");
        broker.ok(&["produce", "young"], line.as_bytes());
        assert_eq!(broker.text(&["consume", "young", "-e"]), line);
        assert_eq!(broker.stop(), Some(0));
        let young = data.join("young-0");
        let log = |dir: &Path| std::fs::read(dir.join(format!("{:020}.log", 0))).unwrap();
        let bytes = log(&young);

        put_back(&copy, &data);
        let broker = Broker::start(&data, &[]);
        let said = broker.said();
        let told = said.split_once("young-0 is set aside as ");
        let (stray, rest) = told.expect(&said).1.split_once(": ").unwrap();
        assert!(rest.contains("the metadata log never told of it"), "{said}");
        assert_eq!(broker.text(&["consume", "old", "-e"]), "here before\n");
        let topics = broker.text(&["topic", "list"]);
        assert!(!topics.contains("young"), "{topics}");
        assert!(!young.exists());
        assert_eq!(broker.stop(), Some(0));

        seen.push((PathBuf::from(stray), bytes));
        for (stray, bytes) in &seen {
            assert_eq!(log(stray), *bytes, "round {round}");
            let args = ["inspect", "--batches", stray.to_str().unwrap()];
            let inspected = esker(&args, "", b"");
            assert!(inspected.status.success(), "{inspected:?}");
        }
        let broker = Broker::start(&data, &[]);
        assert_eq!(broker.said(), "", "a stray is told once");
        assert_eq!(broker.stop(), Some(0));
    }
}

#[test]
fn a_deleted_topic_of_which_a_crash_left_files_is_removed() {
    let dir = Dir::new();
    let broker = Broker::start(&dir.0, &[]);
    broker.ok(&["produce", "gone"], b"one\n");
    assert_eq!(broker.stop(), Some(0));
    let copy = dir.0.join("kept-by-the-test");
    copy_all(&dir.0.join("gone-0"), &copy);
    let broker = Broker::start(&dir.0, &[]);
    broker.ok(&["topic", "delete", "gone"], b"");
    assert_eq!(broker.stop(), Some(0));
    std::fs::rename(copy, dir.0.join("gone-0")).unwrap();
    let broker = Broker::start(&dir.0, &[]);
    assert_eq!(broker.said(), "");
    let names = std::fs::read_dir(&dir.0).unwrap();
    let names: Vec<_> = names.map(|entry| entry.unwrap().file_name()).collect();
    let is_left = |name: &&std::ffi::OsString| name.to_string_lossy().contains("gone");
    assert_eq!(names.iter().find(is_left), None);
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

#[test]
fn settings_that_change_nothing_here_are_named_in_one_line() {
    for (settings, line) in [
        (
            &["num.io.threads=8", "num.partitions=7"][..],
            " WARN broker: setting num.io.threads has no effect here: Requests are served on the network threads",
        ),
        (
            &["socket.send.buffer.bytes=102400", "num.io.threads=8"],
            " WARN broker: 2 settings have no effect here: num.io.threads, socket.send.buffer.bytes",
        ),
    ] {
        let dir = Dir::new();
        let file = dir.file("server.properties", settings.join("\n").as_bytes());
        let broker = Broker::start(&dir.0.join("data"), &["--config", file.to_str().unwrap()]);
        let said = broker.said();
        let warnings: Vec<&str> = said
            .lines()
            .filter(|line| line.contains(" WARN "))
            .collect();
        let is_told = matches!(warnings[..], [warning] if warning.ends_with(line));
        assert!(is_told, "{said}");
    }
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
    let (code, error) = failure(&esker(&["topic", "list"], "nowhere:x", b""));
    assert!(code == 2 && error.contains("host:port"), "{error}");
}

#[test]
fn a_data_directory_of_kafka_is_left_as_it_is() {
    let dir = Dir::new();
    let data = dir.0.join("kafka");
    std::fs::create_dir_all(data.join("orders-0")).unwrap();
    let write = |name: &str, text: &str| std::fs::write(data.join(name), text).unwrap();
    let identity = "version=1\ncluster.id=MkU3OEVBNTcwNTJENDM2Qk\nnode.id=1\ndirectory.id=AAAAAAAAAAAAAAAAAAAABw\n";
    write("meta.properties", identity);
    write("recovery-point-offset-checkpoint", "0\n0\n");
    write("orders-0/00000000000000000000.log", "");
    let listed = || {
        let mut names: Vec<_> = std::fs::read_dir(&data)
            .unwrap()
            .map(|entry| entry.unwrap().file_name())
            .collect();
        names.sort();
        names
    };
    let before = listed();
    let new = dir.0.join("new");
    let dirs = format!("{},{}", new.display(), data.display());
    let output = esker(&["serve", "--listen", "127.0.0.1:0", "-d", &dirs], "", b"");
    let (code, error) = failure(&output);
    assert_eq!(code, 1);
    for words in [
        "Apache Kafka",
        "MkU3OEVBNTcwNTJENDM2Qk, node 1",
        "--data-dir",
    ] {
        assert!(error.contains(words), "{words}: {error}");
    }
    assert_eq!(listed(), before);
    assert!(!new.exists(), "the other directory is not touched either");
}

#[test]
fn a_name_is_bound_at_all_its_addresses_and_advertised() {
    use std::net::ToSocketAddrs;
    let dir = Dir::new();
    let broker = Broker::start_at("localhost:0", &dir.0);
    let (_, port) = broker.address.rsplit_once(':').unwrap();
    let port: u16 = port.parse().unwrap();
    for address in ("localhost", port).to_socket_addrs().unwrap() {
        if std::net::TcpListener::bind((address.ip(), 0)).is_err() {
            continue; // a family that this machine does not use
        }
        let env = env::Env::real();
        let client =
            client::Client::connect(&env, &address.to_string(), client::Options::default());
        let brokers = client.unwrap().brokers().clone();
        assert_eq!(
            brokers[&1],
            format!("localhost:{port}"),
            "asked at {address}"
        );
    }
}

#[test]
fn two_addresses_are_two_listeners() {
    let dir = Dir::new();
    let broker = Broker::start(&dir.0, &["--listen", "127.0.0.1:0"]);
    let (_, port) = broker.address.rsplit_once(':').unwrap();
    broker.ok(&["produce", "t"], b"a\n");
    assert_eq!(broker.text(&["consume", "t", "-e"]), "a\n");
    assert_ne!(port, "0");
}
