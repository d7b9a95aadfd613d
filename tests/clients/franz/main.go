// Facts about the broker as franz-go sees it: kgo for records, kadm for administration, kmsg for single requests.
//
// Facts run in the order of their files, each on topics of its own; one that fails does not stop the next.
package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math/rand"
	"os"
	"reflect"
	"regexp"
	"runtime/debug"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
	"github.com/twmb/franz-go/pkg/sasl/plain"
	"github.com/twmb/franz-go/pkg/sasl/scram"
)

const factSecondsMax = 60 // times PATIENCE, where faults go on meanwhile

type fact struct {
	name string
	run  func(ctx context.Context)
}

var (
	bootstrap = os.Getenv("BOOTSTRAP")
	nodes     = strings.Split(cmp.Or(os.Getenv("NODES"), bootstrap), ",")
	shared    *kgo.Client
	admin     *kadm.Client
)

type failure string

func fail(format string, args ...any) { panic(failure(fmt.Sprintf(format, args...))) }

func must(err error, what string) {
	if err != nil {
		fail("%s: %v", what, err)
	}
}

func equal[V any](got, want V, what string) {
	if !reflect.DeepEqual(got, want) {
		fail("%s: expected %.300s, got %.300s", what, fmt.Sprint(want), fmt.Sprint(got))
	}
}

func that(holds bool, format string, args ...any) {
	if !holds {
		fail(format, args...)
	}
}

// code checks a protocol error code by the name that Kafka gives it.
func code(got int16, want *kerr.Error, what string) {
	wanted := int16(0)
	if want != nil {
		wanted = want.Code
	}
	if got != wanted {
		fail("%s: expected %s, got %s", what, codeName(wanted), codeName(got))
	}
}

func codeName(c int16) string {
	if c == 0 {
		return "NONE"
	}
	if e := kerr.TypedErrorForCode(c); e != nil {
		return e.Message
	}
	return fmt.Sprint(c)
}

func client(opts ...kgo.Opt) *kgo.Client {
	opts = append([]kgo.Opt{kgo.SeedBrokers(strings.Split(bootstrap, ",")...), kgo.MaxBufferedRecords(100_000), login()}, opts...)
	c, err := kgo.NewClient(opts...)
	must(err, "client")
	return c
}

// login says who a client is, in a run with logins.
func login() kgo.Opt {
	user, password := os.Getenv("ESKER_SASL_USER"), os.Getenv("ESKER_SASL_PASSWORD")
	switch os.Getenv("ESKER_SASL_MECHANISM") {
	case "SCRAM-SHA-512":
		return kgo.SASL(scram.Auth{User: user, Pass: password}.AsSha512Mechanism())
	case "SCRAM-SHA-256":
		return kgo.SASL(scram.Auth{User: user, Pass: password}.AsSha256Mechanism())
	case "PLAIN":
		return kgo.SASL(plain.Auth{User: user, Pass: password}.AsMechanism())
	}
	return kgo.SASL()
}

func newName(prefix string) string { return fmt.Sprintf("%s-%08x", prefix, rand.Uint32()) }

// topic makes a topic and waits until the broker leads all of its partitions.
func topic(ctx context.Context, prefix string, partitions int32, settings map[string]*string) string {
	name := newName(prefix)
	if settings == nil { // some records are from 1970: without a retention they stay
		settings = map[string]*string{"retention.ms": text("-1")}
	}
	waitFor(ctx, "create", func() bool {
		_, err := admin.CreateTopic(ctx, partitions, factor(), settings, name)
		if err == nil || errors.Is(err, kerr.TopicAlreadyExists) { // nobody else has the name: an answer was lost
			return true
		}
		if number("PATIENCE") == 1 {
			must(err, "create")
		}
		return false // the node may be cut off, and end the connection
	})
	waitLed(ctx, name, partitions)
	return name
}

// number is a setting of the run, or 1.
func number(name string) int {
	n, err := strconv.Atoi(cmp.Or(os.Getenv(name), "1"))
	must(err, name)
	return n
}

// factor is how many replicas topics have that a test makes.
func factor() int16 { return int16(number("FACTOR")) }

// topicHere makes a topic that the first node leads: requests that a client would not send go there, whoever leads.
func topicHere(ctx context.Context, prefix string, partitions int32, settings map[string]*string) string {
	if len(nodes) == 1 {
		return topic(ctx, prefix, partitions, settings)
	}
	create, t, name := kmsg.NewPtrCreateTopicsRequest(), kmsg.NewCreateTopicsRequestTopic(), newName(prefix)
	t.Topic, t.NumPartitions, t.ReplicationFactor = name, -1, -1
	for p := range partitions {
		place := kmsg.NewCreateTopicsRequestTopicReplicaAssignment()
		place.Partition, place.Replicas = p, []int32{here(ctx)}
		t.ReplicaAssignment = append(t.ReplicaAssignment, place)
	}
	if settings == nil {
		settings = map[string]*string{"retention.ms": text("-1")}
	}
	for key, value := range settings {
		c := kmsg.NewCreateTopicsRequestTopicConfig()
		c.Name, c.Value = key, value
		t.Configs = append(t.Configs, c)
	}
	create.Topics, create.TimeoutMillis = append(create.Topics, t), 10_000
	made, err := create.RequestWith(ctx, shared)
	must(err, "create")
	code(made.Topics[0].ErrorCode, nil, "create")
	waitLed(ctx, name, partitions)
	return name
}

