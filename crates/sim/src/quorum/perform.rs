//! The driver of the model cluster: performs what a machine wants done.
//!
//! Messages go to the network, which loses, doubles and delays them; writes go to the model disk and their syncs come later. Each
//! effect is held against what the machine may do at all: no answer is given twice, nothing is served that the disk lacks.

use bytes::Bytes;
use model::{LeaderEpoch, Offset};
use raft::{Alarm, Effect, Event, Fill, Life, Response, SnapshotId};
use wire::Records;

use super::disk::Write;
use super::node::{Node, read_snapshot};
use super::plan::MS;
use super::world::{Broken, Item, Parcel, World};

impl World {
    pub(super) fn effect(&mut self, number: u32, effect: Effect) -> Broken {
        match effect {
            Effect::Send { .. } | Effect::Answer { .. } => self.message(number, effect),
            Effect::StoreVote { .. }
            | Effect::StoreCluster { .. }
            | Effect::Append { .. }
            | Effect::Cut { .. }
            | Effect::Restart { .. } => self.write(number, effect),
            Effect::WriteSnapshot { .. }
            | Effect::FinishSnapshot { .. }
            | Effect::DropSnapshot { .. }
            | Effect::Trim { .. }
            | Effect::DeleteSnapshot { .. } => self.of_snapshot(number, effect),
            Effect::Committed { up_to } => self.committed(number, up_to),
            Effect::Accepted { next, .. } => {
                if self.is_healed {
                    self.probe.get_or_insert(next);
                }
                Ok(())
            }
            Effect::Refused { .. }
            | Effect::LeadershipEnded { .. }
            | Effect::LeaderChanged { .. }
            | Effect::Remembered => Ok(()),
            Effect::Alarm(alarm) => self.alarm(number, alarm),
        }
    }

    fn committed(&mut self, number: u32, up_to: Offset) -> Broken {
        let Some(node) = self.nodes.get_mut(&number) else {
            return Ok(());
        };
        if up_to <= node.published {
            return Err(format!(
                "n{number} publishes {up_to} after {}",
                node.published
            ));
        }
        if up_to > node.disk.durable.end() {
            return Err(format!(
                "n{number} publishes {up_to}, its disk ends at {}",
                node.disk.durable.end()
            ));
        }
        node.published = up_to;
        // The checkpoint is written now and then.
        if self.chance.one_in(4) {
            node.disk.committed = up_to;
        }
        Ok(())
    }

    fn alarm(&mut self, number: u32, alarm: Alarm) -> Broken {
        let node = self.nodes.get(&number);
        let has_lost = node.is_some_and(|node| node.has_lost_vote);
        let is_new = node.is_some_and(|node| node.is_new);
        match alarm {
            Alarm::VoteLost if has_lost => Ok(()),
            // A message of before, which comes late, looks like an older directory, or like another process.
            Alarm::SnapshotDamaged { .. }
            | Alarm::WentBack { .. }
            | Alarm::IdTaken { .. }
            | Alarm::Unelected { .. } => Ok(()),
            Alarm::Emptied if is_new => Ok(()),
            Alarm::VoteLost
            | Alarm::Emptied
            | Alarm::TwoLeaders { .. }
            | Alarm::BadBatch { .. }
            | Alarm::BelowCommitted { .. }
            | Alarm::OtherCluster { .. }
            | Alarm::Refused { .. } => Err(format!("n{number} is alarmed: {alarm:?}")),
        }
    }

