//! The doors of a broker: where it listens, and the addresses that clients are told.
//!
//! Owns the rules between the settings of listeners. Refuses protocols that are not built yet, and addresses that lead nowhere.

use crate::layers::Layers;
use crate::listener::{self, Listener};
use crate::settings::SettingsError;
use crate::value;

/// A listener that has one of these names speaks it, unless `listener.security.protocol.map` says otherwise.
const PROTOCOLS: [&str; 4] = ["PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL"];

pub(crate) struct Doors {
    pub(crate) listeners: Vec<Listener>,
    pub(crate) advertised: Vec<Listener>,
}

impl Doors {
    pub(crate) fn new(layers: &Layers) -> Result<Doors, SettingsError> {
        let text = |name: &'static str| layers.text(name).unwrap_or_default();
        let parsed = |name: &'static str| {
            listener::parse_all(&text(name))
                .map_err(|reason| SettingsError::Unusable { name, reason })
        };
        let mut listeners = parsed("listeners")?;
        listener::unique_ports(&listeners).map_err(|reason| SettingsError::Unusable {
            name: "listeners",
            reason,
        })?;
        let controllers = value::list(&text("controller.listener.names").to_uppercase());
        listeners.retain(|listener| !controllers.contains(&listener.name));
        if listeners.is_empty() {
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
        for listener in &listeners {
            let protocol = protocols
                .get(&listener.name)
                .map_or(listener.name.as_str(), String::as_str);
            if protocol != "PLAINTEXT" {
                let reason = format!(
                    "{} speaks {protocol}; this version speaks PLAINTEXT only",
                    listener.name
                );
                return Err(SettingsError::Unusable {
                    name: "listeners",
                    reason,
                });
            }
        }
        for name in [
            "inter.broker.listener.name",
            "security.inter.broker.protocol",
        ] {
            let is_listener = |name: &str| listeners.iter().any(|listener| listener.name == name);
            if layers.is_given(name) && !is_listener(&text(name).to_uppercase()) {
                let names: Vec<&str> = listeners.iter().map(|it| it.name.as_str()).collect();
                return Err(SettingsError::Unusable {
                    name,
                    reason: format!("must be the name of a listener: {}", names.join(", ")),
                });
            }
        }
        let mut advertised = parsed("advertised.listeners")?;
        advertised.retain(|listener| !controllers.contains(&listener.name));
        if advertised.is_empty() && layers.is_given("advertised.listeners") {
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
            }),
        }
    }
}
