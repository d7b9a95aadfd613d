//! Requests about metadata: from their handlers, which are functions of the image, to answers and changes.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use meta::{Image, Record};
use wire::messages::{
    ApiVersionsRequest, DescribeDelegationTokenRequest, ExpireDelegationTokenRequest,
    MetadataRequest, RenewDelegationTokenRequest,
};
use wire::{ApiKey, Message, Reader};

use super::overdue::{Overdue, Patience};
use super::{
    View, alter_configs, alter_partition_reassignments, api_versions, create_partitions,
    create_topics, delegation_tokens, delete_topics, describe_client_quotas, describe_cluster,
    describe_configs, describe_topic_partitions, describe_user_scram_credentials, elect_leaders,
    incremental_alter_configs, list_config_resources, list_partition_reassignments, metadata,
    offline, unregister_broker, update_features,
};
use crate::ids::random_uuid;
use crate::kafka::Attempt;
use crate::kafka::access::Principal;
use crate::settings::Settings;
use crate::shard::{Address, Outcome, Shard};
use crate::shared::Shared;

/// Of the name of a client's software, and of its version, so much is kept with its connection.
const SOFTWARE_CHARS_MAX: usize = 100;

/// What a view borrows from.
pub(crate) struct Scene {
    pub(crate) image: Arc<Image>,
    settings: Arc<Settings>,
    pub(crate) asker: Asker,
}

/// Who asks, and at which address of this broker.
#[derive(Clone, Copy)]
pub(crate) struct Asker {
    principal: Principal,
    local: SocketAddr,
}

impl Scene {
    pub(crate) fn view<'a>(&'a self, cluster_id: &'a str) -> View<'a> {
        view(&self.image, &self.settings, cluster_id, self.asker)
    }
}

pub(crate) fn view<'a>(
    image: &'a Image,
    settings: &'a Settings,
    cluster_id: &'a str,
    asker: Asker,
) -> View<'a> {
    let broker = &settings.broker;
    let registered = image
        .broker(broker.node_id)
        .map_or(&[][..], |registration| &registration.endpoints);
    // Listeners are told apart by their port: it is what the connection knows.
    let by_port = broker
        .listeners
        .iter()
        .find(|listener| listener.port == asker.local.port());
    let listener = by_port.map(|listener| listener.name.as_str());
    let first = || {
        registered
            .first()
            .map_or("PLAINTEXT", |endpoint| endpoint.name.as_str())
    };
    View {
        image,
        broker,
        cluster_id,
        listener: listener.unwrap_or_else(first),
        local: asker.local.ip(),
        principal: asker.principal,
    }
}

impl Shard {
    pub(crate) fn on_api_versions_unknown(&mut self, address: &Address) -> Outcome {
        let oldest = Address {
            version: 0,
            ..*address
        };
        self.reply(&oldest, ApiKey::ApiVersions, &api_versions::unsupported())
    }

    fn on_api_versions(&mut self, address: &Address, request: ApiVersionsRequest) -> Outcome {
        let Some(scene) = self.scene(address) else {
            return Outcome::Close;
        };
        if self.receives_client_metrics()
            && let Some((name, version)) = api_versions::software(&request)
            && let Some(connection) = self.connections.get_mut(&address.conn)
        {
            let short = |text: &str| text.chars().take(SOFTWARE_CHARS_MAX).collect();
            connection.software = Some(Box::new((short(name), short(version))));
        }
        let shared = Arc::clone(&self.shared);
        let view = scene.view(&shared.metadata.cluster_id);
        let response = api_versions::handle(&request, address.version, &view);
        self.reply(address, ApiKey::ApiVersions, &response)
    }

    pub(crate) fn on_metadata(
        &mut self,
        address: &Address,
        request: MetadataRequest,
        frame: Bytes,
        attempt: Attempt,
    ) -> Outcome {
        let Some(scene) = self.scene(address) else {
            return Outcome::Close;
        };
        let shared = Arc::clone(&self.shared);
        let version = address.version;
        let view = scene.view(&shared.metadata.cluster_id);
        if attempt == Attempt::First && !metadata::missing(&request, version, &view).is_empty() {
            let asker = scene.asker;
            return self.change_first(address, frame, |image, shared| {
                let settings = shared.config();
                let view = self::view(image, &settings, &shared.metadata.cluster_id, asker);
                metadata::create(&request, version, &view, &mut || random_uuid(&shared.env))
            });
        }
        let mut response = metadata::handle(&request, version, &view);
        offline::in_metadata(&mut response, &self.topics(), view.broker.node_id);
        self.reply(address, ApiKey::Metadata, &response)
    }

