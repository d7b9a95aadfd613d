package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"strings"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
)

// Longest time that a consumer may take to its end.
const consumeSecondsMax = 60

// runConsume reads every partition from its first offset to its present end with
// franz-go's consumer as it comes, without a group.
func runConsume(f *flag.FlagSet, args []string) (map[string]any, error) {
	var (
		brokers    = f.String("brokers", "", "bootstrap list")
		topic      = f.String("topic", "", "topic")
		partitions = f.Int("partitions", 1, "its partitions")
	)
	f.Parse(args)
	ctx, cancel := context.WithTimeout(context.Background(), consumeSecondsMax*time.Second)
	defer cancel()
	asker, err := connect(*brokers)
	if err != nil {
		return nil, err
	}
	defer asker.Close()
	t, err := locate(ctx, asker, *topic, *partitions)
	if err != nil {
		return nil, err
	}
	var due int64
	starts := map[int32]kgo.Offset{}
	for p := range int32(*partitions) {
		first, err := offset(ctx, asker, t, p, -2)
		if err != nil {
			return nil, err
		}
		end, err := offset(ctx, asker, t, p, -1)
		if err != nil {
			return nil, err
		}
		due, starts[p] = due+end-first, kgo.NewOffset().At(first)
	}
	if due == 0 {
		return nil, errors.New("the topic is empty")
	}
	cpu, began := cpuSeconds(), time.Now()
	client, err := kgo.NewClient(kgo.SeedBrokers(strings.Split(*brokers, ",")...),
		kgo.ConsumePartitions(map[string]map[int32]kgo.Offset{*topic: starts}))
	if err != nil {
		return nil, err
	}
	defer client.Close()
	var records, bytes int64
	var first time.Duration
	for records < due {
		fetches := client.PollFetches(ctx)
		if err := fetches.Err(); err != nil {
			return nil, fmt.Errorf("after %d of %d records: %w", records, due, err)
		}
		if first == 0 {
			first = time.Since(began)
		}
		fetches.EachRecord(func(r *kgo.Record) {
			records++
			bytes += int64(len(r.Value))
		})
	}
	secs := time.Since(began).Seconds()
	return map[string]any{
		"records": records, "bytes": bytes, "seconds": secs, "records_per_s": float64(records) / secs,
		"mib_per_s": float64(bytes) / (1 << 20) / secs, "first_ms": first.Seconds() * 1000, "client_cpu_s": cpuSeconds() - cpu,
	}, nil
}
