//! A directory as an object store: each object is a file of its name.
//!
//! A thread of its own does one operation after the other, since each may wait for the disk. A file comes whole under its name, by a rename; writers of
//! several processes take turns by a lock, which ends with the process that has it. An etag is a checksum of the content, so that a file
//! that a tool put back is the same object.

use std::collections::VecDeque;
use std::io::{self, ErrorKind, IoSlice};
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use bytes::Bytes;
use crc_fast::{CrcAlgorithm, Digest};
use env::bucket::{
    Bucket, Done, ETag, LISTED_MAX, Listed, Op, Outcome, Part, Tag, Trouble, When, is_name,
};
use env::disk::Open;
use env::{Bell, Disk, Env, FileHandle, Turn, Worker};
use model::Instant;
use parking_lot::Mutex;

/// Held by the one who writes.
const LOCK: &str = ".esker-lock";
/// The object that is being written.
const UNFINISHED: &str = ".esker-unfinished";

/// Shared by the one who asks and the one who does.
struct Desk {
    asked: Mutex<VecDeque<(Tag, Op)>>,
    done: Mutex<Vec<Done>>,
    is_over: AtomicBool,
    /// Of the one who asks.
    bell: Arc<dyn Bell>,
}

pub(crate) struct Directory {
    desk: Arc<Desk>,
    /// Of the one who does it.
    ask: Arc<dyn Bell>,
}

impl Directory {
    pub(crate) fn open(env: &Env, root: &Path) -> Directory {
        let desk = Arc::new(Desk {
            asked: Mutex::default(),
            done: Mutex::default(),
            is_over: AtomicBool::new(false),
            bell: env.threads.bell(),
        });
        let ask = env.threads.bell();
        let clerk = Clerk {
            desk: Arc::clone(&desk),
            ask: Arc::clone(&ask),
            files: Files {
                disk: Arc::clone(&env.disk),
                root: root.to_path_buf(),
            },
        };
        env.threads.spawn_patient("bucket", Box::new(clerk));
        Directory { desk, ask }
    }
}

impl Bucket for Directory {
    fn start(&self, tag: Tag, op: Op) {
        self.desk.asked.lock().push_back((tag, op));
        self.ask.ring();
    }

    fn take(&self, done: &mut Vec<Done>) {
        done.append(&mut self.desk.done.lock());
    }

    fn bell(&self) -> Arc<dyn Bell> {
        Arc::clone(&self.desk.bell)
    }
}

impl Drop for Directory {
    fn drop(&mut self) {
        self.desk.is_over.store(true, Ordering::Release);
        self.ask.ring();
    }
}

/// Does what was asked, one operation a turn.
struct Clerk {
    desk: Arc<Desk>,
    ask: Arc<dyn Bell>,
    files: Files,
}

impl Worker for Clerk {
    fn turn(&mut self) -> Turn {
        if self.desk.is_over.load(Ordering::Acquire) {
            return Turn::Done;
        }
        let asked = self.desk.asked.lock().pop_front();
        let Some((tag, op)) = asked else {
            return Turn::Sleep { until: None };
        };
        let result = self.files.perform(op);
        self.desk.done.lock().push(Done { tag, result });
        self.desk.bell.ring();
        Turn::Again
    }

    fn park(&mut self, until: Option<Instant>) {
        self.ask.wait(until);
    }
}

struct Files {
    disk: Arc<dyn Disk>,
    root: PathBuf,
}

impl Files {
    fn perform(&self, op: Op) -> Result<Outcome, Trouble> {
        match op {
            Op::Put {
                name,
                content,
                when,
            } => self.put(&name, &content, &when),
            Op::Get { name, part } => self.get(&name, &part),
            Op::Delete { names } => self.delete(&names),
            Op::List { prefix, after } => self.list(&prefix, after.as_deref()),
        }
    }

    fn path(&self, name: &str) -> Result<PathBuf, Trouble> {
        let is_ours = name == LOCK || name == UNFINISHED;
        if is_name(name) && !is_ours {
            Ok(self.root.join(name))
        } else {
            Err(Trouble::Refused(format!(
                "{name:?} is no name of an object"
            )))
        }
    }

    /// The file of an object, if there is one.
    fn file(&self, path: &Path) -> Result<Option<FileHandle>, Trouble> {
        match self.disk.open(path, Open::Read) {
            Ok(file) => Ok(Some(file)),
            Err(error) if is_absent(&error) => Ok(None),
            Err(error) => Err(trouble(path, &error)),
        }
    }

    fn put(&self, name: &str, content: &[Bytes], when: &When) -> Result<Outcome, Trouble> {
        let path = self.path(name)?;
        let _turn = self.take_turn()?;
        let known = match self.file(&path)? {
            Some(file) => Some(etag_of(
                &read(&*file, &Part::Whole)
                    .map_err(|error| trouble(&path, &error))?
                    .0,
            )),
            None => None,
        };
        let holds = match when {
            When::Absent => known.is_none(),
            When::Still(etag) => known.as_ref() == Some(etag),
        };
        if !holds {
            return Err(Trouble::Taken);
        }
        let written = self.write(&path, content);
        written.map_err(|error| trouble(&path, &error))?;
        let etag = etag(content.iter().map(|piece| &piece[..]));
        Ok(Outcome::Put { etag })
    }

