//! The questions to the transactions, free of protocol versions, and their answers.

use std::collections::BTreeSet;
use std::sync::Arc;

use model::{ProducerEpoch, ProducerId, Timestamp};
use wire::ErrorCode;

use super::TxnState;
use crate::Pattern;

/// Topic and partition number.
pub type TxnPartition = (String, i32);

/// An incarnation of a producer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Producer {
    pub id: ProducerId,
    pub epoch: ProducerEpoch,
}

/// Wants an identity.
#[derive(Clone, Debug, PartialEq)]
pub struct Init {
    pub transactional_id: String,
    pub timeout_ms: i32,
    /// The identity that the producer believes to have (KIP-360).
    pub expected: Option<Producer>,
    /// An unused producer id, should one be needed; see [`super::Transactions::needs_producer_id`].
    pub fresh: Option<ProducerId>,
}

/// Puts partitions into the open transaction, or begins one.
#[derive(Clone, Debug, PartialEq)]
pub struct Add {
    pub transactional_id: String,
    pub producer: Producer,
    pub places: Vec<TxnPartition>,
    /// `transaction.version` that the client acts by.
    pub version: i16,
    /// While the last transaction is being completed the answer waits a little, before it asks the client to come again.
    pub may_wait: bool,
}

/// Are the partitions in the open transaction (KIP-890)?
#[derive(Clone, Debug, PartialEq)]
pub struct Verify {
    pub transactional_id: String,
    pub producer: Producer,
    pub places: Vec<TxnPartition>,
}

#[derive(Clone, Debug, PartialEq)]
pub struct End {
    pub transactional_id: String,
    pub producer: Producer,
    pub committed: bool,
    pub version: i16,
    /// For the successor of an id that has no epoch left.
    pub fresh: Option<ProducerId>,
}

/// The [`Markers`] of the transaction are written and committed everywhere.
#[derive(Clone, Debug, PartialEq)]
pub struct Marked {
    pub transactional_id: String,
    pub producer: Producer,
}

#[derive(Clone, Debug, PartialEq)]
pub struct Describe {
    pub transactional_id: String,
}

/// All coordinators are asked with one filter.
#[derive(Clone, Debug, PartialEq)]
pub struct List {
    pub filter: Arc<Filter>,
}

questions! {
    Init -> Result<Producer, ErrorCode>;
    Add -> Result<(), ErrorCode>;
    /// One for each place, in their order.
    Verify -> Vec<Result<(), ErrorCode>>;
    /// With what the producer goes on.
    End -> Result<Producer, ErrorCode>;
    Marked -> ();
    Describe -> Option<Described>;
    List -> Vec<Described>;
}

/// Which transactions to list; what is empty lets everything pass. A state stands there once.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Filter {
    pub states: Vec<TxnState>,
    pub producer_ids: BTreeSet<ProducerId>,
    /// Open for longer than this.
    pub duration_ms: Option<i64>,
    /// Of the transactional id.
    pub pattern: Option<Pattern>,
}

/// Markers to write, once what was decided before is durable. Asked again with every start until [`Ask::Marked`].
#[derive(Clone, Debug, PartialEq)]
pub struct Markers {
    pub transactional_id: String,
    pub producer: Producer,
    pub committed: bool,
    pub places: Vec<TxnPartition>,
    pub version: i16,
}

#[derive(Clone, Debug, PartialEq)]
pub struct Described {
    pub transactional_id: String,
    pub state: TxnState,
    pub producer: Producer,
    pub timeout_ms: i32,
    pub start: Timestamp,
    pub places: Vec<TxnPartition>,
}
