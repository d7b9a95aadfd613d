//! The rules of a cluster, found by the names that they are about.
//!
//! A question looks up the number of who asks, one hash for the name, and one for each length that any prefix of the kind has; below each
//! of them are the rules for everybody and those for that number. Its cost depends on what names the resource, not on how many rules
//! there are. One look answers for all operations.

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;

use super::hash::Map;
use super::host::Host;
use super::{Kind, Operation, Operations, Pattern, Permission, Rule};
use crate::principal::Principal;

/// Any name, and with a type in front any principal.
const ANY: &str = "*";
const ANY_USER: &str = "User:*";
/// The name that Kafka asks about first where any topic would do.
const PROBE: &str = "hardcode";

/// A rule, read.
#[derive(Clone, Debug)]
pub(super) struct Entry {
    pub(super) rule: Rule,
    host: Host,
    /// The operations that it allows or denies.
    covers: Operations,
}

/// The rules about one name.
#[derive(Clone, Debug, Default)]
struct OfName {
    /// For `User:*`.
    everybody: Vec<Entry>,
    /// By the number of the principal, ascending; none is empty.
    own: Vec<(Number, Vec<Entry>)>,
}

/// Stands for the text of a principal in rules, so that it is hashed once for a question. None is given twice.
type Number = u32;

/// Those who ask: their number, if rules name them, and their address.
#[derive(Clone, Copy)]
struct Asker {
    number: Option<Number>,
    host: IpAddr,
    /// No rule is for nodes.
    is_node: bool,
}

#[derive(Clone, Debug, Default)]
struct OfKind {
    /// The rules about `*`.
    any: OfName,
    /// Without `*`.
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
    /// The numbers of principals, each with the count of its rules.
    principals: Map<(Number, usize)>,
    next: Number,
    super_users: BTreeSet<Principal>,
    allows_if_no_rule: bool,
}

/// The answer to one question.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Verdict<'a> {
    pub is_allowed: bool,
    pub why: Why<'a>,
}