    pub(crate) fn dispatch_admin(
        &mut self,
        key: ApiKey,
        address: &Address,
        reader: Reader,
    ) -> Outcome {
        let version = address.version;
        match key {
            ApiKey::ApiVersions => self.with(address, reader, Shard::on_api_versions),
            ApiKey::DescribeCluster => self.tell(key, address, reader, describe_cluster::handle),
            ApiKey::DescribeConfigs => self.tell(key, address, reader, describe_configs::handle),
            ApiKey::DescribeTopicPartitions => {
                let topics = self.topics();
                self.tell(key, address, reader, move |request, view| {
                    let mut response = describe_topic_partitions::handle(request, view);
                    offline::in_pages(&mut response, &topics, view.broker.node_id);
                    response
                })
            }
            ApiKey::ListConfigResources => self.tell(key, address, reader, |request, view| {
                list_config_resources::handle(request, version, view)
            }),
            ApiKey::CreateTopics => self.decide(key, address, reader, |request, view, shared| {
                create_topics::handle(request, view, &mut || random_uuid(&shared.env))
            }),
            ApiKey::DeleteTopics => self.decide(key, address, reader, |request, view, _| {
                delete_topics::handle(request, version, view)
            }),
            ApiKey::CreatePartitions => self.decide(key, address, reader, |request, view, _| {
                create_partitions::handle(request, view)
            }),
            ApiKey::AlterConfigs => self.decide(key, address, reader, |request, view, _| {
                alter_configs::handle(request, view)
            }),
            ApiKey::IncrementalAlterConfigs => {
                self.decide(key, address, reader, |request, view, _| {
                    incremental_alter_configs::handle(request, view)
                })
            }
            ApiKey::DescribeAcls => self.with(address, reader, Shard::on_describe_acls),
            ApiKey::CreateAcls => self.with(address, reader, Shard::on_create_acls),
            ApiKey::DeleteAcls => self.with(address, reader, Shard::on_delete_acls),
            ApiKey::CreateDelegationToken => self.tell(key, address, reader, |request, _| {
                delegation_tokens::create(request, version)
            }),
            ApiKey::RenewDelegationToken => {
                let renew =
                    |_: &RenewDelegationTokenRequest, _: &View<'_>| delegation_tokens::renew();
                self.tell(key, address, reader, renew)
            }
            ApiKey::ExpireDelegationToken => {
                let expire =
                    |_: &ExpireDelegationTokenRequest, _: &View<'_>| delegation_tokens::expire();
                self.tell(key, address, reader, expire)
            }
            ApiKey::DescribeDelegationToken => {
                let describe = |_: &DescribeDelegationTokenRequest, _: &View<'_>| {
                    delegation_tokens::describe()
                };
                self.tell(key, address, reader, describe)
            }
            ApiKey::DescribeClientQuotas => self.tell(key, address, reader, |request, _| {
                describe_client_quotas::handle(request)
            }),
            ApiKey::DescribeUserScramCredentials => {
                self.tell(key, address, reader, |request, _| {
                    describe_user_scram_credentials::handle(request)
                })
            }
            ApiKey::UnregisterBroker => self.tell(key, address, reader, unregister_broker::handle),
            ApiKey::DescribeQuorum => self.with(address, reader, Shard::on_describe_quorum),
            ApiKey::ElectLeaders => self.decide(key, address, reader, |request, view, _| {
                elect_leaders::handle(request, view)
            }),
            // Every target that passes is where the partition is already: there is nothing to write.
            ApiKey::AlterPartitionReassignments => {
                self.tell(key, address, reader, alter_partition_reassignments::handle)
            }
            ApiKey::ListPartitionReassignments => {
                self.tell(key, address, reader, list_partition_reassignments::handle)
            }
            ApiKey::UpdateFeatures => self.decide(key, address, reader, |request, view, _| {
                update_features::handle(request, version, view)
            }),
            // The table lists nothing that has no arm in the router or here.
            _ => Outcome::Close,
        }
    }

    /// Answers from what is published.
    fn tell<R: Message, M: Message>(
        &mut self,
        key: ApiKey,
        address: &Address,
        reader: Reader,
        handle: impl FnOnce(&R, &View<'_>) -> M,
    ) -> Outcome {
        let Some(scene) = self.scene(address) else {
            return Outcome::Close;
        };
        self.with(address, reader, |shard, address, request: R| {
            let shared = Arc::clone(&shard.shared);
            let response = handle(&request, &scene.view(&shared.metadata.cluster_id));
            shard.reply(address, key, &response)
        })
    }

    /// Answers when what is decided is durable, or when the client's time is up. One that names none waits as long as a client
    /// waits for any request.
    fn decide<R: Message + Patience, M: Message + Overdue + Send + 'static>(
        &mut self,
        key: ApiKey,
        address: &Address,
        reader: Reader,
        handle: impl FnOnce(&R, &View<'_>, &Shared) -> (Vec<Record>, M),
    ) -> Outcome {
        let Some(scene) = self.scene(address) else {
            return Outcome::Close;
        };
        self.with(address, reader, |shard, address, request: R| {
            let patience = match request.timeout_ms() {
                Some(ms) => Duration::from_millis(ms.max(0).unsigned_abs().into()),
                None => scene.settings.request_wait_max,
            };
            shard.change(address, key, patience, |image, shared| {
                let settings = shared.config();
                let view = view(image, &settings, &shared.metadata.cluster_id, scene.asker);
                handle(&request, &view, shared)
            })
        })
    }

    pub(crate) fn scene(&self, address: &Address) -> Option<Scene> {
        let connection = self.connections.get(&address.conn)?;
        Some(Scene {
            image: self.shared.metadata.image(),
            settings: self.shared.config(),
            asker: Asker {
                principal: connection.principal,
                local: connection.local,
            },
        })
    }
}
