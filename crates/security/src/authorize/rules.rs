//! The rules of a cluster, found by the names that they are about.
//!
//! A question looks up one hash for the name, one for `*`, and one for each length that any prefix of the kind has, and below each of them
//! the rules for everybody and those for who asks: its cost depends on what names the resource, not on how many rules there are. One look
//! answers for all operations.

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;

use super::hash::Map;
use super::{Kind, Operation, Operations, Pattern, Permission, Rule};
use crate::principal::Principal;

/// Any name, any host, and with a type in front any principal.
const ANY: &str = "*";
const ANY_USER: &str = "User:*";
/// The name that Kafka asks about first where any topic would do.
const PROBE: &str = "hardcode";

/// A rule, read.
#[derive(Clone, Debug)]
pub(super) struct Entry {
    pub(super) rule: Rule,
    host: Host,
    /// What it allows or denies.
    covers: Operations,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Host {
    Any,
    /// Compared as an address: `::1` has several spellings (D1).
    One(IpAddr),
    /// No address: it matches nobody, and yet names the resource.
    Nobody,
}

/// The rules about one name; there is at least one.
#[derive(Clone, Debug, Default)]
struct OfName {
    /// For `User:*`.
    everybody: Vec<Entry>,
    /// By the text of the principal.
    own: Map<Vec<Entry>>,
}

#[derive(Clone, Debug, Default)]
struct OfKind {
    literal: Map<OfName>,
    prefixed: Map<OfName>,
    /// Lengths in bytes that prefixes have, ascending, each with the number of names that have it.
    lengths: BTreeMap<usize, usize>,
    /// The same without the numbers, for the one who asks.
    ladder: Vec<usize>,
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
        let kind = self.kind_mut(rule.kind);
        let name: Box<str> = rule.name.as_str().into();
        let of_name = match rule.pattern {
            Pattern::Literal => kind.literal.entry(name).or_default(),
            Pattern::Prefixed => {
                let length = name.len();
                let of_name = kind.prefixed.entry(name).or_default();
                if of_name.is_empty() {
                    *kind.lengths.entry(length).or_default() += 1;
                    kind.ladder = kind.lengths.keys().copied().collect();
                }
                of_name
            }
        };
        let entries = if rule.principal == ANY_USER {
            &mut of_name.everybody
        } else {
            of_name
                .own
                .entry(rule.principal.as_str().into())
                .or_default()
        };
        if entries.iter().all(|known| known.rule != rule) {
            entries.push(Entry::new(rule));
        }
    }

