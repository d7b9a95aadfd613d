//! Committed offsets: plain, in transactions, and how long they stay.

use coord::group::ask::FetchOffsets;
use coord::group::{Ask, Settings};
use wire::group::{GroupRecord, LegacyOffsetCommitKey, LegacyOffsetCommitValue};

use crate::render;
use crate::script::{check, check_with};
use crate::world::World;

#[test]
fn offsets_without_members_are_committed_and_found_after_a_restart() {
    check(
        "fetch t:0 u:3               => t:0=-1 u:3=-1
         commit t:0=5/note t:1=7 epoch=3 => ok ok
         fetch t:0 t:1 t:2           => t:0=5@3/note t:1=7@3 t:2=-1
         commit t:0=4                => ok
         restart                     =>
         fetch all                   => t:0=4 t:1=7@3
         describe                    => Empty
         list                        => g:classic::Empty",
    );
}

#[test]
fn offsets_of_the_first_kafka_that_had_them_in_its_log_are_there() {
    let mut world = World::new(Settings::default());
    let key = |partition| LegacyOffsetCommitKey {
        group: "g".to_owned(),
        topic: "t".to_owned(),
        partition,
    };
    let value = LegacyOffsetCommitValue {
        offset: 5,
        metadata: "note".to_owned(),
        commit_timestamp: 1,
    };
    for (partition, value) in [(0, Some(&value)), (1, Some(&value)), (1, None)] {
        let record = GroupRecord::LegacyOffsetCommit(key(partition), value.cloned());
        world.groups.replay(&record, None);
    }
    world.ask(Ask::FetchOffsets(FetchOffsets {
        group_id: "g".to_owned(),
        member_id: None,
        member_epoch: -1,
        topics: None,
        require_stable: false,
    }));
    let (_, told) = world.told.pop().expect("an answer");
    let answer = told.map(|answer| render::answer(&answer));
    assert_eq!(answer, Ok("t:0=5/note".to_owned()));
}

#[test]
fn each_group_has_its_own_offsets() {
    check(
        "commit t:0=1                => ok
         commit t:0=2 group=h        => ok
         commit t:0=3 group=         => ok
         fetch t:0                   => t:0=1
         fetch t:0 group=h           => t:0=2
         fetch t:0 group=            => t:0=3",
    );
}

#[test]
fn a_mistake_in_one_partition_is_its_own() {
    let settings = Settings {
        offset_metadata_max: 4,
        ..Settings::default()
    };
    check_with(
        settings,
        "commit nope:0=1 t:0=1/12345 t:1=1/1234 => UNKNOWN_TOPIC_OR_PARTITION OFFSET_METADATA_TOO_LARGE ok
         commit t:2=1/äöüß           => ok
         commit t:4=1 t:3=1 #1:4=1   => UNKNOWN_TOPIC_OR_PARTITION ok UNKNOWN_TOPIC_OR_PARTITION
         fetch all                   => t:1=1/1234 t:2=1/äöüß t:3=1",
    );
}

#[test]
fn topics_may_be_named_by_their_ids() {
    check(
        "commit #0:0=7 #1:0=5 #77:0=6 => UNKNOWN_TOPIC_ID ok UNKNOWN_TOPIC_ID
         fetch #1:0 t:0 #77:0 #0:0   => t:0=5 t:0=5 :0=UNKNOWN_TOPIC_ID :0=UNKNOWN_TOPIC_ID",
    );
}

#[test]
fn an_offset_of_an_earlier_topic_of_the_name_is_none() {
    check(
        "commit t:0=5 u:0=6          => ok ok
         new-topic t id=50           =>
         fetch t:0 u:0               => t:0=-1 u:0=6
         fetch all                   => u:0=6
         commit t:0=1                => ok
         fetch all                   => t:0=1 u:0=6",
    );
}

/// `a` alone in a Stable group of generation 1.
const MEMBER: &str = "join a v=3 session=60000 =>
         after 3s                    => a: joined 1 range led by a of a
         sync a a=x                  => a: gets x
";

fn check_member(script: &str) {
    check(&format!("{MEMBER}{script}"));
}

#[test]
fn only_members_of_this_generation_commit_for_a_group_with_members() {
    check_member(
        "commit a t:0=5              => ok
         commit a gen=0 t:0=6        => ILLEGAL_GENERATION
         commit a gen=2 t:0=6        => ILLEGAL_GENERATION
         commit nobody gen=1 t:0=6   => UNKNOWN_MEMBER_ID
         commit t:0=6                => UNKNOWN_MEMBER_ID
         commit a instance=A t:0=6   => UNKNOWN_MEMBER_ID
         fetch t:0                   => t:0=5
         leave a                     => ok
         commit a t:0=6              => UNKNOWN_MEMBER_ID
         commit t:0=7                => ok
         fetch t:0                   => t:0=7",
    );
}

