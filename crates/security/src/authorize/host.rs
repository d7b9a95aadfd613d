//! The hosts that a rule is about: any, one address, or a network (KIP-1276).

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// The host of a rule that is about every host.
const ANY: &str = "*";
const V4_BITS: u8 = 32;
const V6_BITS: u8 = 128;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Host {
    Any,
    /// Compared as an address: `::1` has several spellings (D1).
    One(IpAddr),
    Of(Network),
    /// Neither of them: it matches nobody, and yet names the resource.
    Nobody,
}

impl Host {
    pub(super) fn of(text: &str) -> Host {
        if text == ANY {
            return Host::Any;
        }
        if let Ok(ip) = text.parse::<IpAddr>() {
            return Host::One(ip.to_canonical());
        }
        Network::parse(text).map_or(Host::Nobody, Host::Of)
    }

    /// True if the rule is about who comes from this address, in its shortest form.
    pub(super) fn has(self, address: IpAddr) -> bool {
        match self {
            Host::Any => true,
            Host::One(own) => own == address,
            Host::Of(network) => network.has(address),
            Host::Nobody => false,
        }
    }
}

/// All addresses that begin with the same bits, as `10.0.0.0/8` is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Network {
    first: IpAddr,
    bits: u8,
}

/// Why a text is no network; the words are those of Kafka.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("Could not parse [{0}]")]
pub struct NoNetwork(String);

impl Network {
    /// Bits of the address behind the given ones count for nothing.
    pub fn parse(text: &str) -> Result<Network, NoNetwork> {
        let whole = || {
            let (address, bits) = text.split_once('/')?;
            if bits.is_empty() || !bits.bytes().all(|digit| digit.is_ascii_digit()) {
                return None;
            }
            let bits: u8 = bits.parse().ok()?;
            if address.contains(':') {
                let address: Ipv6Addr = address.parse().ok()?;
                let is_whole = bits <= V6_BITS && address.to_ipv4_mapped().is_none();
                is_whole.then(|| Network::new(IpAddr::V6(address), bits))
            } else {
                (bits <= V4_BITS).then_some(())?;
                Some(Network::new(IpAddr::V4(decimal(address)?), bits))
            }
        };
        whole().ok_or_else(|| NoNetwork(text.to_owned()))
    }

    fn new(address: IpAddr, bits: u8) -> Network {
        Network {
            first: masked(address, bits),
            bits,
        }
    }

    fn has(self, address: IpAddr) -> bool {
        masked(address, self.bits) == self.first
    }
}

/// The address with its first bits alone. One of the other kind than its network stays apart from it: kinds are compared, too.
fn masked(address: IpAddr, bits: u8) -> IpAddr {
    match address {
        IpAddr::V4(address) => {
            let behind = u32::from(V4_BITS.saturating_sub(bits));
            let mask = u32::MAX.checked_shl(behind).unwrap_or(0);
            IpAddr::V4(Ipv4Addr::from(u32::from(address) & mask))
        }
        IpAddr::V6(address) => {
            let behind = u32::from(V6_BITS.saturating_sub(bits));
            let mask = u128::MAX.checked_shl(behind).unwrap_or(0);
            IpAddr::V6(Ipv6Addr::from(u128::from(address) & mask))
        }
    }
}

/// Four numbers of three digits at most, which may begin with zeros: they are decimal all the same, as in Kafka.
fn decimal(text: &str) -> Option<Ipv4Addr> {
    let mut parts = text.split('.');
    let mut octets = [0; 4];
    for octet in &mut octets {
        let part = parts.next()?;
        let is_number = (1..=3).contains(&part.len()) && part.bytes().all(|b| b.is_ascii_digit());
        *octet = is_number.then(|| part.parse().ok()).flatten()?;
    }
    parts.next().is_none().then(|| Ipv4Addr::from(octets))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn has(host: &str, address: &str) -> bool {
        let address: IpAddr = address.parse().expect("an address");
        Host::of(host).has(address.to_canonical())
    }

    #[test]
    fn a_host_is_any_or_an_address_or_a_network() {
        for (host, address, expected) in [
            ("*", "10.0.0.1", true),
            ("10.0.0.1", "10.0.0.1", true),
            ("10.0.0.1", "::ffff:10.0.0.1", true),
            ("10.0.0.1", "10.0.0.2", false),
            ("0:0:0:0:0:0:0:1", "::1", true),
            ("10.1.2.3/8", "10.255.0.0", true),
            ("10.0.0.0/8", "11.0.0.0", false),
            ("010.0.0.0/31", "10.0.0.1", true),
            ("10.0.0.0/32", "10.0.0.1", false),
            ("0.0.0.0/0", "255.255.255.255", true),
            ("0.0.0.0/0", "::1", false),
            ("2001:db8::/32", "2001:db8:1::7", true),
            ("2001:db8::/32", "2001:db9::", false),
            ("::/0", "2001:db9::", true),
            ("::/0", "10.0.0.1", false),
            ("localhost", "127.0.0.1", false),
            ("", "127.0.0.1", false),
        ] {
            assert_eq!(has(host, address), expected, "{host} {address}");
        }
    }

    #[test]
    fn a_text_that_is_no_network_is_named() {
        for text in [
            "10.0.0.0",
            "10.0.0.0/",
            "10.0.0.0/33",
            "10.0.0.0/-1",
            "10.0.0.0/+8",
            "10.0.0/8",
            "10.0.0.0.0/8",
            "256.0.0.0/8",
            "0010.0.0.0/8",
            "10.0.0.0/8/8",
            "::/129",
            "::ffff:10.0.0.0/104",
            "localhost/8",
            "*/8",
        ] {
            let error = Network::parse(text).expect_err(text);
            assert_eq!(error.to_string(), format!("Could not parse [{text}]"));
        }
    }
}
