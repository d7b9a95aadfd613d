//! Arguments that several verbs take: the global flags, `name=value` and numbers of partitions.

use std::path::PathBuf;
use std::time::Duration;

use clap::parser::ValueSource;
use clap::{ArgMatches, Args};

use crate::command_config::{self, CommandConfig};
use crate::failure::Failure;

#[derive(Args, Clone, Debug)]
pub(crate) struct Global {
    /// Broker to ask first, at port 9092 if it names none; several are separated by commas. The path of a node's esker.sock will do as well. ESKER_BOOTSTRAP names another default
    #[arg(
        short = 'b',
        long,
        visible_alias = "bootstrap-server",
        global = true,
        value_name = "HOST:PORT",
        default_value_t = bootstrap()
    )]
    pub(crate) bootstrap: String,
    /// Print JSON instead of text
    #[arg(long, global = true)]
    pub(crate) json: bool,
    /// Give up on an operation after this many seconds [default: 30; readers that follow and pipes wait on]
    #[arg(long, global = true, value_name = "SECONDS", value_parser = seconds)]
    pub(crate) timeout: Option<Duration>,
    /// File of settings as Kafka's tools take it, to log in by security.protocol, sasl.mechanism and sasl.jaas.config
    #[arg(long, global = true, value_name = "FILE")]
    pub(crate) command_config: Option<PathBuf>,
    /// The settings of that file.
    #[arg(skip)]
    pub(crate) settings: CommandConfig,
}

const TIMEOUT_DEFAULT: Duration = Duration::from_secs(30);

impl Global {
    pub(crate) fn timeout(&self) -> Duration {
        self.timeout.unwrap_or(TIMEOUT_DEFAULT)
    }

    /// Adds the settings of the file, if one is named. Brokers that the command line names count before those of the file.
    pub(crate) fn complete(&mut self, matches: &ArgMatches) -> Result<(), Failure> {
        let Some(path) = &self.command_config else {
            return Ok(());
        };
        self.settings = command_config::read(path)?;
        let is_named = matches.value_source("bootstrap") == Some(ValueSource::CommandLine);
        if let (Some(bootstrap), false) = (&self.settings.bootstrap, is_named) {
            self.bootstrap.clone_from(bootstrap);
        }
        Ok(())
    }
}

/// Read here and not by clap, which would name the flag in every usage line as one that is needed.
fn bootstrap() -> String {
    std::env::var("ESKER_BOOTSTRAP").unwrap_or_else(|_| "127.0.0.1:9092".to_owned())
}

/// One of a list of partitions.
pub(crate) fn partition(text: &str) -> Result<i32, String> {
    match text.parse::<i32>() {
        Ok(number) if number >= 0 => Ok(number),
        Ok(_) => Err("partitions are numbered from 0".to_owned()),
        Err(_) => {
            Err("it is not the number of a partition; commas separate several: 0,1".to_owned())
        }
    }
}

pub(crate) fn seconds(text: &str) -> Result<Duration, String> {
    let seconds: f64 = text
        .parse()
        .map_err(|_| format!("`{text}` is not a number of seconds"))?;
    Duration::try_from_secs_f64(seconds).map_err(|_| format!("`{text}` is not a possible duration"))
}

/// `name=value`, as in `--set`, `--config` and `-H`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Pair {
    pub(crate) name: String,
    pub(crate) value: String,
}

impl std::str::FromStr for Pair {
    type Err = String;

    fn from_str(text: &str) -> Result<Pair, String> {
        match text.split_once('=') {
            Some((name, value)) if !name.trim().is_empty() => Ok(Pair {
                name: name.trim().to_owned(),
                value: value.to_owned(),
            }),
            _ => Err(format!("`{text}` is not name=value")),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pair_keeps_further_equal_signs_in_its_value() {
        let pair: Pair = "a=b=c".parse().unwrap();
        assert_eq!(
            pair,
            Pair {
                name: "a".into(),
                value: "b=c".into()
            }
        );
        assert!("=b".parse::<Pair>().is_err());
    }
}
