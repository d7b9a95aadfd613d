//! The parts of one running broker that several of its threads share. Each thread is handed those that it works with.

mod broker_state;
mod catalog;
mod crowd;
mod doors;
mod lifetime;
mod throttles;
mod volumes;

pub(crate) use broker_state::BrokerState;
pub(crate) use catalog::Catalog;
pub(crate) use doors::Doors;
pub(crate) use lifetime::{EndListener, Lifetime};
pub(crate) use volumes::Volumes;
