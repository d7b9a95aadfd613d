package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// owners knows which member of a group has each partition, from the clients'
// own callbacks.
type owners struct {
	mu         sync.Mutex
	by         map[int32]int
	held       []int // partitions of each member
	partitions int
	moved      time.Time
	// Told of every change, under the lock.
	onMove func(partition int32)
}

func newOwners(partitions, members int) *owners {
	return &owners{by: map[int32]int{}, held: make([]int, members), partitions: partitions, onMove: func(int32) {}}
}

func (o *owners) assigned(member int, partitions []int32) {
	o.mu.Lock()
	defer o.mu.Unlock()
	for _, p := range partitions {
		if before, owned := o.by[p]; owned {
			o.held[before]--
		}
		o.by[p] = member
		o.held[member]++
		o.onMove(p)
	}
	o.moved = time.Now()
}

func (o *owners) revoked(member int, partitions []int32) {
	o.mu.Lock()
	defer o.mu.Unlock()
	for _, p := range partitions {
		if o.by[p] == member && o.held[member] > 0 {
			delete(o.by, p)
			o.held[member]--
			o.onMove(p)
		}
	}
	o.moved = time.Now()
}

// settled tells whether every partition has an owner and no member has one
// more than another needs.
func (o *owners) settled() (time.Time, bool) {
	o.mu.Lock()
	defer o.mu.Unlock()
	most := (o.partitions + len(o.held) - 1) / len(o.held)
	least := o.partitions / len(o.held)
	for _, n := range o.held {
		if n < least || n > most {
			return o.moved, false
		}
	}
	return o.moved, len(o.by) == o.partitions
}

// join starts a client that is a member of a group; it commits nothing by
// itself.
func join(brokers, topic, group, protocol string, member int, o *owners) (*kgo.Client, error) {
	options := []kgo.Opt{
		kgo.SeedBrokers(strings.Split(brokers, ",")...),
		kgo.ConsumerGroup(group),
		kgo.ConsumeTopics(topic),
		kgo.DisableAutoCommit(),
		kgo.OnPartitionsAssigned(func(_ context.Context, _ *kgo.Client, m map[string][]int32) { o.assigned(member, m[topic]) }),
		kgo.OnPartitionsRevoked(func(_ context.Context, _ *kgo.Client, m map[string][]int32) { o.revoked(member, m[topic]) }),
		kgo.OnPartitionsLost(func(_ context.Context, _ *kgo.Client, m map[string][]int32) { o.revoked(member, m[topic]) }),
	}
	switch protocol {
	case "classic":
		options = append(options, kgo.Balancers(kgo.RangeBalancer()))
	case "consumer":
		// asks for the server's assignor `uniform`, which leaves partitions where they are
		options = append(options, kgo.ServerSideBalancer(), kgo.Balancers(kgo.StickyBalancer()))
	default:
		return nil, fmt.Errorf("no protocol %q: classic or consumer", protocol)
	}
	return kgo.NewClient(options...)
}

// waitSettled gives when the last of the groups came to rest.
func waitSettled(all []*owners, limit time.Duration) (time.Time, error) {
	deadline := time.Now().Add(limit)
	for {
		var last time.Time
		open := 0
		for _, o := range all {
			at, done := o.settled()
			if !done {
				open++
			}
			if at.After(last) {
				last = at
			}
		}
		if open == 0 {
			return last, nil
		}
		if time.Now().After(deadline) {
			return last, fmt.Errorf("%d of %d groups have not settled after %s", open, len(all), limit)
		}
		time.Sleep(5 * time.Millisecond)
	}
}

func closeAll(clients []*kgo.Client) {
	var wg sync.WaitGroup
	for _, c := range clients {
		if c != nil {
			wg.Go(c.Close)
		}
	}
	wg.Wait()
}

// runGroups has all members of many groups join at once, and tells when every
// partition of each group has its owner. Each member is a client of its own.
// A group counts as settled when it is still so at the end of -rest, and then
// by its last move.
func runGroups(f *flag.FlagSet, args []string) (map[string]any, error) {
	var (
		brokers    = f.String("brokers", "", "bootstrap list")
		topic      = f.String("topic", "", "topic that all subscribe to")
		partitions = f.Int("partitions", 20, "its partitions")
		groups     = f.Int("groups", 100, "groups")
		members    = f.Int("members", 20, "members of each")
		protocol   = f.String("protocol", "classic", "classic or consumer")
		limit      = f.Duration("limit", 90*time.Second, "longest wait")
		rest       = f.Duration("rest", time.Second, "time without a move that makes a group settled")
	)
	f.Parse(args)
	all := make([]*owners, *groups)
	var clients []*kgo.Client
	defer func() { closeAll(clients) }()
	began := time.Now()
	for g := range all {
		all[g] = newOwners(*partitions, *members)
	}
	clients = make([]*kgo.Client, *groups**members)
	var (
		starters sync.WaitGroup
		next     atomic.Int64
		failed   atomic.Pointer[error]
	)
	for range runtime.GOMAXPROCS(0) {
		starters.Go(func() {
			for i := int(next.Add(1)) - 1; i < len(clients); i = int(next.Add(1)) - 1 {
				g, m := i%*groups, i / *groups
				name := fmt.Sprintf("%s-%s-%d", *topic, *protocol, g)
				client, err := join(*brokers, *topic, name, *protocol, m, all[g])
				if err != nil {
					failed.CompareAndSwap(nil, &err)
					return
				}
				clients[i] = client
			}
		})
	}
	starters.Wait()
	if err := failed.Load(); err != nil {
		return nil, *err
	}
	started := time.Since(began)
	for {
		last, err := waitSettled(all, *limit-time.Since(began))
		if err != nil {
			return nil, err
		}
		if still := time.Since(last); still < *rest {
			time.Sleep(*rest - still)
			continue
		}
		return map[string]any{
			"settled_s": last.Sub(began).Seconds(), "started_s": started.Seconds(),
			"records": *groups * *members, "groups": *groups, "members": *members,
		}, nil
	}
}

