//! How much one request may ask for.

use wire::messages::DescribeGroupsRequest;

use super::ELEMENTS_MAX;
use crate::shard::bench::{Bench, encoded};

const DESCRIBE: i16 = 5;

fn describe(groups: usize) -> Vec<u8> {
    let groups = (0..groups).map(|_| "g".to_owned()).collect();
    let request = DescribeGroupsRequest {
        groups,
        ..Default::default()
    };
    encoded(&request, DESCRIBE)
}

#[test]
fn a_request_that_names_more_than_it_may_closes_its_connection() {
    let mut bench = Bench::new();
    bench.put(&describe(ELEMENTS_MAX));
    let told = bench.answer::<DescribeGroupsRequest>(DESCRIBE);
    assert_eq!(told.map(|told| told.groups.len()), Some(ELEMENTS_MAX));
    bench.put(&describe(ELEMENTS_MAX + 1));
    assert!(bench.is_cut_off(), "it asked for too much");
}
