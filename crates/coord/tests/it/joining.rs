//! Members come, divide the work and go.

use crate::script::check;

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
