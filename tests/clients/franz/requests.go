package main

import (
	"context"
	"encoding/binary"
	"fmt"
	"hash/crc32"
	"math"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
	"github.com/twmb/franz-go/pkg/kversion"
)

var requestFacts = []fact{
	{"a_repeated_batch_gets_its_first_offset_again", repeatedBatch},
	{"the_last_five_batches_are_remembered_and_older_ones_are_out_of_order", fiveBatches},
	{"a_gap_in_the_sequence_is_refused", sequenceGap},
	{"an_older_producer_epoch_is_fenced_and_a_newer_one_starts_at_zero", producerEpochs},
	{"sequences_wrap_at_the_end_of_their_range", sequenceWrap},
	{"producer_ids_never_repeat", producerIDs},
	{"one_request_may_fail_for_some_partitions_only", partialFailure},
	{"list_offsets_answers_every_special_time", specialTimes},
	{"topic_partitions_are_described_page_by_page", describePages},
	{"what_may_be_done_is_told_when_it_is_asked_for", authorizedOperations},
	{"every_version_of_every_api_decodes_to_the_same_bytes", everyVersion},
}

func varint(v int64) []byte { return binary.AppendVarint(nil, v) }

// batch is a record batch of version 2 with one record for each value.
func batch(producer int64, epoch int16, sequence int32, values ...string) []byte {
	now := time.Now().UnixMilli()
	var records []byte
	for i, v := range values {
		body := append([]byte{0}, varint(0)...)
		body = append(body, varint(int64(i))...)
		body = append(body, varint(-1)...)
		body = append(body, varint(int64(len(v)))...)
		body = append(append(body, v...), varint(0)...)
		records = append(append(records, varint(int64(len(body)))...), body...)
	}
	tail := binary.BigEndian.AppendUint16(nil, 0)
	tail = binary.BigEndian.AppendUint32(tail, uint32(len(values)-1))
	tail = binary.BigEndian.AppendUint64(tail, uint64(now))
	tail = binary.BigEndian.AppendUint64(tail, uint64(now))
	tail = binary.BigEndian.AppendUint64(tail, uint64(producer))
	tail = binary.BigEndian.AppendUint16(tail, uint16(epoch))
	tail = binary.BigEndian.AppendUint32(tail, uint32(sequence))
	tail = binary.BigEndian.AppendUint32(tail, uint32(len(values)))
	tail = append(tail, records...)
	head := binary.BigEndian.AppendUint64(nil, 0)
	head = binary.BigEndian.AppendUint32(head, uint32(len(tail)+9))
	head = binary.BigEndian.AppendUint32(head, 0xFFFFFFFF)
	head = append(head, 2)
	head = binary.BigEndian.AppendUint32(head, crc32.Checksum(tail, crc32.MakeTable(crc32.Castagnoli)))
	return append(head, tail...)
}

func produceRequest(name string, id [16]byte, batches map[int32][]byte) *kmsg.ProduceRequest {
	req := kmsg.NewPtrProduceRequest()
	req.Acks, req.TimeoutMillis = -1, 10_000
	t := kmsg.NewProduceRequestTopic()
	t.Topic, t.TopicID = name, id
	for partition, records := range batches {
		p := kmsg.NewProduceRequestTopicPartition()
		p.Partition, p.Records = partition, records
		t.Partitions = append(t.Partitions, p)
	}
	req.Topics = append(req.Topics, t)
	return req
}

// sender produces batches of one producer to partition 0 of a topic.
type sender struct {
	ctx  context.Context
	name string
	id   [16]byte
}

func newSender(ctx context.Context, prefix string) sender {
	name := topicHere(ctx, prefix, 1, nil)
	return sender{ctx, name, topicID(ctx, name)}
}

func (s sender) send(records []byte) kmsg.ProduceResponseTopicPartition {
	req := produceRequest(s.name, s.id, map[int32][]byte{0: records})
	return ask[*kmsg.ProduceResponse](s.ctx, shared, req).Topics[0].Partitions[0]
}

