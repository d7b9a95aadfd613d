//! The view and the means of tools.

use crate::script::check;

const TWO: &str = "join a v=3           =>
         after 3s               => a: joined 1 range led by a of a
         sync a a=x             => a: gets x
         commit a t:0=1         => ok
         commit t:0=5 group=h   => ok
         join c group=w v=3 kind=connect =>
";

fn check_two(script: &str) {
    check(&format!("{TWO}{script}"));
}

#[test]
fn lists_are_filtered_by_state_and_type_in_any_case() {
    check_two(
        "list                   => g:classic:consumer:Stable h:classic::Empty w:classic:connect:PreparingRebalance
         list states=stable     => g:classic:consumer:Stable
         list states=EMPTY,PreparingRebalance => h:classic::Empty w:classic:connect:PreparingRebalance
         list types=Classic states=Stable => g:classic:consumer:Stable
         list types=consumer    =>
         list types=nonsense    =>
         list states=Dead       =>",
    );
}

#[test]
fn a_group_that_is_not_there_is_not_found() {
    check(
        "describe               => GROUP_ID_NOT_FOUND
         delete                 => GROUP_ID_NOT_FOUND",
    );
}

#[test]
fn only_groups_without_members_are_deleted() {
    check_two(
        "delete                 => NON_EMPTY_GROUP
         delete group=w         => NON_EMPTY_GROUP
         delete group=h         => ok
         describe group=h       => GROUP_ID_NOT_FOUND
         fetch all group=h      =>
         leave a                => ok
         txn 7 - t:1=2          => ok
         delete                 => ok
         marker 7 commit        =>
         restart                =>
         list                   =>
         fetch all              =>",
    );
}

#[test]
fn a_deletion_that_cannot_be_written_did_not_happen() {
    check_two(
        "leave a                => ok
         refuse delete          => refused
         describe               => Empty consumer/
         fetch all              => t:0=1",
    );
}

#[test]
fn a_deleted_group_begins_again_with_its_first_generation() {
    check_two(
        "leave a                => ok
         join b v=3             =>
         after 3s               => b: joined 3 range led by b of b; c: joined 1 range led by c of c
         leave b                => ok
         delete                 => ok
         join b v=3 id=-        =>
         after 3s               => b: joined 1 range led by b of b",
    );
}
