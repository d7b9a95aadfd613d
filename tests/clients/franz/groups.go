package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
)

var groupFacts = []fact{
	{"cooperative_members_share_and_a_later_one_goes_on_where_they_committed", func(ctx context.Context) {
		sharing(ctx, kgo.Balancers(kgo.CooperativeStickyBalancer()))
	}},
	{"eager_members_share_and_a_later_one_goes_on_where_they_committed", func(ctx context.Context) {
		sharing(ctx, kgo.Balancers(kgo.RangeBalancer()))
	}},
	{"consumer_protocol_members_share_and_a_later_one_goes_on_where_they_committed", func(ctx context.Context) {
		sharing(ctx, kgo.Balancers(kgo.StickyBalancer()), kgo.ServerSideBalancer())
	}},
	{"a_static_member_that_comes_back_gets_what_it_had", staticMember},
	{"the_broker_resolves_a_pattern_and_finds_topics_that_come_later", brokerPattern},
	{"a_group_of_both_protocols_is_listed_by_its_type_and_state", listedGroups},
	{"committed_offsets_return_with_metadata_and_epoch", committedMetadata},
	{"offsets_are_refused_to_members_the_group_does_not_know", foreignCommit},
	{"lag_is_what_is_left_to_read", groupLag},
	{"a_group_is_deleted_when_its_members_are_gone", deletedGroup},
}

// member is a consumer in a group, polled by its own goroutine until closed.
type member struct {
	client *kgo.Client
	done   chan struct{}

	mu    sync.Mutex
	owned map[string][]int32
	got   []string // topic/partition:offset
	fault error
}

func join(group, name string, opts ...kgo.Opt) *member {
	m := &member{done: make(chan struct{}), owned: map[string][]int32{}}
	given := func(_ context.Context, _ *kgo.Client, parts map[string][]int32) {
		m.mu.Lock()
		defer m.mu.Unlock()
		for t, ps := range parts {
			m.owned[t] = append(m.owned[t], ps...)
		}
	}
	taken := func(_ context.Context, _ *kgo.Client, parts map[string][]int32) {
		m.mu.Lock()
		defer m.mu.Unlock()
		for t, ps := range parts {
			m.owned[t] = slices.DeleteFunc(m.owned[t], func(p int32) bool { return slices.Contains(ps, p) })
		}
	}
	m.client = client(append([]kgo.Opt{
		kgo.ConsumerGroup(group), kgo.ConsumeTopics(name), kgo.DisableAutoCommit(), kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()),
		kgo.HeartbeatInterval(300 * time.Millisecond), kgo.FetchMaxWait(100 * time.Millisecond), kgo.MetadataMinAge(100 * time.Millisecond),
		kgo.MetadataMaxAge(time.Second), kgo.OnPartitionsAssigned(given), kgo.OnPartitionsRevoked(taken), kgo.OnPartitionsLost(taken),
	}, opts...)...)
	go func() {
		defer close(m.done)
		for {
			fetches := m.client.PollFetches(context.Background())
			if fetches.IsClientClosed() {
				return
			}
			m.mu.Lock()
			for _, e := range fetches.Errors() {
				m.fault = e.Err
			}
			fetches.EachRecord(func(r *kgo.Record) {
				m.got = append(m.got, fmt.Sprintf("%s/%d:%d", r.Topic, r.Partition, r.Offset))
			})
			m.mu.Unlock()
		}
	}()
	return m
}

func (m *member) close() {
	m.client.Close()
	<-m.done
	must(m.fault, "a member's fetch")
}

func (m *member) partitions(name string) []int32 {
	m.mu.Lock()
	defer m.mu.Unlock()
	return slices.Sorted(slices.Values(m.owned[name]))
}

func (m *member) records() []string {
	m.mu.Lock()
	defer m.mu.Unlock()
	return slices.Clone(m.got)
}

// share tells whether every partition has one owner and every member has a part.
func share(name string, partitions int, members ...*member) bool {
	var owned []int32
	for _, m := range members {
		own := m.partitions(name)
		if len(own) == 0 {
			return false
		}
		owned = append(owned, own...)
	}
	slices.Sort(owned)
	return len(owned) == partitions && len(slices.Compact(owned)) == partitions
}

func fillPartitions(ctx context.Context, name string, partitions, each int) {
	c := client(kgo.RecordPartitioner(kgo.ManualPartitioner()))
	defer c.Close()
	var records []*kgo.Record
	for i := range partitions * each {
		records = append(records, &kgo.Record{Topic: name, Partition: int32(i % partitions), Value: fmt.Appendf(nil, "%d", i)})
	}
	produceAll(ctx, c, records)
}

