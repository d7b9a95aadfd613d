package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/IBM/sarama"
)

var facts = []fact{
	{"an_idempotent_producer_keeps_order", idempotent},
	{"every_codec_keys_headers_and_times_return", codecs},
	{"a_record_over_the_limit_is_refused", overLimit},
	{"members_share_and_a_later_one_goes_on_where_they_committed", func() { sharing(sarama.NewBalanceStrategyRange()) }},
	{"sticky_members_share_and_a_later_one_goes_on_where_they_committed", func() { sharing(sarama.NewBalanceStrategySticky()) }},
	{"what_a_member_leaves_goes_to_the_other", leaving},
	{"committed_transactions_are_read_and_aborted_ones_are_not", transactions},
	{"a_consume_transform_produce_loop_moves_every_record_once", moveOnce},
	{"a_second_producer_of_the_id_fences_the_first", fencing},
	{"admin_lists_describes_and_deletes_a_group", groupAdmin},
}

func produce(c *sarama.Config, messages ...*sarama.ProducerMessage) {
	p, err := sarama.NewSyncProducer(bootstrap, c)
	must(err, "producer")
	defer p.Close()
	must(p.SendMessages(messages), "send")
}

func fill(name string, partitions, each int) {
	c := settings()
	c.Producer.Partitioner = sarama.NewManualPartitioner
	var messages []*sarama.ProducerMessage
	for i := range partitions * each {
		messages = append(messages, &sarama.ProducerMessage{Topic: name, Partition: int32(i % partitions), Value: sarama.StringEncoder(fmt.Sprint(i))})
	}
	produce(c, messages...)
}

// read takes the first `count` records of partition 0 and whatever else comes before the end that was there then.
func read(c *sarama.Config, name string, count int) []*sarama.ConsumerMessage {
	consumer, err := sarama.NewConsumer(bootstrap, c)
	must(err, "consumer")
	defer consumer.Close()
	part, err := consumer.ConsumePartition(name, 0, sarama.OffsetOldest)
	must(err, "consume")
	defer part.Close()
	var records []*sarama.ConsumerMessage
	end := time.After(waitMax)
	for len(records) < count {
		select {
		case m := <-part.Messages():
			records = append(records, m)
		case <-end:
			fail("%d of %d records in time", len(records), count)
		}
	}
	return records
}

func values(records []*sarama.ConsumerMessage) []string {
	all := []string{}
	for _, r := range records {
		all = append(all, string(r.Value))
	}
	return all
}

func numbers(count int) []string {
	all := []string{}
	for i := range count {
		all = append(all, fmt.Sprint(i))
	}
	return all
}

func idempotent() {
	name := topic("order", 1)
	c := settings()
	c.Producer.Idempotent, c.Producer.RequiredAcks, c.Net.MaxOpenRequests = true, sarama.WaitForAll, 1
	p, err := sarama.NewAsyncProducer(bootstrap, c)
	must(err, "producer")
	go func() {
		for _, v := range numbers(10_000) {
			p.Input() <- &sarama.ProducerMessage{Topic: name, Value: sarama.StringEncoder(v)}
		}
	}()
	for i := range 10_000 {
		select {
		case m := <-p.Successes():
			equal(m.Offset, int64(i), "offset")
		case e := <-p.Errors():
			fail("record %d: %v", i, e)
		case <-time.After(waitMax):
			fail("no answer for record %d", i)
		}
	}
	must(p.Close(), "close")
	equal(values(read(settings(), name, 10_000)), numbers(10_000), "values")
}

