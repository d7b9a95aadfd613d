//! A page of metrics: Prometheus text 0.0.4, or OpenMetrics 1.0.

use std::fmt::{Display, Write};

use model::histogram::{BOUNDS_MICROS, Counts};

use super::sink::{Number, Sink};
use super::table::{Kind, Metric};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Form {
    Prometheus,
    OpenMetrics,
}

impl Form {
    #[must_use]
    pub fn content_type(self) -> &'static str {
        match self {
            Form::Prometheus => "text/plain; version=0.0.4; charset=utf-8",
            Form::OpenMetrics => "application/openmetrics-text; version=1.0.0; charset=utf-8",
        }
    }

    /// The form for a client that sends this `Accept`.
    #[must_use]
    pub fn accepted(accept: &str) -> Form {
        if accept.contains("application/openmetrics-text") {
            Form::OpenMetrics
        } else {
            Form::Prometheus
        }
    }
}

pub(super) struct Page {
    form: Form,
    text: String,
}

impl Page {
    pub(super) fn new(form: Form) -> Page {
        Page {
            form,
            text: String::with_capacity(64 << 10),
        }
    }

    pub(super) fn finish(mut self) -> String {
        if self.form == Form::OpenMetrics {
            self.text.push_str("# EOF\n");
        }
        self.text
    }

    fn head(&mut self, metric: &Metric) {
        // OpenMetrics names a counter without the end that its samples have.
        let name = match self.form {
            Form::OpenMetrics => metric.name.strip_suffix("_total").unwrap_or(metric.name),
            Form::Prometheus => metric.name,
        };
        let (kind, help) = (metric.kind.name(), metric.help);
        // Writing to a String does not fail.
        let _ = writeln!(self.text, "# HELP {name} {help}\n# TYPE {name} {kind}");
    }

    fn sample(
        &mut self,
        metric: &Metric,
        end: &str,
        labels: &[&str],
        bound: Option<&str>,
        value: impl Display,
    ) {
        assert_eq!(
            metric.labels.len(),
            labels.len(),
            "labels of {}",
            metric.name
        );
        self.text.push_str(metric.name);
        self.text.push_str(end);
        let named = metric.labels.iter().copied().zip(labels.iter().copied());
        let all = named.chain(bound.map(|bound| ("le", bound)));
        let mut sign = '{';
        for (name, value) in all {
            self.text.push(sign);
            sign = ',';
            self.text.push_str(name);
            self.text.push_str("=\"");
            for letter in value.chars() {
                match letter {
                    '\\' => self.text.push_str("\\\\"),
                    '"' => self.text.push_str("\\\""),
                    '\n' => self.text.push_str("\\n"),
                    letter => self.text.push(letter),
                }
            }
            self.text.push('"');
        }
        if sign == ',' {
            self.text.push('}');
        }
        let _ = writeln!(self.text, " {value}");
    }
}

impl Sink for Page {
    fn family<'a, V: Into<Number>>(
        &mut self,
        metric: &'static Metric,
        samples: impl IntoIterator<Item = (Vec<&'a str>, V)>,
    ) {
        assert!(
            metric.kind != Kind::Histogram,
            "{} is a histogram",
            metric.name
        );
        self.head(metric);
        for (labels, value) in samples {
            self.sample(metric, "", &labels, None, value.into());
        }
    }

    fn histograms<'a>(
        &mut self,
        metric: &'static Metric,
        samples: impl IntoIterator<Item = (Vec<&'a str>, Counts)>,
    ) {
        assert!(metric.kind == Kind::Histogram, "{} is none", metric.name);
        self.head(metric);
        for (labels, counts) in samples {
            let mut below = 0;
            for (count, micros) in counts.buckets.iter().zip(BOUNDS_MICROS) {
                below += count;
                let bound = seconds(micros as f64 / 1e6);
                self.sample(metric, "_bucket", &labels, Some(&bound), below);
            }
            self.sample(metric, "_bucket", &labels, Some("+Inf"), counts.count());
            let sum = counts.sum_nanos as f64 / 1e9;
            self.sample(metric, "_sum", &labels, None, sum);
            self.sample(metric, "_count", &labels, None, counts.count());
        }
    }
}

/// A bound of a bucket; OpenMetrics wants a point in it.
fn seconds(bound: f64) -> String {
    if bound.fract() == 0.0 {
        format!("{bound:.1}")
    } else {
        bound.to_string()
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use model::Histogram;

    use super::*;
    use crate::metrics::table;

    fn page(form: Form) -> String {
        let mut page = Page::new(form);
        page.one(&table::CONNECTIONS, 3);
        page.family(&table::REQUESTS, [(vec!["a\"b\\c\nd"], 7_u64)]);
        let histogram = Histogram::default();
        histogram.record(Duration::from_micros(200));
        histogram.record(Duration::from_secs(60));
        page.histograms(&table::REQUEST_TIME, [(vec!["Fetch"], histogram.read())]);
        page.finish()
    }

    #[test]
    fn the_two_forms_differ_in_the_names_of_counters_and_in_the_end() {
        let text = page(Form::Prometheus);
        for line in [
            "# TYPE esker_connections gauge\nesker_connections 3\n",
            "# TYPE esker_requests_total counter\nesker_requests_total{api=\"a\\\"b\\\\c\\nd\"} 7\n",
            "esker_request_duration_seconds_bucket{api=\"Fetch\",le=\"0.0001\"} 0\n",
            "esker_request_duration_seconds_bucket{api=\"Fetch\",le=\"0.00025\"} 1\n",
            "esker_request_duration_seconds_bucket{api=\"Fetch\",le=\"10.0\"} 1\n",
            "esker_request_duration_seconds_bucket{api=\"Fetch\",le=\"+Inf\"} 2\n",
            "esker_request_duration_seconds_sum{api=\"Fetch\"} 60.0002\n",
            "esker_request_duration_seconds_count{api=\"Fetch\"} 2\n",
        ] {
            assert!(text.contains(line), "{line} in {text}");
        }
        let open = page(Form::OpenMetrics);
        assert!(open.contains("# TYPE esker_requests counter\nesker_requests_total{"));
        assert!(open.ends_with("# EOF\n") && !text.contains("EOF"));
    }

    #[test]
    fn a_client_gets_the_form_it_accepts() {
        let accept = "application/openmetrics-text;version=1.0.0;q=0.5,text/plain;q=0.2";
        assert_eq!(Form::accepted(accept), Form::OpenMetrics);
        assert_eq!(Form::accepted("text/html, */*"), Form::Prometheus);
    }
}
