//! Questions of an operator to a running broker: a page of metrics, whether it lives, whether it serves.
//!
//! Reads snapshots and cells; takes no turn of a shard and keeps no broker alive.

use std::sync::Arc;
use std::sync::Weak;
use std::time::Duration;

use super::page::{Form, Page};
use super::sink::Sink;
use super::{readiness, samples};
use crate::meters::lag::History;
use crate::shared::Shared;

/// A shard looks for idle connections every five seconds at least: one that took no turn for so long hangs.
const SILENCE_MAX: Duration = Duration::from_secs(60);

/// What the operating system says of the process.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Process {
    pub resident_bytes: u64,
    pub cpu_seconds: f64,
    pub files_open: u64,
    pub files_max: u64,
    /// Since 1970.
    pub started_seconds: f64,
    pub version: &'static str,
}

pub struct Watch {
    shared: Weak<Shared>,
    history: History,
}

impl Watch {
    pub(crate) fn new(shared: &Arc<Shared>) -> Watch {
        shared.meters.set_watched();
        Watch {
            shared: Arc::downgrade(shared),
            history: History::default(),
        }
    }

    /// The reason why the broker does not serve clients, or what they may miss while it does.
    pub fn readiness(&self) -> Result<String, String> {
        self.shared.upgrade().map_or_else(
            || Err("stopped".to_owned()),
            |shared| readiness::readiness(&shared),
        )
    }

    /// The reason why the process is better started anew: a loop that does not come back.
    pub fn health(&self) -> Result<(), String> {
        let Some(shared) = self.shared.upgrade() else {
            return Ok(());
        };
        let now = shared.env.clock.now();
        let late = (shared.meters.iter().enumerate())
            .filter_map(|(shard, meter)| Some((shard, now.since(meter.turn_at()?))))
            .find(|(_, silence)| SILENCE_MAX < *silence);
        match late {
            Some((shard, silence)) if !shared.lifetime.is_stopping() => Err(format!(
                "network thread {shard} has not come back for {} s",
                silence.as_secs()
            )),
            _ => Ok(()),
        }
    }

    /// Every metric, as a scrape gets it.
    pub fn page(&mut self, form: Form, process: Process) -> String {
        let mut page = Page::new(form);
        self.write(&mut page, process);
        page.finish()
    }

    /// Every metric, in the order of the table; none of a broker that is gone.
    pub fn write(&mut self, sink: &mut impl Sink, process: Process) {
        if let Some(shared) = self.shared.upgrade() {
            samples::write(sink, &shared, &mut self.history, process);
        }
    }
}
