package main

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
	"github.com/twmb/franz-go/pkg/kversion"
)

var transactionFacts = []fact{
	{"aborted_records_do_not_leak_wherever_a_reader_starts", abortedNeverLeak},
	{"a_session_of_groups_and_transactions_moves_every_record_once", func(ctx context.Context) {
		moveOnce(ctx, kgo.Balancers(kgo.CooperativeStickyBalancer()))
	}},
	{"the_same_with_the_consumer_protocol", func(ctx context.Context) {
		moveOnce(ctx, kgo.Balancers(kgo.StickyBalancer()), kgo.ServerSideBalancer())
	}},
	{"every_transaction_has_an_epoch_of_its_own", epochs},
	{"a_timeout_beyond_the_brokers_limit_is_refused", timeouts},
	{"end_txn_of_a_stranger_is_refused_in_every_version", strangers},
	{"every_version_of_end_txn_commits_and_aborts", endings},
	{"a_second_producer_fences_the_first", fencing},
	{"keyless_records_on_a_compacted_topic_fail_by_their_indexes", keylessRecords},
}

func transactional(id string, opts ...kgo.Opt) *kgo.Client {
	return client(append([]kgo.Opt{kgo.TransactionalID(id), kgo.TransactionTimeout(time.Minute)}, opts...)...)
}

// within runs one transaction with one record for each value.
func within(ctx context.Context, c *kgo.Client, name string, commit kgo.TransactionEndTry, values ...string) {
	must(c.BeginTransaction(), "begin")
	var records []*kgo.Record
	for _, v := range values {
		records = append(records, &kgo.Record{Topic: name, Value: []byte(v)})
	}
	must(c.ProduceSync(ctx, records...).FirstErr(), "produce")
	must(c.EndTransaction(ctx, commit), "end")
}

// stableEnd is where readers of committed data stop.
func stableEnd(ctx context.Context, name string) int64 {
	var end kadm.ListedOffset
	waitFor(ctx, "the stable end", func() bool { // the partition may be without a leader for a while
		ends, err := admin.ListCommittedOffsets(ctx, name)
		end, _ = ends.Lookup(name, 0)
		return err == nil && end.Err == nil
	})
	return end.Offset
}

// committed is what a reader of committed data finds from an offset up to the stable end.
func committed(ctx context.Context, name string, from int64) []string {
	end := stableEnd(ctx, name)
	c := client(kgo.FetchIsolationLevel(kgo.ReadCommitted()), kgo.KeepControlRecords(), kgo.FetchMaxWait(50*time.Millisecond),
		kgo.ConsumePartitions(map[string]map[int32]kgo.Offset{name: {0: kgo.NewOffset().At(from)}}))
	defer c.Close()
	values, next := []string{}, from
	for next < end {
		fetches := c.PollFetches(ctx)
		must(fetches.Err(), "fetch")
		fetches.EachRecord(func(r *kgo.Record) {
			that(r.Offset >= next, "offset %d after %d", r.Offset, next)
			next = r.Offset + 1
			if !r.Attrs.IsControl() {
				values = append(values, fmt.Sprintf("%d:%s", r.Offset, r.Value))
			}
		})
	}
	return values
}

