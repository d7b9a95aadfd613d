//! `esker user`: users with passwords, and what they may do.
//!
//! A password is never an argument: the list of processes shows those to everybody.

use std::path::PathBuf;

use clap::{Args, Subcommand};
use client::{Client, RuleFilter};
use env::Env;
use security::Secret;
use security::authorize::Rule;
use serde_json::json;

use crate::arguments::Global;
use crate::connect::connect;
use crate::failure::Failure;
use crate::grant::Grant;
use crate::password::{self, Properties};
use crate::table::Table;

#[derive(Args, Debug)]
pub(crate) struct UserArgs {
    #[command(subcommand)]
    pub(crate) verb: UserVerb,
}

#[derive(Debug, Subcommand)]
pub(crate) enum UserVerb {
    /// Add a user, with a password that is printed once unless it is given
    #[command(visible_alias = "create")]
    Add {
        #[arg(value_parser = name)]
        user: String,
        /// Allow it something, such as write:topic:orders-* or read:group:billing
        #[arg(long, value_name = "OPERATIONS:KIND:NAME")]
        allow: Vec<Grant>,
        #[command(flatten)]
        password: PasswordArgs,
    },
    /// List users and the mechanisms that they log in by
    #[command(visible_alias = "ls")]
    List,
    /// Delete users, and the rules that are theirs alone
    #[command(visible_alias = "remove")]
    Delete {
        #[arg(value_parser = name, required = true, value_name = "USER")]
        users: Vec<String>,
        /// Leave their rules
        #[arg(long)]
        keep_rules: bool,
    },
    /// Give a user another password
    #[command(visible_alias = "password")]
    Passwd {
        #[arg(value_parser = name)]
        user: String,
        #[command(flatten)]
        password: PasswordArgs,
    },
}

/// Where a password comes from; it is made by chance where nothing is said.
#[derive(Args, Debug)]
pub(crate) struct PasswordArgs {
    /// Ask for the password at the terminal
    #[arg(long, conflicts_with = "password_file")]
    ask: bool,
    /// The first line of this file is the password; /dev/stdin and /dev/fd/3 are files, too
    #[arg(long, value_name = "FILE")]
    password_file: Option<PathBuf>,
    /// Write what --command-config and Kafka's tools log in with to this file, and print no password
    #[arg(long, value_name = "FILE")]
    properties: Option<PathBuf>,
}

fn name(text: &str) -> Result<String, String> {
    match text.split_once(':') {
        _ if text.is_empty() => Err("a user has a name".to_owned()),
        _ if text.ends_with('*') && text.trim_start_matches("User:") == "*" => {
            Err("* stands for everybody in rules, and is the name of no user".to_owned())
        }
        Some(("User", name)) if !name.is_empty() => Ok(name.to_owned()),
        _ => Ok(text.to_owned()),
    }
}

pub(crate) fn user(global: &Global, args: &UserArgs) -> Result<(), Failure> {
    let env = Env::real();
    match &args.verb {
        UserVerb::Add {
            user,
            allow,
            password,
        } => {
            let chosen = Chosen::new(&env, user, password)?;
            add(&mut connect(&env, global)?, user, allow, &chosen.password)?;
            chosen.tell(user, global.json)
        }
        UserVerb::List => list(&mut connect(&env, global)?, global.json),
        UserVerb::Delete { users, keep_rules } => {
            let mut client = connect(&env, global)?;
            let deleted = |user: &String| delete(&mut client, user, *keep_rules).err();
            Failure::all(users.iter().filter_map(deleted).collect())
        }
        UserVerb::Passwd { user, password } => {
            let chosen = Chosen::new(&env, user, password)?;
            let mut client = connect(&env, global)?;
            if !is_known(&mut client, user)? {
                let failure = Failure::new(format!("there is no user {user}"));
                return Err(failure.hint(format!("add it: esker user add {user}")));
            }
            client.set_password(user, &chosen.password)?;
            chosen.tell(user, global.json)
        }
    }
}