func places(name string, partitions int, offsets ...int64) []string {
	var all []string
	for p := range partitions {
		for _, o := range offsets {
			all = append(all, fmt.Sprintf("%s/%d:%d", name, p, o))
		}
	}
	slices.Sort(all)
	return all
}

func sharing(ctx context.Context, opts ...kgo.Opt) {
	const partitions, each = 6, 50
	name, group := topic(ctx, "share", partitions, nil), newName("group")
	fillPartitions(ctx, name, partitions, each)
	one, two := join(group, name, opts...), join(group, name, opts...)
	waitFor(ctx, "two members share", func() bool { return share(name, partitions, one, two) })
	waitFor(ctx, "every record", func() bool {
		return len(slices.Compact(slices.Sorted(slices.Values(append(one.records(), two.records()...))))) == partitions*each
	})
	for _, m := range []*member{one, two} {
		ends := map[string]map[int32]kgo.EpochOffset{name: {}}
		for _, p := range m.partitions(name) {
			ends[name][p] = kgo.EpochOffset{Epoch: -1, Offset: each}
		}
		var refused error
		m.client.CommitOffsetsSync(ctx, ends, func(_ *kgo.Client, _ *kmsg.OffsetCommitRequest, r *kmsg.OffsetCommitResponse, err error) {
			refused = err
			if r != nil && err == nil {
				for _, p := range r.Topics[0].Partitions {
					refused = errors.Join(refused, kerr.ErrorForCode(p.ErrorCode))
				}
			}
		})
		must(refused, "commit")
		m.close()
	}
	fillPartitions(ctx, name, partitions, 1)
	three := join(group, name, opts...)
	waitFor(ctx, "the records behind the committed offsets", func() bool { return len(three.records()) >= partitions })
	equal(slices.Sorted(slices.Values(three.records())), places(name, partitions, each), "what a later member reads")
	three.close()
}

func staticMember(ctx context.Context) {
	name, group := topic(ctx, "static", 4, nil), newName("group")
	balancer := kgo.Balancers(kgo.CooperativeStickyBalancer())
	one, two := join(group, name, balancer, kgo.InstanceID("one")), join(group, name, balancer, kgo.InstanceID("two"))
	waitFor(ctx, "two static members share", func() bool { return share(name, 4, one, two) })
	kept, had := one.partitions(name), two.partitions(name)
	two.close() // a static member does not leave: its share stays its own until its session ends
	two = join(group, name, balancer, kgo.InstanceID("two"))
	waitFor(ctx, "the same partitions again", func() bool { return slices.Equal(two.partitions(name), had) })
	equal(one.partitions(name), kept, "what the other member has")
	one.close()
	two.close()
}

func brokerPattern(ctx context.Context) {
	prefix, group := newName("regex"), newName("group")
	early := topic(ctx, prefix+"-a", 1, nil)
	m := join(group, "^"+prefix+"-.*", kgo.ConsumeRegex(), kgo.Balancers(kgo.StickyBalancer()), kgo.ServerSideBalancer())
	defer m.close()
	waitFor(ctx, "the topic that is there", func() bool { return len(m.partitions(early)) == 1 })
	late := topic(ctx, prefix+"-b", 1, nil)
	waitFor(ctx, "the topic that came later", func() bool { return len(m.partitions(late)) == 1 })
	equal(len(m.partitions(early)), 1, "the first topic")
}

func listedGroups(ctx context.Context) {
	name := topic(ctx, "listed", 2, nil)
	for kind, opts := range map[string][]kgo.Opt{
		"classic":  {kgo.Balancers(kgo.RangeBalancer())},
		"consumer": {kgo.Balancers(kgo.StickyBalancer()), kgo.ServerSideBalancer()},
	} {
		group := newName("group")
		m := join(group, name, opts...)
		waitFor(ctx, "one member owns all", func() bool { return share(name, 2, m) })
		waitFor(ctx, "a stable group", func() bool {
			req := kmsg.NewPtrListGroupsRequest()
			req.StatesFilter, req.TypesFilter = []string{"stable"}, []string{kind}
			for _, g := range coordinated[*kmsg.ListGroupsResponse](ctx, req).Groups {
				if g.Group == group {
					equal(g.GroupType, kind, "type")
					equal(g.ProtocolType, "consumer", "protocol type")
					return true
				}
			}
			return false
		})
		m.close()
	}
}

// coordinated sends one request to the coordinator of its group or transactional id; one that is loading is asked again.
func coordinated[R kmsg.Response](ctx context.Context, req kmsg.Request) R {
	resp, err := shared.Request(ctx, req)
	must(err, kmsg.NameForKey(req.Key()))
	return resp.(R)
}

