package main

import (
	"context"
	"fmt"
	"os"
	"slices"
	"strconv"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
)

// specialFacts need a broker of another kind: they are there for whoever asks for one by SPECIAL.
func specialFacts() []fact {
	return slices.DeleteFunc([]fact{
		{"numbered_records_flow_in_and_out_for_a_while", flow},
		{"users_and_rules_are_made_obeyed_and_deleted", rights},
	}, func(f fact) bool { return f.name != os.Getenv("SPECIAL") })
}

// flow has numbered records go in and out, whatever a broker does to the logins of their clients meanwhile.
func flow(ctx context.Context) {
	name, seconds := topic(ctx, "flow", 3, nil), time.Duration(number("LOAD_SECONDS"))*time.Second
	ctx, cancel := context.WithTimeout(context.Background(), seconds+time.Minute) // longer than other facts
	defer cancel()
	m, producer := join(newName("group"), name), client(kgo.ProducerLinger(5*time.Millisecond))
	var mu sync.Mutex
	var fault error
	sent, places := 0, map[string]bool{}
	for end := time.Now().Add(seconds); time.Now().Before(end); time.Sleep(20 * time.Millisecond) {
		for range 10 {
			producer.Produce(ctx, &kgo.Record{Topic: name, Value: []byte(strconv.Itoa(sent))}, func(r *kgo.Record, err error) {
				mu.Lock()
				defer mu.Unlock()
				if err != nil {
					fault = err
				}
				places[fmt.Sprintf("%s/%d:%d", r.Topic, r.Partition, r.Offset)] = true
			})
			sent++
		}
	}
	must(producer.Flush(ctx), "flush")
	producer.Close()
	must(fault, "write")
	equal(len(places), sent, "places of records that were acknowledged")
	got := map[string]bool{}
	waitFor(ctx, "every record", func() bool {
		m.mu.Lock()
		defer m.mu.Unlock()
		must(m.fault, "read")
		for _, place := range m.got {
			got[place] = true
		}
		return len(got) >= sent
	})
	m.close()
	equal(got, places, "places that were read") // a record that is doubled has a place that nobody was told
}
