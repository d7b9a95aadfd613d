//! Members that are refused, and the group that a refusal leaves as it was.

use super::*;

#[test]
fn leaving_twice_or_from_nowhere_is_refused() {
    play(
        "leave a => GROUP_ID_NOT_FOUND
         topic t:1
         join a t => 2: t0
         leave b => UNKNOWN_MEMBER_ID
         leave a => -1
         leave a => UNKNOWN_MEMBER_ID",
    );
}

#[test]
fn epochs_that_are_not_the_members_own_are_fenced() {
    play(
        "topic t:2
         epoch a 6 => GROUP_ID_NOT_FOUND
         join a t => 2: t0 t1
         epoch a 3 => FENCED_MEMBER_EPOCH
         join a t => 2: t0 t1
         join b t => 3:
         epoch c 3 => UNKNOWN_MEMBER_ID
         beat a => 2: t0
         beat a => 3
         epoch b 2 => FENCED_MEMBER_EPOCH",
    );
}

#[test]
fn a_full_group_takes_nobody() {
    play(
        "topic t:1
         set members_max 1
         join a t => 2: t0
         join b t => GROUP_MAX_SIZE_REACHED
         beat a => 2
         join a t => 2: t0",
    );
}

#[test]
fn requests_that_no_group_could_take_are_refused() {
    let valid = ConsumerHeartbeat {
        group_id: "g".into(),
        member_id: "a".into(),
        rebalance_timeout_ms: Some(1),
        topic_names: Some(Vec::new()),
        owned: Some(Vec::new()),
        brings_member_id: true,
        ..ConsumerHeartbeat::default()
    };
    let settings = Settings::default();
    assert_eq!(check(&valid, &settings), Ok(()));
    let refused = |change: &dyn Fn(&mut ConsumerHeartbeat)| {
        let mut beat = valid.clone();
        change(&mut beat);
        let refusal = check(&beat, &settings).expect_err("a refusal");
        assert_eq!(refusal.code, ErrorCode::InvalidRequest, "{beat:?}");
    };
    refused(&|it| it.group_id.clear());
    refused(&|it| it.member_id.clear());
    refused(&|it| it.instance_id = Some(" ".into()));
    refused(&|it| it.rack_id = Some(String::new()));
    refused(&|it| it.rebalance_timeout_ms = None);
    refused(&|it| it.owned = None);
    refused(&|it| {
        it.owned = Some(report(&[(Uuid([1; 16]), 0)].into()));
    });
    refused(&|it| it.topic_names = None);
    refused(&|it| it.member_epoch = -2);
    refused(&|it| it.member_epoch = -3);

    let mut first = valid.clone();
    first.member_id.clear();
    first.brings_member_id = false;
    assert_eq!(check(&first, &settings), Ok(()));
    first.member_epoch = 1;
    assert!(check(&first, &settings).is_err());
}

#[test]
fn a_member_without_id_is_given_one() {
    let mut world = World::new();
    world.topics.set("t", 1);
    let beat = ConsumerHeartbeat {
        group_id: "g".into(),
        rebalance_timeout_ms: Some(1),
        topic_names: Some(vec!["t".into()]),
        owned: Some(Vec::new()),
        ..ConsumerHeartbeat::default()
    };
    let told = world.send(beat);
    assert_eq!(world.show(&told), "2: t0");
    let standing = told.0.expect("a member");
    assert_eq!(standing.member_id, Uuid([1; 16]).to_string());
}

#[test]
fn refused_records_leave_the_group_as_it_was() {
    let mut world = play("topic t:2\n join a t => 2: t0 t1");
    let before = world.group.durable();
    let client = world.clients["a"].clone();
    let cx = World::cx(&world.topics, &world.settings, world.at);
    let beat = ConsumerHeartbeat {
        group_id: "g".into(),
        member_id: client.id,
        member_epoch: -1,
        brings_member_id: true,
        ..ConsumerHeartbeat::default()
    };
    let step = world.group.heartbeat(crate::caller(&beat), &beat, &cx);
    assert!(!step.records.is_empty());
    assert_eq!(world.group.durable(), before);

    // Nor does a member that was not removed keep the driver busy.
    world.pass(45_000);
    let cx = World::cx(&world.topics, &world.settings, world.at);
    assert!(
        !world
            .group
            .tick(&cx, world.batch_bytes_max)
            .records
            .is_empty()
    );
    assert!(world.group.next_deadline() > Some(world.at.now));
    assert!(
        world
            .group
            .tick(&cx, world.batch_bytes_max)
            .records
            .is_empty()
    );
}
