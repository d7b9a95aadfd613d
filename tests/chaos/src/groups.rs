//! Consumer groups, one of each protocol and one of both, whose members are killed, stopped beyond their session, leave and come,
//! while the broker is killed or loses its power under their commits: no partition has two owners, no acknowledged commit is ever forgotten or
//! overtaken, and the groups settle when all is well.
//!
//! Judged by what the members say, each group alone. A member may hold a partition until its session ends, counted from the last beat that was
//! answered; that is what "owner" means for one that is stopped.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use crate::broker::Launch;
use crate::children::{ClientProcess, Clock};
use crate::kills::Moments;
use crate::load::{PARTITIONS, TOPIC, connect, create_topic};
use crate::member::{CLASSIC, CONSUMER};
use crate::place::Place;
use crate::site::Site;
use crate::{Outcome, Plan, Verdict};

pub(crate) const SESSION: Duration = Duration::from_millis(1_500);
/// Groups, and what their members speak, one after the other. In the last a group changes its protocol as members come and go.
const GROUPS: [(&str, &[&str]); 3] = [
    ("chaos-classic", &[CLASSIC]),
    ("chaos-consumer", &[CONSUMER]),
    ("chaos-both", &[CLASSIC, CONSUMER]),
];
/// Of each group.
const MEMBERS: usize = 4;
const ROUNDS: usize = 14;
const PATIENCE: Duration = Duration::from_secs(30);

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum What {
    Took(i32),
    Gave(i32),
    /// Everything is gone: thrown out, or about to leave.
    Out,
    Left,
    /// One that was sent then was answered.
    Beat,
    Found(i32, i64),
    Tried(i32, i64),
    /// Acknowledged then, and when it was asked.
    Commit(i32, i64, u64),
}

#[derive(Clone, Copy, Debug)]
struct Event {
    at: u64,
    what: What,
}

#[derive(Clone, Copy, Debug, Default)]
struct Counts {
    takes: usize,
    outs: usize,
    commits: usize,
}

struct Crowd {
    address: String,
    group: String,
    protocols: &'static [&'static str],
    started: usize,
    present: Vec<ClientProcess>,
    stopped: Vec<(Instant, ClientProcess)>,
    said: Vec<Vec<String>>,
}

impl Crowd {
    fn new(address: &str, group: String, protocols: &'static [&'static str]) -> Crowd {
        Crowd {
            address: address.to_owned(),
            group,
            protocols,
            started: 0,
            present: Vec::new(),
            stopped: Vec::new(),
            said: Vec::new(),
        }
    }

    fn start(&mut self) -> Result<(), String> {
        let protocol = self.protocols[self.started % self.protocols.len()];
        self.started += 1;
        let id = format!("member-{}", self.started);
        let member = ClientProcess::start(&["member", &self.address, &self.group, protocol, &id])?;
        self.present.push(member);
        Ok(())
    }

    /// Those whose session is certainly over go on, and hear that they are out.
    fn wake(&mut self, limit: Duration) -> Result<(), String> {
        for (since, member) in std::mem::take(&mut self.stopped) {
            if since.elapsed() < limit {
                self.stopped.push((since, member));
            } else {
                let outs = member.said("out");
                member.signal("CONT")?;
                member.wait_for("out", outs + 1, PATIENCE)?;
                self.present.push(member);
            }
        }
        Ok(())
    }

    /// The broker has started: all sessions begin anew.
    fn renew(&mut self) {
        for (since, _) in &mut self.stopped {
            *since = Instant::now();
        }
    }

    /// One of them, if there is any, and what becomes of it.
    fn lose_one(&mut self, how: Act, moments: &mut Moments) -> Result<(), String> {
        if self.present.is_empty() {
            return Ok(());
        }
        let at = moments.next(self.present.len() as u64) as usize;
        let member = self.present.swap_remove(at);
        match how {
            Act::Kill => self.said.push(member.kill()),
            Act::Leave => self.said.push(member.finish(PATIENCE)?),
            Act::Stop => {
                member.signal("STOP")?;
                self.stopped.push((Instant::now(), member));
            }
        }
        Ok(())
    }

    /// Waits until each partition has one owner among those who are there, and a new commit.
    fn settle(&self) -> Result<(), String> {
        let begun = Instant::now();
        let since = Clock::new().now();
        let mut last = String::new();
        while begun.elapsed() < PATIENCE {
            std::thread::sleep(Duration::from_millis(50));
            let told = connect(&self.address, PATIENCE)
                .and_then(|mut client| client.describe_group(&self.group));
            let info = match told {
                Ok(info) => info,
                Err(error) => {
                    last = error.to_string();
                    continue;
                }
            };
            let mut owned: Vec<i32> = info
                .members
                .iter()
                .flat_map(|member| member.owned.iter().map(|(_, partition)| *partition))
                .collect();
            owned.sort_unstable();
            let is_whole = owned == (0..PARTITIONS).collect::<Vec<i32>>();
            let is_committed = |partition: i32| {
                let mut present = self.present.iter();
                present.any(|member| has_commit(member, partition, since))
            };
            if info.members.len() == self.present.len()
                && is_whole
                && info.state == "Stable"
                && (0..PARTITIONS).all(is_committed)
            {
                return Ok(());
            }
            last = format!(
                "{} with {} members of {}, partitions {owned:?}",
                info.state,
                info.members.len(),
                self.present.len()
            );
        }
        Err(format!("{} does not settle: {last}", self.group))
    }

    /// All leave; then what they said is held together, and against what is committed.
    fn judge(self) -> Result<Counts, String> {
        let Crowd {
            present, mut said, ..
        } = self;
        for member in present {
            said.push(member.finish(PATIENCE)?);
        }
        let members: Vec<Vec<Event>> = said
            .iter()
            .map(|lines| lines.iter().map(|line| read(line)).collect())
            .collect::<Option<_>>()
            .ok_or("a member says what nobody understands")?;
        let counts = judge(&members, SESSION.as_nanos() as u64)?;
        let committed = connect(&self.address, PATIENCE)
            .and_then(|mut client| client.committed(&self.group))
            .map_err(|error| format!("asking for the commits: {error}"))?;
        for (partition, offset) in &last_commits(&members) {
            let found = committed.get(&(TOPIC.to_owned(), *partition));
            if found.is_none_or(|found| found.offset < *offset) {
                return Err(format!(
                    "partition {partition}: {offset} was acknowledged, at last {found:?} is committed"
                ));
            }
        }
        if counts.outs == 0 || counts.takes < 2 * PARTITIONS as usize || counts.commits < 100 {
            return Err(format!("vacuous: {counts:?}"));
        }
        Ok(counts)
    }
}

