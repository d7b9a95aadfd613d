//! Files and directories of a simulated machine, with the faults of [`Faults`](super::Faults).
//!
//! A handle belongs to one life of the machine: after a power cut or kill it answers errors.

use std::collections::BTreeMap;
use std::io::{self, ErrorKind, IoSlice};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use parking_lot::Mutex;

use super::content::PAGE;
use super::trace::{self, Event};
use super::volume::ROOT;
use super::world::{SharedWorld, World, io_error};
use crate::disk::{Dir, Disk, Entry, File, FileHandle, Lock, Open, Space};

pub(crate) struct SimDisk {
    pub(crate) shared: SharedWorld,
    pub(crate) boot: u64,
    /// Directories of which a sync of the volume was asked, each with the losses that it was told of.
    pub(crate) volumes: Mutex<BTreeMap<PathBuf, u64>>,
}

/// The largest position a simulated file may reach; beyond it a length is a bug of the caller.
const FILE_BYTES_MAX: u64 = 1 << 32;

impl SimDisk {
    /// Performs a change of names and notes it.
    fn names(
        &self,
        path: &Path,
        to: &Path,
        change: impl FnOnce(&mut World) -> io::Result<()>,
    ) -> io::Result<()> {
        let mut world = self.shared.world.lock();
        world.disk_op(self.boot, true)?;
        let done = change(&mut world);
        let (path, to) = (path.to_string_lossy(), to.to_string_lossy());
        world.note(&Event::Names {
            path: &path,
            to: &to,
            ok: done.is_ok(),
        });
        done
    }

    fn look<T>(&self, look: impl FnOnce(&World) -> io::Result<T>) -> io::Result<T> {
        let mut world = self.shared.world.lock();
        world.disk_op(self.boot, false)?;
        look(&world)
    }
}

fn open(world: &mut World, path: &Path, how: Open) -> io::Result<u64> {
    world.take_descriptor()?;
    let Some(node) = world.volume.find(path)? else {
        if matches!(how, Open::Read | Open::Write) {
            return Err(ErrorKind::NotFound.into());
        }
        if world.is_full_with(PAGE as u64) {
            world.counts.writes_refused_full += 1;
            return Err(ErrorKind::StorageFull.into());
        }
        let node = world.volume.create_file(path)?;
        touch(world, node);
        return Ok(node);
    };
    match how {
        Open::CreateNew => return Err(ErrorKind::AlreadyExists.into()),
        Open::Truncate => {
            world.volume.file_mut(node)?.set_len(0);
            touch(world, node);
        }
        Open::Read | Open::Write | Open::Create => {}
    }
    world.volume.file(node)?;
    Ok(node)
}

/// A file changes now.
fn touch(world: &mut World, node: u64) {
    let now = world.wall_ms();
    world.volume.set_modified_ms(node, now);
}

fn sync_dir(world: &mut World, boot: u64, node: u64) -> io::Result<()> {
    let fails = world.sync_op(boot)?;
    world.note(&Event::Sync { node, ok: !fails });
    if fails {
        // Unlike pages, names are journalled: a later sync may still cover them.
        return Err(io_error());
    }
    if world.faults.syncs_lie {
        Ok(())
    } else {
        world.volume.sync_dir(node)
    }
}

struct SimDir {
    shared: SharedWorld,
    boot: u64,
    node: u64,
}

impl Dir for SimDir {
    fn sync(&self) -> io::Result<()> {
        sync_dir(&mut self.shared.world.lock(), self.boot, self.node)
    }
}

impl Disk for SimDisk {
    fn open(&self, path: &Path, how: Open) -> io::Result<FileHandle> {
        let mut world = self.shared.world.lock();
        world.disk_op(self.boot, !matches!(how, Open::Read | Open::Write))?;
        let node = open(&mut world, path, how);
        world.note(&Event::Open {
            path: &path.to_string_lossy(),
            ok: node.is_ok(),
        });
        let (shared, node) = (self.shared.clone(), node?);
        *world.held.entry(node).or_default() += 1;
        let losses = world.volume.file(node)?.losses();
        Ok(Arc::new(SimFile {
            shared,
            boot: self.boot,
            node,
            writable: how != Open::Read,
            losses_told: AtomicU64::new(losses),
        }))
    }

