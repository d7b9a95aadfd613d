//! `esker acl`: rules of who may do what.

mod explain;

use std::collections::BTreeSet;

use clap::{Args, Subcommand};
use client::{Client, PatternFilter, RuleFilter};
use env::Env;
use security::authorize::{Kind, Operation, Pattern, Permission, Rule};
use serde_json::json;

use self::explain::ExplainArgs;
use crate::arguments::Global;
use crate::connect::connect;
use crate::failure::Failure;
use crate::grant;
use crate::table::Table;

#[derive(Args, Debug)]
pub(crate) struct AclArgs {
    #[command(subcommand)]
    pub(crate) verb: AclVerb,
}

#[derive(Debug, Subcommand)]
pub(crate) enum AclVerb {
    /// Allow somebody something, or deny it
    #[command(visible_alias = "create")]
    Add(AddArgs),
    /// List rules: all, or those that the arguments name
    #[command(visible_alias = "ls")]
    List(FilterArgs),
    /// Delete the rules that the arguments name
    #[command(visible_alias = "remove")]
    Delete {
        #[command(flatten)]
        filter: FilterArgs,
        /// Every rule there is
        #[arg(long)]
        all: bool,
    },
    /// Say whether somebody may do something, which rule decides, and what would turn the answer
    Explain(ExplainArgs),
}

/// The resources that rules name.
#[derive(Args, Debug)]
pub(crate) struct Resources {
    #[arg(long, value_name = "NAME")]
    topic: Vec<String>,
    #[arg(long, value_name = "NAME")]
    group: Vec<String>,
    #[arg(long, value_name = "NAME")]
    transactional_id: Vec<String>,
    /// The cluster itself
    #[arg(long)]
    cluster: bool,
    /// Names are those that all names begin with that are meant
    #[arg(long)]
    prefixed: bool,
}

impl Resources {
    /// The kinds and names.
    fn named(&self) -> Vec<(Kind, &str)> {
        let topics = self.topic.iter().map(|name| (Kind::Topic, name.as_str()));
        let groups = self.group.iter().map(|name| (Kind::Group, name.as_str()));
        let ids = self.transactional_id.iter();
        let ids = ids.map(|name| (Kind::TransactionalId, name.as_str()));
        let cluster = self.cluster.then_some((Kind::Cluster, "kafka-cluster"));
        topics.chain(groups).chain(ids).chain(cluster).collect()
    }
}

#[derive(Args, Debug)]
pub(crate) struct AddArgs {
    /// The one whose rights these are: a user's name, or Type:name; User:* is everybody
    #[arg(long, visible_alias = "allow-principal", required = true, value_name = "NAME", value_parser = grant::principal)]
    principal: Vec<String>,
    /// Operations such as Read,Write
    #[arg(long, required = true, value_delimiter = ',', value_name = "LIST", value_parser = grant::operation)]
    operation: Vec<Operation>,
    /// An address or a network such as 10.0.0.0/8 that the rule is for
    #[arg(
        long,
        visible_alias = "allow-host",
        default_value = "*",
        value_name = "ADDRESS"
    )]
    host: Vec<String>,
    /// Deny it, whoever else allows it
    #[arg(long)]
    deny: bool,
    #[command(flatten)]
    resources: Resources,
}

#[derive(Args, Debug)]
pub(crate) struct FilterArgs {
    #[arg(long, value_name = "NAME", value_parser = grant::principal)]
    principal: Option<String>,
    #[arg(long, value_name = "NAME", value_parser = grant::operation)]
    operation: Option<Operation>,
    #[arg(long, value_name = "ADDRESS")]
    host: Option<String>,
    /// Only rules that deny
    #[arg(long)]
    deny: bool,
    /// Not rules of this very name, but all that are about such a resource
    #[arg(long = "match", conflicts_with = "prefixed")]
    matching: bool,
    #[command(flatten)]
    resources: Resources,
}

