//! A simulated file system: directories, names and files, each with what is durable and what is not yet.
//!
//! Names are apart from content: a synced file whose directory entry was never synced may be gone after a crash. Each
//! un-synced creation, removal or rename survives or not by itself; a rename is never half done. Cloning is cheap (pages and
//! nodes are shared), so a state can be kept per operation.

use std::collections::BTreeMap;
use std::io::{self, ErrorKind};
use std::path::{Component, Path};
use std::sync::Arc;

use super::chance::{Chance, Chooser};
use super::content::{Content, Unsynced};
use crate::disk::Entry;

pub(crate) const ROOT: u64 = 0;

#[derive(Clone)]
enum Node {
    File {
        content: Content,
        linked: bool,
        /// By the wall clock.
        modified_ms: i64,
    },
    Dir(Dir),
}

#[derive(Clone, Default)]
struct Dir {
    live: BTreeMap<String, u64>,
    durable: BTreeMap<String, u64>,
}

/// A place in a directory.
#[derive(Clone, PartialEq, Eq)]
struct Name {
    dir: u64,
    name: String,
}

/// A change of names that no sync has covered yet.
#[derive(Clone)]
enum Change {
    Add { at: Name, node: u64 },
    Remove { at: Name },
    Move { from: Name, to: Name, node: u64 },
}

impl Change {
    fn touches(&self, dir: u64) -> bool {
        match self {
            Change::Add { at, .. } | Change::Remove { at } => at.dir == dir,
            Change::Move { from, to, .. } => from.dir == dir || to.dir == dir,
        }
    }
}

/// The losses of a crash: pages whose content differs from what programs had seen, and changes of names undone.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Lost {
    pub pages: u64,
    pub names: u64,
}

#[derive(Clone)]
pub struct Volume {
    nodes: BTreeMap<u64, Arc<Node>>,
    next: u64,
    pending: Vec<Change>,
    /// How often pages of any file were lost: each descriptor of a directory reports it once, whosever the sync of the volume is.
    losses: u64,
    /// Names that differ in case alone are the same name; that of the first stays.
    folds_case: bool,
}

impl Default for Volume {
    fn default() -> Volume {
        let root = Arc::new(Node::Dir(Dir::default()));
        Volume {
            nodes: BTreeMap::from([(ROOT, root)]),
            next: 1,
            pending: Vec::new(),
            losses: 0,
            folds_case: false,
        }
    }
}

fn names(path: &Path) -> io::Result<Vec<&str>> {
    let mut names = Vec::new();
    for part in path.components() {
        match part {
            Component::Normal(name) => names.push(name.to_str().ok_or(ErrorKind::InvalidInput)?),
            Component::RootDir | Component::CurDir => {}
            Component::ParentDir | Component::Prefix(_) => {
                return Err(ErrorKind::InvalidInput.into());
            }
        }
    }
    Ok(names)
}

impl Volume {
    fn dir(&self, node: u64) -> io::Result<&Dir> {
        match self.nodes.get(&node).map(Arc::as_ref) {
            Some(Node::Dir(dir)) => Ok(dir),
            Some(Node::File { .. }) => Err(ErrorKind::NotADirectory.into()),
            None => Err(ErrorKind::NotFound.into()),
        }
    }

    fn dir_mut(&mut self, node: u64) -> &mut Dir {
        match self.nodes.get_mut(&node).map(Arc::make_mut) {
            Some(Node::Dir(dir)) => dir,
            _ => unreachable!("changes are only made in directories"),
        }
    }

    pub(crate) fn fold_case(&mut self) {
        self.folds_case = true;
    }

