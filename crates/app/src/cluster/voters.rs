//! `esker cluster add-voter`, `remove-voter` and `unregister`: the nodes of a cluster change while it runs (KIP-853).
//!
//! Finds out what the protocol wants to know of a voter (its directory, its address) and raises `kraft.version` where that is still 0.
//! A voter that is one already is no failure: a command that was cut off is given again.

use std::time::Duration;

use clap::Args;
use client::{Client, QuorumInfo, ReplicaInfo, VoterAddress, VoterKey};
use model::Instant;
use wire::ErrorCode;

use crate::failure::Failure;

const FEATURE: &str = "kraft.version";
/// A node that was just started has to fetch the metadata before it can be a voter.
const PATIENCE: Duration = Duration::from_secs(30);
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
    loop {
        let quorum = client.describe_quorum()?;
        let voter = quorum.voters.iter().find(|voter| voter.node == args.node);
        let Some(voter) = voter else {
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

/// One that is not on the list is no failure, as with voters.
pub(super) fn unregister(client: &mut Client, args: &RemoveArgs) -> Result<(), Failure> {
    let outcome = client.unregister_broker(args.node);
    let is_gone = |error: &client::Error| error.code() == Some(ErrorCode::BrokerIdNotRegistered);
    if let Err(error) = outcome
        && !is_gone(&error)
    {
        return Err(error.into());
    }
    println(&format!("broker {} is not on the list", args.node))
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
    let voters: Vec<String> = (quorum.voters.iter())
        .map(|voter| voter.node.to_string())
        .collect();
    println(&format!("{what}; the voters are {}", voters.join(", ")))
}
