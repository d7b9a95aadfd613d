//! The index of rules, by cases and against a plain list.

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
    let places = [(Literal, "pay.eu"), (Prefixed, "pay"), (Literal, "*")];
    let everybody = |rule: Rule| Rule {
        principal: "User:*".to_owned(),
        ..rule
    };
    for allows in places {
        for denies in places {
            let (allow, deny) = (rule(Allow, All, allows), rule(Deny, Write, denies));
            for all in [
                [allow.clone(), deny.clone()],
                [deny.clone(), allow.clone()],
                [everybody(allow.clone()), deny.clone()],
                [allow.clone(), everybody(deny.clone())],
            ] {
                let rules = rules(&all);
                assert!(!may(&rules, Write, "pay.eu"), "{all:?}");
                assert!(may(&rules, Read, "pay.eu"), "{all:?}");
            }
        }
    }
    let rules = rules(&[
        rule(Allow, All, (Literal, "*")),
        rule(Deny, Write, (Prefixed, "pay")),
    ]);
    assert!(may(&rules, Write, "orders") && may(&rules, Read, "payments"));
    assert!(!may(&rules, Write, "payments"));
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

/// Some rules, of which some are removed again.
#[derive(Clone, Debug)]
struct Case {
    all: Vec<Rule>,
    gone: Vec<Rule>,
    name: &'static str,
    asked: Operation,
    allows_if_no_rule: bool,
}

fn any_case() -> impl Strategy<Value = Case> {
    let all = prop::collection::vec(any_rule(), 0..12);
    let gone = prop::collection::vec(any_rule(), 0..4);
    let names = vec!["a", "ab", "abcd", "b", "üx", "*", "hardcode", "c"];
    let name = prop::sample::select(names);
    let asked = prop::sample::select(Operation::EVERY[1..].to_vec());
    let parts = (all, gone, name, asked, any::<bool>());
    parts.prop_map(|(all, gone, name, asked, allows_if_no_rule)| Case {
        all,
        gone,
        name,
        asked,
        allows_if_no_rule,
    })
}

/// The index, memory and explanation against a plain list.
fn check(case: Case) -> Result<(), TestCaseError> {
    let Case {
        mut all,
        gone,
        name,
        asked,
        allows_if_no_rule,
    } = case;
    let mut rules = Rules::new(BTreeSet::new(), allows_if_no_rule);
    all.iter().for_each(|rule| rules.add(rule.clone()));
    // Some of those that are there, and some that are not.
    for rule in gone.iter().chain(all.clone().iter().take(2)) {
        rules.remove(rule);
        all.retain(|known| known != rule);
    }
    for principal in ["alice", "bob", "carol"].map(Principal::user) {
        for host in [HERE, THERE] {
            let mut remembered = Remembered::default();
            for kind in [Kind::Topic, Kind::Group, Kind::Cluster] {
                let (who, resource) = ((&principal, host), (kind, name));
                let decided = rules.decide(who, asked, resource);
                let expected = plainly(&all, who, asked, resource);
                let is_allowed = expected.unwrap_or(allows_if_no_rule);
                prop_assert_eq!(decided.is_allowed, is_allowed);
                prop_assert_eq!(decided.why == Why::NoRule, expected.is_none());
                for operation in Operation::EVERY {
                    let decided = rules.decide(who, operation, resource).is_allowed;
                    prop_assert_eq!(rules.allowed(who, resource).has(operation), decided);
                    for _ in 0..2 {
                        let may = remembered.allows((&rules, 1), who, operation, resource);
                        prop_assert_eq!(may, decided);
                    }
                }
                explained(&all, &rules, who, asked, resource)?;
            }
        }
    }
    Ok(())
}

