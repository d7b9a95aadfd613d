//! The way from the global flags to a cluster.

use std::time::Duration;

use client::{Client, Error, Options, Outage, Outages, QuorumInfo};
use env::Env;

use crate::arguments::Global;
use crate::failure::Failure;

/// The cluster that the global flags name.
pub(crate) fn connect(env: &Env, global: &Global) -> Result<Client, Failure> {
    connect_with(env, global, options(global))
}

/// The same, where the time of the flags is one for all that is done there, until records are acknowledged.
pub(crate) fn connect_for_once(env: &Env, global: &Global) -> Result<Client, Failure> {
    let until = Some(env.clock.now().plus(global.timeout()));
    let options = Options {
        until,
        ..options(global)
    };
    connect_with(env, global, options)
}

fn connect_with(env: &Env, global: &Global, options: Options) -> Result<Client, Failure> {
    let began = env.clock.now();
    Client::connect(env, &global.bootstrap, options.clone()).map_err(|error| {
        let spent = env.clock.now().since(began);
        let options = Options {
            timeout: (options.timeout.saturating_sub(spent)).max(CAUSE_WAIT_MIN),
            ..options
        };
        // A broker that waits for its controller ends connections that ask for more.
        let is_silent = matches!(error, Error::Lost { .. } | Error::NoGreeting { .. });
        let quorum = is_silent.then(|| Client::find_quorum(env, &global.bootstrap, options));
        match quorum {
            Some(Err(waiting @ Error::NoController { .. })) => waiting.into(),
            _ => error.into(),
        }
    })
}

/// The quorum, as the first broker that has a controller leads to it.
pub(crate) fn quorum(env: &Env, global: &Global) -> Result<QuorumInfo, Failure> {
    let options = options(global);
    Ok(Client::find_quorum(env, &global.bootstrap, options)?)
}

/// The failure of a verb, with the cause where that is the cluster's: no majority of the voters.
/// The command has taken `spent`.
pub(crate) fn explained(global: &Global, spent: Duration, failure: Failure) -> Failure {
    if !failure.is_outage() {
        return failure;
    }
    let left = global.timeout().saturating_sub(spent);
    let wait = left.clamp(CAUSE_WAIT_MIN, CAUSE_WAIT);
    let options = Options {
        timeout: wait,
        io_timeout: wait,
        ..options(global)
    };
    match Client::find_quorum(&Env::real(), &global.bootstrap, options) {
        Err(cause @ Error::NoController { .. }) => failure.because(&cause),
        _ => failure,
    }
}

/// A broker that knows of no controller says so at once.
const CAUSE_WAIT: Duration = Duration::from_secs(1);
/// The same where the time of the command is over.
const CAUSE_WAIT_MIN: Duration = Duration::from_millis(250);

/// The time and the user of the flags.
pub(crate) fn options(global: &Global) -> Options {
    let defaults = Options::default();
    let settings = &global.settings;
    Options {
        client_id: (settings.client_id.clone()).unwrap_or(defaults.client_id),
        timeout: global.timeout(),
        io_timeout: global.timeout(),
        login: settings.login.clone(),
        ..Options::default()
    }
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
