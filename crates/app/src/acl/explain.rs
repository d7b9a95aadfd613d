//! `esker acl explain`: one question, its answer by the rules of the cluster, and why.
//!
//! Asks for all rules and decides here, by what brokers decide by.

use std::net::{IpAddr, Ipv4Addr};
use std::str::FromStr;

use clap::Args;
use client::{Client, Resource, RuleFilter};
use env::Env;
use security::Principal;
use security::authorize::{
    Change, Explanation, Kind, Operation, Pattern, Permission, Rule, Rules, Why,
};
use serde_json::{Value, json};

use super::permission_word;
use crate::arguments::Global;
use crate::connect::connect;
use crate::failure::Failure;
use crate::grant::{self, Named};
use crate::table::{Table, print_json};

#[derive(Args, Debug)]
pub(crate) struct ExplainArgs {
    /// The one who asks: a user's name, or Type:name
    #[arg(value_parser = principal)]
    principal: Principal,
    /// An operation such as Write
    #[arg(value_parser = grant::operation)]
    operation: Operation,
    /// The resource: topic:orders-1, group:billing, transactional-id:a, or cluster
    #[arg(value_name = "KIND:NAME")]
    resource: Asked,
    /// The address that the question comes from
    #[arg(long, value_name = "ADDRESS", default_value_t = IpAddr::V4(Ipv4Addr::LOCALHOST))]
    from: IpAddr,
}

#[derive(Clone, Debug)]
struct Asked(Named);

impl FromStr for Asked {
    type Err = String;

    fn from_str(text: &str) -> Result<Asked, String> {
        let named = grant::named(text)?;
        // A question is about one name, whatever it ends with.
        let name = match named.pattern {
            Pattern::Prefixed => format!("{}*", named.name),
            Pattern::Literal => named.name,
        };
        Ok(Asked(Named {
            name,
            pattern: Pattern::Literal,
            ..named
        }))
    }
}

fn principal(text: &str) -> Result<Principal, String> {
    let text = grant::principal(text)?;
    text.parse().map_err(|_| "write it as Type:name".to_owned())
}

/// The authorizer, as a broker's settings have it.
struct Authorizer {
    super_users: Vec<Principal>,
    allows_if_no_rule: bool,
}

pub(super) fn explain(global: &Global, args: &ExplainArgs) -> Result<(), Failure> {
    let mut client = connect(&Env::real(), global)?;
    let Some(authorizer) = authorizer(&mut client)? else {
        return Err(Failure::new(
            "this cluster has no authorizer: everybody may do everything",
        )
        .hint(
            "set authorizer.class.name=org.apache.kafka.metadata.authorizer.StandardAuthorizer at each node",
        ));
    };
    let mut rules = Rules::new(
        authorizer.super_users.into_iter().collect(),
        authorizer.allows_if_no_rule,
    );
    for rule in client.describe_rules(&RuleFilter::default())? {
        rules.add(rule);
    }
    let named = &args.resource.0;
    let who = (&args.principal, args.from);
    let explanation = rules.explain(who, args.operation, (named.kind, &named.name));
    match global.json {
        true => Ok(print_json(
            &mut std::io::stdout().lock(),
            &value(&explanation),
        )?),
        false => print(args, &explanation),
    }
}

/// `None` where there is none.
fn authorizer(client: &mut Client) -> Result<Option<Authorizer>, Failure> {
    let Some(broker) = client.brokers().keys().next().copied() else {
        return Err(Failure::new("the cluster names no broker"));
    };
    let settings = client.describe_configs(&Resource::Broker(broker))?;
    let text = |name: &str| {
        let found = settings.iter().find(|setting| setting.name == name);
        found
            .and_then(|setting| setting.value.as_deref())
            .unwrap_or_default()
    };
    if text("authorizer.class.name").is_empty() {
        return Ok(None);
    }
    let super_users = text("super.users").split(';').map(str::trim);
    Ok(Some(Authorizer {
        super_users: super_users.filter_map(|user| user.parse().ok()).collect(),
        allows_if_no_rule: text("allow.everyone.if.no.acl.found") == "true",
    }))
}

fn print(args: &ExplainArgs, explanation: &Explanation<'_>) -> Result<(), Failure> {
    let verdict = &explanation.verdict;
    let named = &args.resource.0;
    let may = if verdict.is_allowed { "may" } else { "may not" };
    let operation = grant::operation_word(args.operation);
    let resource = resource_text(named.kind, &named.name);
    println!(
        "{} {may} {operation} {resource} from {}: {}",
        model::printable(&args.principal.to_string()),
        args.from,
        why(&verdict.why),
    );
    for line in change(&explanation.change) {
        println!("{line}");
    }
    if !explanation.lost.is_empty() {
        println!("\nrules that name it and did not decide:");
        let mut table = Table::new(&["rule", "why_not"]);
        for (rule, lost) in &explanation.lost {
            table.row([json!(rule_text(rule)), json!(lost.to_string())]);
        }
        table.print(false)?;
    }
    Ok(())
}

