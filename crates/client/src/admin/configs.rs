//! Settings of topics and brokers: what they are, where they come from, changing them one by one.

use wire::messages::describe_configs_request::DescribeConfigsResource;
use wire::messages::incremental_alter_configs_request::{AlterConfigsResource, AlterableConfig};
use wire::messages::{DescribeConfigsRequest, IncrementalAlterConfigsRequest};

use crate::cluster::Client;
use crate::error::Error;

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Resource {
    Topic(String),
    Broker(i32),
}

impl Resource {
    fn kind(&self) -> i8 {
        match self {
            Resource::Topic(_) => 2,
            Resource::Broker(_) => 4,
        }
    }

    fn name(&self) -> String {
        match self {
            Resource::Topic(name) => name.clone(),
            Resource::Broker(id) => id.to_string(),
        }
    }

    fn words(&self) -> String {
        match self {
            Resource::Topic(name) => format!("settings of topic {name}"),
            Resource::Broker(id) => format!("settings of broker {id}"),
        }
    }
}

/// The place where a setting got its value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SettingSource {
    Topic,
    Broker,
    ClusterDefault,
    StaticBroker,
    Default,
    Other(i8),
}

impl SettingSource {
    fn of(id: i8) -> SettingSource {
        match id {
            1 => SettingSource::Topic,
            2 => SettingSource::Broker,
            3 => SettingSource::ClusterDefault,
            4 => SettingSource::StaticBroker,
            5 => SettingSource::Default,
            other => SettingSource::Other(other),
        }
    }

    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            SettingSource::Topic => "topic",
            SettingSource::Broker => "broker",
            SettingSource::ClusterDefault => "cluster-default",
            SettingSource::StaticBroker => "broker-file",
            SettingSource::Default => "default",
            SettingSource::Other(_) => "other",
        }
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Setting {
    pub name: String,
    /// `None` when it is secret or has no value.
    pub value: Option<String>,
    pub source: SettingSource,
    pub is_read_only: bool,
    pub is_sensitive: bool,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Change {
    Set(String, String),
    /// Back to the default.
    Unset(String),
}

impl Client {
    /// All settings of a topic or broker, in name order.
    pub fn describe_configs(&mut self, resource: &Resource) -> Result<Vec<Setting>, Error> {
        self.retry(&format!("describing {}", resource.words()), |client| {
            let ask = DescribeConfigsResource {
                resource_type: resource.kind(),
                resource_name: resource.name(),
                configuration_keys: None,
            };
            let request = DescribeConfigsRequest {
                resources: vec![ask],
                include_synonyms: false,
                include_documentation: false,
            };
            let response = match resource {
                Resource::Topic(_) => client.call_any(&request)?,
                Resource::Broker(id) => client.call_broker(*id, &request)?,
            };
            let mut settings = Vec::new();
            for answer in &response.results {
                Error::check(
                    answer.error_code,
                    || resource.words(),
                    answer.error_message.as_deref(),
                )?;
                settings.extend(answer.configs.iter().map(|config| Setting {
                    name: config.name.clone(),
                    value: config.value.clone(),
                    source: SettingSource::of(config.config_source),
                    is_read_only: config.read_only,
                    is_sensitive: config.is_sensitive,
                }));
            }
            settings.sort_by(|a, b| a.name.cmp(&b.name));
            Ok(settings)
        })
    }

    /// Changes some settings and leaves the others alone.
    pub fn alter_configs(
        &mut self,
        resource: &Resource,
        changes: &[Change],
        validate_only: bool,
    ) -> Result<(), Error> {
        let alterable = |change: &Change| match change {
            Change::Set(name, value) => AlterableConfig {
                name: name.clone(),
                config_operation: 0,
                value: Some(value.clone()),
            },
            Change::Unset(name) => AlterableConfig {
                name: name.clone(),
                config_operation: 1,
                value: None,
            },
        };
        self.retry(&format!("changing {}", resource.words()), |client| {
            let configs = changes.iter().map(alterable).collect();
            let ask = AlterConfigsResource {
                resource_type: resource.kind(),
                resource_name: resource.name(),
                configs,
            };
            let request = IncrementalAlterConfigsRequest {
                resources: vec![ask],
                validate_only,
            };
            let response = match resource {
                Resource::Topic(_) => client.call_controller(&request)?,
                Resource::Broker(id) => client.call_broker(*id, &request)?,
            };
            for answer in &response.responses {
                Error::check(
                    answer.error_code,
                    || resource.words(),
                    answer.error_message.as_deref(),
                )?;
            }
            Ok(())
        })
    }
}
