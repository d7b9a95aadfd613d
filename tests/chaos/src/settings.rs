//! Deaths of the broker while an operator changes things: settings of a topic, settings of the broker, the number of partitions. Each
//! changer only ever raises a number, so that one look shows whether every acknowledged change is there, and nothing that nobody asked for.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use client::{Change, Client, Error, Isolation, NewTopic, OffsetSpec, Resource};
use parking_lot::Mutex;

use crate::kills::Moments;
use crate::load::{connect, create_topic};
use crate::place::Place;
use crate::site::Site;
use crate::txn::{PATIENCE, PAUSE};
use crate::{Outcome, Plan, Verdict};

const TOPIC: &str = "changed";
const GROWN: &str = "grown";
/// Larger than any default of what is changed here.
const LEAST: i64 = 10_000_000_000;
/// Changes of each kind between two deaths.
const CHANGES: i64 = 3;
const OPEN_PATIENCE: Duration = Duration::from_millis(500);

#[derive(Clone, Copy, Debug)]
enum What {
    Topic,
    Broker,
    Partitions,
}

const ALL: [What; 3] = [What::Topic, What::Broker, What::Partitions];

impl What {
    fn first(self) -> i64 {
        match self {
            What::Topic | What::Broker => LEAST,
            What::Partitions => 1,
        }
    }

    fn pause(self) -> Duration {
        match self {
            What::Topic | What::Broker => PAUSE / 10,
            // A few hundred of them are enough.
            What::Partitions => PAUSE * 5,
        }
    }

    fn change(self, client: &mut Client, to: i64) -> Result<(), Error> {
        match self {
            What::Partitions => client.create_partitions(GROWN, to as i32, false),
            What::Topic | What::Broker => {
                let (resource, name) = self.setting(client)?;
                let change = Change::Set(name.to_owned(), to.to_string());
                client.alter_configs(&resource, &[change], false)
            }
        }
    }

    fn look(self, client: &mut Client) -> Result<i64, Error> {
        if let What::Partitions = self {
            return Ok(client.topic(GROWN)?.partitions.len() as i64);
        }
        let (resource, name) = self.setting(client)?;
        let settings = client.describe_configs(&resource)?;
        let found = settings.iter().find(|setting| setting.name == name);
        let value = found.and_then(|setting| setting.value.as_deref()?.parse().ok());
        Ok(value.unwrap_or(0))
    }

    fn setting(self, client: &mut Client) -> Result<(Resource, &'static str), Error> {
        match self {
            What::Broker => {
                let brokers = client.describe_cluster()?.brokers;
                let id = brokers.first().map_or(0, |broker| broker.id);
                Ok((Resource::Broker(id), "log.retention.ms"))
            }
            _ => Ok((Resource::Topic(TOPIC.to_owned()), "retention.ms")),
        }
    }
}

/// How far one changer is.
#[derive(Debug)]
struct Progress {
    tried: i64,
    acked: i64,
    acks: i64,
    is_open: bool,
    trouble: String,
}

struct Changer {
    what: What,
    progress: Arc<Mutex<Progress>>,
    thread: JoinHandle<()>,
}

impl Changer {
    fn start(address: &str, what: What, stop: &Arc<AtomicBool>) -> Changer {
        let progress = Arc::new(Mutex::new(Progress {
            tried: what.first(),
            acked: what.first(),
            acks: 0,
            is_open: false,
            trouble: String::new(),
        }));
        let (address, stop) = (address.to_owned(), Arc::clone(stop));
        let ours = Arc::clone(&progress);
        let thread = std::thread::spawn(move || {
            let mut client = None;
            while !stop.load(Ordering::Acquire) {
                client = change_once(what, client, &address, &ours);
                std::thread::sleep(what.pause());
            }
        });
        Changer {
            what,
            progress,
            thread,
        }
    }

    fn wait_for(&self, more: i64) -> Result<(), String> {
        let goal = self.progress.lock().acks + more;
        let begun = Instant::now();
        loop {
            let progress = self.progress.lock();
            if progress.acks >= goal {
                return Ok(());
            }
            if begun.elapsed() > PATIENCE {
                return Err(format!("{:?} is not changed: {progress:?}", self.what));
            }
            drop(progress);
            std::thread::sleep(PAUSE);
        }
    }

