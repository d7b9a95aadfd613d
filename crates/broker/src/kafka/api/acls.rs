//! DescribeAcls, CreateAcls and DeleteAcls of a broker without an authorizer: there are no rules, and each answer says why, in
//! Kafka's words. A request that names what no version of the protocol knows is no request.

use wire::messages::create_acls_response::AclCreationResult;
use wire::messages::delete_acls_response::DeleteAclsFilterResult;
use wire::messages::{
    CreateAclsRequest, CreateAclsResponse, DeleteAclsRequest, DeleteAclsResponse,
    DescribeAclsRequest, DescribeAclsResponse,
};
use wire::{ApiKey, ErrorCode};

use crate::kafka::call::Call;
use crate::net::Outcome;

/// In each field that has it: kinds of resources and patterns, operations, permissions.
const UNKNOWN: i8 = 0;

/// `None` closes the connection, as Kafka does with what it cannot read.
fn describe(request: &DescribeAclsRequest) -> Option<DescribeAclsResponse> {
    is_known([
        request.resource_type_filter,
        request.pattern_type_filter,
        request.operation,
        request.permission_type,
    ])
    .then(|| DescribeAclsResponse {
        error_code: ErrorCode::SecurityDisabled.code(),
        error_message: Some("No Authorizer is configured on the broker".to_owned()),
        ..DescribeAclsResponse::default()
    })
}

fn create(request: &CreateAclsRequest) -> Option<CreateAclsResponse> {
    let are_known = request.creations.iter().all(|creation| {
        is_known([
            creation.resource_type,
            creation.resource_pattern_type,
            creation.operation,
            creation.permission_type,
        ])
    });
    let result = AclCreationResult {
        error_code: ErrorCode::SecurityDisabled.code(),
        error_message: refusal(),
    };
    are_known.then(|| CreateAclsResponse {
        results: vec![result; request.creations.len()],
        ..CreateAclsResponse::default()
    })
}

fn delete(request: &DeleteAclsRequest) -> Option<DeleteAclsResponse> {
    let are_known = request.filters.iter().all(|filter| {
        is_known([
            filter.resource_type_filter,
            filter.pattern_type_filter,
            filter.operation,
            filter.permission_type,
        ])
    });
    let result = DeleteAclsFilterResult {
        error_code: ErrorCode::SecurityDisabled.code(),
        error_message: refusal(),
        matching_acls: Vec::new(),
    };
    are_known.then(|| DeleteAclsResponse {
        filter_results: vec![result; request.filters.len()],
        ..DeleteAclsResponse::default()
    })
}

/// Of one rule or filter: the kinds of its resource and pattern, its operation and permission.
fn is_known(parts: [i8; 4]) -> bool {
    !parts.contains(&UNKNOWN)
}

fn refusal() -> Option<String> {
    Some("No Authorizer is configured.".to_owned())
}

pub(crate) fn on_describe_acls(call: &mut Call<'_>, request: DescribeAclsRequest) -> Outcome {
    match describe(&request) {
        Some(response) => call.reply(ApiKey::DescribeAcls, &response),
        None => Outcome::Close,
    }
}

pub(crate) fn on_create_acls(call: &mut Call<'_>, request: CreateAclsRequest) -> Outcome {
    match create(&request) {
        Some(response) => call.reply(ApiKey::CreateAcls, &response),
        None => Outcome::Close,
    }
}

pub(crate) fn on_delete_acls(call: &mut Call<'_>, request: DeleteAclsRequest) -> Outcome {
    match delete(&request) {
        Some(response) => call.reply(ApiKey::DeleteAcls, &response),
        None => Outcome::Close,
    }
}

#[cfg(test)]
mod tests {
    use wire::Message;
    use wire::frame::encode_response;
    use wire::messages::create_acls_request::AclCreation;
    use wire::messages::delete_acls_request::DeleteAclsFilter;

    use super::*;
    use crate::kafka::api::TABLE;

    const TOPIC: i8 = 2;
    const LITERAL: i8 = 3;
    const READ: i8 = 3;
    const ALLOW: i8 = 3;

    fn is_written(key: ApiKey, response: &impl Message) {
        let row = TABLE.iter().find(|row| row.key == key).expect("served");
        for version in row.min..=row.max {
            assert!(
                encode_response(key, response, version, 1).is_ok(),
                "{version}"
            );
        }
    }

    #[test]
    fn without_an_authorizer_every_rule_is_answered_with_why_there_is_none() {
        let asked = DescribeAclsRequest {
            resource_type_filter: TOPIC,
            pattern_type_filter: LITERAL,
            operation: READ,
            permission_type: ALLOW,
            ..DescribeAclsRequest::default()
        };
        let described = describe(&asked).expect("known");
        assert_eq!((described.error_code, described.resources.len()), (54, 0));
        assert_eq!(
            described.error_message.as_deref(),
            Some("No Authorizer is configured on the broker")
        );
        is_written(ApiKey::DescribeAcls, &described);

        let creation = AclCreation {
            resource_type: TOPIC,
            resource_name: "t".to_owned(),
            resource_pattern_type: LITERAL,
            principal: "User:a".to_owned(),
            host: "*".to_owned(),
            operation: READ,
            permission_type: ALLOW,
        };
        let asked = CreateAclsRequest {
            creations: vec![creation; 2],
        };
        let created = create(&asked).expect("known");
        let told: Vec<_> = created
            .results
            .iter()
            .map(|result| (result.error_code, result.error_message.as_deref()))
            .collect();
        assert_eq!(told, [(54, Some("No Authorizer is configured.")); 2]);
        is_written(ApiKey::CreateAcls, &created);

        let filter = DeleteAclsFilter {
            resource_type_filter: TOPIC,
            pattern_type_filter: LITERAL,
            operation: READ,
            permission_type: ALLOW,
            ..DeleteAclsFilter::default()
        };
        let asked = DeleteAclsRequest {
            filters: vec![filter; 3],
        };
        let deleted = delete(&asked).expect("known");
        assert_eq!(deleted.filter_results.len(), 3);
        for result in &deleted.filter_results {
            assert_eq!((result.error_code, result.matching_acls.len()), (54, 0));
            assert_eq!(
                result.error_message.as_deref(),
                Some("No Authorizer is configured.")
            );
        }
        is_written(ApiKey::DeleteAcls, &deleted);
    }

    #[test]
    fn what_no_version_knows_closes_the_connection() {
        assert!(describe(&DescribeAclsRequest::default()).is_none());
        let creations = vec![AclCreation::default()];
        assert!(create(&CreateAclsRequest { creations }).is_none());
        let filters = vec![DeleteAclsFilter::default()];
        assert!(delete(&DeleteAclsRequest { filters }).is_none());
        let nothing = create(&CreateAclsRequest::default()).expect("nothing unknown");
        assert!(nothing.results.is_empty());
    }
}
