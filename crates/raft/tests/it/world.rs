//! Replicas with perfect disks and a network that the script drives.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use model::{BrokerId, Instant, LeaderEpoch, Offset, Timestamp};
use raft::{
    Alarm, AppendTag, Boot, CallId, Caller, Effect, Event, Failure, Fill, History, Left, Life,
    Listener, LogView, Me, Moment, Quorum, Replica, Request, Response, RoleName, Settings,
    SnapshotFacts, SnapshotId, VersionRange, VoteFile, VoteNumber, VoterSet,
};
use wire::messages::api_versions_response::SupportedFeatureKey;
use wire::messages::{AddRaftVoterRequest, ApiVersionsResponse, RemoveRaftVoterRequest};
use wire::records::{Batch, BatchBuilder};
use wire::{Records, Uuid};

use crate::disk::{Directory, Kept, Write, apply};
use crate::nodes::{LISTENER, fetch, listeners, replica, voter};

/// The cluster of nodes that were members before the script begins.
const CLUSTER: &str = "scripts";

/// A replica. Each has a clock of its own, as machines have.
#[derive(Default)]
struct Node {
    now: u64,
    quorum: Option<Quorum>,
    batches: Vec<Batch>,
    durable: Vec<Batch>,
    start: Option<SnapshotId>,
    snapshots: BTreeMap<SnapshotId, SnapshotFacts>,
    pending: VecDeque<(Write, Life)>,
    vote: Option<raft::Election>,
    pending_votes: VecDeque<(VoteNumber, Kept)>,
    holds: bool,
    /// The id of the cluster in its directory.
    cluster: Option<String>,
    /// Writes of that id do not come to an end.
    is_mute: bool,
    /// It was told that it is the active controller.
    is_active: bool,
    /// The nodes of other clusters that it named.
    strangers: Vec<i32>,
    lost_vote: bool,
    committed: Offset,
    /// The watermark that its next start finds.
    checkpoint: Offset,
    /// Alarms of a leader that lacks what is committed.
    shuns: usize,
    /// Its settings name no other voter.
    is_alone: bool,
    /// Names of its listeners; the first is the one that voters are dialled at. `None`: [`LISTENER`].
    names: Option<Vec<String>>,
    /// The nodes that its settings name to ask for the leader; `None`: all.
    seeds: Option<Vec<i32>>,
    alarms: usize,
    /// The reason of the end of the last office.
    left: Option<Left>,
    answers: Vec<i16>,
    /// It goes by the id of another node.
    alias: Option<i32>,
    /// Snapshots that it fetches come damaged, so many of them.
    spoilt: usize,
    downloads: usize,
}

impl Node {
    fn is_gone(&self) -> bool {
        self.quorum.is_none()
    }

    fn store(&mut self, kept: Kept) {
        match kept {
            Kept::Vote(election) => self.vote = Some(election),
            Kept::Cluster(cluster) => {
                assert_eq!(self.cluster, None, "a node has one cluster in its life");
                self.cluster = Some(cluster);
            }
        }
    }
}

enum Parcel {
    Request(i32, CallId, Request),
    Response(CallId, Response),
    Failed(CallId, Failure),
}

#[derive(Default)]
pub(crate) struct World {
    nodes: BTreeMap<i32, Node>,
    voters: i32,
    dynamic: bool,
    queue: VecDeque<(i32, i32, Parcel)>,
    cut: BTreeSet<i32>,
    values: u8,
    /// Of each request: the node that asked, its call, and the node that was asked.
    ways: BTreeMap<u64, (i32, Option<CallId>, i32)>,
    callers: u64,
    knows_no_pre_votes: bool,
    /// Starts so far: each proposes a cluster of its own.
    starts: u32,
    kept: BTreeMap<i32, Directory>,
}

fn number(word: &str) -> i32 {
    word.parse().unwrap_or_else(|_| panic!("no number: {word}"))
}

