//! A partition of the log: who may append, what is committed, where a read finds its bytes.
//!
//! Sits between the doors of the broker and the files of the log. News of commits travel upwards as values; nothing here knows
//! of sockets or protocol versions.

pub mod append;
mod buffer;
mod cut;
mod cuts;
mod derived;
pub mod dir;
mod file_read;
mod follow;
pub mod isolation;
mod leave;
mod life;
pub mod need;
pub mod news;
pub mod partition;
pub mod plan;
mod progress;
pub mod read;
mod search;
mod sync;
mod traffic;
mod verification;
mod waiting;

pub use append::{Acks, AppendError, Appended, Marker, Moment, TrimError};
pub use buffer::{Placed, ReceiveBuffer};
pub use cut::{CutError, CutOff, Restart, Synced};
pub use dir::{
    Announce, Begun, Cleaner, CleanerSettings, Cleaning, Commit, Damage, DamageStage, DirSettings,
    Durable, EverNamed, Extent, Flight, Found, Identity, InMemory, Key, LogDir, MetadataLog, Move,
    MoveError, MoveStep, Moved, NeverDurable, OpenError, Opened, PieceMaker, Push, Reached,
    Recovery, Residents, Restored, SegmentWriter, Slot, Stamp, Syncer, Wait, accept_loss,
    check_ownership, identity, name_cluster, unnamed_loss,
};
pub use follow::{Asked, FollowError, FollowPoint, Followed};
pub use isolation::{Isolation, Scope};
pub use life::Life;
pub use need::{Need, Piece, Progress, Range, WarmUp};
pub use news::News;
pub use partition::{Bounds, Hole, Partition, Start};
pub use plan::Plan;
pub use progress::{FollowerAt, FollowerLag, IsrWish, Laggards, Replicas, Role};
pub use read::{Read, ReadError, ReadRequest, Records};
pub use search::SearchTime;
pub use traffic::TrafficBytes;
pub use verification::{Guard, Warrant};
pub use waiting::NeverCommitted;
