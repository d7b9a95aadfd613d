//! Scripts of what an active controller hears, and what it writes and answers: one line for each step, `event => outcome`.
//!
//! `register 2` is broker 2 with a directory of its own, `beat 2` its heartbeat with all metadata that there are, `beat 2 3` with the first
//! three records, `topic 2 3 led 3` a topic of these replicas, `leave 2` one that asks to go, `trouble 2` one that says that its directory is full. `tick 9000` is the time in
//! milliseconds since the controller began. `refuse` has the log refuse the records of the next step. An outcome names the records
//! that are written, then the answer.

use std::collections::BTreeMap;

use wire::metadata::{BrokerRegistrationChangeRecord, PartitionRecord, TopicRecord};

use super::*;
use crate::decide::draft::TopicRules;
use crate::image::{Endpoint, Levels, SecurityProtocol};
use crate::versions::METADATA_VERSION;
use crate::{MetadataVersion, Place};

const BEGAN: Instant = Instant(1_000_000_000);
const ME: BrokerId = BrokerId(1);

struct Standard;

impl TopicSettings for Standard {
    fn of(&self, _: &Image, _: &str) -> TopicRules {
        TopicRules {
            min_isr: 1,
            may_be_unclean: true,
        }
    }
}

struct World {
    image: Image,
    controller: Controller,
    now: Instant,
    refuses: bool,
    can_write: bool,
    voters: Vec<BrokerId>,
    is_alone: bool,
}

fn rules<'a>(world_voters: &'a [BrokerId], is_alone: bool, can_write: bool) -> Rules<'a> {
    Rules {
        topics: &Standard,
        controllers: Controllers {
            local: ME,
            kraft_version: 1,
            voters: world_voters,
        },
        is_alone,
        can_write,
        session_timeout: Duration::from_secs(9),
        balance_every: Some(Duration::from_secs(300)),
        unclean_every: Duration::from_secs(200),
        idle_every: Some(Duration::from_secs(100)),
        min_isr: 1,
    }
}

impl World {
    /// The cluster has the features of a new one, and nobody has registered.
    fn new() -> World {
        let mut image = Image::default();
        let voters = vec![ME];
        let first = crate::decide::controller::bootstrap(
            MetadataVersion::LATEST,
            &crate::decide::register_broker::FEATURES,
            1,
        );
        let (mut controller, records) = {
            let rules = rules(&voters, false, true);
            Controller::begin(LeaderEpoch(1), (&image, &image), &rules, &first, BEGAN)
        };
        let before = image.clone();
        image.replay(place(&image), &records).expect("they fit");
        let last = Offset(image.end() - 1);
        let idle = Some(Duration::from_secs(100));
        controller.on_written(&before, &records, (last, BEGAN), idle);
        World {
            image,
            controller,
            now: BEGAN,
            refuses: false,
            can_write: true,
            voters,
            is_alone: false,
        }
    }

    /// Writes records, as the log does.
    fn write(&mut self, records: &[Record]) -> bool {
        if std::mem::take(&mut self.refuses) && !records.is_empty() {
            self.controller.on_refused(self.now);
            return false;
        }
        let before = self.image.clone();
        let place = place(&self.image);
        self.image.replay(place, records).expect("they fit");
        let last = Offset(self.image.end() - 1);
        let at = (last, self.now);
        let idle = Some(Duration::from_secs(100));
        self.controller.on_written(&before, records, at, idle);
        true
    }

    fn outcome<T>(&mut self, decision: Decision<T>, answer: impl FnOnce(T) -> String) -> String {
        let written = self.write(&decision.records);
        let names: Vec<String> = decision.records.iter().map(named).collect();
        let answer = if written {
            answer(decision.answer)
        } else {
            "refused".to_owned()
        };
        let words = names
            .into_iter()
            .chain([answer])
            .filter(|it| !it.is_empty());
        words.collect::<Vec<_>>().join(", ")
    }

