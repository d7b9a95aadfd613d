//! Members that may commit, and until when.

use super::*;

#[test]
fn commits_are_of_members_in_their_epoch() {
    let mut world = play(
        "topic t:2
         join a t => 2: t0 t1
         join b t => 3:
         beat a => 2: t0
         beat a => 3
         beat b => 3: t1",
    );
    let (topic, _) = world.topics.topics["t"];
    let commit = |world: &World, member: &str, epoch: i32, partition: i32| {
        world.commit(member, epoch, (topic, partition))
    };
    assert_eq!(commit(&world, "a", 3, 0), Ok(()));
    assert_eq!(commit(&world, "a", 4, 0), Err(ErrorCode::StaleMemberEpoch));
    // It has had the first since epoch 2, and has no longer the other.
    assert_eq!(commit(&world, "a", 2, 0), Ok(()));
    assert_eq!(commit(&world, "a", 2, 1), Err(ErrorCode::StaleMemberEpoch));
    assert_eq!(commit(&world, "b", 2, 1), Err(ErrorCode::StaleMemberEpoch));
    assert_eq!(commit(&world, "x", 2, 1), Err(ErrorCode::UnknownMemberId));
    assert_eq!(commit(&world, "", -1, 1), Err(ErrorCode::UnknownMemberId));
    assert_eq!(world.group.validate_fetch(Some("a"), 3), Ok(()));
    assert_eq!(world.group.validate_fetch(None, -1), Ok(()));
    assert_eq!(
        world.group.validate_fetch(Some("a"), 2),
        Err(ErrorCode::StaleMemberEpoch)
    );

    world.command("leave a");
    world.command("leave b");
    assert_eq!(commit(&world, "", -1, 1), Ok(()));
}

#[test]
fn a_late_commit_holds_for_what_is_still_to_be_given_up() {
    let world = play(
        "topic t:3
         join a t => 2: t0 t1 t2
         join b t => 3:
         beat a => 2: t0 t1
         beat a => 3
         beat b => 3: t2
         join c t => 4:
         beat a => 3: t0",
    );
    let (topic, _) = world.topics.topics["t"];
    assert!(world.group.members["a"].revoking[&topic].contains_key(&1));
    assert_eq!(world.commit("a", 3, (topic, 1)), Ok(()));
    assert_eq!(world.commit("a", 2, (topic, 1)), Ok(()));
    let stale = Err(ErrorCode::StaleMemberEpoch);
    assert_eq!(world.commit("a", 1, (topic, 1)), stale);
    assert_eq!(world.commit("a", 2, (topic, 2)), stale);
}
