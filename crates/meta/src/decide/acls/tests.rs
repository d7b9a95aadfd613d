//! Rules that are created and deleted, one by one and too many at once.

use super::*;

const UNKNOWN: i8 = 0;

fn rule(name: &str, pattern_type: i8) -> AccessControlEntryRecord {
    AccessControlEntryRecord {
        id: Uuid::ZERO,
        resource_type: 2,
        resource_name: name.to_owned(),
        pattern_type,
        principal: "User:alice".to_owned(),
        host: WILDCARD.to_owned(),
        operation: 3,
        permission_type: 3,
    }
}

fn any() -> Filter {
    Filter {
        kind: ANY,
        pattern: ANY,
        operation: ANY,
        permission: ANY,
        ..Filter::default()
    }
}

fn image(rules: &[AccessControlEntryRecord]) -> Image {
    let (mut image, mut number) = (Image::default(), 0_u128);
    let mut ids = || {
        number += 1;
        Uuid(number.to_be_bytes())
    };
    let records = create_rules(&image, rules, &mut ids).records;
    replay(&mut image, &records);
    image
}

fn replay(image: &mut Image, records: &[Record]) {
    let replayed = image.replay(image.next_place(), records);
    replayed.expect("decided on this image");
}

#[test]
fn a_rule_is_there_once_however_often_it_is_created() {
    let image = image(&[rule("a", LITERAL), rule("a", LITERAL), rule("a", PREFIXED)]);
    assert_eq!(image.acls().count(), 2);
    let again = create_rules(&image, &[rule("a", LITERAL)], &mut || Uuid([9; 16]));
    assert_eq!((again.records, again.answers), (vec![], vec![Ok(())]));
}

#[test]
fn rules_that_mean_nothing_are_refused_one_by_one() {
    let of = |change: fn(&mut AccessControlEntryRecord)| {
        let mut rule = rule("a", LITERAL);
        change(&mut rule);
        rule
    };
    let rules = [
        of(|rule| rule.resource_type = ANY),
        of(|rule| rule.pattern_type = MATCH),
        of(|rule| rule.operation = UNKNOWN),
        of(|rule| rule.permission_type = ANY),
        of(|rule| rule.principal = "alice".to_owned()),
        of(|rule| rule.resource_name.clear()),
        of(|rule| rule.resource_type = CLUSTER),
        of(|rule| rule.host.clear()),
        of(|rule| rule.host = "10.0.0.0/33".to_owned()),
        of(|rule| rule.host = "10.0.0.0/8".to_owned()),
        of(|rule| {
            rule.resource_type = CLUSTER;
            rule.resource_name = CLUSTER_NAME.to_owned();
        }),
        of(|_| {}),
    ];
    let creation = create_rules(&Image::default(), &rules, &mut || Uuid([9; 16]));
    let expected = [
        Err(RuleError::Kind("ANY")),
        Err(RuleError::Pattern("MATCH")),
        Err(RuleError::Operation("UNKNOWN")),
        Err(RuleError::Permission("ANY")),
        Err(RuleError::Principal("alice".to_owned())),
        Err(RuleError::NoName),
        Err(RuleError::Cluster),
        Err(RuleError::NoHost),
        Err(RuleError::Network {
            host: "10.0.0.0/33".to_owned(),
            why: Network::parse("10.0.0.0/33").expect_err("too many bits"),
        }),
        Ok(()),
        Ok(()),
        Ok(()),
    ];
    assert_eq!(creation.answers, expected);
    assert_eq!(creation.records.len(), 3);
}

