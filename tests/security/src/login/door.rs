//! A broker with users, and listeners at which these log in.

use crate::broker::{Node, Place, write_secret};

pub(crate) const USER: &str = "alice";
pub(crate) const OTHER: &str = "bob";
pub(crate) const PASSWORD: &str = "open-sesame";
/// The life of a session at the listener where sessions end.
pub(crate) const SESSION_MS: u64 = 2500;

pub(crate) struct Broker {
    pub(crate) node: Node,
    /// Sessions have no end here.
    pub(crate) users: String,
    /// Sessions end here.
    pub(crate) guests: String,
}

impl Broker {
    pub(crate) fn start(place: &mut Place, settings: &[&str]) -> Result<Broker, String> {
        let mut next = || format!("127.0.0.1:{}", place.port());
        let (plain, users, guests) = (next(), next(), next());
        let listeners = format!("listeners=PLAINTEXT://{plain},USERS://{users},GUESTS://{guests}");
        let session = format!("listener.name.guests.connections.max.reauth.ms={SESSION_MS}");
        let mut arguments = Vec::new();
        let own = [
            listeners.as_str(),
            "listener.security.protocol.map=PLAINTEXT:PLAINTEXT,USERS:SASL_PLAINTEXT,GUESTS:SASL_PLAINTEXT",
            "inter.broker.listener.name=PLAINTEXT",
            "sasl.enabled.mechanisms=SCRAM-SHA-512,SCRAM-SHA-256,PLAIN",
            &session,
        ];
        for setting in own.iter().chain(settings) {
            arguments.extend(["--set", setting]);
        }
        let mut node = Node::new(place, "broker", &plain, &arguments);
        node.start()?;
        node.await_serving()?;
        let file = place.root.join("password");
        write_secret(&file, PASSWORD, 0o600)?;
        let file = file.display().to_string();
        for user in [USER, OTHER] {
            let add = ["user", "add", user, "--password-file", &file, "-b", &plain];
            place.esker(&add, "")?;
        }
        Ok(Broker {
            node,
            users,
            guests,
        })
    }
}
