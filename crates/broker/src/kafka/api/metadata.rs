//! Metadata: which brokers there are, and who leads what. Asking for a topic may create it.

use std::collections::BTreeSet;
use std::sync::Arc;

use meta::Topic;
use model::BrokerId;
use wire::messages::metadata_request::MetadataRequestTopic;
use wire::messages::metadata_response::{
    MetadataResponseBroker, MetadataResponsePartition, MetadataResponseTopic,
};
use wire::messages::{MetadataRequest, MetadataResponse};
use wire::{ApiKey, ErrorCode, Uuid};

use super::{NO_OPERATIONS, number, offline};
use crate::asker::Granted;
use crate::asker::access::Resource;
use crate::kafka::call::{Attempt, Call};
use crate::net::Outcome;
use crate::ops::cluster;
use crate::ops::guard::{Allowed, Leave};
use crate::ops::topics::create_by_the_way;
use crate::ops::view::View;
use security::authorize::Operation as Access;

/// First version that can ask by id; two versions before had the field without the meaning.
const IDS_FROM: i16 = 12;
/// First version that tells a listener that a leader has not from a leader that is away.
const LISTENERS_VERSION: i16 = 6;
/// Versions that ask for what may be done with the cluster.
const CLUSTER_OPERATIONS_IN: std::ops::RangeInclusive<i16> = 8..=10;

pub(crate) fn on_metadata(
    call: &mut Call<'_>,
    request: MetadataRequest,
    attempt: Attempt,
) -> Outcome {
    let scene = call.scene();
    let shared = Arc::clone(&call.desk.shared);
    let version = call.version();
    let view = scene
        .view(shared.state.cluster_id())
        .led_by(cluster::leader(call.desk));
    let missing = missing(&request, version, &view);
    if attempt == Attempt::First && !missing.is_empty() {
        let command = create_by_the_way(&view, missing);
        let again = move |call: &mut Call<'_>, attempt| on_metadata(call, request, attempt);
        return call.change_first(command, again);
    }
    let mut response = handle(&request, version, &view);
    offline::in_metadata(&mut response, &call.desk.topics(), view.broker.node_id);
    call.reply(ApiKey::Metadata, &response)
}

/// Topics that have to be created before this request can be answered well, and that the asker may create.
#[must_use]
pub(crate) fn missing<'r>(
    request: &'r MetadataRequest,
    version: i16,
    view: &View<'_>,
) -> Allowed<&'r str> {
    let topics = request.topics.as_deref().unwrap_or_default();
    let creates = creates(request, view) && is_sound(topics, version) && !asks_by_id(topics);
    let names = topics.iter().filter(|_| creates);
    let names: BTreeSet<&str> = names.filter_map(|topic| topic.name.as_deref()).collect();
    let lacks = |name: &&str| view.image.topic(name).is_none() && meta::name::check(name).is_ok();
    let (missing, _) = Allowed::divide(names, |name| {
        sees(view, name)?;
        view.asker.grant_creation(name).map(Leave::from)
    });
    missing.filter(lacks)
}

/// True if topics come to be by this request.
fn creates(request: &MetadataRequest, view: &View<'_>) -> bool {
    request.allow_auto_topic_creation && view.broker.auto_create_topics
}

fn sees<'a>(view: &View<'_>, name: &'a str) -> Result<Granted<'a>, ErrorCode> {
    let topic = Resource::topic(name);
    view.asker.grant(Access::Describe, topic)
}

#[must_use]
pub(crate) fn handle(request: &MetadataRequest, version: i16, view: &View<'_>) -> MetadataResponse {
    let operations = |topic: &str| {
        let is_asked = request.include_topic_authorized_operations;
        super::operations(view, Resource::topic(topic), is_asked)
    };
    let topics = match &request.topics {
        Some(topics) if !is_sound(topics, version) => return refuse(topics),
        Some(topics) if asks_by_id(topics) => by_id(topics, &operations, view, version),
        Some(topics) if 0 < version || !topics.is_empty() => {
            by_name(topics, &operations, view, (version, creates(request, view)))
        }
        // Of all topics those that are hidden are left out.
        _ => view
            .image
            .topics()
            .filter(|topic| sees(view, &topic.name).is_ok())
            .map(|topic| known(topic, &operations, view, version))
            .collect(),
    };
    let asks_cluster =
        request.include_cluster_authorized_operations && CLUSTER_OPERATIONS_IN.contains(&version);
    MetadataResponse {
        brokers: brokers(view),
        cluster_id: Some(view.cluster_id.to_owned()).filter(|id| !id.is_empty()),
        controller_id: view.controller_id(),
        topics,
        cluster_authorized_operations: super::cluster_operations(view, asks_cluster),
        ..MetadataResponse::default()
    }
}

