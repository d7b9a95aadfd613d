//! The figures of a soak: what flows, how long nothing does, and what each node needs for it.
//!
//! A look each tenth of a second at the loads and each second at the nodes; a line each minute. Invariant: silence counts only while all
//! nodes are well and something is not acknowledged. Does nothing to the nodes.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use parking_lot::Mutex;

use crate::cluster::room::Look;
use crate::load::{Gauge, Progress};
use crate::place::Place;

const PERIOD: Duration = Duration::from_millis(100);
const SAMPLE_EVERY: Duration = Duration::from_secs(1);
const LINE_EVERY: Duration = Duration::from_secs(60);
/// The files of a node are counted so often.
const WALK_EVERY: Duration = Duration::from_secs(5);
/// While all nodes are well: `replica.lag.time.max.ms` of these nodes, and as long again for a busy machine.
const SILENCE_MAX: Duration = Duration::from_secs(12);
const WARM_UP_MAX: Duration = Duration::from_secs(120);
/// Of the whole soak.
const WARM_UP_SHARE: u32 = 5;
/// Resident memory may stand so much higher at the end than at the beginning: what threads keep of their last work, and what grows with the
/// number of partitions and not with time. 6 MiB a minute make 50 in the 8 minutes between the two middles of a soak of 15.
const GROWTH_BYTES_MAX: u64 = 48 << 20;
/// Descriptors beside those of files: connections that come and go.
const DESCRIPTORS_SPARE: u64 = 64;
/// Of `/proc/PID/stat`.
const TICKS_PER_SECOND: f64 = 100.0;

/// Whether all nodes are well, and since when.
#[derive(Debug)]
pub(super) struct Health {
    well: Mutex<Option<Instant>>,
    stop: AtomicBool,
}

impl Health {
    pub(super) fn new() -> Health {
        Health {
            well: Mutex::new(Some(Instant::now())),
            stop: AtomicBool::new(false),
        }
    }

    pub(super) fn set(&self, is_well: bool) {
        *self.well.lock() = is_well.then(Instant::now);
    }

    pub(super) fn well_since(&self) -> Option<Instant> {
        *self.well.lock()
    }

    pub(super) fn end(&self) {
        self.stop.store(true, Ordering::Release);
    }

    pub(super) fn is_over(&self) -> bool {
        self.stop.load(Ordering::Acquire)
    }
}

#[derive(Clone, Copy, Debug, Default)]
struct Sample {
    process: u32,
    resident: u64,
    /// Against the bound, page cache included.
    counted: u64,
    descriptors: u64,
    ticks: u64,
    files: u64,
    disk: u64,
}

/// The places where one node shows its needs.
pub(super) struct Seat {
    pub(super) room: Look,
    pub(super) data: PathBuf,
}

pub(super) struct Monitor<'a> {
    pub(super) seats: Vec<Seat>,
    pub(super) gauges: Vec<Gauge>,
    pub(super) stock: Vec<(&'static str, Arc<Mutex<Vec<String>>>)>,
    pub(super) health: &'a Health,
    pub(super) place: &'a Place,
    pub(super) length: Duration,
}

/// The figures of a whole soak.
#[derive(Default)]
pub(super) struct Figures {
    /// By node, one each second in which it ran.
    samples: Vec<Vec<Sample>>,
    silences: Silences,
    pub(super) problems: Vec<String>,
}

/// The longest time without an acknowledgement where one was due.
#[derive(Default)]
struct Silences {
    flows: BTreeMap<String, (Progress, Instant)>,
    longest: Duration,
    longest_of_minute: Duration,
    of: String,
}

impl Silences {
    fn take(&mut self, name: String, now: Progress, at: Instant, well: Option<Instant>) {
        let known = self
            .flows
            .get(&name)
            .filter(|(before, _)| before.acked == now.acked);
        // Nothing was due at the last look, or all is well since later.
        let waited = known.filter(|(before, _)| before.sent > before.acked);
        let since = waited.map_or(at, |(_, since)| *since);
        let since = well.map_or(at, |well| since.max(well));
        self.flows.insert(name.clone(), (now, since));
        let silence = at.saturating_duration_since(since);
        self.longest_of_minute = self.longest_of_minute.max(silence);
        if silence > self.longest {
            (self.longest, self.of) = (silence, name);
        }
    }
}

