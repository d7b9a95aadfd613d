/* Producers: each worker has a handle, a thread and its share of the records.
 *
 * A run counts acknowledged records only, from the first call to the last
 * acknowledgement. When its time is over, what was not yet sent is withdrawn:
 * a slow broker would otherwise be given a minute to drain the client's queue.
 * Values are windows of one random block, so they neither
 * compress to nothing nor cost a copy. */
#include <math.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "client.h"

/* Windows into the random block that values are taken from. */
#define WINDOWS 4096
/* Delivery reports are served once per so many produced records. */
#define POLL_EVERY 256
/* How long the last records may take to be acknowledged. */
#define FLUSH_MS 60000

struct producer {
    const struct options *o;
    const char *block;
    pthread_barrier_t *start;
    pthread_t thread;
    int64_t sent, acked, withdrawn, failed;
    uint64_t began, ended;
    uint64_t heard, silence; /* the last acknowledgement, and the longest time between two */
    const char *why;
    struct histogram latency;
    int64_t *steps; /* acknowledged in each step of the time, where that is asked for */
};

static int64_t steps_count(const struct options *o)
{
    return o->step > 0 ? (int64_t)(o->seconds / o->step + 0.5) : 0;
}

static void on_delivery(rd_kafka_t *rk, const rd_kafka_message_t *m, void *opaque)
{
    (void)rk;
    struct producer *p = opaque;
    if (m->err == RD_KAFKA_RESP_ERR__PURGE_QUEUE) {
        p->withdrawn++;
        return;
    }
    if (m->err) {
        p->failed++;
        p->why = rd_kafka_err2str(m->err);
        return;
    }
    p->acked++;
    uint64_t now = now_ns();
    if (now - p->heard > p->silence)
        p->silence = now - p->heard;
    p->heard = now;
    if (p->steps) {
        int64_t step = (int64_t)((double)(now_ns() - p->began) / 1e9 / p->o->step);
        if (step < steps_count(p->o))
            p->steps[step]++;
    }
    uint64_t sent_at = (uint64_t)(uintptr_t)m->_private;
    if (sent_at)
        histogram_add(&p->latency, now_ns() - sent_at);
}

static void wait_for_turn(rd_kafka_t *rk, uint64_t due)
{
    while (now_ns() < due) {
        rd_kafka_poll(rk, 0);
        uint64_t soon = now_ns() + 200000;
        sleep_until_ns(soon < due ? soon : due);
    }
}

static void produce_all(struct producer *p, rd_kafka_t *rk, rd_kafka_topic_t *rkt)
{
    const struct options *o = p->o;
    int64_t share = o->records ? o->records / o->workers : INT64_MAX;
    uint64_t deadline = o->seconds > 0 ? p->began + (uint64_t)(o->seconds * 1e9) : UINT64_MAX;
    double gap_ns = o->rate > 0 ? 1e9 * (double)o->workers / o->rate : 0;
    for (int64_t i = 0; i < share && !p->failed; i++) {
        if (gap_ns > 0)
            wait_for_turn(rk, p->began + (uint64_t)((double)i * gap_ns));
        if (gap_ns > 0 || i % POLL_EVERY == 0) {
            rd_kafka_poll(rk, 0);
            if (now_ns() >= deadline)
                break;
        }
        uintptr_t at = i % o->sample ? 0 : (uintptr_t)now_ns();
        while (rd_kafka_produce(rkt, (int32_t)(i % o->partitions), 0, (void *)(p->block + i % WINDOWS),
                                (size_t)o->size, NULL, 0, (void *)at)) {
            if (rd_kafka_last_error() != RD_KAFKA_RESP_ERR__QUEUE_FULL)
                die("produce: %s", rd_kafka_err2str(rd_kafka_last_error()));
            rd_kafka_poll(rk, 5);
        }
        p->sent++;
    }
}