/// How a group loses a member.
#[derive(Clone, Copy)]
enum Act {
    Kill,
    Stop,
    Leave,
}

pub(crate) fn run(plan: &Plan, place: &Place) -> Outcome {
    judged(plan, place, Site::of_kills(plan, place)?)
}

/// The power goes in every second round.
pub(crate) fn cuts(plan: &Plan, place: &Place) -> Outcome {
    Site::with_power(plan, place, |site| judged(plan, place, site))
}

/// Groups begin and throw members out as quickly as this.
pub(crate) fn with_short_sessions(launch: Launch) -> Launch {
    let session = SESSION.as_millis();
    let settings = [
        "offsets.topic.num.partitions=3".to_owned(),
        format!("group.min.session.timeout.ms={session}"),
        "group.initial.rebalance.delay.ms=100".to_owned(),
        format!("group.consumer.min.session.timeout.ms={session}"),
        format!("group.consumer.session.timeout.ms={session}"),
        "group.consumer.min.heartbeat.interval.ms=100".to_owned(),
        "group.consumer.heartbeat.interval.ms=100".to_owned(),
    ];
    let set = |launch: Launch, setting: &String| launch.with_setting(setting);
    settings.iter().fold(launch, set)
}

fn judged(plan: &Plan, place: &Place, mut site: Site) -> Outcome {
    site.launch = with_short_sessions(site.launch);
    let mut broker = Some(site.launch.start()?);
    let address = site.launch.address();
    create_topic(&address, TOPIC)?;
    let has_power = site.has_power();
    let strike = |moments: &mut Moments| {
        let killed = broker.take().ok_or("it runs")?;
        // Members commit ten times a second each: all the time something of theirs is on its way.
        broker = Some(site.strike(killed, moments, || true)?);
        Ok(())
    };
    let told = in_chaos(&address, 0, plan.seed, has_power, strike)?;
    told.iter().for_each(|line| place.say(line));
    place.say(&site.describe());
    site.launch.check_words()?;
    site.check_hits()?;
    Ok(Verdict::Passed)
}

