package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
)

var adminFacts = []fact{
	{"kadm_creates_lists_and_deletes_topics", createDelete},
	{"kadm_reports_what_cannot_be_made", cannotBeMade},
	{"kadm_adds_partitions", addPartitions},
	{"kadm_describes_and_alters_topic_settings", topicSettings},
	{"kadm_describes_and_alters_broker_settings", brokerSettings},
	{"kadm_deletes_records", deleteRecords},
	{"kadm_lists_offsets_of_every_kind", listOffsets},
	{"kadm_describes_log_dirs", logDirs},
	{"kadm_describes_producers", producers},
	{"kadm_lists_config_resources", configResources},
	{"kadm_knows_the_cluster", cluster},
}

func text(s string) *string { return &s }

func wants(err error, want *kerr.Error, what string) {
	if !errors.Is(err, want) {
		fail("%s: expected %s, got %v", what, want.Message, err)
	}
}

func createDelete(ctx context.Context) {
	names := []string{newName("made"), newName("made"), newName("made")}
	made, err := admin.CreateTopics(ctx, 2, factor(), map[string]*string{"retention.ms": text("3600000")}, names...)
	must(err, "create")
	for _, name := range names {
		must(made[name].Err, name)
		equal(made[name].NumPartitions, int32(2), "partitions")
		equal(made[name].ReplicationFactor, factor(), "replication factor")
		that(made[name].ID != kadm.TopicID{}, "no topic id")
		equal(*made[name].Configs["retention.ms"].Value, "3600000", "setting in the answer")
	}
	waitFor(ctx, "the new topics", func() bool {
		seen, err := admin.ListTopics(ctx, names...)
		must(err, "list")
		return !slices.ContainsFunc(names, func(n string) bool { return seen[n].Err != nil || seen[n].ID != made[n].ID })
	})
	gone, err := admin.DeleteTopics(ctx, names...)
	must(err, "delete")
	must(gone.Error(), "delete")
	waitFor(ctx, "topics to go", func() bool {
		seen, err := admin.ListTopics(ctx)
		must(err, "list")
		return !slices.ContainsFunc(names, seen.Has)
	})
	_, err = admin.DeleteTopic(ctx, names[0])
	wants(err, kerr.UnknownTopicOrPartition, "delete again")
	back := topicAgain(ctx, names[0])
	that(back != made[names[0]].ID, "a topic made again has its old id")
}

func topicAgain(ctx context.Context, name string) kadm.TopicID {
	made, err := admin.CreateTopic(ctx, 1, 1, nil, name)
	must(err, "create again")
	must(made.Err, "create again")
	return made.ID
}

func cannotBeMade(ctx context.Context) {
	twin := topic(ctx, "twin", 1, nil)
	for _, c := range []struct {
		name     string
		count    int32
		factor   int16
		settings map[string]*string
		want     *kerr.Error
	}{
		{twin, 1, 1, nil, kerr.TopicAlreadyExists},
		{"bad/name", 1, 1, nil, kerr.InvalidTopicException},
		{"", 1, 1, nil, kerr.InvalidTopicException},
		{newName("none"), 0, 1, nil, kerr.InvalidPartitions},
		{newName("wide"), 1, int16(len(nodes) + 1), nil, kerr.InvalidReplicationFactor},
		{newName("odd"), 1, 1, map[string]*string{"no.such.setting": text("1")}, kerr.InvalidConfig},
		{newName("null"), 1, 1, map[string]*string{"retention.ms": nil}, kerr.InvalidConfig},
		{newName("low"), 1, 1, map[string]*string{"segment.bytes": text("12")}, kerr.InvalidConfig},
		{newName("policy"), 1, 1, map[string]*string{"cleanup.policy": text("shred")}, kerr.InvalidConfig},
	} {
		made, _ := admin.CreateTopic(ctx, c.count, c.factor, c.settings, c.name)
		wants(made.Err, c.want, fmt.Sprintf("create %q", c.name))
	}
	dry := newName("dry")
	made, err := admin.ValidateCreateTopics(ctx, 3, -1, nil, dry)
	must(err, "validate")
	must(made[dry].Err, "validate")
	equal(made[dry].NumPartitions, int32(3), "partitions in the answer")
	seen, err := admin.ListTopics(ctx, dry)
	must(err, "list")
	wants(seen[dry].Err, kerr.UnknownTopicOrPartition, "a validated topic")
	def := newName("defaults")
	made, err = admin.CreateTopics(ctx, -1, -1, nil, def)
	must(err, "create with defaults")
	must(made[def].Err, "create with defaults")
	equal(made[def].NumPartitions, int32(1), "default partitions")
}

