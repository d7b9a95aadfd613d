//! Access rules: created, found and deleted (KIP-140, KIP-290).
//!
//! A rule that is there already is created once more without a record. A deletion that matches more rules than one request may change is
//! refused as a whole.

use std::collections::BTreeSet;

use wire::Uuid;
use wire::metadata::{AccessControlEntryRecord, RemoveAccessControlEntryRecord};

use super::{RECORDS_MAX, Uuids};
use crate::image::Image;
use crate::record::Record;

/// Numbers of the protocol that a filter may have and a rule may not.
const UNKNOWN: i8 = 0;
const ANY: i8 = 1;
/// Of a pattern: every rule that is about the name.
const MATCH: i8 = 2;
const LITERAL: i8 = 3;
const PREFIXED: i8 = 4;
const CLUSTER: i8 = 4;
const PERMISSIONS: [i8; 2] = [2, 3];
const CLUSTER_NAME: &str = "kafka-cluster";
const WILDCARD: &str = "*";

/// Why a rule is not created; the texts are those of Kafka.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum RuleError {
    #[error("The only valid name for the CLUSTER resource is kafka-cluster")]
    Cluster,
    #[error("Invalid empty resource name")]
    NoName,
    #[error("Invalid resourceType {0}")]
    Kind(&'static str),
    #[error("Invalid patternType {0}")]
    Pattern(&'static str),
    #[error("Invalid operation {0}")]
    Operation(&'static str),
    #[error("Invalid permissionType {0}")]
    Permission(&'static str),
    #[error(
        "Could not parse principal from `{0}` (no colon is present separating the principal type from the principal name)"
    )]
    Principal(String),
}

#[derive(Clone, Debug, Default, PartialEq)]
pub struct Creation {
    pub records: Vec<Record>,
    /// In the order of the request.
    pub answers: Vec<Result<(), RuleError>>,
}

/// The rules of a request, whose ids count for nothing.
#[must_use]
pub fn create_rules(
    image: &Image,
    rules: &[AccessControlEntryRecord],
    uuids: &mut dyn Uuids,
) -> Creation {
    let mut known: BTreeSet<Key<'_>> = image.acls().map(key).collect();
    let mut creation = Creation::default();
    for rule in rules {
        let answer = check(rule);
        if answer.is_ok() && known.insert(key(rule)) {
            creation
                .records
                .push(Record::from(AccessControlEntryRecord {
                    id: uuids.next(),
                    ..rule.clone()
                }));
        }
        creation.answers.push(answer);
    }
    creation
}

/// All of a rule but its id.
type Key<'a> = (i8, &'a str, i8, &'a str, &'a str, i8, i8);

fn key(rule: &AccessControlEntryRecord) -> Key<'_> {
    let (name, principal, host) = (&rule.resource_name, &rule.principal, &rule.host);
    let numbers = (rule.operation, rule.permission_type);
    (
        rule.resource_type,
        name,
        rule.pattern_type,
        principal,
        host,
        numbers.0,
        numbers.1,
    )
}

/// What a number that no rule may have is called.
fn name_of(number: i8) -> &'static str {
    match number {
        ANY => "ANY",
        MATCH => "MATCH",
        _ => "UNKNOWN",
    }
}

fn check(rule: &AccessControlEntryRecord) -> Result<(), RuleError> {
    if rule.resource_type == CLUSTER && rule.resource_name != CLUSTER_NAME {
        return Err(RuleError::Cluster);
    }
    if rule.resource_name.is_empty() {
        return Err(RuleError::NoName);
    }
    if security::authorize::Kind::numbered(rule.resource_type).is_none() {
        return Err(RuleError::Kind(name_of(rule.resource_type)));
    }
    if ![LITERAL, PREFIXED].contains(&rule.pattern_type) {
        return Err(RuleError::Pattern(name_of(rule.pattern_type)));
    }
    if security::authorize::Operation::numbered(rule.operation).is_none() {
        return Err(RuleError::Operation(name_of(rule.operation)));
    }
    if !PERMISSIONS.contains(&rule.permission_type) {
        return Err(RuleError::Permission(name_of(rule.permission_type)));
    }
    if !rule.principal.contains(':') {
        return Err(RuleError::Principal(rule.principal.clone()));
    }
    Ok(())
}