#[test]
fn refusals_are_in_kafka_s_words() {
    for (error, words) in [
        (
            RuleError::Cluster,
            "The only valid name for the CLUSTER resource is kafka-cluster",
        ),
        (RuleError::NoName, "Invalid empty resource name"),
        (RuleError::Kind("ANY"), "Invalid resourceType ANY"),
        (RuleError::Pattern("MATCH"), "Invalid patternType MATCH"),
        (RuleError::Operation("UNKNOWN"), "Invalid operation UNKNOWN"),
        (RuleError::Permission("ANY"), "Invalid permissionType ANY"),
        (
            RuleError::Principal("alice".to_owned()),
            "Could not parse principal from `alice` (no colon is present separating the principal type from the principal name)",
        ),
        (
            RuleError::NoNetworksYet,
            "CIDR-based ACL host patterns require metadata version 4.4-IV1 or higher.",
        ),
    ] {
        assert_eq!(error.to_string(), words);
    }
    assert_eq!(
        TooManyRules.to_string(),
        "Cannot remove more than 10000 acls in a single delete operation."
    );
}

#[test]
fn networks_are_for_clusters_whose_nodes_all_know_them() {
    let mut image = Image::default();
    let level = wire::metadata::FeatureLevelRecord {
        name: crate::versions::METADATA_VERSION.to_owned(),
        feature_level: MetadataVersion::V4_3_IV0.level(),
    };
    replay(&mut image, &[level.into()]);
    let of_network = AccessControlEntryRecord {
        host: "10.0.0.0/8".to_owned(),
        ..rule("a", LITERAL)
    };
    let creation = create_rules(&image, &[of_network], &mut || Uuid([9; 16]));
    assert_eq!(creation.answers, [Err(RuleError::NoNetworksYet)]);
    assert_eq!(NETWORKS.name(), NETWORKS_NAME);
}

#[test]
fn a_request_for_too_many_rules_creates_none_of_them() {
    let mut rules: Vec<_> = (0..RECORDS_MAX)
        .map(|number| rule(&number.to_string(), LITERAL))
        .collect();
    rules.push(rule("", LITERAL));
    rules.push(rule("0", LITERAL));
    rules.push(rule("a", MATCH));
    let creation = |rules: &[AccessControlEntryRecord]| {
        create_rules(&Image::default(), rules, &mut || Uuid([9; 16]))
    };
    let most = creation(&rules);
    assert_eq!(most.records.len(), RECORDS_MAX);
    let last = [
        Err(RuleError::NoName),
        Ok(()),
        Err(RuleError::Pattern("MATCH")),
    ];
    assert_eq!(most.answers[RECORDS_MAX..], last);
    rules.push(rule("one more", LITERAL));
    let none = creation(&rules);
    assert_eq!(none.records, []);
    let is_refused = |answer: &&Result<(), RuleError>| **answer == Err(RuleError::TooManyRules);
    assert_eq!(
        none.answers.iter().filter(is_refused).count(),
        rules.len() - 1
    );
    assert_eq!(none.answers[RECORDS_MAX], Err(RuleError::NoName));
}

#[test]
fn a_deletion_of_too_many_rules_deletes_none_of_them() {
    let all: Vec<_> = (0..RECORDS_MAX)
        .map(|number| rule(&number.to_string(), LITERAL))
        .collect();
    let mut image = image(&all);
    let most = delete_rules(&image, &[any()]).expect("as many as may be");
    assert_eq!(most.records.len(), RECORDS_MAX);
    let first = Filter {
        name: Some("0".to_owned()),
        ..any()
    };
    assert!(delete_rules(&image, &[first.clone(), any()]).is_ok());
    // The others may then mean no rule at all, not even one that is gone already.
    assert_eq!(delete_rules(&image, &[any(), first]), Err(TooManyRules));
    let one_more = AccessControlEntryRecord {
        id: Uuid([9; 16]),
        ..rule("one more", LITERAL)
    };
    replay(&mut image, &[one_more.into()]);
    assert_eq!(delete_rules(&image, &[any()]), Err(TooManyRules));
}