func addPartitions(ctx context.Context) {
	name := topic(ctx, "grow", 1, nil)
	grown, err := admin.UpdatePartitions(ctx, 4, name)
	must(err, "update")
	told, listed := grown[name]
	that(listed, "the answer says nothing of %s", name)
	must(told.Err, "update")
	waitFor(ctx, "four partitions", func() bool {
		seen, err := admin.ListTopics(ctx, name)
		must(err, "list")
		return len(seen[name].Partitions) == 4
	})
	for _, count := range []int{4, 2} {
		again, err := admin.UpdatePartitions(ctx, count, name)
		must(err, "update")
		wants(again[name].Err, kerr.InvalidPartitions, fmt.Sprintf("set to %d", count))
	}
	missing := newName("nosuch")
	none, err := admin.UpdatePartitions(ctx, 4, missing)
	must(err, "update")
	wants(none[missing].Err, kerr.UnknownTopicOrPartition, "an unknown topic")
	dry, err := admin.ValidateUpdatePartitions(ctx, 9, name)
	must(err, "validate")
	must(dry[name].Err, "validate")
	seen, err := admin.ListTopics(ctx, name)
	must(err, "list")
	equal(len(seen[name].Partitions), 4, "partitions after a validation")
}

func setting(rs kadm.ResourceConfigs, name, key string) kadm.Config {
	r, err := rs.On(name, nil)
	must(err, name)
	must(r.Err, name)
	for _, c := range r.Configs {
		if c.Key == key {
			return c
		}
	}
	fail("%s has no setting %s", name, key)
	return kadm.Config{}
}

func topicSettings(ctx context.Context) {
	name := topic(ctx, "settings", 1, map[string]*string{"retention.ms": text("7200000")})
	now := func(key string) kadm.Config {
		all, err := admin.DescribeTopicConfigs(ctx, name)
		must(err, "describe")
		return setting(all, name, key)
	}
	retention := now("retention.ms")
	equal(*retention.Value, "7200000", "value")
	equal(retention.Source, kmsg.ConfigSourceDynamicTopicConfig, "source")
	limit := now("max.message.bytes").Synonyms
	that(len(limit) == 1 && limit[0].Key == "message.max.bytes" && *limit[0].Value == "1048588", "synonyms: %v", limit)
	equal(now("segment.bytes").Source, kmsg.ConfigSourceDefaultConfig, "source of a default")

	alter := func(validate bool, changes ...kadm.AlterConfig) error {
		run := admin.AlterTopicConfigs
		if validate {
			run = admin.ValidateAlterTopicConfigs
		}
		done, err := run(ctx, changes, name)
		must(err, "alter")
		return done[0].Err
	}
	set := func(key, value string) kadm.AlterConfig {
		return kadm.AlterConfig{Op: kadm.SetConfig, Name: key, Value: &value}
	}
	must(alter(true, set("retention.ms", "9000000")), "validate")
	equal(*now("retention.ms").Value, "7200000", "after a validation")
	must(alter(false, set("retention.ms", "9000000"), set("max.message.bytes", "5000")), "alter")
	waitFor(ctx, "the new value", func() bool { return *now("retention.ms").Value == "9000000" })
	waitFor(ctx, "the limit in force", func() bool {
		r := &kgo.Record{Topic: name, Value: []byte(strings.Repeat("x", 6_000))}
		c := client(kgo.ProducerBatchCompression(kgo.NoCompression()))
		defer c.Close()
		return errors.Is(c.ProduceSync(ctx, r).FirstErr(), kerr.MessageTooLarge)
	})
	must(alter(false, kadm.AlterConfig{Op: kadm.DeleteConfig, Name: "retention.ms"}), "delete")
	waitFor(ctx, "the default", func() bool { return now("retention.ms").Source == kmsg.ConfigSourceDefaultConfig })
	wants(alter(false, set("retention.ms", "soon")), kerr.InvalidConfig, "a bad value")
	wants(alter(false, set("no.such.setting", "1")), kerr.InvalidConfig, "an unknown name")
	missing, err := admin.AlterTopicConfigs(ctx, []kadm.AlterConfig{set("retention.ms", "1")}, newName("nosuch"))
	must(err, "alter")
	wants(missing[0].Err, kerr.UnknownTopicOrPartition, "an unknown topic")
	done, err := admin.AlterTopicConfigsState(ctx, []kadm.AlterConfig{set("segment.bytes", "1048576")}, name)
	must(err, "replace")
	must(done[0].Err, "replace")
	waitFor(ctx, "the whole set replaced", func() bool {
		return *now("segment.bytes").Value == "1048576" && *now("max.message.bytes").Value == "1048588"
	})
}