/// The rules that are meant: `None` and `ANY` are everything.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Filter {
    pub kind: i8,
    pub name: Option<String>,
    pub pattern: i8,
    pub principal: Option<String>,
    pub host: Option<String>,
    pub operation: i8,
    pub permission: i8,
}

/// A filter that names what no version of the protocol knows; the texts are those of Kafka.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum FilterError {
    #[error("Unknown patternFilter.")]
    Pattern,
    #[error("Unknown entryFilter.")]
    Entry,
}

impl Filter {
    /// True if the rule is one of those.
    #[must_use]
    pub fn is_of(&self, rule: &AccessControlEntryRecord) -> bool {
        let number = |asked: i8, own: i8| asked == ANY || asked == own;
        let text =
            |asked: &Option<String>, own: &String| asked.as_ref().is_none_or(|asked| asked == own);
        number(self.kind, rule.resource_type)
            && self.names(rule)
            && text(&self.principal, &rule.principal)
            && text(&self.host, &rule.host)
            && number(self.operation, rule.operation)
            && number(self.permission, rule.permission_type)
    }

    fn names(&self, rule: &AccessControlEntryRecord) -> bool {
        let is_pattern = [ANY, MATCH, rule.pattern_type].contains(&self.pattern);
        let Some(name) = self.name.as_ref().filter(|_| is_pattern) else {
            return is_pattern;
        };
        let own = &rule.resource_name;
        match (self.pattern, rule.pattern_type) {
            (MATCH, LITERAL) => own == name || own == WILDCARD,
            (MATCH, _) => name.starts_with(own.as_str()),
            _ => own == name,
        }
    }

    fn check(&self) -> Result<(), FilterError> {
        if [self.kind, self.pattern].contains(&UNKNOWN) {
            return Err(FilterError::Pattern);
        }
        if [self.operation, self.permission].contains(&UNKNOWN) {
            return Err(FilterError::Entry);
        }
        Ok(())
    }
}

/// The request would change more at once than may be ([`RECORDS_MAX`]).
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("Cannot remove more than {RECORDS_MAX} acls in a single delete operation.")]
pub struct TooManyRules;

#[derive(Clone, Debug, Default, PartialEq)]
pub struct Deletion {
    pub records: Vec<Record>,
    /// For each filter the rules that it meant. Several filters may mean the same one.
    pub answers: Vec<Result<Vec<AccessControlEntryRecord>, FilterError>>,
}

pub fn delete_rules(image: &Image, filters: &[Filter]) -> Result<Deletion, TooManyRules> {
    let mut deletion = Deletion::default();
    let mut gone: BTreeSet<Uuid> = BTreeSet::new();
    for filter in filters {
        let answer = filter.check().map(|()| {
            let matching = image.acls().filter(|rule| filter.is_of(rule));
            let matching: Vec<AccessControlEntryRecord> = matching.cloned().collect();
            gone.extend(matching.iter().map(|rule| rule.id));
            matching
        });
        if RECORDS_MAX < gone.len() {
            return Err(TooManyRules);
        }
        deletion.answers.push(answer);
    }
    let records = gone.into_iter();
    deletion.records = records
        .map(|id| Record::from(RemoveAccessControlEntryRecord { id }))
        .collect();
    Ok(deletion)
}

#[cfg(test)]
mod tests {
    use super::*;

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
        let place = crate::image::Place {
            base: model::Offset(0),
            epoch: model::LeaderEpoch(1),
            time: model::Timestamp(0),
        };
        let replayed = image.replay(place, &records);
        replayed.expect("a rule is always taken");
        image
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
            Ok(()),
        ];
        assert_eq!(creation.answers, expected);
        assert_eq!(creation.records.len(), 1);
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
        let unknown = Filter {
            operation: UNKNOWN,
            ..any()
        };
        let deletion = delete_rules(&image, &[any(), named, unknown]).expect("few");
        assert_eq!(deletion.records.len(), 2);
        let counts: Vec<_> = deletion
            .answers
            .iter()
            .map(|answer| answer.as_ref().map(Vec::len))
            .collect();
        assert_eq!(counts, [Ok(2), Ok(1), Err(&FilterError::Entry)]);
    }
}
