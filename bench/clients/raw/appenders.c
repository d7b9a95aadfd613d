/* kafkaw without a client library: one thread, one epoll loop, requests built once.
 *
 *     raw appenders port=9092 topic=T conns=128 warmup=0.4 seconds=2 [appenders=128 size=2048]
 *
 * Appenders share connections and each connection has exactly one Produce
 * request outstanding. An appender appends again as soon as it is acknowledged,
 * so a connection sends the same request, with a record for each of its
 * appenders, as soon as the reply is there. This costs the client little more
 * than its system calls, so it shows the broker where a full client would be
 * the limit. At the end the log must have grown by what was acknowledged. */
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <endian.h>
#include <errno.h>
#include <netinet/tcp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include "../librdkafka/histogram.h"

#define CONNS_MAX 4096
#define REPLY_MAX 1024
#define EVENTS 128
#define API_PRODUCE 0
#define PRODUCE_VERSION 3
/* Nothing acknowledged on any connection for this long ends the run. */
#define SILENCE_MS 30000

struct buffer {
    uint8_t *bytes;
    size_t len, room;
};

struct connection {
    int fd;
    struct buffer request;
    size_t sent, got;
    int64_t records;
    uint64_t at;
    int waiting_to_send;
    uint8_t reply[REPLY_MAX];
};

struct run {
    int64_t total, requests, log_end;
    uint64_t measure_from, measure_to;
    int64_t measured, measured_requests;
    int outstanding;
    struct histogram latency;
};

static void die(const char *format, ...) __attribute__((noreturn, format(printf, 1, 2)));
static void die(const char *format, ...)
{
    va_list args;
    va_start(args, format);
    fputs("raw: ", stderr);
    vfprintf(stderr, format, args);
    fputc('\n', stderr);
    va_end(args);
    exit(1);
}

static double cpu_seconds(void)
{
    struct rusage u;
    getrusage(RUSAGE_SELF, &u);
    return (double)(u.ru_utime.tv_sec + u.ru_stime.tv_sec) +
           (double)(u.ru_utime.tv_usec + u.ru_stime.tv_usec) / 1e6;
}

/* ---- encoding */

static void put(struct buffer *b, const void *bytes, size_t n)
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

static void put8(struct buffer *b, uint8_t v) { put(b, &v, 1); }
static void put16(struct buffer *b, uint16_t v) { v = htobe16(v); put(b, &v, 2); }
static void put32(struct buffer *b, uint32_t v) { v = htobe32(v); put(b, &v, 4); }
static void put64(struct buffer *b, uint64_t v) { v = htobe64(v); put(b, &v, 8); }

static void put_text(struct buffer *b, const char *s)
{
    put16(b, (uint16_t)strlen(s));
    put(b, s, strlen(s));
}

static void put_varint(struct buffer *b, int64_t n)
{
    uint64_t v = ((uint64_t)n << 1) ^ (uint64_t)(n >> 63);
    for (; v > 0x7f; v >>= 7)
        put8(b, (uint8_t)(v & 0x7f) | 0x80);
    put8(b, (uint8_t)v);
}

static void patch32(struct buffer *b, size_t at, uint32_t v)
{
    v = htobe32(v);
    memcpy(b->bytes + at, &v, 4);
}

static uint32_t crc32c(const uint8_t *p, size_t n)
{
    static uint32_t table[256];
    for (uint32_t i = 0; table[255] == 0 && i < 256; i++) {
        uint32_t c = i;
        for (int k = 0; k < 8; k++)
            c = c >> 1 ^ (c & 1 ? 0x82f63b78u : 0);
        table[i] = c;
    }
    uint32_t crc = ~0u;
    while (n--)
        crc = table[(crc ^ *p++) & 255] ^ crc >> 8;
    return ~crc;
}

