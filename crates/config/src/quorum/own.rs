//! The addresses that lead to this node.
//!
//! Owns the guess that tells a node which names itself from one that names others. A wrong one would begin a cluster of its own
//! beside the others, so what is not sure leads elsewhere, unless nothing but one address is named.

use crate::layers::Layers;
use crate::listener::{self, Listener, is_loopback, is_of_all};

use super::Roles;

/// True if all of `servers` lead to this node.
pub(super) fn are_own(servers: &[Listener], layers: &Layers, roles: Roles) -> bool {
    let all = |name| {
        let text = layers.text(name).unwrap_or_default();
        // Invalid listeners are reported by the rules for listeners.
        listener::parse_all(&text).unwrap_or_default()
    };
    let (bound, advertised) = (all("listeners"), all("advertised.listeners"));
    // A broker that is no controller asks others; on each host they may listen on the same port.
    let is_one = roles.controller && servers.windows(2).all(|pair| pair[0] == pair[1]);
    servers.iter().all(|address| {
        let ways = bound.iter().map(|own| way(own, &advertised, address));
        ways.max().is_some_and(|way| match way {
            Way::None => false,
            Way::Likely => is_one,
            Way::Sure => true,
        })
    })
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
