//! The identity behind a request: taken from its connection when the request arrives, and kept with it while it waits.
//!
//! A request that waits may outlive its connection; it goes on as the asker that it came from. Costs one reference count a request.

pub(crate) mod access;
mod authority;
mod granted;
mod origin;

use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;

use security::Principal;
use security::authorize::Operation;

use self::access::Resource;

pub(crate) use self::authority::{Authority, Memory, Refused};
pub(crate) use self::granted::Granted;

pub(crate) use self::origin::Origin;

/// Characters kept of the name of a client's software, and of its version.
const SOFTWARE_CHARS_MAX: usize = 100;

/// One authenticated peer, and the address of this broker that it uses.
#[derive(Clone, Debug)]
pub(crate) struct Asker {
    pub(crate) principal: Principal,
    /// Decides what it may do; `None` where everybody may do everything.
    pub(crate) authority: Option<Arc<Authority>>,
    /// Answers that it had before.
    pub(crate) memory: Memory,
    pub(crate) peer: SocketAddr,
    pub(crate) local: SocketAddr,
    /// Name and version of the client's software, where it says them.
    pub(crate) software: Option<Box<(String, String)>>,
}

impl Asker {
    pub(crate) fn anonymous(peer: SocketAddr, local: SocketAddr) -> Asker {
        Asker {
            principal: Principal::anonymous(),
            authority: None,
            memory: Memory::default(),
            peer,
            local,
            software: None,
        }
    }

    /// The administrator of this machine, who may do everything.
    pub(crate) fn administrator(peer: SocketAddr, local: SocketAddr) -> Asker {
        Asker {
            principal: Principal::local(),
            ..Asker::anonymous(peer, local)
        }
    }

    /// True if the asker may do this to the resource.
    pub(crate) fn may(&self, operation: Operation, resource: Resource<'_>) -> bool {
        self.authority.as_ref().is_none_or(|authority| {
            let resource = (resource.kind, resource.name);
            authority.allows(&self.memory, self.identity(), operation, resource)
        })
    }

    /// False for the login of a super user, unless the asker is one.
    pub(crate) fn may_change_login_of(&self, user: &str) -> bool {
        self.authority.as_ref().is_none_or(|authority| {
            authority.is_super_user(&self.principal)
                || !authority.is_super_user(&Principal::user(user))
        })
    }

    /// Keeps what a request is refused for, for a line of the log.
    fn note_refusal(&self, operation: Operation, resource: Resource<'_>) {
        if let Some(authority) = &self.authority {
            let resource = (resource.kind, resource.name);
            authority.note_refusal(&self.memory, self.identity(), operation, resource);
        }
    }

    /// The question that the request was refused for; forgotten with this, and before another one begins.
    pub(crate) fn take_refused(&self) -> Option<Box<Refused>> {
        self.authority.as_ref()?;
        self.memory.take_refused()
    }

    /// Gives back the memory of a connection that is silent.
    pub(crate) fn forget_answers(&self) {
        self.memory.forget();
    }

    fn identity(&self) -> (&Principal, IpAddr) {
        (&self.principal, self.peer.ip())
    }

    pub(crate) fn set_software(&mut self, name: &str, version: &str) {
        let short = |text: &str| text.chars().take(SOFTWARE_CHARS_MAX).collect();
        self.software = Some(Box::new((short(name), short(version))));
    }
}

#[cfg(test)]
mod tests;
