//! `--command-config FILE`: the settings of a client as Kafka's tools take them, in a properties file: how to log in, and where.
//!
//! Owns which of Kafka's settings count here. Others are named in one warning and passed over, as Kafka does. No message repeats a value
//! that may be a secret, or a name that is none of a setting: a text with a quotation mark too few has passwords in odd places.

use std::collections::BTreeMap;
use std::io::Read;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

use client::Login;
use security::Secret;
use security::jaas::{self, Module};
use security::login::Mechanism;

use crate::failure::Failure;

const PROTOCOL: &str = "security.protocol";
const MECHANISM: &str = "sasl.mechanism";
const JAAS: &str = "sasl.jaas.config";
const BOOTSTRAP: &str = "bootstrap.servers";
const CLIENT_ID: &str = "client.id";

/// Larger than any file of settings, certificates in it too.
const FILE_BYTES_MAX: u64 = 1 << 20;
/// Bits of a file's mode by which others than its owner read it.
const READ_BY_OTHERS: u32 = 0o044;
/// Settings without a meaning here that are named.
const NAMED_MAX: usize = 12;

/// The settings of a client that mean something here.
#[derive(Clone, Debug, Default)]
pub(crate) struct CommandConfig {
    pub(crate) login: Option<Login>,
    pub(crate) bootstrap: Option<String>,
    pub(crate) client_id: Option<String>,
}

/// Reads a file and tells its warnings.
#[allow(clippy::disallowed_methods)] // a file of the user, such as a descriptor of the shell
pub(crate) fn read(path: &Path) -> Result<CommandConfig, Failure> {
    let name = path.display();
    let unreadable = |error: std::io::Error| Failure::new(format!("cannot read {name}: {error}"));
    let file = std::fs::File::open(path).map_err(unreadable)?;
    let meta = file.metadata().map_err(unreadable)?;
    // One buffer from the start: one that grows leaves copies of the password behind.
    let room = meta.len().min(FILE_BYTES_MAX) + 1;
    let mut text = String::with_capacity(usize::try_from(room).unwrap_or(0));
    let read = file.take(FILE_BYTES_MAX + 1).read_to_string(&mut text);
    let text = Secret::new(text);
    let length = read.map_err(unreadable)?;
    if FILE_BYTES_MAX < u64::try_from(length).unwrap_or(u64::MAX) {
        let what = format!("{name} has more than {FILE_BYTES_MAX} bytes: no settings file");
        return Err(Failure::new(what));
    }
    let (config, warnings) =
        parse(text.expose()).map_err(|why| Failure::usage(format!("{name}: {why}")))?;
    for warning in warnings {
        env::tell!("warning: {name}: {warning}");
    }
    if config.login.is_some() && meta.is_file() && meta.mode() & READ_BY_OTHERS != 0 {
        env::tell!(
            "warning: others can read the password in {name}: chmod 600 keeps it to its owner"
        );
    }
    Ok(config)
}

/// The settings in a text, and the warnings about others.
fn parse(text: &str) -> Result<(CommandConfig, Vec<String>), String> {
    let pairs = config::properties(text).map_err(|error| error.to_string())?;
    let mut settings: BTreeMap<String, Secret<String>> = BTreeMap::new();
    for (name, value) in pairs {
        settings.insert(name, Secret::new(value));
    }
    let mut take = |name| settings.remove(name);
    let protocol = take(PROTOCOL).map(plain);
    let mechanism = take(MECHANISM).map(plain);
    let jaas = take(JAAS);
    let bootstrap = take(BOOTSTRAP).map(plain).filter(|text| !text.is_empty());
    let client_id = take(CLIENT_ID).map(plain).filter(|text| !text.is_empty());

    let mut warnings = Vec::new();
    let is_login = logs_in(protocol.as_deref())?;
    if !is_login && (mechanism.is_some() || jaas.is_some()) {
        warnings.push(format!(
            "nobody logs in without {PROTOCOL}=SASL_PLAINTEXT, whatever else is said of SASL"
        ));
    }
    let others: Vec<&str> = settings.keys().map(String::as_str).collect();
    warnings.extend(meaningless(&others));
    let login = match is_login {
        true => Some(login(mechanism.as_deref(), jaas.as_ref())?),
        false => None,
    };
    let config = CommandConfig {
        login,
        bootstrap,
        client_id,
    };
    Ok((config, warnings))
}

