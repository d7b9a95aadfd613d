//! Finding brokers and topics.

use client::{Client, Error, Options};

use crate::fake::{Fake, TOPIC};

#[test]
fn the_first_bootstrap_address_that_answers_is_used() {
    let fake = Fake::new(1);
    fake.0.lock().unwrap().unreachable = 2;
    let client = Client::connect(&fake.env(), "a:1, b:2,c:3", Options::default()).unwrap();
    assert_eq!(
        client.brokers().values().collect::<Vec<_>>(),
        ["fake:9092", "other:9092"]
    );
    assert_eq!(fake.0.lock().unwrap().dials, 3);
}

#[test]
fn nobody_there_is_told_at_once_and_not_after_the_deadline() {
    let fake = Fake::new(1);
    fake.0.lock().unwrap().unreachable = usize::MAX;
    let error = Client::connect(&fake.env(), "a:1,b:2", Options::default())
        .err()
        .unwrap();
    assert!(
        matches!(&error, Error::Connect { address, .. } if address == "b:2"),
        "{error}"
    );
    assert_eq!(fake.0.lock().unwrap().dials, 2);
    assert!(matches!(
        Client::connect(&fake.env(), " , ", Options::default()),
        Err(Error::Address { .. })
    ));
}

#[test]
fn a_topic_is_asked_for_once() {
    let fake = Fake::new(4);
    let mut client = Client::connect(&fake.env(), "fake:9092", Options::default()).unwrap();
    assert_eq!(client.topic(TOPIC).unwrap().partitions.len(), 4);
    fake.0.lock().unwrap().logs.clear();
    assert_eq!(
        client.topic(TOPIC).unwrap().partitions.len(),
        4,
        "from the cache"
    );
    assert!(matches!(client.topic("other"), Err(Error::NoTopic { .. })));
}

/// A topic that was made at another broker a moment ago was said not to exist.
#[test]
fn a_topic_that_a_broker_has_not_heard_of_yet_is_looked_for_again() {
    let fake = Fake::new(4);
    let mut client = Client::connect(&fake.env(), "fake:9092", Options::default()).unwrap();
    fake.0.lock().unwrap().unheard = 2;
    assert_eq!(client.topic(TOPIC).unwrap().partitions.len(), 4);
    client.forget_topic(TOPIC);
    fake.0.lock().unwrap().unheard = usize::MAX;
    assert!(matches!(client.topic(TOPIC), Err(Error::NoTopic { .. })));
}
