//! Version ranges as the message definitions write them: `3`, `0-4`, `2+`, `none`.
//!
//! Owns the arithmetic of ranges and the Rust condition that tests for one inside another.

/// A closed range of versions; empty when `low > high`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Versions {
    pub(super) low: i16,
    pub(super) high: i16,
}

/// When a part of a message is on the wire, given the versions its parent can have.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum When {
    Always,
    Never,
    If(String),
}

impl When {
    /// The condition as a boolean expression.
    pub(super) fn expr(&self) -> String {
        match self {
            When::Always => "true".to_owned(),
            When::Never => "false".to_owned(),
            When::If(condition) => condition.clone(),
        }
    }
}

impl Versions {
    pub(super) const NONE: Versions = Versions { low: 0, high: -1 };

    pub(super) fn parse(text: &str) -> Result<Self, String> {
        let number = |part: &str| {
            part.parse::<i16>()
                .map_err(|_| format!("bad version range `{text}`"))
        };
        if text == "none" {
            return Ok(Self::NONE);
        }
        if let Some(low) = text.strip_suffix('+') {
            return Ok(Self {
                low: number(low)?,
                high: i16::MAX,
            });
        }
        match text.split_once('-') {
            Some((low, high)) => Ok(Self {
                low: number(low)?,
                high: number(high)?,
            }),
            None => number(text).map(|only| Self {
                low: only,
                high: only,
            }),
        }
    }

    pub(super) fn is_empty(self) -> bool {
        self.low > self.high
    }

    pub(super) fn contains(self, version: i16) -> bool {
        self.low <= version && version <= self.high
    }

    pub(super) fn and(self, other: Self) -> Self {
        let both = Self {
            low: self.low.max(other.low),
            high: self.high.min(other.high),
        };
        if both.is_empty() { Self::NONE } else { both }
    }

    /// The test for "the version is in `self`" when it is already known to be in `possible`.
    pub(super) fn within(self, possible: Self) -> When {
        let both = self.and(possible);
        if both.is_empty() {
            return When::Never;
        }
        match (possible.low < both.low, both.high < possible.high) {
            (false, false) => When::Always,
            (true, false) => When::If(format!("version >= {}", both.low)),
            (false, true) => When::If(format!("version <= {}", both.high)),
            (true, true) if both.low == both.high => When::If(format!("version == {}", both.low)),
            (true, true) => When::If(format!("({}..={}).contains(&version)", both.low, both.high)),
        }
    }

    /// The test for "the version is not in `self`"; nothing when it always is.
    pub(super) fn outside(self, possible: Self) -> Option<String> {
        let both = self.and(possible);
        if both.is_empty() {
            return Some("true".to_owned());
        }
        match (possible.low < both.low, both.high < possible.high) {
            (false, false) => None,
            (true, false) => Some(format!("version < {}", both.low)),
            (false, true) => Some(format!("version > {}", both.high)),
            (true, true) => Some(format!(
                "!({}..={}).contains(&version)",
                both.low, both.high
            )),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn conditions_say_no_more_than_needed() {
        let check = |range: &str, possible: &str, want: &str| {
            let range = Versions::parse(range).expect("range");
            assert_eq!(
                range
                    .within(Versions::parse(possible).expect("possible"))
                    .expr(),
                want
            );
        };
        check("0+", "3-13", "true");
        check("9+", "3-13", "version >= 9");
        check("0-12", "3-13", "version <= 12");
        check("5-7", "3-13", "(5..=7).contains(&version)");
        check("5", "3-13", "version == 5");
        check("0-2", "3-13", "false");
        check("none", "3-13", "false");
    }
}