/// The topic is there; `strike` kills the coordinator, every second time if it `is_costly`, and returns when another serves. What was
/// done and counted. Groups of another `life` are others.
pub(crate) fn in_chaos(
    address: &str,
    life: usize,
    seed: u64,
    is_costly: bool,
    mut strike: impl FnMut(&mut Moments) -> Result<(), String>,
) -> Result<Vec<String>, String> {
    let mut moments = Moments(seed);
    let name = |group: &str| match life {
        0 => group.to_owned(),
        life => format!("{group}-{life}"),
    };
    let mut crowds = GROUPS.map(|(group, protocols)| Crowd::new(address, name(group), protocols));
    for crowd in &mut crowds {
        (0..MEMBERS).try_for_each(|_| crowd.start())?;
    }
    crowds.iter().try_for_each(Crowd::settle)?;
    let mut done = [0; 4];
    for round in 0..ROUNDS {
        std::thread::sleep(Duration::from_millis(100 + moments.next(900)));
        let act = match round {
            0..4 => round,
            _ if is_costly && round % 2 == 0 => 2,
            _ => moments.next(4) as usize,
        };
        done[act] += 1;
        if act == 2 {
            strike(&mut moments)?;
            for crowd in &mut crowds {
                crowd.renew();
            }
        }
        for crowd in &mut crowds {
            crowd.wake(SESSION * 2)?;
            if act == 1 {
                // Somebody has to be there while others are stopped, or no partition has an owner.
                while crowd.present.len() < 2 {
                    crowd.start()?;
                }
                // A member that is stopped then owns something, instead of waiting for the end of a rebalance.
                crowd.settle()?;
            }
            match act {
                0 => crowd.lose_one(Act::Kill, &mut moments)?,
                1 => crowd.lose_one(Act::Stop, &mut moments)?,
                2 => continue,
                _ => crowd.lose_one(Act::Leave, &mut moments)?,
            }
            if act != 1 {
                crowd.start()?;
            }
        }
    }
    std::thread::sleep(SESSION * 2);
    for crowd in &mut crowds {
        crowd.wake(Duration::ZERO)?;
    }
    crowds.iter().try_for_each(Crowd::settle)?;
    let [kills, stops, deaths, leaves] = done;
    let mut told = vec![format!(
        "each group: {kills} members killed, {stops} stopped beyond their session, {leaves} left; {deaths} deaths of the broker"
    )];
    for crowd in crowds {
        let group = crowd.group.clone();
        let counts = crowd.judge().map_err(|why| format!("{group}: {why}"))?;
        told.push(format!(
            "{group}: partitions were taken {} times, members thrown out {} times, {} commits",
            counts.takes, counts.outs, counts.commits
        ));
    }
    Ok(told)
}

fn has_commit(member: &ClientProcess, partition: i32, since: u64) -> bool {
    member.any_line(|line| {
        read(line).is_some_and(|event| {
            event.at >= since && matches!(event.what, What::Commit(of, ..) if of == partition)
        })
    })
}

fn read(line: &str) -> Option<Event> {
    let mut words = line.split(' ');
    let (word, at) = (words.next()?, words.next()?.parse().ok()?);
    let mut number = || words.next()?.parse::<i64>().ok();
    let what = match word {
        "took" => What::Took(number()? as i32),
        "gave" => What::Gave(number()? as i32),
        "out" => What::Out,
        "left" => What::Left,
        "beat" => What::Beat,
        "found" => What::Found(number()? as i32, number()?),
        "tried" => What::Tried(number()? as i32, number()?),
        "commit" => What::Commit(number()? as i32, number()?, number()? as u64),
        _ => return None,
    };
    Some(Event { at, what })
}

/// Holds the commits of a group together that members say, who say nothing of their sessions: what was counted, and the highest that was
/// acknowledged of each partition.
pub(crate) fn judge_commits(said: &[Vec<String>]) -> Result<(usize, BTreeMap<i32, i64>), String> {
    let known = |lines: &Vec<String>| lines.iter().filter_map(|line| read(line)).collect();
    let members: Vec<Vec<Event>> = said.iter().map(known).collect();
    let counts = judge(&members, 0)?;
    Ok((counts.commits, last_commits(&members)))
}

fn last_commits(members: &[Vec<Event>]) -> BTreeMap<i32, i64> {
    let mut highest = BTreeMap::new();
    for event in members.iter().flatten() {
        if let What::Commit(partition, offset, _) = event.what {
            let known = highest.entry(partition).or_insert(offset);
            *known = offset.max(*known);
        }
    }
    highest
}

/// Holds together what the members say.
fn judge(members: &[Vec<Event>], session: u64) -> Result<Counts, String> {
    let mut counts = Counts::default();
    let all = || members.iter().flatten();
    for event in all() {
        counts.takes += usize::from(matches!(event.what, What::Took(_)));
        counts.outs += usize::from(event.what == What::Out);
        counts.commits += usize::from(matches!(event.what, What::Commit(..)));
    }
    judge_owners(members, session)?;
    let mut tried: BTreeMap<i32, i64> = BTreeMap::new();
    for event in all() {
        if let What::Tried(partition, offset) = event.what {
            let most = tried.entry(partition).or_default();
            *most = offset.max(*most);
        }
    }
    let mut acked: BTreeMap<i32, Vec<(u64, i64)>> = BTreeMap::new();
    for event in all() {
        if let What::Commit(partition, offset, _) = event.what {
            let known = acked.entry(partition).or_default();
            known.push((event.at, offset));
        }
    }
    for event in all() {
        let (partition, offset, asked) = match event.what {
            What::Found(partition, offset) => (partition, offset, event.at),
            What::Commit(partition, offset, asked) => (partition, offset, asked),
            _ => continue,
        };
        let is_commit = asked < event.at;
        let before = acked.get(&partition).into_iter().flatten();
        let before = before.filter(|(at, _)| *at < asked);
        let floor = before.map(|(_, offset)| *offset).max().unwrap_or(0);
        if offset < floor || is_commit && offset == floor {
            return Err(format!(
                "partition {partition}: {:?} was asked for after {floor} was acknowledged",
                event.what
            ));
        }
        if offset > tried.get(&partition).copied().unwrap_or(0) {
            return Err(format!(
                "partition {partition}: {offset} was found, nobody committed so much"
            ));
        }
    }
    Ok(counts)
}

