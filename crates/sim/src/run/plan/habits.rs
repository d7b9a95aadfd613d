//! The habits of producers in one run: plain ones, and those with transactions.

use std::time::Duration;

use env::sim::Chance;

use super::PLACES_MAX;
use crate::client::admin::Topic;
use crate::client::keep::ANSWER_MAX;
use crate::client::producer::Habits;
use crate::client::transactor::TxnHabits;

pub(super) fn habits(topics: &[Topic], chance: &mut Chance) -> Habits {
    let topic = chance.pick(topics);
    let idempotent = !chance.one_in(3);
    Habits {
        topic: topic.name.clone(),
        partitions: 0..topic.partitions,
        acks: if idempotent {
            -1
        } else {
            *chance.pick(&[-1, -1, 1, 0])
        },
        idempotent,
        in_flight_max: chance.between(1, 5) as usize,
        records_max: chance.between(1, 6),
        pause: Duration::from_millis(*chance.pick(&[5, 20, 50, 200])),
        patience: ANSWER_MAX,
    }
}

pub(super) fn txn_habits(
    id: String,
    topics: &[Topic],
    is_clock_true: bool,
    chance: &mut Chance,
) -> TxnHabits {
    let mut places: Vec<(String, i32)> = topics
        .iter()
        .flat_map(|topic| (0..topic.partitions).map(|number| (topic.name.clone(), number)))
        .collect();
    while places.len() > PLACES_MAX {
        places.swap_remove(chance.below(places.len() as u64) as usize);
    }
    let is_old = chance.one_in(3);
    TxnHabits {
        group: chance.one_in(2).then(|| format!("offsets-{id}")),
        is_shared: false,
        id,
        places,
        is_old,
        timeout: Duration::from_millis(*chance.pick(&[1_000, 5_000, 30_000])),
        batches_max: chance.between(1, 12),
        pause: Duration::from_millis(*chance.pick(&[2, 5, 20, 50])),
        // Without an epoch per transaction a late end falls on another one: the old protocol cannot help it.
        delays: if is_old { 0 } else { *chance.pick(&[0, 5, 20]) },
        strays: 0,
        is_calm: false,
        is_alone: is_clock_true,
    }
}
