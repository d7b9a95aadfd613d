//! Rules asked for, made and deleted by clients of one broker, and the questions that they decide there.

use wire::Request;
use wire::messages::create_topics_request::CreatableTopic;
use wire::messages::{CreateTopicsRequest, CreateTopicsResponse};

use super::*;
use crate::event_loop::bench::{Bench, encoded};
use crate::kafka::api::TABLE;

const ANY: i8 = 1;
const MATCH: i8 = 2;
const TOPIC: i8 = 2;
const CLUSTER: i8 = 4;
const LITERAL: i8 = 3;
const PREFIXED: i8 = 4;
const READ: i8 = 3;
const CREATE: i8 = 5;
const DENY: i8 = 2;
const ALLOW: i8 = 3;
const DENIED: i16 = ErrorCode::TopicAuthorizationFailed as i16;

const AUTHORIZER: [(&str, &str); 2] = [
    (
        "authorizer.class.name",
        "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
    ),
    ("super.users", "User:admin"),
];

/// The answer to what is done, in Kafka's form: its words are empty, and not missing.
fn no_words() -> (i16, Option<String>) {
    (0, Some(String::new()))
}

fn rule(name: &str, pattern: i8) -> AclCreation {
    AclCreation {
        resource_type: TOPIC,
        resource_name: name.to_owned(),
        resource_pattern_type: pattern,
        principal: "User:alice".to_owned(),
        host: "*".to_owned(),
        operation: CREATE,
        permission_type: ALLOW,
    }
}

fn any_filter() -> DeleteAclsFilter {
    DeleteAclsFilter {
        resource_type_filter: ANY,
        pattern_type_filter: ANY,
        operation: ANY,
        permission_type: ANY,
        resource_name_filter: None,
        principal_filter: None,
        host_filter: None,
    }
}

fn any_description() -> DescribeAclsRequest {
    DescribeAclsRequest {
        resource_type_filter: ANY,
        pattern_type_filter: ANY,
        operation: ANY,
        permission_type: ANY,
        resource_name_filter: None,
        principal_filter: None,
        host_filter: None,
    }
}

fn ask<R: Request>(bench: &mut Bench, request: &R, version: i16) -> R::Response {
    bench.put(&encoded(request, version));
    bench.commit();
    let answer = bench.answer::<R>(version);
    answer.expect("it is durable, if it has to be")
}

fn create_as_admin(bench: &mut Bench, rules: &[AclCreation]) -> Vec<(i16, Option<String>)> {
    bench.become_user("admin");
    let request = CreateAclsRequest {
        creations: rules.to_vec(),
    };
    let answer: CreateAclsResponse = ask(bench, &request, 3);
    let results = answer.results.into_iter();
    results
        .map(|result| (result.error_code, result.error_message))
        .collect()
}

fn delete_as_admin(bench: &mut Bench, filters: &[DeleteAclsFilter]) -> Vec<DeleteAclsFilterResult> {
    bench.become_user("admin");
    let request = DeleteAclsRequest {
        filters: filters.to_vec(),
    };
    let answer: DeleteAclsResponse = ask(bench, &request, 3);
    answer.filter_results
}

fn describe_as_admin(
    bench: &mut Bench,
    request: &DescribeAclsRequest,
) -> Vec<DescribeAclsResource> {
    bench.become_user("admin");
    let answer: DescribeAclsResponse = ask(bench, request, 3);
    assert_eq!((answer.error_code, answer.error_message), no_words());
    answer.resources
}

fn create_topic_as(bench: &mut Bench, user: &str, name: &str) -> i16 {
    bench.become_user(user);
    let request = CreateTopicsRequest {
        topics: vec![CreatableTopic {
            name: name.to_owned(),
            num_partitions: 1,
            replication_factor: 1,
            ..CreatableTopic::default()
        }],
        timeout_ms: 1_000,
        validate_only: false,
    };
    let answer: CreateTopicsResponse = ask(bench, &request, 7);
    answer.topics[0].error_code
}

/// Every version of an API, with the answer to one request.
fn in_every_version<R: Request>(bench: &mut Bench, key: ApiKey, request: &R) -> Vec<R::Response> {
    let row = TABLE.iter().find(|row| row.key == key).expect("served");
    assert_eq!((row.min, row.max), (1, 3), "as in Kafka 4.3");
    let versions = row.min..=row.max;
    versions
        .map(|version| ask(bench, request, version))
        .collect()
}

