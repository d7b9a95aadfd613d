/* Members of one group that commit offsets, without a client library.
 *
 *     raw commits port=9092 topic=T [members=64 depth=1 warmup=0.4 seconds=2]
 *     raw commits bare=FILE topic=T ...    to the server of bare.c, which has no groups and writes to FILE, or nowhere: none
 *
 * The members join a group of the classic protocol on a connection each, as any member does: each is given an id and joins
 * with it, beats while it waits for the others, and joins again when the group goes on without it. When all have been given
 * the same generation, each commits a higher offset of its own partition as soon as one of its `depth` commits is answered.
 * A commit is a sign of life, so no heartbeat is needed then. */
#define _GNU_SOURCE
#include "client.h"

#include <errno.h>
#include <poll.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#define API_FIND_COORDINATOR 10
#define API_JOIN_GROUP 11
#define API_HEARTBEAT 12
#define API_SYNC_GROUP 14
#define SESSION_MS 60000
/* The first question makes the topic of the offsets, which takes a moment. */
#define FIND_TRIES 200
#define FIND_PAUSE_US 50000
#define COORDINATOR_LOAD_IN_PROGRESS 14
#define COORDINATOR_NOT_AVAILABLE 15
#define NOT_COORDINATOR 16
#define ILLEGAL_GENERATION 22
#define UNKNOWN_MEMBER_ID 25
#define REBALANCE_IN_PROGRESS 27
#define MEMBER_ID_REQUIRED 79
#define HEARTBEAT_MS 500
/* Several rebalances, and the start of a coordinator. */
#define SETTLE_MS_MAX 60000
/* The leader is told of all members. */
#define GROUP_REPLY_MAX (1 << 20)
#define TEXT_MAX 256
/* As long as the ids that coordinators give. */
#define BARE_ID "bench-00000000-0000-0000-0000-000000000000"

enum stage { JOINS, SYNCS, STAYS };

