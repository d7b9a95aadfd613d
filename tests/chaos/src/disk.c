/* A disk that dies or dawdles: preloaded into a broker, it does what the file named by CHAOS_DISK says at every call:
 *   sync-fails         syncs return EIO
 *   write-fails        writes return EIO
 *   sync-takes MILLIS  syncs take so much longer
 * An empty file, or none: the real disk. Only calls that the broker makes are here.
 *
 * The first call that fails takes LAST_MILLIS, so that whatever was good before is acknowledged by then, and writes down when it
 * is told of its failure: nanoseconds since 1970, in a file of that name and .failed. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/uio.h>
#include <time.h>
#include <unistd.h>

static void mood(char *text, size_t size) {
    const char *path = getenv("CHAOS_DISK");
    ssize_t got = -1;
    int saved = errno, file = path ? open(path, O_RDONLY | O_CLOEXEC) : -1;
    if (file >= 0) {
        got = read(file, text, size - 1);
        close(file);
    }
    text[got > 0 ? got : 0] = 0;
    errno = saved;
}

#define LAST_MILLIS 500

static void nap(long millis) {
    struct timespec wait = {millis / 1000, millis % 1000 * 1000000};
    nanosleep(&wait, NULL);
}

static void note_failure(void) {
    char path[4096], text[32];
    struct timespec now;
    snprintf(path, sizeof path, "%s.failed", getenv("CHAOS_DISK"));
    if (access(path, F_OK) == 0) return;
    nap(LAST_MILLIS);
    int file = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
    if (file < 0) return;
    clock_gettime(CLOCK_REALTIME, &now);
    int length = snprintf(text, sizeof text, "%lld", now.tv_sec * 1000000000LL + now.tv_nsec);
    if (write(file, text, length) != length) abort();
    close(file);
}

static int fails(const char *what) {
    char text[64];
    mood(text, sizeof text);
    if (!strncmp(text, what, strlen(what))) {
        note_failure();
        errno = EIO;
        return 1;
    }
    if (!strncmp(what, "sync", 4) && !strncmp(text, "sync-takes ", 11)) {
        nap(atol(text + 11));
    }
    return 0;
}

#define REAL(name) ((__typeof__(&name))dlsym(RTLD_NEXT, #name))

int fsync(int fd) { return fails("sync-fails") ? -1 : REAL(fsync)(fd); }
int fdatasync(int fd) { return fails("sync-fails") ? -1 : REAL(fdatasync)(fd); }
int syncfs(int fd) { return fails("sync-fails") ? -1 : REAL(syncfs)(fd); }

ssize_t pwrite64(int fd, const void *bytes, size_t count, off64_t at) {
    return fails("write-fails") ? -1 : REAL(pwrite64)(fd, bytes, count, at);
}

ssize_t pwritev(int fd, const struct iovec *parts, int count, off_t at) {
    return fails("write-fails") ? -1 : REAL(pwritev)(fd, parts, count, at);
}
