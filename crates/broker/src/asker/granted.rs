//! The leave to do one thing to one resource: the only way into an operation.
//!
//! Made by [`Asker::grant`] alone, so that an operation that forgot to ask does not compile. It names what it was given for: those who
//! open a door with it take the name of the resource from it, and stop where it is for something else.

use wire::ErrorCode;

use super::Asker;
use super::access::Resource;
use security::authorize::{Kind, Operation};

/// Given for this operation on this resource, at the moment of the question: it borrows the name, and is not kept by what waits.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Granted<'a> {
    operation: Operation,
    resource: Resource<'a>,
}

/// The name of "any resource of the kind".
const ANY: &str = "*";

impl<'a> Granted<'a> {
    /// The name of the topic that this may be done to.
    pub(crate) fn topic(self, operation: Operation) -> &'a str {
        self.named(operation, Kind::Topic)
    }

    pub(crate) fn group(self, operation: Operation) -> &'a str {
        self.named(operation, Kind::Group)
    }

    pub(crate) fn transactional_id(self, operation: Operation) -> &'a str {
        self.named(operation, Kind::TransactionalId)
    }

    /// Stops where it is not for this operation on the cluster.
    pub(crate) fn cluster(self, operation: Operation) {
        self.named(operation, Kind::Cluster);
    }

    fn named(self, operation: Operation, kind: Kind) -> &'a str {
        let given = (self.operation, self.resource.kind);
        assert_eq!(given, (operation, kind), "a right of another kind");
        self.resource.name
    }
}

impl Asker {
    /// The leave to do this to the resource, or the code of the refusal. Says nothing of whether there is such a resource.
    pub(crate) fn grant<'a>(
        &self,
        operation: Operation,
        resource: Resource<'a>,
    ) -> Result<Granted<'a>, ErrorCode> {
        if self.may(operation, resource) {
            Ok(Granted {
                operation,
                resource,
            })
        } else {
            self.note_refusal(operation, resource);
            Err(refusal(resource.kind))
        }
    }

    /// The leave to create a topic: on the cluster, or on its name. Nodes create the topics of the broker itself, and no others.
    pub(crate) fn grant_creation<'a>(&self, topic: &'a str) -> Result<Granted<'a>, ErrorCode> {
        if self.principal.is_node() && meta::name::is_internal(topic) {
            return self.grant(Operation::ClusterAction, Resource::CLUSTER);
        }
        let cluster = self.grant(Operation::Create, Resource::CLUSTER);
        cluster.or_else(|_| self.grant(Operation::Create, Resource::topic(topic)))
    }

    /// The leave to do this to at least one resource of the kind.
    pub(crate) fn grant_any(
        &self,
        operation: Operation,
        kind: Kind,
    ) -> Result<Granted<'static>, ErrorCode> {
        let may = self.authority.as_ref().is_none_or(|authority| {
            authority.allows_any(&self.memory, self.identity(), operation, kind)
        });
        let resource = Resource { kind, name: ANY };
        if may {
            Ok(Granted {
                operation,
                resource,
            })
        } else {
            self.note_refusal(operation, resource);
            Err(refusal(kind))
        }
    }
}

/// The code of a refusal on a resource of this kind.
pub(crate) const fn refusal(kind: Kind) -> ErrorCode {
    match kind {
        Kind::Topic => ErrorCode::TopicAuthorizationFailed,
        Kind::Group => ErrorCode::GroupAuthorizationFailed,
        Kind::Cluster => ErrorCode::ClusterAuthorizationFailed,
        Kind::TransactionalId => ErrorCode::TransactionalIdAuthorizationFailed,
        Kind::DelegationToken | Kind::User => ErrorCode::DelegationTokenAuthorizationFailed,
    }
}
