//! The pollers of the threads that own connections, and the mailboxes that wake these threads.

use std::net::SocketAddr;
use std::sync::Arc;

use env::{Env, Poller};
use model::InboxId;

use super::StartError;
use crate::mail::inboxes::{Inbox, Inboxes};
use crate::mail::{Mail, calls, followers, quorum};

pub(super) struct Pollers {
    pub(super) shards: Vec<Box<dyn Poller>>,
    pub(super) quorum: Box<dyn Poller>,
    pub(super) calls: Box<dyn Poller>,
    pub(super) replicas: Box<dyn Poller>,
}

/// The inboxes of the threads that are no shards.
pub(super) struct Owners {
    pub(super) quorum: InboxId,
    pub(super) replicas: InboxId,
}

impl Pollers {
    pub(super) fn open(env: &Env, shards: usize) -> Result<Pollers, StartError> {
        let open = || {
            let poller = env.net.poller();
            poller.map_err(|error| StartError::Listen {
                address: "poller".to_owned(),
                error,
            })
        };
        Ok(Pollers {
            shards: (0..shards).map(|_| open()).collect::<Result<_, _>>()?,
            quorum: open()?,
            calls: open()?,
            replicas: open()?,
        })
    }

    /// The mailboxes of all threads.
    pub(super) fn mail(&self) -> (Mail, Owners) {
        let mut inboxes = Inboxes::default();
        (self.shards.iter()).for_each(|poller| inboxes.add_shard(poller.waker()));
        let quorum = Arc::new(quorum::Mailbox::new(self.quorum.waker()));
        let followers = Arc::new(followers::Mailbox::new(self.replicas.waker()));
        let owners = Owners {
            quorum: inboxes.register(Arc::clone(&quorum) as Arc<dyn Inbox>),
            replicas: inboxes.register(Arc::clone(&followers) as Arc<dyn Inbox>),
        };
        let mail = Mail {
            inboxes,
            quorum,
            calls: Arc::new(calls::Mailbox::new(self.calls.waker())),
            followers,
        };
        (mail, owners)
    }

    /// Listens where the settings say; the first shard has the listeners, and shares out their connections.
    pub(super) fn listen(
        &mut self,
        broker: &config::Broker,
    ) -> Result<Vec<SocketAddr>, StartError> {
        let doors = broker.listeners.iter();
        let doors = doors.chain(&broker.quorum.controller_listener);
        let bound = doors.map(|listener| {
            let address = listener.address();
            let bound = self.shards[0].listen(&address);
            bound.map_err(|error| StartError::Listen { address, error })
        });
        bound.collect()
    }
}
