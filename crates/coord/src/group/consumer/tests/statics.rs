//! Members with an instance id, which come back to what they had.

use super::*;

#[test]
fn a_static_member_comes_back_to_what_it_had() {
    play(
        "topic t:4
         join a t instance=i1 => 2: t0 t1 t2 t3
         join b t instance=i2 => 3:
         beat a => 2: t0 t1
         beat a => 3
         beat b => 3: t2 t3
         away b => -2
         epochs => 3 3
         join c t instance=i2 => 3: t2 t3
         members => a c
         epochs => 3 3
         epoch b 3 => FENCED_INSTANCE_ID
         beat a => 3",
    );
}

#[test]
fn an_instance_id_in_use_is_not_taken_over() {
    play(
        "topic t:1
         join a t instance=i => 2: t0
         join b t instance=i => UNRELEASED_INSTANCE_ID
         epoch b 2 => FENCED_INSTANCE_ID
         leave b => FENCED_INSTANCE_ID
         join a t instance=i => 2: t0
         away a => -2
         epoch a 2 => FENCED_MEMBER_EPOCH
         join b t instance=i => 2: t0
         join d t instance=i => UNRELEASED_INSTANCE_ID
         join c instance=j x => 3:
         leave c => -1
         leave c => UNKNOWN_MEMBER_ID",
    );
}

#[test]
fn a_static_member_that_does_not_come_back_is_gone_after_its_session() {
    play(
        "topic t:1
         join a t instance=i => 2: t0
         join b t instance=j => 3:
         away a => -2
         pass 30000
         beat b => 3
         pass 15000
         members => b
         beat b => 4: t0",
    );
}
