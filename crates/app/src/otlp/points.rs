//! Of `MetricsData`, as clients push it, the parts that a person wants to read.
//!
//! The bytes come from clients: those that are no such message are refused as a whole. Fields that are not known are passed over.

use broker::metrics::Number;
use opentelemetry_proto::tonic::common::v1::{KeyValue, any_value};
use opentelemetry_proto::tonic::metrics::v1::{MetricsData, metric, number_data_point};
use prost::Message;

/// One value of one metric.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Point {
    pub(crate) metric: String,
    /// `name=value`, in the order of the client.
    pub(crate) labels: Vec<String>,
    pub(crate) value: Number,
}

/// The bytes are not protobuf, or not of these messages.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Malformed;

/// The points of gauges and sums of `MetricsData`, in the order of the client.
pub(crate) fn points(data: &[u8]) -> Result<Vec<Point>, Malformed> {
    let data = MetricsData::decode(data).map_err(|_| Malformed)?;
    let scopes = (data.resource_metrics.into_iter()).flat_map(|resource| resource.scope_metrics);
    let metrics = scopes.flat_map(|scope| scope.metrics);
    let mut points = Vec::new();
    for metric in metrics {
        let found = match metric.data {
            Some(metric::Data::Gauge(gauge)) => gauge.data_points,
            Some(metric::Data::Sum(sum)) => sum.data_points,
            _ => continue,
        };
        for point in found {
            let value = match point.value {
                Some(number_data_point::Value::AsInt(value)) => Number::Int(value),
                Some(number_data_point::Value::AsDouble(value)) => Number::Double(value),
                None => continue,
            };
            points.push(Point {
                metric: metric.name.clone(),
                labels: point.attributes.iter().map(label).collect(),
                value,
            });
        }
    }
    Ok(points)
}

/// Text, truth or number; empty for the rest.
fn label(pair: &KeyValue) -> String {
    use any_value::Value;
    let value = match pair.value.as_ref().and_then(|any| any.value.as_ref()) {
        Some(Value::StringValue(text)) => text.clone(),
        Some(Value::BoolValue(truth)) => truth.to_string(),
        Some(Value::IntValue(number)) => number.to_string(),
        Some(Value::DoubleValue(number)) => number.to_string(),
        _ => String::new(),
    };
    format!("{}={value}", pair.key)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn message(number: u8, content: &[u8]) -> Vec<u8> {
        let head = [number << 3 | 2, u8::try_from(content.len()).unwrap()];
        [&head, content].concat()
    }

    fn fixed(number: u8, bits: u64) -> Vec<u8> {
        [&[number << 3 | 1][..], &bits.to_le_bytes()].concat()
    }

    fn sample() -> Vec<u8> {
        let text = message(2, &message(1, b"n0"));
        let label = message(7, &[message(1, b"node"), text].concat());
        let rate = [fixed(3, 1), fixed(4, 2.5_f64.to_bits()), label].concat();
        let total = fixed(6, 7);
        let gauge = [message(1, b"rate"), message(5, &message(1, &rate))].concat();
        let sum = message(7, &[message(1, &total), vec![0x10, 2]].concat());
        let sum = [message(1, b"total"), sum].concat();
        // Field 2 of a scope message, then one that no version has.
        let scope = [message(2, &gauge), message(2, &sum), message(15, b"later")].concat();
        message(1, &message(2, &scope))
    }

    #[test]
    fn gauges_and_sums_are_read_with_their_labels() {
        let point = |metric: &str, labels: &[&str], value| Point {
            metric: metric.to_owned(),
            labels: labels.iter().map(|label| (*label).to_owned()).collect(),
            value,
        };
        let want = [
            point("rate", &["node=n0"], Number::Double(2.5)),
            point("total", &[], Number::Int(7)),
        ];
        assert_eq!(points(&sample()).unwrap(), want);
        assert_eq!(points(&[]), Ok(Vec::new()));
    }

    #[test]
    fn every_truncation_and_every_flip_ends_without_a_panic() {
        let whole = sample();
        for len in 1..whole.len() {
            assert_eq!(points(&whole[..len]), Err(Malformed), "{len} bytes");
        }
        for bit in 0..whole.len() * 8 {
            let mut bytes = whole.clone();
            bytes[bit / 8] ^= 1 << (bit % 8);
            let _ = points(&bytes);
        }
    }
}
