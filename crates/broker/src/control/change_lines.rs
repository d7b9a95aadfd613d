//! Lines of the log about decisions of the active controller that are committed: elections, ISRs, brokers that are fenced or come back.
//!
//! Owns the words and their pace. A line about records that are never committed is dropped together with the leadership that decided them. One batch
//! of records gives at most one line of each kind, however many partitions it changes; only an unclean election names each partition, because
//! records are lost by it.

use std::collections::VecDeque;

use meta::{Image, NO_LEADER, Record};
use model::{BrokerId, Instant, Offset};
use wire::metadata::PartitionChangeRecord;

use crate::complaints::Pace;

/// Partitions that one line names; the others are a number.
const NAMES_MAX: usize = 3;
/// Lines that wait for their records; further ones are dropped.
const ANNOUNCED_MAX: usize = 1_000;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Level {
    Info,
    Warn,
}

/// A line for the log.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Line {
    level: Level,
    text: String,
}

impl Line {
    fn new(level: Level, text: String) -> Line {
        Line { level, text }
    }

    pub(super) fn info(text: String) -> Line {
        Line::new(Level::Info, text)
    }

    pub(super) fn warn(text: String) -> Line {
        Line::new(Level::Warn, text)
    }

    pub(super) fn write(&self) {
        let text = &self.text;
        match self.level {
            Level::Info => tracing::info!(target: env::logs::METADATA, "{text}"),
            Level::Warn => tracing::warn!(target: env::logs::METADATA, "{text}"),
        }
    }
}

/// The lines of one leadership: those that wait, and the pace of each kind.
#[derive(Debug, Default)]
pub(crate) struct ChangeLines {
    /// Each with the last of the records that it is about.
    announced: VecDeque<(Offset, Line)>,
    unclean: Pace,
    leaderless: Pace,
    elections: Pace,
    shrunk: Pace,
    grown: Pace,
    moved: Pace,
    brokers: Pace,
}

impl ChangeLines {
    /// Keeps a line until the records up to `last` are committed.
    pub(super) fn announce(&mut self, last: Offset, line: Line) {
        if self.announced.len() < ANNOUNCED_MAX {
            self.announced.push_back((last, line));
        }
    }

    /// The lines that are due once a batch in front of `next` is committed, whose records were decided on `before`.
    pub(super) fn committed(
        &mut self,
        before: &Image,
        records: &[Record],
        next: Offset,
        now: Instant,
    ) -> Vec<Line> {
        let mut lines = Vec::new();
        while let Some((_, line)) = self.announced.pop_front_if(|(last, _)| *last < next) {
            lines.push(line);
        }
        lines.extend(self.about(before, records, now));
        lines
    }

    /// The lines about records that were decided on `before`.
    fn about(&mut self, before: &Image, records: &[Record], now: Instant) -> Vec<Line> {
        let changes = Changes::of(before, records);
        let mut lines = Vec::new();
        for unclean in &changes.unclean {
            paced(
                &mut self.unclean,
                now,
                &mut lines,
                Level::Warn,
                unclean.clone(),
            );
        }
        let mut line = |pace: &mut Pace, level, names: &[String], what: &str| {
            if !names.is_empty() {
                paced(pace, now, &mut lines, level, listed(names, what));
            }
        };
        let Changes {
            leaderless,
            elected,
            shrunk,
            grown,
            moved,
            brokers,
            ..
        } = &changes;
        line(
            &mut self.leaderless,
            Level::Warn,
            leaderless,
            "without a leader from now on",
        );
        line(
            &mut self.elections,
            Level::Info,
            elected,
            "led by another broker",
        );
        line(
            &mut self.shrunk,
            Level::Info,
            shrunk,
            "with fewer replicas in sync",
        );
        line(
            &mut self.grown,
            Level::Info,
            grown,
            "with more replicas in sync",
        );
        line(&mut self.moved, Level::Info, moved, "reassigned");
        for broker in brokers {
            paced(
                &mut self.brokers,
                now,
                &mut lines,
                Level::Info,
                broker.clone(),
            );
        }
        lines
    }
}