func committedMetadata(ctx context.Context) {
	name, group := topic(ctx, "committed", 2, nil), newName("group")
	var offsets kadm.Offsets
	offsets.Add(kadm.Offset{Topic: name, Partition: 0, At: 7, LeaderEpoch: 0, Metadata: "seven"})
	offsets.Add(kadm.Offset{Topic: name, Partition: 1, At: 0, LeaderEpoch: -1})
	must(admin.CommitAllOffsets(ctx, group, offsets), "commit")
	back, err := admin.FetchOffsets(ctx, group)
	must(err, "fetch")
	first, _ := back.Lookup(name, 0)
	equal([]any{first.At, first.LeaderEpoch, first.Metadata}, []any{int64(7), int32(0), "seven"}, "partition 0")
	second, _ := back.Lookup(name, 1)
	equal([]any{second.At, second.LeaderEpoch, second.Metadata}, []any{int64(0), int32(-1), ""}, "partition 1")

	var large kadm.Offsets
	large.Add(kadm.Offset{Topic: name, Partition: 0, At: 8, Metadata: string(make([]byte, 5_000))})
	err = admin.CommitAllOffsets(ctx, group, large)
	that(errors.Is(err, kerr.OffsetMetadataTooLarge), "5,000 bytes of metadata: got %v", err)
}

func foreignCommit(ctx context.Context) {
	name := topic(ctx, "foreign", 1, nil)
	commit := func(group, member string, generation int32) int16 {
		req := kmsg.NewPtrOffsetCommitRequest()
		req.Group, req.MemberID, req.Generation = group, member, generation
		part := kmsg.NewOffsetCommitRequestTopicPartition()
		part.Offset = 3
		t := kmsg.NewOffsetCommitRequestTopic()
		t.Topic, t.Partitions = name, []kmsg.OffsetCommitRequestTopicPartition{part}
		t.TopicID = topicID(ctx, name)
		req.Topics = []kmsg.OffsetCommitRequestTopic{t}
		return coordinated[*kmsg.OffsetCommitResponse](ctx, req).Topics[0].Partitions[0].ErrorCode
	}
	code(commit(newName("group"), "nobody", 5), kerr.GroupIDNotFound, "a member of a group that is not there")
	for kind, opts := range map[string][]kgo.Opt{
		"classic":  {kgo.Balancers(kgo.RangeBalancer())},
		"consumer": {kgo.Balancers(kgo.StickyBalancer()), kgo.ServerSideBalancer()},
	} {
		group := newName("group")
		m := join(group, name, opts...)
		waitFor(ctx, "one member owns all", func() bool { return share(name, 1, m) })
		code(commit(group, "nobody", 1), kerr.UnknownMemberID, kind+": an unknown member")
		id, generation := m.client.GroupMetadata()
		if kind == "classic" {
			code(commit(group, id, generation+1), kerr.IllegalGeneration, kind+": a generation to come")
		} else {
			code(commit(group, id, generation+1), kerr.StaleMemberEpoch, kind+": an epoch to come")
		}
		code(commit(group, id, generation), nil, kind+": the member itself")
		m.close()
	}
}

func groupLag(ctx context.Context) {
	name, group := topic(ctx, "lag", 2, nil), newName("group")
	fillPartitions(ctx, name, 2, 20)
	m := join(group, name, kgo.Balancers(kgo.RangeBalancer()))
	waitFor(ctx, "every record", func() bool { return len(m.records()) == 40 })
	must(m.client.CommitUncommittedOffsets(ctx), "commit")
	fillPartitions(ctx, name, 2, 3)
	lags, err := admin.Lag(ctx, group)
	must(err, "lag")
	lag := lags[group]
	must(lag.Error(), "lag of the group")
	equal(lag.State, "Stable", "state")
	for p := range int32(2) {
		one, known := lag.Lag.Lookup(name, p)
		that(known, "no lag of partition %d", p)
		equal([]int64{one.Commit.At, one.End.Offset, one.Lag}, []int64{20, 23, 3}, "commit, end, lag")
	}
	m.close()
}

func deletedGroup(ctx context.Context) {
	name, group := topic(ctx, "deleted", 1, nil), newName("group")
	m := join(group, name, kgo.Balancers(kgo.RangeBalancer()))
	waitFor(ctx, "one member owns all", func() bool { return share(name, 1, m) })
	gone, err := admin.DeleteGroups(ctx, group)
	must(err, "delete")
	that(errors.Is(gone[group].Err, kerr.NonEmptyGroup), "with a member: got %v", gone[group].Err)
	m.close()
	gone, err = admin.DeleteGroups(ctx, group)
	must(err, "delete")
	must(gone[group].Err, "without members")
	gone, err = admin.DeleteGroups(ctx, group)
	must(err, "delete")
	that(errors.Is(gone[group].Err, kerr.GroupIDNotFound), "a second time: got %v", gone[group].Err)
}