// here is the number of the first node.
func here(ctx context.Context) int32 {
	found := int32(-1)
	for _, b := range ask[*kmsg.DescribeClusterResponse](ctx, shared, kmsg.NewPtrDescribeClusterRequest()).Brokers {
		if fmt.Sprintf("%s:%d", b.Host, b.Port) == nodes[0] {
			found = b.NodeID
		}
	}
	that(found >= 0, "no broker is at %s", nodes[0])
	return found
}

// keyHere is a new name of a group (kind 0) or of a transaction (kind 1) that the first node coordinates.
func keyHere(ctx context.Context, prefix string, kind int8) (key string) {
	find, node := kmsg.NewPtrFindCoordinatorRequest(), here(ctx)
	waitFor(ctx, "a coordinator here", func() bool {
		key = newName(prefix)
		find.CoordinatorKey, find.CoordinatorKeys, find.CoordinatorType = key, []string{key}, kind
		found := ask[*kmsg.FindCoordinatorResponse](ctx, shared, find).Coordinators[0]
		return found.ErrorCode == 0 && found.NodeID == node
	})
	return key
}

func waitLed(ctx context.Context, name string, partitions int32) {
	waitFor(ctx, "leaders of "+name, func() bool {
		seen, err := admin.ListTopics(ctx, name)
		if err != nil {
			return false
		}
		led := 0
		for _, p := range seen[name].Partitions {
			if p.Err == nil && p.Leader >= 0 {
				led++
			}
		}
		if led < int(partitions) {
			return false
		}
		ends, err := admin.ListEndOffsets(ctx, name) // Kafka shows a leader in its metadata before the leader serves
		return err == nil && ends.Error() == nil && isKnown(ctx, name)
	})
}

// isKnown is false while a broker that answers has not heard of the topic: what a test asks next may go to any of them.
func isKnown(ctx context.Context, name string) bool {
	brokers, err := admin.ListBrokers(ctx)
	if err != nil {
		return false
	}
	c := client()
	defer c.Close()
	for _, broker := range brokers {
		request := kmsg.NewPtrMetadataRequest()
		topic := kmsg.NewMetadataRequestTopic()
		topic.Topic = &name
		request.Topics = append(request.Topics, topic)
		answer, err := c.Broker(int(broker.NodeID)).RetriableRequest(ctx, request)
		if err != nil {
			continue
		}
		if known := answer.(*kmsg.MetadataResponse).Topics; len(known) != 1 || known[0].ErrorCode == kerr.UnknownTopicOrPartition.Code {
			return false
		}
	}
	return true
}

func waitFor(ctx context.Context, what string, holds func() bool) {
	for !holds() {
		select {
		case <-ctx.Done():
			fail("%s: not in time", what)
		case <-time.After(20 * time.Millisecond):
		}
	}
}

func attempt(f fact) (reason string) {
	ctx, cancel := context.WithTimeout(context.Background(), time.Duration(factSecondsMax*number("PATIENCE"))*time.Second)
	defer cancel()
	defer func() {
		switch r := recover().(type) {
		case nil:
		case failure:
			reason = string(r)
		default:
			reason = fmt.Sprintf("panic: %v", r)
			debug.PrintStack()
		}
	}()
	f.run(ctx)
	return ""
}

func version() string {
	info, _ := debug.ReadBuildInfo()
	for _, dep := range info.Deps {
		if dep.Path == "github.com/twmb/franz-go" {
			return dep.Version
		}
	}
	return "?"
}

func main() {
	shared = client()
	admin = kadm.NewClient(shared)
	fmt.Println("version", version())
	only := regexp.MustCompile(os.Getenv("ONLY"))
	failed := 0
	for _, f := range slices.Concat(recordFacts, fetchFacts, adminFacts, requestFacts, groupFacts, transactionFacts, specialFacts()) {
		if !only.MatchString(f.name) {
			continue
		}
		begin := time.Now()
		reason := attempt(f)
		seconds := time.Since(begin).Seconds()
		if reason == "" {
			fmt.Printf("pass %s %.2f\n", f.name, seconds)
			continue
		}
		failed++
		fmt.Printf("fail %s %.2f %s\n", f.name, seconds, strings.ReplaceAll(reason, "\n", " "))
	}
	shared.Close()
	if failed > 0 {
		os.Exit(1)
	}
}
