package main

import (
	"context"
	"encoding/binary"
	"errors"
	"flag"
	"fmt"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// runFetch reads partition 0 from its first offset to its present end with one
// Fetch after another on one connection, and looks only at batch headers. With
// nearly no work in the client it shows the broker and the round trips, and so
// whether a full client was the limit. With -rate it is a reader that catches
// up at a steady pace, until the end or the end of its time. With -decode it
// does the work of a client, and with -ahead the next Fetch is under way
// meanwhile. With -repeat it asks for the first offset so many times and tells
// how long each reply took.
func runFetch(f *flag.FlagSet, args []string) (map[string]any, error) {
	var (
		brokers  = f.String("brokers", "", "bootstrap list")
		topic    = f.String("topic", "", "topic")
		bytesMax = f.Int("bytes", 1<<20, "most bytes of one Fetch")
		rate     = f.Float64("rate", 0, "MiB/s to read at; 0: as fast as it goes")
		duration = f.Duration("duration", time.Hour, "longest time to read")
		decode   = f.Bool("decode", false, "check and decode every batch")
		ahead    = f.Bool("ahead", false, "send the next Fetch before decoding")
		repeat   = f.Int("repeat", 0, "fetch the first offset so many times, and nothing else")
	)
	f.Parse(args)
	ctx := context.Background()
	client, err := connect(*brokers)
	if err != nil {
		return nil, err
	}
	defer client.Close()
	t, err := locate(ctx, client, *topic, 1)
	if err != nil {
		return nil, err
	}
	next, err := offset(ctx, client, t, 0, -2)
	if err != nil {
		return nil, err
	}
	end, err := offset(ctx, client, t, 0, -1)
	if err != nil {
		return nil, err
	}
	if next >= end {
		return nil, errors.New("the partition is empty")
	}
	if *repeat > 0 {
		return repeatFetch(ctx, client, t, next, *bytesMax, *repeat)
	}
	cpu, began := cpuSeconds(), time.Now()
	var records, bytes, fetches int64
	var under chan reply // the Fetch that was sent ahead
	for next < end && time.Since(began) < *duration {
		if *rate > 0 {
			due := time.Duration(float64(bytes) / (*rate * (1 << 20)) * float64(time.Second))
			time.Sleep(due - time.Since(began))
		}
		var got reply
		if under != nil {
			got, under = <-under, nil
		} else {
			got.batches, got.err = fetchOnce(ctx, client, t, next, *bytesMax)
		}
		if got.err != nil {
			return nil, got.err
		}
		fetches++
		at, before, batches := next, records, got.batches
		for len(batches) >= batchHeaderBytes {
			n := batchUncountedLen + int(binary.BigEndian.Uint32(batches[batchLengthAt:]))
			if n > len(batches) {
				break // cut off by the limit
			}
			base := int64(binary.BigEndian.Uint64(batches))
			next = base + int64(binary.BigEndian.Uint32(batches[batchLastDeltaAt:])) + 1
			records += int64(binary.BigEndian.Uint32(batches[batchCountAt:]))
			bytes += int64(n)
			batches = batches[n:]
		}
		if *ahead && next < end {
			under = make(chan reply, 1)
			go func(at int64, to chan<- reply) {
				batches, err := fetchOnce(ctx, client, t, at, *bytesMax)
				to <- reply{batches, err}
			}(next, under)
		}
		if *decode {
			if err := decodeBatches(t.name, at, got.batches, records-before); err != nil {
				return nil, err
			}
		}
	}
	secs := time.Since(began).Seconds()
	return map[string]any{
		"records": records, "bytes": bytes, "seconds": secs, "fetches": fetches,
		"mib_per_s": float64(bytes) / (1 << 20) / secs, "records_per_s": float64(records) / secs,
		"client_cpu_s": cpuSeconds() - cpu,
	}, nil
}

type reply struct {
	batches []byte
	err     error
}

// repeatFetch times replies that are the same: from the request to the last byte.
func repeatFetch(ctx context.Context, client *kgo.Client, t topicOnBroker, at int64, bytesMax, times int) (map[string]any, error) {
	var all []time.Duration
	var bytes int
	began := time.Now()
	for range times {
		asked := time.Now()
		batches, err := fetchOnce(ctx, client, t, at, bytesMax)
		if err != nil {
			return nil, err
		}
		all, bytes = append(all, time.Since(asked)), bytes+len(batches)
	}
	secs := time.Since(began).Seconds()
	out := map[string]any{"fetches": times, "bytes": bytes, "kib_each": float64(bytes) / float64(times) / 1024,
		"mib_per_s": float64(bytes) / (1 << 20) / secs}
	percentiles(out, all)
	return out, nil
}

// decodeBatches does with a reply what franz-go's consumer does; all of its records must come of it.
func decodeBatches(topic string, at int64, batches []byte, due int64) error {
	rp := kmsg.NewFetchResponseTopicPartition()
	rp.RecordBatches = batches
	opts := kgo.ProcessFetchPartitionOpts{Topic: topic, Offset: at}
	got, _ := kgo.ProcessFetchPartition(opts, &rp, kgo.DefaultDecompressor(), nil)
	if got.Err != nil || int64(len(got.Records)) != due {
		return fmt.Errorf("%d of %d records in the reply at offset %d: %v", len(got.Records), due, at, got.Err)
	}
	return nil
}

func fetchOnce(ctx context.Context, client *kgo.Client, t topicOnBroker, at int64, bytesMax int) ([]byte, error) {
	req := kmsg.NewPtrFetchRequest()
	req.ReplicaID = -1
	req.MaxWaitMillis = 500
	req.MinBytes = 1
	req.MaxBytes = int32(bytesMax)
	req.SessionEpoch = -1 // no session
	rt := kmsg.NewFetchRequestTopic()
	rt.Topic, rt.TopicID = t.name, t.id
	rp := kmsg.NewFetchRequestTopicPartition()
	rp.FetchOffset, rp.PartitionMaxBytes = at, int32(bytesMax)
	rt.Partitions = append(rt.Partitions, rp)
	req.Topics = append(req.Topics, rt)
	kresp, err := client.Broker(t.leader).Request(ctx, req)
	if err != nil {
		return nil, err
	}
	resp := kresp.(*kmsg.FetchResponse)
	if err := kerr.ErrorForCode(resp.ErrorCode); err != nil {
		return nil, err
	}
	if len(resp.Topics) != 1 || len(resp.Topics[0].Partitions) != 1 {
		return nil, errors.New("the reply to Fetch names no partition")
	}
	p := resp.Topics[0].Partitions[0]
	return p.RecordBatches, kerr.ErrorForCode(p.ErrorCode)
}
