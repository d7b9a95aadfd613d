package main

import (
	"context"
	"encoding/binary"
	"flag"
	"math/rand/v2"
	"strings"
	"sync/atomic"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
)

// runKeyed fills partition 0 with records whose keys are drawn evenly from so
// many, so that a compacted log keeps about keys/records of them. The values
// do not compress. How many keys come up for the first time is told for equal
// parts of the log: their sum up to any place is what a compaction up to there
// leaves.
func runKeyed(f *flag.FlagSet, args []string) (map[string]any, error) {
	var (
		brokers = f.String("brokers", "", "bootstrap list")
		topic   = f.String("topic", "", "topic; partition 0 is used")
		records = f.Int("records", 1_000_000, "records")
		keys    = f.Int("keys", 100_000, "keys they have")
		size    = f.Int("size", 1024, "value bytes")
		parts   = f.Int("parts", 1024, "parts in which new keys are counted")
	)
	f.Parse(args)
	client, err := kgo.NewClient(
		kgo.SeedBrokers(strings.Split(*brokers, ",")...),
		kgo.RecordPartitioner(kgo.ManualPartitioner()),
		kgo.DefaultProduceTopic(*topic),
		kgo.ProducerBatchCompression(kgo.NoCompression()),
		kgo.ProducerLinger(5*time.Millisecond),
		kgo.MaxBufferedRecords(50_000),
	)
	if err != nil {
		return nil, err
	}
	defer client.Close()
	// The same records for every side.
	rng := rand.New(rand.NewPCG(1, uint64(*records)))
	pool := make([]byte, *size+1<<16)
	for i := 0; i+8 <= len(pool); i += 8 {
		binary.BigEndian.PutUint64(pool[i:], rng.Uint64())
	}
	var failed atomic.Pointer[error]
	used := make([]bool, *keys)
	fresh := make([]int, *parts)
	began := time.Now()
	for i := range *records {
		key := rng.IntN(*keys)
		if !used[key] {
			used[key] = true
			fresh[i*(*parts)/(*records)]++
		}
		at := rng.IntN(1 << 16)
		record := &kgo.Record{Key: binary.BigEndian.AppendUint64(nil, uint64(key)), Value: pool[at : at+*size]}
		client.Produce(context.Background(), record, func(_ *kgo.Record, err error) {
			if err != nil {
				failed.CompareAndSwap(nil, &err)
			}
		})
	}
	if err := client.Flush(context.Background()); err != nil {
		return nil, err
	}
	if e := failed.Load(); e != nil {
		return nil, *e
	}
	secs := time.Since(began).Seconds()
	return map[string]any{
		"records": *records, "new_keys": fresh, "seconds": secs,
		"records_per_s": float64(*records) / secs, "mib_per_s": float64(*records**size) / secs / (1 << 20),
	}, nil
}
