//! How this node proves itself to others, and they to it: by the secret of their cluster.

use std::sync::Arc;

use env::Rng;
use model::BrokerId;
use security::login::node::{NodeClient, NodeProof};
use security::login::scram::NONCE_RANDOM_BYTES;

/// This node among the others of its cluster.
#[derive(Clone)]
pub(crate) struct Identity {
    node: BrokerId,
    /// `None` where the node has no cluster secret.
    proof: Option<Arc<NodeProof>>,
    /// Nodes are spoken to without proof where they take none.
    is_insecure: bool,
    rng: Arc<dyn Rng>,
}

/// A proof that a link is to give.
pub(super) struct Login {
    pub(super) proof: Arc<NodeProof>,
    pub(super) first: Vec<u8>,
    pub(super) client: NodeClient,
    /// The link goes on without where the other end takes no proof.
    pub(super) may_go_without: bool,
}

impl Identity {
    pub(crate) fn new(
        (node, is_insecure): (BrokerId, bool),
        proof: Option<Arc<NodeProof>>,
        rng: Arc<dyn Rng>,
    ) -> Identity {
        Identity {
            node,
            proof,
            is_insecure,
            rng,
        }
    }

    pub(crate) fn random(&self) -> [u8; NONCE_RANDOM_BYTES] {
        let mut random = [0; NONCE_RANDOM_BYTES];
        self.rng.fill(&mut random);
        random
    }

    /// The beginning of a link's proof; `None` where there is no secret.
    pub(super) fn login(&self) -> Option<Login> {
        let proof = Arc::clone(self.proof.as_ref()?);
        let (first, client) = proof.begin(self.node.0, &self.random());
        Some(Login {
            proof,
            first,
            client,
            may_go_without: self.is_insecure,
        })
    }
}
