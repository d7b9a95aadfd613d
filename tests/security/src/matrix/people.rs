//! The askers, and the rules that are for each: the same at both brokers.
//!
//! Names of resources are few, and the same for topics, groups and transactional ids: `there` is, `absent` is not, `fresh-N` is made
//! for one request or by it, `other` is nobody's but of those who may all, `common` may be read by everybody.

use security::authorize::{Kind, Operation};

pub(crate) struct Person {
    pub(crate) name: &'static str,
    pub(crate) logs_in: bool,
}

const fn named(name: &'static str) -> Person {
    Person {
        name,
        logs_in: true,
    }
}

/// In the order of the table's columns. `nobody` has no rule at all; `node` may act for the cluster, and nothing else.
pub(crate) const PEOPLE: [Person; 10] = [
    named("super"),
    named("owner"),
    named("reader"),
    named("writer"),
    named("denied"),
    named("prefix"),
    named("host"),
    named("nobody"),
    named("node"),
    Person {
        name: "ANONYMOUS",
        logs_in: false,
    },
];

pub(crate) fn password(name: &str) -> String {
    format!("{name}-of-the-matrix")
}

/// One rule as CreateAcls has it.
pub(crate) struct Rule {
    pub(crate) person: &'static str,
    pub(crate) host: &'static str,
    pub(crate) is_allowed: bool,
    pub(crate) operation: Operation,
    pub(crate) kind: Kind,
    pub(crate) is_prefix: bool,
    pub(crate) name: &'static str,
}

const CLUSTER: &str = "kafka-cluster";
const BOTH: [&str; 2] = ["there", "absent"];
/// The kinds that have names.
const NAMED: [Kind; 3] = [Kind::Topic, Kind::Group, Kind::TransactionalId];

pub(crate) fn rules() -> Vec<Rule> {
    let mut all = Vec::new();
    let mut add = |person, host, is_allowed, operation, kind, is_prefix, name| {
        all.push(Rule {
            person,
            host,
            is_allowed,
            operation,
            kind,
            is_prefix,
            name,
        });
    };
    // Everybody, the unnamed as well, may read one topic.
    add(
        "*",
        "*",
        true,
        Operation::Read,
        Kind::Topic,
        false,
        "common",
    );

    for kind in NAMED {
        add("owner", "*", true, Operation::All, kind, false, "*");
        for start in ["ther", "fres"] {
            add("prefix", "*", true, Operation::All, kind, true, start);
        }
    }

    // Describe comes with Read and Write.
    for (person, operations) in [
        (
            "reader",
            [Operation::Read, Operation::Read, Operation::Describe],
        ),
        (
            "writer",
            [Operation::Write, Operation::Describe, Operation::Write],
        ),
    ] {
        for (kind, operation) in NAMED.into_iter().zip(operations) {
            for name in BOTH {
                add(person, "*", true, operation, kind, false, name);
            }
            add(person, "*", true, operation, kind, true, "fresh");
        }
    }

    // May all, but what is denied; a denial of Read does not deny Describe.
    for kind in [Kind::Topic, Kind::Group, Kind::TransactionalId] {
        add("denied", "*", true, Operation::All, kind, false, "*");
    }
    add(
        "denied",
        "*",
        true,
        Operation::All,
        Kind::Cluster,
        false,
        CLUSTER,
    );
    for (kind, operations) in [
        (
            Kind::Topic,
            &[
                Operation::Read,
                Operation::Write,
                Operation::Create,
                Operation::Delete,
                Operation::Alter,
                Operation::AlterConfigs,
            ][..],
        ),
        (
            Kind::Group,
            &[Operation::Read, Operation::Delete, Operation::AlterConfigs],
        ),
        (Kind::TransactionalId, &[Operation::Write]),
    ] {
        for operation in operations {
            for name in BOTH {
                add("denied", "*", false, *operation, kind, false, name);
            }
            add("denied", "*", false, *operation, kind, true, "fresh");
        }
    }
    for operation in [
        Operation::Create,
        Operation::Alter,
        Operation::AlterConfigs,
        Operation::ClusterAction,
        Operation::IdempotentWrite,
    ] {
        add(
            "denied",
            "*",
            false,
            operation,
            Kind::Cluster,
            false,
            CLUSTER,
        );
    }

    // From elsewhere all, or nothing; from here a little.
    for (kind, name) in NAMED
        .map(|kind| (kind, "*"))
        .into_iter()
        .chain([(Kind::Cluster, CLUSTER)])
    {
        add("host", "192.0.2.1", true, Operation::All, kind, false, name);
    }
    add(
        "host",
        "192.0.2.2",
        false,
        Operation::All,
        Kind::Topic,
        false,
        "there",
    );
    add(
        "host",
        "127.0.0.1",
        true,
        Operation::Describe,
        Kind::Topic,
        false,
        "there",
    );
    add(
        "host",
        "127.0.0.1",
        true,
        Operation::Read,
        Kind::Group,
        false,
        "there",
    );
    add(
        "host",
        "127.0.0.1",
        true,
        Operation::Describe,
        Kind::Cluster,
        false,
        CLUSTER,
    );
    add(
        "host",
        "127.0.0.1",
        true,
        Operation::DescribeConfigs,
        Kind::Cluster,
        false,
        CLUSTER,
    );

    add(
        "node",
        "*",
        true,
        Operation::ClusterAction,
        Kind::Cluster,
        false,
        CLUSTER,
    );

    add(
        "ANONYMOUS",
        "*",
        true,
        Operation::Create,
        Kind::Cluster,
        false,
        CLUSTER,
    );
    add(
        "ANONYMOUS",
        "*",
        true,
        Operation::IdempotentWrite,
        Kind::Cluster,
        false,
        CLUSTER,
    );
    add(
        "ANONYMOUS",
        "*",
        true,
        Operation::AlterConfigs,
        Kind::Topic,
        false,
        "there",
    );
    all
}
