//! Descriptions of settings: value, source, synonyms, type, as DescribeConfigs answers them.
//!
//! Owns the order of sources and what is hidden: a password, and a value whose type is not known, are never shown.

use crate::broker::Broker;
use crate::group;
use crate::layers::{Overrides, Source};
use crate::table::{self, Kind, Setting, Update};
use crate::topic;
use crate::value::{self, Value};

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Description {
    pub name: String,
    /// `None`: unset, or not to be shown.
    pub value: Option<String>,
    pub source: Source,
    pub read_only: bool,
    pub sensitive: bool,
    /// `None`: the table does not know this setting.
    pub kind: Option<Kind>,
    /// All layers' values, the winning one first.
    pub synonyms: Vec<SynonymValue>,
    pub doc: Option<&'static str>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SynonymValue {
    pub name: String,
    pub value: Option<String>,
    pub source: Source,
}

impl Description {
    /// Of a setting that anybody may see and change at any time; `chain` is what stands behind its value, the winning layer first.
    pub(crate) fn changeable(
        setting: &Setting,
        value: Option<Value>,
        chain: Vec<(String, String, Source)>,
    ) -> Description {
        Description {
            name: setting.name.into(),
            value: value.map(|value| value::canonical(&value)),
            source: winning(&chain),
            read_only: false,
            sensitive: false,
            kind: Some(setting.kind),
            synonyms: synonyms(chain, false),
            doc: Some(setting.doc),
        }
    }
}

impl Broker {
    /// Every listed setting of this broker, and the unlisted ones that are set.
    #[must_use]
    pub fn describe(&self) -> Vec<Description> {
        let known = table::broker_settings().map(|setting| self.describe_one(setting.name));
        let strange = self
            .layers
            .own
            .keys()
            .chain(self.layers.cluster.keys())
            .filter(|name| table::broker_setting(name).is_none());
        let prefixed = self
            .layers
            .fixed
            .iter()
            .map(|(name, _)| name)
            .filter(|name| table::broker_setting(name).is_none());
        let mut strange: Vec<&str> = strange.map(String::as_str).chain(prefixed).collect();
        strange.sort_unstable();
        strange.dedup();
        known
            .chain(strange.into_iter().map(|name| self.describe_one(name)))
            .collect()
    }

    /// The dynamic defaults of the whole cluster.
    #[must_use]
    pub fn describe_cluster(&self) -> Vec<Description> {
        let one = |(name, value): (&String, &String)| {
            let mut description = self.describe_one(name);
            description.value = (!description.sensitive).then(|| value.clone());
            description.source = Source::DynamicDefaultBroker;
            description
                .synonyms
                .retain(|synonym| synonym.source == Source::DynamicDefaultBroker);
            description
        };
        self.layers.cluster.iter().map(one).collect()
    }

    /// Every listed setting of a topic with `overrides`.
    #[must_use]
    pub fn describe_topic(&self, overrides: &Overrides) -> Vec<Description> {
        let one = |topic: &table::TopicSetting| {
            let name = topic.setting.name;
            let broker_names: Vec<&str> =
                topic.synonyms.iter().map(|synonym| synonym.name).collect();
            let plain = |text: &String| match value::check(&topic.setting, text) {
                Ok(value) => value::canonical(&value),
                Err(_) => text.clone(),
            };
            let own = overrides
                .get(name)
                .map(|text| (name.to_owned(), plain(text), Source::DynamicTopic));
            let chain: Vec<_> = own
                .into_iter()
                .chain(self.layers.chain(&broker_names))
                .collect();
            let value = topic::effective(overrides, &self.layers, name);
            Description::changeable(&topic.setting, value, chain)
        };
        table::topic_settings().map(one).collect()
    }

    /// Every setting of a group with `overrides`.
    #[must_use]
    pub fn describe_group(&self, overrides: &Overrides) -> Vec<Description> {
        let one = |group: &table::GroupSetting| {
            let name = group.setting.name;
            let value = group::effective(overrides, &self.layers, group);
            let own = overrides.contains_key(name).then(|| {
                let plain = value.as_ref().map(value::canonical);
                (name.to_owned(), plain.unwrap_or_default(), Source::Group)
            });
            let given = match (group.synonym, group.setting.default) {
                (Some(synonym), _) => self.layers.chain(&[synonym]),
                (None, Some(default)) => {
                    vec![(name.to_owned(), default.to_owned(), Source::Default)]
                }
                (None, None) => Vec::new(),
            };
            let chain: Vec<_> = own.into_iter().chain(given).collect();
            Description::changeable(&group.setting, value, chain)
        };
        table::group_settings().map(one).collect()
    }

    fn describe_one(&self, name: &str) -> Description {
        let setting = table::broker_setting(name);
        let sensitive = setting.is_none_or(|setting| setting.kind == Kind::Password);
        let value = setting
            .and_then(|setting| self.layers.value(setting))
            .map(|value| value::canonical(&value));
        let chain = self.layers.chain(&broker_chain(name));
        Description {
            name: name.into(),
            value: value.filter(|_| !sensitive),
            source: winning(&chain),
            read_only: setting.is_none_or(|setting| setting.update == Update::ReadOnly),
            sensitive,
            kind: setting.map(|setting| setting.kind),
            synonyms: synonyms(chain, sensitive),
            doc: setting.map(|setting| setting.doc),
        }
    }
}

fn winning(chain: &[(String, String, Source)]) -> Source {
    let first = chain.first();
    first.map_or(Source::Default, |(_, _, source)| *source)
}

fn synonyms(chain: Vec<(String, String, Source)>, sensitive: bool) -> Vec<SynonymValue> {
    chain
        .into_iter()
        .map(|(name, value, source)| SynonymValue {
            name,
            value: (!sensitive).then_some(value),
            source,
        })
        .collect()
}