    fn message(&mut self, number: u32, effect: Effect) -> Broken {
        let Some(node) = self.nodes.get(&number) else {
            return Ok(());
        };
        let boot = node.boot;
        let voter = self.plan.as_voter(node.replica);
        match effect {
            Effect::Send { ref peer, .. } => {
                let host = peer.endpoint.host.strip_prefix('n');
                let to = host.and_then(|number| number.parse().ok()).unwrap_or(0);
                self.oracle.on_message(voter, &effect, None)?;
                let Effect::Send { call, request, .. } = effect else {
                    return Ok(());
                };
                let from = number;
                self.send(
                    from,
                    to,
                    None,
                    Parcel::Request {
                        from,
                        boot,
                        call,
                        request,
                    },
                );
            }
            Effect::Answer { caller, .. } => {
                // An answer may be given once.
                let Some(way) = self.ways.remove(&caller) else {
                    return Err(format!("n{number} answers {caller:?} twice"));
                };
                if self.oracle.on_message(voter, &effect, Some(&way.asked))? {
                    self.strike_voter(number);
                }
                let Effect::Answer {
                    mut response, fill, ..
                } = effect
                else {
                    return Ok(());
                };
                if let Some(fill) = fill {
                    self.fill(number, &mut response, fill)?;
                }
                if let Some((back, boot, call)) = way.back {
                    self.send(
                        number,
                        back,
                        Some(boot),
                        Parcel::Response { call, response },
                    );
                }
            }
            _ => {}
        }
        Ok(())
    }

    fn fill(&mut self, number: u32, response: &mut Response, fill: Fill) -> Broken {
        let Some(node) = self.nodes.get(&number) else {
            return Ok(());
        };
        match (response, fill) {
            (
                Response::Fetch(response),
                Fill::Records {
                    from,
                    to,
                    bytes_max,
                },
            ) => {
                if from < node.disk.now.start() || to > node.disk.now.end() {
                    return Err(format!("n{number} serves {from}..{to}, which it lacks"));
                }
                let bytes = node.disk.now.read(from, to, bytes_max);
                response.responses[0].partitions[0].records = Some(Records::Bytes(bytes));
            }
            (
                Response::FetchSnapshot(response),
                Fill::Snapshot {
                    id,
                    position,
                    bytes_max,
                },
            ) => {
                let Some(all) = node.disk.snapshots.get(&id) else {
                    return Err(format!(
                        "n{number} serves the snapshot {id}, which it lacks"
                    ));
                };
                let from = (position as usize).min(all.len());
                let to = (from + bytes_max as usize).min(all.len());
                let part = &mut response.topics[0].partitions[0];
                part.unaligned_records = Some(Records::Bytes(all.slice(from..to)));
            }
            _ => return Err(format!("n{number} fills an answer of another kind")),
        }
        Ok(())
    }

    /// Puts a message on its way: it may be lost, come twice, and overtake others.
    pub(super) fn send(&mut self, from: u32, to: u32, boot: Option<u32>, parcel: Parcel) {
        let (lost, doubled) = if self.is_healed {
            (0, 0)
        } else {
            (self.plan.lost, self.plan.doubled)
        };
        if self.deaf.contains_key(&(from, to)) || self.chance.below(256) < lost {
            return;
        }
        let longest = if self.is_healed {
            5 * MS
        } else {
            self.plan.delay_max
        };
        let copies = 1 + u64::from(self.chance.below(256) < doubled);
        for _ in 0..copies {
            let wait = MS / 10 + self.chance.below(longest);
            let parcel = parcel.clone();
            self.after(wait, Item::Arrive { to, boot, parcel });
        }
    }

    fn write(&mut self, number: u32, effect: Effect) -> Broken {
        self.check_write(number, &effect)?;
        let (now, is_healed) = (self.now, self.is_healed);
        let Some(node) = self.nodes.get_mut(&number) else {
            return Ok(());
        };
        let longest = if is_healed {
            5 * MS
        } else if node.slow_until > now {
            20 * self.plan.sync_max + 500 * MS
        } else {
            self.plan.sync_max
        };
        let took = MS / 20 + self.chance.below(longest);
        let boot = node.boot;
        let write = |node: &mut Node, write: Write, life: Life| node.disk.write(write, life);
        match effect {
            Effect::StoreVote {
                number: store,
                election,
                version,
            } => {
                let voters = node.quorum.as_ref().map(|quorum| quorum.history().voters());
                let voters = voters.cloned().unwrap_or_default();
                let text = raft::quorum_state::encode(&election, version, &voters);
                node.disk.write_vote(store, text);
                let at = node.vote_syncs.join(now, took);
                self.at(at, Item::VoteSynced { node: number, boot });
                return Ok(());
            }
            Effect::StoreCluster {
                number: store,
                cluster,
            } => {
                node.disk.write_cluster(store, cluster);
                let at = node.vote_syncs.join(now, took);
                self.at(at, Item::VoteSynced { node: number, boot });
                return Ok(());
            }
            Effect::Append { batches, life } => {
                self.counts.batches += batches.len() as u64;
                write(node, Write::Append(batches), life);
            }
            Effect::Cut { to, life } => {
                self.counts.cuts += 1;
                write(node, Write::Cut(to), life);
            }
            Effect::Restart { at, life } => {
                self.counts.restarts += 1;
                write(node, Write::Restart(at), life);
            }
            _ => return Ok(()),
        }
        let at = node.log_syncs.join(now, took);
        self.at(at, Item::Synced { node: number, boot });
        Ok(())
    }

