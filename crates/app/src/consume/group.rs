//! `esker consume --group`: records of the partitions that a group gives this reader.
//!
//! Commits what was printed: every few seconds, before partitions go to another member, and at the end. What was printed and not
//! committed, as after a `kill -9`, is printed again by the next reader of the group.

use std::collections::{BTreeMap, BTreeSet};
use std::io::{BufWriter, Write};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use client::{Consumer, Member, OffsetSpec};
use env::Env;
use model::Instant;

use super::{ConsumeArgs, Left, Printer, options, print, stopped};
use crate::arguments::Global;
use crate::connect::connect;
use crate::failure::Failure;

/// Between two commits, as in Kafka's consumers: what a reader that is killed has printed since is printed again.
const COMMIT_PAUSE: Duration = Duration::from_secs(5);
/// Between two looks for a signal or for partitions, of a reader that has none.
const IDLE_PAUSE: Duration = Duration::from_millis(200);
/// Heartbeats without a partition after which a reader that shall stop at the end stops: the other members have read, or will.
const EMPTY_BEATS_MAX: u32 = 3;

struct Reader<'a> {
    args: &'a ConsumeArgs,
    group: &'a str,
    consumer: Consumer,
    member: Member,
    /// Partitions of the topic when this reader began: later ones are read from their beginning.
    known: i32,
    /// The next offset to be printed, by partition.
    next: BTreeMap<i32, i64>,
    /// What of that is committed.
    committed: BTreeMap<i32, i64>,
    next_commit: Instant,
    empty_beats: u32,
    left: Left,
}

pub(super) fn consume(global: &Global, args: &ConsumeArgs, group: &str) -> Result<(), Failure> {
    let must_stop = stop_on_signal()?;
    let mut client = connect(&Env::real(), global)?;
    let topic = client.topic(&args.topic)?;
    let known = topic.partitions.len() as i32;
    let mut left = Left::new(args.count);
    if args.exit {
        let ends: Vec<_> = (0..known).map(|index| (index, OffsetSpec::End)).collect();
        left.ends = client.resolve(&args.topic, &ends, args.isolation.into())?;
    }
    let (member, given) = Member::join(&mut client, group, &args.topic)?;
    let mut reader = Reader {
        args,
        group,
        next_commit: client.env().clock.now().plus(COMMIT_PAUSE),
        consumer: Consumer::new(client, options(global, args)),
        member,
        known,
        next: BTreeMap::new(),
        committed: BTreeMap::new(),
        empty_beats: 0,
        left,
    };
    let read = reader
        .take_over(given)
        .and_then(|()| reader.run(&Printer::of(global, args), &must_stop));
    // Whatever ended the reading, what was printed is committed and others get the partitions at once.
    let left = reader.leave();
    read.and(left)
}

/// True from the first SIGINT or SIGTERM on; the second ends the process.
fn stop_on_signal() -> Result<Arc<AtomicBool>, Failure> {
    use signal_hook::consts::{SIGINT, SIGTERM};
    let must_stop = Arc::new(AtomicBool::new(false));
    for signal in [SIGINT, SIGTERM] {
        let second =
            signal_hook::flag::register_conditional_shutdown(signal, 130, Arc::clone(&must_stop));
        second
            .and_then(|_| signal_hook::flag::register(signal, Arc::clone(&must_stop)))
            .map_err(|error| Failure::new(format!("cannot listen for signals: {error}")))?;
    }
    Ok(must_stop)
}

