//! `esker cluster add-voter`, `remove-voter` and `unregister`: the nodes of a cluster change while it runs (KIP-853).
//!
//! Finds out what the protocol wants to know of a voter (its directory, its address) and raises `kraft.version` where that is still 0.
//! A voter that is one already is no failure: a command that was cut off is given again.

use std::time::Duration;

use clap::Args;
use client::{Client, Options, QuorumInfo, ReplicaInfo, VoterAddress, VoterKey};
use model::Instant;
use wire::ErrorCode;

use crate::failure::Failure;

const FEATURE: &str = "kraft.version";
/// A node that was just started has to fetch the metadata before it can be a voter.
const PATIENCE: Duration = Duration::from_secs(30);
/// A node that runs fetches twice a second. One that does not may be of another directory now.
const FETCHED_WITHIN_MS: i64 = 5_000;
/// A process that runs answers in less.
const ANSWER_WAIT: Duration = Duration::from_secs(2);
const RETRY: Duration = Duration::from_millis(200);

#[derive(Args, Debug)]
pub(crate) struct AddArgs {
    /// Number of the node
    pub(crate) node: i32,
    /// Address at which voters find it; where nodes meet at the listener of clients, the one that clients know
    #[arg(long, value_name = "HOST:PORT")]
    pub(crate) address: Option<String>,
}

#[derive(Args, Debug)]
pub(crate) struct RemoveArgs {
    /// Number of the node
    pub(crate) node: i32,
}

pub(super) fn add(client: &mut Client, args: &AddArgs) -> Result<(), Failure> {
    let until = now(client).plus(PATIENCE);
    loop {
        let quorum = client.describe_quorum()?;
        if quorum.voters.iter().any(|voter| voter.node == args.node) {
            return say(&format!("node {} is a voter", args.node), &quorum);
        }
        match try_to_add(client, &quorum, args) {
            // Asked again, the quorum says whether it has become one.
            Ok(()) => {}
            Err(Tried::Later(failure)) if until <= now(client) => return Err(failure),
            Err(Tried::Later(_)) => pause(client),
            Err(Tried::Never(failure)) => return Err(failure),
        }
    }
}

enum Tried {
    /// It may work in a moment.
    Later(Failure),
    Never(Failure),
}

fn try_to_add(client: &mut Client, quorum: &QuorumInfo, args: &AddArgs) -> Result<(), Tried> {
    let never = |error: client::Error| Tried::Never(error.into());
    let node = args.node;
    let Some(replica) = newest(&quorum.observers, node) else {
        let failure = Failure::new(format!("node {node} does not fetch the metadata"));
        return Err(Tried::Later(failure.hint(format!(
            "start it: esker serve --node-id {node} --bootstrap-controller HOST:PORT of a node of this cluster"
        ))));
    };
    let leader = quorum.voters.iter().find(|it| it.node == quorum.leader);
    // Both by the leader's clock.
    let now = leader.and_then(|leader| leader.last_fetch_ms);
    if let (Some(now), Some(last)) = (now, replica.last_fetch_ms)
        && now - last > FETCHED_WITHIN_MS
    {
        let seconds = (now - last) / 1_000;
        let what = format!("node {node} has not fetched the metadata for {seconds} s");
        return Err(Tried::Later(
            Failure::new(what).hint("start it, or see what it reports"),
        ));
    }
    let address = address(client, quorum, args)?;
    let level = client.finalized_features().map_err(never)?;
    if level.get(FEATURE).is_none_or(|level| *level < 1) {
        // A new leader has to hear from each voter first that it supports the level.
        let raised = client.raise_feature(FEATURE, 1);
        raised.map_err(|error| match error.code() {
            Some(ErrorCode::InvalidUpdateVersion) => Tried::Later(error.into()),
            _ => Tried::Never(error.into()),
        })?;
    }
    let key = VoterKey {
        node,
        directory: replica.directory,
    };
    match client.add_voter(key, address) {
        Ok(()) => Ok(()),
        Err(error) => Err(match error.code() {
            Some(ErrorCode::RequestTimedOut | ErrorCode::NotLeaderOrFollower) => {
                Tried::Later(error.into())
            }
            Some(ErrorCode::DuplicateVoter) => return Ok(()),
            _ => Tried::Never(error.into()),
        }),
    }
}