func abortedNeverLeak(ctx context.Context) {
	name := topic(ctx, "aborted", 1, nil)
	c, other := transactional(newName("id")), transactional(newName("id"))
	defer c.Close()
	defer other.Close()
	// Two producers interleaved: one aborts what lies around the other's committed records.
	var want []string
	offset := int64(0)
	for round := range 8 {
		must(c.BeginTransaction(), "begin")
		must(c.ProduceSync(ctx, &kgo.Record{Topic: name, Value: []byte("gone")}).FirstErr(), "produce")
		within(ctx, other, name, kgo.TryCommit, fmt.Sprint(round, "a"), fmt.Sprint(round, "b"))
		want = append(want, fmt.Sprintf("%d:%da", offset+1, round), fmt.Sprintf("%d:%db", offset+2, round))
		must(c.ProduceSync(ctx, &kgo.Record{Topic: name, Value: []byte("gone")}).FirstErr(), "produce")
		must(c.EndTransaction(ctx, kgo.TryAbort), "abort")
		offset += 6 // gone, a, b, marker, gone, marker
	}
	waitFor(ctx, "the last marker", func() bool { return stableEnd(ctx, name) == offset })
	for from := range offset {
		kept := []string{}
		for _, w := range want {
			var at int64
			fmt.Sscanf(w, "%d:", &at)
			if at >= from {
				kept = append(kept, w)
			}
		}
		equal(committed(ctx, name, from), kept, fmt.Sprintf("from offset %d", from))
	}
}

func moveOnce(ctx context.Context, opts ...kgo.Opt) {
	const partitions, each, total = 4, 500, 2_000
	source, sink, group := topic(ctx, "source", partitions, nil), topic(ctx, "sink", 1, nil), newName("group")
	fillPartitions(ctx, source, partitions, each)
	session := func(id string) *kgo.GroupTransactSession {
		s, err := kgo.NewGroupTransactSession(append([]kgo.Opt{
			kgo.SeedBrokers(nodes...), login(), kgo.TransactionalID(id), kgo.TransactionTimeout(30 * time.Second), kgo.ConsumerGroup(group),
			kgo.ConsumeTopics(source), kgo.FetchIsolationLevel(kgo.ReadCommitted()), kgo.FetchMaxWait(100 * time.Millisecond),
			kgo.HeartbeatInterval(300 * time.Millisecond), kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()), kgo.RequireStableFetchOffsets(),
		}, opts...)...)
		must(err, "session")
		return s
	}
	// moves until a transaction cannot be ended, or it is told to stop.
	moves := func(ctx, inner context.Context, s *kgo.GroupTransactSession) {
		defer s.Close()
		for {
			fetches := s.PollRecords(inner, 100)
			if inner.Err() != nil || s.Begin() != nil {
				return
			}
			fetches.EachRecord(func(r *kgo.Record) {
				s.Produce(ctx, &kgo.Record{Topic: sink, Value: r.Value}, nil)
			})
			if _, err := s.End(ctx, kgo.TryCommit); err != nil {
				return
			}
		}
	}
	mover := func(id string) (stop func()) {
		inner, cancel := context.WithCancel(ctx)
		done := make(chan struct{})
		go func() {
			defer close(done)
			for inner.Err() == nil { // fenced or out of time: another of the id ends what was left open
				moves(ctx, inner, session(id))
			}
		}()
		return func() { cancel(); <-done }
	}
	stopOne := mover(newName("id"))
	stopTwo := mover(newName("id"))
	waitFor(ctx, "half of the records", func() bool { return len(committed(ctx, sink, 0)) >= total/2 })
	stopOne() // its share moves to the other in the middle of the work
	waitFor(ctx, "every record", func() bool { return len(committed(ctx, sink, 0)) >= total })
	stopTwo()
	seen := map[string]int{}
	for _, v := range committed(ctx, sink, 0) {
		var at int64
		var value string
		fmt.Sscanf(v, "%d:%s", &at, &value)
		seen[value]++
	}
	for i := range total {
		equal(seen[fmt.Sprint(i)], 1, fmt.Sprintf("copies of record %d", i))
	}
	equal(len(seen), total, "different records")
}

func epochs(ctx context.Context) {
	name := topic(ctx, "epochs", 1, nil)
	c := transactional(newName("id"))
	defer c.Close()
	within(ctx, c, name, kgo.TryCommit, "first")
	id, before, err := c.ProducerID(ctx)
	must(err, "producer id")
	for i, commit := range []kgo.TransactionEndTry{kgo.TryCommit, kgo.TryAbort, kgo.TryCommit} {
		within(ctx, c, name, commit, "next")
		same, epoch, err := c.ProducerID(ctx)
		must(err, "producer id")
		equal(same, id, "producer id")
		equal(epoch, before+int16(i)+1, "epoch")
	}
}

