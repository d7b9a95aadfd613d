//! Damaged places, and brokers that answer by hand.

use model::{PartitionIndex, Timestamp};
use wire::Uuid;
use wire::records::BatchBuilder;

use super::*;

const KEY: Key = (Uuid([7; 16]), PartitionIndex(0));

fn place(dir: usize, from: i64) -> Place {
    Place {
        dir,
        key: KEY,
        from: Offset(from),
    }
}

fn missing(to: i64, bytes: Option<u64>) -> Missing {
    let to = Offset(to);
    Missing { to, bytes }
}

fn wanting(places: &[(Place, Missing)]) -> Repairs {
    let mut repairs = Repairs::default();
    for dir in 0..2 {
        let of = places.iter().filter(|(place, _)| place.dir == dir);
        repairs.on_damages(dir, &of.copied().collect());
    }
    repairs
}

fn in_sync(brokers: &[i32]) -> Sources {
    Sources {
        others_count: 2,
        in_sync: brokers.iter().copied().map(BrokerId).collect(),
    }
}

fn seconds(seconds: u64) -> Instant {
    Instant(seconds * 1_000_000_000)
}

/// Batches of one record each.
fn batches(offsets: std::ops::Range<i64>) -> Bytes {
    let batches = offsets.flat_map(|offset| {
        let mut builder = BatchBuilder::new().base_offset(Offset(offset));
        builder.push(Timestamp(1), None, Some(b"value"), &[]);
        builder.build().to_bytes()
    });
    batches.collect()
}

fn size(offsets: std::ops::Range<i64>) -> u64 {
    batches(offsets).len() as u64
}

fn gives(offsets: std::ops::Range<i64>) -> Answer {
    Answer::Records {
        records: batches(offsets),
        high_watermark: Offset(1000),
    }
}

fn asked(effects: &[Effect]) -> Vec<(u64, i32, i64)> {
    let asks = effects.iter().filter_map(|effect| match effect {
        Effect::Ask(ask) => Some((ask.number, ask.broker.0, ask.at.0)),
        _ => None,
    });
    asks.collect()
}

/// The one request that is sent: its number and the broker.
fn ask(repairs: &mut Repairs, now: u64, sources: &Sources) -> (u64, i32) {
    let effects = repairs.advance(seconds(now), |_| sources.clone());
    let [(number, broker, _)] = asked(&effects)[..] else {
        panic!("{effects:?}");
    };
    (number, broker)
}

fn brought(effect: Option<Effect>) -> (Place, i32, Vec<u8>) {
    match effect {
        Some(Effect::Bring {
            place,
            broker,
            records,
        }) => (place, broker.0, records.concat()),
        other => panic!("{other:?}"),
    }
}

#[test]
fn the_missing_batches_are_gathered_over_several_answers_and_no_others() {
    let want = missing(8, Some(size(4..8)));
    let mut repairs = wanting(&[(place(0, 4), want)]);
    let (first, broker) = ask(&mut repairs, 0, &in_sync(&[2, 3]));
    assert_eq!(broker, 2);
    let effect = repairs.on_answer(first, gives(4..6));
    let Some(Effect::Ask(next)) = effect else {
        panic!("{effect:?}");
    };
    assert_eq!((next.broker.0, next.at.0), (2, 6));
    let answered = brought(repairs.on_answer(next.number, gives(6..12)));
    assert_eq!(answered, (place(0, 4), 2, batches(4..8).to_vec()));
    assert!(
        repairs.on_answer(next.number, gives(6..12)).is_none(),
        "once"
    );
}

#[test]
fn a_request_asks_as_one_that_compares_replicas() {
    let mut repairs = wanting(&[(place(0, 4), missing(8, None))]);
    let effects = repairs.advance(seconds(0), |_| in_sync(&[2]));
    let [Effect::Ask(ask)] = effects[..] else {
        panic!("{effects:?}");
    };
    let request = ask.request(7);
    let state = &request.replica_state;
    assert_eq!((state.replica_id, state.replica_epoch), (-2, 7));
    assert_eq!((request.session_id, request.session_epoch), (0, -1));
    let partition = &request.topics[0].partitions[0];
    assert_eq!(
        (partition.fetch_offset, partition.current_leader_epoch),
        (4, -1)
    );
}

#[test]
fn one_place_of_a_directory_is_asked_for_at_a_time() {
    let places = [
        (place(0, 4), missing(5, None)),
        (place(0, 9), missing(10, None)),
        (place(1, 6), missing(7, None)),
    ];
    let mut repairs = wanting(&places);
    let sources = in_sync(&[2]);
    let effects = repairs.advance(seconds(0), |_| sources.clone());
    let [(first, _, 4), (_, _, 6)] = asked(&effects)[..] else {
        panic!("{effects:?}");
    };
    assert!(repairs.advance(seconds(1), |_| sources.clone()).is_empty());
    let answered = brought(repairs.on_answer(first, gives(4..9)));
    assert_eq!(answered.0, place(0, 4));
    assert!(
        repairs.advance(seconds(1), |_| sources.clone()).is_empty(),
        "it is written"
    );
    repairs.on_damages(0, &BTreeMap::from([places[1]]));
    let effects = repairs.advance(seconds(1), |_| sources.clone());
    assert!(matches!(asked(&effects)[..], [(_, 2, 9)]));
}

