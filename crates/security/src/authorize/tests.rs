use std::collections::BTreeSet;
use std::net::{IpAddr, Ipv4Addr};

use proptest::prelude::*;

use super::*;
use crate::principal::Principal;

const HERE: IpAddr = IpAddr::V4(Ipv4Addr::new(10, 0, 0, 1));
const THERE: IpAddr = IpAddr::V4(Ipv4Addr::new(10, 0, 0, 2));

fn rule(permission: Permission, operation: Operation, (pattern, name): (Pattern, &str)) -> Rule {
    Rule {
        kind: Kind::Topic,
        name: name.to_owned(),
        pattern,
        principal: "User:alice".to_owned(),
        host: "*".to_owned(),
        operation,
        permission,
    }
}

fn rules(all: &[Rule]) -> Rules {
    let mut rules = Rules::default();
    for rule in all {
        rules.add(rule.clone());
    }
    rules
}

fn may(rules: &Rules, operation: Operation, name: &str) -> bool {
    let alice = Principal::user("alice");
    rules
        .decide((&alice, HERE), operation, (Kind::Topic, name))
        .is_allowed
}

use Operation::{All, Alter, AlterConfigs, Create, Describe, DescribeConfigs, Read, Write};
use Pattern::{Literal, Prefixed};
use Permission::{Allow, Deny};

#[test]
fn a_denial_wins_wherever_it_stands() {
    let all = [
        rule(Allow, All, (Literal, "*")),
        rule(Deny, Write, (Prefixed, "pay")),
    ];
    for order in [[0, 1], [1, 0]] {
        let rules = rules(&order.map(|at| all[at].clone()));
        assert!(may(&rules, Write, "orders") && may(&rules, Read, "payments"));
        assert!(!may(&rules, Write, "payments"));
    }
}

#[test]
fn rights_imply_others_where_they_are_given_and_not_where_they_are_denied() {
    let allowed = rules(&[
        rule(Allow, Write, (Literal, "t")),
        rule(Allow, AlterConfigs, (Literal, "t")),
    ]);
    assert!(may(&allowed, Describe, "t") && may(&allowed, DescribeConfigs, "t"));
    assert!(!may(&allowed, Read, "t") && !may(&allowed, Alter, "t"));
    let denied = rules(&[
        rule(Deny, Write, (Literal, "t")),
        rule(Allow, Describe, (Literal, "t")),
    ]);
    assert!(may(&denied, Describe, "t") && !may(&denied, Write, "t"));
}

#[test]
fn a_star_is_any_name_as_a_literal_and_a_letter_as_a_prefix() {
    let literal = rules(&[rule(Allow, Read, (Literal, "*"))]);
    assert!(may(&literal, Read, "t") && may(&literal, Read, "*"));
    let prefixed = rules(&[rule(Allow, Read, (Prefixed, "*"))]);
    assert!(!may(&prefixed, Read, "t") && may(&prefixed, Read, "*t"));
}

#[test]
fn a_rule_of_anybody_closes_what_is_open_without_rules() {
    let mut rules = Rules::new(BTreeSet::new(), true);
    assert!(may(&rules, Read, "t"));
    let of_bob = Rule {
        principal: "User:bob".to_owned(),
        ..rule(Allow, Create, (Literal, "t"))
    };
    rules.add(of_bob.clone());
    assert!(!may(&rules, Read, "t") && may(&rules, Read, "u"));
    rules.remove(&of_bob);
    assert!(may(&rules, Read, "t"));
}

#[test]
fn super_users_everybody_and_addresses_are_known() {
    let boss = Principal::user("boss");
    let mut rules = Rules::new(BTreeSet::from([boss.clone()]), false);
    let topic = (Kind::Topic, "t");
    rules.add(Rule {
        principal: "User:*".to_owned(),
        host: "10.0.0.1".to_owned(),
        ..rule(Allow, Read, (Literal, "t"))
    });
    rules.add(Rule {
        principal: "User:boss".to_owned(),
        ..rule(Deny, All, (Literal, "t"))
    });
    assert_eq!(
        rules.decide((&boss, THERE), Read, topic).why,
        Why::SuperUser
    );
    let carol = Principal::user("carol");
    let mapped: IpAddr = "::ffff:10.0.0.1".parse().expect("an address");
    for (host, is_allowed) in [(HERE, true), (THERE, false), (mapped, true)] {
        assert_eq!(
            rules.decide((&carol, host), Read, topic).is_allowed,
            is_allowed,
            "{host}"
        );
    }
    let node = Principal::node(1);
    assert_eq!(
        rules.decide((&node, HERE), Read, topic).why,
        Why::NoneAllows,
        "no rule is for nodes"
    );
}

