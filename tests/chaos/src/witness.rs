//! Appenders that write down when each acknowledgement came, for scenarios in which one may come too late.
//!
//! One append under way each, and nothing is sent again: whatever comes belongs to a broker that was alive then. Whether the
//! records are there is judged by the load beside them.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use client::{Connection, Error};
use model::Timestamp;
use parking_lot::Mutex;
use wire::messages::ProduceRequest;
use wire::messages::produce_request::{PartitionProduceData, TopicProduceData};
use wire::records::BatchBuilder;

use crate::children::Clock;
use crate::load::{PARTITIONS, connect};

/// Not that of the load, which knows every record of its topic.
pub(crate) const TOPIC: &str = "witnessed";
/// Last version that names topics.
const NAMED_VERSION_MAX: i16 = 12;
const PAUSE: Duration = Duration::from_millis(5);
const PATIENCE: Duration = Duration::from_secs(10);

#[derive(Default)]
struct Notes {
    /// When each append was acknowledged.
    acked: Vec<u64>,
    /// When each was refused, or left without an answer.
    failed: Vec<u64>,
    /// Appends under way.
    open: usize,
}

pub(crate) struct Witnesses {
    notes: Arc<Mutex<Notes>>,
    stop: Arc<AtomicBool>,
    threads: Vec<JoinHandle<()>>,
}

impl Witnesses {
    /// One for each partition of a topic that has to be there.
    pub(crate) fn start(address: &str) -> Witnesses {
        let (notes, stop) = (Arc::default(), Arc::new(AtomicBool::new(false)));
        let start = |partition| {
            let (address, stop) = (address.to_owned(), Arc::clone(&stop));
            let notes: Arc<Mutex<Notes>> = Arc::clone(&notes);
            std::thread::spawn(move || append_again_and_again(&address, partition, &notes, &stop))
        };
        Witnesses {
            threads: (0..PARTITIONS).map(start).collect(),
            notes,
            stop,
        }
    }

    /// Until no append is under way, because the broker is gone.
    pub(crate) fn wait_for_silence(&self) -> Result<(), String> {
        let begun = Instant::now();
        while self.notes.lock().open > 0 {
            if begun.elapsed() > PATIENCE {
                return Err("an append neither ends nor fails".to_owned());
            }
            std::thread::sleep(PAUSE);
        }
        Ok(())
    }

    /// Nothing was acknowledged in this time, and some appends that were under way in it were not.
    pub(crate) fn judge(&self, from: u64, until: u64) -> Result<(), String> {
        let notes = self.notes.lock();
        let is_within = |time: &&u64| (from..until).contains(*time);
        let late: Vec<&u64> = notes.acked.iter().filter(is_within).collect();
        if let Some(last) = late.last() {
            return Err(format!(
                "{} appends were acknowledged after the disk had failed, the last one {} ms later",
                late.len(),
                (*last - from) / 1_000_000
            ));
        }
        if notes.failed.iter().any(|time| is_within(&time)) {
            Ok(())
        } else {
            Err("vacuous: no append was under way when the disk failed".to_owned())
        }
    }

    /// How many acknowledgements there were.
    pub(crate) fn finish(self) -> Result<usize, String> {
        self.stop.store(true, Ordering::Release);
        for thread in self.threads {
            thread.join().map_err(|_| "a witness panicked".to_owned())?;
        }
        Ok(self.notes.lock().acked.len())
    }
}

fn append_again_and_again(address: &str, partition: i32, notes: &Mutex<Notes>, stop: &AtomicBool) {
    let clock = Clock::new();
    let mut connection: Option<Connection> = None;
    while !stop.load(Ordering::Acquire) {
        let Ok(mut open) = connection
            .take()
            .map_or_else(|| connect(address, PAUSE)?.open(address), Ok)
        else {
            std::thread::sleep(PAUSE);
            continue;
        };
        notes.lock().open += 1;
        let told = append(&mut open, partition);
        let now = clock.now();
        let mut notes = notes.lock();
        notes.open -= 1;
        match told {
            Ok(true) => notes.acked.push(now),
            _ => notes.failed.push(now),
        }
        drop(notes);
        if matches!(told, Ok(false)) {
            std::thread::sleep(PAUSE);
        }
        connection = told.is_ok().then_some(open);
    }
}

/// True if it was acknowledged.
fn append(connection: &mut Connection, partition: i32) -> Result<bool, Error> {
    let mut batch = BatchBuilder::new();
    batch.push(Timestamp(1), None, Some(b"witness"), &[]);
    let request = ProduceRequest {
        acks: -1,
        timeout_ms: 10_000,
        topic_data: vec![TopicProduceData {
            name: TOPIC.to_owned(),
            partition_data: vec![PartitionProduceData {
                index: partition,
                records: Some(batch.build().to_bytes().into()),
            }],
            ..Default::default()
        }],
        ..Default::default()
    };
    connection.send_up_to(&request, NAMED_VERSION_MAX)?;
    let response = connection.receive_as::<ProduceRequest>()?;
    let told = response.responses.iter();
    let told = told.flat_map(|topic| &topic.partition_responses).next();
    Ok(told.is_some_and(|told| told.error_code == 0))
}
