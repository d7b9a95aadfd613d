//! Three nodes, administrators at each, and an active controller that is killed, paused or cut off again and again.
//!
//! Each node has a network namespace, from where the nodes are cut off each other while the clients reach all of them; where that is
//! not permitted, the nodes share loopback and nobody is cut off.
//! An answer must hold: a topic that was made is there for the next request to the same node, is "already there" for the other
//! nodes, and is on every node at the end; one that was deleted is on none. An operation without an answer may have happened or not.
//! Prints how long it took until the first change after each fault.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use client::Connection;
use env::Env;
use parking_lot::Mutex;
use wire::ErrorCode;
use wire::messages::create_topics_request::CreatableTopic;
use wire::messages::delete_topics_request::DeleteTopicState;
use wire::messages::metadata_request::MetadataRequestTopic;
use wire::messages::{CreateTopicsRequest, DeleteTopicsRequest, MetadataRequest};

use crate::broker::{Broker, Launch, signal};
use crate::cluster::net::Net;
use crate::kills::Moments;
use crate::place::Place;
use crate::{Outcome, Plan, Verdict};

const NODES: usize = 3;
/// One answer.
const PATIENCE: Duration = Duration::from_secs(15);
/// The longest that administrators may be without a controller.
const OUTAGE_MAX: Duration = Duration::from_secs(20);
const PAUSE: Duration = Duration::from_secs(4);

/// The state of a topic as its administrator knows it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Known {
    There,
    Gone,
    /// No answer came.
    Unsure,
}

/// The facts that the administrators collect.
#[derive(Default)]
struct Facts {
    topics: Mutex<BTreeMap<String, Known>>,
    answered: AtomicUsize,
    unanswered: AtomicUsize,
    broken: Mutex<Vec<String>>,
    is_over: AtomicBool,
}

impl Facts {
    fn note(&self, name: &str, known: Known) {
        let is_sure = known != Known::Unsure;
        let count = if is_sure {
            &self.answered
        } else {
            &self.unanswered
        };
        count.fetch_add(1, Ordering::Relaxed);
        self.topics.lock().insert(name.to_owned(), known);
    }

    fn accuse(&self, what: String) {
        self.broken.lock().push(what);
    }
}

pub(crate) fn run(plan: &Plan, place: &Place) -> Outcome {
    if let Some(net) = Net::around() {
        return perform(plan, place, Some(&net));
    }
    match Net::new(NODES) {
        Ok(net) => within(plan, place, &net),
        Err(why) => {
            place.miss(&format!("nobody is cut off: no network of our own ({why})"));
            perform(plan, place, None)
        }
    }
}

/// Runs this scenario by a process in the network.
fn within(plan: &Plan, place: &Place, net: &Net) -> Outcome {
    let run = net
        .program()
        .args(["controller", "--kills", &plan.kills.to_string()])
        .args(["--seed", &plan.seed.to_string()])
        .env("ESKER", &plan.esker)
        .output()
        .map_err(|error| format!("cannot run in the network: {error}"))?;
    let said = String::from_utf8_lossy(&run.stdout);
    let lines = said.lines().filter_map(|line| line.strip_prefix("  "));
    for line in lines.filter(|line| !line.starts_with("passed in")) {
        place.say(line);
    }
    if run.status.success() {
        return Ok(Verdict::Passed);
    }
    Err(format!("{said}{}", String::from_utf8_lossy(&run.stderr)))
}

/// The fate of the active controller.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Fault {
    Killed,
    Paused,
    /// By the other nodes; clients reach it.
    CutOff,
}

