//! Requests about metadata: from their handlers, which are functions of the image, to answers and changes.

use std::sync::Arc;
use std::time::Duration;

use meta::Record;
use meta::decide::Uuids;
use wire::messages::{
    ApiVersionsRequest, DescribeDelegationTokenRequest, ExpireDelegationTokenRequest,
    MetadataRequest, RenewDelegationTokenRequest,
};
use wire::{ApiKey, Message, Reader};

use super::overdue::{Overdue, Patience};
use super::telemetry::receives_client_metrics;
use super::{
    alter_configs, alter_partition_reassignments, api_versions, create_partitions, create_topics,
    delegation_tokens, delete_topics, describe_client_quotas, describe_cluster, describe_configs,
    describe_topic_partitions, describe_user_scram_credentials, elect_leaders,
    incremental_alter_configs, list_config_resources, list_partition_reassignments, metadata,
    offline, unregister_broker, update_features,
};
use crate::event_loop::Outcome;
use crate::kafka::call::Call;
use crate::kafka::{Attempt, with};
use crate::ops::view::View;

pub(crate) fn on_api_versions_unknown(call: &mut Call<'_>) -> Outcome {
    call.address.version = 0;
    call.reply(ApiKey::ApiVersions, &api_versions::unsupported())
}

fn on_api_versions(call: &mut Call<'_>, request: ApiVersionsRequest) -> Outcome {
    let scene = call.scene();
    if receives_client_metrics(call)
        && let Some((name, version)) = api_versions::software(&request)
        && let Some(connection) = call.connections.get_mut(call.address.conn)
    {
        Arc::make_mut(connection.asker_mut()).set_software(name, version);
    }
    let shared = Arc::clone(&call.desk.shared);
    let view = scene.view(&shared.metadata.cluster_id);
    let response = api_versions::handle(&request, call.version(), &view);
    call.reply(ApiKey::ApiVersions, &response)
}

pub(crate) fn on_metadata(
    call: &mut Call<'_>,
    request: MetadataRequest,
    attempt: Attempt,
) -> Outcome {
    let scene = call.scene();
    let shared = Arc::clone(&call.desk.shared);
    let version = call.version();
    let view = scene.view(&shared.metadata.cluster_id);
    if attempt == Attempt::First && !metadata::missing(&request, version, &view).is_empty() {
        let asked = request.clone();
        let again = move |call: &mut Call<'_>, attempt| on_metadata(call, asked, attempt);
        return call.change_first(again, |view, uuids| {
            metadata::create(&request, version, view, uuids)
        });
    }
    let mut response = metadata::handle(&request, version, &view);
    offline::in_metadata(&mut response, &call.desk.topics(), view.broker.node_id);
    call.reply(ApiKey::Metadata, &response)
}

