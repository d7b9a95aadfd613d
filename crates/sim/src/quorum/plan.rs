//! The shape of a run: how many replicas, which faults, how often. Each seed leaves some faults out, so that those that
//! remain come together in more ways.

use env::sim::Chance;
use raft::Replica;
use wire::Uuid;

pub(super) const MS: u64 = 1_000_000;
pub(super) const SECOND: u64 = 1_000 * MS;

#[derive(Clone, Debug)]
pub struct Plan {
    pub(super) voters: u32,
    pub(super) observers: u32,
    /// `kraft.version` 1: voters are in the log and may change.
    pub(super) is_dynamic: bool,
    /// An operator raises `kraft.version` to 1 while the cluster runs.
    pub(super) is_raised: bool,
    /// Replicas that are no voters ask to become some by themselves.
    pub(super) joins: bool,
    /// Faults strike until then; afterwards everything is healed.
    pub(super) chaos: u64,
    /// Of 256 messages, how many are lost, and how many arrive twice.
    pub(super) lost: u64,
    pub(super) doubled: u64,
    pub(super) delay_max: u64,
    pub(super) sync_max: u64,
    pub(super) fault_every: u64,
    pub(super) append_every: u64,
    pub(super) change_every: u64,
    pub(super) snapshot_every: u64,
    pub(super) fetch_bytes_max: u32,
    pub(super) strikes: Vec<Strike>,
    /// One in so many votes is followed at once by a short death of the voter; 0 for none.
    pub(super) voter_dies_one_in: u64,
    pub(super) election_timeout: u64,
    /// Parts per million by which a clock may be fast or slow.
    pub(super) drift_ppm: u64,
}

/// A fault of one moment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Strike {
    Kill,
    Power,
    PowerOfAll,
    Pause,
    /// Two groups that do not hear each other.
    Split,
    /// One replica is heard and hears nothing, or the other way round.
    Deafen,
    SlowDisk,
    /// The vote file is damaged while the node is down.
    VoteRot,
    /// The disk is gone: the node comes back as another replica, which only voters that are known by their directories show.
    Wipe,
    /// An operator starts the node with settings that name no other voter.
    Lone,
}

const STRIKES: [Strike; 9] = [
    Strike::Kill,
    Strike::Power,
    Strike::PowerOfAll,
    Strike::Pause,
    Strike::Split,
    Strike::Deafen,
    Strike::SlowDisk,
    Strike::VoteRot,
    Strike::Wipe,
];

impl Plan {
    #[must_use]
    pub fn of(seed: u64) -> Plan {
        let mut chance = Chance::new(seed ^ 0x7175_6f72_756d);
        // One in four grows from one voter.
        let grows = chance.one_in(4);
        let voters = if grows {
            1
        } else {
            *chance.pick(&[1, 2, 3, 3, 3, 3, 3, 4, 5, 5])
        };
        let observers = if grows {
            chance.between(2, 4)
        } else {
            chance.between(0, 2)
        };
        let is_dynamic = chance.one_in(2);
        let is_raised = !is_dynamic && chance.one_in(2);
        let rate = |chance: &mut Chance, most: u64| {
            if chance.one_in(2) {
                0
            } else {
                chance.between(1, most)
            }
        };
        let strikes = STRIKES.into_iter().filter(|_| chance.one_in(2));
        // Thrown apart, so that the other runs stay as they were.
        let is_misnamed = !is_dynamic && Chance::new(seed ^ 0x6c6f_6e65).one_in(3);
        let strikes = strikes.chain(is_misnamed.then_some(Strike::Lone)).collect();
        Plan {
            voters,
            observers: observers as u32,
            is_dynamic,
            is_raised,
            joins: chance.one_in(4),
            chaos: chance.between(10, 40) * SECOND,
            lost: rate(&mut chance, 40),
            doubled: rate(&mut chance, 40),
            delay_max: *chance.pick(&[MS, 10 * MS, 100 * MS, 800 * MS]),
            sync_max: *chance.pick(&[MS / 10, 5 * MS, 50 * MS, 500 * MS]),
            fault_every: *chance.pick(&[SECOND, 3 * SECOND, 8 * SECOND]),
            append_every: *chance.pick(&[20 * MS, 100 * MS, 500 * MS]),
            change_every: *chance.pick(&[SECOND, 4 * SECOND]),
            snapshot_every: *chance.pick(&[2 * SECOND, 10 * SECOND, 1_000 * SECOND]),
            fetch_bytes_max: *chance.pick(&[1, 300, 1 << 20]),
            strikes,
            voter_dies_one_in: *chance.pick(&[0, 2, 2, 10]),
            election_timeout: *chance.pick(&[50 * MS, 300 * MS, SECOND]),
            drift_ppm: *chance.pick(&[0, 1_000, 200_000]),
        }
    }

    /// A replica as others know it that have no directories of voters: its disk may be another one.
    pub(super) fn as_voter(&self, replica: Replica) -> Replica {
        let directory = if self.is_dynamic {
            replica.directory
        } else {
            Uuid::ZERO
        };
        Replica {
            directory,
            ..replica
        }
    }
}
