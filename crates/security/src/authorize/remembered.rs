//! Decisions that one asker remembers: the same client asks for the same topics all day.

use std::collections::HashMap;
use std::net::IpAddr;

use super::{Kind, Operation, Operations, Rules};
use crate::principal::Principal;

/// Resources that are remembered, about 100 bytes each; one more, and it begins anew: a client with more of them is answered by the rules.
pub const REMEMBERED_MAX: usize = 256;

/// The answers of the rules of one generation to one principal at one host. They belong to it: another asker has its own.
#[derive(Debug, Default)]
pub struct Remembered {
    generation: u64,
    /// By name, all operations at once. Clients choose the names: the hash has a key.
    of: [HashMap<Box<str>, Operations>; Kind::EVERY.len()],
    count: usize,
    /// The answers to [`Rules::allows_any`].
    any: HashMap<(Kind, Operation), bool>,
}

impl Remembered {
    /// The same as [`Rules::decide`]. `generation` is another one after each change of the rules.
    pub fn allows(
        &mut self,
        (rules, generation): (&Rules, u64),
        who: (&Principal, IpAddr),
        operation: Operation,
        resource: (Kind, &str),
    ) -> bool {
        self.allowed((rules, generation), who, resource)
            .has(operation)
    }

    /// The same where the answer is remembered from this generation. Needs no rules.
    #[must_use]
    pub fn known(
        &self,
        generation: u64,
        operation: Operation,
        (kind, name): (Kind, &str),
    ) -> Option<bool> {
        let at = kind as usize - Kind::Topic as usize;
        let known = self.of[at].get(name);
        let known = known.filter(|_| self.generation == generation);
        known.map(|allowed| allowed.has(operation))
    }

    /// The same as [`Rules::allowed`].
    pub fn allowed(
        &mut self,
        (rules, generation): (&Rules, u64),
        who: (&Principal, IpAddr),
        (kind, name): (Kind, &str),
    ) -> Operations {
        self.follow(generation);
        let at = kind as usize - Kind::Topic as usize;
        if let Some(known) = self.of[at].get(name) {
            return *known;
        }
        let allowed = rules.allowed(who, (kind, name));
        if self.count == REMEMBERED_MAX {
            self.forget();
        }
        self.of[at].insert(name.into(), allowed);
        self.count += 1;
        allowed
    }

    /// The same as [`Rules::allows_any`].
    pub fn allows_any(
        &mut self,
        (rules, generation): (&Rules, u64),
        who: (&Principal, IpAddr),
        operation: Operation,
        kind: Kind,
    ) -> bool {
        self.follow(generation);
        let known = self.any.entry((kind, operation));
        *known.or_insert_with(|| rules.allows_any(who, operation, kind))
    }

    fn follow(&mut self, generation: u64) {
        if self.generation != generation {
            self.forget();
            self.any.clear();
            self.generation = generation;
        }
    }

    fn forget(&mut self) {
        self.of.iter_mut().for_each(HashMap::clear);
        self.count = 0;
    }
}

#[cfg(test)]
mod tests {
    use std::net::Ipv4Addr;

    use super::*;
    use crate::authorize::{Pattern, Permission, Rule};

    const HERE: IpAddr = IpAddr::V4(Ipv4Addr::LOCALHOST);

    fn rule(name: &str) -> Rule {
        Rule {
            kind: Kind::Topic,
            name: name.to_owned(),
            pattern: Pattern::Literal,
            principal: "User:alice".to_owned(),
            host: "*".to_owned(),
            operation: Operation::Write,
            permission: Permission::Allow,
        }
    }

    #[test]
    fn a_decision_holds_until_the_rules_change() {
        let alice = Principal::user("alice");
        let who = (&alice, HERE);
        let (mut rules, mut remembered) = (Rules::default(), Remembered::default());
        let topic = (Kind::Topic, "t");
        let write = Operation::Write;
        assert!(!remembered.allows((&rules, 1), who, write, topic));
        assert!(!remembered.allows_any((&rules, 1), who, write, Kind::Topic));
        rules.add(rule("t"));
        // The generation says whether anything has changed, and nothing else does.
        assert!(!remembered.allows((&rules, 1), who, write, topic));
        assert!(!remembered.allows_any((&rules, 1), who, write, Kind::Topic));
        assert_eq!(remembered.known(1, write, topic), Some(false));
        assert_eq!(remembered.known(2, write, topic), None);
        assert!(remembered.allows((&rules, 2), who, write, topic));
        assert_eq!(remembered.known(2, write, topic), Some(true));
        assert!(remembered.allows((&rules, 2), who, Operation::Describe, topic));
        assert!(!remembered.allows((&rules, 2), who, Operation::Read, topic));
        assert!(!remembered.allows((&rules, 2), who, write, (Kind::Group, "t")));
        assert!(remembered.allows_any((&rules, 2), who, write, Kind::Topic));
        rules.remove(&rule("t"));
        assert!(!remembered.allows((&rules, 3), who, write, topic));
        assert!(!remembered.allows_any((&rules, 3), who, write, Kind::Topic));
    }

    #[test]
    fn memory_is_bounded_and_answers_stay_right() {
        let alice = Principal::user("alice");
        let mut rules = Rules::default();
        rules.add(rule("7"));
        let mut remembered = Remembered::default();
        for number in 0..3 * REMEMBERED_MAX {
            let name = number.to_string();
            let topic = (Kind::Topic, &*name);
            let may = remembered.allows((&rules, 1), (&alice, HERE), Operation::Write, topic);
            assert_eq!(may, number == 7);
            let kept: usize = remembered.of.iter().map(HashMap::len).sum();
            assert!(kept <= REMEMBERED_MAX && kept == remembered.count);
        }
    }
}
