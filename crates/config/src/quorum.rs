//! The node among others: the voters of the metadata log, the roles of this node, its door for other nodes, and how long one may be
//! silent.
//!
//! Owns which nodes the settings name, and whether this one is alone. Refuses a start with which nodes could not find each other.

mod cluster_id;
mod own;
#[cfg(test)]
mod tests;

use std::path::PathBuf;
use std::time::Duration;

use model::BrokerId;

use crate::doors::Doors;
use crate::layers::Layers;
use crate::listener::{Listener, is_loopback, is_of_all};
use crate::settings::{Settings, SettingsError};
use crate::value;

const VOTERS: &str = "controller.quorum.voters";
const SERVERS: &str = "controller.quorum.bootstrap.servers";

/// The quorum that keeps the metadata, as the settings of this node name it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Quorum {
    /// Empty: this node alone, or those that `servers` know.
    pub voters: Vec<Voter>,
    /// Hosts and ports to ask first for the leader.
    pub servers: Vec<(String, u16)>,
    pub roles: Roles,
    /// The door for other nodes alone: opened beside [`crate::Broker::listeners`], no endpoint of the broker. `None`: the first of
    /// those serves other nodes too.
    pub controller_listener: Option<Listener>,
    /// Where other nodes find that door, if not where it is bound.
    pub controllers_advertised: Vec<Listener>,
    /// Other nodes are served without proof too.
    pub is_insecure: bool,
    /// The file with the cluster secret, if it is named.
    pub secret_file: Option<PathBuf>,

    pub heartbeat_interval: Duration,
    pub session_timeout: Duration,
    pub election_timeout: Duration,
    pub election_backoff_max: Duration,
    pub fetch_timeout: Duration,
    pub request_timeout: Duration,
    pub retry_backoff: Duration,

    /// A controller that is no voter asks the leader to make it one.
    pub joins: bool,

    /// Some of `servers` lead to other nodes.
    asks_others: bool,
}

/// A node that votes on who leads the metadata log.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Voter {
    pub id: BrokerId,
    pub host: String,
    pub port: u16,
}

/// The tasks of this process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Roles {
    /// Serves clients.
    pub broker: bool,
    /// Votes, and may lead the metadata log.
    pub controller: bool,
}

impl Voter {
    /// Parses `id@host:port`.
    fn parse(text: &str) -> Result<Voter, String> {
        let parts = text
            .split_once('@')
            .filter(|(_, address)| !address.contains("://"));
        let voter = parts.and_then(|(id, address)| {
            let id = id.trim().parse().ok().filter(|id| 0 <= *id)?;
            let Listener { host, port, .. } = Listener::parse(address).ok()?;
            let id = BrokerId(id);
            Some(Voter { id, host, port })
        });
        voter.ok_or_else(|| format!("{text}: a voter is id@host:port"))
    }

    /// The voters that the settings name, each id once.
    fn parse_all(text: &str) -> Result<Vec<Voter>, String> {
        let mut voters: Vec<Voter> = Vec::new();
        for item in value::list(text) {
            let voter = Voter::parse(&item)?;
            if voters.iter().any(|other| other.id == voter.id) {
                return Err(format!("names node {} twice", voter.id));
            }
            voters.push(voter);
        }
        Ok(voters)
    }

    /// The voter that a node with these settings is, if they name it.
    #[must_use]
    pub fn own(settings: &Settings) -> Option<Voter> {
        let id = settings.get("node.id").or(settings.get("broker.id"));
        let id = BrokerId(id?.trim().parse().ok()?);
        let voters = Voter::parse_all(settings.get(VOTERS)?).ok()?;
        voters.into_iter().find(|voter| voter.id == id)
    }

    /// `host:port` to dial.
    #[must_use]
    pub fn address(&self) -> String {
        address(&self.host, self.port)
    }
}

impl Roles {
    pub(crate) fn new(layers: &Layers) -> Roles {
        let named = value::list(&layers.text("process.roles").unwrap_or_default());
        let has = |role: &str| named.iter().any(|name| name == role);
        Roles {
            broker: has("broker"),
            controller: has("controller"),
        }
    }
}

impl Quorum {
    pub(crate) fn new(
        layers: &Layers,
        node: BrokerId,
        doors: &Doors,
    ) -> Result<Quorum, SettingsError> {
        let unusable = |name| move |reason| SettingsError::Unusable { name, reason };
        let text = |name| layers.text(name).unwrap_or_default();
        let millis = |name: &str| {
            let number = layers.number(name).unwrap_or(0);
            Duration::from_millis(u64::try_from(number).unwrap_or(0))
        };
        let roles = Roles::new(layers);
        let servers: Result<Vec<Listener>, String> =
            (value::list(&text(SERVERS)).iter()).map(server).collect();
        let servers = servers.map_err(unusable(SERVERS))?;
        let quorum = Quorum {
            voters: Voter::parse_all(&text(VOTERS)).map_err(unusable(VOTERS))?,
            asks_others: !own::are_own(&servers, layers, roles),
            servers: (servers.into_iter())
                .map(|server| (server.host, server.port))
                .collect(),
            roles,
            controller_listener: None,
            controllers_advertised: doors.controllers_advertised.clone(),
            is_insecure: layers.flag("esker.cluster.insecure"),
            secret_file: layers.text("esker.cluster.secret.file").map(PathBuf::from),
            joins: layers.flag("controller.quorum.auto.join.enable"),
            heartbeat_interval: millis("broker.heartbeat.interval.ms"),
            session_timeout: millis("broker.session.timeout.ms"),
            election_timeout: millis("controller.quorum.election.timeout.ms"),
            election_backoff_max: millis("controller.quorum.election.backoff.max.ms"),
            fetch_timeout: millis("controller.quorum.fetch.timeout.ms"),
            request_timeout: millis("controller.quorum.request.timeout.ms"),
            retry_backoff: millis("controller.quorum.retry.backoff.ms"),
        };
        // Nodes that were told its address may join it. A door in a protocol that is not spoken yet keeps no broker from being alone.
        if quorum.is_alone(node) {
            let controller = doors.controller().ok().flatten().cloned();
            return Ok(Quorum {
                controller_listener: controller.filter(|_| quorum.roles.controller),
                ..quorum
            });
        }
        let controller = doors.controller()?;
        quorum.check_voters(node).map_err(unusable(VOTERS))?;
        quorum.check_servers().map_err(unusable(SERVERS))?;
        let is_numbered = layers.is_given("node.id") || layers.is_given("broker.id");
        if !is_numbered {
            let reason =
                "each of several nodes has a number of its own: set it (`esker serve --node-id`)";
            return Err(unusable("node.id")(reason.to_owned()));
        }
        quorum.check_times()?;
        let check = quorum.check_roles(controller, doors.listeners.first());
        check.map_err(unusable("listeners"))?;
        let for_nodes = controller.or(doors.listeners.first());
        let check = quorum.check_own_address(node, for_nodes);
        check.map_err(unusable("listeners"))?;
        Ok(Quorum {
            controller_listener: controller.cloned(),
            ..quorum
        })
    }

