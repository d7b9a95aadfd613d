//! The lock that keeps other processes out of a log directory, and the way to the directory itself.

use std::io;
use std::path::Path;

use env::Env;
use env::disk::Lock;

use super::error::OpenError;

pub(super) const LOCK_NAME: &str = ".lock";

/// Holds the directory against every other process.
pub(super) fn lock(env: &Env, path: &Path) -> Result<Box<dyn Lock>, OpenError> {
    let file = path.join(LOCK_NAME);
    let held = env.disk.lock(&file);
    held.map_err(|error| match error.kind() {
        io::ErrorKind::WouldBlock => OpenError::Locked {
            holder: error.to_string(),
            path: path.to_path_buf(),
        },
        _ => OpenError::Io { path: file, error },
    })
}

/// Makes the whole way to `path` durable. At every start: an earlier one may have been killed between creating and syncing.
pub(super) fn sync_path(env: &Env, path: &Path) -> io::Result<()> {
    for dir in path.ancestors() {
        let dir = if dir.as_os_str().is_empty() {
            Path::new(".")
        } else {
            dir
        };
        match env.disk.sync_dir(dir) {
            // Where we may not look we have not created anything either.
            Err(error) if error.kind() == io::ErrorKind::PermissionDenied => {}
            Err(error) => {
                let what = format!(
                    "cannot sync the directory {}: {error}; without that nothing in it would survive a power cut",
                    dir.display()
                );
                return Err(io::Error::new(error.kind(), what));
            }
            Ok(()) => {}
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use env::sim::{Faults, Machine};

    use super::*;

    #[test]
    fn a_directory_that_cannot_be_synced_is_named_with_what_was_tried() {
        let machine = Machine::new(1, Faults::default());
        let error = sync_path(&machine.env(), Path::new("/nowhere/data")).unwrap_err();
        let said = error.to_string();
        assert!(
            said.starts_with("cannot sync the directory /nowhere/data: "),
            "{said}"
        );
        assert!(said.contains("would survive a power cut"), "{said}");
    }
}
