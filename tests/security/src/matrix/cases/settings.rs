//! Settings, quotas, features. Changes are validated only, or of what is not there.

use wire::ApiKey;
use wire::any::AnyRequest;
use wire::messages::{
    AlterClientQuotasRequest, AlterConfigsRequest, DescribeClientQuotasRequest,
    DescribeConfigsRequest, IncrementalAlterConfigsRequest, ListConfigResourcesRequest,
    UpdateFeaturesRequest, alter_client_quotas_request as quotas, alter_configs_request as alter,
    describe_configs_request as describe, incremental_alter_configs_request as incremental,
    update_features_request as features,
};

use super::Target::{self, Absent, All, Cluster, Other, Several, There};
use super::{Row, noted, row};

const TOPIC: i8 = 2;
const BROKER: i8 = 4;
const LOGGER: i8 = 8;
const CLIENT_METRICS: i8 = 16;
const GROUP: i8 = 32;
const NAMES: &[Target] = &[There, Absent, Other, Several];

pub(crate) fn rows() -> Vec<Row> {
    let mut all = vec![
        row(ApiKey::DescribeConfigs, NAMES, |s| {
            Some(described(TOPIC, s.names(), "retention.ms"))
        }),
        noted(ApiKey::DescribeConfigs, "group", NAMES, |s| {
            Some(described(GROUP, s.names(), "consumer.session.timeout.ms"))
        }),
        noted(ApiKey::DescribeConfigs, "broker", &[Cluster], |_| {
            Some(described(BROKER, vec!["1".to_owned()], "num.io.threads"))
        }),
        noted(ApiKey::DescribeConfigs, "logger", &[Cluster], |_| {
            Some(described(LOGGER, vec!["1".to_owned()], "no.such.logger"))
        }),
        noted(ApiKey::DescribeConfigs, "metrics", &[Cluster], |_| {
            Some(described(
                CLIENT_METRICS,
                vec!["absent".to_owned()],
                "interval.ms",
            ))
        }),
        row(ApiKey::ListConfigResources, &[All], |_| {
            Some(AnyRequest::ListConfigResources(
                ListConfigResourcesRequest::default(),
            ))
        }),
        row(ApiKey::DescribeClientQuotas, &[All], |_| {
            Some(AnyRequest::DescribeClientQuotas(
                DescribeClientQuotasRequest::default(),
            ))
        }),
        row(ApiKey::AlterClientQuotas, &[Cluster], |_| {
            Some(AnyRequest::AlterClientQuotas(AlterClientQuotasRequest {
                entries: vec![quotas::EntryData {
                    entity: vec![quotas::EntityData {
                        entity_type: "user".to_owned(),
                        entity_name: Some("nobody".to_owned()),
                    }],
                    ops: vec![quotas::OpData {
                        key: "producer_byte_rate".to_owned(),
                        value: 1e6,
                        remove: false,
                    }],
                }],
                validate_only: true,
            }))
        }),
        row(ApiKey::UpdateFeatures, &[Cluster], |s| {
            Some(AnyRequest::UpdateFeatures(UpdateFeaturesRequest {
                timeout_ms: 5_000,
                feature_updates: vec![features::FeatureUpdateKey {
                    feature: "no.such.feature".to_owned(),
                    max_version_level: 1,
                    upgrade_type: 1,
                    ..Default::default()
                }],
                validate_only: s.version >= 1,
            }))
        }),
    ];
    all.extend(changes());
    all
}

fn described(resource_type: i8, names: Vec<String>, key: &str) -> AnyRequest {
    AnyRequest::DescribeConfigs(DescribeConfigsRequest {
        resources: names
            .into_iter()
            .map(|resource_name| describe::DescribeConfigsResource {
                resource_type,
                resource_name,
                configuration_keys: Some(vec![key.to_owned()]),
            })
            .collect(),
        ..Default::default()
    })
}

fn changes() -> Vec<Row> {
    vec![
        row(ApiKey::AlterConfigs, NAMES, |s| {
            Some(altered(TOPIC, s.names(), "retention.ms", "1000"))
        }),
        noted(ApiKey::AlterConfigs, "broker", &[Cluster], |_| {
            Some(altered(
                BROKER,
                vec!["1".to_owned()],
                "background.threads",
                "8",
            ))
        }),
        noted(ApiKey::AlterConfigs, "group", NAMES, |s| {
            Some(altered(
                GROUP,
                s.names(),
                "consumer.session.timeout.ms",
                "50000",
            ))
        }),
        row(ApiKey::IncrementalAlterConfigs, NAMES, |s| {
            Some(changed(TOPIC, s.names(), "retention.ms", "1000"))
        }),
        noted(
            ApiKey::IncrementalAlterConfigs,
            "broker",
            &[Cluster],
            |_| {
                Some(changed(
                    BROKER,
                    vec!["1".to_owned()],
                    "background.threads",
                    "8",
                ))
            },
        ),
        noted(
            ApiKey::IncrementalAlterConfigs,
            "logger",
            &[Cluster],
            |_| {
                Some(changed(
                    LOGGER,
                    vec!["1".to_owned()],
                    "no.such.logger",
                    "INFO",
                ))
            },
        ),
        noted(
            ApiKey::IncrementalAlterConfigs,
            "metrics",
            &[Cluster],
            |_| {
                Some(changed(
                    CLIENT_METRICS,
                    vec!["absent".to_owned()],
                    "interval.ms",
                    "1000",
                ))
            },
        ),
        noted(ApiKey::IncrementalAlterConfigs, "group", NAMES, |s| {
            Some(changed(
                GROUP,
                s.names(),
                "consumer.session.timeout.ms",
                "50000",
            ))
        }),
    ]
}

fn altered(resource_type: i8, names: Vec<String>, name: &str, value: &str) -> AnyRequest {
    AnyRequest::AlterConfigs(AlterConfigsRequest {
        resources: names
            .into_iter()
            .map(|resource_name| alter::AlterConfigsResource {
                resource_type,
                resource_name,
                configs: vec![alter::AlterableConfig {
                    name: name.to_owned(),
                    value: Some(value.to_owned()),
                }],
            })
            .collect(),
        validate_only: true,
    })
}

fn changed(resource_type: i8, names: Vec<String>, name: &str, value: &str) -> AnyRequest {
    AnyRequest::IncrementalAlterConfigs(IncrementalAlterConfigsRequest {
        resources: names
            .into_iter()
            .map(|resource_name| incremental::AlterConfigsResource {
                resource_type,
                resource_name,
                configs: vec![incremental::AlterableConfig {
                    name: name.to_owned(),
                    config_operation: 0,
                    value: Some(value.to_owned()),
                }],
            })
            .collect(),
        validate_only: true,
    })
}
