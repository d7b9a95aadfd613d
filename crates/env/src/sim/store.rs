//! The object store of a simulated world: its objects, the operations on their way, and what goes wrong by itself.

use std::collections::BTreeMap;
use std::ops::{Bound, Range};

use bytes::{Bytes, BytesMut};

use crate::bucket::{
    Done, ETag, LISTED_MAX, Listed, Op, Outcome, Part, Tag, Trouble, When, is_name,
};

/// Faults of the store that come by themselves. In one of so many operations each; 0 for never.
#[derive(Clone, Debug, Default)]
pub struct BucketFaults {
    /// The store asks for patience.
    pub busy_one_in: u64,
    /// It fails by itself, before it has done anything.
    pub fails_one_in: u64,
    /// It does what is asked, and the answer is lost.
    pub answers_lost_one_in: u64,
    /// A write arrives long after its writer gave up: within this time.
    pub late_one_in: u64,
    pub late_nanos: Range<u64>,
    /// Conditions of writes are ignored: a store that is not fit.
    pub ignores_conditions: bool,
    /// A deletion is answered and not done.
    pub keeps_deleted_one_in: u64,
    /// Nothing is answered at all.
    pub is_down: bool,
}

/// How often things happened.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct BucketCounts {
    pub puts: u64,
    pub gets: u64,
    pub deletes: u64,
    pub lists: u64,
    /// Operations that met a fault.
    pub troubled: u64,
    /// Operations that were done and not answered, or answered late.
    pub in_doubt: u64,
}

#[derive(Clone)]
struct Object {
    content: Bytes,
    etag: u64,
}

/// An operation on its way. `L` names the life of the host that asked.
pub(super) struct Call<L> {
    pub(super) life: L,
    pub(super) handle: u64,
    pub(super) tag: Tag,
    /// Until it arrives.
    pub(super) op: Option<Op>,
    pub(super) result: Option<Result<Outcome, Trouble>>,
}

pub(crate) struct Store<L> {
    objects: BTreeMap<String, Object>,
    etags: u64,
    pub(super) calls: BTreeMap<u64, Call<L>>,
    pub(super) next: u64,
    /// Outcomes of each handle that were not taken, and its bell.
    pub(super) handles: BTreeMap<u64, (Vec<Done>, u64)>,
    pub(crate) faults: BucketFaults,
    pub(crate) counts: BucketCounts,
}

impl<L> Default for Store<L> {
    fn default() -> Store<L> {
        Store {
            objects: BTreeMap::new(),
            etags: 0,
            calls: BTreeMap::new(),
            next: 0,
            handles: BTreeMap::new(),
            faults: BucketFaults::default(),
            counts: BucketCounts::default(),
        }
    }
}

impl<L> Store<L> {
    /// Does an operation, without faults.
    pub(super) fn perform(&mut self, op: Op) -> Result<Outcome, Trouble> {
        let refused = |name: &str| Trouble::Refused(format!("{name:?} is no name of an object"));
        match op {
            Op::Put { name, .. } | Op::Get { name, .. } if !is_name(&name) => Err(refused(&name)),
            Op::Put {
                name,
                content,
                when,
            } => self.put(name, &content, &when),
            Op::Get { name, part } => {
                let object = self.objects.get(&name).ok_or(Trouble::Missing)?;
                let bytes = object.content.len() as u64;
                let range = within(&part, bytes);
                Ok(Outcome::Got {
                    content: object
                        .content
                        .slice(range.start as usize..range.end as usize),
                    bytes,
                    etag: Some(ETag(object.etag.to_string())),
                })
            }
            Op::Delete { names } => {
                for name in names {
                    self.objects.remove(&name);
                }
                Ok(Outcome::Deleted)
            }
            Op::List { prefix, after } => {
                let begin = after.as_deref().filter(|after| prefix.as_str() < *after);
                let begin = begin.map_or(Bound::Included(prefix.as_str()), Bound::Excluded);
                let behind = self.objects.range::<str, _>((begin, Bound::Unbounded));
                let mut all = behind.take_while(|(name, _)| name.starts_with(&prefix));
                let objects = all.by_ref().take(LISTED_MAX);
                let objects = objects.map(|(name, object)| Listed {
                    name: name.clone(),
                    bytes: object.content.len() as u64,
                });
                Ok(Outcome::Listed {
                    objects: objects.collect(),
                    has_more: all.next().is_some(),
                })
            }
        }
    }

    fn put(&mut self, name: String, content: &[Bytes], when: &When) -> Result<Outcome, Trouble> {
        let known = self
            .objects
            .get(&name)
            .map(|object| ETag(object.etag.to_string()));
        let holds = match when {
            When::Absent => known.is_none(),
            When::Still(etag) => known.as_ref() == Some(etag),
        };
        if !holds && !self.faults.ignores_conditions {
            return Err(Trouble::Taken);
        }
        self.etags += 1;
        let mut whole = BytesMut::new();
        content
            .iter()
            .for_each(|piece| whole.extend_from_slice(piece));
        let object = Object {
            content: whole.freeze(),
            etag: self.etags,
        };
        self.objects.insert(name, object);
        let etag = ETag(self.etags.to_string());
        Ok(Outcome::Put { etag })
    }

    /// The objects, for a judge.
    pub(crate) fn objects(&self) -> BTreeMap<String, Bytes> {
        let objects = self.objects.iter();
        objects
            .map(|(name, object)| (name.clone(), object.content.clone()))
            .collect()
    }

    /// Something happens to an object behind everybody's back: it is lost, or has other bytes.
    pub(crate) fn spoil(&mut self, name: &str, content: Option<Bytes>) {
        match (content, self.objects.get_mut(name)) {
            (Some(content), Some(object)) => object.content = content,
            (None, _) => drop(self.objects.remove(name)),
            (Some(_), None) => {}
        }
    }
}

/// The bytes of a part, of an object of so many.
fn within(part: &Part, bytes: u64) -> Range<u64> {
    match part {
        Part::Whole => 0..bytes,
        Part::Range(range) => {
            range.start.min(bytes)..range.end.clamp(range.start.min(bytes), bytes)
        }
        Part::Last(count) => bytes.saturating_sub(*count)..bytes,
    }
}
