//! Pushes what the broker counts to a collector, each interval anew, on the thread of the HTTP port.
//!
//! A push that fails is not repeated: the next one has all that it had. Never waits for a network thread of the broker.

use std::time::Duration;

use axum::http::{Request, Uri, header};
use bytes::Bytes;
use config::Broker;
use env::{Env, logs};
use http_body_util::{BodyExt, Full, Limited};
use hyper_util::rt::TokioIo;
use model::{Instant, printable};
use opentelemetry_proto::tonic::collector::metrics::v1::ExportMetricsServiceResponse;
use prost::Message;
use tokio::net::TcpStream;
use tokio::task::JoinSet;

use super::export::Export;
use crate::failure::Failure;
use crate::window::{Window, process};

const ENDPOINT: &str = "esker.otlp.endpoint";
const INTERVAL: &str = "esker.otlp.interval.ms";
/// From the connect to the whole answer, as OpenTelemetry's exporters allow; a collector that needs longer misses the push.
const PUSH_TIME_MAX: Duration = Duration::from_secs(10);
/// Of a collector's answer: one sentence and a number; a longer answer is a failed push.
const ANSWER_BYTES_MAX: usize = 64 << 10;
/// Between two lines about pushes that fail: a collector that is away for a day costs 1440 lines.
const COMPLAINT_PAUSE: Duration = Duration::from_secs(60);

/// The place that metrics are pushed to, and how often.
pub(crate) struct Target {
    /// As the setting has it.
    url: String,
    /// Host and port.
    address: String,
    path: String,
    interval: Duration,
    node: i32,
}

impl Target {
    /// The target that the settings name; `None` where nothing is pushed.
    pub(crate) fn of(config: &Broker) -> Result<Option<Target>, Failure> {
        let url = config.text(ENDPOINT).unwrap_or_default();
        if url.is_empty() {
            return Ok(None);
        }
        let wrong = |why: &str| Failure::usage(format!("{ENDPOINT}: {url}: {why}"));
        let uri: Uri = url.parse().map_err(|_| wrong("this is no URL"))?;
        match uri.scheme_str() {
            Some("http") => {}
            Some("https") => {
                return Err(wrong(
                    "pushes go over http only; let a collector on this machine bring them further by TLS",
                ));
            }
            _ => {
                return Err(wrong(
                    "a URL such as http://127.0.0.1:4318/v1/metrics is needed",
                ));
            }
        }
        let host = uri.host().ok_or_else(|| wrong("it names no host"))?;
        let port = uri.port_u16().unwrap_or(80);
        let path = match uri.path_and_query().map_or("/", |path| path.as_str()) {
            "/" => "/v1/metrics",
            path => path,
        };
        let interval = u64::try_from(config.number(INTERVAL).unwrap_or_default()).unwrap_or(0);
        Ok(Some(Target {
            address: format!("{host}:{port}"),
            path: path.to_owned(),
            interval: Duration::from_millis(interval),
            node: config.node_id.0,
            url,
        }))
    }
}

/// Pushes for as long as the process lives.
pub(crate) async fn run(target: Target, window: Window, env: Env) {
    tracing::info!(
        target: logs::HTTP,
        "metrics are pushed to {} every {} ms",
        target.url,
        target.interval.as_millis()
    );
    let mut complaints = Complaints::default();
    let mut ticks = tokio::time::interval(target.interval);
    ticks.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
    loop {
        ticks.tick().await;
        let Some(body) = body(&target, &window, &env) else {
            continue;
        };
        let pushed = tokio::time::timeout(PUSH_TIME_MAX, push(&target, body)).await;
        let outcome = pushed
            .unwrap_or_else(|_| Err(format!("no answer within {} s", PUSH_TIME_MAX.as_secs())));
        if let Some(line) = complaints.on_push(outcome, env.clock.now()) {
            tracing::warn!(target: logs::HTTP, "{}: {line}", target.url);
        }
    }
}

/// `None` while the broker starts.
fn body(target: &Target, window: &Window, env: &Env) -> Option<Bytes> {
    let process = process();
    let now_ms = u64::try_from(env.clock.wall_ms().0).unwrap_or(0);
    let mut export = Export::new(
        (process.started_seconds * 1e9) as u64,
        now_ms.saturating_mul(1_000_000),
    );
    window.write(&mut export, process)?;
    let request = export.finish(target.node, process.version);
    Some(request.encode_to_vec().into())
}

