//! The bytes of one simulated file: what programs see, what the platter holds, and what lies between.
//!
//! Every page written since the last sync keeps its versions; a crash may find any of them on the platter, torn at sector
//! boundaries, or none. A cut of the length is ordered before what was written after it, as journalling file systems do;
//! otherwise pages and length survive independently. Invariant: after `sync` the platter equals what programs see, except
//! where an earlier sync failed.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::chance::{Chance, Chooser};

pub(crate) const PAGE: usize = 4096;
const SECTOR: usize = 512;
/// Versions kept per page; older ones are states a crash could show too, but enough is enough.
const VERSIONS_MAX: usize = 6;

/// `None` is a page of zeros.
type Page = Option<Arc<[u8; PAGE]>>;

#[derive(Clone)]
struct Version {
    page: Page,
    /// How many cuts of the length since the last sync came before this version.
    cuts: u32,
    /// Written by the cut itself: once that cut is on the platter, nothing older is.
    by_cut: bool,
}

#[derive(Clone, Default)]
pub(crate) struct Content {
    live: Vec<Page>,
    live_len: u64,
    durable: Vec<Page>,
    durable_len: u64,
    /// Page number to its versions since the last sync, oldest first.
    pending: BTreeMap<usize, Vec<Version>>,
    /// Lengths since the last sync, each with the number of cuts before it.
    lens: Vec<(u32, u64)>,
    cuts: u32,
    reserved: u64,
    /// Syncs that lost pages.
    losses: u64,
}

/// The pages that a sync covers while it runs: the file as it was before, but for what programs see.
#[derive(Clone)]
pub(crate) struct Unsynced {
    /// Pages that the sync puts on the platter, as they were there.
    durable: Vec<(usize, Page)>,
    durable_pages: usize,
    durable_len: u64,
    pending: BTreeMap<usize, Vec<Version>>,
    lens: Vec<(u32, u64)>,
    cuts: u32,
}

fn pages(len: u64) -> usize {
    len.div_ceil(PAGE as u64) as usize
}

fn bytes_of(page: &Page) -> &[u8; PAGE] {
    static ZEROS: [u8; PAGE] = [0; PAGE];
    page.as_deref().unwrap_or(&ZEROS)
}

fn page_of(bytes: &[u8; PAGE]) -> Page {
    if bytes.iter().all(|byte| *byte == 0) {
        None
    } else {
        Some(Arc::new(*bytes))
    }
}

impl Content {
    pub(crate) fn len(&self) -> u64 {
        self.live_len
    }

    /// Bytes the file takes from the volume.
    pub(crate) fn taken(&self) -> u64 {
        (pages(self.live_len) as u64 * PAGE as u64).max(self.reserved)
    }

    pub(crate) fn taken_with(&self, len: u64) -> u64 {
        (pages(len) as u64 * PAGE as u64).max(self.taken())
    }

    pub(crate) fn reserve(&mut self, len: u64) {
        self.reserved = self.reserved.max(len);
    }

    pub(crate) fn trim(&mut self) {
        self.reserved = 0;
    }

    pub(crate) fn has_pending(&self) -> bool {
        !self.pending.is_empty() || !self.lens.is_empty()
    }

    pub(crate) fn read(&self, buf: &mut [u8], position: u64) -> usize {
        let left = usize::try_from(self.live_len.saturating_sub(position)).unwrap_or(usize::MAX);
        let want = buf.len().min(left);
        let mut done = 0;
        while done < want {
            let at = position as usize + done;
            let (number, from) = (at / PAGE, at % PAGE);
            let part = (PAGE - from).min(want - done);
            buf[done..done + part]
                .copy_from_slice(&bytes_of(&self.live[number])[from..from + part]);
            done += part;
        }
        want
    }

    pub(crate) fn write(&mut self, bytes: &[u8], position: u64) {
        let end = position + bytes.len() as u64;
        if end > self.live_len && !bytes.is_empty() {
            self.set_live_len(end);
        }
        let mut done = 0;
        while done < bytes.len() {
            let at = position as usize + done;
            let (number, from) = (at / PAGE, at % PAGE);
            let part = (PAGE - from).min(bytes.len() - done);
            let mut page = *bytes_of(&self.live[number]);
            page[from..from + part].copy_from_slice(&bytes[done..done + part]);
            self.put(number, page_of(&page), false);
            done += part;
        }
    }

