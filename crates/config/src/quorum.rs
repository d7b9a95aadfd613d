//! The controller quorum that settings name: this node alone, until there is a quorum of several.
//!
//! Refuses a start whose settings name other nodes. Such a node would begin a cluster of its own beside the others, and clients
//! would be served from whichever they reached.

use crate::layers::Layers;
use crate::listener::{self, Listener};
use crate::settings::SettingsError;
use crate::value;

const VOTERS: &str = "controller.quorum.voters";
const SERVERS: &str = "controller.quorum.bootstrap.servers";

pub(crate) fn refuse(layers: &Layers, node_id: i64) -> Result<(), SettingsError> {
    let unusable = |name| move |reason| SettingsError::Unusable { name, reason };
    let list = |name| value::list(&layers.text(name).unwrap_or_default());
    voters(&list(VOTERS), node_id).map_err(unusable(VOTERS))?;
    servers(&list(SERVERS), layers).map_err(unusable(SERVERS))
}

fn voters(voters: &[String], node_id: i64) -> Result<(), String> {
    for voter in voters {
        let parts = voter.split_once('@');
        let id = parts.filter(|(_, address)| Listener::parse(address).is_ok());
        let id = id.and_then(|(id, _)| id.parse::<i64>().ok());
        match id {
            None => return Err(format!("{voter}: a voter is id@host:port")),
            Some(id) if id == node_id => {}
            Some(id) => {
                return Err(format!(
                    "names node {id}, and this is node {node_id}: there is no quorum of several nodes yet, and each would run alone; \
                     name this node only, or leave the setting out"
                ));
            }
        }
    }
    Ok(())
}

fn servers(servers: &[String], layers: &Layers) -> Result<(), String> {
    let all = |name| {
        let text = layers.text(name).unwrap_or_default();
        // Invalid listeners are reported by the rules for listeners.
        listener::parse_all(&text).unwrap_or_default()
    };
    let (bound, advertised) = (all("listeners"), all("advertised.listeners"));
    let is_one = servers.windows(2).all(|pair| pair[0] == pair[1]);
    for server in servers {
        let Ok(address) = Listener::parse(server) else {
            return Err(format!("{server}: a server is host:port"));
        };
        let ways = bound.iter().map(|own| way(own, &advertised, &address));
        let is_own = ways.max().is_some_and(|way| match way {
            Way::None => false,
            Way::Likely => is_one,
            Way::Sure => true,
        });
        if !is_own {
            return Err(format!(
                "{server} is no listener of this node: there is no quorum of several nodes yet, and each would run alone; name this \
                 node only, or leave the setting out"
            ));
        }
    }
    Ok(())
}

/// How sure it is that an address leads to this node.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Way {
    None,
    /// The listener is on all addresses, and nothing says which names this node has.
    Likely,
    Sure,
}

fn way(listener: &Listener, advertised: &[Listener], address: &Listener) -> Way {
    if listener.port != address.port {
        return Way::None;
    }
    let is_same = |host: &str| host.eq_ignore_ascii_case(&address.host);
    let known = advertised.iter().find(|other| other.name == listener.name);
    let is_of_all = is_of_all(&listener.host);
    let is_local = is_loopback(&address.host) && (is_of_all || is_loopback(&listener.host));
    if is_local || is_same(&listener.host) || known.is_some_and(|known| is_same(&known.host)) {
        Way::Sure
    } else if is_of_all && known.is_none() {
        Way::Likely
    } else {
        Way::None
    }
}

fn is_of_all(host: &str) -> bool {
    matches!(host, "" | "0.0.0.0" | "::")
}

fn is_loopback(host: &str) -> bool {
    host.eq_ignore_ascii_case("localhost") || host == "::1" || host.starts_with("127.")
}

#[cfg(test)]
mod tests {
    use crate::fixture::{MACHINE, broker_on};

    fn check(text: &str, words: Option<&str>) {
        let said = broker_on(MACHINE, text)
            .err()
            .map(|error| error.to_string());
        match words {
            None => assert_eq!(said, None, "{text}"),
            Some(words) => assert!(
                said.as_ref().is_some_and(|said| said.contains(words)),
                "{text}: {said:?}"
            ),
        }
    }

    #[test]
    fn a_quorum_of_this_node_alone_is_accepted() {
        for text in [
            "controller.quorum.voters=",
            "controller.quorum.voters=1@localhost:9093",
            "node.id=7\ncontroller.quorum.voters=7@kafka:9093",
            "broker.id=7\ncontroller.quorum.voters=7@[::1]:9093",
            "controller.quorum.bootstrap.servers=",
            "controller.quorum.bootstrap.servers=localhost:9093\nlisteners=PLAINTEXT://:9092,CONTROLLER://:9093",
            "controller.quorum.bootstrap.servers=127.0.0.1:9093\nlisteners=PLAINTEXT://:9092,CONTROLLER://localhost:9093",
            "controller.quorum.bootstrap.servers=localhost:9093,127.0.0.1:9093\nlisteners=PLAINTEXT://:9092,CONTROLLER://:9093",
            "controller.quorum.bootstrap.servers=kafka:9093\nlisteners=PLAINTEXT://:9092,CONTROLLER://:9093",
            "controller.quorum.bootstrap.servers=Kafka:9093\nlisteners=PLAINTEXT://:9092,CONTROLLER://kafka:9093",
            "controller.quorum.bootstrap.servers=a:9093\nlisteners=PLAINTEXT://:9092,CONTROLLER://:9093\n\
             advertised.listeners=PLAINTEXT://b:9092,CONTROLLER://a:9093",
        ] {
            check(text, None);
        }
    }

    #[test]
    fn a_quorum_of_other_nodes_is_refused() {
        let alone = "there is no quorum of several nodes yet, and each would run alone";
        let listeners = "listeners=PLAINTEXT://:9092,CONTROLLER://:9093";
        for text in [
            "controller.quorum.voters=2@localhost:9093".to_owned(),
            "controller.quorum.voters=1@a:9093,2@b:9093,3@c:9093".to_owned(),
            "broker.id=7\ncontroller.quorum.voters=1@a:9093".to_owned(),
            "controller.quorum.bootstrap.servers=a:9093".to_owned(),
            format!("{listeners}\ncontroller.quorum.bootstrap.servers=a:9094"),
            format!("{listeners}\ncontroller.quorum.bootstrap.servers=a:9093,b:9093,c:9093"),
            format!(
                "{listeners}\ncontroller.quorum.bootstrap.servers=a:9093\nadvertised.listeners=PLAINTEXT://b:9092,CONTROLLER://b:9093"
            ),
            "process.roles=broker\ncontroller.quorum.bootstrap.servers=a:9093".to_owned(),
        ] {
            check(&text, Some(alone));
        }
    }

    #[test]
    fn a_quorum_that_cannot_be_read_is_refused() {
        check(
            "controller.quorum.voters=localhost:9093",
            Some("a voter is id@host:port"),
        );
        check(
            "controller.quorum.voters=x@localhost:9093",
            Some("a voter is id@host:port"),
        );
        check(
            "controller.quorum.voters=1@localhost",
            Some("a voter is id@host:port"),
        );
        check(
            "controller.quorum.bootstrap.servers=localhost",
            Some("a server is host:port"),
        );
    }
}
