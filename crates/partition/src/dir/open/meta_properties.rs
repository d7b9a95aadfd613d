//! The owner of a log directory: cluster, node and an id of its own, in the file that Kafka's tools read as well.
//!
//! Written durably, before anything else; refused when it cannot be read, never created again beside existing data. A voter of a new
//! cluster begins without the id of the cluster, which is added once it is agreed on and never changes.

use std::io;
use std::path::Path;

use env::Env;
use env::disk::Open;
use log::Syncing;
use log::epochs::replace_file;
use wire::Uuid;

pub(super) const IDENTITY_NAME: &str = "meta.properties";

/// The owner of the directory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Identity {
    /// `None`: the node is of no cluster yet.
    pub cluster_id: Option<String>,
    pub node_id: i32,
}

/// The file that Kafka's own tools read as well: `meta.properties`, version 1.
pub(super) fn read(env: &Env, path: &Path) -> io::Result<Option<(Uuid, Identity)>> {
    let path = path.join(IDENTITY_NAME);
    if !env.disk.exists(&path)? {
        return Ok(None);
    }
    let file = env.disk.open(&path, Open::Read)?;
    // A page is more than such a file can need.
    let mut bytes = vec![0; usize::try_from(file.len()?).unwrap_or(usize::MAX).min(4096)];
    file.read_exact_at(&mut bytes, 0)?;
    let text = String::from_utf8_lossy(&bytes);
    let field = |name: &str| {
        text.lines()
            .find_map(|line| line.strip_prefix(name)?.strip_prefix('='))
            .map(str::trim)
    };
    let id = field("directory.id").and_then(|id| id.parse().ok());
    let node_id = field("node.id").and_then(|id| id.parse().ok());
    let cluster_id = field("cluster.id").filter(|id| !id.is_empty());
    match (id, node_id) {
        (Some(id), Some(node_id)) => Ok(Some((
            id,
            Identity {
                cluster_id: cluster_id.map(str::to_owned),
                node_id,
            },
        ))),
        _ => Err(io::Error::new(
            io::ErrorKind::InvalidData,
            format!("{} lacks directory.id or node.id", path.display()),
        )),
    }
}

/// The owner of a directory, if it has been used. Reads only.
pub fn identity(env: &Env, path: &Path) -> io::Result<Option<Identity>> {
    Ok(read(env, path)?.map(|(_, identity)| identity))
}

/// Adds the id of the cluster to a directory that is of none yet. A directory of another cluster stays as it is, and is an error.
pub fn name_cluster(env: &Env, path: &Path, cluster_id: &str) -> io::Result<()> {
    let Some((id, mut identity)) = read(env, path)? else {
        return Err(io::ErrorKind::NotFound.into());
    };
    match &identity.cluster_id {
        Some(known) if known == cluster_id => Ok(()),
        Some(known) => Err(io::Error::new(
            io::ErrorKind::AlreadyExists,
            format!(
                "{} is of cluster {known}",
                path.join(IDENTITY_NAME).display()
            ),
        )),
        None => {
            identity.cluster_id = Some(cluster_id.to_owned());
            write(env, path, id, &identity)
        }
    }
}

pub(super) fn write(env: &Env, path: &Path, id: Uuid, identity: &Identity) -> io::Result<()> {
    let cluster = identity.cluster_id.as_ref();
    let cluster = cluster.map_or(String::new(), |id| format!("cluster.id={id}\n"));
    let text = format!(
        "version=1\n{cluster}node.id={}\ndirectory.id={id}\n",
        identity.node_id
    );
    replace_file(
        &*env.disk,
        path,
        IDENTITY_NAME,
        text.as_bytes(),
        Syncing::Now,
    )
}
