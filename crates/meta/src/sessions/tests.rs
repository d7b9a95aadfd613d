//! Sessions begin, last and end by heartbeats and the clock alone.

use wire::metadata::RegisterBrokerRecord;

use super::*;
use crate::record::Record;

/// Of the records of a step.
const WRITTEN: Offset = Offset(100);
const SESSION: Duration = Duration::from_secs(9);

fn at(seconds: u64) -> Instant {
    Instant(seconds * 1_000_000_000)
}

fn image(brokers: &[(i32, bool)]) -> Image {
    let mut image = Image::default();
    for (id, fenced) in brokers {
        let record: Record = RegisterBrokerRecord {
            broker_id: *id,
            broker_epoch: image.end(),
            fenced: *fenced,
            ..RegisterBrokerRecord::default()
        }
        .into();
        image
            .replay(image.next_place(), &[record])
            .expect("registers");
    }
    image
}

fn beat(broker: i32, metadata_offset: i64) -> Heartbeat {
    Heartbeat {
        broker: BrokerId(broker),
        epoch: i64::from(broker) - 1,
        metadata_offset,
        ..Heartbeat::default()
    }
}

fn states(sessions: &mut Sessions, heartbeat: &Heartbeat, leads: bool) -> (State, State) {
    let step = sessions.on_heartbeat(heartbeat, || leads, at(1));
    let step = step.expect("registered");
    sessions.on_step(heartbeat.broker, step.to, WRITTEN);
    (step.from, step.to)
}

/// Fences all brokers whose sessions are over.
fn fenced(sessions: &mut Sessions, now: Instant, last: Offset) -> Vec<BrokerId> {
    let mut fenced = Vec::new();
    while let Some(over) = sessions.over(now) {
        sessions.on_fenced(over.broker, last);
        fenced.push(over.broker);
    }
    fenced
}

#[test]
fn a_fenced_broker_is_unfenced_once_it_has_applied_its_registration() {
    let mut sessions = Sessions::new(&image(&[(1, true)]), SESSION, at(0));
    sessions.on_registered(BrokerId(1), 0, true, Offset(20));
    let early = states(&mut sessions, &beat(1, 19), false);
    assert_eq!(early, (State::Fenced, State::Fenced));
    let wants = Heartbeat {
        wants_fence: true,
        ..beat(1, 20)
    };
    let stays = states(&mut sessions, &wants, false);
    assert_eq!(stays, (State::Fenced, State::Fenced));
    let comes = states(&mut sessions, &beat(1, 20), false);
    assert_eq!(comes, (State::Fenced, State::Unfenced));
    let is = states(&mut sessions, &beat(1, 20), false);
    assert_eq!(is, (State::Unfenced, State::Unfenced));
}

#[test]
fn a_broker_goes_down_when_it_leads_nothing_and_all_others_know() {
    let mut sessions = Sessions::new(&image(&[(1, false), (2, false)]), SESSION, at(0));
    let wants = Heartbeat {
        wants_shut_down: true,
        ..beat(1, 50)
    };
    states(&mut sessions, &beat(2, 90), false);
    let begins = states(&mut sessions, &wants, true);
    assert_eq!(begins, (State::Unfenced, State::ShuttingDown));
    sessions.on_step(BrokerId(1), State::ShuttingDown, Offset(200));
    let leads = states(&mut sessions, &wants, true);
    assert_eq!(leads, (State::ShuttingDown, State::ShuttingDown));
    let unknown = states(&mut sessions, &wants, false);
    assert_eq!(unknown, (State::ShuttingDown, State::ShuttingDown));
    states(&mut sessions, &beat(2, 100), false);
    let goes = states(&mut sessions, &wants, false);
    assert_eq!(goes, (State::ShuttingDown, State::Down));
}

#[test]
fn a_broker_that_leads_nothing_or_is_fenced_goes_at_once() {
    let wants = |broker| Heartbeat {
        wants_shut_down: true,
        ..beat(broker, 5)
    };
    let mut sessions = Sessions::new(&image(&[(1, false), (2, true)]), SESSION, at(0));
    let free = states(&mut sessions, &wants(1), false);
    assert_eq!(free, (State::Unfenced, State::Down));
    let fenced = states(&mut sessions, &wants(2), true);
    assert_eq!(fenced, (State::Fenced, State::Down));
}

