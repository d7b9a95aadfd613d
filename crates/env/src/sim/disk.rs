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
use super::host::{BadRange, Host, HostId, Life};
use super::trace::{self, Event};
use super::volume::ROOT;
use super::world::{SharedWorld, World, io_error};
use crate::disk::{Dir, Disk, Entry, File, FileHandle, Lock, Open, Space};

pub(crate) struct SimDisk {
    pub(crate) shared: SharedWorld,
    pub(crate) life: Life,
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
        world.disk_op(self.life, true)?;
        let done = change(&mut world);
        let (path, to) = (path.to_string_lossy(), to.to_string_lossy());
        world.note(&Event::Names {
            path: &path,
            to: &to,
            ok: done.is_ok(),
        });
        done
    }

    fn look<T>(&self, look: impl FnOnce(&Host) -> io::Result<T>) -> io::Result<T> {
        let mut world = self.shared.world.lock();
        world.disk_op(self.life, false)?;
        look(world.host(self.life.host))
    }
}

fn open(world: &mut World, on: HostId, path: &Path, how: Open) -> io::Result<u64> {
    world.take_descriptor(on)?;
    let host = world.host_mut(on);
    let Some(node) = host.volume.find(path)? else {
        if matches!(how, Open::Read | Open::Write) {
            return Err(ErrorKind::NotFound.into());
        }
        if host.is_full_with(PAGE as u64) {
            host.counts.writes_refused_full += 1;
            return Err(ErrorKind::StorageFull.into());
        }
        let node = host.volume.create_file(path)?;
        touch(world, on, node);
        return Ok(node);
    };
    match how {
        Open::CreateNew => return Err(ErrorKind::AlreadyExists.into()),
        Open::Truncate => {
            host.volume.file_mut(node)?.set_len(0);
            touch(world, on, node);
        }
        Open::Read | Open::Write | Open::Create => {}
    }
    world.host(on).volume.file(node)?;
    Ok(node)
}

/// A file changes now.
fn touch(world: &mut World, on: HostId, node: u64) {
    let now = world.wall_ms(on);
    world.host_mut(on).volume.set_modified_ms(node, now);
}

fn sync_dir(world: &mut World, life: Life, node: u64) -> io::Result<()> {
    let fails = world.sync_op(life)?;
    world.note_on(life.host, &Event::Sync { node, ok: !fails });
    if fails {
        // Unlike pages, names are journalled: a later sync may still cover them.
        return Err(io_error());
    }
    let host = world.host_mut(life.host);
    if host.faults.syncs_lie {
        Ok(())
    } else {
        host.volume.sync_dir(node)
    }
}

struct SimDir {
    shared: SharedWorld,
    life: Life,
    node: u64,
}

impl Dir for SimDir {
    fn sync(&self) -> io::Result<()> {
        sync_dir(&mut self.shared.world.lock(), self.life, self.node)
    }
}

impl Disk for SimDisk {
    fn open(&self, path: &Path, how: Open) -> io::Result<FileHandle> {
        let mut world = self.shared.world.lock();
        world.disk_op(self.life, !matches!(how, Open::Read | Open::Write))?;
        let on = self.life.host;
        let node = open(&mut world, on, path, how);
        let event = Event::Open {
            path: &path.to_string_lossy(),
            ok: node.is_ok(),
        };
        world.note_on(on, &event);
        let (shared, node) = (self.shared.clone(), node?);
        let host = world.host_mut(on);
        *host.held.entry(node).or_default() += 1;
        let losses = host.volume.file(node)?.losses();
        Ok(Arc::new(SimFile {
            shared,
            life: self.life,
            node,
            writable: how != Open::Read,
            losses_told: AtomicU64::new(losses),
        }))
    }

    fn create_dir_all(&self, path: &Path) -> io::Result<()> {
        self.names(path, Path::new("create"), |world| {
            world.host_mut(self.life.host).volume.create_dir_all(path)
        })
    }

    fn read_dir(&self, path: &Path) -> io::Result<Vec<Entry>> {
        let on = self.life.host;
        self.shared.world.lock().take_descriptor(on)?;
        self.look(|host| host.volume.list(path))
    }

    fn exists(&self, path: &Path) -> io::Result<bool> {
        self.look(|host| Ok(host.volume.find(path)?.is_some()))
    }