impl World {
    /// - `voters N [observers M]`, `dynamic N [observers M]`: a cluster, not yet run
    /// - `elect N`: lets time pass for N alone until it leads, delivering all
    /// - `doubt N`: time passes for N until it does not follow its leader any more
    /// - `expire N`: N's next deadline comes; `wait MS`: everybody's do
    /// - `run`: delivers messages until there are none; `drop`: loses them
    /// - `cut N`, `join N`: N hears nobody and is heard by nobody, or again
    /// - `hold N`, `release N`: its disk reports no syncs, or again
    /// - `append N K`: K batches of one record; `power N`, `kill N`, `rot N` (its vote file): restarts
    /// - `stand N`: time passes for N until it asks for votes; `crown N M`: time passes for M until N leads, and nothing is delivered from that
    ///   moment on
    /// - `tell N C`: a node that has it for good names the cluster
    /// - `mute N`, `unmute N`: its writes of the cluster's id do not end, or again; `keep N`, `restore N`: a copy of its directory, and a restart
    ///   with that
    /// - `new N`: voters of the settings with empty directories; `wipe N`: a restart on an empty disk; `roll N K`: one with the first K
    ///   batches of its log, and the vote file of now
    /// - `die N`: the process is gone, and connections to it are refused
    /// - `mark N`: its watermark is in its checkpoint
    /// - `alone N`, `among N`: a restart with settings that name no other voter, or all again
    /// - `named N A,B`, `named N`: a restart with listeners of these names, or with none; `seeds N A,B`: one that asks these for the leader
    /// - `double N M`: a node N that goes by the id of M; `fetch N M D O`: N is asked by node M, of directory D, for what follows O
    /// - `spoil N K`: K snapshots that N fetches come damaged
    /// - `snapshot N`, `trim N`: at what it has committed; `add N M`, `remove N M`: N is asked to change voters; `add N M D`: of
    ///   the directory of D; `bare N M`: to add one without an address; `raise N`: N is asked to write the voters into the log
    pub(crate) fn play(&mut self, command: &str) {
        let words: Vec<&str> = command.split_whitespace().collect();
        match words.as_slice() {
            [kind @ ("voters" | "dynamic" | "new"), count, rest @ ..] => {
                self.dynamic = *kind == "dynamic";
                self.voters = number(count);
                let observers = rest.get(1).map_or(0, |word| number(word));
                for id in 1..=self.voters + observers {
                    // Voters of settings that have been there before, and have voted for nobody yet.
                    let node = Node {
                        vote: (*kind == "voters").then_some(raft::Election::NONE),
                        cluster: (*kind != "new").then(|| CLUSTER.to_owned()),
                        ..Node::default()
                    };
                    self.nodes.insert(id, node);
                }
                for id in 1..=self.voters + observers {
                    self.start(id);
                }
            }
            ["elect", id] => self.elect(number(id)),
            ["stand", id] => self.stand(number(id)),
            ["crown", id, by] => self.crown(number(id), number(by)),
            ["mute", id] => self.node(number(id)).is_mute = true,
            ["unmute", id] => {
                self.node(number(id)).is_mute = false;
                self.report(number(id));
            }
            ["tell", id, cluster] => {
                let cluster = (*cluster).to_owned();
                self.step(number(id), Event::ClusterTold { cluster });
            }
            ["keep", id] => {
                let node = self.node(number(id));
                let directory = Directory {
                    batches: node.batches.clone(),
                    start: node.start,
                    snapshots: node.snapshots.clone(),
                    vote: node.vote,
                    cluster: node.cluster.clone(),
                };
                self.kept.insert(number(id), directory);
            }
            ["restore", id] => {
                let kept = self.kept[&number(id)].clone();
                let node = self.node(number(id));
                *node = Node {
                    now: node.now,
                    batches: kept.batches,
                    start: kept.start,
                    snapshots: kept.snapshots,
                    vote: kept.vote,
                    cluster: kept.cluster,
                    ..Node::default()
                };
                self.restart(number(id), true);
            }
            ["expire", id] => self.expire(number(id)),
            ["doubt", id] => self.doubt(number(id)),
            ["wait", ms] => self.wait(number(ms)),
            ["run"] => self.run(),
            ["drop"] => self.queue.clear(),
            ["cut", id] => drop(self.cut.insert(number(id))),
            ["join", id] => drop(self.cut.remove(&number(id))),
            ["hold", id] => self.node(number(id)).holds = true,
            ["release", id] => {
                self.node(number(id)).holds = false;
                self.report(number(id));
            }
            ["append", id, count] => {
                for _ in 0..number(count) {
                    self.values = self.values.wrapping_add(1);
                    let mut batch = BatchBuilder::new();
                    batch.push(Timestamp(1), None, Some(&[self.values]), &[]);
                    let epoch = self.quorum(number(id)).epoch();
                    let (tag, batch) = (AppendTag(1), batch.build());
                    self.step(number(id), Event::Append { tag, epoch, batch });
                }
            }
            ["power", id] => self.restart(number(id), false),
            ["kill", id] => self.restart(number(id), true),
            ["rot", id] => {
                self.node(number(id)).lost_vote = true;
                self.restart(number(id), true);
            }
            ["wipe", id] => {
                // A node that finds the others by their addresses asks them at its start.
                let cluster = self.dynamic.then(|| CLUSTER.to_owned());
                let node = self.node(number(id));
                *node = Node {
                    now: node.now,
                    cluster,
                    ..Node::default()
                };
                self.restart(number(id), true);
            }
            ["roll", id, count] => {
                let count = number(count) as usize;
                self.node(number(id)).batches.truncate(count);
                self.restart(number(id), true);
            }
            ["die", id] => self.die(number(id)),

            ["mark", id] => {
                let node = self.node(number(id));
                node.checkpoint = node.committed;
            }
            [word @ ("alone" | "among"), id] => {
                self.node(number(id)).is_alone = *word == "alone";
                self.restart(number(id), true);
            }
            ["named", id, names @ ..] => {
                let names = names.iter().flat_map(|names| names.split(','));
                self.node(number(id)).names = Some(names.map(str::to_owned).collect());
                self.restart(number(id), true);
            }
            ["seeds", id, seeds] => {
                self.node(number(id)).seeds = Some(seeds.split(',').map(number).collect());
                self.restart(number(id), true);
            }
            ["double", id, other] => {
                let now = self.nodes[&number(other)].now;
                let node = Node {
                    now,
                    alias: Some(number(other)),
                    ..Node::default()
                };
                self.nodes.insert(number(id), node);
                self.start(number(id));
            }
            ["fetch", id, of, directory, from] => {
                let epoch = self.quorum(number(id)).epoch().0;
                let directory = replica(number(directory)).directory;
                let request = fetch(number(of), directory, i64::from(number(from)), epoch);
                self.ask(number(id), request);
            }
            ["spoil", id, count] => self.node(number(id)).spoilt = number(count) as usize,
            ["resign", id] => {
                let epoch = self.quorum(number(id)).epoch();
                self.step(number(id), Event::Resign { epoch });
            }
            ["old"] => self.knows_no_pre_votes = true,
            ["snapshot", id] => self.snapshot(number(id)),
            ["trim", id] => {
                let to = self.quorum(number(id)).last_snapshot();
                let to = to.expect("there is a snapshot");
                self.step(number(id), Event::Trim { to });
            }
            ["add", id, other] => {
                self.add(number(id), listeners(number(other)), replica(number(other)));
            }
            ["add", id, other, directory] => {
                let replica = Replica {
                    directory: replica(number(directory)).directory,
                    ..replica(number(other))
                };
                self.add(number(id), listeners(number(other)), replica);
            }
            ["bare", id, other] => self.add(number(id), Vec::new(), replica(number(other))),
            ["raise", id] => {
                let (tag, epoch) = (AppendTag(0), self.quorum(number(id)).epoch());
                self.step(number(id), Event::MakeDynamic { tag, epoch });
            }
            ["remove", id, other] => {
                let other = replica(number(other));
                let request = Request::RemoveVoter(RemoveRaftVoterRequest {
                    cluster_id: None,
                    voter_id: other.id.0,
                    voter_directory_id: other.directory,
                });
                self.ask(number(id), request);
            }
            _ => panic!("unknown command: {command}"),
        }
    }

