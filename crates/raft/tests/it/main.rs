//! Scripts: a few replicas, messages delivered when the script says so, and what must be true then. One script for each rule.

mod clusters;
mod disk;
mod doors;
mod election;
mod garbage;
mod misfits;
mod nodes;
mod replication;
mod snapshots;
mod voters;
mod votes;
mod world;

use world::World;

/// Plays `commands => expectations`, both separated by bars. The commands are those of [`World::play`], the expectations those of
/// [`World::expect`].
#[track_caller]
fn check(script: &str) {
    let (commands, expectations) = script.split_once("=>").expect("a script has two sides");
    let mut world = World::default();
    for command in commands.split('|') {
        world.play(command.trim());
    }
    for expectation in expectations.split('|') {
        if let Err(problem) = world.expect(expectation.trim()) {
            panic!("{script}\n{problem}");
        }
    }
}
