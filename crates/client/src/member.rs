//! One member of a consumer group (KIP-848): it joins, is given partitions of one topic, commits for them and leaves.
//!
//! Owns the member's identity and epoch, and the partitions that it reads. Has no thread: the caller beats when a heartbeat is due, at
//! the latest once in the session timeout of the group. A member that the group gave up comes back as a new one, with no partitions.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use model::Instant;
use wire::Uuid;
use wire::error_code::ErrorCode;
use wire::messages::ConsumerGroupHeartbeatRequest;
use wire::messages::consumer_group_heartbeat_request::TopicPartitions;

use crate::admin::Committer;
use crate::cluster::Client;
use crate::error::Error;

/// A member joins, or joins again.
const JOINS: i32 = 0;
const LEAVES: i32 = -1;
/// The time that a member gets to give partitions back, as long as in Java's consumers.
const REBALANCE_TIME: Duration = Duration::from_secs(300);
/// Before a heartbeat that failed for a passing reason is tried again.
const RETRY_PAUSE: Duration = Duration::from_secs(1);

pub struct Member {
    group: String,
    id: String,
    topic: String,
    topic_id: Uuid,
    epoch: i32,
    owned: BTreeSet<i32>,
    next_beat: Instant,
}

impl Member {
    /// Joins the group; returns the member with the partitions that it is given first.
    pub fn join(
        client: &mut Client,
        group: &str,
        topic: &str,
    ) -> Result<(Member, BTreeSet<i32>), Error> {
        let halves = [client.env().rng.next_u64(), client.env().rng.next_u64()];
        let number = u128::from(halves[0]) << 64 | u128::from(halves[1]);
        let mut member = Member {
            group: group.to_owned(),
            id: Uuid(number.to_be_bytes()).to_string(),
            topic: topic.to_owned(),
            topic_id: client.topic(topic)?.id,
            epoch: JOINS,
            owned: BTreeSet::new(),
            next_beat: client.env().clock.now(),
        };
        let given = client.retry(&format!("joining group {group}"), |client| {
            member.ask(client)
        })?;
        Ok((member, given))
    }

    /// When the next heartbeat is due.
    #[must_use]
    pub fn next_beat(&self) -> Instant {
        self.next_beat
    }

    /// The partitions that this member reads.
    #[must_use]
    pub fn owned(&self) -> &BTreeSet<i32> {
        &self.owned
    }

    /// Sends a heartbeat; returns the partitions that the group gives this member. `None` while the group cannot be reached.
    pub fn beat(&mut self, client: &mut Client) -> Result<Option<BTreeSet<i32>>, Error> {
        match self.ask(client) {
            Err(error) if is_lost_membership(&error) => {
                self.epoch = JOINS;
                self.owned.clear();
                self.beat_after(client, Duration::ZERO);
                Ok(None)
            }
            Err(error) if error.is_retriable() => {
                self.beat_after(client, RETRY_PAUSE);
                Ok(None)
            }
            result => result.map(Some),
        }
    }

    /// Reads these partitions from now on. A heartbeat that says so is due at once.
    pub fn own(&mut self, client: &Client, partitions: BTreeSet<i32>) {
        self.owned = partitions;
        self.beat_after(client, Duration::ZERO);
    }

    /// Commits the offsets to be read next. `false`: not now, the group is about to change or cannot be reached; a heartbeat comes first.
    pub fn commit(
        &mut self,
        client: &mut Client,
        offsets: &BTreeMap<i32, i64>,
    ) -> Result<bool, Error> {
        let of_topic = offsets.iter();
        let offsets = of_topic
            .map(|(partition, offset)| ((self.topic.clone(), *partition), *offset))
            .collect();
        let committer = Committer {
            member: self.id.clone(),
            epoch: self.epoch,
        };
        match client.commit_as(&self.group, &committer, &offsets) {
            Ok(()) => Ok(true),
            Err(error)
                if is_lost_membership(&error)
                    || error.code() == Some(ErrorCode::StaleMemberEpoch)
                    || error.is_outage() =>
            {
                self.beat_after(client, Duration::ZERO);
                Ok(false)
            }
            Err(error) => Err(error),
        }
    }

    /// Gives the partitions back at once. A member that is gone already has left.
    pub fn leave(mut self, client: &mut Client) -> Result<(), Error> {
        self.epoch = LEAVES;
        let left = client.retry(&format!("leaving group {}", self.group), |client| {
            self.ask(client)
        });
        match left {
            Err(error) if is_lost_membership(&error) => Ok(()),
            left => left.map(|_| ()),
        }
    }

    fn beat_after(&mut self, client: &Client, pause: Duration) {
        self.next_beat = client.env().clock.now().plus(pause);
    }

    /// One heartbeat with all there is to say, so that the answer has all that the group knows.
    fn ask(&mut self, client: &mut Client) -> Result<BTreeSet<i32>, Error> {
        let owned = TopicPartitions {
            topic_id: self.topic_id,
            partitions: self.owned.iter().copied().collect(),
        };
        let request = ConsumerGroupHeartbeatRequest {
            group_id: self.group.clone(),
            member_id: self.id.clone(),
            member_epoch: self.epoch,
            rebalance_timeout_ms: i32::try_from(REBALANCE_TIME.as_millis()).unwrap_or(i32::MAX),
            subscribed_topic_names: Some(vec![self.topic.clone()]),
            topic_partitions: Some(if self.owned.is_empty() {
                Vec::new()
            } else {
                vec![owned]
            }),
            ..ConsumerGroupHeartbeatRequest::default()
        };
        let broker = client.coordinator(&self.group)?;
        let response = client.call_broker(broker, &request)?;
        let what = || format!("group {}", self.group);
        Error::check(response.error_code, what, response.error_message.as_deref())?;
        if self.epoch != LEAVES {
            self.epoch = response.member_epoch;
        }
        let interval = u64::try_from(response.heartbeat_interval_ms).unwrap_or(0);
        self.beat_after(client, Duration::from_millis(interval));
        // An answer without an assignment changes nothing.
        let Some(assignment) = response.assignment else {
            return Ok(self.owned.clone());
        };
        let of_topic = (assignment.topic_partitions.into_iter())
            .filter(|topic| topic.topic_id == self.topic_id);
        Ok(of_topic.flat_map(|topic| topic.partitions).collect())
    }
}

/// True if the group knows the member no more, or another of its name.
fn is_lost_membership(error: &Error) -> bool {
    matches!(
        error.code(),
        Some(ErrorCode::UnknownMemberId | ErrorCode::FencedMemberEpoch)
    )
}
