//! `sasl.jaas.config`: one login module with its options, in the form that Kafka reads (`JaasConfig`, Java's `StreamTokenizer`).
//!
//! Owns the syntax and the two modules that there are. Refuses others, and texts that a JVM would read in another way than their writer
//! meant: a quotation that does not end, options without a value. No error repeats a value or the name of an option, since a text with a
//! quotation mark too few has passwords in odd places.

mod words;

use std::collections::BTreeMap;

use zeroize::Zeroizing;

use crate::login::Mechanism;
use crate::secret::Secret;
use words::{Word, Words};

/// A prefix of options: `user_alice="secret"` lets alice in by PLAIN.
const USER: &str = "user_";

/// The modules that stand for what is built in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Module {
    Plain,
    Scram,
}

/// One entry.
#[derive(Clone)]
pub struct Entry {
    pub module: Module,
    /// The name by which this end logs in somewhere else.
    pub username: Option<String>,
    pub password: Option<Secret<Vec<u8>>>,
    /// The name is the id of a delegation token (`tokenauth`).
    pub is_token: bool,
    /// Those who may log in here by PLAIN, with their passwords.
    pub users: BTreeMap<String, Secret<Vec<u8>>>,
}

/// The text is none that names users.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NoEntry {
    #[error("names no login module")]
    Empty,
    #[error("has a quotation that does not end")]
    Quotation,
    #[error("has a sign that belongs to no word: quote the value that it is in")]
    Sign,
    #[error("says nothing after the login module: required is needed")]
    NoFlag,
    #[error(
        "has another word after the login module than required, requisite, sufficient or optional"
    )]
    Flag,
    #[error("has no name for option {0}")]
    Name(usize),
    #[error("has no value for option {0}: write it as name=\"value\"")]
    Value(usize),
    #[error("does not end with a semicolon")]
    Semicolon,
    #[error("has more than one login module, and one is allowed")]
    Several,
    #[error("names the login module {0}, which is not built in: {plain} and {scram} are", plain = Module::Plain.class(), scram = Module::Scram.class())]
    Module(String),
}

impl Module {
    const EVERY: [Module; 2] = [Module::Plain, Module::Scram];

    /// The name of Kafka's class.
    #[must_use]
    pub const fn class(self) -> &'static str {
        match self {
            Module::Plain => "org.apache.kafka.common.security.plain.PlainLoginModule",
            Module::Scram => "org.apache.kafka.common.security.scram.ScramLoginModule",
        }
    }

    /// The module of a mechanism.
    #[must_use]
    pub const fn of(mechanism: Mechanism) -> Module {
        match mechanism {
            Mechanism::Plain => Module::Plain,
            Mechanism::Scram(_) => Module::Scram,
        }
    }
}

/// Reads a text with one entry.
pub fn parse(text: &str) -> Result<Entry, NoEntry> {
    let mut words = Words::new(text);
    let class = match words.next()? {
        Some(Word::Text(class)) => class,
        None => return Err(NoEntry::Empty),
        Some(_) => return Err(NoEntry::Sign),
    };
    match words.next()? {
        Some(Word::Text(flag)) if is_flag(&flag) => {}
        Some(Word::Text(_)) => return Err(NoEntry::Flag),
        Some(Word::Equals | Word::Semicolon) | None => return Err(NoEntry::NoFlag),
    }
    let options = options(&mut words)?;
    if words.next()?.is_some() {
        return Err(NoEntry::Several);
    }
    let mut modules = Module::EVERY.into_iter();
    let module = modules.find(|module| module.class() == *class);
    let module = module.ok_or_else(|| NoEntry::Module(class.chars().take(128).collect()))?;
    Ok(entry(module, options))
}

type Options = BTreeMap<String, Zeroizing<String>>;

/// Those up to the semicolon. Of two with the same name the later one counts.
fn options(words: &mut Words<'_>) -> Result<Options, NoEntry> {
    let mut options = Options::new();
    for number in 1.. {
        let name = match words.next()? {
            Some(Word::Text(name)) => name,
            Some(Word::Semicolon) => break,
            Some(Word::Equals) => return Err(NoEntry::Name(number)),
            None => return Err(NoEntry::Semicolon),
        };
        match words.next()? {
            Some(Word::Equals) => {}
            Some(Word::Text(_) | Word::Semicolon) => return Err(NoEntry::Value(number)),
            None => return Err(NoEntry::Semicolon),
        }
        match words.next()? {
            Some(Word::Text(value)) => options.insert(name.to_string(), value),
            Some(Word::Equals | Word::Semicolon) | None => return Err(NoEntry::Value(number)),
        };
    }
    Ok(options)
}

/// The options that a module knows; others are passed over, as in Kafka.
fn entry(module: Module, mut options: Options) -> Entry {
    let secret = |text: &Zeroizing<String>| Secret::new(text.as_bytes().to_vec());
    let username = options.remove("username").map(|name| name.to_string());
    let password = options.remove("password").as_ref().map(secret);
    let token = options.remove("tokenauth");
    let is_token = token.is_some_and(|token| token.eq_ignore_ascii_case("true"));
    let of_users = options.iter().filter(|_| module == Module::Plain);
    let users = of_users
        .filter_map(|(name, value)| Some((name.strip_prefix(USER)?.to_owned(), secret(value))))
        .collect();
    Entry {
        module,
        username,
        password,
        is_token: is_token && module == Module::Scram,
        users,
    }
}

fn is_flag(word: &str) -> bool {
    ["required", "requisite", "sufficient", "optional"]
        .iter()
        .any(|flag| word.eq_ignore_ascii_case(flag))
}

#[cfg(test)]
mod tests;
