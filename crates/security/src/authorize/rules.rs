//! The rules of a cluster, found by the names that they are about.
//!
//! A question looks up one hash for the name, one for `*`, and one for each length that any prefix of the kind has: its cost depends on what
//! names the resource, not on how many rules there are.

use std::collections::{BTreeSet, HashMap};
use std::net::IpAddr;

use super::{Kind, Operation, Pattern, Permission, Rule};
use crate::principal::Principal;

/// Any name, any host, and with a type in front any principal.
const ANY: &str = "*";
const ANY_USER: &str = "User:*";
/// The name that Kafka asks about first where any topic would do.
const PROBE: &str = "hardcode";

/// A rule without what it is found by.
#[derive(Clone, Debug)]
struct Entry {
    rule: Rule,
    host: Host,
    is_for_all: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Host {
    Any,
    /// Compared as an address: `::1` has several spellings (D1).
    One(IpAddr),
    /// No address: it matches nobody, and yet names the resource.
    Nobody,
}

#[derive(Clone, Debug, Default)]
struct OfKind {
    literal: HashMap<Box<str>, Vec<Entry>>,
    prefixed: HashMap<Box<str>, Vec<Entry>>,
    /// Lengths in bytes that prefixes have, each with their number.
    lengths: std::collections::BTreeMap<usize, usize>,
}

/// All rules, and who is above them.
#[derive(Clone, Debug, Default)]
pub struct Rules {
    kinds: [OfKind; Kind::EVERY.len()],
    super_users: BTreeSet<Principal>,
    allows_if_no_rule: bool,
}

/// The answer to one question.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Verdict<'a> {
    pub is_allowed: bool,
    pub why: Why<'a>,
}

/// What decided.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Why<'a> {
    SuperUser,
    /// This rule.
    Rule(&'a Rule),
    /// Rules name the resource, and none of them allows it.
    NoneAllows,
    /// No rule names the resource: `allow.everyone.if.no.acl.found` decides.
    NoRule,
}

impl Rules {
    #[must_use]
    pub fn new(super_users: BTreeSet<Principal>, allows_if_no_rule: bool) -> Rules {
        Rules {
            super_users,
            allows_if_no_rule,
            ..Rules::default()
        }
    }

    #[must_use]
    pub fn is_super_user(&self, principal: &Principal) -> bool {
        self.super_users.contains(principal)
    }

    pub fn add(&mut self, rule: Rule) {
        let host = match &*rule.host {
            ANY => Host::Any,
            address => address
                .parse()
                .map_or(Host::Nobody, |ip: IpAddr| Host::One(ip.to_canonical())),
        };
        let kind = self.kind_mut(rule.kind);
        let name: Box<str> = rule.name.as_str().into();
        let entry = Entry {
            is_for_all: rule.principal == ANY_USER,
            host,
            rule,
        };
        let entries = match entry.rule.pattern {
            Pattern::Literal => kind.literal.entry(name).or_default(),
            Pattern::Prefixed => {
                let entries = kind.prefixed.entry(name).or_default();
                if entries.is_empty() {
                    *kind.lengths.entry(entry.rule.name.len()).or_default() += 1;
                }
                entries
            }
        };
        if entries.iter().all(|known| known.rule != entry.rule) {
            entries.push(entry);
        }
    }

    pub fn remove(&mut self, rule: &Rule) {
        let kind = self.kind_mut(rule.kind);
        let entries = match rule.pattern {
            Pattern::Literal => &mut kind.literal,
            Pattern::Prefixed => &mut kind.prefixed,
        };
        let Some(of_name) = entries.get_mut(&*rule.name) else {
            return;
        };
        of_name.retain(|entry| entry.rule != *rule);
        if !of_name.is_empty() {
            return;
        }
        entries.remove(&*rule.name);
        if rule.pattern == Pattern::Prefixed
            && let Some(count) = kind.lengths.get_mut(&rule.name.len())
        {
            *count -= 1;
            if *count == 0 {
                kind.lengths.remove(&rule.name.len());
            }
        }
    }

