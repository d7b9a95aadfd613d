package main

import (
	"context"
	"errors"
	"os"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
	"github.com/twmb/franz-go/pkg/sasl/scram"
)

// rights makes a user and rules about it, sees them obeyed within a second, and deletes them.
func rights(ctx context.Context) {
	place, user := topic(ctx, "rights", 1, nil), newName("dora")
	password := os.Getenv("ESKER_SASL_PASSWORD") + "-" + user // found as the run's is, wherever it leaks to
	alter := func(del []kadm.DeleteSCRAM, upsert []kadm.UpsertSCRAM) error {
		altered, err := admin.AlterUserSCRAMs(ctx, del, upsert)
		must(err, "alter users")
		return altered[user].Err
	}
	must(alter(nil, []kadm.UpsertSCRAM{{User: user, Mechanism: kadm.ScramSha256, Iterations: 4_096, Password: password}}), "add")
	seen, err := admin.DescribeUserSCRAMs(ctx, user)
	must(err, "describe the user")
	equal(seen[user].CredInfos, []kadm.CredInfo{{Mechanism: kadm.ScramSha256, Iterations: 4_096}}, "what is known of the user")

	as := func() *kgo.Client {
		login := kgo.SASL(scram.Auth{User: user, Pass: password}.AsSha256Mechanism())
		c, err := kgo.NewClient(kgo.SeedBrokers(nodes...), login)
		must(err, "client")
		return c
	}
	own := as()
	defer own.Close()
	writes := func() error { return own.ProduceSync(ctx, &kgo.Record{Topic: place, Value: []byte("x")}).FirstErr() }
	sees := func() error { // kadm would answer from what the client remembers
		request, wanted := kmsg.NewPtrMetadataRequest(), kmsg.NewMetadataRequestTopic()
		wanted.Topic = &place
		request.Topics = append(request.Topics, wanted)
		return kerr.ErrorForCode(ask[*kmsg.MetadataResponse](ctx, own, request).Topics[0].ErrorCode)
	}
	is := func(got error, want *kerr.Error, what string) {
		that(errors.Is(got, want), "%s: %v instead of %s", what, got, want.Message)
	}
	// within a second of a change, whoever asks later is told what it says
	soon := func(want error, what string) {
		for change := time.Now(); ; time.Sleep(20 * time.Millisecond) {
			begin := time.Now()
			got := sees()
			if errors.Is(got, want) {
				return
			}
			that(begin.Before(change.Add(time.Second)), "%s: %v instead of %v", what, got, want)
		}
	}
	is(sees(), kerr.TopicAuthorizationFailed, "describing without a rule")
	is(writes(), kerr.TopicAuthorizationFailed, "writing without a rule")
	_, err = kadm.NewClient(own).DescribeUserSCRAMs(ctx, user)
	is(err, kerr.ClusterAuthorizationFailed, "looking at users without a rule")

	rule := kadm.NewACLs().Topics(place).ResourcePatternType(kadm.ACLPatternLiteral).Operations(kadm.OpWrite).Allow("User:" + user).AllowHosts("*")
	made, err := admin.CreateACLs(ctx, rule)
	must(err, "make a rule")
	must(made[0].Err, "make a rule")
	soon(nil, "describing, as who may write may")
	must(writes(), "writing by a rule")

	all := kadm.NewACLs().Topics(place).ResourcePatternType(kadm.ACLPatternAny).Operations(kadm.OpAny).Allow("User:" + user).AllowHosts()
	listed, err := admin.DescribeACLs(ctx, all)
	must(err, "list rules")
	equal(len(listed[0].Described), 1, "rules")
	equal(listed[0].Described[0].Operation, kadm.OpWrite, "operation")
	deleted, err := admin.DeleteACLs(ctx, all)
	must(err, "delete rules")
	equal(len(deleted[0].Deleted), 1, "rules that were deleted")
	soon(kerr.TopicAuthorizationFailed, "describing after the rule went")
	is(writes(), kerr.TopicAuthorizationFailed, "writing after the rule went")

	del := []kadm.DeleteSCRAM{{User: user, Mechanism: kadm.ScramSha256}}
	must(alter(del, nil), "delete the user")
	is(alter(del, nil), kerr.ResourceNotFound, "deleting the user again")
	late := as()
	defer late.Close()
	is(late.Ping(ctx), kerr.SaslAuthenticationFailed, "who is no user any more")
}
