"""A file system in user space over a directory, for the manners of volumes that this machine does not have.

Speaks FUSE to the kernel itself, so it needs root and /dev/fuse and no library. `folds`: names that differ in case alone are one
name, as on exFAT, or APFS as it comes. `holds_open`: what is open stays in its directory under another name when it is removed, as
on NFS, and no directory above it can be renamed or removed, as on SMB. One thread and one request at a time: for what goes wrong,
not for load.
"""

import contextlib
import ctypes
import errno
import os
import stat
import struct
import threading


class Op:
    """Requests of the kernel, by number."""

    LOOKUP, FORGET, GETATTR, SETATTR, MKDIR, UNLINK, RMDIR, RENAME = 1, 2, 3, 4, 9, 10, 11, 12
    OPEN, READ, WRITE, STATFS, RELEASE, FSYNC, FLUSH, INIT = 14, 15, 16, 17, 18, 20, 25, 26
    OPENDIR, READDIR, RELEASEDIR, FSYNCDIR, CREATE, INTERRUPT, DESTROY = 27, 28, 29, 30, 35, 36, 38
    BATCH_FORGET, FALLOCATE, RENAME2 = 42, 43, 45


NO_REPLY = (Op.FORGET, Op.BATCH_FORGET, Op.INTERRUPT)
WRITE_BYTES_MAX = 1 << 20
BIG_WRITES, MAX_PAGES = 1 << 5, 1 << 22
MODE, UID, GID, SIZE = 1, 2, 4, 8  # bits of `valid` in SETATTR
LAZY = 2  # MNT_DETACH


class Cannot(Exception):
    """This machine has no FUSE, or this user may not mount."""


