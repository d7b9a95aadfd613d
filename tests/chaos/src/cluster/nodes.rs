//! Three brokers as one cluster, each at an end of its own of the network, and what is done to them.
//!
//! Owns their processes, their directories, on volumes that can lose their power where a scenario asks for these, and a watcher of
//! what the cluster says of itself.

use std::path::PathBuf;
use std::time::{Duration, Instant};

use client::{Client, Topic};

use crate::Plan;
use crate::broker::{Broker, Launch};
use crate::cluster::ground::Kind;
use crate::cluster::net::Net;
use crate::cluster::room::{Look, Room};
use crate::controller;
use crate::device::Lost;
use crate::groups::with_short_sessions;
use crate::load::{PARTITIONS, TOPIC, connect, create_replicated};
use crate::place::Place;
use crate::site::{contents, lost_bytes};
use crate::volume::{FileSystem, Volume};

pub(crate) const COUNT: usize = 3;
const PORT: u16 = 9092;
/// Of each node, mostly holes.
const VOLUME_MEBIBYTES: u64 = 768;
/// Limits of invariant I10: everything takes records so soon after all is well, and every replica is in sync so soon.
pub(crate) const WRITE_AGAIN_MAX: Duration = Duration::from_secs(15);
pub(crate) const IN_SYNC_MAX: Duration = Duration::from_secs(60);
/// Of each node of [`Kind::Small`].
pub(crate) const ROOM_BYTES: u64 = 512 << 20;
/// Records past a bound of bytes are removed within seconds, and their files. Not by time: transactions write records of 1970.
const SMALL_SETTINGS: [&str; 5] = [
    "log.retention.ms=-1",
    "log.retention.check.interval.ms=2000",
    "log.cleaner.backoff.ms=1000",
    "log.segment.delete.delay.ms=2000",
    "offsets.topic.segment.bytes=1048576",
];
const ANSWER_MAX: Duration = Duration::from_secs(5);
/// So short that a cut of some seconds is noticed, and longer than a busy machine keeps a broker from its heartbeat.
pub(crate) const SESSION: Duration = Duration::from_secs(6);
const SETTINGS: [&str; 10] = [
    "esker.http.listen=off",
    "broker.session.timeout.ms=6000",
    "broker.heartbeat.interval.ms=1000",
    "replica.lag.time.max.ms=6000",
    "default.replication.factor=3",
    "min.insync.replicas=2",
    // Beyond the clocks of a scenario.
    "log.message.timestamp.after.max.ms=86400000",
    "offsets.topic.replication.factor=3",
    "transaction.state.log.replication.factor=3",
    "transaction.state.log.min.isr=2",
];

pub(crate) struct Nodes {
    launches: Vec<Launch>,
    brokers: Vec<Option<Broker>>,
    volumes: Vec<Option<Volume>>,
    /// Of those that are small.
    rooms: Vec<Room>,
}

/// Nodes count from 1, as everywhere.
impl Nodes {
    /// Starts them, on volumes if power is to be cut, and creates the topic of the load.
    pub(crate) fn start(
        plan: &Plan,
        place: &Place,
        kind: Kind,
        net: &Net,
        dress: impl Fn(usize, Launch) -> Launch,
    ) -> Result<Nodes, String> {
        let voters = (1..=COUNT).map(|node| format!("{node}@{}:{PORT}", Net::host(node)));
        let voters = voters.collect::<Vec<_>>().join(",");
        let (mut launches, mut volumes, mut rooms) = (Vec::new(), Vec::new(), Vec::new());
        for node in 1..=COUNT {
            let name = format!("node-{node}");
            let volume = match kind {
                Kind::Power => Some(Volume::new(
                    place,
                    &name,
                    FileSystem::Ext4,
                    VOLUME_MEBIBYTES,
                )?),
                Kind::Caches => {
                    let seed = plan.seed + node as u64;
                    Some(Volume::with_cache(place, &name, VOLUME_MEBIBYTES, seed)?)
                }
                Kind::Plain | Kind::Small | Kind::Edits | Kind::Disks | Kind::Clocks => None,
            };
            let data = match &volume {
                Some(volume) => volume.mount.join("data"),
                None => place.dir.join(&name),
            };
            let (mut runner, mut settings) = (net.runner(node), SETTINGS.to_vec());
            if kind == Kind::Small {
                let room = Room::new(&name, ROOM_BYTES)?;
                runner = room.runner(runner);
                rooms.push(room);
                settings.extend(SMALL_SETTINGS);
            }
            let launch = Launch::new(plan, place, &data)?
                .at_port(PORT)
                .at_host(&Net::host(node), runner)
                .with_words(place.dir.join(format!("{name}.log")))
                .with_setting(&format!("node.id={node}"))
                .with_setting(&format!("controller.quorum.voters={voters}"))
                .with_setting(&place.cluster_secret()?);
            let set = |launch: Launch, setting: &&str| launch.with_setting(setting);
            let launch = with_short_sessions(settings.iter().fold(launch, set));
            launches.push(dress(node, launch));
            volumes.push(volume);
        }
        let mut nodes = Nodes {
            launches,
            brokers: (0..COUNT).map(|_| None).collect(),
            volumes,
            rooms,
        };
        for node in 1..=COUNT {
            nodes.raise(node)?;
        }
        nodes.found()?;
        Ok(nodes)
    }

