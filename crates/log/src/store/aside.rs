//! Setting the end of a log aside: files behind a place where records are lost, kept for an operator.
//!
//! Whole segments are renamed, the one that holds the place is copied as it is, damage included. The caller cuts the log there next;
//! until then the renamed segments cannot be opened anew. May be repeated after a crash or on a full disk, and ends in the same files.

use std::io::{self, IoSlice};
use std::path::Path;

use env::Disk;
use env::disk::Open;
use model::Offset;

use super::{Store, StoreError};
use crate::file_name::file_name;

/// Bytes that are copied at once.
const STEP_BYTES: usize = 256 << 10;

impl Store {
    /// Brings what the files have at and above `to` to the directory `aside`. Returns true if there is anything.
    pub fn set_aside(&self, to: Offset, aside: &Path) -> Result<bool, StoreError> {
        let _files = self.files.lock();
        let at = |error| StoreError::Io {
            path: aside.to_path_buf(),
            error,
        };
        let segments = self.segments.load_full();
        let behind = segments.iter().filter(|of| to < of.end());
        let (whole, cut): (Vec<_>, Vec<_>) = behind.partition(|segment| to <= segment.base());
        if whole.is_empty() && cut.is_empty() {
            return Ok(false);
        }
        let disk = self.disk();
        disk.create_dir_all(aside).map_err(at)?;
        // First what a full disk may refuse.
        for segment in cut {
            let name = file_name(segment.base(), "log");
            copy(&**disk, &self.dir.join(&name), &aside.join(&name)).map_err(at)?;
        }
        for segment in whole {
            let name = file_name(segment.base(), "log");
            let from = self.dir.join(&name);
            // What is renamed is to last as what is copied.
            let synced = disk
                .open(&from, Open::Write)
                .and_then(|file| file.sync_data());
            match synced.and_then(|()| disk.rename(&from, &aside.join(&name))) {
                Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(at(error)),
                _ => {}
            }
        }
        disk.sync_dir(aside).map_err(at)?;
        if let Some(parent) = aside.parent() {
            disk.sync_dir(parent).map_err(at)?;
        }
        Ok(true)
    }
}

fn copy(disk: &dyn Disk, from: &Path, to: &Path) -> io::Result<()> {
    let source = disk.open(from, Open::Read)?;
    let target = disk.open(to, Open::Truncate)?;
    let mut buffer = vec![0; STEP_BYTES];
    let mut position = 0;
    loop {
        let read = source.read_once(&mut buffer, position, STEP_BYTES)?;
        if read == 0 {
            return target.sync_data();
        }
        target.write_at(&[IoSlice::new(&buffer[..read])], position)?;
        position += read as u64;
    }
}
