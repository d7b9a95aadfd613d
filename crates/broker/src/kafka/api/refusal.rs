//! From a refused change of the metadata to the code that Kafka gives for it.

use config::ValueError;
use meta::ResourceKind;
use meta::decide::acls::RuleError;
use meta::decide::alter_configs::AlterError;
use meta::decide::alter_configs::Named;
use meta::decide::create_partitions::CreatePartitionsError;
use meta::decide::create_topics::CreateTopicError;
use meta::decide::delete_topics::DeleteTopicError;
use meta::decide::elect_leaders::ElectError;
use meta::decide::reassign::ReassignError;
use meta::decide::scram::CredentialError;
use meta::decide::update_features::UpdateError;
use wire::ErrorCode;

use crate::ops::Refused;

/// The code for an asker that may not do this to a topic.
pub(crate) const TOPIC: ErrorCode = ErrorCode::TopicAuthorizationFailed;

/// The code of a refusal: `denied` where the asker may not, else that of its reason.
pub(crate) fn of<E>(
    refused: &Refused<E>,
    denied: ErrorCode,
    code: impl Fn(&E) -> ErrorCode,
) -> ErrorCode {
    match refused {
        Refused::Unauthorised => denied,
        Refused::Because(error) => code(error),
    }
}

/// The words of a refusal, which are those of its code where the asker may not.
pub(crate) fn told<E: std::fmt::Display>(
    refused: &Refused<E>,
    denied: ErrorCode,
) -> Option<String> {
    match refused {
        Refused::Unauthorised => Some(denied.message().to_owned()),
        Refused::Because(error) => Some(error.to_string()),
    }
}

/// The words of a refusal, where none are given to those who may not.
pub(crate) fn message<E: std::fmt::Display>(refused: &Refused<E>) -> Option<String> {
    match refused {
        Refused::Unauthorised => None,
        Refused::Because(error) => Some(error.to_string()),
    }
}

/// The code of refused settings of a resource.
pub(crate) fn alter_refused(
    named: &Named,
    refused: &Refused<AlterError>,
) -> (ErrorCode, Option<String>) {
    let denied = denied_settings(named.kind);
    (of(refused, denied, alter), told(refused, denied))
}

/// The code for an asker that may not see, or not change, settings of a kind of resource.
pub(crate) fn denied_settings(kind: i8) -> ErrorCode {
    match ResourceKind::from_wire(kind) {
        Some(ResourceKind::Topic) => TOPIC,
        Some(ResourceKind::Group) => ErrorCode::GroupAuthorizationFailed,
        _ => ErrorCode::ClusterAuthorizationFailed,
    }
}

#[must_use]
pub(crate) fn create_topic(error: &CreateTopicError) -> ErrorCode {
    match error {
        CreateTopicError::Duplicate
        | CreateTopicError::Prohibited(_)
        | CreateTopicError::FactorBesideAssignment
        | CreateTopicError::CountBesideAssignment => ErrorCode::InvalidRequest,
        CreateTopicError::Name(_)
        | CreateTopicError::Collides { .. }
        | CreateTopicError::Folds { .. } => ErrorCode::InvalidTopicException,
        CreateTopicError::Exists(_) => ErrorCode::TopicAlreadyExists,
        CreateTopicError::NullSetting(_) | CreateTopicError::Setting(_) => ErrorCode::InvalidConfig,
        CreateTopicError::AssignedTwice(_)
        | CreateTopicError::Gap
        | CreateTopicError::Assignment(_) => ErrorCode::InvalidReplicaAssignment,
        CreateTopicError::Partitions => ErrorCode::InvalidPartitions,
        CreateTopicError::ReplicationFactor | CreateTopicError::TooFewBrokers { .. } => {
            ErrorCode::InvalidReplicationFactor
        }
        CreateTopicError::TooManyPartitions | CreateTopicError::TooManyRecords => {
            ErrorCode::PolicyViolation
        }
    }
}

#[must_use]
pub(crate) fn delete_topic(error: &DeleteTopicError) -> ErrorCode {
    match error {
        DeleteTopicError::NameAndId
        | DeleteTopicError::Nothing
        | DeleteTopicError::DuplicateName
        | DeleteTopicError::DuplicateId
        | DeleteTopicError::NameOfId => ErrorCode::InvalidRequest,
        DeleteTopicError::UnknownName => ErrorCode::UnknownTopicOrPartition,
        DeleteTopicError::UnknownId => ErrorCode::UnknownTopicId,
    }
}

