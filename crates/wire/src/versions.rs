//! The consequences of the facts of an API: header versions, ranges, listeners.

use crate::{ApiKey, DecodeError};
use std::fmt;

/// Which kind of node answers an API.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Listener {
    Broker,
    Controller,
}

pub(crate) struct Api {
    pub(crate) name: &'static str,
    pub(crate) min_version: i16,
    pub(crate) max_version: i16,
    pub(crate) request_flexible_from: i16,
    pub(crate) response_flexible_from: i16,
    pub(crate) latest_version_unstable: bool,
    pub(crate) listeners: &'static [Listener],
}

impl ApiKey {
    pub const fn key(self) -> i16 {
        self as i16
    }

    pub const fn name(self) -> &'static str {
        self.facts().name
    }

    pub const fn min_version(self) -> i16 {
        self.facts().min_version
    }

    /// The last version this crate can read and write, stable or not.
    pub const fn max_version(self) -> i16 {
        self.facts().max_version
    }

    /// The last version a node may advertise unless it was told to offer unfinished ones.
    pub const fn max_version_stable(self) -> i16 {
        self.facts().max_version - self.facts().latest_version_unstable as i16
    }

    pub const fn latest_version_unstable(self) -> bool {
        self.facts().latest_version_unstable
    }

    /// First version with compact lengths and tagged fields; `i16::MAX` when there is none.
    pub const fn flexible_from(self) -> i16 {
        self.facts().request_flexible_from
    }

    pub fn supports(self, version: i16) -> bool {
        self.min_version() <= version && version <= self.max_version()
    }

    pub const fn listeners(self) -> &'static [Listener] {
        self.facts().listeners
    }

    pub fn is_on(self, listener: Listener) -> bool {
        self.listeners().contains(&listener)
    }

    pub const fn request_header_version(self, version: i16) -> i16 {
        if version >= self.facts().request_flexible_from {
            2
        } else {
            1
        }
    }

    /// A client that asks for the versions cannot know yet whether the node writes flexible headers, so that answer
    /// never has one.
    pub const fn response_header_version(self, version: i16) -> i16 {
        if version >= self.facts().response_flexible_from && !matches!(self, ApiKey::ApiVersions) {
            1
        } else {
            0
        }
    }
}

impl TryFrom<i16> for ApiKey {
    type Error = DecodeError;

    fn try_from(key: i16) -> Result<Self, DecodeError> {
        Self::from_key(key).ok_or(DecodeError::ApiKey { key })
    }
}

impl fmt::Display for ApiKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}
