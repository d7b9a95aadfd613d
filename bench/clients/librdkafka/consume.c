/* Consumers: each worker reads its partitions from the first offset to the end
 * they had at the start, without a group, and checks every batch's checksum.
 *
 * With follow=1 it reads on past that end until the time is over. */
#include <pthread.h>
#include <stdlib.h>

#include "client.h"

#define BATCH 1000
/* Nothing for this long means that the broker stopped serving. */
#define SILENCE_NS 20000000000u

struct consumer {
    const struct options *o;
    int index;
    pthread_barrier_t *start;
    pthread_t thread;
    int64_t records, bytes;
    uint64_t began, first, ended;
};

/* Starts the worker's partitions; gives the number of records up to their ends. */
static int64_t start_partitions(struct consumer *c, rd_kafka_t *rk, rd_kafka_topic_t *rkt, rd_kafka_queue_t *q)
{
    const struct options *o = c->o;
    int64_t *low = calloc((size_t)o->partitions, sizeof *low), total = 0;
    for (int32_t p = c->index; p < o->partitions; p += (int32_t)o->workers) {
        int64_t high;
        rd_kafka_resp_err_t e = rd_kafka_query_watermark_offsets(rk, o->topic, p, &low[p], &high, 10000);
        if (e)
            die("offsets of %s-%d: %s", o->topic, p, rd_kafka_err2str(e));
        total += high - low[p];
    }
    pthread_barrier_wait(c->start);
    c->began = now_ns();
    for (int32_t p = c->index; p < o->partitions; p += (int32_t)o->workers)
        if (rd_kafka_consume_start_queue(rkt, p, low[p], q))
            die("consume %s-%d: %s", o->topic, p, rd_kafka_err2str(rd_kafka_last_error()));
    free(low);
    return total;
}

static void take_batch(struct consumer *c, rd_kafka_message_t **batch, ssize_t n)
{
    for (ssize_t i = 0; i < n; i++) {
        if (batch[i]->err && batch[i]->err != RD_KAFKA_RESP_ERR__PARTITION_EOF)
            die("fetch: %s", rd_kafka_message_errstr(batch[i]));
        if (!batch[i]->err) {
            c->records++;
            c->bytes += (int64_t)(batch[i]->len + batch[i]->key_len);
        }
        rd_kafka_message_destroy(batch[i]);
    }
}

static void *consumer_main(void *arg)
{
    struct consumer *c = arg;
    const struct options *o = c->o;
    rd_kafka_conf_t *conf = rd_kafka_conf_new();
    set_or_die(conf, "check.crcs", "true");
    /* a full queue stops fetching for a second, which would be measured as the broker's pace */
    set_or_die(conf, "queued.min.messages", "1000000");
    set_or_die(conf, "queued.max.messages.kbytes", "262144");
    rd_kafka_t *rk = new_handle(o, RD_KAFKA_CONSUMER, conf);
    rd_kafka_topic_t *rkt = rd_kafka_topic_new(rk, o->topic, NULL);
    rd_kafka_queue_t *q = rd_kafka_queue_new(rk);
    rd_kafka_message_t *batch[BATCH];
    wait_for_topic(rk, rkt, o);
    int64_t total = start_partitions(c, rk, rkt, q);
    if (o->records && o->records / o->workers < total)
        total = o->records / o->workers;
    uint64_t deadline = o->seconds > 0 ? c->began + (uint64_t)(o->seconds * 1e9) : UINT64_MAX;
    uint64_t heard = c->began;
    while (c->records < total || o->follow) {
        /* the call waits until the batch is full, so never ask for more than will come */
        int64_t left = o->follow ? BATCH : total - c->records;
        ssize_t n = rd_kafka_consume_batch_queue(q, o->follow ? 5 : 100, batch, (size_t)(left < BATCH ? left : BATCH));
        uint64_t now = now_ns();
        if (n < 0)
            die("consume: %s", rd_kafka_err2str(rd_kafka_last_error()));
        take_batch(c, batch, n);
        if (n > 0 && !c->first)
            c->first = now;
        if (n > 0)
            heard = now;
        if (now - heard > SILENCE_NS)
            die("nothing received for %d s, %lld of %lld records read", (int)(SILENCE_NS / 1000000000u),
                (long long)c->records, (long long)total);
        if (now >= deadline)
            break;
    }
    c->ended = now_ns();
    for (int32_t p = c->index; p < o->partitions; p += (int32_t)o->workers)
        rd_kafka_consume_stop(rkt, p);
    rd_kafka_queue_destroy(q);
    rd_kafka_topic_destroy(rkt);
    rd_kafka_destroy(rk);
    return NULL;
}

int run_consume(const struct options *o)
{
    if (o->follow && o->seconds <= 0)
        die("follow=1 needs seconds=");
    struct consumer *consumers = calloc((size_t)o->workers, sizeof *consumers);
    pthread_barrier_t start;
    if (!consumers)
        die("out of memory");
    pthread_barrier_init(&start, NULL, (unsigned)o->workers);
    double cpu = cpu_seconds();
    for (int i = 0; i < o->workers; i++) {
        consumers[i].o = o;
        consumers[i].index = i;
        consumers[i].start = &start;
        if (pthread_create(&consumers[i].thread, NULL, consumer_main, &consumers[i]))
            die("cannot start a thread");
    }
    uint64_t began = UINT64_MAX, ended = 0, first = UINT64_MAX;
    int64_t records = 0, bytes = 0;
    for (int64_t i = 0; i < o->workers; i++) {
        struct consumer *c = &consumers[i];
        pthread_join(c->thread, NULL);
        began = c->began < began ? c->began : began;
        ended = c->ended > ended ? c->ended : ended;
        if (c->first && c->first < first)
            first = c->first;
        records += c->records;
        bytes += c->bytes;
    }
    if (!records)
        die("no record was read");
    double secs = (double)(ended - began) / 1e9;
    printf("{\"records\": %lld, \"bytes\": %lld, \"seconds\": %.4f, \"records_per_s\": %.1f, \"mib_per_s\": %.3f, "
           "\"first_ms\": %.2f, \"client_cpu_s\": %.4f}\n", (long long)records, (long long)bytes, secs,
           (double)records / secs, (double)bytes / secs / 1048576.0, (double)(first - began) / 1e6, cpu_seconds() - cpu);
    return 0;
}
