//! Every error code of Kafka 4.4: number, name, whether trying again may help, and what it means.
//!
//! Owns the table and nothing else: which code answers which mistake is decided where the request is handled. A number that is
//! not in the table is refused by [`TryFrom`], so an unknown code cannot travel as a known one.

use std::fmt;

macro_rules! retriable {
    (retry) => {
        true
    };
    (final) => {
        false
    };
}

macro_rules! codes {
    ($($(#[$attribute:meta])? $variant:ident = $code:literal, $name:literal, $retry:tt, $message:literal;)*) => {
        #[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
        #[repr(i16)]
        pub enum ErrorCode {
            $($(#[$attribute])? #[doc = $message] $variant = $code,)*
        }

        impl ErrorCode {
            /// In the order of their numbers.
            pub const ALL: &[ErrorCode] = &[$(ErrorCode::$variant,)*];

            /// The protocol's name, `UPPER_SNAKE`.
            #[must_use]
            pub fn name(self) -> &'static str {
                match self {
                    $(ErrorCode::$variant => $name,)*
                }
            }

            /// True if the same request may succeed later without a change.
            #[must_use]
            pub fn is_retriable(self) -> bool {
                match self {
                    $(ErrorCode::$variant => retriable!($retry),)*
                }
            }

            /// One short sentence for people.
            #[must_use]
            pub fn message(self) -> &'static str {
                match self {
                    $(ErrorCode::$variant => $message,)*
                }
            }
        }

        impl TryFrom<i16> for ErrorCode {
            type Error = UnknownErrorCode;

            fn try_from(code: i16) -> Result<Self, UnknownErrorCode> {
                match code {
                    $($code => Ok(ErrorCode::$variant),)*
                    _ => Err(UnknownErrorCode(code)),
                }
            }
        }
    };
}

codes! {
    UnknownServerError = -1, "UNKNOWN_SERVER_ERROR", final, "the broker failed in a way it did not foresee";
    #[default]
    None = 0, "NONE", final, "no error";
    OffsetOutOfRange = 1, "OFFSET_OUT_OF_RANGE", final, "the offset lies outside the range this partition holds";
    CorruptMessage = 2, "CORRUPT_MESSAGE", retry, "the batch is damaged: wrong checksum, impossible size, or no key where compaction needs one";
    UnknownTopicOrPartition = 3, "UNKNOWN_TOPIC_OR_PARTITION", retry, "this broker has no such topic or partition";
    InvalidFetchSize = 4, "INVALID_FETCH_SIZE", final, "the requested fetch size makes no sense";
    LeaderNotAvailable = 5, "LEADER_NOT_AVAILABLE", retry, "the partition has no leader at the moment";
    NotLeaderOrFollower = 6, "NOT_LEADER_OR_FOLLOWER", retry, "this broker is not the leader, or no replica, of the partition";
    RequestTimedOut = 7, "REQUEST_TIMED_OUT", retry, "the request did not finish in time";
    BrokerNotAvailable = 8, "BROKER_NOT_AVAILABLE", final, "the broker is not reachable";
    ReplicaNotAvailable = 9, "REPLICA_NOT_AVAILABLE", retry, "the replica is not available on this broker";
    MessageTooLarge = 10, "MESSAGE_TOO_LARGE", final, "the batch is larger than the topic allows";
    StaleControllerEpoch = 11, "STALE_CONTROLLER_EPOCH", final, "the controller epoch is out of date";
    OffsetMetadataTooLarge = 12, "OFFSET_METADATA_TOO_LARGE", final, "the metadata of the committed offset is too long";
    NetworkException = 13, "NETWORK_EXCEPTION", retry, "the connection ended before the answer came";
    CoordinatorLoadInProgress = 14, "COORDINATOR_LOAD_IN_PROGRESS", retry, "the coordinator is still loading its state";
    CoordinatorNotAvailable = 15, "COORDINATOR_NOT_AVAILABLE", retry, "the coordinator is not available";
    NotCoordinator = 16, "NOT_COORDINATOR", retry, "this broker is not the coordinator of the key";
    InvalidTopicException = 17, "INVALID_TOPIC_EXCEPTION", final, "the topic name or kind does not allow this operation";
    RecordListTooLarge = 18, "RECORD_LIST_TOO_LARGE", final, "the batch is larger than a segment may be";
    NotEnoughReplicas = 19, "NOT_ENOUGH_REPLICAS", retry, "too few replicas are in sync to accept the batch";
    NotEnoughReplicasAfterAppend = 20, "NOT_ENOUGH_REPLICAS_AFTER_APPEND", retry, "the batch was written, but too few replicas were in sync to keep it safe";
    InvalidRequiredAcks = 21, "INVALID_REQUIRED_ACKS", final, "acks must be 0, 1 or -1 (all)";
    IllegalGeneration = 22, "ILLEGAL_GENERATION", final, "the group generation is not the current one";
    InconsistentGroupProtocol = 23, "INCONSISTENT_GROUP_PROTOCOL", final, "the member's protocols do not fit those of the group";
    InvalidGroupId = 24, "INVALID_GROUP_ID", final, "the group id is not valid";
    UnknownMemberId = 25, "UNKNOWN_MEMBER_ID", final, "the group has no such member";
    InvalidSessionTimeout = 26, "INVALID_SESSION_TIMEOUT", final, "the session timeout is outside group.min.session.timeout.ms and group.max.session.timeout.ms";
    RebalanceInProgress = 27, "REBALANCE_IN_PROGRESS", final, "the group is rebalancing: join again";
    InvalidCommitOffsetSize = 28, "INVALID_COMMIT_OFFSET_SIZE", final, "the offset commit is too large";
    TopicAuthorizationFailed = 29, "TOPIC_AUTHORIZATION_FAILED", final, "not allowed to do this with the topic";
    GroupAuthorizationFailed = 30, "GROUP_AUTHORIZATION_FAILED", final, "not allowed to do this with the group";
    ClusterAuthorizationFailed = 31, "CLUSTER_AUTHORIZATION_FAILED", final, "not allowed to do this with the cluster";
    InvalidTimestamp = 32, "INVALID_TIMESTAMP", final, "the record timestamp lies outside the accepted range";
    UnsupportedSaslMechanism = 33, "UNSUPPORTED_SASL_MECHANISM", final, "the broker does not offer this SASL mechanism";
    IllegalSaslState = 34, "ILLEGAL_SASL_STATE", final, "this request does not fit the state of SASL authentication";
    UnsupportedVersion = 35, "UNSUPPORTED_VERSION", final, "the broker does not know this version of the request";
    TopicAlreadyExists = 36, "TOPIC_ALREADY_EXISTS", final, "a topic with this name exists";
    InvalidPartitions = 37, "INVALID_PARTITIONS", final, "the number of partitions is not valid";
    InvalidReplicationFactor = 38, "INVALID_REPLICATION_FACTOR", final, "the replication factor is below 1 or above the number of usable brokers";
    InvalidReplicaAssignment = 39, "INVALID_REPLICA_ASSIGNMENT", final, "the replica assignment is not valid";
    InvalidConfig = 40, "INVALID_CONFIG", final, "the configuration is not valid";
    NotController = 41, "NOT_CONTROLLER", retry, "this node is not the active controller";
    InvalidRequest = 42, "INVALID_REQUEST", final, "the request is malformed or contradicts itself";
    UnsupportedForMessageFormat = 43, "UNSUPPORTED_FOR_MESSAGE_FORMAT", final, "the message format of the partition does not support the request";
    PolicyViolation = 44, "POLICY_VIOLATION", final, "the request breaks a policy of this cluster";
    OutOfOrderSequenceNumber = 45, "OUT_OF_ORDER_SEQUENCE_NUMBER", final, "a sequence number is missing before this batch";
    DuplicateSequenceNumber = 46, "DUPLICATE_SEQUENCE_NUMBER", final, "the sequence number was used before";
    InvalidProducerEpoch = 47, "INVALID_PRODUCER_EPOCH", final, "the producer's epoch is out of date";
    InvalidTxnState = 48, "INVALID_TXN_STATE", final, "the transaction is not in a state that allows this";
    InvalidProducerIdMapping = 49, "INVALID_PRODUCER_ID_MAPPING", final, "the producer id does not belong to this transactional id";
    InvalidTransactionTimeout = 50, "INVALID_TRANSACTION_TIMEOUT", final, "the transaction timeout is above transaction.max.timeout.ms";
    ConcurrentTransactions = 51, "CONCURRENT_TRANSACTIONS", retry, "another operation on this transaction is still running";
    TransactionCoordinatorFenced = 52, "TRANSACTION_COORDINATOR_FENCED", final, "a newer transaction coordinator has taken over";
    TransactionalIdAuthorizationFailed = 53, "TRANSACTIONAL_ID_AUTHORIZATION_FAILED", final, "not allowed to use this transactional id";
    SecurityDisabled = 54, "SECURITY_DISABLED", final, "no authorizer is configured";
    OperationNotAttempted = 55, "OPERATION_NOT_ATTEMPTED", final, "not tried, since another part of the request failed";
    KafkaStorageError = 56, "KAFKA_STORAGE_ERROR", retry, "the log directory failed";
    LogDirNotFound = 57, "LOG_DIR_NOT_FOUND", final, "the broker has no such log directory";
    SaslAuthenticationFailed = 58, "SASL_AUTHENTICATION_FAILED", final, "SASL authentication failed";
    UnknownProducerId = 59, "UNKNOWN_PRODUCER_ID", final, "nothing is known of this producer id";
    ReassignmentInProgress = 60, "REASSIGNMENT_IN_PROGRESS", final, "a reassignment of the partition is under way";
    DelegationTokenAuthDisabled = 61, "DELEGATION_TOKEN_AUTH_DISABLED", final, "delegation tokens are not enabled";
    DelegationTokenNotFound = 62, "DELEGATION_TOKEN_NOT_FOUND", final, "there is no such delegation token";
    DelegationTokenOwnerMismatch = 63, "DELEGATION_TOKEN_OWNER_MISMATCH", final, "the principal neither owns the delegation token nor may renew it";
    DelegationTokenRequestNotAllowed = 64, "DELEGATION_TOKEN_REQUEST_NOT_ALLOWED", final, "delegation token requests are not accepted on this kind of connection";
    DelegationTokenAuthorizationFailed = 65, "DELEGATION_TOKEN_AUTHORIZATION_FAILED", final, "not allowed to use the delegation token";
    DelegationTokenExpired = 66, "DELEGATION_TOKEN_EXPIRED", final, "the delegation token has expired";
    InvalidPrincipalType = 67, "INVALID_PRINCIPAL_TYPE", final, "this type of principal is not supported";
    NonEmptyGroup = 68, "NON_EMPTY_GROUP", final, "the group still has members";
    GroupIdNotFound = 69, "GROUP_ID_NOT_FOUND", final, "there is no such group";
    FetchSessionIdNotFound = 70, "FETCH_SESSION_ID_NOT_FOUND", retry, "there is no such fetch session";
    InvalidFetchSessionEpoch = 71, "INVALID_FETCH_SESSION_EPOCH", retry, "the fetch session epoch is out of step";
    ListenerNotFound = 72, "LISTENER_NOT_FOUND", retry, "the leader has no listener of the name this request came in on";
    TopicDeletionDisabled = 73, "TOPIC_DELETION_DISABLED", final, "deleting topics is switched off";
    FencedLeaderEpoch = 74, "FENCED_LEADER_EPOCH", retry, "the leader epoch in the request is older than the broker's";
    UnknownLeaderEpoch = 75, "UNKNOWN_LEADER_EPOCH", retry, "the leader epoch in the request is newer than the broker's";
    UnsupportedCompressionType = 76, "UNSUPPORTED_COMPRESSION_TYPE", final, "the client cannot read the compression of this partition";
    StaleBrokerEpoch = 77, "STALE_BROKER_EPOCH", final, "the broker epoch has changed";
    OffsetNotAvailable = 78, "OFFSET_NOT_AVAILABLE", retry, "the new leader does not know its high watermark yet";
    MemberIdRequired = 79, "MEMBER_ID_REQUIRED", final, "join again with the member id given in the answer";
    PreferredLeaderNotAvailable = 80, "PREFERRED_LEADER_NOT_AVAILABLE", retry, "the preferred leader is not available";
    GroupMaxSizeReached = 81, "GROUP_MAX_SIZE_REACHED", final, "the group has as many members as it may have";
    FencedInstanceId = 82, "FENCED_INSTANCE_ID", final, "another member has taken over this group.instance.id";
    EligibleLeadersNotAvailable = 83, "ELIGIBLE_LEADERS_NOT_AVAILABLE", retry, "no eligible leader is available";
    ElectionNotNeeded = 84, "ELECTION_NOT_NEEDED", retry, "the partition needs no election";
    NoReassignmentInProgress = 85, "NO_REASSIGNMENT_IN_PROGRESS", final, "no reassignment is under way";
    GroupSubscribedToTopic = 86, "GROUP_SUBSCRIBED_TO_TOPIC", final, "the group is subscribed to the topic";
    InvalidRecord = 87, "INVALID_RECORD", final, "a record in the batch is not valid";
    UnstableOffsetCommit = 88, "UNSTABLE_OFFSET_COMMIT", retry, "some committed offsets still hang on an open transaction";
    ThrottlingQuotaExceeded = 89, "THROTTLING_QUOTA_EXCEEDED", retry, "the client is above its quota";
    ProducerFenced = 90, "PRODUCER_FENCED", final, "a newer producer with the same transactional id has taken over";
    ResourceNotFound = 91, "RESOURCE_NOT_FOUND", final, "the resource does not exist";
    DuplicateResource = 92, "DUPLICATE_RESOURCE", final, "the request names the same resource twice";
    UnacceptableCredential = 93, "UNACCEPTABLE_CREDENTIAL", final, "the credential is not acceptable";
    InconsistentVoterSet = 94, "INCONSISTENT_VOTER_SET", final, "one of the two sides is not a voter the other expects";
    InvalidUpdateVersion = 95, "INVALID_UPDATE_VERSION", final, "the update version is not valid";
    FeatureUpdateFailed = 96, "FEATURE_UPDATE_FAILED", final, "the features could not be updated";
    PrincipalDeserializationFailure = 97, "PRINCIPAL_DESERIALIZATION_FAILURE", final, "the forwarded principal could not be read";
    SnapshotNotFound = 98, "SNAPSHOT_NOT_FOUND", final, "there is no such snapshot";
    PositionOutOfRange = 99, "POSITION_OUT_OF_RANGE", final, "the position lies outside the snapshot";
    UnknownTopicId = 100, "UNKNOWN_TOPIC_ID", retry, "this broker has no topic with this id";
    DuplicateBrokerRegistration = 101, "DUPLICATE_BROKER_REGISTRATION", final, "another broker uses this broker id";
    BrokerIdNotRegistered = 102, "BROKER_ID_NOT_REGISTERED", final, "the broker id is not registered";
    InconsistentTopicId = 103, "INCONSISTENT_TOPIC_ID", retry, "the topic id is not the one of this log";
    InconsistentClusterId = 104, "INCONSISTENT_CLUSTER_ID", final, "the cluster id is not the one of this cluster";
    TransactionalIdNotFound = 105, "TRANSACTIONAL_ID_NOT_FOUND", final, "there is no such transactional id";
    FetchSessionTopicIdError = 106, "FETCH_SESSION_TOPIC_ID_ERROR", retry, "the fetch session mixes topic ids and names";
    IneligibleReplica = 107, "INELIGIBLE_REPLICA", final, "the new in-sync set holds a replica that may not be in it";
    NewLeaderElected = 108, "NEW_LEADER_ELECTED", final, "the partition was changed and got another leader";
    OffsetMovedToTieredStorage = 109, "OFFSET_MOVED_TO_TIERED_STORAGE", final, "the offset has moved to tiered storage";
    FencedMemberEpoch = 110, "FENCED_MEMBER_EPOCH", final, "the member epoch is fenced: drop all partitions and join again";
    UnreleasedInstanceId = 111, "UNRELEASED_INSTANCE_ID", final, "the member that uses this instance id has to leave first";
    UnsupportedAssignor = 112, "UNSUPPORTED_ASSIGNOR", final, "the group does not support the assignor or its version";
    StaleMemberEpoch = 113, "STALE_MEMBER_EPOCH", final, "the member epoch is out of date: fetch it with a heartbeat";
    MismatchedEndpointType = 114, "MISMATCHED_ENDPOINT_TYPE", final, "the request came to the wrong kind of endpoint";
    UnsupportedEndpointType = 115, "UNSUPPORTED_ENDPOINT_TYPE", final, "this kind of endpoint is not supported";
    UnknownControllerId = 116, "UNKNOWN_CONTROLLER_ID", final, "the controller id is not known";
    UnknownSubscriptionId = 117, "UNKNOWN_SUBSCRIPTION_ID", final, "the telemetry subscription is not known or out of date";
    TelemetryTooLarge = 118, "TELEMETRY_TOO_LARGE", final, "the telemetry push is larger than the broker accepts";
    InvalidRegistration = 119, "INVALID_REGISTRATION", final, "the broker registration is not valid";
    TransactionAbortable = 120, "TRANSACTION_ABORTABLE", final, "the transaction failed and has to be aborted; the producer may go on";
    InvalidRecordState = 121, "INVALID_RECORD_STATE", final, "the record is not in a state that allows this acknowledgement";
    ShareSessionNotFound = 122, "SHARE_SESSION_NOT_FOUND", retry, "there is no such share session";
    InvalidShareSessionEpoch = 123, "INVALID_SHARE_SESSION_EPOCH", retry, "the share session epoch is out of step";
    FencedStateEpoch = 124, "FENCED_STATE_EPOCH", final, "the share group's state epoch does not match";
    InvalidVoterKey = 125, "INVALID_VOTER_KEY", final, "the voter key is not the one of the receiving replica";
    DuplicateVoter = 126, "DUPLICATE_VOTER", final, "the voter is in the voter set already";
    VoterNotFound = 127, "VOTER_NOT_FOUND", final, "the voter is not in the voter set";
    InvalidRegularExpression = 128, "INVALID_REGULAR_EXPRESSION", final, "the regular expression is not valid";
    RebootstrapRequired = 129, "REBOOTSTRAP_REQUIRED", final, "the client's metadata is too old: bootstrap again";
    StreamsInvalidTopology = 130, "STREAMS_INVALID_TOPOLOGY", final, "the streams topology is not valid";
    StreamsInvalidTopologyEpoch = 131, "STREAMS_INVALID_TOPOLOGY_EPOCH", final, "the streams topology epoch is not valid";
    StreamsTopologyFenced = 132, "STREAMS_TOPOLOGY_FENCED", final, "the streams topology is out of date";
    ShareSessionLimitReached = 133, "SHARE_SESSION_LIMIT_REACHED", retry, "the broker has as many share sessions as it may have";
    GroupDeletionFailed = 134, "GROUP_DELETION_FAILED", final, "the group could not be deleted; the message of its result says why";
    StreamsTopologyDescriptionUpdateFailed = 135, "STREAMS_TOPOLOGY_DESCRIPTION_UPDATE_FAILED", final, "the description of the streams topology could not be taken; the message says why";
    ControllerIdNotRegistered = 136, "CONTROLLER_ID_NOT_REGISTERED", final, "the controller id is not registered";
}

/// A number no table of Kafka 4.4 holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("unknown error code {0}")]
pub struct UnknownErrorCode(pub i16);

impl ErrorCode {
    #[must_use]
    pub fn code(self) -> i16 {
        self as i16
    }

    #[must_use]
    pub fn is_error(self) -> bool {
        self != ErrorCode::None
    }
}

impl From<ErrorCode> for i16 {
    fn from(code: ErrorCode) -> i16 {
        code.code()
    }
}

impl fmt::Display for ErrorCode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn codes_run_without_a_gap_from_minus_one_to_136() {
        let numbers: Vec<i16> = ErrorCode::ALL.iter().map(|code| code.code()).collect();
        assert_eq!(numbers, (-1..=136).collect::<Vec<i16>>());
    }

    #[test]
    fn a_number_gives_back_its_code_and_only_its_code() {
        for &code in ErrorCode::ALL {
            assert_eq!(ErrorCode::try_from(code.code()), Ok(code));
        }
        assert_eq!(ErrorCode::try_from(137), Err(UnknownErrorCode(137)));
        assert_eq!(ErrorCode::try_from(-2), Err(UnknownErrorCode(-2)));
    }

    #[test]
    fn names_are_the_variants_in_upper_snake() {
        for code in ErrorCode::ALL {
            let squeezed = code.name().replace('_', "").to_lowercase();
            assert_eq!(squeezed, format!("{code:?}").to_lowercase());
        }
    }

    #[test]
    fn as_many_codes_are_retriable_as_in_kafka_4_4() {
        let retriable = ErrorCode::ALL
            .iter()
            .filter(|code| code.is_retriable())
            .count();
        assert_eq!(retriable, 32);
        assert!(ErrorCode::NotEnoughReplicas.is_retriable());
        assert!(!ErrorCode::MessageTooLarge.is_retriable());
    }
}
