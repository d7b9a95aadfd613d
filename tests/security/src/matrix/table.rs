//! The table of the matrix: what was equal, what is explained, and what is neither.

use std::collections::{BTreeMap, BTreeSet};

use wire::ApiKey;

use super::answers::{self, Answers, Recorded};
use super::explained::{self, Difference};

/// The cases that either was asked, in versions that both offer. Where one has no answer, they are not those that were recorded.
fn asked<'a>(kafka: &'a Recorded, esker: &'a Recorded) -> BTreeSet<(&'a str, &'a (i16, String))> {
    let is_compared = |version: i16| match (kafka.versions, esker.versions) {
        (Some((first, last)), Some((oldest, newest))) => {
            first.max(oldest) <= version && version <= last.min(newest)
        }
        // Nobody is offered it by Kafka, so it is refused in all versions.
        (None, _) => true,
        (Some(_), None) => false,
    };
    [kafka, esker]
        .into_iter()
        .flat_map(|recorded| &recorded.cases)
        .flat_map(|(case, answers)| answers.keys().map(move |at| (case.as_str(), at)))
        .filter(|(_, at)| is_compared(at.0))
        .collect()
}

#[derive(Default)]
pub(super) struct Table {
    rows: Vec<String>,
    sums: [usize; 4],
    reasons: BTreeMap<&'static str, usize>,
    /// Answers of both, and who got them, for each API and case.
    shown: BTreeMap<(String, String, String), Answers>,
    apart: Vec<String>,
}

impl Table {
    /// `tells_all` shows explained differences as well.
    pub(super) fn add(&mut self, api: ApiKey, kafka: &Recorded, esker: &Recorded, tells_all: bool) {
        let versions = match (kafka.versions, esker.versions) {
            (Some((a, b)), Some((c, d))) if a.max(c) <= b.min(d) => {
                format!("{}-{}", a.max(c), b.min(d))
            }
            (None, _) => "nodes".to_owned(),
            _ => "none".to_owned(),
        };
        if kafka.versions.is_some() && kafka.versions != esker.versions {
            let range = |versions: Option<(i16, i16)>| match versions {
                Some((first, last)) => format!("{first}-{last}"),
                None => "none".to_owned(),
            };
            self.apart.push(format!(
                "{}: Kafka offers {}, Esker {}",
                api.name(),
                range(kafka.versions),
                range(esker.versions)
            ));
        }
        let [mut all, mut equal, mut explained, mut unexplained] = [0_usize; 4];
        for (case, at) in asked(kafka, esker) {
            let answer = |recorded: &Recorded| {
                let answers = recorded.cases.get(case);
                let answer = answers.and_then(|answers| answers.get(at));
                answer
                    .map_or("nothing: record anew", String::as_str)
                    .to_owned()
            };
            let (wanted, got) = (answer(kafka), answer(esker));
            all += 1;
            if wanted == got {
                equal += 1;
                continue;
            }
            let reason = explained::reason(&Difference {
                api,
                case,
                who: &at.1,
                kafka: &wanted,
                esker: &got,
                is_offered: kafka.versions.is_some(),
            });
            match reason {
                Some(reason) => {
                    explained += 1;
                    *self.reasons.entry(reason).or_default() += 1;
                }
                None => unexplained += 1,
            }
            if reason.is_none() || tells_all {
                let why = reason.map_or(String::new(), |reason| format!(" ({reason})"));
                let case = format!("{} {case}{why}", api.name());
                let shown = self.shown.entry((case, wanted, got)).or_default();
                shown.insert(at.clone(), String::new());
            }
        }
        for (sum, count) in self
            .sums
            .iter_mut()
            .zip([all, equal, explained, unexplained])
        {
            *sum += count;
        }
        self.rows.push(format!(
            "{:<30} {versions:>8} {all:>7} {equal:>7} {explained:>9} {unexplained:>11}",
            api.name()
        ));
    }

    /// Prints everything, and returns how many differences have no reason.
    pub(super) fn end(self, newer: &[ApiKey]) -> usize {
        for ((case, kafka, esker), who) in &self.shown {
            let who: Vec<String> = answers::gathered(who).into_values().collect();
            println!(
                "{case}\n  {}\n  Kafka {kafka}\n  Esker {esker}",
                who.join(" ")
            );
        }
        println!(
            "{:<30} {:>8} {:>7} {:>7} {:>9} {:>11}",
            "API", "versions", "cases", "equal", "explained", "unexplained"
        );
        for row in &self.rows {
            println!("{row}");
        }
        let [all, equal, explained, unexplained] = self.sums;
        println!(
            "{:<39} {all:>7} {equal:>7} {explained:>9} {unexplained:>11}",
            "all"
        );
        for (reason, count) in &self.reasons {
            println!("explained {count:>5}: {reason}");
        }
        for line in &self.apart {
            println!("not compared: {line}");
        }
        for api in newer {
            println!("not compared: {}: not in Kafka 4.3", api.name());
        }
        unexplained
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn recorded(versions: (i16, i16), answer: &str) -> Recorded {
        let (first, last) = versions;
        let answers = (first..=last).map(|version| ((version, "a".to_owned()), answer.to_owned()));
        Recorded {
            versions: Some(versions),
            cases: BTreeMap::from([("there".to_owned(), answers.collect())]),
        }
    }

    #[test]
    fn versions_of_both_are_compared_and_an_answer_that_lacks_is_a_difference() {
        let count = |kafka: &Recorded, esker: &Recorded| {
            let mut table = Table::default();
            table.add(ApiKey::Heartbeat, kafka, esker, false);
            table.sums
        };
        let kafka = recorded((0, 3), "{}");
        assert_eq!(count(&kafka, &recorded((1, 5), "{}")), [3, 3, 0, 0]);
        assert_eq!(count(&kafka, &recorded((1, 5), "closed")), [3, 0, 0, 3]);
        let mut less = recorded((0, 3), "{}");
        less.cases.clear();
        assert_eq!(count(&kafka, &less), [4, 0, 0, 4]);
        assert_eq!(count(&less, &kafka), [4, 0, 0, 4]);
    }
}
