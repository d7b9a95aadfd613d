//! The pollers of the threads that own connections, and the mailboxes that wake these threads.

use std::io;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;

use env::{Env, Poller};
use model::InboxId;

use super::error::StartError;
use crate::mail::inboxes::{Inbox, Inboxes};
use crate::mail::{Mail, calls, followers, quorum};

/// The socket of the administrators of this machine.
const SOCKET: &str = "esker.sock";

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

    /// Listens at `esker.sock` in the first of the directories that takes it, for the administrators of this machine. A node does
    /// without it where none does.
    pub(super) fn listen_locally(&mut self, dirs: &[PathBuf]) {
        let mut refused = None;
        for dir in dirs {
            match self.shards[0].listen_at(&dir.join(SOCKET)) {
                Ok(()) => return,
                // Not on this system.
                Err(error) if error.kind() == io::ErrorKind::Unsupported => return,
                Err(error) => refused = refused.or(Some((dir, error))),
            }
        }
        if let Some((dir, error)) = refused {
            tracing::warn!(
                target: env::logs::BROKER,
                "{} cannot be made ({error}): administrators of this machine have to log in like everybody",
                dir.join(SOCKET).display(),
            );
        }
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