/// The names asked for one broker setting: itself, then those that stand in for it.
fn broker_chain(name: &str) -> Vec<&str> {
    match table::topic_settings().find(|topic| {
        topic
            .synonyms
            .first()
            .is_some_and(|first| first.name == name)
    }) {
        Some(topic) => topic.synonyms.iter().map(|synonym| synonym.name).collect(),
        None => vec![name],
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::fixture::{broker, overrides};

    fn show(all: &[Description], name: &str) -> String {
        let one = all.iter().find(|one| one.name == name).expect("listed");
        let synonyms: Vec<String> = one
            .synonyms
            .iter()
            .map(|synonym| {
                format!(
                    "{}={}@{}",
                    synonym.name,
                    synonym.value.as_deref().unwrap_or("-"),
                    synonym.source as i8
                )
            })
            .collect();
        format!(
            "{}@{} [{}]",
            one.value.as_deref().unwrap_or("-"),
            one.source as i8,
            synonyms.join(" ")
        )
    }

    /// Kafka 4.3's answer for a broker started with `log.retention.hours=168` and `log.segment.bytes=1073741824`, before
    /// and after `log.retention.ms` was set to 5000 for the broker and 6000 for the cluster.
    #[test]
    fn sources_and_synonyms_are_listed_as_kafka_4_3_lists_them() {
        let before = broker("log.retention.hours=168\nlog.segment.bytes=1073741824");
        let all = before.describe();
        assert_eq!(
            show(&all, "log.retention.hours"),
            "168@4 [log.retention.hours=168@4 log.retention.hours=168@5]"
        );
        assert_eq!(show(&all, "log.retention.ms"), "-@5 []");
        assert_eq!(show(&all, "log.roll.hours"), "168@5 [log.roll.hours=168@5]");
        assert_eq!(show(&all, "log.flush.interval.ms"), "-@5 []");
        assert_eq!(show(&all, "log.dirs"), "-@5 []");
        let topic = before.describe_topic(&Overrides::new());
        assert_eq!(show(&topic, "retention.ms"), "604800000@5 []");
        assert_eq!(
            show(&topic, "cleanup.policy"),
            "delete@5 [log.cleanup.policy=delete@5]"
        );
        assert_eq!(
            show(&topic, "segment.bytes"),
            "1073741824@4 [log.segment.bytes=1073741824@4 log.segment.bytes=1073741824@5]"
        );

        let after = before.with_dynamic(
            overrides(&[("log.retention.ms", "6000")]),
            overrides(&[("log.retention.ms", "5000")]),
        );
        let behind = "log.retention.ms=5000@2 log.retention.ms=6000@3 log.retention.hours=168@4 log.retention.hours=168@5";
        assert_eq!(
            show(&after.describe(), "log.retention.ms"),
            format!("5000@2 [{behind}]")
        );
        assert_eq!(
            show(&after.describe_topic(&Overrides::new()), "retention.ms"),
            format!("5000@2 [{behind}]")
        );
        let topic = after.describe_topic(&overrides(&[("retention.ms", "1000")]));
        assert_eq!(
            show(&topic, "retention.ms"),
            format!("1000@1 [retention.ms=1000@1 {behind}]")
        );
        assert_eq!(after.describe_cluster().len(), 1);
        assert_eq!(
            show(&after.describe_cluster(), "log.retention.ms"),
            "6000@3 [log.retention.ms=6000@3]"
        );
    }

    #[test]
    fn a_group_has_what_it_set_before_what_the_broker_gives() {
        let broker = broker("group.consumer.heartbeat.interval.ms=6000");
        let all = broker.describe_group(&overrides(&[("consumer.session.timeout.ms", " 50000 ")]));
        assert_eq!(all.len(), 17);
        assert_eq!(
            show(&all, "consumer.session.timeout.ms"),
            "50000@8 [consumer.session.timeout.ms=50000@8 group.consumer.session.timeout.ms=45000@5]"
        );
        let behind = "group.consumer.heartbeat.interval.ms";
        assert_eq!(
            show(&all, "consumer.heartbeat.interval.ms"),
            format!("6000@4 [{behind}=6000@4 {behind}=5000@5]")
        );
        assert_eq!(
            show(&all, "share.isolation.level"),
            "read_uncommitted@5 [share.isolation.level=read_uncommitted@5]"
        );
    }

    #[test]
    fn values_are_shown_in_their_plain_form() {
        let topic = broker("").describe_topic(&overrides(&[
            ("retention.ms", " 77 "),
            ("cleanup.policy", " delete , compact "),
        ]));
        assert_eq!(show(&topic, "retention.ms"), "77@1 [retention.ms=77@1]");
        assert!(show(&topic, "cleanup.policy").starts_with("delete,compact@1 "));
    }

    #[test]
    fn passwords_and_values_of_unknown_type_are_never_shown() {
        let broker = broker("ssl.key.password=secret\nlistener.name.x.ssl.key.password=secret");
        let all = broker
            .with_dynamic(Arc::default(), overrides(&[("my.own", "secret")]))
            .describe();
        for name in [
            "ssl.key.password",
            "listener.name.x.ssl.key.password",
            "my.own",
        ] {
            let one = all.iter().find(|one| one.name == name).expect("listed");
            assert!(
                one.sensitive
                    && one.value.is_none()
                    && one.synonyms.iter().all(|synonym| synonym.value.is_none()),
                "{name}"
            );
        }
    }

    #[test]
    fn all_listed_settings_of_kafka_4_4_and_ours_are_described() {
        let broker = broker("");
        assert_eq!(broker.describe().len(), 361);
        // 34 of Kafka 4.4 and two of our own.
        assert_eq!(broker.describe_topic(&Overrides::new()).len(), 36);
    }
}
