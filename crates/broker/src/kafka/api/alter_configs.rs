//! AlterConfigs: replaces all settings of a resource (KIP-133).

use meta::Record;
use meta::decide::alter_configs::{AlterError, Named, Replacement};
use wire::ErrorCode;
use wire::messages::alter_configs_response::AlterConfigsResourceResponse;
use wire::messages::{AlterConfigsRequest, AlterConfigsResponse};

use super::refusal;
use crate::ops::view::View;
use crate::ops::{Mode, Refused, configs};

#[must_use]
pub(crate) fn handle(
    request: &AlterConfigsRequest,
    view: &View<'_>,
) -> (Vec<Record>, AlterConfigsResponse) {
    let resource = |resource: &wire::messages::alter_configs_request::AlterConfigsResource| {
        let named = Named {
            kind: resource.resource_type,
            name: resource.resource_name.clone(),
        };
        let settings: Replacement = resource
            .configs
            .iter()
            .map(|config| (config.name.clone(), config.value.clone()))
            .collect();
        (named, settings)
    };
    let resources: Vec<(Named, Replacement)> = request.resources.iter().map(resource).collect();
    let mode = Mode::validate_if(request.validate_only);
    let (records, answers) = configs::replace(view, resources, mode);
    let responses = answers
        .into_iter()
        .map(|(named, answer)| result(named, answer))
        .collect();
    (
        records,
        AlterConfigsResponse {
            responses,
            ..AlterConfigsResponse::default()
        },
    )
}

fn result(named: Named, answer: Result<(), Refused<AlterError>>) -> AlterConfigsResourceResponse {
    let (code, error_message) = match answer {
        Ok(()) => (ErrorCode::None, None),
        Err(refused) => refusal::alter_refused(&named, &refused),
    };
    AlterConfigsResourceResponse {
        error_code: code.code(),
        error_message,
        resource_type: named.kind,
        resource_name: named.name,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kafka::api::fixture::Fixture;
    use wire::messages::alter_configs_request::{AlterConfigsResource, AlterableConfig};

    #[test]
    fn settings_that_are_not_named_are_dropped() {
        let mut fixture = Fixture::new("");
        let configs = vec![AlterableConfig {
            name: "flush.ms".into(),
            value: Some("7".into()),
        }];
        let resources = vec![AlterConfigsResource {
            resource_type: 2,
            resource_name: "t".into(),
            configs,
        }];
        let ask = |validate_only| AlterConfigsRequest {
            resources: resources.clone(),
            validate_only,
        };
        assert!(handle(&ask(true), &fixture.view()).0.is_empty());
        let (records, response) = handle(&ask(false), &fixture.view());
        assert_eq!(response.responses[0].error_code, 0);
        fixture.replay(&records);
        let kept = fixture.image.overrides(&meta::Resource::topic("t"));
        assert_eq!(kept.keys().collect::<Vec<_>>(), ["flush.ms"]);
    }

    #[test]
    fn codes_are_those_of_kafka_4_3() {
        let fixture = Fixture::new("");
        let code = |resource_type, resource_name: &str, name: &str, value: Option<&str>| {
            let configs = vec![AlterableConfig {
                name: name.into(),
                value: value.map(Into::into),
            }];
            let resources = vec![AlterConfigsResource {
                resource_type,
                resource_name: resource_name.into(),
                configs,
            }];
            handle(
                &AlterConfigsRequest {
                    resources,
                    validate_only: false,
                },
                &fixture.view(),
            )
            .1
            .responses[0]
                .error_code
        };
        assert_eq!(code(2, "t", "retention.ms", None), 42);
        assert_eq!(code(2, "none", "retention.ms", Some("1")), 3);
        assert_eq!(code(2, "t", "retention.ms", Some("x")), 40);
        assert_eq!(code(4, "1", "log.retention.ms", Some("1")), 0);
        assert_eq!(code(8, "1", "root", Some("INFO")), 42);
        assert_eq!(code(1, "1", "root", Some("INFO")), 42);
    }
}
