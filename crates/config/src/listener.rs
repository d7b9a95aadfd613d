//! Listener addresses: `NAME://host:port`, and which protocol a name speaks.
//!
//! Owns their syntax. Refuses two listeners of one name or one port, as Kafka does, and protocols that are not built yet.

use std::collections::BTreeMap;
use std::net::IpAddr;

use crate::value;

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Listener {
    pub name: String,
    /// Empty: all addresses of the machine.
    pub host: String,
    pub port: u16,
}

impl Listener {
    /// Parses one address; the name may be left out and is then `PLAINTEXT`.
    pub fn parse(text: &str) -> Result<Listener, String> {
        let (name, address) = text
            .trim()
            .split_once("://")
            .unwrap_or(("PLAINTEXT", text.trim()));
        let (host, port) = address
            .rsplit_once(':')
            .ok_or_else(|| format!("{text}: an address ends in :port"))?;
        let port = port
            .parse()
            .map_err(|_| format!("{text}: {port} is no port"))?;
        if name.is_empty()
            || !name
                .bytes()
                .all(|byte| byte.is_ascii_alphanumeric() || byte == b'_' || byte == b'-')
        {
            return Err(format!("{text}: {name} is no listener name"));
        }
        let host = host
            .strip_prefix('[')
            .and_then(|host| host.strip_suffix(']'))
            .unwrap_or(host);
        if !host
            .bytes()
            .all(|byte| byte.is_ascii_alphanumeric() || b"-%._:".contains(&byte))
        {
            return Err(format!("{text}: {host} is no host name or address"));
        }
        Ok(Listener {
            name: name.to_uppercase(),
            host: host.into(),
            port,
        })
    }

    /// The name of the host, where it was given and is no address: clients are told to connect to it, as the operator wrote it.
    #[must_use]
    pub fn name_of_host(&self) -> Option<String> {
        let is_address = self.host.contains(':') || self.host.parse::<IpAddr>().is_ok();
        let is_name = !self.host.is_empty() && !is_address;
        is_name.then(|| self.host.clone())
    }

    /// True if nobody beyond this machine can reach it.
    #[must_use]
    pub fn is_loopback(&self) -> bool {
        is_loopback(&self.host)
    }

    /// `host:port` to bind or to dial; all addresses when there is no host.
    #[must_use]
    pub fn address(&self) -> String {
        match self.host.as_str() {
            "" => format!("0.0.0.0:{}", self.port),
            host if host.contains(':') => format!("[{host}]:{}", self.port),
            host => format!("{host}:{}", self.port),
        }
    }
}

pub(crate) fn is_of_all(host: &str) -> bool {
    matches!(host, "" | "0.0.0.0" | "::")
}

pub(crate) fn is_loopback(host: &str) -> bool {
    let is_loopback = |ip: IpAddr| ip.is_loopback();
    host.eq_ignore_ascii_case("localhost") || host.parse().is_ok_and(is_loopback)
}

/// Listeners of a comma-separated list, each name once and each port once (0 may repeat: the system picks).
pub(crate) fn parse_all(text: &str) -> Result<Vec<Listener>, String> {
    let mut all: Vec<Listener> = Vec::new();
    for item in value::list(text) {
        let listener = Listener::parse(&item)?;
        if let Some(other) = all.iter().find(|other| other.name == listener.name) {
            return Err(format!("two listeners are called {}", other.name));
        }
        all.push(listener);
    }
    Ok(all)
}

pub(crate) fn unique_ports(listeners: &[Listener]) -> Result<(), String> {
    for (at, listener) in listeners.iter().enumerate() {
        let same = |other: &&Listener| {
            other.port == listener.port && (other.host == listener.host || other.host.is_empty())
        };
        if listener.port != 0 && listeners[..at].iter().any(|other| same(&other)) {
            return Err(format!("two listeners use port {}", listener.port));
        }
    }
    Ok(())
}

/// `NAME:PROTOCOL` pairs; a name without a pair speaks the protocol of its own name.
pub(crate) fn protocols(text: &str) -> Result<BTreeMap<String, String>, String> {
    value::list(text)
        .iter()
        .map(|item| match item.split_once(':') {
            Some((name, protocol)) => {
                Ok((name.trim().to_uppercase(), protocol.trim().to_uppercase()))
            }
            None => Err(format!("{item}: write it as NAME:PROTOCOL")),
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_has_a_name_a_host_and_a_port() {
        let parse = |text: &str| {
            Listener::parse(text).map(|listener| (listener.name.clone(), listener.address()))
        };
        assert_eq!(
            parse("PLAINTEXT://:9092"),
            Ok(("PLAINTEXT".into(), "0.0.0.0:9092".into()))
        );
        assert_eq!(
            parse("internal://[::1]:1"),
            Ok(("INTERNAL".into(), "[::1]:1".into()))
        );
        assert_eq!(
            parse("localhost:9092"),
            Ok(("PLAINTEXT".into(), "localhost:9092".into()))
        );
        assert!(parse("PLAINTEXT://host").is_err());
        assert!(parse("PLAINTEXT://host:70000").is_err());
        assert!(parse("://host:1").is_err());
        assert!(parse("PLAINTEXT://two words:1").is_err());
        assert!(parse("PLAINTEXT://PLAINTEXT://host:1").is_err());
    }

    #[test]
    fn a_host_is_a_name_unless_it_is_an_address() {
        let name = |text: &str| Listener::parse(text).expect("valid").name_of_host();
        assert_eq!(name("localhost:1"), Some("localhost".into()));
        assert_eq!(name("kafka-1.example:1"), Some("kafka-1.example".into()));
        for address in [
            ":1",
            "0.0.0.0:1",
            "10.0.0.7:1",
            "[::1]:1",
            "[fe80::1%eth0]:1",
        ] {
            assert_eq!(name(address), None, "{address}");
        }
    }

    #[test]
    fn a_name_is_on_the_loopback_only_if_it_is_localhost() {
        let is_loopback = |text: &str| Listener::parse(text).expect("valid").is_loopback();
        for text in ["localhost:1", "127.0.0.1:1", "127.1.2.3:1", "[::1]:1"] {
            assert!(is_loopback(text), "{text}");
        }
        for text in [":1", "0.0.0.0:1", "127.example.org:1", "10.0.0.7:1"] {
            assert!(!is_loopback(text), "{text}");
        }
    }

    #[test]
    fn a_name_or_a_port_may_not_be_used_twice() {
        assert!(parse_all("A://:1,A://:2").is_err());
        let two = parse_all("A://:1,B://:1").expect("different names");
        assert!(unique_ports(&two).is_err());
        let free = parse_all("A://:0,B://:0").expect("different names");
        assert_eq!(unique_ports(&free), Ok(()));
    }
}
