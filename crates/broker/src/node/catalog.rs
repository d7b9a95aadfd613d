//! The metadata as requests see them: the image, the topics that are here, the settings. Read without a lock.
//!
//! Invariant: an image is shown only after the records that made it are committed, and images are shown in order.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use arc_swap::{ArcSwap, Guard};
use meta::decide::register_broker::TRANSACTION_VERSION;
use meta::{Delta, Image, Resource, ResourceKind};
use model::{BrokerId, Instant};
use parking_lot::Mutex;
use partition::News;
use raft::Endpoint;
use wire::Uuid;

use super::throttles::Throttles;
use crate::asker::Authority;
use crate::placement::Places;
use crate::settings::{Settings, log_config_of};
use crate::topics::Topics;

const UNCLEAN: &str = "unclean.leader.election.enable";

pub(crate) struct Catalog {
    image: ArcSwap<Image>,
    topics: ArcSwap<Topics>,
    settings: ArcSwap<Settings>,
    /// Held while a newer image is applied.
    applying: Mutex<()>,
    pub(crate) places: Places,
    pub(crate) throttles: Throttles,
    /// `None` where everybody may do everything.
    authority: Option<Arc<Authority>>,
    /// Without it, whether the log says that the metadata have rules.
    knows_of_rules: AtomicBool,
}

/// The consequences of a newer image beyond what readers of the catalog see.
pub(crate) struct Applied {
    pub(crate) delta: Delta,
    /// Topics that leaders and followers here are to look at.
    pub(crate) topics: Vec<Uuid>,
    pub(crate) have_topics_changed: bool,
    pub(crate) have_settings_changed: bool,
    /// `unclean.leader.election.enable` is another one somewhere.
    pub(crate) has_unclean_changed: bool,
}

impl Catalog {
    pub(crate) fn new(
        image: Arc<Image>,
        topics: Topics,
        settings: Settings,
        places: Places,
        now: Instant,
    ) -> Catalog {
        Catalog {
            authority: Authority::of(settings.broker.access.as_ref(), &image).map(Arc::new),
            knows_of_rules: AtomicBool::new(false),
            throttles: Throttles::new(&settings.broker, &image, now),
            image: ArcSwap::new(image),
            topics: ArcSwap::from_pointee(topics),
            settings: ArcSwap::from_pointee(settings),
            applying: Mutex::new(()),
            places,
        }
    }

    pub(crate) fn image(&self) -> Arc<Image> {
        self.image.load_full()
    }

    /// Decides what askers may do.
    pub(crate) fn authority(&self) -> Option<Arc<Authority>> {
        self.authority.clone()
    }

    /// A node that was started without the authorizer of the others serves everybody what these refuse.
    fn warn_of_rules(&self, image: &Image) {
        if image.acls().next().is_some() && !self.knows_of_rules.swap(true, Ordering::Relaxed) {
            tracing::warn!(
                target: env::logs::BROKER,
                "the cluster has rules of who may do what, and this node asks none of them: everybody who reaches it may do everything. Set \
                 authorizer.class.name as at the other nodes",
            );
        }
    }

    pub(crate) fn topics(&self) -> Arc<Topics> {
        self.topics.load_full()
    }

    /// Replaces `known` if there is a newer snapshot; costs one load when there is none.
    pub(crate) fn refresh_topics(&self, known: &mut Arc<Topics>) {
        let current = self.topics.load();
        if !Arc::ptr_eq(&current, known) {
            *known = Arc::clone(&current);
        }
    }

    /// To be kept for a while.
    pub(crate) fn config(&self) -> Arc<Settings> {
        self.settings.load_full()
    }

    /// To be looked at once.
    pub(crate) fn settings(&self) -> Guard<Arc<Settings>> {
        self.settings.load()
    }

    /// The place of a broker where brokers reach each other: at the listener that the settings name, else at the first.
    pub(crate) fn endpoint_of(&self, broker: BrokerId) -> Option<Endpoint> {
        let image = self.image();
        let known = image.broker(broker)?;
        let settings = self.settings();
        let name = settings.broker.text("inter.broker.listener.name");
        let named = name.and_then(|name| known.endpoints.iter().find(|at| at.name == name));
        let endpoint = named.or_else(|| known.endpoints.first())?;
        Some(Endpoint {
            host: endpoint.host.clone(),
            port: endpoint.port,
        })
    }

    /// Answers requests that wait for what this broker leads: it acts as no leader.
    pub(crate) fn release_waiting(&self, news: &mut Vec<News>) {
        let me = self.settings().broker.node_id;
        for topic in self.topics().sorted() {
            for (partition, _) in topic.led_by(me) {
                partition.release_waiting(news);
            }
        }
    }