    /// - `N leader|follower|... E`: state and epoch
    /// - `N end|durable|committed O`: offsets; `N epoch E`
    /// - `N log E E ...`: the epoch of each batch; `N begins E E ...`: of the first; `N least O`: so much is committed
    /// - `N voted M|nobody`, `N voters A,B`, `N shuns|trusts` (some leader, its leaders), `N names M A,B` (of the listeners of M), `N answers CODE ...` (of changes and fetches), `N alarms K`, `N left REASON ...` (its last office)
    /// - `N active|idle`: it was told that it is the active controller; `N nameless`: it is of no cluster; `N of M`: of that of M; `N strangers A B`:
    ///   the nodes of other clusters that it named
    /// - `N keeps M D`: the voter M is of the directory of D; `N keeps M none`: that of M is not known
    /// - `N downloads K`: it fetched no more snapshots than that
    pub(crate) fn expect(&mut self, expectation: &str) -> Result<(), String> {
        let words: Vec<&str> = expectation.split_whitespace().collect();
        let id = number(words[0]);
        let view = self.quorum(id).view();
        let node = &self.nodes[&id];
        let is = match &words[1..] {
            ["end", _] => format!("end {}", view.end),
            ["durable", _] => format!("durable {}", view.durable),
            ["committed", _] => {
                let known = self.quorum_ref(id).watermark();
                format!("committed {}", known.unwrap_or_default())
            }
            ["least", least] => {
                let known = self.quorum_ref(id).watermark().unwrap_or_default();
                format!("least {}", known.0.min(i64::from(number(least))))
            }
            [word @ ("log" | "begins"), rest @ ..] => {
                let epochs = node.batches.iter();
                let mut epochs: Vec<String> =
                    epochs.map(|b| b.leader_epoch().to_string()).collect();
                if *word == "begins" {
                    epochs.truncate(rest.len());
                }
                format!("{word} {}", epochs.join(" ")).trim_end().to_owned()
            }
            ["voted", _] => {
                let voted = view.voted.map(|voted| voted.id.to_string());
                format!("voted {}", voted.unwrap_or_else(|| "nobody".to_owned()))
            }
            ["voters", _] => {
                let ids = self.quorum_ref(id).voter_ids();
                let ids: Vec<String> = ids.iter().map(ToString::to_string).collect();
                format!("voters {}", ids.join(","))
            }
            ["keeps", other, _] => {
                let voter = self
                    .quorum_ref(id)
                    .history()
                    .voters()
                    .get(BrokerId(number(other)));
                let directory = voter
                    .map(|voter| voter.replica.directory)
                    .unwrap_or_default();
                let mut all = 1..=9;
                let of = all.find(|of| replica(*of).directory == directory);
                let of = of.map_or("none".to_owned(), |of| of.to_string());
                format!("keeps {other} {of}")
            }
            ["shuns" | "trusts"] => (if node.shuns > 0 { "shuns" } else { "trusts" }).to_owned(),
            ["names", other, ..] => {
                let voters = self.quorum_ref(id).history().voters();
                let voter = voters.get(BrokerId(number(other)));
                let listeners = voter.map(|voter| voter.listeners.as_slice());
                let names = listeners.unwrap_or_default().iter();
                let names: Vec<&str> = names.map(|at| at.name.as_str()).collect();
                format!("names {other} {}", names.join(","))
            }
            ["downloads", most] if node.downloads <= number(most) as usize => {
                format!("downloads {most}")
            }
            ["downloads", _] => format!("downloads {}", node.downloads),
            ["alarms", _] => format!("alarms {}", node.alarms),
            ["left", ..] => match node.left {
                None => "left nothing".to_owned(),
                Some(Left::Resigned) => "left resigned".to_owned(),
                Some(Left::Unheard { time }) => format!("left unheard {}", time.as_millis()),
                Some(Left::Opposed { epoch, candidate }) => {
                    format!("left opposed {candidate} {epoch}")
                }
                Some(Left::Led { epoch, by }) => {
                    format!("left led {} {epoch}", by.map_or(-1, |by| by.0))
                }
            },
            ["answers", ..] => {
                let codes: Vec<String> = node.answers.iter().map(ToString::to_string).collect();
                format!("answers {}", codes.join(" ")).trim_end().to_owned()
            }
            ["active" | "idle"] => (if node.is_active { "active" } else { "idle" }).to_owned(),
            ["nameless"] => node.cluster.clone().unwrap_or("nameless".to_owned()),
            ["of", other]
                if node.cluster.is_some() && node.cluster == self.nodes[&number(other)].cluster =>
            {
                format!("of {other}")
            }
            ["of", _] => format!("of {:?}", node.cluster),
            ["strangers", ..] => {
                let ids: Vec<String> = node.strangers.iter().map(ToString::to_string).collect();
                format!("strangers {}", ids.join(" ")).trim_end().to_owned()
            }
            ["epoch", _] => format!("epoch {}", view.epoch),
            [_, _] => format!("{:?} {}", view.role, view.epoch).to_lowercase(),
            _ => return Err(format!("unknown expectation: {expectation}")),
        };
        let want = words[1..].join(" ");
        if is == want {
            Ok(())
        } else {
            Err(format!("{id} should be: {want}; it is: {is}"))
        }
    }