/// When which member believed to own what: each interval ends when it gave up, was thrown out or had to think so.
fn judge_owners(members: &[Vec<Event>], session: u64) -> Result<(), String> {
    let mut held: BTreeMap<i32, Vec<(u64, u64, usize)>> = BTreeMap::new();
    for (number, events) in members.iter().enumerate() {
        let mut open: BTreeMap<i32, u64> = BTreeMap::new();
        let mut until = 0;
        let mut end = |open: (i32, u64), at: u64, until: u64| {
            held.entry(open.0)
                .or_default()
                .push((open.1, at.min(until), number));
        };
        for event in events {
            match event.what {
                What::Beat => {
                    // Sent after its session was over, and answered all the same: what it had may have been another's meanwhile.
                    if until < event.at {
                        for (partition, since) in &mut open {
                            end((*partition, *since), until, until);
                            *since = event.at;
                        }
                    }
                    until = until.max(event.at + session);
                }
                What::Took(partition) => {
                    open.insert(partition, event.at);
                }
                What::Gave(partition) => {
                    if let Some(since) = open.remove(&partition) {
                        end((partition, since), event.at, until);
                    }
                }
                What::Out | What::Left => std::mem::take(&mut open)
                    .into_iter()
                    .for_each(|open| end(open, event.at, until)),
                What::Found(..) | What::Tried(..) | What::Commit(..) => {}
            }
        }
        for open in open {
            end(open, u64::MAX, until);
        }
    }
    for (partition, mut intervals) in held {
        intervals.retain(|(since, until, _)| since < until);
        intervals.sort_unstable();
        for pair in intervals.windows(2) {
            let ((_, until, one), (since, _, other)) = (pair[0], pair[1]);
            if since < until && one != other {
                return Err(format!(
                    "partition {partition} was member {one}'s until {until}, and member {other}'s from {since} on"
                ));
            }
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn events(lines: &[&str]) -> Vec<Event> {
        lines
            .iter()
            .map(|line| read(line).expect("a line"))
            .collect()
    }

    fn check(members: &[&[&str]]) -> Result<(), String> {
        let members: Vec<Vec<Event>> = members.iter().map(|lines| events(lines)).collect();
        judge(&members, 100).map(|_| ())
    }

    #[test]
    fn a_partition_changes_hands_when_it_was_given_up_or_its_session_is_over() {
        let one: &[&str] = &["beat 10", "took 12 0", "beat 50", "gave 60 0"];
        assert_eq!(check(&[one, &["beat 55", "took 61 0"]]), Ok(()));
        assert!(check(&[one, &["beat 55", "took 59 0"]]).is_err());
        let killed: &[&str] = &["beat 10", "took 12 0", "beat 50"];
        assert_eq!(check(&[killed, &["beat 140", "took 151 0"]]), Ok(()));
        assert!(check(&[killed, &["beat 140", "took 149 0"]]).is_err());
        let slow: &[&str] = &["beat 10", "took 12 0", "beat 500", "gave 510 0"];
        assert_eq!(
            check(&[slow, &["beat 190", "took 200 0", "gave 210 0"]]),
            Ok(())
        );
        assert!(check(&[slow, &["beat 450", "took 505 0"]]).is_err());
    }

    #[test]
    fn a_commit_that_is_forgotten_or_overtaken_is_seen() {
        let one: &[&str] = &["tried 10 0 5", "commit 20 0 5 10"];
        assert_eq!(check(&[one, &["found 30 0 5"]]), Ok(()));
        assert_eq!(check(&[one, &["found 15 0 0"]]), Ok(()), "not yet told");
        assert!(check(&[one, &["found 30 0 4"]]).is_err());
        assert!(check(&[one, &["found 30 0 6"]]).is_err());
        let again: &[&str] = &["tried 30 0 5", "commit 40 0 5 30"];
        assert!(check(&[one, again]).is_err());
    }
}
