//! Levels of features: what brokers agree on, raised after an upgrade and lowered before a step back (KIP-584, KIP-1022).
//!
//! Owns which level may follow which. Levels change together or not at all. A level has to be one that every registered node
//! supports. One that would leave records in the metadata log which it does not know is never gone back to.

use std::collections::BTreeMap;

use model::BrokerId;
use wire::metadata::{ConfigRecord, FeatureLevelRecord};

use super::register_broker::{METADATA_VERSION, supported};
use crate::image::{Image, Levels, Resource, ResourceKind};
use crate::record::Record;
use crate::versions::{ELR_VERSION, KRAFT_VERSION, MetadataVersion};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Direction {
    Upgrade,
    SafeDowngrade,
    UnsafeDowngrade,
}

impl Direction {
    #[must_use]
    pub fn from_wire(direction: i8) -> Option<Direction> {
        match direction {
            1 => Some(Direction::Upgrade),
            2 => Some(Direction::SafeDowngrade),
            3 => Some(Direction::UnsafeDowngrade),
            _ => None,
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Update {
    pub level: i16,
    /// `None`: a number no direction has.
    pub direction: Option<Direction>,
}

/// Why no level changes; the texts are those of Kafka.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum UpdateError {
    #[error("Invalid update version {level} for feature {feature}. {reason}")]
    Level {
        feature: String,
        level: i16,
        reason: String,
    },
    #[error(
        "Unsupported metadata.version downgrade from {from} to {to}. Unsafe metadata downgrade is not supported in this version."
    )]
    Unsafe { from: i16, to: i16 },
    #[error(
        "Unsupported metadata.version downgrade from {from} to {to}. Refusing to perform the requested downgrade because it might delete metadata information."
    )]
    Loss { from: i16, to: i16 },
}

/// The controllers that have to support a level too.
#[derive(Clone, Copy, Debug)]
pub struct Controllers<'a> {
    /// The one that decides; it supports [`supported`].
    pub local: BrokerId,
    /// The level of `kraft.version`, which only the quorum knows.
    pub kraft_version: i16,
    pub voters: &'a [BrokerId],
}

/// Records that set all levels of `updates`. Of several wrong ones the first by name is returned. `kraft.version` is checked and has no
/// record here: the quorum writes its own.
pub fn update_features(
    image: &Image,
    quorum: Controllers<'_>,
    updates: &BTreeMap<String, Update>,
) -> Result<Vec<Record>, UpdateError> {
    updates
        .iter()
        .filter_map(|(feature, update)| {
            if let Err(error) = check(image, quorum, feature, *update) {
                return Some(Err(error));
            }
            let record = FeatureLevelRecord {
                name: feature.clone(),
                feature_level: update.level,
            };
            (feature != KRAFT_VERSION).then(|| Ok(record.into()))
        })
        .collect()
}

/// Records that raise `eligible.leader.replicas.version` to 1; `None` while a node does not support it or has not registered. `min_isr` becomes
/// `min.insync.replicas` of the whole cluster unless that is set, and brokers have none of their own, as in Kafka's
/// `maybeGenerateElrSafetyRecords`: else they would not agree on who is eligible.
#[must_use]
pub fn raise_elr(image: &Image, quorum: Controllers<'_>, min_isr: usize) -> Option<Vec<Record>> {
    const MIN_ISR: &str = "min.insync.replicas";
    if image.metadata_version() < MetadataVersion::V4_0_IV1
        || not_supported(image, quorum, ELR_VERSION, 1).is_some()
    {
        return None;
    }
    let setting = |resource_name: String, value: Option<String>| {
        Record::from(ConfigRecord {
            resource_type: ResourceKind::Broker as i8,
            resource_name,
            name: MIN_ISR.to_owned(),
            value,
        })
    };
    let of_cluster = image.overrides(&Resource::cluster());
    let of_cluster = of_cluster.get(MIN_ISR);
    let first = (of_cluster.is_none()).then(|| setting(String::new(), Some(min_isr.to_string())));
    let own = image.configured().filter(|resource| {
        let is_broker = resource.kind == ResourceKind::Broker && !resource.name.is_empty();
        is_broker && image.overrides(resource).contains_key(MIN_ISR)
    });
    let own = own.map(|resource| setting(resource.name.clone(), None));
    let level = FeatureLevelRecord {
        name: ELR_VERSION.to_owned(),
        feature_level: 1,
    };
    Some(first.into_iter().chain(own).chain([level.into()]).collect())
}

