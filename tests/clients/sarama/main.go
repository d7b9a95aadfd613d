// Facts about the broker as Sarama sees it: its producers, consumer groups, transactions and cluster admin.
//
// Facts run one after another, each on topics of its own; one that fails does not stop the next.
package main

import (
	"cmp"
	"errors"
	"fmt"
	"math/rand"
	"net"
	"os"
	"reflect"
	"regexp"
	"runtime/debug"
	"strconv"
	"strings"
	"time"

	"github.com/IBM/sarama"
)

const waitMax = 40 * time.Second

type fact struct {
	name string
	run  func()
}

var (
	bootstrap = []string{os.Getenv("BOOTSTRAP")}
	admin     sarama.ClusterAdmin
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

func waitFor(what string, holds func() bool) {
	for end := time.Now().Add(waitMax); !holds(); time.Sleep(20 * time.Millisecond) {
		that(time.Now().Before(end), "%s: not in time", what)
	}
}

func settings() *sarama.Config {
	c := sarama.NewConfig()
	c.Version = sarama.MaxVersion
	c.ClientID = "tests"
	c.Consumer.Offsets.Initial = sarama.OffsetOldest
	c.Consumer.MaxWaitTime = 50 * time.Millisecond
	c.Consumer.Group.Heartbeat.Interval = 300 * time.Millisecond
	c.Consumer.Offsets.AutoCommit.Enable = false
	c.Producer.Return.Successes = true
	logIn(c)
	return c
}

func newName(prefix string) string { return fmt.Sprintf("%s-%08x", prefix, rand.Uint32()) }

// factor is how many replicas topics have that a test makes.
func factor() int16 {
	n, err := strconv.Atoi(cmp.Or(os.Getenv("FACTOR"), "1"))
	must(err, "FACTOR")
	return int16(n)
}

func topic(prefix string, partitions int32) string {
	name := newName(prefix)
	waitFor("the topic "+name, func() bool {
		err := admin.CreateTopic(name, &sarama.TopicDetail{NumPartitions: partitions, ReplicationFactor: factor()}, false)
		var refused *net.OpError
		if errors.As(err, &refused) { // the controller was killed, and sarama asks no other one
			return false
		}
		must(err, "create topic")
		return true
	})
	waitFor("leaders of "+name, func() bool {
		c, err := sarama.NewClient(bootstrap, settings())
		must(err, "client")
		defer c.Close()
		for p := range partitions {
			if _, err := c.GetOffset(name, p, sarama.OffsetNewest); err != nil {
				return false
			}
		}
		return true
	})
	return name
}

func attempt(f fact) (reason string) {
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
	f.run()
	return ""
}

func version() string {
	info, _ := debug.ReadBuildInfo()
	for _, dep := range info.Deps {
		if dep.Path == "github.com/IBM/sarama" {
			return dep.Version
		}
	}
	return "?"
}

func main() {
	var err error
	admin, err = sarama.NewClusterAdmin(bootstrap, settings())
	must(err, "admin")
	fmt.Println("version", version())
	only := regexp.MustCompile(os.Getenv("ONLY"))
	failed := 0
	for _, f := range facts {
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
	admin.Close()
	if failed > 0 {
		os.Exit(1)
	}
}