func codecs() {
	for _, codec := range []sarama.CompressionCodec{sarama.CompressionNone, sarama.CompressionGZIP, sarama.CompressionSnappy,
		sarama.CompressionLZ4, sarama.CompressionZSTD} {
		name := topic("codec", 1)
		c := settings()
		c.Producer.Compression = codec
		c.Producer.Flush.MaxMessages = 100
		stamp := time.UnixMilli(time.Now().UnixMilli() - 60_000)
		var sent []*sarama.ProducerMessage
		for _, v := range numbers(1_000) {
			sent = append(sent, &sarama.ProducerMessage{Topic: name, Key: sarama.StringEncoder("k" + v), Value: sarama.StringEncoder(v),
				Timestamp: stamp, Headers: []sarama.RecordHeader{{Key: []byte("h"), Value: []byte(v)}}})
		}
		produce(c, sent...)
		for i, r := range read(settings(), name, 1_000) {
			v := fmt.Sprint(i)
			equal([]string{string(r.Key), string(r.Value), string(r.Headers[0].Value)}, []string{"k" + v, v, v}, codec.String())
			equal(r.Timestamp.UnixMilli(), stamp.UnixMilli(), "timestamp")
			equal(r.Offset, int64(i), "offset")
		}
	}
}

func overLimit() {
	name := topic("limit", 1)
	limit := "5000"
	must(admin.AlterConfig(sarama.TopicResource, name, map[string]*string{"max.message.bytes": &limit}, false), "alter")
	p, err := sarama.NewSyncProducer(bootstrap, settings())
	must(err, "producer")
	defer p.Close()
	_, _, err = p.SendMessage(&sarama.ProducerMessage{Topic: name, Value: sarama.ByteEncoder(make([]byte, 6_000))})
	that(errors.Is(err, sarama.ErrMessageSizeTooLarge), "6,000 bytes: got %v", err)
	_, offset, err := p.SendMessage(&sarama.ProducerMessage{Topic: name, Value: sarama.StringEncoder("small")})
	must(err, "the next one")
	equal(offset, int64(0), "its offset")
}

// member is one consumer of a group; it takes what comes until it is closed.
type member struct {
	group  sarama.ConsumerGroup
	cancel context.CancelFunc
	done   chan struct{}

	mu      sync.Mutex
	owned   []int32
	got     map[string]bool
	session sarama.ConsumerGroupSession
	fault   error
}

func join(group, name string, strategy sarama.BalanceStrategy) *member {
	c := settings()
	c.Consumer.Group.Rebalance.GroupStrategies = []sarama.BalanceStrategy{strategy}
	g, err := sarama.NewConsumerGroup(bootstrap, group, c)
	must(err, "group")
	ctx, cancel := context.WithCancel(context.Background())
	m := &member{group: g, cancel: cancel, done: make(chan struct{}), got: map[string]bool{}}
	go func() {
		defer close(m.done)
		for ctx.Err() == nil {
			if err := g.Consume(ctx, []string{name}, m); err != nil && ctx.Err() == nil {
				// Its coordinator may have gone: it is begun again, and what keeps it from a session is reported at the end.
				m.mu.Lock()
				m.fault = err
				m.mu.Unlock()
				time.Sleep(100 * time.Millisecond)
			}
		}
	}()
	return m
}

func (m *member) Setup(s sarama.ConsumerGroupSession) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.session, m.owned, m.fault = s, nil, nil
	for _, parts := range s.Claims() {
		m.owned = append(m.owned, parts...)
	}
	return nil
}

func (m *member) Cleanup(sarama.ConsumerGroupSession) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.owned = nil
	return nil
}

func (m *member) ConsumeClaim(_ sarama.ConsumerGroupSession, claim sarama.ConsumerGroupClaim) error {
	for r := range claim.Messages() {
		m.mu.Lock()
		m.got[fmt.Sprintf("%d:%d", r.Partition, r.Offset)] = true
		m.mu.Unlock()
	}
	return nil
}

func (m *member) parts() []int32 {
	m.mu.Lock()
	defer m.mu.Unlock()
	return slices.Clone(m.owned)
}

func (m *member) records() []string {
	m.mu.Lock()
	defer m.mu.Unlock()
	all := []string{}
	for place := range m.got {
		all = append(all, place)
	}
	slices.Sort(all)
	return all
}

