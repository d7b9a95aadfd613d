//! Every state a crash may leave behind: the operations of a scripted workload, cut after each one.
//!
//! For each point of a [`Tape`] the un-synced pages, lengths and names give a number of legal states. They are enumerated
//! while they are few and drawn by seed when they are many; "nothing survived" and "everything survived" are always among
//! them.

use super::chance::{Chance, Chooser, Cut};
use super::volume::Volume;

/// The volume before each operation that changed it, and at last after all of them.
pub struct Tape {
    pub(crate) points: Vec<Volume>,
}

/// One state after one crash.
pub struct Image {
    /// How many operations of the tape came before the crash.
    pub point: usize,
    pub volume: Volume,
}

impl Tape {
    /// Number of points at which the crash may come.
    #[must_use]
    pub fn points(&self) -> usize {
        self.points.len()
    }

    /// The volume as it is after all operations, un-synced parts included.
    #[must_use]
    pub fn last(&self) -> Volume {
        self.points.last().cloned().unwrap_or_default()
    }

    /// The states of one point, at most `most` of them (at least 2).
    #[must_use]
    pub fn images(&self, point: usize, most: usize, seed: u64) -> Vec<Image> {
        let volume = &self.points[point];
        let image = |chooser: &mut dyn Chooser| Image {
            point,
            volume: volume.crash(chooser).0,
        };
        let mut images = Vec::new();
        let mut odometer = Odometer::default();
        loop {
            images.push(image(&mut odometer));
            if !odometer.advance() {
                return images;
            }
            if images.len() > most {
                break;
            }
        }
        images.clear();
        images.push(image(&mut Oldest));
        images.push(image(&mut Newest));
        let mut chance = Chance::new(seed ^ point as u64);
        while images.len() < most {
            images.push(image(&mut Cut::new(&mut chance)));
        }
        images
    }
}

struct Oldest;

impl Chooser for Oldest {
    fn choose(&mut self, _: u32) -> u32 {
        0
    }

    fn tear(&mut self) -> u8 {
        u8::MAX
    }
}

struct Newest;

impl Chooser for Newest {
    fn choose(&mut self, options: u32) -> u32 {
        options - 1
    }

    fn tear(&mut self) -> u8 {
        u8::MAX
    }
}

/// Counts through all answers to all questions; later questions may depend on earlier answers.
#[derive(Default)]
struct Odometer {
    /// Each question so far: its answer and how many answers it has.
    digits: Vec<(u32, u32)>,
    at: usize,
}

/// Whole; only the first sector; only the first half; only the second half.
const TEARS: [u8; 4] = [0xff, 0x01, 0x0f, 0xf0];

impl Odometer {
    /// Moves to the next combination; false after the last.
    fn advance(&mut self) -> bool {
        self.digits.truncate(self.at);
        self.at = 0;
        while let Some((answer, options)) = self.digits.pop() {
            if answer + 1 < options {
                self.digits.push((answer + 1, options));
                return true;
            }
        }
        false
    }
}

impl Chooser for Odometer {
    fn choose(&mut self, options: u32) -> u32 {
        if self.at == self.digits.len() {
            self.digits.push((0, options));
        }
        self.at += 1;
        self.digits[self.at - 1].0
    }

    fn tear(&mut self) -> u8 {
        TEARS[self.choose(TEARS.len() as u32) as usize]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_odometer_meets_every_combination_once() {
        let mut odometer = Odometer::default();
        let mut seen = std::collections::BTreeSet::new();
        loop {
            let first = odometer.choose(3);
            // The number of questions depends on the first answer.
            let rest: Vec<u32> = (0..first).map(|_| odometer.choose(2)).collect();
            assert!(seen.insert((first, rest)), "no combination comes twice");
            if !odometer.advance() {
                break;
            }
        }
        assert_eq!(seen.len(), 1 + 2 + 4);
    }
}
