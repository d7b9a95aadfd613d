//! The page of all settings, written from the table.

use std::fmt::Write;

use crate::table::{self, Check, Kind, SECTIONS, Setting, Status, Update};

/// The text of `docs/configuration.md`.
#[must_use]
pub fn markdown() -> String {
    let mut page = String::from(HEAD);
    page.push_str("\n## Topics\n\n| setting | default | type | broker setting | effect | meaning |\n|---|---|---|---|---|---|\n");
    for topic in table::topic_settings() {
        let synonyms: Vec<String> = topic
            .synonyms
            .iter()
            .map(|synonym| format!("`{}`", synonym.name))
            .collect();
        let setting = &topic.setting;
        row(&mut page, setting, &synonyms.join(", "));
    }
    page.push_str("\n## Groups\n\nSet with `kafka-configs --entity-type groups`, within the bounds of the broker settings `group.*.min.*` and `group.*.max.*`.\n\n| setting | default | type | broker setting | effect | meaning |\n|---|---|---|---|---|---|\n");
    for group in table::group_settings() {
        let synonym = group.synonym.map(|name| format!("`{name}`"));
        row(&mut page, &group.setting, &synonym.unwrap_or_default());
    }
    page.push_str("\n## Subscriptions to client metrics\n\nSet with `kafka-configs --entity-type client-metrics`. Clients are asked where `esker.client.metrics.enable` is set; what all of them push is kept at 1 MiB a second at most (compressed, 64 MiB at once), and pushes beyond that are throttled.\n\n| setting | default | type | changes | effect | meaning |\n|---|---|---|---|---|---|\n");
    for setting in table::client_metrics_settings() {
        row(&mut page, setting, "any time");
    }
    for (title, settings) in SECTIONS {
        let _ = write!(
            page,
            "\n## {title}\n\n| setting | default | type | changes | effect | meaning |\n|---|---|---|---|---|---|\n"
        );
        let mut settings: Vec<&Setting> = settings.iter().collect();
        settings.sort_by_key(|setting| setting.name);
        for setting in settings {
            let update = match setting.update {
                Update::ReadOnly => "at start",
                Update::PerBroker => "per broker",
                Update::ClusterWide => "any time",
            };
            row(&mut page, setting, update);
        }
    }
    page
}

const HEAD: &str = "# Settings

Written from the table of settings in `crates/config`; do not edit. Names and defaults are those of Apache Kafka 4.4, with a few
settings of our own that begin with `esker.` or hold it in their name.

`esker serve --config FILE` reads a Kafka `server.properties`, or a TOML file when its name ends in `.toml`; `--set name=value` wins
over both. In TOML a name may be quoted, dotted, or nested tables: `\"log.segment.bytes\" = 1048576` is the same as `bytes = 1048576`
below `[log.segment]`.

*Changes* says when a setting can change: `at start` only, `per broker` or `any time` through the admin tools while the broker runs.
*Effect*: `works`; `accepted`, which means checked, stored and listed, while what it steers is not built yet; `none`, which means it
steers something this broker does not have: its row says why. A start names in one line what was set and is not `works`.
";

fn row(page: &mut String, setting: &Setting, third: &str) {
    let default = match (setting.name, setting.default) {
        ("num.network.threads", _) => "cores - 1".to_owned(),
        (_, None) => String::new(),
        (_, Some("")) => "empty".to_owned(),
        (_, Some("9223372036854775807")) => "no bound".to_owned(),
        (_, Some(default)) => format!("`{default}`"),
    };
    let effect = match setting.status {
        Status::Works => "works",
        Status::Accepted => "accepted",
        Status::Meaningless => "none",
    };
    let doc = setting.doc.replace('|', "\\|");
    let _ = writeln!(
        page,
        "| `{}` | {default} | {} | {third} | {effect} | {doc} |",
        setting.name,
        kind(setting)
    );
}

fn kind(setting: &Setting) -> String {
    let kind = match setting.kind {
        Kind::Boolean => "true or false",
        Kind::Int | Kind::Long | Kind::Short => "number",
        Kind::Double => "fraction",
        Kind::String => "text",
        Kind::List => "list",
        Kind::Class => "class",
        Kind::Password => "secret",
    };
    match setting.check {
        Check::AtLeast(low) => format!("{kind}, {low} or more"),
        Check::Between(low, high) => format!("{kind}, {low} to {high}"),
        Check::Share(high) => format!("{kind}, 0 to {high}"),
        Check::OneOf(known) => known.join(", "),
        Check::OneOfAnyCase(known) => known.join(", ").to_lowercase(),
        Check::ItemsOf(known) => format!("{kind} of {}", known.join(", ")),
        Check::GzipLevel => format!("{kind}, 1 to 9 or -1"),
        Check::OffsetReset => "earliest, latest, by_duration:PnDTnHnMn.nS".to_owned(),
        Check::Any | Check::NonEmpty | Check::Items | Check::UniqueItems | Check::Replicas => {
            kind.to_owned()
        }
    }
}
