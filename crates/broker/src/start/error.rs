//! The reasons for which a node does not start, in sentences that say what to do.

use std::io;
use std::path::PathBuf;

use partition::OpenError;
use wire::ErrorCode;

use crate::control::Unfit;
use crate::control::boot::BootError;

#[derive(Debug, thiserror::Error)]
pub enum StartError {
    #[error(transparent)]
    Open(#[from] OpenError),
    #[error("cannot listen on {address}: {error}")]
    Listen { address: String, error: io::Error },
    #[error("{path} belongs to cluster {found}, the first directory to {own}")]
    Cluster {
        path: String,
        found: String,
        own: String,
    },
    #[error(
        "{path} belongs to a cluster whose metadata {found} keep together, and the settings name {named}: set controller.quorum.voters to all \
         of them, as on the other nodes, or start with another directory"
    )]
    Voters {
        path: String,
        found: String,
        named: String,
    },
    #[error(
        "{path} belongs to node {found}, node.id is {own}: start with --node-id {found}, or with another directory"
    )]
    Node { path: String, found: i32, own: i32 },
    #[error("metadata.log.dir {path} is none of log.dirs: name one of them, or leave it out")]
    NoSuchMetadataDir { path: String },
    #[error(
        "the metadata log is in {found}, and metadata.log.dir is {own}: set it to {found}, or leave it out"
    )]
    MetadataElsewhere { found: String, own: String },
    #[error(
        "{first} and {second} have a metadata log each: log.dirs names directories of two brokers"
    )]
    TwoMetadataLogs { first: String, second: String },
    #[error(
        "{path} was used, and no directory of log.dirs has the metadata log that says what is in it: name all directories that this \
         broker had"
    )]
    NoMetadata { path: String },
    #[error("metadata log: {0}")]
    Metadata(#[from] Unfit),
    #[error(transparent)]
    Boot(#[from] BootError),
    #[error("the cluster secret {}: {why}", .path.display())]
    Secret { path: PathBuf, why: String },
    #[error(
        "node {node} has no cluster secret, by which the nodes of a cluster prove themselves to each other: give it a copy of cluster.secret of the first \
         node (`esker serve --cluster-secret FILE`), or start all with esker.cluster.insecure=true while they are changed over"
    )]
    NoSecret { node: i32 },
    #[error("cannot write the vote of this node to {}, which must keep it", .0.display())]
    Vote(PathBuf),
    #[error("cannot write the metadata log: {0:?}")]
    Write(ErrorCode),
}
