//! The view that a log directory has of the logs whose entries it makes durable.
//!
//! A partition is one such log; whatever else wants the journal and its syncs implements the same trait. A directory holds none of
//! them alive: a log that is gone needs no news.

use std::sync::Arc;

use model::{Offset, PartitionIndex};
use wire::Uuid;

use crate::life::Life;
use crate::news::News;

/// Names a log in the journal: topic and partition.
pub type Key = (Uuid, PartitionIndex);

/// How far a durable round takes one of its logs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Reached {
    /// Everything below is durable.
    pub up_to: Offset,
    /// The oldest trim that was queued and not durable is durable too.
    pub has_trim: bool,
    /// Bytes of memory that the log's batches of the round hold.
    pub held: usize,
    /// Life of the log in which the last of its entries was queued.
    pub life: Life,
}

/// The append will not become durable in this process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NeverDurable;

/// A log whose entries become durable in rounds.
pub trait Durable: Send + Sync + 'static {
    /// A round that has entries of this log is durable, and so are all before it; or the directory failed. `news` takes along
    /// what becomes of those who wait.
    fn on_durable(self: Arc<Self>, reached: Result<Reached, NeverDurable>, news: &mut Vec<News>);
}
