package main

import (
	"fmt"
	"os"
	"strconv"
	"time"

	"github.com/IBM/sarama"
)

func init() {
	const name = "numbered_records_flow_in_and_out_for_a_while"
	if os.Getenv("SPECIAL") == name { // it is for a broker of another kind
		facts = append(facts, fact{name, flow})
	}
}

// flow has numbered records go in and out for LOAD_SECONDS, whatever a broker does to the logins of their clients meanwhile.
func flow() {
	seconds, err := strconv.Atoi(os.Getenv("LOAD_SECONDS"))
	must(err, "LOAD_SECONDS")
	name := topic("flow", 3)
	m := join(newName("group"), name, sarama.NewBalanceStrategyRange())
	c := settings()
	c.Producer.Idempotent, c.Producer.RequiredAcks, c.Net.MaxOpenRequests = true, sarama.WaitForAll, 1
	p, err := sarama.NewAsyncProducer(bootstrap, c)
	must(err, "producer")
	sent := make(chan int)
	go func() {
		count := 0
		for end := time.Now().Add(time.Duration(seconds) * time.Second); time.Now().Before(end); time.Sleep(20 * time.Millisecond) {
			for range 10 {
				p.Input() <- &sarama.ProducerMessage{Topic: name, Value: sarama.StringEncoder(strconv.Itoa(count))}
				count++
			}
		}
		sent <- count
	}()
	places, due := map[string]bool{}, -1
	for due < 0 || len(places) < due {
		select {
		case due = <-sent:
		case r := <-p.Successes():
			places[fmt.Sprintf("%d:%d", r.Partition, r.Offset)] = true
		case e := <-p.Errors():
			fail("write: %v", e)
		case <-time.After(waitMax):
			fail("%d of %d records were acknowledged", len(places), due)
		}
	}
	must(p.Close(), "close")
	waitFor("every record", func() bool {
		m.mu.Lock()
		defer m.mu.Unlock()
		must(m.fault, "read")
		return len(m.got) >= due
	})
	m.close()
	equal(m.got, places, "places that were read") // a record that is doubled has a place that nobody was told
}
