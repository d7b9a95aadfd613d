//! Workers of the simulated machines: one turn at a time, in an order drawn from the seed.
//!
//! A worker that sleeps is parked with an instant in the past. Nothing blocks, and what it asked (which bells, which poller)
//! is what can wake it: a ring of the wrong bell leaves it asleep, here as in reality. Time moves only when all sleep. Those
//! that can run are found from what happened (a ring, news of a poller, a time that came), never by asking all.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use model::Instant;
use parking_lot::MutexGuard;

use super::host::{Host, HostId, Life};
use super::trace::Event;
use super::world::{SharedWorld, World};
use crate::threads::{Bell, Threads, Turn, Worker};

/// How long a worker is kept from going on, at most.
const INTERRUPT_NANOS: u64 = 2_000_000;

#[derive(Default)]
pub(crate) struct Crew {
    /// By id, which grows.
    workers: Vec<Member>,
    next_worker: u64,
    bells: BTreeMap<u64, BellState>,
    next_bell: u64,
    /// Workers that may have a turn: all that can are among them, but for those whose time has just come.
    stirred: BTreeSet<u64>,
    /// When sleepers wake by themselves.
    timers: BTreeSet<(u64, u64)>,
    /// Set while a worker runs: a wait then returns at once.
    current: Option<Listening>,
    /// That worker is in the middle of its turn, and another one has its own meanwhile.
    is_interrupted: bool,
}

struct BellState {
    host: HostId,
    is_rung: bool,
    /// Workers that ever slept on it.
    sleepers: Vec<u64>,
}

struct Member {
    id: u64,
    host: HostId,
    name: String,
    /// Its waits take its own time, not that of the machine.
    is_syncer: bool,
    /// Its host counts it, and is not at rest before it has ended.
    is_counted: bool,
    /// Away while its turn is taken.
    worker: Option<Box<dyn Worker>>,
    state: WorkerState,
}

enum WorkerState {
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

struct Listening {
    host: HostId,
    ears: Ears,
    heard: bool,
    is_syncer: bool,
    /// Nanoseconds that its syncs take.
    syncing: u64,
}

impl Listening {
    fn new(host: HostId, is_syncer: bool) -> Listening {
        Listening {
            host,
            ears: Ears::default(),
            heard: false,
            is_syncer,
            syncing: 0,
        }
    }
}

impl Crew {
    fn place(&self, id: u64) -> Option<usize> {
        self.workers
            .binary_search_by_key(&id, |member| member.id)
            .ok()
    }

    /// A sync takes `nanos` of the running worker's time if it is a syncer's.
    pub(crate) fn spend_alone(&mut self, nanos: u64) -> bool {
        let syncer = self.current.as_mut().filter(|current| current.is_syncer);
        let is_alone = syncer.is_some();
        syncer.into_iter().for_each(|it| it.syncing += nanos);
        is_alone
    }

    /// Nanoseconds that the syncs of the running syncer take so far.
    pub(crate) fn spent_alone(&self) -> Option<u64> {
        let syncer = self.current.as_ref().filter(|current| current.is_syncer);
        syncer.map(|syncer| syncer.syncing)
    }
}

/// The kind of one step of the machine.
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
    /// True if a worker is running now, which therefore must not be made to wait.
    pub(crate) fn in_turn(&self) -> bool {
        self.crew.current.is_some()
    }

    /// A poller reports that the running worker waits for it, and whether it had something to report.
    pub(crate) fn listens_to_poller(&mut self, poller: u64, heard: bool) {
        if let Some(current) = &mut self.crew.current {
            current.ears.pollers.push(poller);
            current.heard |= heard;
        }
    }

    /// Those that can have a turn now, by age.
    fn ready(&mut self) -> Vec<u64> {
        let World {
            now,
            network,
            crew,
            hosts,
            ..
        } = self;
        let Crew {
            workers,
            bells,
            stirred,
            timers,
            ..
        } = crew;
        stirred.extend(network.stirred.drain(..));
        while let Some((until, id)) = timers.first().copied()
            && until <= *now
        {
            timers.pop_first();
            stirred.insert(id);
        }
        let mut ready = Vec::new();
        stirred.retain(|id| {
            let member = workers.binary_search_by_key(id, |member| member.id);
            let member = member.ok().map(|place| &workers[place]);
            let Some(member) = member.filter(|member| member.worker.is_some()) else {
                return false;
            };
            let can_run = match &member.state {
                WorkerState::Ready => true,
                WorkerState::Ended => false,
                WorkerState::Asleep { until, ears } => {
                    let rings = |bell| bells.get(bell).is_some_and(|bell| bell.is_rung);
                    until.is_some_and(|until| until.0 <= *now)
                        || ears.bells.iter().any(rings)
                        || ears.pollers.iter().any(|it| network.has_news(*it))
                }
            };
            let host = &hosts[member.host.index()];
            if can_run && host.still_until() <= *now && host.crashed.is_none() {
                ready.push(*id);
            }
            can_run
        });
        ready
    }

