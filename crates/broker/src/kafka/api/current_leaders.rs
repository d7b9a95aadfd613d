//! Leaders that an answer names to a client that asked another broker for a partition, so that the client need not ask for the
//! metadata first (KIP-951).

use std::collections::BTreeSet;
use std::sync::Arc;

use model::BrokerId;
use wire::{ErrorCode, Uuid};

use crate::kafka::call::Call;
use crate::ops::view::View;
use crate::topics::{Leader, Topics};

/// The leaders that one answer names.
pub(super) struct CurrentLeaders {
    me: BrokerId,
    topics: Arc<Topics>,
    brokers: BTreeSet<BrokerId>,
}

/// A broker as its clients reach it.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Node {
    pub(super) id: i32,
    pub(super) host: String,
    pub(super) port: i32,
    pub(super) rack: Option<String>,
}

/// A topic as an answer names it: by id, or by name where the id is zero.
pub(super) type Named<'a> = (Uuid, &'a str);

impl CurrentLeaders {
    pub(super) fn new(call: &mut Call<'_>) -> CurrentLeaders {
        CurrentLeaders {
            me: call.desk.shared.catalog.config().broker.node_id,
            topics: call.desk.topics(),
            brokers: BTreeSet::new(),
        }
    }

    /// True for codes that say that another broker, or a later epoch of its, is to be asked.
    pub(super) fn are_wanted(code: i16) -> bool {
        code == ErrorCode::NotLeaderOrFollower.code() || code == ErrorCode::FencedLeaderEpoch.code()
    }

    /// The leader of a partition that was refused with `code`, and its epoch; -1 as the leader where there is none. None where
    /// this broker leads and refuses for another reason: the client is not sent back here.
    pub(super) fn name(
        &mut self,
        (id, name): Named<'_>,
        index: i32,
        code: i16,
    ) -> Option<(i32, i32)> {
        let Leader { broker, epoch } = self.topics.find(id, name)?.leader(index)?;
        if broker == Some(self.me) && code == ErrorCode::NotLeaderOrFollower.code() {
            return None;
        }
        self.brokers.extend(broker);
        Some((broker.unwrap_or(meta::NO_LEADER).0, epoch.0))
    }

    /// Where the brokers that were named are reached.
    pub(super) fn nodes(&self, view: &View<'_>) -> Vec<Node> {
        let known = self.brokers.iter().filter_map(|id| view.image.broker(*id));
        known
            .filter_map(|broker| {
                let endpoint = view.endpoint(broker)?;
                Some(Node {
                    id: broker.id.0,
                    host: endpoint.host,
                    port: i32::from(endpoint.port),
                    rack: broker.rack.clone(),
                })
            })
            .collect()
    }
}

#[cfg(test)]
mod tests;
