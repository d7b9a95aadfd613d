//! One line a case: the partition, the change, and the record that Kafka writes for it.

use std::fmt::Write;

use model::LeaderEpoch;

use super::*;

/// Lists of brokers by name, such as `leader 1 isr 1,2 elr 3`.
fn list(text: &str, name: &str) -> Option<Vec<BrokerId>> {
    let mut words = text.split_whitespace();
    words.by_ref().find(|word| *word == name)?;
    let ids = words.next().unwrap_or("-").split(',');
    let ids = ids.filter_map(|id| id.parse().ok().map(BrokerId));
    Some(ids.collect())
}

fn has(text: &str, name: &str) -> bool {
    text.split_whitespace().any(|word| word == name)
}

fn topic(text: &str) -> Topic {
    let all = |name| list(text, name).unwrap_or_default();
    let replicas = all("replicas");
    let partition = Partition {
        leader: all("leader").first().copied().unwrap_or(NO_LEADER),
        leader_epoch: LeaderEpoch(5),
        epoch: 7,
        isr: all("isr"),
        removing: all("removing"),
        adding: all("adding"),
        eligible_leaders: all("elr"),
        last_known_leaders: all("last"),
        is_recovering: has(text, "recovering"),
        directories: replicas.iter().map(|id| dir(*id)).collect(),
        replicas,
    };
    Topic {
        name: "t".into(),
        id: Uuid([1; 16]),
        partitions: vec![partition],
    }
}

fn dir(broker: BrokerId) -> Uuid {
    Uuid([u8::try_from(broker.0 + 100).expect("small"); 16])
}

/// `setup | change => record`. The brokers `alive` may lead; `min` is the smallest ISR; `elr-on` and `old` choose the features.
fn check(line: &str) {
    let (given, want) = line.split_once("=>").expect("a record");
    let (setup, change) = given.split_once('|').expect("a change");
    let topic = topic(setup);
    let alive = list(setup, "alive").unwrap_or_default();
    let rules = Rules {
        version: if has(setup, "old") {
            MetadataVersion::OLDEST
        } else {
            MetadataVersion::LATEST
        },
        is_elr_enabled: has(setup, "elr-on"),
    };
    let min = list(setup, "min").map_or(1, |min| usize::try_from(min[0].0).expect("small"));
    let mut built =
        PartitionChange::new(&topic, PartitionIndex(0), rules, min).expect("it is there");
    if let Some(isr) = list(change, "isr") {
        built = built.isr(isr);
    }
    if let Some(unclean) = list(change, "unclean") {
        built = built.unclean(unclean);
    }
    if let Some(replicas) = list(change, "replicas") {
        let all = |name| list(change, name).unwrap_or_default();
        built = built.replicas(replicas, all("adding"), all("removing"));
    }
    if let Some(moved) = list(change, "moved") {
        built = built.directory(moved[0], Uuid([9; 16]));
    }
    if has(change, "recovered") {
        built = built.recovering(false);
    }
    for (word, election) in [
        ("prefer", Election::Preferred),
        ("force", Election::Unclean),
    ] {
        if has(change, word) {
            built = built.election(election);
        }
    }
    let record = built.build(|id| alive.contains(&id), dir);
    let shown = record.as_ref().map_or("nothing".to_owned(), show);
    assert_eq!(shown, want.trim(), "{line}");
}

fn show(record: &PartitionChangeRecord) -> String {
    let mut text = String::new();
    if record.leader != SAME_LEADER.0 {
        let _ = write!(text, "leader {} ", record.leader);
    }
    for (name, ids) in [
        ("isr", &record.isr),
        ("elr", &record.eligible_leader_replicas),
        ("last", &record.last_known_elr),
        ("replicas", &record.replicas),
        ("adding", &record.adding_replicas),
        ("removing", &record.removing_replicas),
    ] {
        if let Some(ids) = ids {
            let ids: Vec<String> = ids.iter().map(ToString::to_string).collect();
            let shown = if ids.is_empty() {
                "-".into()
            } else {
                ids.join(",")
            };
            let _ = write!(text, "{name} {shown} ");
        }
    }
    if 0 <= record.leader_recovery_state {
        let _ = write!(text, "recovery {} ", record.leader_recovery_state);
    }
    if let Some(dirs) = &record.directories {
        let _ = write!(text, "dirs {} ", dirs.len());
    }
    text.trim().to_owned()
}

