//! The parts of one broker, together: for the loops that work with most of them.

use std::sync::Arc;

use env::Env;
use parking_lot::Mutex;

use crate::control::MetadataLog;
use crate::mail::Mail;
use crate::meters::Meters;
use crate::moves::Moves;
use crate::net::Entrances;
use crate::node::{BrokerState, Catalog, Doors, Lifetime, Volumes};
use crate::passwords::Passwords;
use crate::peers::{Ceilings, Identity, Names};
use crate::reads::ReaderPool;
use crate::telemetry::Telemetry;

pub(crate) struct Shared {
    pub(crate) env: Env,
    pub(crate) state: Arc<BrokerState>,
    pub(crate) catalog: Arc<Catalog>,
    pub(crate) metadata: Arc<MetadataLog>,
    pub(crate) volumes: Arc<Volumes>,
    pub(crate) mail: Arc<Mail>,
    pub(crate) doors: Doors,
    /// The listeners, and what they ask of those who connect.
    pub(crate) entrances: Entrances,
    pub(crate) passwords: Arc<Passwords>,
    pub(crate) meters: Arc<Meters>,
    pub(crate) lifetime: Arc<Lifetime>,
    pub(crate) readers: Arc<ReaderPool>,
    pub(crate) moves: Arc<Moves>,
    pub(crate) telemetry: Mutex<Telemetry>,
    /// The newest versions of the protocol in which this node speaks and is spoken to.
    pub(crate) ceilings: Ceilings,
    /// How this node proves itself to others, and they to it.
    pub(crate) identity: Identity,
    /// Addresses of host names of other nodes.
    pub(crate) names: Arc<Names>,
}
