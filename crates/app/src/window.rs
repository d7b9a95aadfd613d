//! The view of a running broker that monitoring has: pages, pushes and the watchdog look through the same window.
//!
//! There is one before the broker runs, which then says that it starts.

use std::sync::{Arc, Mutex, PoisonError};

use broker::metrics::Sink;
use broker::{Form, Process, Watch};
use env::Env;

/// How far the broker is.
enum Stage {
    Starting,
    Running(Watch),
}

/// The sources of the port's answers; cheap to clone.
#[derive(Clone)]
pub(crate) struct Window(Arc<Mutex<Stage>>);

impl Window {
    pub(crate) fn new() -> Window {
        Window(Arc::new(Mutex::new(Stage::Starting)))
    }

    /// The broker runs: from here on it answers.
    pub(crate) fn open(&self, watch: Watch) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = Stage::Running(watch);
    }

    fn look<T>(&self, look: impl FnOnce(Option<&mut Watch>) -> T) -> T {
        let mut stage = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        match &mut *stage {
            Stage::Starting => look(None),
            Stage::Running(watch) => look(Some(watch)),
        }
    }

    /// The reason why the process is better started anew.
    pub(crate) fn health(&self) -> Result<(), String> {
        self.look(|watch| watch.map_or(Ok(()), |watch| watch.health()))
    }

    pub(crate) fn readiness(&self) -> Result<String, String> {
        const STARTING: &str = "starting: the log directories are being recovered, or a new node looks for its cluster; the log says which";
        self.look(|watch| watch.map_or_else(|| Err(STARTING.to_owned()), |watch| watch.readiness()))
    }

    pub(crate) fn page(&self, form: Form) -> Option<String> {
        self.look(|watch| watch.map(|watch| watch.page(form, process())))
    }

    /// Writes every metric; `None` while the broker starts.
    pub(crate) fn write(&self, sink: &mut impl Sink, process: Process) -> Option<()> {
        self.look(|watch| watch.map(|watch| watch.write(sink, process)))
    }
}

pub(crate) fn process() -> Process {
    let usage = Env::process_use();
    Process {
        resident_bytes: usage.resident_bytes,
        cpu_seconds: usage.cpu_seconds,
        files_open: usage.files_open,
        files_max: Env::descriptors() as u64,
        started_seconds: usage.started_seconds,
        version: env!("CARGO_PKG_VERSION"),
    }
}
