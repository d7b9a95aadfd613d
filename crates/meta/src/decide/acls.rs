//! Access rules: created, found and deleted (KIP-140, KIP-290).
//!
//! A rule that is there already is created once more without a record. A request that would change more rules than one may
//! ([`RECORDS_MAX`]) is refused as a whole.

use std::collections::BTreeSet;

use security::authorize::{Kind, Network, NoNetwork, Operation};
use wire::Uuid;
use wire::metadata::{AccessControlEntryRecord, RemoveAccessControlEntryRecord};

use super::{RECORDS_MAX, Uuids};
use crate::image::Image;
use crate::record::Record;
use crate::versions::MetadataVersion;

/// Numbers of the protocol that a filter may have and a rule may not.
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
    #[error("Host pattern cannot be null or empty")]
    NoHost,
    #[error("CIDR-based ACL host patterns require metadata version {NETWORKS_NAME} or higher.")]
    NoNetworksYet,
    #[error("Invalid CIDR notation '{host}': {why}")]
    Network { host: String, why: NoNetwork },
    #[error("Unable to perform excessively large batch operation.")]
    TooManyRules,
}

impl RuleError {
    /// True of what Kafka finds before the active controller looks at the rule.
    fn is_found_first(&self) -> bool {
        matches!(self, RuleError::Cluster | RuleError::NoName)
    }
}

/// The first level with rules about the hosts of a network (KIP-1276). The name is Kafka's.
const NETWORKS: MetadataVersion = MetadataVersion::V4_4_IV1;
const NETWORKS_NAME: &str = "4.4-IV1";

/// Rules that are created.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Creation {
    /// One for each that was not there.
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
    let asked: BTreeSet<Key<'_>> = rules.iter().map(key).collect();
    let existing = image.acls().map(key);
    let mut known: BTreeSet<Key<'_>> = existing.filter(|key| asked.contains(key)).collect();
    let version = image.metadata_version();
    let mut creation = Creation::default();
    for rule in rules {
        let answer = check(rule, version);
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
    if RECORDS_MAX < creation.records.len() {
        creation.records.clear();
        for answer in &mut creation.answers {
            if !answer.as_ref().is_err_and(RuleError::is_found_first) {
                *answer = Err(RuleError::TooManyRules);
            }
        }
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

/// The name of a number that no rule may have.
fn name_of(number: i8) -> &'static str {
    match number {
        ANY => "ANY",
        MATCH => "MATCH",
        _ => "UNKNOWN",
    }
}

/// In Kafka's order, which decides what a rule with several faults is told.
fn check(rule: &AccessControlEntryRecord, version: MetadataVersion) -> Result<(), RuleError> {
    if rule.resource_type == CLUSTER && rule.resource_name != CLUSTER_NAME {
        return Err(RuleError::Cluster);
    }
    if rule.resource_name.is_empty() {
        return Err(RuleError::NoName);
    }
    if Kind::numbered(rule.resource_type).is_none() {
        return Err(RuleError::Kind(name_of(rule.resource_type)));
    }
    if ![LITERAL, PREFIXED].contains(&rule.pattern_type) {
        return Err(RuleError::Pattern(name_of(rule.pattern_type)));
    }
    if Operation::numbered(rule.operation).is_none() {
        return Err(RuleError::Operation(name_of(rule.operation)));
    }
    if !PERMISSIONS.contains(&rule.permission_type) {
        return Err(RuleError::Permission(name_of(rule.permission_type)));
    }
    if !rule.principal.contains(':') {
        return Err(RuleError::Principal(rule.principal.clone()));
    }
    check_host(&rule.host, version)
}

fn check_host(host: &str, version: MetadataVersion) -> Result<(), RuleError> {
    if host.is_empty() {
        return Err(RuleError::NoHost);
    }
    if !host.contains('/') {
        return Ok(());
    }
    if version < NETWORKS {
        return Err(RuleError::NoNetworksYet);
    }
    let error = |why| RuleError::Network {
        host: host.to_owned(),
        why,
    };
    Network::parse(host).map(drop).map_err(error)
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

    /// Numbers that no version of the protocol knows are refused; those that mean any rule are not.
    fn check(&self) -> Result<(), FilterError> {
        let is_kind = self.kind == ANY || Kind::numbered(self.kind).is_some();
        if !is_kind || ![ANY, MATCH, LITERAL, PREFIXED].contains(&self.pattern) {
            return Err(FilterError::Pattern);
        }
        let is_operation = self.operation == ANY || Operation::numbered(self.operation).is_some();
        if !is_operation || !(self.permission == ANY || PERMISSIONS.contains(&self.permission)) {
            return Err(FilterError::Entry);
        }
        Ok(())
    }
}

/// The request names more rules than one may change ([`RECORDS_MAX`]).
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("Cannot remove more than {RECORDS_MAX} acls in a single delete operation.")]
pub struct TooManyRules;

/// Rules that are deleted.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Deletion {
    /// One for each.
    pub records: Vec<Record>,
    /// For each filter the rules that it meant. Several filters may mean the same one.
    pub answers: Vec<Result<Vec<AccessControlEntryRecord>, FilterError>>,
}

/// The rules that the filters mean.
pub fn delete_rules(image: &Image, filters: &[Filter]) -> Result<Deletion, TooManyRules> {
    let mut deletion = Deletion::default();
    let mut gone: BTreeSet<Uuid> = BTreeSet::new();
    for filter in filters {
        deletion.answers.push(match filter.check() {
            Ok(()) => Ok(matching(image, filter, &mut gone)?),
            Err(error) => Err(error),
        });
    }
    let records = gone.into_iter();
    deletion.records = records
        .map(|id| Record::from(RemoveAccessControlEntryRecord { id }))
        .collect();
    Ok(deletion)
}

/// Adds the rules that one filter means to those which are `gone`. Once these are as many as may be, Kafka lets no filter mean any
/// more, not even one of them.
fn matching(
    image: &Image,
    filter: &Filter,
    gone: &mut BTreeSet<Uuid>,
) -> Result<Vec<AccessControlEntryRecord>, TooManyRules> {
    let mut matching = Vec::new();
    for rule in image.acls().filter(|rule| filter.is_of(rule)) {
        if RECORDS_MAX <= gone.len() {
            return Err(TooManyRules);
        }
        gone.insert(rule.id);
        matching.push(rule.clone());
    }
    Ok(matching)
}

#[cfg(test)]
mod tests;
