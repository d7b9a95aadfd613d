//! The way from the global flags to a cluster.

use client::{Client, Options, Outage, Outages};
use env::Env;

use crate::arguments::Global;
use crate::failure::Failure;

/// The cluster that the global flags name.
pub(crate) fn connect(env: &Env, global: &Global) -> Result<Client, Failure> {
    let options = Options {
        timeout: global.timeout(),
        io_timeout: global.timeout(),
        ..Options::default()
    };
    Ok(Client::connect(env, &global.bootstrap, options)?)
}

/// A verb that runs until it is stopped waits while brokers are away, unless a time was asked for.
pub(crate) fn outages(global: &Global) -> Outages {
    match global.timeout {
        Some(_) => Outages::Bounded,
        None => Outages::Outlived(report),
    }
}

fn report(outage: Outage<'_>) {
    match outage {
        Outage::Began(error) => env::tell!("{error}; trying again until it is back"),
        Outage::Over(time) => env::tell!("back after {:.0} s", time.as_secs_f64()),
    }
}
