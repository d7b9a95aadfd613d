/* Latencies in nanoseconds, kept as counts.
 *
 * Owns a log-linear histogram: 64 steps for each power of two, so a percentile
 * is at most 1.6 % too high, and recording is a shift and an add. Merging two
 * is adding them, so that each thread keeps its own without a lock. */
#ifndef BENCH_HISTOGRAM_H
#define BENCH_HISTOGRAM_H

#include <stdint.h>
#include <stdio.h>
#include <time.h>

#define HISTOGRAM_STEPS 64
#define HISTOGRAM_SLOTS (HISTOGRAM_STEPS * 60)

struct histogram {
    uint64_t count;
    uint64_t sum;
    uint64_t max;
    uint64_t slots[HISTOGRAM_SLOTS];
};

static inline uint64_t now_ns(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

static inline uint32_t histogram_slot(uint64_t ns)
{
    if (ns < HISTOGRAM_STEPS)
        return (uint32_t)ns;
    uint32_t shift = 63 - (uint32_t)__builtin_clzll(ns) - 6;
    uint32_t slot = (shift + 1) * HISTOGRAM_STEPS + (uint32_t)((ns >> shift) - HISTOGRAM_STEPS);
    return slot < HISTOGRAM_SLOTS ? slot : HISTOGRAM_SLOTS - 1;
}

/* The highest value that falls into the slot. */
static inline uint64_t histogram_top(uint32_t slot)
{
    if (slot < HISTOGRAM_STEPS)
        return slot;
    uint32_t shift = slot / HISTOGRAM_STEPS - 1;
    return ((uint64_t)(slot % HISTOGRAM_STEPS + HISTOGRAM_STEPS + 1) << shift) - 1;
}

static inline void histogram_add(struct histogram *h, uint64_t ns)
{
    h->count++;
    h->sum += ns;
    if (ns > h->max)
        h->max = ns;
    h->slots[histogram_slot(ns)]++;
}

static inline void histogram_merge(struct histogram *into, const struct histogram *from)
{
    into->count += from->count;
    into->sum += from->sum;
    if (from->max > into->max)
        into->max = from->max;
    for (uint32_t i = 0; i < HISTOGRAM_SLOTS; i++)
        into->slots[i] += from->slots[i];
}

static inline uint64_t histogram_at(const struct histogram *h, double share)
{
    uint64_t want = (uint64_t)(share * (double)h->count), seen = 0;
    for (uint32_t i = 0; i < HISTOGRAM_SLOTS; i++) {
        seen += h->slots[i];
        if (seen > want)
            return histogram_top(i) < h->max ? histogram_top(i) : h->max;
    }
    return h->max;
}

/* Prints the members of a JSON object, in microseconds, after a comma. */
static inline void histogram_print(const struct histogram *h)
{
    if (!h->count)
        return;
    printf(", \"p50_us\": %.1f, \"p95_us\": %.1f, \"p99_us\": %.1f, \"p999_us\": %.1f, "
           "\"max_us\": %.1f, \"mean_us\": %.1f, \"samples\": %llu",
           (double)histogram_at(h, 0.50) / 1e3, (double)histogram_at(h, 0.95) / 1e3,
           (double)histogram_at(h, 0.99) / 1e3, (double)histogram_at(h, 0.999) / 1e3,
           (double)h->max / 1e3, (double)h->sum / (double)h->count / 1e3,
           (unsigned long long)h->count);
}

#endif
