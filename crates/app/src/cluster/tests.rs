//! Made-up clusters, and what is reported of them: several voters, a fenced broker, a controller that nobody reaches.

use client::Partition;
use wire::Uuid;

use super::*;

fn replica(node: i32, log_end: Option<i64>, last_fetch_ms: Option<i64>) -> ReplicaInfo {
    ReplicaInfo {
        node,
        directory: Uuid::ZERO,
        log_end,
        last_fetch_ms,
        last_caught_up_ms: last_fetch_ms,
    }
}

/// Node 2 leads at 100,000 ms of its clock.
fn three() -> QuorumInfo {
    QuorumInfo {
        leader: 2,
        epoch: 7,
        high_watermark: Some(40),
        voters: vec![
            replica(1, Some(38), Some(99_500)),
            replica(2, Some(42), Some(100_000)),
            replica(3, Some(42), Some(99_900)),
        ],
        observers: vec![replica(4, Some(42), Some(99_990))],
        listener: Some("CONTROLLER".into()),
        addresses: [(1, "a:9093"), (2, "b:9093"), (3, "c:9093")]
            .map(|(node, at)| (node, at.to_owned()))
            .into(),
    }
}

fn broker(id: i32, is_fenced: bool) -> BrokerInfo {
    BrokerInfo {
        id,
        host: "h".into(),
        port: 9092 + id,
        rack: Some(format!("r{id}")),
        is_fenced,
    }
}

fn dir(broker: i32, is_failed: bool) -> LogDir {
    LogDir {
        broker,
        path: format!("/data/{broker}"),
        total_bytes: Some(100 << 30),
        usable_bytes: Some(50 << 30),
        is_failed,
        is_cordoned: false,
        full_below_bytes: None,
        stored: Vec::new(),
    }
}

fn topic(leaders: [Option<i32>; 3]) -> Topic {
    let partition = |(index, leader): (usize, Option<i32>)| Partition {
        index: index as i32,
        leader,
        leader_epoch: 1,
        replicas: vec![index as i32 + 1],
        isr: vec![index as i32 + 1],
        offline: Vec::new(),
    };
    Topic {
        name: "t".into(),
        id: Uuid::ZERO,
        is_internal: false,
        partitions: leaders.into_iter().enumerate().map(partition).collect(),
    }
}

fn healthy() -> Seen {
    Seen {
        cluster: ClusterInfo {
            cluster_id: "fE1ISc2TUNLe_anqNrUAWw".into(),
            controller: Some(2),
            brokers: vec![broker(1, false), broker(2, false), broker(3, false)],
        },
        quorum: Ok(three()),
        log_dirs: [1, 2, 3].map(|id| (id, Ok(vec![dir(id, false)]))).into(),
        topics: vec![topic([Some(1), Some(2), Some(3)])],
        details: Details::default(),
        features: [
            ("metadata.version".to_owned(), 30),
            ("eligible.leader.replicas.version".to_owned(), 1),
        ]
        .into(),
        serves_nothing: Vec::new(),
        is_old: false,
        is_unserved: false,
        cut_off: BTreeMap::new(),
        voters: BTreeMap::new(),
        moving: Vec::new(),
    }
}

fn told(seen: &Seen) -> Vec<(String, String)> {
    let findings = findings::of(seen).into_iter();
    findings
        .map(|finding| (finding.what, finding.todo))
        .collect()
}

fn text(seen: &Seen) -> String {
    let mut out = Vec::new();
    write_status(&mut out, seen).unwrap();
    String::from_utf8(out).unwrap()
}

#[test]
fn a_healthy_cluster_needs_nothing() {
    let seen = healthy();
    assert!(told(&seen).is_empty(), "{:?}", told(&seen));
    assert_eq!(
        text(&seen),
        "cluster      fE1ISc2TUNLe_anqNrUAWw\n\
         controller   node 2 at b:9093, epoch 7, metadata committed up to 40\n\
         voters       3, of which 3 follow; 2 must run\n\
         observers    1\n\
         brokers      3, 0 fenced\n\
         directories  3, 0 offline\n\
         partitions   3 of 1 topics, 0 offline, 0 below min.insync.replicas, 0 under-replicated\n\
         features     eligible.leader.replicas.version 1, metadata.version 30\n"
    );
}

