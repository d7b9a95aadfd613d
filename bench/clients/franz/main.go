// The franz-go side of the comparison: one program, many loads.
//
//	franz appenders  -brokers HOST:PORT -topic T -conns 128        kafkaw: appenders over connections
//	franz partitions -brokers HOST:PORT -topic T -partitions 1000  one outstanding append per appender, many partitions
//	franz fetch      -brokers HOST:PORT -topic T                   one Fetch after another, batch headers only
//	franz consume    -brokers HOST:PORT -topic T -partitions 6     its consumer, from the first record to the last
//	franz groups     -brokers HOST:PORT -topic T -groups 100       members that join at once
//	franz commits    -brokers HOST:PORT -topic T -members 64       members that commit offsets
//	franz rolling    -brokers HOST:PORT -topic T -members 50       members that restart one after another
//	franz keyed      -brokers HOST:PORT -topic T -keys 1000        records with keys, for compaction
//
// Each prints one JSON object. The first three send Produce and Fetch requests
// of franz-go's own protocol package over its own connections; only the batching
// of its producer is left out, because the loads say exactly which records
// share a request. The others are franz-go's consumers and producers as they
// are. Any error ends the run with status 1.
package main

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"os"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
)

var loads = map[string]func(*flag.FlagSet, []string) (map[string]any, error){
	"appenders":  runAppenders,
	"partitions": runPartitions,
	"fetch":      runFetch,
	"consume":    runConsume,
	"groups":     runGroups,
	"commits":    runCommits,
	"rolling":    runRolling,
	"keyed":      runKeyed,
}

func main() {
	if len(os.Args) < 2 || loads[os.Args[1]] == nil {
		fmt.Fprintln(os.Stderr, "usage: franz appenders|partitions|fetch|consume|groups|commits|rolling|keyed -brokers HOST:PORT -topic NAME ...")
		os.Exit(2)
	}
	out, err := loads[os.Args[1]](flag.NewFlagSet(os.Args[1], flag.ExitOnError), os.Args[2:])
	if err != nil {
		fmt.Fprintln(os.Stderr, "franz:", err)
		os.Exit(1)
	}
	json.NewEncoder(os.Stdout).Encode(out)
}

func connect(brokers string) (*kgo.Client, error) {
	return kgo.NewClient(
		kgo.SeedBrokers(strings.Split(brokers, ",")...),
		kgo.RequestTimeoutOverhead(60*time.Second),
		// one broker: a wrong answer is a failed run, not something to retry
		kgo.RequestRetries(2),
	)
}

// topicOnBroker is a topic whose partitions are all led by one broker.
type topicOnBroker struct {
	name       string
	id         [16]byte
	leader     int
	partitions int
}

// locate waits until the topic has so many partitions and each has a leader,
// and makes the client know the leader's address.
func locate(ctx context.Context, client *kgo.Client, name string, partitions int) (topicOnBroker, error) {
	var last error
	for range 200 {
		req := kmsg.NewPtrMetadataRequest()
		rt := kmsg.NewMetadataRequestTopic()
		rt.Topic = kmsg.StringPtr(name)
		req.Topics = append(req.Topics, rt)
		resp, err := req.RequestWith(ctx, client)
		if err != nil {
			return topicOnBroker{}, err
		}
		if len(resp.Topics) == 1 {
			t := resp.Topics[0]
			last = kerr.ErrorForCode(t.ErrorCode)
			led := 0
			for _, p := range t.Partitions {
				if p.ErrorCode == 0 && p.Leader >= 0 {
					led++
				}
			}
			if last == nil && led >= partitions {
				return topicOnBroker{name, t.TopicID, int(t.Partitions[0].Leader), led}, nil
			}
		}
		time.Sleep(50 * time.Millisecond)
	}
	return topicOnBroker{}, fmt.Errorf("%s: not every one of %d partitions has a leader: %v", name, partitions, last)
}

// offset asks for a partition's first (-2) or next (-1) offset; a broker may
// for a moment not know that it leads a new partition.
func offset(ctx context.Context, client *kgo.Client, t topicOnBroker, partition int32, which int64) (int64, error) {
	for tries := 0; ; tries++ {
		req := kmsg.NewPtrListOffsetsRequest()
		rt := kmsg.NewListOffsetsRequestTopic()
		rt.Topic = t.name
		rp := kmsg.NewListOffsetsRequestTopicPartition()
		rp.Partition, rp.Timestamp = partition, which
		rt.Partitions = append(rt.Partitions, rp)
		req.Topics = append(req.Topics, rt)
		kresp, err := client.Broker(t.leader).Request(ctx, req)
		if err != nil {
			return 0, err
		}
		resp := kresp.(*kmsg.ListOffsetsResponse)
		if len(resp.Topics) != 1 || len(resp.Topics[0].Partitions) != 1 {
			return 0, errors.New("the reply to ListOffsets names no partition")
		}
		p := resp.Topics[0].Partitions[0]
		err = kerr.ErrorForCode(p.ErrorCode)
		fresh := errors.Is(err, kerr.NotLeaderForPartition) || errors.Is(err, kerr.UnknownTopicOrPartition)
		if !fresh || tries == 100 {
			return p.Offset, err
		}
		time.Sleep(50 * time.Millisecond)
	}
}

func cpuSeconds() float64 {
	var u syscall.Rusage
	if syscall.Getrusage(syscall.RUSAGE_SELF, &u) != nil {
		return 0
	}
	return float64(u.Utime.Nano()+u.Stime.Nano()) / 1e9
}

// percentiles adds the figures of the latencies to a result, in microseconds.
func percentiles(out map[string]any, all []time.Duration) {
	if len(all) == 0 {
		return
	}
	slices.Sort(all)
	at := func(p float64) float64 {
		return float64(all[min(int(p*float64(len(all))), len(all)-1)].Nanoseconds()) / 1000
	}
	out["p50_us"], out["p95_us"], out["p99_us"] = at(0.5), at(0.95), at(0.99)
	out["p999_us"], out["max_us"], out["samples"] = at(0.999), at(1), len(all)
}
