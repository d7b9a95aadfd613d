//! DescribeAcls, CreateAcls and DeleteAcls: who may do what (KIP-140, KIP-290).
//!
//! Without an authorizer each answer says why there are no rules, in Kafka's words. A request with a number that stands for nothing
//! known is no request.

use std::collections::{BTreeMap, BTreeSet};

use meta::decide::Uuids;
use meta::decide::acls::{self, Filter, RuleError, TooManyRules};
use meta::{Image, Record};
use wire::messages::create_acls_request::AclCreation;
use wire::messages::create_acls_response::AclCreationResult;
use wire::messages::delete_acls_request::DeleteAclsFilter;
use wire::messages::delete_acls_response::{DeleteAclsFilterResult, DeleteAclsMatchingAcl};
use wire::messages::describe_acls_response::{AclDescription, DescribeAclsResource};
use wire::messages::{
    CreateAclsRequest, CreateAclsResponse, DeleteAclsRequest, DeleteAclsResponse,
    DescribeAclsRequest, DescribeAclsResponse,
};
use wire::metadata::AccessControlEntryRecord;
use wire::{ApiKey, ErrorCode, Message};

use super::overdue::Overdue;
use super::refusal;
use crate::kafka::call::Call;
use crate::net::Outcome;
use crate::ops::view::View;

/// In each field that has it: kinds of resources and patterns, operations, permissions.
const UNKNOWN: i8 = 0;
/// The words for who looks at rules, and for who changes them.
const NONE_TO_SEE: &str = "No Authorizer is configured on the broker";
const NONE_TO_CHANGE: &str = "No Authorizer is configured.";

pub(crate) fn on_describe_acls(call: &mut Call<'_>, request: DescribeAclsRequest) -> Outcome {
    if !is_known(numbers_of_description(&request)) {
        return Outcome::Close;
    }
    let response = if has_authorizer(call) {
        describe(request, &call.desk.shared.catalog.image())
    } else {
        DescribeAclsResponse {
            error_code: ErrorCode::SecurityDisabled.code(),
            error_message: Some(NONE_TO_SEE.to_owned()),
            ..DescribeAclsResponse::default()
        }
    };
    call.reply(ApiKey::DescribeAcls, &response)
}

pub(crate) fn on_create_acls(call: &mut Call<'_>, request: CreateAclsRequest) -> Outcome {
    if !request.creations.iter().map(numbers_of_rule).all(is_known) {
        return Outcome::Close;
    }
    if !has_authorizer(call) {
        let refused = AclCreationResult {
            error_code: ErrorCode::SecurityDisabled.code(),
            error_message: Some(NONE_TO_CHANGE.to_owned()),
        };
        let response = CreateAclsResponse {
            results: vec![refused; request.creations.len()],
            ..CreateAclsResponse::default()
        };
        return call.reply(ApiKey::CreateAcls, &response);
    }
    change(call, ApiKey::CreateAcls, |view, uuids| {
        create(request, view, uuids)
    })
}

pub(crate) fn on_delete_acls(call: &mut Call<'_>, request: DeleteAclsRequest) -> Outcome {
    if !request.filters.iter().map(numbers_of_filter).all(is_known) {
        return Outcome::Close;
    }
    if !has_authorizer(call) {
        let refused = DeleteAclsFilterResult {
            error_code: ErrorCode::SecurityDisabled.code(),
            error_message: Some(NONE_TO_CHANGE.to_owned()),
            matching_acls: Vec::new(),
        };
        let response = DeleteAclsResponse {
            filter_results: vec![refused; request.filters.len()],
            ..DeleteAclsResponse::default()
        };
        return call.reply(ApiKey::DeleteAcls, &response);
    }
    change(call, ApiKey::DeleteAcls, |view, _| delete(request, view))
}

/// Answers once the change is durable. Its client names no time.
fn change<M: Message + Overdue + Send + 'static>(
    call: &mut Call<'_>,
    key: ApiKey,
    decide: impl FnOnce(&View<'_>, &mut dyn Uuids) -> (Vec<Record>, M),
) -> Outcome {
    let patience = call.desk.shared.catalog.config().request_wait_max;
    call.change(key, patience, decide)
}

fn has_authorizer(call: &Call<'_>) -> bool {
    call.desk.shared.catalog.authority().is_some()
}

/// Of one rule or filter: the kinds of its resource and pattern, its operation and permission.
fn is_known(numbers: [i8; 4]) -> bool {
    !numbers.contains(&UNKNOWN)
}

fn numbers_of_description(request: &DescribeAclsRequest) -> [i8; 4] {
    [
        request.resource_type_filter,
        request.pattern_type_filter,
        request.operation,
        request.permission_type,
    ]
}

fn numbers_of_rule(rule: &AclCreation) -> [i8; 4] {
    [
        rule.resource_type,
        rule.resource_pattern_type,
        rule.operation,
        rule.permission_type,
    ]
}

