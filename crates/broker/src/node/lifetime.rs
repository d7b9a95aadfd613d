//! The end of one broker process: it is asked to leave, its loops are asked to end, and they end one after the other.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock, Weak};

use model::Instant;
use parking_lot::Mutex;

use crate::mail::Mail;

/// A part of the broker with threads that sleep until something of this happens.
pub(crate) trait EndListener: Send + Sync {
    /// The broker is to report to its cluster that it stops.
    fn on_leaving(&self) {}

    /// The loops are to end.
    fn on_stopping(&self) {}

    fn on_shard_ended(&self, _is_last: bool) {}

    /// A shard, a commit thread, the follower of leaders or the mover has ended.
    fn on_loop_ended(&self) {}

    /// Nothing commits any more.
    fn on_all_ended(&self) {}
}

impl EndListener for Mail {
    fn on_leaving(&self) {
        self.quorum.wake();
    }

    fn on_stopping(&self) {
        self.inboxes.wake_shards();
        self.followers.wake();
    }

    fn on_shard_ended(&self, is_last: bool) {
        if is_last {
            self.quorum.wake();
            self.calls.wake();
        } else {
            self.inboxes.wake_shards();
        }
    }
}

pub(crate) struct Lifetime {
    pub(crate) started_at: Instant,
    /// Shards, commit threads, the follower of leaders and the mover: those that have not ended.
    loops: AtomicUsize,
    /// Shards that have not ended: the quorum works as long, so that what they wait for is committed.
    shards: AtomicUsize,
    /// The broker is asked to stop, and reports that to its cluster first.
    leaving: AtomicBool,
    stopping: AtomicBool,
    failure: Mutex<Option<String>>,
    /// Weak, because they have this.
    listeners: OnceLock<Vec<Weak<dyn EndListener>>>,
}

impl Lifetime {
    pub(crate) fn new(started_at: Instant, loops: usize, shards: usize) -> Lifetime {
        Lifetime {
            started_at,
            loops: AtomicUsize::new(loops),
            shards: AtomicUsize::new(shards),
            leaving: AtomicBool::new(false),
            stopping: AtomicBool::new(false),
            failure: Mutex::new(None),
            listeners: OnceLock::new(),
        }
    }

    /// Names those that are notified, in this order.
    pub(crate) fn set_listeners(&self, listeners: Vec<Weak<dyn EndListener>>) {
        let is_first = self.listeners.set(listeners).is_ok();
        assert!(is_first, "listeners are named once");
    }

    fn notify(&self, notify: impl Fn(&dyn EndListener)) {
        let listeners = self.listeners.get().into_iter().flatten();
        let alive = listeners.filter_map(Weak::upgrade);
        alive.for_each(|listener: Arc<dyn EndListener>| notify(&*listener));
    }

    pub(crate) fn is_stopping(&self) -> bool {
        self.stopping.load(Ordering::Acquire)
    }

    pub(crate) fn is_leaving(&self) -> bool {
        self.leaving.load(Ordering::Acquire)
    }

    /// Asks the broker to end. Among several it goes when the controller has moved its leaderships, or cannot.
    pub(crate) fn stop(&self, is_alone: bool) {
        if is_alone || self.failure.lock().is_some() {
            return self.stop_now();
        }
        self.leaving.store(true, Ordering::Release);
        self.notify(|listener| listener.on_leaving());
    }

    /// Asks the loops to end; wakes those that sleep. The segment writers follow when all that commit have ended.
    pub(crate) fn stop_now(&self) {
        self.stopping.store(true, Ordering::Release);
        self.notify(|listener| listener.on_stopping());
    }

    /// A shard has ended; after the last one the quorum need not go on.
    pub(crate) fn on_shard_ended(&self) {
        let is_last = self.shards.fetch_sub(1, Ordering::AcqRel) == 1;
        self.notify(|listener| listener.on_shard_ended(is_last));
        self.on_loop_ended();
    }

    /// True if all shards but one have ended.
    pub(crate) fn is_last_shard(&self) -> bool {
        self.shards.load(Ordering::Acquire) == 1
    }

    pub(crate) fn have_shards_ended(&self) -> bool {
        self.shards.load(Ordering::Acquire) == 0
    }

    /// A loop that commits has ended. After the last of them the segment writers may take their last checkpoint: one taken
    /// before would leave rounds for the next start.
    pub(crate) fn on_loop_ended(&self) {
        // A commit thread that found this loop at a round sleeps, and nobody else may have anything more for it.
        self.notify(|listener| listener.on_loop_ended());
        if self.loops.fetch_sub(1, Ordering::AcqRel) == 1 {
            self.notify(|listener| listener.on_all_ended());
        }
    }

    /// The broker cannot go on: its metadata log, or every directory, is offline.
    pub(crate) fn fail(&self, reason: String) {
        self.failure.lock().get_or_insert(reason);
        self.stop_now();
    }

    pub(crate) fn failure(&self) -> Option<String> {
        self.failure.lock().clone()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Default)]
    struct Heard(Mutex<Vec<&'static str>>);

    impl EndListener for Heard {
        fn on_leaving(&self) {
            self.0.lock().push("leaving");
        }

        fn on_stopping(&self) {
            self.0.lock().push("stopping");
        }

        fn on_shard_ended(&self, is_last: bool) {
            let text = if is_last { "last shard" } else { "shard" };
            self.0.lock().push(text);
        }

        fn on_loop_ended(&self) {
            self.0.lock().push("loop");
        }

        fn on_all_ended(&self) {
            self.0.lock().push("all");
        }
    }

    fn heard_of(loops: usize, shards: usize, act: impl Fn(&Lifetime)) -> Vec<&'static str> {
        let heard = Arc::new(Heard::default());
        let lifetime = Lifetime::new(Instant(1), loops, shards);
        let listener: Weak<dyn EndListener> = Arc::downgrade(&heard) as Weak<_>;
        lifetime.set_listeners(vec![listener]);
        act(&lifetime);
        heard.0.lock().clone()
    }

    #[test]
    fn segments_are_written_after_the_last_loop() {
        let heard = heard_of(3, 2, |lifetime| {
            lifetime.on_shard_ended();
            lifetime.on_loop_ended();
            lifetime.on_shard_ended();
            assert!(lifetime.have_shards_ended());
        });
        let expected = ["shard", "loop", "loop", "last shard", "loop", "all"];
        assert_eq!(heard, expected);
    }

    #[test]
    fn one_of_several_leaves_its_cluster_first_unless_it_has_failed() {
        assert_eq!(heard_of(1, 1, |it| it.stop(true)), ["stopping"]);
        assert_eq!(heard_of(1, 1, |it| it.stop(false)), ["leaving"]);
        let failed = heard_of(1, 1, |lifetime| {
            lifetime.fail("a disk".to_owned());
            lifetime.fail("another".to_owned());
            lifetime.stop(false);
            assert_eq!(lifetime.failure().as_deref(), Some("a disk"));
        });
        assert_eq!(failed, ["stopping"; 3]);
    }
}
