//! A reader of committed data that goes on through every death of the broker, and gives every record once.

use std::collections::BTreeMap;
use std::ops::ControlFlow;
use std::time::{Duration, Instant};

use client::{Consumer, ConsumerOptions, Error, Isolation, OffsetSpec};

use crate::load::connect;
use crate::txn::{PATIENCE, PAUSE};

pub(crate) struct Taken {
    pub(crate) partition: i32,
    pub(crate) offset: i64,
    pub(crate) value: Vec<u8>,
}

pub(crate) struct Reading {
    address: String,
    topic: &'static str,
    next: BTreeMap<i32, i64>,
    consumer: Option<Consumer>,
    heard: Instant,
}

impl Reading {
    /// These partitions, from these offsets on.
    pub(crate) fn new(address: &str, topic: &'static str, next: BTreeMap<i32, i64>) -> Reading {
        Reading {
            address: address.to_owned(),
            topic,
            next,
            consumer: None,
            heard: Instant::now(),
        }
    }

    /// The records that came by now; none while the broker is away.
    pub(crate) fn poll(&mut self) -> Result<Vec<Taken>, String> {
        match self.try_poll() {
            Ok(taken) => {
                self.heard = Instant::now();
                Ok(taken)
            }
            Err(error) if error.is_retriable() || matches!(error, Error::TimedOut { .. }) => {
                self.consumer = None;
                if self.heard.elapsed() > PATIENCE {
                    return Err(format!("a reader gave up: {error}"));
                }
                std::thread::sleep(PAUSE);
                Ok(Vec::new())
            }
            Err(error) => Err(format!("a reader was told: {error}")),
        }
    }

    fn try_poll(&mut self) -> Result<Vec<Taken>, Error> {
        let mut consumer = match self.consumer.take() {
            Some(consumer) => consumer,
            None => {
                let options = ConsumerOptions {
                    wait: Duration::from_millis(20),
                    isolation: Isolation::ReadCommitted,
                    ..ConsumerOptions::default()
                };
                let mut consumer = Consumer::new(connect(&self.address, PATIENCE)?, options);
                for (partition, next) in &self.next {
                    consumer.assign(self.topic, *partition, *next)?;
                }
                consumer
            }
        };
        let mut taken = Vec::new();
        for fetched in consumer.poll()? {
            let partition = fetched.partition;
            let _ = fetched.each(|record| {
                taken.push(Taken {
                    partition,
                    offset: record.offset,
                    value: record.value.unwrap_or_default().to_vec(),
                });
                ControlFlow::<()>::Continue(())
            })?;
        }
        for (partition, next) in &mut self.next {
            *next = consumer.position(self.topic, *partition).unwrap_or(*next);
        }
        self.consumer = Some(consumer);
        Ok(taken)
    }

    /// Up to where the partitions end now, waiting for transactions that are open there.
    pub(crate) fn read_to_end(
        &mut self,
        mut each: impl FnMut(Taken) -> Result<(), String>,
    ) -> Result<(), String> {
        let begun = Instant::now();
        let ends = self.ends()?;
        while self.next.iter().any(|(at, next)| *next < ends[at]) {
            self.poll()?.into_iter().try_for_each(&mut each)?;
            if begun.elapsed() > PATIENCE {
                return Err(format!("{} cannot be read to its end", self.topic));
            }
        }
        Ok(())
    }

    fn ends(&self) -> Result<BTreeMap<i32, i64>, String> {
        let places: Vec<(i32, OffsetSpec)> =
            self.next.keys().map(|at| (*at, OffsetSpec::End)).collect();
        let begun = Instant::now();
        loop {
            let told = connect(&self.address, PATIENCE).and_then(|mut client| {
                client.resolve(self.topic, &places, Isolation::ReadUncommitted)
            });
            match told {
                Ok(ends) => return Ok(ends),
                Err(error) if begun.elapsed() > PATIENCE => {
                    return Err(format!("the ends of {}: {error}", self.topic));
                }
                Err(_) => std::thread::sleep(PAUSE),
            }
        }
    }
}
