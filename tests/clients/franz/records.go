package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math/rand"
	"slices"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
)

var recordFacts = []fact{
	{"synchronous_records_return_with_keys_headers_and_times", synchronousRecords},
	{"a_hundred_thousand_pipelined_records_keep_their_order", pipelinedRecords},
	{"every_codec_returns_the_same_bytes", codecs},
	{"producers_side_by_side_lose_and_repeat_nothing", sideBySide},
	{"acks_none_and_leader_store", otherAcks},
	{"a_record_over_the_limit_is_refused_and_the_next_one_stored", overLimit},
	{"an_unknown_topic_is_reported", unknownTopic},
	{"a_produce_may_create_its_topic", autoCreate},
}

// read takes exactly `count` records of a partition from `offset` on.
func read(ctx context.Context, name string, partition int32, offset int64, count int) []*kgo.Record {
	c := client(kgo.ConsumePartitions(map[string]map[int32]kgo.Offset{name: {partition: kgo.NewOffset().At(offset)}}))
	defer c.Close()
	return poll(ctx, c, count)
}

func poll(ctx context.Context, c *kgo.Client, count int) []*kgo.Record {
	var records []*kgo.Record
	for len(records) < count {
		fetches := c.PollFetches(ctx)
		for _, e := range fetches.Errors() {
			fail("fetch of %s/%d after %d of %d records: %v", e.Topic, e.Partition, len(records), count, e.Err)
		}
		records = append(records, fetches.Records()...)
	}
	return records[:count]
}

func produceAll(ctx context.Context, c *kgo.Client, records []*kgo.Record) {
	var mu sync.Mutex
	var first error
	for _, r := range records {
		c.Produce(ctx, r, func(_ *kgo.Record, err error) {
			mu.Lock()
			defer mu.Unlock()
			if first == nil {
				first = err
			}
		})
	}
	must(c.Flush(ctx), "flush")
	must(first, "produce")
}

func synchronousRecords(ctx context.Context) {
	name := topic(ctx, "sync", 1, nil)
	stamp := time.UnixMilli(1_600_000_000_123)
	sent := []*kgo.Record{
		{Topic: name, Key: []byte("k"), Value: []byte("v"), Timestamp: stamp, Headers: []kgo.RecordHeader{
			{Key: "a", Value: []byte("1")}, {Key: "a", Value: []byte{0, 255}}, {Key: "", Value: nil}}},
		{Topic: name, Key: nil, Value: []byte{}, Timestamp: stamp.Add(time.Millisecond)},
		{Topic: name, Key: []byte{}, Value: nil, Timestamp: stamp.Add(-time.Hour)},
	}
	for i, r := range sent {
		done, err := shared.ProduceSync(ctx, r).First()
		must(err, "produce")
		equal(done.Offset, int64(i), "offset")
	}
	for i, r := range read(ctx, name, 0, 0, len(sent)) {
		equal(r.Key, sent[i].Key, "key")
		equal(r.Value, sent[i].Value, "value")
		equal(r.Timestamp.UnixMilli(), sent[i].Timestamp.UnixMilli(), "timestamp")
		equal(len(r.Headers), len(sent[i].Headers), "headers")
		for j, h := range r.Headers {
			equal(h, sent[i].Headers[j], "header")
		}
		equal(r.LeaderEpoch >= 0, true, "leader epoch known")
	}
}

func pipelinedRecords(ctx context.Context) {
	const count, partitions = 100_000, 6
	name := topic(ctx, "pipelined", partitions, nil)
	c := client(kgo.RecordPartitioner(kgo.ManualPartitioner()), kgo.ProducerLinger(time.Millisecond),
		kgo.ProducerBatchMaxBytes(16<<10))
	defer c.Close()
	records := make([]*kgo.Record, count)
	for i := range records {
		records[i] = &kgo.Record{Topic: name, Partition: int32(i % partitions), Value: fmt.Appendf(nil, "%d", i)}
	}
	produceAll(ctx, c, records)
	for p := range int32(partitions) {
		want := 0
		for i := int(p); i < count; i += partitions {
			want++
		}
		for i, r := range read(ctx, name, p, 0, want) {
			equal(r.Offset, int64(i), "offset")
			equal(string(r.Value), fmt.Sprint(i*partitions+int(p)), "value")
		}
		ends, err := admin.ListEndOffsets(ctx, name)
		must(err, "end offsets")
		end, _ := ends.Lookup(name, p)
		equal(end.Offset, int64(want), "log end")
	}
}

