/* End-to-end latency: one record at a time, from the produce call until a
 * consumer of the same process holds it. */
#include <string.h>

#include "client.h"

#define RECEIVE_MS 10000

static void on_delivery(rd_kafka_t *rk, const rd_kafka_message_t *m, void *opaque)
{
    (void)rk;
    (void)opaque;
    if (m->err)
        die("not acknowledged: %s", rd_kafka_err2str(m->err));
}

static uint64_t one_trip(rd_kafka_t *producer, rd_kafka_topic_t *out, rd_kafka_topic_t *in, char *value, size_t size, int64_t seq)
{
    memcpy(value, &seq, sizeof seq);
    uint64_t at = now_ns();
    if (rd_kafka_produce(out, 0, RD_KAFKA_MSG_F_COPY, value, size, NULL, 0, NULL))
        die("produce: %s", rd_kafka_err2str(rd_kafka_last_error()));
    rd_kafka_message_t *m = rd_kafka_consume(in, 0, RECEIVE_MS);
    uint64_t took = now_ns() - at;
    if (!m)
        die("record %lld did not arrive in %d ms", (long long)seq, RECEIVE_MS);
    if (m->err)
        die("fetch: %s", rd_kafka_message_errstr(m));
    if (m->len != size || memcmp(m->payload, value, size))
        die("record %lld came back as another", (long long)seq);
    rd_kafka_message_destroy(m);
    rd_kafka_poll(producer, 0);
    return took;
}

int run_latency(const struct options *o)
{
    char value[4096];
    size_t size = (size_t)o->size < sizeof value ? (size_t)o->size : sizeof value;
    if (size < sizeof(int64_t) || o->records < 1)
        die("latency needs size of 8 or more and records=");
    memset(value, 'x', sizeof value);

    rd_kafka_conf_t *conf = rd_kafka_conf_new();
    set_or_die(conf, "linger.ms", "0");
    rd_kafka_conf_set_dr_msg_cb(conf, on_delivery);
    rd_kafka_t *producer = new_handle(o, RD_KAFKA_PRODUCER, conf);
    rd_kafka_topic_t *out = rd_kafka_topic_new(producer, o->topic, NULL);
    wait_for_topic(producer, out, o);

    conf = rd_kafka_conf_new();
    set_or_die(conf, "check.crcs", "true");
    rd_kafka_t *consumer = new_handle(o, RD_KAFKA_CONSUMER, conf);
    rd_kafka_topic_t *in = rd_kafka_topic_new(consumer, o->topic, NULL);
    wait_for_topic(consumer, in, o);
    int64_t low, high;
    rd_kafka_resp_err_t e = rd_kafka_query_watermark_offsets(consumer, o->topic, 0, &low, &high, RECEIVE_MS);
    if (e)
        die("offsets: %s", rd_kafka_err2str(e));
    if (rd_kafka_consume_start(in, 0, high))
        die("consume: %s", rd_kafka_err2str(rd_kafka_last_error()));

    static struct histogram trips;
    for (int64_t i = 0; i < o->warmup; i++)
        one_trip(producer, out, in, value, size, -1 - i);
    double cpu = cpu_seconds();
    uint64_t began = now_ns();
    int64_t done = 0;
    for (; done < o->records; done++) {
        if (o->seconds > 0 && (double)(now_ns() - began) > o->seconds * 1e9)
            break;
        histogram_add(&trips, one_trip(producer, out, in, value, size, done));
    }
    double secs = (double)(now_ns() - began) / 1e9;
    printf("{\"records\": %lld, \"seconds\": %.4f, \"records_per_s\": %.1f, \"client_cpu_s\": %.4f",
           (long long)(done + o->warmup), secs, (double)done / secs, cpu_seconds() - cpu);
    histogram_print(&trips);
    printf("}\n");
    rd_kafka_consume_stop(in, 0);
    rd_kafka_flush(producer, RECEIVE_MS);
    rd_kafka_topic_destroy(in);
    rd_kafka_topic_destroy(out);
    rd_kafka_destroy(consumer);
    rd_kafka_destroy(producer);
    return 0;
}
