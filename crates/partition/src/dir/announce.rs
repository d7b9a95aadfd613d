//! The way up for news of the loops of a log directory, which no shard waits for in a call.

use crate::news::News;

/// Where news go that no shard's own commit produced.
pub trait Announce: Send + Sync {
    fn announce(&self, news: Vec<News>);
}
