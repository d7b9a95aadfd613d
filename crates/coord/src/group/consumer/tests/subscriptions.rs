//! What members subscribe to, by name and by pattern, and topics that come and go.

use super::*;

#[test]
fn a_topic_that_is_not_there_yet_moves_the_group() {
    play(
        "join a t => 2:
         state => Stable
         topic t:1
         beat a => 3: t0",
    );
}

#[test]
fn subscriptions_that_change_move_the_group() {
    play(
        "topic t:2
         topic u:1
         join a t => 2: t0 t1
         subscribe a t => 2
         subscribe a t,u => 3: t0 t1 u0
         subscribe a u => 3: u0
         beat a => 4
         subscribe a v => 4:
         beat a => 5
         topic v:1
         beat a => 6: v0",
    );
}

#[test]
fn topics_that_change_move_the_group() {
    play(
        "topic t:1
         join a t => 2: t0
         topic other:5
         beat a => 2
         topic t:3
         beat a => 3: t0 t1 t2
         topic t:0
         beat a => 3:
         beat a => 4
         topic t:1
         beat a => 5: t0",
    );
}

#[test]
fn patterns_follow_the_topics() {
    play(
        "topic foo1:1
         topic bar:1
         join a pattern=foo.* => 2: foo10
         topic foo2:1
         beat a => 3: foo10 foo20
         topic baz:1
         beat a => 3
         pattern a ba. => 3:
         beat a => 4: bar0 baz0
         pattern a ( => INVALID_REGULAR_EXPRESSION
         beat a => 4
         restart
         topic bax:1
         beat a => 5: bar0 bax0 baz0
         pattern a => 5:
         beat a => 6",
    );
}

#[test]
fn patterns_and_names_add_up() {
    let world = play(
        "topic t:1
         topic foo:1
         join a t pattern=f.* => 2: foo0 t0
         join b t => 3:
         beat a => 2: foo0
         beat a => 3
         beat b => 3: t0
         leave a => -1
         beat b => 4",
    );
    assert!(world.group.resolved.is_empty());
    assert!(world.group.subscribes_to("t"));
    assert!(!world.group.subscribes_to("foo"));
}
