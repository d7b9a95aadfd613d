//! An object store of a simulated world: a place of its own, which every host reaches over a link.
//!
//! An operation is done when it arrives at the store, whatever becomes of its answer;
//! the store itself loses nothing that nobody told it to.

use std::sync::Arc;

use super::host::Life;
use super::links::{Passage, Site};
use super::net::Due;
use super::store::{BucketFaults, Call};
use super::trace::{self, Event};
use super::world::{SharedWorld, World};
use crate::Bell;
use crate::bucket::{Bucket, Done, Op, Outcome, Tag, Trouble};

/// An operation waits so long for its answer.
const PATIENCE_NANOS: u64 = 30_000_000_000;

/// The store as one worker of a host has it.
pub(crate) struct SimBucket {
    shared: SharedWorld,
    life: Life,
    handle: u64,
    bell: Arc<dyn Bell>,
}

impl SimBucket {
    pub(crate) fn open(
        shared: &SharedWorld,
        life: Life,
        bell: Arc<dyn Bell>,
        number: u64,
    ) -> SimBucket {
        let mut world = shared.world.lock();
        world.store.next += 1;
        let handle = world.store.next;
        world.store.handles.insert(handle, (Vec::new(), number));
        SimBucket {
            shared: shared.clone(),
            life,
            handle,
            bell,
        }
    }
}

impl Bucket for SimBucket {
    fn start(&self, tag: Tag, op: Op) {
        let mut world = self.shared.world.lock();
        if world.check_on(self.life).is_err() {
            return;
        }
        world.store.next += 1;
        let number = world.store.next;
        let call = Call {
            life: self.life,
            handle: self.handle,
            tag,
            op: Some(op),
            result: None,
        };
        world.store.calls.insert(number, call);
        let from = Site::Host(self.life.host);
        let mut at = world.arrival(from, Site::Bucket);
        if world.meets(|faults| faults.late_one_in) {
            let late = world.store.faults.late_nanos.clone();
            at += world
                .chance
                .between(late.start, late.end.max(late.start + 1));
            world.store.counts.in_doubt += 1;
        }
        world.network.due(at, Due::Ask { call: number });
        let patience = world.now_on(self.life.host) + PATIENCE_NANOS;
        world.network.due(patience, Due::GiveUp { call: number });
    }

    fn take(&self, done: &mut Vec<Done>) {
        let mut world = self.shared.world.lock();
        if let Some((waiting, _)) = world.store.handles.get_mut(&self.handle) {
            done.append(waiting);
        }
    }

    fn bell(&self) -> Arc<dyn Bell> {
        Arc::clone(&self.bell)
    }
}

impl Drop for SimBucket {
    fn drop(&mut self) {
        self.shared.world.lock().store.handles.remove(&self.handle);
    }
}

impl World {
    /// True if the next operation meets a fault that comes in one of so many.
    fn meets(&mut self, one_in: impl Fn(&BucketFaults) -> u64) -> bool {
        let times = one_in(&self.store.faults);
        times > 0 && self.chance.one_in(times)
    }

    /// An operation arrives at the store.
    pub(super) fn arrive_at_bucket(&mut self, number: u64) {
        let Some(call) = self.store.calls.get_mut(&number) else {
            return;
        };
        let (host, op) = (call.life.host, call.op.take());
        let Some(op) = op else {
            return;
        };
        let way = self.network.links.of(Site::Host(host), Site::Bucket);
        if way.passage != Passage::Open || self.store.faults.is_down {
            // Like a request that no answer comes to; a link that refuses says so at once.
            if way.passage == Passage::Refused {
                let refused = Trouble::Unreachable("connection refused".to_owned());
                self.answer(number, Err(refused));
            }
            return;
        }
        let kind = match &op {
            Op::Put { .. } => &mut self.store.counts.puts,
            Op::Get { .. } => &mut self.store.counts.gets,
            Op::Delete { .. } => &mut self.store.counts.deletes,
            Op::List { .. } => &mut self.store.counts.lists,
        };
        *kind += 1;
        let trouble = if self.meets(|faults| faults.busy_one_in) {
            Some(Trouble::Busy)
        } else if self.meets(|faults| faults.fails_one_in) {
            Some(Trouble::Failed("internal error".to_owned()))
        } else {
            None
        };
        if let Some(trouble) = trouble {
            self.store.counts.troubled += 1;
            return self.answer(number, Err(trouble));
        }
        let keeps =
            matches!(op, Op::Delete { .. }) && self.meets(|faults| faults.keeps_deleted_one_in);
        let content = trace::hash_of(&op);
        let result = if keeps {
            self.store.counts.troubled += 1;
            Ok(Outcome::Deleted)
        } else {
            self.store.perform(op)
        };
        let ok = result.is_ok();
        self.note_on(host, &Event::Bucket { content, ok });
        if self.meets(|faults| faults.answers_lost_one_in) {
            self.store.counts.in_doubt += 1;
            return;
        }
        self.answer(number, result);
    }

    /// The store answers; the answer travels.
    fn answer(&mut self, number: u64, result: Result<Outcome, Trouble>) {
        let Some(call) = self.store.calls.get_mut(&number) else {
            return;
        };
        call.result = Some(result);
        let to = Site::Host(call.life.host);
        let at = self.arrival(Site::Bucket, to);
        self.network.due(at, Due::Told { call: number });
    }

