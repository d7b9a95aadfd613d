/* What the three librdkafka programs share: options, handles, errors. */
#ifndef BENCH_CLIENT_H
#define BENCH_CLIENT_H

#include <librdkafka/rdkafka.h>
#include <stdint.h>

#define PROGRAM "client"
#include "histogram.h"
#include "program.h"

/* Settings given as `set.NAME=VALUE`; far more than any preset uses. */
#define SETTINGS_MAX 32
#define WORKERS_MAX 16

struct options {
    const char *brokers;
    const char *topic;
    int64_t records;  /* stop after this many; 0: no bound */
    double seconds;   /* stop after this long; 0: no bound */
    int64_t size;     /* bytes of a value */
    int64_t partitions;
    int64_t workers;  /* handles, each with a thread of its own */
    int64_t sample;   /* time one record in this many */
    int64_t warmup;   /* records not counted, latency only */
    double rate;      /* records/s of all workers; 0: as fast as it goes */
    double step;      /* seconds; how even the rate was, step by step; 0: not asked */
    int64_t follow;   /* consume past the present end until `seconds` are over */
    int settings_count;
    const char *settings[SETTINGS_MAX];
};

int run_produce(const struct options *o);
int run_consume(const struct options *o);
int run_latency(const struct options *o);

/* A handle with the settings applied; ends the program when one is refused. */
rd_kafka_t *new_handle(const struct options *o, rd_kafka_type_t type, rd_kafka_conf_t *conf);
/* Fetches the topic's metadata so that its leaders are connected before the clock starts. */
void wait_for_topic(rd_kafka_t *rk, rd_kafka_topic_t *rkt, const struct options *o);
void set_or_die(rd_kafka_conf_t *conf, const char *name, const char *value);
void sleep_until_ns(uint64_t at);

#endif
