//! `esker cluster`: the quorum of the metadata, the brokers, their directories, and what an operator has to do.
//!
//! Asks over the protocol of clients, so that it shows what clients of that broker are told. What does not answer is part of the
//! picture: it is shown, and not waited for.

mod asking;
mod doors;
mod findings;
mod look;
mod sights;
#[cfg(test)]
mod tests;
mod unheard;
mod verify;
mod voters;

use std::collections::BTreeMap;
use std::io::Write;
use std::time::Duration;

use clap::{Args, Subcommand};
use client::{BrokerInfo, Client, ClusterInfo, LogDir, QuorumInfo, ReplicaInfo, Resource, Topic};
use env::Env;
use serde_json::{Value, json};

use crate::arguments::Global;
use crate::connect;
use crate::failure::Failure;
use crate::table::{Table, print_json};
use findings::Finding;
use sights::Voter;
use unheard::Unheard;

#[derive(Args, Debug)]
pub(crate) struct ClusterArgs {
    #[command(subcommand)]
    pub(crate) verb: ClusterVerb,
}

#[derive(Debug, Subcommand)]
pub(crate) enum ClusterVerb {
    /// Show the state of everything, and what to do about what is wrong; the exit code is 1 then
    Status,
    /// List the brokers with their addresses and directories
    #[command(visible_alias = "broker")]
    Brokers,
    /// List the nodes that keep the metadata, and how far each came
    #[command(visible_alias = "voters")]
    Quorum,
    /// Make a node that follows the metadata one of those that keep them
    AddVoter(voters::AddArgs),
    /// Take a node off those that keep the metadata
    RemoveVoter(voters::RemoveArgs),
    /// Take a broker that will not come back off the list of brokers; its replicas stay assigned to it
    Unregister(voters::RemoveArgs),
    /// Compare the replicas of a topic with each other, and name the first offset that differs; the exit code is 1 then
    Verify(verify::VerifyArgs),
}

/// The answers of a cluster.
struct Seen {
    cluster: ClusterInfo,
    /// Or why nobody says so.
    quorum: Result<QuorumInfo, String>,
    /// Of each broker, or why it said nothing.
    log_dirs: BTreeMap<i32, Result<Vec<LogDir>, Unheard>>,
    topics: Vec<Topic>,
    /// No broker that answers has a controller: brokers, leaders and replicas in sync are those of the moment before.
    is_old: bool,
    details: Details,
    features: BTreeMap<String, i16>,
    /// Brokers that live and have no controller, or refuse every partition that they lead, as others say.
    serves_nothing: Vec<i32>,
    /// No broker that answers has a controller, and none serves what it led.
    is_unserved: bool,
    /// Words of brokers that answer and have no controller.
    cut_off: BTreeMap<i32, String>,
    /// Voters that do not follow or are no brokers, and answer.
    voters: BTreeMap<i32, Voter>,
    moving: Vec<Moving>,
}