    fn node(&mut self, id: i32) -> &mut Node {
        self.nodes.get_mut(&id).expect("a node of this number")
    }

    fn quorum(&mut self, id: i32) -> &mut Quorum {
        self.node(id).quorum.as_mut().expect("it runs")
    }

    fn quorum_ref(&self, id: i32) -> &Quorum {
        self.nodes[&id].quorum.as_ref().expect("it runs")
    }

    fn moment(&self, id: i32) -> Moment {
        Moment {
            now: Instant(self.nodes[&id].now),
            wall: Timestamp(1),
        }
    }

    fn start(&mut self, id: i32) {
        let (at, dynamic, first) = (self.moment(id), self.dynamic, self.voters);
        let count = self.nodes.len() as i32;
        self.starts += 1;
        let proposal = format!("start-{}", self.starts);
        let node = self.node(id);
        node.is_active = false;
        let named = (1..=first).filter(|other| *other == id || !node.is_alone);
        let set = VoterSet::of(named.map(|id| {
            let mut voter = voter(id);
            if !dynamic {
                voter.replica.directory = Uuid::ZERO;
            }
            voter
        }));
        let mut log = LogView::starting_at(node.start);
        let mut history = History::default();
        if dynamic {
            let facts = SnapshotFacts {
                voters: Some(set),
                version: Some(1),
                cluster: None,
            };
            node.snapshots.entry(SnapshotId::BOOTSTRAP).or_insert(facts);
            let at = node.start.unwrap_or(SnapshotId::BOOTSTRAP);
            history.restart(at, &node.snapshots[&at]);
        } else {
            history = History::new(set);
        }
        for id in node.snapshots.keys() {
            log.add_snapshot(*id, 1);
        }
        for batch in &node.batches {
            log.note(batch).unwrap();
            history.note(batch).unwrap();
        }
        log.believe();
        let vote = match node.vote {
            _ if node.lost_vote => VoteFile::Lost,
            Some(election) => VoteFile::Known(election),
            None => VoteFile::Fresh,
        };
        let boot = Boot {
            log,
            history,
            vote,
            committed: node.checkpoint,
        };
        let names = node.names.clone();
        let names = names.unwrap_or_else(|| vec![LISTENER.to_owned()]);
        let seeds = node.seeds.clone();
        let seeds = seeds.unwrap_or_else(|| (1..=count).collect());
        let me = Me {
            replica: Replica {
                id: BrokerId(node.alias.unwrap_or(id)),
                ..replica(id)
            },
            cluster: node.cluster.clone(),
            proposal,
            listeners: names
                .iter()
                .map(|name| Listener {
                    name: name.clone(),
                    ..listeners(id).remove(0)
                })
                .collect(),
            listener: names.first().cloned().unwrap_or(LISTENER.to_owned()),
            seeds: if dynamic {
                seeds
                    .into_iter()
                    .flat_map(listeners)
                    .map(|listener| listener.endpoint)
                    .collect()
            } else {
                Vec::new()
            },
            versions: VersionRange { min: 0, max: 1 },
        };
        let (quorum, effects) = Quorum::new(me, Settings::default(), boot, id as u64, at);
        node.quorum = Some(quorum);
        self.perform(id, effects);
    }