// commit marks offsets of what the member owns and sends them.
func (m *member) commit(name string, offset int64) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, p := range m.owned {
		m.session.MarkOffset(name, p, offset, "half")
	}
	m.session.Commit()
}

func (m *member) close() {
	m.cancel()
	<-m.done
	must(m.group.Close(), "close")
	must(m.fault, "a member")
}

func share(partitions int, members ...*member) bool {
	var owned []int32
	for _, m := range members {
		own := m.parts()
		if len(own) == 0 {
			return false
		}
		owned = append(owned, own...)
	}
	slices.Sort(owned)
	return len(owned) == partitions && len(slices.Compact(owned)) == partitions
}

func committed(group, name string, partitions int32) map[int32]string {
	all := map[int32]string{}
	var asked []int32
	for p := range partitions {
		asked = append(asked, p)
	}
	found, err := admin.ListConsumerGroupOffsets(group, map[string][]int32{name: asked})
	must(err, "offsets")
	for p, block := range found.Blocks[name] {
		must(errorOf(block.Err), "offset")
		all[p] = fmt.Sprintf("%d %s", block.Offset, block.Metadata)
	}
	return all
}

func errorOf(code sarama.KError) error {
	if code == sarama.ErrNoError {
		return nil
	}
	return code
}

func sharing(strategy sarama.BalanceStrategy) {
	name, group := topic("shared", 4), newName("group")
	fill(name, 4, 50)
	one, two := join(group, name, strategy), join(group, name, strategy)
	waitFor("two members share", func() bool { return share(4, one, two) })
	waitFor("every record", func() bool {
		all := append(one.records(), two.records()...)
		slices.Sort(all)
		return len(slices.Compact(all)) == 200
	})
	for _, m := range []*member{one, two} {
		m.commit(name, 50)
	}
	waitFor("the commits", func() bool {
		found := committed(group, name, 4)
		return len(found) == 4 && found[0] == "50 half" && found[1] == "50 half" && found[2] == "50 half" && found[3] == "50 half"
	})
	one.close()
	two.close()
	fill(name, 4, 1)
	three := join(group, name, strategy)
	waitFor("the records behind the committed offsets", func() bool { return len(three.records()) >= 4 })
	equal(three.records(), []string{"0:50", "1:50", "2:50", "3:50"}, "what a later member reads")
	three.close()
}

func leaving() {
	name, group := topic("leaving", 4), newName("group")
	one, two := join(group, name, sarama.NewBalanceStrategyRange()), join(group, name, sarama.NewBalanceStrategyRange())
	waitFor("two members share", func() bool { return share(4, one, two) })
	two.close()
	waitFor("the other has all", func() bool { return share(4, one) })
	one.close()
}

func transactional(id string) sarama.SyncProducer {
	c := settings()
	c.Producer.Idempotent, c.Producer.RequiredAcks, c.Net.MaxOpenRequests = true, sarama.WaitForAll, 1
	c.Producer.Transaction.ID = id
	p, err := sarama.NewSyncProducer(bootstrap, c)
	must(err, "transactional producer")
	return p
}

func readCommitted() *sarama.Config {
	c := settings()
	c.Consumer.IsolationLevel = sarama.ReadCommitted
	return c
}

func send(p sarama.SyncProducer, name string, values ...string) {
	for _, v := range values {
		_, _, err := p.SendMessage(&sarama.ProducerMessage{Topic: name, Value: sarama.StringEncoder(v)})
		must(err, "send")
	}
}