fn perform(plan: &Plan, place: &Place, net: Option<&Net>) -> Outcome {
    let launches = launches(plan, place, net)?;
    let mut brokers = Vec::new();
    for launch in &launches {
        brokers.push(Some(launch.start()?));
    }
    let addresses: Vec<String> = launches.iter().map(Launch::address).collect();
    first_change(&addresses[0], "first")?;
    let facts = Arc::new(Facts::default());
    let admins: Vec<JoinHandle<()>> = (0..NODES)
        .map(|at| {
            let (facts, addresses) = (Arc::clone(&facts), addresses.clone());
            std::thread::spawn(move || administer(at, &addresses, &facts))
        })
        .collect();
    let mut moments = Moments(plan.seed);
    let faults = match net {
        Some(_) => &[Fault::Killed, Fault::Paused, Fault::CutOff][..],
        None => &[Fault::Killed, Fault::Paused],
    };
    let mut times: Vec<(Fault, Duration)> = Vec::new();
    for round in 0..plan.kills {
        std::thread::sleep(Duration::from_millis(300 + moments.next(700)));
        let at = leader(&launches)?;
        let other = &addresses[(at + 1) % NODES];
        let name = format!("after-{round}");
        let fault = faults[round % faults.len()];
        let took = match (fault, net) {
            (Fault::CutOff, Some(net)) => {
                let way = Way::of(moments.next(3));
                cut_off(net, at, way)?;
                let took = first_change(other, &name);
                let took = took.map_err(|why| format!("{why}, node {} cut {way:?}", at + 1));
                std::thread::sleep(PAUSE.saturating_sub(took.clone().unwrap_or_default()));
                net.heal()?;
                took?
            }
            (Fault::Paused, _) => {
                let paused = brokers[at].as_ref().map(Broker::id).ok_or("it runs")?;
                signal(paused, "STOP")?;
                let took = first_change(other, &name);
                std::thread::sleep(PAUSE.saturating_sub(took.clone().unwrap_or_default()));
                signal(paused, "CONT")?;
                took?
            }
            _ => {
                let killed = brokers[at].take().ok_or("the leader runs")?;
                killed.kill();
                let took = first_change(other, &name)?;
                brokers[at] = Some(launches[at].start()?);
                took
            }
        };
        times.push((fault, took));
        wait_for_all(&addresses)?;
    }
    facts.is_over.store(true, Ordering::Relaxed);
    for admin in admins {
        admin.join().map_err(|_| "an administrator panicked")?;
    }
    wait_for_all(&addresses)?;
    judge(&addresses, &facts)?;
    for fault in faults {
        let of_it = times.iter().filter(|(of, _)| of == fault);
        let what = match fault {
            Fault::Killed => "killed",
            Fault::Paused => "paused",
            Fault::CutOff => "cut off",
        };
        tell(place, what, of_it.map(|(_, took)| *took).collect());
    }
    let count = |of: &AtomicUsize| of.load(Ordering::Relaxed);
    place.say(&format!(
        "{} operations answered, {} not",
        count(&facts.answered),
        count(&facts.unanswered)
    ));
    for launch in &launches {
        launch.check_words()?;
    }
    let led = |launch: &Launch| launch.words().matches("is the active controller").count();
    let elections: usize = launches.iter().map(led).sum();
    if elections <= plan.kills / 2 || count(&facts.answered) < plan.kills * 10 {
        return Err(format!("vacuous: {elections} elections"));
    }
    Ok(Verdict::Passed)
}

/// The packets that are dropped, as seen from the one that is cut off.
#[derive(Clone, Copy, Debug)]
enum Way {
    Both,
    Out,
    In,
}

impl Way {
    fn of(number: u64) -> Way {
        [Way::Both, Way::Out, Way::In][number as usize % 3]
    }
}

fn cut_off(net: &Net, at: usize, way: Way) -> Result<(), String> {
    let node = at + 1;
    for other in (1..=NODES).filter(|other| *other != node) {
        match way {
            Way::Both => net.cut_both(node, other)?,
            Way::Out => net.cut(node, other)?,
            Way::In => net.cut(other, node)?,
        }
    }
    Ok(())
}

