//! DescribeUserScramCredentials: the users who have passwords, and how often these were hashed (KIP-554). Each broker answers from the
//! metadata that it has.

use std::collections::{BTreeSet, HashMap};

use meta::Image;
use security::login::scram::Hash;
use wire::ErrorCode;
use wire::messages::describe_user_scram_credentials_response::{
    CredentialInfo, DescribeUserScramCredentialsResult,
};
use wire::messages::{DescribeUserScramCredentialsRequest, DescribeUserScramCredentialsResponse};

use crate::ops::view::View;

/// Each user once, in the order of the request; all of them where it names none.
#[must_use]
pub(crate) fn handle(
    request: &DescribeUserScramCredentialsRequest,
    view: &View<'_>,
) -> DescribeUserScramCredentialsResponse {
    let users = request.users.as_deref().unwrap_or_default();
    let results = if users.is_empty() {
        let all = view.image.credentials();
        let all: BTreeSet<&str> = all.map(|credential| credential.name.as_str()).collect();
        all.into_iter()
            .map(|name| described(view.image, name))
            .collect()
    } else {
        named(view.image, users.iter().map(|user| user.name.as_str()))
    };
    DescribeUserScramCredentialsResponse {
        results,
        ..DescribeUserScramCredentialsResponse::default()
    }
}

fn named<'a>(
    image: &Image,
    users: impl Iterator<Item = &'a str>,
) -> Vec<DescribeUserScramCredentialsResult> {
    let mut results: Vec<DescribeUserScramCredentialsResult> = Vec::new();
    let mut places = HashMap::new();
    for name in users {
        match places.get(name) {
            Some(place) => results[*place] = twice(name),
            None => {
                places.insert(name, results.len());
                results.push(described(image, name));
            }
        }
    }
    results
}

fn described(image: &Image, name: &str) -> DescribeUserScramCredentialsResult {
    let info = |hash: Hash| {
        let credential = image.credential(hash.number(), name)?;
        Some(CredentialInfo {
            mechanism: credential.mechanism,
            iterations: credential.iterations,
        })
    };
    let credential_infos: Vec<_> = Hash::ALL.into_iter().filter_map(info).collect();
    if credential_infos.is_empty() {
        return unknown(name);
    }
    DescribeUserScramCredentialsResult {
        user: name.to_owned(),
        credential_infos,
        ..DescribeUserScramCredentialsResult::default()
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
    use wire::metadata::UserScramCredentialRecord;

    use super::*;
    use crate::kafka::api::fixture::Fixture;

    /// Credentials of users, each with its mechanism and its rounds.
    const CREDENTIALS: [(&str, i8, i32); 3] = [("c", 1, 4096), ("c", 2, 8192), ("b", 2, 16_384)];

    type Told = (String, i16, Vec<(i8, i32)>);

    fn told(users: Option<&[&str]>, credentials: &[(&str, i8, i32)]) -> Vec<Told> {
        let mut fixture = Fixture::new("");
        for (name, mechanism, iterations) in credentials {
            let record = UserScramCredentialRecord {
                name: (*name).to_owned(),
                mechanism: *mechanism,
                iterations: *iterations,
                ..UserScramCredentialRecord::default()
            };
            fixture.replay(&[record.into()]);
        }
        let named = |name: &&str| UserName {
            name: (*name).to_owned(),
        };
        let request = DescribeUserScramCredentialsRequest {
            users: users.map(|users| users.iter().map(named).collect()),
        };
        let response = handle(&request, &fixture.view());
        // No words, which is not the same as none to Kafka.
        let no_words = Some(String::new());
        assert_eq!((response.error_code, response.error_message), (0, no_words));
        let results = response.results.into_iter();
        results
            .map(|result| {
                let infos = result.credential_infos.into_iter();
                let infos = infos.map(|info| (info.mechanism, info.iterations));
                (result.user, result.error_code, infos.collect())
            })
            .collect()
    }

    fn of(name: &str, code: i16, infos: &[(i8, i32)]) -> Told {
        (name.to_owned(), code, infos.to_vec())
    }

    #[test]
    fn where_nobody_is_named_all_users_are_told() {
        for nobody in [None, Some(&[][..])] {
            assert_eq!(told(nobody, &[]), []);
            let all = [
                of("b", 0, &[(2, 16_384)]),
                of("c", 0, &[(1, 4096), (2, 8192)]),
            ];
            assert_eq!(told(nobody, &CREDENTIALS), all);
        }
    }

    #[test]
    fn users_that_are_named_are_told_in_that_order() {
        let both = told(Some(&["c", "b"]), &CREDENTIALS);
        let expected = [
            of("c", 0, &[(1, 4096), (2, 8192)]),
            of("b", 0, &[(2, 16_384)]),
        ];
        assert_eq!(both, expected);
    }

    #[test]
    fn a_user_that_is_not_there_and_one_that_is_named_twice_are_refused() {
        let told = |users: &[&str]| told(Some(users), &CREDENTIALS);
        assert_eq!(told(&["a"]), [of("a", 91, &[])]);
        assert_eq!(told(&[""]), [of("", 91, &[])]);
        let twice = [of("a", 92, &[]), of("c", 0, &[(1, 4096), (2, 8192)])];
        assert_eq!(told(&["a", "c", "a"]), twice);
        assert_eq!(told(&["b", "b", "b"]), [of("b", 92, &[])]);
    }
}
