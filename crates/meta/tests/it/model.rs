//! Whatever commands come in whatever order, the image equals a model that knows nothing of records.

use std::collections::BTreeMap;

use ::config::Overrides;
use meta::decide::alter_configs::{Change, Named, Operation, change_configs};
use meta::decide::create_partitions::{Growth, create_partitions};
use meta::decide::create_topics::{NewTopic, create_topics};
use meta::decide::delete_topics::{Target, delete_topics};
use meta::{Image, Resource};
use proptest::prelude::*;

use crate::delta::check_by_walking;
use crate::{broker, image, replay};

#[derive(Clone, Debug)]
enum Command {
    Create {
        name: String,
        partitions: i32,
        retention: Option<String>,
    },
    Delete {
        name: String,
    },
    Grow {
        name: String,
        count: i32,
    },
    Set {
        name: String,
        setting: &'static str,
        value: String,
    },
    Unset {
        name: String,
        setting: &'static str,
    },
}

/// A topic as the model sees it.
#[derive(Debug, Default, PartialEq, Eq)]
struct Model {
    topics: BTreeMap<String, (i32, Overrides)>,
}

impl Model {
    fn apply(&mut self, command: &Command) {
        match command {
            Command::Create {
                name,
                partitions,
                retention,
            } => {
                let folded = name.replace('.', "_");
                let is_taken = self
                    .topics
                    .keys()
                    .any(|other| other.replace('.', "_") == folded);
                let retention_fits = retention
                    .as_ref()
                    .is_none_or(|text| fits("retention.ms", text));
                if !is_taken && 0 < *partitions && retention_fits {
                    let overrides = retention
                        .iter()
                        .map(|text| ("retention.ms".to_owned(), text.clone()))
                        .collect();
                    self.topics.insert(name.clone(), (*partitions, overrides));
                }
            }
            Command::Delete { name } => drop(self.topics.remove(name)),
            Command::Grow { name, count } => {
                if let Some((partitions, _)) = self
                    .topics
                    .get_mut(name)
                    .filter(|(partitions, _)| partitions < count)
                {
                    *partitions = *count;
                }
            }
            Command::Set {
                name,
                setting,
                value,
            } => {
                if let Some((_, overrides)) =
                    self.topics.get_mut(name).filter(|_| fits(setting, value))
                {
                    overrides.insert((*setting).to_owned(), value.clone());
                }
            }
            Command::Unset { name, setting } => {
                if let Some((_, overrides)) = self.topics.get_mut(name) {
                    overrides.remove(*setting);
                }
            }
        }
    }
}

fn fits(setting: &str, text: &str) -> bool {
    let least = if setting == "retention.ms" { -1 } else { 0 };
    text.parse::<i64>().is_ok_and(|number| least <= number)
}

fn seen(image: &Image) -> Model {
    let one = |topic: &std::sync::Arc<meta::Topic>| {
        let name = topic.name.to_string();
        let overrides = Overrides::clone(&image.overrides(&Resource::topic(&name)));
        (
            name,
            (
                i32::try_from(topic.partitions.len()).expect("few"),
                overrides,
            ),
        )
    };
    Model {
        topics: image.topics().map(one).collect(),
    }
}

fn commands() -> impl Strategy<Value = Vec<Command>> {
    let name = prop::sample::select(vec!["a", "b", "x.y", "x_y", "c-1"]).prop_map(str::to_owned);
    let value = prop::sample::select(vec!["5", "-1", "-2", "oops", "700"]).prop_map(str::to_owned);
    let setting = prop::sample::select(vec!["retention.ms", "flush.ms", "file.delete.delay.ms"]);
    let command = prop_oneof![
        (name.clone(), 0..4, prop::option::of(value.clone())).prop_map(
            |(name, partitions, retention)| Command::Create {
                name,
                partitions,
                retention
            }
        ),
        name.clone().prop_map(|name| Command::Delete { name }),
        (name.clone(), 0..6).prop_map(|(name, count)| Command::Grow { name, count }),
        (name.clone(), setting.clone(), value).prop_map(|(name, setting, value)| Command::Set {
            name,
            setting,
            value
        }),
        (name, setting).prop_map(|(name, setting)| Command::Unset { name, setting }),
    ];
    prop::collection::vec(command, 0..40)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn the_image_equals_the_model_and_replaying_all_records_gives_it_again(commands in commands()) {
        let broker = broker("");
        let mut image = image(1);
        let first = image.clone();
        let mut ids = crate::uuids();
        let mut model = Model::default();
        let mut log = Vec::new();
        for command in &commands {
            let records = match command {
                Command::Create { name, partitions, retention } => {
                    let settings = retention.iter().map(|text| ("retention.ms".to_owned(), Some(text.clone()))).collect();
                    let new = NewTopic { name: name.clone(), partitions: *partitions, replication_factor: -1, settings, ..NewTopic::default() };
                    create_topics(&image, &broker, &[new], &mut ids).records
                }
                Command::Delete { name } => delete_topics(&image, &[Target { name: Some(name.clone()), ..Target::default() }]).records,
                Command::Grow { name, count } => {
                    create_partitions(&image, &[Growth { name: name.clone(), count: *count, assignments: None }]).records
                }
                Command::Set { name, setting, value } => change(&image, &broker, name, setting, Some(value.clone())),
                Command::Unset { name, setting } => change(&image, &broker, name, setting, None),
            };
            // The published image is shared while the next one is made, as in the broker.
            let published = image.clone();
            replay(&mut image, &records);
            model.apply(command);
            prop_assert_eq!(&seen(&image), &model);
            prop_assert_eq!(published.end() + records.len() as i64, image.end());
            check_by_walking(&published, &image);
            check_by_walking(&first, &image);
            log.extend(records);
        }
        let mut again = crate::image(1);
        replay(&mut again, &log);
        prop_assert_eq!(again, image);
    }
}

fn change(
    image: &Image,
    broker: &config::Broker,
    name: &str,
    setting: &str,
    value: Option<String>,
) -> Vec<meta::Record> {
    let operation = if value.is_some() {
        Operation::Set
    } else {
        Operation::Delete
    };
    let change = Change {
        name: setting.into(),
        operation: Some(operation),
        value,
    };
    change_configs(
        image,
        broker,
        |_| true,
        &[(
            Named {
                kind: 2,
                name: name.into(),
            },
            vec![change],
        )],
    )
    .records
}
