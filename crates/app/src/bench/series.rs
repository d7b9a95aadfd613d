//! A rate over the course of one case: as time passes, or as the topic grows.
//!
//! Owns at most [`PIECES`] counts for a run by records and one for each span of a run by time, however long it takes. Pieces follow
//! each other without gap; what is acknowledged after the last whole span counts nowhere.

use std::time::Duration;

use serde::Serialize;

/// Equal parts of a run by records.
const PIECES: u64 = 20;
/// The span of the source; a run of less than ten of them is cut into ten.
const SPAN: Duration = Duration::from_secs(1);

/// Counts acknowledged records while a case runs.
pub(super) enum Tally {
    Time {
        span: Duration,
        counts: Vec<u64>,
    },
    Stored {
        share: u64,
        done: u64,
        marks: Vec<(u64, Duration)>,
    },
}

impl Tally {
    pub(super) fn by_time(time: Duration) -> Tally {
        let span = SPAN.min(time / 10).max(Duration::from_millis(1));
        let spans = (time.as_nanos() / span.as_nanos()) as usize;
        Tally::Time {
            span,
            counts: vec![0; spans],
        }
    }

    pub(super) fn by_records(records: u64) -> Tally {
        Tally::Stored {
            share: records.div_ceil(PIECES).max(1),
            done: 0,
            marks: Vec::new(),
        }
    }

    /// So many records were acknowledged, that long after the case began.
    pub(super) fn add(&mut self, elapsed: Duration, records: u64) {
        match self {
            Tally::Time { span, counts } => {
                let at = (elapsed.as_nanos() / span.as_nanos()) as usize;
                if let Some(count) = counts.get_mut(at) {
                    *count += records;
                }
            }
            Tally::Stored { share, done, marks } => {
                let before = *done / *share;
                *done += records;
                if before < *done / *share {
                    marks.push((*done, elapsed));
                }
            }
        }
    }

    /// The counts so far; `size` is the number of bytes of a value.
    pub(super) fn series(&self, size: usize) -> Series {
        let (axis, points): (_, Vec<Point>) = match self {
            Tally::Time { span, counts } => {
                let seconds = span.as_secs_f64();
                let point = |(at, count): (usize, &u64)| Point {
                    x: (at + 1) as f64 * seconds,
                    records_per_second: *count as f64 / seconds,
                };
                ("seconds", counts.iter().enumerate().map(point).collect())
            }
            Tally::Stored { marks, .. } => {
                let mut last = (0, Duration::ZERO);
                let point = |mark: &(u64, Duration)| {
                    let records = (mark.0 - last.0) as f64;
                    let seconds = mark.1.saturating_sub(last.1).as_secs_f64().max(1e-9);
                    last = *mark;
                    Point {
                        x: mark.0 as f64 * size as f64 / (1 << 20) as f64,
                        records_per_second: records / seconds,
                    }
                };
                ("MiB stored", marks.iter().map(point).collect())
            }
        };
        Series::over(axis, points)
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub(super) struct Point {
    /// End of the piece.
    pub(super) x: f64,
    pub(super) records_per_second: f64,
}

#[derive(Clone, Debug, PartialEq, Serialize)]
pub(super) struct Series {
    pub(super) axis: &'static str,
    pub(super) points: Vec<Point>,
    pub(super) mean: f64,
    /// Standard deviation in percent of the mean.
    pub(super) deviation_percent: f64,
    pub(super) lowest: f64,
    pub(super) highest: f64,
    /// From begin to end of the line of least squares, in percent of the mean.
    pub(super) change_percent: f64,
}

impl Series {
    fn over(axis: &'static str, points: Vec<Point>) -> Series {
        let count = points.len().max(1) as f64;
        let rate = |point: &Point| point.records_per_second;
        let mean = points.iter().map(rate).sum::<f64>() / count;
        let middle = points.iter().map(|point| point.x).sum::<f64>() / count;
        let (mut square, mut run, mut rise) = (0.0, 0.0, 0.0);
        for point in &points {
            let (dx, dy) = (point.x - middle, rate(point) - mean);
            square += dy * dy;
            run += dx * dx;
            rise += dx * dy;
        }
        let width = points.last().map_or(0.0, |last| last.x) - points.first().map_or(0.0, |p| p.x);
        let slope = if run > 0.0 { rise / run } else { 0.0 };
        let percent = |value: f64| {
            if mean > 0.0 {
                100.0 * value / mean
            } else {
                0.0
            }
        };
        let highest = points.iter().map(rate).fold(0.0, f64::max);
        Series {
            axis,
            mean,
            deviation_percent: percent((square / count).sqrt()),
            lowest: points.iter().map(rate).fold(highest, f64::min),
            highest,
            change_percent: percent(slope * width),
            points,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_steady_rate_neither_strays_nor_changes() {
        let mut tally = Tally::by_records(2000);
        for i in 1..=200u32 {
            tally.add(Duration::from_millis(10) * i, 10);
        }
        let series = tally.series(1 << 20);
        assert_eq!(series.points.len(), PIECES as usize);
        assert!((series.mean - 1000.0).abs() < 1e-6, "{series:?}");
        assert!(series.deviation_percent < 1e-6 && series.change_percent.abs() < 1e-6);
        assert_eq!(series.points.last().unwrap().x, 2000.0);
    }

    #[test]
    fn a_rate_that_falls_to_half_is_told_as_such() {
        let mut tally = Tally::by_time(Duration::from_secs(11));
        for second in 0..11u64 {
            let at = Duration::from_secs(second) + Duration::from_millis(500);
            tally.add(at, 1000 - 50 * second);
        }
        let series = tally.series(100);
        assert_eq!((series.points.len(), series.mean), (11, 750.0));
        assert!((series.change_percent + 100.0 * 500.0 / 750.0).abs() < 1e-9);
        assert_eq!((series.lowest, series.highest), (500.0, 1000.0));
    }

    #[test]
    fn short_runs_are_cut_into_ten_and_what_comes_late_counts_nowhere() {
        let mut tally = Tally::by_time(Duration::from_millis(300));
        tally.add(Duration::from_millis(299), 3);
        tally.add(Duration::from_millis(300), 1000);
        let series = tally.series(100);
        assert_eq!(series.points.len(), 10);
        assert!((series.highest - 100.0).abs() < 1e-9, "{series:?}");
        assert_eq!(series.lowest, 0.0);
    }

    #[test]
    fn batches_larger_than_a_piece_make_fewer_pieces() {
        let mut tally = Tally::by_records(20);
        tally.add(Duration::from_secs(1), 15);
        tally.add(Duration::from_secs(2), 5);
        let rates: Vec<f64> = tally
            .series(1)
            .points
            .iter()
            .map(|point| point.records_per_second)
            .collect();
        assert_eq!(rates, [15.0, 5.0]);
        assert_eq!(Tally::by_records(0).series(1).points, []);
    }
}
