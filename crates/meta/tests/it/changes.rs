//! Settings after changes, as Kafka 4.3 decides them.

use ::config::Overrides;
use meta::decide::alter_configs::{Change, Named, Operation, change_configs, replace_configs};
use meta::{Image, Resource};

use crate::answers::with_topic;
use crate::{broker, replay, settings, step};

fn any_pattern(_: &str) -> bool {
    true
}

fn change(name: &str, operation: Operation, value: Option<&str>) -> Change {
    Change {
        name: name.into(),
        operation: Some(operation),
        value: value.map(Into::into),
    }
}

fn named(kind: i8, name: &str) -> Named {
    Named {
        kind,
        name: name.into(),
    }
}

fn after(image: &mut Image, changes: Vec<Change>) -> (Vec<String>, Overrides) {
    let decision = change_configs(image, &broker(""), any_pattern, &[(named(2, "t"), changes)]);
    replay(image, &decision.records);
    let answers = decision.answers.iter().map(|(_, answer)| {
        answer
            .as_ref()
            .err()
            .map_or("fine".into(), ToString::to_string)
    });
    (
        answers.collect(),
        Overrides::clone(&image.overrides(&Resource::topic("t"))),
    )
}

#[test]
fn lists_grow_from_what_holds_without_an_override() {
    use Operation::{Append, Delete, Set, Subtract};
    let mut image = with_topic(1);
    let mut step =
        |operation, value| after(&mut image, vec![change("cleanup.policy", operation, value)]).1;
    assert_eq!(
        step(Append, Some("compact")),
        settings(&[("cleanup.policy", "delete,compact")])
    );
    assert_eq!(
        step(Append, Some("compact")),
        settings(&[("cleanup.policy", "delete,compact")])
    );
    assert_eq!(
        step(Subtract, Some("delete")),
        settings(&[("cleanup.policy", "compact")])
    );
    assert_eq!(
        step(Subtract, Some("nothere")),
        settings(&[("cleanup.policy", "compact")])
    );
    assert_eq!(
        step(Subtract, Some("compact")),
        settings(&[("cleanup.policy", "")])
    );
    assert_eq!(
        step(Set, Some("delete")),
        settings(&[("cleanup.policy", "delete")])
    );
    assert_eq!(step(Delete, None), settings(&[]));
}

#[test]
fn a_list_grows_no_longer_than_a_value_may_be() {
    let image = with_topic(1);
    let metrics = |operation, item: &str, length: usize| {
        vec![change("metrics", operation, Some(&item.repeat(length)))]
    };
    let says = |image: &Image, changes| {
        let decision = change_configs(
            image,
            &broker(""),
            any_pattern,
            &[(named(16, "s"), changes)],
        );
        let answer = decision.answers[0].1.clone();
        let words = answer.map_or_else(|error| error.to_string(), |()| "fine".into());
        (words, decision.records)
    };
    let mut grown = image.clone();
    replay(
        &mut grown,
        &says(&image, metrics(Operation::Set, "x", 32_000)).1,
    );
    let (words, records) = says(&grown, metrics(Operation::Append, "y", 766));
    assert_eq!((words.as_str(), records.len()), ("fine", 1));
    let (words, records) = says(&grown, metrics(Operation::Append, "y", 767));
    assert_eq!(
        (words.as_str(), records.len()),
        (
            "The configuration value cannot be added because it exceeds the maximum value size of 32767 bytes.",
            0
        )
    );
}

#[test]
fn patterns_of_subscriptions_are_tried_and_a_request_sets_only_so_many() {
    let image = with_topic(1);
    let matching = |name: &str, text: &str| {
        let set = vec![change("match", Operation::Set, Some(text))];
        (named(16, name), set)
    };
    let says = |resources: &[_]| -> Vec<String> {
        let compiles = |pattern: &str| pattern != "(";
        let decision = change_configs(&image, &broker(""), compiles, resources);
        let words = |answer: &Result<(), _>| match answer {
            Ok(()) => "fine".to_owned(),
            Err(error) => ToString::to_string(error),
        };
        let answers = decision.answers.iter();
        answers.map(|(_, answer)| words(answer)).collect()
    };
    let resources = [
        matching("a", "client_source_port=1,client_id=("),
        matching("b", "client_id=(,client_id=b"),
    ];
    let words = "Illegal client matching pattern: client_id=(";
    assert_eq!(says(&resources), [words, "fine"]);

    let resources: Vec<_> = (0..40)
        .map(|at| matching(&at.to_string(), "client_id=a"))
        .collect();
    let said = says(&resources);
    assert!(said[..39].iter().all(|words| words == "fine"));
    assert_eq!(
        said[39],
        "Unable to perform excessively large batch operation."
    );
    let long = matching("long", &format!("client_id={}", "a".repeat(32_000)));
    assert_eq!(says(&[long]), ["fine"]);
}