func brokerSettings(ctx context.Context) {
	brokers, err := admin.ListBrokers(ctx)
	must(err, "brokers")
	node := brokers[0].NodeID
	now := func(key string) kadm.Config {
		all, err := admin.DescribeBrokerConfigs(ctx, node)
		must(err, "describe")
		return setting(all, fmt.Sprint(node), key)
	}
	equal(*now("message.max.bytes").Value, "1048588", "message.max.bytes")
	equal(*now("num.partitions").Value, "1", "num.partitions")
	change := []kadm.AlterConfig{{Op: kadm.SetConfig, Name: "log.retention.ms", Value: text("500000000")}}
	done, err := admin.AlterBrokerConfigs(ctx, change, node)
	must(err, "alter")
	must(done[0].Err, "alter")
	waitFor(ctx, "the new value", func() bool {
		c := now("log.retention.ms")
		return c.Value != nil && *c.Value == "500000000" && c.Source == kmsg.ConfigSourceDynamicBrokerConfig
	})
	back := []kadm.AlterConfig{{Op: kadm.DeleteConfig, Name: "log.retention.ms"}}
	done, err = admin.AlterBrokerConfigs(ctx, back, node)
	must(err, "alter back")
	must(done[0].Err, "alter back")
	fixed := []kadm.AlterConfig{{Op: kadm.SetConfig, Name: "log.dirs", Value: text("/elsewhere")}}
	done, err = admin.AlterBrokerConfigs(ctx, fixed, node)
	must(err, "alter a fixed one")
	that(done[0].Err != nil, "a setting that needs a restart was changed")
}

func deleteRecords(ctx context.Context) {
	name := topicHere(ctx, "trim", 1, nil)
	oneBatch(ctx, name, 100)
	trim := func(to int64) kadm.DeleteRecordsResponse {
		var offsets kadm.Offsets
		offsets.Add(kadm.Offset{Topic: name, Partition: 0, At: to})
		done, err := admin.DeleteRecords(ctx, offsets)
		must(err, "delete records")
		got, _ := done.Lookup(name, 0)
		return got
	}
	half := trim(37)
	must(half.Err, "to 37")
	equal(half.LowWatermark, int64(37), "low watermark")
	starts, err := admin.ListStartOffsets(ctx, name)
	must(err, "starts")
	first, _ := starts.Lookup(name, 0)
	equal(first.Offset, int64(37), "log start")
	p := fetch(ctx, fetchRequest(name, topicID(ctx, name), map[int32]int64{0: 36})).Topics[0].Partitions[0]
	code(p.ErrorCode, kerr.OffsetOutOfRange, "fetch below the start")
	equal(read(ctx, name, 0, 37, 1)[0].Offset, int64(37), "first record")
	equal(trim(20).LowWatermark, int64(37), "a lower offset changes nothing")
	wants(trim(101).Err, kerr.OffsetOutOfRange, "past the end")
	wants(trim(-2).Err, kerr.OffsetOutOfRange, "below zero")
	equal(trim(-1).LowWatermark, int64(100), "all of it")
	must(shared.ProduceSync(ctx, &kgo.Record{Topic: name, Value: []byte("after")}).FirstErr(), "produce")
	equal(read(ctx, name, 0, 100, 1)[0].Offset, int64(100), "offsets go on")
}

func listOffsets(ctx context.Context) {
	name := topic(ctx, "offsets", 1, nil)
	stamps := []int64{100, 300, 200, 400, 400, 50}
	for _, s := range stamps {
		must(shared.ProduceSync(ctx, &kgo.Record{Topic: name, Value: []byte("x"), Timestamp: time.UnixMilli(s)}).FirstErr(), "produce")
	}
	for _, c := range []struct {
		what  string
		list  func(context.Context, ...string) (kadm.ListedOffsets, error)
		at    int64
		stamp int64
	}{
		{"start", admin.ListStartOffsets, 0, -1}, {"end", admin.ListEndOffsets, 6, -1},
		{"committed", admin.ListCommittedOffsets, 6, -1}, {"largest time", admin.ListMaxTimestampOffsets, 3, 400},
		{"local start", admin.ListLocalLogStartOffsets, 0, -1}, {"latest in the tier", admin.ListLatestRemoteOffsets, -1, -1},
	} {
		all, err := c.list(ctx, name)
		must(err, c.what)
		got, _ := all.Lookup(name, 0)
		must(got.Err, c.what)
		equal(got.Offset, c.at, c.what)
		equal(got.Timestamp, c.stamp, c.what+": time")
	}
	for _, c := range []struct{ at, want, stamp int64 }{{0, 0, 100}, {101, 1, 300}, {300, 1, 300}, {301, 3, 400}, {401, 6, -1}} {
		all, err := admin.ListOffsetsAfterMilli(ctx, c.at, name)
		must(err, "by time")
		got, _ := all.Lookup(name, 0)
		equal(got.Offset, c.want, fmt.Sprintf("first at %d or later", c.at))
		if c.stamp >= 0 {
			equal(got.Timestamp, c.stamp, fmt.Sprintf("its time, asked for %d", c.at))
		}
	}
}