    fn beat(&mut self, broker: BrokerId, change: impl FnOnce(&mut Heartbeat)) -> String {
        let epoch = self.image.broker(broker).map_or(-1, |known| known.epoch);
        let mut beat = Heartbeat {
            broker,
            epoch,
            metadata_offset: self.image.end() - 1,
            ..Heartbeat::default()
        };
        change(&mut beat);
        let (image, voters) = (self.image.clone(), self.voters.clone());
        let rules = rules(&voters, self.is_alone, self.can_write);
        let decision = self.controller.hear(&image, &rules, &beat, self.now);
        self.outcome(decision, |answer| match answer {
            Err(error) => error.to_string(),
            Ok(standing) => {
                let state = if standing.may_stop {
                    "may stop"
                } else if standing.is_fenced {
                    "fenced"
                } else {
                    "serves"
                };
                let news = standing.troubled.len();
                match news {
                    0 => state.to_owned(),
                    news => format!("{state}, {news} in trouble"),
                }
            }
        })
    }

    fn tick(&mut self) -> String {
        let mut lines = Vec::new();
        loop {
            let (image, voters) = (self.image.clone(), self.voters.clone());
            let rules = rules(&voters, self.is_alone, self.can_write);
            let Some(decision) = self.controller.tick(&image, &rules, self.now) else {
                break;
            };
            lines.push(self.outcome(decision, |purpose| match purpose {
                Purpose::Fence(over) if over.is_dead => "dead".to_owned(),
                Purpose::Fence(_) => "silent".to_owned(),
                other => format!("{other:?}").to_lowercase(),
            }));
        }
        lines.join("; ")
    }

    fn step(&mut self, event: &str) -> String {
        let words: Vec<&str> = event.split_whitespace().collect();
        let number = |at: usize| words[at].parse::<i64>().expect("a number");
        let broker = |at: usize| BrokerId(number(at) as i32);
        let (image, voters) = (self.image.clone(), self.voters.clone());
        let rules = rules(&voters, self.is_alone, self.can_write);
        match words[0] {
            "register" => {
                let life = words.get(2).map_or(1, |_| number(2));
                let mut registering = registering(broker(1), life);
                if words.get(3) == Some(&"copy") {
                    registering.log_dirs = vec![dir(broker(1))];
                }
                let decision = (self.controller).register(&image, &rules, &registering, self.now);
                self.outcome(decision, |answer| match answer {
                    Ok(_) => String::new(),
                    Err(RegisterError::Duplicate) => "duplicate".to_owned(),
                    Err(error) => error.to_string(),
                })
            }
            "unregister" => {
                let decision = self.controller.unregister(&image, &rules, broker(1));
                self.outcome(decision, |answer| format!("{answer:?}"))
            }
            "beat" => {
                let has = words.get(2).map(|_| number(2) - 1);
                self.beat(broker(1), |beat| {
                    beat.metadata_offset = has.unwrap_or(beat.metadata_offset);
                })
            }
            "leave" => self.beat(broker(1), |beat| beat.wants_shut_down = true),
            "trouble" => {
                let full = dir(broker(1));
                self.beat(broker(1), |beat| beat.troubled_log_dirs = vec![full])
            }
            "dead" => {
                let epoch = image.broker(broker(1)).map_or(-1, |known| known.epoch);
                let is_over = self.controller.on_dead(broker(1), epoch, self.now);
                if is_over { "over" } else { "lives" }.to_owned()
            }
            "topic" => {
                let (replicas, leader) = event["topic".len()..]
                    .split_once("led")
                    .unwrap_or((&event["topic".len()..], words[1]));
                let ids = replicas.split_whitespace();
                let ids = ids.map(|id| id.parse().expect("a number")).collect();
                let leader = leader.trim().parse().expect("a number");
                self.write(&topic(ids, leader));
                String::new()
            }
            "at" => {
                self.now = BEGAN.plus(Duration::from_millis(number(1) as u64));
                String::new()
            }
            "tick" => {
                self.now = BEGAN.plus(Duration::from_millis(number(1) as u64));
                self.tick()
            }
            "refuse" => {
                self.refuses = true;
                String::new()
            }
            "full" => {
                self.can_write = false;
                String::new()
            }
            "room" => {
                self.can_write = true;
                String::new()
            }
            "leader" => {
                let topic = image.topics().next().expect("a topic");
                topic.partitions[0].leader.to_string()
            }
            "due" => {
                let due = self.controller.next_deadline();
                due.map_or("never".to_owned(), |due| {
                    due.since(BEGAN).as_millis().to_string()
                })
            }
            other => panic!("no such step: {other}"),
        }
    }
}