impl Reader<'_> {
    fn run(&mut self, printer: &Printer, must_stop: &AtomicBool) -> Result<(), Failure> {
        let mut out = BufWriter::with_capacity(256 << 10, std::io::stdout().lock());
        while !must_stop.load(Ordering::Relaxed) && !self.is_done() {
            let now = self.now();
            if self.member.next_beat() <= now {
                self.beat()?;
            }
            if self.next_commit <= now {
                self.commit()?;
                self.next_commit = now.plus(COMMIT_PAUSE);
            }
            if self.member.owned().is_empty() {
                let until = self.member.next_beat().min(now.plus(IDLE_PAUSE));
                let env = self.consumer.client().env();
                env.threads.bell().wait(Some(until));
            } else {
                self.read(printer, &mut out)?;
            }
        }
        Ok(())
    }

    fn now(&mut self) -> Instant {
        self.consumer.client().env().clock.now()
    }

    /// True if all that was asked for is printed.
    fn is_done(&self) -> bool {
        let is_at_end = |partition: &i32| {
            let end = self.left.ends.get(partition).copied().unwrap_or(0);
            self.next.get(partition).is_some_and(|next| end <= *next)
        };
        let owned = self.member.owned();
        self.left.records == Some(0)
            || self.args.exit
                && if owned.is_empty() {
                    EMPTY_BEATS_MAX <= self.empty_beats
                } else {
                    owned.iter().all(is_at_end)
                }
    }

    fn beat(&mut self) -> Result<(), Failure> {
        if let Some(given) = self.member.beat(self.consumer.client())? {
            self.take_over(given)?;
        }
        Ok(())
    }

    /// Reads the partitions that the group gives this member, and no others.
    fn take_over(&mut self, given: BTreeSet<i32>) -> Result<(), Failure> {
        self.empty_beats = if given.is_empty() {
            self.empty_beats + 1
        } else {
            0
        };
        let owned = self.member.owned().clone();
        if given == owned {
            return Ok(());
        }
        // Those that go are committed first; where that fails the next heartbeat brings the change again.
        if !given.is_superset(&owned) && !self.commit()? {
            return Ok(());
        }
        let is_kept = |partition: &i32| owned.contains(partition) && given.contains(partition);
        self.next.retain(|partition, _| is_kept(partition));
        self.committed.retain(|partition, _| is_kept(partition));
        let topic = &self.args.topic;
        let client = self.consumer.client();
        // The topic may have got partitions.
        client.forget_topic(topic);
        let committed = client.committed(self.group)?;
        let place = |partition: &i32| {
            let known = committed.get(&(topic.clone(), *partition));
            match known {
                Some(found) => OffsetSpec::Offset(found.offset),
                None if self.known <= *partition => OffsetSpec::Beginning,
                None => self.args.from,
            }
        };
        let new = given.difference(&owned);
        let places: Vec<_> = new.map(|index| (*index, place(index))).collect();
        let starts = client.resolve(topic, &places, self.args.isolation.into())?;
        self.next.extend(starts);
        self.consumer.clear();
        for (partition, next) in &self.next {
            self.consumer.assign(topic, *partition, *next)?;
        }
        self.member.own(self.consumer.client(), given);
        Ok(())
    }

    fn read(&mut self, printer: &Printer, out: &mut impl Write) -> Result<(), Failure> {
        let fetched = match self.consumer.poll() {
            Ok(fetched) => fetched,
            Err(error) => return Err(stopped(&mut self.consumer, error)),
        };
        let mut reached = BTreeMap::new();
        for fetched in fetched {
            let is_last = print(&fetched, printer, &mut self.left, out)?;
            let partition = fetched.partition;
            let position = self.consumer.position(&self.args.topic, partition);
            let end = self.left.ends.get(&partition).copied();
            let next = if is_last {
                Some(self.left.after_last)
            } else {
                position.map(|position| end.map_or(position, |end| position.min(end)))
            };
            reached.extend(next.map(|next| (partition, next)));
            if is_last {
                break;
            }
        }
        // What a pipe did not take was not printed.
        out.flush()?;
        self.next.extend(reached);
        Ok(())
    }

    /// Commits what was printed. `false`: a heartbeat comes first.
    fn commit(&mut self) -> Result<bool, Failure> {
        let owned = self.member.owned();
        let is_new = |(partition, next): &(&i32, &i64)| {
            owned.contains(partition) && self.committed.get(partition) != Some(next)
        };
        let new: BTreeMap<i32, i64> = (self.next.iter().filter(is_new))
            .map(|(partition, next)| (*partition, *next))
            .collect();
        if new.is_empty() {
            return Ok(true);
        }
        let is_committed = self.member.commit(self.consumer.client(), &new)?;
        if is_committed {
            self.committed.extend(new);
        }
        Ok(is_committed)
    }

    fn leave(mut self) -> Result<(), Failure> {
        let mut is_committed = self.commit()?;
        if !is_committed {
            // The group changes: with the epoch of the next heartbeat the commit fits again.
            self.member.beat(self.consumer.client())?;
            is_committed = !self.member.owned().is_empty() && self.commit()?;
        }
        self.member.leave(self.consumer.client())?;
        if is_committed {
            Ok(())
        } else {
            Err(Failure::new(format!(
                "the last offsets were not committed: the next reader of {} prints some records again",
                self.group
            )))
        }
    }
}