    fn put(&mut self, number: usize, page: Page, by_cut: bool) {
        let versions = self.pending.entry(number).or_default();
        if versions.len() == VERSIONS_MAX
            && let Some(oldest) = versions.iter().position(|version| !version.by_cut)
        {
            versions.remove(oldest);
        }
        versions.push(Version {
            page: page.clone(),
            cuts: self.cuts,
            by_cut,
        });
        self.live[number] = page;
    }

    fn set_live_len(&mut self, len: u64) {
        self.live_len = len;
        self.live.resize(pages(len), None);
        self.lens.push((self.cuts, len));
    }

    pub(crate) fn set_len(&mut self, len: u64) {
        if len >= self.live_len {
            if len > self.live_len {
                self.set_live_len(len);
            }
            return;
        }
        self.cuts += 1;
        self.reserved = 0;
        let inside = (len % PAGE as u64) as usize;
        if inside != 0 {
            let number = pages(len) - 1;
            let mut page = *bytes_of(&self.live[number]);
            page[inside..].fill(0);
            self.put(number, page_of(&page), true);
        }
        for number in pages(len)..pages(self.live_len) {
            self.put(number, None, true);
        }
        self.set_live_len(len);
    }

    /// A sync; returns all that [`forget_sync`](Content::forget_sync) needs to take it back.
    pub(crate) fn begin_sync(&mut self) -> Unsynced {
        let page = |number: &usize| Some((*number, self.durable.get(*number)?.clone()));
        let before = Unsynced {
            durable: self.pending.keys().filter_map(page).collect(),
            durable_pages: self.durable.len(),
            durable_len: self.durable_len,
            pending: std::mem::take(&mut self.pending),
            lens: std::mem::take(&mut self.lens),
            cuts: self.cuts,
        };
        self.durable.resize(pages(self.live_len), None);
        for number in before.pending.keys() {
            if let Some(page) = self.live.get(*number) {
                self.durable[*number] = page.clone();
            }
        }
        self.durable_len = self.live_len;
        self.forget_pending();
        before
    }

    /// The sync did not come to its end: what it covered is as open as what was written since.
    pub(crate) fn forget_sync(&mut self, before: Unsynced) {
        self.durable.resize(before.durable_pages, None);
        for (number, page) in before.durable {
            self.durable[number] = page;
        }
        self.durable_len = before.durable_len;
        for (number, versions) in std::mem::replace(&mut self.pending, before.pending) {
            let known = self.pending.entry(number).or_default();
            known.extend(versions.into_iter().map(|version| Version {
                cuts: version.cuts + before.cuts,
                ..version
            }));
        }
        let lens = std::mem::replace(&mut self.lens, before.lens).into_iter();
        self.lens
            .extend(lens.map(|(cuts, len)| (cuts + before.cuts, len)));
        self.cuts += before.cuts;
    }

    /// A sync that failed: some pages were written, the others are marked clean all the same and will never be.
    pub(crate) fn fail_sync(&mut self, chance: &mut Chance) {
        for (number, _) in std::mem::take(&mut self.pending) {
            if number < self.durable.len() && number < self.live.len() && chance.one_in(2) {
                self.durable[number] = self.live[number].clone();
            }
        }
        self.losses += 1;
        self.forget_pending();
    }

    /// How often pages were lost: each descriptor reports it once, whosever the sync is.
    pub(crate) fn losses(&self) -> u64 {
        self.losses
    }

    fn forget_pending(&mut self) {
        self.pending.clear();
        self.lens.clear();
        self.cuts = 0;
    }

    /// Forgets clean pages of the range: what programs see next is what the platter holds.
    pub(crate) fn drop_cache(&mut self, position: u64, len: u64) {
        let last = pages(position.saturating_add(len)).min(self.live.len());
        for number in (position / PAGE as u64) as usize..last {
            if !self.pending.contains_key(&number) {
                self.live[number] = self.durable.get(number).cloned().flatten();
            }
        }
    }

