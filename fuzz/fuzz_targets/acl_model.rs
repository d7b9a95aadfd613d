//! Rules and questions against a plain list: rules come and go, and between them askers want to know what they may do. The memory of an
//! asker and the explanation say the same as the answer, and the change that is proposed turns it.

#![no_main]

use std::collections::BTreeSet;
use std::net::IpAddr;

use esker_fuzz::acls::{Asker, Model, covers, is_for};
use esker_fuzz::script::Script;
use libfuzzer_sys::fuzz_target;
use security::Principal;
use security::authorize::{
    Change, Kind, Lost, Operation, Pattern, Permission, Remembered, Rule, Rules, Why,
};

/// Steps of one input: more would look at more rules, and at nothing new.
const STEPS_MAX: usize = 32;

const NAMES: [&str; 9] = ["*", "", "a", "ab", "abc", "b", "ü", "hardcode", "*a"];
const PRINCIPALS: [&str; 7] = [
    "User:*",
    "User:alice",
    "User:bob",
    "User:root",
    "Node:1",
    "Group:alice",
    "alice",
];
const HOSTS: [&str; 16] = [
    "*",
    "10.0.0.1",
    "10.0.0.2",
    "10.0.0.0/8",
    "10.0.0.0/31",
    "010.0.0.1/32",
    "0.0.0.0/0",
    "10.0.0.0/33",
    "::1",
    "0:0:0:0:0:0:0:1",
    "::/0",
    "2001:db8::/33",
    "2001:db8::1/128",
    "::ffff:10.0.0.1",
    "::ffff:10.0.0.0/104",
    "nowhere",
];
const ADDRESSES: [&str; 6] = [
    "10.0.0.1",
    "10.0.0.2",
    "11.0.0.1",
    "::1",
    "2001:db8::1",
    "::ffff:10.0.0.1",
];

fuzz_target!(|data: &[u8]| {
    let mut script = Script::new(data);
    let mut world = World::new(&mut script);
    for _ in 0..STEPS_MAX {
        if script.is_over() {
            break;
        }
        match script.byte() % 4 {
            0 | 1 => {
                let rule = rule(&mut script);
                world.model.add(&rule);
                world.rules.add(rule);
                world.generation += 1;
            }
            2 => {
                let rule = world.some_rule(&mut script);
                world.model.remove(&rule);
                world.rules.remove(&rule);
                world.generation += 1;
            }
            _ => world.question(&mut script),
        }
    }
    // Nothing is left of rules that are all gone.
    for rule in std::mem::take(&mut world.model.rules) {
        world.rules.remove(&rule);
    }
    world.generation += 1;
    world.question(&mut script);
});

/// Those who ask; the last has a type that no rule can write.
fn askers() -> [Principal; 6] {
    [
        Principal::user("alice"),
        Principal::user("bob"),
        Principal::user("root"),
        Principal::node(1),
        Principal::new("Group", "alice"),
        Principal::new("User:al", "ice"),
    ]
}

struct World {
    rules: Rules,
    generation: u64,
    model: Model,
    askers: [Principal; 6],
    /// One of each asker at each address.
    memories: Vec<Remembered>,
}

impl World {
    fn new(script: &mut Script<'_>) -> World {
        let allows_if_no_rule = script.flag();
        let mut super_users = Vec::new();
        if script.flag() {
            super_users.extend(["User:root", "Group:root"]);
        }
        let parsed = super_users.iter().map(|user| user.parse().expect("a user"));
        let super_users: Vec<Principal> = parsed.collect();
        let set: BTreeSet<Principal> = super_users.iter().cloned().collect();
        let askers = askers();
        let memories = askers.len() * ADDRESSES.len();
        World {
            rules: Rules::new(set, allows_if_no_rule),
            generation: 0,
            model: Model {
                rules: Vec::new(),
                super_users,
                allows_if_no_rule,
            },
            askers,
            memories: (0..memories).map(|_| Remembered::default()).collect(),
        }
    }

    /// One of those that are there, or another.
    fn some_rule(&self, script: &mut Script<'_>) -> Rule {
        let at = usize::from(script.byte());
        let known = self.model.rules.get(at);
        known.cloned().unwrap_or_else(|| rule(script))
    }