fn place(image: &Image) -> Place {
    image.next_place()
}

fn dir(broker: BrokerId) -> Uuid {
    Uuid([broker.0 as u8; 16])
}

/// The broker in its `life`-th run.
fn registering(id: BrokerId, life: i64) -> Registering {
    let levels = crate::decide::register_broker::supported();
    Registering {
        id,
        incarnation: Uuid([life as u8 + 100; 16]),
        endpoints: vec![Endpoint {
            name: "PLAINTEXT".to_owned(),
            host: "localhost".to_owned(),
            port: 9092,
            protocol: SecurityProtocol::PLAINTEXT,
        }],
        features: levels.into_iter().collect::<BTreeMap<String, Levels>>(),
        rack: None,
        // Another directory in each life: one that has the same is its heir.
        log_dirs: vec![if life == 1 {
            dir(id)
        } else {
            Uuid([life as u8 + 50; 16])
        }],
        before: crate::decide::registration::Before::default(),
        before_in: BTreeMap::new(),
    }
}

/// A topic with one partition.
fn topic(replicas: Vec<i32>, leader: i32) -> Vec<Record> {
    let topic_id = Uuid([9; 16]);
    let directories = replicas.iter().map(|id| dir(BrokerId(*id))).collect();
    vec![
        TopicRecord {
            name: "t".to_owned(),
            topic_id,
        }
        .into(),
        PartitionRecord {
            topic_id,
            partition_id: 0,
            isr: replicas.clone(),
            leader,
            leader_epoch: 0,
            partition_epoch: 0,
            directories,
            replicas,
            ..PartitionRecord::default()
        }
        .into(),
    ]
}

fn named(record: &Record) -> String {
    match record {
        Record::RegisterBroker(it) => format!("+{}", it.broker_id),
        Record::UnregisterBroker(it) => format!("-{}", it.broker_id),
        Record::BrokerRegistrationChange(it) => registration_change(it),
        Record::PartitionChange(it) => format!("leader {}", it.leader),
        Record::NoOp(_) => "no-op".to_owned(),
        other => format!("{other:?}"),
    }
}

fn registration_change(it: &BrokerRegistrationChangeRecord) -> String {
    let what = match (it.fenced, it.in_controlled_shutdown) {
        (1, _) => "fence",
        (-1, _) => "unfence",
        (_, 1) => "shutting down",
        _ => "change",
    };
    format!("{what} {}", it.broker_id)
}

fn play(script: &str) {
    let mut world = World::new();
    for line in script
        .lines()
        .map(str::trim)
        .filter(|line| !line.is_empty())
    {
        let (event, expected) = line.split_once("=>").unwrap_or((line, ""));
        assert_eq!(world.step(event), expected.trim(), "{line}");
    }
}

#[test]
fn a_broker_registers_is_heard_and_fenced_when_it_is_silent() {
    play(
        "
        register 2 => +2
        beat 2 1 => fenced
        beat 2 => unfence 2, serves
        beat 2 => serves
        tick 0 =>
        due => 9000
        tick 8999 =>
        tick 9000 => fence 2, silent
        tick 9001 =>
        beat 2 => unfence 2, serves
        unregister 2 => -2, Ok(())
        beat 2 => No broker registration found for broker id 2
        ",
    );
}

/// Two processes with copies of one directory would take turns.
#[test]
fn a_life_that_was_replaced_comes_back_only_when_its_successor_is_gone() {
    play(
        "
        register 2 => +2
        beat 2 => unfence 2, serves
        register 2 2 copy => +2
        beat 2 => unfence 2, serves
        register 2 1 => duplicate
        beat 2 => serves
        tick 9000 => fence 2, silent
        register 2 1 => +2
        register 2 2 copy => duplicate
        ",
    );
}