    /// True to its name or not there: durable under it when this returns.
    fn write(&self, path: &Path, content: &[Bytes]) -> io::Result<()> {
        let unfinished = self.root.join(UNFINISHED);
        let file = self.disk.open(&unfinished, Open::Truncate)?;
        let mut position = 0;
        for piece in content {
            file.write_at(&[IoSlice::new(piece)], position)?;
            position += piece.len() as u64;
        }
        file.sync_data()?;
        // Nobody reads it soon.
        file.drop_cache(0, position);
        let parent = path.parent().unwrap_or(&self.root);
        self.disk.create_dir_all(parent)?;
        self.disk.rename(&unfinished, path)?;
        // All of them each time: a process that was killed may have made the others and not synced them.
        for above in parent.ancestors() {
            self.disk.sync_dir(above)?;
            if above == self.root {
                break;
            }
        }
        Ok(())
    }

    fn get(&self, name: &str, part: &Part) -> Result<Outcome, Trouble> {
        let path = self.path(name)?;
        let file = self.file(&path)?.ok_or(Trouble::Missing)?;
        let (content, bytes) = read(&*file, part).map_err(|error| trouble(&path, &error))?;
        let etag = (*part == Part::Whole).then(|| etag_of(&content));
        Ok(Outcome::Got {
            content,
            bytes,
            etag,
        })
    }

    fn delete(&self, names: &[String]) -> Result<Outcome, Trouble> {
        let _turn = self.take_turn()?;
        for name in names {
            let path = self.path(name)?;
            match self.disk.remove_file(&path) {
                Err(error) if !is_absent(&error) => return Err(trouble(&path, &error)),
                _ => {}
            }
        }
        Ok(Outcome::Deleted)
    }

    fn list(&self, prefix: &str, after: Option<&str>) -> Result<Outcome, Trouble> {
        let mut objects = Vec::new();
        let below = prefix.rsplit_once('/').map_or("", |(below, _)| below);
        if !below.is_empty() && !is_name(below) {
            return Err(Trouble::Refused(format!(
                "no object's name begins with {prefix:?}"
            )));
        }
        let listed = self.walk(below, &mut objects);
        listed.map_err(|error| trouble(&self.root, &error))?;
        objects.retain(|object| {
            object.name.starts_with(prefix) && after.is_none_or(|after| after < &*object.name)
        });
        objects.sort_unstable_by(|one, other| one.name.cmp(&other.name));
        let has_more = LISTED_MAX < objects.len();
        objects.truncate(LISTED_MAX);
        Ok(Outcome::Listed { objects, has_more })
    }

    fn walk(&self, below: &str, objects: &mut Vec<Listed>) -> io::Result<()> {
        let entries = match self.disk.read_dir(&self.root.join(below)) {
            Err(error) if is_absent(&error) && !below.is_empty() => return Ok(()),
            entries => entries?,
        };
        for entry in entries {
            let name = match below {
                "" => entry.name,
                below => format!("{below}/{}", entry.name),
            };
            if entry.is_dir {
                self.walk(&name, objects)?;
            } else if name != LOCK && name != UNFINISHED {
                let bytes = entry.len;
                objects.push(Listed { name, bytes });
            }
        }
        Ok(())
    }

    /// Writers take turns, those of other processes too.
    fn take_turn(&self) -> Result<Box<dyn env::disk::Lock>, Trouble> {
        let path = self.root.join(LOCK);
        self.disk.lock(&path).map_err(|error| match error.kind() {
            ErrorKind::WouldBlock => Trouble::Busy,
            ErrorKind::NotFound => Trouble::Refused(format!(
                "{} does not exist: make it, or mount what belongs there",
                self.root.display()
            )),
            _ => trouble(&path, &error),
        })
    }
}

/// The part of a file, and how many bytes the file has.
fn read(file: &dyn env::File, part: &Part) -> io::Result<(Bytes, u64)> {
    let bytes = file.len()?;
    let Range { start, end } = match part {
        Part::Whole => 0..bytes,
        Part::Range(range) => range.start.min(bytes)..range.end.min(bytes),
        Part::Last(count) => bytes.saturating_sub(*count)..bytes,
    };
    let mut content = vec![0; end.saturating_sub(start) as usize];
    file.read_exact_at(&mut content, start)?;
    Ok((content.into(), bytes))
}

fn etag_of(content: &[u8]) -> ETag {
    etag(std::iter::once(content))
}

fn etag<'a>(pieces: impl Iterator<Item = &'a [u8]>) -> ETag {
    let mut digest = Digest::new(CrcAlgorithm::Crc64Nvme);
    let mut bytes = 0;
    for piece in pieces {
        digest.update(piece);
        bytes += piece.len();
    }
    ETag(format!("{:016x}-{bytes:x}", digest.finalize()))
}

fn is_absent(error: &io::Error) -> bool {
    matches!(
        error.kind(),
        ErrorKind::NotFound | ErrorKind::NotADirectory | ErrorKind::IsADirectory
    )
}

fn trouble(path: &Path, error: &io::Error) -> Trouble {
    let words = format!("{}: {error}", path.display());
    match error.kind() {
        ErrorKind::PermissionDenied | ErrorKind::ReadOnlyFilesystem | ErrorKind::NotFound => {
            Trouble::Refused(words)
        }
        _ => Trouble::Failed(words),
    }
}
