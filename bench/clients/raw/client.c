/* What the loads share: requests built byte by byte, connections, one epoll loop. */
#define _GNU_SOURCE
#include "client.h"

#include <arpa/inet.h>
#include <endian.h>
#include <errno.h>
#include <netinet/tcp.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

#define EVENTS 128
/* Nothing acknowledged on any connection for this long ends the run. */
#define SILENCE_MS 30000

void put(struct buffer *b, const void *bytes, size_t n)
{
    if (b->len + n > b->room) {
        b->room = (b->len + n) * 2;
        b->bytes = realloc(b->bytes, b->room);
        if (!b->bytes)
            die("out of memory");
    }
    memcpy(b->bytes + b->len, bytes, n);
    b->len += n;
}

void put8(struct buffer *b, uint8_t v) { put(b, &v, 1); }
void put16(struct buffer *b, uint16_t v) { v = htobe16(v); put(b, &v, 2); }
void put32(struct buffer *b, uint32_t v) { v = htobe32(v); put(b, &v, 4); }
void put64(struct buffer *b, uint64_t v) { v = htobe64(v); put(b, &v, 8); }

void put_text(struct buffer *b, const char *s)
{
    put16(b, (uint16_t)strlen(s));
    put(b, s, strlen(s));
}

void put_varint(struct buffer *b, int64_t n)
{
    uint64_t v = ((uint64_t)n << 1) ^ (uint64_t)(n >> 63);
    for (; v > 0x7f; v >>= 7)
        put8(b, (uint8_t)(v & 0x7f) | 0x80);
    put8(b, (uint8_t)v);
}

void patch32(struct buffer *b, size_t at, uint32_t v)
{
    v = htobe32(v);
    memcpy(b->bytes + at, &v, 4);
}

/* A request's head; its length, the first four bytes, is patched when the body is there. */
void put_head(struct buffer *b, int api, int version)
{
    put32(b, 0);
    put16(b, (uint16_t)api);
    put16(b, (uint16_t)version);
    put32(b, 1); /* correlation: replies come in order */
    put_text(b, "bench");
}

uint64_t be(const uint8_t *p, int n)
{
    uint64_t v = 0;
    while (n--)
        v = v << 8 | *p++;
    return v;
}

static void send_more(int epoll, const struct run *r, struct connection *c)
{
    const struct buffer *out = r->change ? &c->queue : &c->request;
    while (c->sent < out->len) {
        ssize_t n = send(c->fd, out->bytes + c->sent, out->len - c->sent, MSG_NOSIGNAL | MSG_DONTWAIT);
        if (n < 0 && errno != EAGAIN)
            die("send: %s", strerror(errno));
        if (n < 0)
            break;
        c->sent += (size_t)n;
    }
    int unsent = c->sent < out->len;
    if (unsent != c->waiting_to_send) {
        struct epoll_event e = {.events = EPOLLIN | (unsent ? EPOLLOUT : 0), .data.ptr = c};
        epoll_ctl(epoll, EPOLL_CTL_MOD, c->fd, &e);
        c->waiting_to_send = unsent;
    }
}

static void send_requests(int epoll, const struct run *r, struct connection *c, int count)
{
    uint64_t now = now_ns();
    if (!r->change || c->sent == c->queue.len)
        c->sent = c->queue.len = 0;
    for (int i = 0; i < count; i++) {
        c->at[(c->oldest + c->count++) % DEPTH_MAX] = now;
        if (r->change) {
            put(&c->queue, c->request.bytes, c->request.len);
            r->change(c);
        }
    }
    send_more(epoll, r, c);
}

static void acknowledged(struct run *r, struct connection *c, uint64_t now)
{
    r->total += c->records;
    if (now >= r->measure_from && now < r->measure_to) {
        r->measured += c->records;
        r->measured_requests++;
        histogram_add(&r->latency, now - c->at[c->oldest % DEPTH_MAX]);
    }
    c->oldest++;
    c->count--;
}

