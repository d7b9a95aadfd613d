//! Where one scenario works, and what it said: printed as it comes, and kept with its files when it fails.
//!
//! A failure of processes may not come again, so nothing that could explain it is thrown away: the broker's words, its data,
//! the image of its volume and the lines of the scenario stay behind in one directory, which the closing lines name.

use std::io::Write;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use parking_lot::Mutex;
use trespass::leaks::leaks;

/// Of 32 bytes in base64. Not a secret: it protects a scenario from the next one alone.
const SECRET: &str = "Y2hhb3MgY2hhb3MgY2hhb3MgY2hhb3MgY2hhb3MgY2g=\n";

pub(crate) struct Place {
    pub(crate) dir: PathBuf,
    /// Volume images, in memory if there is a tmpfs.
    images: PathBuf,
    lines: Mutex<String>,
    missing: Mutex<Vec<String>>,
}

impl Place {
    pub(crate) fn new(name: &str) -> Result<Place, String> {
        let leaf = format!("esker-chaos-{}-{name}", std::process::id());
        let dir = std::env::temp_dir().join(&leaf);
        let memory = Path::new("/dev/shm");
        let images = if memory.is_dir() { memory } else { &dir }.join(leaf + ".images");
        for path in [&dir, &images] {
            std::fs::create_dir_all(path)
                .map_err(|error| format!("{}: {error}", path.display()))?;
        }
        Ok(Place {
            dir,
            images,
            lines: Mutex::default(),
            missing: Mutex::default(),
        })
    }

    /// The setting that names the secret by which the nodes of the scenario believe each other.
    pub(crate) fn cluster_secret(&self) -> Result<String, String> {
        let path = self.dir.join("cluster.secret");
        let at = |error: std::io::Error| format!("{}: {error}", path.display());
        let mut options = std::fs::OpenOptions::new();
        match options.write(true).create_new(true).mode(0o600).open(&path) {
            Ok(mut file) => file.write_all(SECRET.as_bytes()).map_err(at)?,
            Err(error) if error.kind() == std::io::ErrorKind::AlreadyExists => {}
            Err(error) => return Err(at(error)),
        }
        Ok(format!("esker.cluster.secret.file={}", path.display()))
    }

    /// Fails if a node showed that secret.
    pub(crate) fn search_secret(&self) -> Result<(), String> {
        match &leaks(&self.dir, &[SECRET.trim()])[..] {
            [] => Ok(()),
            found => Err(found.join("; ")),
        }
    }

    pub(crate) fn image(&self, name: &str) -> PathBuf {
        self.images.join(format!("{name}.img"))
    }

    pub(crate) fn say(&self, line: &str) {
        println!("  {line}");
        let mut lines = self.lines.lock();
        lines.push_str(line);
        lines.push('\n');
    }

    /// Something that the scenario would have looked at with what is not there.
    pub(crate) fn miss(&self, what: &str) {
        self.say(what);
        self.missing.lock().push(what.to_owned());
    }

    pub(crate) fn missing(&self) -> Vec<String> {
        self.missing.lock().clone()
    }

    /// Nothing went wrong: nothing stays.
    pub(crate) fn remove(self) {
        let _ = std::fs::remove_dir_all(&self.images);
        let _ = std::fs::remove_dir_all(&self.dir);
    }

    /// Leaves everything in one directory, with `why` in its `report.txt`; says where.
    pub(crate) fn keep(self, why: &str) -> PathBuf {
        let report = format!("{}FAILED: {why}\n", self.lines.lock());
        if let Err(error) = std::fs::write(self.dir.join("report.txt"), report) {
            eprintln!("cannot keep the report: {error}");
        }
        for image in std::fs::read_dir(&self.images)
            .into_iter()
            .flatten()
            .flatten()
        {
            // An image is mostly holes.
            let copied = Command::new("cp")
                .arg("--sparse=always")
                .arg(image.path())
                .arg(&self.dir)
                .status();
            if !copied.is_ok_and(|status| status.success()) {
                eprintln!("cannot keep {}", image.path().display());
            }
        }
        let _ = std::fs::remove_dir_all(&self.images);
        self.dir
    }
}
