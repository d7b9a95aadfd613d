package main

import (
	"context"
	"flag"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
)

// delivery is when a partition's records last reached its present owner, and
// the longest time between two such moments, with no move between them.
type delivery struct {
	last    time.Time
	longest time.Duration
	gaps    int
}

// deliveries of all partitions; a move ends the gap that it falls into, which
// then counts up to the move and no further: the partition moved.
type deliveries struct {
	mu     sync.Mutex
	of     []delivery
	active bool
}

func (d *deliveries) seen(partition int32, at time.Time) {
	d.mu.Lock()
	defer d.mu.Unlock()
	one := &d.of[partition]
	d.close(one, at)
	one.last = at
}

func (d *deliveries) moved(partition int32) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.of[partition].last = time.Time{}
}

// finish counts the gaps that are open at the end.
func (d *deliveries) finish(at time.Time) {
	d.mu.Lock()
	defer d.mu.Unlock()
	for i := range d.of {
		d.close(&d.of[i], at)
	}
}

func (d *deliveries) close(one *delivery, at time.Time) {
	if one.last.IsZero() || !d.active {
		return
	}
	one.gaps++
	one.longest = max(one.longest, at.Sub(one.last))
}

// runRolling restarts the members of a settled group one after another while
// records come for every partition, and tells the longest time in which a
// partition that stayed where it was got nothing. Members poll at a fixed
// interval; records come four times as often.
func runRolling(f *flag.FlagSet, args []string) (map[string]any, error) {
	var (
		brokers    = f.String("brokers", "", "bootstrap list")
		topic      = f.String("topic", "", "topic")
		partitions = f.Int("partitions", 100, "its partitions")
		members    = f.Int("members", 50, "members of the group")
		restarts   = f.Int("restarts", 50, "members to restart")
		every      = f.Duration("every", time.Second, "time between two restarts")
		poll       = f.Duration("poll", 500*time.Millisecond, "poll interval of a member")
		protocol   = f.String("protocol", "consumer", "classic or consumer")
		limit      = f.Duration("limit", 60*time.Second, "longest wait for the group to settle")
	)
	f.Parse(args)
	group := *topic + "-rolling"
	o := newOwners(*partitions, *members)
	d := &deliveries{of: make([]delivery, *partitions)}
	moves := map[int32]int{}
	counting := false
	o.onMove = func(p int32) {
		d.moved(p)
		if counting {
			moves[p]++
		}
	}
	clients := make([]*kgo.Client, *members)
	ends := make([]context.CancelFunc, *members)
	defer func() { closeAll(clients) }()
	var loops sync.WaitGroup
	var failed atomic.Pointer[error]
	start := func(m int) error {
		client, err := join(*brokers, *topic, group, *protocol, m, o)
		if err != nil {
			return err
		}
		clients[m] = client
		running, end := context.WithCancel(context.Background())
		ends[m] = end
		loops.Go(func() {
			if err := consume(running, client, *poll, d); err != nil {
				failed.CompareAndSwap(nil, &err)
			}
		})
		return nil
	}
	for m := range clients {
		if err := start(m); err != nil {
			return nil, err
		}
	}
	if _, err := waitSettled([]*owners{o}, *limit); err != nil {
		return nil, err
	}
	writing, stop := context.WithCancel(context.Background())
	defer stop()
	written := make(chan error, 1)
	go func() { written <- feed(writing, *brokers, *topic, *partitions, *poll/4) }()
	time.Sleep(4 * *poll)
	d.mu.Lock()
	d.active = true
	d.mu.Unlock()
	o.mu.Lock()
	counting = true
	o.mu.Unlock()
	began := time.Now()
	for i := range *restarts {
		m := i % *members
		ends[m]()
		clients[m].Close()
		time.Sleep(*every / 2)
		if err := start(m); err != nil {
			return nil, err
		}
		time.Sleep(*every / 2)
	}
	settled, err := waitSettled([]*owners{o}, *limit)
	if err != nil {
		return nil, err
	}
	took := time.Since(began)
	d.finish(time.Now())
	stop()
	if err := <-written; err != nil {
		return nil, err
	}
	for _, end := range ends {
		end()
	}
	loops.Wait()
	if e := failed.Load(); e != nil {
		return nil, *e
	}
	out := map[string]any{
		"poll_ms": float64(poll.Microseconds()) / 1000, "rolled_s": took.Seconds(),
		"settled_s": max(0, settled.Sub(began).Seconds()), "members": *members, "restarts": *restarts,
	}
	var longest time.Duration
	gaps, moved := 0, 0
	for p := range d.of {
		longest = max(longest, d.of[p].longest)
		gaps += d.of[p].gaps
	}
	for _, n := range moves {
		moved += n
	}
	if gaps == 0 {
		return nil, fmt.Errorf("no partition got records twice from one owner")
	}
	out["longest_gap_ms"] = float64(longest.Microseconds()) / 1000
	out["gap_of_poll"] = float64(longest) / float64(*poll)
	out["moves"], out["records"] = moved, gaps
	return out, nil
}

// consume polls at a fixed interval: a poll takes what has come and waits for
// nothing.
func consume(ctx context.Context, client *kgo.Client, poll time.Duration, d *deliveries) error {
	tick := time.NewTicker(poll)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
		}
		fetches := client.PollFetches(nil)
		if fetches.IsClientClosed() {
			return nil
		}
		for _, e := range fetches.Errors() {
			return fmt.Errorf("%s-%d: %w", e.Topic, e.Partition, e.Err)
		}
		at := time.Now()
		fetches.EachPartition(func(p kgo.FetchTopicPartition) {
			if len(p.Records) > 0 {
				d.seen(p.Partition, at)
			}
		})
	}
}

// feed appends a record to every partition at a fixed pace.
func feed(ctx context.Context, brokers, topic string, partitions int, pause time.Duration) error {
	client, err := kgo.NewClient(
		kgo.SeedBrokers(strings.Split(brokers, ",")...),
		kgo.RecordPartitioner(kgo.ManualPartitioner()),
		kgo.DefaultProduceTopic(topic),
	)
	if err != nil {
		return err
	}
	defer client.Close()
	tick := time.NewTicker(pause)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
		}
		records := make([]*kgo.Record, partitions)
		for p := range records {
			records[p] = &kgo.Record{Partition: int32(p), Value: []byte("tick")}
		}
		if err := client.ProduceSync(context.Background(), records...).FirstErr(); err != nil {
			return err
		}
	}
}
