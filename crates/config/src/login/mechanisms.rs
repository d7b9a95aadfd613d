//! The mechanisms that a listener offers, and why some are refused.

use security::login::Mechanism;

use super::{MECHANISMS, OfListener};
use crate::settings::SettingsError;
use crate::value::Value;

const KNOWN: &str = "SCRAM-SHA-512, SCRAM-SHA-256 and PLAIN are";

/// Those of a listener that speaks SASL, each once.
pub(super) fn on_offer(
    of: &OfListener<'_>,
    listener: &str,
) -> Result<Vec<Mechanism>, SettingsError> {
    let unusable = |reason: String| SettingsError::Unusable {
        name: MECHANISMS,
        reason,
    };
    let named = match of.own(None, MECHANISMS)? {
        Some(Value::List(named)) => named,
        // GSSAPI, where nothing is set, is nobody's wish.
        _ if !of.layers.is_given(MECHANISMS) => Vec::new(),
        _ => crate::value::list(&of.layers.text(MECHANISMS).unwrap_or_default()),
    };
    if named.is_empty() {
        return Err(unusable(format!(
            "{listener} speaks SASL_PLAINTEXT, and no mechanism is set, so nobody could log in; SCRAM-SHA-512 is the usual one"
        )));
    }
    let mut mechanisms = Vec::new();
    for name in &named {
        let mechanism =
            Mechanism::of_name(name).ok_or_else(|| unusable(why_not(listener, name)))?;
        if !mechanisms.contains(&mechanism) {
            mechanisms.push(mechanism);
        }
    }
    Ok(mechanisms)
}

fn why_not(listener: &str, name: &str) -> String {
    match name {
        "GSSAPI" => {
            format!("{listener} asks for GSSAPI (Kerberos), which is not built in; {KNOWN}")
        }
        "OAUTHBEARER" => {
            format!(
                "{listener} asks for OAUTHBEARER, which comes with a later version; {KNOWN} built in"
            )
        }
        name => format!("{listener} asks for {name}, which is no mechanism here; {KNOWN}"),
    }
}
