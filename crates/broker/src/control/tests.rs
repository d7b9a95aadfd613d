//! The vote of the only voter: over starts, losses and power cuts.

use std::path::Path;

use env::sim::{Faults, Machine};
use model::{BrokerId, LeaderEpoch};
use raft::quorum_state::{CHECK_NAME, FILE_NAME};
use raft::{Election, VoteFile, VoterSet};

use super::vote_file::{load, store};
use crate::event_loop::bench::Bench;

const DIR: &str = "/data";

fn epoch(bench: &Bench) -> LeaderEpoch {
    bench.shard.desk.shared.metadata.log_bounds().epoch
}

#[test]
fn each_start_leads_the_metadata_log_in_a_new_epoch_and_keeps_what_it_says() {
    let mut bench = Bench::new();
    bench.create("t", 3);
    bench.commit();
    assert_eq!(epoch(&bench), LeaderEpoch(1));
    for starts in 2..5 {
        bench = bench.restart();
        assert_eq!(epoch(&bench), LeaderEpoch(starts));
        let image = bench.shard.desk.shared.metadata.image();
        assert_eq!(
            image.topic("t").map(|topic| topic.partitions.len()),
            Some(3)
        );
        assert_eq!(image.last_epoch(), LeaderEpoch(starts));
    }
}

#[test]
fn the_only_voter_leads_though_its_vote_file_is_lost_or_damaged() {
    for lost in [&[FILE_NAME][..], &[CHECK_NAME], &[FILE_NAME, CHECK_NAME]] {
        let bench = Bench::new().restart();
        let disk = bench.shard.desk.shared.env.disk.clone();
        for name in lost {
            disk.remove_file(&Path::new(DIR).join(name))
                .expect("it is there");
        }
        assert_eq!(epoch(&bench.restart()), LeaderEpoch(3), "{lost:?}");
    }
    let bench = Bench::new().restart();
    bench.rot("/data/quorum-state", 1);
    assert_eq!(epoch(&bench.restart()), LeaderEpoch(3));
}

#[test]
fn a_vote_file_is_the_old_or_the_new_one_wherever_the_power_goes() {
    let election = |epoch| Election {
        epoch: LeaderEpoch(epoch),
        leader: Some(BrokerId(1)),
        voted: None,
    };
    let voters = VoterSet::default();
    let mut seen = [0, 0];
    for seed in 0..40 {
        for at in 1..30 {
            let machine = Machine::new(seed, Faults::default());
            let env = machine.env();
            let dir = Path::new(DIR);
            env.disk.create_dir_all(dir).expect("a new directory");
            env.disk
                .sync_dir(Path::new("/"))
                .expect("a disk that works");
            let begun = store(&*env.disk, dir, &election(1), 0, &voters);
            begun.expect("a disk that works");
            let operation = machine.counts().disk_ops + at;
            machine.faults(|faults| faults.crash_at_op = Some(operation));
            let done = store(&*env.disk, dir, &election(2), 0, &voters);
            machine.power_cut();
            machine.faults(|faults| faults.crash_at_op = None);
            let found = load(&*machine.env().disk, dir).expect("a disk that works");
            let VoteFile::Known(found) = found else {
                panic!("seed {seed}, operation {at}: {found:?}");
            };
            assert!(done.is_err() || found == election(2));
            seen[usize::from(found == election(2))] += 1;
        }
    }
    assert!(seen.iter().all(|times| *times > 10), "{seen:?}");
}
