//! Static members (KIP-345): a name of their own, under which they come back.

use crate::script::check;

/// Static members `a` (instance A, leader) and `b` (instance B) in a Stable group.
const PAIR: &str = "join a instance=A =>
         join b instance=B      =>
         after 6s               => a: joined 1 range led by a of a,b; b: joined 1 range led by a
         sync b instance=B      =>
         sync a instance=A a=x b=y => a: gets x; b: gets y
";

fn check_pair(script: &str) {
    check(&format!("{PAIR}{script}"));
}

#[test]
fn a_static_member_needs_no_id_first_and_is_described_by_its_name() {
    check_pair("describe             => Stable consumer/range A-00000000-0000-0000-0000-000000000001(A)=x B-00000000-0000-0000-0000-000000000002(B)=y".replace("A-00000000-0000-0000-0000-000000000001", "a").replace("B-00000000-0000-0000-0000-000000000002", "b").as_str());
}

#[test]
fn a_static_member_that_comes_back_gets_its_assignment_without_a_rebalance() {
    check_pair(
        "join b2 instance=B     => b2: joined 1 range led by a
         beat a                 => a: ok
         sync b2 instance=B     => b2: gets y
         restart                =>
         sync b2 instance=B     => b2: gets y
         describe               => Stable consumer/range a(A)=x b2(B)=y",
    );
}

#[test]
fn the_old_id_of_a_static_member_is_fenced() {
    check_pair(
        "join b2 instance=B     => b2: joined 1 range led by a
         beat b instance=B      => b: FENCED_INSTANCE_ID
         sync b instance=B      => b: FENCED_INSTANCE_ID
         join b instance=B      => b: FENCED_INSTANCE_ID as b
         commit b instance=B t:0=1 => FENCED_INSTANCE_ID
         leave b instance=B     => FENCED_INSTANCE_ID
         beat b                 => b: UNKNOWN_MEMBER_ID
         beat a instance=C      => a: UNKNOWN_MEMBER_ID
         beat b2 instance=B     => b2: ok",
    );
}

#[test]
fn a_static_leader_that_comes_back_skips_the_assignment() {
    check_pair(
        "join a2 instance=A     => a2: joined 1 range led by a2 of a2,b skip
         sync a2 instance=A     => a2: gets x",
    );
    // Clients that cannot be told so are not told that they lead.
    check_pair(
        "join a2 instance=A v=8 => a2: joined 1 range led by a
         sync a2 instance=A     => a2: gets x
         restart                =>
         join b instance=B      => b: joined 1 range led by a2",
    );
}

#[test]
fn a_return_that_cannot_be_written_did_not_happen() {
    check_pair(
        "refuse join b2 instance=B => b2: refused
         beat b instance=B      => b: ok
         describe               => Stable consumer/range a(A)=x b(B)=y
         join b2 instance=B     => b2: joined 1 range led by a
         beat b instance=B      => b: FENCED_INSTANCE_ID",
    );
}

#[test]
fn a_return_with_another_protocol_makes_all_join() {
    check(
        "join a instance=A protocols=range,rr =>
         join b instance=B protocols=range,rr =>
         after 6s               => a: joined 1 range led by a of a,b; b: joined 1 range led by a
         sync b instance=B      =>
         sync a instance=A a=x b=y => a: gets x; b: gets y
         join b2 instance=B protocols=rr =>
         beat a                 => a: REBALANCE_IN_PROGRESS
         join a instance=A protocols=range,rr => a: joined 2 rr led by a of a,b2; b2: joined 2 rr led by a",
    );
}

#[test]
fn a_return_during_the_assignment_starts_over() {
    check(
        "join a instance=A      =>
         join b instance=B      =>
         after 6s               => a: joined 1 range led by a of a,b; b: joined 1 range led by a
         sync b instance=B      =>
         join b2 instance=B     => b: FENCED_INSTANCE_ID
         join a instance=A      => a: joined 2 range led by a of a,b2; b2: joined 2 range led by a",
    );
}

#[test]
fn the_first_of_two_with_one_name_is_fenced_while_it_waits() {
    check(
        "join a instance=A      =>
         join a2 instance=A     => a: FENCED_INSTANCE_ID as a
         after 6s               => a2: joined 1 range led by a2 of a2",
    );
}

#[test]
fn a_static_member_that_does_not_join_stays_until_its_session_ends() {
    check(
        "join a instance=A session=60000 =>
         join b instance=B session=60000 =>
         after 6s               => a: joined 1 range led by a of a,b; b: joined 1 range led by a
         sync b instance=B      =>
         sync a instance=A a=x b=y => a: gets x; b: gets y
         join c v=3 session=60000 =>
         join a instance=A session=60000 =>
         after 30s              => a: joined 2 range led by a of a,b,c; c: joined 2 range led by a",
    );
}

#[test]
fn a_static_member_does_not_leave_when_its_process_does_but_tools_remove_it() {
    check_pair(
        "after 5s               =>
         beat a                 => a: ok
         leave - instance=B     => ok
         leave - instance=B     => UNKNOWN_MEMBER_ID
         beat b instance=B      => b: UNKNOWN_MEMBER_ID
         why                    => member B left; client reason: not provided (g1)",
    );
}