#[test]
fn replicas_are_measured_against_their_leader() {
    let rows = replicas(&three()).json();
    let told = |at: usize| {
        let row = &rows[at];
        (
            row["role"].as_str().unwrap(),
            row["lag"].as_i64(),
            row["fetched_ms_ago"].as_i64(),
        )
    };
    assert_eq!(told(0), ("voter", Some(4), Some(500)));
    assert_eq!(told(1), ("leader", Some(0), Some(0)));
    assert_eq!(told(3), ("observer", Some(0), Some(10)));
}

#[test]
fn a_voter_that_is_silent_or_never_came_is_named_with_what_may_still_be_lost() {
    let mut seen = healthy();
    let mut quorum = three();
    seen.log_dirs.remove(&1);
    quorum.voters[0].last_fetch_ms = Some(60_000);
    seen.quorum = Ok(quorum.clone());
    assert_eq!(
        told(&seen),
        [(
            "voter 1 has not fetched the metadata for 40 s".to_owned(),
            "start node 1 at a:9093, or see what it reports; no other voter may be lost until then"
                .to_owned()
        )]
    );
    quorum.voters[0] = replica(1, None, None);
    quorum.voters.push(replica(5, Some(42), Some(99_999)));
    quorum.voters.push(replica(6, Some(42), Some(99_999)));
    assert_eq!(findings::majority(&quorum), 3);
    seen.quorum = Ok(quorum);
    let (what, todo) = &told(&seen)[0];
    assert_eq!(
        what,
        "voter 1 has not fetched the metadata since node 2 leads"
    );
    assert!(todo.ends_with("1 more may be lost until then"), "{todo}");
    assert_eq!(
        replicas(seen.quorum.as_ref().unwrap()).json()[0]["lag"],
        Value::Null
    );
}

#[test]
fn a_controller_that_nobody_reaches_is_told_first_and_the_rest_is_still_shown() {
    let mut seen = healthy();
    seen.quorum = Err("describing the quorum: there is no leader".into());
    seen.is_old = true;
    let findings = told(&seen);
    assert_eq!(findings.len(), 1);
    assert!(
        findings[0].0.contains("nothing can be created or changed")
            && findings[0].0.contains("there is no leader")
            && findings[0].1.contains("majority"),
        "{findings:?}"
    );
    let text = text(&seen);
    assert!(
        text.contains("controller   not reachable\n") && text.contains("brokers      3"),
        "{text}"
    );
    assert!(
        text.contains(
            "0 under-replicated (as last known: no broker that answers has a controller)\n"
        ),
        "{text}"
    );
    assert_eq!(status_json(&seen, &[])["quorum"], Value::Null);
}

#[test]
fn a_voter_that_is_a_broker_and_has_not_registered_is_named_and_a_controller_alone_is_not() {
    let mut seen = healthy();
    seen.cluster.brokers.pop();
    seen.log_dirs.remove(&3);
    seen.topics.clear();
    // It answers as a part of the cluster, or not at all.
    assert!(told(&seen).is_empty(), "{:?}", told(&seen));
    seen.voters.insert(3, Voter::default());
    assert!(told(&seen).is_empty(), "{:?}", told(&seen));
    let words = "broker 3 has no controller".to_owned();
    seen.voters.insert(
        3,
        Voter {
            cut_off: Some(words),
            cluster_id: None,
        },
    );
    let (what, todo) = &told(&seen)[0];
    assert!(what.starts_with("node 3 votes and is not registered as a broker yet"));
    assert!(todo.contains("broker 3 has no controller"), "{todo}");
}

#[test]
fn brokers_that_serve_nothing_are_said_to_though_the_quorum_has_a_leader() {
    let mut seen = healthy();
    seen.is_unserved = true;
    seen.cut_off = [(1, "broker 1 has no controller".to_owned())].into();
    // Brokers without a controller know the moment before.
    seen.cluster.brokers[1].is_fenced = true;
    assert_eq!(
        told(&seen),
        [(
            "no partition is served: broker 1 has no controller".to_owned(),
            "do the brokers reach node 2 at b:9093, the active controller? Their logs say what they wait for".to_owned()
        )]
    );
    assert!(
        text(&seen).contains("3 of 1 topics, 3 offline"),
        "{}",
        text(&seen)
    );
}

