/* A client of one thread and no library: requests are built once, and sent again as soon as the reply is there. */
#pragma once
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#define PROGRAM "raw"
#include "../librdkafka/histogram.h"
#include "../librdkafka/program.h"

#define CONNS_MAX 4096
#define REPLY_MAX 1024
/* Requests that are outstanding on a connection at once. */
#define DEPTH_MAX 64

struct buffer {
    uint8_t *bytes;
    size_t len, room;
};

/* One connection. All its outstanding requests go out together at first, and later as many as replies came at once. */
struct connection {
    int fd;
    int depth;              /* requests outstanding; 0 is 1 */
    struct buffer request, queue; /* the next request; with `change`, copies that are to be sent */
    size_t sent, got;
    int64_t records; /* what an acknowledgement counts */
    uint64_t at[DEPTH_MAX]; /* when each of them was sent: a ring */
    unsigned oldest, count;
    int waiting_to_send;
    uint8_t replies[REPLY_MAX];
};

struct run {
    /* Told of each whole reply: checks it. */
    void (*take)(struct run *, struct connection *, const uint8_t *reply, size_t len);
    /* Changes the request for the next time. Without it the same bytes are sent again, and not copied. */
    void (*change)(struct connection *);
    size_t topic_len;
    int64_t total, log_end;
    uint64_t began, measure_from, measure_to;
    double cpu_began;
    int64_t measured, measured_requests;
    struct histogram latency;
};

#define API_OFFSET_COMMIT 8

const char *option(int argc, char **argv, const char *name, const char *otherwise);

void put(struct buffer *b, const void *bytes, size_t n);
void put8(struct buffer *b, uint8_t v);
void put16(struct buffer *b, uint16_t v);
void put32(struct buffer *b, uint32_t v);
void put64(struct buffer *b, uint64_t v);
void put_text(struct buffer *b, const char *s);
void put_varint(struct buffer *b, int64_t n);
void patch32(struct buffer *b, size_t at, uint32_t v);
void put_head(struct buffer *b, int api, int version);
uint64_t be(const uint8_t *p, int n);

int open_connection(int port);
void time_run(struct run *r, double warmup, double seconds);
void run_loop(struct run *r, struct connection *cs, int conns);
void report(const struct run *r, const char *unit, int conns);

int serve_bare(const char *path);
int appenders(int argc, char **argv);
int commits(int argc, char **argv);