    /// Changes bytes behind everybody's back, on the platter and in memory.
    pub(crate) fn rot(&mut self, position: u64, change: impl Fn(u8) -> u8) {
        let (number, at) = (
            (position / PAGE as u64) as usize,
            (position % PAGE as u64) as usize,
        );
        for pages in [&mut self.live, &mut self.durable] {
            if let Some(page) = pages.get_mut(number) {
                let mut bytes = *bytes_of(page);
                bytes[at] = change(bytes[at]);
                *page = page_of(&bytes);
            }
        }
    }

    /// Puts `bytes` at `position` behind everybody's back, on the platter and in memory, as far as the file goes; says how many
    /// of those in memory are others now.
    pub(crate) fn overwrite(&mut self, bytes: &[u8], position: u64) -> u64 {
        let left = usize::try_from(self.live_len.saturating_sub(position)).unwrap_or(usize::MAX);
        let bytes = &bytes[..bytes.len().min(left)];
        let (mut done, mut changed) = (0, 0);
        while done < bytes.len() {
            let at = position as usize + done;
            let (number, from) = (at / PAGE, at % PAGE);
            let part = &bytes[done..bytes.len().min(done + PAGE - from)];
            let place = from..from + part.len();
            let old = &bytes_of(&self.live[number])[place.clone()];
            changed += old.iter().zip(part).filter(|(old, new)| old != new).count() as u64;
            for pages in [&mut self.live, &mut self.durable] {
                if let Some(page) = pages.get_mut(number) {
                    let mut bytes = *bytes_of(page);
                    bytes[place.clone()].copy_from_slice(part);
                    *page = page_of(&bytes);
                }
            }
            done += part.len();
        }
        changed
    }

    /// The platter after the power came back, and how many pages differ from what programs had seen.
    pub(crate) fn crash(&self, chooser: &mut dyn Chooser) -> (Content, u64) {
        let cuts = if self.cuts == 0 {
            0
        } else {
            chooser.choose(self.cuts + 1)
        };
        let mut lens = Vec::new();
        if cuts == 0 {
            lens.push(self.durable_len);
        }
        lens.extend(
            self.lens
                .iter()
                .filter(|(before, _)| *before == cuts)
                .map(|(_, len)| *len),
        );
        lens.dedup();
        let len = if lens.len() == 1 {
            lens[0]
        } else {
            lens[chooser.choose(lens.len() as u32) as usize]
        };

        let mut after = self.durable.clone();
        after.resize(after.len().max(self.live.len()).max(pages(len)), None);
        for (number, versions) in &self.pending {
            if *number < pages(len) {
                after[*number] = crashed_page(&after[*number], versions, cuts, chooser);
            }
        }
        after.truncate(pages(len));
        let inside = (len % PAGE as u64) as usize;
        if inside != 0
            && let Some(last) = after.last_mut()
        {
            let mut bytes = *bytes_of(last);
            bytes[inside..].fill(0);
            *last = page_of(&bytes);
        }
        let differs = |number: &usize| match (after.get(*number), self.live.get(*number)) {
            (Some(a), Some(b)) => bytes_of(a) != bytes_of(b),
            (None, None) => false,
            _ => true,
        };
        let lost = (0..after.len().max(self.live.len()))
            .filter(differs)
            .count() as u64;
        let survived = Content {
            live: after.clone(),
            live_len: len,
            durable: after,
            durable_len: len,
            ..Content::default()
        };
        (survived, lost)
    }
}

fn crashed_page(
    durable: &Page,
    versions: &[Version],
    cuts: u32,
    chooser: &mut dyn Chooser,
) -> Page {
    let mut states = vec![durable.clone()];
    for version in versions.iter().filter(|version| version.cuts <= cuts) {
        if version.by_cut {
            states.clear();
        }
        states.push(version.page.clone());
    }
    let pick = if states.len() == 1 {
        0
    } else {
        chooser.choose(states.len() as u32) as usize
    };
    if pick == 0 {
        return states[0].clone();
    }
    let kept = chooser.tear();
    if kept == u8::MAX {
        return states[pick].clone();
    }
    let mut bytes = *bytes_of(&states[0]);
    for sector in (0..PAGE / SECTOR).filter(|sector| kept >> sector & 1 == 1) {
        let range = sector * SECTOR..(sector + 1) * SECTOR;
        bytes[range.clone()].copy_from_slice(&bytes_of(&states[pick])[range]);
    }
    page_of(&bytes)
}
