//! A disk with a cache of its own that it loses with its power, one block after the other or a part of one.
//!
//! A file system in user space with one file, which a loop device makes a disk: what is written stays in the cache until the kernel
//! flushes the device (FUSE's FSYNC), and only then survives. Speaks FUSE itself, so that root and `mount` are all it needs.
//! Invariant: the backing file changes by a flush or by a loss of power alone.

use std::collections::BTreeMap;
use std::fs::{File, OpenOptions};
use std::io::{self, Read, Write};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;

use crate::kills::Moments;

/// Written and lost as one, unless it tears.
const BLOCK: usize = 4096;
const SECTOR: usize = 512;
/// How long a flush takes; what is written meanwhile is in the cache when the power goes.
const FLUSH_TAKES: Duration = Duration::from_millis(15);
const NAME: &str = "disk";
const REQUEST_BYTES_MAX: usize = 1 << 20;
const ROOT: u64 = 1;
const DISK: u64 = 2;

const LOOKUP: u32 = 1;
const FORGET: u32 = 2;
const GETATTR: u32 = 3;
const OPEN: u32 = 14;
const READ: u32 = 15;
const WRITE: u32 = 16;
const STATFS: u32 = 17;
const RELEASE: u32 = 18;
const FSYNC: u32 = 20;
const FLUSH: u32 = 25;
const INIT: u32 = 26;
const INTERRUPT: u32 = 36;
const BATCH_FORGET: u32 = 42;
const ENOENT: i32 = 2;
const EIO: i32 = 5;
const ENOSYS: i32 = 38;

/// The blocks that were in the cache when the power went, by their fate.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Lost {
    pub(crate) kept: usize,
    pub(crate) dropped: usize,
    /// Of these a first part is there.
    pub(crate) torn: usize,
}

pub(crate) struct Device {
    place: PathBuf,
    state: Arc<Mutex<State>>,
}

struct State {
    backing: File,
    bytes: u64,
    cache: BTreeMap<u64, Vec<u8>>,
    /// Without power every request fails.
    is_on: bool,
    moments: Moments,
    lost: Lost,
}

impl State {
    /// The block as who reads the device sees it.
    fn block(&self, number: u64) -> io::Result<Vec<u8>> {
        if let Some(cached) = self.cache.get(&number) {
            return Ok(cached.clone());
        }
        let mut block = vec![0; BLOCK];
        self.backing
            .read_exact_at(&mut block, number * BLOCK as u64)?;
        Ok(block)
    }

    fn read(&self, offset: u64, size: usize) -> io::Result<Vec<u8>> {
        let end = (offset + size as u64).min(self.bytes);
        let mut out = Vec::new();
        let mut at = offset;
        while at < end {
            let (number, skip) = (at / BLOCK as u64, (at % BLOCK as u64) as usize);
            let take = (BLOCK - skip).min((end - at) as usize);
            out.extend_from_slice(&self.block(number)?[skip..skip + take]);
            at += take as u64;
        }
        Ok(out)
    }

    fn write(&mut self, offset: u64, mut bytes: &[u8]) -> io::Result<()> {
        let mut at = offset;
        while !bytes.is_empty() {
            let (number, skip) = (at / BLOCK as u64, (at % BLOCK as u64) as usize);
            let take = (BLOCK - skip).min(bytes.len());
            let mut block = self.block(number)?;
            block[skip..skip + take].copy_from_slice(&bytes[..take]);
            self.cache.insert(number, block);
            (bytes, at) = (&bytes[take..], at + take as u64);
        }
        Ok(())
    }

    fn flush(&mut self) -> io::Result<()> {
        for (number, block) in std::mem::take(&mut self.cache) {
            self.backing.write_all_at(&block, number * BLOCK as u64)?;
        }
        Ok(())
    }

    fn lose_power(&mut self) -> io::Result<()> {
        self.is_on = false;
        for (number, block) in std::mem::take(&mut self.cache) {
            let at = number * BLOCK as u64;
            let part = match self.moments.next(3) {
                0 => {
                    self.lost.dropped += 1;
                    0
                }
                1 => {
                    self.lost.torn += 1;
                    SECTOR * (1 + self.moments.next((BLOCK / SECTOR) as u64 - 1) as usize)
                }
                _ => {
                    self.lost.kept += 1;
                    BLOCK
                }
            };
            self.backing.write_all_at(&block[..part], at)?;
        }
        Ok(())
    }
}

