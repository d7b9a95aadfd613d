//! Groups of both protocols side by side: what each may be asked, and how a group changes over, empty or not.

use std::sync::Arc;
use std::time::Duration;

use coord::group::ask::{ConsumerHeartbeat, Standing};
use coord::group::{Answer, Ask, Refusal, Settings, consumer};
use wire::ErrorCode;

use crate::script::{check, check_with};
use crate::world::World;

const MEMBER: &str = "consumer m        => m: epoch 2
";

fn check_member(script: &str) {
    check(&format!("{MEMBER}{script}"));
}

#[test]
fn a_consumer_group_is_listed_and_described_as_one() {
    check_member(
        "list                   => g:consumer:consumer:Stable
         list types=CONSUMER    => g:consumer:consumer:Stable
         list types=classic     =>
         describe               => GROUP_ID_NOT_FOUND
         describe-consumer      => Stable m
         restart                =>
         describe-consumer      => Stable m",
    );
    check(
        "describe-consumer      => GROUP_ID_NOT_FOUND
         commit t:0=1           => ok
         describe-consumer      => GROUP_ID_NOT_FOUND",
    );
}

#[test]
fn a_classic_member_works_in_a_consumer_group_and_leaves_it() {
    check_member(
        "join a                 => a: MEMBER_ID_REQUIRED as a
         join a                 => a: joined 2 range led by
         sync a                 => a: gets 10 bytes
         beat a                 => a: ok
         after 1s               =>
         beat a                 => a: REBALANCE_IN_PROGRESS
         join a                 => a: joined 3 range led by
         sync a gen=2           => a: ILLEGAL_GENERATION
         describe-consumer      => Reconciling a,m
         why                    => member a is new (g2)
         leave a                => ok
         why                    => member a left (g3)
         describe-consumer      => Assigning m
         beat m gen=2           => m: UNKNOWN_MEMBER_ID
         sync m gen=2           => m: UNKNOWN_MEMBER_ID",
    );
}

#[test]
fn a_leave_request_removes_members_of_the_consumer_protocol() {
    check_member(
        "leave m                => ok
         why                    => member m left (g2)
         describe-consumer      => Empty
         consumer m epoch=2     => m: UNKNOWN_MEMBER_ID",
    );
    check(
        "consumer m instance=M  => m: epoch 2
         consumer m instance=M epoch=-2 => m: epoch -2
         leave - instance=X     => UNKNOWN_MEMBER_ID
         leave x instance=M     => FENCED_INSTANCE_ID
         leave - instance=M     => ok
         describe-consumer      => Empty",
    );
}

#[test]
fn a_consumer_that_joins_a_classic_group_upgrades_it_and_the_last_to_leave_gives_it_back() {
    check(
        "join a v=3             =>
         after 3s               => a: joined 1 range led by a of a
         sync a a=              => a: gets
         commit a t:0=5         => ok
         consumer m epoch=3     => m: GROUP_ID_NOT_FOUND
         consumer m epoch=-3    => m: INVALID_REQUEST
         refuse consumer m      => m: refused
         list                   => g:classic:consumer:Stable
         consumer m             => m: epoch 2
         list                   => g:consumer:consumer:Reconciling
         why                    => the first member of the consumer protocol joined (g1)
         restart                =>
         why                    => -
         describe-consumer      => Reconciling a,m
         beat a                 => a: REBALANCE_IN_PROGRESS
         consumer m epoch=-1    => m: epoch -1
         list                   => g:classic:consumer:Stable
         after 1ms              =>
         list                   => g:classic:consumer:PreparingRebalance
         why                    => the last member of the consumer protocol left (g2)
         beat a                 => a: ILLEGAL_GENERATION
         join a                 => a: joined 3 range led by a of a
         restart                =>
         list                   => g:classic:consumer:Stable
         fetch all              => t:0=5",
    );
}

#[test]
fn static_members_that_come_back_as_classic_ones_give_the_group_back() {
    check(
        "consumer m instance=M  => m: epoch 2
         consumer n instance=N  => n: epoch 2
         consumer m instance=M epoch=-2 => m: epoch -2
         join a instance=M      => a: joined 2 range led by
         list                   => g:consumer:consumer:Assigning
         consumer n instance=N epoch=-2 => n: epoch -2
         join b instance=N      => b: joined 3 range led by
         list                   => g:classic:consumer:Stable
         after 1ms              =>
         list                   => g:classic:consumer:PreparingRebalance
         sync b instance=N      => b: REBALANCE_IN_PROGRESS
         beat a instance=M      => a: ILLEGAL_GENERATION
         join a instance=M      =>
         join b instance=N      => a: joined 4 range led by a of a,b; b: joined 4 range led by a
         restart                =>
         list                   => g:classic:consumer:Stable",
    );
    // A refusal leaves all as it was.
    check(
        "consumer m instance=M  => m: epoch 2
         consumer m instance=M epoch=-2 => m: epoch -2
         refuse join a instance=M => a: refused
         list                   => g:consumer:consumer:Reconciling
         join a instance=M      => a: joined 2 range led by
         list                   => g:classic:consumer:Stable",
    );
    // Nothing has changed for anybody: nobody joins again.
    check(
        "consumer m instance=M  => m: epoch 2
         consumer m instance=M epoch=-2 => m: epoch -2
         join a instance=M      => a: joined 2 range led by
         after 1s               =>
         list                   => g:classic:consumer:Stable
         sync a instance=M      => a: gets 33 bytes
         beat a instance=M      => a: ok
         after 11s              => wrote 1
         list                   => g:classic:consumer:Empty",
    );
}