    fn is_private(&self, _: &Path) -> io::Result<bool> {
        Ok(true)
    }

    fn modified_ms(&self, path: &Path) -> io::Result<i64> {
        self.look(|host| host.volume.modified_ms(path))
    }

    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        self.names(from, to, |world| {
            world.find_room_for_name(self.life.host)?;
            let host = world.host_mut(self.life.host);
            if host.volume.list(from).is_ok() {
                host.check_closed(from)?;
            }
            host.volume.rename(from, to)
        })
    }

    fn remove_file(&self, path: &Path) -> io::Result<()> {
        self.names(path, Path::new("remove"), |world| {
            world.find_room_for_name(self.life.host)?;
            let host = world.host_mut(self.life.host);
            host.check_closed(path)?;
            host.volume.remove_file(path)
        })
    }

    fn remove_dir_all(&self, path: &Path) -> io::Result<()> {
        self.names(path, Path::new("remove all"), |world| {
            world.take_descriptor(self.life.host)?;
            let host = world.host_mut(self.life.host);
            host.check_closed(path)?;
            host.volume.remove_dir_all(path)
        })
    }

    fn open_dir(&self, path: &Path) -> io::Result<Box<dyn Dir>> {
        let mut world = self.shared.world.lock();
        world.disk_op(self.life, false)?;
        world.take_descriptor(self.life.host)?;
        Ok(Box::new(SimDir {
            shared: self.shared.clone(),
            life: self.life,
            node: world.host(self.life.host).volume.existing(path)?,
        }))
    }

    fn sync_dir(&self, path: &Path) -> io::Result<()> {
        let mut world = self.shared.world.lock();
        world.take_descriptor(self.life.host)?;
        let node = world.host(self.life.host).volume.existing(path)?;
        sync_dir(&mut world, self.life, node)
    }

    fn watch_volume(&self, path: &Path) -> io::Result<()> {
        let world = self.shared.world.lock();
        world.check_on(self.life)?;
        let mut volumes = self.volumes.lock();
        volumes
            .entry(path.to_owned())
            .or_insert_with(|| world.host(self.life.host).volume.losses());
        Ok(())
    }

    fn sync_volume(&self, path: &Path) -> io::Result<()> {
        let mut world = self.shared.world.lock();
        let mut volumes = self.volumes.lock();
        let told = volumes.entry(path.to_owned());
        let told = told.or_insert_with(|| world.host(self.life.host).volume.losses());
        let fails = world.sync_op(self.life)?;
        let event = Event::Sync {
            node: ROOT,
            ok: !fails,
        };
        world.note_on(self.life.host, &event);
        if fails {
            let World { hosts, chance, .. } = &mut *world;
            hosts[self.life.host.index()].volume.fail_sync_all(chance);
        } else if !world.host(self.life.host).faults.syncs_lie {
            let end = world.syncs_alone_until();
            world.host_mut(self.life.host).sync_all(end);
        }
        let losses = world.host(self.life.host).volume.losses();
        if std::mem::replace(told, losses) == losses {
            Ok(())
        } else {
            Err(io_error())
        }
    }

    fn lock(&self, path: &Path) -> io::Result<Box<dyn Lock>> {
        let mut world = self.shared.world.lock();
        world.disk_op(self.life, true)?;
        open(&mut world, self.life.host, path, Open::Create)?;
        let host = world.host_mut(self.life.host);
        if !host.locks.insert(path.to_owned()) {
            return Err(ErrorKind::WouldBlock.into());
        }
        Ok(Box::new(SimLock {
            shared: self.shared.clone(),
            life: self.life,
            path: path.to_owned(),
        }))
    }

    fn space(&self, _: &Path) -> io::Result<Space> {
        self.look(|host| {
            let total = host.faults.disk_bytes;
            Ok(Space {
                total,
                available: total.saturating_sub(host.volume.taken()),
            })
        })
    }
}

struct SimLock {
    shared: SharedWorld,
    life: Life,
    path: PathBuf,
}

impl Lock for SimLock {}

impl Drop for SimLock {
    fn drop(&mut self) {
        let mut world = self.shared.world.lock();
        // A lock of an earlier life ended with it; the path may be held again since.
        let host = world.host_mut(self.life.host);
        if host.boot == self.life.boot {
            host.locks.remove(&self.path);
        }
    }
}