#[test]
fn a_leader_that_can_stay_stays_and_another_comes_from_the_isr_in_the_order_of_replicas() {
    for line in [
        "replicas 1,2,3 isr 1,2,3 leader 2 alive 1,2,3 | isr 1,2,3 => nothing",
        "replicas 1,2,3 isr 1,2,3 leader 2 alive 1,2,3 | isr 1,2 => isr 1,2",
        "replicas 1,2,3 isr 1,2,3 leader 2 alive 1,3 | isr 1,3 => leader 1 isr 1,3",
        "replicas 3,1,2 isr 1,2 leader 2 alive 1,3 | isr 1 => leader 1 isr 1",
        "replicas 1,2,3 isr 2,3 leader - alive 2,3 | isr 2,3 => leader 2",
        "replicas 1,2,3 isr 2,3 leader 2 alive 1,2,3 | prefer => nothing",
        "replicas 1,2,3 isr 1,2,3 leader 2 alive 1,2,3 | prefer => leader 1",
        "replicas 1,2,3 isr 1,2,3 leader 2 alive 2,3 | prefer => nothing",
    ] {
        check(line);
    }
}

#[test]
fn the_last_in_sync_replica_stays_in_the_isr_without_a_leader() {
    check("replicas 1,2 isr 1 leader 1 alive 2 | isr - => leader -1");
    check("replicas 1,2 isr 1 leader - alive 2 | isr - => nothing");
}

#[test]
fn an_unclean_election_loses_the_isr_and_says_so() {
    for line in [
        "replicas 1,2,3 isr 1 leader - alive 2,3 | force => leader 2 isr 2 recovery 1",
        "replicas 1,2,3 isr 1 leader - recovering alive 2 | force => leader 2 isr 2",
        "replicas 1,2,3 isr 1 leader - alive 1,2 | force => leader 1",
        "replicas 1,2,3 isr 1 leader - alive - | force => nothing",
        "replicas 1 isr 1 leader 1 recovering alive 1 | recovered => recovery 0",
    ] {
        check(line);
    }
}

#[test]
fn those_that_left_below_the_minimum_stay_eligible() {
    for line in [
        "elr-on min 2 replicas 1,2,3 isr 1,2,3 leader 1 alive 1,2,3 | isr 1,2 => isr 1,2",
        "elr-on min 2 replicas 1,2,3 isr 1,2 leader 1 alive 1,3 | isr 1 => isr 1 elr 2",
        "elr-on min 3 replicas 1,2,3 isr 1,2 elr 3 leader 1 alive 1 | isr 1 => isr 1 elr 2,3",
        "elr-on min 2 replicas 1,2,3 isr 1 elr 2,3 leader 1 alive 1,2 | isr 1,2 => isr 1,2 elr -",
        "elr-on min 5 replicas 1,2,3 isr 1,2 elr 3 leader 1 alive 1,2,3 | isr 1,2,3 => isr 1,2,3 elr -",
        // All gone: the ISR is empty, and both may come back.
        "elr-on min 2 replicas 1,2,3 isr 1 elr 2 leader 1 alive 3 | isr - => leader -1 isr - elr 1,2 last 1",
        "elr-on min 2 replicas 1,2,3 isr - elr 1,2 last 1 leader - alive 2 | isr - => leader 2 isr 2 elr 1 last -",
        // Records that a broker had before an unclean stop may be lost.
        "elr-on min 2 replicas 1,2,3 isr 1,2 leader 1 alive 1 | isr 1 unclean 2 => isr 1",
        "elr-on min 2 replicas 1,2,3 isr 1 elr 2 leader 1 alive 1 | isr 1 unclean 2 => elr -",
        "elr-on min 2 replicas 1,2 isr 1 leader 1 alive - | isr - unclean 1 => leader -1 isr - last 1",
    ] {
        check(line);
    }
}

