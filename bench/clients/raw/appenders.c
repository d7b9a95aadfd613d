/* kafkaw without a client library.
 *
 *     raw appenders port=9092 topic=T conns=128 warmup=0.4 seconds=2 [appenders=128 size=2048]
 *     raw appenders bare=FILE topic=T conns=128 ...    to the server of bare.c, which writes to FILE
 *
 * Appenders share connections and each connection has exactly one Produce
 * request outstanding. An appender appends again as soon as it is acknowledged,
 * so a connection sends the same request, with a record for each of its
 * appenders, as soon as the reply is there. This costs the client little more
 * than its system calls, so it shows the broker where a full client would be
 * the limit. At the end the log must have grown by what was acknowledged. */
#define _GNU_SOURCE
#include "client.h"

#include <string.h>

#define API_PRODUCE 0
#define PRODUCE_VERSION 3

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
    put_head(b, API_PRODUCE, PRODUCE_VERSION);
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

/* A whole reply: correlation, one topic with its name, one partition. */
static void take_reply(struct run *r, struct connection *c, const uint8_t *reply, size_t len)
{
    const uint8_t *p = reply + 4 + 4 + 4 + 2 + r->topic_len + 4;
    if (len < 4 + 4 + 4 + 2 + r->topic_len + 4 + 14)
        die("a reply of %zu bytes", len);
    int16_t code = (int16_t)be(p + 4, 2);
    if (code)
        die("append refused with error %d", code);
    int64_t end = (int64_t)be(p + 6, 8) + c->records;
    r->log_end = end > r->log_end ? end : r->log_end;
}

int appenders(int argc, char **argv)
{
    const char *topic = option(argc, argv, "topic", NULL);
    const char *bare = option(argc, argv, "bare", "");
    int port = *bare ? serve_bare(bare) : atoi(option(argc, argv, "port", NULL));
    int conns = atoi(option(argc, argv, "conns", NULL));
    int count = atoi(option(argc, argv, "appenders", "128"));
    size_t size = (size_t)atol(option(argc, argv, "size", "2048"));
    double warmup = atof(option(argc, argv, "warmup", "0.4")), seconds = atof(option(argc, argv, "seconds", "2"));
    if (conns < 1 || conns > CONNS_MAX || conns > count || strlen(topic) > 249)
        die("%d connections for %d appenders", conns, count);

    uint8_t *value = malloc(size);
    struct connection *cs = calloc((size_t)conns, sizeof *cs);
    if (!value || !cs)
        die("out of memory");
    for (size_t i = 0; i < size; i++)
        value[i] = (uint8_t)(i * 2654435761u >> 13);
    for (int i = 0; i < conns; i++) {
        cs[i].records = count / conns + (i < count % conns);
        cs[i].fd = open_connection(port);
        put_request(&cs[i].request, topic, value, size, cs[i].records);
    }
    static struct run r = {.take = take_reply};
    r.topic_len = strlen(topic);
    time_run(&r, warmup, seconds);
    run_loop(&r, cs, conns);
    if (r.log_end != r.total)
        die("%lld appends acknowledged, the log grew to %lld", (long long)r.total, (long long)r.log_end);
    report(&r, "appends_per_s", conns);
    return 0;
}
