//! Counts of connections: how many there are on all shards together, and how many of each address.
//!
//! Asked when a connection comes and when it goes, never in between.

use std::collections::HashMap;
use std::net::IpAddr;

#[derive(Debug, Default)]
pub(crate) struct Crowd {
    total: usize,
    by_address: HashMap<IpAddr, usize>,
}

impl Crowd {
    pub(crate) fn total(&self) -> usize {
        self.total
    }

    /// Counts one more from `address`; false when `most` of it are here already, and the peer is to be turned away.
    pub(crate) fn admit(&mut self, address: IpAddr, most: usize) -> bool {
        let same = self.by_address.get(&address).copied().unwrap_or(0);
        let fits = same < most;
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
        let [one, two] = [1, 2].map(|last| IpAddr::from([10, 0, 0, last]));
        let mut crowd = Crowd::default();
        assert!(crowd.admit(one, 2) && crowd.admit(one, 2));
        assert!(!crowd.admit(one, 2), "two of one address");
        assert!(crowd.admit(two, 2));
        assert_eq!(crowd.total(), 3);
        crowd.forget(one);
        assert!(crowd.admit(one, 2), "there is room again");
        for address in [one, one, two, two] {
            crowd.forget(address);
        }
        assert_eq!((crowd.total, crowd.by_address.len()), (0, 0));
    }
}
