//! Workers of a simulated machine: one turn at a time, in an order drawn from the seed.
//!
//! A worker that sleeps is parked with an instant in the past. Nothing blocks, and what it asked (which bells, which poller)
//! is what can wake it: a ring of the wrong bell leaves it asleep, here as in reality. Time moves only when all sleep.

use std::collections::BTreeMap;
use std::sync::Arc;

use model::Instant;
use parking_lot::MutexGuard;

use super::trace::Event;
use super::world::{SharedWorld, World};
use crate::threads::{Bell, Threads, Turn, Worker};

/// How long a worker is kept from going on, at most.
const INTERRUPT_NANOS: u64 = 2_000_000;

#[derive(Default)]
pub(crate) struct Crew {
    workers: Vec<Member>,
    /// Bells by number, true when rung and not yet heard.
    bells: BTreeMap<u64, bool>,
    next_bell: u64,
    /// Set while a worker runs: whoever waits then must not wait.
    current: Option<Listening>,
    /// That worker is in the middle of its turn, and another one has its own meanwhile.
    is_interrupted: bool,
}

struct Member {
    name: String,
    /// Its syncs take its own time, not that of the machine.
    is_syncer: bool,
    /// Away while its turn is taken.
    worker: Option<Box<dyn Worker>>,
    state: State,
}

enum State {
    Ready,
    Asleep {
        until: Option<Instant>,
        ears: Ears,
    },
    /// Taken off the list once nobody is in the middle of a turn.
    Ended,
}

#[derive(Default)]
struct Ears {
    bells: Vec<u64>,
    pollers: Vec<u64>,
}

#[derive(Default)]
struct Listening {
    ears: Ears,
    heard: bool,
    is_syncer: bool,
    /// Nanoseconds that its syncs take.
    syncing: u64,
}

/// What one step of the machine was.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step {
    /// A worker took a turn.
    Turn,
    /// Everyone slept and time moved to the next event.
    Time,
    /// Everyone sleeps and nothing will ever happen by itself.
    Idle,
    /// The power is gone; see [`Machine::power_cut`](super::Machine::power_cut).
    Off,
}

impl World {
    /// Whether a worker is running now, which therefore must not be made to wait.
    pub(crate) fn in_turn(&self) -> bool {
        self.crew.current.is_some()
    }

    /// A sync takes `nanos`, of everyone's time or of the running worker's alone.
    pub(crate) fn spend_sync(&mut self, nanos: u64) {
        match &mut self.crew.current {
            Some(current) if current.is_syncer => current.syncing += nanos,
            _ => self.now += nanos,
        }
    }

    /// A poller tells that the running worker waits for it, and whether it had something to tell.
    pub(crate) fn listens_to_poller(&mut self, poller: u64, heard: bool) {
        if let Some(current) = &mut self.crew.current {
            current.ears.pollers.push(poller);
            current.heard |= heard;
        }
    }

    fn can_run(&self, member: &Member) -> bool {
        match &member.state {
            State::Ready => true,
            State::Ended => false,
            State::Asleep { until, ears } => {
                until.is_some_and(|until| until.0 <= self.now)
                    || ears
                        .bells
                        .iter()
                        .any(|bell| self.crew.bells.get(bell) == Some(&true))
                    || ears
                        .pollers
                        .iter()
                        .any(|poller| self.network.has_news(*poller))
            }
        }
    }

    /// The places of those that can have a turn now.
    fn ready(&self) -> Vec<usize> {
        let members = self.crew.workers.iter().enumerate();
        let ready = members.filter(|(_, member)| member.worker.is_some() && self.can_run(member));
        ready.map(|(index, _)| index).collect()
    }

    fn next_instant(&self) -> Option<u64> {
        let at_home = (self.crew.workers.iter()).filter(|member| member.worker.is_some());
        let sleepers = at_home.filter_map(|member| match member.state {
            State::Asleep { until, .. } => until.map(|until| until.0),
            State::Ready | State::Ended => None,
        });
        sleepers.chain(self.network.next_event()).min()
    }

    pub(crate) fn workers_count(&self) -> usize {
        self.crew.workers.len()
    }

    /// Who sleeps and on what, for a run that got stuck.
    pub(crate) fn describe_workers(&self) -> String {
        let describe = |member: &Member| match &member.state {
            State::Ready => format!("{} ready", member.name),
            State::Ended => format!("{} ended", member.name),
            State::Asleep { until, ears } => format!(
                "{} asleep until {:?} or bells {:?} or pollers {:?}",
                member.name, until, ears.bells, ears.pollers
            ),
        };
        self.crew
            .workers
            .iter()
            .map(describe)
            .collect::<Vec<_>>()
            .join("; ")
    }

    /// Takes all workers off a machine that lost its power or its process.
    pub(crate) fn dismiss(&mut self) -> Vec<Box<dyn Worker>> {
        self.crew.bells.clear();
        self.crew
            .workers
            .drain(..)
            .filter_map(|member| member.worker)
            .collect()
    }
}

/// Takes one turn, or moves time when nobody can run. `limit` bounds where time may move to.
pub(crate) fn step(shared: &SharedWorld, limit: Option<u64>) -> Step {
    let mut world = shared.world.lock();
    if world.crashed {
        return Step::Off;
    }
    world.deliver();
    let ready = world.ready();
    if ready.is_empty() {
        let next = match (world.next_instant(), limit) {
            (Some(next), Some(limit)) => next.min(limit),
            (Some(next), None) => next,
            (None, Some(limit)) if limit > world.now => limit,
            (None, _) => return Step::Idle,
        };
        if next <= world.now {
            return Step::Idle;
        }
        world.now = next;
        world.note(&Event::Time { now: next });
        return Step::Time;
    }
    let index = *world.chance.pick(&ready);
    take_turn(shared, world, index);
    Step::Turn
}

