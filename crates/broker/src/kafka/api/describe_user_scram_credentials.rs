//! DescribeUserScramCredentials of a broker that knows no users: all of them are none, and each that is named is not there.
//! Users cannot be made: AlterUserScramCredentials is not served.

use std::collections::HashMap;

use wire::ErrorCode;
use wire::messages::describe_user_scram_credentials_response::DescribeUserScramCredentialsResult;
use wire::messages::{DescribeUserScramCredentialsRequest, DescribeUserScramCredentialsResponse};

/// Each user once, in the order of the request.
#[must_use]
pub(crate) fn handle(
    request: &DescribeUserScramCredentialsRequest,
) -> DescribeUserScramCredentialsResponse {
    let users = request.users.as_deref().unwrap_or_default();
    let mut results: Vec<DescribeUserScramCredentialsResult> = Vec::new();
    let mut places = HashMap::new();
    for user in users {
        let name = user.name.as_str();
        match places.get(name) {
            Some(place) => results[*place] = twice(name),
            None => {
                places.insert(name, results.len());
                results.push(unknown(name));
            }
        }
    }
    DescribeUserScramCredentialsResponse {
        results,
        ..DescribeUserScramCredentialsResponse::default()
    }
}

fn unknown(name: &str) -> DescribeUserScramCredentialsResult {
    let words = format!("Attempt to describe a user credential that does not exist: {name}");
    refusal(name, ErrorCode::ResourceNotFound, words)
}

fn twice(name: &str) -> DescribeUserScramCredentialsResult {
    let words = format!(
        "Cannot describe SCRAM credentials for the same user twice in a single request: {name}"
    );
    refusal(name, ErrorCode::DuplicateResource, words)
}

fn refusal(name: &str, code: ErrorCode, words: String) -> DescribeUserScramCredentialsResult {
    DescribeUserScramCredentialsResult {
        user: name.to_owned(),
        error_code: code.code(),
        error_message: Some(words),
        ..DescribeUserScramCredentialsResult::default()
    }
}

#[cfg(test)]
mod tests {
    use wire::messages::describe_user_scram_credentials_request::UserName;

    use super::*;

    fn told(users: Option<&[&str]>) -> Vec<(String, i16)> {
        let named = |name: &&str| UserName {
            name: (*name).to_owned(),
        };
        let response = handle(&DescribeUserScramCredentialsRequest {
            users: users.map(|users| users.iter().map(named).collect()),
        });
        assert_eq!(response.error_code, 0);
        let results = response.results.into_iter();
        results
            .map(|result| (result.user, result.error_code))
            .collect()
    }

    #[test]
    fn there_are_no_users() {
        assert_eq!(told(None), []);
        assert_eq!(told(Some(&[])), []);
    }

    #[test]
    fn a_user_that_is_named_is_not_there_and_one_that_is_named_twice_is_refused() {
        let of = |name: &str, code| (name.to_owned(), code);
        assert_eq!(told(Some(&["a"])), [of("a", 91)]);
        assert_eq!(told(Some(&["a", "b", "a"])), [of("a", 92), of("b", 91)]);
        assert_eq!(told(Some(&["b", "b", "b"])), [of("b", 92)]);
    }
}