#[test]
fn a_silent_voter_that_answers_is_not_to_be_started() {
    let mut seen = healthy();
    let mut quorum = three();
    quorum.voters[0].last_fetch_ms = Some(60_000);
    seen.quorum = Ok(quorum);
    let words = "broker 1 has no controller; log dir /data/1 is full".to_owned();
    let mut voter = Voter {
        cut_off: Some(words),
        cluster_id: Some(seen.cluster.cluster_id.clone()),
    };
    seen.voters.insert(1, voter.clone());
    assert_eq!(
        told(&seen)[0].1,
        "it runs at a:9093 and says: broker 1 has no controller; log dir /data/1 is full; its log says more; no other voter may be lost until then"
    );
    voter.cluster_id = Some("other".into());
    seen.voters.insert(1, voter);
    let (_, todo) = &told(&seen)[0];
    assert!(
        todo.starts_with("a node of another cluster (other) answers at a:9093"),
        "{todo}"
    );
}

#[test]
fn what_a_lost_broker_takes_along_is_named() {
    let mut seen = healthy();
    seen.cluster.brokers[2].is_fenced = true;
    seen.log_dirs.remove(&3);
    seen.topics = vec![topic([Some(1), Some(2), None])];
    assert_eq!(
        told(&seen),
        [
            (
                "broker 3 is fenced and serves no clients".to_owned(),
                "the controller hears nothing from it: start it, or see what it reports at h:9095"
                    .to_owned()
            ),
            (
                "1 partition has no leader: t-2".to_owned(),
                "broker 3 has all that was acknowledged: they come back with it and its directories; other partitions are served"
                    .to_owned()
            ),
        ]
    );
    let rows = brokers(&seen).json();
    assert_eq!(
        (&rows[2]["state"], &rows[2]["leads"], &rows[2]["replicas"]),
        (&json!("fenced"), &json!(0), &json!(1))
    );
    assert_eq!(rows[2]["log_dirs"], Value::Null);
    let json = status_json(&seen, &findings::of(&seen));
    assert_eq!(json["offline_partitions"], json!(["t-2"]));
    assert_eq!(json["findings"].as_array().unwrap().len(), 2);
}

#[test]
fn directories_and_brokers_that_fail_and_replicas_behind_are_named() {
    let mut seen = healthy();
    seen.log_dirs.insert(1, Ok(vec![dir(1, true)]));
    let refused = "cannot connect to h:9094: connection refused";
    seen.log_dirs.insert(2, Err(Unheard::Down(refused.into())));
    seen.topics[0].partitions[0].replicas.push(3);
    let words: Vec<String> = told(&seen).into_iter().map(|(what, _)| what).collect();
    assert_eq!(
        words,
        [
            "directory /data/1 of broker 1 is offline",
            "broker 2 does not answer: cannot connect to h:9094: connection refused",
            "1 partition has replicas that are not in sync: t-0",
        ]
    );
    assert_eq!(brokers(&seen).json()[1]["state"], "not reachable");
    assert_eq!(log_dirs(&seen).json()[0]["state"], "offline");
}

#[test]
fn many_partitions_are_counted_and_some_named() {
    let mut seen = healthy();
    seen.topics = (0..4).map(|_| topic([None, None, None])).collect();
    for partition in seen.topics.iter_mut().flat_map(|it| &mut it.partitions) {
        partition.isr = vec![1];
    }
    let (what, _) = &told(&seen)[0];
    assert_eq!(
        what,
        "12 partitions have no leader: t-0, t-1, t-2, t-0, t-1 and 7 more"
    );
}

/// Three replicas each; of partition 0 one is in sync, of partition 1 two, of partition 2 all. Broker 3 is fenced.
fn replicated(in_sync_min: usize) -> Seen {
    let mut seen = healthy();
    seen.cluster.brokers[2].is_fenced = true;
    seen.log_dirs.remove(&3);
    let isrs = [vec![1], vec![2, 1], vec![1, 2, 3]];
    for (partition, isr) in seen.topics[0].partitions.iter_mut().zip(isrs) {
        partition.leader = Some(isr[0]);
        partition.replicas = vec![1, 2, 3];
        partition.isr = isr;
    }
    seen.details.in_sync_min = [("t".to_owned(), in_sync_min)].into();
    seen
}