    /// Creates the topic of the load. A replica can be on every node only once all are registered.
    fn found(&self) -> Result<(), String> {
        let begun = Instant::now();
        loop {
            match self.create(TOPIC) {
                Ok(()) => break,
                Err(why) if begun.elapsed() > IN_SYNC_MAX => return Err(why),
                Err(_) => std::thread::sleep(Duration::from_millis(200)),
            }
        }
        self.wait_in_sync().map(drop)
    }

    /// Creates a topic with a replica on each node, and waits until each node knows it.
    pub(crate) fn create(&self, topic: &str) -> Result<(), String> {
        self.create_with(topic, COUNT as i16, &[])
    }

    /// With so many replicas, and settings.
    pub(crate) fn create_with(
        &self,
        topic: &str,
        factor: i16,
        settings: &[(&str, &str)],
    ) -> Result<(), String> {
        match create_replicated(&self.bootstrap(), topic, factor, settings) {
            Err(why) if !why.contains("already exists") => {
                return Err(format!("cannot create {topic}: {why}"));
            }
            _ => {}
        }
        let begun = Instant::now();
        for launch in &self.launches {
            let knows = || {
                connect(&launch.address(), ANSWER_MAX)?
                    .topic(topic)
                    .map(drop)
            };
            while let Err(why) = knows() {
                if begun.elapsed() > IN_SYNC_MAX {
                    return Err(format!("{} does not know {topic}: {why}", launch.address()));
                }
                std::thread::sleep(Duration::from_millis(50));
            }
        }
        Ok(())
    }

    /// All nodes, commas between.
    pub(crate) fn bootstrap(&self) -> String {
        let addresses: Vec<String> = self.launches.iter().map(Launch::address).collect();
        addresses.join(",")
    }

    pub(crate) fn data(&self, node: usize) -> PathBuf {
        self.launches[node - 1].data.clone()
    }

    pub(crate) fn words(&self, node: usize) -> String {
        self.launches[node - 1].words()
    }

    pub(crate) fn volume(&mut self, node: usize) -> Result<&mut Volume, String> {
        let volume = self.volumes[node - 1].as_mut();
        volume.ok_or_else(|| format!("node {node} has no volume"))
    }

    /// The losses of the caches of all devices.
    pub(crate) fn lost(&self) -> Vec<Lost> {
        self.volumes.iter().flatten().map(Volume::lost).collect()
    }

    /// Of each node that is small, in order.
    pub(crate) fn rooms(&self) -> Vec<Look> {
        self.rooms.iter().map(Room::look).collect()
    }

    /// The same error, or what the kernel killed, which explains it.
    pub(crate) fn explained(&self, why: String) -> String {
        let kills = self.rooms.iter().map(|room| room.look().kills());
        let killed: Vec<String> = (1..)
            .zip(kills)
            .filter(|(_, kills)| *kills > 0)
            .map(|(node, kills)| format!("node {node} {kills} times"))
            .collect();
        if killed.is_empty() {
            return why;
        }
        format!(
            "the kernel killed nodes that needed more than {} MiB: {}; then: {why}",
            ROOM_BYTES >> 20,
            killed.join(", ")
        )
    }

    pub(crate) fn raise(&mut self, node: usize) -> Result<(), String> {
        let broker = self.launches[node - 1].start();
        let broker = broker.map_err(|why| format!("node {node}: {why}"))?;
        self.brokers[node - 1] = Some(broker);
        Ok(())
    }

    pub(crate) fn kill(&mut self, node: usize) {
        if let Some(broker) = self.brokers[node - 1].take() {
            broker.kill();
        }
    }

    /// These lose their power in the same moment, frozen first so that they cannot answer during the errors of their own funeral; how
    /// many bytes that they had written are lost.
    pub(crate) fn cut_power(&mut self, nodes: &[usize]) -> Result<usize, String> {
        for node in nodes {
            self.volume(*node)?.lose_cache()?;
        }
        nodes
            .iter()
            .try_for_each(|node| self.signal(*node, "STOP"))?;
        // The clients have taken every answer that was on its way.
        std::thread::sleep(Duration::from_millis(20));
        let written: Vec<_> = nodes
            .iter()
            .map(|node| contents(&self.data(*node)))
            .collect();
        for node in nodes {
            self.volume(*node)?.cut_power()?;
        }
        let mut lost = 0;
        for (node, written) in nodes.iter().zip(&written) {
            self.kill(*node);
            let volume = self.volume(*node)?;
            volume.unmount()?;
            volume.mount(false)?;
            lost += lost_bytes(written, &contents(&self.data(*node)));
        }
        Ok(lost)
    }

