//! IncrementalAlterConfigs: sets, removes, appends and subtracts single settings (KIP-339).

use meta::Record;
use meta::decide::alter_configs::{AlterError, Change, Named, Operation};
use wire::ErrorCode;
use wire::messages::incremental_alter_configs_response::AlterConfigsResourceResponse;
use wire::messages::{IncrementalAlterConfigsRequest, IncrementalAlterConfigsResponse};

use super::refusal;
use crate::ops::view::View;
use crate::ops::{Mode, Refused, configs};

#[must_use]
pub(crate) fn handle(
    request: &IncrementalAlterConfigsRequest,
    view: &View<'_>,
) -> (Vec<Record>, IncrementalAlterConfigsResponse) {
    let change =
        |config: &wire::messages::incremental_alter_configs_request::AlterableConfig| Change {
            name: config.name.clone(),
            operation: Operation::from_wire(config.config_operation),
            value: config.value.clone(),
        };
    let resource =
        |resource: &wire::messages::incremental_alter_configs_request::AlterConfigsResource| {
            let named = Named {
                kind: resource.resource_type,
                name: resource.resource_name.clone(),
            };
            (named, resource.configs.iter().map(change).collect())
        };
    let resources: Vec<(Named, Vec<Change>)> = request.resources.iter().map(resource).collect();
    let mode = Mode::validate_if(request.validate_only);
    let (records, answers) = configs::change(view, resources, mode);
    let responses = answers
        .into_iter()
        .map(|(named, answer)| result(named, answer))
        .collect();
    (
        records,
        IncrementalAlterConfigsResponse {
            responses,
            ..IncrementalAlterConfigsResponse::default()
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
    use wire::messages::incremental_alter_configs_request::{
        AlterConfigsResource, AlterableConfig,
    };

    fn request(
        resource: (i8, &str),
        config: (&str, i8, Option<&str>),
        validate_only: bool,
    ) -> IncrementalAlterConfigsRequest {
        let (name, config_operation, value) = config;
        let configs = vec![AlterableConfig {
            name: name.into(),
            config_operation,
            value: value.map(Into::into),
        }];
        let resources = vec![AlterConfigsResource {
            resource_type: resource.0,
            resource_name: resource.1.into(),
            configs,
        }];
        IncrementalAlterConfigsRequest {
            resources,
            validate_only,
        }
    }

    #[test]
    fn codes_are_those_of_kafka_4_3() {
        let fixture = Fixture::new("");
        for (resource, config, code) in [
            ((2, "t"), ("retention.ms", 0, Some(" 77 ")), 0),
            ((2, "t"), ("retention.ms", 0, Some("x")), 40),
            ((2, "t"), ("retention.ms", 0, None), 42),
            ((2, "t"), ("retention.ms", 2, Some("5")), 40),
            ((2, "t"), ("cleanup.policy", 2, Some("compact")), 0),
            ((2, "t"), ("nosuch", 0, Some("5")), 40),
            ((2, "t"), ("nosuch", 1, None), 0),
            ((2, "t"), ("retention.ms", 9, Some("5")), 42),
            ((2, "none"), ("retention.ms", 0, Some("5")), 3),
            ((2, "b b"), ("retention.ms", 0, Some("5")), 17),
            ((2, ""), ("retention.ms", 0, Some("5")), 42),
            ((4, "1"), ("log.retention.ms", 0, Some("5000")), 0),
            ((4, ""), ("log.retention.ms", 0, Some("5000")), 0),
            ((4, "1"), ("node.id", 0, Some("5")), 42),
            ((4, "1"), ("log.segment.bytes", 0, Some("5")), 42),
            ((4, "2"), ("log.retention.ms", 0, Some("5000")), 42),
            (
                (32, "g"),
                ("consumer.session.timeout.ms", 0, Some("50000")),
                0,
            ),
            ((32, "g"), ("consumer.session.timeout.ms", 1, None), 0),
            ((32, "g"), ("consumer.session.timeout.ms", 0, Some("1")), 40),
            ((32, "g"), ("consumer.session.timeout.ms", 0, Some("x")), 40),
            ((32, "g"), ("consumer.session.timeout.ms", 0, None), 42),
            ((32, "g"), ("consumer.session.timeout.ms", 2, Some("1")), 40),
            ((32, "g"), ("retention.ms", 0, Some("1")), 40),
            (
                (32, ""),
                ("consumer.session.timeout.ms", 0, Some("50000")),
                42,
            ),
            ((16, "m"), ("match", 0, Some("client_id=a.*")), 0),
            ((16, "m"), ("match", 0, Some("client_id=(")), 40),
            ((77, "1"), ("root", 0, Some("INFO")), 42),
        ] {
            let (_, response) = handle(&request(resource, config, false), &fixture.view());
            assert_eq!(
                response.responses[0].error_code, code,
                "{resource:?} {config:?}"
            );
        }
    }

    #[test]
    fn levels_of_loggers_change_at_once_and_as_kafka_4_3_has_it() {
        let fixture = Fixture::new("");
        let level = |name| fixture.loggers.level_of(name).name();
        for (resource, config, code, after) in [
            ((8, "1"), ("broker", 0, Some("DEBUG")), 0, "DEBUG"),
            ((8, "1"), ("broker", 1, None), 0, "INFO"),
            ((8, "1"), ("broker", 0, Some("FATAL")), 0, "FATAL"),
            ((8, "1"), ("broker", 0, Some("debug")), 40, "FATAL"),
            ((8, "1"), ("broker", 0, Some("OFF")), 40, "FATAL"),
            ((8, "1"), ("nosuch", 0, Some("INFO")), 40, "FATAL"),
            ((8, "1"), ("nosuch", 1, None), 40, "FATAL"),
            ((8, "1"), ("root", 1, None), 42, "FATAL"),
            ((8, "1"), ("broker", 2, Some("INFO")), 42, "FATAL"),
            ((8, "1"), ("broker", 0, None), 42, "FATAL"),
            ((8, "1"), ("broker", 9, Some("INFO")), 42, "FATAL"),
            ((8, "2"), ("broker", 0, Some("INFO")), 42, "FATAL"),
            ((8, "x"), ("broker", 0, Some("INFO")), 42, "FATAL"),
        ] {
            let (records, response) = handle(&request(resource, config, false), &fixture.view());
            let answer = &response.responses[0];
            assert_eq!(
                (answer.error_code, level("broker"), records.len()),
                (code, after, 0),
                "{resource:?} {config:?} {:?}",
                answer.error_message
            );
        }
        let asked = request((8, "1"), ("broker", 0, Some("INFO")), true);
        let (_, response) = handle(&asked, &fixture.view());
        assert_eq!(
            (response.responses[0].error_code, level("broker")),
            (0, "FATAL")
        );
    }

    #[test]
    fn a_change_holds_after_its_records_and_not_before() {
        let mut fixture = Fixture::new("");
        let topic = |fixture: &Fixture| {
            config::Topic::resolve(
                &fixture.image.overrides(&meta::Resource::topic("a")),
                &fixture.broker,
            )
        };
        assert!(
            handle(
                &request((4, ""), ("log.retention.ms", 0, Some("5000")), true),
                &fixture.view()
            )
            .0
            .is_empty()
        );
        let (records, _) = handle(
            &request((4, ""), ("log.retention.ms", 0, Some("5000")), false),
            &fixture.view(),
        );
        assert_eq!(topic(&fixture).retention_ms, Some(604_800_000));
        fixture.replay(&records);
        assert_eq!(topic(&fixture).retention_ms, Some(5000));
        let (records, _) = handle(
            &request((2, "a"), ("retention.ms", 0, Some("9")), false),
            &fixture.view(),
        );
        fixture.replay(&records);
        assert_eq!(topic(&fixture).retention_ms, Some(9));
    }
}
