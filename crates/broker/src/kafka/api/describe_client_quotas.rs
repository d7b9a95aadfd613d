//! DescribeClientQuotas of a broker that limits nobody: a filter that says what it wants finds nothing, one that does not is told
//! so in Kafka's words. Quotas cannot be set: AlterClientQuotas is not served.

use std::collections::HashSet;

use wire::ErrorCode;
use wire::messages::describe_client_quotas_request::ComponentData;
use wire::messages::{DescribeClientQuotasRequest, DescribeClientQuotasResponse};

/// The kinds of names of an entity. Those of the first are not combined with the others.
const ADDRESS: &str = "ip";
const USER: &str = "user";
const CLIENT: &str = "client-id";

/// How a component picks entities: by this name, by being the default, by having any name.
const EXACT: i8 = 0;
const DEFAULT: i8 = 1;
const SPECIFIED: i8 = 2;

#[derive(Debug, PartialEq, Eq)]
enum FilterError {
    Empty,
    Twice(String),
    UnknownType(String),
    NoName,
    NameOfDefault,
    NameOfSpecified,
    UnknownMatch(i8),
    AddressAmongOthers,
}

#[must_use]
pub(crate) fn handle(request: &DescribeClientQuotasRequest) -> DescribeClientQuotasResponse {
    match check(&request.components) {
        Ok(()) => DescribeClientQuotasResponse::default(),
        Err(error) => DescribeClientQuotasResponse {
            error_code: code(&error).code(),
            error_message: Some(words(&error)),
            entries: None,
            ..DescribeClientQuotasResponse::default()
        },
    }
}

/// In Kafka's order, which decides what a filter with several faults is told.
fn check(components: &[ComponentData]) -> Result<(), FilterError> {
    let mut seen = HashSet::new();
    for component in components {
        let kind = component.entity_type.as_str();
        if kind.is_empty() {
            return Err(FilterError::Empty);
        }
        if seen.contains(kind) {
            return Err(FilterError::Twice(kind.to_owned()));
        }
        if ![ADDRESS, USER, CLIENT].contains(&kind) {
            return Err(FilterError::UnknownType(kind.to_owned()));
        }
        match (component.match_type, &component.r#match) {
            (EXACT, None) => return Err(FilterError::NoName),
            (DEFAULT, Some(_)) => return Err(FilterError::NameOfDefault),
            (SPECIFIED, Some(_)) => return Err(FilterError::NameOfSpecified),
            (EXACT, Some(_)) | (DEFAULT | SPECIFIED, None) => {}
            (other, _) => return Err(FilterError::UnknownMatch(other)),
        }
        seen.insert(kind);
    }
    if seen.contains(ADDRESS) && 1 < seen.len() {
        Err(FilterError::AddressAmongOthers)
    } else {
        Ok(())
    }
}

fn code(error: &FilterError) -> ErrorCode {
    match error {
        FilterError::UnknownType(_) => ErrorCode::UnsupportedVersion,
        _ => ErrorCode::InvalidRequest,
    }
}

fn words(error: &FilterError) -> String {
    match error {
        FilterError::Empty => "Invalid empty entity type.".into(),
        FilterError::Twice(kind) => {
            format!("Entity type {kind} cannot appear more than once in the filter.")
        }
        FilterError::UnknownType(kind) => format!("Unsupported entity type {kind}"),
        FilterError::NoName => {
            "Request specified MATCH_TYPE_EXACT, but set match string to null.".into()
        }
        FilterError::NameOfDefault => {
            "Request specified MATCH_TYPE_DEFAULT, but also specified a match string.".into()
        }
        FilterError::NameOfSpecified => {
            "Request specified MATCH_TYPE_SPECIFIED, but also specified a match string.".into()
        }
        FilterError::UnknownMatch(other) => format!("Unknown match type {other}"),
        FilterError::AddressAmongOthers => {
            "Invalid entity filter component combination. IP filter component should not be used with user or clientId filter \
             component."
                .into()
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn told(components: &[(&str, i8, Option<&str>)]) -> (i16, String) {
        let component = |(kind, match_type, name): &(&str, i8, Option<&str>)| ComponentData {
            entity_type: (*kind).to_owned(),
            match_type: *match_type,
            r#match: name.map(str::to_owned),
        };
        let response = handle(&DescribeClientQuotasRequest {
            components: components.iter().map(component).collect(),
            ..DescribeClientQuotasRequest::default()
        });
        match response.error_code {
            0 => assert_eq!(response.entries, Some(Vec::new())),
            _ => assert_eq!(response.entries, None),
        }
        (
            response.error_code,
            response.error_message.expect("a message"),
        )
    }

    #[test]
    fn nobody_has_a_quota() {
        for filter in [
            &[][..],
            &[("user", EXACT, Some("a"))],
            &[("user", EXACT, Some(""))],
            &[("user", DEFAULT, None), ("client-id", SPECIFIED, None)],
            &[("ip", SPECIFIED, None)],
            &[("ip", EXACT, Some("no address"))],
        ] {
            assert_eq!(told(filter), (0, String::new()), "{filter:?}");
        }
    }

    #[test]
    fn a_filter_that_says_nothing_definite_is_told_what_is_wrong_with_it() {
        for (filter, code, text) in [
            (&[("", EXACT, Some("a"))][..], 42, "empty entity type"),
            (&[("colour", EXACT, Some("a"))], 35, "Unsupported entity"),
            (&[("user", EXACT, None)], 42, "match string to null"),
            (&[("user", DEFAULT, Some("a"))], 42, "MATCH_TYPE_DEFAULT"),
            (&[("user", SPECIFIED, Some("a"))], 42, "TYPE_SPECIFIED"),
            (&[("user", 3, None)], 42, "Unknown match type 3"),
            (&[("user", -1, Some("a"))], 42, "Unknown match type -1"),
            (
                &[("user", DEFAULT, None), ("user", SPECIFIED, None)],
                42,
                "Entity type user cannot appear more than once",
            ),
            (
                &[("ip", DEFAULT, None), ("user", DEFAULT, None)],
                42,
                "IP filter component",
            ),
            (
                &[("client-id", DEFAULT, None), ("ip", DEFAULT, None)],
                42,
                "IP filter component",
            ),
            // A fault of one component goes before one of all of them.
            (
                &[
                    ("ip", DEFAULT, None),
                    ("user", DEFAULT, None),
                    ("", DEFAULT, None),
                ],
                42,
                "empty entity type",
            ),
        ] {
            let (got, said) = told(filter);
            assert_eq!(got, code, "{filter:?}");
            assert!(said.contains(text), "{filter:?}: {said}");
        }
    }
}
