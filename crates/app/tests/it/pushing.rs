//! Metrics pushed to a collector, which this test is.

#![allow(clippy::disallowed_methods)] // a peer of the broker, not a part of it

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpListener;

use broker::metrics::{Kind, METRICS};
use opentelemetry_proto::tonic::collector::metrics::v1::{
    ExportMetricsPartialSuccess, ExportMetricsServiceRequest, ExportMetricsServiceResponse,
};
use opentelemetry_proto::tonic::common::v1::{KeyValue, any_value};
use opentelemetry_proto::tonic::metrics::v1::{AggregationTemporality, Metric, metric};
use prost::Message;

use crate::broker::{Broker, Dir, esker, failure};

/// One request of a push, read whole and answered.
fn take(collector: &TcpListener, status: &str, answer: &[u8]) -> (Vec<String>, Vec<u8>) {
    let (mut stream, _) = collector.accept().unwrap();
    let mut reader = BufReader::new(stream.try_clone().unwrap());
    let mut head = Vec::new();
    loop {
        let mut line = String::new();
        reader.read_line(&mut line).unwrap();
        match line.trim_end() {
            "" => break,
            line => head.push(line.to_owned()),
        }
    }
    let len = head.iter().find_map(|line| {
        line.to_lowercase()
            .strip_prefix("content-length: ")?
            .parse()
            .ok()
    });
    let mut body = vec![0; len.unwrap()];
    reader.read_exact(&mut body).unwrap();
    write!(
        stream,
        "HTTP/1.1 {status}\r\nContent-Type: application/x-protobuf\r\nContent-Length: {}\r\n\r\n",
        answer.len()
    )
    .unwrap();
    stream.write_all(answer).unwrap();
    (head, body)
}

fn texts(attributes: &[KeyValue]) -> BTreeMap<String, String> {
    let text = |pair: &KeyValue| match &pair.value.as_ref().unwrap().value {
        Some(any_value::Value::StringValue(text)) => (pair.key.clone(), text.clone()),
        other => panic!("{other:?}"),
    };
    attributes.iter().map(text).collect()
}

/// Kind, temporality and unit of a metric of ours.
fn check_form(sent: &Metric) {
    let of = METRICS.iter().find(|metric| metric.name == sent.name);
    let of = of.unwrap_or_else(|| panic!("{} is not in the table", sent.name));
    const CUMULATIVE: i32 = AggregationTemporality::Cumulative as i32;
    match (of.kind, sent.data.as_ref().unwrap()) {
        (Kind::Gauge, metric::Data::Gauge(_)) => {}
        (Kind::Counter, metric::Data::Sum(sum)) => {
            assert!(sum.is_monotonic && sum.aggregation_temporality == CUMULATIVE);
            let is_since = |since: u64, at: u64| 0 < since && since < at;
            for point in &sum.data_points {
                assert!(is_since(point.start_time_unix_nano, point.time_unix_nano));
            }
        }
        (Kind::Histogram, metric::Data::Histogram(histogram)) => {
            assert_eq!(histogram.aggregation_temporality, CUMULATIVE);
            for point in &histogram.data_points {
                assert_eq!(point.bucket_counts.len(), point.explicit_bounds.len() + 1);
                assert_eq!(point.bucket_counts.iter().sum::<u64>(), point.count);
            }
        }
        (kind, data) => panic!("{} is a {kind:?} and sent as {data:?}", of.name),
    }
    let unit = match of.unit() {
        "bytes" => "By",
        "seconds" => "s",
        _ => "",
    };
    assert_eq!((&*sent.description, &*sent.unit), (of.help, unit));
}

