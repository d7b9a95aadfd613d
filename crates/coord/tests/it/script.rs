//! Scripts: one ask a line, and after `=>` everything that is answered then, also to those who waited.
//!
//! Members have short names; `join a` joins under the id that `a` was last given, and answers show names where ids stand.
//! `check` panics with the whole script as it really went.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use coord::Step;
use coord::group::ask::{
    Commit, CommitPartition, CommitTopic, ConsumerDescribe, ConsumerHeartbeat, Delete,
    DeleteOffsets, DeleteTopic, Describe, FetchOffsets, FetchTopic, Heartbeat, Join, Leave, Leaver,
    List, MemberAssignment, Protocol, Sync, TopicKey, TxnCommit,
};
use coord::group::{Answer, Ask, Client, Settings};
use coord::txn::Producer;
use model::{LeaderEpoch, Offset, PartitionIndex, ProducerEpoch, ProducerId, Ticket};
use wire::group::{
    GroupRecord, ShareGroupMetadataKey, ShareGroupMetadataValue, StreamsGroupMetadataKey,
    StreamsGroupMetadataValue,
};
use wire::messages::ConsumerProtocolSubscription;
use wire::{Message, Writer};

use crate::render;
use crate::world::{FakeTopics, World, topic_id};

pub(crate) fn check(script: &str) {
    check_with(Settings::default(), script);
}

pub(crate) fn check_with(settings: Settings, script: &str) {
    let mut run = Run {
        world: World::new(settings),
        ids: BTreeMap::new(),
        generations: BTreeMap::new(),
        askers: BTreeMap::new(),
    };
    let mut went = String::new();
    let mut wanted = String::new();
    for line in script.lines().map(str::trim) {
        if line.is_empty() || line.starts_with('#') {
            continue;
        }
        let (ask, want) = line.split_once("=>").unwrap_or((line, ""));
        let got = run.line(ask.trim());
        let got = got.trim();
        went += &format!("{} => {got}\n", ask.trim());
        wanted += &format!("{} => {}\n", ask.trim(), want.trim());
    }
    assert!(went == wanted, "\nwanted:\n{wanted}\nwent:\n{went}");
}

struct Run {
    world: World,
    /// Member ids by name, and the generation that a member was last told.
    ids: BTreeMap<String, String>,
    generations: BTreeMap<String, i32>,
    askers: BTreeMap<Ticket, String>,
}

/// The words of a line: `name`s in order, and `key=value`s.
struct Words<'a> {
    names: Vec<&'a str>,
    keys: BTreeMap<&'a str, &'a str>,
}

impl<'a> Words<'a> {
    fn new(text: &'a str) -> Self {
        let mut words = Words {
            names: Vec::new(),
            keys: BTreeMap::new(),
        };
        for word in text.split_whitespace() {
            match word.split_once('=') {
                Some((key, value)) => {
                    words.keys.insert(key, value);
                }
                None => words.names.push(word),
            }
        }
        words
    }

    fn get(&self, key: &str) -> Option<&'a str> {
        self.keys.get(key).copied()
    }

    fn number(&self, key: &str, default: i32) -> i32 {
        self.get(key)
            .map_or(default, |text| text.parse().expect("a number"))
    }

    fn list(&self, key: &str, default: &'a str) -> Vec<&'a str> {
        self.get(key).unwrap_or(default).split(',').collect()
    }

    fn is(&self, name: &str) -> bool {
        self.names.contains(&name)
    }

    fn group(&self) -> String {
        self.get("group").unwrap_or("g").to_owned()
    }

    /// `topic:partition=value`, in order.
    fn partitions(&self) -> Vec<(&'a str, i32, &'a str)> {
        let keys = self.keys.iter().map(|(key, value)| (*key, *value));
        let names = self.names.iter().map(|name| (*name, ""));
        keys.chain(names)
            .filter_map(|(key, value)| {
                let (topic, partition) = key.split_once(':')?;
                Some((topic, partition.parse().expect("a partition"), value))
            })
            .collect()
    }
}

fn time(text: &str) -> Duration {
    let split = text.find(char::is_alphabetic).expect("a unit");
    let (number, unit) = text.split_at(split);
    let number: u64 = number.parse().expect("a number");
    match unit {
        "ms" => Duration::from_millis(number),
        "s" => Duration::from_secs(number),
        "m" => Duration::from_secs(number * 60),
        "h" => Duration::from_secs(number * 3600),
        "d" => Duration::from_secs(number * 86_400),
        _ => panic!("no unit of time: {unit}"),
    }
}

