//! A file system of our own: an ext4 or XFS image on a loop device, which can lose its power.
//!
//! Everything goes through the tools an operator has (`mkfs.ext4`, `mkfs.xfs`, `mount`, `umount`); where they are missing or not
//! permitted the caller is told why and skips.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use crate::device::{Device, Lost};
use crate::place::Place;

/// Kafka's documentation names these two for its logs.
#[derive(Clone, Copy)]
pub(crate) enum FileSystem {
    Ext4,
    /// An image of at least 300 MiB.
    Xfs,
}

impl FileSystem {
    fn make(self, image: &Path) -> Result<(), String> {
        match self {
            FileSystem::Ext4 => run("mkfs.ext4", &["-q", "-F", "-m", "0", text(image)]),
            FileSystem::Xfs => run("mkfs.xfs", &["-q", "-f", text(image)]),
        }
    }
}

pub(crate) struct Volume {
    image: PathBuf,
    pub(crate) mount: PathBuf,
    is_mounted: bool,
    /// The device that the image is on, if that has a cache to lose.
    device: Option<Device>,
}

/// Stops the file system without writing its journal, as a power cut does: `EXT4_IOC_SHUTDOWN` with `NOLOGFLUSH`, which XFS had
/// first, by the same number, as `XFS_IOC_GOINGDOWN`.
const SHUTDOWN: &str = "import fcntl,os,struct,sys
fcntl.ioctl(os.open(sys.argv[1], os.O_RDONLY), 0x8004587d, struct.pack('I', 2))";

fn run(program: &str, arguments: &[&str]) -> Result<(), String> {
    let done = Command::new(program)
        .args(arguments)
        .stdin(Stdio::null())
        .output();
    match done {
        Ok(done) if done.status.success() => Ok(()),
        Ok(done) => Err(format!(
            "{program}: {}",
            String::from_utf8_lossy(&done.stderr).trim()
        )),
        Err(error) => Err(format!("{program}: {error}")),
    }
}

fn text(path: &Path) -> &str {
    path.to_str().unwrap_or_default()
}

impl Volume {
    /// An image of `mebibytes`, mounted below the directory of `place`.
    pub(crate) fn new(
        place: &Place,
        name: &str,
        kind: FileSystem,
        mebibytes: u64,
    ) -> Result<Volume, String> {
        let image = place.image(name);
        let mount = place.dir.join(name);
        std::fs::create_dir_all(&mount).map_err(|error| error.to_string())?;
        let file = std::fs::File::create(&image).map_err(|error| error.to_string())?;
        file.set_len(mebibytes << 20)
            .map_err(|error| error.to_string())?;
        let mut volume = Volume {
            image,
            mount,
            is_mounted: false,
            device: None,
        };
        kind.make(&volume.image)?;
        volume.mount(false)?;
        Ok(volume)
    }

    /// The same of ext4 on a device with a cache that is lost with the power.
    pub(crate) fn with_cache(
        place: &Place,
        name: &str,
        mebibytes: u64,
        seed: u64,
    ) -> Result<Volume, String> {
        let mut volume = Volume::new(place, name, FileSystem::Ext4, mebibytes)?;
        volume.unmount()?;
        let seat = place.dir.join(format!("{name}.device"));
        std::fs::create_dir_all(&seat).map_err(|error| error.to_string())?;
        let device = Device::new(&volume.image, &seat, seed)?;
        volume.image = device.file();
        volume.device = Some(device);
        volume.mount(false)?;
        Ok(volume)
    }

    pub(crate) fn mount(&mut self, read_only: bool) -> Result<(), String> {
        if let Some(device) = &self.device {
            device.get_power();
        }
        let options = if read_only { "loop,ro" } else { "loop" };
        run(
            "mount",
            &["-o", options, text(&self.image), text(&self.mount)],
        )?;
        self.is_mounted = true;
        Ok(())
    }

    pub(crate) fn unmount(&mut self) -> Result<(), String> {
        // The kernel may hold the files of a process that has just ended for a moment.
        let mut last = Ok(());
        for _ in 0..50 {
            last = run("umount", &[text(&self.mount)]);
            if last.is_ok() {
                self.is_mounted = false;
                return Ok(());
            }
            std::thread::sleep(std::time::Duration::from_millis(20));
        }
        last
    }

    /// The cache of the device is lost first, while whoever writes still runs: nobody hears of a flush that comes later.
    pub(crate) fn lose_cache(&self) -> Result<(), String> {
        self.device.as_ref().map_or(Ok(()), Device::lose_power)
    }

    pub(crate) fn lost(&self) -> Lost {
        self.device.as_ref().map(Device::lost).unwrap_or_default()
    }

    /// From here on nothing reaches the image any more.
    pub(crate) fn cut_power(&self) -> Result<(), String> {
        run("python3", &["-c", SHUTDOWN, text(&self.mount)])
    }
}

impl Drop for Volume {
    fn drop(&mut self) {
        if self.is_mounted {
            let _ = run("umount", &["-l", text(&self.mount)]);
        }
    }
}
