//! UpdateFeatures: levels of features, up or down (KIP-584, KIP-778).

use std::collections::BTreeMap;
use std::time::Duration;

use meta::decide::update_features::{Direction, Update, UpdateError};
use meta::versions::KRAFT_VERSION;
use security::authorize::Operation;
use wire::messages::update_features_response::UpdatableFeatureResult;
use wire::messages::{UpdateFeaturesRequest, UpdateFeaturesResponse};
use wire::{ApiKey, ErrorCode};

use super::refusal;
use crate::asker::access::Resource;
use crate::control::log::{Levels, QuorumLevel};
use crate::kafka::call::Call;
use crate::net::Outcome;
use crate::ops::view::View;
use crate::ops::{Mode, change, cluster};

/// First version that says which way an update goes; before it a flag says whether down is fine.
const UPGRADE_TYPE_VERSION: i16 = 1;
/// Last version with a result for each feature; they change together.
const RESULTS_UNTIL: i16 = 1;

pub(crate) fn on_update_features(call: &mut Call<'_>, request: UpdateFeaturesRequest) -> Outcome {
    let version = call.version();
    let patience = Duration::from_millis(request.timeout_ms.max(0).unsigned_abs().into());
    let ticket = call.ticket();
    let refuse = |why| {
        refused(&UpdateError::Level {
            feature: KRAFT_VERSION.to_owned(),
            level: 1,
            reason: why,
        })
    };
    let (response, begun) = change::begin_features(
        call.desk,
        &call.asker,
        (ticket, patience),
        |view, level| handle(&request, version, view, level),
        refuse,
    );
    call.answer_begun(ApiKey::UpdateFeatures, response, begun)
}

#[must_use]
pub(crate) fn handle(
    request: &UpdateFeaturesRequest,
    version: i16,
    view: &View<'_>,
    level: &QuorumLevel,
) -> (Levels, UpdateFeaturesResponse) {
    let updates: BTreeMap<String, Update> = request
        .feature_updates
        .iter()
        .map(|update| {
            let level = update.max_version_level;
            let direction = match version {
                ..UPGRADE_TYPE_VERSION if update.allow_downgrade => Some(Direction::SafeDowngrade),
                ..UPGRADE_TYPE_VERSION => Some(Direction::Upgrade),
                _ => Direction::from_wire(update.upgrade_type),
            };
            (update.feature.clone(), Update { level, direction })
        })
        .collect();
    let mode = Mode::validate_if(request.validate_only);
    let granted = match view.asker.grant(Operation::Alter, Resource::CLUSTER) {
        Ok(granted) => granted,
        Err(code) => {
            let response = UpdateFeaturesResponse {
                error_code: code.code(),
                error_message: Some(code.message().to_owned()),
                ..UpdateFeaturesResponse::default()
            };
            return (Levels::default(), response);
        }
    };
    let levels = match cluster::update(view, granted, level, &updates, mode) {
        Ok(levels) => levels,
        Err(error) => return (Levels::default(), refused(&error)),
    };
    let done = |feature: &String| UpdatableFeatureResult {
        feature: feature.clone(),
        error_code: ErrorCode::None.code(),
        error_message: Some("NONE".to_owned()),
    };
    let results = match version {
        ..=RESULTS_UNTIL => updates.keys().map(done).collect(),
        _ => Vec::new(),
    };
    let response = UpdateFeaturesResponse {
        error_message: None,
        results,
        ..UpdateFeaturesResponse::default()
    };
    (levels, response)
}

