//! Changes of the metadata: decided on the newest image, written to the metadata log, published when they are durable.
//!
//! Invariant: an image is published only after the records that made it are committed, and images are published in order.
//! A decision sees every change decided before it, durable or not; its answer, even a refusal, waits for those.

use std::ops::Range;
use std::sync::Arc;

use arc_swap::ArcSwap;
use meta::decide::assign_dir::assign_dir;
use meta::decide::register_broker::TRANSACTION_VERSION;
use meta::{Delta, Image, Place, Record, Resource, ResourceKind};
use model::{Offset, PartitionIndex, ProducerId, Ticket};
use parking_lot::Mutex;
use partition::{Acks, Bounds, LogDir, Moment, News, Partition, Stamp};
use wire::records::BatchBuilder;
use wire::{ErrorCode, Uuid};

use crate::place::Places;
use crate::shared::Shared;

/// The metadata as requests see it, and as changes plan it.
pub(crate) struct Metadata {
    published: ArcSwap<Image>,
    plan: Mutex<Plan>,
    publishing: Mutex<()>,
    pub(crate) places: Places,
    producer_ids: Mutex<Range<i64>>,
    pub(crate) cluster_id: String,
    log_dir: Arc<LogDir>,
}

struct Plan {
    image: Arc<Image>,
    log: Arc<Partition>,
}

/// What became of the records of a change.
pub(crate) enum Written {
    /// There are none, and everything that the decision rests on is durable.
    Durable,
    /// The ticket is redeemed when the image is durable.
    Waits {
        image: Arc<Image>,
        /// There are records.
        writes: bool,
    },
    /// The metadata log is offline.
    Offline,
}

/// A directory of a partition, on its way to the disk.
pub(crate) struct Assigned {
    image: Arc<Image>,
    end: Offset,
}

impl Metadata {
    pub(crate) fn new(
        image: Image,
        log: Arc<Partition>,
        places: Places,
        cluster_id: String,
    ) -> Metadata {
        let image = Arc::new(image);
        Metadata {
            published: ArcSwap::new(Arc::clone(&image)),
            log_dir: log.dir(),
            plan: Mutex::new(Plan { image, log }),
            publishing: Mutex::new(()),
            places,
            producer_ids: Mutex::new(0..0),
            cluster_id,
        }
    }

    pub(crate) fn log_dir(&self) -> &LogDir {
        &self.log_dir
    }

    /// How far the metadata log goes.
    pub(crate) fn log_bounds(&self) -> Bounds {
        self.plan.lock().log.bounds()
    }

    pub(crate) fn image(&self) -> Arc<Image> {
        self.published.load_full()
    }
}

impl Plan {
    /// Appends records, or waits for those that were appended before; false when these are durable.
    fn write_or_wait(
        &mut self,
        shared: &Shared,
        records: &[Record],
        ticket: Ticket,
    ) -> Result<bool, ErrorCode> {
        if records.is_empty() {
            let never = |_| ErrorCode::KafkaStorageError;
            return self.log.await_end(ticket).map_err(never);
        }
        self.write(shared, records, Some(ticket)).map(|()| true)
    }

    /// Appends records to the metadata log; they hold for later decisions at once.
    fn write(
        &mut self,
        shared: &Shared,
        records: &[Record],
        ticket: Option<Ticket>,
    ) -> Result<(), ErrorCode> {
        let time = shared.env.clock.wall_ms();
        let place = Place {
            base: self.log.bounds().log_end,
            time,
            ..self.image.next_place()
        };
        let written =
            meta::write(&self.image, place, records).map_err(|_| ErrorCode::UnknownServerError)?;
        let mut builder = BatchBuilder::new();
        for value in &written.values {
            builder.push(time, None, Some(value), &[]);
        }
        let batch = builder.build();
        let moment = Moment {
            now: shared.env.clock.now(),
            wall: time,
            stamp: &mut Stamp::default(),
        };
        self.log
            .append(batch, Acks::All(ticket), moment)
            .map_err(|error| crate::error::append(&error))?;
        self.image = Arc::new(written.image);
        Ok(())
    }
}

impl Shared {
    /// Decides on the newest image and writes the records. With `is_stuck` none are written: the change waits for its time to be up.
    pub(crate) fn change<T>(
        &self,
        ticket: Ticket,
        is_stuck: bool,
        decide: impl FnOnce(&Image, &Shared) -> (Vec<Record>, T),
    ) -> (T, Written) {
        let mut plan = self.metadata.plan.lock();
        let broker = Arc::clone(&self.config().broker);
        let usable = self.metadata.places.usable(&plan.image, &broker);
        let (mut records, answer) = decide(&usable, self);
        let is_usable = |id| (self.dirs().iter()).any(|dir| dir.id == id && !dir.is_failed());
        (self.moves).prefer_dirs(broker.node_id, &plan.image, &mut records, is_usable);
        if is_stuck && !records.is_empty() {
            let image = Arc::clone(&plan.image);
            let writes = false;
            return (answer, Written::Waits { image, writes });
        }
        let written = match plan.write_or_wait(self, &records, ticket) {
            Ok(true) => Written::Waits {
                image: Arc::clone(&plan.image),
                writes: !records.is_empty(),
            },
            Ok(false) => Written::Durable,
            Err(_) => Written::Offline,
        };
        (answer, written)
    }

    /// A producer id that nobody had before; `None` until a new block is durable.
    pub(crate) fn take_producer_id(&self) -> Option<ProducerId> {
        self.metadata.producer_ids.lock().next().map(ProducerId)
    }

