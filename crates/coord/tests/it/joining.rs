//! Members come, divide the work and go.

use coord::group::Settings;

use crate::script::{check, check_with};

#[test]
fn a_lone_consumer_joins_syncs_beats_and_leaves() {
    check(
        "join a                 => a: MEMBER_ID_REQUIRED as a
         join a                 =>
         after 3s               => a: joined 1 range led by a of a
         beat a                 => a: ok
         sync a a=all           => a: gets all
         beat a                 => a: ok
         describe               => Stable consumer/range a=all
         leave a                => ok
         describe               => Empty consumer/
         beat a                 => a: UNKNOWN_MEMBER_ID",
    );
}

#[test]
fn before_version_4_a_member_is_let_in_at_once() {
    check(
        "join a v=3             =>
         after 3s               => a: joined 1 range led by a of a",
    );
}

#[test]
fn the_first_generation_waits_until_nobody_has_come_for_its_delay() {
    check(
        "join a v=3 rebalance=10000 =>
         after 2s               =>
         join b v=3 rebalance=10000 =>
         after 2s               =>
         join c v=3 rebalance=10000 =>
         after 2999ms           =>
         after 1ms              => a: joined 1 range led by a of a,b,c; b: joined 1 range led by a; c: joined 1 range led by a",
    );
}

#[test]
fn the_first_generation_does_not_wait_longer_than_a_rebalance_may_take() {
    check(
        "join a v=3 rebalance=5000 =>
         after 2s               =>
         join b v=3 rebalance=5000 =>
         after 2s               =>
         join c v=3 rebalance=5000 =>
         after 1s               => a: joined 1 range led by a of a,b,c; b: joined 1 range led by a; c: joined 1 range led by a",
    );
}

#[test]
fn an_id_that_was_given_out_holds_the_rebalance_until_its_session_ends() {
    check(
        "join a v=3             =>
         after 3s               => a: joined 1 range led by a of a
         sync a a=x             => a: gets x
         join b session=6000    => b: MEMBER_ID_REQUIRED as b
         join c v=3             =>
         beat a                 => a: REBALANCE_IN_PROGRESS
         join a                 =>
         after 5s               =>
         after 1s               => a: joined 2 range led by a of a,c; c: joined 2 range led by a
         join b                 => b: UNKNOWN_MEMBER_ID as b",
    );
}

#[test]
fn a_given_id_may_be_given_back() {
    check(
        "join a                 => a: MEMBER_ID_REQUIRED as a
         leave a                => ok
         join a                 => a: UNKNOWN_MEMBER_ID as a
         list                   => ",
    );
}

/// `a` and `b` in a Stable group, led by `a`.
const PAIR: &str = "join a v=3 =>
         join b v=3             =>
         after 6s               => a: joined 1 range led by a of a,b; b: joined 1 range led by a
         sync b                 =>
         sync a a=x b=y         => a: gets x; b: gets y
";

fn check_pair(script: &str) {
    check(&format!("{PAIR}{script}"));
}

#[test]
fn followers_wait_for_the_leaders_assignment_and_latecomers_get_theirs() {
    check(
        "join a v=3             =>
         join b v=3             =>
         join c v=3             =>
         after 6s               => a: joined 1 range led by a of a,b,c; b: joined 1 range led by a; c: joined 1 range led by a
         describe               => CompletingRebalance consumer/ a= b= c=
         sync b                 =>
         sync a a=x b=y         => a: gets x; b: gets y
         sync c                 => c: gets
         describe               => Stable consumer/range a=x b=y c=",
    );
}

#[test]
fn whoever_waits_is_given_back_when_another_looks_after_the_partition() {
    check(
        "join a v=3             =>
         join b v=3 group=h     =>
         resign                 => a; b
         resign                 =>
         restart                =>
         join a v=3             =>
         join b v=3             =>
         after 6s               => a: joined 1 range led by a of a,b; b: joined 1 range led by a
         sync b                 =>
         resign                 => b",
    );
}

#[test]
fn a_member_more_makes_all_join_again() {
    check_pair(
        "join c because=scaled  => c: MEMBER_ID_REQUIRED as c
         beat a                 => a: ok
         join c because=scaled  =>
         why                    => member c is new; client reason: scaled (g1)
         beat a                 => a: REBALANCE_IN_PROGRESS
         sync b                 => b: REBALANCE_IN_PROGRESS
         join b                 =>
         join a                 => a: joined 2 range led by a of a,b,c; b: joined 2 range led by a; c: joined 2 range led by a
         beat b gen=1           => b: ILLEGAL_GENERATION",
    );
}