static void put_batch(struct buffer *b, const uint8_t *value, size_t size, int64_t records)
{
    struct timespec t;
    clock_gettime(CLOCK_REALTIME, &t);
    uint64_t now = (uint64_t)t.tv_sec * 1000 + (uint64_t)t.tv_nsec / 1000000;
    size_t start = b->len;
    put64(b, 0);                      /* base offset */
    put32(b, 0);                      /* length, set below */
    put32(b, ~0u);                    /* leader epoch: unknown */
    put8(b, 2);                       /* magic */
    put32(b, 0);                      /* checksum, set below */
    put16(b, 0);                      /* attributes */
    put32(b, (uint32_t)(records - 1)); /* last offset delta */
    put64(b, now);
    put64(b, now);
    put64(b, ~0ull);                  /* no producer */
    put16(b, 0xffff);
    put32(b, ~0u);
    put32(b, (uint32_t)records);
    for (int64_t i = 0; i < records; i++) {
        struct buffer head = {0};
        put8(&head, 0);
        put_varint(&head, 0);
        put_varint(&head, i);
        put_varint(&head, -1);
        put_varint(&head, (int64_t)size);
        put_varint(b, (int64_t)(head.len + size + 1));
        put(b, head.bytes, head.len);
        put(b, value, size);
        put8(b, 0);
        free(head.bytes);
    }
    patch32(b, start + 8, (uint32_t)(b->len - start - 12));
    patch32(b, start + 17, crc32c(b->bytes + start + 21, b->len - start - 21));
}

static void put_request(struct buffer *b, const char *topic, const uint8_t *value, size_t size, int64_t records)
{
    put32(b, 0);
    put16(b, API_PRODUCE);
    put16(b, PRODUCE_VERSION);
    put32(b, 1); /* correlation: one request at a time */
    put_text(b, "bench");
    put16(b, 0xffff); /* no transaction */
    put16(b, 0xffff); /* acks=all */
    put32(b, 30000);
    put32(b, 1);
    put_text(b, topic);
    put32(b, 1);
    put32(b, 0);
    size_t length_at = b->len;
    put32(b, 0);
    put_batch(b, value, size, records);
    patch32(b, length_at, (uint32_t)(b->len - length_at - 4));
    patch32(b, 0, (uint32_t)(b->len - 4));
}

/* ---- the loop */

static uint64_t be(const uint8_t *p, int n)
{
    uint64_t v = 0;
    while (n--)
        v = v << 8 | *p++;
    return v;
}

/* A whole reply: correlation, one topic with its name, one partition. */
static void take_reply(struct run *r, struct connection *c, size_t topic_len)
{
    const uint8_t *p = c->reply + 4 + 4 + 4 + 2 + topic_len + 4;
    if (c->got < 4 + 4 + 4 + 2 + topic_len + 4 + 14)
        die("a reply of %zu bytes", c->got);
    int16_t code = (int16_t)be(p + 4, 2);
    if (code)
        die("append refused with error %d", code);
    int64_t end = (int64_t)be(p + 6, 8) + c->records;
    r->log_end = end > r->log_end ? end : r->log_end;
    uint64_t now = now_ns();
    r->total += c->records;
    r->requests++;
    if (now >= r->measure_from && now < r->measure_to) {
        r->measured += c->records;
        r->measured_requests++;
        histogram_add(&r->latency, now - c->at);
    }
    c->at = now;
    c->got = 0;
    c->sent = 0;
}

static void send_more(int epoll, struct connection *c)
{
    while (c->sent < c->request.len) {
        ssize_t n = send(c->fd, c->request.bytes + c->sent, c->request.len - c->sent, MSG_NOSIGNAL | MSG_DONTWAIT);
        if (n < 0 && errno != EAGAIN)
            die("send: %s", strerror(errno));
        if (n < 0)
            break;
        c->sent += (size_t)n;
    }
    int unsent = c->sent < c->request.len;
    if (unsent != c->waiting_to_send) {
        struct epoll_event e = {.events = EPOLLIN | (unsent ? EPOLLOUT : 0), .data.ptr = c};
        epoll_ctl(epoll, EPOLL_CTL_MOD, c->fd, &e);
        c->waiting_to_send = unsent;
    }
}

/* Gives whether a whole reply is there. */
static int receive_more(struct connection *c)
{
    ssize_t n = recv(c->fd, c->reply + c->got, REPLY_MAX - c->got, MSG_DONTWAIT);
    if (n < 0 && errno == EAGAIN)
        return 0;
    if (n <= 0)
        die("the broker closed the connection");
    c->got += (size_t)n;
    if (c->got < 4)
        return 0;
    size_t want = (size_t)be(c->reply, 4) + 4;
    if (want > REPLY_MAX)
        die("a reply of %zu bytes", want);
    return c->got >= want;
}