/// A value that is no secret. Blanks around it count for nothing, as in Kafka.
fn plain(value: Secret<String>) -> String {
    value.expose().trim().to_owned()
}

/// True if the protocol has a login. Kafka takes small letters, too.
fn logs_in(protocol: Option<&str>) -> Result<bool, String> {
    let Some(protocol) = protocol else {
        return Ok(false);
    };
    match protocol.to_ascii_uppercase().as_str() {
        "PLAINTEXT" => Ok(false),
        "SASL_PLAINTEXT" => Ok(true),
        tls @ ("SSL" | "SASL_SSL") => Err(format!(
            "{PROTOCOL} is {tls}, and TLS comes with the next version"
        )),
        _ => Err(format!(
            "{PROTOCOL} is {protocol}, which is no protocol; PLAINTEXT and SASL_PLAINTEXT are"
        )),
    }
}

fn login(mechanism: Option<&str>, jaas: Option<&Secret<String>>) -> Result<Login, String> {
    let names = Mechanism::EVERY.map(Mechanism::name).join(", ");
    let mechanism = mechanism.ok_or_else(|| {
        format!("{MECHANISM} is missing; it is one of {names} (Kafka's default, GSSAPI, is not spoken here)")
    })?;
    let mechanism = Mechanism::of_name(mechanism)
        .ok_or_else(|| format!("{MECHANISM} is {mechanism}, and one of {names} is needed"))?;
    let class = Module::of(mechanism).class();
    let jaas = jaas.ok_or_else(|| {
        format!("{JAAS} is missing; it names the user: {class} required username=\"NAME\" password=\"PASSWORD\";")
    })?;
    let entry = jaas::parse(jaas.expose()).map_err(|why| format!("{JAAS} {why}"))?;
    if entry.module != Module::of(mechanism) {
        let name = mechanism.name();
        return Err(format!("{JAAS} has to name {class} for {name}"));
    }
    if entry.is_token {
        return Err(format!(
            "{JAAS} has tokenauth, and logins by delegation tokens are not spoken here"
        ));
    }
    let user = entry.username.filter(|user| !user.is_empty());
    let user = user.ok_or_else(|| format!("{JAAS} has no username"))?;
    let password = entry.password.filter(|it| !it.expose().is_empty());
    let password = password.ok_or_else(|| format!("{JAAS} has no password"))?;
    if user.contains('\0') || password.expose().contains(&0) {
        return Err(format!(
            "{JAAS} has a zero in the username or the password, which no mechanism carries"
        ));
    }
    Ok(Login::new(mechanism, &user, password))
}