pub(crate) fn acl(global: &Global, args: &AclArgs) -> Result<(), Failure> {
    match &args.verb {
        AclVerb::Add(args) => {
            let rules = rules(args)?;
            connect(&Env::real(), global)?.create_rules(&rules)?;
            Ok(table(rules).print(global.json)?)
        }
        AclVerb::List(args) => {
            let mut client = connect(&Env::real(), global)?;
            let found = each(&mut client, args, Client::describe_rules)?;
            show(found, "no such rules", global.json)
        }
        AclVerb::Delete { filter, all } => {
            if filters(filter) == [RuleFilter::default()] && !all {
                return Err(Failure::usage("which rules?").hint(
                    "name a --principal, an --operation, a --host or a resource; --all deletes every rule",
                ));
            }
            let mut client = connect(&Env::real(), global)?;
            let gone = each(&mut client, filter, Client::delete_rules)?;
            show(gone, "no such rules", global.json)
        }
        AclVerb::Explain(args) => explain::explain(global, args),
    }
}

fn rules(args: &AddArgs) -> Result<Vec<Rule>, Failure> {
    let named = args.resources.named();
    if named.is_empty() {
        return Err(Failure::usage("a rule is about a resource")
            .hint("name it by --topic, --group, --transactional-id or --cluster"));
    }
    let mut rules = BTreeSet::new();
    for (kind, name) in named {
        if kind == Kind::Topic && name.len() > 1 && name.ends_with('*') {
            let begin = name.trim_end_matches('*');
            return Err(Failure::usage(format!("no topic is called {name}"))
                .hint(format!("all that begin so: --topic {begin} --prefixed")));
        }
        let pattern = match kind {
            Kind::Cluster => Pattern::Literal,
            _ if args.resources.prefixed => Pattern::Prefixed,
            _ => Pattern::Literal,
        };
        for principal in &args.principal {
            for host in &args.host {
                for operation in &args.operation {
                    rules.insert(Rule {
                        kind,
                        name: name.to_owned(),
                        pattern,
                        principal: principal.clone(),
                        host: host.clone(),
                        operation: *operation,
                        permission: permission(args.deny),
                    });
                }
            }
        }
    }
    Ok(rules.into_iter().collect())
}

fn permission(denies: bool) -> Permission {
    if denies {
        Permission::Deny
    } else {
        Permission::Allow
    }
}

/// One filter for each resource, or one for all of them.
fn filters(args: &FilterArgs) -> Vec<RuleFilter> {
    let pattern = match (args.matching, args.resources.prefixed) {
        (true, _) => PatternFilter::Match,
        (false, true) => PatternFilter::Only(Pattern::Prefixed),
        (false, false) => PatternFilter::Any,
    };
    let filter = RuleFilter {
        kind: None,
        name: None,
        pattern,
        principal: args.principal.clone(),
        host: args.host.clone(),
        operation: args.operation,
        permission: args.deny.then_some(Permission::Deny),
    };
    let named = args.resources.named();
    if named.is_empty() {
        return vec![filter];
    }
    let of = |(kind, name): (Kind, &str)| RuleFilter {
        kind: Some(kind),
        name: Some(name.to_owned()),
        pattern: match kind {
            Kind::Cluster => PatternFilter::Any,
            _ => pattern,
        },
        ..filter.clone()
    };
    named.into_iter().map(of).collect()
}

fn each(
    client: &mut Client,
    args: &FilterArgs,
    ask: impl Fn(&mut Client, &RuleFilter) -> Result<Vec<Rule>, client::Error>,
) -> Result<BTreeSet<Rule>, Failure> {
    let mut found = BTreeSet::new();
    for filter in filters(args) {
        found.extend(ask(client, &filter)?);
    }
    Ok(found)
}

fn show(rules: BTreeSet<Rule>, nothing: &str, json: bool) -> Result<(), Failure> {
    if rules.is_empty() && !json {
        env::tell!("{nothing}");
        return Ok(());
    }
    Ok(table(rules).print(json)?)
}

fn permission_word(permission: Permission) -> &'static str {
    match permission {
        Permission::Allow => "allow",
        Permission::Deny => "deny",
    }
}

