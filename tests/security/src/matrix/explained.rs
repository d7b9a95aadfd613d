//! Differences from Kafka that are meant, each with its reason. Whatever is not here is a fault.
//!
//! Of the design's differences D1 to D7 none is met: they are of addresses, quotas, frames before a login, secrets, late failures,
//! super users' logins and names in certificates.

use wire::ApiKey;

/// One answer that is not Kafka's.
pub(crate) struct Difference<'a> {
    pub(crate) api: ApiKey,
    pub(crate) case: &'a str,
    pub(crate) who: &'a str,
    pub(crate) kafka: &'a str,
    pub(crate) esker: &'a str,
    /// Kafka offers the API at the listeners of clients.
    pub(crate) is_offered: bool,
}

type Rule = (&'static str, fn(&Difference) -> bool);

const RULES: &[Rule] = &[
    // Kafka's broker hangs up, because its nodes have a listener of their own, where ClusterAction is all they need. We have one port
    // for clients and nodes. A node is who proves to be one or has ClusterAction; to everybody else the port has no such API.
    (
        "one port for clients and nodes: who may act for the cluster is heard as a node",
        |d| !d.is_offered && d.kafka == "closed" && matches!(d.who, "super" | "node"),
    ),
    (
        "one port for clients and nodes: whoever is no node is refused, not hung up on",
        |d| {
            let refused = "{error_code:CLUSTER_AUTHORIZATION_FAILED";
            !d.is_offered && d.kafka == "closed" && d.esker.starts_with(refused)
        },
    ),
    // Neither offers them without something that takes the metrics. Kafka answers whom that does not keep from asking.
    (
        "metrics of clients: an API that is not offered is not answered",
        |d| {
            matches!(
                d.api,
                ApiKey::GetTelemetrySubscriptions | ApiKey::PushTelemetry
            ) && d.esker == "closed"
        },
    ),
    // Those who may not are refused alike. There are no share groups here, and no topic for their state that could come to be.
    ("share groups are not served", |d| {
        d.api == ApiKey::FindCoordinator
            && d.kafka
                .replace("COORDINATOR_NOT_AVAILABLE", "INVALID_REQUEST")
                == d.esker
    }),
    // Newer than 4.3, or our own. A cluster of Kafka's that is formatted with ELR has written min.insync.replicas into its metadata,
    // which makes another source of the same value.
    (
        "settings of a topic that Kafka 4.3 does not have, and the source of one that it has",
        |d| {
            let ours = OTHERS
                .iter()
                .fold(d.esker.to_owned(), |answer, name| without(&answer, name));
            d.api == ApiKey::CreateTopics && d.kafka.replace(IN_SYNC_OF_ELR, IN_SYNC) == ours
        },
    ),
    // Kafka's broker stumbles over its own class for patterns and fails every rule of the request.
    (
        "a rule whose pattern is that of a filter is called invalid, not an unknown error",
        |d| {
            d.api == ApiKey::CreateAcls
                && d.kafka.replace("UNKNOWN_SERVER_ERROR", "INVALID_REQUEST") == d.esker
        },
    ),
    // Kafka answers before the controller has made it, and the client asks again. Who may not create it is refused alike.
    (
        "a topic that is created by asking for it is there when the answer is",
        |d| {
            d.api == ApiKey::Metadata
                && d.case == "new-create"
                && d.kafka.contains("UNKNOWN_TOPIC_OR_PARTITION")
                && d.esker.contains("{name:fresh")
        },
    ),
    (
        "one port for clients and nodes: the voters are reached at it",
        |d| {
            d.api == ApiKey::DescribeQuorum
                && d.kafka.replace("{name:CONTROLLER ", "{name:NAMED ") == d.esker
        },
    ),
    // Of a partition that it leads, to a follower that is none of its replicas: it would send the asker to itself again.
    (
        "a broker that refuses does not name itself as the leader",
        |d| {
            let unnamed = "current_leader:{leader_id:-1 leader_epoch:-1}";
            d.api == ApiKey::Fetch
                && d.kafka.replace("current_leader:{leader_id:1}", unnamed) == d.esker
        },
    ),
];

/// How settings begin that Kafka 4.3 does not have.
const OTHERS: [&str; 2] = ["{name:esker.", "{name:max.decompressed."];
const IN_SYNC_OF_ELR: &str = "{name:min.insync.replicas value:1 config_source:3}";
const IN_SYNC: &str = "{name:min.insync.replicas value:1 config_source:4}";

/// The reason, where there is one.
pub(crate) fn reason(difference: &Difference) -> Option<&'static str> {
    let mut rules = RULES.iter();
    rules
        .find(|(_, holds)| holds(difference))
        .map(|(reason, _)| *reason)
}

fn without(answer: &str, begins: &str) -> String {
    let mut rest = answer;
    let mut kept = String::new();
    while let Some(at) = rest.find(begins) {
        kept.push_str(&rest[..at]);
        let behind = rest[at..].find("} ").map_or(rest.len(), |end| at + end + 2);
        rest = &rest[behind..];
    }
    kept + rest
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn settings_of_our_own_are_taken_out_and_nothing_else() {
        let answer = "[{name:a value:1} {name:esker.b value:2} {name:esker.c} {name:d}]";
        assert_eq!(without(answer, OTHERS[0]), "[{name:a value:1} {name:d}]");
    }

    #[test]
    fn a_refusal_that_is_none_is_never_explained() {
        for api in ApiKey::ALL {
            let difference = Difference {
                api,
                case: "there",
                who: "nobody",
                kafka: "{error_code:TOPIC_AUTHORIZATION_FAILED}",
                esker: "{}",
                is_offered: true,
            };
            assert_eq!(reason(&difference), None, "{api:?}");
        }
    }
}
