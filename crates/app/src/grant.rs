//! Words for rights: operations, kinds of resources, principals. Those of Kafka's tools, however their letters are typed.

use std::str::FromStr;

use security::authorize::{Kind, Operation, Pattern, Permission, Rule};

/// The only name of the resource that is the cluster.
const CLUSTER: &str = "kafka-cluster";
const ANY: &str = "*";

const OPERATIONS: [(&str, Operation); 14] = [
    ("All", Operation::All),
    ("Read", Operation::Read),
    ("Write", Operation::Write),
    ("Create", Operation::Create),
    ("Delete", Operation::Delete),
    ("Alter", Operation::Alter),
    ("Describe", Operation::Describe),
    ("ClusterAction", Operation::ClusterAction),
    ("DescribeConfigs", Operation::DescribeConfigs),
    ("AlterConfigs", Operation::AlterConfigs),
    ("IdempotentWrite", Operation::IdempotentWrite),
    ("CreateTokens", Operation::CreateTokens),
    ("DescribeTokens", Operation::DescribeTokens),
    ("TwoPhaseCommit", Operation::TwoPhaseCommit),
];

const KINDS: [(&str, Kind); 6] = [
    ("topic", Kind::Topic),
    ("group", Kind::Group),
    ("cluster", Kind::Cluster),
    ("transactional-id", Kind::TransactionalId),
    ("delegation-token", Kind::DelegationToken),
    ("user", Kind::User),
];

/// The same word but for capitals, hyphens and underscores.
fn is_same(one: &str, other: &str) -> bool {
    let plain = |text: &str| -> String {
        let letters = text.chars().filter(|letter| !matches!(letter, '-' | '_'));
        letters.map(|letter| letter.to_ascii_lowercase()).collect()
    };
    plain(one) == plain(other)
}