#[test]
fn a_group_that_is_classic_again_knows_all_that_its_members_speak() {
    check(
        "consumer m             => m: epoch 2
         join a v=3 protocols=range,rr => a: joined 2 range led by
         consumer m epoch=-1    => m: epoch -1
         join b v=3 protocols=rr =>
         join a protocols=range,rr => a: joined 4 rr led by a of a,b; b: joined 4 rr led by a",
    );
}

#[test]
fn those_who_wait_in_a_classic_group_are_sent_back_when_it_is_upgraded() {
    check(
        "join a v=3             =>
         consumer m             => a: REBALANCE_IN_PROGRESS as a; m: epoch 1
         list                   => g:consumer:consumer:Reconciling",
    );
    // They are sent back also when that is refused, and find the classic group again.
    check(
        "join a v=3             =>
         refuse consumer m      => a: REBALANCE_IN_PROGRESS as a; m: refused
         list                   => g:classic:consumer:PreparingRebalance
         join a                 =>
         after 3s               => a: joined 1 range led by a of a
         join b v=3             =>
         join a                 => a: joined 2 range led by a of a,b; b: joined 2 range led by a
         sync b                 =>
         refuse consumer m      => b: REBALANCE_IN_PROGRESS; m: refused
         sync b                 =>
         sync a a=x b=y         => a: gets x; b: gets y",
    );
}

#[test]
fn commits_for_a_consumer_group_say_the_member_epoch() {
    check_member(
        "commit m gen=2 t:0=5   => ok
         commit m gen=1 t:0=6   => STALE_MEMBER_EPOCH
         commit m gen=2 t:0=6 v=8 => UNSUPPORTED_VERSION
         commit nobody gen=2 t:0=6 => UNKNOWN_MEMBER_ID
         commit t:0=6           => UNKNOWN_MEMBER_ID
         txn 7 m gen=2 t:1=7    => ok
         txn 7 m gen=1 t:1=8    => ILLEGAL_GENERATION
         marker 7 commit        =>
         fetch all              => t:0=5 t:1=7
         delete-offsets t:0     => GROUP_SUBSCRIBED_TO_TOPIC
         delete                 => NON_EMPTY_GROUP",
    );
}

#[test]
fn partitions_that_are_refused_by_themselves_do_not_make_a_late_commit_stale() {
    let settings = Settings {
        offset_metadata_max: 4,
        ..Settings::default()
    };
    check_with(
        settings,
        "consumer m             => m: epoch 2
         after 1s               =>
         consumer m topics=t,u  => m: epoch 3
         commit m gen=2 t:0=5   => ok
         commit m gen=2 t:0=6 t:9=1 t:1=1/12345 nope:0=1 => UNKNOWN_TOPIC_OR_PARTITION ok OFFSET_METADATA_TOO_LARGE UNKNOWN_TOPIC_OR_PARTITION
         txn 7 m gen=2 t:1=7 t:-1=1 => UNKNOWN_TOPIC_OR_PARTITION ok
         commit m gen=2 t:0=8 u:0=1 => STALE_MEMBER_EPOCH STALE_MEMBER_EPOCH
         marker 7 commit        =>
         fetch all              => t:0=6 t:1=7",
    );
}

#[test]
fn an_empty_consumer_group_may_be_joined_by_classic_members() {
    check_member(
        "commit m gen=2 t:0=5   => ok
         consumer m epoch=-1    => m: epoch -1
         list                   => g:consumer:consumer:Empty
         join a v=3             =>
         after 3s               => a: joined 1 range led by a of a
         sync a a=x             => a: gets x
         restart                =>
         list                   => g:classic:consumer:Stable
         describe-consumer      => GROUP_ID_NOT_FOUND
         fetch all              => t:0=5",
    );
}

#[test]
fn an_empty_classic_group_may_be_joined_by_consumers() {
    check(
        "join a v=3             =>
         after 3s               => a: joined 1 range led by a of a
         sync a a=x             => a: gets x
         commit a t:0=5         => ok
         leave a                => ok
         consumer m             => m: epoch 2
         list                   => g:consumer:consumer:Stable
         restart                =>
         list                   => g:consumer:consumer:Stable
         fetch all              => t:0=5",
    );
    // A group that has only offsets is no obstacle either.
    check(
        "commit t:0=5           => ok
         consumer m             => m: epoch 2
         fetch all              => t:0=5",
    );
}

