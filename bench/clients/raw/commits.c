/* Members of one group that commit offsets, without a client library.
 *
 *     raw commits port=9092 topic=T [members=64 warmup=0.4 seconds=2]
 *
 * The members join a group of the classic protocol on a connection each. Then each commits a higher offset of its own
 * partition as soon as its last commit is answered. Nobody joins or leaves meanwhile, and the session is longer than the run,
 * so no heartbeat is needed. */
#define _GNU_SOURCE
#include "client.h"

#include <errno.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#define API_OFFSET_COMMIT 8
#define API_FIND_COORDINATOR 10
#define API_JOIN_GROUP 11
#define API_SYNC_GROUP 14
#define SESSION_MS 60000
/* The first question makes the topic of the offsets, which takes a moment. */
#define FIND_TRIES 200
#define FIND_PAUSE_US 50000
#define COORDINATOR_LOAD_IN_PROGRESS 14
#define COORDINATOR_NOT_AVAILABLE 15
#define NOT_COORDINATOR 16
/* The leader is told of all members. */
#define GROUP_REPLY_MAX (1 << 20)
#define TEXT_MAX 256

struct member {
    char id[TEXT_MAX];
    int32_t generation;
};

static void finish(struct buffer *b) { patch32(b, 0, (uint32_t)(b->len - 4)); }

static void send_whole(int fd, struct buffer *b)
{
    finish(b);
    for (size_t at = 0; at < b->len;) {
        ssize_t n = send(fd, b->bytes + at, b->len - at, MSG_NOSIGNAL);
        if (n <= 0)
            die("send: %s", strerror(errno));
        at += (size_t)n;
    }
    b->len = 0;
}

static void receive_exactly(int fd, uint8_t *to, size_t n)
{
    if (recv(fd, to, n, MSG_WAITALL) != (ssize_t)n)
        die("the broker closed the connection");
}

/* The body of the next reply, behind its correlation and the throttle time. */
static const uint8_t *receive_whole(int fd, uint8_t *reply, const uint8_t **end)
{
    receive_exactly(fd, reply, 4);
    size_t n = (size_t)be(reply, 4);
    if (n < 10 || n > GROUP_REPLY_MAX)
        die("a reply of %zu bytes", n);
    receive_exactly(fd, reply, n);
    *end = reply + n;
    return reply + 8;
}

static const uint8_t *take_text(const uint8_t *p, const uint8_t *end, char *to)
{
    size_t n = end - p < 2 ? TEXT_MAX : (size_t)be(p, 2);
    if (n >= TEXT_MAX || (size_t)(end - p - 2) < n)
        die("a reply that ends within a text");
    memcpy(to, p + 2, n);
    to[n] = 0;
    return p + 2 + n;
}

static void await_coordinator(int fd, const char *group)
{
    struct buffer b = {0};
    uint8_t *reply = malloc(GROUP_REPLY_MAX);
    const uint8_t *end;
    int16_t code = COORDINATOR_NOT_AVAILABLE;
    if (!reply)
        die("out of memory");
    for (int i = 0; code == COORDINATOR_NOT_AVAILABLE; i++) {
        if (i == FIND_TRIES)
            die("the group has no coordinator");
        if (i)
            usleep(FIND_PAUSE_US);
        put_head(&b, API_FIND_COORDINATOR, 1);
        put_text(&b, group);
        put8(&b, 0);
        send_whole(fd, &b);
        code = (int16_t)be(receive_whole(fd, reply, &end), 2);
    }
    if (code)
        die("no coordinator: error %d", code);
    free(reply);
    free(b.bytes);
}

static void put_join(struct buffer *b, const char *group, const char *topic)
{
    put_head(b, API_JOIN_GROUP, 3);
    put_text(b, group);
    put32(b, SESSION_MS);
    put32(b, SESSION_MS);
    put_text(b, "");
    put_text(b, "consumer");
    put32(b, 1);
    put_text(b, "range");
    put32(b, (uint32_t)(2 + 4 + 2 + strlen(topic) + 4));
    put16(b, 0);
    put32(b, 1);
    put_text(b, topic);
    put32(b, ~0u);
}

/* Everybody commits for a partition of his own, so nothing is assigned. */
static void put_sync(struct buffer *b, const char *group, const struct member *m)
{
    put_head(b, API_SYNC_GROUP, 1);
    put_text(b, group);
    put32(b, (uint32_t)m->generation);
    put_text(b, m->id);
    put32(b, 0);
}

