//! Users with passwords (SCRAM): described, given a password, deleted.
//!
//! A password stays here: the cluster is told what it needs to check one, and could not act as the user with that.

use security::Secret;
use security::login::scram::{Hash, NONCE_RANDOM_BYTES, salt};
use wire::ErrorCode;
use wire::messages::alter_user_scram_credentials_request::{
    ScramCredentialDeletion, ScramCredentialUpsertion,
};
use wire::messages::describe_user_scram_credentials_request::UserName;
use wire::messages::{AlterUserScramCredentialsRequest, DescribeUserScramCredentialsRequest};

use crate::cluster::Client;
use crate::error::Error;

/// Those of Kafka's tools, and those that a broker names for a user who does not exist: with another number anybody could tell who does.
const ITERATIONS: i32 = 4096;

/// A user and the mechanisms that it can log in by.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UserInfo {
    /// Without the type of its principal.
    pub name: String,
    /// Each with the rounds of its password.
    pub mechanisms: Vec<(Hash, i32)>,
}

impl Client {
    /// All users, or those of these names, in the order of their names. The error is that of the first who is not there.
    pub fn describe_users(&mut self, names: &[String]) -> Result<Vec<UserInfo>, Error> {
        self.retry("listing users", |client| {
            let name = |name: &String| UserName { name: name.clone() };
            let response = client.call_any(&DescribeUserScramCredentialsRequest {
                users: (!names.is_empty()).then(|| names.iter().map(name).collect()),
            })?;
            let message = response.error_message.as_deref();
            Error::check(response.error_code, || "listing users".to_owned(), message)?;
            let mut users = Vec::new();
            for answer in response.results {
                let message = answer.error_message.as_deref();
                let what = || format!("describing user {}", answer.user);
                Error::check(answer.error_code, what, message)?;
                let infos = answer.credential_infos.iter();
                let mechanism = infos.filter_map(|info| {
                    let hash = Hash::numbered(info.mechanism)?;
                    Some((hash, info.iterations))
                });
                users.push(UserInfo {
                    mechanisms: mechanism.collect(),
                    name: answer.user,
                });
            }
            users.sort_by(|one, other| one.name.cmp(&other.name));
            Ok(users)
        })
    }

    /// Gives a user a password for every mechanism; one that is not there comes to be.
    pub fn set_password(&mut self, user: &str, password: &Secret<Vec<u8>>) -> Result<(), Error> {
        // Two mechanisms of a user in one request would be refused as the same user twice.
        for hash in Hash::ALL {
            let mut random = [0; NONCE_RANDOM_BYTES];
            self.env().rng.fill(&mut random);
            let salt = salt(&random);
            let salted = hash.salted(password.expose(), &salt, ITERATIONS);
            let upsertion = ScramCredentialUpsertion {
                name: user.to_owned(),
                mechanism: hash.number(),
                iterations: ITERATIONS,
                salt: salt.into(),
                salted_password: salted.expose().clone().into(),
            };
            let request = AlterUserScramCredentialsRequest {
                deletions: Vec::new(),
                upsertions: vec![upsertion],
            };
            let what = format!("setting the password of user {user}");
            self.retry(&what, |client| client.alter_user(&what, &request))?;
        }
        Ok(())
    }

    /// Deletes a user: it has no password any more. The error is that of a user who has none.
    pub fn delete_user(&mut self, user: &str) -> Result<(), Error> {
        let known = self.describe_users(&[user.to_owned()])?;
        for (hash, _) in known.into_iter().flat_map(|user| user.mechanisms) {
            let deletion = ScramCredentialDeletion {
                name: user.to_owned(),
                mechanism: hash.number(),
            };
            let request = AlterUserScramCredentialsRequest {
                deletions: vec![deletion],
                upsertions: Vec::new(),
            };
            let what = format!("deleting user {user}");
            let deleted = self.retry(&what, |client| client.alter_user(&what, &request));
            match deleted {
                // An earlier try did it, and its answer was lost.
                Err(Error::Refused {
                    code: ErrorCode::ResourceNotFound,
                    ..
                }) => {}
                other => other?,
            }
        }
        Ok(())
    }

    fn alter_user(
        &mut self,
        what: &str,
        request: &AlterUserScramCredentialsRequest,
    ) -> Result<(), Error> {
        let response = self.call_controller(request)?;
        for answer in &response.results {
            let message = answer.error_message.as_deref();
            Error::check(answer.error_code, || what.to_owned(), message)?;
        }
        Ok(())
    }
}
