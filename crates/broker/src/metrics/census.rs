//! The partitions of the cluster and of this broker, counted for one scrape.
//!
//! One walk over the published metadata, with a few instructions under the lock of each partition that is here. Sums alone leave it:
//! a scrape has as many samples for 20,000 partitions as for one, and one for each other broker.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use meta::NO_LEADER;
use model::{BrokerId, PartitionIndex, Timestamp};

use super::sink::Sink;
use super::table as metric;
use crate::shared::Shared;

/// Records that other brokers lack of the partitions that this one leads.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Lag {
    records: u64,
    time: Duration,
}

#[derive(Debug, Default)]
struct Census {
    // Of the cluster.
    partitions: u64,
    without_leader: u64,
    not_preferred: u64,
    // Of this broker.
    led: u64,
    preferred: u64,
    under_replicated: u64,
    below_min_isr: u64,
    at_min_isr: u64,
    reassigning: u64,
    /// The longest time for which a replica that is to come made no step.
    stalled: Duration,
    throttled_leading: u64,
    throttled_following: u64,
    /// By follower.
    lags: BTreeMap<BrokerId, Lag>,
}

impl Census {
    fn take(shared: &Shared) -> Census {
        let me = shared.catalog.config().broker.node_id;
        let (image, topics) = (shared.catalog.image(), shared.catalog.topics());
        let mut census = Census::default();
        for topic in image.topics() {
            let open = topics.with_id(topic.id);
            // Partitions of a topic have the same settings.
            let mut min_isr = None;
            for (index, partition) in (0..).zip(&topic.partitions) {
                census.count(partition, me);
                let here = open.and_then(|open| open.partition(index).ok());
                let Some(here) = here else {
                    continue;
                };
                let key = (topic.id, PartitionIndex(index));
                if partition.leader == me {
                    let min_isr =
                        *min_isr.get_or_insert_with(|| here.config().in_sync_replicas_min);
                    census.count_led(partition, min_isr);
                    census.count_followers(partition, here);
                    census.throttled_leading +=
                        u64::from(shared.catalog.throttles.leading.has(key));
                } else if partition.replicas.contains(&me) {
                    census.throttled_following +=
                        u64::from(shared.catalog.throttles.following.has(key));
                }
            }
        }
        census
    }

    fn count(&mut self, partition: &meta::Partition, me: BrokerId) {
        self.partitions += 1;
        self.without_leader += u64::from(partition.leader == NO_LEADER);
        let preferred = partition.replicas.first();
        let is_led_elsewhere = preferred.is_some_and(|first| *first != partition.leader);
        self.not_preferred += u64::from(is_led_elsewhere);
        self.preferred += u64::from(preferred == Some(&me));
    }

    /// As Kafka counts: replicas that a reassignment adds are not missed before it ends, and no more are needed than there are.
    fn count_led(&mut self, partition: &meta::Partition, min_isr: usize) {
        let in_sync = partition.isr.len();
        let wanted = partition.replicas.len() - partition.adding.len();
        let needed = min_isr.min(partition.replicas.len());
        self.led += 1;
        self.under_replicated += u64::from(in_sync < wanted);
        self.below_min_isr += u64::from(in_sync < needed);
        self.at_min_isr += u64::from(in_sync == needed);
        let is_reassigning = !(partition.adding.is_empty() && partition.removing.is_empty());
        self.reassigning += u64::from(is_reassigning);
    }

    fn count_followers(&mut self, of: &meta::Partition, here: &Arc<partition::Partition>) {
        here.visit_lags(|follower| {
            let lag = self.lags.entry(follower.broker).or_default();
            lag.records += follower.records;
            lag.time = lag.time.max(follower.time);
        });
        if !of.adding.is_empty() {
            let still = here.coming_still(&of.adding, &of.isr);
            self.stalled = self.stalled.max(still.unwrap_or_default());
        }
    }
}

/// Partitions that this broker leads by the metadata, and whose clients it refuses.
pub(super) fn unserved(shared: &Shared) -> u64 {
    let me = shared.catalog.config().broker.node_id;
    let acts = shared.state.is_serving() && !shared.state.is_self_fenced();
    let (image, topics) = (shared.catalog.image(), shared.catalog.topics());
    let mut unserved = 0;
    for topic in image.topics() {
        let open = topics.with_id(topic.id);
        for (index, _) in (0..)
            .zip(&topic.partitions)
            .filter(|(_, of)| of.leader == me)
        {
            let here = open.and_then(|open| open.partition(index).ok());
            let serves = here.is_some_and(|here| !here.is_offline() && here.leads_in().is_some());
            unserved += u64::from(!(acts && serves));
        }
    }
    unserved
}