static void *producer_main(void *arg)
{
    struct producer *p = arg;
    rd_kafka_conf_t *conf = rd_kafka_conf_new();
    set_or_die(conf, "queue.buffering.max.messages", "500000");
    set_or_die(conf, "queue.buffering.max.kbytes", "65536"); /* as buffer.memory of the 2014 runs */
    rd_kafka_conf_set_dr_msg_cb(conf, on_delivery);
    rd_kafka_conf_set_opaque(conf, p);
    rd_kafka_t *rk = new_handle(p->o, RD_KAFKA_PRODUCER, conf);
    rd_kafka_topic_t *rkt = rd_kafka_topic_new(rk, p->o->topic, NULL);
    wait_for_topic(rk, rkt, p->o);
    pthread_barrier_wait(p->start);
    p->began = p->heard = now_ns();
    produce_all(p, rk, rkt);
    if (p->o->seconds > 0)
        rd_kafka_purge(rk, RD_KAFKA_PURGE_F_QUEUE);
    if (rd_kafka_flush(rk, FLUSH_MS))
        p->why = "records not acknowledged in time";
    p->ended = now_ns();
    rd_kafka_topic_destroy(rkt);
    rd_kafka_purge(rk, RD_KAFKA_PURGE_F_QUEUE | RD_KAFKA_PURGE_F_INFLIGHT | RD_KAFKA_PURGE_F_NON_BLOCKING);
    rd_kafka_destroy(rk);
    return NULL;
}

static char *random_block(size_t bytes)
{
    char *block = malloc(bytes);
    if (!block)
        die("out of memory");
    uint64_t x = 0x9e3779b97f4a7c15u; /* fixed, so that every side sees the same bytes */
    for (size_t i = 0; i < bytes; i++) {
        x ^= x << 13;
        x ^= x >> 7;
        x ^= x << 17;
        block[i] = (char)(x >> 32);
    }
    return block;
}

/* How even the rate was: its lowest and highest step, and the standard deviation over all of them. */
static void print_steps(const struct options *o, const struct producer *producers)
{
    int64_t count = steps_count(o);
    if (!count)
        return;
    double sum = 0, squares = 0, lowest = INFINITY, highest = 0;
    for (int64_t s = 0; s < count; s++) {
        double rate = 0;
        for (int64_t i = 0; i < o->workers; i++)
            rate += (double)producers[i].steps[s] / o->step;
        sum += rate;
        squares += rate * rate;
        lowest = rate < lowest ? rate : lowest;
        highest = rate > highest ? rate : highest;
    }
    double mean = sum / (double)count, variance = squares / (double)count - mean * mean;
    printf(", \"lowest_per_s\": %.1f, \"highest_per_s\": %.1f, \"deviation_per_s\": %.1f", lowest, highest,
           variance > 0 ? sqrt(variance) : 0);
}

int run_produce(const struct options *o)
{
    if (!o->records && o->seconds <= 0)
        die("produce needs records= or seconds=");
    if (o->step > 0 && o->seconds < o->step)
        die("step= needs seconds= of at least one step");
    struct producer *producers = calloc((size_t)o->workers, sizeof *producers);
    char *block = random_block((size_t)o->size + WINDOWS);
    pthread_barrier_t start;
    if (!producers)
        die("out of memory");
    pthread_barrier_init(&start, NULL, (unsigned)o->workers);
    double cpu = cpu_seconds();
    for (int64_t i = 0; i < o->workers; i++) {
        producers[i].o = o;
        producers[i].block = block;
        producers[i].start = &start;
        if (o->step > 0 && !(producers[i].steps = calloc((size_t)steps_count(o), sizeof(int64_t))))
            die("out of memory");
        if (pthread_create(&producers[i].thread, NULL, producer_main, &producers[i]))
            die("cannot start a thread");
    }
    struct histogram *all = calloc(1, sizeof *all);
    uint64_t began = UINT64_MAX, ended = 0, silence = 0;
    int64_t acked = 0;
    for (int64_t i = 0; i < o->workers; i++) {
        struct producer *p = &producers[i];
        pthread_join(p->thread, NULL);
        if (p->failed || p->acked + p->withdrawn != p->sent)
            die("%lld of %lld records not acknowledged: %s", (long long)(p->sent - p->acked - p->withdrawn),
                (long long)p->sent, p->why ? p->why : "no reason given");
        began = p->began < began ? p->began : began;
        ended = p->ended > ended ? p->ended : ended;
        acked += p->acked;
        silence = p->silence > silence ? p->silence : silence;
        histogram_merge(all, &p->latency);
    }
    double secs = (double)(ended - began) / 1e9;
    cpu = cpu_seconds() - cpu;
    printf("{\"records\": %lld, \"seconds\": %.4f, \"records_per_s\": %.1f, \"mib_per_s\": %.3f, "
           "\"client_cpu_s\": %.4f, \"silence_ms\": %.3f", (long long)acked, secs, (double)acked / secs,
           (double)acked * (double)o->size / secs / 1048576.0, cpu, (double)silence / 1e6);
    print_steps(o, producers);
    histogram_print(all);
    printf("}\n");
    return 0;
}