/// The operations that the asker may do to a topic, or "not asked for".
type Operations<'a> = &'a dyn Fn(&str) -> i32;

fn asks_by_id(topics: &[MetadataRequestTopic]) -> bool {
    topics.iter().any(|topic| !topic.topic_id.is_zero())
}

/// Every topic has a name, or an id where ids count.
fn is_sound(topics: &[MetadataRequestTopic], version: i16) -> bool {
    topics.iter().all(|topic| {
        if topic.topic_id.is_zero() {
            topic.name.is_some()
        } else {
            IDS_FROM <= version
        }
    })
}

fn brokers(view: &View<'_>) -> Vec<MetadataResponseBroker> {
    let describe = |broker: &meta::Registration| {
        let address = view.endpoint(broker)?;
        Some(MetadataResponseBroker {
            node_id: broker.id.0,
            host: address.host,
            port: i32::from(address.port),
            rack: broker.rack.clone(),
        })
    };
    view.live_brokers().filter_map(describe).collect()
}

/// Names once each: what is there in the order of the request, then what is not, then what may not be created, then what is hidden,
/// there or not.
fn by_name(
    topics: &[MetadataRequestTopic],
    operations: Operations<'_>,
    view: &View<'_>,
    (version, creates): (i16, bool),
) -> Vec<MetadataResponseTopic> {
    let mut seen = BTreeSet::new();
    let names = topics
        .iter()
        .filter_map(|topic| topic.name.as_deref())
        .filter(|name| seen.insert(*name));
    let (shown, hidden): (Vec<&str>, Vec<&str>) = names.partition(|name| sees(view, name).is_ok());
    let (there, absent): (Vec<&str>, Vec<&str>) =
        (shown.into_iter()).partition(|name| view.image.topic(name).is_some());
    let may_create = |name: &&str| !creates || view.asker.grant_creation(name).is_ok();
    let (absent, barred): (Vec<&str>, Vec<&str>) = absent.into_iter().partition(may_create);
    let there = there
        .into_iter()
        .filter_map(|name| view.image.topic(name))
        .map(|topic| known(topic, operations, view, version));
    let absent = absent.into_iter().map(|name| MetadataResponseTopic {
        error_code: match meta::name::check(name) {
            Ok(()) => ErrorCode::UnknownTopicOrPartition.code(),
            Err(_) => ErrorCode::InvalidTopicException.code(),
        },
        name: Some(name.into()),
        is_internal: meta::name::is_internal(name),
        topic_authorized_operations: operations(name),
        ..MetadataResponseTopic::default()
    });
    let barred = barred.into_iter().map(|name| MetadataResponseTopic {
        is_internal: meta::name::is_internal(name),
        ..denied(Some(name), Uuid::ZERO)
    });
    let hidden = hidden
        .into_iter()
        .map(|name| denied(Some(name), Uuid::ZERO));
    there.chain(absent).chain(barred).chain(hidden).collect()
}

/// A topic that may not be seen: nothing is said of it but what was asked.
fn denied(name: Option<&str>, topic_id: Uuid) -> MetadataResponseTopic {
    MetadataResponseTopic {
        error_code: ErrorCode::TopicAuthorizationFailed.code(),
        name: name.map(str::to_owned),
        topic_id,
        topic_authorized_operations: NO_OPERATIONS,
        ..MetadataResponseTopic::default()
    }
}

/// One topic asked for by id makes all others be asked for by id, too: those with a name alone are passed over. Ids that nobody has come
/// first and those of hidden topics last; an id is no secret.
fn by_id(
    topics: &[MetadataRequestTopic],
    operations: Operations<'_>,
    view: &View<'_>,
    version: i16,
) -> Vec<MetadataResponseTopic> {
    let mut seen = BTreeSet::new();
    let ids = topics
        .iter()
        .map(|topic| topic.topic_id)
        .filter(|id| !id.is_zero() && seen.insert(*id));
    let (mut unknown, mut shown, mut hidden) = (Vec::new(), Vec::new(), Vec::new());
    for id in ids {
        match view.image.topic_by_id(id) {
            Some(topic) if sees(view, &topic.name).is_ok() => {
                shown.push(known(topic, operations, view, version));
            }
            Some(_) => hidden.push(denied(None, id)),
            None => unknown.push(MetadataResponseTopic {
                error_code: ErrorCode::UnknownTopicId.code(),
                ..denied(None, id)
            }),
        }
    }
    unknown.into_iter().chain(shown).chain(hidden).collect()
}