/// A reassignment that is under way.
#[derive(Clone, Debug)]
struct Moving {
    topic: String,
    partition: i32,
    /// Brokers that get a replica.
    adding: Vec<i32>,
    /// Where none of the new replicas has grown between two looks: for how long none has, as the leader says, or at least.
    stands_still: Option<Still>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Still {
    For(Duration),
    /// The leader does not say.
    AtLeast(Duration),
}

impl Moving {
    fn is_of(&self, other: &Moving) -> bool {
        (&self.topic, self.partition) == (&other.topic, other.partition)
    }
}

/// More about partitions of which some replica is not in sync.
#[derive(Default)]
struct Details {
    /// `min.insync.replicas` of their topics.
    in_sync_min: BTreeMap<String, usize>,
    /// Replicas that have all that was acknowledged, of partitions without a leader, by topic and number.
    complete: BTreeMap<(String, i32), Vec<i32>>,
}

pub(crate) fn cluster(global: &Global, args: &ClusterArgs) -> Result<(), Failure> {
    let env = Env::real();
    let reach = || connect::connect(&env, global);
    match &args.verb {
        ClusterVerb::Status => status(&look::look(global)?, global.json),
        ClusterVerb::Brokers => Ok(brokers(&look::look(global)?).print(global.json)?),
        ClusterVerb::Quorum => quorum(&connect::quorum(&env, global)?, global.json),
        ClusterVerb::Verify(args) => verify::verify(&mut reach()?, args, global.json),
        ClusterVerb::AddVoter(args) => voters::add(&mut reach()?, args),
        ClusterVerb::RemoveVoter(args) => voters::remove(&mut reach()?, args),
        ClusterVerb::Unregister(args) => voters::unregister(&mut reach()?, args),
    }
}

/// Facts that cannot be found out now are left out.
fn details(client: &mut Client, topics: &[Topic]) -> Details {
    let mut details = Details::default();
    let is_short = |topic: &&Topic| {
        let mut partitions = topic.partitions.iter();
        partitions.any(|it| it.leader.is_none() || it.isr.len() < it.replicas.len())
    };
    let short: Vec<&Topic> = topics.iter().filter(is_short).collect();
    for topic in &short {
        let settings = client.describe_configs(&Resource::Topic(topic.name.clone()));
        let mut settings = settings.into_iter().flatten();
        let min = settings.find(|setting| setting.name == "min.insync.replicas");
        if let Some(min) = min.and_then(|min| min.value?.parse().ok()) {
            details.in_sync_min.insert(topic.name.clone(), min);
        }
    }
    let lacks_leader = |topic: &&&Topic| topic.partitions.iter().any(|it| it.leader.is_none());
    let led_by_none: Vec<&str> = (short.iter().filter(lacks_leader))
        .map(|topic| topic.name.as_str())
        .collect();
    let described = client.describe_partitions(&led_by_none).unwrap_or_default();
    for (name, partitions) in described {
        for partition in partitions {
            let complete = [partition.isr, partition.eligible].concat();
            let key = (name.clone(), partition.index);
            details.complete.insert(key, complete);
        }
    }
    details
}

/// Prints what was seen. What has to be done is a failure each, on standard error and in the exit code.
fn status(seen: &Seen, json: bool) -> Result<(), Failure> {
    let findings = findings::of(seen);
    let mut out = std::io::stdout().lock();
    if json {
        print_json(&mut out, &status_json(seen, &findings))?;
    } else {
        write_status(&mut out, seen)?;
    }
    drop(out);
    let failure = |finding: &Finding| Failure::new(&finding.what).hint(&finding.todo);
    Failure::all(findings.iter().map(failure).collect())
}

fn write_status(out: &mut impl Write, seen: &Seen) -> std::io::Result<()> {
    let cluster = &seen.cluster;
    writeln!(
        out,
        "cluster      {}",
        model::printable(&cluster.cluster_id)
    )?;
    match &seen.quorum {
        Ok(quorum) => {
            let address = address_of(seen, quorum.leader);
            let committed = quorum.high_watermark.unwrap_or(0);
            writeln!(
                out,
                "controller   node {}{}, epoch {}, metadata committed up to {committed}",
                quorum.leader,
                address.map(|at| format!(" at {at}")).unwrap_or_default(),
                quorum.epoch,
            )?;
            writeln!(
                out,
                "voters       {}, of which {} follow; {} must run",
                quorum.voters.len(),
                findings::following(quorum).len(),
                findings::majority(quorum)
            )?;
            writeln!(out, "observers    {}", quorum.observers.len())?;
        }
        Err(_) => writeln!(out, "controller   not reachable")?,
    }
    let brokers = cluster.brokers.len();
    if seen.quorum.is_ok() && !seen.is_unserved {
        let fenced = cluster.brokers.iter().filter(|it| it.is_fenced).count();
        writeln!(out, "brokers      {brokers}, {fenced} fenced")?;
    } else {
        // Nobody fences those that are away.
        let answer = seen.log_dirs.values().filter(|it| it.is_ok()).count();
        writeln!(out, "brokers      {brokers}, of which {answer} answer")?;
    }
    let dirs: Vec<&LogDir> = seen.log_dirs.values().flatten().flatten().collect();
    let failed = dirs.iter().filter(|dir| dir.is_failed).count();
    writeln!(out, "directories  {}, {failed} offline", dirs.len())?;
    let count: usize = seen.topics.iter().map(|topic| topic.partitions.len()).sum();
    let state = findings::Partitions::of(seen);
    write!(
        out,
        "partitions   {count} of {} topics, {} offline",
        seen.topics.len(),
        state.offline.len(),
    )?;
    let old = if seen.is_old {
        " (as last known: no broker that answers has a controller)"
    } else {
        ""
    };
    if seen.is_unserved {
        writeln!(out, ": no broker that answers has a controller")?;
    } else {
        writeln!(
            out,
            ", {} below min.insync.replicas, {} under-replicated{old}",
            state.below_min.len(),
            state.under_replicated.len()
        )?;
    }
    let features = seen.features.iter();
    let features: Vec<String> = features
        .map(|(name, level)| format!("{} {level}", model::printable(name)))
        .collect();
    writeln!(out, "features     {}", features.join(", "))?;
    for note in findings::notes(seen) {
        writeln!(out, "             {note}")?;
    }
    Ok(())
}

fn status_json(seen: &Seen, findings: &[Finding]) -> Value {
    let quorum = seen.quorum.as_ref().map(quorum_json);
    let state = findings::Partitions::of(seen);
    let names = |of: &[findings::Named<'_>]| -> Vec<String> {
        of.iter().map(findings::Named::to_string).collect()
    };
    let findings = findings
        .iter()
        .map(|finding| json!({"what": finding.what, "todo": finding.todo}));
    json!({
        "cluster_id": seen.cluster.cluster_id,
        "quorum": quorum.unwrap_or(Value::Null),
        "brokers": brokers(seen).json(),
        "log_dirs": log_dirs(seen).json(),
        "topics": seen.topics.len(),
        "offline_partitions": names(&state.offline),
        "below_min_isr_partitions": names(&state.below_min),
        "under_replicated_partitions": names(&state.under_replicated),
        "features": seen.features,
        "notes": findings::notes(seen),
        "findings": findings.collect::<Vec<Value>>(),
    })
}

fn log_dirs(seen: &Seen) -> Table {
    let mut table = Table::new(&["broker", "path", "state", "usable_bytes", "total_bytes"]);
    for dir in seen.log_dirs.values().flatten().flatten() {
        table.row([
            json!(dir.broker),
            json!(dir.path),
            json!(state_of(dir)),
            json!(dir.usable_bytes),
            json!(dir.total_bytes),
        ]);
    }
    table
}

fn state_of(dir: &LogDir) -> &'static str {
    if dir.is_failed {
        "offline"
    } else if findings::is_full(dir) {
        "full"
    } else if dir.is_cordoned {
        "cordoned"
    } else {
        "online"
    }
}