    fn restart(&mut self, id: i32, keeps_all: bool) {
        let node = self.node(id);
        node.quorum = None;
        let votes = std::mem::take(&mut node.pending_votes);
        if keeps_all {
            votes.into_iter().for_each(|(_, kept)| node.store(kept));
        } else {
            node.batches = node.durable.clone();
        }
        node.durable = node.batches.clone();
        node.pending.clear();
        node.holds = false;
        self.queue.retain(|(from, to, _)| *from != id && *to != id);
        self.start(id);
    }

    fn step(&mut self, id: i32, event: Event) {
        let at = self.moment(id);
        let Some(quorum) = &mut self.node(id).quorum else {
            return;
        };
        let effects = quorum.step(at, event);
        self.perform(id, effects);
    }

    fn perform(&mut self, id: i32, effects: Vec<Effect>) {
        for effect in effects {
            self.effect(id, effect);
        }
        self.report(id);
    }

    /// The disk says what it has done, unless it is held.
    fn report(&mut self, id: i32) {
        while !self.node(id).holds {
            let node = self.node(id);
            let waits = |(_, kept): &(VoteNumber, Kept)| matches!(kept, Kept::Cluster(_));
            if node.is_mute && node.pending_votes.front().is_some_and(waits) {
                return;
            }
            if let Some((number, kept)) = node.pending_votes.pop_front() {
                node.store(kept);
                self.step(id, Event::VoteStored { number });
            } else if let Some((write, life)) = node.pending.pop_front() {
                let up_to = apply(&mut node.durable, &write);
                self.step(id, Event::Synced { up_to, life });
            } else {
                return;
            }
        }
    }

