//! Starts that must be refused with a sentence that helps, and stops that must leave nothing to do.

use std::net::TcpListener;

use crate::broker::Launch;
use crate::ledger::judge;
use crate::load::{Load, TOPIC, create_topic, read_all};
use crate::place::Place;
use crate::volume::{FileSystem, Volume};
use crate::{Outcome, Plan, Verdict};

fn says(words: &str, needed: &[&str]) -> Result<(), String> {
    match needed.iter().find(|needed| !words.contains(**needed)) {
        None => Ok(()),
        Some(missing) => Err(format!(
            "it should have named {missing:?}, and said: {words}"
        )),
    }
}

/// SIGTERM under load ends with code 0, and the next start replays nothing.
pub(crate) fn clean_stop(plan: &Plan, place: &Place) -> Outcome {
    let launch = Launch::new(plan, place, &place.dir.join("data"))?;
    let mut broker = launch.start()?;
    create_topic(&launch.address(), TOPIC)?;
    let load = Load::start(&launch.address());
    for _ in 0..3 {
        load.wait_for_acks(300)?;
        let status = broker.stop()?;
        if !status.success() {
            return Err(format!(
                "SIGTERM ended it with {status}: {}",
                launch.last_words()
            ));
        }
        broker = launch.start()?;
    }
    load.wait_for_acks(100)?;
    let (accounts, shown) = load.finish()?;
    let counts = judge(&accounts, &shown, &read_all(&launch.address())?)?;
    broker.stop()?;
    launch.check_words()?;
    if let Some(line) = launch
        .words()
        .lines()
        .find(|line| line.contains("recovered"))
    {
        return Err(format!("a clean stop left work for the next start: {line}"));
    }
    place.say(&format!(
        "3 stops under load, {} records acknowledged and there",
        counts.acked
    ));
    Ok(Verdict::Passed)
}

pub(crate) fn port_in_use(plan: &Plan, place: &Place) -> Outcome {
    let launch = Launch::new(plan, place, &place.dir.join("data"))?;
    let taken = TcpListener::bind(launch.address()).map_err(|error| error.to_string())?;
    let words = launch.refusal()?;
    says(&words, &["cannot listen on", &launch.address()])?;
    drop(taken);
    // The refused start harmed nothing.
    launch.start()?.kill();
    Ok(Verdict::Passed)
}

pub(crate) fn second_broker(plan: &Plan, place: &Place) -> Outcome {
    let data = place.dir.join("data");
    let first = Launch::new(plan, place, &data)?;
    let broker = first.start()?;
    let second = Launch::new(plan, place, &data)?;
    let words = second.refusal()?;
    says(
        &words,
        &["in use by another broker", &data.display().to_string()],
    )?;
    create_topic(&first.address(), TOPIC)
        .map_err(|why| format!("the first broker suffered: {why}"))?;
    broker.kill();
    // The lock went with its process.
    second.start()?.kill();
    Ok(Verdict::Passed)
}

pub(crate) fn unwritable_directory(plan: &Plan, place: &Place) -> Outcome {
    let file = place.dir.join("file");
    std::fs::write(&file, "not a directory").map_err(|error| error.to_string())?;
    let below = file.join("data");
    let launch = Launch::new(plan, place, &below)?;
    says(&launch.refusal()?, &[&below.display().to_string()])?;
    let mut volume = match Volume::new(place, "unwritable", FileSystem::Ext4, 256) {
        Ok(volume) => volume,
        Err(why) => {
            return Ok(Verdict::Skipped(format!(
                "read-only part needs root and loop devices ({why})"
            )));
        }
    };
    let launch = Launch::new(plan, place, &volume.mount.join("data"))?;
    launch.start()?.stop()?;
    volume.unmount()?;
    volume.mount(true)?;
    says(
        &launch.refusal()?,
        &[&launch.data.display().to_string(), "ead-only"],
    )?;
    volume.unmount()?;
    volume.mount(false)?;
    launch.start()?.kill();
    Ok(Verdict::Passed)
}

pub(crate) fn missing_directory(plan: &Plan, place: &Place) -> Outcome {
    let launch = Launch::new(plan, place, &place.dir.join("not/there/yet"))?;
    let broker = launch.start()?;
    create_topic(&launch.address(), TOPIC)?;
    broker.kill();
    launch.start()?.kill();
    Ok(Verdict::Passed)
}

/// Half of a data directory is not a data directory.
pub(crate) fn foreign_directory(plan: &Plan, place: &Place) -> Outcome {
    let launch = Launch::new(plan, place, &place.dir.join("data"))?;
    let broker = launch.start()?;
    create_topic(&launch.address(), TOPIC)?;
    broker.stop()?;
    let checkpoint = launch.data.join("esker.checkpoint");
    let bytes = std::fs::read(&checkpoint).map_err(|error| error.to_string())?;
    let write =
        |bytes: &[u8]| std::fs::write(&checkpoint, bytes).map_err(|error| error.to_string());
    let mut flipped = bytes.clone();
    if let Some(byte) = flipped.last_mut() {
        *byte ^= 1;
    }
    write(&flipped)?;
    says(&launch.refusal()?, &["esker.checkpoint", "does not verify"])?;
    write(&bytes)?;
    let properties = launch.data.join("meta.properties");
    let identity = std::fs::read_to_string(&properties).map_err(|error| error.to_string())?;
    std::fs::write(&properties, identity.replace("node.id=", "node.id=9"))
        .map_err(|error| error.to_string())?;
    says(&launch.refusal()?, &["belongs to node 9"])?;
    std::fs::write(&properties, identity).map_err(|error| error.to_string())?;
    launch.start()?.kill();
    Ok(Verdict::Passed)
}
