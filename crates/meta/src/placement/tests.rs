//! Replicas of partitions go where the rules of stripes say.

use std::collections::BTreeMap;

use wire::metadata::{RegisterBrokerRecord, TopicRecord};

use super::*;
use crate::record::Record;

/// Brokers as `1r2` (number, rack) with `!` behind a fenced and `.` behind one that shuts down.
fn image(brokers: &str, topics: u8) -> Image {
    let mut image = Image::default();
    let mut add = |record: Record| {
        let at = image.next_place();
        image.replay(at, &[record]).expect("fits");
    };
    for broker in brokers.split_whitespace() {
        let text = broker.trim_end_matches(['!', '.']);
        let (id, rack) = text
            .split_once('r')
            .map_or((text, None), |(id, rack)| (id, Some(rack)));
        add(RegisterBrokerRecord {
            broker_id: id.parse().expect("a number"),
            rack: rack.map(str::to_owned),
            fenced: broker.ends_with('!'),
            in_controlled_shutdown: broker.ends_with('.'),
            ..RegisterBrokerRecord::default()
        }
        .into());
    }
    for n in 0..topics {
        add(TopicRecord {
            name: format!("t{n}"),
            topic_id: Uuid([n + 1; 16]),
        }
        .into());
    }
    image
}

fn placed(image: &Image, partitions: usize, replicas: i16) -> Vec<Vec<i32>> {
    let mut placement = Placement::new(image);
    let one = |_| {
        let all = placement.place(replicas).expect("there are enough");
        all.iter().map(|id| id.0).collect()
    };
    (0..partitions).map(one).collect()
}

fn counts(of: impl Iterator<Item = i32>) -> BTreeMap<i32, usize> {
    let mut counts = BTreeMap::new();
    for id in of {
        *counts.entry(id).or_default() += 1;
    }
    counts
}

#[test]
fn leaders_and_replicas_go_round_over_brokers_without_racks() {
    let image = image("1 2 3", 0);
    let all = placed(&image, 30, 2);
    assert_eq!(all[..3], [[1, 2], [2, 3], [3, 1]]);
    let leaders = counts(all.iter().map(|replicas| replicas[0]));
    assert_eq!(leaders, BTreeMap::from([(1, 10), (2, 10), (3, 10)]));
    for replicas in &all {
        assert_ne!(replicas[0], replicas[1]);
    }
}

#[test]
fn no_rack_has_two_replicas_while_another_has_none() {
    let image = image("10r1 11r1 20r2 21r2 30r3 31r3", 0);
    let all = placed(&image, 60, 3);
    for replicas in &all {
        let racks = counts(replicas.iter().map(|id| id / 10));
        assert_eq!(racks.len(), 3, "{replicas:?}");
    }
    let leaders = counts(all.iter().map(|replicas| replicas[0]));
    assert!(leaders.values().all(|count| *count == 10), "{leaders:?}");
    let every = counts(all.iter().flatten().copied());
    assert!(every.values().all(|count| *count == 30), "{every:?}");
}

#[test]
fn racks_of_unequal_size_have_their_turns_all_the_same() {
    let image = image("10r1 20r2 21r2 22r2", 0);
    for replicas in placed(&image, 40, 2) {
        assert_eq!(
            counts(replicas.iter().map(|id| id / 10)).len(),
            2,
            "{replicas:?}"
        );
    }
    for mut replicas in placed(&image, 40, 4) {
        replicas.sort_unstable();
        assert_eq!(replicas, [10, 20, 21, 22]);
    }
}

#[test]
fn fenced_brokers_follow_where_there_are_no_others_and_never_lead() {
    let image = image("1 2! 3 4.", 0);
    for replicas in placed(&image, 20, 2) {
        assert!(
            [[1, 3], [3, 1]].contains(&[replicas[0], replicas[1]]),
            "{replicas:?}"
        );
    }
    for replicas in placed(&image, 20, 3) {
        assert_eq!(replicas[2], 2);
    }
    let mut placement = Placement::new(&image);
    assert_eq!(placement.place(4), Err(TooFew { usable: 3 }));
    let fenced = self::image("1! 2!", 0);
    assert_eq!(Placement::new(&fenced).place(1), Err(TooFew { usable: 0 }));
}

#[test]
fn topics_of_one_partition_begin_where_those_before_left_off() {
    for brokers in ["1 2 3", "1r1 2r2 3r3", "1r1 2r1 3r2 4r2"] {
        let leaders = (0..12).map(|topics| placed(&image(brokers, topics), 1, 1)[0][0]);
        let leaders = counts(leaders);
        let share = 12 / leaders.len();
        assert!(
            leaders.values().all(|count| *count == share),
            "{brokers}: {leaders:?}"
        );
        assert_eq!(leaders.len(), brokers.split(' ').count());
    }
}
