package main

import (
	"context"

	"github.com/twmb/franz-go/pkg/kmsg"
)

// betweenNodes is what a node offers to others, one that is alone too, because it may grow: a sample would vote, register or fence.
var betweenNodes = []kmsg.Key{kmsg.AddRaftVoter, kmsg.AllocateProducerIDs, kmsg.AlterPartition, kmsg.AssignReplicasToDirs, kmsg.BeginQuorumEpoch,
	kmsg.BrokerHeartbeat, kmsg.BrokerRegistration, kmsg.ControllerRegistration, kmsg.EndQuorumEpoch, kmsg.Envelope, kmsg.FetchSnapshot, kmsg.RemoveRaftVoter,
	kmsg.UpdateRaftVoter, kmsg.Vote}

// clusterSamples are of what a broker may offer besides: it acts on the cluster, or on what is not set up.
func clusterSamples(ctx context.Context, name string) []kmsg.Request {
	markers, marker, place := kmsg.NewPtrWriteTxnMarkersRequest(), kmsg.NewWriteTxnMarkersRequestMarker(), kmsg.NewWriteTxnMarkersRequestMarkerTopic()
	place.Topic, place.Partitions = name, []int32{0}
	marker.ProducerID, marker.Topics = 4_711, append(marker.Topics, place)
	markers.Markers = append(markers.Markers, marker)
	move, dir, moved := kmsg.NewPtrAlterReplicaLogDirsRequest(), kmsg.NewAlterReplicaLogDirsRequestDir(), kmsg.NewAlterReplicaLogDirsRequestDirTopic()
	moved.Topic, moved.Partitions = name, []int32{0}
	dir.Dir, dir.Topics = "/nosuch", append(dir.Topics, moved)
	move.Dirs = append(move.Dirs, dir)
	elect, elected := kmsg.NewPtrElectLeadersRequest(), kmsg.NewElectLeadersRequestTopic()
	elected.Topic, elected.Partitions = name, []int32{0}
	elect.Topics, elect.TimeoutMillis = append(elect.Topics, elected), 5_000
	assign, assigned := kmsg.NewPtrAlterPartitionAssignmentsRequest(), kmsg.NewAlterPartitionAssignmentsRequestTopic()
	replicas := kmsg.NewAlterPartitionAssignmentsRequestTopicPartition()
	replicas.Replicas = []int32{here(ctx)}
	assigned.Topic, assigned.Partitions = name, append(assigned.Partitions, replicas)
	assign.Topics, assign.TimeoutMillis = append(assign.Topics, assigned), 5_000
	list := kmsg.NewPtrListPartitionReassignmentsRequest()
	list.TimeoutMillis = 5_000
	quorum, of := kmsg.NewPtrDescribeQuorumRequest(), kmsg.NewDescribeQuorumRequestTopic()
	of.Topic, of.Partitions = "__cluster_metadata", append(of.Partitions, kmsg.NewDescribeQuorumRequestTopicPartition())
	quorum.Topics = append(quorum.Topics, of)
	create, remove := kmsg.NewPtrCreateACLsRequest(), kmsg.NewPtrDeleteACLsRequest()
	rule, filter := kmsg.NewCreateACLsRequestCreation(), kmsg.NewDeleteACLsRequestFilter()
	rule.ResourceType, rule.ResourceName, rule.ResourcePatternType = kmsg.ACLResourceTypeTopic, name, kmsg.ACLResourcePatternTypeLiteral
	rule.Principal, rule.Host, rule.Operation, rule.PermissionType = "User:a", "*", kmsg.ACLOperationRead, kmsg.ACLPermissionTypeAllow
	filter.ResourceType, filter.ResourceName, filter.ResourcePatternType = kmsg.ACLResourceTypeTopic, &name, kmsg.ACLResourcePatternTypeLiteral
	filter.Operation, filter.PermissionType = kmsg.ACLOperationAny, kmsg.ACLPermissionTypeAny
	create.Creations, remove.Filters = append(create.Creations, rule), append(remove.Filters, filter)
	describe := kmsg.NewPtrDescribeACLsRequest()
	describe.ResourceType, describe.ResourcePatternType = kmsg.ACLResourceTypeAny, kmsg.ACLResourcePatternTypeAny
	describe.Operation, describe.PermissionType = kmsg.ACLOperationAny, kmsg.ACLPermissionTypeAny
	quotas, everyUser := kmsg.NewPtrDescribeClientQuotasRequest(), kmsg.NewDescribeClientQuotasRequestComponent()
	everyUser.EntityType, everyUser.MatchType = "user", kmsg.QuotasMatchTypeAny
	quotas.Components = append(quotas.Components, everyUser)
	users, stranger := kmsg.NewPtrDescribeUserSCRAMCredentialsRequest(), kmsg.NewDescribeUserSCRAMCredentialsRequestUser()
	stranger.Name = "nobody"
	users.Users = append(users.Users, stranger)
	passwords, unknown := kmsg.NewPtrAlterUserSCRAMCredentialsRequest(), kmsg.NewAlterUserSCRAMCredentialsRequestDeletion()
	unknown.Name, unknown.Mechanism = "nobody", 1
	passwords.Deletions = append(passwords.Deletions, unknown)
	gone := kmsg.NewPtrUnregisterBrokerRequest()
	gone.BrokerID = 4_711
	goneController := kmsg.NewPtrUnregisterControllerRequest()
	goneController.ControllerID = 4_711
	return []kmsg.Request{markers, move, elect, assign, list, quorum, kmsg.NewPtrUpdateFeaturesRequest(), create, remove, describe,
		kmsg.NewPtrCreateDelegationTokenRequest(), kmsg.NewPtrRenewDelegationTokenRequest(), kmsg.NewPtrExpireDelegationTokenRequest(),
		kmsg.NewPtrDescribeDelegationTokenRequest(), kmsg.NewPtrGetTelemetrySubscriptionsRequest(), kmsg.NewPtrPushTelemetryRequest(),
		kmsg.NewPtrSASLHandshakeRequest(), kmsg.NewPtrSASLAuthenticateRequest(), quotas, users, passwords, gone, goneController}
}