/// Of several directories that a node was seen with the one that fetched last.
fn newest(replicas: &[ReplicaInfo], node: i32) -> Option<ReplicaInfo> {
    let own = replicas.iter().filter(|replica| replica.node == node);
    own.max_by_key(|replica| replica.last_fetch_ms).copied()
}

/// Where the other voters find the node: as they find the leader, at the listener of clients or at one of their own.
fn address(
    client: &mut Client,
    quorum: &QuorumInfo,
    args: &AddArgs,
) -> Result<VoterAddress, Tried> {
    let listener = quorum.listener.clone().ok_or_else(|| {
        Tried::Later(Failure::new(
            "the leader of the metadata does not say where it is found",
        ))
    })?;
    let named = |text: &str| {
        let (host, port) = text.rsplit_once(':')?;
        let host = host.trim_start_matches('[').trim_end_matches(']');
        let port = port.parse().ok().filter(|_| !host.is_empty())?;
        Some((host.to_owned(), port))
    };
    if let Some(text) = &args.address {
        let (host, port) = named(text).ok_or_else(|| {
            Tried::Never(Failure::usage(format!(
                "--address {text}: an address is HOST:PORT"
            )))
        })?;
        return Ok(VoterAddress {
            listener,
            host,
            port,
        });
    }
    let cluster = client
        .describe_cluster()
        .map_err(|error| Tried::Never(error.into()))?;
    let of = |node: i32| cluster.brokers.iter().find(|broker| broker.id == node);
    let leader = of(quorum.leader).map(|broker| (broker.host.clone(), broker.port));
    let known = quorum.addresses.get(&quorum.leader);
    let known = known.and_then(|address| named(address));
    let is_shared = known.is_some_and(|(host, port)| leader == Some((host, i32::from(port))));
    if !is_shared {
        return Err(Tried::Never(
            Failure::new("the voters meet at a listener of their own").hint(format!(
                "say where that of node {} is: --address HOST:PORT",
                args.node
            )),
        ));
    }
    match of(args.node).and_then(|broker| Some((broker, u16::try_from(broker.port).ok()?))) {
        Some((broker, port)) => Ok(VoterAddress {
            listener,
            host: broker.host.clone(),
            port,
        }),
        None => Err(Tried::Later(
            Failure::new(format!("node {} is not registered as a broker", args.node))
                .hint("say where voters find it: --address HOST:PORT"),
        )),
    }
}

pub(super) fn remove(client: &mut Client, args: &RemoveArgs) -> Result<(), Failure> {
    let until = now(client).plus(PATIENCE);
    let mut has_tried = false;
    loop {
        let quorum = client.describe_quorum()?;
        let voter = quorum.voters.iter().find(|voter| voter.node == args.node);
        let Some(voter) = voter else {
            if !has_tried && !is_known(client, &quorum, args.node)? {
                return Err(Failure::new(format!(
                    "there is no node {}, and nothing was changed; the voters are {}",
                    args.node,
                    names(&quorum)
                )));
            }
            return say(&format!("node {} is no voter", args.node), &quorum);
        };
        if quorum.voters.len() == 1 {
            return Err(Failure::new(format!(
                "node {} is the only voter",
                args.node
            )));
        }
        let key = VoterKey {
            node: voter.node,
            directory: voter.directory,
        };
        has_tried = true;
        match client.remove_voter(key) {
            Ok(()) => {}
            Err(error) => match error.code() {
                Some(ErrorCode::RequestTimedOut | ErrorCode::NotLeaderOrFollower)
                    if now(client) < until => {}
                // A leader that removed itself answered no more, and the broker between asked the next leader:
                // the voters asked again show it.
                Some(ErrorCode::VoterNotFound) if now(client) < until => {}
                _ => return Err(error.into()),
            },
        }
        // A leader that removed itself is followed by another.
        pause(client);
    }
}

