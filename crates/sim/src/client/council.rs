//! One of several clients that create, delete, alter and read the same few topics at the same time, and note what they were told.
//!
//! Names are used for a second or two, so that the history of each stays short; later they are only read: what was told before a power
//! cut is to be true after it. A topic's value is its `retention.ms`, another one each time.

use std::time::Duration;

use env::sim::{Chance, Outside};
use model::Instant;
use wire::messages::create_topics_request::{CreatableTopic, CreatableTopicConfig};
use wire::messages::describe_configs_request::DescribeConfigsResource;
use wire::messages::{
    CreateTopicsRequest, DeleteTopicsRequest, DescribeConfigsRequest,
    IncrementalAlterConfigsRequest,
};
use wire::{ApiKey, ErrorCode};

use super::keep::{ANSWER_MAX, Client, Link};
use super::line::{LineError, RawAnswer, nonsense};
use super::notes::Notes;
use super::requests::alter;
use crate::checker::{Act, Told, Verb};

const RECONNECT: Duration = Duration::from_millis(100);
/// Names at a time, and how long they are used.
const NAMES: u64 = 2;
const USED_NANOS: u64 = 1_500_000_000;
/// Changes of one name of which nobody knows whether they were done, those under way included; the judge tries each both ways. Past it
/// the name is only read: a full disk would leave a hundred.
const UNKNOWN_MAX: usize = 8;
/// The same for those who ask one node, where others ask other nodes.
const UNKNOWN_MAX_SHARED: usize = 2;
pub(crate) const VALUE: &str = "retention.ms";
/// Far from anything that retention would take.
const VALUE_MIN: u64 = 1_000_000_000_000;
const TOPIC: i8 = 2;

/// The names that some councillors change.
#[derive(Clone, Debug)]
pub(crate) struct Agenda {
    /// Their beginning.
    pub(crate) names: String,
    /// Added to each value, so that no other councillor has the same.
    pub(crate) values_from: u64,
    /// Other councillors change them through other nodes, each of which shows what it has heard of so far: nothing is read.
    pub(crate) is_shared: bool,
}

pub(crate) struct Councillor {
    agenda: Agenda,
    chance: Chance,
    link: Link,
    /// The act that an answer is waited for.
    asked: Option<(String, usize)>,
    /// Only reads from now on.
    pub(crate) is_quiet: bool,
}

impl Councillor {
    pub(crate) fn new(agenda: Agenda, chance: Chance) -> Councillor {
        Councillor {
            agenda,
            chance,
            link: Link::new(Instant(0), RECONNECT),
            asked: None,
            is_quiet: false,
        }
    }

    fn next(&mut self, now: Instant, notes: &mut Notes) -> (String, Verb) {
        let Agenda {
            names,
            values_from,
            is_shared,
        } = &self.agenda;
        let known = notes.acts.keys().filter(|name| name.starts_with(names));
        let known: Vec<String> = known.cloned().collect();
        let is_reader = !is_shared && !known.is_empty() && self.chance.one_in(6);
        if self.is_quiet || is_reader {
            let name = if known.is_empty() {
                names.clone()
            } else {
                self.chance.pick(&known).clone()
            };
            return (name, Verb::Read);
        }
        let name = format!(
            "{names}-{}-{}",
            now.0 / USED_NANOS,
            self.chance.below(NAMES)
        );
        let value = VALUE_MIN + values_from + notes.value();
        let acts = notes.acts.get(&name).into_iter().flatten();
        let unknown = acts.filter(|act| act.verb != Verb::Read && act.told == Told::Unknown);
        let unknown_max = if *is_shared {
            UNKNOWN_MAX_SHARED
        } else {
            UNKNOWN_MAX
        };
        let verbs = if *is_shared { 7 } else { 10 };
        let verb = match self.chance.below(verbs) {
            _ if unknown.count() >= unknown_max => Verb::Read,
            0..=2 => Verb::Create(value),
            3..=4 => Verb::Delete,
            5..=6 => Verb::Alter(value),
            _ => Verb::Read,
        };
        (name, verb)
    }