impl Device {
    /// A disk over the file, which has a whole number of blocks; `place` is a directory to mount it at.
    pub(crate) fn new(backing: &Path, place: &Path, seed: u64) -> Result<Device, String> {
        let named = |error: io::Error| format!("{}: {error}", backing.display());
        let file = OpenOptions::new().read(true).write(true).open(backing);
        let file = file.map_err(named)?;
        let bytes = file.metadata().map_err(named)?.len();
        let door = OpenOptions::new().read(true).write(true).open("/dev/fuse");
        let door = door.map_err(|error| format!("/dev/fuse: {error}"))?;
        let standard = door.try_clone().map_err(|error| error.to_string())?;
        // The descriptor of the door is named in the options: standard input has a number that is known.
        let mounted = Command::new("mount")
            .args(["-i", "-t", "fuse", "-o"])
            .arg("fd=0,rootmode=40000,user_id=0,group_id=0")
            .arg("chaos-device")
            .arg(place)
            .stdin(Stdio::from(standard))
            .output()
            .map_err(|error| format!("mount: {error}"))?;
        if !mounted.status.success() {
            let why = String::from_utf8_lossy(&mounted.stderr);
            return Err(format!("mount: {}", why.trim()));
        }
        let state = Arc::new(Mutex::new(State {
            backing: file,
            bytes,
            cache: BTreeMap::new(),
            is_on: true,
            moments: Moments(seed),
            lost: Lost::default(),
        }));
        let serving = Arc::clone(&state);
        let door = Arc::new(door);
        std::thread::spawn(move || serve(&door, &serving));
        Ok(Device {
            place: place.to_path_buf(),
            state,
        })
    }

    /// The file that a loop device is made of.
    pub(crate) fn file(&self) -> PathBuf {
        self.place.join(NAME)
    }

    /// Of what the cache holds, some blocks are kept, some dropped and some torn; from now on requests fail.
    pub(crate) fn lose_power(&self) -> Result<(), String> {
        let lost = self.state.lock().lose_power();
        lost.map_err(|error| format!("{}: {error}", self.place.display()))
    }

    pub(crate) fn get_power(&self) {
        self.state.lock().is_on = true;
    }

    /// By all losses of power so far.
    pub(crate) fn lost(&self) -> Lost {
        self.state.lock().lost
    }
}

impl Drop for Device {
    fn drop(&mut self) {
        let _ = Command::new("umount").arg("-l").arg(&self.place).status();
    }
}

/// Answers the kernel until the file system is unmounted.
fn serve(door: &Arc<File>, state: &Arc<Mutex<State>>) {
    let mut request = vec![0; REQUEST_BYTES_MAX + BLOCK];
    loop {
        let length = match (&**door).read(&mut request) {
            Ok(length) => length,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
            // ENOENT: a request was taken back. Anything else: unmounted.
            Err(error) if error.raw_os_error() == Some(ENOENT) => continue,
            Err(_) => return,
        };
        let (op, unique, node) = (word(&request, 4), long(&request, 8), long(&request, 16));
        match op {
            FORGET | BATCH_FORGET | INTERRUPT => {}
            // Others write meanwhile.
            FSYNC => {
                let (door, state) = (Arc::clone(door), Arc::clone(state));
                std::thread::spawn(move || {
                    std::thread::sleep(FLUSH_TAKES);
                    reply(&door, unique, answer(FSYNC, node, &[], &mut state.lock()));
                });
            }
            _ => {
                let answer = answer(op, node, &request[40..length], &mut state.lock());
                reply(door, unique, answer);
            }
        }
    }
}

fn reply(mut door: &File, unique: u64, answer: Result<Vec<u8>, i32>) {
    let (code, out) = match answer {
        Ok(out) => (0, out),
        Err(code) => (-code, Vec::new()),
    };
    let mut reply = ((16 + out.len()) as u32).to_le_bytes().to_vec();
    reply.extend(code.to_le_bytes());
    reply.extend(unique.to_le_bytes());
    reply.extend(out);
    // An error: the request was taken back meanwhile.
    let _ = door.write(&reply);
}

fn long(bytes: &[u8], at: usize) -> u64 {
    let found = bytes
        .get(at..at + 8)
        .and_then(|found| found.try_into().ok());
    u64::from_le_bytes(found.unwrap_or_default())
}

fn word(bytes: &[u8], at: usize) -> u32 {
    let found = bytes
        .get(at..at + 4)
        .and_then(|found| found.try_into().ok());
    u32::from_le_bytes(found.unwrap_or_default())
}