fn numbers_of_filter(filter: &DeleteAclsFilter) -> [i8; 4] {
    [
        filter.resource_type_filter,
        filter.pattern_type_filter,
        filter.operation,
        filter.permission_type,
    ]
}

/// The rules by the resources that they name, each once.
fn describe(request: DescribeAclsRequest, image: &Image) -> DescribeAclsResponse {
    let filter = Filter {
        kind: request.resource_type_filter,
        name: request.resource_name_filter,
        pattern: request.pattern_type_filter,
        principal: request.principal_filter,
        host: request.host_filter,
        operation: request.operation,
        permission: request.permission_type,
    };
    let mut resources: BTreeMap<_, BTreeSet<_>> = BTreeMap::new();
    for rule in image.acls().filter(|rule| filter.is_of(rule)) {
        let pattern = (rule.resource_type, &rule.resource_name, rule.pattern_type);
        let entry = (
            &rule.principal,
            &rule.host,
            rule.operation,
            rule.permission_type,
        );
        resources.entry(pattern).or_default().insert(entry);
    }
    let entry = |(principal, host, operation, permission_type): (&String, &String, i8, i8)| {
        AclDescription {
            principal: principal.clone(),
            host: host.clone(),
            operation,
            permission_type,
        }
    };
    let resources = resources.into_iter();
    let resources =
        resources.map(
            |((resource_type, name, pattern_type), entries)| DescribeAclsResource {
                resource_type,
                resource_name: name.clone(),
                pattern_type,
                acls: entries.into_iter().map(entry).collect(),
            },
        );
    DescribeAclsResponse {
        resources: resources.collect(),
        ..DescribeAclsResponse::default()
    }
}

fn create(
    request: CreateAclsRequest,
    view: &View<'_>,
    uuids: &mut dyn Uuids,
) -> (Vec<Record>, CreateAclsResponse) {
    let rules = request.creations.into_iter();
    let rules: Vec<AccessControlEntryRecord> = rules
        .map(|rule| AccessControlEntryRecord {
            id: wire::Uuid::ZERO,
            resource_type: rule.resource_type,
            resource_name: rule.resource_name,
            pattern_type: rule.resource_pattern_type,
            principal: rule.principal,
            host: rule.host,
            operation: rule.operation,
            permission_type: rule.permission_type,
        })
        .collect();
    let creation = acls::create_rules(view.image, &rules, uuids);
    let result = |answer: Result<(), RuleError>| match answer {
        Ok(()) => AclCreationResult::default(),
        Err(error) => AclCreationResult {
            error_code: refusal::create_rule(&error).code(),
            error_message: Some(error.to_string()),
        },
    };
    let response = CreateAclsResponse {
        results: creation.answers.into_iter().map(result).collect(),
        ..CreateAclsResponse::default()
    };
    (creation.records, response)
}

fn delete(request: DeleteAclsRequest, view: &View<'_>) -> (Vec<Record>, DeleteAclsResponse) {
    let filters = request.filters.into_iter();
    let filters: Vec<Filter> = filters
        .map(|filter| Filter {
            kind: filter.resource_type_filter,
            name: filter.resource_name_filter,
            pattern: filter.pattern_type_filter,
            principal: filter.principal_filter,
            host: filter.host_filter,
            operation: filter.operation,
            permission: filter.permission_type,
        })
        .collect();
    let refused = |words: String| DeleteAclsFilterResult {
        error_code: ErrorCode::InvalidRequest.code(),
        error_message: Some(words),
        matching_acls: Vec::new(),
    };
    let (records, filter_results) = match acls::delete_rules(view.image, &filters) {
        Ok(deletion) => {
            let answers = deletion.answers.into_iter();
            let results = answers.map(|answer| match answer {
                Ok(rules) => DeleteAclsFilterResult {
                    error_code: ErrorCode::None.code(),
                    error_message: None,
                    matching_acls: rules.into_iter().map(deleted).collect(),
                },
                Err(error) => refused(error.to_string()),
            });
            (deletion.records, results.collect())
        }
        Err(TooManyRules) => {
            let refused = refused(TooManyRules.to_string());
            (Vec::new(), vec![refused; filters.len()])
        }
    };
    let response = DeleteAclsResponse {
        filter_results,
        ..DeleteAclsResponse::default()
    };
    (records, response)
}

fn deleted(rule: AccessControlEntryRecord) -> DeleteAclsMatchingAcl {
    DeleteAclsMatchingAcl {
        error_code: ErrorCode::None.code(),
        error_message: None,
        resource_type: rule.resource_type,
        resource_name: rule.resource_name,
        pattern_type: rule.pattern_type,
        principal: rule.principal,
        host: rule.host,
        operation: rule.operation,
        permission_type: rule.permission_type,
    }
}

#[cfg(test)]
mod tests;
