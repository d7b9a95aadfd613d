package main

import (
	"context"
	"fmt"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
)

var fetchFacts = []fact{
	{"a_consumer_starts_at_any_offset_inside_a_batch", anyOffset},
	{"a_fetch_inside_a_batch_returns_the_whole_batch", wholeBatch},
	{"one_consumer_follows_fifty_partitions", fiftyPartitions},
	{"fetch_sessions_return_only_what_changed", sessions},
	{"fetch_sessions_refuse_wrong_ids_and_epochs", sessionErrors},
	{"a_fetch_waits_for_its_least_bytes_and_no_longer", minBytes},
	{"fetch_sizes_bound_the_answer_but_one_batch_always_comes", maxBytes},
	{"stale_and_future_leader_epochs_are_refused", leaderEpochs},
	{"an_unknown_topic_id_is_refused", unknownTopicID},
	{"consuming_from_a_time_starts_at_the_right_record", fromTime},
	{"an_offset_out_of_range_resets_as_the_client_asks", outOfRange},
}

// oneBatch stores `count` records as a single batch.
func oneBatch(ctx context.Context, name string, count int) {
	c := client(kgo.ProducerLinger(300*time.Millisecond), kgo.ManualFlushing())
	defer c.Close()
	var records []*kgo.Record
	for i := range count {
		records = append(records, &kgo.Record{Topic: name, Value: fmt.Appendf(nil, "%d", i)})
	}
	produceAll(ctx, c, records)
}

func topicID(ctx context.Context, name string) [16]byte {
	seen, err := admin.ListTopics(ctx, name)
	must(err, "list")
	return seen[name].ID
}

func fetchRequest(name string, id [16]byte, offsets map[int32]int64) *kmsg.FetchRequest {
	req := kmsg.NewPtrFetchRequest()
	req.MaxWaitMillis, req.MinBytes, req.MaxBytes, req.SessionEpoch = 0, 1, 50<<20, -1
	t := kmsg.NewFetchRequestTopic()
	t.Topic, t.TopicID = name, id
	for partition, offset := range offsets {
		p := kmsg.NewFetchRequestTopicPartition()
		p.Partition, p.FetchOffset, p.PartitionMaxBytes = partition, offset, 1<<20
		t.Partitions = append(t.Partitions, p)
	}
	if offsets != nil {
		req.Topics = append(req.Topics, t)
	}
	return req
}

// ask sends a request as it is, with no retries and no routing.
func ask[R kmsg.Response](ctx context.Context, c *kgo.Client, req kmsg.Request) R {
	brokers := c.SeedBrokers()
	resp, err := brokers[0].Request(ctx, req)
	must(err, "request")
	return resp.(R)
}

func fetch(ctx context.Context, req *kmsg.FetchRequest) *kmsg.FetchResponse {
	return ask[*kmsg.FetchResponse](ctx, shared, req)
}

func anyOffset(ctx context.Context) {
	name := topic(ctx, "mid", 1, nil)
	oneBatch(ctx, name, 100)
	oneBatch(ctx, name, 100)
	for offset := int64(0); offset < 200; offset += 9 {
		r := read(ctx, name, 0, offset, 1)[0]
		equal(r.Offset, offset, "offset")
		equal(string(r.Value), fmt.Sprint(offset%100), "value")
	}
}

func wholeBatch(ctx context.Context) {
	name := topicHere(ctx, "whole", 1, nil)
	oneBatch(ctx, name, 100)
	id := topicID(ctx, name)
	whole := fetch(ctx, fetchRequest(name, id, map[int32]int64{0: 0})).Topics[0].Partitions[0]
	for _, offset := range []int64{1, 50, 99} {
		p := fetch(ctx, fetchRequest(name, id, map[int32]int64{0: offset})).Topics[0].Partitions[0]
		code(p.ErrorCode, nil, "fetch")
		equal(p.RecordBatches, whole.RecordBatches, fmt.Sprintf("bytes at %d", offset))
	}
	equal(whole.HighWatermark, int64(100), "high watermark")
	equal(whole.LogStartOffset, int64(0), "log start")
	equal(whole.LastStableOffset, int64(100), "last stable offset")
}