fn known(
    topic: &Arc<Topic>,
    operations: Operations<'_>,
    view: &View<'_>,
    version: i16,
) -> MetadataResponseTopic {
    let describe = |(index, found): (usize, &meta::Partition)| MetadataResponsePartition {
        partition_index: number(index),
        ..partition(found, view, version)
    };
    MetadataResponseTopic {
        error_code: 0,
        name: Some(topic.name.as_ref().into()),
        topic_id: topic.id,
        is_internal: meta::name::is_internal(&topic.name),
        partitions: topic.partitions.iter().enumerate().map(describe).collect(),
        topic_authorized_operations: operations(&topic.name),
    }
}

/// Clients are sent to a leader that lives, that they can reach, and that would not send them away itself. The oldest ones are told of no other
/// replicas, and that some are missing.
fn partition(found: &meta::Partition, view: &View<'_>, version: i16) -> MetadataResponsePartition {
    let lives = |id: &BrokerId| view.live_endpoint(*id).is_some();
    let shown = |ids: &[BrokerId]| -> Vec<i32> {
        let ids = ids.iter().filter(|id| 0 < version || lives(id));
        ids.map(|id| id.0).collect()
    };
    let (replica_nodes, isr_nodes) = (shown(&found.replicas), shown(&found.isr));
    let is_whole =
        (replica_nodes.len(), isr_nodes.len()) == (found.replicas.len(), found.isr.len());
    let is_led = lives(&found.leader) && view.acts_as_leader(found.leader);
    let code = if !view.acts_as_leader(found.leader) {
        ErrorCode::LeaderNotAvailable
    } else if !is_led {
        let is_registered = view
            .image
            .broker(found.leader)
            .is_some_and(|it| !it.is_fenced);
        if is_registered && LISTENERS_VERSION <= version {
            ErrorCode::ListenerNotFound
        } else {
            ErrorCode::LeaderNotAvailable
        }
    } else if !is_whole {
        ErrorCode::ReplicaNotAvailable
    } else {
        ErrorCode::None
    };
    MetadataResponsePartition {
        error_code: code.code(),
        leader_id: if is_led {
            found.leader.0
        } else {
            meta::NO_LEADER.0
        },
        leader_epoch: found.leader_epoch.0,
        replica_nodes,
        isr_nodes,
        offline_replicas: offline::replicas(found, view),
        ..MetadataResponsePartition::default()
    }
}

/// A request that contradicts itself learns nothing, not even who is here.
fn refuse(topics: &[MetadataRequestTopic]) -> MetadataResponse {
    let refused = |topic: &MetadataRequestTopic| MetadataResponseTopic {
        error_code: ErrorCode::InvalidRequest.code(),
        name: Some(topic.name.clone().unwrap_or_default()),
        topic_id: topic.topic_id,
        topic_authorized_operations: NO_OPERATIONS,
        ..MetadataResponseTopic::default()
    };
    MetadataResponse {
        cluster_id: None,
        controller_id: -1,
        topics: topics.iter().map(refused).collect(),
        cluster_authorized_operations: NO_OPERATIONS,
        ..MetadataResponse::default()
    }
}

#[cfg(test)]
mod tests {
    use meta::Record;

    use super::*;
    use crate::kafka::api::fixture::{Fixture, uuids};
    use crate::ops::topics::{create_implied, implied};

    const STRANGE: Uuid = Uuid([5; 16]);

    fn named(name: &str) -> MetadataRequestTopic {
        MetadataRequestTopic {
            topic_id: Uuid::ZERO,
            name: Some(name.into()),
        }
    }

    fn with_id(topic_id: Uuid) -> MetadataRequestTopic {
        MetadataRequestTopic {
            topic_id,
            name: None,
        }
    }

    fn ask(topics: Option<Vec<MetadataRequestTopic>>, version: i16) -> MetadataResponse {
        let request = MetadataRequest {
            topics,
            ..MetadataRequest::default()
        };
        handle(&request, version, &Fixture::new("").view())
    }