    pub(crate) fn signal(&self, node: usize, name: &str) -> Result<(), String> {
        let broker = self.brokers[node - 1].as_ref();
        broker.map_or(Ok(()), |broker| broker.signal(name))
    }

    pub(crate) fn is_running(&mut self, node: usize) -> bool {
        let broker = self.brokers[node - 1].as_mut();
        broker.is_some_and(Broker::is_running)
    }

    /// SIGTERM, and how long it took.
    pub(crate) fn stop(&mut self, node: usize) -> Result<Duration, String> {
        let begun = Instant::now();
        if let Some(broker) = self.brokers[node - 1].take() {
            let status = broker.stop().map_err(|why| format!("node {node}: {why}"))?;
            if !status.success() {
                return Err(format!("node {node} ended with {status}"));
            }
        }
        Ok(begun.elapsed())
    }

    /// All at once: no node can hand its leadership to one that goes as well.
    pub(crate) fn stop_all(&mut self) -> Result<(), String> {
        (1..=COUNT).try_for_each(|node| self.signal(node, "TERM"))?;
        for broker in self.brokers.iter_mut().filter_map(Option::take) {
            let mut broker = broker;
            let status = broker.wait(Duration::from_secs(60))?;
            if !status.success() {
                return Err(format!("a node ended with {status}"));
            }
        }
        Ok(())
    }

    /// The state of the topic, asked of any node that answers.
    pub(crate) fn topic(&self) -> Result<Topic, String> {
        self.ask(|client| client.topic(TOPIC))
    }

    pub(crate) fn ask<T>(
        &self,
        question: impl FnOnce(&mut Client) -> Result<T, client::Error>,
    ) -> Result<T, String> {
        let told =
            connect(&self.bootstrap(), ANSWER_MAX).and_then(|mut client| question(&mut client));
        told.map_err(|error| error.to_string())
    }

    pub(crate) fn leader(&self, partition: i32) -> Result<usize, String> {
        let begun = Instant::now();
        loop {
            let leader = self.topic().map(|topic| topic.leader(partition));
            match leader {
                Ok(Ok(leader)) => return Ok(leader as usize),
                other if begun.elapsed() > IN_SYNC_MAX => {
                    return Err(format!("partition {partition} has no leader: {other:?}"));
                }
                _ => std::thread::sleep(Duration::from_millis(50)),
            }
        }
    }

    /// The node that became the active controller last, by what they say.
    pub(crate) fn controller(&self) -> Result<usize, String> {
        controller::leader(&self.launches).map(|at| at + 1)
    }

    /// The nodes but this one.
    pub(crate) fn others(node: usize) -> Vec<usize> {
        (1..=COUNT).filter(|other| *other != node).collect()
    }

    /// Waits until every replica of every partition is in sync; how long that took.
    pub(crate) fn wait_in_sync(&self) -> Result<Duration, String> {
        let begun = Instant::now();
        loop {
            let topic = self.topic();
            if topic.as_ref().is_ok_and(is_whole) {
                return Ok(begun.elapsed());
            }
            if begun.elapsed() > IN_SYNC_MAX {
                return Err(format!(
                    "not every replica is in sync {} s after all is well: {}",
                    IN_SYNC_MAX.as_secs(),
                    describe(&topic)
                ));
            }
            std::thread::sleep(Duration::from_millis(100));
        }
    }

    /// A panic or a lost directory is never part of a scenario that does nothing to a disk.
    pub(crate) fn check_words(&self) -> Result<(), String> {
        self.launches.iter().try_for_each(Launch::check_words)
    }

    pub(crate) fn check_panics(&self) -> Result<(), String> {
        for node in 1..=COUNT {
            if let Some(line) = self
                .words(node)
                .lines()
                .find(|line| line.contains("panicked"))
            {
                return Err(format!("node {node} said: {line}"));
            }
        }
        Ok(())
    }
}

fn is_whole(topic: &Topic) -> bool {
    let is_whole =
        |partition: &client::Partition| partition.leader.is_some() && partition.isr.len() == COUNT;
    topic.partitions.len() == PARTITIONS as usize && topic.partitions.iter().all(is_whole)
}

pub(crate) fn describe(topic: &Result<Topic, String>) -> String {
    let topic = match topic {
        Ok(topic) => topic,
        Err(why) => return why.clone(),
    };
    let partitions = topic.partitions.iter().map(|partition| {
        let leader = partition
            .leader
            .map_or("none".to_owned(), |id| id.to_string());
        format!(
            "{}: leader {leader} epoch {} isr {:?}",
            partition.index, partition.leader_epoch, partition.isr
        )
    });
    partitions.collect::<Vec<_>>().join("; ")
}
