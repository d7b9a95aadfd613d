package main

import (
	"bytes"
	"context"
	"encoding/binary"
	"fmt"
	"io"
	"net"
	"os"
	"reflect"
	"slices"
	"strings"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// What this broker must offer, each with a request that it can answer without an error. Whatever else a broker offers needs a
// sample too: those of what changes the cluster are in offered.go.
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

// What coordinators offer. The members and transactions are made up, so most answers are the errors of `refusals`.
func coordinatorSamples(ctx context.Context, name string, id [16]byte) []kmsg.Request {
	group, txn := keyHere(ctx, "group", 0), keyHere(ctx, "id", 1)
	find := kmsg.NewPtrFindCoordinatorRequest()
	find.CoordinatorKey, find.CoordinatorKeys = group, []string{group}
	join := kmsg.NewPtrJoinGroupRequest()
	join.Group, join.MemberID, join.ProtocolType, join.SessionTimeoutMillis = group, "nobody", "consumer", 10_000
	jp := kmsg.NewJoinGroupRequestProtocol()
	jp.Name, join.Protocols = "range", append(join.Protocols, jp)
	sync := kmsg.NewPtrSyncGroupRequest()
	sync.Group, sync.MemberID, sync.Generation = group, "nobody", 1
	kind, protocol := "consumer", "range"
	sync.ProtocolType, sync.Protocol = &kind, &protocol
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
	remove.Groups = []string{keyHere(ctx, "nosuch", 0)}
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
	batched, batchedTopic := kmsg.NewAddPartitionsToTxnRequestTransaction(), kmsg.NewAddPartitionsToTxnRequestTransactionTopic()
	batchedTopic.Topic, batchedTopic.Partitions = name, []int32{0}
	batched.TransactionalID, batched.ProducerID, batched.Topics = txn, 1, append(batched.Topics, batchedTopic)
	addParts.Transactions = append(addParts.Transactions, batched) // since version 4, which is for brokers
	addOffsets := kmsg.NewPtrAddOffsetsToTxnRequest()
	addOffsets.TransactionalID, addOffsets.ProducerID, addOffsets.Group = txn, 1, group
	txnCommit := kmsg.NewPtrTxnOffsetCommitRequest()
	txnCommit.TransactionalID, txnCommit.ProducerID, txnCommit.Group, txnCommit.Generation = txn, 1, group, -1
	tt, tp := kmsg.NewTxnOffsetCommitRequestTopic(), kmsg.NewTxnOffsetCommitRequestTopicPartition()
	tt.Topic, tt.TopicID, tt.Partitions = name, id, append(tt.Partitions, tp)
	txnCommit.Topics = append(txnCommit.Topics, tt)
	end := kmsg.NewPtrEndTxnRequest()
	end.TransactionalID, end.ProducerID = txn, 1
	describeTxn := kmsg.NewPtrDescribeTransactionsRequest()
	describeTxn.TransactionalIDs = []string{txn}
	return []kmsg.Request{find, join, sync, beat, leave, commit, fetch, describe, kmsg.NewPtrListGroupsRequest(), forget, remove,
		next, nextDescribe, begin, addParts, addOffsets, txnCommit, end, describeTxn, kmsg.NewPtrListTransactionsRequest()}
}

func everyVersion(ctx context.Context) {
	name := topicHere(ctx, "versions", 1, nil)
	id := topicID(ctx, name)
	conn, err := net.DialTimeout("tcp", nodes[0], 5*time.Second)
	must(err, "connect")
	defer conn.Close()
	must(conn.SetDeadline(time.Now().Add(factSecondsMax*time.Second)), "deadline")
	logInRaw(conn)
	offered := map[int16]kmsg.ApiVersionsResponseApiKey{}
	ours := kmsg.NewPtrApiVersionsRequest()
	ours.ClientSoftwareName, ours.ClientSoftwareVersion = "tests", "1"
	for _, k := range ask[*kmsg.ApiVersionsResponse](ctx, shared, ours).ApiKeys {
		offered[k.ApiKey] = k
	}
	for _, kind := range []int8{0, 1} { // the first question makes the internal topic of groups, of transactions
		find := kmsg.NewPtrFindCoordinatorRequest()
		find.CoordinatorKey, find.CoordinatorKeys, find.CoordinatorType = "any", []string{"any"}, kind
		waitFor(ctx, "coordinators", func() bool {
			return ask[*kmsg.FindCoordinatorResponse](ctx, shared, find).Coordinators[0].ErrorCode == 0
		})
	}
	if isLoggedIn() { // then there is an authorizer, and a login besides that a token could stand for
		for _, key := range []kmsg.Key{kmsg.DescribeACLs, kmsg.CreateACLs, kmsg.DeleteACLs} {
			delete(refusals, key.Int16())
		}
		for _, key := range []kmsg.Key{kmsg.CreateDelegationToken, kmsg.RenewDelegationToken, kmsg.ExpireDelegationToken, kmsg.DescribeDelegationToken} {
			refusals[key.Int16()] = kerr.DelegationTokenAuthDisabled
		}
	}
	var wrong []string
	due := append(samples(name, id), coordinatorSamples(ctx, name, id)...)
	for _, req := range due {
		if _, listed := offered[req.Key()]; !listed {
			wrong = append(wrong, kmsg.NameForKey(req.Key())+" is not offered")
		}
	}
	due = append(due, clusterSamples(ctx, name)...)
	for key, versions := range offered {
		at := slices.IndexFunc(due, func(req kmsg.Request) bool { return req.Key() == key })
		switch {
		case os.Getenv("BROKER_KIND") == "kafka": // which offers more than we do
		case slices.Contains(betweenNodes, kmsg.Key(key)):
		case at < 0:
			wrong = append(wrong, kmsg.NameForKey(key)+" is offered and has no sample")
		case due[at].MaxVersion() < versions.MaxVersion:
			wrong = append(wrong, fmt.Sprintf("%s v%d is offered and unknown to kmsg", kmsg.NameForKey(key), versions.MaxVersion))
		}
	}
	for _, req := range due {
		key, listed := offered[req.Key()]
		if !listed {
			continue
		}
		for v := key.MinVersion; v <= min(key.MaxVersion, req.MaxVersion()); v++ {
			if req.Key() == 0 && v < 3 {
				continue // offered for old librdkafka only
			}
			req.SetVersion(v)
			problem, tries := "", 0
			waitFor(ctx, kmsg.NameForKey(req.Key()), func() (isThere bool) {
				var again bool
				problem, again = sameBytes(conn, req)
				tries++
				return !again || tries == triesMax
			})
			if problem != "" {
				wrong = append(wrong, fmt.Sprintf("%s v%d: %s", kmsg.NameForKey(req.Key()), v, problem))
			}
		}
	}
	that(len(wrong) == 0, "%s", strings.Join(wrong, "; "))
}

func isLoggedIn() bool { return os.Getenv("ESKER_SASL_USER") != "" }

// logInRaw says who is at the other end, in a run with logins: by PLAIN, which every listener of such a run offers.
func logInRaw(conn net.Conn) {
	if !isLoggedIn() {
		return
	}
	handshake, login := kmsg.NewPtrSASLHandshakeRequest(), kmsg.NewPtrSASLAuthenticateRequest()
	handshake.Mechanism, handshake.Version = "PLAIN", 1
	login.SASLAuthBytes = []byte("\x00" + os.Getenv("ESKER_SASL_USER") + "\x00" + os.Getenv("ESKER_SASL_PASSWORD"))
	for _, req := range []kmsg.Request{handshake, login} {
		answer := exchange(conn, req)
		equal(binary.BigEndian.Uint16(answer), 0, "code of "+kmsg.NameForKey(req.Key()))
	}
}

// sameBytes asks once, decodes the answer with kmsg and encodes it again: any byte that kmsg reads otherwise shows. Then it judges
// the codes; `again` tells that a coordinator is on its way.
func sameBytes(conn net.Conn, req kmsg.Request) (problem string, again bool) {
	answer := exchange(conn, req)
	resp := req.ResponseKind()
	resp.SetVersion(req.GetVersion())
	if resp.IsFlexible() && req.Key() != 18 { // the answer to ApiVersions has the old header in every version
		if answer[0] != 0 {
			return "tags in the header", false
		}
		answer = answer[1:]
	}
	if err := resp.ReadFrom(answer); err != nil {
		return err.Error(), false
	}
	if same := resp.AppendTo(nil); !bytes.Equal(same, answer) {
		at := 0
		for at < min(len(same), len(answer)) && same[at] == answer[at] {
			at++
		}
		return fmt.Sprintf("%d bytes came, %d make the same answer, byte %d differs", len(answer), len(same), at), false
	}
	codes := codesIn(reflect.ValueOf(resp))
	if slices.ContainsFunc(codes, func(c int16) bool { return slices.Contains(notYet, c) }) {
		return wrongCode(resp, codes), true
	}
	return wrongCode(resp, codes), false
}

// exchange sends a request and returns what came behind the correlation id.
func exchange(conn net.Conn, req kmsg.Request) []byte {
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
	return answer[4:]
}

// What is answered to a sample that is meant to fail; to all others, in every version, no error.
var refusals = map[int16]*kerr.Error{
	kmsg.CreateTopics.Int16():                 kerr.TopicAlreadyExists,
	kmsg.DeleteTopics.Int16():                 kerr.UnknownTopicOrPartition,
	kmsg.JoinGroup.Int16():                    kerr.UnknownMemberID,
	kmsg.SyncGroup.Int16():                    kerr.UnknownMemberID,
	kmsg.Heartbeat.Int16():                    kerr.UnknownMemberID,
	kmsg.LeaveGroup.Int16():                   kerr.UnknownMemberID,
	kmsg.DeleteGroups.Int16():                 kerr.GroupIDNotFound,
	kmsg.ConsumerGroupHeartbeat.Int16():       kerr.GroupIDNotFound,
	kmsg.ConsumerGroupDescribe.Int16():        kerr.GroupIDNotFound,
	kmsg.AddPartitionsToTxn.Int16():           kerr.InvalidProducerIDMapping,
	kmsg.AddOffsetsToTxn.Int16():              kerr.InvalidProducerIDMapping,
	kmsg.TxnOffsetCommit.Int16():              kerr.InvalidProducerIDMapping,
	kmsg.EndTxn.Int16():                       kerr.InvalidProducerIDMapping,
	kmsg.AlterReplicaLogDirs.Int16():          kerr.LogDirNotFound,
	kmsg.ElectLeaders.Int16():                 kerr.ElectionNotNeeded,
	kmsg.CreateDelegationToken.Int16():        kerr.DelegationTokenRequestNotAllowed,
	kmsg.RenewDelegationToken.Int16():         kerr.DelegationTokenRequestNotAllowed,
	kmsg.ExpireDelegationToken.Int16():        kerr.DelegationTokenRequestNotAllowed,
	kmsg.DescribeDelegationToken.Int16():      kerr.DelegationTokenRequestNotAllowed,
	kmsg.SASLHandshake.Int16():                kerr.IllegalSaslState,
	kmsg.SASLAuthenticate.Int16():             kerr.IllegalSaslState,
	kmsg.DescribeACLs.Int16():                 kerr.SecurityDisabled,
	kmsg.DescribeUserSCRAMCredentials.Int16(): kerr.ResourceNotFound,
	kmsg.AlterUserSCRAMCredentials.Int16():    kerr.ResourceNotFound,
	kmsg.UnregisterBroker.Int16():             kerr.BrokerIDNotRegistered,
	kmsg.UnregisterController.Int16():         kerr.ControllerIDNotRegistered,
	kmsg.CreateACLs.Int16():                   kerr.SecurityDisabled,
	kmsg.DeleteACLs.Int16():                   kerr.SecurityDisabled,
}

// How often a coordinator that is on its way is asked.
const triesMax = 50

// Codes of a coordinator that is on its way, or whose last transaction still ends: asked again.
var notYet = []int16{14, 15, 16, 51}

// codesIn is every error code of an answer, wherever it is.
func codesIn(v reflect.Value) (codes []int16) {
	switch v.Kind() {
	case reflect.Pointer, reflect.Interface:
		if !v.IsNil() {
			codes = codesIn(v.Elem())
		}
	case reflect.Slice:
		for i := range v.Len() {
			codes = append(codes, codesIn(v.Index(i))...)
		}
	case reflect.Struct:
		for i := range v.NumField() {
			switch field := v.Type().Field(i); {
			case field.Name == "ErrorCode" && field.Type.Kind() == reflect.Int16:
				codes = append(codes, int16(v.Field(i).Int()))
			case field.IsExported():
				codes = append(codes, codesIn(v.Field(i))...)
			}
		}
	}
	return codes
}

// wrongCode is what is wrong with the codes of an answer. A refusal may be told on top, in a part, or in both.
func wrongCode(resp kmsg.Response, codes []int16) string {
	if len(codes) == 0 {
		return "nothing that could be an error"
	}
	if r, is := resp.(*kmsg.FetchResponse); is && len(r.Topics[0].Partitions[0].RecordBatches) == 0 {
		return "no records"
	}
	want := int16(0)
	if refusal := refusals[resp.Key()]; refusal != nil {
		want = refusal.Code
		if !slices.Contains(codes, want) {
			return fmt.Sprintf("%s is due, the codes are %v", refusal.Message, codes)
		}
	}
	if i := slices.IndexFunc(codes, func(c int16) bool { return c != 0 && c != want }); i >= 0 {
		return codeName(codes[i])
	}
	return ""
}