func fiftyPartitions(ctx context.Context) {
	const partitions, rounds = 50, 20
	name := topic(ctx, "fifty", partitions, nil)
	from := map[int32]kgo.Offset{}
	for p := range int32(partitions) {
		from[p] = kgo.NewOffset().AtStart()
	}
	c := client(kgo.ConsumePartitions(map[string]map[int32]kgo.Offset{name: from}), kgo.FetchMaxWait(time.Second))
	defer c.Close()
	p := client(kgo.RecordPartitioner(kgo.ManualPartitioner()))
	defer p.Close()
	next := make([]int64, partitions)
	for round := range rounds {
		for partition := range partitions {
			if (partition+round)%3 == 0 {
				p.Produce(ctx, &kgo.Record{Topic: name, Partition: int32(partition), Value: fmt.Appendf(nil, "%d", round)}, nil)
			}
		}
		must(p.Flush(ctx), "flush")
		due := 0
		for partition := range partitions {
			if (partition+round)%3 == 0 {
				due++
			}
		}
		for _, r := range poll(ctx, c, due) {
			equal(r.Offset, next[r.Partition], "offset")
			equal(string(r.Value), fmt.Sprint(round), "value")
			next[r.Partition]++
		}
	}
}

func sessions(ctx context.Context) {
	name := topicHere(ctx, "session", 3, nil)
	id := topicID(ctx, name)
	req := fetchRequest(name, id, map[int32]int64{0: 0, 1: 0, 2: 0})
	req.SessionEpoch = 0
	resp := fetch(ctx, req)
	code(resp.ErrorCode, nil, "first fetch")
	that(resp.SessionID != 0, "no session was made")
	equal(len(resp.Topics[0].Partitions), 3, "partitions in the first answer")

	again := fetchRequest(name, id, nil)
	again.SessionID, again.SessionEpoch = resp.SessionID, 1
	resp2 := fetch(ctx, again)
	code(resp2.ErrorCode, nil, "second fetch")
	equal(resp2.SessionID, resp.SessionID, "session id")
	equal(len(resp2.Topics), 0, "topics when nothing changed")

	manual := client(kgo.RecordPartitioner(kgo.ManualPartitioner()))
	defer manual.Close()
	must(manual.ProduceSync(ctx, &kgo.Record{Topic: name, Partition: 1, Value: []byte("x")}).FirstErr(), "produce")
	third := fetchRequest(name, id, nil)
	third.SessionID, third.SessionEpoch = resp.SessionID, 2
	resp3 := fetch(ctx, third)
	code(resp3.ErrorCode, nil, "third fetch")
	equal(len(resp3.Topics), 1, "topics after one produce")
	equal(len(resp3.Topics[0].Partitions), 1, "partitions after one produce")
	equal(resp3.Topics[0].Partitions[0].Partition, int32(1), "the partition that changed")
	that(len(resp3.Topics[0].Partitions[0].RecordBatches) > 0, "no records came")

	forget := fetchRequest(name, id, nil)
	forget.SessionID, forget.SessionEpoch = resp.SessionID, 3
	f := kmsg.NewFetchRequestForgottenTopic()
	f.Topic, f.TopicID, f.Partitions = name, id, []int32{1}
	forget.ForgottenTopics = append(forget.ForgottenTopics, f)
	resp4 := fetch(ctx, forget)
	code(resp4.ErrorCode, nil, "fetch that forgets")
	equal(len(resp4.Topics), 0, "topics after forgetting the only one with records")
}

func sessionErrors(ctx context.Context) {
	name := topicHere(ctx, "session-errors", 1, nil)
	id := topicID(ctx, name)
	first := fetchRequest(name, id, map[int32]int64{0: 0})
	first.SessionEpoch = 0
	made := fetch(ctx, first)
	wrong := fetchRequest(name, id, nil)
	wrong.SessionID, wrong.SessionEpoch = made.SessionID, 7
	code(fetch(ctx, wrong).ErrorCode, kerr.InvalidFetchSessionEpoch, "epoch 7 where 1 is due")
	wrong.SessionID, wrong.SessionEpoch = made.SessionID+1_000_003, 1
	code(fetch(ctx, wrong).ErrorCode, kerr.FetchSessionIDNotFound, "a session nobody made")
	closing := fetchRequest(name, id, nil)
	closing.SessionID, closing.SessionEpoch = made.SessionID, -1
	code(fetch(ctx, closing).ErrorCode, nil, "closing")
	wrong.SessionID, wrong.SessionEpoch = made.SessionID, 1
	code(fetch(ctx, wrong).ErrorCode, kerr.FetchSessionIDNotFound, "after closing")
}

