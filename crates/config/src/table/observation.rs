//! Settings of what an operator sees from outside: lines of the log, metrics, health.

use super::Setting;

pub(super) const SETTINGS: &[Setting] = settings! {
    "esker.http.listen" String "127.0.0.1:9644" Any ReadOnly Works
        "address of /metrics, /healthz and /readyz, read only and without authentication; off for none; not set, it is the next free port if others have that one";
    "esker.log.format" String "text" OneOfAnyCase(&["text", "json"]) ReadOnly Works
        "form of the lines on standard error: text for people, json for collectors";
    "esker.log.level" String "info" Any ReadOnly Works
        "least weight of lines, by logger where named: info,broker=debug; `kafka-configs --entity-type broker-loggers` lists the loggers and changes levels until the broker ends";
    "esker.metrics.topics.max" Int "1000" AtLeast(0) ReadOnly Works
        "topics, and groups, with metrics of their own; what is beyond is added up under the name of no topic, esker.metrics.topics.max 0 leaves all out";
    "esker.otlp.endpoint" String "" Any ReadOnly Works
        "URL of an OpenTelemetry collector that the metrics of /metrics are pushed to, such as http://127.0.0.1:4318/v1/metrics; without TLS; empty for none";
    "esker.otlp.interval.ms" Long "60000" AtLeast(100) ReadOnly Works
        "time from one push of metrics to the next";
};