    /// Asked while changes go on: at least what was acknowledged before, at most what was asked for when the answer came.
    fn check(&self, address: &str) -> Result<(), String> {
        let what = self.what;
        let least = self.progress.lock().acked;
        let found = connect(address, PATIENCE).and_then(|mut client| what.look(&mut client));
        let found = found.map_err(|error| format!("asking for {what:?}: {error}"))?;
        let most = self.progress.lock().tried;
        if (least..=most).contains(&found) {
            Ok(())
        } else {
            Err(format!(
                "{what:?}: {least} was acknowledged, {most} was asked for last, and there is {found}"
            ))
        }
    }
}

/// The next number; never the same twice, so that an attempt without an answer may be done or not.
fn change_once(
    what: What,
    client: Option<Client>,
    address: &str,
    progress: &Mutex<Progress>,
) -> Option<Client> {
    let mut client = match client {
        Some(client) => client,
        None => connect(address, PAUSE).ok()?,
    };
    let next = {
        let mut progress = progress.lock();
        progress.tried += 1;
        progress.is_open = true;
        progress.tried
    };
    let told = what.change(&mut client, next);
    let mut progress = progress.lock();
    progress.is_open = false;
    match told {
        Ok(()) => {
            progress.acked = next;
            progress.acks += 1;
            Some(client)
        }
        Err(error) => {
            progress.trouble = error.to_string();
            None
        }
    }
}

pub(crate) fn run(plan: &Plan, place: &Place) -> Outcome {
    judged(plan, place, Site::of_kills(plan, place)?, plan.kills)
}

pub(crate) fn cuts(plan: &Plan, place: &Place) -> Outcome {
    Site::with_power(plan, place, |site| judged(plan, place, site, plan.cuts))
}

fn judged(plan: &Plan, place: &Place, mut site: Site, deaths: usize) -> Outcome {
    let address = site.launch.address();
    let mut moments = Moments(plan.seed);
    let mut broker = site.launch.start()?;
    create_topic(&address, TOPIC)?;
    create_small_topic(&address)?;
    let stop = Arc::new(AtomicBool::new(false));
    let changers = ALL.map(|what| Changer::start(&address, what, &stop));
    for _ in 0..deaths {
        changers.iter().try_for_each(|of| of.wait_for(CHANGES))?;
        std::thread::sleep(Duration::from_millis(moments.next(300)));
        let is_open = || changers.iter().any(|of| of.progress.lock().is_open);
        let begun = Instant::now();
        while !is_open() && begun.elapsed() < OPEN_PATIENCE {
            std::thread::yield_now();
        }
        broker = site.strike(broker, &mut moments, is_open)?;
        changers.iter().try_for_each(|of| of.check(&address))?;
    }
    changers.iter().try_for_each(|of| of.wait_for(CHANGES))?;
    stop.store(true, Ordering::Release);
    let mut counts = Vec::new();
    for changer in &changers {
        while !changer.thread.is_finished() {
            std::thread::sleep(PAUSE);
        }
        changer.check(&address)?;
        counts.push(changer.progress.lock().acks);
    }
    // The last partition is one like any other.
    let last = connect(&address, PATIENCE).and_then(|mut client| {
        let last = What::Partitions.look(&mut client)? as i32 - 1;
        client.resolve(
            GROWN,
            &[(last, OffsetSpec::End)],
            Isolation::ReadUncommitted,
        )
    });
    last.map_err(|error| format!("the last partition: {error}"))?;
    broker.kill();
    place.say(&site.describe());
    place.say(&format!(
        "acknowledged and there: {} changes of a topic, {} of the broker, {} of a number of partitions",
        counts[0], counts[1], counts[2]
    ));
    site.launch.check_words()?;
    site.check_hits()?;
    Ok(Verdict::Passed)
}

fn create_small_topic(address: &str) -> Result<(), String> {
    let topic = NewTopic {
        name: GROWN.to_owned(),
        partitions: Some(What::Partitions.first() as i32),
        replication_factor: Some(1),
        configs: Vec::new(),
    };
    let created =
        connect(address, PATIENCE).and_then(|mut client| client.create_topic(&topic, false));
    created.map(drop).map_err(|error| error.to_string())
}
