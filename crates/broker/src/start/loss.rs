//! An operator's word that what is lost in a directory of a stopped broker is lost.

use std::path::Path;

use env::Env;
use partition::OpenError;

use crate::control;

/// Gives up what nothing names any more in a directory of a stopped broker, so that it opens. Its broker claims no clean stop then.
pub fn accept_loss(env: &Env, path: &Path) -> Result<Vec<log::journal::Damage>, OpenError> {
    let found = partition::accept_loss(env, path)?;
    if !found.is_empty() {
        control::broker_epoch_file::forget(&*env.disk, path).map_err(|error| OpenError::Io {
            path: path.to_owned(),
            error,
        })?;
    }
    Ok(found)
}
