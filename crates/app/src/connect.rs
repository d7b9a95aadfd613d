//! The way from the global flags to a cluster.

use client::{Client, Options};
use env::Env;

use crate::arguments::Global;
use crate::failure::Failure;

/// The cluster that the global flags name.
pub(crate) fn connect(env: &Env, global: &Global) -> Result<Client, Failure> {
    let options = Options {
        timeout: global.timeout,
        io_timeout: global.timeout,
        ..Options::default()
    };
    Ok(Client::connect(env, &global.bootstrap, options)?)
}
