//! A watcher of the cluster: the evidence that a fault bit. Asks all the while who leads and which replicas are in sync.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use parking_lot::Mutex;

use crate::cluster::nodes::COUNT;
use crate::load::{TOPIC, connect_patiently};

const PERIOD: Duration = Duration::from_millis(150);
const ANSWER_MAX: Duration = Duration::from_millis(1500);

/// The states seen so far.
#[derive(Clone, Debug, Default)]
pub(crate) struct Seen {
    /// By partition.
    epochs: BTreeMap<i32, BTreeSet<i32>>,
    /// Leader by partition and epoch.
    leaders: BTreeMap<(i32, i32), i32>,
    /// Times a partition was seen with a replica fewer in sync than before.
    pub(crate) shrinks: usize,
    pub(crate) isr_min: usize,
    /// Two leaders of one epoch, as they were told.
    pub(crate) forked: Option<String>,
    pub(crate) answers: usize,
    pub(crate) silences: usize,
}

impl Seen {
    /// Epochs after the first of each partition.
    pub(crate) fn changes(&self) -> usize {
        self.epochs.values().map(|epochs| epochs.len() - 1).sum()
    }

    fn take(&mut self, partition: &client::Partition, sizes: &mut BTreeMap<i32, usize>) {
        let (index, epoch) = (partition.index, partition.leader_epoch);
        self.epochs.entry(index).or_default().insert(epoch);
        if let Some(leader) = partition.leader {
            let known = *self.leaders.entry((index, epoch)).or_insert(leader);
            if known != leader {
                let what = format!("partition {index} epoch {epoch}: {known} leads, and {leader}");
                self.forked.get_or_insert(what);
            }
        }
        let size = partition.isr.len();
        let before = sizes.insert(index, size).unwrap_or(COUNT);
        self.shrinks += usize::from(size < before);
        self.isr_min = self.isr_min.min(size);
    }
}

pub(crate) struct Watch {
    seen: Arc<Mutex<Seen>>,
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Watch {
    pub(crate) fn start(bootstrap: &str) -> Watch {
        let seen = Arc::new(Mutex::new(Seen {
            isr_min: COUNT,
            ..Seen::default()
        }));
        let stop = Arc::new(AtomicBool::new(false));
        let (address, all, stops) = (bootstrap.to_owned(), Arc::clone(&seen), Arc::clone(&stop));
        let thread = std::thread::spawn(move || {
            let mut sizes = BTreeMap::new();
            while !stops.load(Ordering::Acquire) {
                let begun = Instant::now();
                let told = connect_patiently(&address, ANSWER_MAX, ANSWER_MAX)
                    .and_then(|mut client| client.topic(TOPIC));
                let mut seen = all.lock();
                match told {
                    Ok(topic) => {
                        seen.answers += 1;
                        let partitions = topic.partitions.iter();
                        partitions.for_each(|partition| seen.take(partition, &mut sizes));
                    }
                    Err(_) => seen.silences += 1,
                }
                drop(seen);
                std::thread::sleep(PERIOD.saturating_sub(begun.elapsed()));
            }
        });
        Watch {
            seen,
            stop,
            thread: Some(thread),
        }
    }

    pub(crate) fn seen(&self) -> Seen {
        self.seen.lock().clone()
    }
}

impl Drop for Watch {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Release);
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}