struct member {
    char id[TEXT_MAX];
    int32_t generation;
    enum stage stage;
    int is_asked; /* a reply is outstanding */
    uint64_t send_at;
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

static void put_join(struct buffer *b, const char *group, const char *topic, const struct member *m)
{
    put_head(b, API_JOIN_GROUP, 4);
    put_text(b, group);
    put32(b, SESSION_MS);
    put32(b, SESSION_MS);
    put_text(b, m->id);
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

static void put_heartbeat(struct buffer *b, const char *group, const struct member *m)
{
    put_head(b, API_HEARTBEAT, 1);
    put_text(b, group);
    put32(b, (uint32_t)m->generation);
    put_text(b, m->id);
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

/* What a member does when it was refused, and when. A coordinator that was just found may have to load its log first. */
static void refused(struct member *m, int16_t code, uint64_t now)
{
    m->send_at = now;
    switch (code) {
    case COORDINATOR_LOAD_IN_PROGRESS:
    case COORDINATOR_NOT_AVAILABLE:
    case NOT_COORDINATOR:
        m->send_at = now + FIND_PAUSE_US * 1000ull;
        break;
    case UNKNOWN_MEMBER_ID:
        m->id[0] = 0;
        m->stage = JOINS;
        break;
    case ILLEGAL_GENERATION:
    case REBALANCE_IN_PROGRESS:
    case MEMBER_ID_REQUIRED:
        m->stage = JOINS;
        break;
    default:
        die("a member of the group is refused with error %d", code);
    }
}

/* Behind the error: generation, protocol, leader, the member's id. */
static void take_joined(struct member *m, const uint8_t *p, const uint8_t *end)
{
    char text[TEXT_MAX];
    if (end - p < 4)
        die("a reply to a join that ends early");
    m->generation = (int32_t)be(p, 4);
    p = take_text(p + 4, end, text);
    p = take_text(p, end, text);
    take_text(p, end, m->id);
}

static void take_group_reply(int fd, struct member *m, uint8_t *reply, uint64_t now)
{
    const uint8_t *end, *p = receive_whole(fd, reply, &end);
    int16_t code = (int16_t)be(p, 2);
    m->is_asked = 0;
    if (m->stage == JOINS && (!code || code == MEMBER_ID_REQUIRED))
        take_joined(m, p + 2, end);
    if (code) {
        refused(m, code, now);
        return;
    }
    m->stage = m->stage == JOINS ? SYNCS : STAYS;
    m->send_at = m->stage == SYNCS ? now : now + HEARTBEAT_MS * 1000000ull;
}

static void ask(int fd, struct buffer *b, struct member *m, const char *group, const char *topic)
{
    if (m->stage == JOINS)
        put_join(b, group, topic, m);
    else if (m->stage == SYNCS)
        put_sync(b, group, m);
    else
        put_heartbeat(b, group, m);
    send_whole(fd, b);
    m->is_asked = 1;
}

/* Nobody is left who could begin the group anew. */
static int is_settled(const struct member *members, int count)
{
    for (int i = 0; i < count; i++)
        if (members[i].stage != STAYS || members[i].generation != members[0].generation)
            return 0;
    return 1;
}

static void join(struct connection *cs, struct member *members, int count, const char *group, const char *topic)
{
    struct buffer b = {0};
    uint8_t *reply = malloc(GROUP_REPLY_MAX);
    struct pollfd *polled = calloc((size_t)count, sizeof *polled);
    if (!reply || !polled)
        die("out of memory");
    for (uint64_t until = now_ns() + SETTLE_MS_MAX * 1000000ull;;) {
        uint64_t now = now_ns();
        int settled = is_settled(members, count), asked = 0;
        for (int i = 0; i < count; i++) {
            if (!settled && !members[i].is_asked && members[i].send_at <= now)
                ask(cs[i].fd, &b, &members[i], group, topic);
            asked += members[i].is_asked;
            polled[i] = (struct pollfd){.fd = cs[i].fd, .events = POLLIN};
        }
        if (settled && !asked)
            break;
        if (now > until)
            die("the group does not settle");
        if (poll(polled, (nfds_t)count, 5) < 0)
            die("poll: %s", strerror(errno));
        for (int i = 0; i < count; i++)
            if (polled[i].revents)
                take_group_reply(cs[i].fd, &members[i], reply, now_ns());
    }
    free(polled);
    free(reply);
    free(b.bytes);
}

/* A whole reply: correlation, throttle time, one topic with its name, one partition. */
static void take_reply(struct run *r, struct connection *c, const uint8_t *reply, size_t len)
{
    size_t at = 4 + 4 + 4 + 4 + 2 + r->topic_len + 4 + 4;
    (void)c;
    if (len < at + 2)
        die("a reply of %zu bytes", len);
    int16_t code = (int16_t)be(reply + at, 2);
    if (code)
        die("commit refused with error %d", code);
}

static void advance(struct connection *c)
{
    size_t offset_at = c->request.len - 2 - 4;
    patch32(&c->request, offset_at, (uint32_t)be(c->request.bytes + offset_at, 4) + 1);
}

int commits(int argc, char **argv)
{
    const char *topic = option(argc, argv, "topic", NULL);
    const char *bare = option(argc, argv, "bare", "");
    int port = *bare ? serve_bare(bare) : atoi(option(argc, argv, "port", NULL));
    int count = atoi(option(argc, argv, "members", "64"));
    int depth = atoi(option(argc, argv, "depth", "1"));
    double warmup = atof(option(argc, argv, "warmup", "0.4")), seconds = atof(option(argc, argv, "seconds", "2"));
    if (count < 1 || count > CONNS_MAX || depth < 1 || depth > DEPTH_MAX || strlen(topic) > 249)
        die("%d members, %d commits each, of a group that reads %s", count, depth, topic);
    struct connection *cs = calloc((size_t)count, sizeof *cs);
    struct member *members = calloc((size_t)count, sizeof *members);
    if (!cs || !members)
        die("out of memory");
    for (int i = 0; i < count; i++) {
        cs[i].records = 1;
        cs[i].depth = depth;
        cs[i].fd = open_connection(port);
    }
    if (*bare) {
        for (int i = 0; i < count; i++)
            members[i] = (struct member){.id = BARE_ID, .generation = 1};
    } else {
        await_coordinator(cs[0].fd, topic);
        join(cs, members, count, topic, topic);
    }
    for (int i = 0; i < count; i++)
        put_commit(&cs[i].request, topic, topic, &members[i], i);
    static struct run r = {.take = take_reply, .change = advance};
    r.topic_len = strlen(topic);
    time_run(&r, warmup, seconds);
    run_loop(&r, cs, count);
    report(&r, "commits_per_s", count);
    return 0;
}
