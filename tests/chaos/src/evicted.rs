//! Copiers that are members of a group, one group of each protocol: one is stopped between what it has written and the commit of its
//! offsets, beyond its session; others take its partitions and copy them; it comes back and goes on where it was. Its commit must be
//! refused by the group, since its transactional id is nobody else's, and every input is in the output once.
//!
//! The broker is killed in every second round, so that what the group knows of its members has been loaded again.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use crate::broker::Launch;
use crate::children::{ClientProcess, Clock};
use crate::eos;
use crate::groups::{SESSION, with_short_sessions};
use crate::kills::Moments;
use crate::load::{TOPIC, connect, create_topic};
use crate::member::copier::{LINGER, OUTPUTS};
use crate::member::{CLASSIC, CONSUMER};
use crate::place::Place;
use crate::txn::PAUSE;
use crate::{Outcome, Plan, Verdict};

/// With their protocols, in the order of the outputs.
const GROUPS: [(&str, &str); 2] = [("evicted-classic", CLASSIC), ("evicted-consumer", CONSUMER)];
const MEMBERS: usize = 3;
const ROUNDS: usize = 6;
/// Transactions of the others before the stopped one comes back.
const COPIES: usize = 3;
const PATIENCE: Duration = Duration::from_secs(30);
/// From a signal to the moment at which the process certainly stands still.
const STOP_MAX: Duration = Duration::from_millis(100);

struct Copiers {
    group: &'static str,
    present: Vec<ClientProcess>,
    clock: Clock,
    stops: usize,
}

impl Copiers {
    fn start(
        address: &str,
        (group, protocol): (&'static str, &str),
        moments: &mut Moments,
    ) -> Result<Copiers, String> {
        let start = |number| {
            let id = format!("{group}-{number}");
            let seed = moments.next(1 << 30).to_string();
            ClientProcess::start(&["copier", address, group, protocol, &id, &seed])
        };
        Ok(Copiers {
            group,
            present: (0..MEMBERS).map(start).collect::<Result<_, _>>()?,
            clock: Clock::new(),
            stops: 0,
        })
    }

    /// The next one in turn, as it is about to commit; false when it was too late for that.
    fn stop_one(&mut self) -> Result<bool, String> {
        let copier = &self.present[0];
        copier.wait_for("ready", copier.said("ready") + 1, PATIENCE)?;
        copier.signal("STOP")?;
        let since = copier.last("ready").and_then(|time| time.parse().ok());
        let since: u64 = since.ok_or("a copier says what nobody understands")?;
        let stood = Duration::from_nanos(self.clock.now().saturating_sub(since)) + STOP_MAX;
        self.stops += usize::from(stood < LINGER);
        Ok(stood < LINGER)
    }

    /// The others go on with what it had; then it comes back.
    fn wake(&mut self, was_about_to_commit: bool) -> Result<(), String> {
        let others = self.present[1..].iter();
        let copies: Vec<usize> = others.clone().map(|other| other.said("copied")).collect();
        for (other, copies) in others.zip(copies) {
            other.wait_for("copied", copies + COPIES, PATIENCE)?;
        }
        let zombie = self.present.remove(0);
        let (refused, copied) = (zombie.said("refused"), zombie.said("copied"));
        zombie.signal("CONT")?;
        if was_about_to_commit {
            let heard = zombie.wait_for("refused", refused + 1, PATIENCE);
            if zombie.said("copied") > copied && zombie.said("refused") == refused {
                return Err(format!(
                    "{}: the commit of a member was taken that is none any more",
                    self.group
                ));
            }
            heard?;
        }
        self.present.push(zombie);
        Ok(())
    }
}

pub(crate) fn run(plan: &Plan, place: &Place) -> Outcome {
    let launch = with_short_sessions(Launch::new(plan, place, &place.dir.join("data"))?);
    let mut broker = launch.start()?;
    let address = launch.address();
    for topic in [TOPIC, OUTPUTS[0], OUTPUTS[1]] {
        create_topic(&address, topic)?;
    }
    let mut moments = Moments(plan.seed);
    let stop_feeding = Arc::new(AtomicBool::new(false));
    let feeder = {
        let (address, stop) = (address.clone(), Arc::clone(&stop_feeding));
        std::thread::spawn(move || eos::feed(&address, TOPIC, PAUSE / 4, &stop))
    };
    let start = |group| Copiers::start(&address, group, &mut moments);
    let mut groups: Vec<Copiers> = GROUPS.into_iter().map(start).collect::<Result<_, _>>()?;
    for round in 0..ROUNDS {
        let mut hits = Vec::new();
        for copiers in &mut groups {
            hits.push(copiers.stop_one()?);
        }
        if round % 2 == 1 {
            broker.kill();
            broker = launch.start()?;
        }
        std::thread::sleep(SESSION * 2);
        for (copiers, hit) in groups.iter_mut().zip(hits) {
            copiers.wake(hit)?;
        }
    }
    stop_feeding.store(true, Ordering::Release);
    let sent = feeder.join().map_err(|_| "the feeder panicked")?;
    let sent = sent.map_err(|error| format!("the feeder was told: {error}"))?;
    let mut inputs = BTreeMap::new();
    eos::read(&address, TOPIC, |taken| {
        inputs.insert((taken.partition, taken.offset), taken.value);
    })?;
    let mut refusals = 0;
    for (copiers, output) in groups.into_iter().zip(OUTPUTS) {
        let Copiers {
            group,
            present,
            stops,
            ..
        } = copiers;
        let offsets = wait_for_all(&address, group, inputs.len() as i64)?;
        let count = |copier: &ClientProcess| copier.said("refused");
        let refused: usize = present.iter().map(count).sum();
        for copier in present {
            copier.finish(PATIENCE)?;
        }
        let mut outputs = Vec::new();
        eos::read(&address, output, |taken| outputs.push(taken.value))?;
        eos::judge(sent, &inputs, outputs, &offsets).map_err(|why| format!("{group}: {why}"))?;
        if stops * 2 < ROUNDS {
            return Err(format!(
                "vacuous: {group} was stopped {stops} times as it was about to commit"
            ));
        }
        refusals += refused;
    }
    broker.kill();
    place.say(&format!(
        "{} copiers stopped beyond their session, {refusals} commits refused by their groups; {sent} inputs, each copied once",
        ROUNDS * GROUPS.len()
    ));
    launch.check_words()?;
    Ok(Verdict::Passed)
}

/// Until as much is committed as there is; where each partition is then.
fn wait_for_all(address: &str, group: &str, inputs: i64) -> Result<BTreeMap<i32, i64>, String> {
    let begun = Instant::now();
    loop {
        let told = connect(address, PATIENCE).and_then(|mut client| client.committed(group));
        let told = told.map_err(|error| format!("asking for the commits: {error}"))?;
        let parts = told.into_iter();
        let offsets: BTreeMap<i32, i64> = parts
            .map(|((_, partition), committed)| (partition, committed.offset))
            .collect();
        if offsets.values().sum::<i64>() >= inputs {
            return Ok(offsets);
        }
        if begun.elapsed() > PATIENCE {
            return Err(format!(
                "{group} does not copy its input to the end: {offsets:?}"
            ));
        }
        std::thread::sleep(PAUSE);
    }
}