fn table(rules: impl IntoIterator<Item = Rule>) -> Table {
    let mut table = Table::new(&[
        "principal",
        "host",
        "permission",
        "operation",
        "resource",
        "name",
        "pattern",
    ]);
    for rule in rules {
        let permission = permission_word(rule.permission);
        let pattern = match rule.pattern {
            Pattern::Literal => "literal",
            Pattern::Prefixed => "prefixed",
        };
        table.row([
            json!(rule.principal),
            json!(rule.host),
            json!(permission),
            json!(grant::operation_word(rule.operation)),
            json!(grant::kind_word(rule.kind)),
            json!(rule.name),
            json!(pattern),
        ]);
    }
    table
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;
    use crate::grammar::{Cli, Command};

    fn verb(line: &str) -> AclVerb {
        match Cli::try_parse_from(line.split_whitespace()) {
            Ok(Cli {
                command: Command::Acl(args),
                ..
            }) => args.verb,
            other => panic!("{line}: {other:?}"),
        }
    }

    fn added(line: &str) -> Result<Vec<Rule>, String> {
        match verb(line) {
            AclVerb::Add(args) => rules(&args).map_err(|failure| failure.to_string()),
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn a_line_adds_a_rule_for_each_of_what_it_names() {
        let rules = added(
            "esker acl add --principal alice --principal Group:ops --operation read,describe --topic a --group g --prefixed",
        );
        let rules = rules.expect("two principals, operations and resources");
        assert_eq!(rules.len(), 8);
        assert!(rules.iter().all(|rule| rule.pattern == Pattern::Prefixed));
        assert!(
            rules
                .iter()
                .all(|rule| rule.permission == Permission::Allow)
        );
        let principals: BTreeSet<&str> = rules.iter().map(|rule| &*rule.principal).collect();
        assert_eq!(principals, BTreeSet::from(["User:alice", "Group:ops"]));
        let one = added(
            "esker acl add --principal User:* --operation all --cluster --deny --host 10.0.0.0/8",
        );
        let expected = Rule {
            kind: Kind::Cluster,
            name: "kafka-cluster".to_owned(),
            pattern: Pattern::Literal,
            principal: "User:*".to_owned(),
            host: "10.0.0.0/8".to_owned(),
            operation: Operation::All,
            permission: Permission::Deny,
        };
        assert_eq!(one, Ok(vec![expected]));
        let none = added("esker acl add --principal alice --operation read");
        assert_eq!(none, Err("a rule is about a resource".to_owned()));
    }

    #[test]
    fn a_filter_means_what_is_given_and_anything_else() {
        let of = |line: &str| match verb(line) {
            AclVerb::List(args) => filters(&args),
            other => panic!("{other:?}"),
        };
        assert_eq!(of("esker acl list"), [RuleFilter::default()]);
        let matching = of("esker acl list --topic a --cluster --match --principal alice");
        assert_eq!(matching.len(), 2);
        let (topic, cluster) = (&matching[0], &matching[1]);
        assert_eq!(
            (topic.kind, topic.pattern),
            (Some(Kind::Topic), PatternFilter::Match)
        );
        assert_eq!(
            (cluster.kind, cluster.pattern),
            (Some(Kind::Cluster), PatternFilter::Any)
        );
        assert_eq!(topic.principal.as_deref(), Some("User:alice"));
        let denied = of("esker acl list --deny --group g --prefixed");
        assert_eq!(denied[0].permission, Some(Permission::Deny));
        assert_eq!(denied[0].pattern, PatternFilter::Only(Pattern::Prefixed));
    }

    #[test]
    fn a_deletion_of_everything_is_asked_for_by_its_name() {
        let global = |line: &str| {
            let cli = Cli::try_parse_from(line.split_whitespace()).expect(line);
            match cli.command {
                Command::Acl(args) => acl(&cli.global, &args),
                other => panic!("{other:?}"),
            }
        };
        let refused = global("esker acl delete").expect_err("which?");
        assert_eq!(refused.to_string(), "which rules?");
    }
}
