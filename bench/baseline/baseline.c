/* What the machine itself can do, measured in the same run as the brokers.
 *
 *     baseline loopback SECONDS          one TCP stream, 256 KiB writes
 *     baseline pingpong SECONDS BYTES    a request of BYTES and a short reply, one connection
 *     baseline sync SECONDS BYTES FILE   overwrite BYTES of a zero-written file, then fdatasync
 *     baseline append SECONDS BYTES FILE append BYTES to a growing file, then fdatasync
 *     baseline drop FILE...              write back and drop the files' pages
 *     baseline resident FILE...          share of the files' pages in memory
 *
 * Prints one JSON object. `drop` touches only the files it is given: nothing
 * else on the machine loses its cache. */
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <fcntl.h>
#include <netinet/tcp.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include "../clients/librdkafka/histogram.h"

#define STREAM_BYTES (256 << 10)
#define SYNC_FILE_BYTES (64 << 20)
#define REPLY_BYTES 64

static void die(const char *what)
{
    perror(what);
    exit(1);
}

static double cpu_seconds(void)
{
    struct rusage u;
    getrusage(RUSAGE_SELF, &u);
    return (double)(u.ru_utime.tv_sec + u.ru_stime.tv_sec) +
           (double)(u.ru_utime.tv_usec + u.ru_stime.tv_usec) / 1e6;
}

