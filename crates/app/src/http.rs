//! `/metrics`, `/healthz` and `/readyz`: what monitoring asks of a broker, on a thread of its own.
//!
//! Read only and without authentication, so it listens on the loopback unless it is told otherwise. Answers while the broker still
//! starts, so that a probe can see why it has to wait. Takes no turn of a network thread.

use std::net::{SocketAddr, TcpListener};
use std::sync::{Arc, Mutex, PoisonError};

use axum::Router;
use axum::extract::State;
use axum::http::{HeaderMap, StatusCode, header};
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use broker::{Form, Process, Watch};
use config::Broker;
use env::{Env, logs};

use crate::failure::Failure;

const SETTING: &str = "esker.http.listen";
const INDEX: &str = "esker: /metrics /healthz /readyz\n";

/// How far the broker is.
enum Stage {
    Starting,
    Running(Watch),
}

/// The sources of the port's answers; cheap to clone.
#[derive(Clone)]
pub(crate) struct Window(Arc<Mutex<Stage>>);

impl Window {
    fn new() -> Window {
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

    fn readiness(&self) -> Result<String, String> {
        const STARTING: &str = "starting: the log directories are being recovered";
        self.look(|watch| watch.map_or_else(|| Err(STARTING.to_owned()), |watch| watch.readiness()))
    }

    fn page(&self, form: Form) -> Option<String> {
        self.look(|watch| watch.map(|watch| watch.page(form, process())))
    }
}

/// Opens the port that the settings name. A standard port that is taken costs the metrics and not the start.
pub(crate) fn listen(config: &Broker) -> Result<Window, Failure> {
    let window = Window::new();
    let address = config.text(SETTING).unwrap_or_default();
    if address.eq_ignore_ascii_case("off") {
        return Ok(window);
    }
    match serve(&address, window.clone()) {
        Ok(bound) => tracing::info!(
            target: logs::HTTP,
            "metrics and health on http://{bound}/metrics, /healthz, /readyz"
        ),
        Err(error) if config.is_set(SETTING) => {
            return Err(Failure::new(format!("{SETTING}: {address}: {error}")));
        }
        Err(error) => tracing::warn!(
            target: logs::HTTP,
            "no metrics: cannot listen on {address}: {error}; set {SETTING} to another address, or to off"
        ),
    }
    Ok(window)
}

#[allow(clippy::disallowed_methods)] // a socket and a thread of the command, beside the broker
fn serve(address: &str, window: Window) -> std::io::Result<SocketAddr> {
    let listener = TcpListener::bind(address)?;
    listener.set_nonblocking(true)?;
    let bound = listener.local_addr()?;
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()?;
    let pages = Router::new()
        .route("/", get(|| async { INDEX }))
        .route("/metrics", get(metrics))
        .route("/healthz", get(healthz))
        .route("/readyz", get(readyz))
        .with_state(window);
    let run = move || {
        let served = runtime.block_on(async {
            axum::serve(tokio::net::TcpListener::from_std(listener)?, pages).await
        });
        if let Err(error) = served {
            tracing::error!(target: logs::HTTP, "no metrics any more: {error}");
        }
    };
    // Lives as long as the process: nobody waits for it.
    std::thread::Builder::new()
        .name("http".to_owned())
        .spawn(run)?;
    Ok(bound)
}

async fn metrics(State(window): State<Window>, headers: HeaderMap) -> Response {
    let accept = headers
        .get(header::ACCEPT)
        .and_then(|value| value.to_str().ok());
    let form = Form::accepted(accept.unwrap_or_default());
    match window.page(form) {
        Some(page) => ([(header::CONTENT_TYPE, form.content_type())], page).into_response(),
        None => answer(Err("the broker starts".to_owned())),
    }
}

async fn healthz(State(window): State<Window>) -> Response {
    answer(window.health().map(|()| "ok".to_owned()))
}

async fn readyz(State(window): State<Window>) -> Response {
    answer(window.readiness())
}

fn answer(answer: Result<String, String>) -> Response {
    match answer {
        Ok(text) => format!("{text}\n").into_response(),
        Err(why) => (StatusCode::SERVICE_UNAVAILABLE, format!("{why}\n")).into_response(),
    }
}

fn process() -> Process {
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
