//! AlterUserScramCredentials: passwords of users, salted by their clients (KIP-554).

use meta::Record;
use meta::decide::scram::{Change, CredentialError};
use security::Secret;
use wire::messages::alter_user_scram_credentials_response::AlterUserScramCredentialsResult;
use wire::messages::{AlterUserScramCredentialsRequest, AlterUserScramCredentialsResponse};
use wire::{ApiKey, ErrorCode};

use super::refusal;
use crate::kafka::call::Call;
use crate::net::Outcome;
use crate::ops::view::View;
use crate::ops::{Refused, credentials};

const SUPER_USER: &str = "The credential of a super user is changed by super users only";

/// Answers once the change is durable. Its client names no time.
pub(crate) fn on_alter(call: &mut Call<'_>, request: AlterUserScramCredentialsRequest) -> Outcome {
    let patience = call.desk.shared.catalog.config().request_wait_max;
    let key = ApiKey::AlterUserScramCredentials;
    call.change(key, patience, |view, _| handle(request, view))
}

fn handle(
    request: AlterUserScramCredentialsRequest,
    view: &View<'_>,
) -> (Vec<Record>, AlterUserScramCredentialsResponse) {
    let deletions = request.deletions.into_iter();
    let deletions = deletions.map(|deletion| Change::Delete {
        user: deletion.name,
        mechanism: deletion.mechanism,
    });
    let upsertions = request.upsertions.into_iter();
    let upsertions = upsertions.map(|upsertion| Change::Set {
        user: upsertion.name,
        mechanism: upsertion.mechanism,
        iterations: upsertion.iterations,
        salt: upsertion.salt.to_vec(),
        salted_password: Secret::new(upsertion.salted_password.to_vec()),
    });
    let (records, answers) = credentials::alter(view, deletions.chain(upsertions).collect());
    let results = answers
        .into_iter()
        .map(|(user, answer)| result(user, answer));
    let response = AlterUserScramCredentialsResponse {
        results: results.collect(),
        ..AlterUserScramCredentialsResponse::default()
    };
    (records, response)
}

fn result(
    user: String,
    answer: Result<(), Refused<CredentialError>>,
) -> AlterUserScramCredentialsResult {
    let (code, error_message) = match answer {
        Ok(()) => (ErrorCode::None, None),
        Err(Refused::Unauthorised) => (
            ErrorCode::ClusterAuthorizationFailed,
            Some(SUPER_USER.to_owned()),
        ),
        Err(Refused::Because(error)) => (refusal::alter_credential(error), Some(error.to_string())),
    };
    AlterUserScramCredentialsResult {
        user,
        error_code: code.code(),
        error_message,
    }
}

#[cfg(test)]
mod tests;