#[test]
fn who_does_not_join_in_time_is_out_and_a_new_leader_is_chosen() {
    check_pair(
        "join c v=3 rebalance=5000 =>
         join b                 =>
         after 9s               =>
         beat a                 => a: REBALANCE_IN_PROGRESS
         after 9s               =>
         beat a                 => a: REBALANCE_IN_PROGRESS
         after 9s               =>
         beat a                 => a: REBALANCE_IN_PROGRESS
         after 3s               => b: joined 2 range led by b of b,c; c: joined 2 range led by b
         beat a                 => a: UNKNOWN_MEMBER_ID",
    );
}

#[test]
fn a_silent_member_is_removed_and_the_others_rebalance() {
    check_pair(
        "after 8s               =>
         beat a                 => a: ok
         after 2s               =>
         why                    => member b was silent for its session timeout (g1)
         beat a                 => a: REBALANCE_IN_PROGRESS
         join a                 => a: joined 2 range led by a of a",
    );
}

#[test]
fn who_is_told_again_what_it_owns_has_a_whole_session_from_then_on() {
    check_pair(
        "after 8s               =>
         beat a                 => a: ok
         sync b                 => b: gets y
         after 8s               =>
         beat a                 => a: ok
         beat b                 => b: ok",
    );
}

#[test]
fn a_group_whose_members_all_fall_silent_is_empty_in_the_log_too() {
    check_pair(
        "after 10s              => wrote 1
         describe               => Empty consumer/
         restart                =>
         describe               => Empty consumer/",
    );
}

#[test]
fn a_commit_counts_as_a_sign_of_life() {
    check_pair(
        "after 8s               =>
         commit a t:0=1         => ok
         beat b                 => b: ok
         after 8s               =>
         beat a                 => a: ok",
    );
}

#[test]
fn members_that_wait_for_others_are_not_silent() {
    let settings = Settings {
        initial_rebalance_delay_ms: 6_001,
        ..Settings::default()
    };
    check_with(
        settings,
        "join a v=3 session=6000 =>
         join b v=3 session=6000 =>
         after 6001ms           => a: joined 1 range led by a of a,b; b: joined 1 range led by a
         sync b                 =>
         after 5s               =>
         beat a                 => a: ok
         after 5s               =>
         sync a a=x b=y         => a: gets x; b: gets y
         after 5s               =>
         beat b                 => b: ok",
    );
}

#[test]
fn a_parked_newcomer_is_dropped_after_five_minutes() {
    check(
        "join a v=3 rebalance=600000 =>
         after 3s               => a: joined 1 range led by a of a
         sync a a=x             => a: gets x
         join b v=3             =>
         after 9s               =>
         beat a                 => a: REBALANCE_IN_PROGRESS
         join a session=1800000 rebalance=600000 => a: joined 2 range led by a of a,b; b: joined 2 range led by a",
    );
    check(
        "join a v=3 session=1800000 rebalance=600000 =>
         after 3s               => a: joined 1 range led by a of a
         sync a a=x             => a: gets x
         join b v=3             =>
         after 299s             =>
         after 1s               => b: UNKNOWN_MEMBER_ID",
    );
}

#[test]
fn who_joins_but_never_syncs_is_out() {
    check(
        "join a v=3 rebalance=8000 session=20000 =>
         join b v=3 rebalance=8000 session=20000 =>
         after 6s               => a: joined 1 range led by a of a,b; b: joined 1 range led by a
         sync a a=x b=y         => a: gets x
         after 8s               =>
         why                    => 1 members did not sync in time (g1)
         beat a                 => a: REBALANCE_IN_PROGRESS
         beat b                 => b: UNKNOWN_MEMBER_ID",
    );
}

#[test]
fn waiting_for_the_leader_ends_when_it_never_syncs() {
    check(
        "join a v=3 rebalance=8000 session=20000 =>
         join b v=3 rebalance=8000 session=20000 =>
         after 6s               => a: joined 1 range led by a of a,b; b: joined 1 range led by a
         sync b                 =>
         after 8s               => b: REBALANCE_IN_PROGRESS
         join b                 => b: joined 2 range led by b of b",
    );
}

