//! The nodes at the addresses that the command was given: of which cluster each is, and whether it lists brokers.
//!
//! Addresses of two clusters would be shown as one. A controller alone knows no addresses of brokers, and holds up clients that ask for them.

use std::collections::BTreeMap;
use std::time::Duration;

use client::{Client, ClusterInfo, Identity};
use env::Env;

use super::asking::{Answers, Asking};
use super::unheard::waits;
use crate::failure::Failure;

/// Once one node has answered, others have this long to say which cluster they are of.
const OTHERS_WAIT: Duration = Duration::from_millis(500);

/// A broker that answers, with its words.
pub(super) struct Entrance {
    /// Where brokers may be asked: without doors of controllers.
    pub(super) bootstrap: String,
    pub(super) address: String,
    pub(super) cluster: ClusterInfo,
}

/// The entrance to the cluster of the addresses of `asking`, within `wait`.
///
/// # Errors
/// No address leads to a broker, or they are of several clusters.
pub(super) fn enter(asking: &Asking, wait: Duration) -> Result<Entrance, Failure> {
    let soon = asking.for_at_most(wait);
    let described = describe(&soon);
    let doors = Doors::of(&soon);
    doors.one_cluster()?;
    let bootstrap = doors.not_of_controllers(asking);
    if !bootstrap.is_empty() {
        return entrance(bootstrap, &described, asking);
    }
    // Controllers that are brokers too may serve both at one address.
    let listed = asking.at(&doors.listed()).for_at_most(wait);
    let bootstrap = Doors::of(&listed).of_brokers();
    if bootstrap.is_empty() {
        return Err(doors.no_broker());
    }
    let described = describe(&asking.at(&bootstrap).for_at_most(wait));
    entrance(bootstrap, &described, asking)
}

fn describe(asking: &Asking) -> Answers<ClusterInfo> {
    asking.ask_each(|env, address, options| {
        Client::connect(env, address, options)?.describe_cluster()
    })
}

fn entrance(
    bootstrap: String,
    described: &Answers<ClusterInfo>,
    asking: &Asking,
) -> Result<Entrance, Failure> {
    let first = described.first("describing the cluster");
    let (address, cluster) = first.map_err(|error| waits(error, &asking.options))?;
    Ok(Entrance {
        bootstrap,
        address,
        cluster,
    })
}

/// Answers by addresses; those that gave none are left out.
struct Doors(BTreeMap<String, Identity>);

impl Doors {
    fn of(asking: &Asking) -> Doors {
        let answers = asking.ask_each(Client::identity_at);
        let mut found = BTreeMap::new();
        let mut until = asking.until;
        while let Some((address, answer)) = answers.next_until(until) {
            let Ok(identity) = answer else { continue };
            found.insert(address, identity);
            let soon = Env::real().clock.now().plus(OTHERS_WAIT);
            until = until.min(soon);
        }
        Doors(found)
    }

    fn one_cluster(&self) -> Result<(), Failure> {
        let clusters = self.0.iter();
        let clusters =
            clusters.filter_map(|(address, door)| Some((address, door.cluster_id.as_ref()?)));
        let clusters: Vec<_> = clusters.collect();
        if clusters.windows(2).all(|two| two[0].1 == two[1].1) {
            return Ok(());
        }
        let name = |(address, id): &(&String, &String)| {
            format!("{address} is of cluster {}", model::printable(id))
        };
        let names: Vec<String> = clusters.iter().map(name).collect();
        let what = format!(
            "the addresses lead to several clusters: {}",
            names.join(", ")
        );
        Err(Failure::new(what).hint(
            "name nodes of one cluster with --bootstrap; one that was to join and has a cluster of its own was started without --voters and \
             --bootstrap-controller, or with others",
        ))
    }

    /// Those of the addresses that may lead to brokers.
    fn not_of_controllers(&self, asking: &Asking) -> String {
        let is_of_controllers =
            |address: &String| (self.0.get(address)).is_some_and(|it| it.controllers.is_some());
        let mut all = asking.addresses();
        all.retain(|address| !is_of_controllers(address));
        joined(all.iter())
    }

    fn of_brokers(&self) -> String {
        let brokers = self.0.iter().filter(|(_, it)| it.controllers.is_none());
        joined(brokers.map(|(address, _)| address))
    }

    /// The controllers that doors of controllers list.
    fn listed(&self) -> String {
        let listed = self
            .0
            .values()
            .flat_map(|it| it.controllers.iter().flatten());
        joined(listed)
    }

    fn no_broker(&self) -> Failure {
        let is = if self.0.len() == 1 {
            "is the address of a controller, which knows"
        } else {
            "are addresses of controllers, which know"
        };
        let of = self.0.values().find_map(|door| door.cluster_id.as_deref());
        let of = of.map_or_else(String::new, |id| {
            format!(" of cluster {}", model::printable(id))
        });
        let what = format!(
            "{} {is} the quorum{of} and no addresses of brokers",
            joined(self.0.keys())
        );
        Failure::new(what).hint(
            "name a broker with --bootstrap HOST:PORT; `esker cluster quorum` shows from here who keeps the metadata, and the numbers of the brokers",
        )
    }
}

fn joined<'a>(addresses: impl Iterator<Item = &'a String>) -> String {
    let addresses: Vec<&str> = addresses.map(String::as_str).collect();
    addresses.join(",")
}
