//! Kafka's answers as they were recorded: below `tests/security/data/matrix` a file for each API, in text that a diff shows well.
//!
//! A line is an answer and the versions and askers who got it; equal answers stand once:
//!
//! ```text
//! versions 0-13
//! case by-id
//! v12:super,owner v13:super: {topics:[...]}
//! ```

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use wire::ApiKey;

/// The answers of one case, by version and asker.
pub(crate) type Answers = BTreeMap<(i16, String), String>;

/// All of one API.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Recorded {
    /// Which versions Kafka offers; none where its users are not served.
    pub(crate) versions: Option<(i16, i16)>,
    pub(crate) cases: BTreeMap<String, Answers>,
}

const HEAD: &str =
    "# Answers of Apache Kafka 4.3.0; `tests/security/matrix --record` writes them anew.\n";

fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("data/matrix")
}

fn file(api: ApiKey) -> PathBuf {
    folder().join(format!("{}.txt", api.name()))
}

pub(crate) fn save(api: ApiKey, recorded: &Recorded) -> io::Result<()> {
    fs::create_dir_all(folder())?;
    fs::write(file(api), format!("{HEAD}{}", written(recorded)))
}

/// None where nothing was recorded.
pub(crate) fn load(api: ApiKey) -> io::Result<Option<Recorded>> {
    let text = match fs::read_to_string(file(api)) {
        Ok(text) => text,
        Err(why) if why.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(why) => return Err(why),
    };
    let unread = || io::Error::other(format!("{}: not as it was written", file(api).display()));
    read(&text).map(Some).ok_or_else(unread)
}

fn written(recorded: &Recorded) -> String {
    let mut text = String::new();
    if let Some((min, max)) = recorded.versions {
        let _ = writeln!(text, "versions {min}-{max}");
    }
    for (case, answers) in &recorded.cases {
        let _ = writeln!(text, "case {case}");
        let mut lines: Vec<(String, &str)> = gathered(answers)
            .into_iter()
            .map(|(answer, who)| (who, answer))
            .collect();
        lines.sort();
        for (who, answer) in lines {
            let _ = writeln!(text, "{who}: {answer}");
        }
    }
    text
}

/// Each answer with those who got it: `v0-3:super,owner v4:super`.
pub(crate) fn gathered(answers: &Answers) -> BTreeMap<&str, String> {
    let mut who: BTreeMap<&str, BTreeMap<i16, Vec<&str>>> = BTreeMap::new();
    for ((version, name), answer) in answers {
        who.entry(answer)
            .or_default()
            .entry(*version)
            .or_default()
            .push(name);
    }
    let texts = who.into_iter().map(|(answer, by_version)| {
        let mut runs: Vec<(i16, i16, String)> = Vec::new();
        for (version, names) in by_version {
            let names = names.join(",");
            match runs.last_mut() {
                Some((_, last, same)) if *last + 1 == version && *same == names => *last = version,
                _ => runs.push((version, version, names)),
            }
        }
        let runs = runs
            .into_iter()
            .map(|(first, last, names)| match last - first {
                0 => format!("v{first}:{names}"),
                _ => format!("v{first}-{last}:{names}"),
            });
        (answer, runs.collect::<Vec<_>>().join(" "))
    });
    texts.collect()
}

fn read(text: &str) -> Option<Recorded> {
    let mut recorded = Recorded::default();
    let mut case = None;
    for line in text.lines().filter(|line| !line.starts_with('#')) {
        if let Some(range) = line.strip_prefix("versions ") {
            recorded.versions = Some(bounds(range)?);
        } else if let Some(name) = line.strip_prefix("case ") {
            case = Some(recorded.cases.entry(name.to_owned()).or_default());
        } else {
            let (who, answer) = line.split_once(": ")?;
            let answers = case.as_deref_mut()?;
            for run in who.split(' ') {
                let (versions, names) = run.strip_prefix('v')?.split_once(':')?;
                let (first, last) = bounds(versions)?;
                for version in first..=last {
                    for name in names.split(',') {
                        answers.insert((version, name.to_owned()), answer.to_owned());
                    }
                }
            }
        }
    }
    Some(recorded)
}

fn bounds(range: &str) -> Option<(i16, i16)> {
    let (first, last) = range.split_once('-').unwrap_or((range, range));
    Some((first.parse().ok()?, last.parse().ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn answers_come_back_as_they_were_recorded_and_equal_ones_stand_once() {
        let mut answers = Answers::new();
        for version in 0..4 {
            for who in ["owner", "super"] {
                let answer = if version == 3 && who == "owner" {
                    "closed"
                } else {
                    "{a:b c:{}}"
                };
                answers.insert((version, who.to_owned()), answer.to_owned());
            }
        }
        let recorded = Recorded {
            versions: Some((0, 3)),
            cases: BTreeMap::from([("there".to_owned(), answers)]),
        };
        let text =
            "versions 0-3\ncase there\nv0-2:owner,super v3:super: {a:b c:{}}\nv3:owner: closed\n";
        assert_eq!(written(&recorded), text);
        assert_eq!(read(text), Some(recorded));
    }
}
