/* Makes every sync of a process slower by a fixed time, and counts syncs.
 *
 *     SLOWSYNC_US=2000 SLOWSYNC_COUNT=/path/to/count LD_PRELOAD=slowsync.so PROGRAM
 *
 * After each real fdatasync, fsync or write with RWF_DSYNC that succeeds the
 * calling thread sleeps SLOWSYNC_US microseconds: the process sees a device
 * whose flush takes that much longer, while the device itself is left alone.
 * SLOWSYNC_COUNT names a file whose first 8 bytes are kept as the number of
 * syncs so far; a harness reads it to prove that the shim bites, since a
 * program that makes system calls without libc would pass it by.
 * sync_file_range is not a sync (it flushes nothing) and is left alone. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/uio.h>
#include <time.h>
#include <unistd.h>

static long delay_us;
static _Atomic unsigned long long *count;
static int (*real_fdatasync)(int);
static int (*real_fsync)(int);
static ssize_t (*real_pwritev2)(int, const struct iovec *, int, off_t, int);

__attribute__((constructor)) static void load(void)
{
    real_fdatasync = (int (*)(int))dlsym(RTLD_NEXT, "fdatasync");
    real_fsync = (int (*)(int))dlsym(RTLD_NEXT, "fsync");
    real_pwritev2 = (ssize_t(*)(int, const struct iovec *, int, off_t, int))dlsym(RTLD_NEXT, "pwritev2");
    const char *us = getenv("SLOWSYNC_US"), *path = getenv("SLOWSYNC_COUNT");
    delay_us = us ? strtol(us, NULL, 10) : 0;
    int fd = path ? open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0644) : -1;
    if (fd < 0)
        return;
    if (ftruncate(fd, sizeof *count) == 0) {
        void *page = mmap(NULL, sizeof *count, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
        if (page != MAP_FAILED)
            count = page;
    }
    close(fd);
}

static void slow(void)
{
    int kept = errno;
    static __thread int precise;
    if (count)
        atomic_fetch_add(count, 1);
    if (delay_us > 0) {
        /* the default slack of 50 us would be a large part of a short delay */
        if (!precise)
            precise = prctl(PR_SET_TIMERSLACK, 1000UL, 0, 0, 0) == 0;
        struct timespec t = {.tv_sec = delay_us / 1000000, .tv_nsec = delay_us % 1000000 * 1000};
        while (clock_nanosleep(CLOCK_MONOTONIC, 0, &t, &t) == EINTR)
            ;
    }
    errno = kept;
}

int fdatasync(int fd)
{
    int r = real_fdatasync(fd);
    if (r == 0)
        slow();
    return r;
}

int fsync(int fd)
{
    int r = real_fsync(fd);
    if (r == 0)
        slow();
    return r;
}

ssize_t pwritev2(int fd, const struct iovec *iov, int n, off_t at, int flags)
{
    ssize_t r = real_pwritev2(fd, iov, n, at, flags);
    if (r >= 0 && flags & (RWF_DSYNC | RWF_SYNC))
        slow();
    return r;
}