    fn create_dir_all(&self, path: &Path) -> io::Result<()> {
        self.names(path, Path::new("create"), |world| {
            world.volume.create_dir_all(path)
        })
    }

    fn read_dir(&self, path: &Path) -> io::Result<Vec<Entry>> {
        self.shared.world.lock().take_descriptor()?;
        self.look(|world| world.volume.list(path))
    }

    fn exists(&self, path: &Path) -> io::Result<bool> {
        self.look(|world| Ok(world.volume.find(path)?.is_some()))
    }

    fn modified_ms(&self, path: &Path) -> io::Result<i64> {
        self.look(|world| world.volume.modified_ms(path))
    }

    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        self.names(from, to, |world| {
            world.find_room_for_name()?;
            world.volume.rename(from, to)
        })
    }

    fn remove_file(&self, path: &Path) -> io::Result<()> {
        self.names(path, Path::new("remove"), |world| {
            world.find_room_for_name()?;
            world.volume.remove_file(path)
        })
    }

    fn remove_dir_all(&self, path: &Path) -> io::Result<()> {
        self.names(path, Path::new("remove all"), |world| {
            world.take_descriptor()?;
            world.volume.remove_dir_all(path)
        })
    }

    fn open_dir(&self, path: &Path) -> io::Result<Box<dyn Dir>> {
        let mut world = self.shared.world.lock();
        world.disk_op(self.boot, false)?;
        world.take_descriptor()?;
        Ok(Box::new(SimDir {
            shared: self.shared.clone(),
            boot: self.boot,
            node: world.volume.existing(path)?,
        }))
    }

    fn sync_dir(&self, path: &Path) -> io::Result<()> {
        let mut world = self.shared.world.lock();
        world.take_descriptor()?;
        let node = world.volume.existing(path)?;
        sync_dir(&mut world, self.boot, node)
    }

    fn watch_volume(&self, path: &Path) -> io::Result<()> {
        let world = self.shared.world.lock();
        world.check_on(self.boot)?;
        let mut volumes = self.volumes.lock();
        volumes
            .entry(path.to_owned())
            .or_insert_with(|| world.volume.losses());
        Ok(())
    }

    fn sync_volume(&self, path: &Path) -> io::Result<()> {
        let mut world = self.shared.world.lock();
        let mut volumes = self.volumes.lock();
        let told = volumes.entry(path.to_owned());
        let told = told.or_insert_with(|| world.volume.losses());
        let fails = world.sync_op(self.boot)?;
        world.note(&Event::Sync {
            node: ROOT,
            ok: !fails,
        });
        let lies = world.faults.syncs_lie;
        let World { volume, chance, .. } = &mut *world;
        if fails {
            volume.fail_sync_all(chance);
        } else if !lies {
            volume.sync_all();
        }
        let losses = volume.losses();
        match std::mem::replace(told, losses) == losses {
            true => Ok(()),
            false => Err(io_error()),
        }
    }

    fn lock(&self, path: &Path) -> io::Result<Box<dyn Lock>> {
        let mut world = self.shared.world.lock();
        world.disk_op(self.boot, true)?;
        open(&mut world, path, Open::Create)?;
        if !world.locks.insert(path.to_owned()) {
            return Err(ErrorKind::WouldBlock.into());
        }
        Ok(Box::new(SimLock {
            shared: self.shared.clone(),
            boot: self.boot,
            path: path.to_owned(),
        }))
    }

    fn space(&self, _: &Path) -> io::Result<Space> {
        self.look(|world| {
            let total = world.faults.disk_bytes;
            Ok(Space {
                total,
                available: total.saturating_sub(world.volume.taken()),
            })
        })
    }
}

struct SimLock {
    shared: SharedWorld,
    boot: u64,
    path: PathBuf,
}

impl Lock for SimLock {}

impl Drop for SimLock {
    fn drop(&mut self) {
        let mut world = self.shared.world.lock();
        // A lock of an earlier life ended with it; the path may be held again since.
        if world.boot == self.boot {
            world.locks.remove(&self.path);
        }
    }
}