fn find<T: Copy>(words: &[(&'static str, T)], text: &str) -> Result<T, String> {
    let found = words.iter().find(|(word, _)| is_same(word, text));
    found.map(|(_, meaning)| *meaning).ok_or_else(|| {
        let words: Vec<&str> = words.iter().map(|(word, _)| *word).collect();
        format!("`{text}` is none of: {}", words.join(", "))
    })
}

fn word_of<T: PartialEq>(words: &[(&'static str, T)], meaning: &T) -> &'static str {
    let found = words.iter().find(|(_, own)| own == meaning);
    found.map_or("?", |(word, _)| word)
}

pub(crate) fn operation(text: &str) -> Result<Operation, String> {
    find(&OPERATIONS, text)
}

pub(crate) fn operation_word(operation: Operation) -> &'static str {
    word_of(&OPERATIONS, &operation)
}

pub(crate) fn kind_word(kind: Kind) -> &'static str {
    word_of(&KINDS, &kind)
}

/// A name without a type is that of a user.
pub(crate) fn principal(text: &str) -> Result<String, String> {
    match text.split_once(':') {
        None if !text.is_empty() => Ok(format!("User:{text}")),
        Some((kind, name)) if !kind.is_empty() && !name.is_empty() => Ok(text.to_owned()),
        _ => Err("write it as a name, or as Type:name".to_owned()),
    }
}

/// A resource that a rule names.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Named {
    pub(crate) kind: Kind,
    pub(crate) name: String,
    pub(crate) pattern: Pattern,
}

impl Named {
    pub(crate) fn cluster() -> Named {
        Named {
            kind: Kind::Cluster,
            name: CLUSTER.to_owned(),
            pattern: Pattern::Literal,
        }
    }

    /// A name that ends with a star stands for all that begin so.
    pub(crate) fn starred(kind: Kind, text: &str) -> Named {
        let prefix = text.strip_suffix(ANY).filter(|prefix| !prefix.is_empty());
        Named {
            kind,
            name: prefix.unwrap_or(text).to_owned(),
            pattern: match prefix {
                Some(_) => Pattern::Prefixed,
                None => Pattern::Literal,
            },
        }
    }
}

/// The rights that somebody is to have, as `read,write:topic:orders-*` says it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Grant {
    operations: Vec<Operation>,
    named: Named,
}

impl Grant {
    /// The rules for a principal from any host.
    pub(crate) fn rules(&self, principal: String) -> impl Iterator<Item = Rule> {
        self.operations.iter().map(move |operation| Rule {
            kind: self.named.kind,
            name: self.named.name.clone(),
            pattern: self.named.pattern,
            principal: principal.clone(),
            host: ANY.to_owned(),
            operation: *operation,
            permission: Permission::Allow,
        })
    }
}

impl FromStr for Grant {
    type Err = String;

    fn from_str(text: &str) -> Result<Grant, String> {
        let (operations, resource) = text.split_once(':').unwrap_or((text, ""));
        let operations = operations.split(',').map(operation);
        let operations = operations.collect::<Result<Vec<Operation>, String>>()?;
        let named = named(resource)?;
        Ok(Grant { operations, named })
    }
}

/// A resource as `topic:orders-*` says it.
pub(crate) fn named(text: &str) -> Result<Named, String> {
    let (kind, name) = match text.split_once(':') {
        Some((kind, name)) => (kind, Some(name)),
        None => (text, None),
    };
    match (find(&KINDS, kind)?, name) {
        (Kind::Cluster, None | Some(CLUSTER)) => Ok(Named::cluster()),
        (Kind::Cluster, Some(_)) => {
            Err("there is one cluster: write cluster without a name".to_owned())
        }
        (kind, Some(name)) if !name.is_empty() => Ok(Named::starred(kind, name)),
        (kind, _) => {
            let kind = kind_word(kind);
            Err(format!("it names no {kind}: write {kind}:NAME"))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_operation_and_every_kind_has_a_word() {
        for operation in Operation::EVERY {
            assert_eq!(super::operation(operation_word(operation)), Ok(operation));
        }
        for kind in Kind::EVERY {
            assert_eq!(find(&KINDS, kind_word(kind)), Ok(kind));
        }
        assert_eq!(
            operation("describe_configs"),
            Ok(Operation::DescribeConfigs)
        );
        let error = operation("any").expect_err("of a filter alone");
        assert!(error.starts_with("`any` is none of: All, Read,"), "{error}");
    }

    #[test]
    fn a_grant_says_operations_a_kind_and_a_name() {
        let rules = |text: &str| {
            let grant: Grant = text.parse()?;
            let rules = grant.rules("User:alice".to_owned());
            let rules = rules.map(|rule| (rule.operation, rule.kind, rule.name, rule.pattern));
            Ok::<_, String>(rules.collect::<Vec<_>>())
        };
        let of = |operation, kind, name: &str, pattern| (operation, kind, name.to_owned(), pattern);
        let (literal, prefixed) = (Pattern::Literal, Pattern::Prefixed);
        assert_eq!(
            rules("write,describe:topic:orders-*"),
            Ok(vec![
                of(Operation::Write, Kind::Topic, "orders-", prefixed),
                of(Operation::Describe, Kind::Topic, "orders-", prefixed),
            ])
        );
        let all = of(Operation::Read, Kind::Group, "*", literal);
        assert_eq!(rules("read:group:*"), Ok(vec![all]));
        let named = of(Operation::Write, Kind::TransactionalId, "a:b", literal);
        assert_eq!(rules("Write:TransactionalId:a:b"), Ok(vec![named]));
        let cluster = of(Operation::Alter, Kind::Cluster, CLUSTER, literal);
        assert_eq!(rules("alter:cluster"), Ok(vec![cluster]));
        for text in [
            "",
            "read",
            "read:topic",
            "read:topic:",
            "fly:topic:a",
            "alter:cluster:a",
        ] {
            assert!(rules(text).is_err(), "{text}");
        }
    }

    #[test]
    fn a_name_alone_is_a_user() {
        assert_eq!(principal("alice"), Ok("User:alice".to_owned()));
        assert_eq!(principal("User:*"), Ok("User:*".to_owned()));
        assert_eq!(principal("Group:a:b"), Ok("Group:a:b".to_owned()));
        assert!(principal("").is_err() && principal(":a").is_err() && principal("User:").is_err());
    }
}
