//! Who is connected: how many connections there are on all shards together, and how many of each address.
//!
//! Asked when a connection comes and when it goes, never in between.

use std::collections::HashMap;
use std::net::IpAddr;

/// Bounds on connections (`max.connections`, `max.connections.per.ip`).
#[derive(Clone, Copy, Debug)]
pub(crate) struct Limits {
    pub(crate) total: usize,
    pub(crate) per_address: usize,
}

#[derive(Debug, Default)]
pub(crate) struct Crowd {
    total: usize,
    by_address: HashMap<IpAddr, usize>,
}

impl Crowd {
    /// Counts one more from `address`; false when that were too many, and the peer is to be turned away.
    pub(crate) fn admit(&mut self, address: IpAddr, limits: Limits) -> bool {
        let same = self.by_address.get(&address).copied().unwrap_or(0);
        let fits = self.total < limits.total && same < limits.per_address;
        if fits {
            self.total += 1;
            self.by_address.insert(address, same + 1);
        }
        fits
    }

    pub(crate) fn forget(&mut self, address: IpAddr) {
        let Some(same) = self.by_address.get_mut(&address) else {
            return;
        };
        self.total -= 1;
        *same -= 1;
        if *same == 0 {
            self.by_address.remove(&address);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_address_leaves_room_for_others() {
        let limits = Limits {
            total: 3,
            per_address: 2,
        };
        let [one, two, three] = [1, 2, 3].map(|last| IpAddr::from([10, 0, 0, last]));
        let mut crowd = Crowd::default();
        assert!(crowd.admit(one, limits) && crowd.admit(one, limits));
        assert!(!crowd.admit(one, limits), "two of one address");
        assert!(crowd.admit(two, limits));
        assert!(!crowd.admit(three, limits), "three in all");
        crowd.forget(one);
        assert!(crowd.admit(three, limits));
        for address in [one, two, three] {
            crowd.forget(address);
        }
        assert_eq!((crowd.total, crowd.by_address.len()), (0, 0));
    }
}
