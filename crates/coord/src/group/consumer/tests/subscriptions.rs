//! Subscriptions of members, by name and by pattern, and topics that come and go.

use super::*;
use crate::group::ask::Sight;

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
         beat a => 2
         pass 0
         beat a => 3: foo10 foo20
         topic baz:1
         pass 10000
         beat a => 3
         pass 0
         beat a => 3
         pattern a ba. => 3:
         beat a => 4: bar0 baz0
         pattern a ( => INVALID_REGULAR_EXPRESSION
         beat a => 4
         restart
         topic bax:1
         beat a => 4
         pass 0
         beat a => 5: bar0 bax0 baz0
         pattern a => 5:
         beat a => 6",
    );
}

/// The first assignment missed a topic that another broker had made a moment before, and its members waited ten seconds for it.
#[test]
fn a_topic_that_comes_right_behind_the_first_pattern_is_found_with_the_next_heartbeat() {
    play(
        "topic foo1:1
         join a pattern=fo.* => 2: foo10
         topic foo2:1
         beat a => 2
         pass 0
         beat a => 3: foo10 foo20
         topic foo3:1
         beat a => 3
         pass 9999
         beat a => 3
         pass 1
         beat a => 3
         pass 0
         beat a => 4: foo10 foo20 foo30",
    );
}

#[test]
fn a_pattern_stands_for_the_topics_that_its_member_may_see_and_is_looked_at_again_for_that() {
    let mut world = play(
        "topic foo1:1
         topic foo2:1",
    );
    let client = world.clients.entry("a".to_owned()).or_default();
    client.pattern = Some("foo.*".to_owned());
    let beat = |world: &mut World, hidden: &'static str| {
        let sight = Sight::limited(move |topic| topic != hidden);
        let told = world.beat("a", |beat| beat.sight = sight);
        world.show(&told)
    };
    assert_eq!(beat(&mut world, "foo2"), "2: foo10");
    assert_eq!(beat(&mut world, "foo1"), "2", "no topic has changed");
    world.pass(600_000);
    assert_eq!(beat(&mut world, "foo1"), "2");
    world.tick();
    assert_eq!(
        beat(&mut world, "foo1"),
        "2:",
        "it gives up what it may not see"
    );
    assert_eq!(beat(&mut world, "foo1"), "3: foo20");
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

impl World {
    fn subscribe(&mut self, name: &str, pattern: &str) -> String {
        let client = self.clients.entry(name.to_owned()).or_default();
        client.pattern = Some(pattern.to_owned());
        let response = self.beat(name, |_| {});
        self.show(&response)
    }

    fn topics_of(&self, pattern: &str) -> usize {
        let resolved = self.group.resolved.get(pattern);
        resolved.map_or(0, |resolved| resolved.topics.len())
    }
}

#[test]
fn many_patterns_are_written_in_parts_and_no_heartbeat_fails_by_them() {
    let mut world = World::new();
    for number in 0..1_000 {
        world
            .topics
            .set(&format!("topic-of-this-group-{number:05}"), 1);
    }
    let patterns: Vec<String> = (0..50).map(|it| format!("topic.*|{it}")).collect();
    for pattern in &patterns {
        assert_eq!(
            world.subscribe(pattern, pattern).as_bytes().first(),
            Some(&b'2')
        );
    }
    world.look_to_the_end();
    world.topics.set("topic-of-all", 1);
    world.pass(10_000);
    world.largest = 0;
    assert!(world.beat(&patterns[0], |_| {}).0.is_ok());
    assert!(world.largest < 200_000, "{}", world.largest);
    world.look_to_the_end();
    assert!(world.largest < 300_000, "{}", world.largest);
    for pattern in &patterns {
        assert_eq!(world.topics_of(pattern), 1_001);
    }
}

#[test]
fn patterns_that_take_long_are_looked_for_by_ticks() {
    let mut world = World::new();
    for number in 0..2_000 {
        world
            .topics
            .set(&format!("topic-of-this-group-{number:05}"), 1);
    }
    // Some 40 million steps.
    let pattern = r"(\w{0,40}-?){0,20}";
    assert_eq!(world.subscribe("a", pattern), "2:");
    let began = world.at.now;
    assert_eq!(world.subscribe("b", "topic-.*-0000[0-3]"), "2:");
    assert_eq!(world.topics_of(pattern), 0);
    world.look_to_the_end();
    assert_eq!(world.topics_of(pattern), 2_000);
    assert_eq!(world.topics_of("topic-.*-0000[0-3]"), 4);
    let took = world.at.now.0 - began.0;
    assert!((2_000_000_000..8_000_000_000).contains(&took), "{took}");
    let response = world.beat("a", |_| {});
    assert!(world.show(&response).len() > 1_000);
    // No heartbeat looks for the changes of this pattern.
    world.topics.set("topic-of-all", 1);
    world.pass(10_000);
    world.beat("b", |_| {});
    assert_eq!(world.topics_of(pattern), 2_000);
    world.look_to_the_end();
    assert_eq!(world.topics_of(pattern), 2_001);
}

#[test]
fn patterns_that_were_found_and_not_written_are_written_later() {
    let mut world = World::new();
    world.topics.set("t1", 1);
    world.subscribe("a", "t.*");
    world.topics.set("t2", 1);
    world.pass(10_000);
    world.beat("a", |_| {});
    let cx = World::cx(&world.topics, &world.settings, world.at);
    // Refused.
    let step = world.group.tick(&cx, world.batch_bytes_max);
    assert_eq!(step.records.len(), 2);
    assert_eq!(world.topics_of("t.*"), 1);
    world.look_to_the_end();
    assert_eq!(world.topics_of("t.*"), 2);
}

#[test]
fn a_pattern_whose_record_does_not_fit_a_batch_stands_for_what_it_stood_for() {
    let mut world = World::new();
    world.topics.set("t1", 1);
    world.subscribe("a", "t.*");
    (0..100).for_each(|it| world.topics.set(&format!("t-{it}"), 1));
    world.batch_bytes_max = 500;
    world.pass(10_000);
    world.beat("a", |_| {});
    world.look_to_the_end();
    assert_eq!(world.topics_of("t.*"), 1);
    assert!(world.beat("a", |_| {}).0.is_ok());
}

#[test]
fn a_group_has_a_bounded_number_of_patterns() {
    let mut world = World::new();
    world.topics.set("t", 1);
    for number in 0..256 {
        world.subscribe(&number.to_string(), &format!("t|{number}"));
    }
    assert_eq!(world.subscribe("a", "t|1"), "2:");
    assert_eq!(world.subscribe("b", "t|x"), "GROUP_MAX_SIZE_REACHED");
    assert_eq!(world.group.members_count(), 257);
}

#[test]
fn topics_that_a_new_epoch_was_made_of_are_not_compared_again() {
    let mut world = play(
        "topic t:1
         join a t => 2: t0",
    );
    assert_eq!(world.group.topics_version, Some(world.topics.version));
    // A refused one has not come of it.
    world.topics.set("t", 2);
    let beat = ConsumerHeartbeat {
        group_id: "g".to_owned(),
        member_id: "a".to_owned(),
        member_epoch: 2,
        brings_member_id: true,
        ..ConsumerHeartbeat::default()
    };
    let cx = World::cx(&world.topics, &world.settings, world.at);
    let step = world.group.heartbeat(crate::caller(&beat), &beat, &cx);
    assert!(!step.records.is_empty());
    let response = world.beat("a", |_| {});
    assert_eq!(world.show(&response), "3: t0 t1");
}
