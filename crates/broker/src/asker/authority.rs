//! The rules of the cluster, as this node knows them. All askers share them, so that a change is in force at their next question.

use std::net::IpAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use meta::Image;
use meta::delta::Changed;
use parking_lot::{Mutex, RwLock};
use security::Principal;
use security::authorize::{Kind, Operation, Pattern, Permission, Remembered, Rule, Rules, Why};
use wire::Uuid;
use wire::metadata::AccessControlEntryRecord;

/// Numbers of the protocol.
const PREFIXED: i8 = 4;
const ALLOW: i8 = 3;

/// Decides what principals may do. A broker without an authorizer has none, and asks nobody.
pub(crate) struct Authority {
    rules: RwLock<Rules>,
    /// Changes so far. Moves while `rules` are held, after they changed.
    generation: AtomicU64,
}

/// The answers that one asker remembers. A copy of the asker may become another, and begins without.
#[derive(Debug, Default)]
pub(crate) struct Memory {
    answers: Mutex<Option<Box<Remembered>>>,
    /// The last question that a request was refused for, until a line is written about it.
    refused: Mutex<Option<Box<Refused>>>,
}

impl Memory {
    pub(super) fn forget(&self) {
        *self.answers.lock() = None;
        *self.refused.lock() = None;
    }

    /// A request begins, or a line is due about one that was refused.
    pub(super) fn take_refused(&self) -> Option<Box<Refused>> {
        self.refused.lock().take()
    }
}

impl Clone for Memory {
    fn clone(&self) -> Memory {
        Memory::default()
    }
}

/// A question that was answered with no, as a line of the log has it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Refused {
    pub(crate) principal: Principal,
    pub(crate) host: IpAddr,
    pub(crate) operation: Operation,
    pub(crate) kind: Kind,
    pub(crate) name: String,
    pub(crate) why: String,
}

impl std::fmt::Debug for Authority {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Authority of generation {}", self.generation())
    }
}

impl Authority {
    pub(crate) fn new(rules: Rules) -> Authority {
        Authority {
            rules: RwLock::new(rules),
            generation: AtomicU64::new(0),
        }
    }

    /// Another number once other rules are in force: what was decided under this one, and after it was read, may be remembered until
    /// it moves.
    pub(crate) fn generation(&self) -> u64 {
        self.generation.load(Ordering::Acquire)
    }

    /// True if no rule is asked about what this one does.
    pub(crate) fn is_super_user(&self, principal: &Principal) -> bool {
        self.rules.read().is_super_user(principal)
    }

    /// As the settings and the metadata have it; `None` without an authorizer.
    pub(crate) fn of(access: Option<&config::Access>, image: &Image) -> Option<Authority> {
        let access = access?;
        let super_users = access
            .super_users
            .iter()
            .filter_map(|user| user.parse().ok());
        let mut rules = Rules::new(super_users.collect(), access.allows_if_no_rule);
        image
            .acls()
            .filter_map(rule)
            .for_each(|rule| rules.add(rule));
        Some(Authority::new(rules))
    }

    /// Takes all changes of a newer image at once: nobody is judged by a part of them.
    pub(crate) fn follow(&self, changes: &[Changed<Uuid, Arc<AccessControlEntryRecord>>]) {
        if changes.is_empty() {
            return;
        }
        let mut rules = self.rules.write();
        for change in changes {
            if let Some(gone) = change.old.as_deref().and_then(rule) {
                rules.remove(&gone);
            }
            if let Some(new) = change.new.as_deref().and_then(rule) {
                rules.add(new);
            }
        }
        self.generation.fetch_add(1, Ordering::Release);
    }

    /// True if `principal`, who comes from `host`, may do this to the resource. `memory` is of nobody else.
    pub(crate) fn allows(
        &self,
        memory: &Memory,
        (principal, host): (&Principal, IpAddr),
        operation: Operation,
        (kind, name): (Kind, &str),
    ) -> bool {
        // A node acts for the cluster, and does nothing else in its own name.
        if principal.is_node() {
            return (operation, kind) == (Operation::ClusterAction, Kind::Cluster);
        }
        // All shards would meet at the lock of the rules: what is remembered needs none but its own.
        let mut remembered = memory.answers.lock();
        let remembered = &mut **remembered.get_or_insert_default();
        if let Some(known) = remembered.known(self.generation(), operation, (kind, name)) {
            return known;
        }
        let rules = self.rules.read();
        // It moves while the rules are held, so that it belongs to these.
        let of = (&*rules, self.generation());
        remembered.allows(of, (principal, host), operation, (kind, name))
    }

    /// Keeps a question that a request is refused for, with the rule that says so.
    pub(crate) fn note_refusal(
        &self,
        memory: &Memory,
        (principal, host): (&Principal, IpAddr),
        operation: Operation,
        (kind, name): (Kind, &str),
    ) {
        let rules = self.rules.read();
        let verdict = rules.decide((principal, host), operation, (kind, name));
        let why = match verdict.why {
            Why::Rule(rule) => format!(
                "denied by the rule of {} {:?} on {} from {}",
                rule.principal, rule.operation, rule.name, rule.host
            ),
            Why::NoneAllows => "no rule allows it".to_owned(),
            Why::SuperUser | Why::NoRule => "no rule names it".to_owned(),
        };
        drop(rules);
        *memory.refused.lock() = Some(Box::new(Refused {
            principal: principal.clone(),
            host,
            operation,
            kind,
            name: name.to_owned(),
            why,
        }));
    }

    /// True if `principal` may do this to at least one resource of the kind.
    pub(crate) fn allows_any(
        &self,
        memory: &Memory,
        (principal, host): (&Principal, IpAddr),
        operation: Operation,
        kind: Kind,
    ) -> bool {
        if principal.is_node() {
            return (operation, kind) == (Operation::ClusterAction, Kind::Cluster);
        }
        let mut remembered = memory.answers.lock();
        let rules = self.rules.read();
        let of = (&*rules, self.generation());
        let remembered = &mut **remembered.get_or_insert_default();
        remembered.allows_any(of, (principal, host), operation, kind)
    }
}

/// The rule of a record. None of one that no controller writes: it would name no resource.
fn rule(record: &AccessControlEntryRecord) -> Option<Rule> {
    Some(Rule {
        kind: Kind::numbered(record.resource_type)?,
        name: record.resource_name.clone(),
        pattern: match record.pattern_type {
            PREFIXED => Pattern::Prefixed,
            _ => Pattern::Literal,
        },
        principal: record.principal.clone(),
        host: record.host.clone(),
        operation: Operation::numbered(record.operation)?,
        permission: match record.permission_type {
            ALLOW => Permission::Allow,
            _ => Permission::Deny,
        },
    })
}
