//! The damaged places of a directory's logs, on their way from the one who met them to the one who repairs them.
//!
//! A reader or the scrub meets damage; the segment writer finds its extent; the holder of a link to other replicas brings what was there,
//! and the segment writer puts it in place. Owns the list alone. A place that nobody could repair stays on it for a while, so that its
//! readers get the error, and is then tried again when somebody meets it.

use std::time::Duration;

use bytes::Bytes;
use log::DamagedRange;
use model::{BrokerId, Instant, Offset, Ticket};

use super::durable::Key;
use crate::news::News;
use crate::sync::Mutex;

/// 100 KiB at most. Readers of more places get the error of the damage; such a place is listed when it is met again.
const PLACES_MAX: usize = 1000;
/// Time for which a place that no replica has intact is not asked for again, even when it is met.
const GIVEN_UP: Duration = Duration::from_secs(600);
/// The same for a place at which no damage was found: a reader may be refused because of damage elsewhere, as in what transactions were
/// aborted, and gets that error.
const UNFOUND: Duration = Duration::from_secs(60);

struct Place {
    key: Key,
    /// Offset where the damage was met; its begin once that is known.
    at: Offset,
    stage: Stage,
}

enum Stage {
    /// The extent of the damage is to be looked for, not before `look_at`.
    Met {
        look_at: Instant,
    },
    /// Another replica is asked.
    Wanted {
        range: DamagedRange,
        /// The batches that were brought last are not those that were there.
        refused: Option<String>,
    },
    Brought {
        range: DamagedRange,
        from: BrokerId,
        records: Vec<Bytes>,
    },
    GivenUp {
        range: DamagedRange,
        until: Instant,
    },
    Unfound {
        until: Instant,
    },
}

impl Stage {
    fn is_hoped_for(&self) -> bool {
        !matches!(self, Stage::GivenUp { .. } | Stage::Unfound { .. })
    }

    fn is_over(&self, now: Instant) -> bool {
        match self {
            Stage::GivenUp { until, .. } | Stage::Unfound { until } => *until <= now,
            Stage::Met { .. } | Stage::Wanted { .. } | Stage::Brought { .. } => false,
        }
    }

    fn range(&self) -> Option<&DamagedRange> {
        match self {
            Stage::Met { .. } | Stage::Unfound { .. } => None,
            Stage::Wanted { range, .. }
            | Stage::Brought { range, .. }
            | Stage::GivenUp { range, .. } => Some(range),
        }
    }
}

impl Place {
    fn holds(&self, key: Key, at: Offset) -> bool {
        let holds = |range: &DamagedRange| range.from <= at && at < range.to;
        self.key == key && (self.at == at || self.stage.range().is_some_and(holds))
    }
}

/// A place that is to be repaired.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Damage {
    pub key: Key,
    pub range: DamagedRange,
    pub stage: DamageStage,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum DamageStage {
    /// The batches are to be brought.
    Wanted,
    /// The batches were brought, and are on their way to the file.
    Brought,
    /// The batches that were brought are not those that were there.
    Refused(String),
}

/// The next thing that the segment writer has to do.
pub(super) enum Work {
    /// Somebody met damage at this offset.
    Look(Key, Offset),
    Write {
        key: Key,
        range: DamagedRange,
        from: BrokerId,
        records: Vec<Bytes>,
    },
}

#[derive(Default)]
pub(crate) struct Damages {
    places: Mutex<Vec<Place>>,
    /// The one who brings what other replicas have.
    repairer: Mutex<Option<Ticket>>,
}

impl Damages {
    pub(super) fn watch(&self, repairer: Ticket) {
        *self.repairer.lock() = Some(repairer);
    }

    /// News for whoever repairs, if anybody does.
    pub(super) fn news(&self) -> Vec<News> {
        let repairer = *self.repairer.lock();
        repairer.map(News::Readable).into_iter().collect()
    }

    /// Somebody met damage at this offset. Returns whether it may be repaired, and whether the place is a new one.
    pub(super) fn on_met(&self, key: Key, at: Offset, now: Instant) -> (bool, bool) {
        if self.repairer.lock().is_none() {
            return (false, false);
        }
        let mut places = self.places.lock();
        places.retain(|place| !place.stage.is_over(now));
        if let Some(place) = places.iter().find(|place| place.holds(key, at)) {
            return (place.stage.is_hoped_for(), false);
        }
        let is_new = places.len() < PLACES_MAX;
        if is_new {
            let stage = Stage::Met { look_at: now };
            places.push(Place { key, at, stage });
        }
        (is_new, is_new)
    }

