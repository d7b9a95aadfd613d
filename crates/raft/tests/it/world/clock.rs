//! Time: it passes for one replica or for all, until something comes of it.

use raft::{Event, RoleName};

use super::World;

impl World {
    pub(super) fn expire(&mut self, id: i32) {
        if let Some(deadline) = self.quorum(id).next_deadline() {
            let node = self.node(id);
            node.now = node.now.max(deadline.0);
        }
        self.step(id, Event::Tick);
    }

    pub(super) fn elect(&mut self, id: i32) {
        for _ in 0..100 {
            self.run();
            if self.quorum(id).role() == RoleName::Leader {
                return;
            }
            self.expire(id);
        }
        panic!("{id} does not get elected: {:?}", self.quorum(id).view());
    }

    pub(super) fn stand(&mut self, id: i32) {
        for _ in 0..100 {
            if self.quorum(id).role() == RoleName::Prospective {
                return self.run();
            }
            self.expire(id);
            if self.quorum(id).role() != RoleName::Prospective {
                self.run();
            }
        }
        panic!("{id} does not stand: {:?}", self.quorum(id).view());
    }

    pub(super) fn crown(&mut self, id: i32, by: i32) {
        for _ in 0..100 {
            while self.quorum(id).role() != RoleName::Leader && self.run_one() {}
            if self.quorum(id).role() == RoleName::Leader {
                return;
            }
            self.expire(by);
        }
        panic!("{id} does not get elected: {:?}", self.quorum(id).view());
    }

    pub(super) fn doubt(&mut self, id: i32) {
        for _ in 0..20 {
            if self.quorum(id).role() != RoleName::Follower {
                return;
            }
            self.expire(id);
        }
        panic!("{id} never doubts its leader");
    }

    pub(super) fn wait(&mut self, ms: i32) {
        let mut left = ms as u64 * 1_000_000;
        loop {
            self.run();
            let next = self.nodes.iter().filter_map(|(id, node)| {
                let deadline = node.quorum.as_ref()?.next_deadline()?;
                Some((deadline.0.saturating_sub(node.now), *id))
            });
            let due = next.min().filter(|(gone, _)| *gone <= left);
            let gone = due.map_or(left, |(gone, _)| gone);
            left -= gone;
            for node in self.nodes.values_mut() {
                node.now += gone;
            }
            match due {
                Some((_, id)) => self.step(id, Event::Tick),
                None => return,
            }
        }
    }
}
