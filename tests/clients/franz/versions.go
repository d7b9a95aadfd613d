package main

import (
	"bytes"
	"context"
	"encoding/binary"
	"fmt"
	"io"
	"net"
	"slices"
	"strings"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"
)

// What this broker must offer, each with a request that it can answer without an error.
// Versions are those the broker lists, up to what kmsg knows; APIs that are not listed are the failure of this fact.
func samples(name string, id [16]byte) []kmsg.Request {
	produce := produceRequest(name, id, map[int32][]byte{0: batch(-1, -1, -1, "v")})
	fetch := fetchRequest(name, id, map[int32]int64{0: 0})
	metadata := kmsg.NewPtrMetadataRequest()
	mt := kmsg.NewMetadataRequestTopic()
	mt.Topic = &name
	metadata.Topics = append(metadata.Topics, mt)
	metadata.IncludeTopicAuthorizedOperations = true
	create := kmsg.NewPtrCreateTopicsRequest()
	ct := kmsg.NewCreateTopicsRequestTopic()
	ct.Topic, ct.NumPartitions, ct.ReplicationFactor = name, 1, 1
	create.Topics, create.TimeoutMillis, create.ValidateOnly = append(create.Topics, ct), 5_000, true
	remove := kmsg.NewPtrDeleteTopicsRequest()
	missing := newName("nosuch")
	remove.TopicNames, remove.TimeoutMillis = []string{missing}, 5_000
	rt := kmsg.NewDeleteTopicsRequestTopic()
	rt.Topic = &missing
	remove.Topics = append(remove.Topics, rt)
	grow := kmsg.NewPtrCreatePartitionsRequest()
	gt := kmsg.NewCreatePartitionsRequestTopic()
	gt.Topic, gt.Count = name, 2
	grow.Topics, grow.TimeoutMillis, grow.ValidateOnly = append(grow.Topics, gt), 5_000, true
	trim := kmsg.NewPtrDeleteRecordsRequest()
	tt, tp := kmsg.NewDeleteRecordsRequestTopic(), kmsg.NewDeleteRecordsRequestTopicPartition()
	tt.Topic, tt.Partitions, trim.TimeoutMillis = name, append(tt.Partitions, tp), 5_000
	trim.Topics = append(trim.Topics, tt)
	describe := kmsg.NewPtrDescribeConfigsRequest()
	dr := kmsg.NewDescribeConfigsRequestResource()
	dr.ResourceType, dr.ResourceName = kmsg.ConfigResourceTypeTopic, name
	describe.Resources, describe.IncludeSynonyms, describe.IncludeDocumentation = append(describe.Resources, dr), true, true
	alter := kmsg.NewPtrAlterConfigsRequest()
	ar := kmsg.NewAlterConfigsRequestResource()
	ar.ResourceType, ar.ResourceName = kmsg.ConfigResourceTypeTopic, name
	alter.Resources, alter.ValidateOnly = append(alter.Resources, ar), true
	incremental := kmsg.NewPtrIncrementalAlterConfigsRequest()
	ir := kmsg.NewIncrementalAlterConfigsRequestResource()
	ir.ResourceType, ir.ResourceName = kmsg.ConfigResourceTypeTopic, name
	incremental.Resources, incremental.ValidateOnly = append(incremental.Resources, ir), true
	epochs := kmsg.NewPtrOffsetForLeaderEpochRequest()
	et, ep := kmsg.NewOffsetForLeaderEpochRequestTopic(), kmsg.NewOffsetForLeaderEpochRequestTopicPartition()
	epochs.ReplicaID, et.Topic, ep.CurrentLeaderEpoch = -2, name, -1
	et.Partitions = append(et.Partitions, ep)
	epochs.Topics = append(epochs.Topics, et)
	dirs := kmsg.NewPtrDescribeLogDirsRequest()
	dt := kmsg.NewDescribeLogDirsRequestTopic()
	dt.Topic, dt.Partitions = name, []int32{0}
	dirs.Topics = append(dirs.Topics, dt)
	active := kmsg.NewPtrDescribeProducersRequest()
	at := kmsg.NewDescribeProducersRequestTopic()
	at.Topic, at.Partitions = name, []int32{0}
	active.Topics = append(active.Topics, at)
	pages := kmsg.NewPtrDescribeTopicPartitionsRequest()
	pt := kmsg.NewDescribeTopicPartitionsRequestTopic()
	pt.Topic, pages.ResponsePartitionLimit = name, 10
	pages.Topics = append(pages.Topics, pt)
	init := kmsg.NewPtrInitProducerIDRequest()
	init.TransactionTimeoutMillis = 1_000
	versions := kmsg.NewPtrApiVersionsRequest()
	versions.ClientSoftwareName, versions.ClientSoftwareVersion = "tests", "1"
	return []kmsg.Request{versions, metadata, produce, fetch, listRequest(name, -1), epochs, init, create, remove, grow, trim,
		describe, alter, incremental, kmsg.NewPtrListConfigResourcesRequest(), pages, kmsg.NewPtrDescribeClusterRequest(), dirs, active}
}