/// Now and then others have their turns while the running worker polls, as threads do beside one that gets no processor.
pub(crate) fn interrupt(shared: &SharedWorld) {
    let mut world = shared.world.lock();
    let one_in = world.faults.interrupts_one_in;
    let may_be = one_in > 0 && world.in_turn() && !world.crew.is_interrupted;
    if !may_be || !world.chance.one_in(one_in) {
        return;
    }
    world.crew.is_interrupted = true;
    let end = world.now + world.chance.below(INTERRUPT_NANOS);
    while world.now < end && !world.crashed {
        world.deliver();
        let ready = world.ready();
        if ready.is_empty() {
            let next = world.next_instant().filter(|next| world.now < *next);
            world.now = next.map_or(end, |next| next.min(end));
            continue;
        }
        let index = *world.chance.pick(&ready);
        take_turn(shared, world, index);
        world = shared.world.lock();
    }
    world.crew.is_interrupted = false;
}

fn take_turn(shared: &SharedWorld, mut world: MutexGuard<'_, World>, index: usize) {
    world.counts.turns += 1;
    // Thinking takes time, so that a worker that never sleeps does not stop the clock.
    world.now += world.chance.between(500, 5_000);
    world.note(&Event::Turn { worker: index });
    let member = &mut world.crew.workers[index];
    let was_asleep = matches!(member.state, State::Asleep { .. });
    let mut worker = member
        .worker
        .take()
        .expect("only workers at home are picked");
    let is_syncer = member.is_syncer;
    let outer = world.crew.current.replace(Listening {
        is_syncer,
        ..Listening::default()
    });
    drop(world);

    if was_asleep {
        worker.park(Some(Instant(0)));
    }
    let turn = worker.turn();
    let ended = shared
        .world
        .lock()
        .crew
        .current
        .replace(Listening::default());
    let syncing = ended.map_or(0, |of| of.syncing);
    if matches!(turn, Turn::Sleep { .. }) {
        worker.park(Some(Instant(0)));
    }

    let mut world = shared.world.lock();
    let listening = std::mem::replace(&mut world.crew.current, outer).unwrap_or_default();
    let state = match turn {
        Turn::Again if syncing > 0 => Some(State::Asleep {
            until: Some(Instant(world.now + syncing)),
            ears: Ears::default(),
        }),
        Turn::Again => Some(State::Ready),
        Turn::Sleep { .. } if listening.heard => Some(State::Ready),
        Turn::Sleep { until } => Some(State::Asleep {
            until,
            ears: listening.ears,
        }),
        Turn::Done => None,
    };
    let member = &mut world.crew.workers[index];
    match state {
        Some(state) => (member.state, member.worker) = (state, Some(worker)),
        None => {
            member.state = State::Ended;
            drop(world);
            drop(worker);
            world = shared.world.lock();
        }
    }
    if !world.crew.is_interrupted {
        let workers = &mut world.crew.workers;
        workers.retain(|member| !matches!(member.state, State::Ended));
    }
}

pub(crate) struct SimThreads {
    pub(crate) shared: SharedWorld,
    pub(crate) boot: u64,
}

impl SimThreads {
    fn add(&self, name: &str, worker: Box<dyn Worker>, is_syncer: bool) {
        let mut world = self.shared.world.lock();
        if world.check_on(self.boot).is_ok() {
            world.crew.workers.push(Member {
                name: name.to_owned(),
                is_syncer,
                worker: Some(worker),
                state: State::Ready,
            });
        }
    }
}

impl Threads for SimThreads {
    fn bell(&self) -> Arc<dyn Bell> {
        let mut world = self.shared.world.lock();
        let number = world.crew.next_bell;
        world.crew.next_bell += 1;
        world.crew.bells.insert(number, false);
        Arc::new(SimBell {
            shared: self.shared.clone(),
            boot: self.boot,
            number,
        })
    }

    fn spawn(&self, name: &str, worker: Box<dyn Worker>) {
        self.add(name, worker, false);
    }

    fn spawn_syncer(&self, name: &str, worker: Box<dyn Worker>) {
        self.add(name, worker, true);
    }

    fn join(&self) {
        while self.shared.world.lock().workers_count() > 0 {
            match step(&self.shared, None) {
                Step::Turn | Step::Time => {}
                Step::Idle => panic!(
                    "joined workers sleep for ever: {}",
                    self.shared.world.lock().describe_workers()
                ),
                Step::Off => return,
            }
        }
    }
}

struct SimBell {
    shared: SharedWorld,
    boot: u64,
    number: u64,
}

impl SimBell {
    fn take(&self) -> bool {
        let mut world = self.shared.world.lock();
        let rung = world
            .crew
            .bells
            .get_mut(&self.number)
            .is_some_and(std::mem::take);
        if let Some(current) = &mut world.crew.current {
            current.ears.bells.push(self.number);
            current.heard |= rung;
        }
        rung
    }
}

impl Bell for SimBell {
    fn ring(&self) {
        let mut world = self.shared.world.lock();
        if world.check_on(self.boot).is_ok() {
            world.crew.bells.insert(self.number, true);
        }
    }

    fn wait(&self, until: Option<Instant>) {
        loop {
            let rung = self.take();
            let world = self.shared.world.lock();
            let over = until.is_some_and(|until| until.0 <= world.now);
            if rung || over || world.in_turn() {
                return;
            }
            drop(world);
            match step(&self.shared, until.map(|until| until.0)) {
                Step::Turn | Step::Time => {}
                Step::Idle => panic!("waiting for a bell that nobody will ring"),
                Step::Off => return,
            }
        }
    }
}
