package main

import (
	"context"
	"crypto/rand"
	"flag"
	"fmt"
	"maps"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// runPartitions spreads appends over many partitions. Each appender has one
// append outstanding and a set of partitions of its own that it goes through
// in turn: with as many appenders as partitions each partition has one append
// outstanding; with one appender each append goes to another partition.
// Appenders share connections, and a connection has one request outstanding
// that holds a batch for each of its appenders.
//
// With -first the partitions are written to before the clock starts, so that
// the figures are those of a log in use; what that took is first_s.
//
// With -topics n the partitions are those of n topics, NAME-0 .. NAME-(n-1).
func runPartitions(f *flag.FlagSet, args []string) (map[string]any, error) {
	var (
		brokers    = f.String("brokers", "", "bootstrap list")
		topic      = f.String("topic", "", "topic, or prefix of the topics")
		topics     = f.Int("topics", 0, "number of topics; 0: the topic itself")
		partitions = f.Int("partitions", 1000, "partitions of each topic")
		appenders  = f.Int("appenders", 1000, "appends outstanding")
		conns      = f.Int("conns", 4, "connections")
		size       = f.Int("size", 2048, "value bytes")
		firstMax   = f.Duration("first", 0, "longest time to write to each partition first")
		passes     = f.Int("passes", 1, "times to write to each first")
		only       = f.Bool("only", false, "end when each has been written to")
		warmup     = f.Duration("warmup", 500*time.Millisecond, "time before the clock starts")
		duration   = f.Duration("duration", 2*time.Second, "measured time")
	)
	f.Parse(args)
	ctx := context.Background()
	all := *partitions * max(*topics, 1)
	if *appenders < 1 || *appenders > all {
		return nil, fmt.Errorf("%d appenders for %d partitions: each needs one of its own", *appenders, all)
	}
	c := min(*conns, *appenders)
	value := make([]byte, *size)
	rand.Read(value)
	batch := encodeBatch(nil, value, 1)

	run := &closedLoop{}
	links := make([]link, c)
	firsts := map[string]any{}
	for i := range links {
		client, err := connect(*brokers)
		if err != nil {
			return nil, err
		}
		defer client.Close()
		led, err := locateAll(ctx, client, *topic, *topics, *partitions)
		if err != nil {
			return nil, err
		}
		if i == 0 {
			firsts, err = appendFirsts(ctx, client, led, *partitions, encodeBatch(nil, value, firstRecords), *passes, *firstMax)
			if err != nil || *only {
				return firsts, err
			}
		}
		spread := newSpread(led, *partitions, *appenders, c, i)
		links[i] = link{client: client, broker: led[0].leader, records: len(spread.at), next: func(req *kmsg.ProduceRequest, buf []byte) []byte {
			spread.fill(req, batch)
			return buf
		}}
	}
	out, err := run.measure(ctx, links, *warmup, *duration)
	if err != nil {
		return nil, err
	}
	maps.Copy(out, firsts)
	out["partitions"], out["appenders"], out["conns"] = all, *appenders, c
	return out, nil
}

func locateAll(ctx context.Context, client *kgo.Client, topic string, topics, partitions int) ([]topicOnBroker, error) {
	names := []string{topic}
	if topics > 0 {
		names = names[:0]
		for i := range topics {
			names = append(names, fmt.Sprintf("%s-%d", topic, i))
		}
	}
	var all []topicOnBroker
	for _, name := range names {
		t, err := locate(ctx, client, name, partitions)
		if err != nil {
			return nil, err
		}
		all = append(all, t)
	}
	return all, nil
}

// Partitions that are first written to in one request, and the records that each
// gets: more than the bytes between two entries of an index, so that a second
// pass has made the first entry of each.
const (
	firstsPerRequest = 100
	firstRecords     = 3
)

// appendFirsts writes a batch to each partition, or to as many as the time allows.
func appendFirsts(ctx context.Context, client *kgo.Client, topics []topicOnBroker, perTopic int, batch []byte, passes int, limit time.Duration) (map[string]any, error) {
	began, done := time.Now(), 0
	for i := range passes * len(topics) {
		t := topics[i%len(topics)]
		for p := 0; p < perTopic && time.Since(began) < limit; p += firstsPerRequest {
			req := kmsg.NewPtrProduceRequest()
			req.TimeoutMillis = 60000
			one := addTopic(req, t)
			for i := p; i < min(p+firstsPerRequest, perTopic); i++ {
				*one = append(*one, partitionOf(int32(i), batch))
				done++
			}
			if err := produceOnce(ctx, client, t.leader, req); err != nil {
				return nil, err
			}
		}
	}
	return map[string]any{"first_s": time.Since(began).Seconds(), "partitions_written": done}, nil
}

// spread is the appenders of one connection. Appender a owns the partitions
// p = a (mod appenders) and stands at one of them; partition p is number
// p % perTopic of topic p / perTopic.
type spread struct {
	topics              []topicOnBroker
	perTopic, appenders int
	at                  []int
}

func newSpread(topics []topicOnBroker, perTopic, appenders, conns, conn int) *spread {
	s := &spread{topics: topics, perTopic: perTopic, appenders: appenders}
	for a := conn; a < appenders; a += conns {
		s.at = append(s.at, a)
	}
	return s
}

// fill puts a batch for each appender into the request and moves each on.
func (s *spread) fill(req *kmsg.ProduceRequest, batch []byte) {
	places := make(map[int]int, 1)
	all := s.perTopic * len(s.topics)
	for i, p := range s.at {
		t := p / s.perTopic
		place, seen := places[t]
		if !seen {
			place = len(req.Topics)
			places[t] = place
			addTopic(req, s.topics[t])
		}
		one := &req.Topics[place].Partitions
		*one = append(*one, partitionOf(int32(p%s.perTopic), batch))
		s.at[i] = p + s.appenders
		if s.at[i] >= all {
			s.at[i] = p % s.appenders
		}
	}
}