/* The offset to commit stands before the two bytes of an absent metadata text, at the end. */
static void put_commit(struct buffer *b, const char *group, const char *topic, const struct member *m, int partition)
{
    put_head(b, API_OFFSET_COMMIT, 5);
    put_text(b, group);
    put32(b, (uint32_t)m->generation);
    put_text(b, m->id);
    put32(b, 1);
    put_text(b, topic);
    put32(b, 1);
    put32(b, (uint32_t)partition);
    put64(b, 1);
    put16(b, 0xffff);
    finish(b);
}

/* A coordinator that was just found may have to load its log first. */
static const uint8_t *receive_joined(int fd, struct buffer *b, const char *group, const char *topic, uint8_t *reply, const uint8_t **end)
{
    for (int i = 0; i < FIND_TRIES; i++) {
        const uint8_t *p = receive_whole(fd, reply, end);
        int16_t code = (int16_t)be(p, 2);
        if (code < COORDINATOR_LOAD_IN_PROGRESS || code > NOT_COORDINATOR) {
            if (code || *end - p < 6)
                die("join refused with error %d", code);
            return p + 2;
        }
        usleep(FIND_PAUSE_US);
        put_join(b, group, topic);
        send_whole(fd, b);
    }
    die("the coordinator of the group does not begin");
}

static void join(struct connection *cs, struct member *members, int count, const char *group, const char *topic)
{
    struct buffer b = {0};
    uint8_t *reply = malloc(GROUP_REPLY_MAX);
    char text[TEXT_MAX];
    const uint8_t *p, *end;
    if (!reply)
        die("out of memory");
    for (int i = 0; i < count; i++) {
        put_join(&b, group, topic);
        send_whole(cs[i].fd, &b);
    }
    for (int i = 0; i < count; i++) {
        p = receive_joined(cs[i].fd, &b, group, topic, reply, &end);
        members[i].generation = (int32_t)be(p, 4);
        p = take_text(p + 4, end, text);        /* protocol */
        p = take_text(p, end, text);            /* leader */
        take_text(p, end, members[i].id);
        if (members[i].generation != members[0].generation)
            die("the group began anew while its members joined");
    }
    for (int i = 0; i < count; i++) {
        put_sync(&b, group, &members[i]);
        send_whole(cs[i].fd, &b);
    }
    for (int i = 0; i < count; i++) {
        p = receive_whole(cs[i].fd, reply, &end);
        if (be(p, 2))
            die("sync refused with error %d", (int16_t)be(p, 2));
    }
    free(reply);
    free(b.bytes);
}

/* A whole reply: correlation, throttle time, one topic with its name, one partition. */
static void take_reply(struct run *r, struct connection *c)
{
    size_t at = 4 + 4 + 4 + 4 + 2 + r->topic_len + 4 + 4;
    if (c->got < at + 2)
        die("a reply of %zu bytes", c->got);
    int16_t code = (int16_t)be(c->reply + at, 2);
    if (code)
        die("commit refused with error %d", code);
    size_t offset_at = c->request.len - 2 - 4;
    patch32(&c->request, offset_at, (uint32_t)be(c->request.bytes + offset_at, 4) + 1);
}

int commits(int argc, char **argv)
{
    const char *topic = option(argc, argv, "topic", NULL);
    int port = atoi(option(argc, argv, "port", NULL)), count = atoi(option(argc, argv, "members", "64"));
    double warmup = atof(option(argc, argv, "warmup", "0.4")), seconds = atof(option(argc, argv, "seconds", "2"));
    if (count < 1 || count > CONNS_MAX || strlen(topic) > 249)
        die("%d members of a group that reads %s", count, topic);
    struct connection *cs = calloc((size_t)count, sizeof *cs);
    struct member *members = calloc((size_t)count, sizeof *members);
    if (!cs || !members)
        die("out of memory");
    for (int i = 0; i < count; i++) {
        cs[i].records = 1;
        cs[i].fd = open_connection(port);
    }
    await_coordinator(cs[0].fd, topic);
    join(cs, members, count, topic, topic);
    for (int i = 0; i < count; i++)
        put_commit(&cs[i].request, topic, topic, &members[i], i);
    static struct run r = {.take = take_reply};
    r.topic_len = strlen(topic);
    time_run(&r, warmup, seconds);
    run_loop(&r, cs, count);
    report(&r, "commits_per_s", count);
    return 0;
}