/// The reason of an answer.
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
        principal.is_local() || self.super_users.contains(principal)
    }

    /// Takes a rule; one that is there already changes nothing.
    ///
    /// # Panics
    ///
    /// If four billion principals have come and gone.
    pub fn add(&mut self, rule: Rule) {
        let number = (rule.principal != ANY_USER).then(|| {
            let known = self.principals.entry(rule.principal.as_str().into());
            let known = known.or_insert_with(|| {
                let number = self.next;
                self.next = number.checked_add(1).expect("numbers are left");
                (number, 0)
            });
            known.1 += 1;
            known.0
        });
        let of_name = self.kind_mut(rule.kind).of_name_mut(&rule);
        let entries = of_name.entries_mut(number);
        if entries.iter().all(|known| known.rule != rule) {
            entries.push(Entry::new(rule));
        } else {
            self.release(&rule.principal);
        }
    }

    /// Drops a rule; one that is not there changes nothing.
    pub fn remove(&mut self, rule: &Rule) {
        let number = self.principals.get(&*rule.principal).map(|known| known.0);
        let is_for_all = rule.principal == ANY_USER;
        if (is_for_all || number.is_some()) && self.kind_mut(rule.kind).remove(rule, number) {
            self.release(&rule.principal);
        }
    }

    /// One rule less names the principal.
    fn release(&mut self, principal: &str) {
        if let Some(known) = self.principals.get_mut(principal) {
            known.1 -= 1;
            if known.1 == 0 {
                self.principals.remove(principal);
            }
        }
    }

    fn asker(&self, (principal, host): (&Principal, IpAddr)) -> Asker {
        let is_node = principal.is_node();
        let text = principal.text().filter(|_| !is_node);
        let known = text.and_then(|text| self.principals.get(text));
        Asker {
            number: known.map(|known| known.0),
            host: host.to_canonical(),
            is_node,
        }
    }

    /// True if a principal, who comes from an address, may do this to the resource, and why.
    #[must_use]
    pub fn decide(
        &self,
        who: (&Principal, IpAddr),
        operation: Operation,
        (kind, name): (Kind, &str),
    ) -> Verdict<'_> {
        let verdict = |is_allowed, why| Verdict { is_allowed, why };
        if self.is_super_user(who.0) {
            return verdict(true, Why::SuperUser);
        }
        let asker = self.asker(who);
        let (mut allowed, mut is_named) = (None, false);
        for of_name in self.naming(kind, name) {
            is_named = true;
            for entry in of_name.of(asker) {
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

    /// All that a principal may do to the resource: the same as [`Rules::decide`] for each operation.
    #[must_use]
    pub fn allowed(&self, who: (&Principal, IpAddr), (kind, name): (Kind, &str)) -> Operations {
        if self.is_super_user(who.0) {
            return Operations::EVERY;
        }
        let asker = self.asker(who);
        let (mut allowed, mut denied) = (Operations::NONE, Operations::NONE);
        let mut is_named = false;
        for of_name in self.naming(kind, name) {
            is_named = true;
            for entry in of_name.of(asker) {
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
        let asker = self.asker(who);
        let of = self.kind(kind);
        let is_about = |entry: &&Entry| {
            entry.rule.operation == operation || entry.rule.operation == Operation::All
        };
        let is_denial = |entry: &Entry| entry.rule.permission == Permission::Deny;
        let denies = |of_name: Option<&OfName>| {
            let mut entries = of_name.into_iter().flat_map(|it| it.of(asker));
            entries.any(|entry| is_about(&entry) && is_denial(entry))
        };
        if denies(Some(&of.any)) {
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
        let is_allowance = |entry: &&Entry| is_about(entry) && !is_denial(entry);
        let all = of.literal.values().chain(of.prefixed.values());
        let mut allowances = all.flat_map(|it| it.of(asker)).filter(is_allowance);
        of.any.of(asker).any(|entry| is_allowance(&entry))
            || allowances.any(|entry| !is_dominated(&entry.rule))
    }

    /// Every rule that names a resource, whoever it is for.
    pub(super) fn all_naming(&self, kind: Kind, name: &str) -> impl Iterator<Item = &Entry> {
        self.naming(kind, name).flat_map(OfName::all)
    }

    /// All that is known about the names of a resource.
    fn naming<'a, 'n>(
        &'a self,
        kind: Kind,
        name: &'n str,
    ) -> impl Iterator<Item = &'a OfName> + use<'a, 'n> {
        let of = self.kind(kind);
        let lengths = of.ladder.iter().take_while(|length| **length <= name.len());
        let prefixed = lengths.filter_map(move |length| of.prefixed.get(name.get(..*length)?));
        let literal = of.literal.get(name).into_iter();
        let any = (!of.any.is_empty()).then_some(&of.any);
        literal.chain(prefixed).chain(any)
    }

    fn kind(&self, kind: Kind) -> &OfKind {
        &self.kinds[kind as usize - Kind::Topic as usize]
    }

    fn kind_mut(&mut self, kind: Kind) -> &mut OfKind {
        &mut self.kinds[kind as usize - Kind::Topic as usize]
    }
}

impl OfKind {
    /// The place for a rule.
    fn of_name_mut(&mut self, rule: &Rule) -> &mut OfName {
        if rule.pattern == Pattern::Literal && rule.name == ANY {
            return &mut self.any;
        }
        let name: Box<str> = rule.name.as_str().into();
        if rule.pattern == Pattern::Literal {
            return self.literal.entry(name).or_default();
        }
        let length = name.len();
        self.prefixed.entry(name).or_insert_with(|| {
            *self.lengths.entry(length).or_default() += 1;
            self.ladder = self.lengths.keys().copied().collect();
            OfName::default()
        })
    }

    /// True if the rule was there.
    fn remove(&mut self, rule: &Rule, number: Option<Number>) -> bool {
        if rule.pattern == Pattern::Literal && rule.name == ANY {
            return self.any.remove(rule, number);
        }
        let names = match rule.pattern {
            Pattern::Literal => &mut self.literal,
            Pattern::Prefixed => &mut self.prefixed,
        };
        let Some(of_name) = names.get_mut(&*rule.name) else {
            return false;
        };
        let was_there = of_name.remove(rule, number);
        if of_name.is_empty() {
            names.remove(&*rule.name);
            if rule.pattern == Pattern::Prefixed
                && let Some(count) = self.lengths.get_mut(&rule.name.len())
            {
                *count -= 1;
                self.lengths.retain(|_, count| 0 < *count);
                self.ladder = self.lengths.keys().copied().collect();
            }
        }
        was_there
    }
}

impl OfName {
    /// Those for `asker`.
    fn of(&self, asker: Asker) -> impl Iterator<Item = &Entry> {
        let own = asker.number.and_then(|number| self.place(number).ok());
        let own = own.map_or(&[] as &[Entry], |at| &self.own[at].1);
        let everybody = if asker.is_node { &[] } else { &*self.everybody };
        let entries = everybody.iter().chain(own);
        entries.filter(move |entry| entry.is_at(asker.host))
    }

    fn all(&self) -> impl Iterator<Item = &Entry> {
        let own = self.own.iter().flat_map(|(_, entries)| entries);
        self.everybody.iter().chain(own)
    }

    /// Where the rules for a principal are, or would be.
    fn place(&self, number: Number) -> Result<usize, usize> {
        self.own.binary_search_by_key(&number, |(own, _)| *own)
    }

    /// Those for a principal, or for everybody; to be filled.
    fn entries_mut(&mut self, number: Option<Number>) -> &mut Vec<Entry> {
        let Some(number) = number else {
            return &mut self.everybody;
        };
        let at = self.place(number).unwrap_or_else(|at| {
            self.own.insert(at, (number, Vec::new()));
            at
        });
        &mut self.own[at].1
    }

    /// True if the rule was there.
    fn remove(&mut self, rule: &Rule, number: Option<Number>) -> bool {
        let drop_of = |entries: &mut Vec<Entry>| {
            let before = entries.len();
            entries.retain(|entry| entry.rule != *rule);
            entries.len() < before
        };
        let Some(number) = number else {
            return drop_of(&mut self.everybody);
        };
        let Ok(at) = self.place(number) else {
            return false;
        };
        let was_there = drop_of(&mut self.own[at].1);
        if self.own[at].1.is_empty() {
            self.own.remove(at);
        }
        was_there
    }

    fn is_empty(&self) -> bool {
        self.everybody.is_empty() && self.own.is_empty()
    }
}

impl Entry {
    fn new(rule: Rule) -> Entry {
        Entry {
            covers: Operations::of(rule.permission, rule.operation),
            host: Host::of(&rule.host),
            rule,
        }
    }

    /// True if the rule is for those who come from `host`, a canonical address.
    pub(super) fn is_at(&self, host: IpAddr) -> bool {
        self.host.has(host)
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_known_of_names_and_principals_goes_with_their_last_rule() {
        let rule = |principal: &str, (pattern, name): (Pattern, &str)| Rule {
            kind: Kind::Topic,
            name: name.to_owned(),
            pattern,
            principal: principal.to_owned(),
            host: ANY.to_owned(),
            operation: Operation::Read,
            permission: Permission::Allow,
        };
        let names = [
            (Pattern::Literal, "t"),
            (Pattern::Literal, ANY),
            (Pattern::Prefixed, "t"),
        ];
        let principals = ["User:a", "User:b", ANY_USER];
        let all = names
            .iter()
            .flat_map(|name| principals.map(|principal| rule(principal, *name)));
        let all: Vec<Rule> = all.collect();
        let mut rules = Rules::default();
        // The second time changes nothing, and neither does a rule that is not there.
        all.iter()
            .chain(&all)
            .for_each(|rule| rules.add(rule.clone()));
        rules.remove(&rule("User:c", names[0]));
        rules.remove(&rule("User:a", (Pattern::Prefixed, "u")));
        assert_eq!(rules.principals.len(), 2);
        assert_eq!(rules.kind(Kind::Topic).ladder, [1]);
        all.iter().for_each(|rule| rules.remove(rule));
        let of = rules.kind(Kind::Topic);
        assert!(rules.principals.is_empty() && of.any.is_empty());
        assert!(of.literal.is_empty() && of.prefixed.is_empty() && of.ladder.is_empty());
        rules.add(all[0].clone());
        assert_eq!(
            rules.principals["User:a"],
            (2, 1),
            "no number is given twice"
        );
    }
}
