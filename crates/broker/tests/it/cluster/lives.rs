//! The id of a cluster: one for each life of the same voters. A node of a former life is no part of the next one.

use std::path::PathBuf;
use std::time::Duration;

use super::misfits::{create, knows, others};
use super::nodes::*;

const A_WHILE: Duration = Duration::from_secs(20);

/// The id that all nodes agree on.
fn id(nodes: &Nodes) -> String {
    nodes.until(|nodes| {
        let first = nodes.cluster_id(1)?;
        Some(
            ALL.iter()
                .all(|node| nodes.cluster_id(*node) == Some(first.clone())),
        )
    });
    nodes.cluster_id(1).expect("they agree")
}

/// The id in `meta.properties` of a directory.
fn named(nodes: &Nodes, node: Node, dir: &str) -> Option<String> {
    let text = identity(nodes, node, dir).1;
    let lines = text.lines();
    let mut ids = lines.filter_map(|line| line.strip_prefix("cluster.id="));
    ids.next().map(str::to_owned)
}

fn identity(nodes: &Nodes, node: Node, dir: &str) -> (PathBuf, String) {
    let path = PathBuf::from(dir).join("meta.properties");
    let files = nodes.files(node, dir).into_iter();
    let mut found = files.filter(|(at, _)| *at == path);
    let (_, bytes) = found.next().expect("it is there");
    (path, String::from_utf8(bytes).expect("text"))
}

fn restart_all(nodes: &mut Nodes, wipes: bool) {
    for node in ALL {
        nodes.stop(node);
    }
    if wipes {
        ALL.iter()
            .for_each(|node| nodes.replace_dir(*node, "/data"));
    }
    ALL.iter().for_each(|node| nodes.start_one(*node));
}

#[test]
fn a_node_of_a_former_life_is_no_part_of_the_next_one() {
    let mut nodes = Nodes::start(71);
    let first = id(&nodes);
    create(&nodes, 1, "former");
    restart_all(&mut nodes, false);
    assert_eq!(id(&nodes), first, "it stays");
    knows(&nodes, 3, "former");
    nodes.stop(3);
    let former = nodes.files(3, "/data");
    nodes.start_one(3);
    restart_all(&mut nodes, true);
    let second = id(&nodes);
    assert_ne!(first, second, "the same list begins another cluster");
    create(&nodes, 1, "new");
    // The disk of before is put back.
    nodes.stop(3);
    nodes.put_back(3, "/data", &former);
    nodes.start_one(3);
    nodes.pass(A_WHILE);
    assert!(nodes.runs(3), "it lives");
    assert_eq!(nodes.cluster_id(3), Some(first.clone()));
    assert_eq!(named(&nodes, 3, "/data"), Some(first));
    let told = nodes.ask(3, &quorum_of_metadata(), 2);
    let leader = told.map(|told| told.topics[0].partitions[0].leader_id);
    assert!(leader.is_none_or(|leader| leader < 0), "{leader:?}");
    create(&nodes, 1, "goes-on");
    for node in [1, 2] {
        assert_eq!(nodes.cluster_id(node), Some(second.clone()));
        knows(&nodes, node, "goes-on");
        assert_eq!(nodes.isr(node, "former"), None);
    }
    // As the line says.
    nodes.stop(3);
    nodes.replace_dir(3, "/data");
    nodes.start_one(3);
    assert_eq!(id(&nodes), second);
    knows(&nodes, 3, "goes-on");
}

#[test]
fn leaders_that_die_before_an_id_is_everywhere_leave_one_cluster() {
    for moment in 0..24 {
        let mut nodes = Nodes::begin(72);
        // The first election takes some tenths of a second.
        nodes.pass(Duration::from_millis(150 + 25 * moment));
        let leads = |nodes: &Nodes, node: &Node| {
            let epoch = nodes.leadership(*node);
            epoch.is_some()
        };
        let leader = ALL.into_iter().find(|node| leads(&nodes, node));
        let dies = leader.unwrap_or(1);
        nodes.kill(dies);
        nodes.pass(A_WHILE);
        nodes.start_one(dies);
        let agreed = id(&nodes);
        for node in ALL {
            assert_eq!(
                named(&nodes, node, "/data").as_ref(),
                Some(&agreed),
                "{moment}"
            );
        }
        create(&nodes, 2, "t");
        knows(&nodes, dies, "t");
    }
}

#[test]
fn an_emptied_voter_and_each_of_its_directories_get_the_id_of_the_cluster() {
    let mut nodes = Nodes::start_with(73, &[("log.dirs", "/data,/more")]);
    let (active, emptied, other) = others(&nodes);
    create(&nodes, active, "kept");
    let first = id(&nodes);
    let both = |nodes: &Nodes, node| ["/data", "/more"].map(|dir| named(nodes, node, dir));
    let want = [Some(first.clone()), Some(first.clone())];
    assert_eq!(both(&nodes, emptied), want);
    nodes.kill(emptied);
    for dir in ["/data", "/more"] {
        nodes.replace_dir(emptied, dir);
    }
    nodes.start_one(emptied);
    assert_eq!(id(&nodes), first);
    knows(&nodes, emptied, "kept");
    assert_eq!(both(&nodes, emptied), want);
    // The process ended when one of the directories had it.
    nodes.stop(other);
    for dir in ["/data", "/more"] {
        let mut files = nodes.files(other, dir);
        let (path, text) = identity(&nodes, other, dir);
        let text = text.replace(&format!("cluster.id={first}\n"), "");
        let file = files.iter_mut().find(|(at, _)| *at == path);
        file.expect("it is there").1 = text.into_bytes();
        nodes.put_back(other, dir, &files);
        assert_eq!(named(&nodes, other, dir), None);
        nodes.start_one(other);
        assert_eq!(id(&nodes), first);
        assert_eq!(both(&nodes, other), want);
        nodes.stop(other);
    }
    nodes.start_one(other);
    knows(&nodes, other, "kept");
}

#[test]
fn a_broker_that_is_no_voter_learns_the_id() {
    let nodes = Nodes::start_each(74, |node| {
        let voters = "1@10.0.0.1:9092,2@10.0.0.2:9092".to_owned();
        let mut given = vec![("controller.quorum.voters", voters)];
        given.extend((node == 3).then(|| ("process.roles", "broker".to_owned())));
        given
    });
    let agreed = id(&nodes);
    assert_eq!(named(&nodes, 3, "/data"), Some(agreed));
}
