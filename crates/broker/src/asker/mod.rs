//! The identity behind a request: taken from its connection when the request arrives, and kept with it while it waits.
//!
//! A request that waits may outlive its connection; it goes on as the asker that it came from. Costs one reference count a request.

pub(crate) mod access;
mod origin;

use std::net::SocketAddr;

use self::access::{Operation, Principal, Resource};

pub(crate) use self::origin::Origin;

/// Characters kept of the name of a client's software, and of its version.
const SOFTWARE_CHARS_MAX: usize = 100;

/// One authenticated peer, and the address of this broker that it uses.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Asker {
    pub(crate) principal: Principal,
    pub(crate) peer: SocketAddr,
    pub(crate) local: SocketAddr,
    /// Name and version of the client's software, where it says them.
    pub(crate) software: Option<Box<(String, String)>>,
}

impl Asker {
    pub(crate) fn anonymous(peer: SocketAddr, local: SocketAddr) -> Asker {
        Asker {
            principal: Principal::Anonymous,
            peer,
            local,
            software: None,
        }
    }

    /// True if the asker may do this to the resource.
    pub(crate) fn may(&self, operation: Operation, resource: Resource<'_>) -> bool {
        access::may(self.principal, operation, resource)
    }

    pub(crate) fn set_software(&mut self, name: &str, version: &str) {
        let short = |text: &str| text.chars().take(SOFTWARE_CHARS_MAX).collect();
        self.software = Some(Box::new((short(name), short(version))));
    }
}