    fn check_write(&mut self, number: u32, effect: &Effect) -> Broken {
        let Some(node) = self.nodes.get(&number) else {
            return Ok(());
        };
        match effect {
            Effect::Append { batches, .. } => {
                let image = &node.disk.now;
                let mut before = match image.batches.back() {
                    Some(last) => last.leader_epoch(),
                    None => image.start.map_or(LeaderEpoch(-1), |id| id.epoch),
                };
                for batch in batches {
                    self.oracle.on_append(batch, before)?;
                    before = batch.leader_epoch();
                }
                Ok(())
            }
            Effect::StoreCluster { cluster, .. } => match &node.disk.cluster {
                Some(known) => Err(format!("n{number} is of {known}, and takes {cluster}")),
                None => Ok(()),
            },
            Effect::Cut { to, .. } if *to < node.published => Err(format!(
                "n{number} cuts to {to}, below {}, which it published",
                node.published
            )),
            _ => Ok(()),
        }
    }

    fn of_snapshot(&mut self, number: u32, effect: Effect) -> Broken {
        let now = self.now;
        let Some(node) = self.nodes.get_mut(&number) else {
            return Ok(());
        };
        match effect {
            Effect::WriteSnapshot {
                id,
                position,
                bytes,
            } => {
                let file = node.disk.downloads.entry(id).or_default();
                file.truncate(position as usize);
                if file.len() as u64 != position {
                    return Err(format!("n{number} leaves a gap in the snapshot {id}"));
                }
                file.extend_from_slice(&bytes);
            }
            Effect::FinishSnapshot { id, .. } => {
                let boot = node.boot;
                let wait = MS + self.chance.below(self.plan.sync_max);
                // A write that went wrong, which only the checksums show.
                if !self.is_healed
                    && self.chance.one_in(8)
                    && let Some(file) = node.disk.downloads.get_mut(&id)
                {
                    let at = self.chance.below(file.len() as u64) as usize;
                    file[at] ^= 0x10;
                }
                self.at(
                    now + wait,
                    Item::Verify {
                        node: number,
                        boot,
                        id,
                    },
                );
            }
            Effect::DropSnapshot { id } => {
                node.disk.downloads.remove(&id);
            }
            Effect::Trim { to } => {
                let known = node.disk.snapshots.keys().find(|id| id.end == to);
                let Some(id) = known.copied() else {
                    return Err(format!("n{number} trims to {to}, where no snapshot is"));
                };
                node.disk.trim(id);
            }
            Effect::DeleteSnapshot { id } => {
                node.disk.snapshots.remove(&id);
                node.facts.remove(&id);
            }
            _ => {}
        }
        Ok(())
    }

    pub(super) fn verify(&mut self, number: u32, boot: u32, id: SnapshotId) -> Broken {
        let Some(node) = self.running(number, boot) else {
            return Ok(());
        };
        let Some(file) = node.disk.downloads.remove(&id) else {
            return Ok(());
        };
        let bytes = Bytes::from(file);
        let Some((facts, digest)) = read_snapshot(&bytes) else {
            return self.step(number, Event::SnapshotDamaged { id });
        };
        let size = bytes.len() as u64;
        node.disk.snapshots.insert(id, bytes);
        node.facts.insert(id, facts.clone());
        if self.oracle.digest(id.end) != Some(digest) {
            return Err(format!("the snapshot {id} is not what was committed"));
        }
        self.step(number, Event::SnapshotInstalled { id, size, facts })
    }
}