impl Monitor<'_> {
    /// Until the soak is over; ends it when a node was killed for its memory.
    pub(super) fn watch(&self) -> Figures {
        let begun = Instant::now();
        let mut figures = Figures {
            samples: self.seats.iter().map(|_| Vec::new()).collect(),
            ..Figures::default()
        };
        let (mut next_sample, mut next_line) = (begun, begun + LINE_EVERY);
        let mut walks = vec![((0, 0), begun); self.seats.len()];
        let mut last = vec![Sample::default(); self.seats.len()];
        let mut stock: Vec<Heard> = self.stock.iter().map(|_| Heard::default()).collect();
        while !self.health.is_over() {
            std::thread::sleep(PERIOD);
            let now = Instant::now();
            let total = self.look_at_loads(&mut stock, &mut figures.silences, now);
            if now < next_sample {
                continue;
            }
            next_sample = now + SAMPLE_EVERY;
            for (at, seat) in self.seats.iter().enumerate() {
                if seat.room.kills() > 0 {
                    figures.problems.push(format!(
                        "node {} needed more than its memory and was killed after {:.0} s",
                        at + 1,
                        begun.elapsed().as_secs_f64()
                    ));
                    self.health.end();
                }
                if walks[at].1 <= now {
                    walks[at] = (files_below(&seat.data), now + WALK_EVERY);
                }
                if let Some(sample) = seat.sample(walks[at].0) {
                    figures.samples[at].push(sample);
                }
            }
            if next_line <= now || self.health.is_over() {
                self.say(
                    &figures,
                    &mut last,
                    total,
                    begun,
                    now + LINE_EVERY - next_line,
                );
                figures.silences.longest_of_minute = Duration::ZERO;
                next_line = now + LINE_EVERY;
            }
        }
        figures
    }

    /// Totals of all loads.
    fn look_at_loads(
        &self,
        stock: &mut [Heard],
        silences: &mut Silences,
        now: Instant,
    ) -> Progress {
        let well = self.health.well_since();
        let mut total = Progress::default();
        let flows = self.gauges.iter().flat_map(Gauge::flows);
        let stock = self.stock.iter().zip(stock);
        let stock = stock.flat_map(|((topic, lines), heard)| heard.take(topic, &lines.lock()));
        for (name, progress) in flows.chain(stock) {
            total.sent += progress.sent;
            total.acked += progress.acked;
            silences.take(name, progress, now, well);
        }
        total
    }

    fn say(
        &self,
        figures: &Figures,
        last: &mut [Sample],
        total: Progress,
        begun: Instant,
        time: Duration,
    ) {
        let shown: usize = self.gauges.iter().map(Gauge::shown).sum();
        let mut line = format!(
            "{:4.0} s: {} acknowledged, {} under way, {shown} read, silence {:.1} s |",
            begun.elapsed().as_secs_f64(),
            total.acked,
            total.sent - total.acked,
            figures.silences.longest_of_minute.as_secs_f64()
        );
        for (at, samples) in figures.samples.iter().enumerate() {
            let Some(sample) = samples.last() else {
                line += &format!(" {}: away |", at + 1);
                continue;
            };
            let ticks = sample
                .ticks
                .saturating_sub(if sample.process == last[at].process {
                    last[at].ticks
                } else {
                    0
                });
            line += &format!(
                " {}: RSS {} of {} MiB, {} fds, {} files, CPU {:.0} %, disk {} MiB |",
                at + 1,
                sample.resident >> 20,
                sample.counted >> 20,
                sample.descriptors,
                sample.files,
                ticks as f64 / TICKS_PER_SECOND / time.as_secs_f64() * 100.0,
                sample.disk >> 20
            );
            last[at] = *sample;
        }
        self.place.say(line.trim_end_matches(" |"));
    }

    /// Says the figures of each node; returns all that is wrong. `lived`: the nodes that nobody killed.
    pub(super) fn judge(&self, figures: &Figures, lived: &[usize]) -> Vec<String> {
        let mut problems = figures.problems.clone();
        let silences = &figures.silences;
        self.place.say(&format!(
            "longest silence while all was well: {:.1} s, of {}",
            silences.longest.as_secs_f64(),
            silences.of
        ));
        if silences.longest > SILENCE_MAX {
            problems.push(format!(
                "{} was acknowledged nothing for {:.1} s while all was well",
                silences.of,
                silences.longest.as_secs_f64()
            ));
        }
        for node in lived {
            let warm_up = (self.length / WARM_UP_SHARE).min(WARM_UP_MAX);
            let samples = &figures.samples[node - 1];
            let samples = samples
                .get(warm_up.as_secs() as usize..)
                .unwrap_or_default();
            let of =
                |figure: fn(&Sample) -> u64| -> Vec<u64> { samples.iter().map(figure).collect() };
            let Some(resident) = Thirds::of(&of(|sample| sample.resident)) else {
                problems.push(format!("vacuous: node {node} was not looked at"));
                continue;
            };
            let descriptors = Thirds::of(&of(|sample| sample.descriptors)).unwrap_or_default();
            let files = Thirds::of(&of(|sample| sample.files)).unwrap_or_default();
            self.place.say(&format!(
                "node {node}, first and last third: RSS {} and {} MiB, {} and {} descriptors, {} and {} files",
                resident.first >> 20,
                resident.last >> 20,
                descriptors.first,
                descriptors.last,
                files.first,
                files.last
            ));
            if resident.grown() > GROWTH_BYTES_MAX {
                problems.push(format!(
                    "node {node} grew from {} to {} MiB, {} are allowed",
                    resident.first >> 20,
                    resident.last >> 20,
                    GROWTH_BYTES_MAX >> 20
                ));
            }
            if descriptors.grown() > files.grown() + DESCRIPTORS_SPARE {
                problems.push(format!(
                    "node {node} went from {} to {} descriptors, and from {} to {} files",
                    descriptors.first, descriptors.last, files.first, files.last
                ));
            }
        }
        problems
    }
}