fn why(why: &Why<'_>) -> String {
    match why {
        Why::SuperUser => "it is in super.users".to_owned(),
        Why::Rule(rule) => format!("the rule `{}` decides", rule_text(rule)),
        Why::NoneAllows => "rules name it, and none of them allows this".to_owned(),
        Why::NoRule => "no rule names it, and allow.everyone.if.no.acl.found decides".to_owned(),
    }
}

/// The lines about what would turn the answer.
fn change(change: &Change) -> Vec<String> {
    match change {
        Change::Rules { remove, add } => {
            let gone = remove.iter().map(|rule| ("delete", rule));
            let steps = gone.chain(add.iter().map(|rule| ("add", rule)));
            let steps = steps
                .map(|(verb, rule)| format!("to turn it: esker acl {verb} {}", arguments(rule)));
            steps.collect()
        }
        Change::NoSuperUser => {
            vec!["to turn it: take it out of super.users, and start the nodes again".to_owned()]
        }
        Change::None => vec!["nothing turns it: no rule is for nodes".to_owned()],
    }
}

/// A rule as the arguments of `esker acl`.
fn arguments(rule: &Rule) -> String {
    let quoted = |text: &str| match text
        .bytes()
        .all(|byte| byte.is_ascii_alphanumeric() || b":._-/".contains(&byte))
    {
        true => text.to_owned(),
        false => format!("'{}'", text.replace('\'', r"'\''")),
    };
    let mut line = format!(
        "--principal {} --operation {}",
        quoted(&rule.principal),
        grant::operation_word(rule.operation),
    );
    if rule.host != "*" {
        line.push_str(&format!(" --host {}", quoted(&rule.host)));
    }
    match rule.kind {
        Kind::Cluster => line.push_str(" --cluster"),
        kind => line.push_str(&format!(
            " --{} {}",
            grant::kind_word(kind),
            quoted(&rule.name)
        )),
    }
    if rule.pattern == Pattern::Prefixed {
        line.push_str(" --prefixed");
    }
    if rule.permission == Permission::Deny {
        line.push_str(" --deny");
    }
    line
}

fn resource_text(kind: Kind, name: &str) -> String {
    match kind {
        Kind::Cluster => "the cluster".to_owned(),
        kind => format!("{} {}", grant::kind_word(kind), model::printable(name)),
    }
}

fn rule_text(rule: &Rule) -> String {
    let (star, note) = match rule.pattern {
        Pattern::Prefixed => ("*", ""),
        // Without the note it would read as a prefix.
        Pattern::Literal if rule.name.len() > 1 && rule.name.ends_with('*') => ("", " (literal)"),
        Pattern::Literal => ("", ""),
    };
    format!(
        "{} {} {} {}{star}{note} from {}",
        permission_word(rule.permission),
        rule.principal,
        grant::operation_word(rule.operation),
        resource_text(rule.kind, &rule.name),
        rule.host,
    )
}

fn value(explanation: &Explanation<'_>) -> Value {
    let rule = |rule: &Rule| json!(rule_text(rule));
    let lost = explanation.lost.iter();
    let lost: Vec<Value> = lost
        .map(|(lost, why_not)| json!({ "rule": rule(lost), "why_not": why_not.to_string() }))
        .collect();
    json!({
        "allowed": explanation.verdict.is_allowed,
        "why": why(&explanation.verdict.why),
        "lost": lost,
        "change": change(&explanation.change),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rule(text: &str, permission: Permission) -> Rule {
        let named = grant::named(text).expect(text);
        Rule {
            kind: named.kind,
            name: named.name,
            pattern: named.pattern,
            principal: "User:alice".to_owned(),
            host: "*".to_owned(),
            operation: Operation::Write,
            permission,
        }
    }

    #[test]
    fn a_change_is_a_command_that_makes_it() {
        let denied = rule("topic:a b*", Permission::Deny);
        let lines = change(&Change::Rules {
            remove: vec![denied],
            add: Some(rule("cluster", Permission::Allow)),
        });
        assert_eq!(
            lines,
            [
                "to turn it: esker acl delete --principal User:alice --operation Write --topic 'a b' --prefixed --deny",
                "to turn it: esker acl add --principal User:alice --operation Write --cluster",
            ]
        );
    }

    #[test]
    fn a_question_is_about_one_name_that_may_end_with_a_star() {
        let asked: Asked = "topic:a*".parse().expect("a topic");
        assert_eq!(
            (asked.0.name.as_str(), asked.0.pattern),
            ("a*", Pattern::Literal)
        );
        assert!("topic".parse::<Asked>().is_err());
        assert_eq!(
            principal("alice").expect("a user").to_string(),
            "User:alice"
        );
    }
}
