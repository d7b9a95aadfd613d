//! Rules of who may do what: created, listed, deleted.

use security::authorize::{Kind, Operation, Pattern, Permission, Rule};
use wire::messages::create_acls_request::AclCreation;
use wire::messages::delete_acls_request::DeleteAclsFilter;
use wire::messages::{CreateAclsRequest, DeleteAclsRequest, DescribeAclsRequest};

use crate::cluster::Client;
use crate::error::Error;

/// Numbers of the protocol.
const ANY: i8 = 1;
const MATCH: i8 = 2;
const LITERAL: i8 = 3;
const PREFIXED: i8 = 4;
const DENY: i8 = 2;
const ALLOW: i8 = 3;

/// How a filter compares the name that it has with that of a rule.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum PatternFilter {
    /// The same name, of rules of either pattern.
    #[default]
    Any,
    /// Every rule that is about a resource of this name.
    Match,
    /// The same name, of rules of this pattern alone.
    Only(Pattern),
}

/// The rules that are meant: what is `None` may be anything.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RuleFilter {
    /// The kind of the resource.
    pub kind: Option<Kind>,
    /// The name of the resource.
    pub name: Option<String>,
    /// The comparison of the name.
    pub pattern: PatternFilter,
    /// As a rule writes it.
    pub principal: Option<String>,
    /// As a rule writes it.
    pub host: Option<String>,
    /// That of the rule itself, and not what it implies.
    pub operation: Option<Operation>,
    /// Whether it allows or denies.
    pub permission: Option<Permission>,
}

impl RuleFilter {
    /// The rule itself.
    #[must_use]
    pub fn of(rule: &Rule) -> RuleFilter {
        RuleFilter {
            kind: Some(rule.kind),
            name: Some(rule.name.clone()),
            pattern: PatternFilter::Only(rule.pattern),
            principal: Some(rule.principal.clone()),
            host: Some(rule.host.clone()),
            operation: Some(rule.operation),
            permission: Some(rule.permission),
        }
    }

    fn numbers(&self) -> Numbers {
        Numbers {
            kind: self.kind.map_or(ANY, |kind| kind as i8),
            pattern: match self.pattern {
                PatternFilter::Any => ANY,
                PatternFilter::Match => MATCH,
                PatternFilter::Only(pattern) => pattern_number(pattern),
            },
            operation: self.operation.map_or(ANY, |operation| operation as i8),
            permission: self.permission.map_or(ANY, permission_number),
        }
    }
}

/// A filter or a rule in numbers of the protocol.
struct Numbers {
    kind: i8,
    pattern: i8,
    operation: i8,
    permission: i8,
}

impl Numbers {
    /// The rule of an answer; `None` of one with a number that only later versions know.
    fn rule(&self, name: &str, principal: &str, host: &str) -> Option<Rule> {
        Some(Rule {
            kind: Kind::numbered(self.kind)?,
            name: name.to_owned(),
            pattern: match self.pattern {
                LITERAL => Pattern::Literal,
                PREFIXED => Pattern::Prefixed,
                _ => return None,
            },
            principal: principal.to_owned(),
            host: host.to_owned(),
            operation: Operation::numbered(self.operation)?,
            permission: match self.permission {
                DENY => Permission::Deny,
                ALLOW => Permission::Allow,
                _ => return None,
            },
        })
    }
}

fn pattern_number(pattern: Pattern) -> i8 {
    match pattern {
        Pattern::Literal => LITERAL,
        Pattern::Prefixed => PREFIXED,
    }
}

fn permission_number(permission: Permission) -> i8 {
    match permission {
        Permission::Deny => DENY,
        Permission::Allow => ALLOW,
    }
}

fn creation(rule: &Rule) -> AclCreation {
    AclCreation {
        resource_type: rule.kind as i8,
        resource_name: rule.name.clone(),
        resource_pattern_type: pattern_number(rule.pattern),
        principal: rule.principal.clone(),
        host: rule.host.clone(),
        operation: rule.operation as i8,
        permission_type: permission_number(rule.permission),
    }
}

impl Client {
    /// Creates rules; those that exist stay as they are. The error is that of the first which is refused: others may be there then.
    pub fn create_rules(&mut self, rules: &[Rule]) -> Result<(), Error> {
        self.retry("creating rules", |client| {
            let request = CreateAclsRequest {
                creations: rules.iter().map(creation).collect(),
            };
            let response = client.call_controller(&request)?;
            for (rule, answer) in rules.iter().zip(&response.results) {
                Error::check(
                    answer.error_code,
                    || format!("creating a rule for {} on {}", rule.principal, rule.name),
                    answer.error_message.as_deref(),
                )?;
            }
            Ok(())
        })
    }

    /// The rules that a filter means, in the order of their resources.
    pub fn describe_rules(&mut self, filter: &RuleFilter) -> Result<Vec<Rule>, Error> {
        let what = "listing rules";
        self.retry(what, |client| {
            let numbers = filter.numbers();
            let response = client.call_any(&DescribeAclsRequest {
                resource_type_filter: numbers.kind,
                resource_name_filter: filter.name.clone(),
                pattern_type_filter: numbers.pattern,
                principal_filter: filter.principal.clone(),
                host_filter: filter.host.clone(),
                operation: numbers.operation,
                permission_type: numbers.permission,
            })?;
            let message = response.error_message.as_deref();
            Error::check(response.error_code, || what.to_owned(), message)?;
            let mut rules = Vec::new();
            for resource in &response.resources {
                rules.extend(resource.acls.iter().filter_map(|entry| {
                    let numbers = Numbers {
                        kind: resource.resource_type,
                        pattern: resource.pattern_type,
                        operation: entry.operation,
                        permission: entry.permission_type,
                    };
                    numbers.rule(&resource.resource_name, &entry.principal, &entry.host)
                }));
            }
            rules.sort();
            Ok(rules)
        })
    }

    /// Deletes the rules that a filter means; those that went.
    pub fn delete_rules(&mut self, filter: &RuleFilter) -> Result<Vec<Rule>, Error> {
        let what = "deleting rules";
        self.retry(what, |client| {
            let numbers = filter.numbers();
            let filter = DeleteAclsFilter {
                resource_type_filter: numbers.kind,
                resource_name_filter: filter.name.clone(),
                pattern_type_filter: numbers.pattern,
                principal_filter: filter.principal.clone(),
                host_filter: filter.host.clone(),
                operation: numbers.operation,
                permission_type: numbers.permission,
            };
            let request = DeleteAclsRequest {
                filters: vec![filter],
            };
            let response = client.call_controller(&request)?;
            let mut rules = Vec::new();
            for answer in &response.filter_results {
                let message = answer.error_message.as_deref();
                Error::check(answer.error_code, || what.to_owned(), message)?;
                for one in &answer.matching_acls {
                    let message = one.error_message.as_deref();
                    Error::check(one.error_code, || what.to_owned(), message)?;
                    let numbers = Numbers {
                        kind: one.resource_type,
                        pattern: one.pattern_type,
                        operation: one.operation,
                        permission: one.permission_type,
                    };
                    rules.extend(numbers.rule(&one.resource_name, &one.principal, &one.host));
                }
            }
            rules.sort();
            Ok(rules)
        })
    }
}
