//! Which software the open connections are of, as clients name it in ApiVersions.

use std::collections::BTreeMap;

/// Names come from clients: past so many kinds the rest is one.
const KINDS_MAX: usize = 100;

#[derive(Debug, Default)]
pub(crate) struct Software {
    by_kind: BTreeMap<(String, String), usize>,
    others: usize,
}

impl Software {
    pub(crate) fn add(&mut self, kind: &(String, String)) {
        if let Some(count) = self.by_kind.get_mut(kind) {
            *count += 1;
        } else if self.by_kind.len() < KINDS_MAX {
            self.by_kind.insert(kind.clone(), 1);
        } else {
            self.others += 1;
        }
    }

    pub(crate) fn remove(&mut self, kind: &(String, String)) {
        match self.by_kind.get_mut(kind) {
            Some(1) => drop(self.by_kind.remove(kind)),
            Some(count) => *count -= 1,
            // It came while there was no room for its kind.
            None => self.others = self.others.saturating_sub(1),
        }
    }

    /// Name, version and count of each kind.
    pub(crate) fn all(&self) -> Vec<(String, String, usize)> {
        let kinds = self.by_kind.iter();
        let kinds = kinds.map(|((name, version), count)| (name.clone(), version.clone(), *count));
        let others = (0 < self.others).then(|| ("other".to_owned(), String::new(), self.others));
        kinds.chain(others).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kinds_are_bounded_and_go_with_their_connections() {
        let mut software = Software::default();
        let kind = |number: usize| (format!("client{number}"), "1".to_owned());
        let numbers = || (0..KINDS_MAX + 5).chain([0]);
        numbers().for_each(|number| software.add(&kind(number)));
        assert_eq!(software.all().len(), KINDS_MAX + 1);
        assert_eq!(software.all()[0], ("client0".into(), "1".into(), 2));
        numbers().for_each(|number| software.remove(&kind(number)));
        assert_eq!(software.all(), []);
    }
}
