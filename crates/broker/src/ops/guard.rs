//! The guard before topics: what may be done to one is asked before it is looked for, and nothing of it is reached but by the answer.
//!
//! An asker that names a hidden topic is told the same whether it exists or not. Ids are no secret, as in Kafka: one that nobody
//! has is told to be so, unasked.

use std::sync::Arc;

use partition::Partition;
use security::authorize::Operation;
use wire::{ErrorCode, Uuid};

use crate::asker::access::Resource;
use crate::asker::{Asker, Granted};
use crate::topics::{Absent, Topic, Topics};

/// A topic, or one partition of it, that somebody may do something to.
#[derive(Debug)]
pub(crate) struct Opened<'a, T> {
    operation: Operation,
    of: &'a Arc<T>,
}

impl<T> Clone for Opened<'_, T> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<T> Copy for Opened<'_, T> {}

/// Why a topic is not opened.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Closed {
    Unauthorised,
    UnknownName,
    UnknownId,
}

impl<'a, T> Opened<'a, T> {
    /// Stops where it was opened for something else. Nodes, which act for the cluster, may do everything with their replicas.
    pub(crate) fn get(self, operation: Operation) -> &'a Arc<T> {
        let is_for = |given| self.operation == given;
        let is_right = is_for(operation) || is_for(Operation::ClusterAction);
        assert!(is_right, "opened for {:?}", self.operation);
        self.of
    }
}

impl<'a> Opened<'a, Topic> {
    /// By id where the request carries one, by name otherwise.
    pub(crate) fn find(
        topics: &'a Topics,
        asker: &Asker,
        operation: Operation,
        (id, name): (Uuid, &str),
    ) -> Result<Opened<'a, Topic>, Closed> {
        let ask = |name| asker.grant(operation, Resource::topic(name));
        let unauthorised = |_| Closed::Unauthorised;
        if id == Uuid::ZERO {
            let granted = ask(name).map_err(unauthorised)?;
            return Opened::named(topics, granted, operation).ok_or(Closed::UnknownName);
        }
        let of = topics.with_id(id).ok_or(Closed::UnknownId)?;
        let granted = ask(&of.name).map_err(unauthorised)?;
        granted.topic(operation);
        Ok(Opened { operation, of })
    }

    /// The topic that the leave was given for; none where there is no such topic.
    pub(crate) fn named(
        topics: &'a Topics,
        granted: Granted<'_>,
        operation: Operation,
    ) -> Option<Opened<'a, Topic>> {
        let of = topics.named(granted.topic(operation))?;
        Some(Opened { operation, of })
    }

    /// For a node, which was asked about once, whatever the topic.
    pub(crate) fn for_node(granted: Granted<'_>, of: &'a Arc<Topic>) -> Opened<'a, Topic> {
        let operation = Operation::ClusterAction;
        granted.cluster(operation);
        Opened { operation, of }
    }

    pub(crate) fn name(self) -> &'a Arc<str> {
        &self.of.name
    }

    pub(crate) fn partition(self, index: i32) -> Result<Opened<'a, Partition>, Absent> {
        let of = self.of.partition(index)?;
        let operation = self.operation;
        Ok(Opened { operation, of })
    }
}

/// The leave for one part of an operation.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Leave(());

impl From<Granted<'_>> for Leave {
    fn from(_: Granted<'_>) -> Leave {
        Leave(())
    }
}

impl Leave {
    /// For a part that is refused whoever asks, and may be told so.
    pub(crate) const UNASKED: Leave = Leave(());
}

/// Parts of an operation that were each asked about.
#[derive(Debug)]
pub(crate) struct Allowed<T>(Vec<T>);

impl<T> Allowed<T> {
    /// Those that the asker may do this to, and those that it may not, in their order.
    pub(crate) fn divide(
        all: impl IntoIterator<Item = T>,
        ask: impl Fn(&T) -> Result<Leave, ErrorCode>,
    ) -> (Allowed<T>, Vec<T>) {
        let (allowed, denied) = all.into_iter().partition(|one| ask(one).is_ok());
        (Allowed(allowed), denied)
    }

    /// The same without those that `keep` says no to.
    pub(crate) fn filter(mut self, keep: impl Fn(&T) -> bool) -> Allowed<T> {
        self.0.retain(keep);
        self
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub(crate) fn into_inner(self) -> Vec<T> {
        self.0
    }
}