/// The session of a broker would end here, and the metadata would say that it lives, for as long as this controller is one.
#[test]
fn a_fencing_that_cannot_be_written_is_tried_again() {
    play(
        "
        register 2 => +2
        beat 2 => unfence 2, serves
        refuse
        tick 9000 => fence 2, refused
        due => 10000
        tick 9999 =>
        tick 10000 => fence 2, silent
        tick 10001 =>
        ",
    );
    play(
        "
        register 2 => +2
        beat 2 => unfence 2, serves
        full
        tick 9000 =>
        due => 10000
        room
        tick 10000 => fence 2, silent
        ",
    );
}

/// The next heartbeat would find a broker that serves, and the metadata one that is fenced.
#[test]
fn a_step_that_cannot_be_written_is_made_by_the_next_heartbeat() {
    play(
        "
        register 2 => +2
        refuse
        beat 2 => unfence 2, refused
        beat 2 => unfence 2, serves
        refuse
        leave 2 => fence 2, refused
        leave 2 => fence 2, may stop
        ",
    );
}

#[test]
fn a_registration_or_its_end_that_cannot_be_written_did_not_happen() {
    play(
        "
        refuse
        register 2 => +2, refused
        beat 2 => No broker registration found for broker id 2
        register 2 => +2
        beat 2 => unfence 2, serves
        refuse
        unregister 2 => -2, refused
        beat 2 => serves
        ",
    );
}

#[test]
fn another_process_with_the_number_waits_for_the_end_of_the_session() {
    play(
        "
        register 2 => +2
        beat 2 => unfence 2, serves
        register 2 2 => duplicate
        tick 9000 => fence 2, silent
        register 2 2 => +2
        ",
    );
}

#[test]
fn a_broker_that_leads_goes_once_others_lead_and_know_it() {
    play(
        "
        register 2 => +2
        register 3 => +3
        beat 2 => unfence 2, serves
        beat 3 => unfence 3, serves
        topic 2 3
        beat 3 => serves
        leave 2 => shutting down 2, leader 3, fenced
        leave 2 => serves
        leader => 3
        beat 3 => serves
        leave 2 => fence 2, may stop
        ",
    );
}

#[test]
fn a_dead_process_is_fenced_at_once_and_its_partitions_are_led_by_others() {
    play(
        "
        register 2 => +2
        register 3 => +3
        beat 2 => unfence 2, serves
        beat 3 => unfence 3, serves
        topic 2 3
        dead 2 => over
        tick 10 => leader 3, fence 2, dead
        beat 3 => serves
        dead 2 => lives
        ",
    );
}

/// Such a broker would go on as a leader by metadata that stand still.
#[test]
fn a_broker_that_has_not_heard_what_it_lost_counts_as_fenced_until_it_has() {
    play(
        "
        register 2 => +2
        register 3 => +3
        beat 2 => unfence 2, serves
        beat 3 => unfence 3, serves
        topic 2 3
        trouble 2 => leader 3, fenced, 1 in trouble
        beat 2 7 => fenced
        beat 2 => serves
        ",
    );
}

#[test]
fn preferred_leaders_come_back_when_it_is_time_to_look() {
    play(
        "
        register 2 => +2
        register 3 => +3
        beat 2 => unfence 2, serves
        beat 3 => unfence 3, serves
        topic 2 3 led 3
        at 299000
        beat 2 => serves
        beat 3 => serves
        tick 299999 => no-op, idle
        tick 300000 => leader 2, balance
        leader => 2
        ",
    );
}

#[test]
fn a_log_to_which_nothing_is_written_gets_a_record_that_says_nothing() {
    play(
        "
        tick 99999 =>
        tick 100000 => no-op, idle
        tick 199999 =>
        full
        tick 200000 =>
        room
        tick 300000 => no-op, idle
        ",
    );
}

/// Nobody is listened for, and there is nobody else to lead.
#[test]
fn alone_there_is_nothing_to_wait_for() {
    let image = Image::default();
    let voters = [ME];
    let rules = rules(&voters, true, true);
    let (controller, _) = Controller::begin(LeaderEpoch(1), (&image, &image), &rules, &[], BEGAN);
    assert_eq!(controller.next_deadline(), None);
}

#[test]
fn a_cluster_begins_with_the_newest_features() {
    let world = World::new();
    let level = world.image.feature(METADATA_VERSION);
    assert_eq!(level, MetadataVersion::LATEST.level());
}
