//! The metadata as one asker sees them: what is published, or what a change is decided on.

use std::net::IpAddr;
use std::sync::Arc;

use env::logs::Loggers;
use meta::{Image, Registration};
use model::BrokerId;

use super::Desk;
use crate::asker::Asker;
use crate::settings::Settings;

/// The data that operations on metadata look at.
#[derive(Clone, Copy)]
pub(crate) struct View<'a> {
    pub(crate) image: &'a Image,
    pub(crate) broker: &'a config::Broker,
    pub(crate) cluster_id: &'a str,
    /// Name of the listener the request came through: clients are sent to addresses of the same name.
    pub(crate) listener: &'a str,
    pub(crate) asker: &'a Asker,
    /// A volume of this broker takes names that differ in case alone for one.
    pub(crate) folds_names: bool,
    pub(crate) loggers: &'a Loggers,
    /// The active controller, where somebody looked.
    pub(crate) leader: Option<BrokerId>,
    /// This broker acts as no leader, whatever the metadata say: others may lead by now.
    pub(crate) is_silent: bool,
}

/// Where a client finds a broker.
pub(crate) struct Endpoint {
    pub(crate) host: String,
    pub(crate) port: u16,
}

impl<'a> View<'a> {
    pub(crate) fn new(
        image: &'a Image,
        settings: &'a Settings,
        cluster_id: &'a str,
        asker: &'a Asker,
        loggers: &'a Loggers,
    ) -> View<'a> {
        let broker = &*settings.broker;
        let registered = image
            .broker(broker.node_id)
            .map_or(&[][..], |registration| &registration.endpoints);
        // Listeners are told apart by their port: it is what the connection knows.
        let by_port = broker
            .listeners
            .iter()
            .find(|listener| listener.port == asker.local.port());
        let listener = by_port.map(|listener| listener.name.as_str());
        let first = || {
            registered
                .first()
                .map_or("PLAINTEXT", |endpoint| endpoint.name.as_str())
        };
        View {
            image,
            broker,
            cluster_id,
            listener: listener.unwrap_or_else(first),
            asker,
            folds_names: false,
            loggers,
            leader: None,
            is_silent: false,
        }
    }

    /// The same with the active controller, as this node knows it.
    pub(crate) fn led_by(self, leader: Option<BrokerId>) -> View<'a> {
        View { leader, ..self }
    }

    /// The same where a volume takes names that differ in case alone for one.
    pub(crate) fn folding_names(self, folds_names: bool) -> View<'a> {
        View {
            folds_names,
            ..self
        }
    }

    /// Where clients of this listener reach `broker`; `None` when it has no such listener. One that takes connections on all
    /// addresses is reached at the address that the asker used.
    pub(crate) fn endpoint(&self, broker: &Registration) -> Option<Endpoint> {
        let endpoint = broker
            .endpoints
            .iter()
            .find(|endpoint| endpoint.name == self.listener)?;
        let is_every = endpoint
            .host
            .parse()
            .is_ok_and(|ip: IpAddr| ip.is_unspecified());
        let host = if is_every {
            self.asker.local.ip().to_string()
        } else {
            endpoint.host.clone()
        };
        Some(Endpoint {
            host,
            port: endpoint.port,
        })
    }

    /// True if the asker came to a listener for controllers alone.
    pub(crate) fn is_at_controllers(&self) -> bool {
        let own = self.broker.quorum.controller_listener.as_ref();
        own.is_some_and(|own| own.port == self.asker.local.port())
    }

    /// The endpoint of a broker that lives.
    pub(crate) fn live_endpoint(&self, id: BrokerId) -> Option<Endpoint> {
        let broker = self.image.broker(id).filter(|broker| !broker.is_fenced)?;
        self.endpoint(broker)
    }

    /// The brokers that live. This one alone where the metadata count nobody in: it answers, and some clients forget every broker by an answer
    /// that names none, and find no way back (librdkafka since 2.10).
    pub(crate) fn live_brokers(&self) -> impl Iterator<Item = &Registration> {
        let is_alive = |broker: &&Registration| !broker.is_fenced;
        let own = self.image.broker(self.broker.node_id);
        let is_empty = !self.image.brokers().any(|broker| is_alive(&broker));
        let alone = own.filter(|_| is_empty).into_iter();
        self.image.brokers().filter(is_alive).chain(alone)
    }

    /// False for this broker while it acts as no leader.
    pub(crate) fn acts_as_leader(&self, id: BrokerId) -> bool {
        !self.is_silent || id != self.broker.node_id
    }

    /// The broker that clients take for the controller; -1 if none lives. The active controller may serve no clients, so that Kafka
    /// names any broker: each passes on what it cannot decide. The active one, where it is a broker, saves a way.
    pub(crate) fn controller_id(&self) -> i32 {
        let lives = |id: &BrokerId| self.live_endpoint(*id).is_some();
        let preferred = [self.leader, Some(self.broker.node_id)].into_iter();
        let any = self.image.brokers().map(|broker| broker.id);
        let found = preferred.flatten().chain(any).find(lives);
        found.unwrap_or(meta::NO_LEADER).0
    }
}

/// The owner of the published metadata that a view borrows from.
pub(crate) struct Scene {
    pub(crate) image: Arc<Image>,
    pub(crate) settings: Arc<Settings>,
    pub(crate) asker: Arc<Asker>,
    folds_names: bool,
    loggers: Arc<Loggers>,
    is_silent: bool,
}

impl Scene {
    pub(crate) fn new(desk: &Desk, asker: &Arc<Asker>) -> Scene {
        Scene {
            image: desk.shared.catalog.image(),
            settings: desk.shared.catalog.config(),
            asker: Arc::clone(asker),
            folds_names: desk.shared.volumes.folds_names(),
            loggers: Arc::clone(&desk.shared.env.loggers),
            is_silent: desk.shared.state.is_self_fenced(),
        }
    }

    pub(crate) fn view<'a>(&'a self, cluster_id: &'a str) -> View<'a> {
        let view = View::new(
            &self.image,
            &self.settings,
            cluster_id,
            &self.asker,
            &self.loggers,
        );
        View {
            is_silent: self.is_silent,
            ..view.folding_names(self.folds_names)
        }
    }
}
