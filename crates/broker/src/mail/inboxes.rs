//! Inboxes: the places where news and answers for waiting requests are put.
//!
//! Each has one owner, which alone understands the keys of its tickets. Today the owners are shards; a thread that owns no
//! connection registers one in the same way. All are registered before the loops of the broker start, so that a look-up takes no
//! lock. News for an inbox that does not exist are dropped: nobody waits there.

use std::sync::Arc;

use env::{Socket, Wake};
use model::{InboxId, Ticket};
use parking_lot::Mutex;
use partition::{News, Piece};
use security::login::server::Verdict;

use crate::mail::question::{Answered, Asked};
use crate::peers::Answer;

/// A loop of the broker that owns connections.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct ShardId(pub(crate) u16);

impl ShardId {
    /// The shard, of so many, that looks after this partition of any internal topic.
    pub(crate) fn home(partition: i32, shards: usize) -> ShardId {
        ShardId((partition.unsigned_abs() as usize % shards.max(1)) as u16)
    }
}

/// Something for the owner of a ticket.
pub(crate) enum Redeemed {
    News(News),
    /// An answer of a coordinator to a question that waits there.
    Answered(Box<Answered>),
    /// The piece of a read whose need was handed to the reader pool.
    Piece(Ticket, Box<Piece>),
    /// The answer of the quorum to another node, whose request waits there.
    Quorum(Ticket, Box<raft::Response>),
    /// The answer of another node to a request of this one; `None` where there was none in time.
    Replied(Ticket, Option<Answer>),
    /// A password was checked.
    Verdict(Ticket, Verdict),
}

/// Something for another shard.
pub(crate) enum Post {
    Socket(Socket),
    /// A question for a coordinator that lives there.
    Asked(Box<Asked>),
    /// For requests that wait there.
    Redeemed(Redeemed),
}

/// Takes what became of tickets.
pub(crate) trait Inbox: Send + Sync {
    /// Keeps it and wakes the owner if it may sleep. Any thread calls this; it must not block.
    fn put(&self, redeemed: Vec<Redeemed>);
}

/// The mail of a shard, which takes more than the outcome of tickets.
pub(crate) struct Mailbox {
    posts: Mutex<Vec<Post>>,
    waker: Arc<dyn Wake>,
}

impl Mailbox {
    pub(crate) fn post(&self, posts: impl IntoIterator<Item = Post>) {
        let was_empty = {
            let mut waiting = self.posts.lock();
            let was_empty = waiting.is_empty();
            waiting.extend(posts);
            was_empty
        };
        if was_empty {
            self.waker.wake();
        }
    }

    fn take(&self) -> Vec<Post> {
        std::mem::take(&mut *self.posts.lock())
    }
}

impl Inbox for Mailbox {
    fn put(&self, redeemed: Vec<Redeemed>) {
        self.post(redeemed.into_iter().map(Post::Redeemed));
    }
}

/// All inboxes of one broker.
#[derive(Default)]
pub(crate) struct Inboxes {
    all: Vec<Arc<dyn Inbox>>,
    /// Those of shards, in their order.
    shards: Vec<ShardInboxes>,
}

/// A shard takes what comes for its doors and what comes for its coordinators out of one mailbox.
struct ShardInboxes {
    mailbox: Arc<Mailbox>,
    doors: InboxId,
    coordinators: InboxId,
}

impl Inboxes {
    /// An inbox for one more owner.
    pub(crate) fn register(&mut self, inbox: Arc<dyn Inbox>) -> InboxId {
        let id = self.next_id();
        self.all.push(inbox);
        id
    }

    /// Inboxes for one more shard, which sleeps until `waker` wakes it.
    pub(crate) fn add_shard(&mut self, waker: Arc<dyn Wake>) {
        let mailbox = Arc::new(Mailbox {
            posts: Mutex::new(Vec::new()),
            waker,
        });
        let mut register = || self.register(Arc::clone(&mailbox) as Arc<dyn Inbox>);
        let (doors, coordinators) = (register(), register());
        self.shards.push(ShardInboxes {
            mailbox,
            doors,
            coordinators,
        });
    }

    fn next_id(&self) -> InboxId {
        InboxId(u16::try_from(self.all.len()).expect("inboxes are threads, and those are few"))
    }

    pub(crate) fn shards_count(&self) -> usize {
        self.shards.len()
    }

    /// The inbox that tickets of requests name which wait on this shard.
    pub(crate) fn of_doors(&self, shard: ShardId) -> InboxId {
        self.shards[usize::from(shard.0)].doors
    }

    /// The inbox that tickets of the coordinators of this shard name.
    pub(crate) fn of_coordinators(&self, shard: ShardId) -> InboxId {
        self.shards[usize::from(shard.0)].coordinators
    }

    pub(crate) fn post(&self, to: ShardId, post: Post) {
        self.shards[usize::from(to.0)].mailbox.post([post]);
    }

    pub(crate) fn take_posts(&self, shard: ShardId) -> Vec<Post> {
        self.shards[usize::from(shard.0)].mailbox.take()
    }

    pub(crate) fn put(&self, to: InboxId, redeemed: Vec<Redeemed>) {
        if let Some(inbox) = self.all.get(usize::from(to.0)) {
            inbox.put(redeemed);
        }
    }

    /// Puts each piece of news into the inbox of its ticket; each inbox is woken once.
    pub(crate) fn spread(&self, news: Vec<News>) {
        let mut sorted: Vec<Vec<Redeemed>> = self.all.iter().map(|_| Vec::new()).collect();
        for item in news {
            if let Some(redeemed) = sorted.get_mut(usize::from(item.inbox().0)) {
                redeemed.push(Redeemed::News(item));
            }
        }
        for (inbox, redeemed) in self.all.iter().zip(sorted) {
            if !redeemed.is_empty() {
                inbox.put(redeemed);
            }
        }
    }

    /// Wakes every shard.
    pub(crate) fn wake_shards(&self) {
        self.shards
            .iter()
            .for_each(|shard| shard.mailbox.waker.wake());
    }
}

#[cfg(test)]
mod tests {
    use model::WaiterKey;

    use super::*;

    /// An owner without connections.
    #[derive(Default)]
    struct Heard(Mutex<Vec<Vec<News>>>);

    impl Inbox for Heard {
        fn put(&self, redeemed: Vec<Redeemed>) {
            let news = redeemed.into_iter().map(|item| match item {
                Redeemed::News(news) => news,
                _ => panic!("nothing was asked"),
            });
            self.0.lock().push(news.collect());
        }
    }

    #[test]
    fn news_are_put_into_the_inbox_that_their_ticket_names() {
        let mut inboxes = Inboxes::default();
        let owners = [Arc::new(Heard::default()), Arc::new(Heard::default())];
        let ids = (owners.clone()).map(|owner| inboxes.register(owner));
        let news = |inbox, key| {
            let key = WaiterKey(key);
            News::Reached(Ticket {
                inbox,
                key,
                part: 0,
            })
        };
        let unknown = InboxId(7);
        inboxes.spread(vec![
            news(ids[0], 1),
            news(ids[1], u64::MAX),
            news(unknown, 1),
            news(ids[0], 2),
        ]);
        let heard = owners.map(|owner| std::mem::take(&mut *owner.0.lock()));
        assert_eq!(heard[0], [[news(ids[0], 1), news(ids[0], 2)]], "together");
        assert_eq!(heard[1], [[news(ids[1], u64::MAX)]]);
    }
}
