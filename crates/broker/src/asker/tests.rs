//! The page of the table for those who write rules (`UPDATE=1 cargo test -p broker access` writes it anew), and what a right is good for.

use std::fmt::Write;
use std::path::Path;
use std::sync::Arc;

use security::Principal;
use security::authorize::{Kind, Operation, Rules};
use wire::ApiKey;

use super::access::{AnyOf, Resource, needs, operations_on};
use super::granted::refusal;
use super::{Asker, Authority};
use crate::kafka::api::{PEERS, Served, TABLE};

const INTRODUCTION: &str = "\
# Who may do what

What each request needs where an authorizer is set, written from the table in `crates/broker/src/asker/access.rs`:
`UPDATE=1 cargo test -p broker access` writes it anew. It is Kafka's. A line is of an API and its versions; all that stands between
semicolons is needed, of one `or` the other, where the request has to do with such a resource at all: a transactional id for
transactional batches, two-phase commit where it is asked for, creation where a topic is to come to be. `-` is open to everybody.

Read, Write, Delete and Alter include Describe, and AlterConfigs includes DescribeConfigs, where they are allowed; where they are denied
they deny nothing but themselves. A topic that is hidden from somebody is answered alike whether it exists or not; among all topics,
groups or transactions those that are hidden are left out.

";

fn resource(kind: Kind) -> &'static str {
    match kind {
        Kind::Topic => "topic",
        Kind::Group => "group",
        Kind::Cluster => "cluster",
        Kind::TransactionalId => "transactional id",
        Kind::DelegationToken => "delegation token",
        Kind::User => "user",
    }
}

fn need(any: AnyOf) -> String {
    let one = |(operation, kind): &(Operation, Kind)| format!("{operation:?} {}", resource(*kind));
    any.iter().map(one).collect::<Vec<_>>().join(" or ")
}

fn text(needs: &[AnyOf]) -> String {
    if needs.is_empty() {
        return "-".to_owned();
    }
    let needs = needs.iter().map(|any| need(any));
    needs.collect::<Vec<_>>().join("; ")
}

/// One line for all versions that need the same.
fn lines(row: &Served, page: &mut String) {
    let mut first = row.min;
    for version in row.min..=row.max {
        let own = text(needs(row.key, version));
        if version < row.max && text(needs(row.key, version + 1)) == own {
            continue;
        }
        writeln!(page, "| {:?} | {first}-{version} | {own} |", row.key).expect("memory");
        first = version + 1;
    }
}

fn table(title: &str, rows: &[Served], page: &mut String) {
    writeln!(page, "## {title}\n").expect("memory");
    page.push_str("| request | versions | needs |\n| --- | --- | --- |\n");
    let mut rows: Vec<&Served> = rows.iter().collect();
    rows.sort_by_key(|row: &&Served| format!("{:?}", row.key));
    rows.iter().for_each(|row| lines(row, page));
    page.push('\n');
}

fn page() -> String {
    let mut page = INTRODUCTION.to_owned();
    page.push_str("## Rights\n\n| resource | rights | refused with |\n| --- | --- | --- |\n");
    for kind in Kind::EVERY {
        let rights = operations_on(kind).iter();
        let rights: Vec<String> = rights.map(|right| format!("{right:?}")).collect();
        let code = refusal(kind);
        let (name, rights) = (resource(kind), rights.join(", "));
        writeln!(
            page,
            "| {name} | {rights} | {} ({}) |",
            code.name(),
            code.code()
        )
        .expect("memory");
    }
    page.push('\n');
    table("Requests of clients", TABLE, &mut page);
    table("Requests of nodes", PEERS, &mut page);
    page.truncate(page.trim_end().len());
    page.push('\n');
    page
}

#[test]
#[allow(clippy::disallowed_methods)] // a page of the repository, not a file of the broker
fn the_page_of_access_is_written_from_the_table() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/access.md");
    if std::env::var_os("UPDATE").is_some() {
        std::fs::write(&path, page()).expect("docs can be written");
    }
    let written = std::fs::read_to_string(&path).unwrap_or_default();
    assert!(
        written == page(),
        "docs/access.md is stale: run UPDATE=1 cargo test -p broker access"
    );
}

#[test]
fn the_page_of_access_names_every_request_that_is_served() {
    let page = page();
    let is_named = |key: ApiKey| page.contains(&format!("| {key:?} |"));
    assert!(TABLE.iter().chain(PEERS).all(|row| is_named(row.key)));
    assert!(page.contains("| AddPartitionsToTxn | 0-3 |"));
}

fn anybody() -> Asker {
    let here = std::net::SocketAddr::from(([127, 0, 0, 1], 9092));
    Asker::anonymous(here, here)
}

#[test]
fn a_right_is_good_for_what_it_was_given_for() {
    let granted = anybody().grant(Operation::Write, Resource::topic("t"));
    let granted = granted.expect("nobody is refused without an authorizer");
    assert_eq!(granted.topic(Operation::Write), "t");
}

#[test]
#[should_panic(expected = "a right of another kind")]
fn a_right_to_see_is_none_to_write() {
    let granted = anybody().grant(Operation::Describe, Resource::topic("t"));
    granted.expect("given").topic(Operation::Write);
}

#[test]
fn nodes_act_for_the_cluster_and_create_its_own_topics_alone() {
    let node = Asker {
        principal: Principal::node(1),
        authority: Some(Arc::new(Authority::new(Rules::default()))),
        ..anybody()
    };
    let acts = node.grant(Operation::ClusterAction, Resource::CLUSTER);
    assert!(acts.is_ok());
    assert!(node.grant_creation("__consumer_offsets").is_ok());
    assert!(node.grant_creation("t").is_err());
    assert!(node.grant_any(Operation::Write, Kind::Topic).is_err());
    let client = Asker {
        principal: Principal::user("Node:1"),
        ..node
    };
    assert!(client.grant_creation("__consumer_offsets").is_err());
}

/// A line of the log says what a request was refused for: not what it asked on its way, nor what an earlier one asked.
#[test]
fn a_refusal_names_the_question_that_it_is_of() {
    let client = Asker {
        principal: Principal::user("alice"),
        authority: Some(Arc::new(Authority::new(Rules::default()))),
        ..anybody()
    };
    assert!(!client.may(Operation::Write, Resource::topic("a")));
    assert_eq!(client.take_refused(), None);
    assert!(client.grant(Operation::Read, Resource::topic("t")).is_err());
    assert!(!super::access::admits(&client, ApiKey::CreateAcls, 3));
    let refused = client.take_refused().expect("it is noted");
    let about = (
        refused.operation,
        refused.kind,
        &*refused.principal.to_string(),
    );
    assert_eq!(about, (Operation::Alter, Kind::Cluster, "User:alice"));
    assert_eq!(client.take_refused(), None);
    assert!(client.grant_any(Operation::Write, Kind::Topic).is_err());
    assert_eq!(client.take_refused().map(|it| it.kind), Some(Kind::Topic));
}
