//! What one or a few members see, step by step.

use wire::messages::ConsumerGroupHeartbeatRequest;
use wire::{ErrorCode, Uuid};

use super::world::{World, report};
use super::*;

/// Plays a script: one command a line, and after `=>` what comes of it. Answers are shown as `epoch`, `epoch: partitions`, or the
/// name of an error.
fn play(script: &str) -> World {
    let mut world = World::new();
    for line in script
        .lines()
        .map(str::trim)
        .filter(|line| !line.is_empty())
    {
        let (command, want) = line.split_once(" => ").unwrap_or((line, ""));
        let got = world.command(command.trim());
        assert_eq!(got, want.trim(), "{line}\n{script}");
    }
    world
}

impl World {
    fn commit(&self, member: &str, epoch: i32, partition: (Uuid, i32)) -> Result<(), ErrorCode> {
        let by = CommitBy {
            member_id: member,
            instance_id: None,
            epoch,
            transactional: false,
            knows_member_epochs: true,
        };
        self.group.validate_commit(&by, [partition])
    }

    fn command(&mut self, line: &str) -> String {
        let mut words = line.split_whitespace();
        let command = words.next().unwrap_or_default();
        let name = words.next().unwrap_or_default();
        let rest: Vec<&str> = words.collect();
        match command {
            "topic" => {
                let (name, partitions) = name.split_once(':').expect("name:partitions");
                self.topics.set(name, partitions.parse().expect("a number"));
                String::new()
            }
            "set" => {
                let value = || rest[0].parse().expect("a number");
                match name {
                    "members_max" => self.settings.members_max = value() as usize,
                    "heartbeat_interval" => self.settings.heartbeat_interval_ms.value = value(),
                    "moving_interval_min" => self.settings.moving_interval_ms_min = value(),
                    "assignment_interval" => self.settings.assignment_interval_ms.value = value(),
                    other => panic!("no setting {other}"),
                }
                String::new()
            }
            "join" => {
                let client = self.clients.entry(name.to_owned()).or_default();
                client.epoch = 0;
                for word in rest {
                    match word.split_once('=') {
                        Some(("pattern", it)) => client.pattern = Some(it.to_owned()),
                        Some(("instance", it)) => client.instance = Some(it.to_owned()),
                        Some(("assignor", it)) => client.assignor = Some(it.to_owned()),
                        _ => client.names = word.split(',').map(str::to_owned).collect(),
                    }
                }
                client.has.clear();
                let response = self.beat(name, |_| {});
                self.show(&response)
            }
            // An ordinary heartbeat.
            "beat" => {
                let response = self.beat(name, |_| {});
                self.show(&response)
            }
            // An ordinary heartbeat; shows when the next one is wanted.
            "rhythm" => {
                let response = self.beat(name, |_| {});
                response.heartbeat_interval_ms.to_string()
            }
            // A heartbeat that does not say what the member has.
            "silent" => {
                let response = self.beat(name, |request| request.topic_partitions = None);
                self.show(&response)
            }
            // A heartbeat whose answer is lost.
            "lost" => {
                let before = self.clients[name].clone();
                let response = self.beat(name, |_| {});
                self.clients.insert(name.to_owned(), before);
                self.show(&response)
            }
            "full" => {
                let client = self.clients[name].clone();
                let response = self.beat(name, |request| {
                    request.topic_partitions = Some(report(&client.has));
                    request.rebalance_timeout_ms = 60_000;
                    request.subscribed_topic_names = Some(client.names.clone());
                });
                self.show(&response)
            }
            "epoch" => {
                let epoch = rest[0].parse().expect("an epoch");
                let response = self.beat(name, |request| request.member_epoch = epoch);
                self.show(&response)
            }
            "subscribe" => {
                let names = rest[0].split(',').map(str::to_owned).collect();
                let response =
                    self.beat(name, |request| request.subscribed_topic_names = Some(names));
                self.show(&response)
            }
            "pattern" => {
                let pattern = rest.first().unwrap_or(&"").to_string();
                let response = self.beat(name, |request| {
                    request.subscribed_topic_regex = Some(pattern)
                });
                self.show(&response)
            }
            "leave" | "away" => {
                let epoch = if command == "leave" { -1 } else { -2 };
                let response = self.beat(name, |request| {
                    request.member_epoch = epoch;
                    request.topic_partitions = None;
                });
                self.show(&response)
            }
            "pass" => {
                self.pass(name.parse().expect("milliseconds"));
                self.tick();
                String::new()
            }
            "restart" => {
                self.restart();
                String::new()
            }
            "state" => self.group.state().to_string(),
            "epochs" => format!("{} {}", self.group.epoch, self.group.assignment_epoch),
            "why" => self.group.last_rebalance().map_or("-".to_owned(), |last| {
                format!("{} ({})", last.reason, last.generation)
            }),
            "members" => self
                .group
                .members
                .keys()
                .cloned()
                .collect::<Vec<_>>()
                .join(" "),
            other => panic!("no command {other}"),
        }
    }
}

