//! SCRAM credentials of users: set and deleted.
//!
//! Owns that the credential of a super user is changed by super users alone (D6): whoever may alter the cluster could log in as one of
//! them otherwise.

use std::collections::BTreeSet;

use meta::Record;
use meta::decide::scram::{Change, CredentialError, alter_credentials};

use super::Refused;
use super::topics::ByName;
use super::view::View;

/// The records, and an answer for each user in the order of their names.
pub(crate) fn alter(
    view: &View<'_>,
    changes: Vec<Change>,
) -> (Vec<Record>, ByName<(), CredentialError>) {
    let may = |change: &Change| view.asker.may_change_login_of(change.user());
    let (changes, denied): (Vec<Change>, Vec<Change>) = changes.into_iter().partition(may);
    let alteration = alter_credentials(view.image, &changes);
    let answers = alteration.answers.into_iter();
    let answers = answers.map(|(user, answer)| (user, answer.map_err(Refused::Because)));
    let denied: BTreeSet<&str> = denied.iter().map(Change::user).collect();
    let denied = denied
        .into_iter()
        .map(|user| (user.to_owned(), Err(Refused::Unauthorised)));
    let mut answers: ByName<(), CredentialError> = answers.chain(denied).collect();
    answers.sort_by(|(one, _), (other, _)| one.cmp(other));
    (alteration.records, answers)
}