    /// Makes a durable image the one that requests see: partitions come and go, settings take effect. `None` where a newer one is there.
    /// `incarnation` is that of this life of the broker. Costs what changed, whatever else there is.
    pub(crate) fn apply(
        &self,
        image: &Arc<Image>,
        incarnation: Uuid,
        news: &mut Vec<News>,
    ) -> Option<Applied> {
        let _one_at_a_time = self.applying.lock();
        let old = self.image.load_full();
        if image.end() <= old.end() {
            return None;
        }
        let delta = Delta::between(&old, image);
        let gone = delta.deleted.iter().map(|deleted| deleted.topic.id);
        let changed = delta.changed.iter().map(|changed| changed.new.id);
        let created = delta.created.iter().map(|topic| topic.id);
        let mut touched: Vec<Uuid> = gone.chain(created).chain(changed).collect();
        let before = Arc::clone(&self.settings().broker);
        let have_settings_changed = self.apply_settings(image, &delta);
        let own = image.broker(before.node_id);
        let is_member = own.is_some_and(|own| own.incarnation == incarnation);
        let is_new = is_member && self.places.join();
        if is_new {
            touched.extend(image.topics().map(|topic| topic.id));
            self.apply_topics(image, &delta, image.topics(), news);
        } else if delta.has_topics() {
            let changed = delta.changed.iter().map(|changed| &changed.new);
            let topics = delta.created.iter().chain(changed);
            self.apply_topics(image, &delta, topics, news);
        }
        if self.settings().broker.topic == before.topic {
            let changed = delta.configs_of(ResourceKind::Topic);
            let names = changed.map(|change| change.resource.name.as_str());
            self.configure(image, names, news);
        } else {
            let names = image.topics().map(|topic| topic.name.as_ref());
            self.configure(image, names, news);
        }
        match &self.authority {
            Some(authority) => authority.follow(&delta.acls),
            None => self.warn_of_rules(image),
        }
        self.image.store(Arc::clone(image));
        let differs = |change: &meta::delta::ChangedConfig| {
            change.old.get(UNCLEAN) != change.new.get(UNCLEAN)
        };
        Some(Applied {
            topics: touched,
            have_topics_changed: is_new || delta.has_topics(),
            have_settings_changed,
            has_unclean_changed: delta.configs.iter().any(differs),
            delta,
        })
    }

    /// Settings of this broker, of all brokers and of groups. True if something of them changed.
    fn apply_settings(&self, image: &Image, delta: &Delta) -> bool {
        let before = Arc::clone(&self.settings().broker);
        let (own, cluster) = (Resource::broker(before.node_id), Resource::cluster());
        let has_changed = delta.has_config(&own)
            || delta.has_config(&cluster)
            || delta.configs_of(ResourceKind::Group).next().is_some()
            || delta.has_feature(TRANSACTION_VERSION);
        if !has_changed {
            return false;
        }
        let broker = before.with_dynamic(image.overrides(&cluster), image.overrides(&own));
        if let Some(why) = &broker.passed_over {
            tracing::warn!(target: env::logs::METADATA, "{why}");
        }
        if let (None, Some(cost)) = (before.warning_of_unclean(), broker.warning_of_unclean()) {
            tracing::warn!(target: env::logs::METADATA, "{cost}");
        }
        let settings = Settings::new(broker, image);
        self.throttles.set_rates(&settings.broker);
        self.settings.store(Arc::new(settings));
        true
    }

    /// Opens `touched` topics as the metadata have them, and drops those that are gone.
    fn apply_topics<'a>(
        &self,
        image: &Image,
        delta: &Delta,
        touched: impl Iterator<Item = &'a Arc<meta::Topic>>,
        news: &mut Vec<News>,
    ) {
        let broker = Arc::clone(&self.settings().broker);
        let mut topics = (*self.topics()).clone();
        for deleted in &delta.deleted {
            let gone = topics.remove(deleted.topic.id);
            self.throttles.forget(deleted.topic.id);
            self.places.forget(deleted.topic.id);
            for partition in gone.iter().flat_map(|topic| topic.here()) {
                partition.delete(news);
                partition.discard();
            }
        }
        for topic in touched {
            let overrides = image.overrides(&Resource::topic(&topic.name));
            let known = topics.with_id(topic.id);
            let open = (self.places).open(topic, &overrides, &broker, known, news);
            topics.insert(Arc::new(open));
        }
        self.topics.store(Arc::new(topics));
    }

    /// Gives the partitions of topics the settings that the image has for them.
    fn configure<'a>(
        &self,
        image: &Image,
        names: impl Iterator<Item = &'a str>,
        news: &mut Vec<News>,
    ) {
        let broker = Arc::clone(&self.settings().broker);
        let topics = self.topics();
        for topic in names.filter_map(|name| topics.named(name)) {
            let overrides = image.overrides(&Resource::topic(&topic.name));
            let config = log_config_of(&topic.name, &overrides, &broker);
            self.throttles.configure(topic.id, &overrides);
            for partition in topic.here() {
                partition.set_config(Arc::clone(&config), news);
            }
        }
    }
}