#[test]
fn the_first_member_gets_everything() {
    play(
        "topic t:3
         state => Dead
         join a t => 2: t0 t1 t2
         state => Stable
         beat a => 2
         beat a => 2
         epochs => 2 2",
    );
}

#[test]
fn a_member_that_wants_nothing_is_in_the_epoch_in_which_nothing_is_assigned() {
    play(
        "join a => 1:
         state => Stable
         epochs => 1 1
         beat a => 1
         restart
         beat a => 1
         epochs => 1 1
         topic t:1
         beat a => 1
         subscribe a t => 2: t0
         epochs => 2 2
         leave a => -1
         state => Empty
         epochs => 3 2",
    );
    play(
        "join a => 1:
         leave a => -1
         epochs => 2 1
         restart
         state => Empty",
    );
}

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
fn a_partition_is_given_up_before_it_is_given() {
    play(
        "topic t:4
         join a t => 2: t0 t1 t2 t3
         join b t => 3:
         state => Reconciling
         beat b => 3
         beat a => 2: t0 t1
         silent a => 2
         beat b => 3
         beat a => 3
         beat b => 3: t2 t3
         beat a => 3
         state => Stable",
    );
}

#[test]
fn members_come_more_often_while_partitions_move() {
    play(
        "topic t:4
         join a t => 2: t0 t1 t2 t3
         rhythm a => 1000
         pass 5000
         rhythm a => 5000
         join b t => 3:
         rhythm b => 1000
         rhythm a => 1000
         rhythm a => 1000
         pass 5000
         rhythm b => 1000
         rhythm b => 5000
         rhythm a => 5000",
    );
}

#[test]
fn members_come_no_more_often_than_the_operator_allows() {
    play(
        "topic t:4
         set moving_interval_min 3000
         join a t => 2: t0 t1 t2 t3
         rhythm a => 3000
         pass 5000
         rhythm a => 5000",
    );
}

#[test]
fn members_come_when_the_pause_between_two_assignments_is_over() {
    play(
        "topic t:4
         set heartbeat_interval 1000
         set assignment_interval 1000
         join a t => 2: t0 t1 t2 t3
         rhythm a => 1000
         pass 300
         join b t => 2:
         rhythm b => 800
         rhythm a => 700
         pass 600
         rhythm b => 200
         rhythm a => 200
         pass 100
         beat a => 2: t0 t1
         rhythm b => 200
         rhythm a => 1000
         rhythm b => 1000
         pass 900
         rhythm b => 200
         pass 100
         rhythm b => 1000",
    );
}

#[test]
fn a_member_that_has_given_up_already_is_not_asked_to() {
    // It reports what it has with the heartbeat that would ask.
    play(
        "topic t:2
         join a t => 2: t0 t1
         beat a => 2
         join b t => 3:
         join a t => 3: t0
         beat b => 3: t1",
    );
}

#[test]
fn partitions_of_a_member_that_leaves_go_to_the_others() {
    play(
        "topic t:2
         join a t => 2: t0 t1
         join b t => 3:
         beat a => 2: t0
         beat a => 3
         beat b => 3: t1
         leave a => -1
         members => b
         epochs => 4 3
         state => Assigning
         beat b => 4: t0 t1
         leave b => -1
         state => Empty
         epochs => 5 4",
    );
}

