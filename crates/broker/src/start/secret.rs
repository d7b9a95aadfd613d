//! The secret of the cluster at a start: read, or made where a cluster begins.

use std::io;
use std::path::{Path, PathBuf};

use env::disk::Open;
use env::{Disk, Env};
use security::login::node::{ClusterSecret, SECRET_BYTES_MIN};
use zeroize::Zeroizing;

use super::error::StartError;
use crate::control::vote_file;

/// The file of a node to which none is named, in the first of its directories.
const FILE: &str = "cluster.secret";
/// A longer file is none of ours.
const BYTES_MAX: u64 = 4096;

/// The secret of a node, as its files have it at a start.
pub(super) enum Found {
    Known(ClusterSecret),
    /// The cluster begins with this node, alone or as the first of its voters.
    Missing {
        is_alone: bool,
    },
    /// The node does without for now.
    None,
}

/// Looks for the secret that the settings name, or that lies in a directory of the node. Writes nothing, since the start may be refused.
pub(super) fn find(env: &Env, broker: &config::Broker) -> Result<Found, StartError> {
    let quorum = &broker.quorum;
    if let Some(path) = &quorum.secret_file {
        return read(&*env.disk, path).map(Found::Known);
    }
    // In whichever directory it lies: their order is of no account, and one that cannot be looked at is found out later.
    let has_file = |dir: &&PathBuf| env.disk.exists(&dir.join(FILE)).unwrap_or(false);
    if let Some(dir) = broker.log_dirs.iter().find(has_file) {
        return read(&*env.disk, &dir.join(FILE)).map(Found::Known);
    }
    let is_alone = quorum.is_alone(broker.node_id);
    let first = quorum.voters.iter().map(|voter| voter.id).min();
    if is_alone || first == Some(broker.node_id) {
        return Ok(Found::Missing { is_alone });
    }
    match quorum.is_insecure {
        true => Ok(Found::None),
        false => Err(StartError::NoSecret {
            node: broker.node_id.0,
        }),
    }
}

impl Found {
    /// The secret, made in `dirs` where it is missing.
    pub(super) fn or_make(
        self,
        env: &Env,
        dirs: &[PathBuf],
    ) -> Result<Option<ClusterSecret>, StartError> {
        match self {
            Found::Known(secret) => Ok(Some(secret)),
            Found::None => Ok(None),
            // It has nobody to prove itself to, and makes one when it can.
            Found::Missing { is_alone: true } => Ok(make(env, dirs).ok()),
            Found::Missing { is_alone: false } => make(env, dirs).map(Some),
        }
    }
}

fn read(disk: &dyn Disk, path: &Path) -> Result<ClusterSecret, StartError> {
    let unfit = |why: String| StartError::Secret {
        path: path.to_owned(),
        why,
    };
    let at = |error: io::Error| unreadable(path, &error);
    let file = disk.open(path, Open::Read).map_err(at)?;
    if !disk.is_private(path).map_err(at)? {
        return Err(unfit(format!(
            "others than its owner may read it: chmod 600 {}",
            path.display()
        )));
    }
    let len = file.len().map_err(at)?;
    if BYTES_MAX < len {
        return Err(unfit(format!("{len} bytes are more than a secret has")));
    }
    let mut bytes = Zeroizing::new(vec![0; usize::try_from(len).unwrap_or_default()]);
    file.read_exact_at(&mut bytes, 0).map_err(at)?;
    let text = str::from_utf8(&bytes).map_err(|_| unfit("it is not text".to_owned()))?;
    ClusterSecret::parse(text).map_err(|why| unfit(why.to_string()))
}

fn unreadable(path: &Path, error: &io::Error) -> StartError {
    StartError::Secret {
        path: path.to_owned(),
        why: format!("it cannot be read: {error}"),
    }
}

/// Makes a secret in the first directory that takes it.
fn make(env: &Env, dirs: &[PathBuf]) -> Result<ClusterSecret, StartError> {
    let mut random = Zeroizing::new([0; SECRET_BYTES_MIN]);
    env.rng.fill(&mut *random);
    let secret = ClusterSecret::generate(&random);
    let line = Zeroizing::new(format!("{}\n", *secret.text()));
    let mut refused = None;
    for dir in dirs {
        let written = vote_file::write(&*env.disk, dir, FILE, line.as_bytes());
        let path = dir.join(FILE);
        match written {
            Ok(()) => {
                tracing::info!(
                    target: env::logs::BROKER,
                    "{} has the secret of this cluster: a node that joins it is given a copy (--cluster-secret FILE)",
                    path.display(),
                );
                return Ok(secret);
            }
            Err(error) => {
                let why = format!("it cannot be written: {error}");
                refused.get_or_insert(StartError::Secret { path, why });
            }
        }
    }
    Err(refused.unwrap_or(StartError::Secret {
        path: FILE.into(),
        why: "there is no directory for it".to_owned(),
    }))
}