/// The subscription of a consumer: version 0 and its topics.
fn subscription(topics: &[&str]) -> Bytes {
    let mut w = Writer::new();
    w.i16(0);
    let subscription = ConsumerProtocolSubscription {
        topics: topics.iter().map(|topic| (*topic).to_owned()).collect(),
        ..ConsumerProtocolSubscription::default()
    };
    subscription.encode(&mut w, 0).expect("encodes");
    w.finish().into_bytes().expect("encodes")
}

impl Run {
    fn line(&mut self, line: &str) -> String {
        let (verb, rest) = line.split_once(' ').unwrap_or((line, ""));
        let words = Words::new(rest);
        if verb == "refuse" {
            self.world.refuses = true;
            let went = self.line(rest);
            assert!(!self.world.refuses, "nothing was written: {line}");
            return went;
        }
        let written = self.world.log.len();
        match verb {
            "after" => self.world.pass(time(rest)),
            "restart" => self.world.restart(),
            "batch" => self.world.batch_bytes_max = rest.parse().expect("a number of bytes"),
            "marker" => {
                let producer = words.names[0].parse().expect("a producer");
                self.world.marker(producer, words.is("commit"));
            }
            // A record of a group that only Kafka has.
            "kafka" => {
                let is_value = !words.is("gone");
                let group_id = words.group();
                let record = if words.is("share") {
                    let value = is_value.then(ShareGroupMetadataValue::default);
                    GroupRecord::ShareGroupMetadata(ShareGroupMetadataKey { group_id }, value)
                } else {
                    let value = is_value.then(StreamsGroupMetadataValue::default);
                    GroupRecord::StreamsGroupMetadata(StreamsGroupMetadataKey { group_id }, value)
                };
                self.world.perform(Step {
                    records: vec![record],
                    ..Step::default()
                });
                return String::new();
            }
            "gone" => {
                let gone: Vec<String> = words.names.iter().map(|&name| name.to_owned()).collect();
                self.world.topics_gone(&gone);
            }
            "gone-while-loading" => {
                let gone: Vec<String> = words.names.iter().map(|&name| name.to_owned()).collect();
                self.world.restart_without(&gone);
            }
            "resign" => {
                let left = self.world.groups.abandon().into_iter();
                let mut names: Vec<String> = left
                    .map(|caller| self.askers.remove(&caller).expect("one that waits"))
                    .collect();
                names.sort();
                return names.join("; ");
            }
            "new-topic" => {
                let FakeTopics(topics) = &mut self.world.topics;
                let id = topic_id(words.number("id", 9).try_into().expect("an id"));
                topics.insert(words.names[0].to_owned(), (id, 4));
            }
            "why" => {
                let why = self.world.groups.last_rebalance(&words.group());
                let why = why.map_or("-".to_owned(), |why| {
                    format!("{} (g{})", why.reason, why.generation)
                });
                return self.named(&why);
            }
            _ => {
                let ask = self.ask_of(verb, &words);
                let caller = self.world.ask(ask);
                let asker = words.names.first().filter(|_| is_of_member(verb));
                self.askers
                    .insert(caller, asker.map_or(String::new(), |&name| name.to_owned()));
            }
        }
        let written = self.world.log.len() - written;
        let told = std::mem::take(&mut self.world.told);
        let mut said: Vec<String> = Vec::new();
        for (caller, answer) in told {
            let asker = self
                .askers
                .remove(&caller)
                .expect("one answer to each caller");
            if let Ok(answer) = &answer {
                self.learn(&asker, answer);
            }
            let text = answer.map_or("refused".to_owned(), |answer| render::answer(&answer));
            said.push(if asker.is_empty() {
                text
            } else {
                format!("{asker}: {text}")
            });
        }
        // Those who waited are told in the order of their ids, which says nothing.
        said.sort();
        if verb == "after" && written > 0 {
            said.push(format!("wrote {written}"));
        }
        self.named(&said.join("; "))
    }

    /// Ids become names; the longest first, as one may be part of another.
    fn named(&self, text: &str) -> String {
        let mut ids: Vec<(&String, &String)> = self.ids.iter().collect();
        ids.sort_by_key(|(_, id)| std::cmp::Reverse(id.len()));
        ids.iter()
            .filter(|(_, id)| !id.is_empty())
            .fold(text.to_owned(), |text, (name, id)| text.replace(*id, name))
    }