#[test]
fn a_heartbeat_that_makes_no_group_leaves_none() {
    check(
        "consumer m epoch=3     => m: GROUP_ID_NOT_FOUND
         list                   =>
         refuse consumer m      => m: refused
         list                   =>
         consumer m             => m: epoch 2
         list                   => g:consumer:consumer:Stable",
    );
}

#[test]
fn no_group_takes_the_id_of_one_that_kafka_could_not_load_beside_it() {
    check(
        "kafka share            =>
         consumer m             => m: GROUP_ID_NOT_FOUND
         join a v=3             => a: INCONSISTENT_GROUP_PROTOCOL
         restart                =>
         consumer m             => m: GROUP_ID_NOT_FOUND
         kafka share gone       =>
         consumer m             => m: epoch 2",
    );
    check(
        "kafka streams          =>
         consumer m             => m: GROUP_ID_NOT_FOUND
         join a v=3             =>
         after 3s               => a: joined 1 range led by a of a
         sync a a=x             => a: gets x
         consumer m             => m: GROUP_ID_NOT_FOUND
         leave a                => ok
         restart                =>
         consumer m             => m: GROUP_ID_NOT_FOUND
         kafka streams gone     =>
         consumer m             => m: epoch 2",
    );
}

#[test]
fn an_empty_consumer_group_is_deleted_or_forgotten() {
    check_member(
        "commit m gen=2 t:0=5   => ok
         consumer m epoch=-1    => m: epoch -1
         delete                 => ok
         list                   =>
         restart                =>
         list                   =>
         fetch all              =>",
    );
    check_member(
        "after 46s              => wrote 5
         describe-consumer      => Empty
         restart                =>
         after 10m              => wrote 2
         list                   =>",
    );
}

#[test]
fn silent_members_with_long_names_are_removed_in_parts_and_hold_nobody_up() {
    let mut script = String::new();
    let names: Vec<String> = (10..50)
        .map(|at| format!("m{at}{}", "x".repeat(20_000)))
        .collect();
    for name in &names {
        script += &format!("consumer {name} => {name}: epoch 2\n");
    }
    // 40 removals of three records are 2.4 MB, and four of them with a new epoch fit a step. Who joins elsewhere at that moment is
    // told.
    script += "after 42s =>
        join a group=h v=3 =>
        after 3s => a: joined 1 range led by a of a; wrote 131\n";
    check(&script);
}

#[test]
fn what_is_refused_of_one_group_is_no_matter_of_another() {
    check(
        "consumer m             => m: epoch 2
         consumer n group=h     => n: epoch 2
         after 42s              =>
         join a group=i v=3     =>
         refuse after 3s        => a: joined 1 range led by a of a; wrote 5
         describe-consumer      => Stable m
         describe-consumer group=h => Empty
         after 1s               => wrote 5
         describe-consumer      => Empty",
    );
}

/// The coordinator's answer to a heartbeat of member `m`.
fn beat(world: &mut World, epoch: i32) -> Result<Standing, Refusal> {
    let joins = epoch == 0;
    let fresh = world.fresh();
    let caller = world.ask(Ask::ConsumerHeartbeat(ConsumerHeartbeat {
        group_id: "g".to_owned(),
        member_id: "m".to_owned(),
        member_epoch: epoch,
        rebalance_timeout_ms: joins.then_some(30_000),
        topic_names: joins.then(|| vec!["t".to_owned()]),
        owned: joins.then(Vec::new),
        brings_member_id: true,
        fresh,
        ..ConsumerHeartbeat::default()
    }));
    let mut told = world.told.iter();
    match told.find(|(to, _)| *to == caller).map(|(_, told)| told) {
        Some(Ok(Answer::ConsumerHeartbeat(answer))) => answer.clone(),
        other => panic!("{other:?}"),
    }
}

fn interval(world: &mut World, epoch: i32) -> i32 {
    let standing = beat(world, epoch).expect("a member");
    standing.heartbeat_interval_ms
}

#[test]
fn settings_of_a_group_hold_from_its_next_heartbeat() {
    let own = consumer::Overrides {
        heartbeat_interval_ms: Some(7_000),
        session_timeout_ms: Some(60_000),
        assignment_interval_ms: None,
    };
    let mut settings = Settings::default();
    let resolved = settings.consumer.for_group(&own);
    settings.own_consumer.insert("g".to_owned(), resolved);
    let settings = Arc::new(settings);

    let mut world = World::new(Settings::default());
    // It has just been given its partitions, and more may move soon.
    assert_eq!(interval(&mut world, 0), 1_000);
    world.pass(Duration::from_secs(5));
    assert_eq!(interval(&mut world, 2), 5_000);
    world.groups.set_settings(Arc::clone(&settings));
    world.pass(Duration::from_secs(2));
    assert_eq!(interval(&mut world, 2), 7_000);
    world.pass(Duration::from_secs(59));
    assert!(beat(&mut world, 2).is_ok());
    world.groups.set_settings(Arc::default());
    assert_eq!(interval(&mut world, 2), 5_000);
    world.pass(Duration::from_secs(46));
    let refused = beat(&mut world, 2).map_err(|refusal| refusal.code);
    assert_eq!(refused, Err(ErrorCode::UnknownMemberId));
}