/// A password, and how somebody gets to know it.
struct Chosen {
    password: Secret<Vec<u8>>,
    /// It was made here, and nobody knows it yet.
    is_made: bool,
    properties: Option<Properties>,
}

impl Chosen {
    /// Writes the file before anything is changed: a password that cannot be kept is none.
    fn new(env: &Env, user: &str, args: &PasswordArgs) -> Result<Chosen, Failure> {
        let (password, is_made) = match &args.password_file {
            Some(path) => (password::read(path)?, false),
            None if args.ask => (password::ask()?, false),
            None => (password::made(env), true),
        };
        let write = |path: &PathBuf| Properties::write(path, user, &password);
        let properties = args.properties.as_ref().map(write).transpose()?;
        Ok(Chosen {
            password,
            is_made,
            properties,
        })
    }

    /// The cluster has taken the password. One that was made here is shown, unless the file has it: nobody can be told later.
    fn tell(self, user: &str, json: bool) -> Result<(), Failure> {
        let is_shown = self.is_made && self.properties.is_none();
        let shown = is_shown.then(|| String::from_utf8_lossy(self.password.expose()).into_owned());
        let mut table = Table::new(&["user", "password", "properties"]);
        let kept = self.properties.map(Properties::keep).transpose()?;
        let kept = kept.map(|path| path.display().to_string());
        table.row([json!(user), json!(shown), json!(kept)]);
        Ok(table.print(json)?)
    }
}

fn is_known(client: &mut Client, user: &str) -> Result<bool, Failure> {
    let known = client.describe_users(&[])?;
    Ok(known.iter().any(|known| known.name == *user))
}

/// Rules come first: where there can be none, there is no user who could do nothing.
fn add(
    client: &mut Client,
    user: &str,
    allow: &[Grant],
    password: &Secret<Vec<u8>>,
) -> Result<(), Failure> {
    if is_known(client, user)? {
        let failure = Failure::new(format!("there is a user {user} already"));
        return Err(failure.hint(format!(
            "give it another password: esker user passwd {user}"
        )));
    }
    let rules: Vec<Rule> = allow
        .iter()
        .flat_map(|grant| grant.rules(principal(user)))
        .collect();
    if !rules.is_empty() {
        client.create_rules(&rules)?;
    }
    Ok(client.set_password(user, password)?)
}

fn principal(user: &str) -> String {
    format!("User:{user}")
}

fn delete(client: &mut Client, user: &str, keeps_rules: bool) -> Result<(), Failure> {
    client.delete_user(user)?;
    if keeps_rules {
        return Ok(());
    }
    let own = RuleFilter {
        principal: Some(principal(user)),
        ..RuleFilter::default()
    };
    match client.delete_rules(&own) {
        // Without an authorizer there are no rules.
        Err(client::Error::Refused {
            code: wire::ErrorCode::SecurityDisabled,
            ..
        }) => Ok(()),
        other => Ok(other.map(drop)?),
    }
}

fn list(client: &mut Client, json: bool) -> Result<(), Failure> {
    let mut table = Table::new(&["user", "mechanisms", "iterations"]);
    for user in client.describe_users(&[])? {
        let mechanisms = user.mechanisms.iter().map(|(hash, _)| hash.mechanism());
        let iterations = user.mechanisms.iter().map(|(_, iterations)| *iterations);
        table.row([
            json!(user.name),
            json!(mechanisms.collect::<Vec<_>>()),
            json!(iterations.collect::<Vec<_>>()),
        ]);
    }
    if table.is_empty() && !json {
        env::tell!("no users");
        return Ok(());
    }
    Ok(table.print(json)?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_user_is_named_with_and_without_its_type() {
        assert_eq!(name("alice"), Ok("alice".to_owned()));
        assert_eq!(name("User:alice"), Ok("alice".to_owned()));
        assert_eq!(name("CN=a:b"), Ok("CN=a:b".to_owned()));
        assert!(name("").is_err());
    }
}