#[test]
fn a_commit_for_a_generation_of_no_group_says_so() {
    check(
        "commit a gen=3 t:0=6        => GROUP_ID_NOT_FOUND
         commit a gen=3 t:0=6 v=8    => ILLEGAL_GENERATION
         commit t:0=6                => ok
         commit a gen=3 t:0=6        => UNKNOWN_MEMBER_ID",
    );
}

#[test]
fn a_member_commits_while_others_join_but_not_before_it_has_its_assignment() {
    check_member(
        "join b v=3                  =>
         commit a t:0=5              => ok
         join a                      => a: joined 2 range led by a of a,b; b: joined 2 range led by a
         commit a t:0=6              => REBALANCE_IN_PROGRESS
         commit a gen=1 t:0=6        => ILLEGAL_GENERATION
         sync a a=x b=y              => a: gets x
         commit b t:0=7              => ok",
    );
}

#[test]
fn offsets_of_a_transaction_count_when_its_marker_says_so() {
    check(
        "commit t:0=1                => ok
         txn 7 - t:0=5 t:1=6         => ok ok
         fetch t:0 t:1               => t:0=1 t:1=-1
         fetch stable t:0 t:1 t:2    => t:0=UNSTABLE_OFFSET_COMMIT t:1=UNSTABLE_OFFSET_COMMIT t:2=-1
         fetch stable all            => t:0=UNSTABLE_OFFSET_COMMIT
         restart                     =>
         fetch stable t:0            => t:0=UNSTABLE_OFFSET_COMMIT
         marker 8 commit             =>
         marker 7 commit             =>
         fetch stable all            => t:0=5 t:1=6
         restart                     =>
         fetch stable all            => t:0=5 t:1=6",
    );
    check(
        "commit t:0=1                => ok
         txn 7 - t:0=5 t:1=6         => ok ok
         marker 7 abort              =>
         fetch stable t:0 t:1        => t:0=1 t:1=-1
         restart                     =>
         fetch stable t:0 t:1        => t:0=1 t:1=-1",
    );
}

#[test]
fn the_later_of_a_plain_and_a_transactional_commit_wins() {
    check(
        "txn 7 - t:0=5               => ok
         commit t:0=1                => ok
         marker 7 commit             =>
         fetch t:0                   => t:0=1
         txn 7 - t:0=6               => ok
         txn 8 - t:0=7               => ok
         marker 8 commit             =>
         fetch stable t:0            => t:0=UNSTABLE_OFFSET_COMMIT
         marker 7 commit             =>
         fetch stable t:0            => t:0=7",
    );
}

#[test]
fn a_transaction_says_who_it_is_for_or_nothing() {
    check_member(
        "txn 7 a t:0=1               => ok
         txn 7 a gen=2 t:0=1         => ILLEGAL_GENERATION
         txn 7 nobody gen=1 t:0=1    => UNKNOWN_MEMBER_ID
         txn 7 - t:0=2               => ok
         txn 7 - group= t:0=2        => INVALID_GROUP_ID
         txn 7 - group=h gen=1 t:0=2 => ILLEGAL_GENERATION
         txn 7 - group=h gen=1 v=6 t:0=2 => GROUP_ID_NOT_FOUND
         txn 7 a nope:0=1            => UNKNOWN_TOPIC_OR_PARTITION
         txn 7 a v=6 #9:0=1          => UNKNOWN_TOPIC_ID
         marker 7 commit             =>
         fetch all                   => t:0=2",
    );
}

#[test]
fn offsets_of_a_topic_that_is_read_are_not_deleted() {
    check_member(
        "commit a t:0=1 u:0=2 u:1=3  => ok ok ok
         delete-offsets t:0 u:0 nope:0 => GROUP_SUBSCRIBED_TO_TOPIC ok UNKNOWN_TOPIC_OR_PARTITION
         fetch all                   => t:0=1 u:1=3
         delete-offsets t:4 u:4 u:-1 => UNKNOWN_TOPIC_OR_PARTITION UNKNOWN_TOPIC_OR_PARTITION UNKNOWN_TOPIC_OR_PARTITION
         leave a                     => ok
         delete-offsets t:0 t:3      => ok ok
         restart                     =>
         fetch all                   => u:1=3",
    );
    check(
        "join a v=3 kind=connect     =>
         after 3s                    => a: joined 1 range led by a of a
         delete-offsets t:0          => NON_EMPTY_GROUP
         delete-offsets t:0 group=h  => GROUP_ID_NOT_FOUND
         delete-offsets t:0 group=   => INVALID_GROUP_ID",
    );
}

#[test]
fn a_removed_offset_takes_what_is_pending_along() {
    check(
        "txn 7 - t:0=5               => ok
         delete-offsets t:0          => ok
         marker 7 commit             =>
         fetch t:0                   => t:0=-1
         list                        =>",
    );
}

#[test]
fn offsets_of_deleted_topics_go_in_every_group() {
    check(
        "commit t:0=1 u:0=2          => ok ok
         txn 7 - t:1=3               => ok
         commit t:0=1 group=h        => ok
         gone t                      =>
         marker 7 commit             =>
         fetch all                   => u:0=2
         list                        => g:classic::Empty
         restart                     =>
         fetch all                   => u:0=2
         fetch all group=h           =>",
    );
}

