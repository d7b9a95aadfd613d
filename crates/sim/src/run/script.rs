//! Deeds in an order that is written down: failures in which other systems lost what they had acknowledged.
//!
//! The clients, the checker and the white-box checks are those of any other run; only chance has no say in what is struck.

use std::collections::VecDeque;
use std::path::Path;
use std::time::Duration;

use broker::Broker;
use env::sim::{HostId, Link, Machine, Passage, Rot, Site};
use model::Instant;

use super::Run;
use super::damage::files;
use super::host::End;
use super::rot;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Deed {
    /// No other node hears it, nor does it hear them.
    CutOff(u8),
    Rejoin(u8),
    /// It stays down until it is started.
    PowerOff(u8),
    Kill(u8),
    Start(u8),
    Pause(u8, Duration),
    /// Of each partition other offsets rot on each node, so that the nodes have all of it together.
    RotApart,
    /// Every snapshot of the metadata is damaged on a node that is down. It goes on without them by its whole log, or refuses to start, and is
    /// given them back.
    HarmSnapshots(u8),
}

/// A deed, and when it is done, counted from the begin of the load.
pub type Step = (Duration, Deed);

pub(super) struct Script {
    begin: Instant,
    steps: VecDeque<Step>,
    /// Places that were harmed.
    harmed: u64,
}

impl Script {
    pub(super) fn new(steps: &[Step], begin: Instant) -> Script {
        let steps = steps.iter().copied().collect();
        Script {
            begin,
            steps,
            harmed: 0,
        }
    }

    /// When the next deed is to be done.
    pub(super) fn next(&self) -> Instant {
        let next = self.steps.front();
        next.map_or(Instant(u64::MAX), |(after, _)| self.begin.plus(*after))
    }

    pub(super) fn act(&mut self, run: &mut Run) {
        while self.next() <= run.cluster.now() {
            let Some((_, deed)) = self.steps.pop_front() else {
                return;
            };
            self.harmed += deed.done_in(run);
        }
    }

    /// Everybody hears everybody and is up; complains where a harm found nothing.
    pub(super) fn end(self, steps: &[Step], run: &mut Run) {
        if steps.is_empty() {
            return;
        }
        let nodes: Vec<HostId> = run.cluster.nodes().collect();
        for node in nodes {
            if run.cluster.node(node).start_at() == Some(Instant(u64::MAX)) {
                run.cluster.node_mut(node).come_back();
            }
            set_links(run, node, Link::default());
        }
        let harms = |(_, deed): &Step| matches!(deed, Deed::RotApart | Deed::HarmSnapshots(_));
        if self.harmed == 0 && steps.iter().any(harms) {
            run.clients.notes.violation("nothing was harmed".to_owned());
        }
    }
}

impl Deed {
    /// Returns the places that it harmed.
    fn done_in(self, run: &mut Run) -> u64 {
        let down = |run: &mut Run, node, end| {
            let host = run.cluster.node_mut(HostId(node));
            host.end(end);
            host.stay_away();
        };
        match self {
            Deed::CutOff(node) => {
                let dropped = Link {
                    passage: Passage::Dropped,
                    ..Link::default()
                };
                set_links(run, HostId(node), dropped);
            }
            Deed::Rejoin(node) => set_links(run, HostId(node), Link::default()),
            Deed::PowerOff(node) => down(run, node, End::PowerCut),
            Deed::Kill(node) => down(run, node, End::Kill),
            Deed::Start(node) => run.cluster.node_mut(HostId(node)).come_back(),
            Deed::Pause(node, time) => run.cluster.node(HostId(node)).machine.pause(time),
            Deed::RotApart => {
                let struck = rot::apart(&run.cluster, &run.plan.topics);
                let count = struck.len() as u64;
                run.clients.notes.rotted.extend(struck);
                return count;
            }
            Deed::HarmSnapshots(node) => return harm_snapshots(run, HostId(node)),
        }
        0
    }
}

/// Returns the snapshots that were damaged.
fn harm_snapshots(run: &mut Run, node: HostId) -> u64 {
    let host = run.cluster.node_mut(node);
    let all = files(&host.machine, Path::new("/data"));
    // Journals have a checkpoint as well, in the directory itself.
    let is_snapshot = |path: &Path| {
        path.extension().is_some_and(|it| it == "checkpoint") && !path.ends_with("esker.checkpoint")
    };
    let snapshots: Vec<_> = (all.into_iter())
        .filter(|(path, _)| is_snapshot(path))
        .collect();
    let flip = |machine: &Machine| {
        for (path, len) in &snapshots {
            let flipped = machine.rot(path, len / 2..len / 2 + 1, Rot::Flip { bit: 0 });
            flipped.expect("it is there");
        }
    };
    flip(&host.machine);
    let started = Broker::start(&host.machine.env(), host.config().clone());
    host.end(End::Kill);
    host.stay_away();
    if let Err(error) = started {
        flip(&host.machine);
        let what = error.to_string();
        if !what.contains("restore the directory `snapshots`") {
            let notes = &mut run.clients.notes;
            notes.violation(format!("with damaged snapshots: {what}"));
        }
    }
    snapshots.len() as u64
}

fn set_links(run: &Run, node: HostId, link: Link) {
    for other in run.cluster.nodes().filter(|other| *other != node) {
        let (here, there) = (Site::Host(node), Site::Host(other));
        run.cluster.machines.set_link(here, there, link);
        run.cluster.machines.set_link(there, here, link);
    }
}