class Volume:
    """Nodes are numbered by their path below `root`; a number follows its file when it is renamed."""

    def __init__(self, root, folds, holds_open):
        self.root, self.folds, self.holds_open = os.fspath(root), folds, holds_open
        self.paths, self.numbers, self.opened = {1: self.root}, {self.root: 1}, {}
        self.asides = set()  # removed and still open
        self.refused = 0  # renames and removals of directories, because something in them was open

    def below(self, node, name):
        """The path of a name, under the case that it was made with."""
        parent, name = self.paths[node], os.fsdecode(name)
        if self.folds and not os.path.lexists(os.path.join(parent, name)):
            name = next((n for n in os.listdir(parent) if n.lower() == name.lower()), name)
        return os.path.join(parent, name)

    def number(self, path):
        if path not in self.numbers:
            self.numbers[path] = len(self.paths) + 1
            self.paths[self.numbers[path]] = path
        return self.numbers[path]

    def gone(self, path):
        """The number stays with whoever has the file open; a new file of that name gets another."""
        self.numbers.pop(path, None)

    def refuse_open(self, path):
        """No directory above an open file moves."""
        if self.holds_open and any(p.startswith(path + os.sep) for p in self.opened.values()):
            self.refused += 1
            raise OSError(errno.EBUSY, "is open")

    def unlink(self, path):
        """The last to close an open file removes it."""
        if self.holds_open and path in self.opened.values():
            aside = os.path.join(os.path.dirname(path), f".aside-{len(self.asides)}")
            self.asides.add(aside)
            self.move(path, aside)
        else:
            os.unlink(path)
            self.gone(path)

    def release(self, fd):
        os.close(fd)
        path = self.opened.pop(fd, None)
        if path in self.asides and path not in self.opened.values():
            os.unlink(path)
            self.gone(path)

    def opens(self, path, flags, mode=0o600):
        # Around the page cache is the kernel's word for its own pages; below they are ordinary writes.
        fd = os.open(path, flags & ~(os.O_DIRECT | os.O_NOFOLLOW), mode)
        self.opened[fd] = path
        return struct.pack("<QII", fd, 0, 0)

    def attributes(self, node, fd=None):
        s = os.lstat(self.paths[node]) if fd is None else os.fstat(fd)
        return struct.pack("<6Q10I", node, s.st_size, s.st_blocks, int(s.st_atime), int(s.st_mtime), int(s.st_ctime), 0, 0, 0, s.st_mode,
                           s.st_nlink, s.st_uid, s.st_gid, 0, 4096, 0)

    def entry(self, path):
        os.lstat(path)
        node = self.number(path)
        return struct.pack("<4QII", node, 0, 0, 0, 0, 0) + self.attributes(node)

    def rename(self, node, to, names):
        old, new = (self.below(at, name) for at, name in zip((node, to), names.split(b"\0")))
        if old == new or (self.folds and old.lower() == new.lower()):
            new = os.path.join(os.path.dirname(new), os.fsdecode(names.split(b"\0")[1]))
        self.refuse_open(old)
        self.move(old, new)
        return b""

    def move(self, old, new):
        os.rename(old, new)
        self.gone(new)
        for path, number in list(self.numbers.items()):
            if path == old or path.startswith(old + os.sep):
                moved = new + path[len(old):]
                del self.numbers[path]
                self.numbers[moved], self.paths[number] = number, moved
        self.opened = {fd: new + p[len(old):] if p == old or p.startswith(old + os.sep) else p for fd, p in self.opened.items()}

    def set_attributes(self, node, body):
        valid, _, _, size = struct.unpack_from("<IIQQ", body)
        mode, _, uid, gid = struct.unpack_from("<4I", body, 68)
        path = self.paths[node]
        if valid & MODE:
            os.chmod(path, stat.S_IMODE(mode))
        if valid & (UID | GID):
            os.chown(path, uid if valid & UID else -1, gid if valid & GID else -1)
        if valid & SIZE:
            os.truncate(path, size)
        return struct.pack("<QII", 0, 0, 0) + self.attributes(node)

    def entries(self, node, offset, room):
        listed, out = sorted(os.listdir(self.paths[node])), b""
        for at, name in enumerate(listed[offset:], offset + 1):
            raw = os.fsencode(name)
            mode = os.lstat(os.path.join(self.paths[node], name)).st_mode
            one = struct.pack("<QQII", at, at, len(raw), mode >> 12) + raw
            one += bytes(-len(one) % 8)
            if len(out) + len(one) > room:
                break
            out += one
        return out

    def reply(self, op, node, body):
        """The answer to a request; an OSError is an answer too."""
        match op:
            case Op.INIT:
                major, minor, ahead = struct.unpack_from("<III", body)
                flags = BIG_WRITES | MAX_PAGES
                return struct.pack("<4IHHIIHHI7I", major, min(minor, 31), ahead, flags, 16, 12, WRITE_BYTES_MAX, 1,
                                   WRITE_BYTES_MAX >> 12, 0, 0, *[0] * 7)
            case Op.LOOKUP:
                return self.entry(self.below(node, body.rstrip(b"\0")))
            case Op.GETATTR:
                flags, _, fh = struct.unpack_from("<IIQ", body)
                return struct.pack("<QII", 0, 0, 0) + self.attributes(node, fh if flags & 1 else None)
            case Op.SETATTR:
                return self.set_attributes(node, body)
            case Op.MKDIR:
                path = self.below(node, body[8:].rstrip(b"\0"))
                os.mkdir(path, struct.unpack_from("<I", body)[0])
                return self.entry(path)
            case Op.UNLINK:
                self.unlink(self.below(node, body.rstrip(b"\0")))
                return b""
            case Op.RMDIR:
                path = self.below(node, body.rstrip(b"\0"))
                self.refuse_open(path)
                os.rmdir(path)
                self.gone(path)
                return b""
            case Op.RENAME | Op.RENAME2:
                return self.rename(node, struct.unpack_from("<Q", body)[0], body[8 if op == Op.RENAME else 16:])
            case Op.OPEN:
                return self.opens(self.paths[node], struct.unpack_from("<I", body)[0] & ~(os.O_CREAT | os.O_EXCL))
            case Op.CREATE:
                flags, mode = struct.unpack_from("<II", body)
                path = self.below(node, body[16:].rstrip(b"\0"))
                handle = self.opens(path, flags | os.O_CREAT, mode)
                return self.entry(path) + handle
            case Op.READ:
                fh, offset, size = struct.unpack_from("<QQI", body)
                return os.pread(fh, size, offset)
            case Op.WRITE:
                fh, offset, size = struct.unpack_from("<QQI", body)
                return struct.pack("<II", os.pwrite(fh, body[40:40 + size], offset), 0)
            case Op.STATFS:
                s = os.statvfs(self.root)
                return struct.pack("<5Q4I24x", s.f_blocks, s.f_bfree, s.f_bavail, s.f_files, s.f_ffree, s.f_bsize, s.f_namemax,
                                   s.f_frsize, 0)
            case Op.RELEASE:
                self.release(struct.unpack_from("<Q", body)[0])
                return b""
            case Op.FSYNC:
                os.fsync(struct.unpack_from("<Q", body)[0])
                return b""
            case Op.FALLOCATE:
                fh, offset, length, mode = struct.unpack_from("<QQQI", body)
                if mode:
                    raise OSError(errno.EOPNOTSUPP, "only room is made")
                os.posix_fallocate(fh, offset, length)
                return b""
            case Op.READDIR:
                return self.entries(node, *struct.unpack_from("<QI", body, 8))
            case Op.OPENDIR:
                return bytes(16)
            case Op.FLUSH | Op.RELEASEDIR | Op.FSYNCDIR | Op.DESTROY:
                return b""
        raise OSError(errno.ENOSYS, "not needed")

    def serve(self, device):
        while True:
            try:
                request = os.read(device, WRITE_BYTES_MAX + 4096)
            except OSError as error:
                if error.errno in (errno.EINTR, errno.ENOENT):
                    continue
                return  # unmounted
            _, op, unique, node = struct.unpack_from("<IIQQ", request)
            code, out = 0, b""
            try:
                out = self.reply(op, node, request[40:])
            except OSError as error:
                code = -error.errno
            except KeyError:
                code = -errno.ESTALE
            if op not in NO_REPLY:
                with contextlib.suppress(OSError):  # interrupted meanwhile
                    os.write(device, struct.pack("<IiQ", 16 + len(out), code, unique) + out)


@contextlib.contextmanager
def mounted(root, place, folds=False, holds_open=False):
    """Mounts the volume at `place` with its files in `root`; raises Cannot where that is not to be had."""
    libc = ctypes.CDLL(None, use_errno=True)
    try:
        device = os.open("/dev/fuse", os.O_RDWR)
    except OSError as error:
        raise Cannot(f"no FUSE here: {error}") from error
    options = f"fd={device},rootmode=40000,user_id={os.getuid()},group_id={os.getgid()}".encode()
    if libc.mount(b"esker-test", os.fsencode(place), b"fuse.esker", 0, options):
        os.close(device)
        raise Cannot(f"no FUSE here: mount: {os.strerror(ctypes.get_errno())}")
    volume = Volume(root, folds, holds_open)
    thread = threading.Thread(target=volume.serve, args=(device,), daemon=True)
    thread.start()
    try:
        yield volume
    finally:
        libc.umount2(os.fsencode(place), LAZY)
        os.close(device) if not thread.is_alive() else None
        thread.join(5)
