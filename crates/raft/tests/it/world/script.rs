//! The words of a script: what is done to the world, and what is expected of it.

use model::{BrokerId, Timestamp};
use raft::{AppendTag, Event, Left, Replica, Request};
use wire::messages::RemoveRaftVoterRequest;
use wire::records::BatchBuilder;

use super::{CLUSTER, Node, World, number};
use crate::disk::Directory;
use crate::nodes::{fetch, listeners, replica};

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
    /// - `named N A,B`, `named N`: a restart with listeners of these names, or with none; `seeds N A,B`: one that asks these for the leader,
    ///   and whose settings name no voter
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
    /// - `N voted M|nobody`, `N voters A,B`, `N shuns|trusts` (some leader, its leaders), `N names M A,B` (of the listeners of M), `N answers CODE ...` (of changes and fetches), `N alarms K`, `N left REASON ...` (its last leadership)
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
}
