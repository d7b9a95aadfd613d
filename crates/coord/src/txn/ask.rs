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

#[derive(Clone, Debug, PartialEq)]
pub enum Ask {
    Init {
        transactional_id: String,
        timeout_ms: i32,
        /// The identity that the producer believes to have (KIP-360).
        expected: Option<Producer>,
        /// An unused producer id, should one be needed; see [`super::Transactions::needs_producer_id`].
        fresh: Option<ProducerId>,
    },
    /// Puts partitions into the open transaction, or begins one.
    Add {
        transactional_id: String,
        producer: Producer,
        places: Vec<TxnPartition>,
        /// `transaction.version` that the client acts by.
        version: i16,
        /// While the last transaction is being completed the answer waits a little, before it asks the client to come again.
        may_wait: bool,
    },
    /// Are the partitions in the open transaction (KIP-890)?
    Verify {
        transactional_id: String,
        producer: Producer,
        places: Vec<TxnPartition>,
    },
    End {
        transactional_id: String,
        producer: Producer,
        committed: bool,
        version: i16,
        fresh: Option<ProducerId>,
    },
    /// The markers of [`Answer::Markers`] are written and committed everywhere.
    Marked {
        transactional_id: String,
        producer: Producer,
    },
    Describe {
        transactional_id: String,
    },
    /// All coordinators are asked with one filter.
    List(Arc<Filter>),
}

impl Ask {
    #[must_use]
    pub fn transactional_id(&self) -> Option<&str> {
        match self {
            Ask::Init {
                transactional_id, ..
            }
            | Ask::Add {
                transactional_id, ..
            }
            | Ask::Verify {
                transactional_id, ..
            }
            | Ask::End {
                transactional_id, ..
            }
            | Ask::Marked {
                transactional_id, ..
            }
            | Ask::Describe { transactional_id } => Some(transactional_id),
            Ask::List(_) => None,
        }
    }
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

#[derive(Clone, Debug, PartialEq)]
pub enum Answer {
    Init(Result<Producer, ErrorCode>),
    Add(Result<(), ErrorCode>),
    /// One for each place, in their order.
    Verify(Vec<Result<(), ErrorCode>>),
    /// With what the producer goes on.
    End(Result<Producer, ErrorCode>),
    Marked,
    Describe(Option<Described>),
    List(Vec<Described>),
    /// For the driver itself.
    Markers(Markers),
}