#[test]
fn leaving_twice_or_from_nowhere_is_refused() {
    play(
        "leave a => GROUP_ID_NOT_FOUND
         topic t:1
         join a t => 2: t0
         leave b => UNKNOWN_MEMBER_ID
         leave a => -1
         leave a => UNKNOWN_MEMBER_ID",
    );
}

#[test]
fn epochs_that_are_not_the_members_own_are_fenced() {
    play(
        "topic t:2
         epoch a 6 => GROUP_ID_NOT_FOUND
         join a t => 2: t0 t1
         epoch a 3 => FENCED_MEMBER_EPOCH
         join a t => 2: t0 t1
         join b t => 3:
         epoch c 3 => UNKNOWN_MEMBER_ID
         beat a => 2: t0
         beat a => 3
         epoch b 2 => FENCED_MEMBER_EPOCH",
    );
}

#[test]
fn an_answer_that_was_lost_is_told_again() {
    play(
        "topic t:2
         join a t => 2: t0 t1
         join b t => 3:
         beat a => 2: t0
         lost a => 3
         full a => 3: t0
         beat b => 3: t1",
    );
    // The member still has what it was given in the epoch before: it did not give it up, so it cannot have moved on.
    play(
        "topic t:2
         join a t => 2: t0 t1
         join b t => 3:
         beat a => 2: t0
         beat a => 3
         lost b => 3: t1
         leave a => -1
         lost b => 4: t0 t1
         silent b => FENCED_MEMBER_EPOCH",
    );
}

#[test]
fn members_are_gone_after_a_session_of_silence() {
    play(
        "topic t:2
         join a t => 2: t0 t1
         join b t => 3:
         pass 44999
         members => a b
         beat b => 3
         pass 1
         members => b
         beat b => 4: t0 t1
         beat a => UNKNOWN_MEMBER_ID",
    );
}

#[test]
fn members_that_do_not_give_up_in_time_are_gone() {
    play(
        "topic t:2
         join a t => 2: t0 t1
         join b t => 3:
         silent a => 2: t0
         pass 30000
         silent a => 2
         beat b => 3
         pass 29999
         members => a b
         silent a => 2
         beat b => 3
         pass 1
         members => b
         beat b => 4: t0 t1
         beat a => UNKNOWN_MEMBER_ID",
    );
    // Giving up ends the wait.
    play(
        "topic t:2
         join a t => 2: t0 t1
         join b t => 3:
         beat a => 2: t0
         beat a => 3
         pass 40000
         beat a => 3
         beat b => 3: t1
         pass 40000
         members => a b",
    );
}