func minBytes(ctx context.Context) {
	name := topicHere(ctx, "min-bytes", 1, nil)
	id := topicID(ctx, name)
	timed := func(wait, least int32, offset int64) (time.Duration, int) {
		req := fetchRequest(name, id, map[int32]int64{0: offset})
		req.MaxWaitMillis, req.MinBytes = wait, least
		begin := time.Now()
		p := fetch(ctx, req).Topics[0].Partitions[0]
		code(p.ErrorCode, nil, "fetch")
		return time.Since(begin), len(p.RecordBatches)
	}
	took, size := timed(400, 1, 0)
	that(size == 0 && took > 350*time.Millisecond && took < 3*time.Second, "an empty log: %v, %d bytes", took, size)
	produced := make(chan error, 1)
	go func() {
		time.Sleep(200 * time.Millisecond)
		produced <- shared.ProduceSync(ctx, &kgo.Record{Topic: name, Value: make([]byte, 500)}).FirstErr()
	}()
	took, size = timed(10_000, 1, 0)
	must(<-produced, "produce")
	that(size > 60 && took >= 150*time.Millisecond && took < 3*time.Second, "a record that comes while waiting: %v, %d bytes", took, size)
	took, size = timed(400, 100_000, 0)
	that(size > 60 && took > 350*time.Millisecond, "less than the least: %v, %d bytes", took, size)
	took, _ = timed(10_000, 0, 1)
	that(took < 2*time.Second, "a least of zero waited %v", took)
}

func maxBytes(ctx context.Context) {
	name := topicHere(ctx, "max-bytes", 10, nil)
	id := topicID(ctx, name)
	c := client(kgo.RecordPartitioner(kgo.ManualPartitioner()), kgo.ProducerBatchCompression(kgo.NoCompression()))
	defer c.Close()
	offsets := map[int32]int64{}
	for p := range int32(10) {
		offsets[p] = 0
		for range 2 {
			must(c.ProduceSync(ctx, &kgo.Record{Topic: name, Partition: p, Value: make([]byte, 100_000)}).FirstErr(), "produce")
		}
	}
	count := func(req *kmsg.FetchRequest) (total, filled int) {
		for _, t := range fetch(ctx, req).Topics {
			for _, p := range t.Partitions {
				code(p.ErrorCode, nil, "fetch")
				total += len(p.RecordBatches)
				if len(p.RecordBatches) > 0 {
					filled++
				}
			}
		}
		return
	}
	req := fetchRequest(name, id, offsets)
	total, filled := count(req)
	that(filled == 10 && total > 2_000_000, "without a bound: %d bytes of %d partitions", total, filled)
	req.MaxBytes = 350_000
	total, filled = count(req)
	that(total <= 350_000 && total >= 200_000, "with 350000 in all: %d bytes of %d partitions", total, filled)
	req.MaxBytes = 1
	total, filled = count(req)
	that(filled == 1 && total >= 100_000 && total < 110_000, "with 1 in all: %d bytes of %d partitions", total, filled)
	single := fetchRequest(name, id, map[int32]int64{3: 0})
	single.Topics[0].Partitions[0].PartitionMaxBytes = 1
	total, _ = count(single)
	that(total >= 100_000 && total < 110_000, "with 1 for the partition: %d bytes", total)
}

