/* A server that is no broker: what the machine makes of appends and commits if nothing is done but what must be.
 *
 * One thread receives until nothing more comes, writes all requests as they are to a file of zeros with one
 * call, syncs it, and answers each. Nothing is checked, found again or kept. So no broker that makes each
 * request durable before it answers is much faster with this client, and the share that one reaches says more
 * than its requests a second, which are the machine's as well. With `bare=none` nothing is written or synced either:
 * what is left is the machine's loopback and this client. */
#define _GNU_SOURCE
#include "client.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/tcp.h>
#include <signal.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <unistd.h>

#define BARE_NO_FILE "none"
#define EVENTS 256
#define ROUND_MAX 1024
#define REQUEST_MAX (2 << 20)
#define FILE_BYTES (64 << 20)
#define PAGE 4096
#define API_AT 4
#define CORRELATION_AT (4 + 2 + 2)
/* Behind "bench", the client's name. */
#define BODY_AT (CORRELATION_AT + 4 + 7)
/* Where an append of ours has its topic: behind transaction, acks, timeout and the count of topics. */
#define TOPIC_AT (BODY_AT + 2 + 2 + 4 + 4)
/* And a batch its count of records, behind the topic's name: behind partition count, index, size and what comes before. */
#define RECORDS_AT (4 + 4 + 4 + 57)

struct caller {
    int fd;
    size_t got, whole; /* bytes, and of them in whole requests */
    uint8_t *request;
};

struct server {
    int epoll, listener, file;
    off_t written;
    int64_t log_end;
    struct caller *round[ROUND_MAX];
    int count;
};

static void watch(struct server *s, int fd, struct caller *caller)
{
    struct epoll_event e = {.events = EPOLLIN, .data.ptr = caller};
    if (epoll_ctl(s->epoll, EPOLL_CTL_ADD, fd, &e))
        die("epoll_ctl: %s", strerror(errno));
}

static void accept_all(struct server *s)
{
    int fd, one = 1;
    while ((fd = accept4(s->listener, NULL, NULL, SOCK_NONBLOCK)) >= 0) {
        struct caller *caller = calloc(1, sizeof *caller);
        if (!caller || !(caller->request = malloc(REQUEST_MAX)))
            die("out of memory");
        caller->fd = fd;
        setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
        watch(s, fd, caller);
    }
}

static void receive(struct server *s, struct caller *c)
{
    ssize_t n = recv(c->fd, c->request + c->got, REQUEST_MAX - c->got, 0);
    if (n < 0 && errno == EAGAIN)
        return;
    if (n <= 0) {
        close(c->fd);
        return;
    }
    c->got += (size_t)n;
    int is_new = !c->whole;
    while (c->got - c->whole >= 4 && c->got - c->whole >= be(c->request + c->whole, 4) + 4)
        c->whole += be(c->request + c->whole, 4) + 4;
    if (!is_new || !c->whole)
        return;
    if (s->count == ROUND_MAX)
        die("more than %d requests at once", ROUND_MAX);
    s->round[s->count++] = c;
}

static void write_round(struct server *s)
{
    struct iovec parts[ROUND_MAX];
    ssize_t bytes = 0;
    for (int i = 0; i < s->count; i++) {
        parts[i] = (struct iovec){s->round[i]->request, s->round[i]->whole};
        bytes += (ssize_t)s->round[i]->whole;
    }
    if (s->file < 0)
        return;
    if (s->written + bytes > FILE_BYTES)
        s->written = 0;
    if (pwritev(s->file, parts, s->count, s->written) != bytes || fdatasync(s->file))
        die("write and sync: %s", strerror(errno));
    s->written += (bytes + PAGE - 1) / PAGE * PAGE;
}

/* One topic, and its first partition or the one that is named. */
static void put_topic(struct buffer *b, const uint8_t *topic, size_t topic_len, uint32_t partition)
{
    put32(b, 1);
    put(b, topic, topic_len);
    put32(b, 1);
    put32(b, partition);
    put16(b, 0); /* no error */
}