#[must_use]
pub(crate) fn create_partitions(error: &CreatePartitionsError) -> ErrorCode {
    match error {
        CreatePartitionsError::Duplicate => ErrorCode::InvalidRequest,
        CreatePartitionsError::Unknown => ErrorCode::UnknownTopicOrPartition,
        CreatePartitionsError::Same(_) | CreatePartitionsError::Fewer { .. } => {
            ErrorCode::InvalidPartitions
        }
        CreatePartitionsError::Assignments { .. } | CreatePartitionsError::Assignment(_) => {
            ErrorCode::InvalidReplicaAssignment
        }
        CreatePartitionsError::TooFewBrokers { .. } => ErrorCode::InvalidReplicationFactor,
        CreatePartitionsError::TooManyRecords => ErrorCode::PolicyViolation,
    }
}

/// A bad setting of a topic or a group is a bad configuration, one of a broker a bad request: so Kafka has it.
#[must_use]
pub(crate) fn alter(error: &AlterError) -> ErrorCode {
    match error {
        AlterError::Duplicate
        | AlterError::Kind(_)
        | AlterError::RootLogger(_)
        | AlterError::LoggerOperation(_)
        | AlterError::DuplicateKeys
        | AlterError::NullValue(_)
        | AlterError::Operation(_)
        | AlterError::DefaultTopic
        | AlterError::DefaultGroup
        | AlterError::DefaultClientMetrics
        | AlterError::Value(
            ValueError::UnknownClientMetricsSetting { .. } | ValueError::PushInterval { .. },
        )
        | AlterError::BrokerName(_)
        | AlterError::OtherBroker { .. }
        | AlterError::Broker(_) => ErrorCode::InvalidRequest,
        AlterError::Name(_) => ErrorCode::InvalidTopicException,
        AlterError::UnknownTopic(_) => ErrorCode::UnknownTopicOrPartition,
        AlterError::TooManyRecords => ErrorCode::PolicyViolation,
        AlterError::NotAList { .. }
        | AlterError::TooLong
        | AlterError::UnknownLogger(_)
        | AlterError::LogLevel { .. }
        | AlterError::Value(_) => ErrorCode::InvalidConfig,
    }
}

#[must_use]
pub(crate) fn elect(error: &ElectError) -> ErrorCode {
    match error {
        ElectError::UnknownTopic(_) | ElectError::UnknownPartition { .. } => {
            ErrorCode::UnknownTopicOrPartition
        }
        ElectError::NotNeeded => ErrorCode::ElectionNotNeeded,
        ElectError::NoPreferred => ErrorCode::PreferredLeaderNotAvailable,
        ElectError::NoEligible => ErrorCode::EligibleLeadersNotAvailable,
        ElectError::TooManyRecords => ErrorCode::PolicyViolation,
    }
}

#[must_use]
pub(crate) fn reassign(error: &ReassignError) -> ErrorCode {
    match error {
        ReassignError::UnknownTopic(_) | ReassignError::UnknownPartition { .. } => {
            ErrorCode::UnknownTopicOrPartition
        }
        ReassignError::NotInProgress => ErrorCode::NoReassignmentInProgress,
        ReassignError::ReplicationFactor { .. } => ErrorCode::InvalidReplicationFactor,
        ReassignError::Assignment(_) | ReassignError::Unclean { .. } => {
            ErrorCode::InvalidReplicaAssignment
        }
        ReassignError::TooManyRecords => ErrorCode::PolicyViolation,
    }
}

#[must_use]
pub(crate) fn create_rule(error: &RuleError) -> ErrorCode {
    match error {
        RuleError::Cluster
        | RuleError::NoName
        | RuleError::Kind(_)
        | RuleError::Pattern(_)
        | RuleError::Operation(_)
        | RuleError::Permission(_)
        | RuleError::Principal(_)
        | RuleError::NoHost
        | RuleError::Network { .. } => ErrorCode::InvalidRequest,
        RuleError::NoNetworksYet => ErrorCode::UnsupportedVersion,
        RuleError::TooManyRules => ErrorCode::PolicyViolation,
    }
}

#[must_use]
pub(crate) fn alter_credential(error: CredentialError) -> ErrorCode {
    match error {
        CredentialError::NoName
        | CredentialError::TooFewIterations
        | CredentialError::TooManyIterations
        | CredentialError::Salt => ErrorCode::UnacceptableCredential,
        CredentialError::UnknownMechanism => ErrorCode::UnsupportedSaslMechanism,
        CredentialError::Twice => ErrorCode::DuplicateResource,
        CredentialError::Unknown => ErrorCode::ResourceNotFound,
        CredentialError::NotYet => ErrorCode::UnsupportedVersion,
        CredentialError::TooManyRecords => ErrorCode::PolicyViolation,
    }
}

#[must_use]
pub(crate) fn update_features(error: &UpdateError) -> ErrorCode {
    match error {
        UpdateError::Level { .. } | UpdateError::Unsafe { .. } | UpdateError::Loss { .. } => {
            ErrorCode::InvalidUpdateVersion
        }
    }
}