// runCommits has the members of one group commit as fast as they are answered,
// one commit of one partition outstanding each.
func runCommits(f *flag.FlagSet, args []string) (map[string]any, error) {
	var (
		brokers  = f.String("brokers", "", "bootstrap list")
		topic    = f.String("topic", "", "topic with a partition for each member")
		members  = f.Int("members", 64, "committing members")
		protocol = f.String("protocol", "classic", "classic or consumer")
		limit    = f.Duration("limit", 60*time.Second, "longest wait for the group to settle")
		warmup   = f.Duration("warmup", 500*time.Millisecond, "time before the clock starts")
		duration = f.Duration("duration", 2*time.Second, "measured time")
	)
	f.Parse(args)
	group := *topic + "-committers"
	o := newOwners(*members, *members)
	clients := make([]*kgo.Client, *members)
	defer func() { closeAll(clients) }()
	for m := range clients {
		client, err := join(*brokers, *topic, group, *protocol, m, o)
		if err != nil {
			return nil, err
		}
		clients[m] = client
	}
	if _, err := waitSettled([]*owners{o}, *limit); err != nil {
		return nil, err
	}
	t, err := locate(context.Background(), clients[0], *topic, *members)
	if err != nil {
		return nil, err
	}
	run := &committers{group: group, topic: t}
	return run.measure(clients, o, *warmup, *duration)
}

type committers struct {
	group           string
	topic           topicOnBroker
	total           atomic.Int64
	measuring, stop atomic.Bool
}

func (c *committers) measure(clients []*kgo.Client, o *owners, warmup, duration time.Duration) (map[string]any, error) {
	var (
		wg     sync.WaitGroup
		failed atomic.Pointer[error]
		lats   = make([][]time.Duration, len(clients))
	)
	for partition, member := range o.by {
		wg.Go(func() {
			if err := c.drive(clients[member], partition, &lats[member]); err != nil {
				failed.CompareAndSwap(nil, &err)
			}
		})
	}
	time.Sleep(warmup)
	n0, cpu0, t0 := c.total.Load(), cpuSeconds(), time.Now()
	c.measuring.Store(true)
	time.Sleep(duration)
	c.measuring.Store(false)
	n1, cpu1, secs := c.total.Load(), cpuSeconds(), time.Since(t0).Seconds()
	c.stop.Store(true)
	wg.Wait()
	if e := failed.Load(); e != nil {
		return nil, *e
	}
	if n1 == n0 {
		return nil, errors.New("no commit was acknowledged in the measured time")
	}
	var all []time.Duration
	for _, l := range lats {
		all = append(all, l...)
	}
	out := map[string]any{
		"commits_per_s": float64(n1-n0) / secs, "seconds": secs, "client_cores": (cpu1 - cpu0) / secs,
		"records": c.total.Load(), "members": len(clients),
	}
	percentiles(out, all)
	return out, nil
}

func (c *committers) drive(client *kgo.Client, partition int32, lats *[]time.Duration) error {
	ctx := context.Background()
	for at := int64(1); !c.stop.Load(); at++ {
		req := kmsg.NewPtrOffsetCommitRequest()
		req.Group = c.group
		req.MemberID, req.Generation = client.GroupMetadata()
		rt := kmsg.NewOffsetCommitRequestTopic()
		rt.Topic, rt.TopicID = c.topic.name, c.topic.id
		rp := kmsg.NewOffsetCommitRequestTopicPartition()
		rp.Partition, rp.Offset = partition, at
		rt.Partitions = append(rt.Partitions, rp)
		req.Topics = append(req.Topics, rt)
		began := time.Now()
		resp, err := req.RequestWith(ctx, client)
		if err != nil {
			return err
		}
		took := time.Since(began)
		for _, t := range resp.Topics {
			for _, p := range t.Partitions {
				if err := kerr.ErrorForCode(p.ErrorCode); err != nil {
					return fmt.Errorf("commit of %s-%d: %w", t.Topic, p.Partition, err)
				}
			}
		}
		c.total.Add(1)
		if c.measuring.Load() {
			*lats = append(*lats, took)
		}
	}
	return nil
}