    fn effect(&mut self, id: i32, effect: Effect) {
        let node = self.node(id);
        match effect {
            Effect::StoreVote {
                number, election, ..
            } => node.pending_votes.push_back((number, Kept::Vote(election))),
            Effect::StoreCluster { number, cluster } => {
                node.pending_votes
                    .push_back((number, Kept::Cluster(cluster)));
            }
            Effect::Append { batches, life } => {
                for batch in batches {
                    node.batches.push(batch.clone());
                    node.pending.push_back((Write::Append(batch), life));
                }
            }
            Effect::Cut { to, life } => {
                apply(&mut node.batches, &Write::Cut(to));
                node.pending.push_back((Write::Cut(to), life));
            }
            Effect::Restart { at, life } => {
                apply(&mut node.batches, &Write::Restart(at));
                node.start = Some(at);
                node.pending.push_back((Write::Restart(at), life));
            }
            Effect::Send {
                call,
                peer,
                request,
            } => {
                let to = number(&peer.endpoint.host);
                let parcel = Parcel::Request(id, call, request);
                self.queue.push_back((id, to, parcel));
            }
            Effect::Answer {
                caller,
                response,
                fill,
            } => self.answer(id, caller, response, fill),
            Effect::Committed { up_to } => node.committed = up_to,
            Effect::FinishSnapshot { id: snapshot, .. } if node.spoilt > 0 => {
                node.spoilt -= 1;
                node.downloads += 1;
                self.step(id, Event::SnapshotDamaged { id: snapshot });
            }
            Effect::FinishSnapshot { id: snapshot, .. } => {
                node.downloads += 1;
                let facts = self.facts(snapshot);
                self.node(id).snapshots.insert(snapshot, facts.clone());
                let event = Event::SnapshotInstalled {
                    id: snapshot,
                    size: 1,
                    facts,
                };
                self.step(id, event);
            }
            Effect::Trim { to } => {
                let start = node.snapshots.keys().find(|known| known.end == to);
                node.start = start.copied();
                node.batches.retain(|batch| batch.base_offset() >= to);
                node.durable.retain(|batch| batch.base_offset() >= to);
            }
            Effect::DeleteSnapshot { id } => drop(node.snapshots.remove(&id)),
            Effect::Alarm(alarm) => {
                node.alarms += 1;
                node.shuns += usize::from(matches!(alarm, Alarm::BelowCommitted { .. }));
                if let Alarm::OtherCluster { node: other, .. } = alarm {
                    node.strangers.push(other.map_or(-1, |other| other.0));
                }
            }
            Effect::OfficeLeft { why, .. } => node.left = Some(why),
            Effect::LeaderChanged { leader, .. } => node.is_active = leader == Some(BrokerId(id)),
            Effect::Accepted { .. }
            | Effect::Remembered
            | Effect::Refused { .. }
            | Effect::WriteSnapshot { .. }
            | Effect::DropSnapshot { .. } => {}
        }
    }

