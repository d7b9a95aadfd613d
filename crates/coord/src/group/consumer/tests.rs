//! The view of one or a few members, step by step: here of partitions and sessions, further subjects next door.

mod commits;
mod refusals;
mod statics;
mod subscriptions;
mod told;

use wire::{ErrorCode, Uuid};

use super::world::{World, report};
use super::*;
use crate::group::ask::ConsumerHeartbeat;

/// Plays a script: one command a line, and after `=>` what comes of it. Answers are shown as `epoch`, `epoch: partitions`, or the
/// name of an error. Changes are assigned at once, unless the script says otherwise.
fn play(script: &str) -> World {
    let mut world = World::new();
    world.settings.assignment_interval_ms.value = 0;
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
                let standing = response.0.expect("a member");
                standing.heartbeat_interval_ms.to_string()
            }
            // A heartbeat that does not say what the member has.
            "silent" => {
                let response = self.beat(name, |beat| beat.owned = None);
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
                let response = self.beat(name, |beat| {
                    beat.owned = Some(report(&client.has));
                    beat.rebalance_timeout_ms = Some(60_000);
                    beat.topic_names = Some(client.names.clone());
                });
                self.show(&response)
            }
            "epoch" => {
                let epoch = rest[0].parse().expect("an epoch");
                let response = self.beat(name, |beat| beat.member_epoch = epoch);
                self.show(&response)
            }
            "subscribe" => {
                let names = rest[0].split(',').map(str::to_owned).collect();
                let response = self.beat(name, |beat| beat.topic_names = Some(names));
                self.show(&response)
            }
            "pattern" => {
                let pattern = rest.first().unwrap_or(&"").to_string();
                let response = self.beat(name, |beat| beat.pattern = Some(pattern));
                self.show(&response)
            }
            "leave" | "away" => {
                let epoch = if command == "leave" { -1 } else { -2 };
                let response = self.beat(name, |beat| {
                    beat.member_epoch = epoch;
                    beat.owned = None;
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
            "state" => self.group.state().name().to_owned(),
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
         epochs => 3 3",
    );
    play(
        "join a => 1:
         leave a => -1
         epochs => 2 2
         restart
         state => Empty",
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
         epochs => 5 5",
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
