//! Settings of brokers, topics and groups: one typed table, the files that set them, what they mean, how they are described.
//!
//! Owns every name, default, bound and error text. Does no IO: the caller reads the file and passes its text.
//! Refuses unknown names and values that do not fit, naming the nearest known setting.

mod access;
mod broker;
mod client_metrics;
mod contradictions;
mod describe;
pub mod docs;
mod doors;
#[cfg(test)]
mod fixture;
mod group;
mod layers;
mod listener;
mod log_dirs;
mod login;
mod memory;
mod properties;
mod quorum;
mod settings;
mod table;
mod topic;
mod value;

pub use access::Access;
pub use broker::{Broker, ChangeError, Cleaner, Level, PassedOver};
pub use client_metrics::{ClientMetrics, check_client_metrics};
pub use describe::{Description, SynonymValue};
pub use group::group_number;
pub use layers::{Machine, Overrides, Source};
pub use listener::Listener;
pub use login::{Login, Protocol};
pub use memory::{LIMIT_BYTES_MIN, Memory};
pub use properties::{PropertiesError, parse as properties};
pub use quorum::{Quorum, Roles, Voter};
pub use settings::{Format, Settings, SettingsError, Warning};
pub use table::{
    Check, GroupSetting, Kind, Setting, Status, Synonym, TopicSetting, Update, broker_setting,
    broker_settings, client_metrics_setting, group_setting, group_settings, nearest_broker_setting,
    nearest_topic_setting, topic_setting, topic_settings,
};
pub use topic::{Clock, Codec, Durability, Topic};
pub use value::{Value, ValueError};
