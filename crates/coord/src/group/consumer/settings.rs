//! The settings of a consumer group: the broker's `group.consumer.*`, and the group's own changes to them.
//!
//! A group's own values are held to the broker's bounds, which may have moved since they were set.

use super::assignor::Assignor;

/// A number of milliseconds and the bounds that a group's own value is held to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Bounded {
    pub value: i32,
    pub min: i32,
    pub max: i32,
}

impl Bounded {
    fn or(self, own: Option<i32>) -> Bounded {
        Bounded {
            value: own.map_or(self.value, |own| own.min(self.max).max(self.min)),
            ..self
        }
    }
}

/// `group.consumer.migration.policy`: which changes between the two protocols happen by themselves.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Migration {
    Disabled,
    Upgrade,
    Downgrade,
    Bidirectional,
}

impl Migration {
    #[must_use]
    pub fn upgrades(self) -> bool {
        matches!(self, Migration::Upgrade | Migration::Bidirectional)
    }

    #[must_use]
    pub fn downgrades(self) -> bool {
        matches!(self, Migration::Downgrade | Migration::Bidirectional)
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Settings {
    /// Silence after which a member leaves its group.
    pub session_timeout_ms: Bounded,
    pub heartbeat_interval_ms: Bounded,
    /// No member is asked to come more often than this while partitions move. The lower bound above where an operator has set
    /// it; the built-in one is no shorter than the usual interval, and would leave nothing to gain.
    pub moving_interval_ms_min: i32,
    /// Pause between two target assignments (KIP-1263): changes that come together move partitions once.
    pub assignment_interval_ms: Bounded,
    pub members_max: usize,
    /// The first is taken where members prefer none.
    pub assignors: Vec<Assignor>,
    pub migration: Migration,
    /// `group.max.size`: a larger group stays a consumer group.
    pub classic_members_max: usize,
}

impl Default for Settings {
    fn default() -> Self {
        Settings {
            session_timeout_ms: Bounded {
                value: 45_000,
                min: 45_000,
                max: 60_000,
            },
            heartbeat_interval_ms: Bounded {
                value: 5_000,
                min: 5_000,
                max: 15_000,
            },
            moving_interval_ms_min: 1,
            assignment_interval_ms: Bounded {
                value: 1_000,
                min: 0,
                max: 15_000,
            },
            members_max: i32::MAX as usize,
            assignors: vec![Assignor::Uniform, Assignor::Range],
            migration: Migration::Bidirectional,
            classic_members_max: i32::MAX as usize,
        }
    }
}

/// Settings of one group (`consumer.*` of its GROUP resource).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Overrides {
    pub session_timeout_ms: Option<i32>,
    pub heartbeat_interval_ms: Option<i32>,
    pub assignment_interval_ms: Option<i32>,
}

impl Settings {
    /// The settings that hold for a group with settings of its own.
    #[must_use]
    pub fn for_group(&self, own: &Overrides) -> Settings {
        Settings {
            session_timeout_ms: self.session_timeout_ms.or(own.session_timeout_ms),
            heartbeat_interval_ms: self.heartbeat_interval_ms.or(own.heartbeat_interval_ms),
            assignment_interval_ms: self.assignment_interval_ms.or(own.assignment_interval_ms),
            ..self.clone()
        }
    }

    pub(super) fn default_assignor(&self) -> Assignor {
        self.assignors.first().copied().unwrap_or(Assignor::Uniform)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_group_may_differ_within_the_bounds_of_the_broker() {
        let own = Overrides {
            session_timeout_ms: Some(50_000),
            heartbeat_interval_ms: Some(1),
            assignment_interval_ms: None,
        };
        let settings = Settings::default().for_group(&own);
        assert_eq!(settings.session_timeout_ms.value, 50_000);
        assert_eq!(settings.heartbeat_interval_ms.value, 5_000);
        assert_eq!(settings.assignment_interval_ms.value, 1_000);
    }
}