pub(super) fn paced(
    pace: &mut Pace,
    now: Instant,
    lines: &mut Vec<Line>,
    level: Level,
    text: String,
) {
    let Some(kept_back) = pace.admit(now) else {
        return;
    };
    let more = kept_back.count();
    let more = more.map_or(String::new(), |count| {
        format!(" ({count} lines like this were left out)")
    });
    lines.push(Line::new(level, text + &more));
}

fn listed(names: &[String], what: &str) -> String {
    let count = names.len();
    let noun = if count == 1 {
        "partition"
    } else {
        "partitions"
    };
    let shown = names.iter().take(NAMES_MAX).map(String::as_str);
    let shown: Vec<&str> = shown.collect();
    let more = match count.saturating_sub(NAMES_MAX) {
        0 => String::new(),
        more => format!(" and {more} more"),
    };
    format!("{count} {noun} {what}: {}{more}", shown.join(", "))
}

/// The changes of a batch of records, each as text.
#[derive(Debug, Default)]
struct Changes {
    unclean: Vec<String>,
    leaderless: Vec<String>,
    elected: Vec<String>,
    shrunk: Vec<String>,
    grown: Vec<String>,
    moved: Vec<String>,
    brokers: Vec<String>,
}

impl Changes {
    fn of(before: &Image, records: &[Record]) -> Changes {
        let mut changes = Changes::default();
        for record in records {
            match record {
                Record::PartitionChange(change) => changes.on_partition(before, change),
                Record::BrokerRegistrationChange(change) if change.fenced < 0 => {
                    let broker = change.broker_id;
                    changes
                        .brokers
                        .push(format!("broker {broker} is heard: it may lead"));
                }
                _ => {}
            }
        }
        changes
    }

    fn on_partition(&mut self, before: &Image, change: &PartitionChangeRecord) {
        let topic = before.topic_by_id(change.topic_id);
        let at = usize::try_from(change.partition_id).ok();
        let Some((topic, known)) =
            topic.and_then(|topic| Some((topic, topic.partitions.get(at?)?)))
        else {
            return;
        };
        let name = format!("{}-{}", topic.name, change.partition_id);
        let leader = BrokerId(change.leader);
        let isr: Option<Vec<BrokerId>> =
            (change.isr.as_ref()).map(|ids| ids.iter().copied().map(BrokerId).collect());
        let is_other = leader != known.leader;
        if leader == NO_LEADER && is_other {
            self.leaderless
                .push(format!("{name} (broker {} led it)", known.leader));
        } else if 0 <= leader.0 && is_other {
            let is_in = |ids: &[BrokerId]| ids.contains(&leader);
            let marked = change.leader_recovery_state == 1 || known.is_recovering;
            let is_alone = isr.as_deref() == Some(&[leader]);
            if marked && is_alone && !is_in(&known.isr) && !is_in(&known.eligible_leaders) {
                self.unclean.push(unclean(&name, leader, known));
                return;
            }
            self.elected.push(match known.leader {
                NO_LEADER => format!("{name} by broker {leader}, after none"),
                old => format!("{name} by broker {leader}, after broker {old}"),
            });
        }
        if let Some(isr) = isr {
            let text = || format!("{name} ({} -> {})", ids(&known.isr), ids(&isr));
            // A reassignment that ends takes replicas away.
            if change.replicas.is_some() {
                self.moved.push(text());
            } else if isr.len() < known.isr.len() {
                self.shrunk.push(text());
            } else if known.isr.len() < isr.len() {
                self.grown.push(text());
            }
        }
    }
}

fn unclean(name: &str, leader: BrokerId, known: &meta::Partition) -> String {
    let (isr, eligible) = (&known.isr, &known.eligible_leaders);
    let had_all = match (isr.as_slice(), eligible.as_slice()) {
        ([], []) => "no replica is known to have every record".to_owned(),
        ([], eligible) => format!("every committed record is on {} only", ids(eligible)),
        (isr, _) => format!("in sync were {}", ids(isr)),
    };
    format!(
        "{name}: unclean election of broker {leader}, which was not in sync: {had_all}. Records that broker {leader} lacks are lost, \
         acknowledged ones too; each replica that has them removes them when it follows, and its log says how many"
    )
}