func (s sender) stores(records []byte, offset int64, what string) {
	p := s.send(records)
	code(p.ErrorCode, nil, what)
	equal(p.BaseOffset, offset, what+": offset")
}

func initProducer(ctx context.Context) (int64, int16) {
	req := kmsg.NewPtrInitProducerIDRequest()
	req.TransactionTimeoutMillis = 60_000
	resp := ask[*kmsg.InitProducerIDResponse](ctx, shared, req)
	for resp.ErrorCode == kerr.CoordinatorLoadInProgress.Code { // Kafka says so while it takes the next thousand ids
		resp = ask[*kmsg.InitProducerIDResponse](ctx, shared, req)
	}
	code(resp.ErrorCode, nil, "init producer id")
	return resp.ProducerID, resp.ProducerEpoch
}

func repeatedBatch(ctx context.Context) {
	s := newSender(ctx, "repeat")
	id, epoch := initProducer(ctx)
	first := batch(id, epoch, 0, "a", "b", "c")
	s.stores(first, 0, "first")
	s.stores(first, 0, "repeated")
	s.stores(batch(id, epoch, 3, "d"), 3, "next")
	s.stores(first, 0, "repeated after the next")
	s.stores(batch(id, epoch, 4, "e"), 4, "after the repeats")
	equal(len(read(ctx, s.name, 0, 0, 5)), 5, "records")
}

func fiveBatches(ctx context.Context) {
	s := newSender(ctx, "five")
	id, epoch := initProducer(ctx)
	var sent [][]byte
	for i := range int32(8) {
		sent = append(sent, batch(id, epoch, i, "x"))
		s.stores(sent[i], int64(i), "batch")
	}
	for i := 3; i < 8; i++ {
		s.stores(sent[i], int64(i), fmt.Sprintf("batch %d again", i))
	}
	for i := range 3 {
		got := s.send(sent[i]).ErrorCode
		that(got == kerr.OutOfOrderSequenceNumber.Code || got == kerr.DuplicateSequenceNumber.Code,
			"batch %d, long gone: got %s", i, codeName(got))
	}
	s.stores(batch(id, epoch, 8, "x"), 8, "the next batch")
}

func sequenceGap(ctx context.Context) {
	s := newSender(ctx, "gap")
	id, epoch := initProducer(ctx)
	s.stores(batch(id, epoch, 0, "x"), 0, "first")
	code(s.send(batch(id, epoch, 2, "x")).ErrorCode, kerr.OutOfOrderSequenceNumber, "2 where 1 is due")
	s.stores(batch(id, epoch, 1, "x"), 1, "the one that was due")
	overlap := s.send(batch(id, epoch, 1, "x", "y")).ErrorCode
	code(overlap, kerr.OutOfOrderSequenceNumber, "a batch that overlaps")
	other, otherEpoch := initProducer(ctx)
	s.stores(batch(other, otherEpoch, 40, "x"), 2, "a producer unknown here may start anywhere")
}

func producerEpochs(ctx context.Context) {
	s := newSender(ctx, "epoch")
	id, epoch := initProducer(ctx)
	s.stores(batch(id, epoch, 0, "x"), 0, "first")
	code(s.send(batch(id, epoch+1, 5, "x")).ErrorCode, kerr.OutOfOrderSequenceNumber, "a newer epoch that does not start at 0")
	s.stores(batch(id, epoch+1, 0, "x"), 1, "a newer epoch")
	code(s.send(batch(id, epoch, 1, "x")).ErrorCode, kerr.InvalidProducerEpoch, "the old epoch")
	s.stores(batch(id, epoch+1, 1, "x"), 2, "the newer epoch goes on")
}

func sequenceWrap(ctx context.Context) {
	s := newSender(ctx, "wrap")
	id, epoch := initProducer(ctx)
	last := int32(1<<31 - 1)
	s.stores(batch(id, epoch, last-1, "a"), 0, "near the end")
	s.stores(batch(id, epoch, last, "b", "c"), 1, "across the end")
	s.stores(batch(id, epoch, 1, "d"), 3, "after the end")
	s.stores(batch(id, epoch, last, "b", "c"), 1, "repeated across the end")
}

