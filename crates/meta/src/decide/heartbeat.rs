//! Records that follow from a heartbeat, from the end of a session, and from an operator who takes a broker off the list.
//!
//! Owns the order of Kafka: a broker that is fenced or unregistered first leaves ISRs and leaderships, then its registration
//! changes; one that is unfenced is so first, and then leads where nobody does.

use std::collections::BTreeSet;

use model::BrokerId;
use wire::Uuid;
use wire::metadata::{BrokerRegistrationChangeRecord, UnregisterBrokerRecord};

use super::RECORDS_MAX;
use super::draft::{Cause, Draft, TopicSettings, eligible, in_isr, leaderless};
use super::partition_change::is_acceptable_leader;
use crate::image::{Image, Partition};
use crate::record::Record;
use crate::sessions::{Heartbeat, State, Step};
use crate::trouble::Trouble;
use crate::versions::MetadataVersion;

/// True if a partition has `broker` as its leader: it cannot go yet.
#[must_use]
pub fn leads_any(image: &Image, broker: BrokerId) -> bool {
    let mut partitions = image.topics().flat_map(|topic| &topic.partitions);
    partitions.any(|partition| partition.leader == broker)
}

/// Records for a heartbeat whose session took `step`.
#[must_use]
pub fn heartbeat(
    image: &Image,
    settings: &dyn TopicSettings,
    heartbeat: &Heartbeat,
    step: Step,
) -> Vec<Record> {
    let mut draft = Draft::new(image, settings);
    let broker = heartbeat.broker;
    if step.from != step.to {
        match step.to {
            State::Fenced | State::Down => fence_in(&mut draft, broker),
            State::Unfenced => unfence_in(&mut draft, broker),
            State::ShuttingDown => shut_down_in(&mut draft, broker),
        }
    }
    let version = image.metadata_version();
    if MetadataVersion::V3_7_IV2 <= version {
        fail_dirs_in(&mut draft, broker, &heartbeat.failed_log_dirs);
    }
    if MetadataVersion::V4_3_IV0 <= version
        && let Some(cordoned) = &heartbeat.cordoned_log_dirs
    {
        cordon_in(&mut draft, broker, cordoned);
    }
    draft.records()
}

/// Replicas of the broker in directories that are full or slow: where another one in sync can lead, it does, and the ISR does without
/// them as far as its minimum allows. Where none can, they go on.
#[must_use]
pub fn relieve(
    image: &Image,
    settings: &dyn TopicSettings,
    broker: BrokerId,
    trouble: &Trouble,
) -> Vec<Record> {
    let mut draft = Draft::new(image, settings);
    let is_there =
        |partition: &Partition| partition.isr.contains(&broker) && trouble.has(partition, broker);
    for place in draft.places(is_there) {
        let may_lead = |image: &Image, partition: &Partition, id| {
            id != broker
                && is_acceptable_leader(image, partition, id)
                && !trouble.has(partition, id)
        };
        draft.change_if(place, may_lead, |change, rules| {
            let min_isr = rules.min_isr.min(change.partition().replicas.len());
            let is_enough = min_isr < change.partition().isr.len();
            if is_enough {
                change.without(broker)
            } else {
                change
            }
        });
    }
    draft.records()
}

/// The session of a broker has ended. Nothing, if it is not registered.
#[must_use]
pub fn fence(image: &Image, settings: &dyn TopicSettings, broker: BrokerId) -> Vec<Record> {
    let mut draft = Draft::new(image, settings);
    fence_in(&mut draft, broker);
    draft.records()
}

/// Why a broker is not unregistered; the texts are those of Kafka.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum UnregisterError {
    #[error("Broker ID {0} is not currently registered")]
    NotRegistered(BrokerId),
    #[error("Unable to perform excessively large batch operation.")]
    TooManyRecords,
}

/// Takes a broker off the list, and its replicas out of ISRs and eligible leaders.
pub fn unregister(
    image: &Image,
    settings: &dyn TopicSettings,
    broker: BrokerId,
) -> Result<Vec<Record>, UnregisterError> {
    let known = image.broker(broker);
    let broker_epoch = known.ok_or(UnregisterError::NotRegistered(broker))?.epoch;
    let mut draft = Draft::new(image, settings);
    draft.settle(Cause::Gone(broker), in_isr(broker));
    // Unlike in Kafka, its eligibility goes with it: a broker that is not registered has no log to lead with.
    draft.settle(Cause::Unclean(broker), eligible(broker));
    draft.push(UnregisterBrokerRecord {
        broker_id: broker.0,
        broker_epoch,
    });
    let records = draft.records();
    if RECORDS_MAX < records.len() {
        return Err(UnregisterError::TooManyRecords);
    }
    Ok(records)
}

fn change_of(draft: &Draft<'_>, broker: BrokerId) -> Option<BrokerRegistrationChangeRecord> {
    let known = draft.image().broker(broker)?;
    Some(BrokerRegistrationChangeRecord {
        broker_id: broker.0,
        broker_epoch: known.epoch,
        ..BrokerRegistrationChangeRecord::default()
    })
}

fn fence_in(draft: &mut Draft<'_>, broker: BrokerId) {
    let Some(change) = change_of(draft, broker) else {
        return;
    };
    draft.settle(Cause::Gone(broker), in_isr(broker));
    draft.push(BrokerRegistrationChangeRecord {
        fenced: 1,
        ..change
    });
}

fn unfence_in(draft: &mut Draft<'_>, broker: BrokerId) {
    let Some(change) = change_of(draft, broker) else {
        return;
    };
    draft.push(BrokerRegistrationChangeRecord {
        fenced: -1,
        ..change
    });
    draft.settle(Cause::Back(broker), leaderless);
}

fn shut_down_in(draft: &mut Draft<'_>, broker: BrokerId) {
    let known = draft.image().broker(broker);
    let is_known = known.is_some_and(|known| known.is_shutting_down);
    if let Some(change) = change_of(draft, broker).filter(|_| !is_known) {
        draft.push(BrokerRegistrationChangeRecord {
            in_controlled_shutdown: 1,
            ..change
        });
    }
    draft.settle(Cause::Gone(broker), in_isr(broker));
}

/// Directories that have failed since the broker registered: its replicas there are no longer in sync.
fn fail_dirs_in(draft: &mut Draft<'_>, broker: BrokerId, failed: &[Uuid]) {
    let Some(known) = draft.image().broker(broker) else {
        return;
    };
    let (gone, left): (Vec<Uuid>, Vec<Uuid>) =
        (known.log_dirs.iter()).partition(|dir| failed.contains(dir));
    if gone.is_empty() {
        return;
    }
    let is_there = |partition: &Partition| {
        let dir = partition.directory(broker);
        dir.is_some_and(|dir| gone.contains(&dir))
    };
    draft.settle(Cause::Gone(broker), is_there);
    if let Some(change) = change_of(draft, broker) {
        draft.push(BrokerRegistrationChangeRecord {
            log_dirs: left,
            ..change
        });
    }
}

fn cordon_in(draft: &mut Draft<'_>, broker: BrokerId, cordoned: &[Uuid]) {
    let set = |dirs: &[Uuid]| dirs.iter().copied().collect::<BTreeSet<Uuid>>();
    let known = draft.image().broker(broker);
    let known = known.and_then(|known| known.cordoned_log_dirs.as_deref());
    if known.is_some_and(|known| set(known) == set(cordoned)) {
        return;
    }
    if let Some(change) = change_of(draft, broker) {
        draft.push(BrokerRegistrationChangeRecord {
            cordoned_log_dirs: Some(cordoned.to_vec()),
            ..change
        });
    }
}