#[test]
fn who_has_something_else_is_not_asked_again_and_when_all_have_it_is_given_up() {
    let want = missing(8, Some(size(4..8)));
    let sources = in_sync(&[2, 3, 4, 5]);
    let mut repairs = wanting(&[(place(0, 4), want)]);
    // Compacted: more offsets in a batch than were asked for, none at all, damaged as well.
    let answers = [
        gives(3..8),
        gives(9..12),
        Answer::Refused(ErrorCode::CorruptMessage),
        gives(4..8),
    ];
    for (answer, expected) in answers.into_iter().zip([2, 3, 4, 5]) {
        let (number, broker) = ask(&mut repairs, 0, &sources);
        assert_eq!(broker, expected);
        let effect = repairs.on_answer(number, answer);
        assert_eq!(effect.is_some(), expected == 5);
    }
    // The store does not take what the last one has.
    assert!(repairs.on_refused(place(0, 4)));
    assert!(!repairs.on_refused(place(0, 4)));
    let effects = repairs.advance(seconds(0), |_| sources.clone());
    let (place, why) = (place(0, 4), GaveUp::Nobody);
    assert_eq!(effects, [Effect::GiveUp { place, why }]);
    assert!(repairs.advance(seconds(9), |_| sources.clone()).is_empty());
}

#[test]
fn who_cannot_be_reached_is_asked_again_after_pauses_that_grow_and_end() {
    let mut repairs = wanting(&[(place(0, 4), missing(8, None))]);
    let sources = in_sync(&[2, 3]);
    let mut now = seconds(0);
    let mut pauses = Vec::new();
    let end = loop {
        let effects = repairs.advance(now, |_| sources.clone());
        match &effects[..] {
            [Effect::Ask(ask)] => {
                let code = ErrorCode::NotLeaderOrFollower;
                let answer = [Answer::Lost, Answer::Refused(code)];
                let answer = answer[usize::from(ask.broker.0 == 3)].clone();
                assert!(repairs.on_answer(ask.number, answer).is_none());
            }
            [] => {
                let next = repairs.next_deadline().expect("it rests");
                pauses.push(next.since(now));
                now = next;
            }
            other => break format!("{other:?}"),
        }
    };
    assert!(end.contains("Unreachable"), "{end}");
    assert_eq!(pauses.len(), ROUNDS_MAX as usize);
    assert!(pauses.is_sorted() && pauses[0] == PAUSE_MIN && pauses[11] == PAUSE_MAX);
}

#[test]
fn replicas_that_all_have_the_damage_do_not_wait_for_each_other() {
    let mut repairs = wanting(&[(place(0, 4), missing(8, None))]);
    let sources = in_sync(&[2, 3]);
    let mut now = seconds(0);
    let mut requests = 0;
    loop {
        let effects = repairs.advance(now, |_| sources.clone());
        match &effects[..] {
            [Effect::Ask(ask)] => {
                requests += 1;
                let answer = Answer::Refused(ErrorCode::KafkaStorageError);
                assert!(repairs.on_answer(ask.number, answer).is_none());
            }
            [] => now = repairs.next_deadline().expect("it rests"),
            [Effect::GiveUp { why, .. }] => {
                assert_eq!(*why, GaveUp::Nobody);
                break;
            }
            other => panic!("{other:?}"),
        }
    }
    assert!(now < seconds(10), "{now:?}");
    assert!(requests < 12, "{requests}");
}

#[test]
fn what_is_not_known_to_be_committed_is_not_taken() {
    let mut repairs = wanting(&[(place(0, 4), missing(8, None))]);
    let (number, _) = ask(&mut repairs, 0, &in_sync(&[2]));
    let early = Answer::Records {
        records: batches(4..8),
        high_watermark: Offset(7),
    };
    assert!(repairs.on_answer(number, early).is_none());
    assert!(repairs.advance(seconds(0), |_| in_sync(&[2])).is_empty());
    let (number, _) = ask(&mut repairs, 1, &in_sync(&[2]));
    brought(repairs.on_answer(number, gives(4..8)));
}

#[test]
fn a_lone_replica_and_a_file_that_lost_too_much_are_given_up_at_once() {
    let large = BYTES_MAX + 1;
    for (bytes, sources, expected) in [
        (None, Sources::default(), GaveUp::Alone),
        (
            Some(large),
            in_sync(&[2]),
            GaveUp::TooLarge { bytes: large },
        ),
    ] {
        let mut repairs = wanting(&[(place(0, 4), missing(8, bytes))]);
        let effects = repairs.advance(seconds(0), |_| sources.clone());
        let (place, why) = (place(0, 4), expected);
        assert_eq!(effects, [Effect::GiveUp { place, why }]);
    }
}

#[test]
fn an_answer_for_a_place_that_is_gone_or_is_another_now_means_nothing() {
    let mut repairs = wanting(&[(place(0, 4), missing(8, None))]);
    let (number, _) = ask(&mut repairs, 0, &in_sync(&[2]));
    repairs.on_damages(0, &BTreeMap::from([(place(0, 4), missing(9, None))]));
    assert!(repairs.on_answer(number, gives(4..9)).is_none());
    let (number, _) = ask(&mut repairs, 0, &in_sync(&[2]));
    repairs.on_damages(0, &BTreeMap::new());
    assert!(repairs.on_answer(number, gives(4..9)).is_none());
    assert_eq!(repairs.next_deadline(), None);
}