func leaderEpochs(ctx context.Context) {
	name := topicHere(ctx, "epochs", 1, nil)
	oneBatch(ctx, name, 10)
	id := topicID(ctx, name)
	seen, err := admin.ListTopics(ctx, name)
	must(err, "list")
	epoch := seen[name].Partitions[0].LeaderEpoch
	with := func(e int32) int16 {
		req := fetchRequest(name, id, map[int32]int64{0: 0})
		req.Topics[0].Partitions[0].CurrentLeaderEpoch = e
		return fetch(ctx, req).Topics[0].Partitions[0].ErrorCode
	}
	code(with(epoch), nil, "the epoch itself")
	code(with(-1), nil, "no epoch")
	code(with(epoch+1), kerr.UnknownLeaderEpoch, "a later epoch")
	early := listRequest(name, -1)
	early.Topics[0].Partitions[0].CurrentLeaderEpoch = -2 // before the first, and not the -1 that stands for none
	code(ask[*kmsg.ListOffsetsResponse](ctx, shared, early).Topics[0].Partitions[0].ErrorCode, kerr.FencedLeaderEpoch, "an earlier epoch")
	ends, err := admin.OffsetForLeaderEpoch(ctx, func() (r kadm.OffsetForLeaderEpochRequest) { r.Add(name, 0, epoch); return }())
	must(err, "offset for leader epoch")
	equal(ends[name][0].EndOffset, int64(10), "end of the epoch")
	equal(ends[name][0].LeaderEpoch, epoch, "its epoch")
	later, err := admin.OffsetForLeaderEpoch(ctx, func() (r kadm.OffsetForLeaderEpochRequest) { r.Add(name, 0, epoch+5); return }())
	must(err, "offset for leader epoch")
	equal(later[name][0].EndOffset, int64(-1), "end of an epoch to come")
	unknown := kmsg.NewPtrOffsetForLeaderEpochRequest()
	unknown.ReplicaID = -2
	t, p := kmsg.NewOffsetForLeaderEpochRequestTopic(), kmsg.NewOffsetForLeaderEpochRequestTopicPartition()
	t.Topic, p.CurrentLeaderEpoch, p.LeaderEpoch = name, epoch+1, epoch
	t.Partitions = append(t.Partitions, p)
	unknown.Topics = append(unknown.Topics, t)
	got := ask[*kmsg.OffsetForLeaderEpochResponse](ctx, shared, unknown)
	code(got.Topics[0].Partitions[0].ErrorCode, kerr.UnknownLeaderEpoch, "asked with a later current epoch")
}

func unknownTopicID(ctx context.Context) {
	name := topicHere(ctx, "ids", 1, nil)
	id := topicID(ctx, name)
	id[3] ^= 0xFF
	resp := fetch(ctx, fetchRequest(name, id, map[int32]int64{0: 0}))
	code(resp.Topics[0].Partitions[0].ErrorCode, kerr.UnknownTopicID, "fetch")
}

func fromTime(ctx context.Context) {
	name := topic(ctx, "from-time", 1, nil)
	for i := range 50 {
		stamp := time.UnixMilli(1_700_000_000_000 + int64(i)*1_000)
		must(shared.ProduceSync(ctx, &kgo.Record{Topic: name, Timestamp: stamp, Value: fmt.Appendf(nil, "%d", i)}).FirstErr(), "produce")
	}
	for _, c := range []struct{ at, want int64 }{{0, 0}, {1_700_000_010_000, 10}, {1_700_000_010_001, 11}, {1_700_000_049_000, 49}} {
		cl := client(kgo.ConsumePartitions(map[string]map[int32]kgo.Offset{name: {0: kgo.NewOffset().AfterMilli(c.at)}}))
		equal(poll(ctx, cl, 1)[0].Offset, c.want, fmt.Sprintf("first at %d", c.at))
		cl.Close()
	}
}

func outOfRange(ctx context.Context) {
	name := topicHere(ctx, "range", 1, nil)
	oneBatch(ctx, name, 10)
	at := map[string]map[int32]kgo.Offset{name: {0: kgo.NewOffset().At(5_000)}}
	c := client(kgo.ConsumePartitions(at), kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()))
	defer c.Close()
	equal(poll(ctx, c, 1)[0].Offset, int64(0), "after the reset")
	p := fetch(ctx, fetchRequest(name, topicID(ctx, name), map[int32]int64{0: 11})).Topics[0].Partitions[0]
	code(p.ErrorCode, kerr.OffsetOutOfRange, "fetch past the end")
	equal(len(p.RecordBatches), 0, "bytes with an error")
}