#[test]
fn without_an_authorizer_every_rule_is_answered_with_why_there_is_none() {
    let mut bench = Bench::new();
    for answer in in_every_version(&mut bench, ApiKey::DescribeAcls, &any_description()) {
        assert_eq!((answer.error_code, answer.resources.len()), (54, 0));
        let words = answer.error_message.as_deref();
        assert_eq!(words, Some("No Authorizer is configured on the broker"));
    }
    let creations = vec![rule("t", LITERAL); 2];
    let request = CreateAclsRequest { creations };
    for answer in in_every_version(&mut bench, ApiKey::CreateAcls, &request) {
        let results = answer.results.iter();
        let told: Vec<_> = results
            .map(|result| (result.error_code, result.error_message.as_deref()))
            .collect();
        assert_eq!(told, [(54, Some("No Authorizer is configured.")); 2]);
    }
    let filters = vec![any_filter(); 3];
    let request = DeleteAclsRequest { filters };
    for answer in in_every_version(&mut bench, ApiKey::DeleteAcls, &request) {
        assert_eq!(answer.filter_results.len(), 3);
        for result in answer.filter_results {
            assert_eq!((result.error_code, result.matching_acls.len()), (54, 0));
            let words = result.error_message.as_deref();
            assert_eq!(words, Some("No Authorizer is configured."));
        }
    }
}

#[test]
fn what_no_version_knows_closes_the_connection() {
    fn is_cut_off<R: Request>(request: &R) -> bool {
        let mut bench = Bench::with(&AUTHORIZER);
        bench.become_user("admin");
        bench.put(&encoded(request, 3));
        bench.is_cut_off()
    }
    assert!(is_cut_off(&DescribeAclsRequest {
        operation: UNKNOWN,
        ..any_description()
    }));
    let creations = vec![AclCreation {
        resource_type: UNKNOWN,
        ..rule("t", LITERAL)
    }];
    assert!(is_cut_off(&CreateAclsRequest { creations }));
    let filters = vec![DeleteAclsFilter {
        permission_type: UNKNOWN,
        ..any_filter()
    }];
    assert!(is_cut_off(&DeleteAclsRequest { filters }));
    assert!(!is_cut_off(&CreateAclsRequest::default()));
}

#[test]
fn a_rule_is_in_force_at_the_next_question_of_a_connection_that_is_open() {
    let mut bench = Bench::with(&AUTHORIZER);
    assert_eq!(create_topic_as(&mut bench, "alice", "team-1"), DENIED);
    let done = || vec![no_words()];
    assert_eq!(
        create_as_admin(&mut bench, &[rule("team-", PREFIXED)]),
        done()
    );
    assert_eq!(create_topic_as(&mut bench, "alice", "team-1"), 0);
    assert_eq!(create_topic_as(&mut bench, "alice", "other"), DENIED);
    assert_eq!(create_topic_as(&mut bench, "bob", "team-2"), DENIED);
    let but_one = AclCreation {
        permission_type: DENY,
        ..rule("team-3", LITERAL)
    };
    assert_eq!(create_as_admin(&mut bench, &[but_one]), done());
    assert_eq!(create_topic_as(&mut bench, "alice", "team-3"), DENIED);
    assert_eq!(create_topic_as(&mut bench, "alice", "team-4"), 0);
    let of_prefix = DeleteAclsFilter {
        pattern_type_filter: PREFIXED,
        ..any_filter()
    };
    assert_eq!(
        delete_as_admin(&mut bench, &[of_prefix])[0]
            .matching_acls
            .len(),
        1
    );
    assert_eq!(create_topic_as(&mut bench, "alice", "team-5"), DENIED);
}

#[test]
fn each_change_of_the_rules_moves_the_generation_and_nothing_else_does() {
    let mut bench = Bench::with(&AUTHORIZER);
    let generation = |bench: &Bench| {
        let authority = bench.shard.desk.shared.catalog.authority();
        authority.expect("there is an authorizer").generation()
    };
    let mut seen = vec![generation(&bench)];
    create_as_admin(&mut bench, &[rule("a", LITERAL), rule("b", LITERAL)]);
    seen.push(generation(&bench));
    create_as_admin(&mut bench, &[rule("a", LITERAL)]);
    seen.push(generation(&bench));
    assert_eq!(create_topic_as(&mut bench, "alice", "a"), 0);
    seen.push(generation(&bench));
    delete_as_admin(&mut bench, &[any_filter()]);
    seen.push(generation(&bench));
    let first = seen[0];
    let moves: Vec<u64> = seen.iter().map(|generation| generation - first).collect();
    assert_eq!(moves, [0, 1, 1, 1, 2]);
}

#[test]
fn a_broker_that_was_killed_comes_back_with_its_rules() {
    let mut bench = Bench::with(&AUTHORIZER);
    create_as_admin(
        &mut bench,
        &[rule("team-", PREFIXED), rule("gone", LITERAL)],
    );
    let gone = DeleteAclsFilter {
        resource_name_filter: Some("gone".to_owned()),
        ..any_filter()
    };
    delete_as_admin(&mut bench, &[gone]);
    let mut bench = bench.restart();
    assert_eq!(create_topic_as(&mut bench, "alice", "team-1"), 0);
    assert_eq!(create_topic_as(&mut bench, "alice", "gone"), DENIED);
    let names = describe_as_admin(&mut bench, &any_description());
    let names: Vec<&str> = names.iter().map(|one| one.resource_name.as_str()).collect();
    assert_eq!(names, ["team-"]);
}