// What coordinators offer. The members and transactions are made up, so most answers are errors; their bytes count.
func coordinatorSamples(name string, id [16]byte) []kmsg.Request {
	group, txn := newName("group"), newName("id")
	find := kmsg.NewPtrFindCoordinatorRequest()
	find.CoordinatorKey, find.CoordinatorKeys = group, []string{group}
	join := kmsg.NewPtrJoinGroupRequest()
	join.Group, join.MemberID, join.ProtocolType, join.SessionTimeoutMillis = group, "nobody", "consumer", 10_000
	jp := kmsg.NewJoinGroupRequestProtocol()
	jp.Name, join.Protocols = "range", append(join.Protocols, jp)
	sync := kmsg.NewPtrSyncGroupRequest()
	sync.Group, sync.MemberID, sync.Generation = group, "nobody", 1
	beat := kmsg.NewPtrHeartbeatRequest()
	beat.Group, beat.MemberID = group, "nobody"
	leave := kmsg.NewPtrLeaveGroupRequest()
	leave.Group, leave.MemberID = group, "nobody"
	lm := kmsg.NewLeaveGroupRequestMember()
	lm.MemberID, leave.Members = "nobody", append(leave.Members, lm)
	commit := kmsg.NewPtrOffsetCommitRequest()
	commit.Group, commit.Generation = group, -1
	ct, cp := kmsg.NewOffsetCommitRequestTopic(), kmsg.NewOffsetCommitRequestTopicPartition()
	cp.Offset, cp.Metadata = 5, &group
	ct.Topic, ct.TopicID, ct.Partitions = name, id, append(ct.Partitions, cp)
	commit.Topics = append(commit.Topics, ct)
	fetch := kmsg.NewPtrOffsetFetchRequest()
	ft := kmsg.NewOffsetFetchRequestTopic()
	ft.Topic, ft.Partitions = name, []int32{0}
	fetch.Group, fetch.Topics = group, append(fetch.Topics, ft)
	fg, fgt := kmsg.NewOffsetFetchRequestGroup(), kmsg.NewOffsetFetchRequestGroupTopic()
	fgt.Topic, fgt.TopicID, fgt.Partitions = name, id, []int32{0}
	fg.Group, fg.Topics = group, append(fg.Topics, fgt)
	fetch.Groups = append(fetch.Groups, fg)
	describe := kmsg.NewPtrDescribeGroupsRequest()
	describe.Groups, describe.IncludeAuthorizedOperations = []string{group}, true
	forget := kmsg.NewPtrOffsetDeleteRequest()
	dt, dp := kmsg.NewOffsetDeleteRequestTopic(), kmsg.NewOffsetDeleteRequestTopicPartition()
	dt.Topic, dt.Partitions = name, append(dt.Partitions, dp)
	forget.Group, forget.Topics = group, append(forget.Topics, dt)
	remove := kmsg.NewPtrDeleteGroupsRequest()
	remove.Groups = []string{newName("nosuch")}
	next := kmsg.NewPtrConsumerGroupHeartbeatRequest()
	next.Group, next.MemberID, next.MemberEpoch = group, "nobody", 3
	nextDescribe := kmsg.NewPtrConsumerGroupDescribeRequest()
	nextDescribe.Groups = []string{group}
	begin := kmsg.NewPtrInitProducerIDRequest()
	begin.TransactionalID, begin.TransactionTimeoutMillis = &txn, 10_000
	addParts := kmsg.NewPtrAddPartitionsToTxnRequest()
	addParts.TransactionalID, addParts.ProducerID = txn, 1
	apt := kmsg.NewAddPartitionsToTxnRequestTopic()
	apt.Topic, apt.Partitions = name, []int32{0}
	addParts.Topics = append(addParts.Topics, apt)
	addOffsets := kmsg.NewPtrAddOffsetsToTxnRequest()
	addOffsets.TransactionalID, addOffsets.ProducerID, addOffsets.Group = txn, 1, group
	txnCommit := kmsg.NewPtrTxnOffsetCommitRequest()
	txnCommit.TransactionalID, txnCommit.ProducerID, txnCommit.Group, txnCommit.Generation = txn, 1, group, -1
	tt, tp := kmsg.NewTxnOffsetCommitRequestTopic(), kmsg.NewTxnOffsetCommitRequestTopicPartition()
	tt.Topic, tt.Partitions = name, append(tt.Partitions, tp)
	txnCommit.Topics = append(txnCommit.Topics, tt)
	end := kmsg.NewPtrEndTxnRequest()
	end.TransactionalID, end.ProducerID = txn, 1
	describeTxn := kmsg.NewPtrDescribeTransactionsRequest()
	describeTxn.TransactionalIDs = []string{txn}
	return []kmsg.Request{find, join, sync, beat, leave, commit, fetch, describe, kmsg.NewPtrListGroupsRequest(), forget, remove,
		next, nextDescribe, begin, addParts, addOffsets, txnCommit, end, describeTxn, kmsg.NewPtrListTransactionsRequest()}
}