func timeouts(ctx context.Context) {
	for _, ms := range []int32{0, -1, 15*60*1000 + 1} {
		id := newName("id")
		req := kmsg.NewPtrInitProducerIDRequest()
		req.TransactionalID, req.TransactionTimeoutMillis = &id, ms
		code(coordinated[*kmsg.InitProducerIDResponse](ctx, req).ErrorCode, kerr.InvalidTransactionTimeout, fmt.Sprintf("%d ms", ms))
	}
	id := newName("id")
	req := kmsg.NewPtrInitProducerIDRequest()
	req.TransactionalID, req.TransactionTimeoutMillis = &id, 15*60*1000
	code(coordinated[*kmsg.InitProducerIDResponse](ctx, req).ErrorCode, nil, "the limit itself")
}

// endings: a commit and an abort by every version of EndTxn, each of one record, and then what is read.
func endings(ctx context.Context) {
	name := topicHere(ctx, "endings", 1, nil)
	topicID := topicID(ctx, name)
	want, offset := []string{}, int64(0)
	for version := int16(0); version <= 5; version++ {
		limit := kversion.Stable()
		limit.SetMaxKeyVersion(kmsg.EndTxn.Int16(), version)
		if version < 5 { // from then on the broker adds what is produced to
			limit.SetMaxKeyVersion(kmsg.Produce.Int16(), 11)
		}
		c := client(kgo.MaxVersions(limit))
		for _, commit := range []bool{true, false} {
			txn, what := newName("id"), fmt.Sprintf("version %d, commit %v", version, commit)
			begin := kmsg.NewPtrInitProducerIDRequest()
			begin.TransactionalID, begin.TransactionTimeoutMillis = &txn, 60_000
			own := coordinated[*kmsg.InitProducerIDResponse](ctx, begin)
			code(own.ErrorCode, nil, what+": init")
			if version < 5 {
				add, part := kmsg.NewPtrAddPartitionsToTxnRequest(), kmsg.NewAddPartitionsToTxnRequestTopic()
				add.TransactionalID, add.ProducerID, add.ProducerEpoch = txn, own.ProducerID, own.ProducerEpoch
				part.Topic, part.Partitions = name, []int32{0}
				add.Topics = append(add.Topics, part)
				code(coordinated[*kmsg.AddPartitionsToTxnResponse](ctx, add).Topics[0].Partitions[0].ErrorCode, nil, what+": add")
			}
			req := produceRequest(name, topicID, map[int32][]byte{0: inTransaction(batch(own.ProducerID, own.ProducerEpoch, 0, what))})
			req.TransactionID = &txn
			code(ask[*kmsg.ProduceResponse](ctx, c, req).Topics[0].Partitions[0].ErrorCode, nil, what+": produce")
			end := kmsg.NewPtrEndTxnRequest()
			end.TransactionalID, end.ProducerID, end.ProducerEpoch, end.Commit = txn, own.ProducerID, own.ProducerEpoch, commit
			got, err := c.Request(ctx, end)
			must(err, what)
			equal(got.GetVersion(), version, what+": version of the answer")
			code(got.(*kmsg.EndTxnResponse).ErrorCode, nil, what)
			if version >= 5 {
				equal(got.(*kmsg.EndTxnResponse).ProducerEpoch, own.ProducerEpoch+1, what+": epoch to go on with")
			}
			if commit {
				want = append(want, fmt.Sprintf("%d:%s", offset, what))
			}
			offset += 2 // the record and its marker
			waitFor(ctx, what+": its marker", func() bool { return stableEnd(ctx, name) == offset })
		}
		c.Close()
	}
	equal(committed(ctx, name, 0), want, "what is read")
}

