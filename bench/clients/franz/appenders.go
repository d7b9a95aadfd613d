package main

import (
	"context"
	"crypto/rand"
	"errors"
	"flag"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// runAppenders is kafkaw: so many appenders of 2 KiB share C connections to
// one partition, and each connection has exactly one Produce request
// outstanding. An appender appends again as soon as its append is
// acknowledged, so all appenders of a connection are in its next request; one
// goroutine per connection therefore does what a goroutine per appender would,
// without spending a core on waking them.
//
// A log that syncs once for all who wait draws a flat line over C; one that
// syncs for each request collapses as C grows.
func runAppenders(f *flag.FlagSet, args []string) (map[string]any, error) {
	var (
		brokers   = f.String("brokers", "", "bootstrap list")
		topic     = f.String("topic", "", "topic; partition 0 is used")
		appenders = f.Int("appenders", 128, "appenders")
		conns     = f.Int("conns", 1, "connections they share")
		size      = f.Int("size", 2048, "value bytes")
		acks      = f.Int("acks", -1, "acknowledgements asked for")
		warmup    = f.Duration("warmup", 500*time.Millisecond, "time before the clock starts")
		duration  = f.Duration("duration", 2*time.Second, "measured time")
	)
	f.Parse(args)
	if *conns < 1 || *conns > *appenders {
		return nil, fmt.Errorf("%d connections for %d appenders", *conns, *appenders)
	}
	ctx := context.Background()
	value := make([]byte, *size)
	rand.Read(value)

	run := &closedLoop{}
	links := make([]link, *conns)
	for i := range links {
		share := *appenders / *conns
		if i < *appenders%*conns {
			share++
		}
		client, err := connect(*brokers)
		if err != nil {
			return nil, err
		}
		defer client.Close()
		t, err := locate(ctx, client, *topic, 1)
		if err != nil {
			return nil, err
		}
		links[i] = link{client: client, broker: t.leader, next: func(req *kmsg.ProduceRequest, buf []byte) []byte {
			buf = encodeBatch(buf[:0], value, share)
			req.Acks = int16(*acks)
			one := addTopic(req, t)
			*one = append(*one, partitionOf(0, buf))
			return buf
		}, records: share}
	}
	t, err := locate(ctx, links[0].client, *topic, 1)
	if err != nil {
		return nil, err
	}
	before, err := offset(ctx, links[0].client, t, 0, -1)
	if err != nil {
		return nil, err
	}
	out, err := run.measure(ctx, links, *warmup, *duration)
	if err != nil {
		return nil, err
	}
	after, err := offset(ctx, links[0].client, t, 0, -1)
	if err != nil {
		return nil, err
	}
	if grown := after - before; *acks != 0 && grown != run.total.Load() {
		return nil, fmt.Errorf("%d appends acknowledged, the log grew by %d", run.total.Load(), grown)
	}
	out["conns"] = *conns
	return out, nil
}

// link is one connection: the request it sends next, and how many records are in it.
type link struct {
	client  *kgo.Client
	broker  int
	next    func(req *kmsg.ProduceRequest, buf []byte) []byte
	records int
}

// closedLoop keeps one request outstanding per link for a warm-up and a measured time.
type closedLoop struct {
	total, requests atomic.Int64
	measuring, stop atomic.Bool
}

func (l *closedLoop) measure(ctx context.Context, links []link, warmup, duration time.Duration) (map[string]any, error) {
	var (
		wg     sync.WaitGroup
		failed atomic.Pointer[error]
		lats   = make([][]time.Duration, len(links))
	)
	for i := range links {
		wg.Go(func() {
			if err := l.drive(ctx, &links[i], &lats[i]); err != nil {
				failed.CompareAndSwap(nil, &err)
			}
		})
	}
	time.Sleep(warmup)
	n0, r0, cpu0, t0 := l.total.Load(), l.requests.Load(), cpuSeconds(), time.Now()
	l.measuring.Store(true)
	time.Sleep(duration)
	l.measuring.Store(false)
	n1, r1, cpu1, secs := l.total.Load(), l.requests.Load(), cpuSeconds(), time.Since(t0).Seconds()
	l.stop.Store(true)
	wg.Wait()
	if e := failed.Load(); e != nil {
		return nil, *e
	}
	if n1 == n0 {
		return nil, errors.New("no append was acknowledged in the measured time")
	}
	n := float64(n1 - n0)
	out := map[string]any{
		"appends_per_s": n / secs, "requests_per_s": float64(r1-r0) / secs,
		"records_per_request": n / float64(r1-r0), "seconds": secs,
		"client_cores": (cpu1 - cpu0) / secs, "client_cpu_us": (cpu1 - cpu0) / n * 1e6,
		"records": l.total.Load(),
	}
	percentiles(out, slices.Concat(lats...))
	return out, nil
}

func (l *closedLoop) drive(ctx context.Context, c *link, lats *[]time.Duration) error {
	var buf []byte
	for !l.stop.Load() {
		req := kmsg.NewPtrProduceRequest()
		req.TimeoutMillis = 30000
		buf = c.next(req, buf)
		began := time.Now()
		if err := produceOnce(ctx, c.client, c.broker, req); err != nil {
			return err
		}
		took := time.Since(began)
		l.total.Add(int64(c.records))
		l.requests.Add(1)
		if l.measuring.Load() {
			*lats = append(*lats, took)
		}
	}
	return nil
}

// produceOnce sends a request and looks at the answer for each partition.
func produceOnce(ctx context.Context, client *kgo.Client, broker int, req *kmsg.ProduceRequest) error {
	kresp, err := client.Broker(broker).Request(ctx, req)
	if err != nil {
		return err
	}
	for _, t := range kresp.(*kmsg.ProduceResponse).Topics {
		for _, p := range t.Partitions {
			if err := kerr.ErrorForCode(p.ErrorCode); err != nil {
				return fmt.Errorf("%s-%d: %w", t.Topic, p.Partition, err)
			}
		}
	}
	return nil
}

// addTopic appends a topic to the request and gives the place of its partitions.
func addTopic(req *kmsg.ProduceRequest, t topicOnBroker) *[]kmsg.ProduceRequestTopicPartition {
	rt := kmsg.NewProduceRequestTopic()
	rt.Topic, rt.TopicID = t.name, t.id
	req.Topics = append(req.Topics, rt)
	return &req.Topics[len(req.Topics)-1].Partitions
}

func partitionOf(partition int32, batch []byte) kmsg.ProduceRequestTopicPartition {
	rp := kmsg.NewProduceRequestTopicPartition()
	rp.Partition, rp.Records = partition, batch
	return rp
}