func codecs(ctx context.Context) {
	for name, codec := range map[string]kgo.CompressionCodec{"none": kgo.NoCompression(), "gzip": kgo.GzipCompression(),
		"snappy": kgo.SnappyCompression(), "lz4": kgo.Lz4Compression(), "zstd": kgo.ZstdCompression()} {
		t := topic(ctx, name, 1, nil)
		c := client(kgo.ProducerBatchCompression(codec), kgo.ProducerLinger(5*time.Millisecond))
		rng := rand.New(rand.NewSource(int64(len(name))))
		records := make([]*kgo.Record, 3_000)
		for i := range records {
			value := bytes.Repeat([]byte{byte(i)}, rng.Intn(300))
			records[i] = &kgo.Record{Topic: t, Key: fmt.Appendf(nil, "%d", i), Value: value}
		}
		produceAll(ctx, c, records)
		c.Close()
		for i, r := range read(ctx, t, 0, 0, len(records)) {
			that(bytes.Equal(r.Key, records[i].Key) && bytes.Equal(r.Value, records[i].Value), "%s: record %d differs", name, i)
		}
	}
}

func sideBySide(ctx context.Context) {
	const producers, each = 8, 2_000
	name := topic(ctx, "side", 1, nil)
	var group sync.WaitGroup
	failures := make(chan string, producers)
	for id := range producers {
		group.Go(func() {
			defer func() {
				if r := recover(); r != nil {
					failures <- fmt.Sprint(r)
				}
			}()
			c := client(kgo.ProducerBatchMaxBytes(2 << 10))
			defer c.Close()
			var records []*kgo.Record
			for i := range each {
				records = append(records, &kgo.Record{Topic: name, Key: fmt.Appendf(nil, "%d", id), Value: fmt.Appendf(nil, "%d", i)})
			}
			produceAll(ctx, c, records)
		})
	}
	group.Wait()
	that(len(failures) == 0, "a producer failed")
	next := map[string]int{}
	for i, r := range read(ctx, name, 0, 0, producers*each) {
		equal(r.Offset, int64(i), "offset")
		equal(string(r.Value), fmt.Sprint(next[string(r.Key)]), "next of producer "+string(r.Key))
		next[string(r.Key)]++
	}
}

func otherAcks(ctx context.Context) {
	for what, acks := range map[string]kgo.Acks{"none": kgo.NoAck(), "leader": kgo.LeaderAck(), "all": kgo.AllISRAcks()} {
		name := topic(ctx, "acks-"+what, 1, nil)
		c := client(kgo.RequiredAcks(acks), kgo.DisableIdempotentWrite())
		var records []*kgo.Record
		for i := range 500 {
			records = append(records, &kgo.Record{Topic: name, Value: fmt.Appendf(nil, "%d", i)})
		}
		produceAll(ctx, c, records)
		for i, r := range read(ctx, name, 0, 0, 500) {
			equal(string(r.Value), fmt.Sprint(i), what)
		}
		c.Close()
	}
}

func overLimit(ctx context.Context) {
	limit := "10000"
	name := topic(ctx, "limit", 1, map[string]*string{"max.message.bytes": &limit})
	c := client(kgo.ProducerBatchCompression(kgo.NoCompression()))
	defer c.Close()
	err := c.ProduceSync(ctx, &kgo.Record{Topic: name, Value: make([]byte, 20_000)}).FirstErr()
	that(errors.Is(err, kerr.MessageTooLarge), "expected MESSAGE_TOO_LARGE, got %v", err)
	must(c.ProduceSync(ctx, &kgo.Record{Topic: name, Value: make([]byte, 5_000)}).FirstErr(), "the next one")
	equal(len(read(ctx, name, 0, 0, 1)[0].Value), 5_000, "stored")
}

func unknownTopic(ctx context.Context) {
	c := client(kgo.UnknownTopicRetries(0))
	defer c.Close()
	err := c.ProduceSync(ctx, &kgo.Record{Topic: newName("nosuch"), Value: []byte("x")}).FirstErr()
	that(errors.Is(err, kerr.UnknownTopicOrPartition), "expected UNKNOWN_TOPIC_OR_PARTITION, got %v", err)
	name := newName("nosuch")
	seen, err := admin.ListTopics(ctx, name)
	must(err, "list")
	that(errors.Is(seen[name].Err, kerr.UnknownTopicOrPartition), "metadata: got %v", seen[name].Err)
}

func autoCreate(ctx context.Context) {
	c := client(kgo.AllowAutoTopicCreation())
	defer c.Close()
	name := newName("auto")
	must(c.ProduceSync(ctx, &kgo.Record{Topic: name, Value: []byte("x")}).FirstErr(), "produce")
	equal(string(read(ctx, name, 0, 0, 1)[0].Value), "x", "value")
	waitFor(ctx, "the topic to be listed", func() bool {
		names, err := admin.ListTopics(ctx)
		must(err, "list")
		return slices.Contains(names.Names(), name)
	})
}