/* Takes the whole replies that are there, and gives how many. */
static int receive_more(struct run *r, struct connection *c)
{
    ssize_t n = recv(c->fd, c->replies + c->got, REPLY_MAX - c->got, MSG_DONTWAIT);
    if (n < 0 && errno == EAGAIN)
        return 0;
    if (n <= 0)
        die("the broker closed the connection");
    c->got += (size_t)n;
    int count = 0;
    size_t from = 0;
    for (uint64_t now = now_ns(); c->got - from >= 4; count++) {
        size_t len = (size_t)be(c->replies + from, 4) + 4;
        if (len > REPLY_MAX)
            die("a reply of %zu bytes", len);
        if (c->got - from < len)
            break;
        if (!c->count)
            die("a reply nobody asked for");
        r->take(r, c, c->replies + from, len);
        acknowledged(r, c, now);
        from += len;
    }
    c->got -= from;
    memmove(c->replies, c->replies + from, c->got);
    return count;
}

int open_connection(int port)
{
    struct sockaddr_in a = {.sin_family = AF_INET, .sin_port = htons((uint16_t)port), .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    int one = 1, fd = socket(AF_INET, SOCK_STREAM, 0);
    if (fd < 0 || connect(fd, (struct sockaddr *)&a, sizeof a))
        die("connect to port %d: %s", port, strerror(errno));
    setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
    return fd;
}

void run_loop(struct run *r, struct connection *cs, int conns)
{
    int epoll = epoll_create1(0), outstanding = 0;
    for (int i = 0; i < conns; i++) {
        struct epoll_event e = {.events = EPOLLIN, .data.ptr = &cs[i]};
        int depth = cs[i].depth ? cs[i].depth : 1;
        epoll_ctl(epoll, EPOLL_CTL_ADD, cs[i].fd, &e);
        send_requests(epoll, r, &cs[i], depth);
        outstanding += depth;
    }
    while (outstanding > 0) {
        struct epoll_event events[EVENTS];
        int n = epoll_wait(epoll, events, EVENTS, SILENCE_MS);
        if (n == 0)
            die("nothing acknowledged for %d s", SILENCE_MS / 1000);
        for (int i = 0; i < n; i++) {
            struct connection *c = events[i].data.ptr;
            if (events[i].events & EPOLLOUT)
                send_more(epoll, r, c);
            int taken = events[i].events & (EPOLLIN | EPOLLERR | EPOLLHUP) ? receive_more(r, c) : 0;
            if (taken && now_ns() < r->measure_to)
                send_requests(epoll, r, c, taken);
            else
                outstanding -= taken;
        }
    }
    close(epoll);
}

const char *option(int argc, char **argv, const char *name, const char *otherwise)
{
    size_t n = strlen(name);
    for (int i = 2; i < argc; i++)
        if (!strncmp(argv[i], name, n) && argv[i][n] == '=')
            return argv[i] + n + 1;
    if (!otherwise)
        die("%s= is needed", name);
    return otherwise;
}

void time_run(struct run *r, double warmup, double seconds)
{
    r->cpu_began = cpu_seconds();
    r->began = now_ns();
    r->measure_from = r->began + (uint64_t)(warmup * 1e9);
    r->measure_to = r->measure_from + (uint64_t)(seconds * 1e9);
}

void report(const struct run *r, const char *unit, int conns)
{
    double cpu = cpu_seconds() - r->cpu_began, seconds = (double)(r->measure_to - r->measure_from) / 1e9;
    if (!r->measured)
        die("nothing was acknowledged in the measured time");
    printf("{\"records\": %lld, \"%s\": %.1f, \"requests_per_s\": %.1f, \"records_per_request\": %.2f, "
           "\"conns\": %d, \"client_cpu_us\": %.4f, \"client_cores\": %.3f", (long long)r->total, unit, (double)r->measured / seconds,
           (double)r->measured_requests / seconds, (double)r->measured / (double)r->measured_requests, conns,
           cpu / (double)r->total * 1e6, cpu / ((double)(now_ns() - r->began) / 1e9));
    histogram_print(&r->latency);
    printf("}\n");
}
