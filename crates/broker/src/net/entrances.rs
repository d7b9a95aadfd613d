//! The listeners, as those who connect meet them: which of them ask for a login, and what they offer.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use meta::Image;
use security::Secret;
use security::login::node::NodeProof;
use security::login::scram::{Credential, Fakes, Hash};
use security::login::server::{Offer, Users};

/// One listener. Its connections share it.
pub(crate) struct Entrance {
    pub(crate) name: String,
    /// True if clients are served only once they have logged in.
    pub(crate) asks: bool,
    pub(crate) offer: Arc<Offer>,
    plain_users: BTreeMap<String, Secret<Vec<u8>>>,
    /// Bytes of the longest frame before a login is over.
    pub(crate) frame_bytes_max: i32,
    /// The pause between a login that fails and the answer to it.
    pub(crate) failure_delay: Duration,
}

/// All listeners of this node.
pub(crate) struct Entrances {
    /// Each with the address that it is bound to.
    all: Vec<(SocketAddr, Arc<Entrance>)>,
    /// For a connection that came by none of them: nobody is let in.
    closed: Arc<Entrance>,
    /// The socket in the file system, which lets nobody else in.
    administrators: Arc<Entrance>,
}

impl Entrances {
    /// `bound` are the addresses of the listeners for clients, and behind them that of the controller if it has one of its own.
    pub(crate) fn new(
        broker: &config::Broker,
        bound: &[SocketAddr],
        nodes: Option<&Arc<NodeProof>>,
        random: [u8; 32],
    ) -> Entrances {
        // With a secret all nodes give the same salts to users who do not exist, as they do to others.
        let fakes = nodes.map_or_else(|| Fakes::new(random), |proof| proof.fakes());
        let controllers = broker.quorum.controller_listener.as_ref();
        let listeners = broker.listeners.iter().chain(controllers);
        let entrance = |(listener, bound): (&config::Listener, &SocketAddr)| {
            let login = broker.logins.get(&listener.name)?;
            let entrance = Entrance {
                name: listener.name.clone(),
                asks: login.protocol != config::Protocol::Plaintext,
                offer: Arc::new(Offer {
                    mechanisms: login.mechanisms.clone(),
                    nodes: nodes.cloned(),
                    fakes: fakes.clone(),
                }),
                plain_users: login.plain_users.clone(),
                frame_bytes_max: i32::try_from(login.receive_bytes_max).unwrap_or(i32::MAX),
                failure_delay: login.failure_delay,
            };
            Some((*bound, Arc::new(entrance)))
        };
        Entrances {
            all: listeners.zip(bound).filter_map(entrance).collect(),
            closed: Arc::new(Entrance::without_login(fakes.clone(), true)),
            administrators: Arc::new(Entrance::without_login(fakes, false)),
        }
    }

    pub(crate) fn administrators(&self) -> &Arc<Entrance> {
        &self.administrators
    }

    /// The listener that a connection came by, from its address at this end.
    pub(crate) fn at(&self, local: SocketAddr) -> &Arc<Entrance> {
        let is_at = |bound: &SocketAddr| {
            let is_any = bound.ip().is_unspecified();
            bound.port() == local.port()
                && (is_any || bound.ip().to_canonical() == local.ip().to_canonical())
        };
        let found = self.all.iter().find(|(bound, _)| is_at(bound));
        found.map_or(&self.closed, |(_, entrance)| entrance)
    }
}

impl Entrance {
    /// One at which nobody can log in: all are let in, or, where it `asks` for a login all the same, nobody.
    fn without_login(fakes: Fakes, asks: bool) -> Entrance {
        Entrance {
            name: String::new(),
            asks,
            offer: Arc::new(Offer {
                mechanisms: Vec::new(),
                nodes: None,
                fakes,
            }),
            plain_users: BTreeMap::new(),
            frame_bytes_max: if asks { 0 } else { i32::MAX },
            failure_delay: Duration::ZERO,
        }
    }

    /// A listener without a login.
    #[cfg(test)]
    pub(crate) fn plain() -> Arc<Entrance> {
        Arc::new(Entrance::without_login(Fakes::new([0; 32]), false))
    }
}

/// The users that may log in by one listener.
pub(crate) struct Known<'a> {
    pub(crate) image: &'a Image,
    pub(crate) entrance: &'a Entrance,
}

impl Users for Known<'_> {
    fn scram(&self, hash: Hash, name: &str) -> Option<Credential> {
        self.image.scram(hash, name)
    }

    fn plain(&self, name: &str) -> Option<Secret<Vec<u8>>> {
        self.entrance.plain_users.get(name).cloned()
    }
}