/// The families of replicas, of the cluster, and of the quorum.
pub(super) fn write(page: &mut impl Sink, shared: &Shared) {
    let census = Census::take(shared);
    let counted = shared.meters.counts.read();
    let sent: u64 = shared.meters.iter().map(|meter| meter.replicated()).sum();
    page.one(&metric::LED, census.led);
    page.one(&metric::PREFERRED, census.preferred);
    page.one(&metric::UNSERVED, unserved(shared));
    page.one(&metric::UNDER_REPLICATED, census.under_replicated);
    page.one(&metric::BELOW_MIN_ISR, census.below_min_isr);
    page.one(&metric::AT_MIN_ISR, census.at_min_isr);
    page.one(&metric::ISR_SHRINKS, counted.isr_shrinks);
    page.one(&metric::ISR_GROWS, counted.isr_grows);
    let names: Vec<(String, Lag)> = (census.lags.iter())
        .map(|(broker, lag)| (broker.to_string(), *lag))
        .collect();
    page.family(
        &metric::FOLLOWER_LAG,
        names
            .iter()
            .map(|(name, lag)| (vec![name.as_str()], lag.records)),
    );
    page.family(
        &metric::FOLLOWER_LAG_TIME,
        (names.iter()).map(|(name, lag)| (vec![name.as_str()], lag.time.as_secs_f64())),
    );
    page.one(&metric::REPLICATED_OUT, sent);
    page.one(&metric::REPLICATED_IN, counted.replicated_bytes);
    page.one(&metric::REASSIGNING, census.reassigning);
    page.one(&metric::REASSIGNMENT_STALLED, census.stalled.as_secs_f64());
    page.family(
        &metric::THROTTLED,
        [
            (vec!["leader"], census.throttled_leading),
            (vec!["follower"], census.throttled_following),
        ],
    );
    write_cluster(page, shared, &census);
    write_quorum(page, shared);
}

fn write_cluster(page: &mut impl Sink, shared: &Shared, census: &Census) {
    let image = shared.catalog.image();
    let fenced = image.brokers().filter(|broker| broker.is_fenced).count();
    page.one(&metric::CLUSTER_BROKERS, image.brokers().count());
    page.one(&metric::CLUSTER_FENCED, fenced);
    page.one(&metric::CLUSTER_PARTITIONS, census.partitions);
    page.one(&metric::CLUSTER_LEADERLESS, census.without_leader);
    page.one(&metric::CLUSTER_NOT_PREFERRED, census.not_preferred);
}

fn write_quorum(page: &mut impl Sink, shared: &Shared) {
    let (sight, counted) = (shared.metadata.quorum_sight(), shared.meters.counts.read());
    let image = shared.catalog.image();
    let now = shared.env.clock.now();
    page.one(&metric::ACTIVE_CONTROLLER, u8::from(sight.is_active));
    let leader = sight.leader.filter(|_| sight.hears_leader);
    let leader = leader.map_or(-1, |(id, _)| id.0);
    page.one(&metric::QUORUM_LEADER, leader);
    page.one(&metric::QUORUM_EPOCH, sight.epoch.0);
    page.one(&metric::QUORUM_VOTERS, sight.voters.len());
    page.one(&metric::ELECTIONS, counted.elections);
    page.one(&metric::ELECTIONS_UNCLEAN, counted.elections_unclean);
    page.one(&metric::METADATA_END, sight.end.0);
    let behind = sight
        .watermark
        .map_or(0, |committed| committed.0 - image.end());
    page.one(&metric::METADATA_LAG, behind.max(0));
    // The controller of a lone node writes nothing while nothing changes, and a leader has all that there is.
    let age_ms = age_ms(image.last_time(), shared.env.clock.wall_ms());
    let is_told = shared.state.is_alone()
        || sight.is_active
        || shared.catalog.config().metadata_idle_max.is_zero();
    let age_ms = if is_told { 0 } else { age_ms };
    page.one(&metric::METADATA_LAG_TIME, age_ms as f64 / 1e3);
    let since = counted.snapshot_at.unwrap_or(shared.lifetime.started_at);
    page.one(&metric::SNAPSHOT_AGE, now.since(since).as_secs_f64());
    page.one(&metric::SNAPSHOT_SIZE, sight.snapshot_bytes);
    let fails_for = counted.snapshot_fails_since.map(|since| now.since(since));
    let fails_for = fails_for.unwrap_or_default();
    page.one(&metric::SNAPSHOT_FAILS, fails_for.as_secs_f64());
}

/// The age of metadata of `then`; 0 of none, whose time is none either.
fn age_ms(then: Timestamp, now: Timestamp) -> i64 {
    if 0 < then.0 {
        (now.0 - then.0).max(0)
    } else {
        0
    }
}

#[cfg(test)]
mod tests {
    use meta::Image;

    use super::*;

    #[test]
    fn a_node_without_metadata_is_not_late_since_1970() {
        let now = Timestamp(1_900_000_000_000);
        assert_eq!(age_ms(Image::default().last_time(), now), 0);
        assert_eq!(age_ms(Timestamp(now.0 - 1_500), now), 1_500);
        assert_eq!(age_ms(Timestamp(now.0 + 1), now), 0);
    }
}