fn ids(ids: &[BrokerId]) -> String {
    let ids: Vec<String> = ids.iter().map(ToString::to_string).collect();
    format!("[{}]", ids.join(","))
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::time::Duration;

    use super::*;
    use crate::event_loop::bench::Bench;

    const AT: Instant = Instant(0);

    fn texts(lines: &[Line]) -> Vec<&str> {
        lines.iter().map(|line| line.text.as_str()).collect()
    }

    /// A topic with so many partitions, each of which broker 1 has and leads.
    fn image(partitions: i32) -> Arc<Image> {
        let mut bench = Bench::new();
        bench.create("t", partitions);
        bench.commit();
        bench.shard.desk.shared.catalog.image()
    }

    fn change(image: &Image, partition: i32) -> PartitionChangeRecord {
        PartitionChangeRecord {
            topic_id: image.topic("t").expect("created").id,
            partition_id: partition,
            ..PartitionChangeRecord::default()
        }
    }

    #[test]
    fn one_line_names_the_first_partitions_of_a_batch_and_counts_the_others() {
        let image = image(5);
        let records: Vec<Record> = (0..5)
            .map(|at| {
                let leader = PartitionChangeRecord {
                    leader: -1,
                    isr: Some(Vec::new()),
                    ..change(&image, at)
                };
                Record::from(leader)
            })
            .collect();
        let mut lines = ChangeLines::default();
        let about = lines.about(&image, &records, AT);
        assert_eq!(
            texts(&about),
            [
                "5 partitions without a leader from now on: t-0 (broker 1 led it), t-1 (broker 1 led it), t-2 (broker 1 led it) and 2 more",
                "5 partitions with fewer replicas in sync: t-0 ([1] -> []), t-1 ([1] -> []), t-2 ([1] -> []) and 2 more",
            ]
        );
        assert_eq!(about[0].level, Level::Warn);
        assert_eq!(about[1].level, Level::Info);
    }

    #[test]
    fn a_reassignment_that_ends_is_no_loss_of_replicas() {
        let image = image(1);
        let record = PartitionChangeRecord {
            replicas: Some(vec![2]),
            isr: Some(vec![]),
            ..change(&image, 0)
        };
        let lines = ChangeLines::default().about(&image, &[record.into()], AT);
        assert_eq!(texts(&lines), ["1 partition reassigned: t-0 ([1] -> [])"]);
    }

    #[test]
    fn an_unclean_election_is_a_warning_that_says_what_it_costs() {
        let image = image(1);
        let record = PartitionChangeRecord {
            leader: 2,
            isr: Some(vec![2]),
            leader_recovery_state: 1,
            ..change(&image, 0)
        };
        let lines = ChangeLines::default().about(&image, &[record.clone().into()], AT);
        let [line] = lines.as_slice() else {
            panic!("{lines:?}");
        };
        assert_eq!(line.level, Level::Warn);
        assert!(
            line.text.starts_with("t-0: unclean election of broker 2"),
            "{line:?}"
        );
        assert!(line.text.contains("in sync were [1]"), "{line:?}");
        let clean = PartitionChangeRecord {
            leader_recovery_state: -1,
            isr: None,
            ..record
        };
        let lines = ChangeLines::default().about(&image, &[clean.into()], AT);
        assert_eq!(
            texts(&lines),
            ["1 partition led by another broker: t-0 by broker 2, after broker 1"]
        );
    }

    #[test]
    fn lines_of_one_kind_have_a_pace_and_those_of_another_are_not_hidden() {
        let image = image(1);
        let unclean: Record = PartitionChangeRecord {
            leader: 2,
            isr: Some(vec![2]),
            leader_recovery_state: 1,
            ..change(&image, 0)
        }
        .into();
        let many = vec![unclean; 1_000];
        let mut lines = ChangeLines::default();
        let written = lines.about(&image, &many, AT).len();
        assert!((1..100).contains(&written), "{written}");
        let lost: Record = PartitionChangeRecord {
            leader: -1,
            ..change(&image, 0)
        }
        .into();
        assert_eq!(lines.about(&image, &[lost], AT).len(), 1);
        let later = AT.plus(Duration::from_secs(60));
        let again = lines.about(&image, &many[..1], later);
        assert!(
            again[0].text.contains("lines like this were left out"),
            "{again:?}"
        );
    }
}
