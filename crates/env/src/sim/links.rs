//! Links between hosts, and between hosts and clients: what they delay, keep back, lose or refuse.
//!
//! Owns what passes from one place to another, each direction by itself, so that a cut may be one way. A link that was never
//! touched is open and adds no delay.

use std::collections::BTreeMap;
use std::io::ErrorKind;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::time::Duration;

use super::host::HostId;
use super::net::{CLIENT, Due, Network, SERVER};
use super::trace::Event;
use super::world::World;

/// Where an end of a connection is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Site {
    /// Test clients, which no fault of a host reaches.
    Clients,
    Host(HostId),
    /// The object store.
    Bucket,
}

impl Site {
    pub(crate) fn host(self) -> Option<HostId> {
        match self {
            Site::Clients | Site::Bucket => None,
            Site::Host(host) => Some(host),
        }
    }

    pub(crate) fn is(self, host: HostId) -> bool {
        self == Site::Host(host)
    }
}

/// The fate of a message on a link.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Passage {
    #[default]
    Open,
    /// It waits until the link is open again, and then arrives in order: a short cut that the protocol hides.
    Held,
    /// It is lost. A connection that lost something stays silent, and is reset when more comes after the cut.
    Dropped,
    /// Connections are refused, and those that exist are reset as soon as something is sent.
    Refused,
}

/// One direction between two places.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Link {
    pub passage: Passage,
    /// Added to the time that everything travels.
    pub delay: Duration,
}

/// From where, to where.
type Way = (Site, Site);

#[derive(Default)]
pub(crate) struct Links {
    links: BTreeMap<Way, Link>,
    held: BTreeMap<Way, Vec<Due>>,
}

/// Clients are outside of the network of the hosts.
const CLIENTS: Ipv4Addr = Ipv4Addr::new(10, 0, 1, 1);

/// The address of `host`.
#[must_use]
pub fn address_of(host: HostId) -> Ipv4Addr {
    Ipv4Addr::new(10, 0, 0, host.0)
}

impl Links {
    pub(crate) fn of(&self, from: Site, to: Site) -> Link {
        self.links.get(&(from, to)).copied().unwrap_or_default()
    }
}

impl World {
    /// The host that `from` reaches at `ip`. Clients reach the host of a world of one under its loopback address too.
    pub(crate) fn host_at(&self, from: Site, ip: IpAddr) -> Option<HostId> {
        if ip.is_loopback() || ip.is_unspecified() {
            let lone = (self.hosts.len() == 1).then_some(HostId::FIRST);
            return from.host().or(lone);
        }
        let hosts = (1..=self.hosts.len() as u8).map(HostId);
        hosts.into_iter().find(|host| ip == address_of(*host))
    }

    /// The address that `from` has on its way to `to`.
    pub(crate) fn source_of(&self, from: Site, to: IpAddr, port: u16) -> SocketAddr {
        let ip = match from {
            _ if to.is_loopback() => Ipv4Addr::LOCALHOST,
            Site::Clients | Site::Bucket => CLIENTS,
            Site::Host(host) => address_of(host),
        };
        (ip, port).into()
    }

    /// Changes one direction. What was held goes on when the link is no longer held.
    pub(crate) fn set_link(&mut self, from: Site, to: Site, link: Link) {
        let now = self.now;
        let Network { links, .. } = &mut self.network;
        links.links.insert((from, to), link);
        if link.passage != Passage::Held {
            for due in links.held.remove(&(from, to)).unwrap_or_default() {
                self.network.due(now, due);
            }
        }
        self.note(&Event::Link { from, to, link });
    }

    pub(crate) fn mend_links(&mut self) {
        let ways: Vec<Way> = self.network.links.links.keys().copied().collect();
        for (from, to) in ways {
            self.set_link(from, to, Link::default());
        }
    }

    /// The end of a process, for the other side of a connection.
    pub(super) fn reset_if_heard(&mut self, reset: Due) {
        if let Some(Due::Reset { conn, .. }) = self.pass(reset) {
            self.network.reset(conn);
        }
    }

    /// Gives `due` back when its link lets it through.
    pub(super) fn pass(&mut self, due: Due) -> Option<Due> {
        if self.network.links.links.is_empty() {
            return Some(due);
        }
        let (number, side) = match &due {
            Due::Connect { conn } => (*conn, CLIENT),
            Due::Answer { conn, .. } => (*conn, SERVER),
            Due::Arrive { conn, side, .. }
            | Due::Finish { conn, side }
            | Due::Reset { conn, side } => (*conn, *side),
            // The store looks at its links itself.
            Due::Ask { .. } | Due::Told { .. } | Due::GiveUp { .. } | Due::Alarm => {
                return Some(due);
            }
        };
        let conn = self.network.conns.get_mut(&number)?;
        let way @ (from, to) = (conn.sites[side], conn.sites[1 - side]);
        let passage = self.network.links.of(from, to).passage;
        let pipe = &mut conn.pipes[side];
        if passage == Passage::Open && !pipe.has_lost {
            return Some(due);
        }
        for host in [from, to].into_iter().filter_map(Site::host) {
            self.hosts[host.index()].counts.link_cuts += 1;
        }
        match (passage, due) {
            (Passage::Held, due) => self.network.links.held.entry(way).or_default().push(due),
            (Passage::Dropped, _) => pipe.has_lost = true,
            (Passage::Open, due @ (Due::Answer { .. } | Due::Reset { .. })) => return Some(due),
            (Passage::Refused, Due::Connect { .. }) => {
                self.answer_dial(number, Some(ErrorKind::ConnectionRefused));
            }
            (Passage::Open | Passage::Refused, _) => self.network.reset(number),
        }
        None
    }
}