func producerIDs(ctx context.Context) {
	seen := map[int64]bool{}
	for range 1_500 {
		id, epoch := initProducer(ctx)
		that(id >= 0 && !seen[id], "producer id %d came twice", id)
		equal(epoch, int16(0), "epoch")
		seen[id] = true
	}
}

func partialFailure(ctx context.Context) {
	name := topicHere(ctx, "partial", 3, nil)
	bad := batch(-1, -1, -1, "x")
	bad[len(bad)-2] ^= 0x55
	req := produceRequest(name, topicID(ctx, name), map[int32][]byte{0: batch(-1, -1, -1, "x"), 1: bad, 2: batch(-1, -1, -1, "y"), 9: batch(-1, -1, -1, "x")})
	want := map[int32]*kerr.Error{0: nil, 1: kerr.CorruptMessage, 2: nil, 9: kerr.UnknownTopicOrPartition}
	seen := 0
	for _, t := range ask[*kmsg.ProduceResponse](ctx, shared, req).Topics {
		for _, p := range t.Partitions {
			code(p.ErrorCode, want[p.Partition], fmt.Sprintf("partition %d", p.Partition))
			seen++
		}
	}
	equal(seen, 4, "partitions answered")
}

func listRequest(name string, times ...int64) *kmsg.ListOffsetsRequest {
	req := kmsg.NewPtrListOffsetsRequest()
	req.ReplicaID, req.TimeoutMillis = -1, 10_000
	t := kmsg.NewListOffsetsRequestTopic()
	t.Topic = name
	for _, at := range times {
		p := kmsg.NewListOffsetsRequestTopicPartition()
		p.Partition, p.Timestamp = 0, at
		t.Partitions = append(t.Partitions, p)
	}
	req.Topics = append(req.Topics, t)
	return req
}

func specialTimes(ctx context.Context) {
	name := topicHere(ctx, "special", 1, nil)
	oneBatch(ctx, name, 10)
	oneBatch(ctx, name, 10)
	for _, c := range []struct {
		at, want int64
		err      *kerr.Error
	}{{-1, 20, nil}, {-2, 0, nil}, {-3, 10, nil}, {-4, 0, nil}, {-5, -1, nil}, {-6, -1, nil}, {-7, -1, kerr.UnsupportedVersion}} {
		resp := ask[*kmsg.ListOffsetsResponse](ctx, shared, listRequest(name, c.at))
		p := resp.Topics[0].Partitions[0]
		code(p.ErrorCode, c.err, fmt.Sprintf("time %d", c.at))
		if c.at != -3 { // the largest time may be in either batch, when both were made in one millisecond
			equal(p.Offset, c.want, fmt.Sprintf("offset of time %d", c.at))
		}
	}
	late := listRequest(name, -1)
	late.Topics[0].Partitions[0].CurrentLeaderEpoch = 1_000
	code(ask[*kmsg.ListOffsetsResponse](ctx, shared, late).Topics[0].Partitions[0].ErrorCode, kerr.UnknownLeaderEpoch, "a later epoch")
	twice := ask[*kmsg.ListOffsetsResponse](ctx, shared, listRequest(name, -1, -2))
	code(twice.Topics[0].Partitions[0].ErrorCode, kerr.InvalidRequest, "the same partition twice")
	missing := ask[*kmsg.ListOffsetsResponse](ctx, shared, listRequest(newName("nosuch"), -1))
	code(missing.Topics[0].Partitions[0].ErrorCode, kerr.UnknownTopicOrPartition, "an unknown topic")
}