    /// The records of what is missing.
    fn create(request: &MetadataRequest, view: &View<'_>) -> Vec<Record> {
        let names = missing(request, 9, view).into_inner().into_iter();
        let topics = implied(view, &names.collect());
        create_implied(view, topics, &mut uuids())
    }

    fn codes(response: &MetadataResponse) -> Vec<(Option<&str>, i16)> {
        response
            .topics
            .iter()
            .map(|topic| (topic.name.as_deref(), topic.error_code))
            .collect()
    }

    #[test]
    fn version_0_asks_for_all_with_an_empty_list_and_later_ones_with_none() {
        assert_eq!(ask(Some(Vec::new()), 0).topics.len(), 2);
        assert_eq!(ask(Some(Vec::new()), 1).topics.len(), 0);
        assert_eq!(ask(None, 1).topics.len(), 2);
    }

    #[test]
    fn names_are_answered_once_those_that_are_there_first() {
        let topics = ["missing", "bad name", "a", "", "a"].map(named).to_vec();
        let want = [
            (Some("a"), 0),
            (Some("missing"), 3),
            (Some("bad name"), 17),
            (Some(""), 17),
        ];
        assert_eq!(codes(&ask(Some(topics), 13)), want);
    }

    #[test]
    fn one_id_makes_names_count_for_nothing() {
        let response = ask(Some(vec![with_id(STRANGE), named("a")]), 12);
        assert_eq!(codes(&response), [(None, 100)]);
        let both = MetadataRequestTopic {
            topic_id: STRANGE,
            name: Some("a".into()),
        };
        assert_eq!(codes(&ask(Some(vec![both]), 12)), [(None, 100)]);
        let id = Fixture::new("").id("t");
        assert_eq!(codes(&ask(Some(vec![with_id(id)]), 12)), [(Some("t"), 0)]);
    }

    #[test]
    fn ids_before_version_12_and_topics_without_anything_are_refused_whole() {
        for (topic, version) in [
            (with_id(STRANGE), 10),
            (with_id(Uuid::ZERO), 11),
            (with_id(Uuid::ZERO), 12),
        ] {
            let response = ask(Some(vec![topic]), version);
            assert_eq!(codes(&response), [(Some(""), 42)]);
            assert_eq!(
                (
                    response.brokers.len(),
                    response.controller_id,
                    response.cluster_id
                ),
                (0, -1, None)
            );
        }
    }

    #[test]
    fn the_broker_is_found_at_the_address_of_the_listener_that_was_asked() {
        let fixture = Fixture::new("");
        let response = handle(&MetadataRequest::default(), 9, &fixture.view());
        assert_eq!(
            (response.brokers[0].host.as_str(), response.brokers[0].port),
            ("127.0.0.1", 9092)
        );
        assert_eq!(
            (response.controller_id, response.cluster_id.as_deref()),
            (1, Some("cluster"))
        );
        let elsewhere = View {
            listener: "INTERNAL",
            ..fixture.view()
        };
        let response = handle(&MetadataRequest::default(), 9, &elsewhere);
        assert!(response.brokers.is_empty());
        assert_eq!(response.controller_id, -1, "nobody could be asked");
        let led = |version| {
            let request = MetadataRequest {
                topics: Some(vec![named("a")]),
                ..MetadataRequest::default()
            };
            let response = handle(&request, version, &elsewhere);
            let partition = &response.topics[0].partitions[0];
            (partition.error_code, partition.leader_id)
        };
        assert_eq!((led(5), led(6)), ((5, -1), (72, -1)));
    }

    #[test]
    fn a_fenced_broker_is_no_broker_no_controller_and_leads_nothing() {
        let mut fixture = Fixture::new("");
        fixture.register_second(false);
        let request = MetadataRequest {
            topics: Some(vec![named("a")]),
            ..MetadataRequest::default()
        };
        let ids = |response: &MetadataResponse| -> Vec<i32> {
            response.brokers.iter().map(|it| it.node_id).collect()
        };
        let both = handle(&request, 9, &fixture.view().led_by(Some(BrokerId(2))));
        assert_eq!((ids(&both), both.controller_id), (vec![1, 2], 2));
        let unknown = handle(&request, 9, &fixture.view().led_by(Some(BrokerId(3))));
        assert_eq!(
            unknown.controller_id, 1,
            "a controller alone serves no clients"
        );

        fixture.fence(BrokerId(1));
        let view = fixture.view();
        let response = handle(&request, 9, &view);
        assert_eq!((ids(&response), response.controller_id), (vec![2], 2));
        let told = |version| {
            let response = handle(&request, version, &view);
            let partition = response.topics[0].partitions[0].clone();
            (
                (partition.error_code, partition.leader_id),
                partition.replica_nodes,
                partition.offline_replicas,
            )
        };
        assert_eq!(told(9), ((5, -1), vec![1], vec![1]));
        assert_eq!(told(0), ((5, -1), vec![], vec![1]));
    }

