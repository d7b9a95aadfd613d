//! The authorizer: whether there is one, and who is above its rules.
//!
//! Names of classes stand for what is built in: nothing is loaded. Refuses other classes, and principals without a type.

use crate::layers::Layers;
use crate::settings::SettingsError;

const CLASS: &str = "authorizer.class.name";
/// The class of Kafka whose rules are the built-in ones; those of ZooKeeper's days had the same, and Kafka has them no more.
const STANDARD: &str = "org.apache.kafka.metadata.authorizer.StandardAuthorizer";
const SUPER_USERS: &str = "super.users";
const IF_NO_RULE: &str = "allow.everyone.if.no.acl.found";

/// The authorizer, as the settings have it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Access {
    /// `Type:name` each.
    pub super_users: Vec<String>,
    /// A resource that no rule names is open to everybody.
    pub allows_if_no_rule: bool,
}

impl Access {
    /// `None` without an authorizer: everybody may do everything.
    pub(crate) fn new(layers: &Layers) -> Result<Option<Access>, SettingsError> {
        let unusable = |name, reason: String| SettingsError::Unusable { name, reason };
        let class = layers.text(CLASS).unwrap_or_default();
        let super_users = super_users(&layers.text(SUPER_USERS).unwrap_or_default())
            .map_err(|reason| unusable(SUPER_USERS, reason))?;
        match &*class {
            "" => Ok(None),
            STANDARD => Ok(Some(Access {
                super_users,
                allows_if_no_rule: layers.flag(IF_NO_RULE),
            })),
            _ => Err(unusable(
                CLASS,
                format!(
                    "{class} is not built in, and no class can be loaded: set it to {STANDARD}"
                ),
            )),
        }
    }
}

/// Split at semicolons, since a name may have commas; blanks around each count for nothing.
fn super_users(text: &str) -> Result<Vec<String>, String> {
    let each = text
        .split(';')
        .map(str::trim)
        .filter(|user| !user.is_empty());
    each.map(|user| match user.split_once(':') {
        Some(_) if user.contains(",User:") => Err(format!(
            "{user}: several are separated by semicolons, as in User:a;User:b"
        )),
        Some((kind, name)) if !kind.is_empty() && !name.is_empty() => Ok(user.to_owned()),
        _ => Err(format!(
            "{user}: write it as Type:name, for example User:{user}"
        )),
    })
    .collect()
}

/// A line at start about rules that nobody is asked about.
pub(crate) fn warning(layers: &Layers) -> Option<String> {
    let is_set = |name: &&&str| layers.is_given(name);
    let names = [SUPER_USERS, IF_NO_RULE];
    let given: Vec<&str> = names.iter().filter(is_set).copied().collect();
    let has_none = layers.text(CLASS).unwrap_or_default().is_empty();
    (has_none && !given.is_empty()).then(|| {
        format!(
            "{} without {CLASS}: there is no authorizer, and everybody who reaches a listener may do everything. Set \
             {CLASS}={STANDARD}",
            given.join(" and ")
        )
    })
}

#[cfg(test)]
mod tests {
    use crate::{Broker, Machine, Settings};

    use super::*;

    fn access(text: &str) -> Result<Option<Access>, String> {
        let mut settings = Settings::default();
        let read = settings.read(text, crate::Format::Properties);
        read.map_err(|error| error.to_string())?;
        let machine = Machine {
            cores: 2,
            memory_bytes: 0,
            descriptors: 20_000,
        };
        let broker = Broker::new(settings, machine).map_err(|error| error.to_string())?;
        Ok(broker.access)
    }

    #[test]
    fn there_is_an_authorizer_where_kafka_s_class_is_named() {
        assert_eq!(access(""), Ok(None));
        let text = format!("{CLASS}={STANDARD}\nsuper.users= User:admin; User:CN=a,O=b ;\n");
        let super_users = vec!["User:admin".to_owned(), "User:CN=a,O=b".to_owned()];
        let of = |allows_if_no_rule| {
            Ok(Some(Access {
                super_users: super_users.clone(),
                allows_if_no_rule,
            }))
        };
        assert_eq!(access(&text), of(false));
        let open = format!("{text}allow.everyone.if.no.acl.found=true\n");
        assert_eq!(access(&open), of(true));
    }

    #[test]
    fn settings_of_rules_that_nobody_asks_are_said_at_the_start() {
        let words = |text: &str| {
            let mut settings = Settings::default();
            settings
                .read(text, crate::Format::Properties)
                .expect("settings");
            let machine = Machine {
                cores: 2,
                memory_bytes: 0,
                descriptors: 20_000,
            };
            Broker::new(settings, machine)
                .expect("a broker")
                .warning_of_rules()
        };
        let without = words("super.users=User:admin").expect("a warning");
        assert!(
            without.contains("super.users without authorizer.class.name"),
            "{without}"
        );
        assert_eq!(
            words(&format!("{CLASS}={STANDARD}\nsuper.users=User:admin")),
            None
        );
        assert_eq!(words(""), None);
    }

    #[test]
    fn what_would_let_everybody_in_by_mistake_does_not_start() {
        for (text, why) in [
            (format!("{CLASS}=com.example.Mine"), "not built in"),
            (
                format!("{CLASS}={STANDARD}\nsuper.users=admin"),
                "User:admin",
            ),
            (
                format!("{CLASS}={STANDARD}\nsuper.users=User:"),
                "Type:name",
            ),
            (
                format!("{CLASS}={STANDARD}\nsuper.users=User:a,User:b"),
                "semicolons",
            ),
        ] {
            let told = access(&text).expect_err("refused");
            assert!(told.contains(why), "{told}");
        }
    }
}