/// True if a node that has no vote follows the metadata or is registered as a broker. Any other number is a mistake of the one who typed it.
fn is_known(client: &mut Client, quorum: &QuorumInfo, node: i32) -> Result<bool, Failure> {
    let brokers = client.describe_cluster()?.brokers;
    Ok(newest(&quorum.observers, node).is_some() || brokers.iter().any(|it| it.id == node))
}

/// A broker that runs is not taken off: it would come back by itself, or serve nobody. One that is not on the list is a failure, as it is
/// for Kafka.
pub(super) fn unregister(client: &mut Client, args: &RemoveArgs) -> Result<(), Failure> {
    let node = args.node;
    await_fenced(client, node)?;
    let left = replicas_on(client, node)?;
    if let Err(error) = client.unregister_broker(node) {
        if error.code() != Some(ErrorCode::BrokerIdNotRegistered) {
            return Err(error.into());
        }
        let brokers = client.describe_cluster()?.brokers;
        let brokers: Vec<String> = brokers.iter().map(|it| it.id.to_string()).collect();
        return Err(Failure::new(format!(
            "broker {node} is not on the list, and nothing was changed; the brokers are {}",
            brokers.join(", ")
        )));
    }
    println(&format!("broker {node} is taken off the list"))?;
    if let Some(first) = left.first() {
        env::tell!(
            "warning: partitions with a replica on broker {node}: {}, {} among them; give them to others with `kafka-reassign-partitions`",
            left.len(),
            model::printable(first)
        );
    }
    Ok(())
}

/// Waits until the controller has fenced a broker that gives no answer. One that answers is a failure.
fn await_fenced(client: &mut Client, node: i32) -> Result<(), Failure> {
    let until = now(client).plus(PATIENCE);
    loop {
        let cluster = client.describe_cluster()?;
        let live = cluster.brokers.iter().find(|it| it.id == node);
        if live.is_none_or(|it| it.is_fenced) {
            return Ok(());
        }
        let address = client.address(node)?.to_owned();
        let options = Options {
            timeout: ANSWER_WAIT,
            io_timeout: ANSWER_WAIT,
            ..client.options().clone()
        };
        let answers = Client::quorum_at(client.env(), &address, options).is_ok();
        if answers || until <= now(client) {
            let what = format!("broker {node} at {address} is live, and nothing was changed");
            return Err(Failure::new(what).hint(
                "give its replicas to others with `kafka-reassign-partitions`, stop it, and give this command again",
            ));
        }
        pause(client);
    }
}

/// Partitions that have a replica on a broker.
fn replicas_on(client: &mut Client, node: i32) -> Result<Vec<String>, Failure> {
    let topics = client.topics()?;
    let on_it = topics.iter().flat_map(|topic| {
        let held = topic.partitions.iter();
        let held = held.filter(|partition| partition.replicas.contains(&node));
        held.map(|partition| format!("{}-{}", topic.name, partition.index))
    });
    Ok(on_it.collect())
}

fn now(client: &Client) -> Instant {
    client.env().clock.now()
}

fn pause(client: &Client) {
    let until = now(client).plus(RETRY);
    client.env().threads.bell().wait(Some(until));
}

fn println(line: &str) -> Result<(), Failure> {
    use std::io::Write;
    writeln!(std::io::stdout().lock(), "{line}")?;
    Ok(())
}

fn say(what: &str, quorum: &QuorumInfo) -> Result<(), Failure> {
    println(&format!("{what}; the voters are {}", names(quorum)))
}

fn names(quorum: &QuorumInfo) -> String {
    let voters = quorum.voters.iter();
    let voters: Vec<String> = voters.map(|voter| voter.node.to_string()).collect();
    voters.join(", ")
}
