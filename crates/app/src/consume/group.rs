//! `esker consume --group`: records of the partitions that a group gives this reader.
//!
//! Commits what was printed: every few seconds, before partitions go to another member, and at the end. What was printed and not
//! committed, as after a `kill -9`, is printed again by the next reader of the group.

use std::collections::{BTreeMap, BTreeSet};
use std::io::{BufWriter, Write};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use client::{Consumer, Member, OffsetSpec, Outages};
use env::Env;
use model::Instant;

use super::{
    ConsumeArgs, LEADER_PAUSE, Left, Printer, divided, options, places, print, report_leaderless,
    soon, stopped,
};
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
    /// Partitions whose leader does not answer, so that it is not known where they begin.
    waiting: BTreeMap<i32, OffsetSpec>,
    /// Partitions that had no leader when this reader began, and are to be read up to the end that they have once there is one.
    endless: BTreeSet<i32>,
    next_look: Instant,
    /// When the reader ends that waits for a leader and reads nothing, if ever.
    waits_until: Option<Instant>,
    /// How long it waits, if not for ever.
    patience: Option<Duration>,
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
    let mut endless = BTreeSet::new();
    if args.exit {
        let isolation = args.isolation.into();
        let all: Vec<i32> = (0..known).collect();
        let (led, leaderless) = divided(&mut client, (&args.topic, isolation), &all)?;
        left.ends = client.resolve(&args.topic, &places(&led, OffsetSpec::End), isolation)?;
        endless.extend(leaderless);
    }
    let (member, given) = Member::join(&mut client, group, &args.topic)?;
    let now = client.env().clock.now();
    let options = options(global, args);
    let mut reader = Reader {
        args,
        group,
        waiting: BTreeMap::new(),
        endless,
        next_look: now,
        waits_until: None,
        patience: matches!(options.outages, Outages::Bounded).then(|| global.timeout()),
        next_commit: now.plus(COMMIT_PAUSE),
        consumer: Consumer::new(client, options),
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
            if self.next_look <= now {
                self.look_for_leaders()?;
                self.next_look = self.now().plus(LEADER_PAUSE);
            }
            // None is owned, or none of them has a leader.
            if self.member.owned().is_empty() || self.next.is_empty() {
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
            if self.endless.contains(partition) {
                return false;
            }
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
        self.waiting.retain(|partition, _| is_kept(partition));
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
        let new: BTreeMap<i32, OffsetSpec> = given
            .difference(&owned)
            .map(|index| (*index, place(index)))
            .collect();
        let isolation = self.args.isolation.into();
        // A committed offset is known without a leader.
        let is_known = |place: &OffsetSpec| matches!(place, OffsetSpec::Offset(_));
        let unknown = new.iter().filter(|(_, place)| !is_known(place));
        let unknown: Vec<i32> = unknown.map(|(index, _)| *index).collect();
        let (_, leaderless) = divided(client, (topic, isolation), &unknown)?;
        let leaderless: BTreeSet<i32> = leaderless.into_iter().collect();
        let (waiting, led): (BTreeMap<_, _>, BTreeMap<_, _>) =
            (new.into_iter()).partition(|(index, _)| leaderless.contains(index));
        let led: Vec<_> = led.into_iter().collect();
        self.next.extend(client.resolve(topic, &led, isolation)?);
        self.waiting.extend(waiting);
        self.consumer.clear();
        for (partition, next) in &self.next {
            self.consumer.assign(topic, *partition, *next)?;
        }
        self.member.own(self.consumer.client(), given);
        let missing = self.missing();
        if !missing.is_subset(&owned) {
            let missing: Vec<i32> = missing.into_iter().collect();
            let theirs = "records come last, if ever: `esker cluster status` says why";
            report_leaderless(topic, &missing, theirs);
        }
        Ok(())
    }

    /// Partitions of this member of which something is not known, as they have no leader.
    fn missing(&self) -> BTreeSet<i32> {
        let owned = self.member.owned();
        let endless = self.endless.intersection(owned).copied();
        endless.chain(self.waiting.keys().copied()).collect()
    }

    /// Begins to read partitions whose leader has come.
    ///
    /// # Errors
    /// None came for as long as this reader waits, and nothing else was read.
    fn look_for_leaders(&mut self) -> Result<(), Failure> {
        let missing = self.missing();
        let Some(first) = missing.first() else {
            self.waits_until = None;
            return Ok(());
        };
        let now = self.now();
        let patience = self.patience;
        let until = (self.waits_until).or_else(|| patience.map(|patience| now.plus(patience)));
        self.waits_until = until;
        let topic = &self.args.topic;
        if until.is_some_and(|until| until <= now) {
            let error = client::Error::TimedOut {
                what: "reading".to_owned(),
                after: patience.unwrap_or_default(),
                last: Some(Box::new(client::Error::NoLeader {
                    topic: topic.clone(),
                    partition: *first,
                })),
            };
            return Err(error.into());
        }
        let client = self.consumer.client();
        client.forget_topic(topic);
        let found = match client.topic(topic) {
            Err(error) if error.is_outage() => return Ok(()),
            found => found?,
        };
        for index in missing {
            if found.leader(index).is_ok() {
                match self.begin(index) {
                    Err(error) if error.is_outage() => {}
                    begun => begun?,
                }
            }
        }
        Ok(())
    }

    fn begin(&mut self, index: i32) -> Result<(), client::Error> {
        let client = self.consumer.client();
        if self.endless.contains(&index) {
            let end = soon(client, self.args, &[index], OffsetSpec::End)?;
            self.left.ends.extend(end);
            self.endless.remove(&index);
        }
        if let Some(place) = self.waiting.get(&index) {
            let start = soon(client, self.args, &[index], *place)?;
            self.consumer
                .assign(&self.args.topic, index, start[&index])?;
            self.next.extend(start);
            self.waiting.remove(&index);
        }
        Ok(())
    }

    fn read(&mut self, printer: &Printer, out: &mut impl Write) -> Result<(), Failure> {
        let fetched = match self.consumer.poll() {
            Ok(fetched) => fetched,
            Err(error) => return Err(stopped(&mut self.consumer, error)),
        };
        let mut reached = BTreeMap::new();
        if !fetched.is_empty() {
            self.waits_until = None;
        }
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
