//! Rules as a plain list, with Kafka's order of decisions written to be obvious: each question looks at all of them.

use std::net::IpAddr;

use security::Principal;
use security::authorize::{Kind, Operation, Pattern, Permission, Rule};

/// The name that Kafka asks about first where any would do.
const PROBE: &str = "hardcode";

pub struct Model {
    pub rules: Vec<Rule>,
    pub super_users: Vec<Principal>,
    pub allows_if_no_rule: bool,
}

/// The asker, and where it comes from.
pub type Asker<'a> = (&'a Principal, IpAddr);

impl Model {
    pub fn add(&mut self, rule: &Rule) {
        if !self.rules.contains(rule) {
            self.rules.push(rule.clone());
        }
    }

    pub fn remove(&mut self, rule: &Rule) {
        self.rules.retain(|known| known != rule);
    }

    pub fn is_super_user(&self, principal: &Principal) -> bool {
        self.super_users.contains(principal)
    }

    /// The rules that name a resource, whoever they are for.
    pub fn naming(&self, kind: Kind, name: &str) -> Vec<&Rule> {
        let names = |rule: &&Rule| {
            rule.kind == kind
                && match rule.pattern {
                    Pattern::Literal => rule.name == name || rule.name == "*",
                    Pattern::Prefixed => name.as_bytes().starts_with(rule.name.as_bytes()),
                }
        };
        self.rules.iter().filter(names).collect()
    }

    /// The rules about a resource that are for an asker.
    pub fn facing(&self, asker: Asker<'_>, of: (Kind, &str)) -> Facing<'_> {
        let mut rules = self.naming(of.0, of.1);
        let is_named = !rules.is_empty();
        rules.retain(|rule| is_for(rule, asker));
        Facing {
            is_super_user: self.is_super_user(asker.0),
            default: (!is_named).then_some(self.allows_if_no_rule),
            rules,
        }
    }

    pub fn allows(&self, asker: Asker<'_>, operation: Operation, of: (Kind, &str)) -> bool {
        self.facing(asker, of).allows(operation)
    }

    /// Kafka's `authorizeByResourceType`.
    pub fn allows_any(&self, asker: Asker<'_>, operation: Operation, kind: Kind) -> bool {
        if self.allows(asker, operation, (kind, PROBE)) {
            return true;
        }
        let is_about = |rule: &&Rule| {
            let is_named = rule.operation == operation || rule.operation == Operation::All;
            rule.kind == kind && is_named && is_for(rule, asker)
        };
        let about: Vec<&Rule> = self.rules.iter().filter(is_about).collect();
        let (denies, allows): (Vec<&Rule>, Vec<&Rule>) = about
            .into_iter()
            .partition(|rule| rule.permission == Permission::Deny);
        let is_dominated = |allowing: &&Rule| {
            denies.iter().any(|denying| match denying.pattern {
                Pattern::Literal if denying.name == "*" => true,
                Pattern::Literal => {
                    allowing.pattern == Pattern::Literal && allowing.name == denying.name
                }
                // The star of every name begins with no prefix of some.
                Pattern::Prefixed if is_star(allowing) => false,
                Pattern::Prefixed => allowing.name.starts_with(&*denying.name),
            })
        };
        allows.iter().any(|rule| !is_dominated(rule))
    }
}

/// Those rules about one resource that are for one asker: looked for once, and asked about each operation.
pub struct Facing<'a> {
    is_super_user: bool,
    /// Where no rule names the resource.
    default: Option<bool>,
    rules: Vec<&'a Rule>,
}

impl Facing<'_> {
    pub fn allows(&self, operation: Operation) -> bool {
        if self.is_super_user {
            return true;
        }
        if let Some(default) = self.default {
            return default;
        }
        let covers = |rule: &&&Rule| covers(rule, operation);
        let fitting = self.rules.iter().filter(covers);
        let (denies, allows): (Vec<&Rule>, Vec<&Rule>) = fitting
            .copied()
            .partition(|rule| rule.permission == Permission::Deny);
        denies.is_empty() && !allows.is_empty()
    }
}

fn is_star(rule: &Rule) -> bool {
    rule.pattern == Pattern::Literal && rule.name == "*"
}

/// True if the rule allows or denies the operation.
pub fn covers(rule: &Rule, operation: Operation) -> bool {
    use Operation::{Alter, AlterConfigs, Delete, Describe, DescribeConfigs, Read, Write};
    let implied: &[Operation] = match (rule.permission, operation) {
        (Permission::Allow, Describe) => &[Read, Write, Delete, Alter],
        (Permission::Allow, DescribeConfigs) => &[AlterConfigs],
        _ => &[],
    };
    rule.operation == operation
        || rule.operation == Operation::All
        || implied.contains(&rule.operation)
}

/// True if the rule is for the asker.
pub fn is_for(rule: &Rule, (principal, address): Asker<'_>) -> bool {
    // No rule is for nodes, and none can name a principal whose type has a colon in it.
    let is_own = !principal.kind().contains(':')
        && rule.principal == format!("{}:{}", principal.kind(), principal.name());
    !principal.is_node()
        && (is_own || rule.principal == "User:*")
        && is_at(&rule.host, bits(address))
}

/// True if a host of a rule is about an address.
fn is_at(host: &str, address: Vec<bool>) -> bool {
    if host == "*" {
        return true;
    }
    if let Ok(one) = host.parse::<IpAddr>() {
        return bits(one) == address;
    }
    let Some((network, length)) = host.split_once('/') else {
        return false;
    };
    // Kafka's numbers of addresses of four parts may begin with zeros.
    let plain = |part: &str| match part.len() {
        1..=3 if part.bytes().all(|byte| byte.is_ascii_digit()) => part
            .parse::<u16>()
            .map_or("x".to_owned(), |n| n.to_string()),
        _ => "x".to_owned(),
    };
    let network = if network.contains(':') {
        network.to_owned()
    } else {
        network.split('.').map(plain).collect::<Vec<_>>().join(".")
    };
    let is_number = !length.is_empty() && length.bytes().all(|byte| byte.is_ascii_digit());
    let (Ok(network), Ok(length), true) =
        (network.parse::<IpAddr>(), length.parse::<u8>(), is_number)
    else {
        return false;
    };
    // An address of the old kind in the form of the new one is the old one, and such a network is none.
    if network != network.to_canonical() {
        return false;
    }
    let network = bits(network);
    let length = usize::from(length);
    length <= network.len()
        && network.len() == address.len()
        && network[..length] == address[..length]
}

/// The bits of an address, as many as its kind has, in its shortest form.
fn bits(address: IpAddr) -> Vec<bool> {
    let octets = match address.to_canonical() {
        IpAddr::V4(address) => address.octets().to_vec(),
        IpAddr::V6(address) => address.octets().to_vec(),
    };
    let of = |octet: &u8| {
        let octet = *octet;
        (0..8).map(move |at| octet & (0x80 >> at) != 0)
    };
    octets.iter().flat_map(of).collect()
}