#[test]
fn a_filter_means_rules_by_their_own_name_or_by_what_they_are_about() {
    let all = [
        rule("ab", LITERAL),
        rule("*", LITERAL),
        rule("a", PREFIXED),
        rule("b", PREFIXED),
    ];
    let image = image(&all);
    let found = |pattern, name: Option<&str>| {
        let filter = Filter {
            pattern,
            name: name.map(str::to_owned),
            ..any()
        };
        let found = image.acls().filter(|rule| filter.is_of(rule));
        found
            .map(|rule| rule.resource_name.as_str())
            .collect::<Vec<_>>()
    };
    assert_eq!(found(ANY, None), ["ab", "*", "a", "b"]);
    assert_eq!(found(LITERAL, None), ["ab", "*"]);
    assert_eq!(found(ANY, Some("a")), ["a"]);
    assert_eq!(found(LITERAL, Some("a")), [""; 0]);
    assert_eq!(found(MATCH, Some("ab")), ["ab", "*", "a"]);
    assert_eq!(found(PREFIXED, Some("b")), ["b"]);
}

#[test]
fn a_rule_that_two_filters_mean_is_deleted_once() {
    let image = image(&[rule("a", LITERAL), rule("b", LITERAL)]);
    let named = Filter {
        name: Some("a".to_owned()),
        ..any()
    };
    let deletion = delete_rules(&image, &[any(), named]).expect("few");
    assert_eq!(deletion.records.len(), 2);
    let names = |answer: &Result<Vec<AccessControlEntryRecord>, FilterError>| {
        let rules = answer.as_ref().expect("a filter");
        let names = rules.iter().map(|rule| rule.resource_name.clone());
        names.collect::<Vec<_>>()
    };
    let answers: Vec<_> = deletion.answers.iter().map(names).collect();
    assert_eq!(answers, [vec!["a", "b"], vec!["a"]]);
}

#[test]
fn a_filter_with_a_number_that_nobody_knows_is_refused_alone() {
    let image = image(&[rule("a", LITERAL)]);
    let of = |change: fn(&mut Filter)| {
        let mut filter = any();
        change(&mut filter);
        filter
    };
    let filters = [
        of(|filter| filter.kind = UNKNOWN),
        of(|filter| filter.kind = 8),
        of(|filter| filter.pattern = 5),
        of(|filter| filter.operation = 16),
        of(|filter| filter.permission = -1),
        any(),
    ];
    let deletion = delete_rules(&image, &filters).expect("few");
    let counts = deletion.answers.into_iter();
    let counts: Vec<_> = counts
        .map(|answer| answer.map(|rules| rules.len()))
        .collect();
    let expected = [
        Err(FilterError::Pattern),
        Err(FilterError::Pattern),
        Err(FilterError::Pattern),
        Err(FilterError::Entry),
        Err(FilterError::Entry),
        Ok(1),
    ];
    assert_eq!(counts, expected);
}

#[test]
fn a_filter_without_a_word_means_any_and_one_with_it_that_alone() {
    let other = AccessControlEntryRecord {
        principal: "User:bob".to_owned(),
        host: "10.0.0.1".to_owned(),
        operation: 4,
        permission_type: 2,
        resource_type: 3,
        ..rule("a", LITERAL)
    };
    let image = image(&[rule("a", LITERAL), other]);
    let count = |change: fn(&mut Filter)| {
        let mut filter = any();
        change(&mut filter);
        image.acls().filter(|rule| filter.is_of(rule)).count()
    };
    assert_eq!(count(|_| {}), 2);
    assert_eq!(count(|filter| filter.kind = 3), 1);
    assert_eq!(
        count(|filter| filter.principal = Some("User:bob".to_owned())),
        1
    );
    assert_eq!(count(|filter| filter.host = Some(WILDCARD.to_owned())), 1);
    assert_eq!(count(|filter| filter.host = Some("10.0.0.2".to_owned())), 0);
    assert_eq!(count(|filter| filter.operation = 4), 1);
    assert_eq!(count(|filter| filter.operation = 2), 0);
    assert_eq!(count(|filter| filter.permission = 2), 1);
}