    /// The facts in some node's snapshot of this name.
    fn facts(&self, id: SnapshotId) -> SnapshotFacts {
        let mut nodes = self.nodes.values();
        let facts = nodes.find_map(|node| node.snapshots.get(&id));
        facts.expect("somebody has the snapshot").clone()
    }

    fn answer(&mut self, id: i32, caller: Caller, mut response: Response, fill: Option<Fill>) {
        match (&mut response, fill) {
            (Response::Fetch(response), Some(Fill::Records { from, to, .. })) => {
                let batches = self.nodes[&id].batches.iter();
                let wanted = batches.filter(|b| b.base_offset() >= from && b.next_offset() <= to);
                let bytes: Vec<u8> = wanted.flat_map(|b| b.to_bytes().to_vec()).collect();
                let part = &mut response.responses[0].partitions[0];
                part.records = Some(Records::Bytes(bytes.into()));
            }
            (Response::FetchSnapshot(response), Some(Fill::Snapshot { .. })) => {
                let part = &mut response.topics[0].partitions[0];
                part.unaligned_records = Some(Records::Bytes(vec![0].into()));
            }
            _ => {}
        }
        let Some((back, call, _)) = self.ways.remove(&caller.0) else {
            panic!("{id} answers twice");
        };
        let Some(call) = call else {
            let code = match response {
                Response::AddVoter(response) => response.error_code,
                Response::RemoveVoter(response) => response.error_code,
                Response::Fetch(response) => response.responses[0].partitions[0].error_code,
                other => panic!("an operator asked for {other:?}"),
            };
            return self.node(id).answers.push(code);
        };
        self.queue
            .push_back((id, back, Parcel::Response(call, response)));
    }

    fn ask(&mut self, id: i32, request: Request) {
        self.callers += 1;
        self.ways.insert(self.callers, (0, None, id));
        let caller = Caller(self.callers);
        self.step(id, Event::Request { caller, request });
    }

    fn add(&mut self, id: i32, listeners: Vec<Listener>, other: Replica) {
        let listeners =
            listeners
                .into_iter()
                .map(|at| wire::messages::add_raft_voter_request::Listener {
                    name: at.name,
                    host: at.endpoint.host,
                    port: at.endpoint.port,
                });
        let request = Request::AddVoter(AddRaftVoterRequest {
            cluster_id: None,
            timeout_ms: 1_000,
            voter_id: other.id.0,
            voter_directory_id: other.directory,
            listeners: listeners.collect(),
            ack_when_committed: true,
        });
        self.ask(id, request);
    }

    fn run(&mut self) {
        for _ in 0..10_000 {
            if !self.run_one() {
                return;
            }
        }
        panic!("messages without end");
    }

    fn run_one(&mut self) -> bool {
        let Some((from, to, parcel)) = self.queue.pop_front() else {
            return false;
        };
        if !self.cut.contains(&from) && !self.cut.contains(&to) {
            self.deliver(to, parcel);
        }
        true
    }

    fn die(&mut self, id: i32) {
        self.node(id).quorum = None;
        self.queue.retain(|(from, to, _)| *from != id && *to != id);
        let waiting: Vec<_> = self.ways.extract_if(.., |_, way| way.2 == id).collect();
        for (_, (back, call, _)) in waiting {
            let call = call.map(|call| Parcel::Failed(call, Failure::Disconnected));
            self.queue.extend(call.map(|parcel| (id, back, parcel)));
        }
    }