    fn learn(&mut self, asker: &str, answer: &Answer) {
        let id = match answer {
            Answer::ConsumerHeartbeat(Ok(standing)) => &standing.member_id,
            Answer::Join(Ok(joined)) => {
                self.generations.insert(asker.to_owned(), joined.generation);
                &joined.member_id
            }
            Answer::Join(Err(refusal)) if !refusal.member_id.is_empty() => &refusal.member_id,
            _ => return,
        };
        self.ids.insert(asker.to_owned(), id.clone());
    }

    fn id(&self, name: &str) -> String {
        match name {
            "-" => String::new(),
            // A name that was never given an id is taken for one.
            _ => self.ids.get(name).cloned().unwrap_or(name.to_owned()),
        }
    }

    fn generation(&self, words: &Words<'_>) -> i32 {
        let last = words
            .names
            .first()
            .and_then(|name| self.generations.get(*name));
        words.number("gen", last.copied().unwrap_or(-1))
    }

    fn ask_of(&mut self, verb: &str, words: &Words<'_>) -> Ask {
        let name = words.names.first().copied().unwrap_or("-");
        let instance_id = words.get("instance").map(str::to_owned);
        let group_id = words.group();
        match verb {
            "join" => self.join(name, words),
            "sync" => {
                let is_part = |key: &str| !["gen", "instance", "group", "kind"].contains(&key);
                let parts = words.keys.iter().filter(|(key, _)| is_part(key));
                Ask::Sync(Sync {
                    group_id,
                    generation: self.generation(words),
                    member_id: self.id(name),
                    instance_id,
                    protocol_type: words.get("kind").map(str::to_owned),
                    assignments: parts
                        .map(|(key, value)| MemberAssignment {
                            member_id: self.id(key),
                            assignment: Bytes::copy_from_slice(value.as_bytes()),
                        })
                        .collect(),
                    ..Sync::default()
                })
            }
            "beat" => Ask::Heartbeat(Heartbeat {
                group_id,
                generation: self.generation(words),
                member_id: self.id(name),
                instance_id,
            }),
            "leave" => {
                let leaver = |name: &&str| Leaver {
                    member_id: self.id(name),
                    instance_id: instance_id.clone(),
                    reason: words.get("because").map(str::to_owned),
                };
                Ask::Leave(Leave {
                    group_id,
                    members: words.names.iter().map(leaver).collect(),
                })
            }
            "consumer" => self.consumer(name, words),
            "describe-consumer" => Ask::ConsumerDescribe(ConsumerDescribe { group_id }),
            "commit" => self.commit(name, words),
            "txn" => self.txn(words),
            "fetch" => Ask::FetchOffsets(FetchOffsets {
                group_id,
                member_id: None,
                member_epoch: -1,
                topics: (!words.is("all")).then(|| fetched(words)),
                require_stable: words.is("stable"),
            }),
            "describe" => Ask::Describe(Describe { group_id }),
            "list" => {
                let filter = |key| {
                    let list = words.list(key, "").into_iter();
                    let names = list.filter(|text| !text.is_empty()).map(str::to_owned);
                    Arc::new(names.collect())
                };
                Ask::List(List {
                    states: filter("states"),
                    types: filter("types"),
                })
            }
            "delete" => Ask::Delete(Delete { group_id }),
            "delete-offsets" => Ask::DeleteOffsets(DeleteOffsets {
                group_id,
                topics: words
                    .partitions()
                    .into_iter()
                    .map(|(topic, partition, _)| DeleteTopic {
                        name: topic.to_owned(),
                        partitions: vec![PartitionIndex(partition)],
                    })
                    .collect(),
            }),
            _ => panic!("no such verb: {verb}"),
        }
    }

    fn join(&mut self, name: &str, words: &Words<'_>) -> Ask {
        let topics = words.list("topics", "t");
        let protocols = words.list("protocols", "range").into_iter();
        let protocols = protocols.map(|protocol| Protocol {
            name: protocol.to_owned(),
            metadata: match words.get("metadata") {
                Some(metadata) => Bytes::copy_from_slice(metadata.as_bytes()),
                None => subscription(&topics),
            },
        });
        let known = self.ids.get(name).cloned().unwrap_or_default();
        let version = words.number("v", 9);
        Ask::Join(Join {
            group_id: words.group(),
            session_timeout_ms: words.number("session", 10_000),
            rebalance_timeout_ms: Some(words.number("rebalance", 30_000)),
            member_id: words.get("id").map_or(known, |id| self.id(id)),
            instance_id: words.get("instance").map(str::to_owned),
            client: client(name),
            protocol_type: words.get("kind").unwrap_or("consumer").to_owned(),
            protocols: protocols
                .filter(|protocol| protocol.name != "none")
                .collect(),
            reason: words.get("because").map(str::to_owned),
            needs_member_id: version >= 4,
            may_skip_assignment: version >= 9,
            fresh: self.world.fresh(),
        })
    }