/* Two ends of one loopback connection. */
static void connect_pair(int ends[2])
{
    struct sockaddr_in a = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t n = sizeof a;
    int one = 1, listener = socket(AF_INET, SOCK_STREAM, 0);
    if (listener < 0 || bind(listener, (struct sockaddr *)&a, sizeof a) || listen(listener, 1)
        || getsockname(listener, (struct sockaddr *)&a, &n))
        die("listen");
    ends[0] = socket(AF_INET, SOCK_STREAM, 0);
    if (ends[0] < 0 || connect(ends[0], (struct sockaddr *)&a, sizeof a))
        die("connect");
    ends[1] = accept(listener, NULL, NULL);
    if (ends[1] < 0)
        die("accept");
    for (int i = 0; i < 2; i++)
        setsockopt(ends[i], IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
    close(listener);
}

static int exchange(int fd, char *buf, size_t bytes, int sending)
{
    for (size_t done = 0; done < bytes;) {
        ssize_t n = sending ? write(fd, buf + done, bytes - done) : read(fd, buf + done, bytes - done);
        if (n <= 0)
            return 0;
        done += (size_t)n;
    }
    return 1;
}

static void *sender_main(void *arg)
{
    int fd = *(int *)arg;
    char *buf = calloc(1, STREAM_BYTES);
    while (exchange(fd, buf, STREAM_BYTES, 1))
        ;
    return NULL;
}

static void loopback(double seconds)
{
    int ends[2];
    pthread_t thread;
    char *buf = malloc(STREAM_BYTES);
    connect_pair(ends);
    if (pthread_create(&thread, NULL, sender_main, &ends[0]))
        die("thread");
    uint64_t bytes = 0, began = now_ns(), until = began + (uint64_t)(seconds * 1e9);
    while (now_ns() < until) {
        ssize_t n = read(ends[1], buf, STREAM_BYTES);
        if (n <= 0)
            die("read");
        bytes += (uint64_t)n;
    }
    double secs = (double)(now_ns() - began) / 1e9;
    printf("{\"seconds\": %.3f, \"mib_per_s\": %.1f, \"client_cpu_s\": %.3f}\n", secs, (double)bytes / secs / 1048576.0, cpu_seconds());
}

static size_t ping_bytes;

static void *echo_main(void *arg)
{
    int fd = *(int *)arg;
    char *buf = calloc(1, ping_bytes + REPLY_BYTES);
    while (exchange(fd, buf, ping_bytes, 0) && exchange(fd, buf, REPLY_BYTES, 1))
        ;
    return NULL;
}

static void report(struct histogram *h, uint64_t began)
{
    double secs = (double)(now_ns() - began) / 1e9;
    printf("{\"seconds\": %.3f, \"rounds_per_s\": %.1f, \"client_cpu_s\": %.3f", secs, (double)h->count / secs, cpu_seconds());
    histogram_print(h);
    printf("}\n");
}

static void pingpong(double seconds, size_t bytes)
{
    static struct histogram h;
    int ends[2];
    pthread_t thread;
    char *buf = calloc(1, bytes + REPLY_BYTES);
    ping_bytes = bytes;
    connect_pair(ends);
    if (pthread_create(&thread, NULL, echo_main, &ends[1]))
        die("thread");
    uint64_t began = now_ns(), until = began + (uint64_t)(seconds * 1e9);
    for (uint64_t at = began; at < until;) {
        if (!exchange(ends[0], buf, bytes, 1) || !exchange(ends[0], buf, REPLY_BYTES, 0))
            die("exchange");
        uint64_t now = now_ns();
        histogram_add(&h, now - at);
        at = now;
    }
    report(&h, began);
}

static void sync_writes(double seconds, size_t bytes, const char *path, int growing)
{
    static struct histogram h;
    int fd = open(path, O_RDWR | O_CREAT | O_TRUNC, 0644);
    char *buf = calloc(1, bytes > STREAM_BYTES / 2 ? bytes : STREAM_BYTES / 2);
    if (fd < 0)
        die(path);
    for (size_t at = 0; !growing && at < SYNC_FILE_BYTES; at += STREAM_BYTES / 2)
        if (pwrite(fd, buf, STREAM_BYTES / 2, (off_t)at) != STREAM_BYTES / 2)
            die("zero");
    if (fdatasync(fd))
        die("fdatasync");
    memset(buf, 'x', bytes);
    uint64_t began = now_ns(), until = began + (uint64_t)(seconds * 1e9);
    size_t offset = 0;
    for (uint64_t at = began; at < until;) {
        if (!growing && offset + bytes > SYNC_FILE_BYTES)
            offset = 0;
        if (pwrite(fd, buf, bytes, (off_t)offset) != (ssize_t)bytes || fdatasync(fd))
            die("write and sync");
        offset += bytes;
        uint64_t now = now_ns();
        histogram_add(&h, now - at);
        at = now;
    }
    report(&h, began);
    close(fd);
    unlink(path);
}

/* Resident pages, and all pages, of the files; drops them first when asked. */
static void pages(int count, char **paths, int drop)
{
    size_t page = (size_t)sysconf(_SC_PAGESIZE), resident = 0, total = 0;
    for (int i = 0; i < count; i++) {
        struct stat s;
        int fd = open(paths[i], O_RDONLY);
        if (fd < 0 || fstat(fd, &s))
            die(paths[i]);
        if (drop && (fdatasync(fd) || posix_fadvise(fd, 0, 0, POSIX_FADV_DONTNEED)))
            die("drop");
        size_t n = ((size_t)s.st_size + page - 1) / page;
        if (n) {
            void *map = mmap(NULL, (size_t)s.st_size, PROT_READ, MAP_SHARED, fd, 0);
            unsigned char *in = malloc(n);
            if (map == MAP_FAILED || !in || mincore(map, (size_t)s.st_size, in))
                die("mincore");
            for (size_t k = 0; k < n; k++)
                resident += in[k] & 1;
            munmap(map, (size_t)s.st_size);
            free(in);
        }
        total += n;
        close(fd);
    }
    printf("{\"pages\": %zu, \"resident\": %zu, \"share\": %.4f}\n", total, resident, total ? (double)resident / (double)total : 0);
}

int main(int argc, char **argv)
{
    const char *what = argc > 1 ? argv[1] : "";
    if (!strcmp(what, "drop") || !strcmp(what, "resident"))
        pages(argc - 2, argv + 2, what[0] == 'd');
    else if (!strcmp(what, "loopback") && argc == 3)
        loopback(atof(argv[2]));
    else if (!strcmp(what, "pingpong") && argc == 4)
        pingpong(atof(argv[2]), (size_t)atol(argv[3]));
    else if ((!strcmp(what, "sync") || !strcmp(what, "append")) && argc == 5)
        sync_writes(atof(argv[2]), (size_t)atol(argv[3]), argv[4], what[0] == 'a');
    else {
        fprintf(stderr, "usage: baseline loopback|pingpong|sync|append|drop|resident ...\n");
        return 2;
    }
    return 0;
}
