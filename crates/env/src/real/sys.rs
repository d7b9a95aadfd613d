//! System calls that the standard library does not offer, each behind a safe signature.
//!
//! Owns all `unsafe` of the crate. Every function borrows its buffers for the length of the call and passes the kernel
//! exactly their bounds; none keeps a pointer.

use std::ffi::CString;
use std::fs::File;
use std::io::{self, IoSlice};
use std::os::fd::{AsRawFd, RawFd};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::time::Duration;

use bytes::BytesMut;

use crate::disk::Space;

fn check(result: i64) -> io::Result<usize> {
    usize::try_from(result).map_err(|_| io::Error::last_os_error())
}

/// Bytes per `getrandom` call that are never cut short by a signal.
const RANDOM_BYTES_MAX: usize = 256;

pub(super) fn random(bytes: &mut [u8]) -> io::Result<()> {
    for chunk in bytes.chunks_mut(RANDOM_BYTES_MAX) {
        loop {
            match random_chunk(chunk) {
                Ok(()) => break,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
    }
    Ok(())
}

#[cfg(target_os = "linux")]
#[allow(unsafe_code)]
fn random_chunk(chunk: &mut [u8]) -> io::Result<()> {
    // SAFETY: pointer and length describe `chunk`, which outlives the call.
    let got = check(unsafe { libc::getrandom(chunk.as_mut_ptr().cast(), chunk.len(), 0) } as i64)?;
    if got == chunk.len() {
        Ok(())
    } else {
        Err(io::ErrorKind::Interrupted.into())
    }
}

#[cfg(not(target_os = "linux"))]
#[allow(unsafe_code)]
fn random_chunk(chunk: &mut [u8]) -> io::Result<()> {
    // SAFETY: pointer and length describe `chunk`, which is at most 256 bytes and outlives the call.
    check(i64::from(unsafe {
        libc::getentropy(chunk.as_mut_ptr().cast(), chunk.len())
    }))
    .map(drop)
}

/// One `pwritev`; may write less than asked.
#[allow(unsafe_code)]
pub(super) fn write_vectored_at(
    file: &File,
    bufs: &[IoSlice<'_>],
    position: u64,
) -> io::Result<usize> {
    let count = libc::c_int::try_from(bufs.len()).map_err(|_| io::ErrorKind::InvalidInput)?;
    let position = libc::off_t::try_from(position).map_err(|_| io::ErrorKind::InvalidInput)?;
    // SAFETY: `IoSlice` has the layout of `iovec`; the slices stay borrowed during the call and are only read.
    check(unsafe { libc::pwritev(file.as_raw_fd(), bufs.as_ptr().cast(), count, position) } as i64)
}

/// One `recv` behind what `into` holds, without clearing the room first: that would touch each page a second time.
#[allow(unsafe_code)]
pub(super) fn receive(socket: RawFd, into: &mut BytesMut) -> io::Result<usize> {
    let room = into.spare_capacity_mut();
    // SAFETY: pointer and length describe `room`, which stays borrowed during the call; the kernel only writes there.
    let result = unsafe { libc::recv(socket, room.as_mut_ptr().cast(), room.len(), 0) };
    let received = check(result as i64)?;
    // SAFETY: the kernel has written the first `received` bytes of the room, which begins behind the `len()` bytes.
    unsafe { into.set_len(into.len() + received) };
    Ok(received)
}

/// How many connections may wait at a listening socket.
#[allow(unsafe_code)]
pub(super) fn set_backlog(listener: RawFd, backlog: i32) -> io::Result<()> {
    // SAFETY: takes numbers only. A socket that listens already goes on with the new number.
    check(i64::from(unsafe { libc::listen(listener, backlog) })).map(drop)
}

/// Has the kernel ask peers of a socket that are silent for hours whether they are still there; a listening one hands that on to
/// the connections that it accepts.
#[allow(unsafe_code)]
pub(super) fn keep_alive(socket: RawFd) -> io::Result<()> {
    let on: libc::c_int = 1;
    // SAFETY: pointer and length describe `on`, which outlives the call; the kernel only reads it.
    let result = unsafe {
        libc::setsockopt(
            socket,
            libc::SOL_SOCKET,
            libc::SO_KEEPALIVE,
            (&raw const on).cast(),
            size_of_val(&on) as libc::socklen_t,
        )
    };
    check(i64::from(result)).map(drop)
}

/// The user at the other end of a socket in the file system, when it connected.
#[cfg(target_os = "linux")]
#[allow(unsafe_code)]
pub(super) fn peer_user(socket: RawFd) -> io::Result<u32> {
    let mut peer = libc::ucred {
        pid: 0,
        uid: u32::MAX,
        gid: u32::MAX,
    };
    let mut len = size_of_val(&peer) as libc::socklen_t;
    // SAFETY: pointer and length describe `peer`, which outlives the call; the kernel writes no more than `len` bytes, and any of
    // them make numbers.
    let result = unsafe {
        libc::getsockopt(
            socket,
            libc::SOL_SOCKET,
            libc::SO_PEERCRED,
            (&raw mut peer).cast(),
            &raw mut len,
        )
    };
    check(i64::from(result)).map(|_| peer.uid)
}

#[cfg(not(target_os = "linux"))]
#[allow(unsafe_code)]
pub(super) fn peer_user(socket: RawFd) -> io::Result<u32> {
    let (mut user, mut group) = (libc::uid_t::MAX, libc::gid_t::MAX);
    // SAFETY: the pointers are to numbers that outlive the call.
    let result = unsafe { libc::getpeereid(socket, &raw mut user, &raw mut group) };
    check(i64::from(result)).map(|_| user)
}

/// The user of this process, by whose rights it acts.
#[allow(unsafe_code)]
pub(super) fn own_user() -> u32 {
    // SAFETY: takes nothing and cannot fail.
    unsafe { libc::geteuid() }
}

#[cfg(test)]
#[allow(unsafe_code)]
pub(super) fn is_kept_alive(socket: RawFd) -> io::Result<bool> {
    let mut on: libc::c_int = 0;
    let mut len = size_of_val(&on) as libc::socklen_t;
    // SAFETY: pointer and length describe `on`, which outlives the call; the kernel writes no more than `len` bytes.
    let result = unsafe {
        libc::getsockopt(
            socket,
            libc::SOL_SOCKET,
            libc::SO_KEEPALIVE,
            (&raw mut on).cast(),
            &raw mut len,
        )
    };
    check(i64::from(result)).map(|_| on != 0)
}

/// Name of a congestion control, padded with zeroes.
pub(super) type CongestionName = [u8; 16];

/// By which congestion control a socket sends; a listening one hands it on to the connections that it accepts.
#[cfg(target_os = "linux")]
#[allow(unsafe_code)]
pub(super) fn congestion(socket: RawFd) -> io::Result<CongestionName> {
    let mut name = CongestionName::default();
    let mut len = name.len() as libc::socklen_t;
    // SAFETY: pointer and length describe `name`, which outlives the call; the kernel writes no more than `len` bytes.
    let result = unsafe {
        libc::getsockopt(
            socket,
            libc::IPPROTO_TCP,
            libc::TCP_CONGESTION,
            name.as_mut_ptr().cast(),
            &raw mut len,
        )
    };
    check(i64::from(result)).map(|_| name)
}

#[cfg(target_os = "linux")]
#[allow(unsafe_code)]
pub(super) fn set_congestion(socket: RawFd, name: &CongestionName) -> io::Result<()> {
    // SAFETY: pointer and length describe `name`, which the kernel copies.
    let result = unsafe {
        libc::setsockopt(
            socket,
            libc::IPPROTO_TCP,
            libc::TCP_CONGESTION,
            name.as_ptr().cast(),
            name.len() as libc::socklen_t,
        )
    };
    check(i64::from(result)).map(drop)
}

#[cfg(not(target_os = "linux"))]
pub(super) fn congestion(_: RawFd) -> io::Result<CongestionName> {
    Err(io::ErrorKind::Unsupported.into())
}

#[cfg(not(target_os = "linux"))]
pub(super) fn set_congestion(_: RawFd, _: &CongestionName) -> io::Result<()> {
    Err(io::ErrorKind::Unsupported.into())
}

/// Copies file bytes into a socket inside the kernel; `None` when this kernel or file cannot.
#[cfg(target_os = "linux")]
#[allow(unsafe_code)]
pub(super) fn send_file(
    socket: RawFd,
    file: RawFd,
    position: u64,
    len: usize,
) -> Option<io::Result<usize>> {
    let Ok(mut offset) = libc::off_t::try_from(position) else {
        return Some(Err(io::ErrorKind::InvalidInput.into()));
    };
    // SAFETY: both descriptors are open for the call; `offset` is a local the kernel may advance.
    let result = check(unsafe { libc::sendfile(socket, file, &raw mut offset, len) } as i64);
    match result {
        Err(error) if matches!(error.raw_os_error(), Some(libc::EINVAL | libc::ENOSYS)) => None,
        other => Some(other),
    }
}

#[cfg(not(target_os = "linux"))]
pub(super) fn send_file(_: RawFd, _: RawFd, _: u64, _: usize) -> Option<io::Result<usize>> {
    None
}

/// Makes the whole volume of `dir` durable.
#[cfg(target_os = "linux")]
#[allow(unsafe_code)]
pub(super) fn sync_volume(dir: &File) -> io::Result<()> {
    // SAFETY: the descriptor is open for the call.
    check(i64::from(unsafe { libc::syncfs(dir.as_raw_fd()) })).map(drop)
}

#[cfg(not(target_os = "linux"))]
#[allow(unsafe_code)]
pub(super) fn sync_volume(dir: &File) -> io::Result<()> {
    // SAFETY: no arguments, cannot fail.
    unsafe { libc::sync() };
    dir.sync_all()
}

/// Reserves blocks; a file system that cannot is no error.
#[cfg(target_os = "linux")]
#[allow(unsafe_code)]
pub(super) fn allocate(file: &File, position: u64, len: u64) -> io::Result<()> {
    let position = libc::off_t::try_from(position).map_err(|_| io::ErrorKind::InvalidInput)?;
    let len = libc::off_t::try_from(len).map_err(|_| io::ErrorKind::InvalidInput)?;
    // SAFETY: plain numbers and an open descriptor.
    match check(i64::from(unsafe {
        libc::fallocate(file.as_raw_fd(), libc::FALLOC_FL_KEEP_SIZE, position, len)
    })) {
        Err(error) if matches!(error.raw_os_error(), Some(libc::EOPNOTSUPP | libc::ENOSYS)) => {
            Ok(())
        }
        other => other.map(drop),
    }
}

#[cfg(not(target_os = "linux"))]
pub(super) fn allocate(_: &File, _: u64, _: u64) -> io::Result<()> {
    Ok(())
}

/// The three hints below promise nothing, so their errors carry no meaning.
#[cfg(target_os = "linux")]
#[allow(unsafe_code)]
pub(super) fn start_writeback(file: &File, position: u64, len: u64) {
    // SAFETY: plain numbers and an open descriptor.
    unsafe {
        libc::sync_file_range(
            file.as_raw_fd(),
            position as i64,
            len as i64,
            libc::SYNC_FILE_RANGE_WRITE,
        )
    };
}

#[cfg(target_os = "linux")]
#[allow(unsafe_code)]
pub(super) fn read_ahead(file: &File, position: u64, len: u64) {
    // SAFETY: plain numbers and an open descriptor.
    unsafe { libc::readahead(file.as_raw_fd(), position as i64, len as usize) };
}

#[cfg(target_os = "linux")]
#[allow(unsafe_code)]
pub(super) fn drop_cache(file: &File, position: u64, len: u64) {
    // SAFETY: plain numbers and an open descriptor.
    unsafe {
        libc::posix_fadvise(
            file.as_raw_fd(),
            position as i64,
            len as i64,
            libc::POSIX_FADV_DONTNEED,
        )
    };
}

#[cfg(not(target_os = "linux"))]
pub(super) fn start_writeback(_: &File, _: u64, _: u64) {}

#[cfg(not(target_os = "linux"))]
pub(super) fn drop_cache(_: &File, _: u64, _: u64) {}

#[allow(unsafe_code)]
#[allow(clippy::unnecessary_cast)] // the fields are narrower on other systems
pub(super) fn space(path: &Path) -> io::Result<Space> {
    let path =
        CString::new(path.as_os_str().as_bytes()).map_err(|_| io::ErrorKind::InvalidInput)?;
    let mut volume = std::mem::MaybeUninit::<libc::statvfs>::uninit();
    // SAFETY: `path` ends with a zero byte; the kernel fills `volume` whenever it answers 0.
    let volume = unsafe {
        check(i64::from(libc::statvfs(path.as_ptr(), volume.as_mut_ptr())))?;
        volume.assume_init()
    };
    let block = volume.f_frsize as u64;
    Ok(Space {
        total: block.saturating_mul(volume.f_blocks as u64),
        available: block.saturating_mul(volume.f_bavail as u64),
    })
}

/// Waits until `fd` is readable or `timeout` has passed, finer than the milliseconds of `epoll_wait`.
#[cfg(target_os = "linux")]
#[allow(unsafe_code)]
pub(super) fn wait_readable(fd: RawFd, timeout: Duration) {
    let mut entry = libc::pollfd {
        fd,
        events: libc::POLLIN,
        revents: 0,
    };
    let time = libc::timespec {
        tv_sec: timeout.as_secs().min(i32::MAX as u64) as libc::time_t,
        tv_nsec: timeout.subsec_nanos() as libc::c_long,
    };
    // SAFETY: one entry and one timespec, both locals; no signal mask. An error reads as "maybe ready", which is harmless.
    unsafe { libc::ppoll(&raw mut entry, 1, &raw const time, std::ptr::null()) };
}

#[cfg(not(target_os = "linux"))]
pub(super) fn wait_readable(_: RawFd, timeout: Duration) {
    // Elsewhere the poller's own timeout is fine enough.
    let _ = timeout;
}

/// Of ten shares of a processor that others want as well, the calling thread takes about one from now on, and makes room for
/// whoever wakes up. The niceness alone does not see to that: a thread that runs is left its slice, and whether that is over is
/// looked at once per tick, so each wake-up waits for up to 4 ms. Only who has a shorter slice gets the processor at once.
#[cfg(target_os = "linux")]
#[allow(unsafe_code)]
pub(super) fn let_others_go_first() {
    const NICENESS: libc::c_int = 10;
    // The longest one. Kernels before 6.12 have one length for all, take no notice, and need none: they weigh the niceness.
    const SLICE: Duration = Duration::from_millis(100);
    let attributes = libc::sched_attr {
        size: size_of::<libc::sched_attr>() as u32,
        sched_policy: libc::SCHED_OTHER as u32,
        sched_flags: 0,
        sched_nice: NICENESS,
        sched_priority: 0,
        sched_runtime: SLICE.as_nanos() as u64,
        sched_deadline: 0,
        sched_period: 0,
    };
    // SAFETY: the pointer is to a live struct that has its own size and is only read; 0 means the calling thread.
    let result = unsafe { libc::syscall(libc::SYS_sched_setattr, 0, &raw const attributes, 0) };
    if result != 0 {
        // SAFETY: takes numbers only. Where this is refused as well, the thread goes on as it was.
        unsafe { libc::setpriority(libc::PRIO_PROCESS, 0, NICENESS) };
    }
}

/// Niceness and slice of the calling thread.
#[cfg(all(test, target_os = "linux"))]
#[allow(unsafe_code)]
pub(super) fn patience() -> (i32, Duration) {
    // SAFETY: all zeroes is a valid value of a struct of numbers.
    let mut attributes: libc::sched_attr = unsafe { std::mem::zeroed() };
    let size = size_of::<libc::sched_attr>();
    // SAFETY: pointer and size describe `attributes`, which outlives the call; 0 means the calling thread.
    let result = unsafe { libc::syscall(libc::SYS_sched_getattr, 0, &raw mut attributes, size, 0) };
    check(result).expect("a thread may look at itself");
    (
        attributes.sched_nice,
        Duration::from_nanos(attributes.sched_runtime),
    )
}

#[cfg(not(target_os = "linux"))]
pub(super) fn let_others_go_first() {
    // Elsewhere the niceness is that of the whole process.
}

/// Addresses of a part of a file that nobody reads by: they show which of its pages are in the page cache, and bring pages there.
#[cfg(target_os = "linux")]
pub(super) struct View {
    address: *mut libc::c_void,
    len: usize,
}

#[cfg(target_os = "linux")]
#[allow(unsafe_code)]
impl View {
    /// Of `len` bytes from `position`, which begins a page. The kernel is to read it in its largest pages, and nothing else of the file.
    pub(super) fn of(file: &File, position: u64, len: usize) -> io::Result<View> {
        // SAFETY: a new mapping at an address of the kernel's choice; nothing that lives is mapped over.
        let address = unsafe {
            libc::mmap(
                std::ptr::null_mut(),
                len,
                libc::PROT_READ,
                libc::MAP_SHARED,
                file.as_raw_fd(),
                position as i64,
            )
        };
        if address == libc::MAP_FAILED {
            return Err(io::Error::last_os_error());
        }
        let view = View { address, len };
        for advice in [libc::MADV_HUGEPAGE, libc::MADV_RANDOM] {
            // SAFETY: the mapping is `len` bytes from `address` while the view lives. Advice changes no byte.
            check(i64::from(unsafe {
                libc::madvise(view.address, view.len, advice)
            }))?;
        }
        Ok(view)
    }

    /// Sets the lowest bit of each entry whose page is in the page cache and can be read. Pages behind the end of the file are not there.
    pub(super) fn present(&self, pages: &mut [u8]) -> io::Result<()> {
        assert!(self.len.div_ceil(PAGE_BYTES) <= pages.len());
        // SAFETY: the mapping as above, and an entry for each of its pages.
        check(i64::from(unsafe {
            libc::mincore(self.address, self.len, pages.as_mut_ptr())
        }))
        .map(drop)
    }

    /// Waits until a page is in the page cache; what cannot be read is an error, and so are bytes that were cut off.
    pub(super) fn bring(&self, page: usize) -> io::Result<()> {
        assert!((page + 1) * PAGE_BYTES <= self.len);
        // SAFETY: the page lies in the mapping as above. The kernel reads into its own cache; no byte is read by its address here or
        // anywhere, so none that is gone can fault.
        check(i64::from(unsafe {
            let address = self.address.byte_add(page * PAGE_BYTES);
            libc::madvise(address, PAGE_BYTES, libc::MADV_POPULATE_READ)
        }))
        .map(drop)
    }
}

#[cfg(target_os = "linux")]
#[allow(unsafe_code)]
impl Drop for View {
    fn drop(&mut self) {
        // SAFETY: the mapping is this view's own, and nobody has its address.
        unsafe { libc::munmap(self.address, self.len) };
    }
}

/// The unit that views count in.
pub(super) const PAGE_BYTES: usize = 4096;

#[allow(unsafe_code)]
pub(super) fn page_bytes() -> Option<usize> {
    // SAFETY: takes no pointer.
    usize::try_from(unsafe { libc::sysconf(libc::_SC_PAGESIZE) }).ok()
}

/// How many pages of a range are in the page cache, or on their way there. Unlike a read it makes the kernel read nothing.
#[cfg(target_os = "linux")]
#[allow(unsafe_code)]
pub(super) fn pages_cached(file: &File, position: u64, len: u64) -> io::Result<u64> {
    /// `struct cachestat`: pages in the cache, then of those dirty, under write-back, and two kinds of evicted ones.
    const FIELDS: usize = 5;
    const CACHESTAT: libc::c_long = 451;
    let range = [position, len];
    let mut counts = [0_u64; FIELDS];
    // SAFETY: the kernel reads the two numbers of a range and fills five, all of which live through the call.
    check(unsafe {
        libc::syscall(
            CACHESTAT,
            file.as_raw_fd(),
            range.as_ptr(),
            counts.as_mut_ptr(),
            0,
        )
    })?;
    Ok(counts[0])
}

/// True if the byte at `position` is in the page cache; an error counts as yes, the read itself will show it.
#[cfg(target_os = "linux")]
#[allow(unsafe_code)]
pub(super) fn is_resident(file: &File, position: u64) -> bool {
    let mut byte = [0u8; 1];
    let part = libc::iovec {
        iov_base: byte.as_mut_ptr().cast(),
        iov_len: 1,
    };
    // SAFETY: one iovec over one byte that lives through the call, and an open descriptor.
    let got = unsafe {
        libc::preadv2(
            file.as_raw_fd(),
            &part,
            1,
            position as i64,
            libc::RWF_NOWAIT,
        )
    };
    got >= 0 || std::io::Error::last_os_error().kind() != std::io::ErrorKind::WouldBlock
}

#[cfg(not(target_os = "linux"))]
pub(super) fn is_resident(_: &File, _: u64) -> bool {
    true
}

#[allow(unsafe_code)]
fn limit_of_files() -> io::Result<libc::rlimit> {
    let mut limit = libc::rlimit {
        rlim_cur: 0,
        rlim_max: 0,
    };
    // SAFETY: the pointer is to a live rlimit that the call fills.
    check(i64::from(unsafe {
        libc::getrlimit(libc::RLIMIT_NOFILE, &mut limit)
    }))?;
    Ok(limit)
}

/// Descriptors this process may have open.
pub(super) fn file_limit() -> Option<usize> {
    let limit = limit_of_files().ok()?;
    Some(usize::try_from(limit.rlim_cur).unwrap_or(usize::MAX))
}

/// Raises the soft limit of open files to the hard one: shells give 1024, a log with many partitions needs more.
#[allow(unsafe_code)]
pub(super) fn raise_file_limit() -> io::Result<()> {
    let mut limit = limit_of_files()?;
    limit.rlim_cur = limit.rlim_max;
    // SAFETY: as above, read only.
    check(i64::from(unsafe {
        libc::setrlimit(libc::RLIMIT_NOFILE, &limit)
    }))
    .map(drop)
}

/// Seconds since 1970 of a local time, given as what UTC would call the same numbers; `None` where the system does not know.
#[allow(unsafe_code)]
pub(super) fn local_to_utc(seconds: libc::time_t) -> Option<libc::time_t> {
    // SAFETY: a `tm` is numbers and a pointer, for which zeros are valid.
    let mut parts: libc::tm = unsafe { std::mem::zeroed() };
    // SAFETY: both pointers are to live values; the call fills the second.
    if unsafe { libc::gmtime_r(&seconds, &mut parts) }.is_null() {
        return None;
    }
    // The system knows whether summer time held then.
    parts.tm_isdst = -1;
    // SAFETY: the pointer is to a live `tm` that was filled above.
    let utc = unsafe { libc::mktime(&mut parts) };
    (utc != -1).then_some(utc)
}

/// Memory of the machine.
#[allow(unsafe_code)]
pub(super) fn memory_bytes() -> Option<u64> {
    // SAFETY: neither call takes a pointer.
    let (pages, page) = unsafe {
        (
            libc::sysconf(libc::_SC_PHYS_PAGES),
            libc::sysconf(libc::_SC_PAGESIZE),
        )
    };
    let (pages, page) = (u64::try_from(pages).ok()?, u64::try_from(page).ok()?);
    pages.checked_mul(page)
}

/// Ticks of the clock that `/proc` counts in, a second.
#[allow(unsafe_code)]
pub(super) fn clock_ticks() -> f64 {
    // SAFETY: takes no pointer.
    let ticks = unsafe { libc::sysconf(libc::_SC_CLK_TCK) };
    ticks as f64
}
