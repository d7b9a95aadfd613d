//! The group's reports of itself: its members, and why it moved on.

use super::*;
use crate::group::ask::{Kind, NamedPartitions};

#[test]
fn a_description_shows_what_is_and_what_shall_be() {
    let world = play(
        "topic t:2
         join a t => 2: t0 t1
         join b t => 3:",
    );
    let cx = World::cx(&world.topics, &world.settings, world.at);
    let described = world.group.describe(&cx);
    assert_eq!(described.state, ConsumerState::Reconciling);
    assert_eq!((described.epoch, described.assignment_epoch), (3, 3));
    assert_eq!(described.assignor, "uniform");
    let shown: Vec<_> = (described.members.iter())
        .map(|it| {
            let list = |topics: &[NamedPartitions]| {
                (topics.iter())
                    .flat_map(|it| it.partitions.iter().map(|index| index.0))
                    .collect::<Vec<_>>()
            };
            let (is, shall) = (list(&it.assignment), list(&it.target));
            (it.member_id.as_str(), it.member_epoch, it.kind, is, shall)
        })
        .collect();
    assert_eq!(
        shown,
        [
            ("a", 2, Kind::Consumer, vec![0, 1], vec![0]),
            ("b", 3, Kind::Consumer, vec![], vec![1]),
        ]
    );
}

#[test]
fn a_group_tells_why_it_last_moved_on() {
    play(
        "topic t:4
         topic u:1
         why => -
         join a t => 2: t0 t1 t2 t3
         why => member a is new (1)
         beat a => 2
         join b t => 3:
         why => member b is new (2)
         beat a => 2: t0 t1
         beat a => 3
         beat b => 3: t2 t3
         why => member b is new (2)
         subscribe b t,u => 4: t2 t3 u0
         why => member b changed its subscription (3)
         topic t:6
         beat a => 5: t0 t1 t4 t5
         why => topics that members subscribe to have changed (4)
         leave b => -1
         why => member b left (5)
         restart
         why => -",
    );
}

#[test]
fn a_group_tells_which_members_were_late() {
    play(
        "topic t:2
         join a t => 2: t0 t1
         join b t => 3:
         pass 30000
         beat a => 2: t0
         pass 20000
         members => a
         why => member b was silent for its session timeout (3)",
    );
}