    /// The entry that `name` names, as it is called.
    fn named<'a>(&self, dir: &'a Dir, name: &str) -> Option<(&'a String, u64)> {
        let exact = dir.live.get_key_value(name);
        let folded = || {
            let mut names = dir.live.iter();
            names.find(|(of, _)| self.folds_case && of.eq_ignore_ascii_case(name))
        };
        exact.or_else(folded).map(|(name, node)| (name, *node))
    }

    pub(crate) fn is_named(&self, node: u64) -> bool {
        let node = self.nodes.get(&node).map(Arc::as_ref);
        matches!(node, Some(Node::File { linked: true, .. }))
    }

    pub(crate) fn files_count(&self) -> u64 {
        let nodes = self.nodes.values();
        let files = nodes.filter(|node| matches!(node.as_ref(), Node::File { linked: true, .. }));
        files.count() as u64
    }

    pub(crate) fn file(&self, node: u64) -> io::Result<&Content> {
        match self.nodes.get(&node).map(Arc::as_ref) {
            Some(Node::File { content, .. }) => Ok(content),
            Some(Node::Dir(_)) => Err(ErrorKind::IsADirectory.into()),
            None => Err(ErrorKind::NotFound.into()),
        }
    }

    pub(crate) fn file_mut(&mut self, node: u64) -> io::Result<&mut Content> {
        match self.nodes.get_mut(&node).map(Arc::make_mut) {
            Some(Node::File { content, .. }) => Ok(content),
            Some(Node::Dir(_)) => Err(ErrorKind::IsADirectory.into()),
            None => Err(ErrorKind::NotFound.into()),
        }
    }

    pub(crate) fn find(&self, path: &Path) -> io::Result<Option<u64>> {
        let mut node = ROOT;
        for name in names(path)? {
            match self.named(self.dir(node)?, name) {
                Some((_, next)) => node = next,
                None => return Ok(None),
            }
        }
        Ok(Some(node))
    }

    pub(crate) fn existing(&self, path: &Path) -> io::Result<u64> {
        self.find(path)?.ok_or_else(|| ErrorKind::NotFound.into())
    }

    fn place(&self, path: &Path) -> io::Result<Name> {
        let parent = path.parent().ok_or(ErrorKind::InvalidInput)?;
        let name = names(path)?
            .pop()
            .ok_or(ErrorKind::InvalidInput)?
            .to_owned();
        let dir = self.existing(parent)?;
        let known = self.named(self.dir(dir)?, &name).map(|(known, _)| known);
        let name = known.cloned().unwrap_or(name);
        Ok(Name { dir, name })
    }

    fn add(&mut self, at: Name, node: Node) -> u64 {
        let number = self.next;
        self.next += 1;
        self.nodes.insert(number, Arc::new(node));
        self.dir_mut(at.dir).live.insert(at.name.clone(), number);
        self.pending.push(Change::Add { at, node: number });
        number
    }

    pub(crate) fn modified_ms(&self, path: &Path) -> io::Result<i64> {
        match self.nodes.get(&self.existing(path)?).map(Arc::as_ref) {
            Some(Node::File { modified_ms, .. }) => Ok(*modified_ms),
            _ => Err(ErrorKind::IsADirectory.into()),
        }
    }

    pub(crate) fn set_modified_ms(&mut self, node: u64, ms: i64) {
        if let Some(Node::File { modified_ms, .. }) = self.nodes.get_mut(&node).map(Arc::make_mut) {
            *modified_ms = ms;
        }
    }

    pub(crate) fn create_file(&mut self, path: &Path) -> io::Result<u64> {
        let at = self.place(path)?;
        Ok(self.add(
            at,
            Node::File {
                content: Content::default(),
                linked: true,
                modified_ms: 0,
            },
        ))
    }

    pub(crate) fn create_dir_all(&mut self, path: &Path) -> io::Result<()> {
        let mut dir = ROOT;
        for name in names(path)? {
            dir = match self.named(self.dir(dir)?, name) {
                Some((_, next)) => next,
                None => self.add(
                    Name {
                        dir,
                        name: name.to_owned(),
                    },
                    Node::Dir(Dir::default()),
                ),
            };
        }
        self.dir(dir).map(drop)
    }

    pub(crate) fn list(&self, path: &Path) -> io::Result<Vec<Entry>> {
        let dir = self.dir(self.existing(path)?)?;
        let entry = |(name, node): (&String, &u64)| {
            let (is_dir, len) = match self.nodes[node].as_ref() {
                Node::File { content, .. } => (false, content.len()),
                Node::Dir(_) => (true, 0),
            };
            Entry {
                name: name.clone(),
                is_dir,
                len,
            }
        };
        Ok(dir.live.iter().map(entry).collect())
    }

    /// The file of this name, or the files in the directory and those below.
    pub(crate) fn files_below(&self, path: &Path) -> io::Result<Vec<u64>> {
        let mut files = Vec::new();
        let mut open: Vec<u64> = self.find(path)?.into_iter().collect();
        while let Some(node) = open.pop() {
            match self.dir(node) {
                Ok(dir) => open.extend(dir.live.values()),
                Err(_) => files.push(node),
            }
        }
        Ok(files)
    }

    fn unlink(&mut self, node: u64) {
        if let Some(Node::File { linked, .. }) = self.nodes.get_mut(&node).map(Arc::make_mut) {
            *linked = false;
        }
    }

    pub(crate) fn rename(&mut self, from: &Path, to: &Path) -> io::Result<()> {
        let node = self.existing(from)?;
        let (from, to) = (self.place(from)?, self.place(to)?);
        if from == to {
            return Ok(());
        }
        if let Some(replaced) = self.dir(to.dir)?.live.get(&to.name).copied() {
            if self.dir(replaced).is_ok_and(|dir| !dir.live.is_empty()) {
                return Err(ErrorKind::DirectoryNotEmpty.into());
            }
            self.unlink(replaced);
        }
        self.dir_mut(from.dir).live.remove(&from.name);
        self.dir_mut(to.dir).live.insert(to.name.clone(), node);
        self.pending.push(Change::Move { from, to, node });
        Ok(())
    }

    pub(crate) fn remove_file(&mut self, path: &Path) -> io::Result<()> {
        let node = self.existing(path)?;
        self.file(node)?;
        let at = self.place(path)?;
        self.unlink(node);
        self.dir_mut(at.dir).live.remove(&at.name);
        self.pending.push(Change::Remove { at });
        Ok(())
    }

    pub(crate) fn remove_dir_all(&mut self, path: &Path) -> io::Result<()> {
        for entry in self.list(path)? {
            let inner = path.join(&entry.name);
            if entry.is_dir {
                self.remove_dir_all(&inner)
            } else {
                self.remove_file(&inner)
            }?;
        }
        let at = self.place(path)?;
        self.dir_mut(at.dir).live.remove(&at.name);
        self.pending.push(Change::Remove { at });
        Ok(())
    }

    fn make_durable(&mut self, change: &Change) {
        match change {
            Change::Add { at, node } => {
                self.dir_mut(at.dir).durable.insert(at.name.clone(), *node);
            }
            Change::Remove { at } => {
                self.dir_mut(at.dir).durable.remove(&at.name);
            }
            Change::Move { from, to, node } => {
                self.dir_mut(from.dir).durable.remove(&from.name);
                self.dir_mut(to.dir).durable.insert(to.name.clone(), *node);
            }
        }
    }

    pub(crate) fn sync_dir(&mut self, dir: u64) -> io::Result<()> {
        self.dir(dir)?;
        let (covered, rest) = std::mem::take(&mut self.pending)
            .into_iter()
            .partition(|change| change.touches(dir));
        self.pending = rest;
        let covered: Vec<Change> = covered;
        covered.iter().for_each(|change| self.make_durable(change));
        Ok(())
    }

    fn files(&self) -> Vec<u64> {
        let is_file = |(_, node): &(&u64, &Arc<Node>)| matches!(node.as_ref(), Node::File { .. });
        self.nodes
            .iter()
            .filter(is_file)
            .map(|(number, _)| *number)
            .collect()
    }

    /// Syncs everything; returns what the sync covers of each file. Names are journalled, and their journal comes first.
    pub(crate) fn sync_all(&mut self) -> Vec<(u64, Unsynced)> {
        for change in std::mem::take(&mut self.pending) {
            self.make_durable(&change);
        }
        let mut covered = Vec::new();
        for node in self.files() {
            if let Ok(content) = self.file_mut(node)
                && content.has_pending()
            {
                covered.push((node, content.begin_sync()));
            }
        }
        covered
    }

    /// A sync of one file did not come to its end.
    pub(crate) fn forget_sync(&mut self, node: u64, before: Unsynced) {
        if let Ok(content) = self.file_mut(node) {
            content.forget_sync(before);
        }
    }

    /// A failed sync of one file.
    pub(crate) fn fail_sync(&mut self, node: u64, chance: &mut Chance) -> io::Result<()> {
        self.file_mut(node)?.fail_sync(chance);
        self.losses += 1;
        Ok(())
    }

    pub(crate) fn losses(&self) -> u64 {
        self.losses
    }

    /// A failed sync of everything. Names stay as they were: file systems journal them, and a later sync covers them.
    pub(crate) fn fail_sync_all(&mut self, chance: &mut Chance) {
        self.losses += 1;
        for node in self.files() {
            if let Ok(content) = self.file_mut(node)
                && content.has_pending()
            {
                content.fail_sync(chance);
            }
        }
    }

    /// Bytes that the files with a name take.
    pub(crate) fn taken(&self) -> u64 {
        let taken = |node: &Arc<Node>| match node.as_ref() {
            Node::File {
                content,
                linked: true,
                ..
            } => content.taken(),
            _ => 0,
        };
        self.nodes.values().map(taken).sum()
    }

    /// One state this volume may be found in after the power came back.
    #[must_use]
    pub fn crash(&self, chooser: &mut dyn Chooser) -> (Volume, Lost) {
        let mut names = self.clone();
        let mut lost = Lost::default();
        for change in std::mem::take(&mut names.pending) {
            if chooser.choose(2) == 1 {
                names.make_durable(&change);
            } else {
                lost.names += 1;
            }
        }
        let mut after = Volume {
            nodes: BTreeMap::new(),
            next: self.next,
            pending: Vec::new(),
            losses: 0,
            folds_case: self.folds_case,
        };
        let mut open = vec![ROOT];
        while let Some(number) = open.pop() {
            let node = match names.nodes[&number].as_ref() {
                Node::File {
                    content,
                    modified_ms,
                    ..
                } => {
                    let (content, pages) = content.crash(chooser);
                    lost.pages += pages;
                    Node::File {
                        content,
                        linked: true,
                        modified_ms: *modified_ms,
                    }
                }
                Node::Dir(dir) => {
                    open.extend(dir.durable.values());
                    Node::Dir(Dir {
                        live: dir.durable.clone(),
                        durable: dir.durable.clone(),
                    })
                }
            };
            after.nodes.insert(number, Arc::new(node));
        }
        (after, lost)
    }
}
