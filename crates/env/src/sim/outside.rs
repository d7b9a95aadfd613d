//! The world as a test client outside of it has it: time, and connections to addresses.

use std::io;
use std::net::SocketAddr;

use model::Instant;

use super::links::Site;
use super::poller::SimConn;
use super::world::SharedWorld;

/// The place of test clients. No fault of a machine reaches it, but cut links do.
#[derive(Clone)]
pub struct Outside {
    shared: SharedWorld,
}

impl Outside {
    pub(crate) fn of(shared: &SharedWorld) -> Outside {
        Outside {
            shared: shared.clone(),
        }
    }

    #[must_use]
    pub fn now(&self) -> Instant {
        Instant(self.shared.world.lock().now)
    }

    /// Makes time stop at `at` on its way, for a client that wants to act then.
    pub fn alarm(&self, at: Instant) {
        self.shared.world.lock().network.alarm(at.0);
    }

    /// A connection to the listener at `address`.
    pub fn connect(&self, address: SocketAddr) -> io::Result<SimConn> {
        SimConn::connect(&self.shared, Site::Clients, address)
    }
}