#[test]
fn offsets_of_topics_that_were_deleted_while_the_log_was_read_go_after_that() {
    check(
        "commit t:0=1 t:1=3 u:0=2    => ok ok ok
         gone-while-loading t        =>
         after 1ms                   => wrote 2
         fetch all                   => u:0=2
         after 1s                    =>",
    );
}

#[test]
fn offsets_of_deleted_topics_go_though_the_log_does_not_take_that_at_once() {
    check(
        "commit t:0=1 t:1=3 u:0=2    => ok ok ok
         refuse gone t               =>
         fetch all                   => t:0=1 t:1=3 u:0=2
         refuse after 20ms           =>
         after 499ms                 =>
         after 1ms                   => wrote 2
         fetch all                   => u:0=2
         after 1m                    =>",
    );
}

#[test]
fn many_offsets_of_a_deleted_topic_go_in_pieces() {
    let groups = 9;
    let name = |group| format!("{group}{}", "x".repeat(32_000));
    let mut script = String::new();
    for group in 0..groups {
        script += &format!(
            "commit t:0=1 t:1=1 t:2=1 t:3=1 group={} => ok ok ok ok\n",
            name(group)
        );
    }
    script += "gone t =>\n";
    // 36 removals of 32,000 bytes are 1.1 MiB; a step takes 256 KiB.
    script += &format!("fetch all group={} =>\n", name(0));
    script += &format!(
        "fetch all group={} => t:0=1 t:1=1 t:2=1 t:3=1\n",
        name(groups - 1)
    );
    script += "after 1s => wrote 28\n list =>\n";
    check(&script);
}

#[test]
fn offsets_outlive_their_group_by_the_retention() {
    check_member(
        "commit a t:0=1              => ok
         leave a                     => ok
         after 1h                    =>
         commit t:1=2                => ok
         after 168h                  => wrote 3
         list                        =>
         restart                     =>
         list                        =>",
    );
}

#[test]
fn offsets_without_members_expire_one_by_one() {
    check(
        "commit t:0=1                => ok
         after 100h                  =>
         commit t:1=2                => ok
         after 69h                   => wrote 1
         fetch all                   => t:1=2
         after 100h                  => wrote 1
         list                        =>",
    );
}

#[test]
fn a_commit_may_say_how_long_it_stays() {
    check(
        "commit t:0=1 retention=3600000 => ok
         commit t:1=2                => ok
         after 59m                   =>
         fetch all                   => t:0=1 t:1=2
         restart                     =>
         after 20m                   => wrote 1
         fetch all                   => t:1=2",
    );
}

#[test]
fn offsets_of_topics_that_a_stable_group_reads_stay() {
    let settings = Settings {
        offsets_retention_ms: 60_000,
        offsets_retention_check_interval_ms: 10_000,
        ..Settings::default()
    };
    check_with(
        settings,
        &format!(
            "{MEMBER}
             commit a t:0=1 u:0=2    => ok ok
             after 50s               =>
             beat a                  => a: ok
             after 30s               => wrote 1
             fetch all               => t:0=1
             leave a                 => ok
             after 59s               =>
             fetch all               => t:0=1
             after 21s               => wrote 2
             list                    =>"
        ),
    );
}

#[test]
fn offsets_of_one_group_expire_in_as_many_batches_as_that_takes() {
    let commits = "commit a t:0=1 t:1=1 t:2=1 u:0=1 u:1=1 => ok ok ok ok ok
         leave a                     => ok
         commit t:0=1 group=h        => ok
         batch 60                    =>
";
    // Six removals and one of the group, each in a batch of its own.
    check_member(&format!(
        "{commits}
         after 170h                  => wrote 7
         list                        =>
         restart                     =>
         list                        =>"
    ));
    // A refused removal is made with the next look, and the group not before.
    check_member(&format!(
        "{commits}
         after 168h                  =>
         refuse after 10m            => wrote 5
         fetch all                   => t:0=1
         list                        => g:classic:consumer:Empty
         after 10m                   => wrote 2
         list                        =>"
    ));
}

#[test]
fn what_hangs_on_a_transaction_does_not_expire() {
    check(
        "commit t:0=1                => ok
         txn 7 - t:0=2               => ok
         after 170h                  =>
         marker 7 abort              =>
         fetch all                   => t:0=1
         after 1h                    => wrote 1
         list                        =>",
    );
}

#[test]
fn a_group_without_offsets_and_members_is_forgotten_at_the_next_look() {
    check_member(
        "leave a                     => ok
         describe                    => Empty consumer/
         after 10m                   => wrote 1
         describe                    => GROUP_ID_NOT_FOUND",
    );
}

#[test]
fn a_commit_that_cannot_be_written_did_not_happen() {
    check(
        "commit t:0=1                => ok
         refuse commit t:0=2         => refused
         fetch t:0                   => t:0=1",
    );
}