/// Each rule that names the resource is told of, and the change turns the answer.
fn explained(
    all: &[Rule],
    rules: &Rules,
    who: (&Principal, IpAddr),
    asked: Operation,
    (kind, name): (Kind, &str),
) -> Result<(), TestCaseError> {
    let explained = rules.explain(who, asked, (kind, name));
    let is_allowed = explained.verdict.is_allowed;
    let mut told: Vec<&Rule> = explained.lost.iter().map(|(rule, _)| *rule).collect();
    if let Why::Rule(rule) = explained.verdict.why {
        told.push(rule);
    }
    let names = |rule: &&Rule| match rule.pattern {
        Literal => rule.name == name || rule.name == "*",
        Prefixed => name.starts_with(&rule.name),
    };
    let naming = all.iter().filter(|rule| rule.kind == kind).filter(names);
    let (told, naming): (BTreeSet<&Rule>, BTreeSet<&Rule>) =
        (told.into_iter().collect(), naming.collect());
    prop_assert_eq!(told, naming);
    let Change::Rules { remove, add } = explained.change else {
        return Err(TestCaseError::fail("a user is changed by rules"));
    };
    prop_assert!(!remove.is_empty() || add.is_some());
    let mut after = rules.clone();
    remove.iter().for_each(|rule| after.remove(rule));
    add.into_iter().for_each(|rule| after.add(rule));
    prop_assert_ne!(
        after.decide(who, asked, (kind, name)).is_allowed,
        is_allowed
    );
    Ok(())
}

fn run(cases: u32) {
    let config = ProptestConfig::with_cases(cases);
    let mut runner = proptest::test_runner::TestRunner::new(config);
    let ran = runner.run(&any_case(), check);
    ran.unwrap_or_else(|why| panic!("{why}"));
}

#[test]
fn the_index_decides_as_a_plain_list_does() {
    run(1_000);
}

/// Picks from short lists, always the same: many cases in little time, which proptest's generators do not give.
struct Picker(u64);

impl Picker {
    fn next(&mut self, bound: usize) -> usize {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        usize::try_from((mixed ^ (mixed >> 31)) >> 33).expect("31 bits") % bound
    }

    fn of<T: Copy>(&mut self, all: &[T]) -> T {
        all[self.next(all.len())]
    }

    fn rule(&mut self) -> Rule {
        Rule {
            kind: self.of(&[Kind::Topic, Kind::Group, Kind::Cluster]),
            name: self.of(&["*", "a", "ab", "abc", "b", "ü"]).to_owned(),
            pattern: self.of(&[Literal, Prefixed]),
            principal: self.of(&["User:*", "User:alice", "User:bob"]).to_owned(),
            host: self.of(&["*", "10.0.0.1", "10.0.0.2"]).to_owned(),
            operation: self.of(&Operation::EVERY),
            permission: self.of(&[Allow, Allow, Deny]),
        }
    }
}

/// 2,000 sets of up to 31 rules, 50 questions to each.
#[test]
fn a_hundred_thousand_questions_are_answered_as_by_a_plain_list() {
    let mut pick = Picker(1);
    let mut answers = [0_u32; 3];
    for _ in 0..2_000 {
        let count = pick.next(32);
        let mut all: Vec<Rule> = (0..count).map(|_| pick.rule()).collect();
        let mut index = rules(&all);
        // A rule that is written twice is one, and goes at once.
        if let Some(gone) = all.first().cloned() {
            index.remove(&gone);
            all.retain(|rule| *rule != gone);
        }
        for _ in 0..50 {
            let principal = Principal::user(pick.of(&["alice", "bob", "carol"]));
            let who = (&principal, pick.of(&[HERE, THERE]));
            let asked = pick.of(&Operation::EVERY[1..]);
            let kind = pick.of(&[Kind::Topic, Kind::Group, Kind::Cluster]);
            let resource = (kind, pick.of(&["a", "ab", "abcd", "b", "üx", "c"]));
            let expected = plainly(&all, who, asked, resource);
            let decided = index.decide(who, asked, resource);
            assert_eq!(
                (decided.is_allowed, decided.why == Why::NoRule),
                (expected.unwrap_or(false), expected.is_none()),
                "{principal} {who:?} asks for {asked:?} of {resource:?} under {all:?}"
            );
            answers[expected.map_or(0, |is_allowed| 1 + usize::from(is_allowed))] += 1;
        }
    }
    assert_eq!(answers.iter().sum::<u32>(), 100_000);
    assert!(answers.iter().all(|count| *count > 4_000), "{answers:?}");
}