struct SimFile {
    shared: SharedWorld,
    boot: u64,
    node: u64,
    writable: bool,
    /// Losses of pages that a sync of this descriptor, or who opened it, has told.
    losses_told: AtomicU64,
}

impl Drop for SimFile {
    fn drop(&mut self) {
        let mut world = self.shared.world.lock();
        // Those of an earlier life ended with it.
        if world.boot == self.boot
            && let Some(handles) = world.held.get_mut(&self.node)
        {
            *handles -= 1;
            if *handles == 0 {
                world.held.remove(&self.node);
            }
        }
    }
}

impl SimFile {
    fn check_writable(&self) -> io::Result<()> {
        if self.writable {
            Ok(())
        } else {
            Err(ErrorKind::PermissionDenied.into())
        }
    }
}

impl File for SimFile {
    fn read_at(&self, buf: &mut [u8], position: u64) -> io::Result<usize> {
        let mut world = self.shared.world.lock();
        world.disk_op(self.boot, false)?;
        world.counts.reads += 1;
        let end = position.saturating_add(buf.len() as u64);
        let overlaps = |bad: &&super::world::BadRange| {
            bad.node == self.node && position < bad.range.end && bad.range.start < end
        };
        let bad = world.bad.iter().filter(overlaps);
        let readable_to = bad.map(|bad| bad.range.start).min().unwrap_or(end);
        if readable_to <= position && position < end {
            world.counts.reads_failed += 1;
            world.note(&Event::Read {
                node: self.node,
                position,
                len: 0,
                ok: false,
            });
            return Err(io_error());
        }
        // As Linux does: what comes before is given.
        let mut len = (readable_to - position) as usize;
        if world.faults.short_io && len > 1 && world.chance.one_in(64) {
            len = world.chance.between(1, len as u64) as usize;
        }
        let read = world
            .volume
            .file(self.node)?
            .read(&mut buf[..len], position);
        world.note(&Event::Read {
            node: self.node,
            position,
            len: read,
            ok: true,
        });
        Ok(read)
    }