func logDirs(ctx context.Context) {
	name := topic(ctx, "dirs", 2, nil)
	oneBatch(ctx, name, 1_000)
	all, err := admin.DescribeAllLogDirs(ctx, nil)
	must(err, "describe")
	size, partitions := int64(0), 0
	all.Each(func(d kadm.DescribedLogDir) {
		must(d.Err, d.Dir)
		that(strings.HasPrefix(d.Dir, "/"), "directory %q", d.Dir)
		that(d.TotalBytes > d.UsableBytes && d.UsableBytes > 0, "volume: %d of %d usable", d.UsableBytes, d.TotalBytes)
		for _, p := range d.Topics[name] {
			partitions++
			size += p.Size
			equal(p.OffsetLag, int64(0), "lag")
			equal(p.IsFuture, false, "future")
		}
	})
	equal(partitions, 2*int(factor()), "replicas")
	that(size > 1_000, "%d bytes", size)
}

func producers(ctx context.Context) {
	name := topicHere(ctx, "producers", 1, nil)
	c := client()
	defer c.Close()
	for range 7 {
		must(c.ProduceSync(ctx, &kgo.Record{Topic: name, Value: []byte("x")}).FirstErr(), "produce")
	}
	id, epoch, err := c.ProducerID(ctx)
	must(err, "producer id")
	all, err := admin.DescribeProducers(ctx, kadm.TopicsSet{name: {0: {}}})
	must(err, "describe")
	p := all[name].Partitions[0]
	must(p.Err, "partition")
	equal(len(p.ActiveProducers), 1, "producers")
	got := p.ActiveProducers[id]
	equal(got.ProducerEpoch, epoch, "epoch")
	equal(got.LastSequence, int32(6), "last sequence")
	that(time.Since(time.UnixMilli(got.LastTimestamp)) < time.Minute, "last time %d", got.LastTimestamp)
	equal(got.CurrentTxnStartOffset, int64(-1), "no transaction")
	missing := kmsg.NewPtrDescribeProducersRequest()
	t := kmsg.NewDescribeProducersRequestTopic()
	t.Topic, t.Partitions = name, []int32{5}
	missing.Topics = append(missing.Topics, t)
	none := ask[*kmsg.DescribeProducersResponse](ctx, shared, missing)
	code(none.Topics[0].Partitions[0].ErrorCode, kerr.UnknownTopicOrPartition, "a partition that is not there")
}

func configResources(ctx context.Context) {
	name := topic(ctx, "resources", 1, nil)
	topics, err := admin.ListConfigResources(ctx, kadm.ConfigResourceType(kmsg.ConfigResourceTypeTopic))
	must(err, "topics")
	must(topics.Err, "topics")
	that(slices.Contains(topics.Names(), name), "the topic is missing in %v", topics.Names())
	brokers, err := admin.ListConfigResources(ctx, kadm.ConfigResourceType(kmsg.ConfigResourceTypeBroker))
	must(err, "brokers")
	known, err := admin.ListBrokers(ctx)
	must(err, "brokers")
	that(slices.Contains(brokers.Names(), fmt.Sprint(known[0].NodeID)), "the broker is missing in %v", brokers.Names())
}

func cluster(ctx context.Context) {
	seen, err := admin.BrokerMetadata(ctx)
	must(err, "metadata")
	that(seen.Cluster != "", "no cluster id")
	that(slices.Contains(seen.Brokers.NodeIDs(), seen.Controller), "controller %d is no broker", seen.Controller)
	var addresses []string
	for _, b := range seen.Brokers {
		addresses = append(addresses, fmt.Sprintf("%s:%d", b.Host, b.Port))
	}
	equal(slices.Sorted(slices.Values(addresses)), slices.Sorted(slices.Values(nodes)), "addresses")
	versions, err := admin.ApiVersions(ctx)
	must(err, "api versions")
	must(versions[seen.Brokers[0].NodeID].Err, "api versions")
	resp := ask[*kmsg.DescribeClusterResponse](ctx, shared, kmsg.NewPtrDescribeClusterRequest())
	code(resp.ErrorCode, nil, "describe cluster")
	equal(resp.ClusterID, seen.Cluster, "cluster id")
}
