//! Which directory a partition lives in at a start, when more than one has something of it or the metadata name one that has not.
//!
//! A crash in a move leaves two directories with a partition, and the one that the metadata name has all that the other has. An
//! older copy of the metadata names the one where it was before a move. So the directory with the longest log has it, and the
//! metadata follow, as in KIP-858. Invariant: what goes is in the directory that the metadata name; anything else is set aside.
//! Leaves alone what is named in a directory that is offline: nobody knows which has more.

use std::cmp::Reverse;
use std::collections::BTreeMap;

use meta::Image;
use meta::decide::assign_dir::assign_dir;
use meta::record::Record;
use model::{BrokerId, Offset};
use partition::dir::Key;
use partition::{Extent, OpenError, Restored};

type Dirs = [Result<Restored, OpenError>];

/// A partition lives in another directory than the metadata say.
pub(crate) struct Adopted {
    /// The place of the directory that they name.
    pub(crate) named: usize,
    /// Makes them name the right one.
    pub(crate) record: Record,
}

/// Leaves each partition in one of the directories that are online.
pub(crate) fn choose(dirs: &mut Dirs, image: &Image, node: BrokerId) -> Vec<Adopted> {
    let mut places: BTreeMap<Key, Vec<(usize, Extent)>> = BTreeMap::new();
    for (at, dir) in dirs.iter().enumerate() {
        for (key, extent) in dir.iter().flat_map(Restored::extents) {
            places.entry(key).or_default().push((at, extent));
        }
    }
    let mut adopted = Vec::new();
    for (key, mut places) in places {
        let Some(named) = named(dirs, image, node, key) else {
            continue;
        };
        if places.iter().all(|(at, _)| *at != named) {
            let nothing = Extent {
                end: Offset::ZERO,
                lost_count: 0,
            };
            places.push((named, nothing));
        }
        let rank = |(at, extent): &(usize, Extent)| {
            let is_other = *at != named;
            (Reverse(extent.end), extent.lost_count, is_other, *at)
        };
        places.sort_by_key(rank);
        let Some((home, best)) = places.first().copied() else {
            continue;
        };
        for (at, extent) in places.into_iter().skip(1) {
            let is_copy = home == named && best.lost_count <= extent.lost_count;
            if let Ok(dir) = &mut dirs[at] {
                if is_copy {
                    dir.leave(key)
                } else {
                    dir.set_aside(key)
                }
            }
        }
        if let Ok(dir) = &dirs[home]
            && home != named
            && let Some(record) = assign_dir(image, node, key.0, key.1, dir.id())
        {
            adopted.push(Adopted { named, record });
        }
    }
    adopted
}

/// The place of the directory that the metadata name, if it is online.
fn named(dirs: &Dirs, image: &Image, node: BrokerId, (topic, index): Key) -> Option<usize> {
    let topic = image.topic_by_id(topic)?;
    let planned = topic.partitions.get(usize::try_from(index.0).ok()?)?;
    let id = planned.directory(node)?;
    let is_named = |dir: &Restored| dir.id() == id;
    dirs.iter().position(|dir| dir.as_ref().is_ok_and(is_named))
}
