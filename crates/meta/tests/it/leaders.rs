//! Leaders of partitions: epochs that begin, and elections as Kafka 4.3 decides them.

use ::model::BrokerId;
use meta::Image;
use meta::decide::create_topics::{NewTopic, create_topics};
use meta::decide::elect_leaders::{
    ElectError, Election, balance_leaders, elect_leaders, elect_unclean,
};
use meta::decide::reassign::{Target, reassign};
use meta::decide::register_broker::begin_leader_epochs;

use crate::answers::topic;
use crate::{broker, image, replay, step, uuids};

#[test]
fn a_new_leader_epoch_touches_only_the_partitions_a_broker_leads() {
    let mut image = image(2);
    let pair = NewTopic {
        assignments: vec![(0, vec![1]), (1, vec![2])],
        ..topic("pair")
    };
    step(&mut image, |image| {
        create_topics(image, &broker(""), &[pair], &mut uuids()).records
    });
    let begin = |name: &'static str| {
        move |image: &Image| begin_leader_epochs(image, BrokerId(2), |topic| &*topic.name == name)
    };
    step(&mut image, begin("pair"));
    step(&mut image, begin("another"));
    let epochs: Vec<i32> = image
        .topic("pair")
        .expect("created")
        .partitions
        .iter()
        .map(|one| one.leader_epoch.0)
        .collect();
    assert_eq!(epochs, [0, 1]);
}

fn lead(image: &mut Image, leader: i32, isr: &[i32]) {
    let topic_id = image.topic("p").expect("there").id;
    let change = wire::metadata::PartitionChangeRecord {
        partition_id: 0,
        topic_id,
        leader,
        isr: Some(isr.to_vec()),
        ..Default::default()
    };
    replay(image, &[change.into()]);
}

/// Three brokers, and the topic `p` on all of them; the second is its preferred leader.
fn replicated() -> Image {
    let mut image = image(3);
    let assigned = NewTopic {
        assignments: vec![(0, vec![2, 3, 1])],
        ..topic("p")
    };
    let created = create_topics(&image, &broker(""), &[assigned], &mut uuids());
    replay(&mut image, &created.records);
    image
}

#[test]
fn the_preferred_leader_comes_back_when_it_is_in_sync() {
    let mut image = replicated();
    let asked = [("p".to_owned(), vec![0])];
    let elect = |image: &Image, election| {
        let decision = elect_leaders(image, &broker(""), election, Some(&asked));
        let answer = decision.answers[0].1[0].1.clone();
        (decision.records, answer)
    };
    let leader = |image: &Image| image.topic("p").expect("there").partitions[0].leader;

    let not_needed = Err(ElectError::NotNeeded);
    assert_eq!(
        elect(&image, Election::Preferred),
        (vec![], not_needed.clone())
    );

    lead(&mut image, 3, &[3, 1]);
    let absent = Err(ElectError::NoPreferred);
    assert_eq!(elect(&image, Election::Preferred), (vec![], absent));
    assert_eq!(elect(&image, Election::Unclean), (vec![], not_needed));

    lead(&mut image, 3, &[3, 2]);
    let (records, answer) = elect(&image, Election::Preferred);
    assert_eq!(answer, Ok(()));
    replay(&mut image, &records);
    assert_eq!(leader(&image), BrokerId(2));
}

#[test]
fn without_a_leader_a_replica_in_sync_goes_before_one_that_is_behind() {
    let mut image = replicated();
    let fence = |image: &mut Image, id: i32| {
        let epoch = image.broker(BrokerId(id)).expect("registered").epoch;
        let record = wire::metadata::FenceBrokerRecord { id, epoch };
        replay(image, &[record.into()]);
    };
    let elect = |image: &mut Image| {
        let decision = elect_leaders(image, &broker(""), Election::Unclean, None);
        replay(image, &decision.records);
        let partition = image.topic("p").expect("there").partitions[0].clone();
        let answer = decision.answers[0].1[0].1.clone();
        (
            answer,
            partition.leader.0,
            partition.isr,
            partition.is_recovering,
        )
    };

    lead(&mut image, -1, &[3]);
    let (answer, leader, _, is_recovering) = elect(&mut image);
    assert_eq!((answer, leader, is_recovering), (Ok(()), 3, false));

    lead(&mut image, -1, &[3]);
    fence(&mut image, 3);
    let alone = vec![BrokerId(2)];
    assert_eq!(elect(&mut image), (Ok(()), 2, alone, true));

    lead(&mut image, -1, &[]);
    fence(&mut image, 2);
    fence(&mut image, 1);
    let (answer, leader, ..) = elect(&mut image);
    assert_eq!((answer, leader), (Err(ElectError::NoEligible), -1));
}