fn check(
    image: &Image,
    quorum: Controllers<'_>,
    feature: &str,
    update: Update,
) -> Result<(), UpdateError> {
    let level = update.level;
    let refused = |reason: String| {
        Err(UpdateError::Level {
            feature: feature.to_owned(),
            level,
            reason,
        })
    };
    let Some(direction) = update.direction else {
        return refused("The controller does not support the given upgrade type.".into());
    };
    if level < 0 {
        return refused("A feature version cannot be less than 0.".into());
    }
    if !supported().contains_key(feature) && level == 0 {
        return refused(format!("Feature {feature} not found."));
    }
    if let Some(reason) = not_supported(image, quorum, feature, level) {
        return refused(reason);
    }
    let current = if feature == KRAFT_VERSION {
        quorum.kraft_version
    } else {
        image.feature(feature)
    };
    if level < current && direction == Direction::Upgrade {
        return refused(
            "Can't downgrade the version of this feature without setting the upgrade type to either safe or unsafe downgrade."
                .into(),
        );
    }
    if current < level && direction != Direction::Upgrade {
        return refused("Can't downgrade to a newer version.".into());
    }
    if feature == KRAFT_VERSION && level < current {
        return refused("Can't downgrade the version of this feature.".into());
    }
    let (from, to) = (current, level);
    if feature == METADATA_VERSION && to < from && loses_records(from, to) {
        return Err(if direction == Direction::UnsafeDowngrade {
            UpdateError::Unsafe { from, to }
        } else {
            UpdateError::Loss { from, to }
        });
    }
    Ok(())
}

/// Why a level is not one of all nodes: of the controller that decides, of the brokers, of the other controllers.
fn not_supported(
    image: &Image,
    quorum: Controllers<'_>,
    feature: &str,
    level: i16,
) -> Option<String> {
    let own = supported().get(feature).copied();
    let local = std::iter::once((format!("Local controller {}", quorum.local), own));
    let brokers = image.brokers().map(|broker| {
        let levels = broker.features.get(feature).copied();
        (format!("Broker {}", broker.id), levels)
    });
    let knows_controllers = MetadataVersion::V3_7_IV0 <= image.metadata_version();
    let others = (image.controllers())
        .filter(|other| knows_controllers && other.id != quorum.local)
        .map(|other| {
            let levels = other.features.get(feature).copied();
            (format!("Controller {}", other.id), levels)
        });
    let mut all = local.chain(brokers).chain(others);
    let reason = all.find_map(|(node, levels)| reason(&node, levels, level));
    reason.or_else(|| {
        let is_registered = |id| image.controllers().any(|other| other.id == id);
        let mut voters = quorum.voters.iter().copied().filter(|_| knows_controllers);
        let absent = voters.find(|id| *id != quorum.local && !is_registered(*id))?;
        Some(format!(
            "controller {absent} has not registered, and may not support this feature"
        ))
    })
}

fn reason(node: &str, levels: Option<Levels>, level: i16) -> Option<String> {
    let Levels { min, max } = levels.unwrap_or(Levels { min: 0, max: 0 });
    if (min..=max).contains(&level) {
        None
    } else if max == 0 {
        Some(format!("{node} does not support this feature."))
    } else {
        Some(format!("{node} only supports versions {min}-{max}"))
    }
}

fn loses_records(from: i16, to: i16) -> bool {
    let known = |level| MetadataVersion::from_level(level);
    known(from)
        .zip(known(to))
        .is_none_or(|(from, to)| from.adds_records_to(to))
}
