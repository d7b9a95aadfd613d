//! The common start of tests in several files: a broker on a machine that is always the same.

use std::sync::Arc;

use crate::broker::Broker;
use crate::layers::{Machine, Overrides};
use crate::settings::{Format, Settings, SettingsError};

pub(crate) const MACHINE: Machine = Machine {
    cores: 4,
    memory_bytes: 8 << 30,
    descriptors: 20_000,
};

pub(crate) fn broker(text: &str) -> Broker {
    broker_on(MACHINE, text).expect("usable")
}

pub(crate) fn broker_on(machine: Machine, text: &str) -> Result<Broker, SettingsError> {
    let mut settings = Settings::default();
    settings.read(text, Format::Properties)?;
    Broker::new(settings, machine)
}

pub(crate) fn overrides(pairs: &[(&str, &str)]) -> Arc<Overrides> {
    let owned = |(name, value): &(&str, &str)| ((*name).to_owned(), (*value).to_owned());
    Arc::new(pairs.iter().map(owned).collect())
}
