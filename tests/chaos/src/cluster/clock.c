/* A clock that is wrong: preloaded into a broker, the time of day is off by as many milliseconds as the file named by CHAOS_CLOCK says
 * at that moment. An empty file, or none: the real clock. Clocks that only go forward are left alone, as the kernel leaves them. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

static long long off_millis(void) {
    char text[32];
    const char *path = getenv("CHAOS_CLOCK");
    ssize_t got = -1;
    int saved = errno, file = path ? open(path, O_RDONLY | O_CLOEXEC) : -1;
    if (file >= 0) {
        got = read(file, text, sizeof text - 1);
        close(file);
    }
    text[got > 0 ? got : 0] = 0;
    errno = saved;
    return atoll(text);
}

int clock_gettime(clockid_t clock, struct timespec *now) {
    static int (*real)(clockid_t, struct timespec *);
    if (!real) real = dlsym(RTLD_NEXT, "clock_gettime");
    int got = real(clock, now);
    if (got || (clock != CLOCK_REALTIME && clock != CLOCK_REALTIME_COARSE)) return got;
    long long nanos = now->tv_sec * 1000000000LL + now->tv_nsec + off_millis() * 1000000LL;
    now->tv_sec = nanos / 1000000000LL;
    now->tv_nsec = nanos % 1000000000LL;
    return 0;
}

int gettimeofday(struct timeval *restrict now, void *restrict zone) {
    struct timespec then;
    (void)zone;
    clock_gettime(CLOCK_REALTIME, &then);
    now->tv_sec = then.tv_sec;
    now->tv_usec = then.tv_nsec / 1000;
    return 0;
}

time_t time(time_t *at) {
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    if (at) *at = now.tv_sec;
    return now.tv_sec;
}
