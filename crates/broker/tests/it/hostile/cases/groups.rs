//! Requests about groups as a whole.

use wire::any::AnyRequest::{
    ConsumerGroupDescribe, DeleteGroups, DescribeGroups, FindCoordinator, ListGroups,
};
use wire::messages::*;

use super::super::scene::{CLASSIC, CONSUMER, SIMPLE};
use super::{Cases, names, text};

/// Groups that exist in every kind, and names that are odd.
pub(super) fn groups() -> Vec<String> {
    let mut groups = names();
    groups.extend([SIMPLE, CLASSIC, CONSUMER].map(text));
    groups
}

pub(super) fn find_coordinator() -> Cases {
    let one = |key: &str, key_type| {
        FindCoordinator(FindCoordinatorRequest {
            key: text(key),
            key_type,
            coordinator_keys: Vec::new(),
        })
    };
    let many = |coordinator_keys, key_type| {
        FindCoordinator(FindCoordinatorRequest {
            key: String::new(),
            key_type,
            coordinator_keys,
        })
    };
    let mut cases = vec![
        ("none of many", many(Vec::new(), 0)),
        ("odd groups", many(groups(), 0)),
        ("odd transactions", many(groups(), 1)),
        ("shares", many(groups(), 2)),
        ("kind 3", many(groups(), 3)),
        ("kind -1", many(groups(), -1)),
        ("a kind of one", one("group", 9)),
        ("a share", one("group:AAAAAAAAAAAAAAAAAAAAAA:0", 2)),
    ];
    for key in names() {
        cases.push(("a group", one(&key, 0)));
        cases.push(("a transaction", one(&key, 1)));
    }
    cases
}

pub(super) fn describe_groups() -> Cases {
    let of = |groups, include_authorized_operations| {
        DescribeGroups(DescribeGroupsRequest {
            groups,
            include_authorized_operations,
        })
    };
    vec![
        ("nothing", of(Vec::new(), false)),
        ("odd groups", of(groups(), false)),
        ("operations", of(groups(), true)),
    ]
}

pub(super) fn list_groups() -> Cases {
    let of = |states: &[&str], types: &[&str]| {
        let texts = |list: &[&str]| list.iter().map(|item| text(item)).collect();
        ListGroups(ListGroupsRequest {
            states_filter: texts(states),
            types_filter: texts(types),
        })
    };
    vec![
        ("all", of(&[], &[])),
        (
            "odd states",
            of(&["", "none", "STABLE", "\0", "Stable", "Stable"], &[]),
        ),
        ("odd kinds", of(&[], &["", "none", "CLASSIC", "\0"])),
        ("an unknown state alone", of(&["none"], &[])),
        ("an unknown kind alone", of(&[], &["none"])),
    ]
}

pub(super) fn delete_groups() -> Cases {
    let of = |groups_names| DeleteGroups(DeleteGroupsRequest { groups_names });
    vec![("nothing", of(Vec::new())), ("odd groups", of(groups()))]
}

pub(super) fn consumer_group_describe() -> Cases {
    let of = |group_ids, include_authorized_operations| {
        ConsumerGroupDescribe(ConsumerGroupDescribeRequest {
            group_ids,
            include_authorized_operations,
        })
    };
    vec![
        ("nothing", of(Vec::new(), false)),
        ("odd groups", of(groups(), false)),
        ("operations", of(groups(), true)),
    ]
}