impl Seat {
    fn sample(&self, (files, disk): (u64, u64)) -> Option<Sample> {
        let process = self.room.process()?;
        let read = |file: &str| std::fs::read_to_string(format!("/proc/{process}/{file}")).ok();
        let status = read("status")?;
        let resident = status
            .lines()
            .find_map(|line| line.strip_prefix("VmRSS:"))?;
        let resident: u64 = resident.split_whitespace().next()?.parse().ok()?;
        let stat = read("stat")?;
        // Behind the name, which may hold anything: the state first, user and system time 11 further on.
        let mut times = stat.rsplit_once(") ")?.1.split(' ').skip(11);
        let ticks: u64 = times.next()?.parse::<u64>().ok()? + times.next()?.parse::<u64>().ok()?;
        let descriptors = std::fs::read_dir(format!("/proc/{process}/fd"))
            .ok()?
            .count();
        Some(Sample {
            process,
            resident: resident << 10,
            counted: self.room.bytes(),
            descriptors: descriptors as u64,
            ticks,
            files,
            disk,
        })
    }
}

/// How many there are, and the bytes they hold.
fn files_below(dir: &Path) -> (u64, u64) {
    use std::os::unix::fs::MetadataExt;
    let (mut files, mut bytes) = (0, 0);
    for entry in std::fs::read_dir(dir).into_iter().flatten().flatten() {
        let Ok(known) = entry.metadata() else {
            continue;
        };
        if known.is_dir() {
            let below = files_below(&entry.path());
            (files, bytes) = (files + below.0, bytes + below.1);
        } else {
            (files, bytes) = (files + 1, bytes + 512 * known.blocks());
        }
    }
    (files, bytes)
}

/// The words of a producer of librdkafka so far.
#[derive(Default)]
struct Heard {
    lines: usize,
    /// By partition.
    flows: BTreeMap<String, Progress>,
}

impl Heard {
    fn take(&mut self, topic: &str, lines: &[String]) -> Vec<(String, Progress)> {
        for line in &lines[self.lines..] {
            let mut words = line.split(' ');
            let (Some(word), Some(partition)) = (words.next(), words.next()) else {
                continue;
            };
            let progress = self.flows.entry(partition.to_owned()).or_default();
            match word {
                "sent" => progress.sent += 1,
                "acked" => progress.acked += 1,
                _ => {}
            }
        }
        self.lines = lines.len();
        let name = |partition: &str| format!("{topic}-{partition} of librdkafka");
        let flows = self.flows.iter();
        flows
            .map(|(partition, progress)| (name(partition), *progress))
            .collect()
    }
}

/// A figure in the first third of a time and in the last, each by its median.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Thirds {
    first: u64,
    last: u64,
}

impl Thirds {
    /// `None` if there are too few to tell.
    fn of(values: &[u64]) -> Option<Thirds> {
        let third = values.len() / 3;
        let median = |part: &[u64]| {
            let mut part = part.to_vec();
            part.sort_unstable();
            part.get(part.len() / 2).copied()
        };
        Some(Thirds {
            first: median(&values[..third])?,
            last: median(&values[values.len() - third..])?,
        })
    }

    fn grown(self) -> u64 {
        self.last.saturating_sub(self.first)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn growth_is_seen_and_a_peak_is_none() {
        let rising: Vec<u64> = (0..90).map(|second| 100 + second).collect();
        assert_eq!(Thirds::of(&rising).map(Thirds::grown), Some(60));
        let mut flat = vec![100; 90];
        flat[80] = 900;
        assert_eq!(Thirds::of(&flat).map(Thirds::grown), Some(0));
        let falling: Vec<u64> = rising.iter().rev().copied().collect();
        assert_eq!(Thirds::of(&falling).map(Thirds::grown), Some(0));
        assert_eq!(Thirds::of(&[1, 2]), None);
    }

    #[test]
    fn a_silence_counts_while_something_is_due_and_all_is_well() {
        let begun = Instant::now();
        let second = |at: u64| begun + Duration::from_secs(at);
        let told = |sent, acked| Progress { sent, acked };
        let longest = |looks: &[(u64, Progress, Option<u64>)]| {
            let mut silences = Silences::default();
            for (at, progress, well) in looks {
                silences.take("one".to_owned(), *progress, second(*at), well.map(second));
            }
            silences.longest.as_secs()
        };
        let always = Some(0);
        let rest = [
            (0, told(5, 5), always),
            (9, told(5, 5), always),
            (20, told(6, 6), always),
        ];
        assert_eq!(longest(&rest), 0);
        let stall = [
            (1, told(6, 5), always),
            (9, told(9, 5), always),
            (12, told(9, 6), always),
        ];
        assert_eq!(longest(&stall), 8);
        let fault = [
            (1, told(6, 5), always),
            (9, told(9, 5), None),
            (30, told(9, 5), Some(28)),
        ];
        assert_eq!(longest(&fault), 2);
        let late = [
            (0, told(5, 5), always),
            (9, told(6, 5), always),
            (12, told(6, 5), always),
        ];
        assert_eq!(longest(&late), 3);
    }
}
