//! Sets of operations.

use super::{Operation, Permission};

/// Some of the operations, one bit each by its number.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct Operations(u16);

impl Operations {
    pub const NONE: Operations = Operations(0);
    pub const EVERY: Operations = {
        let (mut bits, mut at) = (0, 0);
        while at < Operation::EVERY.len() {
            bits |= Operations::one(Operation::EVERY[at]).0;
            at += 1;
        }
        Operations(bits)
    };

    const fn one(operation: Operation) -> Operations {
        Operations(1 << operation as u8)
    }

    /// Those that a rule allows or denies.
    pub(super) fn of(permission: Permission, operation: Operation) -> Operations {
        if operation == Operation::All {
            return Operations::EVERY;
        }
        let is_implied =
            |asked: &Operation| permission == Permission::Allow && operation.implies(*asked);
        let implied = Operation::EVERY.into_iter().filter(is_implied);
        implied.fold(Operations::one(operation), |all, one| {
            all.and(Operations::one(one))
        })
    }

    #[must_use]
    pub const fn has(self, operation: Operation) -> bool {
        self.0 & Operations::one(operation).0 != 0
    }

    pub(super) const fn and(self, others: Operations) -> Operations {
        Operations(self.0 | others.0)
    }

    pub(super) const fn without(self, others: Operations) -> Operations {
        Operations(self.0 & !others.0)
    }

    /// The bits as the protocol tells them (KIP-430), without that of ALL.
    #[must_use]
    pub fn bits(self) -> i32 {
        i32::from(self.without(Operations::one(Operation::All)).0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rights_imply_others_where_they_are_given() {
        let allowed = Operations::of(Permission::Allow, Operation::Write);
        assert!(allowed.has(Operation::Describe) && !allowed.has(Operation::Read));
        let denied = Operations::of(Permission::Deny, Operation::Write);
        assert!(denied.has(Operation::Write) && !denied.has(Operation::Describe));
        assert_eq!(allowed.bits(), (1 << 4) | (1 << 8));
        let all = Operations::of(Permission::Deny, Operation::All);
        assert!(
            Operation::EVERY
                .into_iter()
                .all(|operation| all.has(operation))
        );
        assert_eq!(all.bits(), 0b1111_1111_1111_1000);
    }
}