#[test]
fn the_last_known_leader_leads_only_where_an_unclean_election_is_asked_for() {
    for line in [
        "elr-on min 2 replicas 1,2,3 isr - last 3 leader - alive 1,3 | isr - => nothing",
        "elr-on min 2 replicas 1,2,3 isr - last 3 leader - alive 1,3 | force => leader 3 isr 3 last - recovery 1",
        "elr-on min 2 replicas 1,2,3 isr - last 3 leader - alive 1 | force => leader 1 isr 1 last - recovery 1",
        "elr-on min 2 replicas 1,2,3 isr - elr 2 last 3 leader - alive 1,3 | force => leader 1 isr 1 elr - last - recovery 1",
    ] {
        check(line);
    }
}

#[test]
fn without_the_feature_what_was_eligible_is_forgotten() {
    check("min 2 replicas 1,2,3 isr 1,2 elr 3 last 3 leader 1 alive 1,2 | isr 1 => isr 1 elr -");
}

/// Its log goes: assigned again, it would lead with nothing.
#[test]
fn who_is_no_replica_any_more_is_not_eligible() {
    for line in [
        "elr-on min 2 replicas 4,1,2 adding 4 removing 1,2 isr 1,2 leader 1 alive 1,2,4 | isr 1,2,4 => leader 4 isr 4 replicas 4 adding - removing - dirs 1",
        "elr-on min 2 replicas 2,3,1 removing 1 isr 2 elr 1,3 leader 2 alive 2 | isr 2 => nothing",
        "elr-on min 2 replicas 3,4,1 adding 4 removing 1 isr 3 elr 1 leader 3 alive 3,4 | isr 3,4 => leader 3 isr 3,4 elr - replicas 3,4 adding - removing - dirs 2",
        "elr-on min 3 replicas 3,4,1 adding 4 removing 1 isr 3 elr 1 leader 3 alive 3,4 | isr 3,4 => leader 3 isr 3,4 elr - replicas 3,4 adding - removing - dirs 2",
    ] {
        check(line);
    }
}

#[test]
fn a_reassignment_ends_when_those_that_come_are_in_sync() {
    for line in [
        // The leader stays, in a new epoch.
        "replicas 4,1,2,3 adding 4 removing 1 isr 1,2,3 leader 2 alive 1,2,3,4 | isr 1,2,3,4 => leader 2 isr 2,3,4 replicas 4,2,3 adding - removing - dirs 3",
        "replicas 4,1 adding 4 removing 1 isr 1 leader 1 alive 1,4 | isr 1 => nothing",
        "replicas 4,1 adding 4 removing 1 isr 1 leader 1 alive 1,4 | isr 1,4 => leader 4 isr 4 replicas 4 adding - removing - dirs 1",
        // Fewer replicas: not while one that stays is out of sync.
        "replicas 2,3,1 removing 1 isr 1,2 leader 1 alive 1,2,3 | isr 1,2 => nothing",
        "replicas 2,3,1 removing 1 isr 1,2 leader 1 alive 1,2,3 | isr 1,2,3 => leader 2 isr 2,3 replicas 2,3 removing - dirs 2",
        "replicas 3,1,2 adding 3 isr 1,2 leader 1 alive 1,2,3 | isr 1,2,3 => isr 1,2,3 adding -",
    ] {
        check(line);
    }
}

#[test]
fn other_replicas_have_a_directory_each_and_a_new_epoch_where_one_goes() {
    for line in [
        "replicas 1,2 isr 1,2 leader 1 alive 1,2,3 | replicas 1,2,3 adding 3 => replicas 1,2,3 adding 3 dirs 3",
        "replicas 1,2 isr 1,2 leader 1 alive 1,2,3 | replicas 1,3,2 adding 3 removing 2 => replicas 1,3,2 adding 3 removing 2 dirs 3",
        "replicas 1,2,3 isr 1 leader 1 alive 1 | replicas 1,2 => leader 1 replicas 1,2 dirs 2",
        "replicas 1,2 isr 1,2 leader 1 alive 1,2 | moved 2 => dirs 2",
        "old replicas 1,2 isr 1,2 leader 1 alive 1,2 | moved 2 => nothing",
    ] {
        check(line);
    }
}

#[test]
fn a_shrunk_isr_bumped_the_epoch_before_3_6() {
    check("old replicas 1,2 isr 1,2 leader 1 alive 1,2 | isr 1 => leader 1 isr 1");
    check("old replicas 1,2 isr 1 leader 1 alive 1,2 | isr 1,2 => isr 1,2");
}
