//! `/metrics`, `/healthz` and `/readyz`: what monitoring asks of a broker, on a thread of its own.
//!
//! Read only and without authentication, so it listens on the loopback unless the settings say otherwise. Answers while the broker
//! still starts, so that a probe can see why it has to wait. Pushes to a collector leave from the same thread. Takes no turn of a
//! network thread.

use std::net::{SocketAddr, TcpListener};

use axum::Router;
use axum::extract::State;
use axum::http::{HeaderMap, StatusCode, header};
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use broker::Form;
use config::Broker;
use env::{Env, logs};

use crate::failure::Failure;
use crate::otlp;
use crate::window::Window;

const SETTING: &str = "esker.http.listen";
/// A broker beside others on one machine takes the next free port, of so many from the standard one on.
const PORTS_TRIED: u16 = 10;
const INDEX: &str = "esker: /metrics /healthz /readyz\n";

/// Opens the port that the settings name, and begins to push where they name a collector. Where the standard port is
/// taken the next free one is used; where none is free that costs the metrics and not the start.
pub(crate) fn open(env: &Env, config: &Broker) -> Result<Window, Failure> {
    let window = Window::new();
    let port = listen(config)?;
    let pushes = otlp::Target::of(config)?;
    if port.is_some() || pushes.is_some() {
        let started = start(port, pushes, window.clone(), env.clone());
        started.map_err(|error| Failure::new(format!("no thread for metrics: {error}")))?;
    }
    Ok(window)
}

fn listen(config: &Broker) -> Result<Option<TcpListener>, Failure> {
    let address = config.text(SETTING).unwrap_or_default();
    if address.eq_ignore_ascii_case("off") {
        return Ok(None);
    }
    let bound = if config.is_set(SETTING) {
        bind(&address)
    } else {
        bind_free(&address)
    };
    match bound {
        Ok((listener, bound)) => {
            tracing::info!(
                target: logs::HTTP,
                "metrics and health on http://{bound}/metrics, /healthz, /readyz"
            );
            Ok(Some(listener))
        }
        Err(error) if config.is_set(SETTING) => {
            Err(Failure::new(format!("{SETTING}: {address}: {error}")))
        }
        Err(error) => {
            tracing::warn!(
                target: logs::HTTP,
                "no metrics: cannot listen on {address}: {error}; set {SETTING} to another address, or to off"
            );
            Ok(None)
        }
    }
}

#[allow(clippy::disallowed_methods)] // a socket of the command, beside the broker
fn bind(address: &str) -> std::io::Result<(TcpListener, SocketAddr)> {
    let listener = TcpListener::bind(address)?;
    listener.set_nonblocking(true)?;
    let bound = listener.local_addr()?;
    Ok((listener, bound))
}

/// The first port from that of `address` on that nobody uses; the error is that of the first.
fn bind_free(address: &str) -> std::io::Result<(TcpListener, SocketAddr)> {
    let first = bind(address);
    let Some((host, port)) = address.rsplit_once(':').filter(|_| first.is_err()) else {
        return first;
    };
    let port: u16 = port.parse().unwrap_or_default();
    let mut next = (1..PORTS_TRIED).filter_map(|more| port.checked_add(more));
    next.find_map(|port| bind(&format!("{host}:{port}")).ok())
        .map_or(first, Ok)
}

#[allow(clippy::disallowed_methods)] // a thread of the command, beside the broker
fn start(
    port: Option<TcpListener>,
    pushes: Option<otlp::Target>,
    window: Window,
    env: Env,
) -> std::io::Result<()> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()?;
    let run = move || {
        runtime.block_on(async {
            if let Some(target) = pushes {
                tokio::spawn(otlp::run(target, window.clone(), env));
            }
            if let Some(listener) = port
                && let Err(error) = serve(listener, window).await
            {
                tracing::error!(target: logs::HTTP, "no metrics any more: {error}");
            }
            // Pushes go on without the port.
            std::future::pending::<()>().await;
        });
    };
    // Lives as long as the process: nobody waits for it.
    std::thread::Builder::new()
        .name("http".to_owned())
        .spawn(run)?;
    Ok(())
}

async fn serve(listener: TcpListener, window: Window) -> std::io::Result<()> {
    let pages = Router::new()
        .route("/", get(|| async { INDEX }))
        .route("/metrics", get(metrics))
        .route("/healthz", get(healthz))
        .route("/readyz", get(readyz))
        .with_state(window);
    axum::serve(tokio::net::TcpListener::from_std(listener)?, pages).await
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_broker_beside_another_one_takes_the_next_free_port() {
        let (_taken, at) = bind("127.0.0.1:0").unwrap();
        let (_other, next) = bind_free(&at.to_string()).unwrap();
        assert!(
            at.port() < next.port() && next.port() < at.port() + PORTS_TRIED,
            "{at} {next}"
        );
    }
}
