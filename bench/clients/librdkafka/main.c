/* The librdkafka side of the comparison: one program, three loads.
 *
 *     client produce brokers=HOST:PORT topic=T size=100 partitions=6 seconds=5 [set.NAME=VALUE ...]
 *     client consume brokers=HOST:PORT topic=T partitions=1 [set.NAME=VALUE ...]
 *     client latency brokers=HOST:PORT topic=T records=3000 [set.NAME=VALUE ...]
 *
 * Prints one JSON object. Any failed delivery or fetch error ends the run with
 * status 1: a figure with lost records in it is no figure. Nothing here knows
 * which broker it talks to. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "client.h"

void sleep_until_ns(uint64_t at)
{
    struct timespec t = {.tv_sec = (time_t)(at / 1000000000u), .tv_nsec = (long)(at % 1000000000u)};
    while (clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &t, NULL) == EINTR)
        ;
}

void set_or_die(rd_kafka_conf_t *conf, const char *name, const char *value)
{
    char why[256];
    if (rd_kafka_conf_set(conf, name, value, why, sizeof why) != RD_KAFKA_CONF_OK)
        die("%s", why);
}

rd_kafka_t *new_handle(const struct options *o, rd_kafka_type_t type, rd_kafka_conf_t *conf)
{
    char why[256];
    set_or_die(conf, "bootstrap.servers", o->brokers);
    set_or_die(conf, "socket.nagle.disable", "true");
    set_or_die(conf, "log_level", "3");
    for (int i = 0; i < o->settings_count; i++) {
        char name[128];
        const char *eq = strchr(o->settings[i], '=');
        size_t n = (size_t)(eq - o->settings[i]);
        if (n >= sizeof name)
            die("setting name too long: %s", o->settings[i]);
        memcpy(name, o->settings[i], n);
        name[n] = 0;
        set_or_die(conf, name, eq + 1);
    }
    rd_kafka_t *rk = rd_kafka_new(type, conf, why, sizeof why);
    if (!rk)
        die("%s", why);
    return rk;
}

void wait_for_topic(rd_kafka_t *rk, rd_kafka_topic_t *rkt, const struct options *o)
{
    for (int tries = 0; tries < 100; tries++) {
        const struct rd_kafka_metadata *md;
        if (rd_kafka_metadata(rk, 0, rkt, &md, 5000) == RD_KAFKA_RESP_ERR_NO_ERROR) {
            int ready = md->topic_cnt == 1 && md->topics[0].err == RD_KAFKA_RESP_ERR_NO_ERROR
                        && md->topics[0].partition_cnt >= o->partitions;
            for (int i = 0; ready && i < md->topics[0].partition_cnt; i++)
                ready = md->topics[0].partitions[i].leader >= 0;
            rd_kafka_metadata_destroy(md);
            if (ready)
                return;
        }
        sleep_until_ns(now_ns() + 50000000u);
    }
    die("topic %s has no leader for %lld partitions", o->topic, (long long)o->partitions);
}

static int take(const char *arg, const char *name, const char **value)
{
    size_t n = strlen(name);
    if (strncmp(arg, name, n) || arg[n] != '=')
        return 0;
    *value = arg + n + 1;
    return 1;
}

static struct options parse(int argc, char **argv)
{
    struct options o = {.size = 100, .partitions = 1, .workers = 1, .sample = 16};
    struct { const char *name; int64_t *to; } integers[] = {
        {"records", &o.records}, {"size", &o.size}, {"partitions", &o.partitions},
        {"workers", &o.workers}, {"sample", &o.sample}, {"warmup", &o.warmup}, {"follow", &o.follow},
    };
    struct { const char *name; double *to; } reals[] = {
        {"seconds", &o.seconds}, {"rate", &o.rate}, {"step", &o.step},
    };
    for (int i = 2; i < argc; i++) {
        const char *v = NULL;
        int known = take(argv[i], "brokers", &o.brokers) || take(argv[i], "topic", &o.topic);
        for (size_t k = 0; !known && k < sizeof integers / sizeof *integers; k++)
            if ((known = take(argv[i], integers[k].name, &v)))
                *integers[k].to = strtoll(v, NULL, 10);
        for (size_t k = 0; !known && k < sizeof reals / sizeof *reals; k++)
            if ((known = take(argv[i], reals[k].name, &v)))
                *reals[k].to = strtod(v, NULL);
        if (!known && !strncmp(argv[i], "set.", 4) && strchr(argv[i], '=') && o.settings_count < SETTINGS_MAX) {
            o.settings[o.settings_count++] = argv[i] + 4;
            known = 1;
        }
        if (!known)
            die("unknown option %s", argv[i]);
    }
    if (!o.brokers || !o.topic)
        die("brokers= and topic= are needed");
    if (o.workers < 1 || o.workers > WORKERS_MAX || o.partitions < 1 || o.size < 1 || o.sample < 1)
        die("workers is 1..%d; partitions, size and sample are at least 1", WORKERS_MAX);
    return o;
}

int main(int argc, char **argv)
{
    if (argc < 2)
        die("usage: client produce|consume|latency brokers=HOST:PORT topic=NAME [NAME=VALUE ...]");
    struct options o = parse(argc, argv);
    if (!strcmp(argv[1], "produce"))
        return run_produce(&o);
    if (!strcmp(argv[1], "consume"))
        return run_consume(&o);
    if (!strcmp(argv[1], "latency"))
        return run_latency(&o);
    die("unknown load %s", argv[1]);
}
