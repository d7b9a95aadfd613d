//! The metrics of a broker as an export request of OpenTelemetry's protocol.
//!
//! Names are those of `/metrics`, with the unit beside them. Counters and histograms count from the start of the process, so that
//! each request has all that the ones before it had.

use broker::metrics::{Kind, Metric, Number, Sink};
use model::histogram::{BOUNDS_MICROS, Counts};
use opentelemetry_proto::tonic::collector::metrics::v1::ExportMetricsServiceRequest;
use opentelemetry_proto::tonic::common::v1::{AnyValue, InstrumentationScope, KeyValue, any_value};
use opentelemetry_proto::tonic::metrics::v1::number_data_point::Value;
use opentelemetry_proto::tonic::metrics::v1::{
    AggregationTemporality, Gauge, Histogram, HistogramDataPoint, Metric as Message,
    NumberDataPoint, ResourceMetrics, ScopeMetrics, Sum, metric,
};
use opentelemetry_proto::tonic::resource::v1::Resource;

const CUMULATIVE: i32 = AggregationTemporality::Cumulative as i32;

/// Collects the families of one moment.
pub(super) struct Export {
    started_nanos: u64,
    now_nanos: u64,
    metrics: Vec<Message>,
}

impl Export {
    pub(super) fn new(started_nanos: u64, now_nanos: u64) -> Export {
        Export {
            started_nanos,
            now_nanos,
            metrics: Vec::new(),
        }
    }

    /// The request, in the name of one broker.
    pub(super) fn finish(self, node: i32, version: &str) -> ExportMetricsServiceRequest {
        let resource = Resource {
            attributes: vec![
                attribute("service.name", "esker"),
                attribute("service.version", version),
                attribute("service.instance.id", &node.to_string()),
            ],
            ..Resource::default()
        };
        let scope = InstrumentationScope {
            name: "esker".to_owned(),
            version: version.to_owned(),
            ..InstrumentationScope::default()
        };
        ExportMetricsServiceRequest {
            resource_metrics: vec![ResourceMetrics {
                resource: Some(resource),
                scope_metrics: vec![ScopeMetrics {
                    scope: Some(scope),
                    metrics: self.metrics,
                    ..ScopeMetrics::default()
                }],
                ..ResourceMetrics::default()
            }],
        }
    }

    fn add(&mut self, of: &Metric, data: metric::Data) {
        self.metrics.push(Message {
            name: of.name.to_owned(),
            description: of.help.to_owned(),
            unit: unit(of).to_owned(),
            data: Some(data),
            ..Message::default()
        });
    }
}

impl Sink for Export {
    fn family<'a, V: Into<Number>>(
        &mut self,
        metric: &'static Metric,
        samples: impl IntoIterator<Item = (Vec<&'a str>, V)>,
    ) {
        let point = |(labels, value): (Vec<&'a str>, V)| NumberDataPoint {
            attributes: attributes(metric, &labels),
            start_time_unix_nano: self.started_nanos,
            time_unix_nano: self.now_nanos,
            value: Some(match value.into() {
                Number::Int(value) => Value::AsInt(value),
                Number::Double(value) => Value::AsDouble(value),
            }),
            ..NumberDataPoint::default()
        };
        let data_points: Vec<_> = samples.into_iter().map(point).collect();
        let data = match metric.kind {
            Kind::Gauge => metric::Data::Gauge(Gauge { data_points }),
            Kind::Counter => metric::Data::Sum(Sum {
                data_points,
                aggregation_temporality: CUMULATIVE,
                is_monotonic: true,
            }),
            Kind::Histogram => unreachable!("{} is a histogram", metric.name),
        };
        self.add(metric, data);
    }

    fn histograms<'a>(
        &mut self,
        metric: &'static Metric,
        samples: impl IntoIterator<Item = (Vec<&'a str>, Counts)>,
    ) {
        let bounds: Vec<f64> = (BOUNDS_MICROS.iter())
            .map(|micros| *micros as f64 / 1e6)
            .collect();
        let point = |(labels, counts): (Vec<&'a str>, Counts)| HistogramDataPoint {
            attributes: attributes(metric, &labels),
            start_time_unix_nano: self.started_nanos,
            time_unix_nano: self.now_nanos,
            count: counts.count(),
            sum: Some(counts.sum_nanos as f64 / 1e9),
            bucket_counts: counts.buckets.to_vec(),
            explicit_bounds: bounds.clone(),
            ..HistogramDataPoint::default()
        };
        let data_points = samples.into_iter().map(point).collect();
        let data = Histogram {
            data_points,
            aggregation_temporality: CUMULATIVE,
        };
        self.add(metric, metric::Data::Histogram(data));
    }
}

/// The unit as UCUM writes it, which the protocol asks for.
fn unit(metric: &Metric) -> &'static str {
    match metric.unit() {
        "bytes" => "By",
        "seconds" => "s",
        _ => "",
    }
}

fn attributes(metric: &Metric, values: &[&str]) -> Vec<KeyValue> {
    assert_eq!(
        metric.labels.len(),
        values.len(),
        "labels of {}",
        metric.name
    );
    let pairs = metric.labels.iter().zip(values);
    pairs.map(|(key, value)| attribute(key, value)).collect()
}

fn attribute(key: &str, value: &str) -> KeyValue {
    KeyValue {
        key: key.to_owned(),
        value: Some(AnyValue {
            value: Some(any_value::Value::StringValue(value.to_owned())),
        }),
        ..KeyValue::default()
    }
}