// inTransaction is the batch as one of a transaction: the attribute, and the checksum over it.
func inTransaction(records []byte) []byte {
	const attributes, crc = 21, 17
	records[attributes+1] |= 0x10
	binary.BigEndian.PutUint32(records[crc:], crc32.Checksum(records[attributes:], crc32.MakeTable(crc32.Castagnoli)))
	return records
}

func strangers(ctx context.Context) {
	id := newName("id")
	begin := kmsg.NewPtrInitProducerIDRequest()
	begin.TransactionalID, begin.TransactionTimeoutMillis = &id, 60_000
	own := coordinated[*kmsg.InitProducerIDResponse](ctx, begin)
	code(own.ErrorCode, nil, "init")
	for version := int16(0); version <= 5; version++ {
		limit := kversion.Stable()
		limit.SetMaxKeyVersion(kmsg.EndTxn.Int16(), version)
		c := client(kgo.MaxVersions(limit))
		end := func(version int16, id string, producer int64, epoch int16) int16 {
			req := kmsg.NewPtrEndTxnRequest()
			req.TransactionalID, req.ProducerID, req.ProducerEpoch, req.Commit = id, producer, epoch, true
			resp, err := c.Request(ctx, req)
			must(err, "end")
			equal(resp.GetVersion(), version, "version of the answer")
			return resp.(*kmsg.EndTxnResponse).ErrorCode
		}
		code(end(version, newName("nobody"), 1, 0), kerr.InvalidProducerIDMapping, fmt.Sprintf("version %d: an unknown id", version))
		code(end(version, id, own.ProducerID+1000, own.ProducerEpoch), kerr.InvalidProducerIDMapping, fmt.Sprintf("version %d: another producer", version))
		fenced := kerr.ProducerFenced
		if version < 2 {
			fenced = kerr.InvalidProducerEpoch
		}
		code(end(version, id, own.ProducerID, own.ProducerEpoch+1), fenced, fmt.Sprintf("version %d: an epoch to come", version))
		c.Close()
	}
}

func fencing(ctx context.Context) {
	name, id := topic(ctx, "fencing", 1, nil), newName("id")
	old, next := transactional(id), transactional(id)
	defer old.Close()
	defer next.Close()
	must(old.BeginTransaction(), "begin")
	must(old.ProduceSync(ctx, &kgo.Record{Topic: name, Value: []byte("lost")}).FirstErr(), "produce")
	within(ctx, next, name, kgo.TryCommit, "kept")
	err := old.ProduceSync(ctx, &kgo.Record{Topic: name, Value: []byte("late")}).FirstErr()
	that(errors.Is(err, kerr.ProducerFenced) || errors.Is(err, kerr.InvalidProducerEpoch), "the first goes on: got %v", err)
	waitFor(ctx, "the second's record", func() bool { return len(committed(ctx, name, 0)) == 1 })
	equal(committed(ctx, name, 0), []string{"2:kept"}, "what is read")
}

func keylessRecords(ctx context.Context) {
	policy := "compact"
	name := topicHere(ctx, "keyless", 1, map[string]*string{"cleanup.policy": &policy})
	req := produceRequest(name, topicID(ctx, name), map[int32][]byte{0: batch(-1, -1, -1, "no key", "none here")})
	part := ask[*kmsg.ProduceResponse](ctx, shared, req).Topics[0].Partitions[0]
	code(part.ErrorCode, kerr.InvalidRecord, "batch")
	var indexes []int32
	for _, e := range part.ErrorRecords {
		indexes = append(indexes, e.RelativeOffset)
		that(e.ErrorMessage != nil && *e.ErrorMessage != "", "no message for record %d", e.RelativeOffset)
	}
	equal(indexes, []int32{0, 1}, "records that are refused")
	done := shared.ProduceSync(ctx, &kgo.Record{Topic: name, Key: []byte("k"), Value: []byte("v")})
	must(done.FirstErr(), "a record with a key")
	equal(done[0].Record.Offset, int64(0), "its offset")
}