    fn question(&mut self, script: &mut Script<'_>) {
        let (of, from) = (
            usize::from(script.byte()) % self.askers.len(),
            usize::from(script.byte()) % ADDRESSES.len(),
        );
        let address: IpAddr = ADDRESSES[from].parse().expect("an address");
        let operation = script.one_of(&Operation::EVERY);
        let kind = script.one_of(&Kind::EVERY);
        let name = script.text_of(&NAMES);
        let principal = self.askers[of].clone();
        let asker = (&principal, address);
        let resource = (kind, name);
        let facing = self.model.facing(asker, resource);
        let may = facing.allows(operation);
        let decided = self.rules.decide(asker, operation, resource);
        assert_eq!(decided.is_allowed, may, "{decided:?}");
        self.grounds(decided.why, asker, operation, resource);

        let all = self.rules.allowed(asker, resource);
        let memory = &mut self.memories[of * ADDRESSES.len() + from];
        let now = (&self.rules, self.generation);
        assert_eq!(memory.allowed(now, asker, resource), all);
        assert_eq!(memory.allows(now, asker, operation, resource), may);
        for operation in Operation::EVERY {
            assert_eq!(
                all.has(operation),
                facing.allows(operation),
                "{operation:?}"
            );
        }
        let any = self.model.allows_any(asker, operation, kind);
        assert_eq!(self.rules.allows_any(asker, operation, kind), any);
        assert_eq!(memory.allows_any(now, asker, operation, kind), any);
        self.explained(asker, operation, resource, may);
    }

    /// The reason fits the answer.
    fn grounds(&self, why: Why<'_>, asker: Asker<'_>, operation: Operation, of: (Kind, &str)) {
        let is_super = self.model.is_super_user(asker.0);
        assert_eq!(why == Why::SuperUser, is_super);
        let naming = self.model.naming(of.0, of.1);
        match why {
            Why::SuperUser => {}
            Why::NoRule => assert!(naming.is_empty()),
            Why::NoneAllows => assert!(!naming.is_empty()),
            Why::Rule(rule) => {
                assert!(naming.contains(&rule));
                assert!(is_for(rule, asker) && covers(rule, operation));
            }
        }
    }

    fn explained(&self, asker: Asker<'_>, operation: Operation, of: (Kind, &str), may: bool) {
        let told = self.rules.explain(asker, operation, of);
        assert_eq!(told.verdict.is_allowed, may);
        let mut rules: Vec<&Rule> = told.lost.iter().map(|(rule, _)| *rule).collect();
        if let Why::Rule(rule) = told.verdict.why {
            rules.push(rule);
        }
        let mut naming = self.model.naming(of.0, of.1);
        rules.sort();
        naming.sort();
        assert_eq!(rules, naming, "each rule once");
        for (rule, lost) in told.lost {
            let fits = is_for(rule, asker) && covers(rule, operation);
            let has_lost_to_another = matches!(lost, Lost::Same | Lost::Overruled | Lost::Above);
            assert_eq!(fits, has_lost_to_another, "{rule:?}: {lost}");
        }
        match told.change {
            Change::NoSuperUser => assert!(self.model.is_super_user(asker.0)),
            Change::None => {
                let is_nobody = asker.0.is_node() || asker.0.kind().contains(':');
                assert!(is_nobody && !self.model.is_super_user(asker.0));
            }
            Change::Rules { remove, add } => {
                assert!(!remove.is_empty() || add.is_some());
                let mut after = Model {
                    rules: self.model.rules.clone(),
                    super_users: self.model.super_users.clone(),
                    ..self.model
                };
                for rule in &remove {
                    assert!(after.rules.contains(rule), "{rule:?} is not there");
                    after.remove(rule);
                }
                add.iter().for_each(|rule| after.add(rule));
                assert_eq!(after.allows(asker, operation, of), !may, "nothing turns");
            }
        }
    }
}

fn rule(script: &mut Script<'_>) -> Rule {
    Rule {
        kind: script.one_of(&Kind::EVERY),
        name: script.text_of(&NAMES).to_owned(),
        pattern: script.one_of(&[Pattern::Literal, Pattern::Prefixed]),
        principal: script.text_of(&PRINCIPALS).to_owned(),
        host: script.text_of(&HOSTS).to_owned(),
        operation: script.one_of(&Operation::EVERY),
        permission: script.one_of(&[Permission::Allow, Permission::Deny]),
    }
}