    pub fn remove(&mut self, rule: &Rule) {
        let kind = self.kind_mut(rule.kind);
        let names = match rule.pattern {
            Pattern::Literal => &mut kind.literal,
            Pattern::Prefixed => &mut kind.prefixed,
        };
        let Some(of_name) = names.get_mut(&*rule.name) else {
            return;
        };
        of_name.remove(rule);
        if !of_name.is_empty() {
            return;
        }
        names.remove(&*rule.name);
        if rule.pattern == Pattern::Prefixed
            && let Some(count) = kind.lengths.get_mut(&rule.name.len())
        {
            *count -= 1;
            kind.lengths.retain(|_, count| 0 < *count);
            kind.ladder = kind.lengths.keys().copied().collect();
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
        let verdict = |is_allowed, why| Verdict { is_allowed, why };
        if self.is_super_user(principal) {
            return verdict(true, Why::SuperUser);
        }
        let host = host.to_canonical();
        let (mut allowed, mut is_named) = (None, false);
        for of_name in self.naming(kind, name) {
            is_named = true;
            for entry in of_name.of(principal, host) {
                if !entry.covers.has(operation) {
                    continue;
                }
                match entry.rule.permission {
                    Permission::Deny => return verdict(false, Why::Rule(&entry.rule)),
                    Permission::Allow => allowed = allowed.or(Some(&entry.rule)),
                }
            }
        }
        match allowed {
            Some(rule) => verdict(true, Why::Rule(rule)),
            None if is_named => verdict(false, Why::NoneAllows),
            None => verdict(self.allows_if_no_rule, Why::NoRule),
        }
    }

    /// All that `principal` may do to the resource: the same as [`Rules::decide`] for each operation.
    #[must_use]
    pub fn allowed(
        &self,
        (principal, host): (&Principal, IpAddr),
        (kind, name): (Kind, &str),
    ) -> Operations {
        if self.is_super_user(principal) {
            return Operations::EVERY;
        }
        let host = host.to_canonical();
        let (mut allowed, mut denied) = (Operations::NONE, Operations::NONE);
        let mut is_named = false;
        for of_name in self.naming(kind, name) {
            is_named = true;
            for entry in of_name.of(principal, host) {
                match entry.rule.permission {
                    Permission::Deny => denied = denied.and(entry.covers),
                    Permission::Allow => allowed = allowed.and(entry.covers),
                }
            }
        }
        match is_named {
            true => allowed.without(denied),
            false if self.allows_if_no_rule => Operations::EVERY,
            false => Operations::NONE,
        }
    }

    /// True if there is any resource of the kind that this may be done to. Looks at all rules of the kind: to be remembered.
    #[must_use]
    pub fn allows_any(&self, who: (&Principal, IpAddr), operation: Operation, kind: Kind) -> bool {
        if self.decide(who, operation, (kind, PROBE)).is_allowed {
            return true;
        }
        let (principal, host) = (who.0, who.1.to_canonical());
        let of = self.kind(kind);
        let is_about = |entry: &&Entry| {
            entry.rule.operation == operation || entry.rule.operation == Operation::All
        };
        let is_denial = |entry: &Entry| entry.rule.permission == Permission::Deny;
        let denies = |of_name: Option<&OfName>| {
            let mut entries = of_name.into_iter().flat_map(|it| it.of(principal, host));
            entries.any(|entry| is_about(&entry) && is_denial(entry))
        };
        if denies(of.literal.get(ANY)) {
            return false;
        }
        let is_dominated = |rule: &Rule| {
            let is_prefix_denied = |length: &usize| {
                let prefix = rule.name.get(..*length);
                prefix.is_some_and(|prefix| denies(of.prefixed.get(prefix)))
            };
            let is_literal = rule.pattern == Pattern::Literal;
            (is_literal && denies(of.literal.get(&*rule.name)))
                || (of.ladder.iter().any(is_prefix_denied))
        };
        let all = of.literal.values().chain(of.prefixed.values());
        let mut about = all.flat_map(|it| it.of(principal, host)).filter(is_about);
        about.any(|entry| {
            let rule = &entry.rule;
            let is_any = rule.pattern == Pattern::Literal && rule.name == ANY;
            rule.permission == Permission::Allow && (is_any || !is_dominated(rule))
        })
    }

    /// Every rule that names a resource, whoever it is for.
    pub(super) fn all_naming(&self, kind: Kind, name: &str) -> impl Iterator<Item = &Entry> {
        self.naming(kind, name).flat_map(|of_name| {
            of_name
                .everybody
                .iter()
                .chain(of_name.own.values().flatten())
        })
    }

    /// What is known about the names of a resource.
    fn naming<'a, 'n>(
        &'a self,
        kind: Kind,
        name: &'n str,
    ) -> impl Iterator<Item = &'a OfName> + use<'a, 'n> {
        let of = self.kind(kind);
        let lengths = of.ladder.iter().take_while(|length| **length <= name.len());
        let prefixed = lengths.filter_map(move |length| of.prefixed.get(name.get(..*length)?));
        let literal = of.literal.get(name).into_iter();
        let any = of.literal.get(ANY).filter(|_| name != ANY).into_iter();
        literal.chain(prefixed).chain(any)
    }

    fn kind(&self, kind: Kind) -> &OfKind {
        &self.kinds[kind as usize - Kind::Topic as usize]
    }

    fn kind_mut(&mut self, kind: Kind) -> &mut OfKind {
        &mut self.kinds[kind as usize - Kind::Topic as usize]
    }
}

impl OfName {
    /// Those for `principal`, who comes from `host`. No rule is for nodes.
    fn of<'a>(
        &'a self,
        principal: &Principal,
        host: IpAddr,
    ) -> impl Iterator<Item = &'a Entry> + use<'a> {
        let text = principal.text().filter(|_| !principal.is_node());
        let own = text.and_then(|text| self.own.get(text));
        let everybody = if principal.is_node() {
            &[]
        } else {
            &*self.everybody
        };
        let entries = everybody.iter().chain(own.into_iter().flatten());
        entries.filter(move |entry| entry.is_at(host))
    }

    fn remove(&mut self, rule: &Rule) {
        self.everybody.retain(|entry| entry.rule != *rule);
        if let Some(own) = self.own.get_mut(&*rule.principal) {
            own.retain(|entry| entry.rule != *rule);
            if own.is_empty() {
                self.own.remove(&*rule.principal);
            }
        }
    }

    fn is_empty(&self) -> bool {
        self.everybody.is_empty() && self.own.is_empty()
    }
}

impl Entry {
    fn new(rule: Rule) -> Entry {
        let host = match &*rule.host {
            ANY => Host::Any,
            address => address
                .parse()
                .map_or(Host::Nobody, |ip: IpAddr| Host::One(ip.to_canonical())),
        };
        Entry {
            covers: Operations::of(rule.permission, rule.operation),
            host,
            rule,
        }
    }

    /// True if the rule is for those who come from `host`, a canonical address.
    pub(super) fn is_at(&self, host: IpAddr) -> bool {
        match self.host {
            Host::Any => true,
            Host::One(address) => address == host,
            Host::Nobody => false,
        }
    }

    /// True if the rule is for `principal`.
    pub(super) fn is_for(&self, principal: &Principal) -> bool {
        let is_own = principal.is(&self.rule.principal);
        !principal.is_node() && (is_own || self.rule.principal == ANY_USER)
    }

    /// True if the rule allows or denies the operation.
    pub(super) fn covers(&self, operation: Operation) -> bool {
        self.covers.has(operation)
    }
}