/// As when the setting is given to a topic, or to all brokers, after the last replica in sync was gone.
#[test]
fn partitions_without_leader_get_one_where_their_topic_allows_unclean_elections() {
    let mut image = replicated();
    lead(&mut image, -1, &[]);
    let elected = |broker: &config::Broker, most| elect_unclean(&image, broker, most);
    assert_eq!(elected(&broker(""), 10), (vec![], false));
    let allowed = broker("unclean.leader.election.enable=true");
    assert_eq!(elected(&allowed, 0), (vec![], true), "so many at once");
    let (records, has_more) = elected(&allowed, 10);
    assert_eq!((records.len(), has_more), (1, false));
    let own = wire::metadata::ConfigRecord {
        resource_type: 2,
        resource_name: "p".into(),
        name: "unclean.leader.election.enable".into(),
        value: Some("true".into()),
    };
    let mut of_topic = image.clone();
    replay(&mut of_topic, &[own.into()]);
    assert_eq!(elect_unclean(&of_topic, &broker(""), 10).0, records);
    let led = &mut image.clone();
    replay(led, &records);
    let partition = &led.topic("p").expect("there").partitions[0];
    assert_eq!(
        (partition.leader, partition.is_recovering),
        (BrokerId(2), true)
    );
    assert_eq!(
        elect_unclean(led, &allowed, 10),
        (vec![], false),
        "it has one"
    );
}

/// A request names a topic once, and as many of its partitions as it likes.
#[test]
fn what_is_said_of_each_partition_repeats_no_more_of_a_name_than_a_topic_can_have() {
    let image = image(1);
    for (name, shown) in [
        ("x".repeat(32_700), "x".repeat(249)),
        ("é".repeat(200), "é".repeat(124)),
        ("x".repeat(249), "x".repeat(249)),
    ] {
        let asked = [(name.clone(), vec![0])];
        let elected = elect_leaders(&image, &broker(""), Election::Preferred, Some(&asked));
        let error = elected.answers[0].1[0].1.as_ref().expect_err("not there");
        assert_eq!(error.to_string(), format!("No such topic as {shown}"));

        let target = Target {
            partition: 0,
            replicas: None,
        };
        let decided = reassign(&image, &broker(""), &[(name, vec![target])], true);
        let error = decided.answers[0].1[0].1.as_ref().expect_err("not there");
        assert_eq!(
            error.to_string(),
            format!("Unable to find a topic named {shown}.")
        );
    }
}

#[test]
fn preferred_leaders_come_back_by_themselves_where_they_are_in_sync_and_so_many_at_once() {
    let mut image = image(3);
    let wide = NewTopic {
        assignments: (0..5).map(|index| (index, vec![2, 3, 1])).collect(),
        ..topic("wide")
    };
    let created = create_topics(&image, &broker(""), &[wide], &mut uuids());
    replay(&mut image, &created.records);
    let topic_id = image.topic("wide").expect("there").id;
    let leaders = |image: &Image| -> Vec<i32> {
        let partitions = &image.topic("wide").expect("there").partitions;
        partitions.iter().map(|one| one.leader.0).collect()
    };
    assert_eq!(balance_leaders(&image, &broker(""), 9), (vec![], false));
    for (partition_id, isr) in [(0, [3, 2]), (1, [3, 1]), (2, [3, 2]), (4, [3, 2])] {
        let change = wire::metadata::PartitionChangeRecord {
            partition_id,
            topic_id,
            leader: 3,
            isr: Some(isr.to_vec()),
            ..Default::default()
        };
        replay(&mut image, &[change.into()]);
    }
    assert_eq!(leaders(&image), [3, 3, 3, 2, 3]);
    let (records, has_more) = balance_leaders(&image, &broker(""), 2);
    assert!(has_more);
    replay(&mut image, &records);
    assert_eq!(leaders(&image), [2, 3, 2, 2, 3]);
    let (records, has_more) = balance_leaders(&image, &broker(""), 2);
    assert!(!has_more);
    replay(&mut image, &records);
    assert_eq!(
        leaders(&image),
        [2, 3, 2, 2, 2],
        "1 is not in sync on broker 2"
    );
    assert_eq!(balance_leaders(&image, &broker(""), 2), (vec![], false));
}