#[test]
fn rules_are_told_by_the_resource_that_they_name() {
    let mut bench = Bench::with(&AUTHORIZER);
    let to_read = AclCreation {
        operation: READ,
        ..rule("a", LITERAL)
    };
    let all = [
        rule("a", LITERAL),
        to_read,
        rule("a", PREFIXED),
        rule("*", LITERAL),
        rule("b", LITERAL),
    ];
    assert_eq!(create_as_admin(&mut bench, &all), vec![no_words(); 5]);
    let mut told = |request: &DescribeAclsRequest| {
        let resources = describe_as_admin(&mut bench, request).into_iter();
        let resources = resources.map(|one| {
            let operations: Vec<i8> = one.acls.iter().map(|entry| entry.operation).collect();
            (one.resource_name, one.pattern_type, operations)
        });
        resources.collect::<Vec<_>>()
    };
    let of =
        |name: &str, pattern, operations: &[i8]| (name.to_owned(), pattern, operations.to_vec());
    let (star, a, b) = (
        of("*", LITERAL, &[CREATE]),
        of("a", LITERAL, &[READ, CREATE]),
        of("b", LITERAL, &[CREATE]),
    );
    let prefix = of("a", PREFIXED, &[CREATE]);
    let any = told(&any_description());
    assert_eq!(any, [star.clone(), a.clone(), prefix.clone(), b]);
    let about = |name: &str, pattern_type_filter| DescribeAclsRequest {
        resource_name_filter: Some(name.to_owned()),
        pattern_type_filter,
        ..any_description()
    };
    assert_eq!(
        told(&about("a", MATCH)),
        [star.clone(), a.clone(), prefix.clone()]
    );
    assert_eq!(told(&about("a", LITERAL)), [a]);
    assert_eq!(told(&about("ab", MATCH)), [star, prefix]);
    // Numbers of a later version: no rule has them.
    let later = DescribeAclsRequest {
        resource_type_filter: 99,
        ..any_description()
    };
    assert_eq!(told(&later), []);
}

#[test]
fn each_rule_and_each_filter_has_an_answer_of_its_own() {
    let mut bench = Bench::with(&AUTHORIZER);
    let cluster = AclCreation {
        resource_type: CLUSTER,
        ..rule("t", LITERAL)
    };
    let network = AclCreation {
        host: "10.0.0.0/99".to_owned(),
        ..rule("t", LITERAL)
    };
    let later = AclCreation {
        operation: 99,
        ..rule("t", LITERAL)
    };
    let all = [
        rule("t", LITERAL),
        cluster,
        network,
        later,
        rule("t", MATCH),
    ];
    let answers = create_as_admin(&mut bench, &all);
    let words: Vec<(i16, Option<&str>)> = answers
        .iter()
        .map(|(code, words)| (*code, words.as_deref()))
        .collect();
    let expected = [
        (0, Some("")),
        (
            42,
            Some("The only valid name for the CLUSTER resource is kafka-cluster"),
        ),
        (
            42,
            Some("Invalid CIDR notation '10.0.0.0/99': Could not parse [10.0.0.0/99]"),
        ),
        (42, Some("Invalid operation UNKNOWN")),
        (42, Some("Invalid patternType MATCH")),
    ];
    assert_eq!(words, expected);
    let later = |change: fn(&mut DeleteAclsFilter)| {
        let mut filter = any_filter();
        change(&mut filter);
        filter
    };
    let filters = [
        later(|filter| filter.resource_type_filter = 99),
        later(|filter| filter.operation = 99),
        later(|filter| filter.host_filter = Some("10.0.0.1".to_owned())),
        any_filter(),
    ];
    let answers = delete_as_admin(&mut bench, &filters);
    let told: Vec<_> = answers
        .iter()
        .map(|one| (one.error_code, one.error_message.as_deref()))
        .collect();
    let expected = [
        (42, Some("Unknown patternFilter.")),
        (42, Some("Unknown entryFilter.")),
        (0, None),
        (0, None),
    ];
    assert_eq!(told, expected);
    assert_eq!(answers[2].matching_acls, []);
    let deleted = &answers[3].matching_acls[0];
    assert_eq!((deleted.error_code, &*deleted.resource_name), (0, "t"));
    assert_eq!((&*deleted.principal, &*deleted.host), ("User:alice", "*"));
    assert_eq!(describe_as_admin(&mut bench, &any_description()), []);
}

#[test]
fn an_answer_that_is_overdue_names_no_rule_as_deleted() {
    let mut response = DeleteAclsResponse {
        filter_results: vec![DeleteAclsFilterResult {
            matching_acls: vec![DeleteAclsMatchingAcl::default()],
            ..DeleteAclsFilterResult::default()
        }],
        ..DeleteAclsResponse::default()
    };
    response.time_out();
    let result = &response.filter_results[0];
    let timed_out = ErrorCode::RequestTimedOut.code();
    assert_eq!(
        (result.error_code, result.matching_acls.len()),
        (timed_out, 0)
    );
}
