//! The origin of the batches of a request.

use partition::{ReceiveBuffer, Stamp};

/// Where the batches came from: the connection's share of the linger, and the buffer that they lie in.
pub(crate) struct Origin<'a> {
    pub(crate) stamp: &'a mut Stamp,
    /// The buffer that the batches lie in; none where nobody knows it any more.
    pub(crate) source: Option<&'a mut ReceiveBuffer>,
}