#[test]
fn waits_begin_anew_after_a_restart() {
    play(
        "topic t:2
         join a t => 2: t0 t1
         join b t => 3:
         beat a => 2: t0
         pass 44000
         restart
         pass 44999
         members => a b
         silent a => 2
         beat b => 3
         pass 15001
         members => b",
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

#[test]
fn a_full_group_takes_nobody() {
    play(
        "topic t:1
         set members_max 1
         join a t => 2: t0
         join b t => GROUP_MAX_SIZE_REACHED
         beat a => 2
         join a t => 2: t0",
    );
}

#[test]
fn assignments_keep_their_distance() {
    play(
        "topic t:2
         set assignment_interval 1000
         join a t => 2: t0 t1
         join b t => 2:
         state => Assigning
         epochs => 3 2
         join c t => 2:
         epochs => 4 2
         pass 999
         beat a => 2
         pass 1
         beat a => 2: t0
         epochs => 4 4
         beat b => 4",
    );
}

#[test]
fn members_vote_for_an_assignor() {
    play(
        "topic t:3
         topic u:3
         join a t,u assignor=range => 2: t0 t1 t2 u0 u1 u2
         join b t,u assignor=range => 3:
         beat a => 2: t0 t1 u0 u1
         join c t,u assignor=sticky => UNSUPPORTED_ASSIGNOR",
    );
}

#[test]
fn requests_that_no_group_could_take_are_refused() {
    let valid = ConsumerGroupHeartbeatRequest {
        group_id: "g".into(),
        member_id: "a".into(),
        rebalance_timeout_ms: 1,
        subscribed_topic_names: Some(Vec::new()),
        topic_partitions: Some(Vec::new()),
        ..ConsumerGroupHeartbeatRequest::default()
    };
    let settings = Settings::default();
    assert_eq!(check(&valid, true, &settings), Ok(()));
    let refused = |change: &dyn Fn(&mut ConsumerGroupHeartbeatRequest)| {
        let mut request = valid.clone();
        change(&mut request);
        let refusal = check(&request, true, &settings).expect_err("a refusal");
        assert_eq!(refusal.code, ErrorCode::InvalidRequest, "{request:?}");
    };
    refused(&|it| it.group_id.clear());
    refused(&|it| it.member_id.clear());
    refused(&|it| it.instance_id = Some(" ".into()));
    refused(&|it| it.rack_id = Some(String::new()));
    refused(&|it| it.rebalance_timeout_ms = -1);
    refused(&|it| it.topic_partitions = None);
    refused(&|it| {
        it.topic_partitions = Some(report(&[(Uuid([1; 16]), 0)].into()));
    });
    refused(&|it| it.subscribed_topic_names = None);
    refused(&|it| it.member_epoch = -2);
    refused(&|it| it.member_epoch = -3);

    let mut first = valid.clone();
    first.member_id.clear();
    assert_eq!(check(&first, false, &settings), Ok(()));
    first.member_epoch = 1;
    assert!(check(&first, false, &settings).is_err());
}

#[test]
fn a_member_without_id_is_given_one() {
    let mut world = World::new();
    world.topics.set("t", 1);
    let request = ConsumerGroupHeartbeatRequest {
        group_id: "g".into(),
        rebalance_timeout_ms: 1,
        subscribed_topic_names: Some(vec!["t".into()]),
        topic_partitions: Some(Vec::new()),
        ..ConsumerGroupHeartbeatRequest::default()
    };
    let response = world.send(request, false);
    assert_eq!(response.member_id, Some(Uuid([1; 16]).to_string()));
    assert_eq!(world.show(&response), "2: t0");
}

#[test]
fn commits_are_of_members_in_their_epoch() {
    let mut world = play(
        "topic t:2
         join a t => 2: t0 t1
         join b t => 3:
         beat a => 2: t0
         beat a => 3
         beat b => 3: t1",
    );
    let (topic, _) = world.topics.topics["t"];
    let commit = |world: &World, member: &str, epoch: i32, partition: i32| {
        world.commit(member, epoch, (topic, partition))
    };
    assert_eq!(commit(&world, "a", 3, 0), Ok(()));
    assert_eq!(commit(&world, "a", 4, 0), Err(ErrorCode::StaleMemberEpoch));
    // It has had the first since epoch 2, and has no longer the other.
    assert_eq!(commit(&world, "a", 2, 0), Ok(()));
    assert_eq!(commit(&world, "a", 2, 1), Err(ErrorCode::StaleMemberEpoch));
    assert_eq!(commit(&world, "b", 2, 1), Err(ErrorCode::StaleMemberEpoch));
    assert_eq!(commit(&world, "x", 2, 1), Err(ErrorCode::UnknownMemberId));
    assert_eq!(commit(&world, "", -1, 1), Err(ErrorCode::UnknownMemberId));
    assert_eq!(world.group.validate_fetch(Some("a"), 3), Ok(()));
    assert_eq!(world.group.validate_fetch(None, -1), Ok(()));
    assert_eq!(
        world.group.validate_fetch(Some("a"), 2),
        Err(ErrorCode::StaleMemberEpoch)
    );

    world.command("leave a");
    world.command("leave b");
    assert_eq!(commit(&world, "", -1, 1), Ok(()));
}

#[test]
fn a_late_commit_holds_for_what_is_still_to_be_given_up() {
    let world = play(
        "topic t:3
         join a t => 2: t0 t1 t2
         join b t => 3:
         beat a => 2: t0 t1
         beat a => 3
         beat b => 3: t2
         join c t => 4:
         beat a => 3: t0",
    );
    let (topic, _) = world.topics.topics["t"];
    assert!(world.group.members["a"].revoking[&topic].contains_key(&1));
    assert_eq!(world.commit("a", 3, (topic, 1)), Ok(()));
    assert_eq!(world.commit("a", 2, (topic, 1)), Ok(()));
    let stale = Err(ErrorCode::StaleMemberEpoch);
    assert_eq!(world.commit("a", 1, (topic, 1)), stale);
    assert_eq!(world.commit("a", 2, (topic, 2)), stale);
}

#[test]
fn a_description_shows_what_is_and_what_shall_be() {
    let world = play(
        "topic t:2
         join a t => 2: t0 t1
         join b t => 3:",
    );
    let cx = World::cx(&world.topics, &world.settings, world.at);
    let described = world.group.describe(&cx);
    assert_eq!(described.group_state, "Reconciling");
    assert_eq!((described.group_epoch, described.assignment_epoch), (3, 3));
    assert_eq!(described.assignor_name, "uniform");
    let shown: Vec<_> = (described.members.iter())
        .map(|it| {
            let list =
                |assignment: &wire::messages::consumer_group_describe_response::Assignment| {
                    (assignment.topic_partitions.iter())
                        .flat_map(|it| it.partitions.clone())
                        .collect::<Vec<_>>()
                };
            let (is, shall) = (list(&it.assignment), list(&it.target_assignment));
            (
                it.member_id.as_str(),
                it.member_epoch,
                it.member_type,
                is,
                shall,
            )
        })
        .collect();
    assert_eq!(
        shown,
        [
            ("a", 2, 1, vec![0, 1], vec![0]),
            ("b", 3, 1, vec![], vec![1]),
        ]
    );
}

#[test]
fn a_removed_group_leaves_nothing() {
    let mut world = play(
        "topic t:2
         join a t pattern=t => 2: t0 t1
         leave a => -1",
    );
    let records = world.group.tombstones();
    world.take(crate::Step {
        records,
        ..crate::Step::default()
    });
    assert!(!world.group.exists());
    assert_eq!(world.group.durable(), ConsumerGroup::new("g").durable());
}

#[test]
fn refused_records_leave_the_group_as_it_was() {
    let mut world = play("topic t:2\n join a t => 2: t0 t1");
    let before = world.group.durable();
    let client = world.clients["a"].clone();
    let cx = World::cx(&world.topics, &world.settings, world.at);
    let beat = Beat {
        request: ConsumerGroupHeartbeatRequest {
            group_id: "g".into(),
            member_id: client.id,
            member_epoch: -1,
            ..ConsumerGroupHeartbeatRequest::default()
        },
        client: crate::group::Client::default(),
        brings_member_id: true,
        fresh: Uuid::ZERO,
    };
    let step = world.group.heartbeat(crate::Caller(1), &beat, &cx);
    assert!(!step.records.is_empty());
    assert_eq!(world.group.durable(), before);

    // Nor does a member that was not removed keep the driver busy.
    world.pass(45_000);
    let cx = World::cx(&world.topics, &world.settings, world.at);
    assert!(!world.group.tick(&cx).records.is_empty());
    assert!(world.group.next_deadline() > Some(world.at.now));
    assert!(world.group.tick(&cx).records.is_empty());
}

#[test]
fn a_group_tells_why_it_last_moved_on() {
    play(
        "topic t:4
         topic u:1
         why => -
         join a t => 2: t0 t1 t2 t3
         why => member a is new (1)
         beat a => 2
         join b t => 3:
         why => member b is new (2)
         beat a => 2: t0 t1
         beat a => 3
         beat b => 3: t2 t3
         why => member b is new (2)
         subscribe b t,u => 4: t2 t3 u0
         why => member b changed its subscription (3)
         topic t:6
         beat a => 5: t0 t1 t4 t5
         why => topics that members subscribe to have changed (4)
         leave b => -1
         why => member b left (5)
         restart
         why => -",
    );
}

#[test]
fn a_group_tells_which_members_were_late() {
    play(
        "topic t:2
         join a t => 2: t0 t1
         join b t => 3:
         pass 30000
         beat a => 2: t0
         pass 20000
         members => a
         why => member b was silent for its session timeout (3)",
    );
}