async fn push(target: &Target, body: Bytes) -> Result<(), String> {
    let stream = TcpStream::connect(&target.address)
        .await
        .map_err(|error| format!("cannot connect: {error}"))?;
    let broken = |error: hyper::Error| format!("the connection broke: {error}");
    let (mut sender, connection) = hyper::client::conn::http1::handshake(TokioIo::new(stream))
        .await
        .map_err(broken)?;
    // Ends with this push, however that ends.
    let mut driver = JoinSet::new();
    driver.spawn(connection);
    let request = Request::post(&target.path)
        .header(header::HOST, &target.address)
        .header(header::CONTENT_TYPE, "application/x-protobuf")
        .header(
            header::USER_AGENT,
            concat!("esker/", env!("CARGO_PKG_VERSION")),
        )
        .body(Full::new(body))
        .map_err(|error| error.to_string())?;
    let response = sender.send_request(request).await.map_err(broken)?;
    let status = response.status();
    let answer = Limited::new(response.into_body(), ANSWER_BYTES_MAX)
        .collect()
        .await
        .map_err(|error| format!("its answer cannot be read: {error}"))?
        .to_bytes();
    if !status.is_success() {
        return Err(format!("the collector answers {status}"));
    }
    // What a proxy answers in its place may be no such message; it took the push.
    let partial = ExportMetricsServiceResponse::decode(answer)
        .ok()
        .and_then(|answer| answer.partial_success)
        .filter(|partial| 0 < partial.rejected_data_points);
    partial.map_or(Ok(()), |partial| {
        Err(format!(
            "the collector rejects {} values: {}",
            partial.rejected_data_points,
            printable(&partial.error_message)
        ))
    })
}

/// The pace of lines about pushes: one for the first that fails, then one each minute, and one when they succeed again.
#[derive(Default)]
struct Complaints {
    /// Pushes that failed in a row.
    failed: u64,
    last_line: Option<Instant>,
}

impl Complaints {
    /// The line about a push, where one is due.
    fn on_push(&mut self, outcome: Result<(), String>, now: Instant) -> Option<String> {
        let Err(why) = outcome else {
            let failed = std::mem::take(&mut self.failed);
            let line = format!("metrics are pushed again after {failed} that failed");
            return (0 < failed).then_some(line);
        };
        self.failed += 1;
        let is_due = (self.last_line).is_none_or(|last| COMPLAINT_PAUSE <= now.since(last));
        is_due.then(|| {
            self.last_line = Some(now);
            format!("metrics were not pushed, {} in a row: {why}", self.failed)
        })
    }
}

#[cfg(test)]
mod tests {
    use config::{Machine, Settings};

    use super::*;

    const MACHINE: Machine = Machine {
        cores: 2,
        memory_bytes: 1 << 30,
        descriptors: 1024,
    };

    fn target(url: &str) -> Result<Option<Target>, String> {
        let mut settings = Settings::default();
        settings.put(ENDPOINT, url).unwrap();
        let config = Broker::new(settings, MACHINE).unwrap();
        Target::of(&config).map_err(|failure| failure.to_string())
    }

    #[test]
    fn an_endpoint_is_an_address_and_a_path() {
        assert!(target("").unwrap().is_none());
        for (url, address, path) in [
            (
                "http://10.0.0.7:4318/v1/metrics",
                "10.0.0.7:4318",
                "/v1/metrics",
            ),
            ("http://collector:4318", "collector:4318", "/v1/metrics"),
            ("http://[::1]:9/otlp?tenant=a", "[::1]:9", "/otlp?tenant=a"),
            ("http://collector/", "collector:80", "/v1/metrics"),
        ] {
            let target = target(url).unwrap().unwrap();
            assert_eq!((&*target.address, &*target.path), (address, path), "{url}");
            assert_eq!(target.interval, Duration::from_secs(60));
        }
        for (url, words) in [
            ("https://collector:4318", "http only"),
            ("collector:4318", "is needed"),
            ("grpc://collector:4317", "is needed"),
            ("http://", "no URL"),
        ] {
            let error = target(url).err().unwrap();
            assert!(error.contains(ENDPOINT) && error.contains(words), "{error}");
        }
    }

    #[test]
    fn pushes_that_fail_are_one_line_a_minute() {
        let mut complaints = Complaints::default();
        let at = |seconds| Instant(0).plus(Duration::from_secs(seconds));
        let mut failing = |seconds| complaints.on_push(Err("no route".to_owned()), at(seconds));
        assert!(failing(0).unwrap().ends_with("1 in a row: no route"));
        assert_eq!([failing(1), failing(59)], [None, None]);
        assert!(failing(60).unwrap().contains("4 in a row"));
        let again = complaints.on_push(Ok(()), at(61)).unwrap();
        assert!(again.contains("again after 4"), "{again}");
        assert_eq!(complaints.on_push(Ok(()), at(62)), None);
    }
}
