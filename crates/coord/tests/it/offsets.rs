//! Committed offsets.

use crate::script::check;

#[test]
fn offsets_without_members_are_committed_and_found_after_a_restart() {
    check(
        "fetch t:0 u:3               => t:0=-1 u:3=-1
         commit t:0=5/note t:1=7 epoch=3 => ok ok
         fetch t:0 t:1 t:2           => t:0=5@3/note t:1=7@3 t:2=-1
         restart                     =>
         fetch all                   => t:0=5@3/note t:1=7@3
         describe                    => Empty
         list                        => g:classic::Empty",
    );
}
