//! The program that runs seeds: one of them that does not end, and children that judge none.

use std::process::Command;

/// Every crash state of a seed takes many times as long as the one second that is waited for it.
#[test]
fn a_seed_that_does_not_end_is_told_as_hanging_and_the_next_one_is_run() {
    let program = env!("CARGO_BIN_EXE_sim");
    let args = "--seed 7 --seeds 2 --jobs 1 --images all --patience 1";
    let run = Command::new(program).args(args.split(' ')).output();
    let run = run.expect("the program can be started");
    let told = String::from_utf8_lossy(&run.stdout);
    for seed in [7, 8] {
        let line = format!("FAILED {seed} it hangs: see sim --seed {seed} --images all");
        assert!(told.lines().any(|of| of == line), "{line} in\n{told}");
    }
    assert!(
        told.contains("2 seeds in") && told.contains("2 failed"),
        "{told}"
    );
    assert!(!run.status.success());
}

/// It ends, and never says that it begins.
const DEAF: &str = "/bin/true";

#[test]
fn a_seed_whose_process_ends_before_it_begins_has_failed() {
    let run = Command::new(env!("CARGO_BIN_EXE_sim"))
        .args("--seed 7 --seeds 3 --jobs 2".split(' '))
        .env("SIM_PROGRAM", DEAF)
        .output();
    let run = run.expect("the program can be started");
    let told = String::from_utf8_lossy(&run.stdout);
    for seed in [7, 8, 9] {
        let line = format!("FAILED {seed} the process ended: see sim --seed {seed} --verbose");
        assert!(told.lines().any(|of| of == line), "{line} in\n{told}");
    }
    assert!(
        told.contains("3 seeds in") && told.contains("3 failed"),
        "{told}"
    );
    assert!(!run.status.success());
}

#[test]
fn the_first_seed_that_fails_may_end_the_run() {
    let run = Command::new(env!("CARGO_BIN_EXE_sim"))
        .args("--seed 7 --seeds 300 --jobs 1 --first".split(' '))
        .env("SIM_PROGRAM", DEAF)
        .output();
    let run = run.expect("the program can be started");
    let told = String::from_utf8_lossy(&run.stdout);
    assert!(
        told.contains("1 seeds in") && told.contains("1 failed") && !told.contains("were run"),
        "{told}"
    );
    assert!(!run.status.success());
}