#[test]
fn partitions_below_their_minimum_are_told_apart_from_those_that_lack_a_replica() {
    let seen = replicated(2);
    let findings = told(&seen);
    assert_eq!(
        findings[1..],
        [
            (
                "1 partition has fewer replicas in sync than min.insync.replicas, so that nothing is committed: t-0"
                    .to_owned(),
                "start broker 3; replicas catch up by themselves; broker 2 is catching up: `esker topic describe` shows the \
                 lag, and the log there says why if it does not fall"
                    .to_owned()
            ),
            (
                "1 partition has replicas that are not in sync: t-1".to_owned(),
                "start broker 3; replicas catch up by themselves".to_owned()
            ),
        ]
    );
    let json = status_json(&seen, &[]);
    assert_eq!(json["below_min_isr_partitions"], json!(["t-0"]));
    assert_eq!(json["under_replicated_partitions"], json!(["t-0", "t-1"]));
    assert!(
        text(&seen).contains("0 offline, 1 below min.insync.replicas, 2 under-replicated"),
        "{}",
        text(&seen)
    );
    // More than there are replicas is asked of nobody.
    let mut seen = replicated(9);
    let partitions = &mut seen.topics[0].partitions;
    partitions[0].replicas = vec![1];
    partitions[1].replicas = vec![1, 2];
    assert_eq!(told(&seen).len(), 1, "{:?}", told(&seen));
}

fn late(is_open: bool) -> Unheard {
    Unheard::Late {
        time: Duration::from_secs(3),
        is_open,
    }
}

#[test]
fn only_a_broker_that_is_down_is_to_be_started() {
    let words = "broker 3 has no controller".to_owned();
    let refuses = Unheard::Refuses("not now".into());
    let ended = Unheard::Ended("the connection to h:9095 was lost".into());
    let down = Unheard::Down("cannot connect".into());
    let fenced =
        "broker 3 is fenced: see what is said of it above; replicas catch up by themselves then";
    for (cut_off, dirs, first, todo) in [
        (Some(words), None, "has no controller", fenced),
        (
            None,
            Some(Ok(vec![dir(3, false)])),
            "it runs at h:9095",
            fenced,
        ),
        (None, Some(Err(refuses)), "it runs at h:9095", fenced),
        (None, Some(Err(ended)), "max.connections", fenced),
        (
            None,
            Some(Err(late(false))),
            "did not answer in 3 s at h:9095: is its process paused, or its host",
            fenced,
        ),
        // Its host takes connections.
        (
            None,
            Some(Err(late(true))),
            "are all its places for connections taken",
            fenced,
        ),
        (
            None,
            Some(Err(down)),
            "start it",
            "start broker 3; replicas catch up by themselves",
        ),
    ] {
        let mut seen = replicated(1);
        seen.topics[0].partitions[0].isr = vec![1, 2];
        seen.cut_off.extend(cut_off.map(|words| (3, words)));
        seen.log_dirs.extend(dirs.map(|dirs| (3, dirs)));
        let findings = told(&seen);
        assert!(findings[0].1.contains(first), "{findings:?}");
        assert_eq!(findings[1].1, todo);
        // It votes as well.
        let mut quorum = three();
        quorum.voters[2].last_fetch_ms = Some(60_000);
        seen.quorum = Ok(quorum);
        let starts = told(&seen)[0].1.contains("start node 3");
        assert_eq!(starts, todo.contains("start broker 3"), "{:?}", told(&seen));
    }
}

#[test]
fn a_broker_that_ends_connections_may_have_no_place_for_them() {
    let mut seen = healthy();
    let lost = client::Error::Lost {
        address: "h:9094".into(),
        source: std::io::ErrorKind::UnexpectedEof.into(),
    };
    let ended = Unheard::new(&lost, Duration::from_secs(3));
    seen.log_dirs.insert(2, Err(ended));
    let (what, todo) = &told(&seen)[0];
    assert!(what.starts_with("broker 2 does not answer"), "{what}");
    assert!(
        todo.starts_with("are all its places for connections taken (max.connections;"),
        "{todo}"
    );
}