fn refused(error: &UpdateError) -> UpdateFeaturesResponse {
    let words = "The update failed for all features since the following feature had an error";
    UpdateFeaturesResponse {
        error_code: refusal::update_features(error).code(),
        error_message: Some(format!("{words}: {error}")),
        ..UpdateFeaturesResponse::default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kafka::api::fixture::Fixture;
    use wire::messages::update_features_request::FeatureUpdateKey;

    const UPGRADE: i8 = 1;
    const SAFE: i8 = 2;
    const UNSAFE: i8 = 3;

    fn request(updates: &[(&str, i16, i8)], validate_only: bool) -> UpdateFeaturesRequest {
        let key = |(feature, level, direction): &(&str, i16, i8)| FeatureUpdateKey {
            feature: (*feature).to_owned(),
            max_version_level: *level,
            upgrade_type: *direction,
            ..Default::default()
        };
        UpdateFeaturesRequest {
            feature_updates: updates.iter().map(key).collect(),
            validate_only,
            ..Default::default()
        }
    }

    #[test]
    fn a_level_goes_down_and_up_again() {
        let mut fixture = Fixture::new("");
        for (level, direction) in [
            (0, SAFE),
            (0, UPGRADE),
            (1, UPGRADE),
            (2, UPGRADE),
            (1, UNSAFE),
        ] {
            let request = request(&[("transaction.version", level, direction)], false);
            let (Levels { records, .. }, response) =
                handle(&request, 2, &fixture.view(), &QuorumLevel::default());
            assert_eq!((response.error_code, response.results.len()), (0, 0));
            fixture.replay(&records);
            assert_eq!(fixture.image.feature("transaction.version"), level);
        }
    }

    #[test]
    fn a_level_goes_down_with_the_flag_of_version_0() {
        let mut fixture = Fixture::new("");
        for (allow_downgrade, level, code) in [(false, 0, 95), (true, 0, 0), (false, 1, 0)] {
            let mut request = request(&[("group.version", level, UPGRADE)], false);
            request.feature_updates[0].allow_downgrade = allow_downgrade;
            let (Levels { records, .. }, response) =
                handle(&request, 0, &fixture.view(), &QuorumLevel::default());
            assert_eq!(response.error_code, code, "{allow_downgrade} {level}");
            fixture.replay(&records);
        }
        assert_eq!(fixture.image.feature("group.version"), 1);
    }

    #[test]
    fn a_validated_update_changes_nothing() {
        let fixture = Fixture::new("");
        let request = request(&[("group.version", 0, SAFE)], true);
        let (Levels { records, .. }, response) =
            handle(&request, 1, &fixture.view(), &QuorumLevel::default());
        assert!(records.is_empty());
        let result = UpdatableFeatureResult {
            feature: "group.version".into(),
            error_code: 0,
            error_message: Some("NONE".into()),
        };
        assert_eq!((response.error_code, response.results), (0, vec![result]));
    }

    #[test]
    fn what_cannot_change_is_refused_in_the_words_of_kafka_4_3() {
        let fixture = Fixture::new("");
        for (updates, words) in [
            (
                &[("group.version", 0, UPGRADE)][..],
                "Invalid update version 0 for feature group.version. Can't downgrade the version of this feature without \
                 setting the upgrade type to either safe or unsafe downgrade.",
            ),
            (
                &[("group.version", 2, UPGRADE)],
                "Invalid update version 2 for feature group.version. Local controller 1 only supports versions 0-1",
            ),
            (
                &[("group.version", -1, SAFE)],
                "Invalid update version -1 for feature group.version. A feature version cannot be less than 0.",
            ),
            (
                &[("group.version", 1, 0)],
                "Invalid update version 1 for feature group.version. The controller does not support the given upgrade type.",
            ),
            (
                &[("no.such", 1, UPGRADE)],
                "Invalid update version 1 for feature no.such. Local controller 1 does not support this feature.",
            ),
            (
                &[("metadata.version", 6, SAFE)],
                "Invalid update version 6 for feature metadata.version. Local controller 1 only supports versions 7-33",
            ),
            (
                &[("metadata.version", 20, SAFE)],
                "Unsupported metadata.version downgrade from 33 to 20. Refusing to perform the requested downgrade because \
                 it might delete metadata information.",
            ),
            (
                &[("metadata.version", 20, UNSAFE)],
                "Unsupported metadata.version downgrade from 33 to 20. Unsafe metadata downgrade is not supported in this \
                 version.",
            ),
            // Releases of kafka-features have features that come later.
            (
                &[
                    ("group.version", 1, UPGRADE),
                    ("streams.version", 1, UPGRADE),
                ],
                "Invalid update version 1 for feature streams.version. Local controller 1 does not support this feature.",
            ),
            // One that is wrong keeps all from changing.
            (
                &[("transaction.version", 0, SAFE), ("no.such", 1, UPGRADE)],
                "Invalid update version 1 for feature no.such. Local controller 1 does not support this feature.",
            ),
        ] {
            let (Levels { records, .. }, response) = handle(
                &request(updates, false),
                1,
                &fixture.view(),
                &QuorumLevel::default(),
            );
            let words = format!(
                "The update failed for all features since the following feature had an error: {words}"
            );
            assert_eq!((response.error_code, records.len()), (95, 0), "{updates:?}");
            assert_eq!(response.error_message, Some(words));
            assert!(response.results.is_empty());
        }
    }

    #[test]
    fn a_level_is_not_lowered_by_an_update_that_raises() {
        let mut fixture = Fixture::new("");
        let (Levels { records, .. }, _) = handle(
            &request(&[("transaction.version", 0, SAFE)], false),
            2,
            &fixture.view(),
            &QuorumLevel::default(),
        );
        fixture.replay(&records);
        let (Levels { records, .. }, response) = handle(
            &request(&[("transaction.version", 1, SAFE)], false),
            2,
            &fixture.view(),
            &QuorumLevel::default(),
        );
        assert_eq!((response.error_code, records.len()), (95, 0));
    }
}