    fn write_at(&self, bufs: &[IoSlice<'_>], position: u64) -> io::Result<()> {
        self.check_writable()?;
        let mut world = self.shared.world.lock();
        world.disk_op(self.boot, true)?;
        world.counts.writes += 1;
        world.now += 2_000;
        let len: usize = bufs.iter().map(|buf| buf.len()).sum();
        let done = write(&mut world, self.node, bufs, len, position);
        let content = trace::content(bufs.iter().map(|buf| &**buf));
        world.note(&Event::Write {
            node: self.node,
            position,
            len,
            content,
            ok: done.is_ok(),
        });
        done
    }

    fn sync_data(&self) -> io::Result<()> {
        let mut world = self.shared.world.lock();
        let fails = world.sync_op(self.boot)?;
        world.note(&Event::Sync {
            node: self.node,
            ok: !fails,
        });
        let lies = world.faults.syncs_lie;
        let World { volume, chance, .. } = &mut *world;
        if fails {
            volume.fail_sync(self.node, chance)?;
        }
        let content = volume.file_mut(self.node)?;
        if !fails && !lies {
            content.sync();
        }
        let losses = content.losses();
        match self.losses_told.swap(losses, Ordering::Relaxed) == losses {
            true => Ok(()),
            false => Err(io_error()),
        }
    }

    fn len(&self) -> io::Result<u64> {
        let world = self.shared.world.lock();
        world.check_on(self.boot)?;
        Ok(world.volume.file(self.node)?.len())
    }

    fn set_len(&self, len: u64) -> io::Result<()> {
        self.check_writable()?;
        let mut world = self.shared.world.lock();
        world.disk_op(self.boot, true)?;
        if len > FILE_BYTES_MAX {
            return Err(ErrorKind::FileTooLarge.into());
        }
        world.volume.file_mut(self.node)?.set_len(len);
        touch(&mut world, self.node);
        world.note(&Event::SetLen {
            node: self.node,
            len,
            ok: true,
        });
        Ok(())
    }

    fn set_modified_ms(&self, ms: i64) -> io::Result<()> {
        self.check_writable()?;
        let mut world = self.shared.world.lock();
        world.disk_op(self.boot, true)?;
        world.volume.file(self.node)?;
        world.volume.set_modified_ms(self.node, ms);
        Ok(())
    }

    fn allocate(&self, position: u64, len: u64) -> io::Result<()> {
        self.check_writable()?;
        let mut world = self.shared.world.lock();
        world.disk_op(self.boot, true)?;
        // Blocks of a gap before `position` count too: close enough, nobody reserves behind one.
        let end = position.saturating_add(len);
        let more = end.saturating_sub(world.volume.file(self.node)?.taken());
        if world.is_full_with(more) {
            world.counts.writes_refused_full += 1;
            return Err(ErrorKind::StorageFull.into());
        }
        world.volume.file_mut(self.node)?.reserve(end);
        Ok(())
    }

    fn trim(&self) -> io::Result<()> {
        self.check_writable()?;
        let mut world = self.shared.world.lock();
        world.disk_op(self.boot, true)?;
        world.volume.file_mut(self.node)?.trim();
        Ok(())
    }

    fn start_writeback(&self, _: u64, _: u64) {
        // A crash may find any version of a page on the platter as it is.
    }

    fn bring_in(&self, _: u64, _: u64) {}

    fn drop_cache(&self, position: u64, len: u64) {
        let mut world = self.shared.world.lock();
        if world.check_on(self.boot).is_ok()
            && let Ok(content) = world.volume.file_mut(self.node)
        {
            content.drop_cache(position, len);
        }
    }

    #[cfg(unix)]
    fn raw_fd(&self) -> Option<std::os::fd::RawFd> {
        None
    }
}

fn write(
    world: &mut World,
    node: u64,
    bufs: &[IoSlice<'_>],
    len: usize,
    position: u64,
) -> io::Result<()> {
    let end = position.saturating_add(len as u64);
    if end > FILE_BYTES_MAX {
        return Err(ErrorKind::FileTooLarge.into());
    }
    let file = world.volume.file(node)?;
    let more = file.taken_with(end) - file.taken();
    if more > 0 && world.is_full_with(more) {
        world.counts.writes_refused_full += 1;
        // As many bytes as fit the pages already ours get written before the error.
        let fits = (file_end(world, node)?.saturating_sub(position) as usize).min(len);
        put(world, node, bufs, fits, position)?;
        return Err(ErrorKind::StorageFull.into());
    }
    if world.faults.write_fails_at == Some(world.counts.writes) {
        world.counts.writes_failed += 1;
        let some = world.chance.below(len as u64 + 1) as usize;
        put(world, node, bufs, some, position)?;
        return Err(io_error());
    }
    let mut position = position;
    if world.faults.misdirect_write_at == Some(world.counts.writes) {
        let pages = world.volume.file(node)?.len() / PAGE as u64;
        if pages > 0 {
            world.counts.writes_misdirected += 1;
            // Lands on another page of the same file; the bytes within the page keep their place.
            let page = world.chance.below(pages);
            let moved = page * PAGE as u64 + position % PAGE as u64;
            world.note(&Event::Fault {
                name: "misdirected write",
            });
            position = moved;
        }
    }
    put(world, node, bufs, len, position)
}

fn file_end(world: &World, node: u64) -> io::Result<u64> {
    Ok(world.volume.file(node)?.len().div_ceil(PAGE as u64) * PAGE as u64)
}

fn put(
    world: &mut World,
    node: u64,
    bufs: &[IoSlice<'_>],
    len: usize,
    mut position: u64,
) -> io::Result<()> {
    touch(world, node);
    let file = world.volume.file_mut(node)?;
    let mut left = len;
    // One version per call, as the page cache sees it: neighbours in one buffer are joined first.
    if let [only] = bufs {
        file.write(&only[..left], position);
        return Ok(());
    }
    let mut joined = Vec::with_capacity(left);
    for buf in bufs {
        let part = &buf[..buf.len().min(left)];
        left -= part.len();
        joined.extend_from_slice(part);
    }
    file.write(&joined, position);
    position += joined.len() as u64;
    debug_assert!(position <= FILE_BYTES_MAX);
    Ok(())
}
