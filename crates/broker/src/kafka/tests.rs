//! How much one request may ask for, and how often for the same.

mod guarded;

use wire::messages::describe_producers_request::TopicRequest;
use wire::messages::{
    DescribeGroupsRequest, DescribeProducersRequest, DescribeTransactionsRequest,
};

use crate::event_loop::bench::{Bench, encoded};
use crate::settings::ELEMENTS_MAX;

const DESCRIBE: i16 = 5;

fn describe(groups: impl Iterator<Item = usize>) -> Vec<u8> {
    let request = DescribeGroupsRequest {
        groups: groups.map(|group| group.to_string()).collect(),
        ..Default::default()
    };
    encoded(&request, DESCRIBE)
}

#[test]
fn a_request_that_names_more_than_it_may_closes_its_connection() {
    let mut bench = Bench::new();
    bench.put(&describe(0..ELEMENTS_MAX));
    let told = bench.answer::<DescribeGroupsRequest>(DESCRIBE);
    assert_eq!(told.map(|told| told.groups.len()), Some(ELEMENTS_MAX));
    bench.put(&describe(0..ELEMENTS_MAX + 1));
    assert!(bench.is_cut_off(), "it asked for too much");
}

#[test]
fn what_is_named_again_is_told_once() {
    let mut bench = Bench::new();
    bench.put(&describe([1, 2, 1, 1, 2].into_iter()));
    let told = bench.answer::<DescribeGroupsRequest>(DESCRIBE);
    let groups = told.expect("an answer").groups.into_iter();
    assert_eq!(groups.map(|it| it.group_id).collect::<Vec<_>>(), ["1", "2"]);

    let request = DescribeTransactionsRequest {
        transactional_ids: ["a", "b", "a"].map(str::to_owned).to_vec(),
    };
    bench.put(&encoded(&request, 0));
    let told = bench.answer::<DescribeTransactionsRequest>(0);
    let states = told.expect("an answer").transaction_states.into_iter();
    let ids: Vec<_> = states.map(|it| it.transactional_id).collect();
    assert_eq!(ids, ["a", "b"]);

    let topic = |partition_indexes: &[i32]| TopicRequest {
        name: "t".to_owned(),
        partition_indexes: partition_indexes.to_vec(),
    };
    let request = DescribeProducersRequest {
        topics: vec![topic(&[0, 1, 0]), topic(&[1, 2])],
    };
    bench.put(&encoded(&request, 0));
    let told = bench.answer::<DescribeProducersRequest>(0);
    let partitions = (told.expect("an answer").topics.into_iter()).flat_map(|it| it.partitions);
    let indexes: Vec<_> = partitions.map(|it| it.partition_index).collect();
    assert_eq!(indexes, [0, 1, 2]);
}