#[test]
fn a_join_during_the_assignment_starts_over() {
    check(
        "join a v=3             =>
         join b v=3             =>
         after 6s               => a: joined 1 range led by a of a,b; b: joined 1 range led by a
         sync b                 =>
         join c v=3             => b: REBALANCE_IN_PROGRESS
         sync a a=x             => a: REBALANCE_IN_PROGRESS
         join a                 =>
         join b                 => a: joined 2 range led by a of a,b,c; b: joined 2 range led by a; c: joined 2 range led by a",
    );
}

#[test]
fn a_lost_join_answer_is_said_again() {
    check(
        "join a v=3             =>
         join b v=3             =>
         after 6s               => a: joined 1 range led by a of a,b; b: joined 1 range led by a
         join b                 => b: joined 1 range led by a
         join a                 => a: joined 1 range led by a of a,b
         sync a a=x b=y         => a: gets x
         join b                 => b: joined 1 range led by a
         sync b                 => b: gets y
         describe               => Stable consumer/range a=x b=y",
    );
}

#[test]
fn a_leader_that_joins_again_makes_all_join() {
    check_pair(
        "join a because=topics  =>
         why                    => member a is the leader and joined again; client reason: topics (g1)
         join b                 => a: joined 2 range led by a of a,b; b: joined 2 range led by a",
    );
}

#[test]
fn other_subscriptions_of_a_follower_make_all_join() {
    check_pair(
        "join b topics=u        =>
         why                    => member b changed its protocols; client reason: not provided (g1)
         join a                 => a: joined 2 range led by a of a,b; b: joined 2 range led by a",
    );
}

#[test]
fn a_second_join_or_sync_of_one_member_frees_the_first() {
    check_pair(
        "join c v=3             =>
         join b                 =>
         join b                 => b: REBALANCE_IN_PROGRESS as b
         join a                 => a: joined 2 range led by a of a,b,c; b: joined 2 range led by a; c: joined 2 range led by a
         sync b                 =>
         sync b                 => b: REBALANCE_IN_PROGRESS
         sync a a=x b=y         => a: gets x; b: gets y",
    );
}

#[test]
fn one_leave_may_name_many_members() {
    check_pair(
        "leave a nobody b       => ok UNKNOWN_MEMBER_ID ok
         describe               => Empty consumer/
         why                    => member b left; client reason: not provided (g1)",
    );
    check_pair("leave a           => ok");
    check_pair("leave nobody      => UNKNOWN_MEMBER_ID");
    check_pair("leave -           => UNKNOWN_MEMBER_ID");
    check("leave -            => UNKNOWN_MEMBER_ID");
    check("leave a b              => UNKNOWN_MEMBER_ID UNKNOWN_MEMBER_ID");
}

#[test]
fn the_last_that_a_rebalance_waits_for_may_also_leave() {
    check_pair(
        "join c v=3             =>
         join b                 =>
         leave a because=done   => b: joined 2 range led by b of b,c; c: joined 2 range led by b; ok",
    );
}

#[test]
fn whoever_waits_is_told_when_it_is_removed() {
    // The id of a newcomer is known to nobody yet; one that joins again can leave while it waits.
    check_pair(
        "join c v=3             =>
         join b                 =>
         leave b                => b: UNKNOWN_MEMBER_ID; ok
         join a                 => a: joined 2 range led by a of a,c; c: joined 2 range led by a
         sync c                 =>
         leave c                => c: UNKNOWN_MEMBER_ID; ok
         join a                 => a: joined 3 range led by a of a",
    );
}

#[test]
fn what_all_support_and_most_prefer_is_chosen() {
    let all = |a: &str, b: &str, c: &str, chosen: &str| {
        check(&format!(
            "join a v=3 protocols={a} =>
             join b v=3 protocols={b} =>
             join c v=3 protocols={c} =>
             after 6s           => a: joined 1 {chosen} led by a of a,b,c; b: joined 1 {chosen} led by a; c: joined 1 {chosen} led by a"
        ));
    };
    all("range,rr", "rr,range", "rr,range", "rr");
    all("range,rr", "sticky,rr", "sticky,rr,range", "rr");
    all("range,rr", "range,rr", "rr,range", "range");
    all("sticky,rr", "range,sticky", "sticky", "sticky");
}

#[test]
fn a_consumer_moves_to_cooperative_rebalancing_in_two_rounds() {
    check(
        "join a v=3 protocols=range =>
         join b v=3 protocols=range =>
         after 6s               => a: joined 1 range led by a of a,b; b: joined 1 range led by a
         sync a a=x b=y         => a: gets x
         sync b                 => b: gets y
         join b protocols=cooperative,range =>
         join a protocols=cooperative,range => a: joined 2 cooperative led by a of a,b; b: joined 2 cooperative led by a",
    );
}

