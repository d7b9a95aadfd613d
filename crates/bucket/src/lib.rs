//! Object stores as a broker reaches them.
//!
//! Owns what a store's address means, and the directory that stands for a store: on a disk of this machine, or on one that several machines
//! mount.

#![forbid(unsafe_code)]

mod directory;

use std::path::{Path, PathBuf};
use std::sync::Arc;

use env::Env;
use env::bucket::Bucket;

use directory::Directory;

/// Where a store is, as `esker.tier.store` says it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Address {
    Directory(PathBuf),
}

#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum AddressError {
    #[error("a store is an address such as file:///mnt/archive, not {0:?}")]
    NoScheme(String),
    #[error("stores of the kind {0:?} are not there yet: file:///mnt/archive is a directory")]
    Unknown(String),
    #[error("the directory of a store is an absolute path, as in file:///mnt/archive, not {0:?}")]
    Relative(String),
}

impl std::str::FromStr for Address {
    type Err = AddressError;

    fn from_str(text: &str) -> Result<Address, AddressError> {
        let (scheme, rest) = text
            .split_once("://")
            .ok_or_else(|| AddressError::NoScheme(text.to_owned()))?;
        match scheme {
            "file" if Path::new(rest).is_absolute() => Ok(Address::Directory(PathBuf::from(rest))),
            "file" => Err(AddressError::Relative(rest.to_owned())),
            other => Err(AddressError::Unknown(other.to_owned())),
        }
    }
}

impl Address {
    /// The store, for one worker. Nothing is asked of it yet.
    #[must_use]
    pub fn open(&self, env: &Env) -> Arc<dyn Bucket> {
        match self {
            Address::Directory(root) => Arc::new(Directory::open(env, root)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_say_what_is_wrong_with_them() {
        let archive = Address::Directory(PathBuf::from("/mnt/archive"));
        assert_eq!("file:///mnt/archive".parse(), Ok(archive));
        for (text, word) in [
            ("/mnt/archive", "file:///mnt"),
            ("file://mnt/archive", "absolute"),
            ("s3://b/p", "\"s3\""),
        ] {
            let error = text.parse::<Address>().expect_err(text).to_string();
            assert!(error.contains(word), "{error}");
        }
    }
}