func describePages(ctx context.Context) {
	name, missing := topic(ctx, "pages-a", 5, nil), newName("pages-b")
	req := kmsg.NewPtrDescribeTopicPartitionsRequest()
	req.ResponsePartitionLimit = 3
	for _, n := range []string{name, missing} {
		t := kmsg.NewDescribeTopicPartitionsRequestTopic()
		t.Topic = n
		req.Topics = append(req.Topics, t)
	}
	first := ask[*kmsg.DescribeTopicPartitionsResponse](ctx, shared, req)
	equal(len(first.Topics[0].Partitions), 3, "partitions on the first page")
	that(first.NextCursor != nil, "no cursor")
	equal(first.NextCursor.Topic, name, "cursor topic")
	equal(first.NextCursor.Partition, int32(3), "cursor partition")
	req.Cursor = &kmsg.DescribeTopicPartitionsRequestCursor{Topic: name, Partition: 3}
	second := ask[*kmsg.DescribeTopicPartitionsResponse](ctx, shared, req)
	equal(len(second.Topics), 2, "topics on the second page")
	equal(len(second.Topics[0].Partitions), 2, "partitions on the second page")
	equal(second.Topics[0].Partitions[0].Partition, int32(3), "first partition on the second page")
	code(second.Topics[1].ErrorCode, kerr.UnknownTopicOrPartition, "the unknown topic")
	that(second.NextCursor == nil, "a cursor after the last page")
}

// Without an authorizer everything may be done that a resource knows (KIP-430). Errors carry no operations of groups.
func authorizedOperations(ctx context.Context) {
	const cluster, topics, groups, untold = 8096, 3576, 3400, math.MinInt32
	name, group, missing := topic(ctx, "allowed", 1, nil), keyHere(ctx, "allowed", 0), keyHere(ctx, "nosuch", 0)
	metadata := kmsg.NewPtrMetadataRequest()
	mt := kmsg.NewMetadataRequestTopic()
	mt.Topic = &name
	metadata.Topics = append(metadata.Topics, mt)
	older := client(kgo.MaxVersions(kversion.V2_7_0())) // the last whose Metadata tells of the cluster
	defer older.Close()
	pages := kmsg.NewPtrDescribeTopicPartitionsRequest()
	pt := kmsg.NewDescribeTopicPartitionsRequestTopic()
	pt.Topic, pages.ResponsePartitionLimit = name, 10
	pages.Topics = append(pages.Topics, pt)
	var commit kadm.Offsets
	commit.Add(kadm.Offset{Topic: name, At: 3})
	must(admin.CommitAllOffsets(ctx, group, commit), "commit")
	describe := kmsg.NewPtrDescribeGroupsRequest()
	describe.Groups = []string{group, missing}
	next := kmsg.NewPtrConsumerGroupDescribeRequest()
	next.Groups = []string{missing}
	nodes := kmsg.NewPtrDescribeClusterRequest()
	for asked, want := range map[bool][]int32{true: {cluster, topics, topics, groups, untold, cluster}, false: {untold, untold, untold, untold, untold, untold}} {
		metadata.IncludeClusterAuthorizedOperations, metadata.IncludeTopicAuthorizedOperations = asked, asked
		describe.IncludeAuthorizedOperations, next.IncludeAuthorizedOperations, nodes.IncludeClusterAuthorizedOperations = asked, asked, asked
		old := ask[*kmsg.MetadataResponse](ctx, older, metadata)
		told := map[string]int32{} // Kafka answers in the order of the partitions that keep the groups
		for _, g := range ask[*kmsg.DescribeGroupsResponse](ctx, shared, describe).Groups {
			told[g.Group] = g.AuthorizedOperations
		}
		got := []int32{
			old.AuthorizedOperations, old.Topics[0].AuthorizedOperations,
			ask[*kmsg.MetadataResponse](ctx, shared, metadata).Topics[0].AuthorizedOperations,
			told[group], told[missing],
			ask[*kmsg.DescribeClusterResponse](ctx, shared, nodes).ClusterAuthorizedOperations,
		}
		equal(got, want, fmt.Sprintf("operations, asked for: %v", asked))
		lost := ask[*kmsg.ConsumerGroupDescribeResponse](ctx, shared, next).Groups[0]
		equal(lost.AuthorizedOperations, int32(untold), "operations on a consumer group that is not there")
	}
	equal(ask[*kmsg.DescribeTopicPartitionsResponse](ctx, shared, pages).Topics[0].AuthorizedOperations, int32(topics), "operations in pages of topics")
}
