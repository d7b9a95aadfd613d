//! Ids of directories that stand for something else than a directory (KIP-858).

use wire::Uuid;

/// Some directory of the broker: the log is from before directories had ids.
pub const MIGRATING: Uuid = reserved(0);
/// The broker has yet to choose one, and says then which.
pub const UNASSIGNED: Uuid = reserved(1);
/// A directory that has failed; the broker cannot say which.
pub const LOST: Uuid = reserved(2);

/// Kafka keeps the first hundred numbers for itself.
const RESERVED_COUNT: u128 = 100;

const fn reserved(number: u8) -> Uuid {
    let mut bytes = [0; 16];
    bytes[15] = number;
    Uuid(bytes)
}

#[must_use]
pub fn is_reserved(dir: Uuid) -> bool {
    u128::from_be_bytes(dir.0) < RESERVED_COUNT
}

/// True if a replica there can be led: the directory is `online`, or will be chosen from those that are.
#[must_use]
pub fn is_online(dir: Uuid, online: &[Uuid]) -> bool {
    match dir {
        MIGRATING | UNASSIGNED => true,
        LOST => false,
        // A broker that names none has directories without ids.
        _ => online.is_empty() || online.contains(&dir),
    }
}