    /// An answer arrives at the host.
    pub(super) fn arrive_from_bucket(&mut self, number: u64) {
        let Some(call) = self.store.calls.get(&number) else {
            return;
        };
        let way = self
            .network
            .links
            .of(Site::Bucket, Site::Host(call.life.host));
        if way.passage == Passage::Open {
            self.conclude(number);
        }
    }

    /// Nobody waits for an operation any more; it may still arrive.
    pub(super) fn give_up_call(&mut self, number: u64) {
        let Some(call) = self.store.calls.get_mut(&number) else {
            return;
        };
        let waits = call.op.take();
        call.result = Some(Err(Trouble::NoAnswer("time-out".to_owned())));
        let life = call.life;
        self.conclude(number);
        if let Some(op) = waits {
            // It is on its way, and nobody hears of it.
            let call = Call {
                life,
                handle: 0,
                tag: Tag(0),
                op: Some(op),
                result: None,
            };
            self.store.calls.insert(number, call);
        }
    }

    fn conclude(&mut self, number: u64) {
        let Some(call) = self.store.calls.remove(&number) else {
            return;
        };
        let (Some(result), Ok(())) = (call.result, self.check_on(call.life)) else {
            return;
        };
        if let Some((waiting, bell)) = self.store.handles.get_mut(&call.handle) {
            waiting.push(Done {
                tag: call.tag,
                result,
            });
            let bell = *bell;
            self.crew.ring(bell);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use bytes::Bytes;

    use super::*;
    use crate::bucket::{Part, When};
    use crate::sim::{Faults, Link, Machine, Machines};

    fn put(name: &str, content: &'static [u8], when: When) -> Op {
        Op::Put {
            name: name.to_owned(),
            content: vec![Bytes::from_static(content)],
            when,
        }
    }

    fn get(name: &str, part: Part) -> Op {
        let name = name.to_owned();
        Op::Get { name, part }
    }

    /// The outcomes of operations, by their places.
    fn outcomes(machine: &Machine, ops: Vec<Op>) -> Vec<Result<Outcome, Trouble>> {
        let bucket = machine.bucket();
        let count = ops.len();
        for (at, op) in ops.into_iter().enumerate() {
            bucket.start(Tag(at as u64), op);
        }
        let mut done = Vec::new();
        machine.run_until(Duration::from_secs(120), |_| {
            bucket.take(&mut done);
            done.len() == count
        });
        done.sort_by_key(|done| done.tag);
        done.into_iter().map(|done| done.result).collect()
    }

    fn only(machine: &Machine, op: Op) -> Result<Outcome, Trouble> {
        outcomes(machine, vec![op]).pop().expect("an outcome")
    }

    #[test]
    fn an_answer_that_is_lost_leaves_in_doubt_what_was_done() {
        let machine = Machine::new(1, Faults::default());
        machine.bucket_faults(|faults| faults.answers_lost_one_in = 1);
        let told = only(&machine, put("a", b"1", When::Absent));
        assert!(told.is_err_and(|trouble| trouble.is_in_doubt()));
        assert_eq!(machine.objects()["a"], "1");
        machine.bucket_faults(|faults| faults.answers_lost_one_in = 0);
        let again = only(&machine, put("a", b"1", When::Absent));
        assert_eq!(again, Err(Trouble::Taken));
    }

    #[test]
    fn a_write_may_arrive_when_nobody_waits_for_it() {
        let machine = Machine::new(1, Faults::default());
        machine.bucket_faults(|faults| {
            faults.late_one_in = 1;
            faults.late_nanos = 50_000_000_000..60_000_000_000;
        });
        let told = only(&machine, put("a", b"1", When::Absent));
        assert!(told.is_err_and(|trouble| trouble.is_in_doubt()));
        assert!(machine.objects().is_empty());
        machine.alarm(machine.now().plus(Duration::from_secs(60)));
        machine.run_until(Duration::from_secs(60), |_| false);
        assert_eq!(machine.objects().len(), 1);
    }

    #[test]
    fn a_link_to_the_store_is_cut_for_one_host_alone() {
        let machines = Machines::new(1, 2, &Faults::default());
        let (first, second) = (Site::Host(crate::sim::HostId(1)), Site::Bucket);
        let refused = Link {
            passage: Passage::Refused,
            ..Link::default()
        };
        machines.set_link(first, second, refused);
        for (machine, is_cut) in machines.iter().zip([true, false]) {
            let told = only(machine, get("a", Part::Whole));
            let is_reached = told == Err(Trouble::Missing);
            assert_eq!(is_reached, !is_cut, "{told:?}");
        }
    }

    #[test]
    fn handles_of_an_earlier_life_hear_nothing() {
        let machine = Machine::new(1, Faults::default());
        let bucket = machine.bucket();
        bucket.start(Tag(1), put("a", b"1", When::Absent));
        machine.kill();
        machine.run_until(Duration::from_secs(60), |_| false);
        let mut done = Vec::new();
        bucket.take(&mut done);
        assert_eq!(done, []);
    }
}
