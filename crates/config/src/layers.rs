//! Layers of broker settings: this broker's dynamic ones, the cluster's dynamic defaults, the static ones, the built-in ones.
//!
//! Owns which layer wins. Values were checked when they were written; one that does not fit any more (written by a newer
//! version) is passed over for the next layer, so reading never fails.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;

use crate::memory;
use crate::settings::Settings;
use crate::table::{self, Setting, Synonym};
use crate::value::{self, Value};

/// Settings changed while the cluster runs, as the metadata log holds them.
pub type Overrides = BTreeMap<String, String>;

/// Where a value comes from; the numbers are the protocol's.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(i8)]
pub enum Source {
    DynamicTopic = 1,
    DynamicBroker = 2,
    DynamicDefaultBroker = 3,
    StaticBroker = 4,
    Default = 5,
    /// No layer of settings: the level of a logger.
    DynamicBrokerLogger = 6,
    ClientMetrics = 7,
    Group = 8,
}

/// The facts about the machine that a default may depend on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Machine {
    pub cores: usize,
    pub memory_bytes: u64,
    /// Files and sockets that the process may have open.
    pub descriptors: usize,
}

#[derive(Clone, Debug)]
pub(crate) struct Layers {
    pub(crate) own: Arc<Overrides>,
    pub(crate) cluster: Arc<Overrides>,
    pub(crate) fixed: Arc<Settings>,
    pub(crate) machine: Machine,
    /// The absolute paths of `log.dirs`, one by one; empty until they are located.
    pub(crate) located_dirs: Arc<[PathBuf]>,
}

impl Layers {
    const SOURCES: [Source; 4] = [
        Source::DynamicBroker,
        Source::DynamicDefaultBroker,
        Source::StaticBroker,
        Source::Default,
    ];

    fn get(&self, source: Source, name: &str) -> Option<String> {
        match source {
            Source::DynamicTopic
            | Source::DynamicBrokerLogger
            | Source::ClientMetrics
            | Source::Group => None,
            Source::DynamicBroker => self.own.get(name).cloned(),
            Source::DynamicDefaultBroker => self.cluster.get(name).cloned(),
            Source::StaticBroker => self.fixed.get(name).map(str::to_owned),
            Source::Default => self.default(name),
        }
    }

    pub(crate) fn default(&self, name: &str) -> Option<String> {
        match name {
            "num.network.threads" => Some(self.machine.cores.saturating_sub(1).max(1).to_string()),
            // Less than on large machines where there is little memory.
            "esker.hot.tail.bytes" => Some(memory::tail(self.machine.memory_bytes).to_string()),
            "log.cleaner.dedupe.buffer.size" => {
                Some(memory::compaction(self.machine.memory_bytes).to_string())
            }
            name => table::broker_setting(name)?.default.map(str::to_owned),
        }
    }

    /// The winning value of one name.
    pub(crate) fn value(&self, setting: &Setting) -> Option<Value> {
        Self::SOURCES
            .iter()
            .find_map(|source| value::check(setting, &self.get(*source, setting.name)?).ok())
    }

    /// The winning value of a topic's setting: each synonym is asked in all layers before the next one is.
    pub(crate) fn topic_default(&self, synonyms: &[Synonym]) -> Option<Value> {
        let scaled = |synonym: &Synonym| match self.value(table::broker_setting(synonym.name)?)? {
            Value::Number(number) if number < 0 => Some(Value::Number(number)),
            Value::Number(number) => Some(Value::Number(number.saturating_mul(synonym.factor))),
            value => Some(value),
        };
        synonyms.iter().find_map(scaled)
    }

    /// All values found for `names`, the winning layer first. Begins at the first name of the list: a value that only
    /// an older synonym has is not listed, as in Kafka.
    pub(crate) fn chain(&self, names: &[&str]) -> Vec<(String, String, Source)> {
        let Some(first) = names.first() else {
            return Vec::new();
        };
        let all = Self::SOURCES.iter().flat_map(|source| {
            names.iter().filter_map(move |name| {
                self.get(*source, name)
                    .map(|value| ((*name).to_owned(), value, *source))
            })
        });
        all.skip_while(|(name, ..)| name != first).collect()
    }

    /// True if some layer sets `name`, so that its built-in value does not hold.
    pub(crate) fn is_given(&self, name: &str) -> bool {
        let said = Self::SOURCES
            .iter()
            .filter(|source| **source != Source::Default);
        said.into_iter()
            .any(|source| self.get(*source, name).is_some())
    }

    pub(crate) fn number(&self, name: &str) -> Option<i64> {
        match self.value(table::broker_setting(name)?) {
            Some(Value::Number(number)) => Some(number),
            _ => None,
        }
    }

    pub(crate) fn fraction(&self, name: &str) -> Option<f64> {
        match self.value(table::broker_setting(name)?) {
            Some(Value::Double(number)) => Some(number),
            _ => None,
        }
    }

    pub(crate) fn flag(&self, name: &str) -> bool {
        matches!(
            table::broker_setting(name).and_then(|setting| self.value(setting)),
            Some(Value::Boolean(true))
        )
    }

    pub(crate) fn text(&self, name: &str) -> Option<String> {
        match self.value(table::broker_setting(name)?) {
            Some(Value::Text(text)) => Some(text),
            Some(Value::List(items)) => Some(items.join(",")),
            _ => None,
        }
    }
}