/// The warning about settings that mean nothing here.
fn meaningless(names: &[&str]) -> Option<String> {
    let is_of_setting = |sign: char| matches!(sign, 'a'..='z' | '0'..='9' | '.' | '_' | '-');
    let is_setting = |name: &&&str| name.contains('.') && name.chars().all(is_of_setting);
    let told: Vec<&str> = names
        .iter()
        .filter(is_setting)
        .take(NAMED_MAX)
        .copied()
        .collect();
    let others = match (told.len(), names.len() - told.len()) {
        (0, 0) => return None,
        (_, 0) => String::new(),
        (0, others) => format!("{others} settings"),
        (_, others) => format!(" and {others} others"),
    };
    Some(format!(
        "without a meaning here, and passed over: {}{others}",
        told.join(", ")
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    const SCRAM: &str = "security.protocol=SASL_PLAINTEXT\nsasl.mechanism=SCRAM-SHA-256\n\
        sasl.jaas.config=org.apache.kafka.common.security.scram.ScramLoginModule required \\\n  \
        username=\"alice\" password=\"wonderland\";\n";

    fn why(text: &str) -> String {
        match parse(text) {
            Ok(_) => panic!("{text} was taken"),
            Err(why) => {
                assert!(!why.contains("wonderland"), "{why}");
                why
            }
        }
    }

    fn warnings(text: &str) -> Vec<String> {
        parse(text).unwrap_or_else(|why| panic!("{why}")).1
    }

    #[test]
    fn a_file_of_kafka_names_the_user_and_the_cluster() {
        let text = format!("{SCRAM}bootstrap.servers = a:1,b:2 \nclient.id=me\n");
        let (config, warnings) = parse(&text).unwrap_or_else(|why| panic!("{why}"));
        let login = config.login.as_ref().expect("a login");
        let said = (login.user(), login.mechanism().name());
        assert_eq!(said, ("alice", "SCRAM-SHA-256"));
        assert_eq!(config.bootstrap.as_deref(), Some("a:1,b:2"));
        assert_eq!(config.client_id.as_deref(), Some("me"));
        assert_eq!(warnings, Vec::<String>::new());
        assert!(!format!("{config:?}").contains("wonderland"));
        let small = SCRAM.replace("SASL_PLAINTEXT", "sasl_plaintext");
        assert!(parse(&small).is_ok_and(|(config, _)| config.login.is_some()));
    }

    #[test]
    fn an_empty_file_and_plaintext_log_nobody_in() {
        for text in ["", "# nothing\n", "security.protocol=PLAINTEXT"] {
            let (config, warnings) = parse(text).unwrap_or_else(|why| panic!("{why}"));
            assert!(config.login.is_none() && warnings.is_empty(), "{text}");
        }
        let without = SCRAM.replace("security.protocol=SASL_PLAINTEXT", "");
        assert!(warnings(&without)[0].contains("security.protocol=SASL_PLAINTEXT"));
    }

    #[test]
    fn settings_that_let_nobody_in_are_refused_with_what_is_missing() {
        for (from, to, part) in [
            (
                "SASL_PLAINTEXT",
                "SASL_SSL",
                "TLS comes with the next version",
            ),
            ("SASL_PLAINTEXT", "ssl", "TLS comes with the next version"),
            ("SASL_PLAINTEXT", "TCP", "is no protocol"),
            ("sasl.mechanism", "x.y", "sasl.mechanism is missing"),
            ("SCRAM-SHA-256", "GSSAPI", "SCRAM-SHA-512"),
            ("SCRAM-SHA-256", "scram-sha-256", "one of"),
            ("SCRAM-SHA-256", "PLAIN", "PlainLoginModule for PLAIN"),
            ("sasl.jaas.config", "x.y", "sasl.jaas.config is missing"),
            ("wonderland\";", "wonderland\"", "semicolon"),
            ("ScramLoginModule", "OtherModule", "not built in"),
            ("username=\"alice\"", "", "no username"),
            ("\"alice\"", "\"\"", "no username"),
            ("password=\"wonderland\"", "", "no password"),
            ("\"wonderland\"", "\"\"", "no password"),
            ("\"wonderland\"", "\"wonder\\\\0land\"", "a zero"),
            ("password", "tokenauth=\"true\" password", "tokenauth"),
            ("wonderland", "\\u12", "four hexadecimal digits"),
            // Escaped once for the file, once for the text in it.
            ("wonderland", "wonder\\\\0land", "a zero"),
        ] {
            let why = why(&SCRAM.replace(from, to));
            assert!(why.contains(part), "{from} -> {to}: {why}");
        }
    }

    #[test]
    fn settings_without_a_meaning_are_named_and_passwords_in_odd_places_are_not() {
        let text = format!("{SCRAM}request.timeout.ms=1\nssl.truststore.location=x\n");
        assert_eq!(
            warnings(&text),
            [
                "without a meaning here, and passed over: request.timeout.ms, ssl.truststore.location"
            ]
        );
        let odd = "sasl.jaas.config=a\n\"won.der\"\nwonderland;\n";
        let told = warnings(odd).join("\n");
        assert!(
            told.contains("2 settings") && !told.contains("won"),
            "{told}"
        );
    }
}
