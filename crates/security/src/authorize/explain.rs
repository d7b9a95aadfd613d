//! Why somebody may or may not: the rule that decided, those that lost, and the nearest change that would turn it.

use std::net::IpAddr;

use super::rules::Entry;
use super::{Kind, Operation, Pattern, Permission, Rule, Rules, Verdict, Why};
use crate::principal::Principal;

/// The answer to one question, with its grounds.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Explanation<'a> {
    pub verdict: Verdict<'a>,
    /// The other rules that name the resource, in their order.
    pub lost: Vec<(&'a Rule, Lost)>,
    pub change: Change,
}

/// Why a rule did not decide.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, thiserror::Error)]
pub enum Lost {
    #[error("it says the same as the rule that decided")]
    Same,
    #[error("it allows, and a rule that denies wins")]
    Overruled,
    #[error("super users are above rules")]
    Above,
    #[error("it is about another operation")]
    Operation,
    #[error("it is for another host")]
    Host,
    #[error("it is for another principal")]
    Principal,
}

/// The smallest change after which the answer is the other one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Change {
    /// First the rules to remove, then the one to add.
    Rules {
        remove: Vec<Rule>,
        add: Option<Rule>,
    },
    /// The principal would have to leave `super.users`.
    NoSuperUser,
    /// No rule is for nodes.
    None,
}

impl Rules {
    /// Explains [`Rules::decide`]. Looks at all rules that name the resource, whoever they are for: for people, not for requests.
    #[must_use]
    pub fn explain(
        &self,
        who: (&Principal, IpAddr),
        operation: Operation,
        (kind, name): (Kind, &str),
    ) -> Explanation<'_> {
        let verdict = self.decide(who, operation, (kind, name));
        let (principal, host) = (who.0, who.1.to_canonical());
        let mut lost: Vec<(&Rule, Lost)> = self
            .all_naming(kind, name)
            .filter(|entry| verdict.why != Why::Rule(&entry.rule))
            .map(|entry| {
                (
                    &entry.rule,
                    lost(entry, &verdict, (principal, host), operation),
                )
            })
            .collect();
        lost.sort_by_key(|(rule, lost)| (*lost, *rule));
        let change = self.change(&verdict, who, operation, (kind, name));
        Explanation {
            verdict,
            lost,
            change,
        }
    }

    fn change(
        &self,
        verdict: &Verdict<'_>,
        who: (&Principal, IpAddr),
        operation: Operation,
        (kind, name): (Kind, &str),
    ) -> Change {
        let (principal, host) = (who.0, who.1.to_canonical());
        if verdict.why == Why::SuperUser {
            return Change::NoSuperUser;
        }
        let Some(text) = principal.text().filter(|_| !principal.is_node()) else {
            return Change::None;
        };
        let rule = |permission| Rule {
            kind,
            name: name.to_owned(),
            pattern: Pattern::Literal,
            principal: text.to_owned(),
            host: "*".to_owned(),
            operation,
            permission,
        };
        // The rules that decide now: all denials, or all that allow.
        let decides = |entry: &&Entry| {
            let is_of_verdict = match verdict.why {
                Why::Rule(decided) => entry.rule.permission == decided.permission,
                _ => false,
            };
            is_of_verdict && entry.is_for(principal) && entry.is_at(host) && entry.covers(operation)
        };
        let deciding: Vec<Rule> = self
            .all_naming(kind, name)
            .filter(decides)
            .map(|entry| entry.rule.clone())
            .collect();
        if verdict.is_allowed && deciding.len() != 1 {
            let add = Some(rule(Permission::Deny));
            return Change::Rules {
                remove: Vec::new(),
                add,
            };
        }
        // Without those another rule decides, or the default.
        let mut rest = self.clone();
        deciding.iter().for_each(|rule| rest.remove(rule));
        let is_turned = rest.decide(who, operation, (kind, name)).is_allowed != verdict.is_allowed;
        if is_turned {
            return Change::Rules {
                remove: deciding,
                add: None,
            };
        }
        let (remove, add) = if verdict.is_allowed {
            (Vec::new(), rule(Permission::Deny))
        } else {
            (deciding, rule(Permission::Allow))
        };
        let add = Some(add);
        Change::Rules { remove, add }
    }
}

fn lost(
    entry: &Entry,
    verdict: &Verdict<'_>,
    (principal, host): (&Principal, IpAddr),
    operation: Operation,
) -> Lost {
    if !entry.is_for(principal) {
        Lost::Principal
    } else if !entry.is_at(host) {
        Lost::Host
    } else if !entry.covers(operation) {
        Lost::Operation
    } else if verdict.why == Why::SuperUser {
        Lost::Above
    } else if entry.rule.permission == Permission::Allow && !verdict.is_allowed {
        Lost::Overruled
    } else {
        Lost::Same
    }
}