#[test]
fn bad_changes_are_refused_in_the_words_of_kafka() {
    use Operation::{Append, Delete, Set};
    let mut image = with_topic(1);
    let mut says = |changes| after(&mut image, changes).0.remove(0);
    for (changes, words) in [
        (
            vec![change("retention.ms", Append, Some("5"))],
            "Can't APPEND to key retention.ms because its type is not LIST.",
        ),
        (
            vec![change("retention.ms", Set, None)],
            "Null value not supported for : retention.ms",
        ),
        (
            vec![change("retention.ms", Set, Some("x"))],
            "Invalid value x for configuration retention.ms: Not a number of type LONG",
        ),
        (
            vec![change("nosuch", Set, Some("x"))],
            "Unknown topic config name: nosuch",
        ),
        (vec![change("nosuch", Delete, None)], "fine"),
        (
            vec![
                change("flush.ms", Set, Some("1")),
                change("flush.ms", Set, Some("2")),
            ],
            "Error due to duplicate config keys",
        ),
        (vec![], "fine"),
    ] {
        assert_eq!(says(changes), words);
    }
    assert!(image.overrides(&Resource::topic("t")).is_empty());
}

#[test]
fn resources_are_checked_in_the_words_of_kafka() {
    let image = with_topic(1);
    let set = |name: &str| vec![change(name, Operation::Set, Some("5000"))];
    for (resource, setting, words) in [
        (
            named(2, "none"),
            "retention.ms",
            "The topic 'none' does not exist.",
        ),
        (
            named(2, ""),
            "retention.ms",
            "Default topic resources are not allowed.",
        ),
        (
            named(4, "2"),
            "log.retention.ms",
            "Unexpected broker id, expected 1, but received 2",
        ),
        (
            named(4, "x"),
            "log.retention.ms",
            "Node id must be an integer, but it is: x",
        ),
        (
            named(4, "1"),
            "log.retention.hours",
            "Cannot update these configs dynamically: [log.retention.hours]",
        ),
        (named(77, "1"), "root", "Unknown resource type 77"),
        (named(4, ""), "log.retention.ms", "fine"),
        (named(4, "1"), "log.retention.ms", "fine"),
    ] {
        let decision = change_configs(
            &image,
            &broker(""),
            any_pattern,
            &[(resource, set(setting))],
        );
        let answer = decision.answers[0]
            .1
            .as_ref()
            .err()
            .map_or("fine".into(), ToString::to_string);
        assert_eq!(answer, words);
    }
    let twice = [
        (named(2, "t"), set("flush.ms")),
        (named(2, "t"), set("retention.ms")),
        (named(4, ""), set("log.flush.interval.ms")),
    ];
    let decision = change_configs(&image, &broker(""), any_pattern, &twice);
    let refused: Vec<bool> = decision
        .answers
        .iter()
        .map(|(_, answer)| answer.is_err())
        .collect();
    assert_eq!(refused, [true, true, false]);
    assert_eq!(decision.records.len(), 1);
}

/// The last checks are that the topic is there, once all else is right, and behind what is asked the form of its name.
#[test]
fn of_two_faults_the_one_that_kafka_finds_first_is_told() {
    use Operation::{Append, Set};
    let image = with_topic(1);
    let null = "Null value not supported for : flush.ms";
    let no_list = "Can't APPEND to key flush.ms because its type is not LIST.";
    for (topic, changes, words) in [
        (
            "none",
            vec![change("flush.ms", Set, Some("x"))],
            "Invalid value x for configuration flush.ms: Not a number of type LONG",
        ),
        (
            "none",
            vec![change("nosuch", Set, Some("x"))],
            "Unknown topic config name: nosuch",
        ),
        ("none", vec![change("flush.ms", Append, Some("1"))], no_list),
        ("none", vec![change("flush.ms", Set, None)], null),
        ("b b", vec![change("flush.ms", Set, None)], null),
        (
            "b b",
            vec![change("flush.ms", Set, Some("x"))],
            "Topic name is invalid: 'b b' contains one or more characters other than ASCII alphanumerics, '.', '_' and '-'",
        ),
        ("", vec![change("flush.ms", Append, Some("1"))], no_list),
        (
            "",
            vec![change("flush.ms", Set, Some("x"))],
            "Default topic resources are not allowed.",
        ),
        ("none", vec![], "The topic 'none' does not exist."),
    ] {
        let decision = change_configs(
            &image,
            &broker(""),
            any_pattern,
            &[(named(2, topic), changes)],
        );
        let error = decision.answers[0].1.as_ref().expect_err("refused");
        assert_eq!(error.to_string(), words);
    }
}