    #[test]
    fn a_replica_in_a_directory_that_failed_is_offline() {
        let mut fixture = Fixture::new("");
        let epoch = fixture.image.broker(BrokerId(1)).expect("registered").epoch;
        let change = wire::metadata::BrokerRegistrationChangeRecord {
            broker_id: 1,
            broker_epoch: epoch,
            log_dirs: vec![Uuid([7; 16])],
            ..Default::default()
        };
        fixture.replay(&[change.into()]);
        let request = MetadataRequest {
            topics: None,
            ..MetadataRequest::default()
        };
        let response = handle(&request, 9, &fixture.view());
        assert_eq!(response.topics[0].partitions[0].offline_replicas, [1]);
    }

    #[test]
    fn what_may_be_done_is_told_to_those_who_ask() {
        let fixture = Fixture::new("");
        let request = MetadataRequest {
            include_cluster_authorized_operations: true,
            include_topic_authorized_operations: true,
            ..MetadataRequest::default()
        };
        let response = handle(
            &MetadataRequest {
                topics: None,
                ..request.clone()
            },
            8,
            &fixture.view(),
        );
        assert_eq!(
            (
                response.cluster_authorized_operations,
                response.topics[0].topic_authorized_operations
            ),
            (8096, 3576)
        );
        assert_eq!(
            handle(&request, 11, &fixture.view()).cluster_authorized_operations,
            i32::MIN
        );
    }

    #[test]
    fn a_broker_that_answers_names_itself_where_no_other_is_counted_in() {
        let request = MetadataRequest {
            topics: Some(vec![named("a")]),
            ..MetadataRequest::default()
        };
        let mut fixture = Fixture::new("");
        fixture.register_second(false);
        let brokers = |fixture: &Fixture| {
            let response = handle(&request, 9, &fixture.view());
            let brokers = response.brokers.iter();
            brokers.map(|broker| broker.node_id).collect::<Vec<i32>>()
        };
        assert_eq!(brokers(&fixture), [1, 2]);
        fixture.fence(BrokerId(1));
        assert_eq!(brokers(&fixture), [2]);
        fixture.fence(BrokerId(2));
        assert_eq!(brokers(&fixture), [1]);
    }

    #[test]
    fn a_missing_topic_is_created_before_the_answer_when_everyone_agrees() {
        let request = |allow| MetadataRequest {
            topics: Some(["new", "bad name", "a"].map(named).to_vec()),
            allow_auto_topic_creation: allow,
            ..MetadataRequest::default()
        };
        for (text, allow, created) in [
            ("", true, 1),
            ("", false, 0),
            ("auto.create.topics.enable=false", true, 0),
        ] {
            let mut fixture = Fixture::new(text);
            let records = create(&request(allow), &fixture.view());
            let asked = request(allow);
            let missing = missing(&asked, 9, &fixture.view());
            assert_eq!(missing.into_inner().len(), created);
            fixture.replay(&records);
            let response = handle(&request(allow), 9, &fixture.view());
            let code = response
                .topics
                .iter()
                .find(|topic| topic.name.as_deref() == Some("new"))
                .map(|topic| topic.error_code);
            assert_eq!(code, Some(if created == 1 { 0 } else { 3 }));
        }
    }

    #[test]
    fn a_name_that_collides_is_not_created() {
        let mut fixture = Fixture::new("");
        let request = |name| MetadataRequest {
            topics: Some(vec![named(name)]),
            allow_auto_topic_creation: true,
            ..MetadataRequest::default()
        };
        let records = create(&request("x.y"), &fixture.view());
        fixture.replay(&records);
        assert!(create(&request("x_y"), &fixture.view()).is_empty());
        assert_eq!(
            codes(&handle(&request("x_y"), 9, &fixture.view())),
            [(Some("x_y"), 3)]
        );
    }
}