fn brokers(seen: &Seen) -> Table {
    let mut table = Table::new(&[
        "broker",
        "address",
        "rack",
        "state",
        "leads",
        "replicas",
        "log_dirs",
        "offline_log_dirs",
    ]);
    let partitions = || seen.topics.iter().flat_map(|topic| &topic.partitions);
    for broker in &seen.cluster.brokers {
        let led = partitions().filter(|it| it.leader == Some(broker.id));
        let held = partitions().filter(|it| it.replicas.contains(&broker.id));
        let dirs = seen.log_dirs.get(&broker.id);
        let state = match dirs {
            _ if broker.is_fenced => "fenced",
            Some(Err(_)) => "not reachable",
            _ => "live",
        };
        let dirs = dirs.and_then(|dirs| dirs.as_ref().ok());
        let failed = |dirs: &Vec<LogDir>| dirs.iter().filter(|dir| dir.is_failed).count();
        table.row([
            json!(broker.id),
            json!(address(broker)),
            json!(broker.rack),
            json!(state),
            json!(led.count()),
            json!(held.count()),
            json!(dirs.map(Vec::len)),
            json!(dirs.map(failed)),
        ]);
    }
    table
}

fn address(broker: &BrokerInfo) -> String {
    if broker.host.contains(':') {
        format!("[{}]:{}", broker.host, broker.port)
    } else {
        format!("{}:{}", broker.host, broker.port)
    }
}

/// Where a node is found: as a voter, or as a broker.
fn address_of(seen: &Seen, node: i32) -> Option<String> {
    let voters = seen.quorum.as_ref().ok().map(|quorum| &quorum.addresses);
    let as_voter = voters.and_then(|voters| voters.get(&node).cloned());
    let mut brokers = seen.cluster.brokers.iter();
    as_voter.or_else(|| brokers.find(|broker| broker.id == node).map(address))
}

fn quorum(quorum: &QuorumInfo, json: bool) -> Result<(), Failure> {
    let mut out = std::io::stdout().lock();
    if json {
        return Ok(print_json(&mut out, &quorum_json(quorum))?);
    }
    writeln!(
        out,
        "leader {}  epoch {}  committed {}",
        quorum.leader,
        quorum.epoch,
        quorum
            .high_watermark
            .map_or("-".to_owned(), |offset| offset.to_string())
    )?;
    Ok(replicas(quorum).write_text(&mut out)?)
}

fn quorum_json(quorum: &QuorumInfo) -> Value {
    json!({
        "leader": quorum.leader,
        "epoch": quorum.epoch,
        "committed": quorum.high_watermark,
        "replicas": replicas(quorum).json(),
    })
}

/// One row per replica. Times count back from now on the leader's clock, so that ours may be wrong.
fn replicas(quorum: &QuorumInfo) -> Table {
    let mut table = Table::new(&[
        "node",
        "role",
        "address",
        "log_end",
        "lag",
        "fetched_ms_ago",
        "caught_up_ms_ago",
        "directory",
    ]);
    let voters = quorum.voters.iter().map(|replica| {
        let leads = replica.node == quorum.leader;
        (replica, if leads { "leader" } else { "voter" })
    });
    let observers = quorum.observers.iter().map(|replica| (replica, "observer"));
    for (replica, role) in voters.chain(observers) {
        let ago = |time: Option<i64>| Some((now(quorum)? - time?).max(0));
        table.row([
            json!(replica.node),
            json!(role),
            json!(quorum.addresses.get(&replica.node)),
            json!(replica.log_end),
            json!(lag(quorum, replica)),
            json!(ago(replica.last_fetch_ms)),
            json!(ago(replica.last_caught_up_ms)),
            json!((!replica.directory.is_zero()).then(|| replica.directory.to_string())),
        ]);
    }
    table
}

fn leader(quorum: &QuorumInfo) -> Option<&ReplicaInfo> {
    let mut voters = quorum.voters.iter();
    voters.find(|voter| voter.node == quorum.leader)
}

/// The time at the leader when it answered: it fetches from itself all the time.
fn now(quorum: &QuorumInfo) -> Option<i64> {
    leader(quorum)?.last_fetch_ms
}

/// Records that a replica is behind its leader.
fn lag(quorum: &QuorumInfo, replica: &ReplicaInfo) -> Option<i64> {
    Some((leader(quorum)?.log_end? - replica.log_end?).max(0))
}