struct SimFile {
    shared: SharedWorld,
    life: Life,
    node: u64,
    writable: bool,
    /// Losses of pages that a sync of this descriptor, or who opened it, has told.
    losses_told: AtomicU64,
}

impl Drop for SimFile {
    fn drop(&mut self) {
        let mut world = self.shared.world.lock();
        // Those of an earlier life ended with it.
        let host = world.host_mut(self.life.host);
        if host.boot == self.life.boot
            && let Some(handles) = host.held.get_mut(&self.node)
        {
            *handles -= 1;
            if *handles == 0 {
                host.held.remove(&self.node);
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
        world.disk_op(self.life, false)?;
        let host = &mut world.hosts[self.life.host.index()];
        host.counts.reads += 1;
        let end = position.saturating_add(buf.len() as u64);
        let overlaps = |bad: &&BadRange| {
            bad.node == self.node && position < bad.range.end && bad.range.start < end
        };
        let bad = host.bad.iter().filter(overlaps);
        let readable_to = bad.map(|bad| bad.range.start).min().unwrap_or(end);
        if readable_to <= position && position < end {
            host.counts.reads_failed += 1;
            let event = Event::Read {
                node: self.node,
                position,
                len: 0,
                ok: false,
            };
            world.note_on(self.life.host, &event);
            return Err(io_error());
        }
        // As Linux does: what comes before is given.
        let mut len = (readable_to - position) as usize;
        if host.faults.short_io && len > 1 && world.chance.one_in(64) {
            len = world.chance.between(1, len as u64) as usize;
        }
        let file = world.host(self.life.host).volume.file(self.node)?;
        let read = file.read(&mut buf[..len], position);
        let event = Event::Read {
            node: self.node,
            position,
            len: read,
            ok: true,
        };
        world.note_on(self.life.host, &event);
        Ok(read)
    }

    fn write_at(&self, bufs: &[IoSlice<'_>], position: u64) -> io::Result<()> {
        self.check_writable()?;
        let mut world = self.shared.world.lock();
        world.disk_op(self.life, true)?;
        world.host_mut(self.life.host).counts.writes += 1;
        world.now += 2_000;
        let len: usize = bufs.iter().map(|buf| buf.len()).sum();
        let done = write(&mut world, self.life.host, self.node, bufs, position);
        let content = trace::content(bufs.iter().map(|buf| &**buf));
        let event = Event::Write {
            node: self.node,
            position,
            len,
            content,
            ok: done.is_ok(),
        };
        world.note_on(self.life.host, &event);
        let beside = world.host(self.life.host).beside_writes.clone();
        drop(world);
        if let Some(act) = beside {
            act();
        }
        done
    }

    fn sync_data(&self) -> io::Result<()> {
        let mut world = self.shared.world.lock();
        let fails = world.sync_op(self.life)?;
        let event = Event::Sync {
            node: self.node,
            ok: !fails,
        };
        world.note_on(self.life.host, &event);
        let end = world.syncs_alone_until();
        let World { hosts, chance, .. } = &mut *world;
        let host = &mut hosts[self.life.host.index()];
        if fails {
            host.volume.fail_sync(self.node, chance)?;
        } else if !host.faults.syncs_lie {
            host.sync_file(self.node, end)?;
        }
        let losses = host.volume.file(self.node)?.losses();
        if self.losses_told.swap(losses, Ordering::Relaxed) == losses {
            Ok(())
        } else {
            Err(io_error())
        }
    }

    fn len(&self) -> io::Result<u64> {
        let world = self.shared.world.lock();
        world.check_on(self.life)?;
        Ok(world.host(self.life.host).volume.file(self.node)?.len())
    }

    fn set_len(&self, len: u64) -> io::Result<()> {
        self.check_writable()?;
        let mut world = self.shared.world.lock();
        world.disk_op(self.life, true)?;
        if len > FILE_BYTES_MAX {
            return Err(ErrorKind::FileTooLarge.into());
        }
        let on = self.life.host;
        world.host_mut(on).volume.file_mut(self.node)?.set_len(len);
        touch(&mut world, on, self.node);
        let event = Event::SetLen {
            node: self.node,
            len,
            ok: true,
        };
        world.note_on(on, &event);
        Ok(())
    }

    fn set_modified_ms(&self, ms: i64) -> io::Result<()> {
        self.check_writable()?;
        let mut world = self.shared.world.lock();
        world.disk_op(self.life, true)?;
        let volume = &mut world.host_mut(self.life.host).volume;
        volume.file(self.node)?;
        volume.set_modified_ms(self.node, ms);
        Ok(())
    }

    fn allocate(&self, position: u64, len: u64) -> io::Result<()> {
        self.check_writable()?;
        let mut world = self.shared.world.lock();
        world.disk_op(self.life, true)?;
        // Blocks of a gap before `position` count too: close enough, nobody reserves behind one.
        let end = position.saturating_add(len);
        let host = world.host_mut(self.life.host);
        let more = end.saturating_sub(host.volume.file(self.node)?.taken());
        if host.is_full_with(more) {
            host.counts.writes_refused_full += 1;
            return Err(ErrorKind::StorageFull.into());
        }
        host.volume.file_mut(self.node)?.reserve(end);
        Ok(())
    }

    fn trim(&self) -> io::Result<()> {
        self.check_writable()?;
        let mut world = self.shared.world.lock();
        world.disk_op(self.life, true)?;
        let volume = &mut world.host_mut(self.life.host).volume;
        volume.file_mut(self.node)?.trim();
        Ok(())
    }

    fn start_writeback(&self, _: u64, _: u64) {
        // A crash may find any version of a page on the platter as it is.
    }

    fn bring_in(&self, _: u64, _: u64) {}

    fn drop_cache(&self, position: u64, len: u64) {
        let mut world = self.shared.world.lock();
        if world.check_on(self.life).is_ok()
            && let Ok(content) = world.host_mut(self.life.host).volume.file_mut(self.node)
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
    on: HostId,
    node: u64,
    bufs: &[IoSlice<'_>],
    position: u64,
) -> io::Result<()> {
    let len: usize = bufs.iter().map(|buf| buf.len()).sum();
    let end = position.saturating_add(len as u64);
    if end > FILE_BYTES_MAX {
        return Err(ErrorKind::FileTooLarge.into());
    }
    let host = &mut world.hosts[on.index()];
    let file = host.volume.file(node)?;
    let more = file.taken_with(end) - file.taken();
    if more > 0 && host.is_full_with(more) {
        host.counts.writes_refused_full += 1;
        // As many bytes as fit the pages already ours get written before the error.
        let fits = (file_end(host, node)?.saturating_sub(position) as usize).min(len);
        put(world, on, node, &cut(bufs, fits), position)?;
        return Err(ErrorKind::StorageFull.into());
    }
    if host.faults.write_fails_at == Some(host.counts.writes) {
        host.counts.writes_failed += 1;
        let some = world.chance.below(len as u64 + 1) as usize;
        put(world, on, node, &cut(bufs, some), position)?;
        return Err(io_error());
    }
    let mut position = position;
    if host.faults.misdirect_write_at == Some(host.counts.writes) {
        let pages = host.volume.file(node)?.len() / PAGE as u64;
        if pages > 0 {
            host.counts.writes_misdirected += 1;
            // Lands on another page of the same file; the bytes within the page keep their place.
            let page = world.chance.below(pages);
            let moved = page * PAGE as u64 + position % PAGE as u64;
            let name = "misdirected write";
            world.note_on(on, &Event::Fault { name });
            position = moved;
        }
    }
    match bufs {
        [only] => put(world, on, node, only, position),
        many => put(world, on, node, &cut(many, len), position),
    }
}

fn file_end(host: &Host, node: u64) -> io::Result<u64> {
    Ok(host.volume.file(node)?.len().div_ceil(PAGE as u64) * PAGE as u64)
}

/// The first `len` bytes of all, in one piece.
fn cut(bufs: &[IoSlice<'_>], len: usize) -> Vec<u8> {
    let mut joined = Vec::with_capacity(len);
    for buf in bufs {
        joined.extend_from_slice(&buf[..buf.len().min(len - joined.len())]);
    }
    joined
}

/// One version per call, as the page cache sees it.
fn put(world: &mut World, on: HostId, node: u64, bytes: &[u8], position: u64) -> io::Result<()> {
    touch(world, on, node);
    world
        .host_mut(on)
        .volume
        .file_mut(node)?
        .write(bytes, position);
    Ok(())
}