    fn deliver(&mut self, to: i32, parcel: Parcel) {
        match parcel {
            Parcel::Request(from, call, _) if self.nodes.get(&to).is_none_or(Node::is_gone) => {
                let parcel = Parcel::Failed(call, Failure::Disconnected);
                self.queue.push_back((to, from, parcel));
            }
            Parcel::Request(from, call, Request::ApiVersions(_)) => {
                let response = Response::ApiVersions(ApiVersionsResponse {
                    supported_features: vec![SupportedFeatureKey {
                        name: "kraft.version".to_owned(),
                        min_version: 0,
                        max_version: 1,
                    }],
                    ..Default::default()
                });
                self.queue
                    .push_back((to, from, Parcel::Response(call, response)));
            }
            Parcel::Request(from, call, Request::Vote(request))
                if self.knows_no_pre_votes && request.topics[0].partitions[0].pre_vote =>
            {
                let parcel = Parcel::Failed(call, Failure::UnsupportedVersion);
                self.queue.push_back((to, from, parcel));
            }
            Parcel::Request(from, call, request) => {
                self.callers += 1;
                self.ways.insert(self.callers, (from, Some(call), to));
                let caller = Caller(self.callers);
                self.step(to, Event::Request { caller, request });
            }
            Parcel::Response(call, response) => self.step(to, Event::Answer { call, response }),
            Parcel::Failed(call, failure) => self.step(to, Event::Failed { call, failure }),
        }
    }

    fn expire(&mut self, id: i32) {
        if let Some(deadline) = self.quorum(id).next_deadline() {
            let node = self.node(id);
            node.now = node.now.max(deadline.0);
        }
        self.step(id, Event::Tick);
    }

    fn elect(&mut self, id: i32) {
        for _ in 0..100 {
            self.run();
            if self.quorum(id).role() == RoleName::Leader {
                return;
            }
            self.expire(id);
        }
        panic!("{id} does not get elected: {:?}", self.quorum(id).view());
    }

    fn stand(&mut self, id: i32) {
        for _ in 0..100 {
            if self.quorum(id).role() == RoleName::Prospective {
                return self.run();
            }
            self.expire(id);
            if self.quorum(id).role() != RoleName::Prospective {
                self.run();
            }
        }
        panic!("{id} does not stand: {:?}", self.quorum(id).view());
    }

    fn crown(&mut self, id: i32, by: i32) {
        for _ in 0..100 {
            while self.quorum(id).role() != RoleName::Leader && self.run_one() {}
            if self.quorum(id).role() == RoleName::Leader {
                return;
            }
            self.expire(by);
        }
        panic!("{id} does not get elected: {:?}", self.quorum(id).view());
    }

    fn doubt(&mut self, id: i32) {
        for _ in 0..20 {
            if self.quorum(id).role() != RoleName::Follower {
                return;
            }
            self.expire(id);
        }
        panic!("{id} never doubts its leader");
    }

    fn wait(&mut self, ms: i32) {
        let mut left = ms as u64 * 1_000_000;
        loop {
            self.run();
            let next = self.nodes.iter().filter_map(|(id, node)| {
                let deadline = node.quorum.as_ref()?.next_deadline()?;
                Some((deadline.0.saturating_sub(node.now), *id))
            });
            let due = next.min().filter(|(gone, _)| *gone <= left);
            let gone = due.map_or(left, |(gone, _)| gone);
            left -= gone;
            for node in self.nodes.values_mut() {
                node.now += gone;
            }
            match due {
                Some((_, id)) => self.step(id, Event::Tick),
                None => return,
            }
        }
    }

    fn snapshot(&mut self, id: i32) {
        let end = self.node(id).committed;
        let quorum = self.quorum(id);
        let snapshot = quorum.snapshot_id(end).expect("it is committed");
        let facts = quorum.history().facts_at(end);
        self.node(id).snapshots.insert(snapshot, facts);
        self.step(
            id,
            Event::SnapshotWritten {
                id: snapshot,
                size: 1,
            },
        );
    }

    /// A peer sends this, whoever it is, and looks at no answer.
    pub(crate) fn pester(&mut self, id: i32, request: Request) {
        self.callers += 1;
        self.ways.insert(self.callers, (0, Some(CallId(0)), id));
        let caller = Caller(self.callers);
        self.step(id, Event::Request { caller, request });
        self.queue.retain(|(_, to, _)| *to != 0);
    }

    pub(crate) fn committed(&self, id: i32) -> Offset {
        self.quorum_ref(id).watermark().unwrap_or_default()
    }

    pub(crate) fn leads(&self, id: i32) -> bool {
        self.quorum_ref(id).role() == RoleName::Leader
    }

    /// The epoch of a node, for tests that are no scripts.
    #[must_use]
    pub(crate) fn epoch(&self, id: i32) -> LeaderEpoch {
        self.quorum_ref(id).epoch()
    }
}