#[test]
fn protocols_that_do_not_fit_are_refused() {
    check_pair(
        "join c protocols=rr    => c: INCONSISTENT_GROUP_PROTOCOL
         join c kind=connect    => c: INCONSISTENT_GROUP_PROTOCOL
         join b protocols=rr    => b: INCONSISTENT_GROUP_PROTOCOL as b
         sync a kind=connect    => a: INCONSISTENT_GROUP_PROTOCOL
         sync a kind=consumer   => a: gets x",
    );
    check(
        "join a protocols=none  => a: INCONSISTENT_GROUP_PROTOCOL
         join a kind=           => a: INCONSISTENT_GROUP_PROTOCOL
         list                   => ",
    );
}

#[test]
fn requests_that_cannot_be_right_are_refused() {
    check(
        "join a session=5999    => a: INVALID_SESSION_TIMEOUT
         join a session=1800001 => a: INVALID_SESSION_TIMEOUT
         join a group=          => a: INVALID_GROUP_ID
         join a id=x            => a: UNKNOWN_MEMBER_ID as a
         sync a group=          => a: INVALID_GROUP_ID
         sync a                 => a: UNKNOWN_MEMBER_ID
         beat a group=          => a: INVALID_GROUP_ID
         beat a                 => a: UNKNOWN_MEMBER_ID
         leave a group=         => INVALID_GROUP_ID
         list                   => ",
    );
    check_pair(
        "sync a gen=0           => a: ILLEGAL_GENERATION
         sync nobody gen=1      => nobody: UNKNOWN_MEMBER_ID
         beat a gen=2           => a: ILLEGAL_GENERATION",
    );
}

#[test]
fn a_full_group_takes_nobody_more() {
    let settings = Settings {
        members_max: 2,
        ..Settings::default()
    };
    check_with(
        settings,
        &format!(
            "{PAIR}
             join c             => c: GROUP_MAX_SIZE_REACHED
             join a             =>
             join b             => a: joined 2 range led by a of a,b; b: joined 2 range led by a"
        ),
    );
}

#[test]
fn a_restart_keeps_the_generation_and_its_assignments() {
    check_pair(
        "restart                =>
         describe               => Stable consumer/range a=x b=y
         beat a                 => a: ok
         sync b                 => b: gets y
         after 9s               =>
         beat a                 => a: ok
         beat b                 => b: ok
         after 10s              => wrote 1
         describe               => Empty consumer/",
    );
}

#[test]
fn a_generation_that_was_not_written_is_begun_anew_after_a_restart() {
    check_pair(
        "join a                 =>
         join b                 => a: joined 2 range led by a of a,b; b: joined 2 range led by a
         restart                =>
         sync a a=y b=x         => a: ILLEGAL_GENERATION
         beat b gen=1           => b: ok",
    );
}

#[test]
fn an_assignment_that_cannot_be_written_may_be_tried_again() {
    check(
        "join a v=3             =>
         join b v=3             =>
         after 6s               => a: joined 1 range led by a of a,b; b: joined 1 range led by a
         sync b                 =>
         refuse sync a a=x b=y  => a: refused; b: refused
         describe               => CompletingRebalance consumer/ a= b=
         sync b                 =>
         sync a a=x b=y         => a: gets x; b: gets y
         restart                =>
         describe               => Stable consumer/range a=x b=y",
    );
}

/// A machine that reads two generations in a row kept what the first said of a member.
#[test]
fn a_restart_knows_what_members_said_in_the_last_generation() {
    check_pair(
        "join b protocols=rr,range =>
         join a protocols=rr,range => a: joined 2 rr led by a of a,b; b: joined 2 rr led by a
         sync a a=x b=y         => a: gets x
         sync b                 => b: gets y
         restart                =>
         join b protocols=rr    => b: joined 2 rr led by a",
    );
}

#[test]
fn a_member_has_as_many_protocols_as_there_is_room_for() {
    let names = |count: usize| {
        let names: Vec<String> = (0..count).map(|at| at.to_string()).collect();
        names.join(",")
    };
    check(&format!(
        "join a v=3 metadata= protocols={}  => a: INVALID_REQUEST
         join a v=3 metadata= protocols={}  =>
         after 3s                => a: joined 1 0 led by a of a",
        names(9_000),
        names(7_000)
    ));
}