#[test]
fn any_topic_is_one_that_no_denial_dominates() {
    let alice = Principal::user("alice");
    let any = |all: &[Rule]| rules(all).allows_any((&alice, HERE), Write, Kind::Topic);
    assert!(!any(&[]));
    assert!(any(&[rule(Allow, Write, (Literal, "t"))]));
    assert!(any(&[
        rule(Allow, Write, (Literal, "t")),
        rule(Deny, Write, (Literal, "u"))
    ]));
    assert!(!any(&[
        rule(Allow, Write, (Literal, "t")),
        rule(Deny, Write, (Literal, "t"))
    ]));
    assert!(!any(&[
        rule(Allow, Write, (Literal, "t")),
        rule(Deny, All, (Prefixed, ""))
    ]));
    assert!(!any(&[
        rule(Allow, Write, (Prefixed, "pay")),
        rule(Deny, Write, (Prefixed, "pa"))
    ]));
    assert!(any(&[
        rule(Allow, Write, (Prefixed, "pa")),
        rule(Deny, Write, (Prefixed, "pay"))
    ]));
    assert!(any(&[
        rule(Allow, Write, (Prefixed, "pa")),
        rule(Deny, Write, (Literal, "pa"))
    ]));
    assert!(!any(&[
        rule(Allow, Write, (Literal, "*")),
        rule(Deny, Write, (Literal, "*"))
    ]));
    assert!(any(&[
        rule(Allow, Write, (Literal, "*")),
        rule(Deny, Write, (Prefixed, "a"))
    ]));
    let by_probe = rule(Allow, Alter, (Literal, "hardcode"));
    let alters = rules(&[by_probe]).allows_any((&alice, HERE), Describe, Kind::Topic);
    assert!(
        alters,
        "Kafka asks about this name first, by the whole rule"
    );
}

/// The order of Kafka's authorizer over a plain list.
fn plainly(
    all: &[Rule],
    (principal, host): (&Principal, IpAddr),
    operation: Operation,
    (kind, name): (Kind, &str),
) -> Option<bool> {
    let names = |rule: &&Rule| {
        rule.kind == kind
            && match rule.pattern {
                Literal => rule.name == name || rule.name == "*",
                Prefixed => name.starts_with(&rule.name),
            }
    };
    let named: Vec<&Rule> = all.iter().filter(names).collect();
    if named.is_empty() {
        return None;
    }
    let fits = |rule: &&&Rule| {
        let implied: &[Operation] = match (rule.permission, operation) {
            (Allow, Describe) => &[Read, Write, Operation::Delete, Alter],
            (Allow, DescribeConfigs) => &[AlterConfigs],
            _ => &[],
        };
        let is_host = rule.host == "*" || rule.host.parse() == Ok(host);
        let is_principal = rule.principal == "User:*" || rule.principal == principal.to_string();
        let is_operation = rule.operation == operation
            || rule.operation == All
            || implied.contains(&rule.operation);
        is_host && is_principal && is_operation
    };
    let fitting: Vec<&&Rule> = named.iter().filter(fits).collect();
    Some(!fitting.is_empty() && fitting.iter().all(|rule| rule.permission == Allow))
}

fn any_rule() -> impl Strategy<Value = Rule> {
    let names = prop::sample::select(vec!["*", "", "a", "ab", "abc", "b", "ü", "hardcode"]);
    let kinds = prop::sample::select(vec![Kind::Topic, Kind::Group]);
    let patterns = prop::sample::select(vec![Literal, Prefixed]);
    let principals = prop::sample::select(vec!["User:*", "User:alice", "User:bob"]);
    let hosts = prop::sample::select(vec!["*", "10.0.0.1", "10.0.0.2", "nowhere"]);
    let operations = prop::sample::select(Operation::EVERY.to_vec());
    let permissions = prop::sample::select(vec![Allow, Deny]);
    let parts = (
        kinds,
        names,
        patterns,
        principals,
        hosts,
        operations,
        permissions,
    );
    parts.prop_map(
        |(kind, name, pattern, principal, host, operation, permission)| Rule {
            kind,
            name: name.to_owned(),
            pattern,
            principal: principal.to_owned(),
            host: host.to_owned(),
            operation,
            permission,
        },
    )
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2_000))]

    #[test]
    fn the_index_decides_as_a_plain_list_does(
        mut all in prop::collection::vec(any_rule(), 0..12),
        gone in prop::collection::vec(any_rule(), 0..4),
        name in prop::sample::select(vec!["a", "ab", "abcd", "b", "üx", "*", "hardcode", "c"]),
        asked in prop::sample::select(Operation::EVERY[1..].to_vec()),
    ) {
        let mut rules = rules(&all);
        // Some of those that are there, and some that are not.
        for rule in gone.iter().chain(all.clone().iter().take(2)) {
            rules.remove(rule);
            all.retain(|known| known != rule);
        }
        for principal in ["alice", "bob", "carol"].map(Principal::user) {
            for host in [HERE, THERE] {
                for kind in [Kind::Topic, Kind::Group, Kind::Cluster] {
                    let resource = (kind, name);
                    let decided = rules.decide((&principal, host), asked, resource);
                    let expected = plainly(&all, (&principal, host), asked, resource);
                    prop_assert_eq!(decided.is_allowed, expected.unwrap_or(false));
                    prop_assert_eq!(decided.why == Why::NoRule, expected.is_none());
                }
            }
        }
    }
}