    /// A heartbeat of a consumer group: all that a member says when it joins, nothing new later.
    fn consumer(&mut self, name: &str, words: &Words<'_>) -> Ask {
        let epoch = words.number("epoch", 0);
        let topics = words.list("topics", "t").into_iter().map(str::to_owned);
        let joins = epoch == 0;
        Ask::ConsumerHeartbeat(ConsumerHeartbeat {
            group_id: words.group(),
            member_id: self.id(name),
            instance_id: words.get("instance").map(str::to_owned),
            member_epoch: epoch,
            client: client(name),
            rebalance_timeout_ms: joins.then_some(30_000),
            topic_names: joins.then(|| topics.collect()),
            owned: joins.then(Vec::new),
            brings_member_id: true,
            fresh: self.world.fresh(),
            ..ConsumerHeartbeat::default()
        })
    }

    fn commit(&self, name: &str, words: &Words<'_>) -> Ask {
        let topics = words
            .partitions()
            .into_iter()
            .map(|(topic, partition, offset)| {
                let (offset, metadata) = offset.split_once('/').unwrap_or((offset, ""));
                CommitTopic {
                    topic: topic_key(topic),
                    partitions: vec![CommitPartition {
                        index: PartitionIndex(partition),
                        offset: Offset(offset.parse().expect("an offset")),
                        leader_epoch: LeaderEpoch(words.number("epoch", -1)),
                        metadata: metadata.to_owned(),
                    }],
                }
            });
        Ask::Commit(Commit {
            group_id: words.group(),
            generation: self.generation(words),
            member_id: if name.contains(':') {
                String::new()
            } else {
                self.id(name)
            },
            instance_id: words.get("instance").map(str::to_owned),
            knows_member_epochs: words.number("v", 9) >= 9,
            retention_ms: words
                .get("retention")
                .map(|_| words.number("retention", 0).into()),
            topics: topics.collect(),
        })
    }

    /// `txn 7 a t:0=5`: producer 7, for member a. `v=6`: of a client that knows member epochs.
    fn txn(&self, words: &Words<'_>) -> Ask {
        let name = words.names.get(1).copied().unwrap_or("-");
        let generation = self.generations.get(name).copied().unwrap_or(-1);
        let topics = words
            .partitions()
            .into_iter()
            .map(|(topic, partition, offset)| CommitTopic {
                topic: topic_key(topic),
                partitions: vec![CommitPartition {
                    index: PartitionIndex(partition),
                    offset: Offset(offset.parse().expect("an offset")),
                    leader_epoch: LeaderEpoch::NONE,
                    metadata: String::new(),
                }],
            });
        Ask::TxnCommit(TxnCommit {
            group_id: words.group(),
            producer: Producer {
                id: ProducerId(words.names[0].parse().expect("a producer")),
                epoch: ProducerEpoch(0),
            },
            generation: words.number("gen", generation),
            member_id: self.id(name),
            instance_id: None,
            knows_member_epochs: words.number("v", 5) >= 6,
            topics: topics.collect(),
        })
    }
}

fn client(name: &str) -> Client {
    Client {
        id: name.to_owned(),
        host: "/127.0.0.1".to_owned(),
    }
}

/// `t`, or `#1` for the topic with the first id.
fn topic_key(text: &str) -> TopicKey {
    match text.strip_prefix('#') {
        Some(id) => TopicKey::Id(topic_id(id.parse().expect("an id"))),
        None => TopicKey::Name(text.to_owned()),
    }
}

/// Verbs whose first word is the member that asks.
fn is_of_member(verb: &str) -> bool {
    ["join", "sync", "beat", "consumer"].contains(&verb)
}

fn fetched(words: &Words<'_>) -> Vec<FetchTopic> {
    let partitions = words.partitions().into_iter();
    partitions
        .map(|(topic, partition, _)| FetchTopic {
            topic: topic_key(topic),
            partitions: vec![PartitionIndex(partition)],
        })
        .collect()
}
