//! The quorum alone: raft machines on model disks and a model network, without brokers (M-01).
//!
//! One seed is one run. Messages are lost, doubled, reordered; processes die, power fails, clocks drift, nodes are cut off; vote
//! files rot and disks are replaced; operators change the voters meanwhile. [`oracle`] holds every step against Raft's promises, and
//! after the faults end there must be a leader and progress.

mod disk;
mod faults;
mod node;
mod oracle;
mod perform;
mod plan;
mod world;

pub use plan::Plan;
pub use world::Counts;

use world::World;

/// The outcome of a run.
#[derive(Clone, Debug)]
pub struct Verdict {
    pub counts: Counts,
    pub trace: u64,
    /// The first promise that was broken.
    pub broken: Option<String>,
}

/// Runs a seed.
#[must_use]
pub fn run(seed: u64, is_verbose: bool) -> Verdict {
    let plan = Plan::of(seed);
    let chaos = plan.chaos;
    let mut world = World::new(seed, plan, is_verbose);
    world.begin();
    let mut end = chaos;
    let broken = world
        .play(end)
        .and_then(|()| world.heal())
        .and_then(|()| {
            end += world.healing_takes();
            world.play(end)
        })
        .and_then(|()| world.check_progress());
    world.say_all();
    world.counts.elections = world.oracle.elections() as u64;
    Verdict {
        counts: world.counts,
        trace: world.trace(),
        broken: broken.err(),
    }
}

#[cfg(test)]
mod tests;