    /// When the segment writer has something to do for a damaged place.
    pub(super) fn due(&self, now: Instant) -> Option<Instant> {
        let places = self.places.lock();
        let due = places.iter().filter_map(|place| match &place.stage {
            Stage::Met { look_at } => Some(*look_at),
            Stage::Brought { .. } => Some(now),
            Stage::Wanted { .. } | Stage::GivenUp { .. } | Stage::Unfound { .. } => None,
        });
        due.min()
    }

    /// The first thing that is due. Batches that were brought are kept by the caller; see [`Damages::on_refused`] and [`Damages::forget`].
    pub(super) fn next(&self, now: Instant) -> Option<Work> {
        let mut places = self.places.lock();
        places.iter_mut().find_map(|place| match &mut place.stage {
            Stage::Met { look_at } if *look_at <= now => Some(Work::Look(place.key, place.at)),
            Stage::Brought {
                range,
                from,
                records,
            } => Some(Work::Write {
                key: place.key,
                range: *range,
                from: *from,
                records: std::mem::take(records),
            }),
            _ => None,
        })
    }

    /// The extent of the damage that was met at `at` is known.
    pub(super) fn on_found(&self, key: Key, at: Offset, range: DamagedRange) {
        let mut places = self.places.lock();
        let is_known = places
            .iter()
            .any(|place| place.key == key && place.stage.range() == Some(&range));
        if is_known {
            places.retain(|place| {
                place.key != key || place.at != at || place.stage.range().is_some()
            });
        } else if let Some(place) = of(&mut places, key, at) {
            place.at = range.from;
            place.stage = Stage::Wanted {
                range,
                refused: None,
            };
        }
    }

    /// Everything at `at` verifies, by now or from the beginning.
    pub(super) fn on_unfound(&self, key: Key, at: Offset, now: Instant) {
        if let Some(place) = of(&mut self.places.lock(), key, at) {
            let until = now.plus(UNFOUND);
            place.stage = Stage::Unfound { until };
        }
    }

    /// The place is looked at again at `look_at`, as if it had just been met.
    pub(super) fn look_again(&self, key: Key, at: Offset, look_at: Instant) {
        if let Some(place) = of(&mut self.places.lock(), key, at) {
            place.stage = Stage::Met { look_at };
        }
    }

    /// The batches that were brought are not those that were there.
    pub(super) fn on_refused(&self, key: Key, range: DamagedRange, why: String) {
        if let Some(place) = of(&mut self.places.lock(), key, range.from) {
            place.stage = Stage::Wanted {
                range,
                refused: Some(why),
            };
        }
    }

    /// The damage is repaired, or not in the log any more.
    pub(super) fn forget(&self, key: Key, at: Offset) {
        self.places
            .lock()
            .retain(|place| place.key != key || place.at != at);
    }

    pub(super) fn all(&self) -> Vec<Damage> {
        let places = self.places.lock();
        let damages = places.iter().filter_map(|place| {
            let (range, stage) = match &place.stage {
                Stage::Wanted { range, refused } => {
                    let refused = refused.clone().map(DamageStage::Refused);
                    (range, refused.unwrap_or(DamageStage::Wanted))
                }
                Stage::Brought { range, .. } => (range, DamageStage::Brought),
                Stage::Met { .. } | Stage::GivenUp { .. } | Stage::Unfound { .. } => return None,
            };
            Some(Damage {
                key: place.key,
                range: *range,
                stage,
            })
        });
        damages.collect()
    }

    /// Places that no replica has intact.
    pub(super) fn given_up_count(&self) -> usize {
        let places = self.places.lock();
        let given_up = |place: &&Place| matches!(place.stage, Stage::GivenUp { .. });
        places.iter().filter(given_up).count()
    }

    /// The batches of a place that is wanted.
    pub(super) fn bring(&self, key: Key, at: Offset, from: BrokerId, records: Vec<Bytes>) {
        if let Some(place) = of(&mut self.places.lock(), key, at)
            && let Stage::Wanted { range, .. } = place.stage
        {
            place.stage = Stage::Brought {
                range,
                from,
                records,
            };
        }
    }

    pub(super) fn give_up(&self, key: Key, at: Offset, now: Instant) {
        if let Some(place) = of(&mut self.places.lock(), key, at)
            && let Some(range) = place.stage.range().copied()
        {
            let until = now.plus(GIVEN_UP);
            place.stage = Stage::GivenUp { range, until };
        }
    }
}

fn of(places: &mut [Place], key: Key, at: Offset) -> Option<&mut Place> {
    places
        .iter_mut()
        .find(|place| place.key == key && place.at == at)
}
