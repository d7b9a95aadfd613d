//! The threads of a broker, begun once everything that they use is in its place.

use std::sync::{Arc, Weak};

use env::{Bell, Poller};
use log::journal::SYNCS_MAX;
use model::{InboxId, Ticket};
use partition::{Announce, Cleaning, News, PieceMaker, Residents, SegmentWriter, Syncer};

use crate::calls::CallWorker;
use crate::committer::{Committer, Stage};
use crate::event_loop::Shard;
use crate::mail::Mail;
use crate::mail::inboxes::{Redeemed, ShardId};
use crate::mover::Mover;
use crate::node::Volumes;
use crate::passwords::PasswordChecker;
use crate::quorum::QuorumWorker;
use crate::reads::ReaderLoop;
use crate::replication::ReplicaWorker;
use crate::shared::Shared;

/// News of the segment writers, on their way to the shards.
struct Spread {
    mail: Arc<Mail>,
    /// They have the threads that announce.
    volumes: Weak<Volumes>,
}

impl Announce for Spread {
    fn announce(&self, news: Vec<News>) {
        self.mail.spread(news);
        if let Some(volumes) = self.volumes.upgrade() {
            volumes.check_health();
        }
    }
}

/// The threads of the log directories: commits, segments, pieces of the journal, retention and compaction.
pub(super) fn spawn_storage(
    shared: &Arc<Shared>,
    residents: Vec<Arc<Residents>>,
    committer_bells: Vec<Arc<dyn Bell>>,
) {
    let threads = &shared.env.threads;
    let announce: Arc<dyn Announce> = Arc::new(Spread {
        mail: Arc::clone(&shared.mail),
        volumes: Arc::downgrade(&shared.volumes),
    });
    for (at, (residents, bell)) in residents.iter().zip(committer_bells).enumerate() {
        let dir = &residents.dir;
        for _ in 0..SYNCS_MAX {
            let committer = Committer {
                at,
                dir: Arc::clone(dir),
                clock: Arc::clone(&shared.env.clock),
                volumes: Arc::clone(&shared.volumes),
                lifetime: Arc::clone(&shared.lifetime),
                mail: Arc::clone(&shared.mail),
                bell: Arc::clone(&bell),
                stage: Stage::default(),
            };
            threads.spawn_syncer("commit", Box::new(committer));
        }
        let writer = SegmentWriter::new(Arc::clone(residents), Arc::clone(&announce));
        threads.spawn("segments", Box::new(writer));
        threads.spawn_syncer("syncer", Box::new(Syncer::new(Arc::clone(dir))));
        let maker = PieceMaker::new(Arc::clone(dir), Arc::clone(&announce));
        threads.spawn("pieces", Box::new(maker));
    }
    let settings = shared.catalog.config().cleaner();
    let cleaning = Cleaning::new(&shared.env, residents, announce, settings);
    shared.volumes.set_cleaning(Arc::clone(&cleaning));
    cleaning.spawn();
    // With one directory there is nowhere to move to.
    if shared.volumes.dirs().len() > 1 {
        let mover = Mover::new(Arc::clone(shared));
        threads.spawn("mover", Box::new(mover));
    }
}

/// The threads that talk to other nodes.
pub(super) fn spawn_cluster(
    shared: &Arc<Shared>,
    quorum: QuorumWorker,
    calls: Box<dyn Poller>,
    (inbox, replicas): (InboxId, Box<dyn Poller>),
) {
    let threads = &shared.env.threads;
    threads.spawn("snapshots", Box::new(quorum.snapshot_writer()));
    threads.spawn("quorum", Box::new(quorum));
    let calls = CallWorker::new(Arc::clone(shared), calls);
    threads.spawn("calls", Box::new(calls));
    let replicas = ReplicaWorker::new(Arc::clone(shared), inbox, replicas);
    threads.spawn("replica", Box::new(replicas));
}

/// The threads that serve clients.
pub(super) fn spawn_doors(shared: &Arc<Shared>, pollers: Vec<Box<dyn Poller>>) {
    let threads = &shared.env.threads;
    let (pool, to) = (Arc::clone(&shared.readers), Arc::clone(&shared.mail));
    let deliver = move |ticket: Ticket, piece| {
        to.put(ticket.inbox, Redeemed::Piece(ticket, Box::new(piece)));
    };
    threads.spawn("reads", Box::new(ReaderLoop { pool, deliver }));
    let passwords = PasswordChecker {
        passwords: Arc::clone(&shared.passwords),
        mail: Arc::clone(&shared.mail),
    };
    threads.spawn_patient("passwords", Box::new(passwords));
    for (id, poller) in pollers.into_iter().enumerate() {
        let shard = Shard::new(ShardId(id as u16), Arc::clone(shared), poller);
        threads.spawn("shard", Box::new(shard));
    }
}
