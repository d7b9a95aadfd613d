//! The promises of bells, workers and clocks.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use env::{Bell, Turn, Worker};
use model::Instant;

use crate::on_every_machine;

#[test]
fn a_ring_before_the_wait_is_not_lost_and_counts_once() {
    on_every_machine("bell", |place| {
        let clock = &place.env.clock;
        let bell = place.env.threads.bell();
        bell.ring();
        bell.ring();
        bell.wait(None);
        let start = clock.now();
        bell.wait(Some(start.plus(Duration::from_millis(5))));
        assert!(
            clock.now().since(start) >= Duration::from_millis(5),
            "the second ring was the same as the first"
        );
    });
}

#[test]
fn waiting_for_the_past_returns_at_once() {
    on_every_machine("past", |place| {
        let bell = place.env.threads.bell();
        bell.wait(Some(Instant(0)));
        bell.wait(Some(place.env.clock.now()));
    });
}

/// Counts down; at each step rings the other and sleeps on its own bell.
struct Player {
    turns: Arc<AtomicU32>,
    mine: Arc<dyn Bell>,
    other: Arc<dyn Bell>,
    left: u32,
    done: Arc<AtomicU32>,
}

impl Worker for Player {
    fn turn(&mut self) -> Turn {
        if self.left == 0 {
            // First the fact, then the ring: the other never sleeps on a bell that nobody is left to ring.
            self.done.fetch_add(1, Ordering::SeqCst);
            self.other.ring();
            return Turn::Done;
        }
        self.other.ring();
        self.left -= 1;
        self.turns.fetch_add(1, Ordering::SeqCst);
        if self.left.is_multiple_of(2) && self.done.load(Ordering::SeqCst) == 0 {
            Turn::Sleep { until: None }
        } else {
            Turn::Again
        }
    }

    fn park(&mut self, until: Option<Instant>) {
        self.mine.wait(until);
    }
}

#[test]
fn workers_that_ring_each_other_all_come_to_their_end() {
    on_every_machine("players", |place| {
        let threads = &place.env.threads;
        let (a, b) = (threads.bell(), threads.bell());
        let (turns, done) = (Arc::new(AtomicU32::new(0)), Arc::new(AtomicU32::new(0)));
        for (name, mine, other) in [("a", &a, &b), ("b", &b, &a)] {
            let player = Player {
                turns: turns.clone(),
                mine: mine.clone(),
                other: other.clone(),
                left: 100,
                done: done.clone(),
            };
            threads.spawn(name, Box::new(player));
        }
        threads.join();
        assert_eq!(
            (turns.load(Ordering::SeqCst), done.load(Ordering::SeqCst)),
            (200, 2)
        );
    });
}

/// Says that it began, and sleeps for ever.
struct Forever(Arc<dyn Bell>, Arc<dyn Bell>);

impl Worker for Forever {
    fn turn(&mut self) -> Turn {
        self.0.ring();
        Turn::Sleep { until: None }
    }

    fn park(&mut self, until: Option<Instant>) {
        self.1.wait(until);
    }
}

#[test]
fn nobody_waits_for_a_worker_that_was_spawned_aside() {
    on_every_machine("aside", |place| {
        let threads = &place.env.threads;
        let (begun, never) = (threads.bell(), threads.bell());
        let worker = Forever(Arc::clone(&begun), never);
        threads.spawn_aside("aside", Box::new(worker));
        begun.wait(None);
        threads.join();
    });
}

#[test]
fn chance_fills_every_byte() {
    on_every_machine("chance", |place| {
        let mut seen = [0_u8; 1000];
        for _ in 0..8 {
            let mut bytes = [0; 1000];
            place.env.rng.fill(&mut bytes);
            for (seen, byte) in seen.iter_mut().zip(bytes) {
                *seen |= byte;
            }
        }
        assert!(
            seen.iter().all(|byte| *byte != 0),
            "a byte that stays zero eight times is not filled"
        );
        assert_ne!(place.env.rng.next_u64(), place.env.rng.next_u64());
    });
}
