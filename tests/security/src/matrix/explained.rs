//! Differences from Kafka that are meant, each with its reason. Whatever is not here is a fault.

use wire::ApiKey;

/// One answer that is not Kafka's.
pub(crate) struct Difference<'a> {
    pub(crate) api: ApiKey,
    pub(crate) version: i16,
    pub(crate) case: &'a str,
    pub(crate) who: &'a str,
    pub(crate) kafka: &'a str,
    pub(crate) esker: &'a str,
    /// Kafka serves the API at the listeners of clients.
    pub(crate) is_served: bool,
}

type Rule = (&'static str, fn(&Difference) -> bool);

const RULES: &[Rule] = &[
    // Kafka's brokers have no such API at this listener and hang up. We have one port for clients and nodes, where a node is who
    // proves to be one: everybody else is refused, whatever rules say.
    (
        "one port for clients and nodes: APIs of nodes need a node's proof",
        |d| !d.is_served && (d.esker == "closed" || refuses_whole(d.esker)),
    ),
];

/// A refusal in the answer's own error code, and nothing told beside it.
fn refuses_whole(answer: &str) -> bool {
    answer.starts_with("{error_code:CLUSTER_AUTHORIZATION_FAILED")
}

/// The reason, where there is one.
pub(crate) fn reason(difference: &Difference) -> Option<&'static str> {
    let mut rules = RULES.iter();
    rules
        .find(|(_, holds)| holds(difference))
        .map(|(reason, _)| *reason)
}
