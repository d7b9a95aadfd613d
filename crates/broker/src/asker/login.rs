//! A login that is under way on a connection.

use security::login::node::NodeServer;

/// How far another node is in proving itself.
pub(crate) enum Login {
    /// It has named the mechanism.
    Named,
    /// It was asked for its proof.
    Asked(NodeServer),
}
