//! The doors of a broker: where it listens, and the addresses that clients are told.
//!
//! Owns the rules between the settings of listeners. Refuses addresses that lead nowhere; see [`Login`] for who is let in.

use std::collections::BTreeMap;

use crate::layers::Layers;
use crate::listener::{self, Listener};
use crate::login::{Login, Protocol};
use crate::quorum::Roles;
use crate::settings::SettingsError;
use crate::value;

/// A listener that has one of these names speaks it, unless `listener.security.protocol.map` says otherwise.
const PROTOCOLS: [&str; 4] = ["PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL"];

pub(crate) struct Doors {
    /// For clients, and of brokers among themselves.
    pub(crate) listeners: Vec<Listener>,
    pub(crate) advertised: Vec<Listener>,
    /// Those of the controller.
    controllers: Vec<Listener>,
    /// Where others find those.
    pub(crate) controllers_advertised: Vec<Listener>,
    protocols: BTreeMap<String, String>,
    /// By the name of the listener, without that of the controller.
    pub(crate) logins: BTreeMap<String, Login>,
}

impl Doors {
    pub(crate) fn new(layers: &Layers, roles: Roles) -> Result<Doors, SettingsError> {
        let text = |name: &'static str| layers.text(name).unwrap_or_default();
        let parsed = |name: &'static str| {
            listener::parse_all(&text(name))
                .map_err(|reason| SettingsError::Unusable { name, reason })
        };
        let listeners = parsed("listeners")?;
        listener::unique_ports(&listeners).map_err(|reason| SettingsError::Unusable {
            name: "listeners",
            reason,
        })?;
        let names = value::list(&text("controller.listener.names").to_uppercase());
        let is_controllers = |listener: &Listener| names.contains(&listener.name);
        let (controllers, listeners): (Vec<Listener>, Vec<Listener>) =
            listeners.into_iter().partition(is_controllers);
        if listeners.is_empty() && (roles.broker || controllers.is_empty()) {
            return Err(SettingsError::Unusable {
                name: "listeners",
                reason: "names no door for clients".into(),
            });
        }
        let protocols =
            listener::protocols(&text("listener.security.protocol.map")).map_err(|reason| {
                SettingsError::Unusable {
                    name: "listener.security.protocol.map",
                    reason,
                }
            })?;
        let is_named = |listener: &&Listener| {
            protocols.contains_key(&listener.name) || PROTOCOLS.contains(&listener.name.as_str())
        };
        let unnamed: Vec<String> = listeners
            .iter()
            .filter(|listener| !is_named(listener))
            .map(|listener| format!("{}:PLAINTEXT", listener.name))
            .collect();
        if !unnamed.is_empty() {
            let names: Vec<&str> = unnamed
                .iter()
                .filter_map(|it| it.split(':').next())
                .collect();
            return Err(SettingsError::Unusable {
                name: "listener.security.protocol.map",
                reason: format!(
                    "says no protocol for {}; set it to {}",
                    names.join(" and "),
                    unnamed.join(",")
                ),
            });
        }
        let mut logins = BTreeMap::new();
        for listener in &listeners {
            let protocol = protocols
                .get(&listener.name)
                .map_or(listener.name.as_str(), String::as_str);
            let protocol = Protocol::of(&listener.name, protocol)?;
            let login = Login::new(layers, &listener.name, protocol)?;
            logins.insert(listener.name.clone(), login);
        }
        for name in [
            "inter.broker.listener.name",
            "security.inter.broker.protocol",
        ] {
            let is_listener = |name: &str| listeners.iter().any(|listener| listener.name == name);
            if roles.broker && layers.is_given(name) && !is_listener(&text(name).to_uppercase()) {
                let names: Vec<&str> = listeners.iter().map(|it| it.name.as_str()).collect();
                return Err(SettingsError::Unusable {
                    name,
                    reason: format!("must be the name of a listener: {}", names.join(", ")),
                });
            }
        }
        let (controllers_advertised, advertised): (Vec<Listener>, Vec<Listener>) =
            parsed("advertised.listeners")?
                .into_iter()
                .partition(is_controllers);
        if roles.broker && advertised.is_empty() && layers.is_given("advertised.listeners") {
            return Err(SettingsError::Unusable {
                name: "advertised.listeners",
                reason: "names no door for clients; leave it out to advertise listeners as they are bound".into(),
            });
        }
        let reason = advertised.iter().find_map(|address| match address {
            address if address.host.is_empty() || address.host == "0.0.0.0" => {
                Some("clients cannot connect to all addresses".to_owned())
            }
            address
                if !listeners
                    .iter()
                    .any(|listener| listener.name == address.name) =>
            {
                Some(format!("{} is no listener", address.name))
            }
            _ => None,
        });
        match reason {
            Some(reason) => Err(SettingsError::Unusable {
                name: "advertised.listeners",
                reason,
            }),
            None => Ok(Doors {
                listeners,
                advertised,
                controllers,
                controllers_advertised,
                protocols,
                logins,
            }),
        }
    }

    /// The door of the controller, for other nodes.
    pub(crate) fn controller(&self) -> Result<Option<&Listener>, SettingsError> {
        let Some(door) = self.controllers.first() else {
            return Ok(None);
        };
        self.protocol_of_controller(door)?;
        Ok(Some(door))
    }

    fn protocol_of_controller(&self, door: &Listener) -> Result<Protocol, SettingsError> {
        // A controller listener that the protocol map lacks defaults to PLAINTEXT, as in Kafka.
        let protocol = self.protocols.get(&door.name);
        Protocol::of(&door.name, protocol.map_or("PLAINTEXT", String::as_str))
    }

    /// The logins of all doors, and of that of the controller if it is open.
    pub(crate) fn logins_with(
        &self,
        layers: &Layers,
        controller: Option<&Listener>,
    ) -> Result<BTreeMap<String, Login>, SettingsError> {
        let mut logins = self.logins.clone();
        if let Some(door) = controller {
            let protocol = self.protocol_of_controller(door)?;
            logins.insert(door.name.clone(), Login::new(layers, &door.name, protocol)?);
        }
        Ok(logins)
    }
}