#[test]
fn rules_of_nobody_are_told_of_with_their_grounds() {
    let alice = Principal::user("alice");
    let boss = Principal::user("boss");
    let rules_of = |all: &[Rule]| {
        let mut rules = Rules::new(BTreeSet::from([boss.clone()]), false);
        all.iter().for_each(|rule| rules.add(rule.clone()));
        rules
    };
    let allow = rule(Allow, Write, (Prefixed, "or"));
    let deny = rule(Deny, All, (Literal, "orders"));
    let of_bob = Rule {
        principal: "User:bob".to_owned(),
        ..rule(Allow, Write, (Literal, "*"))
    };
    let there = Rule {
        host: THERE.to_string(),
        ..rule(Deny, Write, (Literal, "*"))
    };
    let reading = rule(Allow, Read, (Literal, "orders"));
    let rules = rules_of(&[
        allow.clone(),
        deny.clone(),
        of_bob.clone(),
        there.clone(),
        reading.clone(),
    ]);
    let topic = (Kind::Topic, "orders");
    let told = rules.explain((&alice, HERE), Write, topic);
    assert_eq!(told.verdict.why, Why::Rule(&deny));
    let lost = [
        (&allow, Lost::Overruled),
        (&reading, Lost::Operation),
        (&there, Lost::Host),
        (&of_bob, Lost::Principal),
    ];
    assert_eq!(told.lost, lost);
    let remove = vec![deny.clone()];
    assert_eq!(told.change, Change::Rules { remove, add: None });

    let told = rules.explain((&boss, HERE), Write, topic);
    assert_eq!(told.change, Change::NoSuperUser);
    assert!(told.lost.iter().all(|(_, lost)| *lost == Lost::Principal));
    let node = Principal::node(1);
    assert_eq!(
        rules.explain((&node, HERE), Write, topic).change,
        Change::None
    );

    // A rule where there is none, for those whom nothing allows.
    let rules = rules_of(&[]);
    let add = Some(rule(Allow, Write, (Literal, "orders")));
    let remove = Vec::new();
    let told = rules.explain((&alice, HERE), Write, topic);
    assert_eq!(told.change, Change::Rules { remove, add });
}

#[test]
fn a_rule_that_names_a_node_is_for_nobody() {
    let of_node = Rule {
        principal: "Node:1".to_owned(),
        ..rule(Allow, All, (Literal, "*"))
    };
    let rules = rules(&[of_node]);
    let node = Principal::node(1);
    let decided = rules.decide((&node, HERE), Read, (Kind::Topic, "t"));
    assert!(!decided.is_allowed);
    assert!(!rules.allows_any((&node, HERE), Read, Kind::Topic));
}

#[test]
fn what_is_denied_to_one_of_many_is_denied_to_that_one() {
    let mut all: Vec<Rule> = (0..100)
        .map(|number| Rule {
            principal: format!("User:{number}"),
            ..rule(Allow, Read, (Literal, "t"))
        })
        .collect();
    all.push(Rule {
        principal: "User:*".to_owned(),
        ..rule(Allow, Write, (Literal, "t"))
    });
    all.push(Rule {
        principal: "User:7".to_owned(),
        ..rule(Deny, Write, (Literal, "t"))
    });
    let rules = rules(&all);
    for (name, read, write) in [("6", true, true), ("7", true, false), ("100", false, true)] {
        let user = Principal::user(name);
        let allowed = rules.allowed((&user, HERE), (Kind::Topic, "t"));
        assert_eq!(
            (allowed.has(Read), allowed.has(Write)),
            (read, write),
            "{name}"
        );
    }
}