    /// When something happens by itself, if nobody can have a turn now.
    fn next_instant(&self) -> Option<u64> {
        let timer = self.crew.timers.first().map(|(until, _)| *until);
        let still = self.hosts.iter().map(Host::still_until);
        let still = still.filter(|until| *until > self.now);
        still.chain(timer).chain(self.network.next_event()).min()
    }

    pub(crate) fn workers_count(&self, host: HostId) -> usize {
        self.host(host).workers_count
    }

    /// The sleepers of a host and what they wait for, for a run that got stuck.
    pub(crate) fn describe_workers(&self, host: HostId) -> String {
        let describe = |member: &Member| match &member.state {
            WorkerState::Ready => format!("{} ready", member.name),
            WorkerState::Ended => format!("{} ended", member.name),
            WorkerState::Asleep { until, ears } => format!(
                "{} asleep until {:?} or bells {:?} or pollers {:?}",
                member.name, until, ears.bells, ears.pollers
            ),
        };
        let workers = self.crew.workers.iter();
        let workers = workers.filter(|member| member.host == host).map(describe);
        workers.collect::<Vec<_>>().join("; ")
    }

    /// Takes all workers off a machine that lost its power or its process.
    pub(crate) fn dismiss(&mut self, host: HostId) -> Vec<Box<dyn Worker>> {
        let Crew {
            workers,
            bells,
            timers,
            ..
        } = &mut self.crew;
        bells.retain(|_, bell| bell.host != host);
        let gone = workers.extract_if(.., |member| member.host == host);
        let gone = gone.filter_map(|member| {
            if let WorkerState::Asleep {
                until: Some(until), ..
            } = member.state
            {
                timers.remove(&(until.0, member.id));
            }
            member.worker
        });
        gone.collect()
    }
}