#[test]
fn a_collector_gets_the_metrics_of_the_table() {
    let collector = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!(
        "esker.otlp.endpoint=http://{}/v1/metrics",
        collector.local_addr().unwrap()
    );
    let dir = Dir::new();
    let set = [
        "--set",
        &url,
        "--set",
        "esker.otlp.interval.ms=100",
        "--set",
        "node.id=7",
    ];
    let broker = Broker::start(&dir.0, &set);
    broker.ok(&["produce", "greetings"], b"one\ntwo\n");
    // One that was under way before the produce, and the next.
    let mut pushes = 0;
    let request = loop {
        let (head, body) = take(&collector, "200 OK", b"");
        assert_eq!(head[0], "POST /v1/metrics HTTP/1.1");
        let is_protobuf =
            |line: &String| line.eq_ignore_ascii_case("content-type: application/x-protobuf");
        assert!(head.iter().any(is_protobuf), "{head:?}");
        let request = ExportMetricsServiceRequest::decode(&*body).unwrap();
        pushes += 1;
        if pushes == 2 {
            break request;
        }
    };
    let [of_node] = &request.resource_metrics[..] else {
        panic!("{request:?}")
    };
    let resource = texts(&of_node.resource.as_ref().unwrap().attributes);
    assert_eq!(resource["service.name"], "esker");
    assert_eq!(resource["service.instance.id"], "7");
    let metrics = &of_node.scope_metrics[0].metrics;
    let sent: Vec<&str> = metrics.iter().map(|metric| &*metric.name).collect();
    let table: Vec<&str> = METRICS.iter().map(|metric| metric.name).collect();
    assert_eq!(sent, table);
    metrics.iter().for_each(check_form);
    let labels = |name: &str| -> Vec<BTreeMap<String, String>> {
        let metric = metrics.iter().find(|metric| metric.name == name).unwrap();
        match metric.data.as_ref().unwrap() {
            metric::Data::Sum(sum) => {
                let points = sum.data_points.iter();
                points.map(|point| texts(&point.attributes)).collect()
            }
            other => panic!("{other:?}"),
        }
    };
    let appended = labels("esker_topic_appended_bytes_total");
    assert!(
        appended.iter().any(|labels| labels["topic"] == "greetings"),
        "{appended:?}"
    );
    assert_eq!(broker.said(), "");
}

#[test]
fn pushes_that_fail_are_one_line_and_the_broker_goes_on() {
    let collector = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!(
        "esker.otlp.endpoint=http://{}",
        collector.local_addr().unwrap()
    );
    let dir = Dir::new();
    let broker = Broker::start(
        &dir.0,
        &["--set", &url, "--set", "esker.otlp.interval.ms=100"],
    );
    for _ in 0..3 {
        take(&collector, "503 Service Unavailable", b"busy");
    }
    let rejected = ExportMetricsServiceResponse {
        partial_success: Some(ExportMetricsPartialSuccess {
            rejected_data_points: 2,
            error_message: "too\nmany".to_owned(),
        }),
    };
    take(&collector, "200 OK", &rejected.encode_to_vec());
    // The answer to a push has been seen when the next one comes.
    take(&collector, "200 OK", b"");
    take(&collector, "200 OK", b"");
    let lines: Vec<String> = broker.said().lines().map(str::to_owned).collect();
    let [failed, again] = &lines[..] else {
        panic!("{lines:?}")
    };
    assert!(
        failed.contains("broker.http: ") && failed.contains("the collector answers 503"),
        "{failed}"
    );
    assert!(
        again.contains("pushed again after 4 that failed"),
        "{again}"
    );
    broker.ok(&["produce", "greetings"], b"one\n");
}

#[test]
fn an_endpoint_that_cannot_be_pushed_to_is_refused_at_the_start() {
    let set = "esker.otlp.endpoint=https://collector:4318";
    let args = [
        "serve",
        "--listen",
        "127.0.0.1:0",
        "--set",
        "esker.http.listen=off",
        "--set",
        set,
    ];
    let (code, error) = failure(&esker(&args, "", b""));
    assert!(code == 2 && error.contains("http only"), "{error}");
}
