//! A delta says what a walk over both images would find, and nothing else.

use std::collections::BTreeMap;
use std::sync::Arc;

use ::config::Overrides;
use ::model::{BrokerId, PartitionIndex, ProducerId};
use meta::decide::create_partitions::{Growth, create_partitions};
use meta::decide::create_topics::create_topics;
use meta::decide::delete_topics::{Target, delete_topics};
use meta::decide::producer_ids::allocate_producer_ids;
use meta::{Delta, Image, Record, Resource, ResourceKind, Topic};
use wire::Uuid;
use wire::metadata::{ConfigRecord, FeatureLevelRecord, FenceBrokerRecord};

use crate::answers::topic;
use crate::{broker, image, replay, uuids};

/// The same by comparing everything with everything.
pub(crate) fn check_by_walking(old: &Image, new: &Image) {
    let delta = Delta::between(old, new);
    let topics = |image: &Image| -> BTreeMap<Uuid, Arc<Topic>> {
        let all = image.topics().map(|topic| (topic.id, Arc::clone(topic)));
        all.collect()
    };
    let (before, after) = (topics(old), topics(new));
    let ids = |topics: &mut dyn Iterator<Item = Uuid>| {
        let mut ids: Vec<Uuid> = topics.collect();
        ids.sort_unstable();
        ids
    };
    let created = &mut (after.keys().copied()).filter(|id| !before.contains_key(id));
    let deleted = &mut (before.keys().copied()).filter(|id| !after.contains_key(id));
    let differs = |id: &Uuid| before.get(id).is_some_and(|old| Some(old) != after.get(id));
    let changed = &mut (after.keys().copied()).filter(differs);
    assert_eq!(
        ids(&mut delta.created.iter().map(|one| one.id)),
        ids(created)
    );
    let gone = &mut delta.deleted.iter().map(|one| one.topic.id);
    assert_eq!(ids(gone), ids(deleted));
    assert_eq!(
        ids(&mut delta.changed.iter().map(|one| one.new.id)),
        ids(changed)
    );
    for deleted in &delta.deleted {
        let resource = Resource::topic(&deleted.topic.name);
        assert_eq!(deleted.overrides, old.overrides(&resource));
    }
    let all = old.configured().chain(new.configured());
    let mut configs: Vec<Resource> = all
        .filter(|resource| old.overrides(resource) != new.overrides(resource))
        .cloned()
        .collect();
    configs.sort();
    configs.dedup();
    let found: Vec<&Resource> = delta.configs.iter().map(|one| &one.resource).collect();
    assert_eq!(found, configs.iter().collect::<Vec<_>>());
    assert_eq!(delta.has_topics(), topics(old) != topics(new));
}

fn set(kind: ResourceKind, name: &str, setting: &str, value: &str) -> Record {
    ConfigRecord {
        resource_type: kind as i8,
        resource_name: name.into(),
        name: setting.into(),
        value: Some(value.into()),
    }
    .into()
}

#[test]
fn one_change_among_many_topics_is_all_that_a_delta_names() {
    let mut ids = uuids();
    let names: Vec<_> = (0..500).map(|n| topic(&format!("t{n}"))).collect();
    let mut old = image(1);
    let created = create_topics(&old, &broker(""), &names, &mut ids);
    replay(&mut old, &created.records);
    let mut new = old.clone();
    let growth = Growth {
        name: "t77".into(),
        count: 3,
        assignments: None,
    };
    let records = create_partitions(&old, &[growth]).records;
    replay(&mut new, &records);
    replay(
        &mut new,
        &[set(ResourceKind::Topic, "t78", "retention.ms", "5")],
    );

    let delta = Delta::between(&old, &new);
    let [changed] = delta.changed.as_slice() else {
        panic!("one topic changed: {delta:?}");
    };
    assert_eq!(changed.partitions, [PartitionIndex(1), PartitionIndex(2)]);
    assert_eq!(
        (changed.old.partitions.len(), changed.new.partitions.len()),
        (1, 3)
    );
    assert!(delta.has_config(&Resource::topic("t78")));
    assert!(!delta.has_config(&Resource::topic("t77")));
    assert_eq!(delta.configs.len(), 1);
    assert!(delta.created.is_empty() && delta.deleted.is_empty() && delta.brokers.is_empty());
    check_by_walking(&old, &new);
    check_by_walking(&new, &old);
}

#[test]
fn a_deleted_topic_shows_the_settings_it_had_and_its_successor_is_another() {
    let mut ids = uuids();
    let mut old = image(1);
    let created = create_topics(&old, &broker(""), &[topic("a")], &mut ids);
    replay(&mut old, &created.records);
    replay(
        &mut old,
        &[set(ResourceKind::Topic, "a", "retention.ms", "5")],
    );
    let mut new = old.clone();
    let target = Target {
        name: Some("a".into()),
        ..Target::default()
    };
    replay(&mut new, &delete_topics(&old, &[target]).records);
    let again = create_topics(&new, &broker(""), &[topic("a")], &mut ids);
    replay(&mut new, &again.records);

    let delta = Delta::between(&old, &new);
    let ([deleted], [created]) = (delta.deleted.as_slice(), delta.created.as_slice()) else {
        panic!("one went and one came: {delta:?}");
    };
    assert_ne!(deleted.topic.id, created.id);
    let had: Overrides = [("retention.ms".to_owned(), "5".to_owned())].into();
    assert_eq!(*deleted.overrides, had);
    assert!(delta.changed.is_empty());
    let [config] = delta.configs.as_slice() else {
        panic!("the settings are gone: {delta:?}");
    };
    assert_eq!((&*config.old, config.new.len()), (&had, 0));
}

#[test]
fn features_brokers_and_producer_ids_are_named() {
    let old = image(2);
    let mut new = old.clone();
    let (block, range) = allocate_producer_ids(&old, BrokerId(1)).expect("there are ids");
    let feature = FeatureLevelRecord {
        name: "group.version".into(),
        feature_level: 0,
    };
    let fence = FenceBrokerRecord {
        id: 2,
        epoch: new.broker(BrokerId(2)).expect("registered").epoch,
    };
    let group = set(ResourceKind::Group, "g", "consumer.session.timeout.ms", "5");
    replay(&mut new, &[block, feature.into(), fence.into(), group]);

    let delta = Delta::between(&old, &new);
    assert_eq!(delta.producer_ids, range);
    assert_eq!(delta.producer_ids.end, new.next_producer_id().0);
    assert!(delta.has_feature("group.version") && delta.features.len() == 1);
    let [fenced] = delta.brokers.as_slice() else {
        panic!("one broker changed: {delta:?}");
    };
    let is_fenced =
        |broker: &Option<Arc<meta::Registration>>| broker.as_ref().map(|broker| broker.is_fenced);
    assert_eq!(
        (is_fenced(&fenced.old), is_fenced(&fenced.new)),
        (Some(false), Some(true))
    );
    assert_eq!(delta.configs_of(ResourceKind::Group).count(), 1);
    assert_eq!(delta.configs_of(ResourceKind::Topic).count(), 0);
    assert!(!delta.has_topics());

    let nothing = Delta::between(&new, &new.clone());
    assert!(nothing.producer_ids.is_empty() && nothing.brokers.is_empty());
    assert_eq!(new.next_producer_id(), ProducerId(range.end));
}