#[test]
fn a_broker_that_is_spelled_in_two_ways_is_named_twice() {
    let image = with_topic(1);
    let set = || vec![change("log.retention.ms", Operation::Set, Some("5000"))];
    let resources = [
        (named(4, "1"), set()),
        (named(4, "01"), set()),
        (named(4, "+1"), set()),
    ];
    let decision = change_configs(&image, &broker(""), any_pattern, &resources);
    for (_, answer) in &decision.answers {
        let error = answer.as_ref().expect_err("refused");
        assert_eq!(error.to_string(), "Each resource must appear at most once.");
    }
    assert_eq!(decision.records, []);
}

/// Either is fine by itself: four threads have 128 MiB, and the one there is has more than one.
#[test]
fn settings_that_contradict_each_other_are_refused_in_one_request_and_in_two() {
    let (cluster, own) = (named(4, ""), named(4, "1"));
    let set = |name: &str, value| vec![change(name, Operation::Set, Some(value))];
    let threads = set("log.cleaner.threads", "4");
    let memory = |bytes| set("log.cleaner.dedupe.buffer.size", bytes);
    let said = |image: &Image, resources: &[(Named, Vec<Change>)]| -> (Vec<String>, usize) {
        let decision = change_configs(image, &broker(""), any_pattern, resources);
        let words = |answer: &Result<(), _>| match answer {
            Ok(()) => "fine".to_owned(),
            Err(error) => ToString::to_string(error),
        };
        let answers = decision.answers.iter().map(|(_, answer)| words(answer));
        (answers.collect(), decision.records.len())
    };
    let refused = "log.cleaner.dedupe.buffer.size: must be at least 1MB per cleaner thread.";
    let image = with_topic(1);
    for (first, second) in [
        (
            (cluster.clone(), threads.clone()),
            (own.clone(), memory("3145728")),
        ),
        ((own.clone(), memory("3145728")), (cluster, threads.clone())),
    ] {
        let both = [first.clone(), second.clone()];
        let once = (vec!["fine".to_owned(), refused.to_owned()], 1);
        assert_eq!(said(&image, &both), once);
        // The settings that the broker goes by know nothing yet of the first request.
        let mut planned = with_topic(1);
        step(&mut planned, |image| {
            change_configs(image, &broker(""), any_pattern, &[first]).records
        });
        assert_eq!(said(&planned, &[second]), (vec![refused.to_owned()], 0));
    }
    let enough = [(named(4, ""), threads), (own, memory("4194308"))];
    assert_eq!(said(&image, &enough), (vec!["fine".to_owned(); 2], 2));
}

#[test]
fn one_request_writes_ten_thousand_records_at_most() {
    let image = with_topic(1);
    let change = |at: i32| change(&format!("my.own.{at}"), Operation::Set, Some("1"));
    let ask = |count| {
        let resource = [(named(4, "1"), (0..count).map(change).collect())];
        change_configs(&image, &broker(""), any_pattern, &resource)
            .records
            .len()
    };
    assert_eq!((ask(10_000), ask(10_001)), (10_000, 0));
}

#[test]
fn replacing_settings_drops_those_that_are_not_named() {
    let mut image = with_topic(1);
    after(
        &mut image,
        vec![
            change("flush.ms", Operation::Set, Some("7")),
            change("retention.ms", Operation::Set, Some("5")),
        ],
    );
    let all = [(
        named(2, "t"),
        vec![("retention.ms".to_owned(), Some("55".to_owned()))],
    )];
    step(&mut image, |image| {
        replace_configs(image, &broker(""), any_pattern, &all).records
    });
    assert_eq!(
        *image.overrides(&Resource::topic("t")),
        settings(&[("retention.ms", "55")])
    );
    let none = [(named(2, "t"), Vec::new())];
    step(&mut image, |image| {
        replace_configs(image, &broker(""), any_pattern, &none).records
    });
    assert_eq!(image.configured().count(), 0);
}