/// The body of the answer, or the number of an error.
fn answer(op: u32, node: u64, body: &[u8], state: &mut State) -> Result<Vec<u8>, i32> {
    let failed = |_: io::Error| EIO;
    match op {
        INIT => Ok(greeting(body)),
        LOOKUP if body.strip_suffix(&[0]) == Some(NAME.as_bytes()) => {
            let mut out = [DISK, 0, 0, 0, 0].map(u64::to_le_bytes).concat();
            out.extend(attributes(DISK, state));
            Ok(out)
        }
        LOOKUP => Err(ENOENT),
        GETATTR => {
            let mut out = vec![0; 16];
            out.extend(attributes(node, state));
            Ok(out)
        }
        OPEN => {
            // Around the kernel's page cache: what is written comes here at once.
            const DIRECT: u32 = 1;
            let mut out = vec![0; 8];
            out.extend(DIRECT.to_le_bytes());
            out.extend([0; 4]);
            Ok(out)
        }
        READ | WRITE | FSYNC if !state.is_on => Err(EIO),
        READ => state
            .read(long(body, 8), word(body, 16) as usize)
            .map_err(failed),
        WRITE => {
            let (offset, size) = (long(body, 8), word(body, 16));
            let bytes = body.get(40..40 + size as usize).ok_or(EIO)?;
            if state.bytes < offset + u64::from(size) {
                return Err(EIO);
            }
            state.write(offset, bytes).map_err(failed)?;
            Ok([size.to_le_bytes(), [0; 4]].concat())
        }
        FSYNC => state.flush().map(|()| Vec::new()).map_err(failed),
        STATFS => Ok(vec![0; 80]),
        RELEASE | FLUSH => Ok(Vec::new()),
        _ => Err(ENOSYS),
    }
}

/// Version 7.31 is enough; pages are sent by the mebibyte.
fn greeting(body: &[u8]) -> Vec<u8> {
    const MINOR: u32 = 31;
    const BIG_WRITES: u32 = 1 << 5;
    const MAX_PAGES: u32 = 1 << 22;
    let mut out = Vec::new();
    let numbers = [word(body, 0), MINOR.min(word(body, 4)), word(body, 8)];
    for number in numbers.into_iter().chain([BIG_WRITES | MAX_PAGES]) {
        out.extend(number.to_le_bytes());
    }
    out.extend([16_u16, 12].map(u16::to_le_bytes).concat());
    out.extend([REQUEST_BYTES_MAX as u32, 1].map(u32::to_le_bytes).concat());
    let pages = (REQUEST_BYTES_MAX / BLOCK) as u16;
    out.extend([pages, 0].map(u16::to_le_bytes).concat());
    out.extend([0; 32]);
    out
}

fn attributes(node: u64, state: &State) -> Vec<u8> {
    let (mode, bytes) = if node == ROOT {
        (0o040_755, 0)
    } else {
        (0o100_600, state.bytes)
    };
    let mut out = [node, bytes, bytes / SECTOR as u64, 0, 0, 0]
        .map(u64::to_le_bytes)
        .concat();
    for number in [0, 0, 0, mode, 1, 0, 0, 0, BLOCK as u32, 0] {
        out.extend(u32::to_le_bytes(number));
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    fn state(name: &str) -> State {
        let path = std::env::temp_dir().join(format!("chaos-device-{}-{name}", std::process::id()));
        let backing = OpenOptions::new()
            .read(true)
            .write(true)
            .create(true)
            .truncate(true)
            .open(&path)
            .unwrap();
        std::fs::remove_file(&path).unwrap();
        let bytes = 64 * BLOCK as u64;
        backing.set_len(bytes).unwrap();
        State {
            backing,
            bytes,
            cache: BTreeMap::new(),
            is_on: true,
            moments: Moments(1),
            lost: Lost::default(),
        }
    }

    #[test]
    fn flushed_blocks_outlive_the_power_and_others_go_in_each_way() {
        let mut state = state("power");
        let all = state.bytes as usize;
        state.write(0, &vec![1; all]).unwrap();
        state.flush().unwrap();
        state.write(SECTOR as u64, &vec![2; all - SECTOR]).unwrap();
        assert_eq!(state.read(SECTOR as u64, 3).unwrap(), vec![2; 3]);
        state.lose_power().unwrap();
        let Lost {
            kept,
            dropped,
            torn,
        } = state.lost;
        assert_eq!(kept + dropped + torn, 64);
        assert!(5 < kept && 5 < dropped && 5 < torn, "{:?}", state.lost);
        let left = state.read(0, all).unwrap();
        let is_torn = |block: &[u8]| block[BLOCK - 1] == 1 && block[SECTOR..].contains(&2);
        assert!(left.iter().all(|byte| matches!(byte, 1 | 2)));
        assert!(0 < left.chunks(BLOCK).filter(|block| is_torn(block)).count());
        assert_eq!(answer(FSYNC, DISK, &[], &mut state), Err(EIO));
    }
}