static int open_connection(int port)
{
    struct sockaddr_in a = {.sin_family = AF_INET, .sin_port = htons((uint16_t)port), .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    int one = 1, fd = socket(AF_INET, SOCK_STREAM, 0);
    if (fd < 0 || connect(fd, (struct sockaddr *)&a, sizeof a))
        die("connect to port %d: %s", port, strerror(errno));
    setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
    return fd;
}

static void loop(struct run *r, struct connection *cs, int conns, size_t topic_len)
{
    int epoll = epoll_create1(0);
    for (int i = 0; i < conns; i++) {
        struct epoll_event e = {.events = EPOLLIN, .data.ptr = &cs[i]};
        epoll_ctl(epoll, EPOLL_CTL_ADD, cs[i].fd, &e);
        cs[i].at = now_ns();
        send_more(epoll, &cs[i]);
    }
    r->outstanding = conns;
    while (r->outstanding > 0) {
        struct epoll_event events[EVENTS];
        int n = epoll_wait(epoll, events, EVENTS, SILENCE_MS);
        if (n == 0)
            die("nothing acknowledged for %d s", SILENCE_MS / 1000);
        for (int i = 0; i < n; i++) {
            struct connection *c = events[i].data.ptr;
            if (events[i].events & EPOLLOUT)
                send_more(epoll, c);
            if (!(events[i].events & (EPOLLIN | EPOLLERR | EPOLLHUP)) || !receive_more(c))
                continue;
            take_reply(r, c, topic_len);
            if (c->at < r->measure_to)
                send_more(epoll, c);
            else
                r->outstanding--;
        }
    }
    close(epoll);
}

static const char *option(int argc, char **argv, const char *name, const char *otherwise)
{
    size_t n = strlen(name);
    for (int i = 2; i < argc; i++)
        if (!strncmp(argv[i], name, n) && argv[i][n] == '=')
            return argv[i] + n + 1;
    if (!otherwise)
        die("%s= is needed", name);
    return otherwise;
}

int main(int argc, char **argv)
{
    if (argc < 2 || strcmp(argv[1], "appenders"))
        die("usage: raw appenders port=N topic=NAME conns=N warmup=S seconds=S [appenders=128 size=2048]");
    const char *topic = option(argc, argv, "topic", NULL);
    int port = atoi(option(argc, argv, "port", NULL)), conns = atoi(option(argc, argv, "conns", NULL));
    int appenders = atoi(option(argc, argv, "appenders", "128"));
    size_t size = (size_t)atol(option(argc, argv, "size", "2048"));
    double warmup = atof(option(argc, argv, "warmup", "0.4")), seconds = atof(option(argc, argv, "seconds", "2"));
    if (conns < 1 || conns > CONNS_MAX || conns > appenders || strlen(topic) > 249)
        die("%d connections for %d appenders", conns, appenders);

    uint8_t *value = malloc(size);
    struct connection *cs = calloc((size_t)conns, sizeof *cs);
    if (!value || !cs)
        die("out of memory");
    for (size_t i = 0; i < size; i++)
        value[i] = (uint8_t)(i * 2654435761u >> 13);
    for (int i = 0; i < conns; i++) {
        cs[i].records = appenders / conns + (i < appenders % conns);
        cs[i].fd = open_connection(port);
        put_request(&cs[i].request, topic, value, size, cs[i].records);
    }
    static struct run r;
    double cpu = cpu_seconds();
    uint64_t began = now_ns();
    r.measure_from = began + (uint64_t)(warmup * 1e9);
    r.measure_to = r.measure_from + (uint64_t)(seconds * 1e9);
    loop(&r, cs, conns, strlen(topic));
    cpu = cpu_seconds() - cpu;
    if (r.log_end != r.total)
        die("%lld appends acknowledged, the log grew to %lld", (long long)r.total, (long long)r.log_end);
    if (!r.measured)
        die("no append was acknowledged in the measured time");
    printf("{\"records\": %lld, \"appends_per_s\": %.1f, \"requests_per_s\": %.1f, \"records_per_request\": %.2f, "
           "\"conns\": %d, \"client_cpu_us\": %.4f, \"client_cores\": %.3f", (long long)r.total, (double)r.measured / seconds,
           (double)r.measured_requests / seconds, (double)r.measured / (double)r.measured_requests, conns,
           cpu / (double)r.total * 1e6, cpu / ((double)(now_ns() - began) / 1e9));
    histogram_print(&r.latency);
    printf("}\n");
    return 0;
}