pub(crate) fn dispatch_admin(call: &mut Call<'_>, key: ApiKey, reader: Reader) -> Outcome {
    let version = call.version();
    match key {
        ApiKey::ApiVersions => with(call, reader, on_api_versions),
        ApiKey::Metadata => with(call, reader, |call, request| {
            on_metadata(call, request, Attempt::First)
        }),
        ApiKey::DescribeCluster => tell(call, key, reader, describe_cluster::handle),
        ApiKey::DescribeConfigs => tell(call, key, reader, describe_configs::handle),
        ApiKey::DescribeTopicPartitions => {
            let topics = call.desk.topics();
            tell(call, key, reader, move |request, view| {
                let mut response = describe_topic_partitions::handle(request, view);
                offline::in_pages(&mut response, &topics, view.broker.node_id);
                response
            })
        }
        ApiKey::ListConfigResources => tell(call, key, reader, |request, view| {
            list_config_resources::handle(request, version, view)
        }),
        ApiKey::CreateTopics => decide(call, key, reader, |request, view, uuids| {
            create_topics::handle(request, view, uuids)
        }),
        ApiKey::DeleteTopics => decide(call, key, reader, |request, view, _| {
            delete_topics::handle(request, version, view)
        }),
        ApiKey::CreatePartitions => decide(call, key, reader, |request, view, _| {
            create_partitions::handle(request, view)
        }),
        ApiKey::AlterConfigs => decide(call, key, reader, |request, view, _| {
            alter_configs::handle(request, view)
        }),
        ApiKey::IncrementalAlterConfigs => decide(call, key, reader, |request, view, _| {
            incremental_alter_configs::handle(request, view)
        }),
        ApiKey::DescribeAcls => with(call, reader, super::acls::on_describe_acls),
        ApiKey::CreateAcls => with(call, reader, super::acls::on_create_acls),
        ApiKey::DeleteAcls => with(call, reader, super::acls::on_delete_acls),
        ApiKey::CreateDelegationToken => tell(call, key, reader, |request, _| {
            delegation_tokens::create(request, version)
        }),
        ApiKey::RenewDelegationToken => {
            let renew = |_: &RenewDelegationTokenRequest, _: &View<'_>| delegation_tokens::renew();
            tell(call, key, reader, renew)
        }
        ApiKey::ExpireDelegationToken => {
            let expire =
                |_: &ExpireDelegationTokenRequest, _: &View<'_>| delegation_tokens::expire();
            tell(call, key, reader, expire)
        }
        ApiKey::DescribeDelegationToken => {
            let describe =
                |_: &DescribeDelegationTokenRequest, _: &View<'_>| delegation_tokens::describe();
            tell(call, key, reader, describe)
        }
        ApiKey::DescribeClientQuotas => tell(call, key, reader, |request, _| {
            describe_client_quotas::handle(request)
        }),
        ApiKey::DescribeUserScramCredentials => tell(call, key, reader, |request, _| {
            describe_user_scram_credentials::handle(request)
        }),
        ApiKey::UnregisterBroker => tell(call, key, reader, unregister_broker::handle),
        ApiKey::DescribeQuorum => with(call, reader, super::describe_quorum::on_describe_quorum),
        ApiKey::ElectLeaders => decide(call, key, reader, |request, view, _| {
            elect_leaders::handle(request, view)
        }),
        // Every target that passes is where the partition is already: there is nothing to write.
        ApiKey::AlterPartitionReassignments => {
            tell(call, key, reader, alter_partition_reassignments::handle)
        }
        ApiKey::ListPartitionReassignments => {
            tell(call, key, reader, list_partition_reassignments::handle)
        }
        ApiKey::UpdateFeatures => decide(call, key, reader, |request, view, _| {
            update_features::handle(request, version, view)
        }),
        // The table lists nothing that has no arm in the router or here.
        _ => Outcome::Close,
    }
}

/// Answers from what is published.
fn tell<R: Message, M: Message>(
    call: &mut Call<'_>,
    key: ApiKey,
    reader: Reader,
    handle: impl FnOnce(&R, &View<'_>) -> M,
) -> Outcome {
    let scene = call.scene();
    with(call, reader, |call, request: R| {
        let shared = Arc::clone(&call.desk.shared);
        let response = handle(&request, &scene.view(&shared.metadata.cluster_id));
        call.reply(key, &response)
    })
}

/// Answers when what is decided is durable, or when the client's time is up. One that names none waits as long as a client
/// waits for any request.
fn decide<R: Message + Patience, M: Message + Overdue + Send + 'static>(
    call: &mut Call<'_>,
    key: ApiKey,
    reader: Reader,
    handle: impl FnOnce(&R, &View<'_>, &mut dyn Uuids) -> (Vec<Record>, M),
) -> Outcome {
    with(call, reader, |call, request: R| {
        let patience = match request.timeout_ms() {
            Some(ms) => Duration::from_millis(ms.max(0).unsigned_abs().into()),
            None => call.desk.shared.config().request_wait_max,
        };
        call.change(key, patience, |view, uuids| handle(&request, view, uuids))
    })
}
