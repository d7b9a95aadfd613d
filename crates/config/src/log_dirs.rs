//! The directories of `log.dirs`, and which of them `cordoned.log.dirs` names (KIP-1066).
//!
//! A directory is named by its path in the settings or by its absolute path. A directory that was cordoned while the broker ran, and
//! is not in `log.dirs` after the next start, is ignored: directories are cordoned to be removed.

use std::path::{Path, PathBuf};

use crate::layers::Layers;
use crate::value;

pub(crate) const CORDONED: &str = "cordoned.log.dirs";

/// Stands for all log directories.
const ALL: &str = "*";

pub(crate) struct LogDirs {
    names: Vec<String>,
    pub(crate) paths: Vec<PathBuf>,
}

impl LogDirs {
    pub(crate) fn new(layers: &Layers) -> LogDirs {
        let text = layers.text("log.dirs").or_else(|| layers.text("log.dir"));
        let names = value::list(&text.unwrap_or_default());
        let is_located = layers.located_dirs.len() == names.len();
        let paths = if is_located {
            layers.located_dirs.to_vec()
        } else {
            names.iter().map(PathBuf::from).collect()
        };
        LogDirs { names, paths }
    }

    /// The directories that `list` cordons.
    pub(crate) fn cordoned(&self, list: &str) -> Vec<PathBuf> {
        let items = value::list(list);
        let dirs = self.names.iter().zip(&self.paths);
        let cordoned = dirs.filter(|(name, path)| {
            let is_meant = |item: &String| item == ALL || is_called(name, path, item);
            items.iter().any(is_meant)
        });
        cordoned.map(|(_, path)| path.clone()).collect()
    }

    /// The reason why `list` is invalid; `None` if it is valid.
    pub(crate) fn check_cordoned(&self, list: &str) -> Result<(), String> {
        let items = value::list(list);
        if items.iter().any(|item| item == ALL) {
            return match items.len() {
                1 => Ok(()),
                _ => Err(format!(
                    "must not contain other values when it is set to {ALL}"
                )),
            };
        }
        let is_unknown = |item: &&String| {
            let mut dirs = self.names.iter().zip(&self.paths);
            !dirs.any(|(name, path)| is_called(name, path, item))
        };
        let unknown: Vec<&str> = (items.iter().filter(is_unknown).map(String::as_str)).collect();
        if unknown.is_empty() {
            Ok(())
        } else {
            Err(format!(
                "all entries must be present in log.dirs or log.dir, and these are not: {}",
                unknown.join(", ")
            ))
        }
    }
}

fn is_called(name: &str, path: &Path, item: &str) -> bool {
    name == item || path.to_str() == Some(item)
}

#[cfg(test)]
mod tests {
    use std::convert::Infallible;
    use std::path::{Path, PathBuf};
    use std::sync::Arc;

    use crate::fixture::{MACHINE, broker, broker_on, overrides};
    use crate::{Broker, Level};

    fn two() -> Broker {
        let locate = |dir: &Path| Ok::<_, Infallible>(Path::new("/home").join(dir));
        let Ok(broker) = broker("log.dirs=a,/b").located(locate);
        broker
    }

    fn cordoned(broker: &Broker, list: &str) -> Vec<PathBuf> {
        let own = overrides(&[("cordoned.log.dirs", list)]);
        let broker = broker.with_dynamic(Arc::default(), own);
        assert_eq!(broker.passed_over, None);
        let dirs = broker.log_dirs.iter().filter(|dir| broker.is_cordoned(dir));
        dirs.cloned().collect()
    }

    #[test]
    fn a_directory_is_cordoned_by_its_name_or_by_where_it_is() {
        let broker = two();
        assert_eq!(broker.log_dirs, [Path::new("/home/a"), Path::new("/b")]);
        for (list, want) in [
            ("", &[][..]),
            ("a", &["/home/a"]),
            ("/home/a", &["/home/a"]),
            ("/b, a", &["/home/a", "/b"]),
            ("*", &["/home/a", "/b"]),
            // It is in log.dirs no more.
            ("/c,/b", &["/b"]),
        ] {
            let want: Vec<PathBuf> = want.iter().map(PathBuf::from).collect();
            assert_eq!(cordoned(&broker, list), want, "{list}");
        }
        assert!(broker.log_dirs.iter().all(|dir| !broker.is_cordoned(dir)));
    }

    #[test]
    fn a_path_that_is_no_log_directory_cannot_be_cordoned() {
        let unknown = "cordoned.log.dirs: all entries must be present in log.dirs or log.dir, and these are not";
        let broker = two();
        for (list, words) in [
            ("", None),
            ("*", None),
            ("/b,a", None),
            ("/home/a", None),
            ("/x,/b,b", Some(format!("{unknown}: /x, b"))),
            (
                "*,/b",
                Some(
                    "cordoned.log.dirs: must not contain other values when it is set to *"
                        .to_owned(),
                ),
            ),
        ] {
            let own = overrides(&[("cordoned.log.dirs", list)]);
            let cluster = Arc::default();
            let said = broker.check_change(&own, Level::Own { cluster: &cluster });
            assert_eq!(said.err().map(|error| error.to_string()), words, "{list}");
        }
        let said = |text: &str| {
            broker_on(MACHINE, text)
                .err()
                .map(|error| error.to_string())
        };
        assert_eq!(said("log.dirs=/a,/b\ncordoned.log.dirs=/b"), None);
        assert_eq!(
            said("log.dirs=/a,/b\ncordoned.log.dirs=/c"),
            Some(format!("{unknown}: /c"))
        );
    }

    #[test]
    fn other_settings_hold_though_a_cordoned_directory_was_taken_away() {
        let broker = broker("log.dirs=/a");
        let own = overrides(&[("cordoned.log.dirs", "/b"), ("max.connections", "7")]);
        let broker = broker.with_dynamic(Arc::default(), Arc::clone(&own));
        assert_eq!((broker.connections_max, broker.passed_over), (7, None));
    }
}
