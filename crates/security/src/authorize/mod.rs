//! Rules: what a principal may do (KIP-11, KIP-290), by the order of Kafka's `StandardAuthorizer`.

mod explain;
mod hash;
mod host;
mod operations;
mod remembered;
mod rules;

pub use explain::{Change, Explanation, Lost};
pub use host::{Network, NoNetwork};
pub use operations::Operations;
pub use remembered::{REMEMBERED_MAX, Remembered};
pub use rules::{Rules, Verdict, Why};

/// With the numbers of the protocol.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[repr(u8)]
pub enum Operation {
    /// Of a rule alone: every operation.
    All = 2,
    Read = 3,
    Write = 4,
    Create = 5,
    Delete = 6,
    Alter = 7,
    Describe = 8,
    ClusterAction = 9,
    DescribeConfigs = 10,
    AlterConfigs = 11,
    IdempotentWrite = 12,
    CreateTokens = 13,
    DescribeTokens = 14,
    TwoPhaseCommit = 15,
}

impl Operation {
    pub const EVERY: [Operation; 14] = [
        Operation::All,
        Operation::Read,
        Operation::Write,
        Operation::Create,
        Operation::Delete,
        Operation::Alter,
        Operation::Describe,
        Operation::ClusterAction,
        Operation::DescribeConfigs,
        Operation::AlterConfigs,
        Operation::IdempotentWrite,
        Operation::CreateTokens,
        Operation::DescribeTokens,
        Operation::TwoPhaseCommit,
    ];

    #[must_use]
    pub fn numbered(number: i8) -> Option<Operation> {
        Operation::EVERY
            .into_iter()
            .find(|operation| *operation as i8 == number)
    }

    /// True if a rule that allows `self` allows `asked`. One that denies `self` denies nothing but that.
    fn implies(self, asked: Operation) -> bool {
        use Operation::{Alter, AlterConfigs, Delete, Describe, DescribeConfigs, Read, Write};
        match asked {
            Describe => matches!(self, Read | Write | Delete | Alter),
            DescribeConfigs => self == AlterConfigs,
            _ => false,
        }
    }
}

/// The kinds of resources, with the numbers of the protocol.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[repr(u8)]
pub enum Kind {
    Topic = 2,
    Group = 3,
    Cluster = 4,
    TransactionalId = 5,
    DelegationToken = 6,
    User = 7,
}

impl Kind {
    pub const EVERY: [Kind; 6] = [
        Kind::Topic,
        Kind::Group,
        Kind::Cluster,
        Kind::TransactionalId,
        Kind::DelegationToken,
        Kind::User,
    ];

    #[must_use]
    pub fn numbered(number: i8) -> Option<Kind> {
        Kind::EVERY.into_iter().find(|kind| *kind as i8 == number)
    }
}

/// The names that a rule is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Pattern {
    /// One name; `*` is any.
    Literal,
    /// Names that begin so; `*` is no wildcard here.
    Prefixed,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Permission {
    Deny,
    Allow,
}

/// A rule, as `kafka-acls` makes it.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Rule {
    pub kind: Kind,
    pub name: String,
    pub pattern: Pattern,
    /// `User:alice`, or `User:*` for everybody.
    pub principal: String,
    /// An address, a network such as `10.0.0.0/8`, or `*`.
    pub host: String,
    pub operation: Operation,
    pub permission: Permission,
}

#[cfg(test)]
mod tests;
