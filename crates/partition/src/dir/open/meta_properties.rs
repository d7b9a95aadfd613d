//! The owner of a log directory: cluster, node and an id of its own, in the file that Kafka's tools read as well.
//!
//! Written once, durably, before anything else; refused when it cannot be read, never made anew beside existing data.

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
    pub cluster_id: String,
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
    match (id, node_id, field("cluster.id")) {
        (Some(id), Some(node_id), Some(cluster_id)) => Ok(Some((
            id,
            Identity {
                cluster_id: cluster_id.to_owned(),
                node_id,
            },
        ))),
        _ => Err(io::Error::new(
            io::ErrorKind::InvalidData,
            format!(
                "{} lacks directory.id, node.id or cluster.id",
                path.display()
            ),
        )),
    }
}

pub(super) fn write(env: &Env, path: &Path, id: Uuid, identity: &Identity) -> io::Result<()> {
    let text = format!(
        "version=1\ncluster.id={}\nnode.id={}\ndirectory.id={id}\n",
        identity.cluster_id, identity.node_id
    );
    replace_file(
        &*env.disk,
        path,
        IDENTITY_NAME,
        text.as_bytes(),
        Syncing::Now,
    )
}