func transactions() {
	name := topic("txn", 1)
	p := transactional(newName("id"))
	want := []string{}
	for number := range 10 {
		must(p.BeginTxn(), "begin")
		texts := []string{fmt.Sprint(number, ".0"), fmt.Sprint(number, ".1"), fmt.Sprint(number, ".2")}
		send(p, name, texts...)
		if number%3 > 0 || number == 9 {
			must(p.CommitTxn(), "commit")
			want = append(want, texts...)
		} else {
			must(p.AbortTxn(), "abort")
		}
	}
	must(p.Close(), "close")
	equal(values(read(readCommitted(), name, len(want))), want, "what is read")
}

func moveOnce() {
	const each = 100
	source, sink, group := topic("source", 2), topic("sink", 1), newName("group")
	fill(source, 2, each)
	p := transactional(newName("id"))
	consumer, err := sarama.NewConsumer(bootstrap, readCommitted())
	must(err, "consumer")
	defer consumer.Close()
	for partition := range int32(2) {
		part, err := consumer.ConsumePartition(source, partition, sarama.OffsetOldest)
		must(err, "consume")
		pending := []*sarama.ConsumerMessage{}
		for moved, round := 0, 0; moved < each; round++ {
			for len(pending) < 20 {
				select {
				case m := <-part.Messages():
					pending = append(pending, m)
				case <-time.After(waitMax):
					fail("no record in time")
				}
			}
			must(p.BeginTxn(), "begin")
			for _, m := range pending {
				send(p, sink, fmt.Sprintf("%d/%d", m.Partition, m.Offset))
				must(p.AddMessageToTxn(m, group, nil), "offset")
			}
			if round%3 == 1 { // what is aborted is done again and must not count twice
				must(p.AbortTxn(), "abort")
				continue
			}
			must(p.CommitTxn(), "commit")
			moved, pending = moved+len(pending), nil
		}
		must(part.Close(), "close")
	}
	must(p.Close(), "close")
	got := values(read(readCommitted(), sink, 2*each))
	want := []string{}
	for partition := range 2 {
		for offset := range each {
			want = append(want, fmt.Sprintf("%d/%d", partition, offset))
		}
	}
	equal(got, want, "what arrived")
	waitFor("the group's offsets", func() bool {
		found := committed(group, source, 2)
		return found[0] == "100 " && found[1] == "100 "
	})
}

func fencing() {
	name, id := topic("fencing", 1), newName("id")
	first := transactional(id)
	must(first.BeginTxn(), "begin")
	send(first, name, "lost")
	second := transactional(id)
	must(second.BeginTxn(), "begin")
	send(second, name, "kept")
	must(second.CommitTxn(), "commit")
	that(first.CommitTxn() != nil, "the first producer committed")
	equal(values(read(readCommitted(), name, 1)), []string{"kept"}, "what is read")
	must(second.Close(), "close")
	first.Close()
}

// listGroups asks all brokers, one of which may just have gone: sarama asks each of them once.
func listGroups() map[string]string {
	listed, err := admin.ListConsumerGroups()
	for end := time.Now().Add(waitMax); err != nil && time.Now().Before(end); time.Sleep(100 * time.Millisecond) {
		listed, err = admin.ListConsumerGroups()
	}
	must(err, "list")
	return listed
}

func groupAdmin() {
	name, group := topic("adm", 2), newName("group")
	m := join(group, name, sarama.NewBalanceStrategyRange())
	waitFor("one member owns all", func() bool { return share(2, m) })
	listed := listGroups()
	equal(listed[group], "consumer", "protocol type")
	described, err := admin.DescribeConsumerGroups([]string{group})
	must(err, "describe")
	equal([]any{described[0].State, len(described[0].Members)}, []any{"Stable", 1}, "state and members")
	m.commit(name, 7)
	waitFor("the commit", func() bool { return committed(group, name, 2)[1] == "7 half" })
	that(errors.Is(admin.DeleteConsumerGroup(group), sarama.ErrNonEmptyGroup), "a group with a member was deleted")
	m.close()
	must(admin.DeleteConsumerGroup(group), "delete")
	listed = listGroups()
	_, found := listed[group]
	that(!found, "still listed")
}