    /// True if `principal`, who comes from `host`, may do this to the resource, and why.
    #[must_use]
    pub fn decide(
        &self,
        (principal, host): (&Principal, IpAddr),
        operation: Operation,
        (kind, name): (Kind, &str),
    ) -> Verdict<'_> {
        if self.is_super_user(principal) {
            return Verdict {
                is_allowed: true,
                why: Why::SuperUser,
            };
        }
        let host = host.to_canonical();
        let (mut allowed, mut is_named) = (None, false);
        for entry in self.naming(kind, name) {
            is_named = true;
            if !entry.is_of(principal, host) || !entry.covers(operation) {
                continue;
            }
            match entry.rule.permission {
                Permission::Deny => {
                    return Verdict {
                        is_allowed: false,
                        why: Why::Rule(&entry.rule),
                    };
                }
                Permission::Allow => allowed = allowed.or(Some(&entry.rule)),
            }
        }
        match allowed {
            Some(rule) => Verdict {
                is_allowed: true,
                why: Why::Rule(rule),
            },
            None if is_named => Verdict {
                is_allowed: false,
                why: Why::NoneAllows,
            },
            None => Verdict {
                is_allowed: self.allows_if_no_rule,
                why: Why::NoRule,
            },
        }
    }

    /// True if there is any resource of the kind that this may be done to.
    #[must_use]
    pub fn allows_any(&self, who: (&Principal, IpAddr), operation: Operation, kind: Kind) -> bool {
        if self.decide(who, operation, (kind, PROBE)).is_allowed {
            return true;
        }
        let (principal, host) = (who.0, who.1.to_canonical());
        let of = self.kind(kind);
        let is_about = |entry: &&Entry| {
            let rule = &entry.rule;
            entry.is_of(principal, host)
                && (rule.operation == operation || rule.operation == Operation::All)
        };
        let all = || {
            of.literal
                .values()
                .chain(of.prefixed.values())
                .flatten()
                .filter(is_about)
        };
        let denies = |name: &str, pattern| {
            let is_such = |entry: &Entry| {
                let rule = &entry.rule;
                rule.permission == Permission::Deny && rule.pattern == pattern
            };
            let entries = match pattern {
                Pattern::Literal => of.literal.get(name),
                Pattern::Prefixed => of.prefixed.get(name),
            };
            entries.is_some_and(|entries| entries.iter().filter(is_about).any(is_such))
        };
        if denies(ANY, Pattern::Literal) {
            return false;
        }
        let is_dominated = |rule: &Rule| {
            let is_literal = rule.pattern == Pattern::Literal;
            let is_prefix_denied = |length: &usize| {
                let prefix = rule.name.get(..*length);
                prefix.is_some_and(|prefix| denies(prefix, Pattern::Prefixed))
            };
            (is_literal && denies(&rule.name, Pattern::Literal))
                || (of.lengths.keys().any(is_prefix_denied))
        };
        all().any(|entry| {
            let rule = &entry.rule;
            let is_any = rule.pattern == Pattern::Literal && rule.name == ANY;
            rule.permission == Permission::Allow && (is_any || !is_dominated(rule))
        })
    }

    /// The rules that name a resource.
    fn naming<'a, 'n>(
        &'a self,
        kind: Kind,
        name: &'n str,
    ) -> impl Iterator<Item = &'a Entry> + use<'a, 'n> {
        let of = self.kind(kind);
        let lengths = of.lengths.range(..=name.len()).map(|(length, _)| *length);
        let prefixed = lengths.filter_map(move |length| of.prefixed.get(name.get(..length)?));
        let literal = of.literal.get(name).into_iter();
        let any = of.literal.get(ANY).filter(|_| name != ANY).into_iter();
        literal.chain(prefixed).chain(any).flatten()
    }

    fn kind(&self, kind: Kind) -> &OfKind {
        &self.kinds[kind as usize - Kind::Topic as usize]
    }

    fn kind_mut(&mut self, kind: Kind) -> &mut OfKind {
        &mut self.kinds[kind as usize - Kind::Topic as usize]
    }
}

impl Entry {
    fn is_of(&self, principal: &Principal, host: IpAddr) -> bool {
        let is_host = match self.host {
            Host::Any => true,
            Host::One(address) => address == host,
            Host::Nobody => false,
        };
        is_host && ((self.is_for_all && !principal.is_node()) || principal.is(&self.rule.principal))
    }

    fn covers(&self, asked: Operation) -> bool {
        let own = self.rule.operation;
        let implies = self.rule.permission == Permission::Allow && own.implies(asked);
        own == Operation::All || own == asked || implies
    }
}