/// Takes one turn, or moves time when nobody can run. `limit` bounds where time may move to.
pub(crate) fn step(shared: &SharedWorld, limit: Option<u64>) -> Step {
    let mut world = shared.world.lock();
    if world.is_all_off() {
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
    let worker = *world.chance.pick(&ready);
    take_turn(shared, world, worker);
    Step::Turn
}

/// Now and then others have their turns while the running worker polls, as threads do beside one that gets no processor.
pub(crate) fn interrupt(shared: &SharedWorld) {
    let mut world = shared.world.lock();
    let Some(host) = world.crew.current.as_ref().map(|current| current.host) else {
        return;
    };
    let one_in = world.host(host).faults.interrupts_one_in;
    let may_be = one_in > 0 && !world.crew.is_interrupted;
    if !may_be || !world.chance.one_in(one_in) {
        return;
    }
    world.crew.is_interrupted = true;
    let end = world.now + world.chance.below(INTERRUPT_NANOS);
    while world.now < end && world.host(host).crashed.is_none() {
        world.deliver();
        let ready = world.ready();
        if ready.is_empty() {
            let next = world.next_instant().filter(|next| world.now < *next);
            world.now = next.map_or(end, |next| next.min(end));
            continue;
        }
        let worker = *world.chance.pick(&ready);
        take_turn(shared, world, worker);
        world = shared.world.lock();
    }
    world.crew.is_interrupted = false;
}

fn take_turn(shared: &SharedWorld, mut world: MutexGuard<'_, World>, id: u64) {
    // Thinking takes time, so that a worker that never sleeps does not stop the clock.
    world.now += world.chance.between(500, 5_000);
    let index = world.crew.place(id).expect("a ready worker is there");
    world.note(&Event::Turn { worker: index });
    let World { crew, hosts, .. } = &mut *world;
    let member = &mut crew.workers[index];
    let host = member.host;
    hosts[host.index()].counts.turns += 1;
    let asleep_until = match &member.state {
        WorkerState::Asleep { until, .. } => Some(*until),
        WorkerState::Ready | WorkerState::Ended => None,
    };
    if let Some(Some(until)) = asleep_until {
        crew.timers.remove(&(until.0, id));
    }
    let mut worker = member
        .worker
        .take()
        .expect("only workers at home are picked");
    let is_syncer = member.is_syncer;
    let outer = crew.current.replace(Listening::new(host, is_syncer));
    drop(world);

    if asleep_until.is_some() {
        worker.park(Some(Instant(0)));
    }
    let turn = worker.turn();
    let parking = Listening::new(host, is_syncer);
    let ended = shared.world.lock().crew.current.replace(parking);
    let syncing = ended.map_or(0, |of| of.syncing);
    if matches!(turn, Turn::Sleep { .. }) {
        worker.park(Some(Instant(0)));
    }

    let mut world = shared.world.lock();
    let listening = std::mem::replace(&mut world.crew.current, outer);
    let listening = listening.unwrap_or_else(|| Listening::new(host, false));
    let state = match turn {
        Turn::Again | Turn::Sleep { .. } if syncing > 0 => Some(WorkerState::Asleep {
            until: Some(Instant(world.now + syncing)),
            ears: Ears::default(),
        }),
        Turn::Again => Some(WorkerState::Ready),
        Turn::Sleep { .. } if listening.heard => Some(WorkerState::Ready),
        Turn::Sleep { until } => Some(WorkerState::Asleep {
            until,
            ears: listening.ears,
        }),
        Turn::Done => None,
    };
    match state {
        Some(state) => world.end_turn(id, worker, state),
        None => {
            if let Some(index) = world.crew.place(id) {
                world.crew.workers[index].state = WorkerState::Ended;
                let is_counted = world.crew.workers[index].is_counted;
                world.host_mut(host).workers_count -= usize::from(is_counted);
            }
            drop(world);
            drop(worker);
            world = shared.world.lock();
        }
    }
    if !world.crew.is_interrupted {
        let workers = &mut world.crew.workers;
        workers.retain(|member| !matches!(member.state, WorkerState::Ended));
    }
}

impl World {
    /// A worker has had its turn, and is `state` from here on.
    fn end_turn(&mut self, id: u64, worker: Box<dyn Worker>, state: WorkerState) {
        let World { crew, network, .. } = self;
        if let WorkerState::Asleep { until, ears } = &state {
            if let Some(until) = until {
                crew.timers.insert((until.0, id));
            }
            for bell in &ears.bells {
                if let Some(bell) = crew.bells.get_mut(bell)
                    && !bell.sleepers.contains(&id)
                {
                    bell.sleepers.push(id);
                }
            }
            for poller in &ears.pollers {
                network.sleeps_on(*poller, id);
            }
        }
        // Something may have come since it looked.
        crew.stirred.insert(id);
        if let Some(index) = crew.place(id) {
            let member = &mut crew.workers[index];
            (member.state, member.worker) = (state, Some(worker));
        }
    }
}

pub(crate) struct SimThreads {
    pub(crate) shared: SharedWorld,
    pub(crate) life: Life,
}

impl SimThreads {
    fn add(&self, name: &str, worker: Box<dyn Worker>, (is_syncer, is_counted): (bool, bool)) {
        let mut world = self.shared.world.lock();
        if world.check_on(self.life).is_ok() {
            world.host_mut(self.life.host).workers_count += usize::from(is_counted);
            let crew = &mut world.crew;
            crew.next_worker += 1;
            crew.stirred.insert(crew.next_worker);
            crew.workers.push(Member {
                id: crew.next_worker,
                host: self.life.host,
                name: name.to_owned(),
                is_syncer,
                is_counted,
                worker: Some(worker),
                state: WorkerState::Ready,
            });
        }
    }
}

impl Crew {
    pub(crate) fn ring(&mut self, bell: u64) {
        if let Some(bell) = self.bells.get_mut(&bell) {
            bell.is_rung = true;
            self.stirred.extend(&bell.sleepers);
        }
    }
}

impl SimThreads {
    /// A bell, and its number.
    pub(crate) fn new_bell(&self) -> (Arc<dyn Bell>, u64) {
        let mut world = self.shared.world.lock();
        let number = world.crew.next_bell;
        world.crew.next_bell += 1;
        let bell = BellState {
            host: self.life.host,
            is_rung: false,
            sleepers: Vec::new(),
        };
        world.crew.bells.insert(number, bell);
        let bell = SimBell {
            shared: self.shared.clone(),
            life: self.life,
            number,
        };
        (Arc::new(bell), number)
    }
}

impl Threads for SimThreads {
    fn bell(&self) -> Arc<dyn Bell> {
        self.new_bell().0
    }

    fn spawn(&self, name: &str, worker: Box<dyn Worker>) {
        self.add(name, worker, (false, true));
    }

    fn spawn_syncer(&self, name: &str, worker: Box<dyn Worker>) {
        self.add(name, worker, (true, true));
    }

    fn spawn_aside(&self, name: &str, worker: Box<dyn Worker>) {
        self.add(name, worker, (true, false));
    }

    fn join(&self) {
        let host = self.life.host;
        while self.shared.world.lock().workers_count(host) > 0 {
            match step(&self.shared, None) {
                Step::Turn | Step::Time => {}
                Step::Idle => panic!(
                    "joined workers sleep for ever: {}",
                    self.shared.world.lock().describe_workers(host)
                ),
                Step::Off => return,
            }
        }
    }
}

struct SimBell {
    shared: SharedWorld,
    life: Life,
    number: u64,
}

impl SimBell {
    fn take(&self) -> bool {
        let mut world = self.shared.world.lock();
        let rung = world
            .crew
            .bells
            .get_mut(&self.number)
            .is_some_and(|bell| std::mem::take(&mut bell.is_rung));
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
        if world.check_on(self.life).is_ok() {
            world.crew.ring(self.number);
        }
    }

    fn wait(&self, until: Option<Instant>) {
        loop {
            let rung = self.take();
            let world = self.shared.world.lock();
            let now = world.now_on(self.life.host);
            let over = until.is_some_and(|until| until.0 <= now);
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
