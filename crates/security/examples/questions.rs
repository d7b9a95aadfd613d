//! The cost of a question to the authorizer: `cargo run --release -p security --example questions`.
//!
//! 20,000 rules, of which a quarter are prefixed and 200 are about `*`; 512 topics of 1,000 users. Prints the best of 41 rounds, since other work on the machine only
//! ever adds to them.

#![allow(
    clippy::disallowed_methods,
    reason = "an example measures time, and is no part of the product"
)]

use std::collections::BTreeSet;
use std::hint::black_box;
use std::net::{IpAddr, Ipv4Addr};
use std::time::Instant;

use security::Principal;
use security::authorize::{Kind, Operation, Pattern, Permission, Remembered, Rule, Rules};

const RULES: usize = 20_000;
const TOPICS: usize = 512;
const ROUNDS: usize = 41;
const HERE: IpAddr = IpAddr::V4(Ipv4Addr::LOCALHOST);

fn topic(number: usize) -> String {
    format!("team-{}.orders.{number}.events", number % 97)
}

fn rule(number: usize) -> Rule {
    let (pattern, name) = match number {
        _ if number.is_multiple_of(100) => (Pattern::Literal, "*".to_owned()),
        _ if number.is_multiple_of(4) => {
            // Of 17 lengths and more, most of them of other teams.
            let mut name = format!("team-{}.{:017}", number % 2_000, number);
            name.truncate(8 + number / 4 % 17);
            (Pattern::Prefixed, name)
        }
        _ => (Pattern::Literal, topic(number % 5_000)),
    };
    Rule {
        kind: Kind::Topic,
        name,
        pattern,
        principal: format!("User:user-{}", number % 1_000),
        host: "*".to_owned(),
        operation: Operation::EVERY[number % Operation::EVERY.len()],
        permission: Permission::Allow,
    }
}

/// Nanoseconds of one question.
fn best(mut ask: impl FnMut(&str) -> bool, names: &[String]) -> u128 {
    let rounds = (0..ROUNDS).map(|_| {
        let begin = Instant::now();
        for _ in 0..20 {
            for name in names {
                black_box(ask(black_box(name)));
            }
        }
        begin.elapsed().as_nanos() / (20 * names.len() as u128)
    });
    rounds.min().unwrap_or_default()
}

fn main() {
    let mut rules = Rules::new(BTreeSet::new(), false);
    for number in 0..RULES {
        rules.add(rule(number));
    }
    let user = Principal::user("user-7");
    let who = (&user, HERE);
    let names: Vec<String> = (0..TOPICS).map(topic).collect();
    let strange: Vec<String> = names.iter().map(|name| format!("x{name}")).collect();
    let mut remembered = Remembered::default();
    let write = Operation::Write;
    let decide = |name: &str| rules.decide(who, write, (Kind::Topic, name)).is_allowed;
    let all = |name: &str| rules.allowed(who, (Kind::Topic, name)).has(write);
    let known = |name: &str| remembered.allows((&rules, 1), who, write, (Kind::Topic, name));
    println!("remembered            {:>5} ns", best(known, &names));
    println!("one operation         {:>5} ns", best(decide, &names));
    println!("all operations        {:>5} ns", best(all, &names));
    println!("a name without rules  {:>5} ns", best(decide, &strange));
    let any = |_: &str| rules.allows_any(who, Operation::Delete, Kind::Topic);
    println!("any topic             {:>5} ns", best(any, &names[..4]));
}