fn launches(plan: &Plan, place: &Place, net: Option<&Net>) -> Result<Vec<Launch>, String> {
    let nodes = 1..=NODES;
    let launches = nodes.map(|node| {
        let launch = Launch::new(plan, place, &place.dir.join(format!("node-{node}")))?;
        Ok(match net {
            Some(net) => launch.at_host(&Net::host(node), net.runner(node)),
            None => launch,
        })
    });
    let launches: Vec<Launch> = launches.collect::<Result<_, String>>()?;
    let voters = launches.iter().enumerate();
    let voters = voters.map(|(at, launch)| format!("{}@{}", at + 1, launch.address()));
    let voters = voters.collect::<Vec<_>>().join(",");
    let secret = place.cluster_secret()?;
    let launch = |(at, launch): (usize, Launch)| {
        let name = format!("node-{}", at + 1);
        launch
            .with_words(place.dir.join(format!("{name}.log")))
            .with_setting(&format!("node.id={}", at + 1))
            .with_setting(&format!("controller.quorum.voters={voters}"))
            .with_setting("esker.http.listen=off")
            // Snapshots are taken and fetched on the way.
            .with_setting("metadata.log.max.record.bytes.between.snapshots=100000")
            .with_setting(&secret)
    };
    Ok(launches.into_iter().enumerate().map(launch).collect())
}

/// The node that became the active controller last.
pub(crate) fn leader(launches: &[Launch]) -> Result<usize, String> {
    let epoch = |launch: &Launch| -> u64 {
        let words = launch.words();
        let elected = words
            .lines()
            .filter(|line| line.contains("is the active controller"));
        let epochs = elected.filter_map(|line| line.rsplit_once("epoch=")?.1.trim().parse().ok());
        epochs.max().unwrap_or_default()
    };
    let nodes = launches.iter().enumerate();
    let newest = nodes.max_by_key(|(_, launch)| epoch(launch));
    newest.map(|(at, _)| at).ok_or("no nodes".to_owned())
}

/// Creates a topic, trying until it is there; returns how long that took.
fn first_change(address: &str, name: &str) -> Result<Duration, String> {
    let begun = Instant::now();
    loop {
        let made = open(address)
            .ok()
            .and_then(|mut node| create(&mut node, name));
        if matches!(made, Some(ErrorCode::None | ErrorCode::TopicAlreadyExists)) {
            return Ok(begun.elapsed());
        }
        if OUTAGE_MAX < begun.elapsed() {
            return Err(format!("{address} finds no controller: {made:?}"));
        }
        std::thread::sleep(Duration::from_millis(10));
    }
}

/// Every node serves clients again.
fn wait_for_all(addresses: &[String]) -> Result<(), String> {
    for address in addresses {
        let begun = Instant::now();
        while open(address)
            .ok()
            .and_then(|mut node| has(&mut node, "first"))
            != Some(true)
        {
            if OUTAGE_MAX < begun.elapsed() {
                return Err(format!("{address} does not come back"));
            }
            std::thread::sleep(Duration::from_millis(20));
        }
    }
    Ok(())
}

fn open(address: &str) -> Result<Connection, client::Error> {
    let options = client::Options {
        client_id: "chaos".to_owned(),
        io_timeout: PATIENCE,
        ..client::Options::default()
    };
    Connection::open(&Env::real(), address, &options)
}

/// The code of the answer, if there is one that says what happened.
fn create(node: &mut Connection, name: &str) -> Option<ErrorCode> {
    let topic = CreatableTopic {
        name: name.to_owned(),
        num_partitions: 2,
        replication_factor: 1,
        ..CreatableTopic::default()
    };
    let request = CreateTopicsRequest {
        topics: vec![topic],
        timeout_ms: 10_000,
        ..CreateTopicsRequest::default()
    };
    let answer = node.call(&request).ok()?;
    let code = ErrorCode::try_from(answer.topics.first()?.error_code).ok()?;
    (code != ErrorCode::RequestTimedOut).then_some(code)
}

fn delete(node: &mut Connection, name: &str) -> Option<ErrorCode> {
    let request = DeleteTopicsRequest {
        topics: vec![DeleteTopicState {
            name: Some(name.to_owned()),
            ..DeleteTopicState::default()
        }],
        topic_names: vec![name.to_owned()],
        timeout_ms: 10_000,
    };
    let answer = node.call(&request).ok()?;
    let code = ErrorCode::try_from(answer.responses.first()?.error_code).ok()?;
    (code != ErrorCode::RequestTimedOut).then_some(code)
}