static void put_appended(struct buffer *b, struct server *s, const uint8_t *request)
{
    const uint8_t *topic = request + TOPIC_AT;
    size_t topic_len = 2 + (size_t)be(topic, 2);
    put_topic(b, topic, topic_len, 0);
    put64(b, (uint64_t)s->log_end);
    put64(b, ~0ull); /* the time is the producer's */
    put32(b, 0);     /* no throttle */
    s->log_end += (int64_t)be(topic + topic_len + RECORDS_AT, 4);
}

static void put_committed(struct buffer *b, const uint8_t *request)
{
    const uint8_t *p = request + BODY_AT;
    p += 2 + be(p, 2) + 4; /* group, generation */
    p += 2 + be(p, 2) + 4; /* member, count of topics */
    size_t topic_len = 2 + (size_t)be(p, 2);
    put32(b, 0); /* no throttle */
    put_topic(b, p, topic_len, (uint32_t)be(p + topic_len + 4, 4));
}

static void put_answer(struct buffer *b, struct server *s, const uint8_t *request)
{
    size_t at = b->len;
    put32(b, 0);
    put(b, request + CORRELATION_AT, 4);
    if (be(request + API_AT, 2) == API_OFFSET_COMMIT)
        put_committed(b, request);
    else
        put_appended(b, s, request);
    patch32(b, at, (uint32_t)(b->len - at - 4));
}

/* All requests of a caller with one call. */
static void answer(struct server *s, struct caller *c)
{
    struct buffer b = {0};
    for (size_t at = 0; at < c->whole; at += be(c->request + at, 4) + 4)
        put_answer(&b, s, c->request + at);
    c->got -= c->whole;
    memmove(c->request, c->request + c->whole, c->got);
    c->whole = 0;
    if (send(c->fd, b.bytes, b.len, MSG_NOSIGNAL) != (ssize_t)b.len)
        die("a caller that takes no answers");
    free(b.bytes);
}

static void serve(struct server *s)
{
    for (;;) {
        struct epoll_event events[EVENTS];
        int n = epoll_wait(s->epoll, events, EVENTS, s->count ? 0 : -1);
        for (int i = 0; i < n; i++) {
            if (events[i].data.ptr)
                receive(s, events[i].data.ptr);
            else
                accept_all(s);
        }
        if (n == 0) {
            write_round(s);
            for (int i = 0; i < s->count; i++)
                answer(s, s->round[i]);
            s->count = 0;
        }
    }
}

/* A file of zeros that ends with its descriptor. */
static int open_zeros(const char *path)
{
    int file = open(path, O_RDWR | O_CREAT | O_TRUNC, 0600);
    char *zeros = calloc(1, 1 << 20);
    for (off_t at = 0; zeros && at < FILE_BYTES; at += 1 << 20)
        if (pwrite(file, zeros, 1 << 20, at) != 1 << 20)
            die("%s: %s", path, strerror(errno));
    if (fdatasync(file) || unlink(path))
        die("%s: %s", path, strerror(errno));
    free(zeros);
    return file;
}

/* Starts it as a process of its own that ends with this one; returns its port. */
int serve_bare(const char *path)
{
    struct server s = {.epoll = epoll_create1(0), .file = strcmp(path, BARE_NO_FILE) ? open_zeros(path) : -1};
    struct sockaddr_in a = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t len = sizeof a;
    s.listener = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK, 0);
    if (bind(s.listener, (struct sockaddr *)&a, len) || listen(s.listener, CONNS_MAX)
        || getsockname(s.listener, (struct sockaddr *)&a, &len))
        die("listen: %s", strerror(errno));
    pid_t parent = getpid(), child = fork();
    if (child < 0)
        die("fork: %s", strerror(errno));
    if (!child) {
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        if (getppid() != parent)
            _exit(1);
        watch(&s, s.listener, NULL);
        serve(&s);
    }
    close(s.listener);
    close(s.epoll);
    if (s.file >= 0)
        close(s.file);
    return ntohs(a.sin_port);
}