    /// Writes records before the broker serves anyone; commits them itself.
    pub(crate) fn change_at_start(&self, records: &[Record]) -> Result<(), ErrorCode> {
        if records.is_empty() {
            return Ok(());
        }
        let image = {
            let mut plan = self.metadata.plan.lock();
            plan.write(self, records, None)?;
            Arc::clone(&plan.image)
        };
        let mut news = Vec::new();
        let dir = Arc::clone(&self.metadata.log_dir);
        while dir.has_queued() && !dir.is_failed() {
            dir.commit(&mut news);
        }
        if dir.is_failed() || dir.lacks_room() {
            return Err(ErrorCode::KafkaStorageError);
        }
        self.publish(image, &mut news);
        Ok(())
    }

    /// Notes where a partition lives from now on, as soon as that is durable. `None`: there is no such partition any more.
    pub(crate) fn assign_dir(
        &self,
        topic: Uuid,
        index: PartitionIndex,
        dir: Uuid,
    ) -> Result<Option<Assigned>, ErrorCode> {
        let mut plan = self.metadata.plan.lock();
        let node = self.config().broker.node_id;
        let Some(record) = assign_dir(&plan.image, node, topic, index, dir) else {
            return Ok(None);
        };
        plan.write(self, &[record], None)?;
        Ok(Some(Assigned {
            image: Arc::clone(&plan.image),
            end: plan.log.bounds().log_end,
        }))
    }

    /// Whether what was assigned is durable; `None` when nobody can tell any more.
    pub(crate) fn is_assigned(&self, assigned: &Assigned, news: &mut Vec<News>) -> Option<bool> {
        let dir = &self.metadata.log_dir;
        dir.commit(news);
        let is_durable = assigned.end <= self.metadata.log_bounds().high_watermark;
        if is_durable {
            self.publish(Arc::clone(&assigned.image), news);
        }
        let is_stuck = dir.is_failed() || self.is_stopping() && dir.lacks_room();
        (is_durable || !is_stuck).then_some(is_durable)
    }

    /// Makes a durable image the one that requests see: partitions come and go, settings take effect.
    pub(crate) fn publish(&self, image: Arc<Image>, news: &mut Vec<News>) {
        let _one_at_a_time = self.metadata.publishing.lock();
        let old = self.metadata.published.load_full();
        if image.end() <= old.end() {
            return;
        }
        let delta = Delta::between(&old, &image);
        let before = Arc::clone(&self.config().broker);
        self.publish_settings(&image, &delta);
        if delta.has_topics() {
            self.publish_topics(&image, &delta, news);
        }
        let broker = Arc::clone(&self.config().broker);
        if broker.topic == before.topic {
            let changed = delta.configs_of(ResourceKind::Topic);
            let names = changed.map(|change| change.resource.name.as_str());
            self.configure(&image, names, news);
        } else {
            let names = image.topics().map(|topic| topic.name.as_ref());
            self.configure(&image, names, news);
        }
        if !delta.producer_ids.is_empty() {
            *self.metadata.producer_ids.lock() = delta.producer_ids;
        }
        self.metadata.published.store(image);
    }

    /// Settings of this broker, of all brokers and of groups.
    fn publish_settings(&self, image: &Image, delta: &Delta) {
        let before = Arc::clone(&self.config().broker);
        let (own, cluster) = (Resource::broker(before.node_id), Resource::cluster());
        if delta.has_config(&own)
            || delta.has_config(&cluster)
            || delta.configs_of(ResourceKind::Group).next().is_some()
            || delta.has_feature(TRANSACTION_VERSION)
        {
            let broker = before.with_dynamic(image.overrides(&cluster), image.overrides(&own));
            if let Some(why) = &broker.passed_over {
                env::tell!("{why}");
            }
            self.set_config(crate::settings::Settings::new(broker, image));
        }
    }

    fn publish_topics(&self, image: &Image, delta: &Delta, news: &mut Vec<News>) {
        let broker = Arc::clone(&self.config().broker);
        let mut topics = (*self.topics()).clone();
        for deleted in &delta.deleted {
            let gone = topics.remove(deleted.topic.id);
            for partition in gone.iter().flat_map(|topic| topic.here()) {
                partition.delete(news);
                partition.discard();
            }
        }
        let changed = delta.changed.iter().map(|changed| &changed.new);
        for topic in delta.created.iter().chain(changed) {
            let overrides = image.overrides(&Resource::topic(&topic.name));
            let known = topics.with_id(topic.id);
            let places = &self.metadata.places;
            let open = places.open(topic, &overrides, &broker, known, news);
            topics.insert(Arc::new(open));
        }
        self.set_topics(topics);
    }

    /// Gives the partitions of topics the settings that the image has for them.
    fn configure<'a>(
        &self,
        image: &Image,
        names: impl Iterator<Item = &'a str>,
        news: &mut Vec<News>,
    ) {
        let broker = Arc::clone(&self.config().broker);
        let topics = self.topics();
        for topic in names.filter_map(|name| topics.named(name)) {
            let overrides = image.overrides(&Resource::topic(&topic.name));
            let config = crate::settings::log_config_of(&topic.name, &overrides, &broker);
            for partition in topic.here() {
                partition.set_config(Arc::clone(&config), news);
            }
        }
    }
}

/// The metadata log is partition 0 of a topic that no client sees.
pub(crate) const METADATA_PARTITION: PartitionIndex = PartitionIndex(0);
pub(crate) const METADATA_TOPIC: &str = "__cluster_metadata";