/// True if the node knows the topic.
fn has(node: &mut Connection, name: &str) -> Option<bool> {
    let request = MetadataRequest {
        topics: Some(vec![MetadataRequestTopic {
            name: Some(name.to_owned()),
            ..MetadataRequestTopic::default()
        }]),
        allow_auto_topic_creation: false,
        ..MetadataRequest::default()
    };
    let answer = node.call(&request).ok()?;
    let code = answer.topics.first()?.error_code;
    Some(code != ErrorCode::UnknownTopicOrPartition.code())
}

/// Makes and deletes topics through one node, and looks at them through it and through the others.
fn administer(at: usize, addresses: &[String], facts: &Facts) {
    let mut number = 0;
    while !facts.is_over.load(Ordering::Relaxed) {
        let Ok(mut node) = open(&addresses[at]) else {
            std::thread::sleep(Duration::from_millis(20));
            continue;
        };
        // Until the connection fails.
        while !facts.is_over.load(Ordering::Relaxed) {
            number += 1;
            let name = format!("topic-{at}-{number}");
            let other = &addresses[(at + 1 + number % 2) % NODES];
            if live(&mut node, other, &name, number % 2 == 0, facts).is_none() {
                break;
            }
        }
    }
}

/// The life of one topic; `None` once the node does not answer.
fn live(node: &mut Connection, other: &str, name: &str, ends: bool, facts: &Facts) -> Option<()> {
    let made = create(node, name);
    if made != Some(ErrorCode::None) {
        facts.note(name, Known::Unsure);
        return made.map(drop);
    }
    facts.note(name, Known::There);
    if !has(node, name)? {
        facts.accuse(format!("{name} was made and is not there"));
    }
    if let Some(code) = open(other)
        .ok()
        .and_then(|mut other| create(&mut other, name))
        && !matches!(code, ErrorCode::TopicAlreadyExists)
        && code == ErrorCode::None
    {
        facts.accuse(format!("{name} was made twice"));
    }
    if !ends {
        return Some(());
    }
    let deleted = delete(node, name);
    if deleted != Some(ErrorCode::None) {
        facts.note(name, Known::Unsure);
        return deleted.map(drop);
    }
    facts.note(name, Known::Gone);
    if has(node, name)? {
        facts.accuse(format!("{name} was deleted and is there"));
    }
    Some(())
}

/// All nodes say the same of each topic, and what was answered.
fn judge(addresses: &[String], facts: &Facts) -> Result<(), String> {
    let mut seen: BTreeMap<String, Vec<bool>> = BTreeMap::new();
    for address in addresses {
        let mut node = open(address).map_err(|error| error.to_string())?;
        for name in facts.topics.lock().keys() {
            let is_there = has(&mut node, name).ok_or("a node that does not answer")?;
            seen.entry(name.clone()).or_default().push(is_there);
        }
    }
    for (name, known) in &*facts.topics.lock() {
        let told = &seen[name];
        let is_one = told.iter().all(|is_there| *is_there == told[0]);
        let fits = match known {
            Known::There => told[0],
            Known::Gone => !told[0],
            Known::Unsure => true,
        };
        if !is_one || !fits {
            facts.accuse(format!("{name}, {known:?}: the nodes say {told:?}"));
        }
    }
    let broken = facts.broken.lock();
    match broken.as_slice() {
        [] => Ok(()),
        [first, ..] => Err(format!("{} broken promises, first: {first}", broken.len())),
    }
}

fn tell(place: &Place, what: &str, mut times: Vec<Duration>) {
    times.sort_unstable();
    let ms = |time: Option<&Duration>| time.copied().unwrap_or_default().as_secs_f64() * 1e3;
    place.say(&format!(
        "controller {what} {} times, first change after: median {:.0} ms, longest {:.0} ms",
        times.len(),
        ms(times.get(times.len() / 2)),
        ms(times.last())
    ));
}