#[test]
fn a_partition_that_nobody_leads_waits_for_a_replica_that_has_everything() {
    let mut seen = replicated(1);
    for partition in &mut seen.topics[0].partitions {
        (partition.leader, partition.isr) = (None, Vec::new());
    }
    seen.details.complete = [(0, vec![3, 2]), (1, vec![]), (2, vec![2, 3])]
        .map(|(index, complete)| (("t".to_owned(), index), complete))
        .into();
    let findings = told(&seen);
    assert_eq!(findings[1].0, "1 partition has no leader: t-1");
    assert!(
        findings[1].1.starts_with(
            "no replica is known to have all that was acknowledged: bring back broker 1 or 2 or 3"
        ) && findings[1].1.contains("--election-type unclean"),
        "{}",
        findings[1].1
    );
    assert_eq!(findings[2].0, "2 partitions have no leader: t-0, t-2");
    assert!(
        findings[2].1.starts_with("broker 2 or 3 has all"),
        "{}",
        findings[2].1
    );
}

#[test]
fn a_replica_that_cannot_catch_up_is_not_said_to() {
    let mut seen = replicated(1);
    let full = LogDir {
        usable_bytes: Some(3 << 20),
        ..dir(2, false)
    };
    seen.log_dirs.insert(2, Ok(vec![full]));
    let findings = told(&seen);
    assert_eq!(
        findings[1].0,
        "directory /data/2 of broker 2 is full: 3 MiB are left, and it takes records while there are 64"
    );
    let needy = LogDir {
        usable_bytes: Some(100 << 20),
        full_below_bytes: Some(128 << 20),
        ..dir(2, false)
    };
    seen.log_dirs.insert(2, Ok(vec![needy]));
    assert_eq!(
        told(&seen)[1].0,
        "directory /data/2 of broker 2 is full: 100 MiB are left, and it takes records while there are 128"
    );
    let (what, todo) = &findings[2];
    assert!(what.contains("not in sync: t-0, t-1"), "{what}");
    assert_eq!(
        todo,
        "start broker 3; replicas catch up by themselves; broker 2 cannot catch up: see what is said of it above"
    );
    seen.log_dirs.insert(2, Err(late(true)));
    let (_, todo) = &told(&seen)[2];
    assert!(!todo.contains("catching up"), "{todo}");
}

#[test]
fn a_replica_that_a_reassignment_adds_is_not_missed() {
    let mut seen = healthy();
    seen.topics[0].partitions[0].replicas = vec![1, 3];
    assert_eq!(
        told(&seen)[0].0,
        "1 partition has replicas that are not in sync: t-0"
    );
    seen.moving = vec![Moving {
        topic: "t".into(),
        partition: 0,
        adding: vec![3],
        stands_still: None,
    }];
    assert_eq!(told(&seen), []);
}

#[test]
fn a_broker_that_serves_nothing_and_a_move_that_stands_still_are_named() {
    let mut seen = healthy();
    seen.serves_nothing = vec![2];
    let moving = |partition, stands_still| Moving {
        topic: "t".into(),
        partition,
        adding: vec![3],
        stands_still,
    };
    let seconds = Duration::from_secs;
    let still = |time| Some(Still::For(seconds(time)));
    seen.moving = vec![moving(0, None), moving(2, Some(Still::AtLeast(seconds(2))))];
    let words: Vec<String> = told(&seen).into_iter().map(|(what, _)| what).collect();
    assert_eq!(
        words,
        [
            "nothing is served by broker 2, though it leads partitions: it acts as no leader",
            "reassignment of t-2 has not moved for at least 2 s: broker 3 got nothing",
        ]
    );
    // The cause is one, whichever the partition.
    seen.serves_nothing.clear();
    seen.cluster.brokers[2].is_fenced = true;
    seen.moving = vec![moving(0, still(21)), moving(1, still(19)), moving(2, None)];
    let findings = told(&seen);
    assert_eq!(
        findings[1].0,
        "reassignments of t-0, t-1, t-2 have not moved for 21 s: broker 3 is fenced (does not heartbeat)"
    );
    assert!(
        findings.len() == 2 && !findings[1].1.contains("throttle"),
        "{findings:?}"
    );
}

#[test]
fn a_cluster_that_grew_is_told_of_eligible_leaders() {
    let mut seen = healthy();
    seen.features.remove("eligible.leader.replicas.version");
    assert!(
        text(&seen).contains("kafka-features upgrade"),
        "{}",
        text(&seen)
    );
    let mut quorum = three();
    quorum.voters.truncate(1);
    seen.quorum = Ok(quorum);
    assert!(!text(&seen).contains("kafka-features"), "{}", text(&seen));
}