    /// True if no other node is named, so that this one is the whole cluster, or the first of one that grows.
    #[must_use]
    pub fn is_alone(&self, node: BrokerId) -> bool {
        let names_others = self.voters.iter().any(|voter| voter.id != node);
        self.roles.broker && !names_others && !self.asks_others
    }

    /// The id that earlier versions gave a new cluster with these voters; `None` if no voters are named. Directories of then keep it.
    #[must_use]
    pub fn derived_cluster_id(&self) -> Option<String> {
        (!self.voters.is_empty()).then(|| cluster_id::of(&self.voters))
    }

    fn check_voters(&self, node: BrokerId) -> Result<(), String> {
        let names_own = self.voters.iter().any(|voter| voter.id == node);
        let Roles { broker, controller } = self.roles;
        if controller && !names_own && !self.voters.is_empty() {
            return Err(format!(
                "does not name node {node}, which is this controller: add {node}@HOST:PORT, or set process.roles=broker"
            ));
        }
        if !controller && names_own {
            return Err(format!(
                "names node {node}, which is this broker and no controller: take it out, or set process.roles=broker,controller"
            ));
        }
        if !broker && self.voters.is_empty() && self.servers.is_empty() {
            return Err(format!(
                "names no voter: a controller must know them; set it to {node}@HOST:PORT for a controller alone"
            ));
        }
        let everywhere = self.voters.iter().find(|voter| is_of_all(&voter.host));
        match everywhere {
            Some(voter) => Err(format!(
                "{}@{}: nobody can connect to all addresses",
                voter.id,
                voter.address()
            )),
            None => Ok(()),
        }
    }

    fn check_servers(&self) -> Result<(), String> {
        match self.servers.iter().find(|(host, _)| is_of_all(host)) {
            Some((host, port)) => Err(format!(
                "{}: nobody can connect to all addresses",
                address(host, *port)
            )),
            None => Ok(()),
        }
    }

    /// A session that ends before its next heartbeat never lasts.
    fn check_times(&self) -> Result<(), SettingsError> {
        let (interval, session) = (self.heartbeat_interval, self.session_timeout);
        if interval.is_zero() {
            return Err(SettingsError::Unusable {
                name: "broker.heartbeat.interval.ms",
                reason: "must be greater than or equal to 1".into(),
            });
        }
        if session <= interval {
            return Err(SettingsError::Unusable {
                name: "broker.session.timeout.ms",
                reason: format!(
                    "must be greater than broker.heartbeat.interval.ms, which is {}",
                    interval.as_millis()
                ),
            });
        }
        Ok(())
    }

    /// A process opens no door for a role that it has not.
    fn check_roles(
        &self,
        controller: Option<&Listener>,
        client: Option<&Listener>,
    ) -> Result<(), String> {
        let Roles {
            broker,
            controller: votes,
        } = self.roles;
        match (controller, client) {
            (Some(door), _) if !votes => Err(format!(
                "{} is one of controller.listener.names, and this broker is no controller: take it out, or set \
                 process.roles=broker,controller",
                door.name
            )),
            (Some(_), Some(door)) if !broker => Err(format!(
                "{} is none of controller.listener.names, and this controller serves no clients: take it out, or set \
                 process.roles=broker,controller",
                door.name
            )),
            _ => Ok(()),
        }
    }

    /// On the loopback a port is the same one for everybody: at another one others would look for this node where nobody listens.
    fn check_own_address(&self, node: BrokerId, door: Option<&Listener>) -> Result<(), String> {
        let is_own = |voter: &&Voter| voter.id == node && is_loopback(&voter.host);
        match (self.voters.iter().find(is_own), door) {
            (Some(own), Some(door)) if door.port != own.port => Err(format!(
                "{} is at {}, and {VOTERS} has others look for node {node} at {}: give both the same port",
                door.name,
                door.address(),
                own.address()
            )),
            _ => Ok(()),
        }
    }
}

fn server(text: &String) -> Result<Listener, String> {
    let parsed = Listener::parse(text).ok();
    parsed
        .filter(|_| !text.contains("://"))
        .ok_or_else(|| format!("{text}: a server is host:port"))
}

fn address(host: &str, port: u16) -> String {
    if host.contains(':') {
        format!("[{host}]:{port}")
    } else {
        format!("{host}:{port}")
    }
}