func everyVersion(ctx context.Context) {
	name := topic(ctx, "versions", 1, nil)
	id := topicID(ctx, name)
	conn, err := net.DialTimeout("tcp", bootstrap, 5*time.Second)
	must(err, "connect")
	defer conn.Close()
	must(conn.SetDeadline(time.Now().Add(30*time.Second)), "deadline")
	offered := map[int16]kmsg.ApiVersionsResponseApiKey{}
	ours := kmsg.NewPtrApiVersionsRequest()
	ours.ClientSoftwareName, ours.ClientSoftwareVersion = "tests", "1"
	for _, k := range ask[*kmsg.ApiVersionsResponse](ctx, shared, ours).ApiKeys {
		offered[k.ApiKey] = k
	}
	var wrong []string
	for _, req := range append(samples(name, id), coordinatorSamples(name, id)...) {
		key, listed := offered[req.Key()]
		if !listed {
			wrong = append(wrong, kmsg.NameForKey(req.Key())+" is not offered")
			continue
		}
		for v := key.MinVersion; v <= min(key.MaxVersion, req.MaxVersion()); v++ {
			if req.Key() == 0 && v < 3 {
				continue // offered for old librdkafka only
			}
			if req.Key() == kmsg.AddPartitionsToTxn.Int16() && v > 3 {
				continue // between brokers only
			}
			req.SetVersion(v)
			if problem := sameBytes(conn, req); problem != "" {
				wrong = append(wrong, fmt.Sprintf("%s v%d: %s", kmsg.NameForKey(req.Key()), v, problem))
			}
		}
	}
	that(len(wrong) == 0, "%s", strings.Join(wrong, "; "))
}

// sameBytes asks once, decodes the answer with kmsg and encodes it again: any byte that kmsg reads otherwise shows.
func sameBytes(conn net.Conn, req kmsg.Request) string {
	head := binary.BigEndian.AppendUint16(nil, uint16(req.Key()))
	head = binary.BigEndian.AppendUint16(head, uint16(req.GetVersion()))
	head = binary.BigEndian.AppendUint32(head, 7)
	head = append(binary.BigEndian.AppendUint16(head, 5), "sweep"...)
	if req.IsFlexible() {
		head = append(head, 0)
	}
	body := req.AppendTo(head)
	_, err := conn.Write(append(binary.BigEndian.AppendUint32(nil, uint32(len(body))), body...))
	must(err, "write")
	size := make([]byte, 4)
	if _, err := io.ReadFull(conn, size); err != nil {
		fail("%s v%d: no answer: %v", kmsg.NameForKey(req.Key()), req.GetVersion(), err)
	}
	answer := make([]byte, binary.BigEndian.Uint32(size))
	_, err = io.ReadFull(conn, answer)
	must(err, "read")
	answer = answer[4:]
	resp := req.ResponseKind()
	resp.SetVersion(req.GetVersion())
	if resp.IsFlexible() && req.Key() != 18 { // the answer to ApiVersions has the old header in every version
		if answer[0] != 0 {
			return "tags in the header"
		}
		answer = answer[1:]
	}
	if err := resp.ReadFrom(answer); err != nil {
		return err.Error()
	}
	if again := resp.AppendTo(nil); !bytes.Equal(again, answer) {
		at := 0
		for at < min(len(again), len(answer)) && again[at] == answer[at] {
			at++
		}
		return fmt.Sprintf("%d bytes came, %d make the same answer, byte %d differs", len(answer), len(again), at)
	}
	return errorIn(resp)
}

// errorIn is the first error code of the answers whose requests should succeed.
func errorIn(resp kmsg.Response) string {
	var codes []int16
	switch r := resp.(type) {
	case *kmsg.ProduceResponse:
		codes = append(codes, r.Topics[0].Partitions[0].ErrorCode)
	case *kmsg.FetchResponse:
		codes = append(codes, r.ErrorCode, r.Topics[0].Partitions[0].ErrorCode)
		if len(r.Topics[0].Partitions[0].RecordBatches) == 0 {
			return "no records"
		}
	case *kmsg.MetadataResponse:
		codes = append(codes, r.Topics[0].ErrorCode, r.Topics[0].Partitions[0].ErrorCode)
	case *kmsg.ListOffsetsResponse:
		codes = append(codes, r.Topics[0].Partitions[0].ErrorCode)
	case *kmsg.DescribeConfigsResponse:
		codes = append(codes, r.Resources[0].ErrorCode)
	case *kmsg.CreatePartitionsResponse:
		codes = append(codes, r.Topics[0].ErrorCode)
	case *kmsg.DeleteRecordsResponse:
		codes = append(codes, r.Topics[0].Partitions[0].ErrorCode)
	case *kmsg.OffsetForLeaderEpochResponse:
		codes = append(codes, r.Topics[0].Partitions[0].ErrorCode)
	}
	if i := slices.IndexFunc(codes, func(c int16) bool { return c != 0 }); i >= 0 {
		return codeName(codes[i])
	}
	return ""
}