#[test]
fn a_silent_broker_is_fenced_when_its_session_ends_and_only_once() {
    let mut sessions = Sessions::new(&image(&[(1, false), (2, false)]), SESSION, at(0));
    sessions.on_heard(BrokerId(2), 1, at(4));
    assert_eq!(sessions.next_deadline(), Some(at(9)));
    assert_eq!(fenced(&mut sessions, at(8), Offset(0)), []);
    assert!(sessions.has_session(BrokerId(1), 0, at(8)));
    assert_eq!(fenced(&mut sessions, at(9), Offset(0)), [BrokerId(1)]);
    assert!(!sessions.has_session(BrokerId(1), 0, at(9)));
    assert_eq!(fenced(&mut sessions, at(10), Offset(0)), []);
    assert_eq!(sessions.next_deadline(), Some(at(13)));
    // It comes back with a heartbeat.
    let back = states(&mut sessions, &beat(1, 5), false);
    assert_eq!(back, (State::Fenced, State::Unfenced));
}

#[test]
fn a_broker_that_was_fenced_counts_again_once_it_has_applied_that() {
    let mut sessions = Sessions::new(&image(&[(1, false)]), SESSION, at(0));
    assert_eq!(fenced(&mut sessions, at(9), Offset(30)), [BrokerId(1)]);
    let behind = states(&mut sessions, &beat(1, 29), false);
    assert_eq!(behind, (State::Fenced, State::Fenced));
    let knows = states(&mut sessions, &beat(1, 30), false);
    assert_eq!(knows, (State::Fenced, State::Unfenced));

    let mut image = image(&[(1, true)]);
    let later: Record = RegisterBrokerRecord {
        broker_id: 2,
        broker_epoch: 1,
        ..RegisterBrokerRecord::default()
    }
    .into();
    image
        .replay(image.next_place(), &[later])
        .expect("registers");
    let mut next_controller = Sessions::new(&image, SESSION, at(0));
    let behind = states(&mut next_controller, &beat(1, 0), false);
    assert_eq!(
        behind,
        (State::Fenced, State::Fenced),
        "it was fenced somewhere before 2"
    );
    let knows = states(&mut next_controller, &beat(1, 1), false);
    assert_eq!(knows, (State::Fenced, State::Unfenced));
}

#[test]
fn a_dead_process_is_fenced_at_once_unless_it_has_registered_anew_or_was_heard_of_since() {
    let mut sessions = Sessions::new(&image(&[(1, false), (2, false)]), SESSION, at(0));
    assert!(!sessions.on_dead(BrokerId(2), 7, at(1)));
    assert_eq!(fenced(&mut sessions, at(1), Offset(0)), []);
    sessions.on_heard(BrokerId(2), 1, at(2));
    assert!(!sessions.on_dead(BrokerId(2), 1, at(1)));
    assert_eq!(fenced(&mut sessions, at(2), Offset(0)), []);
    assert!(sessions.on_dead(BrokerId(2), 1, at(2)));
    assert_eq!(sessions.next_deadline(), Some(at(0)));
    assert_eq!(fenced(&mut sessions, at(2), Offset(0)), [BrokerId(2)]);
    assert!(!sessions.on_dead(BrokerId(2), 1, at(3)), "it is fenced");
}

#[test]
fn a_heartbeat_of_another_registration_is_refused() {
    let mut sessions = Sessions::new(&image(&[(1, false)]), SESSION, at(0));
    let stale = Heartbeat {
        epoch: 3,
        ..beat(1, 5)
    };
    let refused = sessions.on_heartbeat(&stale, || false, at(1));
    assert_eq!(refused, Err(HeartbeatError::Stale { known: 0, got: 3 }));
    let unknown = sessions.on_heartbeat(&beat(2, 5), || false, at(1));
    let error = HeartbeatError::NotRegistered(BrokerId(2));
    assert_eq!(unknown, Err(error));
    sessions.on_unregistered(BrokerId(1));
    assert!(sessions.on_heartbeat(&beat(1, 5), || false, at(1)).is_err());
}

#[test]
fn a_new_registration_has_no_session_until_it_is_heard_of() {
    let mut sessions = Sessions::new(&image(&[(1, false)]), SESSION, at(0));
    assert!(sessions.has_session(BrokerId(1), 0, at(1)));
    sessions.on_registered(BrokerId(1), 9, true, Offset(9));
    assert!(!sessions.has_session(BrokerId(1), 9, at(1)));
    assert!(!sessions.has_session(BrokerId(1), 0, at(1)));
    sessions.on_heard(BrokerId(1), 9, at(1));
    assert!(sessions.has_session(BrokerId(1), 9, at(2)));
}