    fn ask(&mut self, name: &str, verb: Verb, now: Instant) {
        match verb {
            Verb::Create(value) => self.link.ask(&create(name, value), 5, now),
            Verb::Delete => {
                let request = DeleteTopicsRequest {
                    topic_names: vec![name.to_owned()],
                    timeout_ms: 10_000,
                    ..DeleteTopicsRequest::default()
                };
                self.link.ask(&request, 4, now)
            }
            Verb::Alter(value) => self.link.ask(&alter(&[name], VALUE, Some(value)), 1, now),
            Verb::Read => self.link.ask(&describe(name), 3, now),
        };
    }
}

impl Client for Councillor {
    fn link(&self) -> &Link {
        &self.link
    }

    fn link_mut(&mut self) -> &mut Link {
        &mut self.link
    }

    fn name(&self) -> String {
        "councillor".to_owned()
    }

    fn hang_up(&mut self, world: &Outside, notes: &mut Notes) {
        self.asked = None;
        self.link.lose(world.now(), notes);
    }

    fn on_answer(
        &mut self,
        answer: &RawAnswer,
        world: &Outside,
        notes: &mut Notes,
    ) -> Result<(), LineError> {
        self.link.asked = None;
        let Some((name, at)) = self.asked.take() else {
            return Err(nonsense("an answer to nothing"));
        };
        let told = match answer.key() {
            ApiKey::CreateTopics => {
                let told = answer.decode::<CreateTopicsRequest>()?.topics;
                told.first().map(|topic| (topic.error_code, None))
            }
            ApiKey::DeleteTopics => {
                let told = answer.decode::<DeleteTopicsRequest>()?.responses;
                told.first().map(|topic| (topic.error_code, None))
            }
            ApiKey::IncrementalAlterConfigs => {
                let told = answer.decode::<IncrementalAlterConfigsRequest>()?.responses;
                told.first().map(|topic| (topic.error_code, None))
            }
            _ => {
                let told = answer.decode::<DescribeConfigsRequest>()?.results;
                let value = |text: &String| text.parse().ok();
                told.first().map(|topic| {
                    let setting = topic.configs.first();
                    let setting = setting.and_then(|of| of.value.as_ref().and_then(value));
                    (topic.error_code, setting)
                })
            }
        };
        let (code, value) = told.ok_or_else(|| nonsense("an answer of nothing"))?;
        let told = match (ErrorCode::try_from(code).map_err(nonsense)?, value) {
            (ErrorCode::None, Some(value)) => Told::Value(value),
            (ErrorCode::None, None) => Told::Done,
            (ErrorCode::TopicAlreadyExists, _) => Told::Exists,
            (ErrorCode::UnknownTopicOrPartition, _) => Told::Missing,
            _ => Told::Unknown,
        };
        if told != Told::Unknown
            && let Some(act) = notes.acts.get_mut(&name).and_then(|acts| acts.get_mut(at))
        {
            (act.told, act.returned) = (told, world.now().0);
        }
        Ok(())
    }

    fn on_wake(&mut self, world: &Outside, notes: &mut Notes) {
        let pause = Duration::from_millis(self.chance.between(1, 40));
        if !self.may_ask(pause, ANSWER_MAX, world, notes) {
            return;
        }
        let now = world.now();
        let (name, verb) = self.next(now, notes);
        if verb == Verb::Read && self.agenda.is_shared {
            return;
        }
        self.ask(&name, verb, now);
        let acts = notes.acts.entry(name.clone()).or_default();
        acts.push(Act::begun(verb, now.0));
        self.asked = Some((name, acts.len() - 1));
    }
}

fn create(name: &str, value: u64) -> CreateTopicsRequest {
    let setting = CreatableTopicConfig {
        name: VALUE.to_owned(),
        value: Some(value.to_string()),
    };
    let topic = CreatableTopic {
        name: name.to_owned(),
        num_partitions: 1,
        replication_factor: 1,
        configs: vec![setting],
        ..CreatableTopic::default()
    };
    CreateTopicsRequest {
        topics: vec![topic],
        timeout_ms: 10_000,
        validate_only: false,
    }
}

fn describe(name: &str) -> DescribeConfigsRequest {
    let resource = DescribeConfigsResource {
        resource_type: TOPIC,
        resource_name: name.to_owned(),
        configuration_keys: Some(vec![VALUE.to_owned()]),
    };
    DescribeConfigsRequest {
        resources: vec![resource],
        ..DescribeConfigsRequest::default()
    }
}
